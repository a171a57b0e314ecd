// Waking a thread costs more than most requests. Were all threads to wait for requests, the kernel would wake them in turn,
// each on a processor that sleeps and with nothing in its caches. So one thread has the turn: it receives a request, answers
// it, and receives the next. What takes long must not keep the others waiting: before reading, writing and the like the turn
// is given away at once, and from whoever is still busy after a moment a watcher takes it. Where much takes long, if not as
// long as that, more threads help: they receive without having the turn.
//
// Whoever asks often asks again right after the answer. So the one whose turn it is looks for a moment before it sleeps, as
// long as that mostly finds something. On the processor of whoever asks, looking would keep them from it: there it sleeps at
// once.
#define _GNU_SOURCE
#include "receiving.h"
#include "admission.h"
#include "beside.h"
#include "cancellation.h"
#include "helping.h"
#include "yielding.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

enum {
  LOOK_NANOSECONDS = 50000,
  // Whoever has been woken on a processor that does not sleep deeply has mostly asked again before this. Then to work at the same
  // time is worth more than to save the waking.
  AWAKE_NANOSECONDS = 10000,
  MOST_DEAR = 64,
  PAUSES = 32,
  // Looks that find nothing use up the credit of those that do; without any, only every so many requests one is tried.
  MOST_CREDIT = 16,
  REQUESTS_BETWEEN_TRIES = 64,
  // After one to two ticks a request counts as long; the watcher sleeps when nothing came for so many. Each tick takes a
  // processor from whoever works there.
  TICK_NANOSECONDS = 2000000,
  TICKS_BEFORE_SLEEP = 10,
  // Neither a size nor an error.
  HAS_TURN = -2,
};

// The turn, twice the number of requests received plus one while the last of them is being answered by whoever has it. Who
// takes the turn away from somebody who is busy adds one.
static _Atomic uint64_t turn;
static atomic_bool is_free;
// Waited for by those who have nothing to do: the turn is free, or help is called for.
static sem_t calls, work;
static atomic_int is_watched;
static __thread uint64_t mine;
// Whether this thread makes room for whoever it answers, and whether it helps.
static __thread bool yields, helps;
static pthread_t watcher;
static int has_watcher;
static atomic_bool has_ended;
static struct dfs_pool *pool;

// Only touched by whoever has the turn.
static int may_look, credit, since_try, is_nonblocking;
static enum dfs_place place;
// How much more often whoever was answered on another processor took long to ask again than not.
static int dear;
// For how long that one slept before the last request came, where it did so beside whoever asks.
static uint64_t slept;

static uint64_t nanoseconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void free_turn(void) {
  atomic_store(&is_free, true);
  sem_post(&calls);
}

static void *watch(void *unused) {
  while (!atomic_load(&has_ended)) {
    while (sem_wait(&work)) {}
    uint64_t last = 0;
    bool must_tick = false;
    for (int idle = 0; (idle < TICKS_BEFORE_SLEEP || must_tick) && !atomic_load(&has_ended); idle++) {
      nanosleep(&(struct timespec){0, TICK_NANOSECONDS}, NULL);
      must_tick = dfs_yield_tick();
      uint64_t seen = atomic_load(&turn);
      if (seen != last) {
        idle = 0;
      } else {
        uint64_t served = seen;
        if (seen & 1 && atomic_compare_exchange_strong(&turn, &seen, seen + 1)) {
          free_turn();
          dfs_admission_lost_loop(pool, served);
          idle = 0;
        }
      }
      last = seen;
    }
    atomic_store(&is_watched, 0);
    // A request that came just now found itself watched.
    if (atomic_load(&turn) & 1 && !atomic_exchange(&is_watched, 1)) sem_post(&work);
  }
  return unused;
}

