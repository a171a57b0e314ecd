// The request loop: how the workers of a session share the reading of /dev/fuse.
//
// Mechanism: one worker, the loop owner, reads a request, serves it and reads the next; the other workers wait on a semaphore. If
// all workers blocked in read(2), the kernel would wake them in turn, each on a CPU that sleeps and with cold caches, and such a
// wakeup costs more than most requests. A slow request must not delay the ones behind it:
// - Before a request that takes long (`takes_long`: large READ and WRITE requests, and the like), the owner releases the loop.
// - From an owner that serves one request for longer than one to two ticks, the watchdog steals the loop.
// - Where many requests are slow, but not that slow, overflow workers read without owning the loop (overflow.c).
// - Where other requests of the same user are slow already, the owner releases the loop first (admission.c).
//
// Busy-poll: a client often sends its next request right after a reply. So the owner polls the device for up to
// `POLL_NANOSECONDS` before it blocks, as long as most polls find a request. On the client's own CPU polling would keep the
// client from running: there the owner blocks at once (affinity.c, idle_priority.c).
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
// When the table was measured, a worker also followed the CPU where processors poll (affinity.c), and a busy-poll paused four times
// as long between two reads. The shorter pause took one rename from 56 to 52 µs there, and an absent name from 13.8 to 11.7, for a
// client in Python, which is slower than that of the table.
//
// So one loop owner with a bounded busy-poll is 1.2 to 1.3 times as fast as libfuse's loop where processors poll. Where they
// halt, the busy-poll makes openread 1.6 times as fast; without it, one owner is slower than libfuse's loop.
#define _GNU_SOURCE
#include "admission.h"
#include "loop.h"
#include "request_loop.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <unistd.h>

enum {
  POLL_NANOSECONDS = 50000,
  // A client that is woken on a CPU that does not sleep deeply mostly sends its next request within this time. Then client and
  // worker gain more from running in parallel than from saving the wakeup.
  AWAKE_NANOSECONDS = 10000,
  // A request that a poll has missed counts as late when it arrives within this time: waking its client may have taken as long.
  SOON_NANOSECONDS = 150000,
  MOST_LATE_POLLS = 64,
  // The poll budget: a poll that finds a request adds to it, one that finds none takes from it. Without budget, only one request
  // in so many is polled for.
  MOST_BUDGET = 16,
  REQUESTS_BETWEEN_TRIES = 64,
  // After one to two ticks a request counts as very slow. The watchdog sleeps after so many ticks without a new request, because
  // each tick takes a CPU from the thread that runs there.
  TICK_NANOSECONDS = 2000000,
  TICKS_BEFORE_SLEEP = 10,
  // To read or write that much takes less time than to wake another worker: a READ of 4 KiB 13 to 17 µs instead of 24 to 31 (without
  // passthrough, tmpfs, by hand). Where it waits for a disk, the watchdog steals the loop.
  BYTES_AT_ONCE = 32 << 10,
  // A result of `wait_for_loop` that is neither a size nor an error.
  OWNS_LOOP = -2,
};

// Loop ownership: 2 x requests that owners kept the loop for, +1 while the owner serves one. The watchdog steals the loop from a
// busy owner by a compare-and-swap to the next even value.
static _Atomic uint64_t owner;
// The value of `owner` while this thread serves its request as the owner; 0 when it is not the owner.
static __thread uint64_t owned;
static atomic_bool has_no_owner;
// Idle workers wait for `calls`: the loop has no owner, an overflow worker is needed, or a worker that ended left a buffered request.
// The watchdog waits for `work`.
static sem_t calls, work;
static atomic_bool is_watched;
static pthread_t watchdog;
static bool has_watchdog;
static atomic_bool has_ended;
// The loop owner while it waits for a request, which alone has to be woken at the end of the session.
static _Atomic pid_t waiter;
static atomic_bool is_ending;
// Of the latest session. Any thread may stop it.
static struct dfs_pool *_Atomic pool;

// Accessed by the loop owner only.
static bool may_poll;
static int budget, is_nonblocking;
static enum dfs_place place;
// Whether a wakeup on another CPU is expensive, as a score: the number of polls that found the next request late, or just missed it,
// less those that found it early.
static int late_polls;
// Nanoseconds that the loop owner was blocked before the last request arrived; 0 unless it was on the client's CPU.
static uint64_t slept;
// Whether this thread has idle priority (SCHED_IDLE), and whether it is an overflow worker.
static __thread bool is_idle, is_overflow;

