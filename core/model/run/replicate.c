/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of a model on other devices: one graph, one set of host tensors, plans of their own.
 */
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/text.h"
#include "copy/engine.h"
#include "model/run/run.h"

/* Bytes of weights: whether devices reach each other is found out by copies between them. */
static const uint64_t k_worth_a_trial = UINT64_C(1) << 20;

static dhow_status copy_graph(dhow_model *m, const dhowi_subgraph *from, dhowi_subgraph *to) {
    *to = (dhowi_subgraph){.outputs = from->outputs,
                           .output_count = from->output_count,
                           .inputs = from->inputs,
                           .input_count = from->input_count};
    to->nodes = dhowi_arena_array(&m->arena, from->node_count, sizeof *to->nodes);
    if (to->nodes == NULL) return dhowi_fail_memory("model");
    for (; to->node_count < from->node_count; to->node_count++) {
        dhowi_node *n = &to->nodes[to->node_count];
        *n = from->nodes[to->node_count];
        n->foldings = NULL;
        n->branch[0] = n->branch[1] = NULL;
    }
    for (uint32_t i = 0; i < to->node_count; i++) {
        for (int k = 0; k < 2; k++) {
            const dhowi_subgraph *branch = from->nodes[i].branch[k];
            if (branch == NULL) continue;
            dhowi_subgraph *copy = dhowi_arena_array(&m->arena, 1, sizeof *copy);
            if (copy == NULL) return dhowi_fail_memory("model");
            to->nodes[i].branch[k] = copy;
            DHOWI_TRY(copy_graph(m, branch, copy));
        }
    }
    return DHOW_OK;
}

static bool copy_array(void **to, const void *from, size_t count, size_t bytes) {
    *to = dhowi_alloc_array(count + 1, bytes);
    if (*to != NULL && count > 0) memcpy(*to, from, count * bytes);
    return *to != NULL;
}

/* Parameters are shared with the original, which lives as long as its copies; what was computed
 * from them is not. */
static dhow_status copy_values(dhow_model *m, dhow_model *from) {
    for (uint32_t i = 0; i < from->parameter_count; i++) {
        dhow_tensor *t; /* read once, for all */
        DHOWI_TRY(dhowi_model_tensor(from, &from->values[from->parameters[i]], &t));
    }
    m->values = dhowi_alloc_array((size_t)from->value_count + 1, sizeof *m->values);
    if (m->values == NULL) return dhowi_fail_memory("model");
    m->value_count = m->value_capacity = from->value_count;
    for (uint32_t i = 0; i < from->value_count; i++) {
        dhowi_value *v = &m->values[i];
        *v = from->values[i];
        v->resident = v->half_resident = NULL;
        if (v->kind == DHOWI_VALUE_RESULT) {
            v->known = v->half_tried = false;
            v->tensor = v->half = NULL;
        }
        if (v->half != NULL && v->half->dtype == DHOW_F32) v->half = NULL; /* may be missing */
        if (v->half != NULL) dhowi_handle_retain(&v->half->handle);
        if (v->tensor != NULL) dhowi_handle_retain(&v->tensor->handle);
    }
    return DHOW_OK;
}

static dhow_status copy_into(dhow_model *m, dhow_model *from) {
    m->origin = from;
    dhowi_handle_retain(&from->handle);
    m->name = from->name;
    m->placement = from->placement;
    m->precision = from->precision;
    pthread_mutex_lock(&from->making); /* a run may be making a plan */
    dhow_status status = copy_values(m, from);
    pthread_mutex_unlock(&from->making);
    DHOWI_TRY(status);
    DHOWI_TRY(copy_graph(m, &from->graph, &m->graph));
    bool copied =
        copy_array((void **)&m->inputs, from->inputs, from->input_count, sizeof *m->inputs) &&
        copy_array((void **)&m->outputs, from->outputs, from->output_count, sizeof *m->outputs) &&
        copy_array((void **)&m->parameters, from->parameters, from->parameter_count,
                   sizeof *m->parameters) &&
        copy_array((void **)&m->output_names, from->output_names, from->output_count,
                   sizeof *m->output_names);
    if (!copied) return dhowi_fail_memory("model");
    m->input_count = from->input_count;
    m->output_count = from->output_count;
    m->parameter_count = from->parameter_count;
    m->file = from->file; /* the original's */
    m->external_bytes = from->external_bytes;
    m->memory_limit = from->memory_limit;
    atomic_store(&m->time_limit, atomic_load(&from->time_limit));
    m->parameters_given = from->parameters_given;
    return DHOW_OK;
}

