// What only computes is done no sooner when more threads do it than there are processors to spare. But where each answer waits
// for a backing file system, as for one across a network, whoever asks waits for everybody who has asked before. So how long
// answers take is watched while several ask, and where many take long, whoever receives a request while others wait calls for
// help. Helpers receive until nothing waits.
#define _GNU_SOURCE
#include "helping.h"
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

enum {
  // Few requests that need no waiting take so long.
  LONG_NANOSECONDS = 200000,
  // Many are more than one in so many, for a while.
  MANY = 5,
  MOST_SLOW = 64,
  SLOW = 32,
  MOST_HELPERS = 15,
};

static atomic_int helpers;
// One more was called, and has not come yet.
static atomic_bool is_called;
static _Atomic pid_t last_caller;
static atomic_int slowness;
// When the request that the calling thread answers came, in nanoseconds; 0 when it is of the one who asked before, too.
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
  // Nobody waits for what no process asks, and nothing else while one asks alone.
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
