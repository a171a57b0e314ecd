// Here each processor has a queue of its own: who asks is answered where it runs, and those who ask at the same time do not wake
// each other's processors. A thread has one place in the queue of one processor. The kernel gives a request to the place that
// became free last, so that one thread answers as long as it is in time; while it is busy the next request goes to another. Who
// takes a place has another thread made before none is free, so that nobody waits for what takes long.
#define _GNU_SOURCE
#include "ring.h"
#include "admission.h"
#include "init.h"
#include "submission.h"
#include "syscalls.h"
#include <errno.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

// What linux/fuse.h of the distribution may not have yet (protocol 7.42).
static const uint64_t INIT_OVER_IO_URING = 1ull << 41;
enum { REGISTER = 1, COMMIT_AND_FETCH = 2 };
// What comes beside the payload of a request, and of its answer.
struct headers {
  union {
    struct fuse_in_header in;
    struct fuse_out_header out;
    char room[128];
  };
  char operation[128];
  uint64_t flags, commit_id;
  uint32_t payload_size, padding;
  uint64_t reserved;
};
struct command {
  uint64_t flags, commit_id;
  uint16_t queue;
};

enum {
  // Of a queue. They are made when they are needed; each takes a descriptor.
  MOST_PLACES = 1024,
  // Those that nobody needs yet. A request that finds none waits until another one has been answered on its processor, as only then
  // the kernel looks for it, even if there is a new place meanwhile.
  FREE_PLACES = 2,
  MOST_QUEUES = 1024,
  // What a completion tells of.
  REQUEST = 1,
  ENDING = 2,
  PAGE = 4096,
  // Names and attributes need less; only what is written to a file can be more.
  COPY_SIZE = 1 << 17,
};

struct place {
  uint16_t queue;
  struct dfs_submission submission;
  struct headers *headers;
  char *copy, *payload;
  struct iovec buffers[2];
  // The request that is being answered, 0 when none is.
  uint64_t asked;
};

// Opened while that can still be declined. It has no place; the kernel refuses what it registers, and then uses the device.
static struct dfs_submission refused;
static bool is_wanted, has_begun;
static atomic_bool is_used, has_ended;
static struct fuse_session *session;
static int device, ending;
// The first of the descriptors that no place may take: with the last ones names are looked up.
static int first_kept;
static uint16_t queues;
// Of each queue: the threads there are, and those of them that are not busy.
static struct {
  atomic_int places, free;
  struct dfs_pool *pool;
} counts[MOST_QUEUES];
// All threads, and those that have registered their place. Whoever changes one of them tells.
static atomic_int threads, registered;
static sem_t told;
static __thread struct place *own;

static bool submit_command(struct place *place, uint32_t operation, uint64_t commit_id) {
  struct io_uring_sqe *entry = dfs_submission_next(&place->submission);
  entry->opcode = IORING_OP_URING_CMD;
  entry->fd = device;
  entry->user_data = REQUEST;
  entry->cmd_op = operation;
  if (operation == REGISTER) {
    entry->addr = (uintptr_t)place->buffers;
    entry->len = 2;
  }
  struct command command = {.commit_id = commit_id, .queue = place->queue};
  memcpy(entry->cmd, &command, sizeof command);
  if (!dfs_submit(&place->submission)) return false;
  // What the kernel refuses is complete at once.
  const struct io_uring_cqe *completion = dfs_completion(&place->submission);
  return !completion || completion->user_data != REQUEST || completion->res >= 0;
}

static bool listen_for_the_end(const struct place *place) {
  struct io_uring_sqe *entry = dfs_submission_next(&place->submission);
  entry->opcode = IORING_OP_POLL_ADD;
  entry->fd = ending;
  entry->poll32_events = POLLIN;
  entry->user_data = ENDING;
  return dfs_submit(&place->submission);
}

// Before the payload a page for the headers of a request that stays where it is.
enum { BEFORE_PAYLOAD = PAGE + COPY_SIZE + PAGE };

