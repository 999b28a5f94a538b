/* SPDX-License-Identifier: Apache-2.0
 *
 * See dhow/parallel.h. Each member - a device with its copy of the model - has a thread, since the
 * CPU computes on the thread that asks it to. A run is one round in which every member does its
 * part; parts of members that fail are divided in further rounds.
 */
#include "dhow/parallel.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "base/objects/struct_size.h"
#include "base/text/text.h"
#include "base/threads/single.h"
#include "base/threads/thread.h"
#include "data/loader.h"
#include "data/sink.h"
#include "dhow/copy.h"
#include "parallel/shares.h"

typedef struct member {
    dhow_parallel *owner;
    uint32_t index;
    dhow_device *device;
    dhow_model *model;
    pthread_t thread;
    bool started;
    int64_t begin, rows; /* its part of the round */
    dhow_status status;  /* of the part */
    dhowi_saved_error error;
    double seconds;
    dhowi_saved_error gone; /* why it is left out */
} member;

/* What a run works on. */
typedef struct job {
    dhow_tensor *const *inputs;
    dhow_tensor **outputs; /* on the CPU; NULL until a member knows the shape */
    int64_t rows;
} job;

struct dhow_parallel {
    dhowi_handle handle;
    dhowi_single single; /* runs */
    dhow_context *context;
    uint32_t member_count, input_count, output_count;
    member *members;
    dhowi_shares shares;
    bool keep_going, fixed_shares;

    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    uint64_t round; /* counts up when there is work */
    uint32_t busy;
    bool stopping;
    job job;
};

/* ---- a member's part ---- */

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void drop_tensors(dhow_tensor **tensors, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) dhow_tensor_release(tensors[i]);
}

static dhow_status bring_inputs(const member *m, dhow_tensor **there) {
    const dhow_parallel *p = m->owner;
    for (uint32_t i = 0; i < p->input_count; i++) {
        dhow_tensor *part;
        DHOWI_TRY(dhow_tensor_slice(p->job.inputs[i], 0, m->begin, m->begin + m->rows, 1, &part));
        dhow_status status = dhow_tensor_to_async(NULL, part, m->device, &there[i]);
        dhow_tensor_release(part);
        DHOWI_TRY(status);
    }
    return DHOW_OK;
}

/* The whole output, made by the first member that knows its shape. */
static dhow_status whole_output(dhow_parallel *p, uint32_t i, const dhow_tensor *part,
                                int64_t part_rows, dhow_tensor **out) {
    int64_t shape[DHOW_MAX_RANK];
    dhow_status status = DHOW_OK;
    char text[192];
    if (part->rank == 0 || part->shape[0] != part_rows) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "output %u is %s for %" PRId64
                          " rows; only outputs with a row for each row of the inputs can be "
                          "gathered",
                          i, dhowi_tensor_text(part, text, sizeof text), part_rows);
    }
    memcpy(shape, part->shape, sizeof shape);
    shape[0] = p->job.rows;
    pthread_mutex_lock(&p->mutex);
    if (p->job.outputs[i] == NULL) {
        status =
            dhow_tensor_create(p->context->cpu, part->dtype, part->rank, shape, &p->job.outputs[i]);
    }
    *out = p->job.outputs[i];
    pthread_mutex_unlock(&p->mutex);
    return status;
}

/* Members write different rows of one storage, so their copies need not wait for each other; each
 * follows its own computation, whose stream it is on. */
static dhow_status gather(const member *m, dhow_tensor *const *results) {
    dhow_parallel *p = m->owner;
    for (uint32_t i = 0; i < p->output_count; i++) {
        dhow_tensor *whole = NULL, *rows;
        DHOWI_TRY(whole_output(p, i, results[i], m->rows, &whole));
        DHOWI_TRY(dhow_tensor_slice(whole, 0, m->begin, m->begin + m->rows, 1, &rows));
        dhow_status status = dhow_copy_async(NULL, results[i], rows, DHOW_COPY_UNSAFE);
        dhow_tensor_release(rows);
        DHOWI_TRY(status);
    }
    return DHOW_OK;
}