static void free_loop(void) {
  atomic_store(&has_no_owner, true);
  sem_post(&calls);
}

static void release_loop(void) {
  int error = errno;
  owned = 0;
  dfs_idle_priority(false);
  free_loop();
  errno = error;
}

// Whether the calling thread, which was the loop owner, still is: the watchdog may have stolen the loop.
static bool ends_serving(void) {
  uint64_t expected = owned;
  return owned && atomic_compare_exchange_strong(&owner, &expected, owned + 1);
}

// MARK: Watchdog

static void *run_watchdog(void *unused) {
  while (!atomic_load(&has_ended)) {
    while (sem_wait(&work)) {}
    uint64_t last = 0;
    bool must_tick = false;
    for (int idle = 0; (idle < TICKS_BEFORE_SLEEP || must_tick) && !atomic_load(&has_ended); idle++) {
      nanosleep(&(struct timespec){0, TICK_NANOSECONDS}, NULL);
      must_tick = dfs_idle_priority_tick();
      uint64_t seen = atomic_load(&owner), served = seen;
      if (seen != last) {
        idle = 0;
      } else if (seen & 1 && atomic_compare_exchange_strong(&owner, &seen, seen + 1)) {
        free_loop();
        dfs_admission_lost_loop(pool, served);
        idle = 0;
      }
      last = served;
    }
    atomic_store(&is_watched, false);
    // The owner that received a request just now may have seen `is_watched` still set, and then has not posted `work`.
    if (atomic_load(&owner) & 1 && !atomic_exchange(&is_watched, true)) sem_post(&work);
  }
  return unused;
}

// MARK: Reading

static bool takes_long(const struct fuse_in_header *header) {
  switch (header->opcode) {
  case FUSE_READ: return ((const struct fuse_read_in *)(header + 1))->size > BYTES_AT_ONCE;
  case FUSE_WRITE: return header->len > BYTES_AT_ONCE;
  case FUSE_FSYNC:
  case FUSE_FSYNCDIR:
  case FUSE_FALLOCATE:
  case FUSE_COPY_FILE_RANGE: return true;
  default: return false;
  }
}

static void set_nonblocking(int fd, int on) {
  if (is_nonblocking != on && fcntl(fd, F_SETFL, O_RDWR | (on ? O_NONBLOCK : 0)) == 0) is_nonblocking = on;
}

static void note_late(void) { late_polls += late_polls < MOST_LATE_POLLS; }

static void note_poll(bool has_found, uint64_t nanoseconds) {
  if (!has_found) {
    budget = budget > 1 ? budget - 1 : -REQUESTS_BETWEEN_TRIES;
    return;
  }
  if (budget < MOST_BUDGET) budget++;
  if (nanoseconds > AWAKE_NANOSECONDS) note_late();
  else if (nanoseconds) late_polls -= late_polls > -MOST_LATE_POLLS;
}

// Reads a request that is there or arrives within `POLL_NANOSECONDS`; -1 with EAGAIN if none does.
static ssize_t busy_poll(int fd, void *buffer, size_t size) {
  set_nonblocking(fd, 1);
  ssize_t count = read(fd, buffer, size);
  uint64_t start = count < 0 ? dfs_nanoseconds() : 0, now = start;
  while (count < 0 && errno == EAGAIN && now - start < POLL_NANOSECONDS) {
    dfs_pause();
    count = read(fd, buffer, size);
    now = dfs_nanoseconds();
  }
  note_poll(count >= 0 || errno != EAGAIN, now - start);
  return count;
}

static bool is_worth_polling(void) { return may_poll && place == DFS_REMOTE_CPU && (budget >= 0 || ++budget >= 0); }

// As read(2), waiting for a request. -1 with EINTR from the end of the session on, and with EAGAIN where an overflow worker has
// received the request. Overflow workers must not block; while there are none a single system call waits, because poll(2) before
// read(2) costs a microsecond of the 20 that a LOOKUP takes.
static ssize_t read_blocking(int fd, void *buffer, size_t size) {
  static __thread pid_t self;
  if (!self) self = gettid();
  bool blocks = !dfs_overflow_is_active();
  set_nonblocking(fd, !blocks);
  ssize_t count = -1;
  atomic_store(&waiter, self);
  if (atomic_load(&is_ending)) errno = EINTR;
  else if (blocks || poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1) > 0) count = read(fd, buffer, size);
  atomic_store_explicit(&waiter, 0, memory_order_relaxed);
  return count;
}

