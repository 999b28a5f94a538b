/* SPDX-License-Identifier: Apache-2.0
 *
 * See dhow/train.h. Parameters lie side by side in one array, gradients and the optimiser's state
 * in others of the same form: a step is one run of the training graph, whose gradients are written
 * to their places, and one launch over everything.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "base/memory/splitmix64.h"
#include "base/objects/struct_size.h"
#include "dhow/copy.h"
#include "dhow/create.h"
#include "stream/stream.h"
#include "tensor/tensor.h"
#include "train/train.h"

static const char k_create[] = "dhow_trainer_create";

/* ---- making and releasing ---- */

static dhow_status make_graph(dhow_trainer *t) {
    DHOWI_TRY(dhowi_train_graph(t, &t->graph));
    t->input_count = t->model->input_count; /* more may be built */
    t->has_target = t->options.loss != DHOW_LOSS_OUTPUT;
    return DHOW_OK;
}

static dhow_status make_division(dhow_trainer *t) {
    const dhow_trainer_options given = t->options;
    t->options.devices = NULL; /* the caller's, as the others */
    t->options.shares = NULL;
    DHOWI_TRY(dhowi_division_check(t, &given));
    if (!dhowi_divides(&given)) return DHOW_OK;
    DHOWI_TRY(dhowi_loss_keep(t));
    DHOWI_TRY(dhowi_group_make(t));
    return dhowi_division_make(t, &given);
}

static dhow_status make(dhow_trainer *t, const dhow_trainer_options *options) {
    DHOWI_TRY(dhowi_optimizer_options(options, t->model->precision, &t->options));
    DHOWI_TRY(dhowi_choose(t));
    DHOWI_TRY(dhowi_scale_check(t));
    DHOWI_TRY(dhowi_statistics_choose(t));
    DHOWI_TRY(make_graph(t));
    DHOWI_TRY(dhowi_replica_make(t));
    for (uint32_t i = 0; i < dhowi_optimizer_states(&t->options); i++)
        DHOWI_TRY(dhowi_flat(t, t->count, &t->state[i]));
    if (dhowi_clips(&t->options)) DHOWI_TRY(dhowi_flat(t, t->count, &t->clipped));
    DHOWI_TRY(make_division(t));
    t->options.trainable = NULL;
    t->options.ignore_index = NULL;
    t->options.weight = t->options.pos_weight = NULL;
    if (t->options.loss_scale > 0) DHOWI_TRY(dhowi_scale_graph(t, &t->finite));
    return dhowi_clips(&t->options) ? dhowi_clip_graph(t, &t->clip) : DHOW_OK;
}

/* All processes have a trainer, or none has: `own` is whether this one has. */
static dhow_status join(const dhow_process_group *group, dhow_status own) {
    dhowi_saved_error error = {.status = DHOW_OK};
    double nothing = 0;
    if (group->size == 0) return own;
    dhowi_group_note(&error, own);
    const dhow_status status = dhowi_group_agree(group, &error, &nothing, NULL);
    return own != DHOW_OK || status == DHOW_OK ? status : dhowi_fail_prefix(status, "%s", k_create);
}

/* All begin from the first one's parameters. */
static dhow_status begin_alike(dhow_trainer *t) {
    dhowi_saved_error own = {.status = DHOW_OK};
    double nothing = 0;
    if (t->group.size == 0) return DHOW_OK;
    dhow_status status = dhowi_group_connect(t);
    if (status == DHOW_OK) status = dhowi_division_join(t->division, &own);
    if (status == DHOW_OK) status = dhowi_group_take_first(t, NULL, t->parameters, &own);
    if (status == DHOW_OK) status = dhowi_group_take_first(t, NULL, t->running, &own);
    if (status == DHOW_OK) status = dhowi_group_agree(&t->group, &own, &nothing, NULL);
    return status != DHOW_OK ? dhowi_fail_prefix(status, "%s", k_create) : DHOW_OK;
}

/* Others wait for this process, so the group is looked at before all that may fail. */
static dhow_status group_of(const dhow_trainer_options *options, dhow_process_group *out) {
    dhow_trainer_options own;
    *out = (dhow_process_group){.size = 0};
    DHOWI_TRY(DHOWI_STRUCT_IN(dhow_trainer_options, options, &own, k_create, "options"));
    return own.process_group != NULL ? dhowi_group_take(own.process_group, k_create, out) : DHOW_OK;
}

static dhow_status new_trainer(dhow_model *model, const dhow_process_group *group,
                               dhow_trainer **out) {
    DHOWI_TRY(dhowi_model_check(model, k_create));
    *out = dhowi_handle_new(DHOWI_TRAINER, sizeof **out);
    if (*out == NULL) return dhowi_fail_memory(k_create);
    (*out)->group = *group;
    (*out)->model = model;
    dhowi_handle_retain(&model->handle);
    return DHOW_OK;
}

