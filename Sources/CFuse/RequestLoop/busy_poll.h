// What a thread needs that polls for a moment before it blocks.
#pragma once
#include <stdint.h>
#include <time.h>

static inline uint64_t dfs_nanoseconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

// Leaves the processor's resources to its other hardware thread for a moment, between two polls.
static inline void dfs_pause(void) {
  for (int i = 0; i < 8; i++) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
  }
}
