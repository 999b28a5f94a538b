/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of threads: what the header lets several threads do at once.
 */
#include <pthread.h>
#include <time.h>

#include "slots.h"

enum { THREADS = 4, ROUNDS = 40, BYTES = 50000 };

/* One thread, with error structs and a message of its own. */
typedef struct worker {
    conform_slots *s;
    void *kernel, *shared; /* shared: a stream, or NULL */
    uint32_t number;
    atomic_bool *stop;
    void *data; /* what the threads of a case share */
    char message[700];
} worker;

static bool say(worker *w, const char *what, int32_t code, const dhow_error *err) {
    (void)snprintf(w->message, sizeof w->message, "thread %u: %s: %s: %.400s", w->number, what,
                   slot_status(code), err->message);
    return false;
}

#define DO(call)                                                 \
    do {                                                         \
        memset(&err, 0, sizeof err);                             \
        err.struct_size = (uint32_t)sizeof err;                  \
        int32_t code_ = (call);                                  \
        if (code_ != DHOW_OK) return say(w, #call, code_, &err); \
    } while (0)

static bool same(worker *w, const unsigned char *got, const unsigned char *want, uint64_t round) {
    for (uint32_t i = 0; i < BYTES; i++) {
        if (got[i] == want[i]) continue;
        (void)snprintf(w->message, sizeof w->message,
                       "thread %u: round %" PRIu64 ": byte %u is 0x%02x, not 0x%02x", w->number,
                       round, i, got[i], want[i]);
        return false;
    }
    return true;
}

static bool copy_round(worker *w, void *stream, void *event, uint64_t round) {
    const dhow_plugin *api = &w->s->api;
    unsigned char from[BYTES], to[BYTES];
    dhow_error err;
    uint64_t x = 0, y = 0;
    conform_pattern(from, BYTES, w->number * 1000 + round);
    DO(api->mem_alloc(w->s->device, BYTES, &x, &err));
    DO(api->mem_alloc(w->s->device, BYTES, &y, &err));
    const dhow_copy_end dx = slot_device_end(x, 0, 0, 0), dy = slot_device_end(y, 0, 0, 0);
    const dhow_copy_rect up = slot_flat(slot_host_end(from, 0, 0, 0), dx, BYTES),
                         over = slot_flat(dx, dy, BYTES),
                         down = slot_flat(dy, slot_host_end(to, 0, 0, 0), BYTES);
    DO(api->copy(stream, &up, &err));
    DO(api->copy(stream, &over, &err));
    DO(api->event_record(event, stream, &err));
    DO(api->stream_wait(stream, event, &err));
    DO(api->copy(stream, &down, &err));
    DO(api->stream_sync(stream, &err));
    api->mem_free(w->s->device, x);
    api->mem_free(w->s->device, y);
    return same(w, to, from, round);
}

static void *copies(void *data) {
    worker *w = data;
    const dhow_plugin *api = &w->s->api;
    dhow_error err = {.struct_size = (uint32_t)sizeof err};
    void *stream = NULL, *event = NULL;
    int32_t code = api->stream_create(w->s->device, 0, &stream, &err);
    if (code == DHOW_OK) code = api->event_create(w->s->device, 0, &event, &err);
    if (code != DHOW_OK) (void)say(w, "stream_create and event_create", code, &err);
    for (uint64_t i = 0; code == DHOW_OK && i < ROUNDS && copy_round(w, stream, event, i);) i++;
    if (event != NULL) api->event_destroy(event);
    if (stream != NULL) api->stream_destroy(stream);
    return NULL;
}

/* Asks for the state of a stream that another thread feeds. */
static void *watches(void *data) {
    worker *w = data;
    dhow_error err;
    while (!atomic_load(w->stop) && w->message[0] == '\0') {
        memset(&err, 0, sizeof err);
        err.struct_size = (uint32_t)sizeof err;
        int32_t code = w->s->api.stream_query(w->shared, &err);
        if (code != DHOW_OK && code != DHOW_NOT_READY) (void)say(w, "stream_query", code, &err);
        code = w->s->api.stream_sync(w->shared, &err);
        if (code != DHOW_OK) (void)say(w, "stream_sync", code, &err);
        (void)nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL); /* locks need not be fair */
    }
    return NULL;
}

