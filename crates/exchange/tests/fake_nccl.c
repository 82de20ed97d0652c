/* An NCCL between threads whose devices are emulated: device memory is memory of the host, and streams are
 * not used. Enough for the exchange, with communicators of mode blocking.
 *
 * Messages are copied when they are sent. A call that receives returns when its messages have arrived, so the
 * call of a rank whose peers are missing blocks until its communicator is aborted. An abort waits until the
 * blocked call has returned before it frees the communicator.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INTERNAL_ERROR = 3, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, REMOTE_ERROR = 6 };
enum { IN_PROGRESS = 7 };
enum { MOST_RANKS = 16, MOST_PENDING = 64 };
static const size_t SIZES[] = {1, 1, 4, 4, 8, 8};

struct id {
  char bytes[128];
};
struct message {
  struct message *next;
  size_t bytes;
  char data[];
};
/* What the ranks of one communicator share. It is never freed. */
struct group {
  struct group *next;
  struct id id;
  int ranks, joined, aborted;
  struct message *queues[MOST_RANKS][MOST_RANKS];
};
struct comm {
  struct group *group;
  int rank, pending_count, state, is_finalized, is_aborted, inside;
  struct pending {
    int from;
    char *to;
    size_t bytes;
  } pending[MOST_PENDING];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct group *groups;
/* The group of calls of this thread. */
static __thread int depth;
static __thread struct comm *in_group;

int ncclGetVersion(int *version) {
  *version = 22807;
  return SUCCESS;
}

int ncclGetUniqueId(struct id *id) {
  static int next;
  memset(id, 0, sizeof *id);
  pthread_mutex_lock(&lock);
  next++;
  memcpy(id, &next, sizeof next);
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

static struct group *find(struct id id, int ranks) {
  for (struct group *group = groups; group; group = group->next)
    if (!memcmp(&group->id, &id, sizeof id)) return group;
  struct group *group = calloc(1, sizeof *group);
  group->next = groups;
  group->id = id;
  group->ranks = ranks;
  return groups = group;
}

/* Waits for all ranks, for ever. */
int ncclCommInitRank(struct comm **made, int ranks, struct id id, int rank) {
  if (rank >= ranks || ranks > MOST_RANKS) return INVALID_ARGUMENT;
  struct comm *comm = calloc(1, sizeof *comm);
  pthread_mutex_lock(&lock);
  comm->group = find(id, ranks);
  comm->group->joined++;
  pthread_cond_broadcast(&changed);
  while (comm->group->joined < ranks) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  comm->rank = rank;
  *made = comm;
  return SUCCESS;
}

/* Takes the messages that have arrived. */
static int advance(struct comm *comm) {
  struct group *group = comm->group;
  int left = 0;
  for (int i = 0; i < comm->pending_count; i++) {
    struct pending pending = comm->pending[i];
    struct message **queue = &group->queues[pending.from][comm->rank], *message = *queue;
    int is_first = 1;
    for (int j = 0; j < left; j++) is_first &= comm->pending[j].from != pending.from;
    if (!message || !is_first) {
      comm->pending[left++] = pending;
      continue;
    }
    if (message->bytes != pending.bytes) return INVALID_USAGE;
    memcpy(pending.to, message->data, message->bytes);
    *queue = message->next;
    free(message);
  }
  comm->pending_count = left;
  if (left == 0) return SUCCESS;
  return group->aborted && getenv("FAKE_NOTICES_ABORTS") ? REMOTE_ERROR : IN_PROGRESS;
}
/* Waits for the messages that a communicator expects, with the lock. */
static int finish(struct comm *comm) {
  comm->inside++;
  int code = advance(comm);
  while (code == IN_PROGRESS && !comm->is_aborted) {
    pthread_cond_wait(&changed, &lock);
    code = advance(comm);
  }
  if (comm->is_aborted) code = INTERNAL_ERROR;
  comm->state = code;
  comm->inside--;
  pthread_cond_broadcast(&changed);
  return code;
}
int ncclCommGetAsyncError(struct comm *comm, int *state) {
  pthread_mutex_lock(&lock);
  *state = comm->state;
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}

int ncclGroupStart(void) {
  depth++;
  return SUCCESS;
}
int ncclGroupEnd(void) {
  if (--depth < 0) return INVALID_USAGE;
  struct comm *comm = in_group;
  in_group = NULL;
  if (!comm) return SUCCESS;
  pthread_mutex_lock(&lock);
  int code = finish(comm);
  pthread_mutex_unlock(&lock);
  return code;
}
static void post(struct comm *comm, int to, const void *from, size_t bytes) {
  struct message *message = malloc(sizeof *message + bytes), **end = &comm->group->queues[comm->rank][to];
  message->next = NULL;
  message->bytes = bytes;
  memcpy(message->data, from, bytes);
  while (*end) end = &(*end)->next;
  *end = message;
  pthread_cond_broadcast(&changed);
}
static int expect(struct comm *comm, int from, void *to, size_t bytes) {
  if (comm->pending_count == MOST_PENDING) return INVALID_USAGE;
  comm->pending[comm->pending_count++] = (struct pending){from, to, bytes};
  return SUCCESS;
}
int ncclSend(const void *from, size_t count, int type, int to, struct comm *comm, void *stream) {
  if (!depth || stream || to >= comm->group->ranks || to == comm->rank || !count) return INVALID_ARGUMENT;
  pthread_mutex_lock(&lock);
  in_group = comm;
  post(comm, to, from, count * SIZES[type]);
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}
int ncclRecv(void *to, size_t count, int type, int from, struct comm *comm, void *stream) {
  if (!depth || stream || from >= comm->group->ranks || from == comm->rank || !count) return INVALID_ARGUMENT;
  pthread_mutex_lock(&lock);
  in_group = comm;
  int code = expect(comm, from, to, count * SIZES[type]);
  pthread_mutex_unlock(&lock);
  return code;
}
int ncclAllGather(const void *from, char *to, size_t count, int type, struct comm *comm, void *stream) {
  if (depth || stream) return INVALID_ARGUMENT;
  size_t bytes = count * SIZES[type];
  int code = SUCCESS;
  pthread_mutex_lock(&lock);
  for (int rank = 0; rank < comm->group->ranks; rank++) {
    post(comm, rank, from, bytes);
    code |= expect(comm, rank, to + rank * bytes, bytes);
  }
  if (code == SUCCESS) code = finish(comm);
  pthread_mutex_unlock(&lock);
  return code;
}

int ncclCommFinalize(struct comm *comm) {
  comm->is_finalized = 1;
  return SUCCESS;
}
int ncclCommDestroy(struct comm *comm) {
  if (!comm->is_finalized || comm->pending_count || comm->inside) abort();
  free(comm);
  return SUCCESS;
}
int ncclCommAbort(struct comm *comm) {
  pthread_mutex_lock(&lock);
  if (comm->is_aborted) abort();
  comm->is_aborted = comm->group->aborted = 1;
  pthread_cond_broadcast(&changed);
  while (comm->inside || getenv("FAKE_ABORT_HANGS")) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  free(comm);
  return SUCCESS;
}
const char *ncclGetErrorString(int code) {
  return code == REMOTE_ERROR ? "remote process exited or there was a network error" : NULL;
}
