#define _GNU_SOURCE
#include "guardian.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// A daemon that is killed releases its connection when the last of its threads has ended. A thread that waits in the kernel, for
// a disk, an unresponsive server or another file system, cannot end, and until it does every client of the mount would wait, too.
// So another process, the guardian, aborts the connection, through a file of the file system fusectl.

// Opens the abort file of the connection without a request to the mount: -1 where this user cannot reach the file.
static int open_abort(const char *mount_point) {
  struct statx status;
  if (statx(AT_FDCWD, mount_point, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &status)) return -1;
  char path[64];
  snprintf(path, sizeof path, "/sys/fs/fuse/connections/%u/abort", status.stx_dev_minor);
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file >= 0) return file;
  // Where fusectl is not mounted, as in many containers, root can open it without a mount point.
  int context = (int)syscall(SYS_fsopen, "fusectl", 1 /* FSOPEN_CLOEXEC */);
  if (context < 0) return -1;
  if (syscall(SYS_fsconfig, context, 6 /* FSCONFIG_CMD_CREATE */, NULL, NULL, 0)) return -1;
  int mount = (int)syscall(SYS_fsmount, context, 1 /* FSMOUNT_CLOEXEC */, 0);
  if (mount < 0) return -1;
  snprintf(path, sizeof path, "%u/abort", status.stx_dev_minor);
  return openat(mount, path, O_WRONLY | O_CLOEXEC);
}

static void rename_process(int count, char **arguments) {
  static const char name[] = "displayfs: guardian";
  prctl(PR_SET_NAME, "displayfs-guard");
  if (count < 1) return;
  char *start = arguments[0], *end = arguments[0] + strlen(arguments[0]) + 1;
  // The kernel lays the arguments out one after the other.
  for (int index = 1; index < count && arguments[index] == end; index++) end += strlen(end) + 1;
  memset(start, 0, (size_t)(end - start));
  size_t room = (size_t)(end - start) - 1;
  memcpy(start, name, room < sizeof name - 1 ? room : sizeof name - 1);
}

pid_t dfs_guardian_start(const char *mount_point, int count, char **arguments) {
  pid_t daemon = getpid();
  int ready[2];
  if (pipe2(ready, O_CLOEXEC)) return -1;
  pid_t guardian = fork();
  if (guardian) {
    // The guardian writes a byte when it can guard. The pipe ends once it has closed the descriptors that it inherited; by then
    // it has its own name.
    close(ready[1]);
    char byte;
    bool can_guard = false;
    for (ssize_t count; (count = read(ready[0], &byte, 1)) > 0 || (count < 0 && errno == EINTR);)
      if (count > 0) can_guard = true;
    close(ready[0]);
    if (can_guard) return guardian;
    dfs_guardian_end(guardian);
    return -1;
  }
  // A signal that ends a daemon is often sent to its whole process group. The guardian has to outlive the daemon, so it blocks
  // all signals.
  sigset_t signals;
  sigfillset(&signals);
  sigprocmask(SIG_SETMASK, &signals, NULL);
  rename_process(count, arguments);
  int file = open_abort(mount_point);
  if (file <= 0) _exit(1);
  setsid();
  // The kernel sends SIGUSR1 when the thread that forked ends, which it does in a killed daemon even if other threads cannot.
  prctl(PR_SET_PDEATHSIG, SIGUSR1);
  if (chdir("/") || write(ready[1], "", 1) != 1) _exit(1);
  // The guardian keeps no descriptor of the daemon: neither of the connection nor of the backing tree.
  syscall(SYS_close_range, 0u, (unsigned)file - 1, 0u);
  syscall(SYS_close_range, (unsigned)file + 1, ~0u, 0u);
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  if (getppid() == daemon) while (sigwaitinfo(&signals, NULL) < 0) {}
  _exit(write(file, "1", 1) == 1 ? 0 : 1);
}

void dfs_guardian_abort(pid_t guardian) {
  if (guardian <= 0) return;
  kill(guardian, SIGUSR1);
  while (waitpid(guardian, NULL, 0) < 0 && errno == EINTR) {}
}

void dfs_guardian_end(pid_t guardian) {
  if (guardian <= 0) return;
  kill(guardian, SIGKILL);
  while (waitpid(guardian, NULL, 0) < 0 && errno == EINTR) {}
}
