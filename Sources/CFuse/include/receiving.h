// How the threads of a session share the work of receiving requests.
#pragma once
#include <stddef.h>
#include <sys/types.h>

// Around the loop that serves requests.
void dfs_receive_begin(void);
void dfs_receive_end(void);
// The next request for the calling thread, which has answered the one before. As read(2); a cancellation point. Once it has
// returned 0, for the end, it does so to every thread.
ssize_t dfs_receive(int fd, void *buffer, size_t size);
