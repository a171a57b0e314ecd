#define _GNU_SOURCE
#include "syscalls.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <malloc.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <syslog.h>
#include <unistd.h>

const int dfs_O_PATH = O_PATH, dfs_O_DIRECTORY = O_DIRECTORY, dfs_O_NOFOLLOW = O_NOFOLLOW;
const int dfs_O_TMPFILE = O_TMPFILE, dfs_O_DIRECT = O_DIRECT, dfs_O_NOATIME = O_NOATIME;
const int dfs_SEEK_DATA = SEEK_DATA, dfs_SEEK_HOLE = SEEK_HOLE;
const unsigned dfs_RENAME_NOREPLACE = RENAME_NOREPLACE, dfs_RENAME_EXCHANGE = RENAME_EXCHANGE;

int dfs_openat(int dir, const char *name, int flags, mode_t mode) {
  return openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC, mode);
}

int dfs_open_beneath(int dir, const char *path, int flags) {
  struct open_how how = {
      .flags = (uint64_t)(flags | O_CLOEXEC | O_NOFOLLOW),
      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
  };
  return (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
}

int dfs_open_without_symlinks(const char *path, int flags) {
  struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC), .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
  return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

int dfs_open_parent(int dir) {
  struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_XDEV};
  return (int)syscall(SYS_openat2, dir, "..", &how, sizeof how);
}

int dfs_check_access(int dir, const char *name, int access) {
  return (int)syscall(SYS_faccessat2, dir, name, access, AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH);
}

int dfs_has_dirty_pages(int fd) {
  // cachestat came with Linux 6.5, and has the same number on all architectures.
  struct {
    uint64_t offset, length;
  } whole = {0};
  struct {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } pages;
  return syscall(451, fd, &whole, &pages, 0u) ? -1 : pages.dirty != 0;
}

bool dfs_may_be_open_for_writing(int fd) {
  if (fcntl(fd, F_SETLEASE, F_RDLCK)) return true;
  fcntl(fd, F_SETLEASE, F_UNLCK);
  return false;
}

int dfs_write_back(int fd) {
  return sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

// STATX_SUBVOL and the offset of stx_subvol, which glibc 2.36 does not have.
enum { SUBVOLUME = 0x8000, SUBVOLUME_OFFSET = 0xa0 };

// The number of the Btrfs subvolume; 0 before Linux 6.10 and on other file systems.
static uint64_t subvolume_of(const struct statx *found) {
  uint64_t number = 0;
  if (found->stx_mask & SUBVOLUME) memcpy(&number, (const char *)found + SUBVOLUME_OFFSET, sizeof number);
  return number;
}

static int get_status(int dir, const char *name, int flags, struct stat *out) {
  struct statx found;
  // A FUSE file system gets another request for the birth time, unless the kernel is to send none.
  unsigned wanted = STATX_BASIC_STATS | (flags & AT_STATX_DONT_SYNC ? STATX_BTIME | SUBVOLUME : 0);
  if (statx(dir, name, flags | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH, wanted, &found) != 0) return -1;
  *out = (struct stat){
      .st_dev = makedev(found.stx_dev_major, found.stx_dev_minor),
      .st_ino = found.stx_ino,
      .st_mode = found.stx_mode,
      .st_nlink = found.stx_nlink,
      .st_uid = found.stx_uid,
      .st_gid = found.stx_gid,
      .st_rdev = makedev(found.stx_rdev_major, found.stx_rdev_minor),
      .st_size = (off_t)found.stx_size,
      .st_blksize = found.stx_blksize,
      .st_blocks = (blkcnt_t)found.stx_blocks,
      .st_atim = {found.stx_atime.tv_sec, found.stx_atime.tv_nsec},
      .st_mtim = {found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec},
      .st_ctim = {found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec},
  };
  if (found.stx_mask & wanted & STATX_BTIME) {
    uint64_t subvolume = subvolume_of(&found);
    uint64_t birth = (uint64_t)found.stx_btime.tv_sec * 1000000000 + found.stx_btime.tv_nsec;
    // A snapshot has the birth time of its origin, and Btrfs never gives the number of a subvolume to another one.
    birth += subvolume * 0xff51afd7ed558ccd;
    uint16_t digest = (uint16_t)(birth * 0x9e3779b97f4a7c15 >> 48);
    out->__glibc_reserved[0] = digest ? digest : 1;
    out->__glibc_reserved[1] = subvolume != 0;
  }
  return 0;
}

int dfs_check_removable(int dir, const char *name) {
  struct statx found;
  if (statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, 0, &found)) return -1;
  if (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) return errno = EBUSY, -1;
  if (found.stx_attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)) return errno = EPERM, -1;
  return 0;
}

