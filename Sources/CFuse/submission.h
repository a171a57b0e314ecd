// As much of io_uring(7) as is needed to wait for a few commands at a time: entries of 128 bytes, one thread that submits them.
#pragma once
#include <linux/io_uring.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dfs_submission {
  int fd;
  char *memory, *entries;
  size_t size, entries_size;
  _Atomic uint32_t *sq_tail, *cq_head, *cq_tail;
  uint32_t sq_mask, cq_mask;
  struct io_uring_cqe *completions;
};

// For the calling thread, with room for two commands. False with the reason in errno where that cannot be had.
bool dfs_submission_open(struct dfs_submission *submission);
// What was submitted ends some time later.
void dfs_submission_close(struct dfs_submission *submission);
// The entry to be submitted next, zeroed.
struct io_uring_sqe *dfs_submission_next(const struct dfs_submission *submission);
// Submits that entry. False with the reason in errno when the kernel did not take it.
bool dfs_submit(const struct dfs_submission *submission);
// The oldest completion, NULL when there is none; it stays until it is dropped.
const struct io_uring_cqe *dfs_completion(const struct dfs_submission *submission);
// The same, waiting for one. NULL with the reason in errno when that cannot be.
const struct io_uring_cqe *dfs_await_completion(const struct dfs_submission *submission);
void dfs_drop_completion(const struct dfs_submission *submission);
