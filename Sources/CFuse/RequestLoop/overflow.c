// Overflow workers: workers that receive requests beside the loop owner while many requests are slow.
//
// Mechanism: more threads than there are free CPUs do not finish requests sooner that only compute. But where each request waits
// for a backing file system, as for one across a network, a client waits for all requests that were sent before its own. So a
// score tells whether many requests are slow while several clients send them. Then a worker that receives a request while others
// are queued calls an overflow worker, which receives until the queue is empty.
//
// Applies: several clients, and more than one request in `SLOW_ONE_IN` slower than `SLOW_NANOSECONDS` for a while. Requests that
// are slower than a watchdog tick do not depend on this: the loop is stolen from their worker (receiving.c).
//
// Worth: four clients, and every fourth request waits for 250 microseconds: 30 microseconds a request. Where the owner releases
// the loop before each request instead: 54. (Medians of 5 interleaved runs over a socket, Linux 6.18, 2 processors, 2026-11-25)
#define _GNU_SOURCE
#include "loop.h"
#include <poll.h>
#include <stdatomic.h>

enum {
  // Few requests that need not wait for the backing file system take so long.
  SLOW_NANOSECONDS = 200000,
  // The score rises while more than one request in `SLOW_ONE_IN` is slow, up to `MOST_SCORE`; many are from `MANY_SCORE` on.
  SLOW_ONE_IN = 5,
  MANY_SCORE = 32,
  MOST_SCORE = 64,
};

static atomic_int score;
static atomic_int workers;
static atomic_bool is_called;
static _Atomic pid_t last_client_tid;
// When the calling thread received the request that it serves; 0 where that is not measured.
static __thread uint64_t received;

void dfs_overflow_begin(void) {
  atomic_store(&score, 0);
  atomic_store(&workers, 0);
  atomic_store(&is_called, false);
}

bool dfs_overflow_starts(void) {
  atomic_fetch_add(&workers, 1);
  bool was_called = atomic_exchange(&is_called, false);
  if (!was_called) atomic_fetch_sub(&workers, 1);
  return was_called;
}

void dfs_overflow_ends(void) { atomic_fetch_sub(&workers, 1); }

// `is_called` first: a worker that starts counts itself before it resets `is_called`.
bool dfs_overflow_is_active(void) { return atomic_load(&is_called) || atomic_load(&workers) > 0; }

void dfs_overflow_note_served(void) {
  if (!received) return;
  int after = atomic_load_explicit(&score, memory_order_relaxed);
  after += dfs_nanoseconds() - received > SLOW_NANOSECONDS ? SLOW_ONE_IN - 1 : -1;
  if (after >= 0 && after <= MOST_SCORE) atomic_store_explicit(&score, after, memory_order_relaxed);
  received = 0;
}

bool dfs_overflow_is_needed(int fd, pid_t client_tid) {
  // No client waits for a request without a thread id, and a single client has no other request queued.
  if (!client_tid || atomic_exchange_explicit(&last_client_tid, client_tid, memory_order_relaxed) == client_tid) return false;
  received = dfs_nanoseconds();
  if (atomic_load_explicit(&score, memory_order_relaxed) < MANY_SCORE) return false;
  return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) > 0 && !atomic_exchange(&is_called, true);
}
