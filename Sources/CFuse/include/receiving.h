// How the threads of a session share the work of receiving requests.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// Around the loop that serves requests with at most so many threads.
void dfs_receive_begin(unsigned threads);
void dfs_receive_end(void);
// The next request for the calling thread, which has answered the one before. As read(2); a cancellation point. Once it has
// returned 0, for the end, it does so to every thread.
ssize_t dfs_receive(int fd, void *buffer, size_t size);
// Whether the client is being killed whose request the calling thread serves.
bool dfs_request_is_interrupted(void);
// The user that the request belongs to which the calling thread serves; -1 when it serves none, or one that admission does not
// count (FORGET, INTERRUPT, INIT, DESTROY).
int64_t dfs_request_user(void);

// A file handle (`fh`) of the protocol is a pointer to this.
struct dfs_open {
  void *object;
  // The user that has opened it.
  uint32_t client;
  // How many descriptors are counted for that user, and whether among those that are kept for listing.
  uint16_t descriptors;
  bool is_listed;
};
