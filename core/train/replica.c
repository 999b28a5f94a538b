/* SPDX-License-Identifier: Apache-2.0
 *
 * What one device has of a trainer: the training graph, flat arrays, and one run of it.
 */
#include <string.h>

#include "base/memory/alloc.h"
#include "dhow/copy.h"
#include "dhow/create.h"
#include "model/run/run.h"
#include "tensor/tensor.h"
#include "train/train.h"

static const char k_create[] = "dhow_trainer_create";

/* ---- flat arrays ---- */

static dhow_status make_arrays(dhow_trainer *t) {
    DHOWI_TRY(dhowi_flat(t, t->count, &t->parameters));
    DHOWI_TRY(dhowi_flat(t, t->count, &t->gradients));
    for (uint32_t i = 0; i < t->trained_count; i++) {
        dhowi_trained *p = &t->trained[i];
        DHOWI_TRY(dhowi_flat_part(t, p->value, p->first, t->parameters, &p->parameter));
        DHOWI_TRY(dhowi_flat_part(t, p->value, p->first, t->gradients, &p->gradient));
        DHOWI_TRY(dhowi_flat_copy_in(t, p->value, p->parameter));
    }
    return dhowi_statistics_allocate(t);
}

/* The first gradients are written, further ones come by way of an array of their own. */
dhow_status dhowi_replica_more(dhow_trainer *t) {
    if (t->more == NULL) DHOWI_TRY(dhowi_flat(t, t->count, &t->more));
    for (uint32_t i = 0; i < t->trained_count; i++) {
        dhowi_trained *p = &t->trained[i];
        if (p->more == NULL) DHOWI_TRY(dhowi_flat_part(t, p->value, p->first, t->more, &p->more));
    }
    return DHOW_OK;
}

/* ---- making and releasing ---- */

dhow_status dhowi_replica_make(dhow_trainer *t) {
    const dhowi_tensor_desc *loss = &t->graph->values[t->graph->outputs[0]].desc;
    const bool divides = dhowi_divides(&t->options);
    t->run_inputs = dhowi_alloc_array(t->graph->input_count + 1, sizeof *t->run_inputs);
    t->run_outputs = dhowi_alloc_array(t->graph->output_count, sizeof *t->run_outputs);
    if (t->run_inputs == NULL || t->run_outputs == NULL) return dhowi_fail_memory(k_create);
    DHOWI_TRY(dhowi_tensor_new(t->graph->device, t->dtype, loss->rank, loss->shape, &t->loss));
    if (divides) DHOWI_TRY(dhowi_tensor_new(t->graph->device, t->dtype, 0, NULL, &t->share));
    const bool scales = t->options.loss_scale > 0;
    if (scales) DHOWI_TRY(dhowi_tensor_new(t->graph->device, t->dtype, 0, NULL, &t->scale));
    const uint32_t others = t->input_count + t->trained_count + t->statistic_count +
                            (t->has_target ? 1 : 0) + (divides ? 1 : 0) + (scales ? 1 : 0);
    const int64_t numbers = divides ? 3 : 1;
    if (t->graph->input_count != others)
        DHOWI_TRY(dhowi_tensor_new(t->graph->device, DHOW_I64, 1, &numbers, &t->key));
    return make_arrays(t);
}

/* What the graph runs with, of another device: places in arrays are the same. */
static dhow_status fill(dhow_trainer *r, const dhow_trainer *t, dhow_device *device) {
    r->options = t->options;
    r->dtype = t->dtype;
    r->count = t->count;
    r->input_count = t->input_count;
    r->has_target = t->has_target;
    r->statistic_elements = t->statistic_elements;
    r->trained = dhowi_alloc_array((size_t)t->trained_count + 1, sizeof *r->trained);
    r->statistics = dhowi_alloc_array((size_t)t->statistic_count + 1, sizeof *r->statistics);
    if (r->trained == NULL || r->statistics == NULL) return dhowi_fail_memory(k_create);
    for (; r->trained_count < t->trained_count; r->trained_count++) {
        const dhowi_trained *p = &t->trained[r->trained_count];
        r->trained[r->trained_count] = (dhowi_trained){.value = p->value, .first = p->first};
    }
    for (; r->statistic_count < t->statistic_count; r->statistic_count++) {
        const dhowi_statistic *s = &t->statistics[r->statistic_count];
        r->statistics[r->statistic_count] = (dhowi_statistic){.value = s->value, .first = s->first};
    }
    DHOWI_TRY(dhow_model_replicate(t->graph, &device, 1, &r->graph));
    return dhowi_replica_make(r);
}

