// Idle-priority wakeup: the policy SCHED_IDLE for the thread whose reply wakes a client. See yielding.c.
#pragma once
#include <stdbool.h>

// Tests whether this process may set SCHED_IDLE and leave it again. Call once, before any thread calls `dfs_yield`.
void dfs_yield_begin(void);
// Sets the calling thread's policy to SCHED_IDLE, or back to SCHED_OTHER. The thread must not sleep with SCHED_IDLE. Returns
// whether the thread has SCHED_IDLE afterwards: never where the process may not, while it is not allowed, or while another thread
// has it.
bool dfs_yield(bool on);
// Sets whether threads may set SCHED_IDLE from now on. At first they may not.
void dfs_yield_allow(bool is_allowed);
// Called by the watchdog at each tick: restores the policy of a thread that has made no progress since the last tick. Returns
// whether any thread has SCHED_IDLE.
bool dfs_yield_tick(void);
// Restores the policy of the thread that has SCHED_IDLE, and allows it to none: the thread may wait for a CPU on which other
// threads run.
void dfs_yield_end(void);
