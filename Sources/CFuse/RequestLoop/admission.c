// Admission: which requests are served now, and which are buffered.
//
// Mechanism: a request occupies its worker for as long as it takes, which is forever where a backing file system hangs. No
// request of a user may wait for another user's. So a user occupies no more workers than are left free. Then some are always
// free, however many users reach that limit: n users occupy n parts of n + 1, and one part stays free. Further requests of the
// user are buffered, first in, first out, and served when an earlier one is done. While a request of the user is so slow that the
// watchdog stole the loop from its worker, the user's further requests are served without owning the loop (`DFS_SERVE_APART`).
//
// Applies: to every request but FORGET and INTERRUPT, which never block, and INIT and DESTROY.
//
// Worth: isolation of the users from each other, not speed. The table in receiving.c has no figure for it.
#define _GNU_SOURCE
#include "admission.h"
#include "request.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
  BUCKETS = 64,
  // Bytes for each user. Most requests have less than 200, but a WRITE has up to 1 MiB.
  MOST_BUFFERED = 64 << 20,
  // Between two checks whether a client is being killed: each reads a file of /proc, which costs some microseconds.
  NANOSECONDS_BETWEEN_LOOKS = 20000000,
};

struct buffered {
  struct buffered *next;
  size_t size;
  char request[];
};

struct account {
  uid_t user;
  // Requests being served, and those of them that took so long that the watchdog stole the loop from their worker.
  int served, slow;
  struct buffered *first, *last;
  size_t bytes;
  // The next account in the hash bucket, or in `unused`.
  struct account *next;
  // The next account that has buffered requests.
  struct account *next_waiting;
};

struct dfs_pool {
  pthread_mutex_t lock;
  int workers, served;
  struct account *buckets[BUCKETS], *unused;
  struct account *first_waiting, *last_waiting;
  struct service *services;
  atomic_bool has_waiting, is_ending;
};

// The request that a worker serves.
struct service {
  struct dfs_pool *pool;
  // NULL while the worker serves none.
  struct account *account;
  uint64_t unique, turn, last_look;
  pid_t client;
  bool is_slow;
  atomic_bool is_signalled;
  struct service *next, **link;
};
static __thread struct service own;

struct dfs_pool *dfs_pool_new(unsigned workers) {
  struct dfs_pool *pool = calloc(1, sizeof *pool);
  if (!pool) return NULL;
  pthread_mutex_init(&pool->lock, NULL);
  pool->workers = workers ? (int)workers : 1;
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
    const struct fuse_write_in *in = (const void *)(header + 1);
    if (size >= sizeof *header + sizeof *in && in->write_flags & FUSE_WRITE_CACHE) handle = in->fh;
    break;
  }
  default: break;
  }
  return handle ? ((const struct dfs_open *)(uintptr_t)handle)->client : header->uid;
}

// MARK: Accounts, with the pool locked

static struct account *account_of(struct dfs_pool *pool, uid_t user) {
  struct account **bucket = &pool->buckets[user % BUCKETS];
  for (struct account *account = *bucket; account; account = account->next) {
    if (account->user == user) return account;
  }
  struct account *account = pool->unused;
  if (account) pool->unused = account->next;
  else if (!(account = calloc(1, sizeof *account))) return NULL;
  account->user = user;
  account->next = *bucket;
  return *bucket = account;
}

static void drop_if_unused(struct dfs_pool *pool, struct account *account) {
  if (account->served || account->first) return;
  struct account **place = &pool->buckets[account->user % BUCKETS];
  while (*place != account) place = &(*place)->next;
  *place = account->next;
  account->next = pool->unused;
  pool->unused = account;
}

static bool may_serve(const struct dfs_pool *pool, const struct account *account) {
  int left = pool->workers - pool->served;
  return left > 0 && (account->served == 0 || account->served < left);
}

static bool is_interrupted(bool is_for_reply_alone);

static void begin(struct dfs_pool *pool, struct account *account, const struct fuse_in_header *header, uint64_t turn) {
  account->served++;
  pool->served++;
  own.pool = pool;
  own.account = account;
  own.unique = header->unique;
  own.turn = turn;
  own.client = (pid_t)header->pid;
  own.is_slow = false;
  own.last_look = 0;
  own.next = pool->services;
  if (own.next) own.next->link = &own.next;
  own.link = &pool->services;
  pool->services = &own;
  dfs_request_begin(account->user, is_interrupted);
}

static void finish(void) {
  dfs_request_end();
  struct account *account = own.account;
  own.account = NULL;
  atomic_store_explicit(&own.is_signalled, false, memory_order_relaxed);
  *own.link = own.next;
  if (own.next) own.next->link = own.link;
  account->served--;
  own.pool->served--;
  if (own.is_slow) account->slow--;
  drop_if_unused(own.pool, account);
}

static bool buffer_request(struct dfs_pool *pool, struct account *account, const void *request, size_t size) {
  if (account->bytes + size > MOST_BUFFERED) return false;
  struct buffered *item = malloc(sizeof *item + size);
  if (!item) return false;
  item->next = NULL;
  item->size = size;
  memcpy(item->request, request, size);
  account->bytes += size;
  if (account->first) {
    account->last->next = item;
  } else {
    account->first = item;
    account->next_waiting = NULL;
    if (pool->first_waiting) pool->last_waiting->next_waiting = account;
    else pool->first_waiting = account;
    pool->last_waiting = account;
    atomic_store(&pool->has_waiting, true);
  }
  account->last = item;
  return true;
}

