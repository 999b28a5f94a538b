/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaders: a ring of slots in which batches are made in advance, by threads or by next() itself.
 * Batch n is always made in slot n modulo the ring, so a worker may begin once batch n - ring has
 * been given back.
 */
#include "data/loader.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "base/objects/struct_size.h"
#include "base/threads/single.h"
#include "base/threads/thread.h"
#include "data/batch.h"
#include "stream/span.h"

enum { MAX_WORKERS = 64, MAX_PREFETCH = 64, DEFAULT_PREFETCH = 2 };

struct dhow_loader {
    dhowi_handle handle;
    dhowi_single single;   /* next() and restart() */
    dhow_context *context; /* of the dataset, which lives as long */
    dhowi_batch_kind kind;
    bool shuffle, drop_last;
    uint64_t seed;
    int64_t samples;  /* of an epoch */
    dhowi_odds *odds; /* NULL: each sample comes once */
    uint32_t prefetch, slot_count, worker_count;
    dhowi_batch_slot *slots;
    pthread_t *workers;

    pthread_mutex_t mutex;
    pthread_cond_t work; /* a slot is free, or the loader stops */
    pthread_cond_t news; /* a batch is made, or a worker is idle */
    bool stopping, held; /* held: nothing is begun */
    uint32_t busy;       /* workers that make a batch */
    uint32_t workers_begun;
    dhowi_order order;
    int64_t epoch, batch_count;
    int64_t next_made, next_given; /* batches of the epoch */
    int64_t given_back;            /* all before are */
    bool over;                     /* the end of the epoch has been told */
    bool failed;                   /* `failure` is told until restart */
    dhowi_saved_error failure;
};

/* ---- making batches ---- */

/* Under the mutex: the slot for the next batch, or NULL when there is nothing to make now. */
static dhowi_batch_slot *claim(dhow_loader *l, int64_t last) {
    if (l->held || l->stopping || l->next_made >= l->batch_count || l->next_made > last ||
        l->next_made >= l->given_back + l->slot_count)
        return NULL;
    dhowi_batch_slot *slot = &l->slots[l->next_made % l->slot_count];
    slot->state = DHOWI_SLOT_MAKING;
    slot->first_sample = l->next_made * l->kind.batch_size;
    slot->sample_count = DHOWI_MIN(l->kind.batch_size, l->samples - slot->first_sample);
    l->next_made++;
    l->busy++;
    return slot;
}

/* Under the mutex, which is given up meanwhile. */
static void make(dhow_loader *l, uint32_t worker, dhowi_batch_slot *slot) {
    dhowi_order order = l->order;
    const dhowi_sampling mine = {l->epoch, l->seed, worker}, before = *dhowi_sampling_now();
    pthread_mutex_unlock(&l->mutex);
    dhowi_sampling_set(&mine);
    dhow_status status = dhowi_batch_make(&l->kind, slot, &order);
    dhowi_sampling_set(&before);
    if (status != DHOW_OK) dhowi_error_save(&slot->error, status);
    pthread_mutex_lock(&l->mutex);
    slot->state = status == DHOW_OK ? DHOWI_SLOT_READY : DHOWI_SLOT_FAILED;
    l->busy--;
    pthread_cond_broadcast(&l->news);
}

static void *work(void *argument) {
    dhow_loader *l = argument;
    dhowi_thread_name("dhow loader");
    pthread_mutex_lock(&l->mutex);
    const uint32_t worker = l->workers_begun++;
    while (!l->stopping) {
        dhowi_batch_slot *slot = claim(l, INT64_MAX);
        if (slot != NULL) {
            make(l, worker, slot);
        } else {
            pthread_cond_wait(&l->work, &l->mutex);
        }
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

/* Under the mutex: begins nothing new and waits for what is being made. */
static void hold(dhow_loader *l) {
    l->held = true;
    while (l->busy > 0) pthread_cond_wait(&l->news, &l->mutex);
}

static dhowi_order order_of(const dhow_loader *l, int64_t epoch) {
    if (l->odds != NULL)
        return dhowi_order_draw(l->odds, (uint64_t)l->samples, l->seed, (uint64_t)epoch);
    return dhowi_order_make((uint64_t)l->samples, l->shuffle, l->seed, (uint64_t)epoch);
}

/* Under the mutex, while held. */
static void go_to(dhow_loader *l, int64_t epoch, int64_t batch) {
    l->order = order_of(l, epoch);
    l->epoch = epoch;
    l->next_made = l->next_given = l->given_back = batch;
    l->over = l->failed = l->held = false;
    pthread_cond_broadcast(&l->work);
}

/* ---- making loaders ---- */

static dhow_status check_options(const dhow_dataset *dataset, const dhow_loader_options *o) {
    static const char function[] = "dhow_loader_create";
    size_t bytes;
    if (o->batch_size < 0 || !dhowi_mul((size_t)o->batch_size, sizeof(int64_t), &bytes)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: batches of %" PRId64 " samples", function,
                          o->batch_size);
    }
    if (o->workers > MAX_WORKERS || o->prefetch > MAX_PREFETCH) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: %u workers and %u batches ahead; at most %d and %d are allowed",
                          function, o->workers, o->prefetch, MAX_WORKERS, MAX_PREFETCH);
    }
    if (o->draws < 0 || (o->draws > 0 && o->weights == NULL))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: draws is %" PRId64 "%s", function, o->draws,
                          o->weights == NULL ? " without weights" : "");
    if (o->weights != NULL && o->shuffle != 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: shuffle and weights exclude each other: drawn samples have no order",
                          function);
    if (o->device == NULL) return DHOW_OK;
    DHOWI_TRY(dhowi_device_check(o->device, function));
    if (o->device->context != dataset->context) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: the dataset and the device belong to different contexts", function);
    }
    return DHOW_OK;
}

