// Which requests are served now, and which wait.
#pragma once
#include "include/receiving.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum dfs_admission {
  DFS_SERVE,
  // To be served without being the loop owner: other requests of this user take long.
  DFS_SERVE_APART,
  // Buffered: a worker gets it from dfs_admission_next.
  DFS_BUFFERED,
  // Not to be served: the user has more waiting than is buffered.
  DFS_REFUSED,
};

// The workers of a session.
struct dfs_pool;
// Lives as long as the process. NULL without memory: then everything is served.
struct dfs_pool *dfs_pool_new(unsigned workers);

// The calling thread has received a request. `turn` is the value of the loop's turn while this thread serves the request as
// its owner, 0 if it will not.
enum dfs_admission dfs_admit(struct dfs_pool *pool, const void *request, size_t size, uint64_t turn);
// The calling thread has served its request, if it had one. Returns the size of a buffered request that it is to serve now,
// which was copied to `buffer`; 0 when there is none.
size_t dfs_admission_next(struct dfs_pool *pool, void *buffer);
// The calling thread ends.
void dfs_admission_leave(void);
// The watchdog has taken the loop from its owner, which has served a request for too long.
void dfs_admission_lost_loop(struct dfs_pool *pool, uint64_t turn);
// The kernel's INTERRUPT of a request. True if that was buffered and is not served any more: it is to be answered with EINTR.
bool dfs_admission_interrupt(struct dfs_pool *pool, uint64_t unique);
