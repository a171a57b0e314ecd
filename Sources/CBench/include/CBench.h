#pragma once

#include <sys/types.h>

// What the benchmark needs of C: system calls that Swift cannot call, and the structures of linux/fuse.h.

// Gives the calling thread alone the user, the group and no others, for good; what it starts inherits them. Glibc's setresuid
// would change the whole process.
//
// Returns 0, or -1 with errno set.
int bench_become(uid_t user, gid_t group);

// The number of one of the processors that the calling thread may run on, or -1 where there are not as many.
int bench_usable_processor(int index);

// Has the calling thread, and what it starts, run on one processor.
//
// Returns 0, or -1 with errno set.
int bench_stay_on(int processor);

// The smallest FUSE server: mounts an empty directory and serves it until it is unmounted. It has one thread, which reads a
// request, writes the reply and blocks in the next read, without a library, a lock or a table between. The kernel caches no
// attributes, so that each lstat of the mount point is one GETATTR request. Only root can mount it.
//
// Returns 0 after it was unmounted, or an errno.
int bench_serve_smallest(const char *mount_point);