static dhow_status take_weights(dhow_loader *l, const dhow_loader_options *o) {
    const int64_t count = l->kind.dataset->source.sample_count;
    double sum = 0;
    l->samples = count;
    if (o->weights == NULL) return DHOW_OK;
    size_t bytes;
    if (!dhowi_mul((size_t)count, sizeof(double), &bytes) || bytes > SIZE_MAX - sizeof *l->odds)
        return dhowi_fail_memory("weights");
    l->odds = dhowi_alloc(sizeof *l->odds + bytes);
    if (l->odds == NULL) return dhowi_fail_memory("weights");
    l->odds->count = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!(o->weights[i] >= 0) || !isfinite(sum + o->weights[i]))
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "dhow_loader_create: weights[%" PRId64
                              "] is %g; weights are finite "
                              "and not negative, and so is their sum",
                              i, o->weights[i]);
        l->odds->sums[i] = sum += o->weights[i];
        if (o->weights[i] > 0) l->odds->count = (uint64_t)i + 1;
    }
    if (sum == 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "dhow_loader_create: all %" PRId64 " weights are 0", count);
    if (o->draws > 0) l->samples = o->draws;
    return DHOW_OK;
}

static dhow_status start_workers(dhow_loader *l, uint32_t count) {
    l->workers = dhowi_alloc_array(count, sizeof l->workers[0]);
    if (l->workers == NULL && count > 0) return dhowi_fail_memory("loader");
    int error = 0;
    while (error == 0 && l->worker_count < count) {
        error = dhowi_thread_start(&l->workers[l->worker_count], work, l);
        if (error == 0) l->worker_count++;
    }
    if (error == 0) return DHOW_OK;
    return dhowi_fail(DHOW_OUT_OF_MEMORY, "dhow_loader_create: cannot start worker %u: %s",
                      l->worker_count, strerror(error));
}

static void stop_workers(dhow_loader *l) {
    pthread_mutex_lock(&l->mutex);
    l->stopping = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->mutex);
    for (uint32_t i = 0; i < l->worker_count; i++) (void)pthread_join(l->workers[i], NULL);
}

static void end_loader(dhow_loader *l) {
    bool forked = l->context->cpu->fork_generation != dhowi_fork_generation();
    if (!forked) stop_workers(l);
    for (uint32_t i = 0; i < l->slot_count && l->slots != NULL; i++) dhowi_batch_end(&l->slots[i]);
    dhow_stream_release(l->kind.stream);
    dhow_dataset_release(l->kind.dataset);
    dhowi_free(l->slots);
    dhowi_free(l->odds);
    dhowi_free(l->workers);
    if (!forked) { /* a condition that threads wait for, which a child does not have, waits for them
                    */
        pthread_mutex_destroy(&l->mutex);
        pthread_cond_destroy(&l->work);
        pthread_cond_destroy(&l->news);
    }
    dhowi_handle_free(DHOWI_LOADER, l);
}

static dhow_status init_loader(dhow_loader *l, const dhow_loader_options *o) {
    bool travels = !dhowi_device_is_host(l->kind.device);
    l->shuffle = o->shuffle != 0;
    l->drop_last = o->drop_last != 0;
    l->seed = o->seed;
    l->prefetch = o->prefetch > 0               ? o->prefetch
                  : (travels || o->workers > 0) ? DEFAULT_PREFETCH
                                                : 0;
    DHOWI_TRY(take_weights(l, o));
    const int64_t samples = l->samples;
    l->kind.collate = o->collate;
    l->kind.collate_user = o->collate_user;
    l->kind.batch_size = o->batch_size > 0 ? o->batch_size : 1;
    if (!l->drop_last) /* no more memory than there are samples */
        l->kind.batch_size = DHOWI_MAX(DHOWI_MIN(l->kind.batch_size, samples), (int64_t)1);
    l->batch_count =
        l->drop_last ? samples / l->kind.batch_size : dhowi_ceil_div(samples, l->kind.batch_size);
    l->slot_count = l->prefetch + 1;
    l->slots = dhowi_alloc_array(l->slot_count, sizeof l->slots[0]);
    if (l->slots == NULL) return dhowi_fail_memory("loader");
    if (travels) DHOWI_TRY(dhow_stream_create(l->kind.device, &l->kind.stream));
    go_to(l, 0, 0);
    return start_workers(l, o->workers);
}