void dfs_receive_begin(unsigned threads) {
  dfs_help_begin();
  // One is left to receive.
  pool = dfs_pool_new(threads - 1);
  atomic_store(&is_free, true);
  atomic_store(&has_ended, false);
  atomic_store(&is_watched, 0);
  sem_init(&calls, 0, 1);
  sem_init(&work, 0, 0);
  credit = MOST_CREDIT;
  may_look = sysconf(_SC_NPROCESSORS_ONLN) > 1;
  if (may_look) dfs_yield_begin();
  // Signals are for the thread that waits for the loop to end.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // Without a watcher every request gives the turn away.
  has_watcher = pthread_create(&watcher, NULL, watch, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void dfs_receive_end(void) {
  if (!has_watcher) return;
  atomic_store(&has_ended, true);
  sem_post(&work);
  pthread_join(watcher, NULL);
}

static int takes_long(uint32_t opcode) {
  switch (opcode) {
  case FUSE_READ:
  case FUSE_WRITE:
  case FUSE_FSYNC:
  case FUSE_FSYNCDIR:
  case FUSE_FALLOCATE:
  case FUSE_COPY_FILE_RANGE: return 1;
  default: return 0;
  }
}

static void set_nonblocking(int fd, int on) {
  if (is_nonblocking != on && fcntl(fd, F_SETFL, O_RDWR | (on ? O_NONBLOCK : 0)) == 0) is_nonblocking = on;
}

// Waits for a request, where the calling thread is cancelled when the session ends.
static ssize_t read_waiting(int fd, void *buffer, size_t size) {
  for (;;) {
    ssize_t count = read(fd, buffer, size);
    if (!DFS_WAITS_BY_POLL || count >= 0 || errno != EAGAIN) return count;
    dfs_cancellable_poll(fd);
  }
}

// What is there or comes within a moment; -1 with EAGAIN when nothing does.
static ssize_t look(int fd, void *buffer, size_t size) {
  set_nonblocking(fd, 1);
  ssize_t count = read(fd, buffer, size);
  if (count >= 0 || errno != EAGAIN) return count;
  uint64_t start = nanoseconds(), now = start;
  for (; count < 0 && errno == EAGAIN && now - start < LOOK_NANOSECONDS; now = nanoseconds()) {
    for (int i = 0; i < PAUSES; i++) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      __asm__ volatile("yield");
#endif
    }
    count = read(fd, buffer, size);
  }
  if (count >= 0 && now - start > AWAKE_NANOSECONDS) dear += dear < MOST_DEAR;
  else if (count >= 0) dear -= dear > -MOST_DEAR;
  return count;
}

static int is_worth_looking(void) {
  if (!may_look || place != DFS_APART) return 0;
  if (credit > 0) return 1;
  if (++since_try < REQUESTS_BETWEEN_TRIES) return 0;
  since_try = 0;
  return credit = 1;
}

static ssize_t receive(int fd, void *buffer, size_t size) {
  slept = 0;
  if (mine && is_worth_looking()) {
    ssize_t count = look(fd, buffer, size);
    if (count >= 0 || errno != EAGAIN) {
      if (credit < MOST_CREDIT) credit++;
      return count;
    }
    credit--;
  }
  if (mine && yields) {
    // Who has been given room has mostly asked by now.
    set_nonblocking(fd, 1);
    ssize_t count = read(fd, buffer, size);
    if (count >= 0 || errno != EAGAIN) return count;
    dfs_yield(false);
  }
  set_nonblocking(fd, DFS_WAITS_BY_POLL);
  uint64_t before = place != DFS_APART ? nanoseconds() : 0;
  ssize_t count = read_waiting(fd, buffer, size);
  if (place != DFS_APART) slept = nanoseconds() - before;
  return count;
}

static void note_received(int fd, const struct fuse_in_header *header) {
  if (dfs_help_received(fd, (pid_t)header->pid)) sem_post(&calls);
}

static void reply_error(int fd, uint64_t unique, int error) {
  struct fuse_out_header reply = {.len = sizeof reply, .error = -error, .unique = unique};
  if (write(fd, &reply, sizeof reply) < 0) {
    // The connection is gone, and the client does not wait any more.
  }
}

static bool is_request(ssize_t count) { return count >= (ssize_t)sizeof(struct fuse_in_header); }

// Whether the calling thread is to serve what it has received, and how.
static enum dfs_admission admit(int fd, const void *buffer, ssize_t count, uint64_t turn) {
  const struct fuse_in_header *header = buffer;
  if (header->opcode == FUSE_INTERRUPT) {
    uint64_t unique = ((const struct fuse_interrupt_in *)(header + 1))->unique;
    if (dfs_admission_interrupt(pool, unique)) reply_error(fd, unique, EINTR);
  }
  enum dfs_admission admission = dfs_admit(pool, buffer, (size_t)count, turn);
  if (admission == DFS_REFUSED) reply_error(fd, header->unique, ENOMEM);
  return admission;
}

// For a thread that is not the loop owner: waits until it is, or until it has helped by receiving a request.
static ssize_t wait_or_help(int fd, void *buffer, size_t size) {
  for (;;) {
    if (helps) {
      ssize_t count = dfs_help(fd, buffer, size);
      if (is_request(count)) {
        if (admit(fd, buffer, count, 0) > DFS_SERVE_APART) continue;
        note_received(fd, buffer);
      }
      if (count >= 0 || errno != EAGAIN) return count;
      helps = false;
    }
    while (dfs_cancellable_wait(&calls)) {}
    if (atomic_exchange(&is_free, false)) return HAS_TURN;
    dfs_help_comes();
    helps = true;
  }
}

static void release_loop(void) {
  int error = errno;
  mine = 0;
  dfs_yield(false);
  free_turn();
  errno = error;
}

// For the loop owner: receives until there is a request that it is to serve.
static ssize_t receive_admitted(int fd, void *buffer, size_t size) {
  for (;;) {
    ssize_t count = receive(fd, buffer, size);
    const struct fuse_in_header *header = buffer;
    if (is_request(count) && may_look) place = dfs_runs_beside((pid_t)header->pid, slept, dear > 0);
    if (!is_request(count)) {
      release_loop();
      return count;
    }
    bool keeps_loop = has_watcher && !takes_long(header->opcode);
    uint64_t served = atomic_load_explicit(&turn, memory_order_relaxed) + 1;
    enum dfs_admission admission = admit(fd, buffer, count, keeps_loop ? served : 0);
    if (admission > DFS_SERVE_APART) continue;
    if (!keeps_loop || admission == DFS_SERVE_APART) {
      release_loop();
      return count;
    }
    note_received(fd, header);
    // Before anybody can take the turn.
    bool is_to_yield = place == DFS_TAKING_TURNS;
    mine = served;
    atomic_store(&turn, mine);
    // In this order: the watcher, before it sleeps, says so and then looks at the turn.
    if (!atomic_load(&is_watched) && !atomic_exchange(&is_watched, 1)) sem_post(&work);
    // Now there is somebody to end it.
    yields = dfs_yield(is_to_yield);
    return count;
  }
}

// libfuse ends workers when many have nothing to do, as after a time when many waited.
static pthread_key_t leaving;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void leave(void *unused) {
  (void)unused;
  uint64_t expected = mine;
  if (mine && atomic_compare_exchange_strong(&turn, &expected, mine + 1)) free_turn();
  if (helps) dfs_help_ends();
  dfs_yield(false);
  dfs_admission_leave();
}

static void make_key(void) { pthread_key_create(&leaving, leave); }

static ssize_t receive_next(int fd, void *buffer, size_t size) {
  static __thread bool is_known;
  if (!is_known) {
    pthread_once(&once, make_key);
    is_known = pthread_setspecific(leaving, &is_known) == 0;
  }
  dfs_help_answered();
  uint64_t expected = mine;
  // It is still this thread's turn, unless it was given away or taken meanwhile.
  bool has_turn = mine && atomic_compare_exchange_strong(&turn, &expected, mine + 1);
  size_t buffered = dfs_admission_next(pool, buffer);
  if (buffered) {
    if (has_turn) release_loop();
    mine = 0;
    return (ssize_t)buffered;
  }
  if (!has_turn) {
    mine = 0;
    dfs_yield(false);
    ssize_t count = wait_or_help(fd, buffer, size);
    if (count != HAS_TURN) return count;
  }
  return receive_admitted(fd, buffer, size);
}

ssize_t dfs_receive(int fd, void *buffer, size_t size) {
  dfs_cancellation_allow(false);
  ssize_t count = receive_next(fd, buffer, size);
  dfs_cancellation_allow(true);
  return count;
}
