// Small files of proc(5).
#pragma once
#include <stddef.h>
#include <sys/types.h>

// Reads the file `name` of a thread, or of /proc itself where `thread` is 0, and adds a terminating NUL. Returns the number of
// bytes before it, or -1 with errno set.
ssize_t dfs_read_proc(char *text, size_t size, pid_t thread, const char *name);
