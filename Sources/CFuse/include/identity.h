// The credentials with which a thread works. glibc's wrappers would change every thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// Whether set-user-ID and set-group-ID bits survive a write or chmod (CAP_FSETID). Users other than root never have the
// capability.
enum dfs_setid { DFS_SETID_ANY, DFS_SETID_KEPT, DFS_SETID_DROPPED };

// Everything of a thread by which a file system judges its calls. There is no way to set a part of it.
struct dfs_credentials {
  uid_t user;
  gid_t group;
  const gid_t *groups;
  size_t group_count;
  mode_t umask;
  enum dfs_setid setid;
  // Whether the daemon is not root and acts with its own ids, groups and capabilities: then only the umask is set.
  bool is_own;
};

// Gives the calling thread an umask and a working directory of its own.
int dfs_unshare_file_system_state(void);
// Gives the calling thread these credentials. The thread must have the daemon's own.
// On failure the thread has the daemon's own credentials still, and errno is set.
int dfs_assume_credentials(const struct dfs_credentials *as);
// Gives the calling thread the daemon's own credentials back: user 0, group 0, no supplementary groups, the file capabilities of
// root, the umask that it had at first. Ends the process when that fails.
void dfs_resume_credentials(const struct dfs_credentials *as);

// Drops the supplementary groups of the whole process, every thread included. A new thread inherits those of its creator.
int dfs_drop_groups(void);

// Gives CAP_SYS_RESOURCE up for good, before threads are made. Unlike the right to pass over permissions it does not go with
// the user id: whoever writes through the daemon would otherwise write past quotas and into what is reserved for root.
void dfs_obey_quotas(void);
