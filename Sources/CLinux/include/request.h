// The client's request that the calling thread serves. Set by the request loop, read by the file system: long work ends with its
// client, and is accounted to its user.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// The calling thread serves a request of that user from now on. `is_interrupted` is called by this thread: whether the client is
// being killed, or the session ends and the work is for the reply alone.
void dfs_request_begin(uid_t user, bool (*is_interrupted)(bool is_discardable));
void dfs_request_end(void);

// Whether the calling thread is to give up the request that it serves.
bool dfs_request_is_interrupted(void);
// Says whether what the calling thread does now is for the reply to its request alone. Returns what was said before.
bool dfs_request_set_discardable(bool is);
// The user that the request belongs to which the calling thread serves; -1 when it serves none, or one that admission does not
// count (FORGET, INTERRUPT, INIT, DESTROY).
int64_t dfs_request_user(void);
