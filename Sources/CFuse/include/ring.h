// Requests that come by io_uring instead of being read from the device (Linux 6.14, where fuse.enable_uring is set).
#pragma once
#include "session.h"
#include <stdbool.h>

// Asks for it, to be called while INIT is answered, by the thread that answers. Answers must then be copied, not spliced. False
// where the kernel does not offer it, or not to this process. No place is made with the first descriptor that is kept, nor with a
// later one.
bool dfs_ring_want(int first_kept_descriptor);
// Once INIT is answered: has the requests of a session come so, if that was asked for. Forgetting and interrupting still come by
// the device; everything does where something is missing, such as threads.
void dfs_ring_begin(struct fuse_session *session, int device);
// Waits for the requests that are being answered. Others that have come go unanswered.
void dfs_ring_end(void);
// Whether requests come so.
bool dfs_ring_is_used(void);

// The kernel's INTERRUPT of a request, which comes by the device.
void dfs_ring_interrupt(uint64_t unique);

// Called by the session.
// Whether this answers what the calling thread was asked by io_uring.
bool dfs_ring_asked(const struct iovec *pieces);
// As writev(2).
ssize_t dfs_ring_answer(const struct iovec *pieces, int count);
