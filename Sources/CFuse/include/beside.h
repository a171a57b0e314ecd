// Where the loop owner and the client run: on one CPU or on two. See beside.c.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum dfs_place {
  DFS_APART,
  DFS_BESIDE,
  // On one CPU, with a single client for a while, a request that arrived in time, and expensive wakeups on other CPUs: client and
  // worker alternate, and should stay together.
  DFS_TAKING_TURNS,
};

// Whether the client thread `caller` of the request just received runs on the calling thread's CPU, as last looked up. Now and
// then this starts such a lookup, or moves the calling thread to the CPU found. With `caller` 0, for a request without a client,
// the last lookup counts. `slept` is the time in nanoseconds that the calling thread was blocked until the request arrived, 0
// where that is not known; `is_dear` whether a wakeup on another CPU is expensive. Not thread-safe: only the loop owner calls
// this.
enum dfs_place dfs_runs_beside(pid_t caller, uint64_t slept, bool is_dear);