int dfs_cached_status(int dir, const char *name, struct stat *out) {
  return get_status(dir, name, AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, out);
}

int dfs_latest_status(int dir, const char *name, struct stat *out) {
  return get_status(dir, name, AT_STATX_FORCE_SYNC, out);
}

int dfs_birth_time(int fd, struct timespec *out) {
  struct statx found;
  if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &found)) return -1;
  if (!(found.stx_mask & STATX_BTIME)) return 0;
  *out = (struct timespec){found.stx_btime.tv_sec, found.stx_btime.tv_nsec};
  return 1;
}

static void write_path(char *path, size_t size, int fd) { snprintf(path, size, "/proc/self/fd/%d", fd); }

int dfs_reopen(int fd, int flags) {
  char path[32];
  write_path(path, sizeof path, fd);
  return open(path, flags | O_CLOEXEC);
}

int dfs_open_mount(const char *path) {
  enum { CLONE = 1 };  // OPEN_TREE_CLONE
  int tree = (int)syscall(SYS_open_tree, AT_FDCWD, path, CLONE | O_CLOEXEC);
  return tree >= 0 ? tree : open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

void dfs_allow_arenas(int count) { mallopt(M_ARENA_MAX, count); }

pid_t dfs_gettid(void) { return gettid(); }

void dfs_futex_wait(const void *word, uint32_t value) {
  int error = errno;
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
  errno = error;
}

void dfs_futex_wake_one(const void *word) {
  int error = errno;
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  errno = error;
}

void dfs_run_on(unsigned processor) {
  cpu_set_t allowed, there;
  if (sched_getaffinity(getpid(), sizeof allowed, &allowed) || !CPU_ISSET(processor, &allowed)) return;
  CPU_ZERO(&there);
  CPU_SET(processor, &there);
  sched_setaffinity(0, sizeof there, &there);
}

void dfs_run_as_first_thread(void) {
  pid_t first = getpid();
  cpu_set_t processors;
  if (sched_getaffinity(first, sizeof processors, &processors) == 0) sched_setaffinity(0, sizeof processors, &processors);
  struct sched_param parameters;
  int policy = sched_getscheduler(first);
  if (policy >= 0 && sched_getparam(first, &parameters) == 0) sched_setscheduler(0, policy, &parameters);
  setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, (id_t)first));
}

ssize_t dfs_getdents(int fd, void *buffer, size_t size) { return syscall(SYS_getdents64, fd, buffer, size); }

int dfs_renameat(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
  return renameat2(from_dir, from, to_dir, to, flags);
}

int dfs_fallocate(int fd, int mode, off_t offset, off_t length) { return fallocate(fd, mode, offset, length); }

ssize_t dfs_append(int fd, const void *bytes, size_t count) {
  return pwritev2(fd, &(struct iovec){(void *)bytes, count}, 1, 0, RWF_APPEND);
}

ssize_t dfs_copy_file_range(int from, off_t from_offset, int to, off_t to_offset, size_t length, unsigned flags) {
  return copy_file_range(from, &from_offset, to, &to_offset, length, flags);
}

const int dfs_F_OFD_GETLK = F_OFD_GETLK, dfs_F_OFD_SETLK = F_OFD_SETLK;
int dfs_ofd_lock(int fd, int command, void *lock) { return fcntl(fd, command, lock); }
int dfs_flock(int fd, int operation) { return flock(fd, operation); }
int dfs_memory_file(const char *name) { return memfd_create(name, MFD_CLOEXEC); }
uint32_t dfs_file_system_magic(int fd) {
  struct statfs status;
  return fstatfs(fd, &status) == 0 ? (uint32_t)status.f_type : 0;
}
int dfs_syncfs(int fd) { return syncfs(fd); }