static bool prepare(struct place *place) {
  if (!dfs_submission_open(&place->submission)) return false;
  if (place->submission.fd >= first_kept) {
    dfs_submission_close(&place->submission);
    return false;
  }
  size_t size = dfs_init_payload();
  int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  char *memory = mmap(NULL, BEFORE_PAYLOAD + size, PROT_READ | PROT_WRITE, kind, -1, 0);
  if (memory == MAP_FAILED) {
    dfs_submission_close(&place->submission);
    return false;
  }
  place->headers = (void *)memory;
  place->copy = memory + PAGE;
  place->payload = memory + BEFORE_PAYLOAD;
  place->buffers[0] = (struct iovec){place->headers, sizeof *place->headers};
  place->buffers[1] = (struct iovec){place->payload, size};
  return true;
}

static void discard(struct place *place) {
  dfs_submission_close(&place->submission);
  munmap(place->headers, BEFORE_PAYLOAD + place->buffers[1].iov_len);
}

// Waits for a request. False when no more will come.
static bool request_comes(const struct place *place) {
  const struct io_uring_cqe *completion = dfs_await_completion(&place->submission);
  bool is_request = completion && completion->user_data == REQUEST && completion->res >= 0;
  if (completion) dfs_drop_completion(&place->submission);
  return is_request;
}

// As the device would have given it.
static struct fuse_buf request(struct place *place) {
  const struct headers *headers = place->headers;
  size_t size = headers->in.len, before = size - headers->payload_size;
  // The answer is written over the payload, and names are looked at even after it.
  bool is_copied = size <= COPY_SIZE;
  char *start = is_copied ? place->copy : place->payload - before;
  memcpy(start, &headers->in, sizeof headers->in);
  memcpy(start + sizeof headers->in, headers->operation, before - sizeof headers->in);
  if (is_copied) memcpy(start + before, place->payload, headers->payload_size);
  place->asked = headers->in.unique;
  return (struct fuse_buf){.size = size, .mem = start};
}

static void answer_error(int error) {
  struct fuse_out_header header = {.len = sizeof header, .error = -error, .unique = own->asked};
  dfs_ring_answer(&(struct iovec){&header, sizeof header}, 1);
}

static void add_place(uint16_t queue);

static void answer(struct place *place) {
  if (atomic_fetch_sub(&counts[place->queue].free, 1) <= FREE_PLACES) add_place(place->queue);
  struct fuse_buf buffer = request(place);
  struct dfs_pool *pool = counts[place->queue].pool;
  if (dfs_admit(pool, buffer.mem, buffer.size, 0) > DFS_SERVE_APART) {
    // A request keeps its place until it is answered: the user has half of those that there may be in this queue.
    answer_error(EAGAIN);
    return;
  }
  dfs_session_received(buffer.mem, buffer.size);
  fuse_session_process_buf(session, &buffer);
  // A request that wants no answer, as to forget what a listing has told in vain: it wants the place back.
  if (place->asked) answer_error(EIO);
  dfs_admission_next(pool, NULL);
}

void dfs_ring_interrupt(uint64_t unique) {
  for (uint16_t queue = 0; atomic_load(&is_used) && queue < queues; queue++) {
    dfs_admission_interrupt(counts[queue].pool, unique);
  }
}

static bool begin(struct place *place) {
  if (!prepare(place)) return false;
  if (listen_for_the_end(place) && submit_command(place, REGISTER, 0)) return true;
  discard(place);
  return false;
}

static void count_off(uint16_t queue) {
  atomic_fetch_sub(&counts[queue].places, 1);
  atomic_fetch_sub(&counts[queue].free, 1);
  atomic_fetch_sub(&threads, 1);
  sem_post(&told);
}

static void *serve(void *queue) {
  struct place place = {.queue = (uint16_t)(uintptr_t)queue};
  own = &place;
  dfs_run_on(place.queue);
  if (begin(&place)) {
    atomic_fetch_add(&registered, 1);
    sem_post(&told);
    while (request_comes(&place)) answer(&place);
    discard(&place);
    atomic_fetch_sub(&registered, 1);
  }
  count_off(place.queue);
  return NULL;
}

static bool start(uint16_t queue) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  bool is_started = pthread_create(&thread, NULL, serve, (void *)(uintptr_t)queue) == 0;
  if (is_started) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return is_started;
}

