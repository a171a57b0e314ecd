#define _GNU_SOURCE
#include "session.h"
#include "init.h"
#include "passthrough.h"
#include "request_loop.h"
#include "statx.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

// In linux/fuse.h since 6.1 and 6.18.
enum { OPCODE_TMPFILE = 51, OPCODE_COPY_FILE_RANGE_64 = 53 };

static atomic_uint_fast64_t counts[DFS_OPCODES];

uint64_t dfs_request_count(unsigned opcode) {
  return opcode < DFS_OPCODES ? atomic_load_explicit(&counts[opcode], memory_order_relaxed) : 0;
}

static void note_received(void *request, size_t size) {
  struct fuse_in_header *header = request;
  if (header->opcode < DFS_OPCODES) {
    atomic_fetch_add_explicit(&counts[header->opcode], 1, memory_order_relaxed);
  }
  dfs_init_read(request, size);
  dfs_statx_read(request);
  // The two requests have the same layout and the same reply.
  if (header->opcode == OPCODE_TMPFILE) header->opcode = FUSE_CREATE;
  // The reply of one is a count of 64 bits, that of the other a count of 32 and as many zeros: the same on this kind of processor.
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  if (header->opcode == OPCODE_COPY_FILE_RANGE_64) header->opcode = FUSE_COPY_FILE_RANGE;
#endif
}

static ssize_t read_request(int fd, void *buffer, size_t size, void *userdata) {
  (void)userdata;
  ssize_t count = dfs_receive(fd, buffer, size);
  if (count >= (ssize_t)sizeof(struct fuse_in_header)) note_received(buffer, (size_t)count);
  return count;
}

static ssize_t write_reply(int fd, struct iovec *pieces, int count, void *userdata) {
  (void)userdata;
  dfs_init_write(pieces, count);
  return writev(fd, pieces, count);
}

static ssize_t splice_reply(int from, off_t *from_offset, int to, off_t *to_offset, size_t size, unsigned flags,
                            void *userdata) {
  (void)userdata;
  return splice(from, from_offset, to, to_offset, size, flags);
}

int dfs_session_mount(struct fuse_session *session, const char *mount_point) {
  if (fuse_session_mount(session, mount_point)) return -1;
  static const struct fuse_custom_io io = {.read = read_request, .writev = write_reply, .splice_send = splice_reply};
  if (fuse_session_custom_io(session, &io, fuse_session_fd(session))) {
    fuse_session_unmount(session);
    return -1;
  }
  dfs_passthrough_set_device(fuse_session_fd(session));
  return 0;
}

void dfs_session_disconnect(struct fuse_session *session) {
  // libfuse still closes its descriptor, so that number must not become another file's.
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  dup3(null, fuse_session_fd(session), O_CLOEXEC);
  close(null);
}

bool dfs_session_is_connected(struct fuse_session *session) {
  struct pollfd connection = {.fd = fuse_session_fd(session)};
  return poll(&connection, 1, 0) >= 0 && !(connection.revents & (POLLERR | POLLNVAL));
}

int dfs_unmount_as_user(const char *mount_point) {
  // A user with CAP_SYS_ADMIN needs no other program.
  if (!umount2(mount_point, MNT_DETACH | UMOUNT_NOFOLLOW)) return 0;
  char *arguments[] = {"fusermount3", "-u", "-q", "-z", "--", (char *)mount_point, NULL};
  pid_t child;
  // The child inherits that the signals to stop are blocked: they may be sent to the whole process group.
  int error = posix_spawnp(&child, arguments[0], NULL, NULL, arguments, environ);
  if (error) return error;
  int status;
  while (waitpid(child, &status, 0) < 0)
    // ECHILD: its status is not kept, as SIGCHLD is ignored.
    if (errno != EINTR) return errno == ECHILD ? 0 : errno;
  return status ? EPERM : 0;
}

int dfs_notify_entry(struct fuse_session *session, uint64_t directory, const char *name, uint32_t length,
                     int is_invalid) {
  enum { EXPIRE_ONLY = 1 };
  struct {
    struct fuse_out_header header;
    uint64_t directory;
    uint32_t length, flags;
  } notice = {{.error = FUSE_NOTIFY_INVAL_ENTRY}, directory, length,
              is_invalid ? 0 : EXPIRE_ONLY};
  struct iovec pieces[] = {{&notice, sizeof notice}, {(void *)name, length + 1}};
  notice.header.len = (uint32_t)(sizeof notice + length + 1);
  return writev(fuse_session_fd(session), pieces, 2) == (ssize_t)notice.header.len ? 0 : errno;
}

size_t dfs_add_entry(void *buffer, size_t size, uint64_t inode, uint32_t type, int64_t next, const uint8_t *name,
                     uint32_t length) {
  struct fuse_dirent *entry = buffer;
  size_t end = FUSE_NAME_OFFSET + length, padded = FUSE_DIRENT_ALIGN(end);
  if (padded > size) return 0;
  *entry = (struct fuse_dirent){.ino = inode, .off = (uint64_t)next, .namelen = length, .type = type};
  memcpy(entry->name, name, length);
  memset((char *)buffer + end, 0, padded - end);
  return padded;
}

const size_t dfs_plus_name_offset = FUSE_NAME_OFFSET_DIRENTPLUS;

size_t dfs_plus_size(uint32_t length) { return FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET_DIRENTPLUS + length); }

size_t dfs_add_entry_plus(fuse_req_t request, void *buffer, const struct fuse_entry_param *entry, int64_t next,
                          const uint8_t *name, uint32_t length) {
  char terminated[DFS_NAME_MAX + 1];
  memcpy(terminated, name, length);
  terminated[length] = 0;
  return fuse_add_direntry_plus(request, buffer, dfs_plus_size(length), terminated, entry, next);
}

struct fuse_session *dfs_session_new(int argc, char **argv, const struct fuse_lowlevel_ops *operations, size_t size,
                                     void *userdata) {
  struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
  return fuse_session_new(&args, operations, size, userdata);
}

int dfs_print_fuse_versions(void) {
  // libfuse runs fusermount3, which prints to the same file: flush each line before it does.
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("FUSE library version %s\n", fuse_pkgversion());
  fuse_lowlevel_version();
  // A line that could not be written is gone from the buffer.
  if (fflush(stdout)) return errno;
  return ferror(stdout) ? EIO : 0;
}

int dfs_session_loop(struct fuse_session *session, unsigned max_threads, int clone_fd) {
  struct fuse_loop_config *config = fuse_loop_cfg_create();
  if (!config) return -ENOMEM;
  fuse_loop_cfg_set_max_threads(config, max_threads);
  fuse_loop_cfg_set_clone_fd(config, clone_fd);
  // libfuse starts more workers while many requests wait, and ends those above this number that are idle.
  enum { IDLE_THREADS = 10 };
  fuse_loop_cfg_set_idle_threads(config, max_threads < IDLE_THREADS ? max_threads : IDLE_THREADS);
  dfs_receive_begin(max_threads);
  int result = fuse_session_loop_mt(session, config);
  dfs_receive_end();
  fuse_loop_cfg_destroy(config);
  return result;
}
