// What the files of the request loop share.
#pragma once
#include "busy_poll.h"
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// Starts a thread that blocks all signals: the thread that waits for the loop to end handles them.
static inline bool dfs_start_thread(pthread_t *thread, void *(*body)(void *)) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool has_started = pthread_create(thread, NULL, body, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return has_started;
}

// MARK: Overflow workers (overflow.c)

void dfs_overflow_begin(void);
// The calling thread has received a request, which it serves as the loop owner or as an overflow worker. Returns whether an
// overflow worker is to be called; until dfs_overflow_starts, no other is.
bool dfs_overflow_is_needed(int fd, pid_t client_tid);
// The calling thread starts as an overflow worker if one was called. Returns whether it does.
bool dfs_overflow_starts(void);
// The calling thread is an overflow worker no longer.
void dfs_overflow_ends(void);
// Whether there are overflow workers, or one is called: their reads must not block. They are called by the loop owner and by each
// other, so while the owner waits their number does not rise from 0.
bool dfs_overflow_is_active(void);
// The calling thread has served its request.
void dfs_overflow_note_served(void);
