/* A CUDA driver without a GPU: just enough of the driver API for the suite, with the suite's kernels written
 * in C.
 *
 * It runs everything at once and in order, so it shows nothing of timing or of concurrency on a device. It
 * does show that the right functions are called with the right arguments, that a context is current in each
 * thread, that each thing is given back once and the way it was taken, and what becomes of errors. Whoever
 * misuses it is stopped.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int Result;
typedef unsigned long long Address;
enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  INVALID_DEVICE = 101,
  INVALID_CONTEXT = 201,
  INVALID_PTX = 218,
  UNSUPPORTED_PTX_VERSION = 222,
  NOT_FOUND = 500,
  PEER_ACCESS_ENABLED = 704,
  LAUNCH_FAILED = 719,
  NOT_SUPPORTED = 801
};
enum Option { MAX_REGISTERS = 0, ERROR_LOG = 5 };
enum Kind { FREE, DEVICE, PINNED, MANAGED, REGISTERED, STREAM, EVENT, MODULE };

static const size_t TOTAL = (size_t)1 << 30;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  enum Kind kind;
  uintptr_t at;
  size_t bytes;
} things[1 << 16];
static int thing_count, contexts;
static Result lost;
static char the_contexts[2];
#define the_context the_contexts[0]
static __thread void *current;

static int is_context(void *context) { return context == &the_contexts[0] || context == &the_contexts[1]; }

static void misused(const char *what) {
  fprintf(stderr, "the driver was misused: %s\n", what);
  abort();
}

static void take(enum Kind kind, const void *at, size_t bytes) {
  pthread_mutex_lock(&lock);
  int place = 0;
  while (place < thing_count && things[place].kind != FREE) place++;
  if (place == thing_count && ++thing_count == 1 << 16) misused("too many things");
  things[place].kind = kind;
  things[place].at = (uintptr_t)at;
  things[place].bytes = bytes;
  pthread_mutex_unlock(&lock);
}

static void give_back(enum Kind kind, const void *at, const char *what) {
  pthread_mutex_lock(&lock);
  int place = 0;
  while (place < thing_count && !(things[place].kind == kind && things[place].at == (uintptr_t)at)) place++;
  if (place == thing_count) misused(what);
  things[place].kind = FREE;
  pthread_mutex_unlock(&lock);
}

static size_t used(void) {
  size_t sum = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < thing_count; i++)
    if (things[i].kind == DEVICE || things[i].kind == MANAGED) sum += things[i].bytes;
  pthread_mutex_unlock(&lock);
  return sum;
}

/* What every call that needs a context begins with. */
#define ENTER()                                                                                              \
  do {                                                                                                       \
    if (lost) return lost;                                                                                   \
    if (!is_context(current)) return INVALID_CONTEXT;                                                     \
  } while (0)

Result cuInit(unsigned flags) { return flags ? INVALID_VALUE : SUCCESS; }
Result cuDriverGetVersion(int *version) {
  const char *told = getenv("FAKE_VERSION");
  *version = told ? atoi(told) : 13000;
  return SUCCESS;
}
Result cuGetErrorName(unsigned code, const char **text) {
  *text = code == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : NULL;
  return *text ? SUCCESS : INVALID_VALUE;
}
Result cuGetErrorString(unsigned code, const char **text) {
  *text = code == 719 ? "unspecified launch failure" : NULL;
  return *text ? SUCCESS : INVALID_VALUE;
}
Result cuDeviceGetCount(int *count) {
  const char *told = getenv("FAKE_DEVICES");
  *count = told ? atoi(told) : 1;
  return SUCCESS;
}
Result cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return ordinal > 1 ? INVALID_DEVICE : SUCCESS;
}
Result cuDeviceGetName(char *name, int size, int device) {
  (void)device;
  snprintf(name, size, "Driver of our own");
  return SUCCESS;
}
Result cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 4 : attribute == 39 ? 2048 : -1;
  return *value < 0 ? INVALID_VALUE : SUCCESS;
}

