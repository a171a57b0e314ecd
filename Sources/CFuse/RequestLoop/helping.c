// Overflow workers: workers that receive requests beside the loop owner while many requests are slow.
//
// Mechanism: more threads than there are free CPUs do not finish requests sooner that only compute. But where each request waits
// for a backing file system, as for one across a network, a client waits for all requests that were sent before its own. So the
// loop measures how long requests take while several clients send them. Where many are slow, a worker that receives a request
// while others are queued calls an overflow worker. Overflow workers receive until the queue is empty.
//
// Applies: several clients, and more than one request in `MANY` slower than `LONG_NANOSECONDS` for a while. Requests that are
// slower than a watchdog tick do not depend on this: the loop is stolen from their worker (receiving.c).
//
// Worth: the table in receiving.c does not show it. That measurement has one client, for which no overflow worker is called.
#define _GNU_SOURCE
#include "helping.h"
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

enum {
  // Few requests that need not wait take so long.
  LONG_NANOSECONDS = 200000,
  // The slow-request score rises while more than one request in `MANY` is slow, up to `MOST_SLOW`; overflow workers are called
  // from `SLOW` on.
  MANY = 5,
  MOST_SLOW = 64,
  SLOW = 32,
  MOST_HELPERS = 15,
};

static atomic_int helpers;
// An overflow worker has been called and has not started yet.
static atomic_bool is_called;
static _Atomic pid_t last_caller;
static atomic_int slowness;
// When the calling thread received the request that it serves, in nanoseconds; 0 where that is not measured: the request before
// came from the same client, or this one has no client.
static __thread uint64_t received;

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static bool something_waits(int fd) { return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0) > 0; }

void dfs_help_begin(void) {
  atomic_store(&helpers, 0);
  atomic_store(&is_called, false);
  atomic_store(&slowness, 0);
}

void dfs_help_answered(void) {
  if (!received) return;
  int change = now() - received > LONG_NANOSECONDS ? MANY - 1 : -1;
  int after = atomic_load_explicit(&slowness, memory_order_relaxed) + change;
  if (after >= 0 && after <= MOST_SLOW) atomic_store_explicit(&slowness, after, memory_order_relaxed);
  received = 0;
}

bool dfs_help_received(int fd, pid_t caller) {
  // No client waits for a request without a thread id, and a single client has no other request waiting.
  if (!caller || atomic_exchange_explicit(&last_caller, caller, memory_order_relaxed) == caller) return false;
  received = now();
  if (atomic_load_explicit(&slowness, memory_order_relaxed) < SLOW) return false;
  return atomic_load(&helpers) < MOST_HELPERS && something_waits(fd) && !atomic_exchange(&is_called, true);
}

void dfs_help_comes(void) {
  atomic_fetch_add(&helpers, 1);
  atomic_store(&is_called, false);
}

void dfs_help_ends(void) { atomic_fetch_sub(&helpers, 1); }

ssize_t dfs_help(int fd, void *buffer, size_t size) {
  if (something_waits(fd)) {
    ssize_t count = read(fd, buffer, size);
    if (count >= 0 || errno != EAGAIN) return count;
  }
  dfs_help_ends();
  errno = EAGAIN;
  return -1;
}
