// The daemon's side of displayfs-passthrough, which registers files with the kernel for a daemon without CAP_SYS_ADMIN.
#pragma once
#include <sys/types.h>

struct dfs_helper {
  // The daemon's end of the socket pair; -1 when there is no helper, or it does not reply any more.
  int socket;
  pid_t process;
  // How many more replies are waited for without polling.
  int replies_until_poll;
};

// Starts the program at `path` for the session whose /dev/fuse is `device`. Returns 0 or an errno: EPERM when the program has no
// right to register files.
int dfs_helper_start(struct dfs_helper *helper, const char *path, int device);
// Registers an open file. Returns the backing id, or -1 with errno set: EPIPE when the helper has ended or does not reply. Not
// thread-safe: one call at a time.
int dfs_helper_register(struct dfs_helper *helper, int fd);
void dfs_helper_unregister(struct dfs_helper *helper, int backing);
// Ends the helper. Registrations last until the connection ends.
void dfs_helper_end(struct dfs_helper *helper);