dhow_status dhowi_model_copy(dhow_model *from, dhow_model **out) {
    dhow_model *m;
    *out = NULL;
    DHOWI_TRY(dhow_model_create(from->context, &m));
    dhow_status status = copy_into(m, from);
    if (status == DHOW_OK) {
        *out = m;
    } else {
        dhow_model_release(m);
    }
    return status;
}

uint64_t dhowi_model_weight_bytes(const dhow_model *m) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        const dhowi_tensor_desc *d = &m->values[m->parameters[i]].desc;
        int64_t count = 1;
        for (int32_t k = 0; k < d->rank; k++) count *= d->shape[k];
        bytes += (uint64_t)count * dhow_dtype_bytes(d->dtype);
    }
    return bytes;
}

/* A copy whose device the next one's reaches: weights go from device to device then. */
static const dhow_model *find_near(dhow_model *const *copies, uint32_t count, dhow_device *device) {
    if (count == 0 || dhowi_device_is_host(device) ||
        dhowi_model_weight_bytes(copies[0]) < k_worth_a_trial)
        return NULL;
    if (dhowi_device_open(device) != DHOW_OK) {
        dhowi_error_clear(); /* placing the copy tells it */
        return NULL;
    }
    for (uint32_t i = count; i-- > 0;) {
        dhow_device *there = copies[i]->device;
        if (there != device && !dhowi_device_is_host(there) && dhowi_peer_works(device, there))
            return copies[i];
    }
    return NULL;
}

static dhow_status place_near(dhow_model *m, const dhow_model *near, dhow_device *device,
                              dhow_placement placement) {
    m->near = near;
    const dhow_status status = dhow_model_place(m, device, placement);
    m->near = NULL;
    return status;
}

static dhow_status place_copy(dhow_model *m, dhow_model *const *copies, uint32_t count,
                              dhow_device *device, dhow_placement placement) {
    const bool live = dhowi_handle_is(device, DHOWI_DEVICE) && device->context == m->context;
    const dhow_model *near = live ? find_near(copies, count, device) : NULL;
    DHOWI_TRY(place_near(m, near, device, placement));
    if (!dhowi_device_is_host(device))
        dhowi_log_line(&m->context->log, DHOW_LOG_INFO, "weights on %s are copied from %s",
                       device->name, near != NULL ? near->device->name : "the host");
    return DHOW_OK;
}

/* ---- weights by an operation of all devices ---- */

/* Room for the first copy's tensor on another device, which its own copy will have. */
static dhow_status make_room(const dhow_tensor *first, dhow_device *device, dhow_tensor **out) {
    DHOWI_TRY(dhowi_tensor_new(device, first->dtype, first->rank, first->shape, out));
    (void)dhowi_copy_text((*out)->storage->label, sizeof(*out)->storage->label,
                          first->storage->label);
    return DHOW_OK;
}

static dhow_tensor **resident_of(dhow_model *m, int32_t value, int half) {
    dhowi_value *v = &m->values[value];
    return half ? &v->half_resident : &v->resident;
}

static dhow_status spread_weights(const dhowi_spread *spread, dhow_model *const *copies,
                                  uint32_t count, dhow_tensor **tensors) {
    for (uint32_t k = 0; k < 2 * copies[0]->parameter_count; k++) {
        const int32_t value = copies[0]->parameters[k / 2];
        tensors[0] = *resident_of(copies[0], value, k % 2);
        if (tensors[0] == NULL || !tensors[0]->contiguous || tensors[0]->count == 0) continue;
        for (uint32_t i = 1; i < count; i++) {
            dhow_tensor **room = resident_of(copies[i], value, k % 2);
            DHOWI_TRY(make_room(tensors[0], copies[i]->device, room));
            tensors[i] = *room;
        }
        DHOWI_TRY(spread->run(spread->user, tensors));
    }
    return DHOW_OK;
}

