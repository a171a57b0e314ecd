// INIT, the kernel's first request, with which both sides negotiate features: this adds those that libfuse does not know.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

// FUSE_HANDLE_KILLPRIV_V2 of linux/fuse.h: the daemon clears set-user-ID bits and file capabilities when it writes. (Linux 5.11)
static const uint64_t DFS_HANDLE_KILLPRIV_V2 = 1ull << 28;

// FUSE_HAS_EXPIRE_ONLY of linux/fuse.h: the kernel can expire dentries without invalidating them. (Linux 6.2)
static const uint64_t DFS_HAS_EXPIRE_ONLY = 1ull << 35;

// FUSE_NO_EXPORT_SUPPORT of linux/fuse.h: file handles cannot be had, so that exportfs refuses instead of failing later. (Linux
// 6.9)
static const uint64_t DFS_NO_EXPORT_SUPPORT = 1ull << 38;

// Whether the kernel offers the feature of a flag (linux/fuse.h, 64 bits), once INIT was received.
bool dfs_init_capable(uint64_t flag);
// Requests a feature if the kernel offers it. Call before the reply to INIT.
void dfs_init_request(uint64_t flag);
// Sets how deep file systems may be stacked, for passthrough. Call before the reply to INIT.
void dfs_init_allow_depth(uint32_t depth);

// The session calls these with each request that was read, and with each reply before it is written.
void dfs_init_read(const void *request, size_t size);
void dfs_init_write(const struct iovec *pieces, int count);