static void add_place(uint16_t queue) {
  // Several at once may make a few more.
  if (atomic_load(&counts[queue].places) >= MOST_PLACES) return;
  atomic_fetch_add(&counts[queue].places, 1);
  atomic_fetch_add(&counts[queue].free, 1);
  atomic_fetch_add(&threads, 1);
  // Whoever ends it has counted this one or is seen.
  if (atomic_load(&has_ended) || !start(queue)) count_off(queue);
}

static bool has_places(void) {
  for (uint16_t queue = 0; queue < queues; queue++) {
    if (!atomic_load(&counts[queue].places)) return false;
  }
  return true;
}

// The processors that there can ever be (`num_possible_cpus`): the kernel has a queue for each, and keeps every request back until
// each has a place. 0 where that cannot be told: without /sys, sysconf(_SC_NPROCESSORS_CONF) counts those that are online, and
// cpumask_t of sched_getaffinity(2) has none that the process may not use.
static long possible_processors(void) {
  FILE *file = fopen("/sys/devices/system/cpu/possible", "re");
  if (!file) return 0;
  long count = 0, first, last;
  int fields;
  // "0-3,8"
  while ((fields = fscanf(file, "%ld-%ld", &first, &last)) > 0) {
    count += fields == 2 ? last - first + 1 : 1;
    if (fgetc(file) != ',') break;
  }
  fclose(file);
  return count;
}

bool dfs_ring_want(int first_kept_descriptor) {
  first_kept = first_kept_descriptor;
  long processors = possible_processors();
  if (!dfs_init_offers(INIT_OVER_IO_URING) || processors < 1 || processors > MOST_QUEUES) return false;
  is_wanted = dfs_submission_open(&refused);
  if (is_wanted) dfs_init_want(INIT_OVER_IO_URING);
  queues = (uint16_t)processors;
  return is_wanted;
}

void dfs_ring_begin(struct fuse_session *begun, int its_device) {
  if (!is_wanted) return;
  is_wanted = false;
  ending = eventfd(0, EFD_CLOEXEC);
  session = begun;
  device = its_device;
  has_begun = ending >= 0;
  atomic_store(&has_ended, false);
  sem_init(&told, 0, 0);
  for (uint16_t queue = 0; has_begun && queue < queues; queue++) {
    if (!counts[queue].pool) counts[queue].pool = dfs_pool_new(MOST_PLACES - FREE_PLACES, false);
    for (int i = 0; i < FREE_PLACES; i++) add_place(queue);
  }
  while (atomic_load(&registered) < atomic_load(&threads)) {
    while (sem_wait(&told)) {}
  }
  atomic_store(&is_used, has_places());
  // The kernel keeps every request back until each queue has a place, or until one is refused, such as this without room.
  if (!atomic_load(&is_used)) submit_command(&(struct place){.submission = refused}, REGISTER, 0);
  dfs_submission_close(&refused);
}

void dfs_ring_end(void) {
  if (!has_begun) return;
  has_begun = false;
  atomic_store(&has_ended, true);
  eventfd_write(ending, 1);
  while (atomic_load(&threads)) {
    while (sem_wait(&told)) {}
  }
  close(ending);
  atomic_store(&is_used, false);
}

bool dfs_ring_is_used(void) { return atomic_load(&is_used); }

bool dfs_ring_asked(const struct iovec *pieces) {
  const struct fuse_out_header *header = pieces[0].iov_base;
  return own && own->asked && header->unique == own->asked;
}

ssize_t dfs_ring_answer(const struct iovec *pieces, int count) {
  size_t size = 0;
  for (int i = 1; i < count; i++) {
    if (pieces[i].iov_len > own->buffers[1].iov_len - size) {
      errno = EINVAL;
      return -1;
    }
    memcpy(own->payload + size, pieces[i].iov_base, pieces[i].iov_len);
    size += pieces[i].iov_len;
  }
  memcpy(&own->headers->out, pieces[0].iov_base, sizeof own->headers->out);
  own->headers->payload_size = (uint32_t)size;
  own->asked = 0;
  // Before: the next request may come with it. What is done here after an answer keeps that waiting, and is short.
  atomic_fetch_add(&counts[own->queue].free, 1);
  if (submit_command(own, COMMIT_AND_FETCH, own->headers->commit_id)) return (ssize_t)(sizeof own->headers->out + size);
  // Nobody waits for it any more.
  errno = ENOENT;
  return -1;
}
