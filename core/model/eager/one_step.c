/* SPDX-License-Identifier: Apache-2.0
 *
 * An eager call as a model of one step, so that an operation is written once, as an operator. The
 * models of the latest calls are kept for the next ones with the same arguments, shapes and device.
 * They hold the context, so the cache is emptied when the program gives up its last reference of
 * it, and takes nothing from then on.
 */
#include "model/eager/one_step.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "model/run/run.h"

enum { KEPT = 32, KEPT_BYTES = 1 << 20 /* of device memory, each */ };

/* All that a model depends on; compared as bytes. */
typedef struct step_key {
    dhowi_one_step_fn *build;
    dhow_device *device;
    const char *function;
    dhowi_tensor_desc in[DHOWI_ONE_STEP_INPUTS]; /* dtype 0: not given */
    unsigned char arguments[DHOWI_ONE_STEP_ARGUMENTS];
} step_key;

typedef struct kept_step {
    step_key key;
    dhow_model *model; /* NULL: free */
    uint64_t used;
} kept_step;

typedef struct step_cache {
    pthread_mutex_t mutex;
    uint64_t now;
    kept_step kept[KEPT];
} step_cache;

/* ---- the cache ---- */

static void *make_cache(dhow_context *context) {
    (void)context;
    step_cache *cache = dhowi_alloc_array(1, sizeof *cache);
    if (cache == NULL) return NULL;
    pthread_mutex_init(&cache->mutex, NULL);
    return cache;
}

static void empty_cache(void *data) {
    step_cache *cache = data;
    dhow_model *ended[KEPT];
    pthread_mutex_lock(&cache->mutex);
    for (int i = 0; i < KEPT; i++) {
        ended[i] = cache->kept[i].model;
        cache->kept[i].model = NULL;
    }
    pthread_mutex_unlock(&cache->mutex);
    for (int i = 0; i < KEPT; i++) dhow_model_release(ended[i]);
}

static void end_cache(void *context, void *data) {
    (void)context;
    step_cache *cache = data;
    pthread_mutex_destroy(&cache->mutex);
    dhowi_free(cache);
}

/* Retained, or NULL. */
static dhow_model *find(step_cache *cache, const step_key *key) {
    dhow_model *found = NULL;
    pthread_mutex_lock(&cache->mutex);
    for (int i = 0; i < KEPT && found == NULL; i++) {
        kept_step *k = &cache->kept[i];
        if (k->model == NULL || memcmp(&k->key, key, sizeof *key) != 0) continue;
        k->used = ++cache->now;
        found = k->model;
        dhowi_handle_retain(&found->handle);
    }
    pthread_mutex_unlock(&cache->mutex);
    return found;
}

static bool is_small(const dhow_model *m) {
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    return dhow_model_get_summary(m, &summary) == DHOW_OK && summary.arena_bytes <= KEPT_BYTES;
}

/* In the place of the one that was not used for the longest time. */
static void keep(step_cache *cache, const step_key *key, dhow_model *m) {
    dhow_model *before = NULL;
    if (!is_small(m)) return;
    pthread_mutex_lock(&cache->mutex);
    kept_step *place = &cache->kept[0];
    for (int i = 1; i < KEPT && place->model != NULL; i++) {
        kept_step *k = &cache->kept[i];
        if (k->model == NULL || k->used < place->used) place = k;
    }
    if (atomic_load(&m->context->users) > 0) {
        before = place->model;
        *place = (kept_step){.model = m, .used = ++cache->now};
        memcpy(&place->key, key, sizeof *key);
        dhowi_handle_retain(&m->handle);
    }
    pthread_mutex_unlock(&cache->mutex);
    dhow_model_release(before);
}

/* ---- one call ---- */

