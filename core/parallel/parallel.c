/* SPDX-License-Identifier: Apache-2.0
 *
 * See dhow/parallel.h. Each member - a device with its copy of the model - has a thread, since the
 * CPU computes on the thread that asks it to. A run is one round in which every member does its
 * part; parts of members that fail are divided in further rounds.
 */
#include "parallel/parallel.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/objects/struct_size.h"
#include "base/text/text.h"
#include "data/loader.h"
#include "data/sink.h"
#include "model/run/run.h"
#include "parallel/comm.h"

/* Bytes of weights: making a communicator takes some tenths of a second, copies of fewer less. */
static const uint64_t k_worth_a_comm = UINT64_C(64) << 20;

/* ---- rounds ---- */

/* Divides rows begin .. begin + rows among the members and waits for all of them. */
static void run_round(dhow_parallel *p, int64_t begin, int64_t rows) {
    int64_t parts[DHOWI_MAX_MEMBERS];
    dhowi_shares_split(&p->shares, rows, parts);
    for (uint32_t i = 0; i < p->member_count; i++) {
        dhowi_member *m = &p->members[i];
        m->begin = begin;
        m->rows = parts[i];
        m->status = DHOW_OK;
        begin += parts[i];
    }
    dhowi_team_begin(&p->team);
    dhowi_team_wait(&p->team);
}

/* A mistake of the caller would be the same on every device. */
static bool may_be_left_out(const dhow_parallel *p, const dhowi_member *m) {
    return p->skip_failed_devices && m->status != DHOW_INVALID_ARGUMENT;
}

static void leave_out(dhow_parallel *p, dhowi_member *m) {
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
        const dhowi_member *last = NULL;
        for (uint32_t i = 0; i < p->member_count; i++) {
            dhowi_member *m = &p->members[i];
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

dhow_status dhowi_parallel_check_shares(const char *function, const double *shares,
                                        uint32_t count) {
    double sum = 0;
    for (uint32_t i = 0; i < count && shares != NULL; i++) {
        if (!(shares[i] >= 0 && shares[i] <= 1e9)) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: share %u is %g; 0 or more is needed",
                              function, i, shares[i]);
        }
        sum += shares[i];
    }
    if (shares == NULL || sum > 0) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: all shares are 0", function);
}

/* ---- weights ---- */

typedef struct weights {
    dhowi_comm *comm;
    uint32_t count;
} weights;

/* Of types that the backend does not know: by copies. */
static dhow_status broadcast(void *user, dhow_tensor *const *tensors) {
    const weights *w = user;
    dhowi_comm_part parts[DHOWI_MAX_MEMBERS];
    uint32_t failed;
    for (uint32_t i = 0; i < w->count; i++) parts[i] = (dhowi_comm_part){tensors[i], tensors[i]};
    dhow_status status =
        dhowi_comm_run(w->comm, DHOW_COLL_BROADCAST, 0, parts, tensors[0]->count, true, &failed);
    if (status == DHOW_OK) return status;
    if (status != DHOW_UNSUPPORTED) {
        dhowi_saved_error error;
        dhowi_error_save(&error, status);
        dhowi_comm_give_up(w->comm);
        return dhowi_error_raise(&error);
    }
    dhowi_error_clear();
    for (uint32_t i = 1; i < w->count; i++) DHOWI_TRY(dhow_copy(tensors[0], tensors[i]));
    return DHOW_OK;
}

static dhow_status await_weights(void *user) {
    uint32_t failed;
    return dhowi_comm_wait(((const weights *)user)->comm, 0, &failed);
}

/* By the backend where all devices are of one that does that, else by copies. */
static dhow_status replicate(const dhow_parallel *p, dhow_model *model, dhow_device *const *devices,
                             dhow_model **models) {
    weights w = {.count = p->member_count};
    const dhowi_spread spread = {broadcast, await_weights, &w};
    if (p->member_count > 1 && p->context->collectives &&
        dhowi_model_weight_bytes(model) >= k_worth_a_comm &&
        dhowi_comm_create(devices, p->member_count, &w.comm) != DHOW_OK)
        dhowi_error_clear(); /* the log tells which way each device's come */
    const dhow_status status = dhowi_model_replicate(model, devices, p->member_count,
                                                     w.comm != NULL ? &spread : NULL, models);
    dhowi_comm_end(w.comm);
    return status;
}

/* ---- members ---- */

static dhow_status start_members(dhow_parallel *p, dhow_model *model, dhow_device *const *devices,
                                 const dhow_parallel_options *o) {
    dhow_model *models[DHOWI_MAX_MEMBERS];
    double sum = 0;
    DHOWI_TRY(replicate(p, model, devices, models));
    for (uint32_t i = 0; i < p->member_count; i++)
        sum += p->shares.share[i] = o->shares != NULL ? o->shares[i] : 1;
    for (uint32_t i = 0; i < p->member_count; i++) {
        p->members[i] =
            (dhowi_member){.owner = p, .index = i, .device = devices[i], .model = models[i]};
        p->shares.live[i] = true;
        p->shares.share[i] /= sum;
    }
    return dhowi_team_start(&p->team, "dhow_parallel_create", p->member_count, dhowi_member_work,
                            p);
}

