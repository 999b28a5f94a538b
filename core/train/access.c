/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program sees of a trainer between its steps, and sets.
 */
#include <math.h>

#include "base/objects/struct_size.h"
#include "dhow/memory.h"
#include "dhow/ops.h"
#include "dhow/print.h"
#include "tensor/tensor.h"
#include "train/train.h"

dhow_status dhowi_trainer_enter(const dhow_trainer *t, const char *function) {
    DHOWI_TRY(dhowi_handle_check(t, DHOWI_TRAINER, function, "trainer"));
    return dhowi_single_begin((dhowi_single *)(uintptr_t)&t->single, function, "trainer");
}

dhow_status dhowi_trainer_loss(const dhow_trainer *t, double *loss) {
    if (t->division == NULL) return dhowi_replica_loss(t, loss);
    *loss = dhowi_division_loss(t->division);
    return DHOW_OK;
}

uint32_t dhow_trainer_parameter_count(const dhow_trainer *t) {
    return dhowi_handle_is(t, DHOWI_TRAINER) ? t->trained_count : 0;
}

dhow_status dhow_trainer_parameter_at(const dhow_trainer *t, uint32_t index, const char **name,
                                      dhow_tensor **parameter, dhow_tensor **gradient) {
    static const char function[] = "dhow_trainer_parameter_at";
    DHOWI_TRY(dhowi_handle_check(t, DHOWI_TRAINER, function, "trainer"));
    if (index >= t->trained_count)
        return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: index %u of %u", function, index,
                          t->trained_count);
    const dhowi_trained *p = &t->trained[index];
    if (name != NULL) *name = t->model->values[p->value].name;
    if (parameter != NULL) {
        dhowi_handle_retain(&p->parameter->handle);
        *parameter = p->parameter;
    }
    if (gradient != NULL) {
        dhowi_handle_retain(&p->gradient->handle);
        *gradient = p->gradient;
    }
    return DHOW_OK;
}

dhow_status dhow_trainer_set_learning_rate(dhow_trainer *t, double rate) {
    static const char function[] = "dhow_trainer_set_learning_rate";
    DHOWI_TRY(dhowi_trainer_enter(t, function));
    const bool fits = isfinite(rate) && rate >= 0;
    if (fits) t->options.learning_rate = rate;
    dhowi_single_end(&t->single);
    if (fits) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %g is no learning rate", function, rate);
}

double dhow_trainer_learning_rate(const dhow_trainer *t) {
    return dhowi_handle_is(t, DHOWI_TRAINER) ? dhowi_trainer_rate(t) : 0;
}

double dhow_trainer_loss_scale(const dhow_trainer *t) {
    if (!dhowi_handle_is(t, DHOWI_TRAINER)) return 0;
    return t->finite != NULL ? t->options.loss_scale : 1;
}

dhow_status dhow_trainer_set_schedule(dhow_trainer *t, const dhow_schedule *schedule) {
    static const char function[] = "dhow_trainer_set_schedule";
    dhow_schedule own;
    DHOWI_TRY(dhowi_trainer_enter(t, function));
    dhow_status status = dhowi_schedule_take(schedule, function, &own);
    if (status == DHOW_OK) {
        t->schedule = own;
        t->has_schedule = schedule != NULL;
    }
    dhowi_single_end(&t->single);
    return status;
}

dhow_status dhow_trainer_set_loader(dhow_trainer *t, dhow_loader *loader) {
    static const char function[] = "dhow_trainer_set_loader";
    DHOWI_TRY(dhowi_trainer_enter(t, function));
    dhow_status status =
        loader == NULL ? DHOW_OK : dhowi_handle_check(loader, DHOWI_LOADER, function, "loader");
    if (status == DHOW_OK) {
        if (loader != NULL) dhowi_handle_retain((dhowi_handle *)loader);
        dhow_loader_release(t->loader);
        t->loader = loader;
    }
    dhowi_single_end(&t->single);
    return status;
}

static dhow_status copy_out(const dhow_trainer *t) {
    for (uint32_t i = 0; i < t->trained_count; i++) {
        const dhowi_trained *p = &t->trained[i];
        DHOWI_TRY(
            dhow_model_set_parameter(t->model, t->model->values[p->value].name, p->parameter));
    }
    for (uint32_t i = 0; i < t->statistic_count; i++) {
        const dhowi_statistic *s = &t->statistics[i];
        DHOWI_TRY(dhow_model_set_parameter(t->model, t->model->values[s->value].name, s->running));
    }
    return DHOW_OK;
}

dhow_status dhow_trainer_update_model(dhow_trainer *t) {
    DHOWI_TRY(dhowi_trainer_enter(t, "dhow_trainer_update_model"));
    dhow_status status = copy_out(t);
    dhowi_single_end(&t->single);
    return status;
}

uint32_t dhow_trainer_member_count(const dhow_trainer *t) {
    if (!dhowi_handle_is(t, DHOWI_TRAINER)) return 0;
    return t->division != NULL ? dhowi_division_count(t->division) : 1;
}

