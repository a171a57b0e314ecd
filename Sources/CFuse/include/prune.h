// FUSE_NOTIFY_PRUNE: requests that the kernel drop what it has cached of some nodes (protocol 7.45, Linux 6.18). libfuse 3.14 does
// not know it.
#pragma once
#include "session.h"
#include <stdint.h>

// The most nodes of one message.
enum { DFS_MOST_PRUNED = 512 };

// The kernel drops the dentries of these nodes that nothing uses, and sends FORGET for the nodes that are left without any. A
// node that it does not know counts for nothing.
// - Returns: 0, or a negative errno: EINVAL where the kernel does not know the message.
int dfs_notify_prune(struct fuse_session *session, const uint64_t *nodeids, uint32_t count);
