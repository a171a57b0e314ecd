// What the daemon of an ordinary user and displayfs-passthrough say to each other, over a pair of SOCK_SEQPACKET sockets
// of which the helper has one end as its standard input.
//
// The daemon first sends the session's /dev/fuse with the message 0, and is answered with 0 or a negative errno. From then
// on an opened file with the message 0 asks for its registration, and is answered with its backing id or a negative errno;
// a message without a descriptor is a backing id that is no longer needed, and is not answered.
#pragma once
#include <linux/ioctl.h>
#include <stdint.h>

typedef int32_t dfs_helper_message;

// linux/fuse.h of a distribution may not have these yet (protocol 7.40).
struct dfs_backing_map {
  int32_t fd;
  uint32_t flags;
  uint64_t padding;
};
#define DFS_BACKING_OPEN _IOW(229, 1, struct dfs_backing_map)
#define DFS_BACKING_CLOSE _IOW(229, 2, uint32_t)