static void end_parallel(dhow_parallel *p) {
    dhow_context *context = p->context;
    dhowi_team_end(&p->team);
    for (uint32_t i = 0; p->members != NULL && i < p->member_count; i++)
        dhow_model_release(p->members[i].model);
    dhowi_free(p->members);
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
    DHOWI_TRY(dhowi_parallel_check_shares(function, o->shares, count));
    dhow_parallel *p = dhowi_handle_new(DHOWI_PARALLEL, sizeof *p);
    if (p == NULL) return dhowi_fail_memory(function);
    p->context = devices[0]->context;
    dhowi_handle_retain(&p->context->handle);
    p->member_count = p->shares.count = count;
    p->input_count = dhow_model_input_count(model);
    p->output_count = dhow_model_output_count(model);
    p->skip_failed_devices = o->skip_failed_devices != 0;
    p->fixed_shares = o->fixed_shares != 0;
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

static dhow_status check_inputs(const dhow_parallel *p, const char *function,
                                dhow_tensor *const *inputs, uint32_t count, int64_t *out_rows) {
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

static dhow_status check_room(const dhow_parallel *p, const char *function, const void *outputs,
                              uint32_t count) {
    if (count == p->output_count && (outputs != NULL || count == 0)) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: room for %u outputs given, the model has %u",
                      function, outputs == NULL ? 0 : count, p->output_count);
}

static dhow_status check_outputs(const dhow_parallel *p, const char *function,
                                 dhow_tensor *const *outputs, int64_t rows) {
    char text[192];
    for (uint32_t i = 0; i < p->output_count; i++) {
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

/* Into `results`, where entries that are NULL are made. */
static dhow_status run(dhow_parallel *p, const char *function, int64_t rows,
                       dhow_tensor *const *inputs, dhow_tensor **results) {
    if (!any_live(p)) {
        const dhowi_member *m = &p->members[p->member_count - 1];
        (void)dhowi_error_raise(&m->gone);
        return dhowi_fail_prefix(m->gone.status, "%s: every device has failed", function);
    }
    p->job = (dhowi_parallel_job){inputs, results, rows};
    return run_rows(p, rows);
}

static dhow_status run_made(dhow_parallel *p, const char *function, dhow_tensor *const *inputs,
                            uint32_t input_count, dhow_tensor **outputs, uint32_t output_count) {
    dhow_tensor *results[DHOW_MAX_COLUMNS] = {NULL};
    int64_t rows = 0;
    DHOWI_TRY(check_inputs(p, function, inputs, input_count, &rows));
    DHOWI_TRY(check_room(p, function, outputs, output_count));
    dhow_status status = run(p, function, rows, inputs, results);
    if (status != DHOW_OK)
        dhowi_drop_tensors(results, output_count);
    else if (output_count > 0)
        memcpy(outputs, results, output_count * sizeof results[0]);
    return status;
}

static dhow_status run_into(dhow_parallel *p, const char *function, dhow_tensor *const *inputs,
                            uint32_t input_count, dhow_tensor *const *outputs,
                            uint32_t output_count) {
    dhow_tensor *results[DHOW_MAX_COLUMNS] = {NULL};
    int64_t rows = 0;
    DHOWI_TRY(check_inputs(p, function, inputs, input_count, &rows));
    DHOWI_TRY(check_room(p, function, outputs, output_count));
    DHOWI_TRY(check_outputs(p, function, outputs, rows));
    if (output_count > 0) memcpy(results, outputs, output_count * sizeof results[0]);
    return run(p, function, rows, inputs, results);
}

dhow_status dhow_parallel_run(dhow_parallel *p, dhow_tensor *const *inputs, uint32_t input_count,
                              dhow_tensor **outputs, uint32_t output_count) {
    static const char function[] = "dhow_parallel_run";
    for (uint32_t i = 0; outputs != NULL && i < output_count; i++) outputs[i] = NULL;
    DHOWI_TRY(begin_parallel(p, function));
    dhow_status status = run_made(p, function, inputs, input_count, outputs, output_count);
    dhowi_single_end(&p->single);
    return status;
}

dhow_status dhow_parallel_run_into(dhow_parallel *p, dhow_tensor *const *inputs,
                                   uint32_t input_count, dhow_tensor *const *outputs,
                                   uint32_t output_count) {
    static const char function[] = "dhow_parallel_run_into";
    DHOWI_TRY(begin_parallel(p, function));
    dhow_status status = run_into(p, function, inputs, input_count, outputs, output_count);
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
            run_made(p, function, batch.tensors, p->input_count, results.tensors, p->output_count);
        if (status == DHOW_OK) status = dhowi_sink_take(sink, &results);
        dhowi_drop_tensors(results.tensors, p->output_count);
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
    const dhowi_member *m = &p->members[index];
    out->device = m->device;
    out->share = p->shares.live[index] ? p->shares.share[index] : 0;
    out->rows_per_second = p->shares.rate[index];
    out->status = m->gone.status;
    (void)dhowi_copy_text(out->reason, sizeof out->reason, m->gone.message);
    DHOWI_STRUCT_GIVE(given, out);
    return DHOW_OK;
}
