// FUSE_STATX, by which the kernel requests a birth time (protocol 7.39, Linux 6.6). libfuse knows it since 3.18, and has it
// handled apart from GETATTR. Here it becomes a GETATTR with a reply of its own, whatever libfuse's version.
#pragma once
#include "session.h"
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

// To be called with each request before libfuse sees it, by the thread that will serve it: makes a GETATTR of a STATX.
void dfs_statx_read(void *request);
// Whether the request that the calling thread serves arrived as STATX. Then its reply is `dfs_reply_statx`, not fuse_reply_attr.
bool dfs_is_statx(void);
// Replies to a STATX: all that fuse_reply_attr would reply, and the birth time, NULL where it is not known. The kernel may cache
// it for `timeout` seconds. Returns 0 or a negative errno.
int dfs_reply_statx(fuse_req_t request, const struct stat *status, const struct timespec *birth, double timeout);
