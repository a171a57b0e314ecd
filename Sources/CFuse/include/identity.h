// As whom a thread works, and with which rights of root. glibc's wrappers would change every thread.
#pragma once
#include <stddef.h>
#include <sys/types.h>

int dfs_set_thread_identity(uid_t uid, gid_t gid);
int dfs_set_thread_groups(const gid_t *groups, size_t count);
// Sets the umask of the calling thread alone; it gets one of its own first.
void dfs_set_thread_umask(mode_t mask);

// Whether set-user-ID and set-group-ID bits stay that root writes to or sets (CAP_FSETID): a thread that may have given
// that right up takes it back, which costs nothing where it has it.
void dfs_give_up_setid(void);
void dfs_take_back_setid(void);

// Gives CAP_SYS_RESOURCE up for good, before threads are made. Unlike the right to pass over permissions it does not go with
// the user id: whoever writes through the daemon would otherwise write past quotas and into what is reserved for root.
void dfs_obey_quotas(void);
