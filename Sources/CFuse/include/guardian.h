// A process of its own that sees to it that a daemon's death is the end of its mount for everybody.
#pragma once
#include <sys/types.h>

// Forks a guardian of the calling process, which must be the one that serves the mount at `mount_point`, on the thread that
// ends last. `arguments` are those of the program, which the guardian replaces in its own memory by a name of its own. -1
// where there can be none.
pid_t dfs_guardian_start(const char *mount_point, int count, char **arguments);
// The mount has come to its end: the guardian is not needed any more.
void dfs_guardian_end(pid_t guardian);
// Has it abort the connection now, and end: whatever waits for a reply, or for the lock of one that does, goes on with an error.
void dfs_guardian_abort(pid_t guardian);
