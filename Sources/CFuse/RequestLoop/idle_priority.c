// Idle-priority wakeup: the loop owner serves a request with the policy SCHED_IDLE (sched(7)), so that its reply wakes the client
// on the same CPU.
//
// Mechanism: a reply wakes the client. The worker's CPU is busy with the worker, so the scheduler wakes the client on an idle CPU
// instead. That CPU has to leave its sleep first, and client and worker, which shared a CPU, are separated. But the scheduler
// counts a CPU that runs nothing except SCHED_IDLE threads as idle. So the client that is woken by such a thread stays on that
// CPU and preempts the thread at once; the thread continues when the client blocks in its next request.
//
// Applies: a SCHED_IDLE thread gets next to no CPU time where other threads run. So the loop owner has the policy only
// - while one client alone sends one request after the other, on the owner's CPU (`DFS_PING_PONG` of affinity.c),
// - while it has a request to serve,
// - while not all CPUs are busy (a woken client stays on the CPU anyway then), and
// - no longer than a moment without progress: then the watchdog restores SCHED_OTHER, at each tick until the thread has received
//   another request. Once is not enough, as the thread may be about to set the policy. (A thread whose loop was stolen meanwhile
//   was seen to serve one request for 9 s.)
//
// Worth: the table in receiving.c. It pays together with affinity.c, where idle processors halt at once, and nowhere else.
#define _GNU_SOURCE
#include "request_loop.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

static bool may_set;
static _Atomic bool is_allowed;
// The thread that has the policy or is about to set it; 0 when there is none. Only that thread resets it to 0.
static _Atomic pid_t holder;
// Counts the requests that a thread received while it had the policy: its progress.
static _Atomic uint64_t rounds;

static bool set_policy(pid_t thread, int policy) {
  return sched_setscheduler(thread, policy, &(struct sched_param){0}) == 0;
}

// A thread without the privilege to leave SCHED_IDLE has to stay in it, so a thread that is needed for nothing else tries this.
static void *try_policies(void *unused) {
  may_set = sched_getscheduler(0) == SCHED_OTHER && set_policy(0, SCHED_IDLE) && set_policy(0, SCHED_OTHER);
  return unused;
}

void dfs_idle_priority_begin(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, try_policies, NULL) == 0) pthread_join(thread, NULL);
}

void dfs_idle_priority_allow(bool is) { atomic_store(&is_allowed, is); }

bool dfs_idle_priority(bool on) {
  static __thread pid_t self;
  static __thread bool is_idle;
  if (!may_set) return false;
  if (!self) {
    self = gettid();
    // A thread inherits the policy of its creator, which may be SCHED_IDLE.
    set_policy(0, SCHED_OTHER);
  }
  on = on && atomic_load_explicit(&is_allowed, memory_order_relaxed);
  if (on && is_idle) atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed);
  if (is_idle == on) return on;
  // `holder` first, so that the watchdog can restore the policy of a thread that has set it.
  pid_t none = 0;
  if (on && !atomic_compare_exchange_strong(&holder, &none, self)) return false;
  if (set_policy(0, on ? SCHED_IDLE : SCHED_OTHER)) is_idle = on;
  if (!is_idle) atomic_store(&holder, 0);
  return is_idle;
}

bool dfs_idle_priority_tick(void) {
  static pid_t last_holder;
  static uint64_t last_rounds;
  pid_t thread = atomic_load(&holder);
  uint64_t now = atomic_load_explicit(&rounds, memory_order_relaxed);
  if (thread && thread == last_holder && now == last_rounds) {
    dfs_idle_priority_allow(false);
    set_policy(thread, SCHED_OTHER);
  }
  last_holder = thread;
  last_rounds = now;
  return thread != 0;
}