dhow_status dhowi_replica_of(const dhow_trainer *t, dhow_device *device, dhow_trainer **out) {
    *out = dhowi_handle_new(DHOWI_TRAINER, sizeof **out);
    if (*out == NULL) return dhowi_fail_memory(k_create);
    (*out)->model = t->model;
    dhowi_handle_retain(&t->model->handle);
    return fill(*out, t, device);
}

void dhowi_replica_end(dhow_trainer *t) {
    for (uint32_t i = 0; i < t->trained_count; i++) {
        dhow_tensor_release(t->trained[i].parameter);
        dhow_tensor_release(t->trained[i].gradient);
        dhow_tensor_release(t->trained[i].more);
    }
    dhow_tensor_release(t->parameters);
    dhow_tensor_release(t->gradients);
    dhow_tensor_release(t->more);
    dhow_tensor_release(t->clipped);
    for (int i = 0; i < DHOWI_TRAIN_STATES; i++) dhow_tensor_release(t->state[i]);
    dhowi_statistics_end(t);
    dhowi_group_end(t);
    dhow_tensor_release(t->loss);
    dhow_tensor_release(t->key);
    dhow_tensor_release(t->share);
    dhow_tensor_release(t->scale);
    dhow_loader_release(t->loader);
    dhow_model_release(t->clip);
    dhow_model_release(t->finite);
    dhow_model_release(t->graph);
    dhow_model_release(t->model);
    dhowi_free(t->class_weights);
    dhowi_free(t->trained);
    dhowi_free(t->run_inputs);
    dhowi_free(t->run_outputs);
    dhowi_handle_free(DHOWI_TRAINER, t);
}

/* ---- a run ---- */

/* Masks differ from one backward to the next; the kernel mixes in the layer. */
static dhow_status write_key(const dhow_trainer *t, dhow_stream *stream, const dhowi_piece *piece) {
    const int64_t numbers[] = {(int64_t)piece->key, piece->first, piece->rows};
    if (t->key->count > 1) return dhow_tensor_write(t->key, numbers, sizeof numbers);
    return dhow_fill_scalar(stream, t->key, dhow_scalar_i64(numbers[0]));
}

dhow_status dhowi_replica_bind(dhow_trainer *t, dhow_stream *stream, dhow_tensor *const *inputs,
                               dhow_tensor *target, bool more, const dhowi_piece *piece) {
    const uint32_t own = t->input_count;
    if (own > 0) memcpy(t->run_inputs, inputs, own * sizeof *inputs);
    t->run_outputs[0] = t->loss;
    for (uint32_t i = 0; i < t->trained_count; i++) {
        t->run_inputs[own + i] = t->trained[i].parameter;
        t->run_outputs[1 + i] = more ? t->trained[i].more : t->trained[i].gradient;
    }
    uint32_t count = own + t->trained_count;
    for (uint32_t i = 0; i < t->statistic_count; i++) {
        t->run_inputs[count++] = t->statistics[i].running;
        t->run_outputs[1 + t->trained_count + i] = t->statistics[i].next;
    }
    if (t->has_target) t->run_inputs[count++] = target;
    if (t->share != NULL) {
        t->run_inputs[count++] = t->share;
        DHOWI_TRY(dhow_fill_scalar(stream, t->share, dhow_scalar_f64(piece->share)));
    }
    if (t->key != NULL) {
        t->run_inputs[count++] = t->key;
        DHOWI_TRY(write_key(t, stream, piece));
    }
    if (t->scale == NULL) return DHOW_OK;
    t->run_inputs[count] = t->scale;
    return dhow_fill_scalar(stream, t->scale, dhow_scalar_f64(piece->scale));
}

dhow_status dhowi_replica_run(dhow_trainer *t, dhow_stream *stream, dhow_tensor *const *inputs,
                              dhow_tensor *target, bool more, const dhowi_piece *piece,
                              dhowi_output_groups *groups) {
    DHOWI_TRY(dhowi_replica_bind(t, stream, inputs, target, more, piece));
    return dhowi_model_run_tensors(t->graph, stream,
                                   &(dhowi_tensor_run){.function = "dhow_model_run_into",
                                                       .inputs = t->run_inputs,
                                                       .input_count = t->graph->input_count,
                                                       .given = t->run_outputs,
                                                       .output_count = t->graph->output_count,
                                                       .groups = groups});
}

dhow_status dhowi_replica_loss(const dhow_trainer *t, double *loss) {
    float narrow;
    if (t->dtype == DHOW_F64) return dhow_tensor_read(t->loss, loss, sizeof *loss);
    DHOWI_TRY(dhow_tensor_read(t->loss, &narrow, sizeof narrow));
    *loss = (double)narrow;
    return DHOW_OK;
}