dhow_status dhow_loader_create(dhow_dataset *dataset, const dhow_loader_options *options,
                               dhow_loader **out) {
    static const char function[] = "dhow_loader_create";
    dhow_loader_options own, *o = &own;
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(DHOWI_STRUCT_IN(dhow_loader_options, options, o, function, "options"));
    DHOWI_TRY(dhowi_dataset_check(dataset, function));
    DHOWI_TRY(check_options(dataset, o));
    dhow_device *device = o->device != NULL ? o->device : dataset->context->cpu;
    DHOWI_TRY(dhowi_device_open(device));
    dhow_loader *l = dhowi_handle_new(DHOWI_LOADER, sizeof *l);
    if (l == NULL) return dhowi_fail_memory(function);
    dhowi_handle_retain(&dataset->handle);
    l->context = dataset->context;
    l->kind.dataset = dataset;
    l->kind.device = device;
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->news, NULL);
    dhow_status status = init_loader(l, o);
    if (status != DHOW_OK) {
        end_loader(l);
        return status;
    }
    *out = l;
    return DHOW_OK;
}

void dhow_loader_release(dhow_loader *l) {
    DHOWI_KEEP_ERROR;
    if (dhowi_handle_is(l, DHOWI_LOADER) && dhowi_handle_drop(&l->handle)) end_loader(l);
}

/* ---- taking batches ---- */

static dhow_status check_loader(const dhow_loader *l, const char *function) {
    DHOWI_TRY(dhowi_handle_check(l, DHOWI_LOADER, function, "loader"));
    return dhowi_device_usable(l->kind.device);
}

/* Under the mutex: the slot of the next batch once it is made. */
static dhowi_batch_slot *await_batch(dhow_loader *l) {
    dhowi_batch_slot *slot = &l->slots[l->next_given % l->slot_count];
    if (l->worker_count == 0) { /* with what is made in advance */
        int64_t last = l->next_given + l->prefetch;
        for (dhowi_batch_slot *next; (next = claim(l, last)) != NULL;) make(l, 0, next);
        return slot;
    }
    pthread_cond_signal(&l->work); /* one slot has become free */
    while (l->next_made <= l->next_given || slot->state == DHOWI_SLOT_MAKING)
        pthread_cond_wait(&l->news, &l->mutex);
    return slot;
}

static dhow_status fail_batch(dhow_loader *l, const dhowi_batch_slot *slot) {
    int64_t first = slot->first_sample;
    (void)dhowi_error_raise(&slot->error);
    dhow_status status = dhowi_fail_prefix(slot->error.status,
                                           "dhow_loader_next: batch %" PRId64 " of epoch %" PRId64
                                           " (samples %" PRId64 " to %" PRId64 ") for %s",
                                           l->next_given, l->epoch, first,
                                           first + slot->sample_count - 1, l->kind.device->name);
    dhowi_error_save(&l->failure, status);
    l->failed = true;
    return status;
}

/* Under the mutex. */
static dhow_status next(dhow_loader *l, dhow_batch *out) {
    if (l->failed) return dhowi_error_raise(&l->failure);
    if (l->over) {
        hold(l);
        go_to(l, l->epoch + 1, 0);
    }
    out->epoch = l->epoch;
    out->index = l->next_given;
    out->tensor_count = l->kind.dataset->source.column_count;
    l->given_back = l->next_given;
    if (l->next_given == l->batch_count) {
        l->over = true;
        return DHOW_OK;
    }
    dhowi_batch_slot *slot = await_batch(l);
    if (slot->state == DHOWI_SLOT_FAILED) return fail_batch(l, slot);
    l->next_given++;
    out->first_sample = slot->first_sample;
    out->sample_count = slot->sample_count;
    memcpy(out->tensors, slot->batch, sizeof out->tensors);
    return DHOW_OK;
}

dhow_status dhowi_loader_begin(dhow_loader *l, const char *function) {
    DHOWI_TRY(check_loader(l, function));
    return dhowi_single_begin(&l->single, function, "loader");
}

