// The daemon's side of displayfs-passthrough, which registers files with the kernel for a daemon without CAP_SYS_ADMIN.
#pragma once
#include <sys/types.h>

struct dfs_helper {
  // The daemon's end of the socket pair; -1 when there is no helper, or it no longer answers.
  int socket;
  pid_t process;
};

// Starts the program at `path` for a session; `device` is the /dev/fuse of that. 0, or an errno: EPERM when it has no right to
// register files.
int dfs_helper_start(struct dfs_helper *helper, const char *path, int device);
// Registers an opened file. The backing id, or -1 with the reason in errno: EPIPE when the helper has ended or does not answer.
// No two calls at a time.
int dfs_helper_register(struct dfs_helper *helper, int fd);
void dfs_helper_unregister(struct dfs_helper *helper, int backing);
// Ends it. What is registered stays so until the connection ends.
void dfs_helper_end(struct dfs_helper *helper);
