// The request loop: how the workers of a session share the reading of /dev/fuse.
//
// Mechanism: one worker, the loop owner, reads a request, serves it and reads the next; the other workers wait on a semaphore. If
// all workers blocked in read(2), the kernel would wake them in turn, each on a CPU that sleeps and with cold caches, and such a
// wakeup costs more than most requests. A slow request must not delay the ones behind it:
// - Before a request that takes long (`takes_long`: READ, WRITE and the like), the owner releases the loop.
// - From an owner that serves one request for longer than one to two ticks, the watchdog steals the loop.
// - Where many requests are slow, but not that slow, overflow workers read without owning the loop (helping.c).
// - Where other requests of the same user are slow already, the owner releases the loop first (admission.c).
//
// Busy-poll: a client often sends its next request right after a reply. So the owner polls the device for up to
// `LOOK_NANOSECONDS` before it blocks, as long as most polls find a request. On the client's own CPU polling would keep the
// client from running: there the owner blocks at once (beside.c, yielding.c).
//
// Applies: the loop owner always; busy-polling where there is more than one CPU and the client runs on another one.
//
// Worth: microseconds per operation, medians of 7 interleaved rounds, one client, measured on Linux 6.18 with 2 processors.
// "Halts": an idle processor halts at once, as in that virtual machine. "Polls": the same with guest_halt_poll_ns=200000, as bare
// metal and most hosts behave.
//
//                                  |               halts               |               polls
//                                  | openread absent create+   rename  | openread absent create+   rename
//                                  |                 unlink      x2    |                 unlink      x2
// all mechanisms                   |   22.8    11.6     146      125   |   20.8     9.8     100      104
// without idle priority            |   32.3    18.7     349      171   |   20.3     9.7      97      110
// ... and without following the CPU|   29.1    20.8     353      174   |   19.7     9.4      95      103
// ... and without busy-polling     |   46.5    45.4     442      269   |   21.9    12.3     109      123
// libfuse's own loop               |   44.1    23.4     376      169   |   26.1    12.0     128      122
// backing directory itself         |    2.6     1.4      22       33   |    2.6     1.0      25       32
//
// So one loop owner with a bounded busy-poll is 1.2 to 1.3 times as fast as libfuse's loop where processors poll. Where they
// halt, the busy-poll makes openread 1.6 times as fast; without it, one owner is slower than libfuse's loop.
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
  // A client that is woken on a CPU that does not sleep deeply mostly sends its next request within this time. Then client and
  // worker gain more from running in parallel than from saving the wakeup.
  AWAKE_NANOSECONDS = 10000,
  MOST_DEAR = 64,
  PAUSES = 32,
  // The poll budget: a poll that finds a request adds to it, one that finds none takes from it. Without budget, only one request
  // in so many is polled for.
  MOST_CREDIT = 16,
  REQUESTS_BETWEEN_TRIES = 64,
  // After one to two ticks a request counts as slow. The watchdog sleeps after so many ticks without a new request, because each
  // tick takes a CPU from the thread that runs there.
  TICK_NANOSECONDS = 2000000,
  TICKS_BEFORE_SLEEP = 10,
  // A result of `wait_or_help` that is neither a size nor an error.
  HAS_TURN = -2,
};

// Loop ownership: odd while the loop owner serves a request, else even. Each request that the owner serves without releasing the
// loop first adds two. The watchdog steals the loop from a busy owner by a compare-and-swap to the next even value.
static _Atomic uint64_t turn;
static atomic_bool is_free;
// Idle workers wait on `calls`: the loop has no owner, or an overflow worker is needed. The watchdog waits on `work`.
static sem_t calls, work;
static atomic_int is_watched;
static __thread uint64_t mine;
// Whether this thread has idle priority (SCHED_IDLE), and whether it is an overflow worker.
static __thread bool yields, helps;
static pthread_t watcher;
static int has_watcher;
static atomic_bool has_ended;
// Of the latest session. Any thread may stop it.
static struct dfs_pool *_Atomic pool;

// Accessed by the loop owner only.
static int may_look, credit, since_try, is_nonblocking;
static enum dfs_place place;
// Whether a wakeup on another CPU is expensive, as a score: the number of polls that found the next request late, less those that
// found it early.
static int dear;
// Nanoseconds that the loop owner was blocked before the last request arrived; 0 unless it was on the client's CPU.
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
    // The owner that received a request just now may have seen `is_watched` still set, and then has not posted `work`.
    if (atomic_load(&turn) & 1 && !atomic_exchange(&is_watched, 1)) sem_post(&work);
  }
  return unused;
}

void dfs_receive_begin(unsigned threads) {
  dfs_help_begin();
  // One worker stays free to receive.
  pool = dfs_pool_new(threads - 1);
  atomic_store(&is_free, true);
  atomic_store(&has_ended, false);
  atomic_store(&is_watched, 0);
  sem_init(&calls, 0, 1);
  sem_init(&work, 0, 0);
  credit = MOST_CREDIT;
  may_look = sysconf(_SC_NPROCESSORS_ONLN) > 1;
  if (may_look) dfs_yield_begin();
  // The watchdog blocks all signals: the thread that waits for the loop to end handles them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // Without a watchdog the owner releases the loop before each request.
  has_watcher = pthread_create(&watcher, NULL, watch, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void dfs_receive_stop(void) { dfs_admission_end(pool); }

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

// Waits for a request. libfuse cancels the worker while it waits here when the session ends.
static ssize_t read_waiting(int fd, void *buffer, size_t size) {
  for (;;) {
    ssize_t count = read(fd, buffer, size);
    if (!DFS_WAITS_BY_POLL || count >= 0 || errno != EAGAIN) return count;
    dfs_cancellable_poll(fd);
  }
}

// Busy-polls: reads a request that is there or arrives within `LOOK_NANOSECONDS`; -1 with EAGAIN if none does.
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
    // A client that this thread woke with idle priority has preempted it, and has mostly sent its next request by now.
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

// Whether the calling thread serves the request that it has received, and how. Forwards INTERRUPT to admission, and replies to a
// request that is refused.
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

// For a thread that is not the loop owner: waits until it becomes the owner (`HAS_TURN`), or receives a request as an overflow
// worker.
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
    // Read `place` before the watchdog can steal the loop: then it belongs to the next owner.
    bool is_to_yield = place == DFS_TAKING_TURNS;
    mine = served;
    atomic_store(&turn, mine);
    // First `turn`, then `is_watched`: the watchdog clears `is_watched` before it reads `turn`, so one of the two sees the
    // other's write.
    if (!atomic_load(&is_watched) && !atomic_exchange(&is_watched, 1)) sem_post(&work);
    // Only now that the watchdog is awake, as it ends an idle priority that makes no progress.
    yields = dfs_yield(is_to_yield);
    return count;
  }
}

// libfuse ends workers when many are idle, as after a burst of requests.
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
  // This thread is the loop owner still, unless it released the loop or the watchdog stole it.
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
