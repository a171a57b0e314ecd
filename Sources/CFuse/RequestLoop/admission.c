// Admission: which requests are served now, and which are buffered.
//
// Mechanism: a request occupies its worker for as long as it takes, which is forever where a backing file system hangs. No
// request of a user may wait for another user's. So a user occupies no more workers than are left free, and of the last quarter of
// the workers only one. To occupy all of them takes a quarter as many users as there are workers, each with a request that hangs.
// Further requests of the user are buffered, first in, first out, and served when an earlier one is done. While a request of the
// user is so slow that the watchdog stole the loop from its worker, the user's further requests are served without owning the loop
// (`DFS_SERVE_WITHOUT_LOOP`).
//
// Applies: to every request but FORGET and INTERRUPT, which never block, and INIT and DESTROY.
//
// Worth: isolation of the users from each other, not speed. The table in receiving.c has no figure for it.
#define _GNU_SOURCE
#include "admission.h"
#include "loop.h"
#include "proc.h"
#include "request.h"
#include "request_loop.h"
#include <errno.h>
#include <linux/fuse.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum {
  BUCKETS = 64,
  BUFFERED_BUCKETS = 4096,
  // Bytes for each user, and for all of them; a user always has room for the least. Most requests have less than 200 bytes, but a
  // WRITE has up to 1 MiB.
  MAX_BUFFERED = 64 << 20,
  MAX_BUFFERED_OF_ALL = 512 << 20,
  LEAST_BUFFERED = 2 << 20,
  // Between two checks whether a client is being killed: each reads a file of /proc, which costs some microseconds.
  NANOSECONDS_BETWEEN_CHECKS = 20000000,
};

struct buffered {
  TAILQ_ENTRY(buffered) link;
  LIST_ENTRY(buffered) bucket;
  struct account *account;
  bool is_signalled, writes_pages;
  size_t size;
  char request[];
};

struct account {
  uid_t user;
  // Requests being served, and those of them that took so long that the watchdog stole the loop from their worker.
  int served, slow;
  TAILQ_HEAD(, buffered) buffered;
  size_t bytes;
  LIST_ENTRY(account) bucket;
  // Among the accounts that have buffered requests.
  TAILQ_ENTRY(account) waiting;
};

struct dfs_pool {
  pthread_mutex_t lock;
  int workers, served;
  LIST_HEAD(, account) buckets[BUCKETS];
  TAILQ_HEAD(, account) waiting;
  LIST_HEAD(, buffered) buffered[BUFFERED_BUCKETS];
  size_t bytes;
  LIST_HEAD(, service) services;
  // WRITEs of cached pages that are buffered or being served.
  int page_writes;
  atomic_bool has_waiting, is_ending;
};

// The request that a worker serves.
struct service {
  struct dfs_pool *pool;
  // NULL while the worker serves none.
  struct account *account;
  uint64_t unique, owner, last_check;
  pid_t client_tid;
  bool is_slow, writes_pages;
  atomic_bool is_signalled;
  LIST_ENTRY(service) link;
};
static __thread struct service own;

struct dfs_pool *dfs_pool_new(unsigned workers) {
  struct dfs_pool *pool = calloc(1, sizeof *pool);
  if (!pool) return NULL;
  pthread_mutex_init(&pool->lock, NULL);
  pool->workers = workers ? (int)workers : 1;
  TAILQ_INIT(&pool->waiting);
  return pool;
}

static bool is_counted(uint32_t opcode) {
  switch (opcode) {
  case FUSE_FORGET:
  case FUSE_BATCH_FORGET:
  case FUSE_INTERRUPT:
  case FUSE_INIT:
  case FUSE_DESTROY: return false;
  default: return true;
  }
}

// A WRITE of cached pages, which the kernel sends when it likes; NULL for any other request.
static const struct fuse_write_in *cached_write(const struct fuse_in_header *header, size_t size) {
  const struct fuse_write_in *in = (const void *)(header + 1);
  if (header->opcode != FUSE_WRITE || size < sizeof *header + sizeof *in) return NULL;
  return in->write_flags & FUSE_WRITE_CACHE ? in : NULL;
}

// The user that a request counts for. The kernel writes cached pages and releases handles without credentials (`nocreds` in
// fs/fuse): these requests count for the user that opened the handle.
static uid_t user_of(const struct fuse_in_header *header, size_t size) {
  uint64_t handle = 0;
  switch (header->opcode) {
  case FUSE_RELEASE:
  case FUSE_RELEASEDIR: {
    const struct fuse_release_in *in = (const void *)(header + 1);
    if (size >= sizeof *header + sizeof *in) handle = in->fh;
    break;
  }
  case FUSE_WRITE: {
    const struct fuse_write_in *in = cached_write(header, size);
    if (in) handle = in->fh;
    break;
  }
  default: break;
  }
  return handle ? ((const struct dfs_open *)(uintptr_t)handle)->client_uid : header->uid;
}

// MARK: Accounts, with the pool locked

