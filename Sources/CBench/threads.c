#define _GNU_SOURCE
#include "CBench.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

int bench_become(uid_t user, gid_t group) {
  if (syscall(SYS_setgroups, (size_t)0, NULL) || syscall(SYS_setresgid, group, group, group)) return -1;
  return (int)syscall(SYS_setresuid, user, user, user);
}

int bench_usable_processor(int index) {
  cpu_set_t processors;
  if (sched_getaffinity(0, sizeof processors, &processors)) return -1;
  for (int processor = 0; processor < CPU_SETSIZE; processor++) {
    if (CPU_ISSET(processor, &processors) && index-- == 0) return processor;
  }
  return -1;
}

int bench_stay_on(int processor) {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  CPU_SET(processor, &processors);
  return sched_setaffinity(0, sizeof processors, &processors);
}