static bool launch_round(worker *w, void *stream, uint64_t a, uint64_t y, float *out) {
    dhow_error err;
    const int64_t n = 1000 + w->number;
    const dhow_geometry geometry = {.work = (uint64_t)n};
    const dhow_arg args[] = {slot_buffer(a, 0, DHOW_ACCESS_READ),
                             slot_buffer(a, 0, DHOW_ACCESS_READ),
                             slot_buffer(y, 0, DHOW_ACCESS_WRITE), slot_i64(n)};
    const dhow_copy_rect down =
        slot_flat(slot_device_end(y, 0, 0, 0), slot_host_end(out, 0, 0, 0), (uint64_t)n * 4);
    DO(w->s->api.launch(stream, w->kernel, &geometry, args, 4, &err));
    DO(w->s->api.copy(stream, &down, &err));
    DO(w->s->api.stream_sync(stream, &err));
    for (int64_t i = 0; i < n; i++) {
        if (out[i] == 2 * (float)(i + w->number)) continue;
        (void)snprintf(w->message, sizeof w->message,
                       "thread %u: element %" PRId64 " is %g, not %g", w->number, i, (double)out[i],
                       2 * (double)(i + w->number));
        return false;
    }
    return true;
}

static bool launch_all(worker *w, void *stream, uint64_t a, uint64_t y) {
    float in[1100], out[1100];
    dhow_error err;
    for (uint32_t i = 0; i < 1100; i++) in[i] = (float)(i + w->number);
    const dhow_copy_rect up =
        slot_flat(slot_host_end(in, 0, 0, 0), slot_device_end(a, 0, 0, 0), sizeof in);
    DO(w->s->api.copy(stream, &up, &err));
    for (int i = 0; i < ROUNDS; i++) {
        if (!launch_round(w, stream, a, y, out)) return false;
    }
    return true;
}

static void *launches(void *data) {
    worker *w = data;
    const dhow_plugin *api = &w->s->api;
    dhow_error err = {.struct_size = (uint32_t)sizeof err};
    void *stream = NULL;
    uint64_t a = 0, y = 0;
    int32_t code = api->stream_create(w->s->device, 0, &stream, &err);
    if (code == DHOW_OK) code = api->mem_alloc(w->s->device, 4400, &a, &err);
    if (code == DHOW_OK) code = api->mem_alloc(w->s->device, 4400, &y, &err);
    if (code != DHOW_OK) (void)say(w, "stream_create and mem_alloc", code, &err);
    if (code == DHOW_OK) (void)launch_all(w, stream, a, y);
    if (stream != NULL) (void)api->stream_sync(stream, &err);
    if (a != 0) api->mem_free(w->s->device, a);
    if (y != 0) api->mem_free(w->s->device, y);
    if (stream != NULL) api->stream_destroy(stream);
    return NULL;
}

/* ---- allocations ---- */

enum { ALLOCATORS = 8, KEPT = 8, ALLOCATIONS = 20000, ALLOCATION_MS = 500 };

typedef struct allocations {
    atomic_uint_least64_t live[ALLOCATORS][KEPT]; /* handles; 0: none */
    int64_t until;                                /* a time of now_ms() */
} allocations;

static int64_t now_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Every thread writes its handle down before it looks for it: of two with the same, one sees it. */
static bool is_mine(worker *w, allocations *all, uint64_t handle) {
    for (uint32_t t = 0; t < ALLOCATORS; t++) {
        for (uint32_t k = 0; k < KEPT; k++) {
            if (t == w->number || atomic_load(&all->live[t][k]) != handle) continue;
            (void)snprintf(w->message, sizeof w->message,
                           "threads %u and %u were both given handle 0x%" PRIx64
                           ": is the allocator without a lock?",
                           t, w->number, handle);
            return false;
        }
    }
    return true;
}