static dhow_status check_tensors(const dhowi_one_step *c) {
    DHOWI_TRY(dhowi_tensor_check_write(c->y, c->function, "y"));
    const dhow_device *device = dhowi_tensor_device(c->y);
    for (uint32_t i = 0; i < c->in_count; i++) {
        if (c->in[i] == NULL && (c->optional & 1u << i) != 0) continue;
        DHOWI_TRY(dhowi_tensor_check_read(c->in[i], c->function, c->names[i]));
        const dhow_device *own = dhowi_tensor_device(c->in[i]);
        if (own != device)
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: %s is on %s, y on %s; move one with dhow_tensor_to", c->function,
                              c->names[i], own->name, device->name);
    }
    return DHOW_OK;
}

static void make_key(const dhowi_one_step *c, step_key *key) {
    memset(key, 0, sizeof *key);
    key->build = c->build;
    key->device = dhowi_tensor_device(c->y);
    key->function = c->function;
    for (uint32_t i = 0; i < c->in_count; i++) {
        const dhow_tensor *t = c->in[i];
        if (t == NULL) continue;
        key->in[i].dtype = t->dtype;
        key->in[i].rank = t->rank;
        memcpy(key->in[i].shape, t->shape, (size_t)t->rank * sizeof *t->shape);
    }
    if (c->argument_bytes > 0) memcpy(key->arguments, c->arguments, c->argument_bytes);
}

static dhow_status build(const dhowi_one_step *c, dhow_model *m) {
    int32_t in[DHOWI_ONE_STEP_INPUTS];
    dhow_model_value y;
    m->device = dhowi_tensor_device(c->y);
    for (uint32_t i = 0; i < c->in_count; i++) {
        const dhow_tensor *t = c->in[i];
        in[i] = -1;
        if (t == NULL) continue;
        DHOWI_TRY(dhow_model_input(m, c->names[i], t->dtype, t->rank, t->shape, &in[i]));
    }
    DHOWI_TRY(c->build(m, c->function, in, c->arguments, &y));
    return dhow_model_output(m, "y", y);
}

static dhow_status check_result(const dhowi_one_step *c, const dhow_model *m) {
    const dhowi_tensor_desc *y = &m->values[m->outputs[0]].desc;
    char a[192], b[160];
    if (c->y->dtype == y->dtype && dhowi_shape_equal(c->y->rank, c->y->shape, y->rank, y->shape))
        return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: y is %s, the result is %s", c->function,
                      dhowi_tensor_text(c->y, a, sizeof a), dhowi_desc_text(y, b, sizeof b));
}

static dhow_status run(const dhowi_one_step *c, dhow_stream *stream, dhow_model *m) {
    dhow_tensor *given[DHOWI_ONE_STEP_INPUTS];
    uint32_t count = 0;
    DHOWI_TRY(check_result(c, m));
    if (c->y->count == 0) return DHOW_OK;
    for (uint32_t i = 0; i < c->in_count; i++)
        if (c->in[i] != NULL) given[count++] = c->in[i];
    return dhowi_model_run_tensors(m, stream,
                                   &(dhowi_tensor_run){.function = c->function,
                                                       .inputs = given,
                                                       .input_count = count,
                                                       .given = &c->y,
                                                       .output_count = 1});
}

dhow_status dhowi_run_one_step(const dhowi_one_step *c) {
    dhow_stream *stream;
    step_key key;
    DHOWI_TRY(check_tensors(c));
    dhow_device *device = dhowi_tensor_device(c->y);
    DHOWI_TRY(dhowi_stream_resolve(c->stream, device, c->function, &stream));
    step_cache *cache =
        dhowi_context_attach_steps(device->context, make_cache, end_cache, empty_cache);
    if (cache == NULL) return dhowi_fail_memory(c->function);
    make_key(c, &key);
    dhow_model *m = find(cache, &key);
    const bool found = m != NULL;
    dhow_status status = found ? DHOW_OK : dhow_model_create(device->context, &m);
    if (status == DHOW_OK && !found) status = build(c, m);
    if (status == DHOW_OK) status = run(c, stream, m);
    if (status == DHOW_OK && !found) keep(cache, &key, m);
    dhow_model_release(m);
    return status;
}
