// Whoever is answered is woken, and by the scheduler's rules not where the answer comes from, as somebody is at work there, but
// on a processor that is idle. That has to be started first, and the two who had come together are apart again. But a processor
// where nobody works except by the policy SCHED_IDLE (sched(7)) counts as idle, too. Whoever is woken by such a thread stays,
// and has the processor at once; the thread goes on when the next question is asked.
//
// Where others work it gets next to no time. So it is one only while somebody alone asks one question after another and it has
// something to do, not where all processors are busy, when whoever is woken stays anyway, and not for longer than a moment
// without that anything comes of it: then the watchdog ends it, at every tick until the thread has received another request. Once
// is not enough, as the thread may be about to get the policy. (Such a thread, which the loop had been taken from meanwhile, was
// seen to serve one request for 9 s.)
#define _GNU_SOURCE
#include "yielding.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

static bool may_yield;
static _Atomic bool is_allowed;
// The thread that does, or is about to; 0 when none does. Only that thread takes itself out.
static _Atomic pid_t yielding;
// How often such a thread was to go on with it, as it is for each request that it receives.
static _Atomic uint64_t rounds;

static int set_policy(pid_t thread, int policy) { return sched_setscheduler(thread, policy, &(struct sched_param){0}); }

// Who lacks the privilege to leave SCHED_IDLE has to stay: this is tried by a thread that is needed for nothing else.
static void *try_policies(void *unused) {
  may_yield = sched_getscheduler(0) == SCHED_OTHER && set_policy(0, SCHED_IDLE) == 0 && set_policy(0, SCHED_OTHER) == 0;
  return unused;
}

void dfs_yield_begin(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, try_policies, NULL) == 0) pthread_join(thread, NULL);
}

bool dfs_yield(bool on) {
  static __thread pid_t self;
  static __thread bool yields;
  if (!may_yield) return false;
  if (!self) {
    self = gettid();
    // A thread has the policy of the one that made it.
    set_policy(0, SCHED_OTHER);
  }
  on = on && atomic_load_explicit(&is_allowed, memory_order_relaxed);
  if (on && yields) atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed);
  if (yields == on) return on;
  // First: what begins can be ended.
  pid_t none = 0;
  if (on && !atomic_compare_exchange_strong(&yielding, &none, self)) return false;
  yields = set_policy(0, on ? SCHED_IDLE : SCHED_OTHER) == 0 ? on : yields;
  if (!yields) atomic_store(&yielding, 0);
  return yields;
}

void dfs_yield_allow(bool is) { atomic_store(&is_allowed, is); }

void dfs_yield_end(void) {
  pid_t thread = atomic_load(&yielding);
  if (!thread) return;
  dfs_yield_allow(false);
  set_policy(thread, SCHED_OTHER);
}

bool dfs_yield_tick(void) {
  static pid_t last_thread;
  static uint64_t last_rounds;
  pid_t thread = atomic_load(&yielding);
  uint64_t now = atomic_load_explicit(&rounds, memory_order_relaxed);
  if (thread && thread == last_thread && now == last_rounds) dfs_yield_end();
  last_thread = thread;
  last_rounds = now;
  return thread != 0;
}