// An account without requests is used for the next user of its bucket: there are as many as users with requests at a time.
static struct account *account_of(struct dfs_pool *pool, uid_t user) {
  struct account *account, *unused = NULL;
  LIST_FOREACH(account, &pool->buckets[user % BUCKETS], bucket) {
    if (account->user == user) return account;
    if (!account->served && TAILQ_EMPTY(&account->buffered)) unused = account;
  }
  if (!unused && (unused = calloc(1, sizeof *unused))) {
    TAILQ_INIT(&unused->buffered);
    LIST_INSERT_HEAD(&pool->buckets[user % BUCKETS], unused, bucket);
  }
  if (unused) unused->user = user;
  return unused;
}

static bool may_serve(const struct dfs_pool *pool, const struct account *account) {
  int left = pool->workers - pool->served;
  return left > pool->workers / 4 ? account->served < left : left > 0 && account->served == 0;
}

static bool is_interrupted(bool is_discardable);

static void begin(struct dfs_pool *pool, struct account *account, const struct fuse_in_header *header, uint64_t owner,
                  bool writes_pages, bool is_signalled) {
  account->served++;
  pool->served++;
  own = (struct service){
      .pool = pool, .account = account, .unique = header->unique, .owner = owner, .client_tid = (pid_t)header->pid,
      .writes_pages = writes_pages, .is_signalled = is_signalled};
  LIST_INSERT_HEAD(&pool->services, &own, link);
  dfs_request_begin(account->user, is_interrupted);
}

static void finish(void) {
  dfs_request_end();
  LIST_REMOVE(&own, link);
  own.pool->served--;
  own.pool->page_writes -= own.writes_pages;
  own.account->served--;
  if (own.is_slow) own.account->slow--;
  own.account = NULL;
}

// Whether a request may fail where there is no room for it. The kernel ignores the error of a RELEASE, and the handle would be kept
// for good. With a FLUSH, a process would keep its locks. What a WRITE of cached pages has to write would be lost; the kernel bounds
// the number of these pages (`BDI_CAP_STRICTLIMIT`).
static bool may_refuse(const struct fuse_in_header *header, size_t size) {
  switch (header->opcode) {
  case FUSE_FLUSH:
  case FUSE_RELEASE:
  case FUSE_RELEASEDIR: return false;
  default: return !cached_write(header, size);
  }
}

static bool has_room(const struct dfs_pool *pool, const struct account *account, size_t size) {
  size_t bytes = account->bytes + size;
  return bytes <= LEAST_BUFFERED || (bytes <= MAX_BUFFERED && pool->bytes + size <= MAX_BUFFERED_OF_ALL);
}

// The kernel counts requests in steps of two.
#define BUFFERED_OF(pool, unique) (&(pool)->buffered[(unique) / 2 % BUFFERED_BUCKETS])

static bool buffer_request(struct dfs_pool *pool, struct account *account, const void *request, size_t size) {
  if (!has_room(pool, account, size) && may_refuse(request, size)) return false;
  struct buffered *item = malloc(sizeof *item + size);
  if (!item) return false;
  *item = (struct buffered){.account = account, .size = size, .writes_pages = cached_write(request, size)};
  memcpy(item->request, request, size);
  LIST_INSERT_HEAD(BUFFERED_OF(pool, ((const struct fuse_in_header *)request)->unique), item, bucket);
  account->bytes += size;
  pool->bytes += size;
  pool->page_writes += item->writes_pages;
  if (TAILQ_EMPTY(&account->buffered)) TAILQ_INSERT_TAIL(&pool->waiting, account, waiting);
  TAILQ_INSERT_TAIL(&account->buffered, item, link);
  atomic_store(&pool->has_waiting, true);
  return true;
}

// Removes a request from the buffer. Its account is the last of those that wait from now on.
static void unbuffer(struct dfs_pool *pool, struct buffered *item) {
  struct account *account = item->account;
  LIST_REMOVE(item, bucket);
  TAILQ_REMOVE(&account->buffered, item, link);
  account->bytes -= item->size;
  pool->bytes -= item->size;
  TAILQ_REMOVE(&pool->waiting, account, waiting);
  if (!TAILQ_EMPTY(&account->buffered)) TAILQ_INSERT_TAIL(&pool->waiting, account, waiting);
  atomic_store(&pool->has_waiting, !TAILQ_EMPTY(&pool->waiting));
}

// MARK: Requests

static struct account *first_admissible(const struct dfs_pool *pool) {
  struct account *account;
  TAILQ_FOREACH(account, &pool->waiting, waiting) {
    if (may_serve(pool, account)) return account;
  }
  return NULL;
}

bool dfs_admission_leave(void) {
  if (!own.account) return false;
  struct dfs_pool *pool = own.pool;
  pthread_mutex_lock(&pool->lock);
  finish();
  bool is_any_admissible = first_admissible(pool);
  pthread_mutex_unlock(&pool->lock);
  return is_any_admissible;
}

