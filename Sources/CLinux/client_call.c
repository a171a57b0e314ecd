#define _GNU_SOURCE
#include "client_call.h"
#include "proc.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ARGUMENTS = 6 };

// Numbers of system calls differ between architectures, and some architectures have only the newer calls.
static bool only_resolves(long number, const unsigned long *arguments) {
  switch (number) {
#ifdef SYS_open
  case SYS_open: return !(arguments[1] & O_CREAT);
#endif
#ifdef SYS_stat
  case SYS_stat:
  case SYS_lstat:
  case SYS_access:
  case SYS_readlink:
#endif
#ifdef SYS_newfstatat
  case SYS_newfstatat:
#endif
  case SYS_statx:
  case SYS_faccessat:
  case 439:  // faccessat2
  case SYS_readlinkat:
  case SYS_chdir:
  case SYS_execve:
  case SYS_execveat:
  case SYS_statfs:
  case SYS_getxattr:
  case SYS_lgetxattr:
  case SYS_listxattr:
  case SYS_llistxattr:
  case SYS_inotify_add_watch: return true;
  case SYS_openat: return !(arguments[2] & O_CREAT);
  default: return false;
  }
}

// Reads the system call in which the client of a request waits for the reply.
//
// The daemon may serve the request before the client sleeps, and until then the file reads "running": for microseconds, or for
// as long as other programs keep the client from a processor.
//
// - Returns: false where the call cannot be read, or the client does not sleep within a tenth of a second.
static bool read_call(pid_t thread, long *number, unsigned long arguments[ARGUMENTS]) {
  enum { LONGEST_PAUSE = 640, LONGEST_WAIT = 100000 };  // microseconds
  char text[256];
  char *next;
  for (int pause = 20, waited = 0;; waited += pause, pause *= pause < LONGEST_PAUSE ? 2 : 1) {
    if (dfs_read_proc(text, sizeof text, thread, "syscall") <= 0) return false;
    *number = strtol(text, &next, 10);
    if (next != text) break;
    if (waited >= LONGEST_WAIT) return false;
    usleep(pause);
  }
  for (int index = 0; index < ARGUMENTS; index++) arguments[index] = strtoul(next, &next, 16);
  return true;
}

bool dfs_may_hold_directory_lock(pid_t thread) {
  long number;
  unsigned long arguments[ARGUMENTS];
  return !read_call(thread, &number, arguments) || !only_resolves(number, arguments);
}

// PF_KTHREAD of the kernel's linux/sched.h, in the ninth field of /proc/PID/stat. (proc(5))
bool dfs_is_kernel_thread(pid_t thread) {
  enum { KERNEL_THREAD = 0x00200000, FLAGS_AFTER_NAME = 7 };
  char text[1024];
  if (dfs_read_proc(text, sizeof text, thread, "stat") <= 0) return false;
  // The name of the program, in parentheses, may contain spaces and parentheses.
  char *field = strrchr(text, ')');
  for (int count = 0; field && count < FLAGS_AFTER_NAME; count++) field = strchr(field + 1, ' ');
  return field && strtoul(field, NULL, 10) & KERNEL_THREAD;
}

bool dfs_is_first_thread(pid_t thread) {
  // getpgid(2) returns 0 for a thread of the kernel, and where the process group is outside of this PID namespace.
  if (getpgid(thread) <= 0) return false;
  // Signal 0 only checks: first whether the thread belongs to that process (ESRCH), then the permission (EPERM).
  return syscall(SYS_tgkill, thread, thread, 0) == 0 || errno == EPERM;
}

bool dfs_comes_by_handle(pid_t thread) {
  if (thread == 0) return false;
  if (dfs_is_kernel_thread(thread)) return true;
  long number;
  unsigned long arguments[ARGUMENTS];
  return read_call(thread, &number, arguments) && number == SYS_open_by_handle_at;
}

enum dfs_reference dfs_reference_of(pid_t thread) {
  long number;
  unsigned long arguments[ARGUMENTS];
  if (!read_call(thread, &number, arguments)) return DFS_UNKNOWN;
  switch (number) {
  case SYS_fstat:
  case SYS_fchmod:
  case SYS_fchown:
  case SYS_fsetxattr:
  case SYS_fremovexattr:
  case SYS_ftruncate:
  // A write clears the set-id bits of the file.
  case SYS_write:
  case SYS_pwrite64:
  case SYS_writev:
  case SYS_pwritev:
  case SYS_fallocate: return DFS_BY_DESCRIPTOR;
  case SYS_utimensat: return arguments[1] ? DFS_BY_NAME : DFS_BY_DESCRIPTOR;
  // With AT_EMPTY_PATH the path may be empty.
  case SYS_fchownat: return arguments[4] & AT_EMPTY_PATH ? DFS_UNKNOWN : DFS_BY_NAME;
#ifdef SYS_newfstatat
  // fstat(3) of the C library passes AT_EMPTY_PATH and an empty path. With another path the guess is wrong, but the call only
  // reads attributes.
  case SYS_newfstatat: return arguments[3] & AT_EMPTY_PATH ? DFS_BY_DESCRIPTOR : DFS_BY_NAME;
#endif
  case SYS_statx: return arguments[2] & AT_EMPTY_PATH ? DFS_BY_DESCRIPTOR : DFS_BY_NAME;
#ifdef SYS_stat
  case SYS_stat:
  case SYS_lstat:
  case SYS_chmod:
  case SYS_chown:
  case SYS_lchown:
  case SYS_utime:
  case SYS_utimes:
  case SYS_futimesat:
#endif
  case SYS_fchmodat:
  case SYS_setxattr:
  case SYS_lsetxattr:
  case SYS_removexattr:
  case SYS_lremovexattr:
  case SYS_truncate: return DFS_BY_NAME;
  default: return DFS_UNKNOWN;
  }
}
