// Admission: which requests are served now, and which are buffered. See admission.c.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum dfs_admission {
  DFS_SERVE,
  // To be served without owning the loop: other requests of this user are slow.
  DFS_SERVE_WITHOUT_LOOP,
  // Buffered: a worker receives it from dfs_admission_next.
  DFS_BUFFERED,
  // Not to be served: the user has too much buffered, or memory is short.
  DFS_REFUSED,
};

// The workers of a session, and what they serve.
struct dfs_pool;
// Lives as long as the process. NULL when memory is short: then every request is served at once.
struct dfs_pool *dfs_pool_new(unsigned workers);

// The calling thread has received a request. `owner` is the loop's `owner` (receiving.c) while this thread serves the request as
// the loop owner, 0 if it will serve it otherwise.
enum dfs_admission dfs_admit(struct dfs_pool *pool, const void *request, size_t size, uint64_t owner);
// The calling thread has served its request, if it had one. Returns the size of a buffered request that it is to serve now, which
// is copied to `buffer`; 0 when there is none.
size_t dfs_admission_next(struct dfs_pool *pool, void *buffer);
// The calling thread ends. Returns whether another worker has to receive a buffered request, which this thread would have received.
bool dfs_admission_leave(void);
// The watchdog has stolen the loop from its owner, which serves a request for too long.
void dfs_admission_lost_loop(struct dfs_pool *pool, uint64_t owner);
enum dfs_interruption {
  // The request is being served, or has been.
  DFS_NOT_BUFFERED,
  // The request was buffered, and is dropped: the reply to it is EINTR.
  DFS_DROPPED,
  // The request is served later, and knows then that the kernel has sent INTERRUPT.
  DFS_STILL_BUFFERED,
};
// The kernel sent INTERRUPT for a request.
enum dfs_interruption dfs_admission_interrupt(struct dfs_pool *pool, uint64_t unique);
// Whether a WRITE of cached pages is buffered or being served.
bool dfs_admission_writes_pages(struct dfs_pool *pool);
// The session ends: interrupts all work that is for a reply alone, now and later.
void dfs_admission_end(struct dfs_pool *pool);