static bool allocate_once(worker *w, allocations *all, uint32_t round) {
    atomic_uint_least64_t *place = &all->live[w->number][round % KEPT];
    const uint64_t before = atomic_exchange(place, 0);
    uint64_t handle = 0;
    dhow_error err;
    if (before != 0) w->s->api.mem_free(w->s->device, before);
    DO(w->s->api.mem_alloc(w->s->device, 4096, &handle, &err));
    atomic_store(place, handle);
    return is_mine(w, all, handle);
}

/* Of one size, so that what one thread has freed serves the next. */
static void *allocates(void *data) {
    worker *w = data;
    allocations *all = w->data;
    for (uint32_t i = 0; i < ALLOCATIONS && w->message[0] == '\0' && now_ms() < all->until; i++)
        if (!allocate_once(w, all, i)) break;
    return NULL;
}

/* ---- a queue that several threads feed, one at a time ---- */

enum { FEEDERS = 4, WORDS = 500, FEEDING_MS = 500 };

typedef struct queue {
    pthread_mutex_t one_at_a_time;
    uint64_t handle; /* FEEDERS * WORDS words, of which each thread writes its own twice a round */
    uint32_t round;
} queue;

static bool feed_word(worker *w, queue *q, uint32_t at) {
    dhow_error err;
    uint64_t other = 0;
    for (uint32_t again = 0; again < 2; again++) {
        const uint64_t value = again ? at + q->round : ~(uint64_t)at;
        (void)pthread_mutex_lock(&q->one_at_a_time);
        memset(&err, 0, sizeof err);
        err.struct_size = (uint32_t)sizeof err;
        int32_t code =
            w->s->api.fill(w->shared, q->handle, (uint64_t)at * 4, 4, value & UINT32_MAX, 4, &err);
        (void)pthread_mutex_unlock(&q->one_at_a_time);
        if (code != DHOW_OK) return say(w, "fill", code, &err);
    }
    if (at % 16 != 0) return true;
    DO(w->s->api.mem_alloc(w->s->device, 4096, &other, &err));
    w->s->api.mem_free(w->s->device, other);
    return true;
}

static void *feeds(void *data) {
    worker *w = data;
    queue *q = w->data;
    for (uint32_t i = 0; i < WORDS; i++)
        if (!feed_word(w, q, w->number * WORDS + i)) break;
    return NULL;
}

/* ---- cases ---- */

static conform_result run_threads(conform_env *env, uint32_t count, void *(*run)(void *),
                                  const worker *like) {
    worker w[ALLOCATORS];
    pthread_t threads[ALLOCATORS];
    for (uint32_t i = 0; i < count; i++) {
        w[i] = *like;
        w[i].s = env->slots;
        w[i].number = i;
        if (pthread_create(&threads[i], NULL, run, &w[i]) != 0) abort();
    }
    for (uint32_t i = 0; i < count; i++) (void)pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < count; i++) CHECK(w[i].message[0] == '\0', "%s", w[i].message);
    return CONFORM_PASS;
}

static conform_result copy_at_once(conform_env *env) {
    return run_threads(env, THREADS, copies, &(worker){0});
}

static conform_result launch_at_once(conform_env *env) {
    worker like = {0};
    TRY(slot_kernel(env, "add_f32", &like.kernel));
    return run_threads(env, THREADS, launches, &like);
}

static conform_result allocate_at_once(conform_env *env) {
    allocations all = {.until = now_ms() + ALLOCATION_MS};
    conform_result result = run_threads(env, ALLOCATORS, allocates, &(worker){.data = &all});
    for (uint32_t i = 0; i < ALLOCATORS * KEPT; i++) {
        const uint64_t handle = all.live[i / KEPT][i % KEPT];
        if (handle != 0 && result == CONFORM_PASS) API->mem_free(DEVICE, handle);
    }
    return result;
}

