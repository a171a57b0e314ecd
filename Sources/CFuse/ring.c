// Here each processor has a queue of its own: who asks is answered where it runs, and those who ask at the same time do not wake
// each other's processors. A thread has one place in the queue of one processor. The kernel gives a request to the place that
// became free last, so that one thread answers as long as it is in time; while it is busy the next request goes to another. Who
// takes the last free place makes another thread, so that nobody waits for what takes long.
#define _GNU_SOURCE
#include "ring.h"
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
#include <stdlib.h>
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
  // As many as libfuse has threads.
  MOST_PLACES = 10,
  MOST_QUEUES = 1024,
  // What a completion tells of.
  REQUEST = 1,
  ENDING = 2,
  PAGE = 4096,
  // Names and attributes need less; only what is written to a file can be more.
  COPY_SIZE = 1 << 17,
};

struct place {
  struct place *next;
  pthread_t thread;
  uint16_t queue;
  struct dfs_submission submission;
  bool is_open;
  struct headers *headers;
  char *copy, *payload;
  struct iovec buffers[2];
  // The request that is being answered, 0 when none is.
  uint64_t asked;
};

// With which places can be called off; open from the time they are wanted until they are registered.
static struct dfs_submission spare;
static bool is_wanted, has_begun;
static atomic_bool is_used;
static struct fuse_session *session;
static int device, ending;
static uint16_t queues;
static struct {
  atomic_int places, free;
} counts[MOST_QUEUES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct place *places;
static bool has_ended;
// While the first places are registered.
static sem_t registered;
static atomic_bool has_failed;
static __thread struct place *own;

static bool submit_command(struct place *place, uint32_t kind, uint64_t commit_id) {
  struct io_uring_sqe *entry = dfs_submission_next(&place->submission);
  entry->opcode = IORING_OP_URING_CMD;
  entry->fd = device;
  entry->user_data = REQUEST;
  entry->cmd_op = kind;
  if (kind == REGISTER) {
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

static bool prepare(struct place *place) {
  size_t before = PAGE + COPY_SIZE + PAGE, size = dfs_init_payload();
  char *memory = mmap(NULL, before + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  place->headers = (void *)memory;
  place->copy = memory + PAGE;
  // Before it a page for the headers of a request that stays where it is.
  place->payload = memory + before;
  place->buffers[0] = (struct iovec){place->headers, sizeof *place->headers};
  place->buffers[1] = (struct iovec){place->payload, size};
  place->is_open = dfs_submission_open(&place->submission);
  return place->is_open && listen_for_the_end(place);
}

// After its thread has ended, and with it what that had submitted.
static void discard(struct place *place) {
  if (place->is_open) dfs_submission_close(&place->submission);
  if (place->headers) munmap(place->headers, PAGE + COPY_SIZE + PAGE + place->buffers[1].iov_len);
  free(place);
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

// Some do not want an answer, as to forget what a listing has told in vain. They want the place back.
static void answer_nothing(void) {
  struct fuse_out_header header = {.len = sizeof header, .unique = own->asked};
  dfs_ring_answer(&(struct iovec){&header, sizeof header}, 1);
}

static bool add_place(uint16_t queue);

static void *serve(void *argument) {
  own = argument;
  dfs_run_on(own->queue);
  bool is_registered = prepare(own) && submit_command(own, REGISTER, 0);
  if (!is_registered) atomic_store(&has_failed, true);
  sem_post(&registered);
  while (is_registered && request_comes(own)) {
    if (atomic_fetch_sub(&counts[own->queue].free, 1) == 1) add_place(own->queue);
    struct fuse_buf buffer = request(own);
    dfs_session_received(buffer.mem, buffer.size);
    fuse_session_process_buf(session, &buffer);
    if (own->asked) answer_nothing();
  }
  atomic_fetch_sub(&counts[own->queue].free, 1);
  return NULL;
}

static bool start(struct place *place) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_mutex_lock(&lock);
  bool is_started = !has_ended && pthread_create(&place->thread, NULL, serve, place) == 0;
  if (is_started) {
    place->next = places;
    places = place;
  }
  pthread_mutex_unlock(&lock);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return is_started;
}

static bool add_place(uint16_t queue) {
  if (atomic_load(&counts[queue].places) >= MOST_PLACES) return false;
  struct place *place = calloc(1, sizeof *place);
  if (!place) return false;
  place->queue = queue;
  atomic_fetch_add(&counts[queue].places, 1);
  atomic_fetch_add(&counts[queue].free, 1);
  if (start(place)) return true;
  atomic_fetch_sub(&counts[queue].places, 1);
  atomic_fetch_sub(&counts[queue].free, 1);
  free(place);
  return false;
}

// As many as the numbers of the processors that there can ever be; 0 when that is not known.
static unsigned possible_processors(void) {
  char text[256] = "";
  FILE *file = fopen("/sys/devices/system/cpu/possible", "re");
  if (!file) return 0;
  // Such as 0-7.
  const char *list = fgets(text, sizeof text, file);
  fclose(file);
  if (!list) return 0;
  const char *last = list + strcspn(list, "\n");
  while (last > list && last[-1] >= '0' && last[-1] <= '9') last--;
  return (unsigned)atoi(last) + 1;
}

bool dfs_ring_want(void) {
  unsigned processors = possible_processors();
  if (!dfs_init_offers(INIT_OVER_IO_URING) || processors < 1 || processors > MOST_QUEUES) return false;
  is_wanted = dfs_submission_open(&spare);
  if (is_wanted) dfs_init_want(INIT_OVER_IO_URING);
  queues = (uint16_t)processors;
  return is_wanted;
}

void dfs_ring_begin(struct fuse_session *begun, int its_device) {
  if (!is_wanted) return;
  is_wanted = false;
  has_begun = true;
  has_ended = false;
  session = begun;
  device = its_device;
  ending = eventfd(0, EFD_CLOEXEC);
  sem_init(&registered, 0, 0);
  atomic_store(&has_failed, ending < 0);
  unsigned started = 0;
  for (uint16_t queue = 0; queue < queues; queue++) {
    atomic_store(&counts[queue].places, 0);
    atomic_store(&counts[queue].free, 0);
    started += add_place(queue);
  }
  for (unsigned i = 0; i < started; i++) {
    while (sem_wait(&registered)) {}
  }
  atomic_store(&is_used, started == queues && !atomic_load(&has_failed));
  // The kernel keeps every request back until each queue has a place, or until one is refused, such as this without room.
  if (!atomic_load(&is_used)) submit_command(&(struct place){.submission = spare}, REGISTER, 0);
  dfs_submission_close(&spare);
}

void dfs_ring_end(void) {
  if (!has_begun) return;
  has_begun = false;
  pthread_mutex_lock(&lock);
  has_ended = true;
  pthread_mutex_unlock(&lock);
  eventfd_write(ending, 1);
  while (places) {
    struct place *place = places;
    places = place->next;
    pthread_join(place->thread, NULL);
    discard(place);
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
  uint64_t asked = own->asked;
  own->asked = 0;
  atomic_fetch_add(&counts[own->queue].free, 1);
  if (submit_command(own, COMMIT_AND_FETCH, asked)) return (ssize_t)(sizeof own->headers->out + size);
  // Nobody waits for it any more.
  errno = ENOENT;
  return -1;
}
