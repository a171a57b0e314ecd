// Linux calls that need _GNU_SOURCE, are variadic, or have no libc wrapper. A few lines each; errors in errno.
#pragma once
#include <malloc.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/statvfs.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/xattr.h>
#include <time.h>

// openat that never follows a symlink in the last component and never leaks into children.
int dfs_openat(int dir, const char *name, int flags, mode_t mode);
// openat2 with RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV: several components, none a
// symlink and none a mount point: behind one may be this very mount, which must not wait for itself.
int dfs_open_beneath(int dir, const char *path, int flags);
// Whether the page cache has changes of a file that have not been written back: 1, 0, or -1 where the kernel does not tell. (cachestat)
int dfs_has_dirty_pages(int fd);
// Has them written, and waits. 0, or -1. (sync_file_range)
int dfs_write_back(int fd);
// Whether a process may have a file open for writing. The descriptor must be open for reading only. For a moment it has a lease,
// which only the owner and CAP_LEASE get: an open for writing with O_NONBLOCK may meet it (EWOULDBLOCK), others wait. SIGIO must be
// ignored. (fcntl(2), F_SETLEASE)
bool dfs_may_be_open_for_writing(int fd);
// faccessat2 by the credentials of the calling thread, without following a symlink. Not glibc's faccessat, which goes by the real
// user of the process where the kernel (before Linux 5.8) or a filter of system calls does not know faccessat2: here that is ENOSYS.
int dfs_check_access(int dir, const char *name, int access);
// fstatat that never follows a symlink and requests nothing from a file system that is mounted at the name. (AT_STATX_DONT_SYNC)
int dfs_known_status(int dir, const char *name, struct stat *out);
// What an open file or an O_PATH descriptor names, opened once more.
int dfs_reopen(int fd, int flags);
// A descriptor of the mount at a path that does not keep it busy where that is allowed (a detached clone of the mount; needs
// CAP_SYS_ADMIN), else one that does until it is closed.
int dfs_open_mount(const char *path);
pid_t dfs_gettid(void);
// Has the calling thread run on one processor alone, if the first thread of the process may run there.
void dfs_run_on(unsigned processor);
// Gives the calling thread the processors, the policy and the nice value of the first thread of the process. It has inherited those
// of the thread that made it, which may keep to a processor, make room for others, or go before them.
void dfs_run_as_first_thread(void);
ssize_t dfs_getdents(int fd, void *buffer, size_t size);
int dfs_renameat(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);
// Writes at the end of a file, wherever that is by then, whether or not it was opened so. (pwritev2, RWF_APPEND)
ssize_t dfs_append(int fd, const void *bytes, size_t count);
int dfs_fallocate(int fd, int mode, off_t offset, off_t length);
ssize_t dfs_copy_file_range(int from, off_t from_offset, int to, off_t to_offset, size_t length, unsigned flags);
int dfs_ofd_lock(int fd, int command, void *flock);
int dfs_flock(int fd, int operation);
// f_type of statfs(2), 0 on an error.
uint32_t dfs_file_system_magic(int fd);
int dfs_syncfs(int fd);
int dfs_empty_path_link(int fd, int to_dir, const char *to);

// A fanotify group whose events name a directory and an entry, without limits of marks (needs CAP_SYS_ADMIN, Linux 5.9).
int dfs_fanotify_new(void);
// How many bytes of events are queued; with fanotify, those of their headers. (FIONREAD)
long dfs_queued_bytes(int queue);
// Adds a directory to a group, or takes it out: events of what is in it and of itself. The descriptor may be an O_PATH one.
int dfs_fanotify_mark(int group, int directory, uint64_t mask, int is_added);
// Leaves out of a group's events that an open file is written to, or has them told again. (FAN_MODIFY)
int dfs_fanotify_ignore_writing(int group, int file, int is_ignored);
// A file handle of at most so many bytes as ext4, XFS, Btrfs and tmpfs need for a directory; the rest is zero.
struct dfs_handle {
  uint32_t length;
  int32_t type;
  uint64_t bytes[3];
};
// EOVERFLOW when a handle is longer.
int dfs_handle_of(int directory, struct dfs_handle *handle);
// Opens a directory to name it (O_PATH); needs CAP_DAC_READ_SEARCH. `mount` is anything open on its file system.
int dfs_open_handle(int mount, const struct dfs_handle *handle);

// Waits for a semaphore until a time of the monotonic clock. (`sem_clockwait`, which Swift does not see)
// - Returns: false when that time has passed.
bool dfs_semaphore_wait(sem_t *semaphore, const struct timespec *end);

// Constants that Swift does not see, as values.
extern const int dfs_O_PATH, dfs_O_DIRECTORY, dfs_O_NOFOLLOW, dfs_O_TMPFILE, dfs_O_DIRECT, dfs_O_NOATIME;
extern const int dfs_SEEK_DATA, dfs_SEEK_HOLE;
extern const unsigned dfs_RENAME_NOREPLACE, dfs_RENAME_EXCHANGE;
// fork, which Swift hides because the child may only go on in a process that has one thread.
pid_t dfs_fork(void);
