#define _GNU_SOURCE
#include "statx.h"
#include <assert.h>
#include <linux/fuse.h>
#include <linux/stat.h>
#include <stdint.h>
#include <sys/sysmacros.h>

// In linux/fuse.h since 6.6, as the structs below.
enum { OPCODE_STATX = 52 };

struct sx_time {
  int64_t seconds;
  uint32_t nanoseconds, reserved;
};

// `struct fuse_statx_out`
struct statx_out {
  uint64_t valid_seconds;
  uint32_t valid_nanoseconds, flags;
  uint64_t spare[2];
  // `struct fuse_statx`
  uint32_t mask, block_size;
  uint64_t attributes;
  uint32_t links, user, group;
  uint16_t mode, spare0;
  uint64_t inode, size, blocks, attributes_mask;
  struct sx_time accessed, born, changed, modified;
  uint32_t special_major, special_minor, device_major, device_minor;
  uint64_t spare2[14];
};
static_assert(sizeof(struct statx_out) == 32 + 256, "the protocol's size");

static __thread bool is_statx;

void dfs_statx_read(void *request) {
  struct fuse_in_header *header = request;
  is_statx = header->opcode == OPCODE_STATX;
  // `struct fuse_statx_in` begins as `struct fuse_getattr_in`: flags, four bytes for alignment, file handle.
  if (is_statx) header->opcode = FUSE_GETATTR;
}

bool dfs_is_statx(void) { return is_statx; }

static struct sx_time sx_time(struct timespec time) {
  return (struct sx_time){.seconds = time.tv_sec, .nanoseconds = (uint32_t)time.tv_nsec};
}

int dfs_reply_statx(fuse_req_t request, const struct stat *status, const struct timespec *birth, double timeout) {
  struct statx_out out = {
      .valid_seconds = (uint64_t)timeout,
      .valid_nanoseconds = (uint32_t)((timeout - (double)(uint64_t)timeout) * 1e9),
      .mask = STATX_BASIC_STATS | (birth ? STATX_BTIME : 0),
      .block_size = (uint32_t)status->st_blksize,
      .links = (uint32_t)status->st_nlink,
      .user = status->st_uid,
      .group = status->st_gid,
      .mode = (uint16_t)status->st_mode,
      .inode = status->st_ino,
      .size = (uint64_t)status->st_size,
      .blocks = (uint64_t)status->st_blocks,
      .accessed = sx_time(status->st_atim),
      .changed = sx_time(status->st_ctim),
      .modified = sx_time(status->st_mtim),
      .special_major = major(status->st_rdev),
      .special_minor = minor(status->st_rdev),
  };
  if (birth) out.born = sx_time(*birth);
  return fuse_reply_buf(request, (const char *)&out, sizeof out);
}
