// The request loop: how the workers of a session share the reading of /dev/fuse.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// MARK: The loop (receiving.c)

// To be called before and after a session's loop, which has at most `threads` workers.
void dfs_receive_begin(unsigned threads);
void dfs_receive_end(void);
// Receives the next request for the calling thread, which has served the one before. As read(2), but no cancellation point. From
// the end of the session on it fails with EINTR, except in the thread that found the end or an error that ends the session.
ssize_t dfs_receive(int fd, void *buffer, size_t size);
// Whether a WRITE of cached pages has been received and is not served yet. libfuse drops what a worker has just received when the
// session ends.
bool dfs_receive_writes_pages(void);
// Ends the session, although requests are still being served. To be called between dfs_receive_begin and dfs_receive_end, with a
// handler for SIGURG, again and again until the loop has ended.
void dfs_receive_stop(void);

// The protocol's file handle (`fh`) is a pointer to this.
struct dfs_open {
  void *object;
  // The user that opened it.
  uint32_t client_uid;
  // How many descriptors count for that user, and whether they are among those reserved for listing.
  uint16_t descriptors;
  bool is_for_listing;
};

// MARK: Following the client's CPU (affinity.c)

// Where the loop owner and the client run.
enum dfs_place {
  DFS_REMOTE_CPU,
  DFS_SAME_CPU,
  // On one CPU, with a single client for a while, a request that arrived in time, and expensive wakeups on other CPUs: client and
  // worker alternate, and should stay together.
  DFS_PING_PONG,
};

// Whether the client thread of the request just received runs on the calling thread's CPU, as last looked up. Now and then this
// starts such a lookup, or moves the calling thread to the CPU found. With `client_tid` 0, for a request without a client, the
// last lookup counts. `slept` is the time in nanoseconds that the calling thread was blocked until the request arrived, 0 where
// that is not known. Not thread-safe: only the loop owner calls this.
enum dfs_place dfs_follow_client_cpu(pid_t client_tid, uint64_t slept, bool wakeup_is_expensive);

// MARK: Idle-priority wakeup (idle_priority.c)

// Tests whether this process may set SCHED_IDLE and leave it again. Call once, before any thread calls `dfs_idle_priority`.
void dfs_idle_priority_begin(void);
// Sets the calling thread's policy to SCHED_IDLE, or back to SCHED_OTHER. The thread must not sleep with SCHED_IDLE. Returns
// whether the thread has SCHED_IDLE afterwards: never where the process may not, while it is not allowed, or while another thread
// has it.
bool dfs_idle_priority(bool on);
// Sets whether threads may set SCHED_IDLE from now on. At first they may not.
void dfs_idle_priority_allow(bool is_allowed);
// Called by the watchdog at each tick: restores the policy of a thread that has made no progress since the last tick, and allows
// SCHED_IDLE to none. Returns whether any thread had SCHED_IDLE.
bool dfs_idle_priority_tick(void);