static ssize_t receive(int fd, void *buffer, size_t size) {
  slept = 0;
  bool has_polled = owned && is_worth_polling();
  if (has_polled) {
    ssize_t count = busy_poll(fd, buffer, size);
    if (count >= 0 || errno != EAGAIN) return count;
  }
  if (owned && is_idle) {
    // A client that this thread woke with idle priority has preempted it, and has mostly sent its next request by now.
    set_nonblocking(fd, 1);
    ssize_t count = read(fd, buffer, size);
    if (count >= 0 || errno != EAGAIN) return count;
    dfs_idle_priority(false);
  }
  bool is_timed = has_polled || place != DFS_REMOTE_CPU;
  uint64_t before = is_timed ? dfs_nanoseconds() : 0;
  ssize_t count;
  while ((count = read_blocking(fd, buffer, size)) < 0 && errno == EAGAIN) {}
  uint64_t waited = is_timed ? dfs_nanoseconds() - before : 0;
  if (has_polled && waited < SOON_NANOSECONDS) note_late();
  if (place != DFS_REMOTE_CPU) slept = waited;
  return count;
}

static bool is_request(ssize_t count) { return count >= (ssize_t)sizeof(struct fuse_in_header); }

static void reply_error(int fd, uint64_t unique, int error) {
  struct fuse_out_header reply = {.len = sizeof reply, .error = -error, .unique = unique};
  if (write(fd, &reply, sizeof reply) < 0) {
    // The connection is gone, and the client does not wait any more.
  }
}

// Whether the calling thread serves the request that it has received, and how. Forwards INTERRUPT to admission, and replies to a
// request that is refused. libfuse gets no INTERRUPT of a request that it does not know: it would reply with EAGAIN, the kernel
// would send the INTERRUPT again at once, and so on for as long as the request is buffered.
static enum dfs_admission admit(int fd, const void *buffer, ssize_t count, uint64_t served) {
  const struct fuse_in_header *header = buffer;
  if (header->opcode == FUSE_INTERRUPT) {
    uint64_t unique = ((const struct fuse_interrupt_in *)(header + 1))->unique;
    enum dfs_interruption interruption = dfs_admission_interrupt(pool, unique);
    if (interruption == DFS_DROPPED) reply_error(fd, unique, EINTR);
    if (interruption != DFS_NOT_BUFFERED) return DFS_BUFFERED;
  }
  enum dfs_admission admission = dfs_admit(pool, buffer, (size_t)count, served);
  if (admission == DFS_REFUSED) reply_error(fd, header->unique, ENOMEM);
  return admission;
}

// For a thread that is not the loop owner: waits until it becomes the owner (`OWNS_LOOP`), or receives a request as an overflow
// worker.
static ssize_t wait_for_loop(int fd, void *buffer, size_t size) {
  for (;;) {
    while (is_overflow) {
      ssize_t count = read(fd, buffer, size);
      if (is_request(count)) {
        if (admit(fd, buffer, count, 0) > DFS_SERVE_WITHOUT_LOOP) continue;
        if (dfs_overflow_is_needed(fd, (pid_t)((const struct fuse_in_header *)buffer)->pid)) sem_post(&calls);
      }
      if (count >= 0 || errno != EAGAIN) return count;
      is_overflow = false;
      dfs_overflow_ends();
    }
    while (sem_wait(&calls)) {}
    if (atomic_exchange(&has_no_owner, false)) return OWNS_LOOP;
    size_t buffered = dfs_admission_next(pool, buffer);
    if (buffered) return (ssize_t)buffered;
    is_overflow = dfs_overflow_starts();
  }
}