static dhow_status compute(const member *m) {
    const dhow_parallel *p = m->owner;
    dhow_tensor *there[DHOW_MAX_COLUMNS] = {NULL}, *results[DHOW_MAX_COLUMNS] = {NULL};
    dhow_stream *stream = NULL;
    dhow_status status = dhow_stream_default(m->device, &stream);
    if (status == DHOW_OK) status = bring_inputs(m, there);
    if (status == DHOW_OK) {
        status = dhow_model_run(m->model, NULL, there, p->input_count, results, p->output_count);
    }
    if (status == DHOW_OK) status = gather(m, results);
    if (status == DHOW_OK) status = dhow_stream_sync(stream);
    drop_tensors(there, p->input_count);
    drop_tensors(results, p->output_count);
    return status;
}

static void do_part(member *m) {
    double start = now();
    m->status = compute(m);
    m->seconds = now() - start;
    if (m->status == DHOW_OK) return;
    m->status =
        dhowi_fail_prefix(m->status, "dhow_parallel_run: rows %" PRId64 " to %" PRId64 " on %s",
                          m->begin, m->begin + m->rows - 1, m->device->name);
    dhowi_error_save(&m->error, m->status);
}

static void *work(void *argument) {
    member *m = argument;
    dhow_parallel *p = m->owner;
    uint64_t seen = 0;
    pthread_mutex_lock(&p->mutex);
    while (!p->stopping) {
        if (p->round == seen) {
            pthread_cond_wait(&p->work, &p->mutex);
            continue;
        }
        seen = p->round;
        if (m->rows == 0) continue;
        pthread_mutex_unlock(&p->mutex);
        do_part(m);
        pthread_mutex_lock(&p->mutex);
        if (--p->busy == 0) pthread_cond_signal(&p->done);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

/* ---- rounds ---- */

/* Divides rows begin .. begin + rows among the members and waits for all of them. */
static void run_round(dhow_parallel *p, int64_t begin, int64_t rows) {
    int64_t parts[DHOWI_MAX_MEMBERS];
    dhowi_shares_split(&p->shares, rows, parts);
    pthread_mutex_lock(&p->mutex);
    for (uint32_t i = 0; i < p->member_count; i++) {
        member *m = &p->members[i];
        m->begin = begin;
        m->rows = parts[i];
        m->status = DHOW_OK;
        begin += parts[i];
        p->busy += parts[i] > 0;
    }
    p->round++;
    pthread_cond_broadcast(&p->work);
    while (p->busy > 0) pthread_cond_wait(&p->done, &p->mutex);
    pthread_mutex_unlock(&p->mutex);
}

/* A mistake of the caller would be the same on every device. */
static bool may_be_left_out(const dhow_parallel *p, const member *m) {
    return p->keep_going && m->status != DHOW_INVALID_ARGUMENT;
}

static void leave_out(dhow_parallel *p, member *m) {
    p->shares.live[m->index] = false;
    m->gone = m->error;
    dhowi_log_line(&p->context->log, DHOW_LOG_WARN, "%s is left out from now on: %s",
                   m->device->name, m->error.message);
}

static bool any_live(const dhow_parallel *p) {
    for (uint32_t i = 0; i < p->member_count; i++)
        if (p->shares.live[i]) return true;
    return false;
}

typedef struct range {
    int64_t begin, rows;
} range;

static dhow_status run_rows(dhow_parallel *p, int64_t rows) {
    range todo[DHOWI_MAX_MEMBERS] = {{0, rows}};
    uint32_t count = 1; /* never more than members that failed, or the first */
    while (count > 0) {
        range next = todo[--count];
        run_round(p, next.begin, next.rows);
        const member *last = NULL;
        for (uint32_t i = 0; i < p->member_count; i++) {
            member *m = &p->members[i];
            if (m->rows == 0) continue;
            if (m->status == DHOW_OK) {
                dhowi_shares_note(&p->shares, i, m->rows, m->seconds);
                continue;
            }
            if (!may_be_left_out(p, m)) return dhowi_error_raise(&m->error);
            leave_out(p, m);
            todo[count++] = (range){m->begin, m->rows};
            last = m;
        }
        if (count > 0 && !any_live(p) && last != NULL) return dhowi_error_raise(&last->error);
    }
    if (!p->fixed_shares) dhowi_shares_adapt(&p->shares);
    return DHOW_OK;
}

/* ---- making ---- */

static dhow_status check_shares(const dhow_parallel_options *o, uint32_t count) {
    double sum = 0;
    for (uint32_t i = 0; i < count && o->shares != NULL; i++) {
        if (!(o->shares[i] >= 0 && o->shares[i] <= 1e9)) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "dhow_parallel_create: share %u is %g; 0 or more is needed", i,
                              o->shares[i]);
        }
        sum += o->shares[i];
    }
    if (o->shares == NULL || sum > 0) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_parallel_create: all shares are 0");
}