static conform_result feed_round(conform_env *env, worker *like) {
    uint32_t got[FEEDERS * WORDS];
    queue *q = like->data;
    TRY(run_threads(env, FEEDERS, feeds, like));
    TRY(slot_read(env, like->shared, q->handle, 0, got, sizeof got));
    for (uint32_t i = 0; i < FEEDERS * WORDS; i++)
        CHECK(got[i] == i + q->round,
              "round %u: word %u is %u, not %u: a fill was lost or came too late; is the queue "
              "without a lock?",
              q->round, i, got[i], i + q->round);
    return CONFORM_PASS;
}

static conform_result feed_one_queue(conform_env *env) {
    queue q = {.one_at_a_time = PTHREAD_MUTEX_INITIALIZER};
    atomic_bool stop = false;
    worker like = {.data = &q}, watcher = {.s = env->slots, .number = FEEDERS, .stop = &stop};
    pthread_t thread;
    TRY(slot_stream(env, &like.shared));
    TRY(slot_memory(env, FEEDERS * WORDS * sizeof(uint32_t), &q.handle));
    watcher.shared = like.shared;
    if (pthread_create(&thread, NULL, watches, &watcher) != 0) abort();
    const int64_t until = now_ms() + FEEDING_MS;
    conform_result result = CONFORM_PASS;
    for (; result == CONFORM_PASS && (q.round == 0 || now_ms() < until); q.round++)
        result = feed_round(env, &like);
    atomic_store(&stop, true);
    (void)pthread_join(thread, NULL);
    TRY(result);
    CHECK(watcher.message[0] == '\0', "%s", watcher.message);
    return CONFORM_PASS;
}

static conform_result sync_while_submitting(conform_env *env) {
    unsigned char *data, *got;
    atomic_bool stop = false;
    uint32_t pinned;
    uint64_t handle;
    void *stream;
    pthread_t thread;
    TRY(slot_stream(env, &stream));
    TRY(slot_memory(env, BYTES, &handle));
    TRY(slot_pinned(env, BYTES, (void **)&data, &pinned));
    TRY(slot_pinned(env, BYTES, (void **)&got, &pinned));
    worker w = {.s = env->slots, .shared = stream, .number = 1, .stop = &stop};
    worker feeder = {.s = env->slots, .number = 0};
    conform_pattern(data, BYTES, 5);
    if (pthread_create(&thread, NULL, watches, &w) != 0) abort();
    dhow_error err = {.struct_size = (uint32_t)sizeof err};
    int32_t code = DHOW_OK;
    const dhow_copy_end there = slot_device_end(handle, 0, 0, 0);
    const dhow_copy_rect up = slot_flat(slot_host_end(data, pinned, 0, 0), there, BYTES);
    const dhow_copy_rect down = slot_flat(there, slot_host_end(got, pinned, 0, 0), BYTES);
    for (int i = 0; i < 200 && code == DHOW_OK; i++) {
        code = API->copy(stream, &up, &err);
        if (code == DHOW_OK) code = API->copy(stream, &down, &err);
    }
    atomic_store(&stop, true);
    (void)pthread_join(thread, NULL);
    if (code != DHOW_OK) (void)say(&feeder, "copy", code, &err);
    CHECK(feeder.message[0] == '\0', "%s", feeder.message);
    CHECK(w.message[0] == '\0', "%s", w.message);
    TRY(slot_sync(env, stream));
    return slot_same_bytes(env, got, data, BYTES, "after the last sync");
}

const conform_case conform_threads_cases[] = {
    CASE("threads/copies", copy_at_once, "threads,copy"),
    CASE("threads/launches", launch_at_once, "threads,kernel"),
    CASE("threads/allocations", allocate_at_once, "threads,alloc"),
    CASE("threads/queue", feed_one_queue, "threads,stream"),
    CASE("threads/sync", sync_while_submitting, "threads,stream"),
};
CASES_END(conform_threads);
