// The protocol between an ordinary user's daemon and displayfs-passthrough, over a pair of SOCK_SEQPACKET sockets. The helper has
// one end as its standard input.
//
// The daemon first sends the session's /dev/fuse with the message 0; the reply is 0 or a negative errno. After that, an open file
// with the message 0 requests its registration; the reply is its backing id or a negative errno. A message without a descriptor
// is a backing id that is no longer needed; it has no reply.
#pragma once
#include <linux/ioctl.h>
#include <stdint.h>

typedef int32_t dfs_helper_message;

// The distribution's linux/fuse.h may not have these yet (protocol 7.40).
struct dfs_backing_map {
  int32_t fd;
  uint32_t flags;
  uint64_t padding;
};
#define DFS_BACKING_OPEN _IOW(229, 1, struct dfs_backing_map)
#define DFS_BACKING_CLOSE _IOW(229, 2, uint32_t)
