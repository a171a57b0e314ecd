// A guardian process: it aborts the connection of a daemon that died, so that no client waits for the mount.
#pragma once
#include <sys/types.h>

// Forks the guardian of the calling process, which must be the daemon of the mount at `mount_point`, on the thread of it that
// ends last. `arguments` are those of the program; the guardian overwrites them in its own memory with a name of its own. Returns
// its process id, or -1 where there can be no guardian.
pid_t dfs_guardian_start(const char *mount_point, int count, char **arguments);
// Ends the guardian of a mount that has ended.
void dfs_guardian_end(pid_t guardian);
// Makes the guardian abort the connection and end: a thread that waits for a reply, or for a lock that such a thread holds,
// continues with an error.
void dfs_guardian_abort(pid_t guardian);
