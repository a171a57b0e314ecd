#define _GNU_SOURCE
#include "cancellation.h"

#if __has_feature(thread_sanitizer)

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sanitizer/tsan_interface.h>

void dfs_cancellation_allow(bool is) {
  pthread_setcancelstate(is ? PTHREAD_CANCEL_ENABLE : PTHREAD_CANCEL_DISABLE, NULL);
}

// The C library's own function. The sanitizer's interceptors are in the program, which comes before the libraries.
static void *intercepted(const char *name) { return dlsym(RTLD_NEXT, name); }

void dfs_cancellable_poll(int fd) {
  int (*poll)(struct pollfd *, nfds_t, int) = intercepted("poll");
  dfs_cancellation_allow(true);
  poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
  dfs_cancellation_allow(false);
}

int dfs_cancellable_wait(sem_t *semaphore) {
  int (*wait)(sem_t *) = intercepted("sem_wait");
  dfs_cancellation_allow(true);
  int result = wait(semaphore);
  dfs_cancellation_allow(false);
  // The interceptor reports the same: what happened before sem_post(3) happened before this.
  if (result == 0) __tsan_acquire(semaphore);
  return result;
}

#endif
