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

// A daemon that is killed lets go of its connection when the last of its threads has ended. One that waits in the kernel,
// for a disk, a server that does not answer or another file system, cannot end, and as long as it waits everybody who
// asks the mount would wait too. So the connection is aborted from outside: the kernel has a file for that in the file
// system fusectl.

// The abort file of the connection, without asking the mount: -1 where this user cannot reach it.
static int open_abort(const char *mount_point) {
  struct statx status;
  if (statx(AT_FDCWD, mount_point, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &status)) return -1;
  char path[64];
  snprintf(path, sizeof path, "/sys/fs/fuse/connections/%u/abort", status.stx_dev_minor);
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file >= 0) return file;
  // Where fusectl is not mounted, as in many containers, root can look into it all the same.
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
  // The arguments lie one after the other.
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
    // It says that it can be a guardian, and is on guard, under its own name, once it has let go of everything.
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
  // What ends a daemon is often sent to all of its group: the guardian goes after it, not with it.
  sigset_t signals;
  sigfillset(&signals);
  sigprocmask(SIG_SETMASK, &signals, NULL);
  rename_process(count, arguments);
  int file = open_abort(mount_point);
  if (file <= 0) _exit(1);
  setsid();
  // Sent when the thread that forked ends, which the death of the daemon ends even if others cannot.
  prctl(PR_SET_PDEATHSIG, SIGUSR1);
  if (chdir("/") || write(ready[1], "", 1) != 1) _exit(1);
  // It holds nothing of the daemon's: neither the connection nor the tree.
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
