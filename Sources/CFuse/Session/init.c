#define _GNU_SOURCE
#include "init.h"
#include <linux/fuse.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

// The end of `fuse_init_out`, which the distribution's linux/fuse.h may not declare yet.
struct init_out_tail {
  uint32_t flags2, max_stack_depth;
};

static _Atomic uint64_t init_request;
static uint64_t capable, requested;
static uint32_t requested_depth;

bool dfs_init_capable(uint64_t flag) { return (capable & flag) != 0; }
void dfs_init_request(uint64_t flag) { requested |= flag & capable; }
void dfs_init_allow_depth(uint32_t depth) { requested_depth = depth; }

void dfs_init_read(const void *request, size_t size) {
  const struct fuse_in_header *header = request;
  const struct fuse_init_in *init = (const void *)(header + 1);
  if (header->opcode != FUSE_INIT || size < sizeof *header + sizeof *init) return;
  capable = init->flags | (init->flags & FUSE_INIT_EXT ? (uint64_t)init->flags2 << 32 : 0);
  requested = 0;
  requested_depth = 0;
  atomic_store(&init_request, header->unique);
}

static void add_requested(struct fuse_init_out *out) {
  out->flags |= (uint32_t)requested;
  if (requested >> 32) out->flags |= FUSE_INIT_EXT;
  struct init_out_tail tail;
  memcpy(&tail, (char *)out + offsetof(struct fuse_init_out, flags2), sizeof tail);
  tail.flags2 |= (uint32_t)(requested >> 32);
  if (requested_depth) tail.max_stack_depth = requested_depth;
  memcpy((char *)out + offsetof(struct fuse_init_out, flags2), &tail, sizeof tail);
}

void dfs_init_write(const struct iovec *pieces, int count) {
  uint64_t expected = atomic_load_explicit(&init_request, memory_order_relaxed);
  if (!expected) return;
  const struct fuse_out_header *header = pieces[0].iov_base;
  if (header->unique != expected) return;
  atomic_store(&init_request, 0);
  if (count >= 2 && pieces[1].iov_len >= sizeof(struct fuse_init_out)) add_requested(pieces[1].iov_base);
}
