// The credentials of a single thread. glibc's wrappers would change those of every thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// Whether set-user-ID and set-group-ID bits survive a write or chmod (CAP_FSETID). Users other than root never have the
// capability.
enum dfs_setid { DFS_SETID_ANY, DFS_SETID_KEPT, DFS_SETID_DROPPED };

// All that a file system checks of a thread that calls it. It can be set only as a whole.
struct dfs_credentials {
  uid_t user;
  gid_t group;
  const gid_t *groups;
  size_t group_count;
  // The umask, where it is to be set: it matters only to calls that make a file.
  mode_t umask;
  bool sets_umask;
  enum dfs_setid setid;
  // Whether the daemon is not root and acts with its own ids, groups and capabilities: then only the umask is set.
  bool is_own;
};

// Gives the calling thread its own umask and working directory (CLONE_FS). Returns 0, or -1 with errno set.
int dfs_unshare_file_system_state(void);
// Gives the calling thread these credentials. The thread must have the daemon's own. Returns 0, or -1 with errno set: then the
// thread has the daemon's own credentials still.
int dfs_assume_credentials(const struct dfs_credentials *as);
// Restores the calling thread's credentials to the daemon's own: user 0, group 0, no supplementary groups, the file capabilities
// of root, and the umask that it had at first. Aborts the process when that fails.
void dfs_restore_credentials(const struct dfs_credentials *as);

// Drops the supplementary groups of the whole process, in every thread. A new thread inherits those of its creator.
int dfs_drop_groups(void);

// Drops CAP_SYS_RESOURCE for good, before threads are made. Unlike the capabilities that override permissions it does not depend
// on the user id: with it, clients could write past quotas and into blocks that are reserved for root.
void dfs_drop_resource_capability(void);
