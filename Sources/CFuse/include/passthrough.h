// Kernel passthrough: regular files that the kernel reads, writes and maps without asking (Linux 6.9). libfuse has calls
// for it since 3.17; with an older one the same is said to the kernel over the session's own reading and writing.
#pragma once
#include "session.h"

// Asks for passthrough, to be called while INIT is answered. The backing file system may itself be stacked `depth` - 1
// deep. Whether the kernel agrees.
int dfs_passthrough_want(struct fuse_conn_info *connection, unsigned depth);
// Registers an open file with the kernel, with the credentials of the calling thread, with which the kernel
// writes to it: they must be without CAP_FSETID. The backing id, or -1 with the reason in errno: EPERM without CAP_SYS_ADMIN, ELOOP when
// its file system is stacked too deep, EOPNOTSUPP when it cannot be read so.
int dfs_backing_open(fuse_req_t request, int fd);
void dfs_backing_close(fuse_req_t request, int backing);
// As fuse_reply_open and fuse_reply_create; a `backing` that is not 0 makes the file one that the kernel passes through.
int dfs_reply_open(fuse_req_t request, struct fuse_file_info *info, int backing);
int dfs_reply_create(fuse_req_t request, const struct fuse_entry_param *entry, struct fuse_file_info *info, int backing);

// The session's device, once it is mounted.
void dfs_passthrough_use(int device);
