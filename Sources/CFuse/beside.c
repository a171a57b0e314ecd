// Who asks waits for the answer, and who answers for the next question: the two take turns, and do that best on one
// processor. To wake a thread on another takes an interrupt there, tens of microseconds in a virtual machine. The scheduler
// does not know that they take turns. So the thread that answers finds out now and then on which processor those who ask run,
// and goes there when that was the same one twice. It stays free to be moved: where the scheduler separates them again, or
// several ask at a time, it tries more and more seldom; at once, where somebody asks alone and it was worth it.
//
// Whoever reads where a process runs that is executing a program waits until it does, and it may be waiting for the daemon: its
// program lies in the mount, or files of the mount are closed by that. So the thread that answers does not; another one reads.
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

// In requests.
enum { BETWEEN_LOOKS = 32, BETWEEN_LOOKS_BESIDE = 256, MOST_DOUBLINGS = 10 };
enum { UNKNOWN = -1, NOTHING_NEW = -2 };
// Who asks again from the same processor is mostly back before this. So many late ones in a row, and the scheduler has likely
// separated the two.
enum { LATE_NANOSECONDS = 25000, LATE_ONES = 3 };
// Who has asked so many in a row is likely to ask the next ones, too. After so many in time one late one tells of a separation,
// and it pays to return at once.
enum { ALONE = 256, WORTH_RETURNING = 8 };

// Whose processor is being looked up; 0 when nobody's is.
static _Atomic pid_t wanted;
static _Atomic int found = NOTHING_NEW;
static sem_t question;

// The processor that a thread ran on last. (proc_pid_stat(5), field 39)
static int processor_of(pid_t thread) {
  char path[32], text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)thread);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return UNKNOWN;
  ssize_t count = read(file, text, sizeof text - 1);
  close(file);
  if (count <= 0) return UNKNOWN;
  text[count] = 0;
  // The second field is the name of the program in parentheses, which may hold anything.
  const char *field = strrchr(text, ')');
  for (int number = 2; field && number < 39; number++) field = strchr(field + 1, ' ');
  return field ? atoi(field) : UNKNOWN;
}

// Whether a processor is likely idle. Of those who want to run one looks, and one or two take turns. (proc_loadavg(5), field 4)
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
  // Without it nobody is ever found. It may be waiting when the daemon ends, and is not waited for.
  if (pthread_create(&thread, NULL, look_up, NULL)) atomic_store(&wanted, UNKNOWN);
  else pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

// Has the calling thread moved to a processor if it may run there, and lets it run wherever it could before.
static void go_to(int processor) {
  cpu_set_t allowed, there;
  if (sched_getaffinity(0, sizeof allowed, &allowed) || !CPU_ISSET(processor, &allowed)) return;
  CPU_ZERO(&there);
  CPU_SET(processor, &there);
  if (sched_setaffinity(0, sizeof there, &there) == 0) sched_setaffinity(0, sizeof allowed, &allowed);
}

// Only touched by whoever has the turn.
static pid_t last;
static pthread_t answering;
// Where the one who asks was seen last, and in how many requests that is looked up.
static int seen = UNKNOWN, until_look = 1, doublings;
// How many requests one has made in a row, and of those that came beside, how many in time and how many late.
static int alone, in_time, late;
static bool was_beside, has_moved, returns;

static void note_time(uint64_t slept, bool is_dear) {
  bool is_here = seen == sched_getcpu();
  if (is_here && slept <= LATE_NANOSECONDS) {
    if (in_time < WORTH_RETURNING) in_time++;
    late = 0;
    // Who was back before anybody could sleep is here.
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
  // What nobody waits for, as the closing of a file, nobody has asked.
  if (caller > 0) note_caller(caller);
  int processor = atomic_exchange(&found, NOTHING_NEW);
  if (processor != NOTHING_NEW) note_found(processor);
  was_beside = seen == sched_getcpu();
  if (!was_beside) return DFS_APART;
  return is_dear && alone == ALONE && slept <= LATE_NANOSECONDS ? DFS_TAKING_TURNS : DFS_BESIDE;
}