static void drop_carriers(dhow_model **carriers, uint32_t count) {
    for (uint32_t i = 1; carriers != NULL && i < count; i++) dhow_model_release(carriers[i]);
    dhowi_free(carriers);
}

/* Copies that carry weights alone, each to the real one on its device; the first is real. */
static dhow_status make_carriers(const dhowi_spread *spread, dhow_model *first,
                                 dhow_device *const *devices, uint32_t count, dhow_model **out) {
    dhow_status status = DHOW_OK;
    dhow_tensor **tensors = dhowi_alloc_array(count, sizeof *tensors);
    if (tensors == NULL) return dhowi_fail_memory("model");
    out[0] = first;
    for (uint32_t i = 1; i < count && status == DHOW_OK; i++) {
        status = dhowi_model_copy(first->origin, &out[i]);
        if (status == DHOW_OK) out[i]->device = devices[i];
    }
    if (status == DHOW_OK) {
        dhowi_saved_error error;
        status = spread_weights(spread, out, count, tensors);
        dhowi_error_save(&error, status);
        const dhow_status finished = spread->finish(spread->user); /* what was begun, in any case */
        status = status != DHOW_OK ? dhowi_error_raise(&error) : finished;
    }
    dhowi_free(tensors);
    return status;
}

/* NULL where that fails, which the log tells: each copy finds its weights by itself then. */
static dhow_model **find_carriers(const dhowi_spread *spread, dhow_model *first,
                                  dhow_device *const *devices, uint32_t count) {
    dhow_model **carriers = dhowi_alloc_array((size_t)count + 1, sizeof *carriers);
    dhow_status status = carriers != NULL ? DHOW_OK : dhowi_fail_memory("model");
    for (uint32_t i = 0; status == DHOW_OK && i < count; i++) carriers[i] = NULL;
    if (status == DHOW_OK) status = make_carriers(spread, first, devices, count, carriers);
    if (status == DHOW_OK) {
        dhowi_log_line(&first->context->log, DHOW_LOG_INFO,
                       "weights on %s go to %u others by their backend", devices[0]->name,
                       count - 1);
        return carriers;
    }
    dhowi_log_line(&first->context->log, DHOW_LOG_WARN,
                   "weights are copied to each device by itself: %s", dhow_last_error());
    dhowi_error_clear();
    drop_carriers(carriers, count);
    return NULL;
}

/* ---- all copies ---- */

static dhow_status replicate(dhow_model *model, dhow_device *const *devices, uint32_t count,
                             const dhowi_spread *spread, dhow_model **out) {
    dhow_status status = DHOW_OK;
    dhow_model **carriers = NULL;
    for (uint32_t i = 0; i < count && status == DHOW_OK; i++) {
        if (i == 1 && spread != NULL) carriers = find_carriers(spread, out[0], devices, count);
        status = dhowi_model_copy(model, &out[i]);
        if (status == DHOW_OK)
            status = carriers != NULL && i > 0
                         ? place_near(out[i], carriers[i], devices[i], model->placement)
                         : place_copy(out[i], out, i, devices[i], model->placement);
        if (status != DHOW_OK)
            status = dhowi_fail_prefix(status, "dhow_model_replicate: copy %u", i);
    }
    drop_carriers(carriers, count);
    return status;
}

dhow_status dhowi_model_replicate(dhow_model *model, dhow_device *const *devices, uint32_t count,
                                  const dhowi_spread *spread, dhow_model **out) {
    for (uint32_t i = 0; i < count; i++) out[i] = NULL;
    const dhow_status status = replicate(model, devices, count, spread, out);
    for (uint32_t i = 0; i < count && status != DHOW_OK; i++) {
        dhow_model_release(out[i]);
        out[i] = NULL;
    }
    return status;
}

dhow_status dhow_model_replicate(dhow_model *model, dhow_device *const *devices, uint32_t count,
                                 dhow_model **out) {
    static const char function[] = "dhow_model_replicate";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    for (uint32_t i = 0; i < count; i++) out[i] = NULL;
    if (devices == NULL && count > 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: devices is NULL", function);
    DHOWI_TRY(dhowi_model_check(model, function));
    return dhowi_model_replicate(model, devices, count, NULL, out);
}
