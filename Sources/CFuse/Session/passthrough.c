#define _GNU_SOURCE
#include "passthrough.h"
#include "init.h"
#include <errno.h>
#include <linux/fuse.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int register_backing(fuse_req_t request, int fd);

int dfs_backing_open(fuse_req_t request, int fd) {
  int id = register_backing(request, fd);
  return id > 0 ? id : -1;
}

#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17)

int dfs_passthrough_request(struct fuse_conn_info *connection, unsigned depth) {
  // libfuse does not count the FUSE file system itself here.
  connection->max_backing_stack_depth = depth - 1;
  return fuse_set_feature_flag(connection, FUSE_CAP_PASSTHROUGH);
}

static int register_backing(fuse_req_t request, int fd) { return fuse_passthrough_open(request, fd); }

void dfs_backing_close(fuse_req_t request, int backing) { fuse_passthrough_close(request, backing); }

int dfs_reply_open(fuse_req_t request, struct fuse_file_info *info, int backing) {
  info->backing_id = backing;
  return fuse_reply_open(request, info);
}

int dfs_reply_create(fuse_req_t request, const struct fuse_entry_param *entry, struct fuse_file_info *info, int backing) {
  info->backing_id = backing;
  return fuse_reply_create(request, entry, info);
}

void dfs_passthrough_set_device(int device) { (void)device; }

#else

// Declarations that the distribution's linux/fuse.h may not have yet (protocol 7.40).
enum { OPEN_PASSTHROUGH = 1u << 7 };
static const uint64_t INIT_PASSTHROUGH = 1ull << 37;
struct backing_map {
  int32_t fd;
  uint32_t flags;
  uint64_t padding;
};
#define BACKING_OPEN _IOW(FUSE_DEV_IOC_MAGIC, 1, struct backing_map)
#define BACKING_CLOSE _IOW(FUSE_DEV_IOC_MAGIC, 2, uint32_t)
struct open_out {
  uint64_t handle;
  uint32_t flags;
  int32_t backing;
};

static int device = -1;

void dfs_passthrough_set_device(int fd) { device = fd; }

int dfs_passthrough_request(struct fuse_conn_info *connection, unsigned depth) {
  (void)connection;
  if (!dfs_init_capable(INIT_PASSTHROUGH)) return 0;
  dfs_init_allow_depth(depth);
  dfs_init_request(INIT_PASSTHROUGH);
  return 1;
}

static int register_backing(fuse_req_t request, int fd) {
  (void)request;
  struct backing_map map = {.fd = fd};
  return ioctl(device, BACKING_OPEN, &map);
}

void dfs_backing_close(fuse_req_t request, int backing) {
  (void)request;
  uint32_t id = (uint32_t)backing;
  ioctl(device, BACKING_CLOSE, &id);
}

static struct open_out opened(const struct fuse_file_info *info, int backing) {
  uint32_t flags = OPEN_PASSTHROUGH | (info->noflush ? FOPEN_NOFLUSH : 0) | (info->direct_io ? FOPEN_DIRECT_IO : 0);
  return (struct open_out){info->fh, flags, backing};
}

int dfs_reply_open(fuse_req_t request, struct fuse_file_info *info, int backing) {
  if (!backing) return fuse_reply_open(request, info);
  struct open_out out = opened(info, backing);
  return fuse_reply_iov(request, &(struct iovec){&out, sizeof out}, 1);
}

static uint32_t fraction(double seconds) { return (uint32_t)((seconds - (double)(uint64_t)seconds) * 1e9); }

int dfs_reply_create(fuse_req_t request, const struct fuse_entry_param *entry, struct fuse_file_info *info, int backing) {
  if (!backing) return fuse_reply_create(request, entry, info);
  const struct stat *status = &entry->attr;
  struct {
    struct fuse_entry_out entry;
    struct open_out open;
  } out = {
      .entry = {.nodeid = entry->ino,
                .generation = entry->generation,
                .entry_valid = (uint64_t)entry->entry_timeout,
                .attr_valid = (uint64_t)entry->attr_timeout,
                .entry_valid_nsec = fraction(entry->entry_timeout),
                .attr_valid_nsec = fraction(entry->attr_timeout),
                .attr = {.ino = status->st_ino,
                         .size = (uint64_t)status->st_size,
                         .blocks = (uint64_t)status->st_blocks,
                         .atime = (uint64_t)status->st_atim.tv_sec,
                         .mtime = (uint64_t)status->st_mtim.tv_sec,
                         .ctime = (uint64_t)status->st_ctim.tv_sec,
                         .atimensec = (uint32_t)status->st_atim.tv_nsec,
                         .mtimensec = (uint32_t)status->st_mtim.tv_nsec,
                         .ctimensec = (uint32_t)status->st_ctim.tv_nsec,
                         .mode = status->st_mode,
                         .nlink = (uint32_t)status->st_nlink,
                         .uid = status->st_uid,
                         .gid = status->st_gid,
                         .rdev = (uint32_t)status->st_rdev,
                         .blksize = (uint32_t)status->st_blksize}},
      .open = opened(info, backing),
  };
  return fuse_reply_iov(request, &(struct iovec){&out, sizeof out}, 1);
}

#endif