dhow_status dhow_trainer_create(dhow_model *model, const dhow_trainer_options *options,
                                dhow_trainer **out) {
    dhow_process_group group;
    dhow_trainer *t = NULL;
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", k_create);
    *out = NULL;
    DHOWI_TRY(group_of(options, &group));
    dhow_status status = new_trainer(model, &group, &t);
    if (status == DHOW_OK) status = make(t, options);
    status = join(&group, status);
    if (status == DHOW_OK) status = begin_alike(t);
    if (t != NULL) t->options.process_group = NULL;
    if (status == DHOW_OK) {
        *out = t;
    } else {
        dhow_trainer_release(t);
    }
    return status;
}

void dhow_trainer_release(dhow_trainer *t) {
    DHOWI_KEEP_ERROR;
    if (dhowi_handle_is(t, DHOWI_TRAINER) && dhowi_handle_drop(&t->handle)) {
        (void)dhowi_training_log_close(t->log); /* lost rows were warned of */
        dhowi_division_end(t->division);
        dhowi_replica_end(t);
    }
}

/* ---- a step ---- */

/* Messages without the function, which backward() puts before what fails. */
static dhow_status check_batch(const dhow_trainer *t, dhow_tensor *const *inputs,
                               uint32_t input_count, const dhow_tensor *target) {
    if (t->group.size > 1 && target == NULL && input_count > 0 && inputs != NULL &&
        inputs[0] == NULL)
        return DHOW_OK; /* no samples for this process */
    if (input_count != t->input_count)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%u inputs given, the model has %u", input_count,
                          t->input_count);
    if (inputs == NULL && input_count > 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "inputs is NULL");
    if (t->has_target && t->division == NULL && dhowi_handle_is(target, DHOWI_TENSOR) &&
        target->count == 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "the target has no elements, and a loss is their mean; leave out "
                          "batches without samples");
    if ((target != NULL) == t->has_target) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      t->has_target ? "target is NULL, the loss compares the output with one"
                                    : "the loss is the model's output: it takes no target");
}

static uint64_t next_key(dhow_trainer *t) {
    const uint64_t seed = dhowi_splitmix64(t->options.seed + DHOWI_SPLITMIX64_STEP);
    return dhowi_splitmix64(seed + ++t->backwards * DHOWI_SPLITMIX64_STEP);
}

/* Gradients of a batch that nothing was wrong with so far. */
static dhow_status run(dhow_trainer *t, dhow_stream *stream, dhow_tensor *const *inputs,
                       dhow_tensor *target, bool more, uint64_t key, dhow_status checked) {
    const dhowi_piece piece = {.key = key, .scale = t->options.loss_scale};
    if (checked == DHOW_OK && more) checked = dhowi_replica_more(t);
    if (t->division != NULL) /* others hear of a failure */
        checked = dhowi_division_run(t->division, checked, stream, inputs, target, more, key);
    else if (checked == DHOW_OK)
        checked = dhowi_replica_run(t, stream, inputs, target, more, &piece, NULL);
    if (checked != DHOW_OK || !more) return checked;
    return dhow_add(stream, t->gradients, t->more, t->gradients);
}

static dhow_status look_for_anomaly(dhow_trainer *t, dhow_tensor *const *inputs,
                                    dhow_tensor *target, uint64_t key) {
    double loss;
    if (t->options.detect_anomaly == 0) return DHOW_OK;
    DHOWI_TRY(dhowi_trainer_loss(t, &loss));
    const dhow_status status = dhowi_anomaly_tell(t, inputs, target, key, loss);
    if (status != DHOW_OK) t->has_gradients = false;
    return status;
}

/* `checked`: what the caller found of its arguments. Running statistics are still those before:
 * they follow when nothing can fail any more. */
static dhow_status backward(dhow_trainer *t, const char *function, dhow_status checked,
                            dhow_stream *stream, dhow_tensor *const *inputs, uint32_t input_count,
                            dhow_tensor *target) {
    const uint64_t key = next_key(t);
    dhow_status status = checked;
    if (status == DHOW_OK) status = check_batch(t, inputs, input_count, target);
    status = run(t, stream, inputs, target, t->has_gradients, key, status);
    if (status == DHOW_OK) {
        t->has_gradients = true;
        t->log_samples += dhowi_samples_of(t, inputs);
    }
    if (status == DHOW_OK) status = look_for_anomaly(t, inputs, target, key);
    return status != DHOW_OK ? dhowi_fail_prefix(status, "%s", function) : DHOW_OK;
}

static dhow_status clip_and_update(dhow_trainer *t, dhow_stream *stream) {
    if (t->clip == NULL) return dhowi_optimizer_run(t, stream, t->gradients);
    DHOWI_TRY(dhow_model_run_into(t->clip, stream, &t->gradients, 1, &t->clipped, 1));
    return dhowi_optimizer_run(t, stream, t->clipped);
}