// For the loop owner: receives until there is a request that it is to serve.
static ssize_t receive_admitted(int fd, void *buffer, size_t size) {
  for (;;) {
    ssize_t count = receive(fd, buffer, size);
    const struct fuse_in_header *header = buffer;
    if (!is_request(count)) {
      // libfuse ends the session then, except after these two errors, and waits for all workers.
      if (count >= 0 || (errno != EINTR && errno != ENOENT)) {
        atomic_store(&is_ending, true);
        dfs_admission_end(pool);
      }
      release_loop();
      return count;
    }
    if (may_poll) place = dfs_follow_client_cpu((pid_t)header->pid, slept, late_polls > 0);
    uint64_t served = atomic_load_explicit(&owner, memory_order_relaxed) + 1;
    bool keeps_loop = has_watchdog && !takes_long(header);
    enum dfs_admission admission = admit(fd, buffer, count, keeps_loop ? served : 0);
    if (admission > DFS_SERVE_WITHOUT_LOOP) continue;
    if (!keeps_loop || admission == DFS_SERVE_WITHOUT_LOOP) {
      release_loop();
      return count;
    }
    if (dfs_overflow_is_needed(fd, (pid_t)header->pid)) {
      set_nonblocking(fd, 1);
      sem_post(&calls);
    }
    // Read `place` before the watchdog can steal the loop: then it belongs to the next owner.
    bool is_ping_pong = place == DFS_PING_PONG;
    owned = served;
    atomic_store(&owner, owned);
    // First `owner`, then `is_watched`: the watchdog clears `is_watched` before it reads `owner`, so one of the two sees the
    // other's write.
    if (!atomic_load(&is_watched) && !atomic_exchange(&is_watched, true)) sem_post(&work);
    // Only now that the watchdog is awake, as it ends an idle priority that makes no progress.
    is_idle = dfs_idle_priority(is_ping_pong);
    return count;
  }
}

// MARK: Workers

// libfuse ends workers when many are idle, as after a burst of requests.
static pthread_key_t leaving;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void leave(void *unused) {
  (void)unused;
  if (ends_serving()) release_loop();
  else dfs_idle_priority(false);
  if (is_overflow) dfs_overflow_ends();
  if (dfs_admission_leave()) sem_post(&calls);
}

static void make_key(void) { pthread_key_create(&leaving, leave); }

static ssize_t receive_next(int fd, void *buffer, size_t size) {
  static __thread bool is_known;
  if (!is_known) {
    pthread_once(&once, make_key);
    is_known = pthread_setspecific(leaving, &is_known) == 0;
  }
  dfs_overflow_note_served();
  bool is_owner = ends_serving();
  size_t buffered = dfs_admission_next(pool, buffer);
  if (buffered) {
    if (is_owner) release_loop();
    owned = 0;
    return (ssize_t)buffered;
  }
  if (!is_owner) {
    owned = 0;
    dfs_idle_priority(false);
    ssize_t count = wait_for_loop(fd, buffer, size);
    if (count != OWNS_LOOP) return count;
  }
  return receive_admitted(fd, buffer, size);
}

ssize_t dfs_receive(int fd, void *buffer, size_t size) {
  // At the end of the session libfuse cancels its workers, some of which may hold a lock here. They end by themselves.
  int before;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  ssize_t count = receive_next(fd, buffer, size);
  pthread_setcancelstate(before, NULL);
  return count;
}

// MARK: Session

void dfs_receive_begin(unsigned threads) {
  dfs_overflow_begin();
  // One worker stays free to receive.
  pool = dfs_pool_new(threads - 1);
  atomic_store(&is_ending, false);
  atomic_store(&has_no_owner, true);
  atomic_store(&has_ended, false);
  atomic_store(&is_watched, false);
  sem_init(&calls, 0, 1);
  sem_init(&work, 0, 0);
  is_nonblocking = 0;
  budget = MOST_BUDGET;
  may_poll = sysconf(_SC_NPROCESSORS_ONLN) > 1;
  if (may_poll) dfs_idle_priority_begin();
  // Without a watchdog the owner releases the loop before each request.
  has_watchdog = dfs_start_thread(&watchdog, run_watchdog);
}

bool dfs_receive_writes_pages(void) { return dfs_admission_writes_pages(pool); }

void dfs_receive_stop(void) {
  dfs_admission_end(pool);
  atomic_store(&is_ending, true);
  // The thread may be about to wait, so this is repeated.
  pid_t thread = atomic_load(&waiter);
  if (thread) tgkill(getpid(), thread, SIGURG);
}

void dfs_receive_end(void) {
  if (!has_watchdog) return;
  atomic_store(&has_ended, true);
  sem_post(&work);
  pthread_join(watchdog, NULL);
}