Result cuDevicePrimaryCtxRetain(void **context, int device) {
  pthread_mutex_lock(&lock);
  contexts++;
  pthread_mutex_unlock(&lock);
  *context = &the_contexts[device];
  return SUCCESS;
}
Result cuDevicePrimaryCtxRelease_v2(int device) {
  (void)device;
  pthread_mutex_lock(&lock);
  if (--contexts < 0) misused("a context was released twice");
  for (int i = 0; i < thing_count && !contexts && !lost; i++)
    if (things[i].kind != FREE) misused("something outlived its context");
  pthread_mutex_unlock(&lock);
  return SUCCESS;
}
Result cuCtxSetCurrent(void *context) {
  current = context;
  return SUCCESS;
}
Result cuCtxSynchronize(void) {
  ENTER();
  return getenv("FAKE_REFUSES_WAITS") ? NOT_SUPPORTED : SUCCESS;
}

Result cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  ENTER();
  *total = TOTAL;
  *free_bytes = TOTAL - used();
  return SUCCESS;
}
static Result allocate(enum Kind kind, void **place, size_t bytes) {
  if (bytes == 0) return INVALID_VALUE;
  if (kind != PINNED && bytes > TOTAL - used()) return OUT_OF_MEMORY;
  *place = aligned_alloc(256, (bytes + 255) / 256 * 256);
  memset(*place, 0xcd, bytes);
  take(kind, *place, bytes);
  return SUCCESS;
}
Result cuMemAlloc_v2(Address *place, size_t bytes) {
  ENTER();
  return allocate(DEVICE, (void **)place, bytes);
}
Result cuMemAllocManaged(Address *place, size_t bytes, unsigned flags) {
  ENTER();
  return flags == 1 ? allocate(MANAGED, (void **)place, bytes) : INVALID_VALUE;
}
Result cuMemHostAlloc(void **place, size_t bytes, unsigned flags) {
  ENTER();
  return flags == 3 ? allocate(PINNED, place, bytes) : INVALID_VALUE;
}
Result cuMemFree_v2(Address place) {
  ENTER();
  pthread_mutex_lock(&lock);
  enum Kind kind = DEVICE;
  for (int i = 0; i < thing_count; i++)
    if (things[i].kind == MANAGED && things[i].at == place) kind = MANAGED;
  pthread_mutex_unlock(&lock);
  give_back(kind, (void *)place, "cuMemFree of what is no memory of the device");
  free((void *)place);
  return SUCCESS;
}
Result cuMemFreeHost(void *place) {
  ENTER();
  give_back(PINNED, place, "cuMemFreeHost of what is not pinned");
  free(place);
  return SUCCESS;
}
Result cuMemHostGetDevicePointer_v2(Address *seen, void *place, unsigned flags) {
  ENTER();
  *seen = (Address)place;
  return flags ? INVALID_VALUE : SUCCESS;
}
Result cuMemHostRegister_v2(void *place, size_t bytes, unsigned flags) {
  ENTER();
  if (getenv("FAKE_REFUSES_FILES")) return NOT_SUPPORTED;
  if (flags != 3 || (uintptr_t)place % 4096) return INVALID_VALUE;
  take(REGISTERED, place, bytes);
  return SUCCESS;
}
Result cuMemHostUnregister(void *place) {
  give_back(REGISTERED, place, "cuMemHostUnregister of what is not registered");
  return SUCCESS;
}
Result cuMemcpyAsync(Address to, Address from, size_t bytes, void *stream) {
  ENTER();
  (void)stream;
  memcpy((void *)to, (void *)from, bytes);
  return SUCCESS;
}
Result cuMemcpyPeerAsync(Address to, void *to_context, Address from, void *from_context, size_t bytes,
                         void *stream) {
  ENTER();
  if (!is_context(to_context) || !is_context(from_context) || to_context == from_context || !stream)
    return INVALID_CONTEXT;
  memcpy((void *)to, (void *)from, bytes);
  return SUCCESS;
}
Result cuDeviceCanAccessPeer(int *can, int device, int other) {
  *can = !getenv("FAKE_REFUSES_PEERS");
  return device == other ? INVALID_DEVICE : SUCCESS;
}
Result cuCtxEnablePeerAccess(void *other, unsigned flags) {
  ENTER();
  static int enabled[2];
  if (!is_context(other) || other == current || flags) return INVALID_CONTEXT;
  int *of = &enabled[current == &the_contexts[1]];
  if (*of) return PEER_ACCESS_ENABLED;
  *of = 1;
  return SUCCESS;
}
Result cuMemsetD8Async(Address to, unsigned char byte, size_t bytes, void *stream) {
  ENTER();
  (void)stream;
  memset((void *)to, byte, bytes);
  return SUCCESS;
}

