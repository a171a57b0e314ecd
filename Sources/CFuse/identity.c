#define _GNU_SOURCE
#include "identity.h"
#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct __user_cap_data_struct capabilities[_LINUX_CAPABILITY_U32S_3];

// To change rights takes longer than to open a file: a thread remembers what it has done, and undoes it when that matters. A new
// one has what the thread that made it had just then.
static __thread enum { UNKNOWN, HAS, LACKS } setid;

static void set_effective(int capability, int on) {
  struct __user_cap_header_struct this_thread = {.version = _LINUX_CAPABILITY_VERSION_3};
  capabilities own;
  if (syscall(SYS_capget, &this_thread, own)) return;
  unsigned bit = 1u << capability;
  if (!(own[0].effective & bit) == !on) return;
  own[0].effective ^= bit;
  syscall(SYS_capset, &this_thread, own);
}

void dfs_give_up_setid(void) {
  if (setid == LACKS) return;
  set_effective(CAP_FSETID, 0);
  setid = LACKS;
}

void dfs_take_back_setid(void) {
  if (setid == HAS) return;
  // Who never had it has all that there is.
  set_effective(CAP_FSETID, 1);
  setid = HAS;
}

int dfs_set_thread_identity(uid_t uid, gid_t gid) {
  // The group first: once the user is not root the group can no longer change. setfs*id report no errors; ask back.
  // Whoever becomes root again gets root's rights to files back with that.
  if (syscall(SYS_setfsuid, 0) != 0) setid = HAS;
  syscall(SYS_setfsgid, gid);
  syscall(SYS_setfsuid, uid);
  if ((gid_t)syscall(SYS_setfsgid, (gid_t)-1) != gid || (uid_t)syscall(SYS_setfsuid, (uid_t)-1) != uid) {
    errno = EPERM;
    return -1;
  }
  return 0;
}

int dfs_set_thread_groups(const gid_t *groups, size_t count) { return (int)syscall(SYS_setgroups, count, groups); }

void dfs_set_thread_umask(mode_t mask) {
  static __thread int own;
  static __thread mode_t current;
  if (own && current == mask) return;
  if (!own && unshare(CLONE_FS)) return;
  own = 1;
  current = mask;
  umask(mask);
}

void dfs_obey_quotas(void) {
  struct __user_cap_header_struct process = {.version = _LINUX_CAPABILITY_VERSION_3};
  capabilities own;
  if (syscall(SYS_capget, &process, own)) return;
  own[0].effective &= ~(1u << CAP_SYS_RESOURCE);
  own[0].permitted &= ~(1u << CAP_SYS_RESOURCE);
  syscall(SYS_capset, &process, own);
}
