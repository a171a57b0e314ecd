#define _GNU_SOURCE
#include "passthrough_helper.h"
#include "../../displayfs-passthrough/protocol.h"
#include "../RequestLoop/busy_poll.h"
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

// For each send and receive: a helper that its user has stopped must not stop the mount.
enum { REPLY_TIMEOUT_SECONDS = 5 };
// How long a thread polls for a reply before it blocks, and how many replies it does not poll for after one that came later.
enum { POLL_NANOSECONDS = 100000, REPLIES_BETWEEN_TRIES = 16 };

static int send_message(int socket, dfs_helper_message message, int fd) {
  struct iovec piece = {&message, sizeof message};
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof fd)];
  } control = {0};
  struct msghdr packet = {.msg_iov = &piece, .msg_iovlen = 1};
  if (fd >= 0) {
    packet.msg_control = &control;
    packet.msg_controllen = sizeof control;
    struct cmsghdr *header = CMSG_FIRSTHDR(&packet);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  ssize_t count;
  do count = sendmsg(socket, &packet, MSG_NOSIGNAL);
  while (count < 0 && errno == EINTR);
  return count == sizeof message ? 0 : -1;
}

static void close_socket(struct dfs_helper *helper) {
  close(helper->socket);
  helper->socket = -1;
}

// Polls for a reply before it blocks.
//
// A thread that blocked would be woken on another CPU than its client's. From then on each request and each reply would have to
// wake a CPU (affinity.c). For a user with one client, to create and close a file took 424 us when the thread blocked and 282 when
// it polls where idle processors halt, and 146 with either where they poll (tmpfs, Linux 6.18 with 2 processors, medians of 5
// interleaved rounds).
static ssize_t receive_reply(struct dfs_helper *helper, dfs_helper_message *reply) {
  ssize_t count = -1;
  if (helper->replies_until_poll > 0) {
    helper->replies_until_poll--;
  } else {
    uint64_t start = dfs_nanoseconds();
    do {
      dfs_pause();
      count = recv(helper->socket, reply, sizeof *reply, MSG_DONTWAIT);
    } while (count < 0 && dfs_nanoseconds() - start < POLL_NANOSECONDS);
    if (count >= 0) return count;
    helper->replies_until_poll = REPLIES_BETWEEN_TRIES;
  }
  do count = recv(helper->socket, reply, sizeof *reply, 0);
  while (count < 0 && errno == EINTR);
  return count;
}

// Sends a request and returns the reply, or -1 with errno set. After a timeout it closes the socket: the late reply would be
// taken for that to the next request.
static int send_request(struct dfs_helper *helper, int fd) {
  dfs_helper_message reply;
  ssize_t count = -1;
  if (helper->socket >= 0 && send_message(helper->socket, 0, fd) == 0) count = receive_reply(helper, &reply);
  if (count != sizeof reply) {
    if (helper->socket >= 0) close_socket(helper);
    errno = EPIPE;
    return -1;
  }
  if (reply >= 0) return reply;
  errno = -reply;
  return -1;
}

static int spawn(struct dfs_helper *helper, const char *path, int end) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none;
  sigemptyset(&none);
  // While SIGCHLD is ignored the kernel reaps an ended child by itself, and the process id may become another process's.
  signal(SIGCHLD, SIG_DFL);
  int error = posix_spawn_file_actions_init(&actions);
  if (error) return error;
  if ((error = posix_spawnattr_init(&attributes)) == 0) {
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    char *arguments[] = {"displayfs-passthrough", NULL}, *environment[] = {NULL};
    error = posix_spawn_file_actions_adddup2(&actions, end, STDIN_FILENO);
    if (!error) error = posix_spawn(&helper->process, path, &actions, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

int dfs_helper_start(struct dfs_helper *helper, const char *path, int device) {
  int ends[2];
  *helper = (struct dfs_helper){.socket = -1, .process = -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) return errno;
  int error = spawn(helper, path, ends[1]);
  close(ends[1]);
  helper->socket = ends[0];
  if (error) {
    helper->process = -1;
  } else {
    struct timeval timeout = {.tv_sec = REPLY_TIMEOUT_SECONDS};
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    error = send_request(helper, device) < 0 ? errno : 0;
  }
  if (error) dfs_helper_end(helper);
  return error;
}

int dfs_helper_register(struct dfs_helper *helper, int fd) { return send_request(helper, fd); }

void dfs_helper_unregister(struct dfs_helper *helper, int backing) {
  if (helper->socket >= 0 && send_message(helper->socket, backing, -1)) close_socket(helper);
}

void dfs_helper_end(struct dfs_helper *helper) {
  if (helper->socket >= 0) close_socket(helper);
  if (helper->process <= 0) return;
  // A helper that its user has stopped does not notice that the socket is closed.
  kill(helper->process, SIGKILL);
  while (waitpid(helper->process, NULL, 0) < 0 && errno == EINTR) {}
  helper->process = -1;
}
