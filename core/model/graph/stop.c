/* SPDX-License-Identifier: Apache-2.0
 *
 * See stop.h.
 */
#include "model/graph/stop.h"

#include "base/threads/clock.h"

enum { SECOND = 1000000000 };

static _Thread_local dhowi_stop *t_stop;

void dhowi_stop_begin(dhowi_stop *stop, const dhow_model *model) {
    const int64_t limit = atomic_load(&model->time_limit);
    *stop = (dhowi_stop){.model = model,
                         .cancels = atomic_load(&model->cancels),
                         .deadline = limit > 0 ? dhowi_nanoseconds() + limit : 0,
                         .outer = t_stop};
    t_stop = stop;
}

void dhowi_stop_end(dhowi_stop *stop) { t_stop = stop->outer; }

const dhowi_stop *dhowi_stop_current(void) { return t_stop; }

dhow_status dhowi_stop_ask(const dhowi_stop *s) {
    if (atomic_load_explicit(&s->model->cancels, memory_order_relaxed) != s->cancels)
        return dhowi_fail(DHOW_CANCELLED, "dhow_model_cancel() was called during the run");
    if (s->deadline == 0 || dhowi_nanoseconds() < s->deadline) return DHOW_OK;
    return dhowi_fail(
        DHOW_TIMED_OUT,
        "the run takes longer than its limit of %g s, which dhow_model_set_time_limit(), "
        "or dhow-run --time-limit, set",
        (double)atomic_load(&s->model->time_limit) / SECOND);
}

/* ---- the public side ---- */

dhow_status dhow_model_cancel(dhow_model *model) {
    DHOWI_TRY(dhowi_model_check(model, "dhow_model_cancel"));
    atomic_fetch_add(&model->cancels, 1);
    return DHOW_OK;
}

dhow_status dhow_model_set_time_limit(dhow_model *model, double seconds) {
    static const char function[] = "dhow_model_set_time_limit";
    DHOWI_TRY(dhowi_model_check(model, function));
    if (!(seconds >= 0 && seconds <= 1e9))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %g s is no time; give 0 (no limit) to 1e9",
                          function, seconds);
    const int64_t limit = (int64_t)(seconds * SECOND);
    atomic_store(&model->time_limit, seconds > 0 && limit == 0 ? 1 : limit);
    return DHOW_OK;
}
