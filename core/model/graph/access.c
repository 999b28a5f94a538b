/* SPDX-License-Identifier: Apache-2.0
 *
 * Who runs a model and who changes it: many threads may run one, a change wants it alone.
 */
#include "model/graph/access.h"

#include <string.h>

dhow_status dhowi_model_begin_run(dhow_model *m, const char *function, dhow_stream *stream,
                                  dhowi_run_stream *run) {
    *run = (dhowi_run_stream){0};
    pthread_mutex_lock(&m->mutex);
    const bool changing = m->changing;
    if (!changing) m->running++;
    pthread_mutex_unlock(&m->mutex);
    if (changing)
        return dhowi_fail(
            DHOW_INVALID_ARGUMENT,
            "%s: %s is moved or changed by another thread meanwhile; run it before or "
            "after",
            function, m->name);
    dhow_status status = dhowi_stream_resolve(stream, m->device, function, &run->stream);
    dhowi_stop_begin(&run->stop, m);
    if (status != DHOW_OK) dhowi_model_end_run(m, run);
    return status;
}

void dhowi_model_end_run(dhow_model *m, dhowi_run_stream *run) {
    dhowi_stop_end(&run->stop);
    pthread_mutex_lock(&m->mutex);
    m->running--;
    pthread_mutex_unlock(&m->mutex);
}

static dhow_status refuse_busy(const dhow_model *m, const char *function) {
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: %s runs or is changed on another thread; wait for that, or take a copy "
                      "with dhow_model_replicate()",
                      function, m->name);
}

dhow_status dhowi_model_begin_change(dhow_model *m, const char *function) {
    pthread_mutex_lock(&m->mutex);
    const bool busy = m->running > 0 || m->changing;
    if (!busy) m->changing = true;
    pthread_mutex_unlock(&m->mutex);
    return busy ? refuse_busy(m, function) : DHOW_OK;
}

dhow_status dhowi_model_check_idle(const dhow_model *model, const char *function) {
    dhow_model *m = (dhow_model *)(uintptr_t)model;
    pthread_mutex_lock(&m->mutex);
    const bool busy = m->running > 0 || m->changing;
    pthread_mutex_unlock(&m->mutex);
    return busy ? refuse_busy(m, function) : DHOW_OK;
}

void dhowi_model_end_change(dhow_model *m) {
    pthread_mutex_lock(&m->mutex);
    m->changing = false;
    pthread_mutex_unlock(&m->mutex);
}
