#define _GNU_SOURCE
#include "CBench.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LARGEST_WRITE = 4096, REQUEST_SIZE = FUSE_MIN_READ_BUFFER + LARGEST_WRITE };

static const struct fuse_init_out greeting = {
    .major = FUSE_KERNEL_VERSION, .minor = 31, .max_readahead = 4096, .max_write = LARGEST_WRITE, .time_gran = 1};

// The attribute timeout is 0, so the kernel caches no attributes.
static const struct fuse_attr_out root = {.attr = {.ino = FUSE_ROOT_ID, .mode = S_IFDIR | 0755, .nlink = 2}};

static ssize_t reply(int device, uint64_t unique, int error, const void *body, size_t size) {
  struct fuse_out_header header = {.len = (uint32_t)(sizeof header + size), .error = -error, .unique = unique};
  struct iovec parts[] = {{&header, sizeof header}, {(void *)body, size}};
  return writev(device, parts, size ? 2 : 1);
}

static void serve(int device, const struct fuse_in_header *request) {
  switch (request->opcode) {
    case FUSE_INIT: reply(device, request->unique, 0, &greeting, sizeof greeting); break;
    case FUSE_GETATTR: reply(device, request->unique, 0, &root, sizeof root); break;
    // These requests have no reply.
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT: break;
    default: reply(device, request->unique, ENOSYS, NULL, 0);
  }
}

int bench_serve_smallest(const char *mount_point) {
  int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (device < 0) return errno;
  char options[100];
  snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", device);
  if (mount("smallest", mount_point, "fuse.smallest", MS_NOSUID | MS_NODEV, options)) return errno;
  _Alignas(struct fuse_in_header) char request[REQUEST_SIZE];
  for (;;) {
    ssize_t size = read(device, request, sizeof request);
    if (size >= (ssize_t)sizeof(struct fuse_in_header)) {
      serve(device, (const struct fuse_in_header *)request);
    } else if (size < 0 && errno != EINTR && errno != ENOENT) {
      // ENOENT: a request was interrupted before it was read. ENODEV: the mount was unmounted.
      return errno == ENODEV ? 0 : errno;
    }
  }
}
