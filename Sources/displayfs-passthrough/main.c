// Registers files that an ordinary user's daemon has opened with the kernel, which then reads, writes and maps them itself
// (FUSE_DEV_IOC_BACKING_OPEN). The kernel requires CAP_SYS_ADMIN for that. So this program is installed with that file
// capability, or set-user-ID root, and the user who starts it is the adversary. See THREAT MODEL in displayfs-passthrough(8).
//
// A registration grants more than the descriptor that it was made from. For each open of the FUSE file `fuse_passthrough_open`
// opens the backing file again, by `backing_file_open`, with the flags that the client chose and without `inode_permission`. A
// user that could register a file opened for reading could then write to it. Hence `check_file`.
//
// The kernel reads and writes with the credentials of the registration (`fuse_backing_open` takes `prepare_creds`): those of the
// user, and CAP_SYS_ADMIN. Reserved blocks and quota require CAP_SYS_RESOURCE or the file system's reserved user, set-user-ID
// bits CAP_FSETID, and permissions CAP_DAC_OVERRIDE; the registration has none of them. CAP_SYS_ADMIN matters where reading or
// writing a file is a request to the kernel (procfs, sysfs, cgroup2). Hence `only_stores_data`.
#define _GNU_SOURCE
#include "confinement.h"
#include "protocol.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

// A registered file is in no process's descriptor table, so RLIMIT_NOFILE does not bound it.
enum { FILES_PER_USER = 1024 };

static struct {
  int32_t backing;
  int timer;
} files[FILES_PER_USER];
static int device = -1;
static bool has_registered;

// Drops root's privileges except CAP_SYS_ADMIN, and all that the user passed on except the socket. Returns 0 or an errno.
static int drop_privileges(void) {
  uid_t user = getuid();
  gid_t group = getgid();
  // Root's daemon needs no helper, and with root's credentials writes would use reserved blocks.
  if (user == 0) return EPERM;
  // For set-user-ID: the permitted set survives the change of user.
  prctl(PR_SET_KEEPCAPS, 1);
  if (setresgid(group, group, group) || setresuid(user, user, user)) return errno;
  struct __user_cap_header_struct this_thread = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {
      {.effective = 1u << CAP_SYS_ADMIN, .permitted = 1u << CAP_SYS_ADMIN}};
  int result = syscall(SYS_capset, &this_thread, sets) ? errno : 0;
  prctl(PR_SET_KEEPCAPS, 0);
  prctl(PR_SET_DUMPABLE, 0);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  syscall(SYS_close_range, 1u, ~0u, 0u);
  clearenv();
  // A signal to the daemon's process group ends the daemon, and this process ends with the daemon.
  setsid();
  if (chdir("/")) result = errno;
  set_limit(RLIMIT_CORE, 0);
  set_limit(RLIMIT_FSIZE, 0);
  set_limit(RLIMIT_NPROC, 0);
  set_limit(RLIMIT_NOFILE, 8);
  set_limit(RLIMIT_SIGPENDING, FILES_PER_USER);
  return result;
}

// Limits a compromised helper to the system calls that it makes anyway. Returns 0 or an errno.
static int confine(void) {
#ifdef ARCHITECTURE
  struct sock_filter filter[] = {
      CHECK_ARCHITECTURE,
      LOAD(nr),
      ALLOW(SYS_recvmsg),
      ALLOW(SYS_sendto),
      ALLOW(SYS_close),
      ALLOW(SYS_statx),
      ALLOW(SYS_fstatfs),
      ALLOW(SYS_faccessat2),
      ALLOW(SYS_timer_create),
      ALLOW(SYS_timer_delete),
      ALLOW(SYS_exit_group),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      LOAD(args[1]),
      ALLOW(DFS_BACKING_OPEN),
      ALLOW(DFS_BACKING_CLOSE),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? errno : 0;
#else
  return 0;
#endif
}

// Opens the file system fusectl, in which the directory of each connection belongs to the user who mounted it: -1 where there is
// none. Not by its usual path, where it need not be mounted.
static int open_connections(void) {
  int context = (int)syscall(SYS_fsopen, "fusectl", 1 /* FSOPEN_CLOEXEC */), mount = -1;
  if (context < 0) return -1;
  if (syscall(SYS_fsconfig, context, 6 /* FSCONFIG_CMD_CREATE */, NULL, NULL, 0) == 0)
    mount = (int)syscall(SYS_fsmount, context, 1 /* FSMOUNT_CLOEXEC */, 0);
  close(context);
  return mount;
}

// Checks that a descriptor is of /dev/fuse and has a connection, and not that of another user's mount as far as the kernel reports
// it. (Linux 6.16 names the connection in fdinfo.) A process that has another user's descriptor serves that mount anyway. But one
// without a connection may get one later, that of any mount, when nothing checks it. Returns 0 or an errno.
static int check_device(int fd) {
  struct stat status;
  if (fstat(fd, &status)) return errno;
  if (!S_ISCHR(status.st_mode) || status.st_rdev != makedev(10, 229)) return ENODEV;
  // Without a connection poll(2) returns POLLERR: the device was never mounted, or its connection has ended.
  struct pollfd connected = {.fd = fd};
  if (poll(&connected, 1, 0) < 0) return errno;
  if (connected.revents & POLLERR) return ENODEV;
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
  int info = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t count = info < 0 ? -1 : read(info, text, sizeof text - 1);
  if (info >= 0) close(info);
  // The user can make each of these calls fail, for instance by a descriptor limit (prlimit(2)).
  if (count < 0) return EPERM;
  text[count] = 0;
  const char *line = strstr(text, "fuse_connection:");
  unsigned connection;
  if (!line) return 0;
  if (sscanf(line, "fuse_connection: %u", &connection) != 1) return EPERM;
  snprintf(path, sizeof path, "%u", connection);
  int connections = open_connections();
  if (connections < 0) return EPERM;
  bool is_known = fstatat(connections, path, &status, 0) == 0;
  close(connections);
  return is_known && status.st_uid == getuid() ? 0 : EPERM;
}

// Whether reading and writing files of a file system only moves their data. That is not so for tmpfs: a sealed memfd is one of
// its files, and can be mapped through a FUSE file without regard to its seals (memfd_create(2)); and CAP_SYS_ADMIN matters where
// memory is reserved for root.
static bool only_stores_data(unsigned long magic) {
  switch (magic) {
  case EXT4_SUPER_MAGIC:
  case XFS_SUPER_MAGIC:
  case BTRFS_SUPER_MAGIC:
  case F2FS_SUPER_MAGIC:
  case OVERLAYFS_SUPER_MAGIC:
    return true;
  default:
    return false;
  }
}

// Checks that the user can open a regular file for reading and writing now, so that its registration grants nothing. The kernel
// decides, because modes and owners do not show access lists, nor that a subvolume is read-only. Returns 0 or an errno.
static int check_file(int fd) {
  struct statx status;
  struct statfs kind;
  if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status)) return errno;
  if (!S_ISREG(status.stx_mode)) return EINVAL;
  if (fstatfs(fd, &kind)) return errno;
  if (!only_stores_data((unsigned long)kind.f_type)) return EOPNOTSUPP;
  // Such a file can be opened for writing only to append.
  if (status.stx_attributes & STATX_ATTR_APPEND) return EPERM;
  return syscall(SYS_faccessat2, fd, "", R_OK | W_OK, AT_EMPTY_PATH | AT_EACCESS) ? errno : 0;
}