enum dfs_admission dfs_admit(struct dfs_pool *pool, const void *request, size_t size, uint64_t owner) {
  const struct fuse_in_header *header = request;
  if (!pool || !is_counted(header->opcode)) return DFS_SERVE;
  enum dfs_admission admission = DFS_SERVE;
  pthread_mutex_lock(&pool->lock);
  struct account *account = account_of(pool, user_of(header, size));
  if (account && TAILQ_EMPTY(&account->buffered) && may_serve(pool, account)) {
    if (account->slow) admission = DFS_SERVE_WITHOUT_LOOP;
    begin(pool, account, header, account->slow ? 0 : owner, cached_write(header, size), false);
    pool->page_writes += own.writes_pages;
  } else if (account) {
    admission = buffer_request(pool, account, request, size) ? DFS_BUFFERED : DFS_REFUSED;
  }
  pthread_mutex_unlock(&pool->lock);
  return admission;
}

size_t dfs_admission_next(struct dfs_pool *pool, void *buffer) {
  if (!own.account && (!pool || !atomic_load(&pool->has_waiting))) return 0;
  struct buffered *item = NULL;
  pthread_mutex_lock(&pool->lock);
  if (own.account) finish();
  struct account *account = first_admissible(pool);
  if (account) {
    item = TAILQ_FIRST(&account->buffered);
    unbuffer(pool, item);
    begin(pool, account, (const void *)item->request, 0, item->writes_pages, item->is_signalled);
  }
  pthread_mutex_unlock(&pool->lock);
  if (!item) return 0;
  size_t size = item->size;
  memcpy(buffer, item->request, size);
  free(item);
  return size;
}

void dfs_admission_lost_loop(struct dfs_pool *pool, uint64_t owner) {
  if (!pool) return;
  pthread_mutex_lock(&pool->lock);
  struct service *service;
  LIST_FOREACH(service, &pool->services, link) {
    if (service->owner != owner || service->is_slow) continue;
    service->is_slow = true;
    service->account->slow++;
  }
  pthread_mutex_unlock(&pool->lock);
}

// MARK: Interruption

// Whether a thread is being killed or is gone. The kernel has SIGKILL pending for each thread of a process that it kills
// (`complete_signal`). (proc_pid_status(5), SigPnd)
static bool is_being_killed(pid_t thread) {
  if (thread <= 0) return false;
  char text[4096];
  if (dfs_read_proc(text, sizeof text, thread, "status") < 0) return errno == ENOENT || errno == ESRCH;
  const char *pending = strstr(text, "\nSigPnd:");
  return pending && strtoull(pending + 8, NULL, 16) & 0x100;
}

static struct buffered *buffered_request(struct dfs_pool *pool, uint64_t unique) {
  struct buffered *item;
  LIST_FOREACH(item, BUFFERED_OF(pool, unique), bucket) {
    if (((const struct fuse_in_header *)item->request)->unique == unique) return item;
  }
  return NULL;
}

// Whether a request that waits may fail with EINTR when its client gets a signal: a lock that the client waits for, as for fcntl(2),
// and most requests of a client that is being killed, which reads /proc.
static bool may_interrupt(const struct fuse_in_header *header, bool may_refuse) {
  return header->opcode == FUSE_SETLKW || (may_refuse && is_being_killed((pid_t)header->pid));
}

enum dfs_interruption dfs_admission_interrupt(struct dfs_pool *pool, uint64_t unique) {
  if (!pool) return DFS_NOT_BUFFERED;
  bool is_dropped = false;
  for (;;) {
    pthread_mutex_lock(&pool->lock);
    struct service *service;
    LIST_FOREACH(service, &pool->services, link) {
      if (service->unique == unique) break;
    }
    if (service) atomic_store(&service->is_signalled, true);
    struct buffered *item = service ? NULL : buffered_request(pool, unique);
    struct fuse_in_header header = {0};
    bool is_refusable = false;
    if (item) {
      item->is_signalled = true;
      header = *(const struct fuse_in_header *)item->request;
      is_refusable = may_refuse((const void *)item->request, item->size);
      if (is_dropped) unbuffer(pool, item);
    }
    pthread_mutex_unlock(&pool->lock);
    if (!item) return DFS_NOT_BUFFERED;
    if (is_dropped) {
      free(item);
      return DFS_DROPPED;
    }
    // Without the lock, as the other users' requests need it.
    if (!may_interrupt(&header, is_refusable)) return DFS_STILL_BUFFERED;
    is_dropped = true;
  }
}

bool dfs_admission_writes_pages(struct dfs_pool *pool) {
  if (!pool) return false;
  pthread_mutex_lock(&pool->lock);
  bool writes_pages = pool->page_writes > 0;
  pthread_mutex_unlock(&pool->lock);
  return writes_pages;
}

void dfs_admission_end(struct dfs_pool *pool) {
  if (pool) atomic_store(&pool->is_ending, true);
}

static bool is_interrupted(bool is_discardable) {
  if (is_discardable && atomic_load_explicit(&own.pool->is_ending, memory_order_relaxed)) return true;
  if (!atomic_load_explicit(&own.is_signalled, memory_order_relaxed)) return false;
  uint64_t time = dfs_nanoseconds();
  if (time - own.last_check < NANOSECONDS_BETWEEN_CHECKS) return false;
  own.last_check = time;
  return is_being_killed(own.client_tid);
}
