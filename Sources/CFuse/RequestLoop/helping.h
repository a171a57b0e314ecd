// Whether the loop owner needs overflow workers. See helping.c.
#pragma once
#include <stdbool.h>
#include <sys/types.h>

void dfs_help_begin(void);
// The calling thread has received a request, which it serves as the loop owner or as an overflow worker. Returns whether an
// overflow worker is to be called; until that one has started, no other is.
bool dfs_help_received(int fd, pid_t caller);
// The calling thread has served its request.
void dfs_help_answered(void);
// The calling thread, which was called, starts as an overflow worker: it is not the loop owner.
void dfs_help_comes(void);
// The calling thread is an overflow worker no longer.
void dfs_help_ends(void);
// As read(2), for an overflow worker, without waiting; -1 with EAGAIN when the queue is empty: then the thread is an overflow
// worker no longer.
ssize_t dfs_help(int fd, void *buffer, size_t size);
