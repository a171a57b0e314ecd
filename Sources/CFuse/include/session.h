// libfuse's low-level API, with what depends on its version behind functions of our own.
#pragma once
#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>

struct fuse_session *dfs_session_new(int argc, char **argv, const struct fuse_lowlevel_ops *operations, size_t size,
                                     void *userdata);
// Serves requests with several threads until the session ends. 0, or a negative errno.
int dfs_session_loop(struct fuse_session *session, unsigned max_threads, int clone_fd);
