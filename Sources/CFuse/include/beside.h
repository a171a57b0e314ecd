// Where the thread that answers runs, and where those run who ask.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum dfs_place {
  DFS_APART,
  DFS_BESIDE,
  // And nobody else has asked for a while, this one came in time, and to wake whoever asks elsewhere is dear: the two should
  // stay together.
  DFS_TAKING_TURNS,
};

// Whether the thread that made the request just received runs on the calling thread's processor, as far as was seen. Now and
// then this has it looked up, and moves the calling thread there. 0 stands for nobody: what was seen last counts. `slept` is for
// how many nanoseconds the calling thread slept until the request came, as far as that is known; `is_dear` whether to wake a
// thread on another processor takes long. To be called by one thread at a time.
enum dfs_place dfs_runs_beside(pid_t caller, uint64_t slept, bool is_dear);
