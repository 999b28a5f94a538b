/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules of the learning rate: each a formula of the step, so that nothing is kept but the
 * count of steps.
 */
#include <math.h>
#include <string.h>

#include "base/memory/size.h"
#include "base/objects/struct_size.h"
#include "train/train.h"

/* ---- checks ---- */

static dhow_status check_above(const char *function, const char *field, double value, double above,
                               double most) {
    if (isfinite(value) && value > above && value <= most) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the schedule's %s is %g; it is above %g%s",
                      function, field, value, above, most == 1 ? ", 1 at most" : " and finite");
}

static dhow_status check_count(const char *function, const char *field, uint64_t count) {
    if (count > 0 && count <= UINT64_C(1) << 53) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the schedule's %s is %llu; it is 1 to 2^53 steps",
                      function, field, (unsigned long long)count);
}

static dhow_status check_cycle(const char *function, const dhow_schedule *s) {
    DHOWI_TRY(check_count(function, "total_steps", s->total_steps));
    DHOWI_TRY(check_above(function, "pct_start", s->pct_start, 0, 1));
    DHOWI_TRY(check_above(function, "div_factor", s->div_factor, 0, INFINITY));
    DHOWI_TRY(check_above(function, "final_div_factor", s->final_div_factor, 0, INFINITY));
    if (s->pct_start * (double)s->total_steps > 1) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: the schedule's pct_start of %g is no step of %llu; the product with "
                      "total_steps is above 1",
                      function, s->pct_start, (unsigned long long)s->total_steps);
}

static void fill(double *number, double otherwise) {
    if (*number == 0) *number = otherwise;
}

dhow_status dhowi_schedule_take(const dhow_schedule *given, const char *function,
                                dhow_schedule *own) {
    DHOWI_TRY(DHOWI_STRUCT_IN(dhow_schedule, given, own, function, "schedule"));
    if (own->kind == DHOW_SCHEDULE_STEP) fill(&own->gamma, 0.1);
    fill(&own->pct_start, 0.3);
    fill(&own->div_factor, 25);
    fill(&own->final_div_factor, 1e4);
    fill(&own->start_factor, 1.0 / 3);
    DHOWI_TRY(check_above(function, "start_factor", own->start_factor, 0, 1));
    if (own->warmup_steps > 0) DHOWI_TRY(check_count(function, "warmup_steps", own->warmup_steps));
    switch (own->kind) {
        case DHOW_SCHEDULE_CONSTANT:
            return DHOW_OK;
        case DHOW_SCHEDULE_STEP:
            DHOWI_TRY(check_count(function, "step_size", own->step_size));
            return check_above(function, "gamma", own->gamma, 0, INFINITY);
        case DHOW_SCHEDULE_EXPONENTIAL:
            return check_above(function, "gamma", own->gamma, 0, INFINITY);
        case DHOW_SCHEDULE_COSINE:
            DHOWI_TRY(check_count(function, "total_steps", own->total_steps));
            if (isfinite(own->eta_min) && own->eta_min >= 0) return DHOW_OK;
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: the schedule's eta_min is %g; it is 0 or more", function,
                              own->eta_min);
        case DHOW_SCHEDULE_ONE_CYCLE:
            return check_cycle(function, own);
    }
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %d is no kind of schedule", function,
                      (int)own->kind);
}

/* ---- rates ---- */

/* From `first` to `last` by half a cosine; part is 0 to 1. */
static double by_cosine(double first, double last, double part) {
    return last + (first - last) * (1 + cos(M_PI * part)) / 2;
}

static double of_cycle(const dhow_schedule *s, double rate, double n) {
    const double first = rate / s->div_factor, last = first / s->final_div_factor,
                 end = (double)s->total_steps - 1, top = s->pct_start * (double)s->total_steps - 1;
    if (n <= top) return by_cosine(first, rate, n / top);
    return n < end ? by_cosine(rate, last, (n - top) / (end - top)) : last;
}

static double of_kind(const dhow_schedule *s, double rate, uint64_t step) {
    const double n = (double)step;
    switch (s->kind) {
        case DHOW_SCHEDULE_STEP:
            return rate * pow(s->gamma, (double)(step / s->step_size));
        case DHOW_SCHEDULE_EXPONENTIAL:
            return rate * pow(s->gamma, n);
        case DHOW_SCHEDULE_COSINE:
            return by_cosine(rate, s->eta_min, n / (double)s->total_steps);
        case DHOW_SCHEDULE_ONE_CYCLE:
            return of_cycle(s, rate, n);
        default:
            return rate;
    }
}

double dhowi_schedule_rate(const dhow_schedule *s, double rate, uint64_t step) {
    const double part = (double)step / (double)s->warmup_steps;
    if (step >= s->warmup_steps) return of_kind(s, rate, step - s->warmup_steps);
    return of_kind(s, rate, 0) * (s->start_factor + (1 - s->start_factor) * part);
}

double dhow_schedule_rate(const dhow_schedule *schedule, double learning_rate, uint64_t step) {
    static const char function[] = "dhow_schedule_rate";
    dhow_schedule own;
    if (schedule == NULL) {
        (void)dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: schedule is NULL", function);
        return (double)NAN;
    }
    if (dhowi_schedule_take(schedule, function, &own) != DHOW_OK) return (double)NAN;
    if (isfinite(learning_rate) && learning_rate >= 0)
        return dhowi_schedule_rate(&own, learning_rate, step);
    (void)dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %g is no learning rate", function, learning_rate);
    return (double)NAN;
}

/* ---- as numbers of a file ---- */

static const struct {
    const char *name;
    size_t offset; /* of 8 bytes, which are an integer or the bits of a number */
} k_fields[DHOWI_SCHEDULE_FIELDS] = {
    {"schedule.step_size", offsetof(dhow_schedule, step_size)},
    {"schedule.total_steps", offsetof(dhow_schedule, total_steps)},
    {"schedule.warmup_steps", offsetof(dhow_schedule, warmup_steps)},
    {"schedule.gamma_bits", offsetof(dhow_schedule, gamma)},
    {"schedule.eta_min_bits", offsetof(dhow_schedule, eta_min)},
    {"schedule.pct_start_bits", offsetof(dhow_schedule, pct_start)},
    {"schedule.div_factor_bits", offsetof(dhow_schedule, div_factor)},
    {"schedule.final_div_factor_bits", offsetof(dhow_schedule, final_div_factor)},
    {"schedule.start_factor_bits", offsetof(dhow_schedule, start_factor)},
};

const char *dhowi_schedule_field(const dhow_schedule *s, int i, int64_t *number) {
    memcpy(number, (const char *)s + k_fields[i].offset, sizeof *number);
    return k_fields[i].name;
}

void dhowi_schedule_set_field(dhow_schedule *s, int i, int64_t number) {
    memcpy((char *)s + k_fields[i].offset, &number, sizeof number);
}
