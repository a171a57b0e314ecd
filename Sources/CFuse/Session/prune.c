#define _GNU_SOURCE
#include "prune.h"
#include <errno.h>
#include <linux/fuse.h>
#include <sys/uio.h>

// In linux/fuse.h since 6.18, as the struct below.
enum { NOTIFY_PRUNE = 9 };

struct prune_out {
  uint32_t count, padding;
  uint64_t spare;
};

int dfs_notify_prune(struct fuse_session *session, const uint64_t *nodeids, uint32_t count) {
  struct prune_out out = {.count = count};
  size_t size = count * sizeof *nodeids;
  struct fuse_out_header header = {.len = (uint32_t)(sizeof header + sizeof out + size), .error = NOTIFY_PRUNE};
  struct iovec pieces[] = {{&header, sizeof header}, {&out, sizeof out}, {(void *)nodeids, size}};
  return writev(fuse_session_fd(session), pieces, 3) < 0 ? -errno : 0;
}
