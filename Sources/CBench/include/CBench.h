#pragma once

#include <sys/types.h>

// The benchmark's C code: system calls that Swift cannot call, and the structures of linux/fuse.h.

// Gives the calling thread alone the user and the group, and no supplementary groups, for good; its children inherit them.
// Glibc's setresuid would change the whole process.
//
// Returns 0, or -1 with errno set.
int bench_become(uid_t user, gid_t group);

// The number of the `index`th CPU, from 0, on which the calling thread may run, or -1 where there are fewer.
int bench_usable_processor(int index);

// Binds the calling thread, and its children, to one CPU.
//
// Returns 0, or -1 with errno set.
int bench_stay_on(int processor);

// The smallest FUSE server: mounts an empty directory and serves it until it is unmounted. Its only thread reads a request,
// writes the reply and blocks in the next read, without a library, a lock or a table. The kernel caches no attributes, so each
// lstat of the mount point is one GETATTR request. Only root can mount it.
//
// Returns 0 after the mount was unmounted, or an errno.
int bench_serve_smallest(const char *mount_point);