static dhow_status start_members(dhow_parallel *p, dhow_model *model, dhow_device *const *devices,
                                 const dhow_parallel_options *o) {
    dhow_model *models[DHOWI_MAX_MEMBERS];
    double sum = 0;
    DHOWI_TRY(dhow_model_replicate(model, devices, p->member_count, models));
    for (uint32_t i = 0; i < p->member_count; i++)
        sum += p->shares.share[i] = o->shares != NULL ? o->shares[i] : 1;
    for (uint32_t i = 0; i < p->member_count; i++) {
        p->members[i] = (member){.owner = p, .index = i, .device = devices[i], .model = models[i]};
        p->shares.live[i] = true;
        p->shares.share[i] /= sum;
    }
    int error = 0;
    for (uint32_t i = 0; i < p->member_count && error == 0; i++) {
        error = dhowi_thread_start(&p->members[i].thread, work, &p->members[i]);
        p->members[i].started = error == 0;
    }
    if (error == 0) return DHOW_OK;
    return dhowi_fail(DHOW_OUT_OF_MEMORY, "dhow_parallel_create: cannot start a thread: %s",
                      strerror(error));
}

static void end_parallel(dhow_parallel *p) {
    bool forked = p->context->cpu->fork_generation != dhowi_fork_generation();
    dhow_context *context = p->context;
    if (!forked) { /* in a child the threads are not there, and their locks may be held */
        pthread_mutex_lock(&p->mutex);
        p->stopping = true;
        pthread_cond_broadcast(&p->work);
        pthread_mutex_unlock(&p->mutex);
    }
    for (uint32_t i = 0; p->members != NULL && i < p->member_count; i++) {
        if (p->members[i].started && !forked) (void)pthread_join(p->members[i].thread, NULL);
        dhow_model_release(p->members[i].model);
    }
    dhowi_free(p->members);
    if (!forked) {
        pthread_mutex_destroy(&p->mutex);
        pthread_cond_destroy(&p->work);
        pthread_cond_destroy(&p->done);
    }
    dhowi_handle_free(DHOWI_PARALLEL, p);
    dhowi_context_drop(context);
}

static dhow_status check_model(const dhow_model *model) {
    static const char function[] = "dhow_parallel_create";
    DHOWI_TRY(dhowi_handle_check(model, DHOWI_MODEL, function, "model"));
    uint32_t in = dhow_model_input_count(model), out = dhow_model_output_count(model);
    if (in >= 1 && in <= DHOW_MAX_COLUMNS && out <= DHOW_MAX_COLUMNS) return DHOW_OK;
    return dhowi_fail(DHOW_UNSUPPORTED,
                      "%s: the model has %u inputs and %u outputs; 1 to %d inputs and at most %d "
                      "outputs can be divided",
                      function, in, out, DHOW_MAX_COLUMNS, DHOW_MAX_COLUMNS);
}