/* What fails changes neither parameters nor the scale. */
static dhow_status update_if_finite(dhow_trainer *t, dhow_stream *stream) {
    bool finite;
    DHOWI_TRY(dhowi_scale_look(t, stream, t->gradients, &finite));
    if (finite) DHOWI_TRY(clip_and_update(t, stream));
    t->left_out = !finite;
    return dhowi_scale_follow(t, finite);
}

static dhow_status update(dhow_trainer *t, const char *function, dhow_stream *given) {
    dhow_stream *stream;
    if (!t->has_gradients)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: there are no gradients; call dhow_trainer_backward() before it",
                          function);
    DHOWI_TRY(dhowi_stream_resolve(given, t->graph->device, function, &stream));
    const dhow_status status =
        t->finite != NULL ? update_if_finite(t, stream) : clip_and_update(t, stream);
    return status != DHOW_OK ? dhowi_fail_prefix(status, "%s", function) : DHOW_OK;
}

/* Of a batch whose own gradients, in the array of `more` if others were there, are not finite the
 * statistics may be none either: they stay, as in a step that is left out. */
static dhow_status follow_if_finite(dhow_trainer *t, const char *function, dhow_stream *stream,
                                    bool more) {
    bool finite = true;
    if (t->finite != NULL && t->statistic_count > 0) {
        const dhow_status status =
            dhowi_scale_look(t, stream, more ? t->more : t->gradients, &finite);
        if (status != DHOW_OK) return dhowi_fail_prefix(status, "%s", function);
    }
    return finite ? dhowi_statistics_follow(t, stream) : DHOW_OK;
}

dhow_status dhow_trainer_backward(dhow_trainer *t, dhow_stream *stream, dhow_tensor *const *inputs,
                                  uint32_t input_count, dhow_tensor *target, double *loss) {
    static const char function[] = "dhow_trainer_backward";
    DHOWI_TRY(dhowi_trainer_enter(t, function));
    const bool more = t->has_gradients;
    dhow_status status = backward(t, function, DHOW_OK, stream, inputs, input_count, target);
    if (status == DHOW_OK) status = follow_if_finite(t, function, stream, more);
    if (status == DHOW_OK && loss != NULL) status = dhowi_trainer_loss(t, loss);
    dhowi_single_end(&t->single);
    return status;
}

dhow_status dhow_trainer_update(dhow_trainer *t, dhow_stream *stream) {
    static const char function[] = "dhow_trainer_update";
    DHOWI_TRY(dhowi_trainer_enter(t, function));
    dhow_status status = update(t, function, stream);
    if (status == DHOW_OK) dhowi_trainer_tell(t);
    dhowi_single_end(&t->single);
    return status;
}

static dhow_status take_batch(const dhow_trainer *t, const dhow_batch *given, dhow_batch *out) {
    const uint32_t targets = t->has_target ? 1 : 0, inputs = t->input_count;
    memset(out, 0, sizeof *out);
    if (given == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "batch is NULL");
    DHOWI_TRY(DHOWI_STRUCT_IN(dhow_batch, given, out, "the batch", "dhow_batch"));
    if (out->tensor_count >= inputs + targets && out->tensor_count <= DHOW_MAX_COLUMNS)
        return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "the batch has %u columns; the model takes %u inputs%s", out->tensor_count,
                      inputs, t->has_target ? " and the loss a target" : "");
}

static dhow_status step(dhow_trainer *t, const char *function, const dhow_batch *given) {
    dhow_batch batch;
    const dhow_status checked = take_batch(t, given, &batch);
    if (checked != DHOW_OK && t->group.size == 0) return dhowi_fail_prefix(checked, "%s", function);
    t->has_gradients = false;
    t->log_epoch = batch.sample_count > 0 ? batch.epoch : -1; /* a loader's */
    dhow_tensor *target =
        checked == DHOW_OK && t->has_target ? batch.tensors[t->input_count] : NULL;
    DHOWI_TRY(backward(t, function, checked, NULL, batch.tensors, t->input_count, target));
    DHOWI_TRY(update(t, function, NULL));
    return t->left_out ? DHOW_OK : dhowi_statistics_follow(t, NULL);
}

dhow_status dhow_trainer_step(dhow_trainer *t, const dhow_batch *batch, double *loss) {
    static const char function[] = "dhow_trainer_step";
    DHOWI_TRY(dhowi_trainer_enter(t, function));
    dhow_status status = step(t, function, batch);
    if (status == DHOW_OK) dhowi_trainer_tell(t);
    if (status == DHOW_OK && loss != NULL) status = dhowi_trainer_loss(t, loss);
    dhowi_single_end(&t->single);
    return status;
}

dhow_status dhow_trainer_zero_gradients(dhow_trainer *t) {
    DHOWI_TRY(dhowi_trainer_enter(t, "dhow_trainer_zero_gradients"));
    t->has_gradients = false;
    dhowi_single_end(&t->single);
    return DHOW_OK;
}
