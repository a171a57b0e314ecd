#include "request.h"
#include <stddef.h>

static __thread struct {
  uid_t user;
  // NULL while the thread serves no request.
  bool (*is_interrupted)(bool is_discardable);
  bool is_discardable;
} served;

void dfs_request_begin(uid_t user, bool (*is_interrupted)(bool)) {
  served.user = user;
  served.is_interrupted = is_interrupted;
}

void dfs_request_end(void) { served.is_interrupted = NULL; }

bool dfs_request_is_interrupted(void) { return served.is_interrupted && served.is_interrupted(served.is_discardable); }

bool dfs_request_set_discardable(bool is) {
  bool before = served.is_discardable;
  served.is_discardable = is;
  return before;
}

int64_t dfs_request_user(void) { return served.is_interrupted ? (int64_t)served.user : -1; }