dhow_status dhow_parallel_create(dhow_model *model, dhow_device *const *devices, uint32_t count,
                                 const dhow_parallel_options *options, dhow_parallel **out) {
    static const char function[] = "dhow_parallel_create";
    dhow_parallel_options own, *o = &own;
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(DHOWI_STRUCT_IN(dhow_parallel_options, options, o, function, "options"));
    DHOWI_TRY(check_model(model));
    if (devices == NULL || count == 0 || count > DHOWI_MAX_MEMBERS) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %u devices; 1 to %d are allowed", function,
                          devices == NULL ? 0 : count, DHOWI_MAX_MEMBERS);
    }
    for (uint32_t i = 0; i < count; i++) DHOWI_TRY(dhowi_device_check(devices[i], function));
    DHOWI_TRY(check_shares(o, count));
    dhow_parallel *p = dhowi_handle_new(DHOWI_PARALLEL, sizeof *p);
    if (p == NULL) return dhowi_fail_memory(function);
    p->context = devices[0]->context;
    dhowi_handle_retain(&p->context->handle);
    p->member_count = p->shares.count = count;
    p->input_count = dhow_model_input_count(model);
    p->output_count = dhow_model_output_count(model);
    p->keep_going = o->keep_going != 0;
    p->fixed_shares = o->fixed_shares != 0;
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    p->members = dhowi_alloc_array(count, sizeof p->members[0]);
    dhow_status status =
        p->members != NULL ? start_members(p, model, devices, o) : dhowi_fail_memory(function);
    if (status != DHOW_OK) {
        end_parallel(p);
        return status;
    }
    *out = p;
    return DHOW_OK;
}

void dhow_parallel_release(dhow_parallel *p) {
    DHOWI_KEEP_ERROR;
    if (dhowi_handle_is(p, DHOWI_PARALLEL) && dhowi_handle_drop(&p->handle)) end_parallel(p);
}

/* ---- running ---- */

static dhow_status check_inputs(const dhow_parallel *p, dhow_tensor *const *inputs, uint32_t count,
                                int64_t *out_rows) {
    static const char function[] = "dhow_parallel_run";
    char text[192];
    if (count != p->input_count || inputs == NULL) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %u inputs given, the model has %u", function,
                          inputs == NULL ? 0 : count, p->input_count);
    }
    for (uint32_t i = 0; i < count; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "input %u", i);
        DHOWI_TRY(dhowi_tensor_check_read(inputs[i], function, name));
        if (inputs[i]->rank == 0 || inputs[i]->shape[0] == 0 ||
            inputs[i]->shape[0] != inputs[0]->shape[0]) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: %s is %s; inputs are divided by their first dimension, which "
                              "must be the same for all and not 0",
                              function, name, dhowi_tensor_text(inputs[i], text, sizeof text));
        }
    }
    *out_rows = inputs[0]->shape[0];
    return DHOW_OK;
}

static dhow_status check_outputs(const dhow_parallel *p, dhow_tensor **outputs, uint32_t count,
                                 int64_t rows) {
    static const char function[] = "dhow_parallel_run";
    char text[192];
    if (count != p->output_count || (outputs == NULL && count > 0)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: room for %u outputs given, the model has %u",
                          function, outputs == NULL ? 0 : count, p->output_count);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (outputs[i] == NULL) continue;
        char name[32];
        (void)snprintf(name, sizeof name, "output %u", i);
        DHOWI_TRY(dhowi_tensor_check_write(outputs[i], function, name));
        if (outputs[i]->storage->host == NULL || outputs[i]->rank == 0 ||
            outputs[i]->shape[0] != rows) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: %s is %s; a CPU tensor of %" PRId64 " rows is needed", function,
                              name, dhowi_tensor_text(outputs[i], text, sizeof text), rows);
        }
        void *data; /* the parts do not wait for what still uses it */
        DHOWI_TRY(dhow_tensor_host_ptr(outputs[i], &data));
    }
    return DHOW_OK;
}

static dhow_status begin_parallel(dhow_parallel *p, const char *function) {
    DHOWI_TRY(dhowi_handle_check(p, DHOWI_PARALLEL, function, "parallel"));
    DHOWI_TRY(dhowi_device_usable(p->context->cpu));
    return dhowi_single_begin(&p->single, function, "parallel model");
}

