// Whether one thread that receives requests and answers them is enough.
#pragma once
#include <stdbool.h>
#include <sys/types.h>

void dfs_help_begin(void);
// The calling thread has received a request that is to be answered without giving the turn away. Whether somebody is to be
// called for help; nobody else is before they have come.
bool dfs_help_received(int fd, pid_t caller);
// It has answered.
void dfs_help_answered(void);
// Somebody has come, and has not got the turn.
void dfs_help_comes(void);
// It helps no longer.
void dfs_help_ends(void);
// What waits, for somebody who helps; -1 with EAGAIN when nothing does any more: then they are helping no longer. As read(2).
ssize_t dfs_help(int fd, void *buffer, size_t size);
