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

// openat that never follows a symlink in the last component, with O_CLOEXEC.
int dfs_openat(int dir, const char *name, int flags, mode_t mode);
// openat2 with RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV: several components, none a
// symlink and none a mount point. Behind a mount point may be the daemon's own mount, on which the daemon must not wait.
int dfs_open_beneath(int dir, const char *path, int flags);
// Opens a path that leads through no symlink, else -1 with ELOOP. Returns a descriptor or -1. (openat2, RESOLVE_NO_SYMLINKS)
int dfs_open_without_symlinks(const char *path, int flags);
// The directory above, as O_PATH. Where another file system is mounted on that directory, -1 with EXDEV.
int dfs_open_parent(int dir);
// Whether the page cache has dirty pages of a file: 1, 0, or -1 where the kernel does not report it. (cachestat)
int dfs_has_dirty_pages(int fd);
// Writes the dirty pages back, and waits. Returns 0 or -1. (sync_file_range)
int dfs_write_back(int fd);
// Whether a process may have a file open for writing. `fd` must be open for reading only. For a moment the file has a lease,
// which only its owner and CAP_LEASE can set: meanwhile an open for writing with O_NONBLOCK fails (EWOULDBLOCK), and any other
// waits. SIGIO must be ignored. (fcntl(2), F_SETLEASE)
bool dfs_may_be_open_for_writing(int fd);
// faccessat2 with the credentials of the calling thread, without following a symlink; an empty name is `dir` itself. Not glibc's
// faccessat, which checks the real user of the process where the kernel (before Linux 5.8) or a system call filter does not know
// faccessat2: here that is ENOSYS.
int dfs_check_access(int dir, const char *name, int access);
// Fails for an entry that no user, not even root, may remove: with EPERM where it is immutable or append-only (chattr(1)) and the
// file system reports that, with EBUSY where something is mounted on it (from Linux 5.8 on). Sends no request to a file system that
// is mounted at the name.
int dfs_check_removable(int dir, const char *name);
// fstatat that never follows a symlink, and sends no request to a file system that is mounted at the name. (AT_STATX_DONT_SYNC)
// Puts a digest of the birth time and the subvolume, 16 bits, into the first reserved word of struct stat, which has no field for
// it, and whether the subvolume is known into the second. They are 0 where the file system keeps no birth time, and in a status
// from any other function.
int dfs_cached_status(int dir, const char *name, struct stat *out);
// fstatat that never follows a symlink, and has the client of a network file system request the status from the server. An empty
// name is `dir` itself. (AT_STATX_FORCE_SYNC)
int dfs_latest_status(int dir, const char *name, struct stat *out);
// The birth time of an open file. Returns 1, 0 where its file system keeps none, or -1. (STATX_BTIME)
int dfs_birth_time(int fd, struct timespec *out);
// Opens once more the file of an open descriptor or of an O_PATH descriptor.
int dfs_reopen(int fd, int flags);
// Opens the mount at a path. The descriptor does not keep the mount busy where that is allowed (a detached clone of the mount;
// needs CAP_SYS_ADMIN), else it does until it is closed.
int dfs_open_mount(const char *path);
pid_t dfs_gettid(void);
// Waits until a thread wakes this one, if the word still has that value. May return before. Keeps errno. (FUTEX_WAIT)
void dfs_futex_wait(const void *word, uint32_t value);
// Wakes one of the threads that wait for the word. Keeps errno. (FUTEX_WAKE)
void dfs_futex_wake_one(const void *word);
// Binds the calling thread to one CPU, if the first thread of the process may run there.
void dfs_run_on(unsigned processor);
// Lets malloc(3) have so many arenas, each with a lock (mallopt(3), M_ARENA_MAX). Call before threads start.
void dfs_allow_arenas(int count);

// Gives the calling thread the CPU affinity, the policy and the nice value of the first thread of the process. It has inherited
// those of its creator, which may be bound to a CPU, or have a lower or a higher priority.
void dfs_run_as_first_thread(void);
ssize_t dfs_getdents(int fd, void *buffer, size_t size);
int dfs_renameat(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);
// Appends at the end that a file has by then, whether or not it was opened with O_APPEND. (pwritev2, RWF_APPEND)
ssize_t dfs_append(int fd, const void *bytes, size_t count);
int dfs_fallocate(int fd, int mode, off_t offset, off_t length);
ssize_t dfs_copy_file_range(int from, off_t from_offset, int to, off_t to_offset, size_t length, unsigned flags);
int dfs_ofd_lock(int fd, int command, void *flock);
int dfs_flock(int fd, int operation);
// Makes a file in memory, opened for reading and writing. (memfd_create(2))
int dfs_memory_file(const char *name);
// f_type of statfs(2), 0 on an error.
uint32_t dfs_file_system_magic(int fd);
int dfs_syncfs(int fd);
int dfs_empty_path_link(int fd, int to_dir, const char *to);

// Makes a fanotify group. Its events name a directory and an entry. The number of its marks is unlimited (needs CAP_SYS_ADMIN, Linux
// 5.9), or limited to what a user may have (fs.fanotify.max_user_marks, Linux 5.13).
int dfs_fanotify_new(bool is_unlimited);
// The number of bytes of queued events; with fanotify, those of the event headers. (FIONREAD)
long dfs_queued_bytes(int queue);
// Adds a directory to a group or removes it, for events of its entries and of itself. `directory` may be an O_PATH descriptor.
int dfs_fanotify_mark(int group, int directory, uint64_t mask, int is_added);
// Excludes writes to an open file from a group's events, or includes them again. (FAN_MODIFY)
int dfs_fanotify_ignore_writing(int group, int file, int is_ignored);
// A file handle, with room for those of directories of ext4, XFS, Btrfs and tmpfs; the rest is zero.
struct dfs_handle {
  uint32_t length;
  int32_t type;
  uint64_t bytes[3];
  // The mount in which the file was found. (`mount_id` of name_to_handle_at(2))
  int mount;
};
// The handle of an entry, or of the directory itself where the name is empty. Fails with EOVERFLOW when the handle is longer.
int dfs_handle_of(int directory, const char *name, struct dfs_handle *handle);
// Opens a file; needs CAP_DAC_READ_SEARCH. `mount` is a descriptor of any file on the same file system.
int dfs_open_handle(int mount, const struct dfs_handle *handle, int flags);
// The generation of an inode of XFS; needs CAP_SYS_ADMIN. Fails with ESTALE where there is no such inode. (XFS_IOC_BULKSTAT)
int dfs_xfs_generation(int file, uint64_t inode, uint32_t *generation);

// Waits for a semaphore until a time of the monotonic clock. (`sem_clockwait`, which Swift cannot import)
// - Returns: false when that time has passed.
bool dfs_semaphore_wait(sem_t *semaphore, const struct timespec *end);

// Writes a message to the system log. The text is no format: names in it are the choice of any user. (syslog(3))
void dfs_syslog(int priority, const char *text);

// Constants that Swift cannot import, as values.
extern const int dfs_O_PATH, dfs_O_DIRECTORY, dfs_O_NOFOLLOW, dfs_O_TMPFILE, dfs_O_DIRECT, dfs_O_NOATIME;
extern const int dfs_SEEK_DATA, dfs_SEEK_HOLE, dfs_F_OFD_GETLK, dfs_F_OFD_SETLK;
extern const unsigned dfs_RENAME_NOREPLACE, dfs_RENAME_EXCHANGE;
// fork, which Swift hides, because a child is safe only in a process with one thread.
pid_t dfs_fork(void);