Result cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
  ENTER();
  if (flags || priority) return INVALID_VALUE;
  *stream = malloc(1);
  take(STREAM, *stream, 1);
  return SUCCESS;
}
Result cuStreamDestroy_v2(void *stream) {
  give_back(STREAM, stream, "cuStreamDestroy of no stream");
  free(stream);
  return lost;
}
Result cuStreamSynchronize(void *stream) {
  ENTER();
  (void)stream;
  return SUCCESS;
}
Result cuStreamQuery(void *stream) {
  ENTER();
  (void)stream;
  return SUCCESS;
}
Result cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
  ENTER();
  return stream && event && !flags ? SUCCESS : INVALID_VALUE;
}

/* Handles of streams that another library made: in another context, and one that does not wait for the null
 * stream. */
#define OTHER_CONTEXTS ((void *)0x1000)
#define UNORDERED ((void *)0x2000)
Result cuStreamGetCtx(void *stream, void **context) {
  ENTER();
  static char other;
  *context = stream == OTHER_CONTEXTS ? &other : &the_context;
  return SUCCESS;
}
Result cuStreamGetFlags(void *stream, unsigned *flags) {
  ENTER();
  *flags = stream == UNORDERED;
  return SUCCESS;
}

/* Memory that another library made: in another context, and of another device. */
#define MEMORY_OF_OTHER_CONTEXT 0x10000
#define MEMORY_OF_OTHER_DEVICE 0x20000
Result cuPointerGetAttribute(void *data, int attribute, Address address) {
  ENTER();
  static char other;
  uintptr_t start = 0;
  size_t bytes = 4096;
  if (address == MEMORY_OF_OTHER_CONTEXT || address == MEMORY_OF_OTHER_DEVICE) start = address;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < thing_count; i++)
    if (things[i].kind == DEVICE && things[i].at <= address && address < things[i].at + things[i].bytes) {
      start = things[i].at;
      bytes = things[i].bytes;
    }
  pthread_mutex_unlock(&lock);
  if (!start) return INVALID_VALUE;
  switch (attribute) {
  case 1:
    *(void **)data = address == MEMORY_OF_OTHER_CONTEXT ? &other : &the_context;
    return SUCCESS;
  case 9:
    *(int *)data = address == MEMORY_OF_OTHER_DEVICE;
    return SUCCESS;
  case 11:
    *(Address *)data = start;
    return SUCCESS;
  case 12:
    *(size_t *)data = bytes;
    return SUCCESS;
  }
  return INVALID_VALUE;
}

Result cuEventCreate(void **event, unsigned flags) {
  ENTER();
  if (flags & ~2u) return INVALID_VALUE; // CU_EVENT_DISABLE_TIMING
  *event = calloc(1, sizeof(struct timespec));
  take(EVENT, *event, 1);
  return SUCCESS;
}
Result cuEventRecord(void *event, void *stream) {
  ENTER();
  (void)stream;
  clock_gettime(CLOCK_MONOTONIC, event);
  return SUCCESS;
}
Result cuEventQuery(void *event) {
  ENTER();
  (void)event;
  return SUCCESS;
}
Result cuEventSynchronize(void *event) {
  ENTER();
  (void)event;
  return SUCCESS;
}
Result cuEventDestroy_v2(void *event) {
  give_back(EVENT, event, "cuEventDestroy of no event");
  free(event);
  return lost;
}
Result cuEventElapsedTime(float *ms, void *start, void *end) {
  ENTER();
  struct timespec *a = start, *b = end;
  *ms = (b->tv_sec - a->tv_sec) * 1e3f + (b->tv_nsec - a->tv_nsec) * 1e-6f;
  return SUCCESS;
}

