// Kernel passthrough: the kernel reads, writes and maps regular files without requests to the daemon (Linux 6.9). libfuse has
// functions for it since 3.17. With an older libfuse the same messages are added where the session reads requests and writes
// replies.
#pragma once
#include "session.h"

// Requests passthrough. Call before the reply to INIT. The backing file system may itself be stacked `depth` - 1 deep. Returns
// whether the kernel offers passthrough.
int dfs_passthrough_request(struct fuse_conn_info *connection, unsigned depth);
// Registers an open file with the kernel, with the credentials of the calling thread. The kernel writes to the file with them, so
// they must be without CAP_FSETID. Returns the backing id, or -1 with errno set: EPERM without CAP_SYS_ADMIN, ELOOP when the
// file's file system is stacked too deep, EOPNOTSUPP when the file cannot be read in this way.
int dfs_backing_open(fuse_req_t request, int fd);
void dfs_backing_close(fuse_req_t request, int backing);
// As fuse_reply_open and fuse_reply_create; with a `backing` other than 0 the kernel passes the file through.
int dfs_reply_open(fuse_req_t request, struct fuse_file_info *info, int backing);
int dfs_reply_create(fuse_req_t request, const struct fuse_entry_param *entry, struct fuse_file_info *info, int backing);

// Sets the session's device, once the session is mounted.
void dfs_passthrough_set_device(int device);
