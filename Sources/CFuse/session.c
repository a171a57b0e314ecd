#define _GNU_SOURCE
#include "session.h"
#include <errno.h>

struct fuse_session *dfs_session_new(int argc, char **argv, const struct fuse_lowlevel_ops *operations, size_t size,
                                     void *userdata) {
  struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
  return fuse_session_new(&args, operations, size, userdata);
}

int dfs_session_loop(struct fuse_session *session, unsigned max_threads, int clone_fd) {
  struct fuse_loop_config *config = fuse_loop_cfg_create();
  if (!config) return -ENOMEM;
  fuse_loop_cfg_set_max_threads(config, max_threads);
  fuse_loop_cfg_set_clone_fd(config, clone_fd);
  fuse_loop_cfg_set_idle_threads(config, max_threads);
  int result = fuse_session_loop_mt(session, config);
  fuse_loop_cfg_destroy(config);
  return result;
}
