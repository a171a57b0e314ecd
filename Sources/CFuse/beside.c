// Who asks waits for the answer, and who answers for the next question: the two take turns, and do that best on one
// processor. To wake a thread on another takes an interrupt there, tens of microseconds in a virtual machine. The scheduler
// does not know that they take turns. So the thread that answers looks now and then on which processor those who ask run, and
// goes there when that was the same one twice. It stays free to be moved: where the scheduler separates them again, or
// several ask at a time, it tries more and more seldom.
#define _GNU_SOURCE
#include "beside.h"
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// In requests.
enum { BETWEEN_LOOKS = 32, BETWEEN_LOOKS_BESIDE = 256, MOST_DOUBLINGS = 10 };

// The processor that a thread ran on last; -1 where nobody tells. (proc_pid_stat(5), field 39)
static int processor_of(pid_t thread) {
  char path[32], text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)thread);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  ssize_t count = read(file, text, sizeof text - 1);
  close(file);
  if (count <= 0) return -1;
  text[count] = 0;
  // The second field is the name of the program in parentheses, which may hold anything.
  const char *field = strrchr(text, ')');
  for (int number = 2; field && number < 39; number++) field = strchr(field + 1, ' ');
  return field ? atoi(field) : -1;
}

// Has the calling thread moved to a processor if it may run there, and lets it run wherever it could before.
static void go_to(int processor) {
  cpu_set_t allowed, wanted;
  if (sched_getaffinity(0, sizeof allowed, &allowed) || !CPU_ISSET(processor, &allowed)) return;
  CPU_ZERO(&wanted);
  CPU_SET(processor, &wanted);
  if (sched_setaffinity(0, sizeof wanted, &wanted) == 0) sched_setaffinity(0, sizeof allowed, &allowed);
}

bool dfs_runs_beside(pid_t caller) {
  static __thread pid_t last;
  static __thread int seen = -1, until_look = 1, doublings;
  static __thread bool has_moved;
  // What nobody waits for, as the closing of a file, nobody has asked.
  if (caller > 0) {
    if (caller != last && until_look > BETWEEN_LOOKS << doublings) until_look = BETWEEN_LOOKS << doublings;
    last = caller;
    if (--until_look <= 0) {
      int before = seen;
      seen = processor_of(caller);
      if (seen == sched_getcpu()) {
        doublings = 0;
        until_look = BETWEEN_LOOKS_BESIDE;
        has_moved = false;
      } else {
        if (has_moved && doublings < MOST_DOUBLINGS) doublings++;
        until_look = BETWEEN_LOOKS << doublings;
        has_moved = seen >= 0 && seen == before;
        if (has_moved) go_to(seen);
      }
    }
  }
  return seen == sched_getcpu();
}