static void unregister(int32_t backing) {
  for (int index = 0; index < FILES_PER_USER; index++) {
    if (files[index].backing != backing) continue;
    ioctl(device, DFS_BACKING_CLOSE, &(uint32_t){(uint32_t)backing});
    syscall(SYS_timer_delete, files[index].timer);
    files[index].backing = 0;
    return;
  }
}

// Returns the backing id, or a negative errno.
static int32_t register_file(int fd) {
  int index = 0;
  while (index < FILES_PER_USER && files[index].backing) index++;
  if (index == FILES_PER_USER) return -EDQUOT;
  int error = check_file(fd);
  if (error) return -error;
  // Each registration has a timer that never runs, because the kernel counts timers for each user (RLIMIT_SIGPENDING): in all
  // helpers of the user together, and until the helper has ended in any way.
  struct sigevent silent = {.sigev_notify = SIGEV_NONE};
  if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &silent, &files[index].timer)) return -EDQUOT;
  int backing = ioctl(device, DFS_BACKING_OPEN, &(struct dfs_backing_map){.fd = fd});
  error = errno;
  if (backing <= 0) {
    syscall(SYS_timer_delete, files[index].timer);
    return -error;
  }
  files[index].backing = backing;
  // The kernel assigns ids in sequence (`idr_alloc_cyclic`). Registrations of an earlier helper that ended without undoing them
  // last until the connection ends: so a connection has only one helper.
  if (!has_registered && backing != 1) {
    unregister(backing);
    return -EBUSY;
  }
  has_registered = true;
  return backing;
}

// Receives a message, and the descriptor that came with it or -1. Returns false when the daemon has ended or breaks the protocol:
// then this process ends.
static bool receive(dfs_helper_message *message, int *fd) {
  struct iovec piece = {message, sizeof *message};
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control;
  // CMSG_LEN, because CMSG_SPACE has room for two descriptors.
  struct msghdr packet = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_LEN(sizeof(int))};
  ssize_t count;
  do count = recvmsg(STDIN_FILENO, &packet, MSG_CMSG_CLOEXEC);
  while (count < 0 && errno == EINTR);
  if (count != sizeof *message || packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) return false;
  *fd = -1;
  struct cmsghdr *header = CMSG_FIRSTHDR(&packet);
  if (!header) return true;
  if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(int))) return false;
  memcpy(fd, CMSG_DATA(header), sizeof *fd);
  return true;
}

static bool reply(int32_t result) {
  return send(STDIN_FILENO, &result, sizeof result, MSG_NOSIGNAL) == sizeof result;
}

int main(void) {
  int error = drop_privileges(), fd;
  dfs_helper_message message;
  if (!receive(&message, &device) || device < 0) _exit(1);
  if (!error) error = check_device(device);
  if (!error) error = confine();
  if (!reply(-error) || error) _exit(1);
  while (receive(&message, &fd)) {
    if (fd < 0) {
      if (message > 0) unregister(message);
      continue;
    }
    int32_t result = register_file(fd);
    close(fd);
    if (!reply(result)) break;
  }
  // Clients may be reading through the registrations. The kernel drops them when the connection ends.
  _exit(0);
}
