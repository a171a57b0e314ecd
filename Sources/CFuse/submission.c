#define _GNU_SOURCE
#include "submission.h"
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// What linux/io_uring.h of the distribution may not have yet. (Linux 5.19, 6.0, 6.6) To defer the kernel's part of the work to when
// the thread waits (DEFER_TASKRUN) would leave what comes to a thread that was killed undone for as long as another one lives.
enum { COOP_TASKRUN = 1 << 8, SINGLE_ISSUER = 1 << 12, NO_SQARRAY = 1 << 16 };
enum { ENTRIES = 2, ENTRY_SIZE = 128 };

static void unmap(void *memory, size_t size) {
  if (memory != MAP_FAILED) munmap(memory, size);
}

bool dfs_submission_open(struct dfs_submission *submission) {
  struct io_uring_params parameters = {.flags = IORING_SETUP_SQE128 | COOP_TASKRUN | SINGLE_ISSUER | NO_SQARRAY};
  int fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &parameters);
  if (fd < 0) return false;
  submission->fd = fd;
  submission->size = parameters.cq_off.cqes + parameters.cq_entries * sizeof(struct io_uring_cqe);
  submission->entries_size = parameters.sq_entries * ENTRY_SIZE;
  int access = PROT_READ | PROT_WRITE, kind = MAP_SHARED | MAP_POPULATE;
  char *memory = submission->memory = mmap(NULL, submission->size, access, kind, fd, IORING_OFF_SQ_RING);
  submission->entries = mmap(NULL, submission->entries_size, access, kind, fd, IORING_OFF_SQES);
  if (memory == MAP_FAILED || submission->entries == MAP_FAILED) {
    int error = errno;
    dfs_submission_close(submission);
    errno = error;
    return false;
  }
  submission->sq_tail = (void *)(memory + parameters.sq_off.tail);
  submission->cq_head = (void *)(memory + parameters.cq_off.head);
  submission->cq_tail = (void *)(memory + parameters.cq_off.tail);
  submission->sq_mask = parameters.sq_entries - 1;
  submission->cq_mask = parameters.cq_entries - 1;
  submission->completions = (void *)(memory + parameters.cq_off.cqes);
  return true;
}

void dfs_submission_close(struct dfs_submission *submission) {
  unmap(submission->memory, submission->size);
  unmap(submission->entries, submission->entries_size);
  close(submission->fd);
}

static long enter(const struct dfs_submission *submission, unsigned submitted, unsigned awaited) {
  unsigned flags = awaited ? IORING_ENTER_GETEVENTS : 0;
  for (;;) {
    long result = syscall(SYS_io_uring_enter, submission->fd, submitted, awaited, flags, NULL, 0);
    if (result >= 0 || (errno != EINTR && errno != EAGAIN && errno != EBUSY)) return result;
  }
}

struct io_uring_sqe *dfs_submission_next(const struct dfs_submission *submission) {
  uint32_t tail = atomic_load_explicit(submission->sq_tail, memory_order_relaxed);
  return memset(submission->entries + (tail & submission->sq_mask) * ENTRY_SIZE, 0, ENTRY_SIZE);
}

bool dfs_submit(const struct dfs_submission *submission) {
  uint32_t tail = atomic_load_explicit(submission->sq_tail, memory_order_relaxed);
  atomic_store_explicit(submission->sq_tail, tail + 1, memory_order_release);
  return enter(submission, 1, 0) == 1;
}

const struct io_uring_cqe *dfs_completion(const struct dfs_submission *submission) {
  uint32_t head = atomic_load_explicit(submission->cq_head, memory_order_relaxed);
  bool is_empty = head == atomic_load_explicit(submission->cq_tail, memory_order_acquire);
  return is_empty ? NULL : &submission->completions[head & submission->cq_mask];
}

const struct io_uring_cqe *dfs_await_completion(const struct dfs_submission *submission) {
  for (;;) {
    const struct io_uring_cqe *oldest = dfs_completion(submission);
    if (oldest || enter(submission, 0, 1) < 0) return oldest;
  }
}

void dfs_drop_completion(const struct dfs_submission *submission) {
  uint32_t head = atomic_load_explicit(submission->cq_head, memory_order_relaxed);
  atomic_store_explicit(submission->cq_head, head + 1, memory_order_release);
}
