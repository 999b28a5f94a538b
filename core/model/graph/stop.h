/* SPDX-License-Identifier: Apache-2.0
 *
 * Stopping runs before their end: a time limit, and dhow_model_cancel() from another thread. A run
 * belongs to the thread that called it, where plans are made and steps submitted, so the thread
 * knows its run; between nodes and between steps it looks whether it is to stop.
 */
#ifndef DHOWI_MODEL_STOP_H_
#define DHOWI_MODEL_STOP_H_

#include "model/graph/model.h"

typedef struct dhowi_stop {
    const dhow_model *model;
    uint64_t cancels;         /* of the model, when the run began */
    int64_t deadline;         /* nanoseconds of the monotonic clock; 0: none */
    struct dhowi_stop *outer; /* of this thread: a run inside of a run */
} dhowi_stop;

/* Around a run, on its thread. */
void dhowi_stop_begin(dhowi_stop *stop, const dhow_model *model);
void dhowi_stop_end(dhowi_stop *stop);
/* The run of this thread, NULL outside of runs. */
const dhowi_stop *dhowi_stop_current(void);
/* OK, or CANCELLED or TIMED_OUT when the run is to stop. */
dhow_status dhowi_stop_ask(const dhowi_stop *stop);

/* The same for a run that is known, and cheap where nothing limits it: between two steps. */
static inline dhow_status dhowi_stop_check_run(const dhowi_stop *stop) {
    const bool free = stop == NULL || (stop->deadline == 0 &&
                                       atomic_load_explicit(&stop->model->cancels,
                                                            memory_order_relaxed) == stop->cancels);
    return free ? DHOW_OK : dhowi_stop_ask(stop);
}
static inline dhow_status dhowi_stop_check(void) {
    return dhowi_stop_check_run(dhowi_stop_current());
}

#endif /* DHOWI_MODEL_STOP_H_ */
