/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program sees of a trainer between its steps, and sets.
 */
#include <math.h>

#include "base/objects/struct_size.h"
#include "train/train.h"

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