void dhowi_loader_end(dhow_loader *l) { dhowi_single_end(&l->single); }

/* The batch handed out last is the caller's until here. */
static dhow_status give_back(dhow_loader *l) {
    if (l->given_back >= l->next_given) return DHOW_OK;
    return dhowi_batch_give_back(&l->kind, &l->slots[(l->next_given - 1) % l->slot_count]);
}

dhow_status dhowi_loader_next(dhow_loader *l, dhow_batch *out) {
    *out = DHOW_INIT(dhow_batch);
    DHOWI_TRY(dhowi_device_usable(l->kind.device));
    DHOWI_TRY(give_back(l));
    pthread_mutex_lock(&l->mutex);
    dhow_status status = next(l, out);
    pthread_mutex_unlock(&l->mutex);
    return status;
}

dhow_status dhow_loader_next(dhow_loader *l, dhow_batch *given) {
    dhow_batch own, *out = &own;
    static const char function[] = "dhow_loader_next";
    DHOWI_TRY(DHOWI_STRUCT_OUT(dhow_batch, given, &own, function));
    DHOWI_TRY(dhowi_loader_begin(l, function));
    const int64_t begin = dhowi_host_span_begin(l->context);
    dhow_status status = dhowi_loader_next(l, out);
    dhowi_host_span_end(l->context, begin, DHOWI_TRACE_DATA, function, 0, NULL);
    dhowi_loader_end(l);
    DHOWI_STRUCT_GIVE(given, out);
    return status;
}

/* Under the mutex, while held: what did not arrive has been told, or is not wanted any more. */
static void forget_failures(dhow_loader *l) {
    dhow_status ignored = l->kind.stream != NULL ? dhow_stream_sync(l->kind.stream) : DHOW_OK;
    for (uint32_t i = 0; i < l->slot_count; i++) ignored = dhowi_batch_settle(&l->slots[i]);
    (void)ignored;
}

dhow_status dhow_loader_restart(dhow_loader *l, int64_t epoch, int64_t batch) {
    static const char function[] = "dhow_loader_restart";
    DHOWI_TRY(dhowi_handle_check(l, DHOWI_LOADER, function, "loader"));
    /* Half of what an epoch can be: none that follows leaves its range. */
    if (epoch < 0 || epoch > INT64_MAX / 2 || batch < 0 || batch > l->batch_count) {
        return dhowi_fail(DHOW_OUT_OF_RANGE,
                          "%s: batch %" PRId64 " of epoch %" PRId64 "; an epoch has %" PRId64
                          " batch%s",
                          function, batch, epoch, l->batch_count, l->batch_count == 1 ? "" : "es");
    }
    DHOWI_TRY(dhowi_loader_begin(l, function));
    dhow_status status = give_back(l);
    pthread_mutex_lock(&l->mutex);
    hold(l);
    forget_failures(l);
    go_to(l, epoch, batch);
    pthread_mutex_unlock(&l->mutex);
    dhowi_loader_end(l);
    return status;
}

int64_t dhow_loader_batch_count(const dhow_loader *l) {
    return dhowi_handle_is(l, DHOWI_LOADER) ? l->batch_count : -1;
}

int64_t dhow_loader_sample_at(const dhow_loader *l, int64_t epoch, int64_t position) {
    if (!dhowi_handle_is(l, DHOWI_LOADER) || epoch < 0 || position < 0 || position >= l->samples)
        return -1;
    const dhowi_order order = order_of(l, epoch);
    return (int64_t)dhowi_order_at(&order, (uint64_t)position);
}

dhow_event *dhowi_loader_arrival(const dhow_loader *l) {
    if (l->next_given <= l->given_back) return NULL;
    dhow_event *event = l->slots[(l->next_given - 1) % l->slot_count].arrived;
    if (event != NULL) dhowi_handle_retain(&event->handle);
    return event;
}

uint32_t dhowi_loader_column_count(const dhow_loader *l) {
    return l->kind.dataset->source.column_count;
}

int64_t dhowi_loader_rest(const dhow_loader *l) {
    int64_t all = l->samples;
    if (l->drop_last) all = l->batch_count * l->kind.batch_size;
    return l->over ? all : DHOWI_MAX(all - l->next_given * l->kind.batch_size, (int64_t)0);
}

dhowi_loader_place dhowi_loader_place_of(const dhow_loader *l) {
    return (dhowi_loader_place){.epoch = l->over ? l->epoch + 1 : l->epoch,
                                .batch = l->over ? 0 : l->next_given,
                                .samples = l->samples,
                                .batch_size = l->kind.batch_size,
                                .seed = (int64_t)l->seed,
                                .order = l->odds != NULL ? 2
                                         : l->shuffle    ? 1
                                                         : 0,
                                .drop_last = l->drop_last};
}
