#pragma once
#include <semaphore.h>
#include <stdbool.h>

// libfuse cancels its workers when the session ends. ThreadSanitizer ends a process in which a thread is cancelled inside a
// function that the sanitizer intercepts, because the interceptor's frame is left without its destructor ("finished with ignores
// enabled"). So with this sanitizer a worker can be cancelled only while it waits, in the C library's own functions.

#ifndef __has_feature
#define __has_feature(feature) 0
#endif

#if __has_feature(thread_sanitizer)

enum { DFS_WAITS_BY_POLL = 1 };

// Sets whether the calling thread can be cancelled outside of the functions below.
void dfs_cancellation_allow(bool is);
// Waits until there may be data to read. The thread can be cancelled meanwhile.
void dfs_cancellable_poll(int fd);
int dfs_cancellable_wait(sem_t *semaphore);

#else

enum { DFS_WAITS_BY_POLL = 0 };

static inline void dfs_cancellation_allow(bool is) { (void)is; }
static inline void dfs_cancellable_poll(int fd) { (void)fd; }
static inline int dfs_cancellable_wait(sem_t *semaphore) { return sem_wait(semaphore); }

#endif
