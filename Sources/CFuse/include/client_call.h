#pragma once
#include <stdbool.h>
#include <sys/types.h>

// Whether the system call that a thread is in may hold the inode lock of a directory in which it changes something; true where
// that cannot be seen (/proc/PID/syscall, which ptrace's rules protect).
bool dfs_may_hold_directory_lock(pid_t thread);

// Whether the system call that a thread is in means a file that it has open, not one that it names; DFS_UNKNOWN where that
// cannot be seen.
enum dfs_reference { DFS_UNKNOWN, DFS_BY_NAME, DFS_BY_DESCRIPTOR };
enum dfs_reference dfs_reference_of(pid_t thread);
