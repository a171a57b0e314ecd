// The kernel's first request, INIT, in which both sides say what they can: what libfuse does not know is said beside it.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

// FUSE_HAS_EXPIRE_ONLY of linux/fuse.h: names can be expired without being invalidated. (Linux 6.2)
static const uint64_t DFS_HAS_EXPIRE_ONLY = 1ull << 35;

// Whether the kernel can what a flag stands for (the flags of linux/fuse.h, 64 bits), once it has asked.
bool dfs_init_offers(uint64_t flag);
// Tells the kernel that it is wanted. While INIT is answered.
void dfs_init_want(uint64_t flag);
// How deep file systems may be stacked, for passthrough.
void dfs_init_allow_depth(uint32_t depth);

// Called by the session with each request that was read, and each reply about to be written.
void dfs_init_read(const void *request, size_t size);
void dfs_init_write(const struct iovec *pieces, int count);