dhow_status dhow_trainer_member_at(const dhow_trainer *t, uint32_t index,
                                   dhow_parallel_member *given) {
    static const char function[] = "dhow_trainer_member_at";
    dhow_parallel_member own, *out = &own;
    DHOWI_TRY(DHOWI_STRUCT_OUT(dhow_parallel_member, given, &own, function));
    DHOWI_TRY(dhowi_handle_check(t, DHOWI_TRAINER, function, "trainer"));
    if (index >= dhow_trainer_member_count(t))
        return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: index %u, there are %u devices", function, index,
                          dhow_trainer_member_count(t));
    if (t->division != NULL) {
        dhowi_division_at(t->division, index, out);
    } else {
        out->device = t->graph->device;
        out->share = 1;
    }
    DHOWI_STRUCT_GIVE(given, out);
    return DHOW_OK;
}

/* ---- the log ---- */

static dhow_status take_log(dhow_trainer *t, const dhow_trainer_log *given, const char *function) {
    dhowi_training_log *made = NULL, *before = t->log;
    dhow_trainer_log own;
    if (given != NULL) {
        DHOWI_TRY(DHOWI_STRUCT_IN(dhow_trainer_log, given, &own, function, "log"));
        DHOWI_TRY(dhowi_training_log_open(&own, function, &t->model->context->log, &made));
    }
    t->log = made;
    t->log_samples = 0;
    t->log_epoch = -1;
    dhow_status status = dhowi_training_log_close(before);
    return status != DHOW_OK ? dhowi_fail_prefix(status, "%s", function) : DHOW_OK;
}

dhow_status dhow_trainer_set_log(dhow_trainer *t, const dhow_trainer_log *log) {
    static const char function[] = "dhow_trainer_set_log";
    DHOWI_TRY(dhowi_trainer_enter(t, function));
    dhow_status status = take_log(t, log, function);
    dhowi_single_end(&t->single);
    return status;
}

static dhow_status save_curve(const dhow_trainer *t, const char *path, const char *function) {
    if (path == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: path is NULL", function);
    const dhowi_curve *curve = t->log != NULL ? dhowi_training_log_curve(t->log) : NULL;
    if (curve == NULL || curve->count == 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: there are no losses yet; call dhow_trainer_set_log() before steps",
                          function);
    dhow_status status = dhowi_curve_save(curve, path);
    return status != DHOW_OK ? dhowi_fail_prefix(status, "%s", function) : DHOW_OK;
}

dhow_status dhow_trainer_save_curve(dhow_trainer *t, const char *path) {
    static const char function[] = "dhow_trainer_save_curve";
    DHOWI_TRY(dhowi_trainer_enter(t, function));
    dhow_status status = save_curve(t, path, function);
    dhowi_single_end(&t->single);
    return status;
}

/* The root of a product of all gradients with themselves; the gaps between them are 0. */
static dhow_status gradient_norm(const dhow_trainer *t, double *out) {
    dhow_tensor *row = NULL, *column = NULL, *square = NULL;
    double value;
    dhow_status status = dhow_tensor_reshape(t->gradients, 2, (const int64_t[]){1, t->count}, &row);
    if (status == DHOW_OK)
        status = dhow_tensor_reshape(t->gradients, 2, (const int64_t[]){t->count, 1}, &column);
    if (status == DHOW_OK)
        status =
            dhow_tensor_create(t->graph->device, t->dtype, 2, (const int64_t[]){1, 1}, &square);
    if (status == DHOW_OK) status = dhow_matmul(NULL, row, column, square);
    if (status == DHOW_OK) status = dhow_tensor_item(square, &value);
    if (status == DHOW_OK) *out = sqrt(value);
    dhow_tensor_release(square);
    dhow_tensor_release(column);
    dhow_tensor_release(row);
    return status;
}

static dhow_status fill_row(dhow_trainer *t, bool norm, dhowi_training_row *row) {
    dhow_memory_stats memory = DHOW_INIT(dhow_memory_stats);
    DHOWI_TRY(dhowi_trainer_loss(t, &row->loss));
    if (norm) DHOWI_TRY(gradient_norm(t, &row->gradient_norm));
    DHOWI_TRY(dhow_memory_get_stats(t->graph->device, &memory));
    row->memory_bytes = memory.live_peak;
    return DHOW_OK;
}

/* No row; its samples are the next row's. */
static void tell_left_out(const dhow_trainer *t) {
    dhowi_log_line(&t->model->context->log, DHOW_LOG_INFO,
                   "step %llu is left out: its gradients are not finite; loss_scale is %g now",
                   (unsigned long long)t->steps + 1, t->options.loss_scale);
}

/* The step has been made, whatever becomes of its row. */
static void tell_made(dhow_trainer *t) {
    dhowi_training_row row = {.step = t->steps,
                              .epoch = t->log_epoch,
                              .learning_rate = t->last_rate,
                              .gradient_norm = NAN};
    bool norm;
    if (t->log == NULL) return;
    const bool wanted = dhowi_training_log_wants(t->log, t->log_samples, &norm);
    t->log_samples = 0;
    if (!wanted) return;
    if (fill_row(t, norm, &row) == DHOW_OK)
        dhowi_training_log_row(t->log, &row);
    else
        dhowi_log_line(&t->model->context->log, DHOW_LOG_WARN,
                       "step %llu has no row in the log: %s", (unsigned long long)t->steps,
                       dhow_last_error());
}

void dhowi_trainer_tell(dhow_trainer *t) {
    DHOWI_KEEP_ERROR;
    if (t->left_out)
        tell_left_out(t);
    else
        tell_made(t);
}
