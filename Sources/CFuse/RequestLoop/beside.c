// Follow the client's CPU: the loop owner moves to the CPU of the client that it serves.
//
// Mechanism: client and worker alternate, so both run best on one CPU. A wakeup on another CPU takes an interrupt there, tens of
// microseconds in a virtual machine. The scheduler does not know that the two alternate. So the worker has the client's CPU
// looked up now and then, and moves there when two lookups in a row found the same one. It keeps its affinity mask, so the
// scheduler can move it again. Where the scheduler separates the two, or several clients send requests at a time, the lookups
// back off exponentially. Where a single client was separated after it had been worth it, the worker returns at once.
//
// A separate thread looks the CPU up. A read of /proc/PID/stat of a process that executes a program blocks until execve(2) is
// done, which may wait for the daemon: its program lies in the mount, or it closes files of the mount. The loop owner must not
// wait for that.
//
// Applies: where there is more than one CPU. `DFS_TAKING_TURNS`, on which idle priority depends (yielding.c), also needs a single
// client, a request that arrived in time, and expensive wakeups.
//
// Worth: nothing without idle priority. The two together make operations 1.4 to 2.4 times as fast where idle processors halt at
// once, and gain nothing where they poll before they halt. The table is in receiving.c (Linux 6.18, 2 processors, one client).
#define _GNU_SOURCE
#include "beside.h"
#include "yielding.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Numbers of requests between two lookups, and how often the first may double.
enum { BETWEEN_LOOKS = 32, BETWEEN_LOOKS_BESIDE = 256, MOST_DOUBLINGS = 10 };
enum { UNKNOWN = -1, NOTHING_NEW = -2 };
// A client on the worker's CPU mostly sends its next request within this time. After so many late requests in a row the scheduler
// has likely separated the two.
enum { LATE_NANOSECONDS = 25000, LATE_ONES = 3 };
// A client that has sent so many requests in a row is likely to send the next ones, too. After so many requests in time a single
// late one indicates a separation, and returning at once pays.
enum { ALONE = 256, WORTH_RETURNING = 8 };

// The thread whose CPU is being looked up; 0 when there is none.
static _Atomic pid_t wanted;
static _Atomic int found = NOTHING_NEW;
static sem_t question;

// The CPU that a thread ran on last. (proc_pid_stat(5), field 39)
static int processor_of(pid_t thread) {
  char path[32], text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)thread);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return UNKNOWN;
  ssize_t count = read(file, text, sizeof text - 1);
  close(file);
  if (count <= 0) return UNKNOWN;
  text[count] = 0;
  // The second field is the name of the program in parentheses, which may contain any character.
  const char *field = strrchr(text, ')');
  for (int number = 2; field && number < 39; number++) field = strchr(field + 1, ' ');
  return field ? atoi(field) : UNKNOWN;
}

// Whether a CPU is likely idle. One of the runnable threads is this one, and one or two are client and worker. (proc_loadavg(5),
// field 4)
static bool is_calm(void) {
  char text[128];
  int file = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  ssize_t count = read(file, text, sizeof text - 1);
  close(file);
  text[count > 0 ? count : 0] = 0;
  int running;
  return sscanf(text, "%*s %*s %*s %d/", &running) == 1 && running - 3 < sysconf(_SC_NPROCESSORS_ONLN);
}

static void *look_up(void *unused) {
  for (;;) {
    while (sem_wait(&question)) {}
    dfs_yield_allow(is_calm());
    atomic_store(&found, processor_of(atomic_load(&wanted)));
    atomic_store(&wanted, 0);
  }
  return unused;
}

static void begin(void) {
  sem_init(&question, 0, 0);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  // Without the thread `wanted` stays set, and no CPU is ever looked up. The thread may be blocked when the daemon ends, so it is
  // detached.
  if (pthread_create(&thread, NULL, look_up, NULL)) atomic_store(&wanted, UNKNOWN);
  else pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

// Moves the calling thread to a CPU that its affinity mask allows, and restores the mask.
static void go_to(int processor) {
  cpu_set_t allowed, there;
  if (sched_getaffinity(0, sizeof allowed, &allowed) || !CPU_ISSET(processor, &allowed)) return;
  CPU_ZERO(&there);
  CPU_SET(processor, &there);
  if (sched_setaffinity(0, sizeof there, &there) == 0) sched_setaffinity(0, sizeof allowed, &allowed);
}

// Accessed by the loop owner only: the client of the last request, and the worker that received it.
static pid_t last;
static pthread_t answering;
// The client's CPU as last looked up, and the number of requests until the next lookup.
static int seen = UNKNOWN, until_look = 1, doublings;
// How many requests one client has sent in a row; and of the requests received on its CPU, how many in a row came in time and how
// many late.
static int alone, in_time, late;
static bool was_beside, has_moved, returns;

static void note_time(uint64_t slept, bool is_dear) {
  bool is_here = seen == sched_getcpu();
  if (is_here && slept <= LATE_NANOSECONDS) {
    if (in_time < WORTH_RETURNING) in_time++;
    late = 0;
    // The client sent this request before the worker could block, so it runs here.
    if (slept == 0) until_look = BETWEEN_LOOKS_BESIDE;
  } else if (was_beside) {
    returns = is_dear && alone == ALONE && in_time == WORTH_RETURNING;
    in_time = 0;
    if (!returns && (!is_here || ++late < LATE_ONES)) return;
    late = 0;
    seen = UNKNOWN;
    until_look = 1;
    if (!returns) return;
    doublings = 0;
    has_moved = false;
  }
}

static void note_caller(pid_t caller) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, begin);
  bool is_another = caller != last || !pthread_equal(answering, pthread_self());
  if (is_another && until_look > BETWEEN_LOOKS << doublings) until_look = BETWEEN_LOOKS << doublings;
  if (caller != last) alone = 0;
  else if (alone < ALONE) alone++;
  last = caller;
  answering = pthread_self();
  if (--until_look > 0 || atomic_load(&wanted)) return;
  until_look = BETWEEN_LOOKS << doublings;
  atomic_store(&wanted, caller);
  sem_post(&question);
}

static void note_found(int processor) {
  bool is_sure = returns || seen == processor;
  returns = false;
  seen = processor;
  if (seen == sched_getcpu()) {
    doublings = 0;
    until_look = BETWEEN_LOOKS_BESIDE;
    has_moved = false;
  } else {
    if (has_moved && doublings < MOST_DOUBLINGS) doublings++;
    until_look = BETWEEN_LOOKS << doublings;
    has_moved = seen >= 0 && is_sure;
    if (has_moved) go_to(seen);
  }
}

enum dfs_place dfs_runs_beside(pid_t caller, uint64_t slept, bool is_dear) {
  note_time(slept, is_dear);
  // The kernel sends a request that no client waits for, as when a file is closed, without a thread id.
  if (caller > 0) note_caller(caller);
  int processor = atomic_exchange(&found, NOTHING_NEW);
  if (processor != NOTHING_NEW) note_found(processor);
  was_beside = seen == sched_getcpu();
  if (!was_beside) return DFS_APART;
  return is_dear && alone == ALONE && slept <= LATE_NANOSECONDS ? DFS_TAKING_TURNS : DFS_BESIDE;
}
