/* SPDX-License-Identifier: Apache-2.0
 *
 * One way of running a model.
 */
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/optimise.h"
#include "tensor/tensor.h"

enum { MAX_INPUTS = 256 };

typedef struct bound {
    dhow_tensor *in[MAX_INPUTS];
    uint32_t count;
} bound;

static void release_all(dhow_tensor **tensors, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        dhow_tensor_release(tensors[i]);
        tensors[i] = NULL;
    }
}

/* A value's data as a tensor, with open extents replaced; elements repeat. */
static dhow_status input_of(const model *m, const value *v, const way *w, int64_t batch,
                            dhow_tensor **out) {
    const dhow_dtype dtype = v->dtype == m->dtype && !v->stays ? w->dtype : v->dtype;
    int64_t shape[DHOW_MAX_RANK], count = 1;
    const int64_t own = value_count(v);
    for (int32_t i = 0; i < v->rank; i++) {
        shape[i] = v->open[i] && batch >= 0 ? batch : v->shape[i];
        count *= shape[i];
    }
    const size_t size = dhow_dtype_bytes(dtype);
    char *data = malloc((size_t)count * size + 1);
    if (data == NULL) abort();
    for (int64_t i = 0; i < count; i++) {
        const uint64_t bits = dhowi_dtype_encode(dtype, own > 0 ? v->data[i % own] : 0.5);
        memcpy(data + (size_t)i * size, &bits, size);
    }
    const dhow_status status = dhow_tensor_from_data(w->device, dtype, v->rank, shape, data, out);
    free(data);
    return status;
}

static dhow_status inputs_of(const model *m, const way *w, int64_t batch, bound *b) {
    dhow_status status = DHOW_OK;
    b->count = 0;
    for (int i = 0; i < m->value_count && status == DHOW_OK; i++) {
        const value *v = &m->values[i];
        if (v->data == NULL || v->scope != 0) continue;
        if (v->kind != VALUE_INPUT && !(w->fed && v->dtype == m->dtype && !v->stays)) continue;
        if (b->count == MAX_INPUTS) abort();
        status = input_of(m, v, w, batch, &b->in[b->count]);
        if (status == DHOW_OK) b->count++;
    }
    return status;
}

static dhow_status take(dhow_device *cpu, dhow_tensor *t, outcome *o, int i) {
    dhow_tensor *host = NULL, *wide = NULL;
    void *data;
    o->info[i] = DHOW_INIT(dhow_tensor_info);
    dhow_status status = dhow_tensor_get_info(t, &o->info[i]);
    const size_t count = (size_t)o->info[i].count;
    if (status == DHOW_OK) status = dhow_tensor_to(t, cpu, &host);
    if (status == DHOW_OK)
        status = dhow_tensor_create(cpu, DHOW_F64, o->info[i].rank, o->info[i].shape, &wide);
    if (status == DHOW_OK && count > 0) status = dhow_cast(NULL, host, wide);
    if (status == DHOW_OK) status = dhow_tensor_host_ptr(wide, &data);
    if (status == DHOW_OK) {
        double *kept = realloc(o->data[i], (count + 1) * sizeof *kept);
        if (kept == NULL) abort();
        if (count > 0) memcpy(kept, data, count * sizeof *kept);
        o->data[i] = kept;
    }
    dhow_tensor_release(host);
    dhow_tensor_release(wide);
    return status;
}

static bool looks_like(dhow_tensor *a, dhow_tensor *b) {
    dhow_tensor_info x = DHOW_INIT(dhow_tensor_info), y = DHOW_INIT(dhow_tensor_info);
    return dhow_tensor_get_info(a, &x) == DHOW_OK && dhow_tensor_get_info(b, &y) == DHOW_OK &&
           x.dtype == y.dtype && x.rank == y.rank && x.count > 0 &&
           memcmp(x.shape, y.shape, (size_t)x.rank * sizeof *x.shape) == 0;
}

/* Once more with the results `out` as the tensors that are written, but those that look like an
 * input: they are that input's tensor. */