static Result log_error(const char *text, Result result, unsigned count, const int *options,
                        void *const *values) {
  for (unsigned i = 0; i < count; i++)
    if (options[i] == ERROR_LOG) strcpy(values[i], text);
  return result;
}
Result cuModuleLoadDataEx(void **module, const char *image, unsigned count, const int *options,
                          void *const *values) {
  ENTER();
  if (strstr(image, "no_such_opcode"))
    return log_error("ptxas fatal: Not a name of any known instruction: 'no_such_opcode'", INVALID_PTX, count,
                     options, values);
  if (getenv("FAKE_REFUSES_PTX"))
    return log_error("ptxas fatal: Unsupported .version 7.0; current version is '6.5'",
                     UNSUPPORTED_PTX_VERSION, count, options, values);
  int bound = -1;
  for (unsigned i = 0; i < count; i++)
    if (options[i] == MAX_REGISTERS) bound = (int)(uintptr_t)values[i];
  if (bound != (strstr(image, ".entry add(") ? 32 : -1))
    misused("the registers of `add` are bounded to 32, and of no other kernel at all");
  const char *first = strstr(image, ".entry ");
  if (!first || strstr(first + 1, ".entry ")) misused("a module has not exactly one kernel");
  *module = strdup(image);
  take(MODULE, *module, 1);
  return SUCCESS;
}
Result cuModuleUnload(void *module) {
  give_back(MODULE, module, "cuModuleUnload of no module");
  free(module);
  return lost;
}
static const char *const KERNELS[] = {"fill", "add",    "count",       "slow",       "fail",
                                      "idle", "lookup", "size__small", "size__large"};
enum { FILL, ADD, COUNT, SLOW, FAIL, IDLE, LOOKUP, SIZE_SMALL, SIZE_LARGE, KERNEL_COUNT };
Result cuModuleGetFunction(void **function, void *module, const char *name) {
  ENTER();
  char entry[100];
  snprintf(entry, sizeof entry, ".entry %s(", name);
  if (!strstr(module, entry)) return NOT_FOUND;
  for (int i = 0; i < KERNEL_COUNT; i++)
    if (!strcmp(KERNELS[i], name)) {
      *function = (void *)&KERNELS[i];
      return SUCCESS;
    }
  return NOT_FOUND;
}
Result cuFuncGetAttribute(int *value, int attribute, void *function) {
  ENTER();
  (void)function;
  *value = attribute == 0 ? 512 : 64;
  return SUCCESS;
}
Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared) {
  ENTER();
  (void)function;
  *blocks = 2048 / threads;
  return shared ? INVALID_VALUE : SUCCESS;
}

static uint32_t mix_primes(size_t count) {
  static const uint32_t primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};
  if (!count) return 0;
  uint32_t rest = mix_primes(count - 1);
  return primes[count - 1] ^ (rest << 3 | rest >> 29);
}

struct slice {
  void *at;
  uint64_t len;
};

static void run(int kernel, size_t threads, void *arguments) {
  struct {
    struct slice first;
    union {
      uint32_t value;
      struct slice second;
      struct {
        uint64_t ticks;
        uint32_t value;
      } slow;
    } u;
  } *a = arguments;
  uint32_t *words = kernel == IDLE ? NULL : a->first.at;
  switch (kernel) {
  case FILL:
    for (size_t i = 0; i < threads && i < a->first.len; i++) words[i] = a->u.value;
    break;
  case ADD:
    for (size_t i = 0; i < threads && i < a->first.len; i++)
      ((uint64_t *)words)[i] += ((uint64_t *)a->u.second.at)[i];
    break;
  case COUNT:
    words[0] += threads;
    break;
  case SLOW:
    nanosleep(&(struct timespec){.tv_nsec = a->u.slow.ticks}, NULL);
    words[0] = a->u.slow.value;
    break;
  case FAIL:
    lost = LAUNCH_FAILED;
    break;
  case LOOKUP:
    for (size_t i = 0; i < threads && i < a->first.len; i++) words[i] = mix_primes(i % 9);
    break;
  case SIZE_SMALL:
    words[0] = 4;
    break;
  case SIZE_LARGE:
    words[0] = 16;
    break;
  }
}

Result cuLaunchKernel(const char *const *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                      unsigned by, unsigned bz, unsigned shared, void *stream, void **parameters,
                      void **extra) {
  ENTER();
  if (gx < 1 || gy != 1 || gz != 1 || bx < 1 || by != 1 || bz != 1 || shared || !stream || extra)
    return INVALID_VALUE;
  if (function == &KERNELS[IDLE] && bx > 512) return 701;
  static pthread_mutex_t running = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&running);
  run(function - KERNELS, (size_t)gx * bx, parameters[0]);
  pthread_mutex_unlock(&running);
  return SUCCESS;
}