// Removes an account from the queue of those that have buffered requests; appends it again if it still has one.
static void requeue(struct dfs_pool *pool, struct account *account) {
  struct account *before = NULL;
  for (struct account *it = pool->first_waiting; it != account; it = it->next_waiting) before = it;
  if (before) before->next_waiting = account->next_waiting;
  else pool->first_waiting = account->next_waiting;
  if (pool->last_waiting == account) pool->last_waiting = before;
  account->next_waiting = NULL;
  if (account->first) {
    if (pool->first_waiting) pool->last_waiting->next_waiting = account;
    else pool->first_waiting = account;
    pool->last_waiting = account;
  }
  atomic_store(&pool->has_waiting, pool->first_waiting != NULL);
}

static struct buffered *take_buffered(struct dfs_pool *pool, struct account *account, struct buffered *before) {
  struct buffered **place = before ? &before->next : &account->first;
  struct buffered *item = *place;
  *place = item->next;
  if (account->last == item) account->last = before;
  account->bytes -= item->size;
  if (!before) requeue(pool, account);
  return item;
}

// MARK: Requests

void dfs_admission_leave(void) {
  if (!own.account) return;
  struct dfs_pool *pool = own.pool;
  pthread_mutex_lock(&pool->lock);
  finish();
  pthread_mutex_unlock(&pool->lock);
}

enum dfs_admission dfs_admit(struct dfs_pool *pool, const void *request, size_t size, uint64_t turn) {
  const struct fuse_in_header *header = request;
  if (!pool || !is_counted(header->opcode)) return DFS_SERVE;
  enum dfs_admission admission = DFS_SERVE;
  pthread_mutex_lock(&pool->lock);
  struct account *account = account_of(pool, user_of(header, size));
  if (account) {
    if (!account->first && may_serve(pool, account)) {
      if (account->slow) {
        admission = DFS_SERVE_APART;
        turn = 0;
      }
      begin(pool, account, header, turn);
    } else {
      admission = buffer_request(pool, account, request, size) ? DFS_BUFFERED : DFS_REFUSED;
      drop_if_unused(pool, account);
    }
  }
  pthread_mutex_unlock(&pool->lock);
  return admission;
}

size_t dfs_admission_next(struct dfs_pool *pool, void *buffer) {
  if (!own.account && (!pool || !atomic_load(&pool->has_waiting))) return 0;
  struct buffered *item = NULL;
  pthread_mutex_lock(&pool->lock);
  if (own.account) finish();
  struct account *account = pool->first_waiting;
  while (account && !may_serve(pool, account)) account = account->next_waiting;
  if (account) {
    item = take_buffered(pool, account, NULL);
    begin(pool, account, (const void *)item->request, 0);
  }
  pthread_mutex_unlock(&pool->lock);
  if (!item) return 0;
  size_t size = item->size;
  memcpy(buffer, item->request, size);
  free(item);
  return size;
}

void dfs_admission_lost_loop(struct dfs_pool *pool, uint64_t turn) {
  if (!pool) return;
  pthread_mutex_lock(&pool->lock);
  for (struct service *service = pool->services; service; service = service->next) {
    if (service->turn != turn || service->is_slow) continue;
    service->is_slow = true;
    service->account->slow++;
  }
  pthread_mutex_unlock(&pool->lock);
}

// MARK: Interruption

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

// Whether a thread is being killed or is gone. The kernel has SIGKILL pending for each thread of a process that it kills
// (`complete_signal`). (proc_pid_status(5), SigPnd)
static bool is_being_killed(pid_t thread) {
  if (thread <= 0) return false;
  char path[32], text[4096];
  snprintf(path, sizeof path, "/proc/%d/status", (int)thread);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno == ENOENT;
  ssize_t count = read(file, text, sizeof text - 1);
  close(file);
  if (count <= 0) return true;
  text[count] = 0;
  const char *pending = strstr(text, "\nSigPnd:");
  return pending && strtoull(pending + 8, NULL, 16) & 0x100;
}

static struct service *service_of(struct dfs_pool *pool, uint64_t unique) {
  struct service *service = pool->services;
  while (service && service->unique != unique) service = service->next;
  return service;
}

static bool drop_buffered(struct dfs_pool *pool, uint64_t unique) {
  for (struct account *account = pool->first_waiting; account; account = account->next_waiting) {
    struct buffered *before = NULL;
    for (struct buffered *item = account->first; item; before = item, item = item->next) {
      const struct fuse_in_header *header = (const void *)item->request;
      if (header->unique != unique) continue;
      if (!is_being_killed((pid_t)header->pid)) return false;
      free(take_buffered(pool, account, before));
      drop_if_unused(pool, account);
      return true;
    }
  }
  return false;
}

bool dfs_admission_interrupt(struct dfs_pool *pool, uint64_t unique) {
  if (!pool) return false;
  bool is_dropped = false;
  // Reading /proc is a cancellation point, and a worker that is cancelled there would leave the lock held.
  int before;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  pthread_mutex_lock(&pool->lock);
  struct service *service = service_of(pool, unique);
  if (service) atomic_store(&service->is_signalled, true);
  else is_dropped = drop_buffered(pool, unique);
  pthread_mutex_unlock(&pool->lock);
  pthread_setcancelstate(before, NULL);
  return is_dropped;
}

void dfs_admission_end(struct dfs_pool *pool) {
  if (pool) atomic_store(&pool->is_ending, true);
}

static bool is_interrupted(bool is_for_reply_alone) {
  if (is_for_reply_alone && atomic_load_explicit(&own.pool->is_ending, memory_order_relaxed)) return true;
  if (!atomic_load_explicit(&own.is_signalled, memory_order_relaxed)) return false;
  uint64_t time = now();
  if (time - own.last_look < NANOSECONDS_BETWEEN_LOOKS) return false;
  own.last_look = time;
  return is_being_killed(own.client);
}
