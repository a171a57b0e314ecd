#pragma once
#include <stdbool.h>
#include <sys/types.h>

// What the client of a request is doing. Each function waits until the client sleeps, for a tenth of a second at most.

// Whether the system call in which a thread is may hold the inode lock of a directory that it changes; true where the call
// cannot be read (/proc/PID/syscall, subject to ptrace access checks).
bool dfs_may_hold_directory_lock(pid_t thread);

// Whether a thread is one of the kernel's own.
bool dfs_is_kernel_thread(pid_t thread);

// Whether a thread is the first of a process, so that its id is that of the process, and not one of the kernel's own. False where
// this is not certain.
bool dfs_is_first_thread(pid_t thread);

// Whether a thread refers to files by their handles: one of the kernel's own (nfsd), or one in open_by_handle_at(2).
bool dfs_comes_by_handle(pid_t thread);

// Whether the system call in which a thread is refers to its file by a descriptor or by a name; DFS_UNKNOWN where the call
// cannot be read, or does not show it.
enum dfs_reference { DFS_UNKNOWN, DFS_BY_NAME, DFS_BY_DESCRIPTOR };
enum dfs_reference dfs_reference_of(pid_t thread);
