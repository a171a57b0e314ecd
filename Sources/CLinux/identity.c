#define _GNU_SOURCE
#include "identity.h"
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct __user_cap_data_struct capabilities[_LINUX_CAPABILITY_U32S_3];

// capset costs more than open. So each thread stores whether it has CAP_FSETID, and calls capset only when a client's credentials
// require the other state. A new thread has the state of its creator.
static __thread enum { UNKNOWN, HAS, LACKS } setid;
// Whether the thread was seen to have no supplementary groups. Only dfs_assume_credentials ever gives a thread any.
static __thread int has_no_groups;
static __thread int has_own_umask;
static __thread mode_t current_umask, original_umask;

static void set_effective(int capability, int on) {
  struct __user_cap_header_struct this_thread = {.version = _LINUX_CAPABILITY_VERSION_3};
  capabilities own;
  if (syscall(SYS_capget, &this_thread, own)) return;
  unsigned bit = 1u << capability;
  if (!(own[0].effective & bit) == !on) return;
  own[0].effective ^= bit;
  syscall(SYS_capset, &this_thread, own);
}

static void set_setid(int has) {
  if (setid == (has ? HAS : LACKS)) return;
  // A process that never had the capability cannot raise it, and continues without it.
  set_effective(CAP_FSETID, has);
  setid = has ? HAS : LACKS;
}

// setfsuid and setfsgid report no errors: the invalid id -1 changes nothing and returns the id in force. On a change from 0 to
// another user the kernel drops the capabilities for files (CAP_DAC_OVERRIDE, CAP_FSETID, ...), and on the way back it raises
// them.
static int set_ids(uid_t user, gid_t group) {
  syscall(SYS_setfsgid, group);
  syscall(SYS_setfsuid, user);
  return (gid_t)syscall(SYS_setfsgid, (gid_t)-1) == group && (uid_t)syscall(SYS_setfsuid, (uid_t)-1) == user ? 0 : -1;
}

// The raw system call, because glibc's wrapper changes every thread.
static int set_groups(const gid_t *groups, size_t count) { return (int)syscall(SYS_setgroups, count, groups); }

static int clear_groups(void) { return syscall(SYS_getgroups, 0, NULL) == 0 ? 0 : set_groups(NULL, 0); }

int dfs_unshare_file_system_state(void) {
  if (has_own_umask) return 0;
  if (unshare(CLONE_FS)) return -1;
  has_own_umask = 1;
  current_umask = original_umask = umask(0);
  umask(original_umask);
  return 0;
}

static int set_umask(mode_t mask) {
  if (dfs_unshare_file_system_state()) return -1;
  if (current_umask != mask) umask(mask);
  current_umask = mask;
  return 0;
}

static int restore_umask(const struct dfs_credentials *as) { return as->sets_umask ? set_umask(original_umask) : 0; }

int dfs_assume_credentials(const struct dfs_credentials *as) {
  if (as->sets_umask && set_umask(as->umask)) return -1;
  if (as->is_own) return 0;
  // In a user namespace that denies setgroups the daemon keeps its groups: then it acts only for its own user.
  int is_root = as->user == 0 && as->group == 0 && as->group_count == 0;
  if (!has_no_groups) has_no_groups = clear_groups() == 0;
  if (!has_no_groups && !is_root) goto refused;
  if (as->group_count && set_groups(as->groups, as->group_count)) goto refused;
  if (!is_root && set_ids(as->user, as->group)) goto refused;
  if (as->user != 0) {
    setid = LACKS;
  } else if (as->setid != DFS_SETID_ANY) {
    set_setid(as->setid == DFS_SETID_KEPT);
  }
  return 0;
refused:
  if (set_ids(0, 0) || (has_no_groups && clear_groups()) || restore_umask(as)) abort();
  setid = UNKNOWN;
  errno = EPERM;
  return -1;
}

void dfs_restore_credentials(const struct dfs_credentials *as) {
  if (restore_umask(as)) abort();
  if (as->is_own) return;
  if (as->user != 0 || as->group != 0) {
    // A thread that kept a client's credentials would serve the next client with the wrong rights.
    if (set_ids(0, 0)) abort();
    if (as->user != 0) setid = HAS;
  }
  if (as->group_count && set_groups(NULL, 0)) abort();
}

int dfs_drop_groups(void) { return getgroups(0, NULL) == 0 ? 0 : setgroups(0, NULL); }

void dfs_drop_resource_capability(void) {
  struct __user_cap_header_struct process = {.version = _LINUX_CAPABILITY_VERSION_3};
  capabilities own;
  if (syscall(SYS_capget, &process, own)) return;
  own[0].effective &= ~(1u << CAP_SYS_RESOURCE);
  own[0].permitted &= ~(1u << CAP_SYS_RESOURCE);
  syscall(SYS_capset, &process, own);
}