int dfs_empty_path_link(int fd, int to_dir, const char *to) {
  // AT_EMPTY_PATH needs CAP_DAC_READ_SEARCH; the path through /proc does the same without it.
  if (linkat(fd, "", to_dir, to, AT_EMPTY_PATH) == 0) return 0;
  if (errno != ENOENT && errno != EPERM) return -1;
  char path[32];
  write_path(path, sizeof path, fd);
  return linkat(AT_FDCWD, path, to_dir, to, AT_SYMLINK_FOLLOW);
}

int dfs_fanotify_new(bool is_unlimited) {
  unsigned flags = FAN_CLASS_NOTIF | FAN_REPORT_DFID_NAME | FAN_CLOEXEC | FAN_NONBLOCK;
  return fanotify_init(is_unlimited ? flags | FAN_UNLIMITED_MARKS : flags, O_RDONLY);
}

long dfs_queued_bytes(int queue) {
  int bytes;
  return ioctl(queue, FIONREAD, &bytes) == 0 ? bytes : 0;
}

int dfs_fanotify_mark(int group, int directory, uint64_t mask, int is_added) {
  unsigned flags = (is_added ? FAN_MARK_ADD : FAN_MARK_REMOVE) | FAN_MARK_ONLYDIR;
  mask |= FAN_DELETE_SELF | FAN_EVENT_ON_CHILD | FAN_ONDIR;
  int result = fanotify_mark(group, flags, mask, directory, ".");
  if (result == 0 || errno != EACCES) return result;
  // The path through /proc needs no search permission, but its walk takes three times as long as the mark itself.
  char path[32];
  write_path(path, sizeof path, directory);
  return fanotify_mark(group, flags, mask, AT_FDCWD, path);
}

int dfs_fanotify_ignore_writing(int group, int file, int is_ignored) {
  return fanotify_mark(group, (is_ignored ? FAN_MARK_ADD : FAN_MARK_REMOVE) | FAN_MARK_IGNORED_MASK | FAN_MARK_IGNORED_SURV_MODIFY,
                       FAN_MODIFY, file, NULL);
}

union handle {
  struct file_handle known;
  char room[sizeof(struct file_handle) + sizeof((struct dfs_handle *)0)->bytes];
};

int dfs_handle_of(int directory, const char *name, struct dfs_handle *handle) {
  union handle raw = {.known = {.handle_bytes = sizeof handle->bytes}};
  int mount;
  if (name_to_handle_at(directory, name, &raw.known, &mount, AT_EMPTY_PATH)) return -1;
  *handle = (struct dfs_handle){.length = raw.known.handle_bytes, .type = raw.known.handle_type, .mount = mount};
  memcpy(handle->bytes, raw.known.f_handle, handle->length);
  return 0;
}

int dfs_open_handle(int mount, const struct dfs_handle *handle, int flags) {
  union handle raw = {.known = {.handle_bytes = handle->length, .handle_type = handle->type}};
  memcpy(raw.known.f_handle, handle->bytes, handle->length);
  return open_by_handle_at(mount, &raw.known, flags | O_CLOEXEC);
}

// The start of `xfs_bulk_ireq` and of `xfs_bulkstat`. (xfs_fs.h, which is of xfslibs-dev)
struct xfs_bulk_request {
  struct {
    uint64_t ino;
    uint32_t flags, icount, ocount, agno;
    uint64_t reserved[5];
  } header;
  struct {
    uint64_t ino;
    uint64_t before_generation[7];
    uint32_t generation;
    uint32_t after_generation[31];
  } found;
};

int dfs_xfs_generation(int file, uint64_t inode, uint32_t *generation) {
  struct xfs_bulk_request request = {.header = {.ino = inode, .icount = 1}};
  // The size in the number is that of the header.
  if (ioctl(file, _IOC(_IOC_READ, 'X', 127, sizeof request.header), &request) != 0) return -1;
  if (request.header.ocount != 1 || request.found.ino != inode) {
    errno = ESTALE;
    return -1;
  }
  *generation = request.found.generation;
  return 0;
}

void dfs_syslog(int priority, const char *text) { syslog(priority, "%s", text); }

pid_t dfs_fork(void) { return fork(); }

bool dfs_semaphore_wait(sem_t *semaphore, const struct timespec *end) {
  while (sem_clockwait(semaphore, CLOCK_MONOTONIC, end) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}
