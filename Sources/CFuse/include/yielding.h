// Making room for whoever is answered.
#pragma once
#include <stdbool.h>

// Finds out whether this process may. Once, before any thread does.
void dfs_yield_begin(void);
// Whether the calling thread is to make room for whoever it wakes, by the policy SCHED_IDLE. It must not sleep meanwhile, and one
// thread at a time does. Returned is whether it does: not where this process may not, or it is not allowed now.
bool dfs_yield(bool on);
// Whether threads may from now on. Not before this says so.
void dfs_yield_allow(bool is_allowed);
// Called by the watchdog at each tick: ends it for a thread that has not gone on with it since the tick before. Returned is
// whether any thread does.
bool dfs_yield_tick(void);
// Ends it for whichever thread does, and allows it to none: the thread may have been waiting for a processor where others work.
void dfs_yield_end(void);
