// Making room for whoever is answered.
#pragma once
#include <stdbool.h>

// Finds out whether this process may. Once, before any thread does.
void dfs_yield_begin(void);
// Whether the calling thread is to make room for whoever it wakes: by the policy SCHED_IDLE, under which it must neither sleep nor
// be waited for by several. One thread at a time. Whether it does: not where that may not be, or is not allowed.
bool dfs_yield(bool on);
// Whether threads may from now on. Not before this says so.
void dfs_yield_allow(bool is_allowed);
// Ends it for whichever thread does, and allows it to none: the thread may have been waiting for a processor where others work.
void dfs_yield_end(void);
