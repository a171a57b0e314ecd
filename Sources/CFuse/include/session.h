// libfuse's low-level API. Functions of our own hide what depends on its version.
#pragma once
#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>
#include <stdbool.h>
#include <stdint.h>

struct fuse_session *dfs_session_new(int argc, char **argv, const struct fuse_lowlevel_ops *operations, size_t size,
                                     void *userdata);
// Mounts. O_TMPFILE, which libfuse before 3.17 does not know, arrives as a CREATE whose flags include O_TMPFILE, and STATX as a
// GETATTR (statx.h). For this, requests must be read, not spliced: do not request FUSE_CAP_SPLICE_READ. Returns 0 or -1.
int dfs_session_mount(struct fuse_session *session, const char *mount_point);
// Closes the connection and unmounts nothing: the kernel lets all requests fail from then on. To be called once.
void dfs_session_disconnect(struct fuse_session *session);
// Whether the kernel still has the connection, which it ends with the mount. Not to be called after `dfs_session_disconnect`.
bool dfs_session_is_connected(struct fuse_session *session);
// Detaches the mount at a path, by fusermount3 where this user may not do it itself. Returns 0 or an errno.
int dfs_unmount_as_user(const char *mount_point);
// Prints the versions of libfuse, of its FUSE protocol, and of fusermount3, one on each line. Returns 0 or an errno.
int dfs_print_fuse_versions(void);
// Serves requests with several threads until the session ends. Returns 0 or a negative errno.
int dfs_session_loop(struct fuse_session *session, unsigned max_threads, int clone_fd);
// FUSE_NOTIFY_INVAL_ENTRY: invalidates the dentry of a name, or without `is_invalid` only expires it (FUSE_EXPIRE_ONLY), so that
// the kernel looks the name up again. Before Linux 6.2 the kernel ignores that flag. Waits for the directory's inode lock.
// Returns 0 or an errno: ENOENT when the kernel has no such dentry.
int dfs_notify_entry(struct fuse_session *session, uint64_t directory, const char *name, uint32_t length, int is_invalid);
// How many requests of an opcode (enum fuse_opcode of linux/fuse.h) have arrived since the session began.
enum { DFS_OPCODES = 64 };
uint64_t dfs_request_count(unsigned opcode);
// As fuse_add_direntry, for a name without a terminating NUL. Returns the number of bytes added, 0 when there is no room.
size_t dfs_add_entry(void *buffer, size_t size, uint64_t inode, uint32_t type, int64_t next, const uint8_t *name,
                     uint32_t length);
// As fuse_add_direntry_plus, for a name of at most DFS_NAME_MAX bytes without a terminating NUL. `dfs_plus_size` returns the size
// of the entry, for which `buffer` must have room; its name is at `dfs_plus_name_offset`.
enum { DFS_NAME_MAX = 1024 };
extern const size_t dfs_plus_name_offset;
size_t dfs_plus_size(uint32_t length);
size_t dfs_add_entry_plus(fuse_req_t request, void *buffer, const struct fuse_entry_param *entry, int64_t next,
                          const uint8_t *name, uint32_t length);