static dhow_status run_shared(dhow_model *loaded, bound *b, dhow_tensor **out, uint32_t count) {
    bool taken[MAX_INPUTS] = {false};
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < b->count; k++) {
            if (taken[k] || !looks_like(out[i], b->in[k])) continue;
            if (dhow_tensor_retain(b->in[k]) != DHOW_OK) abort();
            taken[k] = true;
            dhow_tensor_release(out[i]);
            out[i] = b->in[k];
            break;
        }
    }
    return dhow_model_run_into(loaded, NULL, b->in, b->count, out, count);
}

static dhow_status run_model(dhow_model *loaded, const model *m, const way *w, int64_t batch,
                             outcome *o) {
    dhow_tensor *out[MAX_OUTPUTS] = {NULL};
    dhow_device *cpu = NULL;
    bound b;
    const uint32_t count = dhow_model_output_count(loaded);
    dhow_status status = inputs_of(m, w, batch, &b);
    if (status == DHOW_OK) status = dhow_device_get(dhow_device_context(w->device), "cpu", &cpu);
    if (status == DHOW_OK) status = dhow_model_run(loaded, NULL, b.in, b.count, out, count);
    if (status == DHOW_OK && w->shared) status = run_shared(loaded, &b, out, count);
    o->count = (int)count;
    for (uint32_t i = 0; i < count && status == DHOW_OK; i++) status = take(cpu, out[i], o, (int)i);
    release_all(b.in, b.count);
    release_all(out, count);
    return status;
}

/* Threads of the CPU follow the cores that are free, and sums of parts follow the threads. */
static bool same_numbers(const outcome *a, const outcome *b) {
    for (int i = 0; i < a->count; i++) {
        if (a->info[i].count != b->info[i].count) return false;
        for (int64_t k = 0; k < a->info[i].count; k++) {
            const double p = a->data[i][k], q = b->data[i][k];
            if (isfinite(p) != isfinite(q)) return false;
            if (isfinite(p) && fabs(p - q) > 1e-5 * (1 + fabs(p))) return false;
        }
    }
    return true;
}

static dhow_status run_loaded(dhow_model *loaded, const model *m, const way *w, outcome *o) {
    dhow_status status = DHOW_OK;
    outcome first = {0};
    if (w->there_and_back) {
        status = run_model(loaded, m, w, w->batch, &first);
        if (status != DHOW_OK)
            (void)snprintf(o->message, STORY, "other extents: %s", dhow_last_error());
        outcome_free(&first);
        first = (outcome){0};
        status = DHOW_OK; /* these are asked for by themselves, too */
    }
    const int64_t batch = w->there_and_back ? -1 : w->batch;
    if (status == DHOW_OK) status = run_model(loaded, m, w, batch, o);
    for (int i = 1; i < w->runs && status == DHOW_OK; i++) {
        status = run_model(loaded, m, w, batch, &first);
        if (status == DHOW_OK && !same_numbers(o, &first)) {
            (void)snprintf(o->message, STORY, "run %d gives other numbers than the first", i + 1);
            outcome_free(&first);
            return DHOW_INTERNAL;
        }
    }
    outcome_free(&first);
    if (status != DHOW_OK) (void)snprintf(o->message, STORY, "%s", dhow_last_error());
    return status;
}

void run_one_way(const model *m, const way *w, outcome *o) {
    dhow_model *loaded = NULL;
    bytes file = model_write(m, w->dtype, w->fed);
    *o = (outcome){0};
    dhowi_least_shed = 0;
    dhowi_optimisations = w->optimisations;
    o->status =
        dhow_model_load_memory(dhow_device_context(w->device), file.data, file.length, &loaded);
    if (o->status == DHOW_OK) o->status = dhow_model_to(loaded, w->device);
    if (o->status == DHOW_OK && m->half != 0 && !w->whole)
        o->status = dhow_model_set_precision(
            loaded, m->half == DHOW_F16 ? DHOW_PRECISION_F16 : DHOW_PRECISION_BF16);
    if (o->status == DHOW_OK) {
        o->status = run_loaded(loaded, m, w, o);
    } else {
        (void)snprintf(o->message, STORY, "%s", dhow_last_error());
    }
    dhow_model_release(loaded);
    dhowi_optimisations = DHOWI_OPTIMISE_ALL;
    bytes_free(&file);
}

void outcome_free(outcome *o) {
    for (int i = 0; i < MAX_OUTPUTS; i++) {
        free(o->data[i]);
        o->data[i] = NULL;
    }
}
