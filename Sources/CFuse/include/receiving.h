// The request loop: how the workers of a session share the reading of /dev/fuse. See receiving.c.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// To be called before and after a session's loop, which has at most `threads` workers.
void dfs_receive_begin(unsigned threads);
void dfs_receive_end(void);
// Receives the next request for the calling thread, which has served the one before. As read(2), and a cancellation point. Once
// it has returned 0, at the end of the session, it does so to every thread.
ssize_t dfs_receive(int fd, void *buffer, size_t size);
// The session ends, although requests are still being served. To be called between dfs_receive_begin and dfs_receive_end.
void dfs_receive_stop(void);

// The protocol's file handle (`fh`) is a pointer to this.
struct dfs_open {
  void *object;
  // The user that opened it.
  uint32_t client;
  // How many descriptors count for that user, and whether they are among those reserved for listing.
  uint16_t descriptors;
  bool is_listed;
};