static dhow_status run(dhow_parallel *p, dhow_tensor *const *inputs, uint32_t input_count,
                       dhow_tensor **outputs, uint32_t output_count) {
    dhow_tensor *results[DHOW_MAX_COLUMNS] = {NULL};
    int64_t rows = 0;
    DHOWI_TRY(check_inputs(p, inputs, input_count, &rows));
    DHOWI_TRY(check_outputs(p, outputs, output_count, rows));
    if (!any_live(p)) {
        const member *m = &p->members[p->member_count - 1];
        (void)dhowi_error_raise(&m->gone);
        return dhowi_fail_prefix(m->gone.status, "dhow_parallel_run: every device has failed");
    }
    if (output_count > 0) memcpy(results, outputs, output_count * sizeof results[0]);
    p->job = (job){inputs, results, rows};
    dhow_status status = run_rows(p, rows);
    for (uint32_t i = 0; i < output_count; i++) {
        if (status == DHOW_OK) outputs[i] = results[i];
        if (status != DHOW_OK && outputs[i] == NULL) dhow_tensor_release(results[i]);
    }
    return status;
}

dhow_status dhow_parallel_run(dhow_parallel *p, dhow_tensor *const *inputs, uint32_t input_count,
                              dhow_tensor **outputs, uint32_t output_count) {
    DHOWI_TRY(begin_parallel(p, "dhow_parallel_run"));
    dhow_status status = run(p, inputs, input_count, outputs, output_count);
    dhowi_single_end(&p->single);
    return status;
}

static dhow_status predict(dhow_parallel *p, dhow_loader *loader, dhow_sink *sink) {
    static const char function[] = "dhow_parallel_predict";
    dhow_batch batch;
    if (dhowi_loader_column_count(loader) < p->input_count) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: the model has %u inputs, the loader's dataset %u columns", function,
                          p->input_count, dhowi_loader_column_count(loader));
    }
    sink->expected_samples = dhowi_loader_rest(loader);
    for (;;) {
        DHOWI_TRY(dhowi_loader_next(loader, &batch));
        if (batch.sample_count == 0) return DHOW_OK;
        dhow_batch results = batch;
        memset(results.tensors, 0, sizeof results.tensors);
        results.tensor_count = p->output_count;
        dhow_status status =
            run(p, batch.tensors, p->input_count, results.tensors, p->output_count);
        if (status == DHOW_OK) status = dhowi_sink_take(sink, &results);
        drop_tensors(results.tensors, p->output_count);
        if (status != DHOW_OK) {
            return dhowi_fail_prefix(status, "%s: batch %" PRId64, function, batch.index);
        }
    }
}

dhow_status dhow_parallel_predict(dhow_parallel *p, dhow_loader *loader, dhow_sink *sink) {
    static const char function[] = "dhow_parallel_predict";
    DHOWI_TRY(begin_parallel(p, function));
    dhow_status status = dhowi_loader_begin(loader, function);
    if (status == DHOW_OK) {
        status = dhowi_sink_begin(sink, function);
        if (status == DHOW_OK) {
            status = predict(p, loader, sink);
            dhowi_sink_end(sink);
        }
        dhowi_loader_end(loader);
    }
    dhowi_single_end(&p->single);
    return status;
}

uint32_t dhow_parallel_member_count(const dhow_parallel *p) {
    return dhowi_handle_is(p, DHOWI_PARALLEL) ? p->member_count : 0;
}

dhow_status dhow_parallel_member_at(const dhow_parallel *p, uint32_t index,
                                    dhow_parallel_member *given) {
    dhow_parallel_member own, *out = &own;
    static const char function[] = "dhow_parallel_member_at";
    DHOWI_TRY(DHOWI_STRUCT_OUT(dhow_parallel_member, given, &own, function));
    DHOWI_TRY(dhowi_handle_check(p, DHOWI_PARALLEL, function, "parallel"));
    if (index >= p->member_count) {
        return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: index %u, there are %u devices", function, index,
                          p->member_count);
    }
    const member *m = &p->members[index];
    out->device = m->device;
    out->share = p->shares.live[index] ? p->shares.share[index] : 0;
    out->rows_per_second = p->shares.rate[index];
    out->status = m->gone.status;
    (void)dhowi_copy_text(out->reason, sizeof out->reason, m->gone.message);
    DHOWI_STRUCT_GIVE(given, out);
    return DHOW_OK;
}
