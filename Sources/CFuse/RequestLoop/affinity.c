// Follow the client's CPU: the loop owner moves to the CPU of the client that it serves.
//
// Mechanism: client and worker alternate, so both run best on one CPU where wakeups are expensive: a wakeup on another CPU takes an
// interrupt there, tens of microseconds in a virtual machine. The scheduler does not know that the two alternate. So the worker has
// the client's CPU looked up now and then, and moves there, if wakeups are expensive, when two lookups in a row found the same one.
// It keeps its affinity mask, so the scheduler can move it again. Where the scheduler separates the two, or several clients send
// requests at a time, the lookups back off exponentially. Where a single client was separated after it had been worth it, the worker
// returns at once.
//
// A separate thread looks the CPU up. A read of /proc/PID/stat of a process that executes a program blocks until execve(2) is
// done, which may wait for the daemon: its program lies in the mount, or it closes files of the mount. The loop owner must not
// wait for that.
//
// Applies: where there is more than one CPU. The worker moves only where wakeups are expensive. `DFS_PING_PONG`, on which idle
// priority depends (idle_priority.c), also needs a single client and a request that arrived in time.
//
// Worth: the table in receiving.c. It pays together with idle_priority.c, where idle processors halt at once. Where they poll, two
// CPUs do more than one: microseconds with a worker that moves and with one that does not, one client on tmpfs, medians of 9
// interleaved rounds, Linux 6.18 with 2 processors: create and close 86 and 73, open and close 32 and 28, rename 51 and 45, unlink
// 37 and 32.
#define _GNU_SOURCE
#include "loop.h"
#include "proc.h"
#include "request_loop.h"
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Numbers of requests between two lookups, and how often the first may double.
enum { REMOTE_INTERVAL = 32, SAME_CPU_INTERVAL = 256, MOST_DOUBLINGS = 10 };
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
static sem_t lookup;

// The CPU that a thread ran on last. (proc_pid_stat(5), field 39)
static int cpu_of(pid_t thread) {
  char text[1024];
  if (dfs_read_proc(text, sizeof text, thread, "stat") < 0) return UNKNOWN;
  // The second field is the name of the program in parentheses, which may contain any character.
  const char *field = strrchr(text, ')');
  for (int number = 2; field && number < 39; number++) field = strchr(field + 1, ' ');
  return field ? atoi(field) : UNKNOWN;
}

// Whether a CPU is likely idle. One of the runnable threads is this one, and one or two are client and worker. (getloadavg(3)
// returns only averages: proc_loadavg(5), field 4)
static bool has_idle_cpu(void) {
  char text[128];
  int running;
  return dfs_read_proc(text, sizeof text, 0, "loadavg") > 0 && sscanf(text, "%*s %*s %*s %d/", &running) == 1 &&
         running - 3 < sysconf(_SC_NPROCESSORS_ONLN);
}

static void *look_up(void *unused) {
  for (;;) {
    while (sem_wait(&lookup)) {}
    dfs_idle_priority_allow(has_idle_cpu());
    atomic_store(&found, cpu_of(atomic_load(&wanted)));
    atomic_store(&wanted, 0);
  }
  return unused;
}

static void begin(void) {
  sem_init(&lookup, 0, 0);
  pthread_t thread;
  // Without the thread `wanted` stays set, and no CPU is ever looked up. The thread may be blocked when the daemon ends, so it is
  // detached.
  if (dfs_start_thread(&thread, look_up)) pthread_detach(thread);
  else atomic_store(&wanted, UNKNOWN);
}

// Moves the calling thread to a CPU that its affinity mask allows, and restores the mask.
static void move_to(int cpu) {
  cpu_set_t allowed, there;
  if (sched_getaffinity(0, sizeof allowed, &allowed) || !CPU_ISSET(cpu, &allowed)) return;
  CPU_ZERO(&there);
  CPU_SET(cpu, &there);
  if (sched_setaffinity(0, sizeof there, &there) == 0) sched_setaffinity(0, sizeof allowed, &allowed);
}

// Accessed by the loop owner only: the client of the last request, its CPU as last looked up, and the number of requests until
// the next lookup.
static pid_t last_client_tid;
static int client_cpu = UNKNOWN, until_lookup = 1, doublings;
// How many requests one client has sent in a row; and of the requests received on its CPU, how many in a row came in time and how
// many late.
static int alone, in_time, late;
static bool was_same_cpu, was_expensive, has_moved, returns;

static bool is_same_cpu(void) { return client_cpu == sched_getcpu(); }

static void note_time(uint64_t slept, bool wakeup_is_expensive) {
  if (is_same_cpu() && slept <= LATE_NANOSECONDS) {
    if (in_time < WORTH_RETURNING) in_time++;
    late = 0;
    // The client sent this request before the worker could block, so it runs here.
    if (slept == 0) until_lookup = SAME_CPU_INTERVAL;
  } else if (was_same_cpu) {
    returns = wakeup_is_expensive && alone == ALONE && in_time == WORTH_RETURNING;
    in_time = 0;
    if (!returns && ++late < LATE_ONES) return;
    late = 0;
    client_cpu = UNKNOWN;
    until_lookup = 1;
    if (returns) doublings = has_moved = 0;
  }
}

static void note_client(pid_t client_tid) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, begin);
  int interval = REMOTE_INTERVAL << doublings;
  if ((client_tid != last_client_tid || !is_same_cpu()) && until_lookup > interval) until_lookup = interval;
  if (client_tid != last_client_tid) alone = 0;
  else if (alone < ALONE) alone++;
  last_client_tid = client_tid;
  if (--until_lookup > 0 || atomic_load(&wanted)) return;
  until_lookup = interval;
  atomic_store(&wanted, client_tid);
  sem_post(&lookup);
}

static void note_found(int cpu, bool wakeup_is_expensive) {
  bool is_sure = returns || client_cpu == cpu;
  returns = false;
  client_cpu = cpu;
  if (is_same_cpu()) {
    doublings = has_moved = 0;
    until_lookup = SAME_CPU_INTERVAL;
    return;
  }
  if ((has_moved || !wakeup_is_expensive) && doublings < MOST_DOUBLINGS) doublings++;
  until_lookup = REMOTE_INTERVAL << doublings;
  has_moved = wakeup_is_expensive && cpu >= 0 && is_sure;
  if (has_moved) move_to(cpu);
}

enum dfs_place dfs_follow_client_cpu(pid_t client_tid, uint64_t slept, bool wakeup_is_expensive) {
  note_time(slept, wakeup_is_expensive);
  if (wakeup_is_expensive && !was_expensive) doublings = 0;
  was_expensive = wakeup_is_expensive;
  // The kernel sends a request that no client waits for, as when a file is closed, without a thread id.
  if (client_tid > 0) note_client(client_tid);
  int cpu = atomic_exchange(&found, NOTHING_NEW);
  if (cpu != NOTHING_NEW) note_found(cpu, wakeup_is_expensive);
  was_same_cpu = is_same_cpu();
  if (!was_same_cpu) return DFS_REMOTE_CPU;
  return wakeup_is_expensive && alone == ALONE && slept <= LATE_NANOSECONDS ? DFS_PING_PONG : DFS_SAME_CPU;
}
