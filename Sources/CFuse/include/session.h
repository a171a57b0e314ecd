// libfuse's low-level API, with what depends on its version behind functions of our own.
#pragma once
#define FUSE_USE_VERSION 314
#include <fuse3/fuse_lowlevel.h>
#include <stdint.h>

struct fuse_session *dfs_session_new(int argc, char **argv, const struct fuse_lowlevel_ops *operations, size_t size,
                                     void *userdata);
// Mounts, and sees to it that O_TMPFILE, which libfuse before 3.17 does not know, arrives as a CREATE whose flags have
// O_TMPFILE. Requests must then be read, not spliced: see that FUSE_CAP_SPLICE_READ is not wanted. 0, or -1.
int dfs_session_mount(struct fuse_session *session, const char *mount_point);
// Prints the versions of libfuse, of the protocol it speaks with the kernel, and of fusermount3, a line each.
void dfs_print_fuse_versions(void);
// Serves requests with several threads until the session ends. 0, or a negative errno.
int dfs_session_loop(struct fuse_session *session, unsigned max_threads, int clone_fd);
// FUSE_NOTIFY_INVAL_ENTRY: drops the dentry of a name, or with FUSE_EXPIRE_ONLY has it looked up again. Before Linux 6.2 the
// flag is ignored. Waits for the directory's inode lock. 0, or an errno: ENOENT when the kernel has no such dentry.
int dfs_notify_entry(struct fuse_session *session, uint64_t directory, const char *name, uint32_t length, int is_invalid);
// How many requests of a kind (enum fuse_opcode of linux/fuse.h) have come since the session began.
enum { DFS_OPCODES = 64 };
uint64_t dfs_request_count(unsigned opcode);
// As fuse_add_direntry, for a name without a NUL after it. How many bytes were added, 0 when there is no room.
size_t dfs_add_entry(void *buffer, size_t size, uint64_t inode, uint32_t type, int64_t next, const uint8_t *name,
                     uint32_t length);
// As fuse_add_direntry_plus, for a name of at most DFS_NAME_MAX bytes without a NUL after it. How many bytes it takes, and the
// same with room for that many.
enum { DFS_NAME_MAX = 1024 };
size_t dfs_plus_size(uint32_t length);
size_t dfs_add_entry_plus(fuse_req_t request, void *buffer, const struct fuse_entry_param *entry, int64_t next,
                          const uint8_t *name, uint32_t length);
