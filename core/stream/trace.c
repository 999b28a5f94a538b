/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces of parts of a program, see dhow/trace.h.
 */
#include "dhow/trace.h"

#include "base/memory/size.h"
#include "device/trace.h"
#include "stream/span.h"

enum { DEFAULT_CAPACITY = 1 << 20 };

dhow_status dhow_trace_start(dhow_context *context, uint64_t capacity) {
    static const char function[] = "dhow_trace_start";
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, function, "context"));
    pthread_mutex_lock(&context->mutex);
    dhowi_trace *trace = atomic_load(&context->trace);
    if (trace == NULL) {
        trace = dhowi_trace_new(capacity > 0 ? capacity : DEFAULT_CAPACITY);
        atomic_store_explicit(&context->trace, trace, memory_order_release);
    }
    pthread_mutex_unlock(&context->mutex);
    if (trace == NULL) return dhowi_fail_memory(function);
    atomic_store(&context->tracing, true);
    return DHOW_OK;
}

dhow_status dhow_trace_stop(dhow_context *context) {
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, "dhow_trace_stop", "context"));
    atomic_store(&context->tracing, false);
    return DHOW_OK;
}

dhow_status dhow_trace_save(dhow_context *context, const char *path) {
    static const char function[] = "dhow_trace_save";
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, function, "context"));
    if (path == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: path is NULL", function);
    if (atomic_load(&context->trace) == NULL) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: nothing was traced; call dhow_trace_start() before", function);
    }
    pthread_mutex_lock(&context->discovery); /* the list of devices must not grow meanwhile */
    dhowi_spans_finish(context);
    dhow_status status = dhowi_trace_save(context, path);
    pthread_mutex_unlock(&context->discovery);
    return status;
}

dhow_status dhow_trace_get_stats(const dhow_context *context, dhow_trace_stats *out) {
    static const char function[] = "dhow_trace_get_stats";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = (dhow_trace_stats){0};
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, function, "context"));
    const dhowi_trace *trace = atomic_load(&context->trace);
    if (trace == NULL) return DHOW_OK;
    uint64_t count = atomic_load(&trace->count);
    out->recorded = DHOWI_MIN(count, trace->capacity);
    out->dropped = count - out->recorded;
    out->untimed = atomic_load(&trace->untimed);
    return DHOW_OK;
}

int64_t dhow_trace_now(void) { return dhowi_trace_now(); }

dhow_status dhow_trace_region(dhow_context *context, const char *name, int64_t begin, int64_t end) {
    static const char function[] = "dhow_trace_region";
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, function, "context"));
    if (name == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: name is NULL", function);
    if (begin < 0 || end < begin)
        return dhowi_fail(
            DHOW_INVALID_ARGUMENT, "%s: '%.55s' %s", function, name,
            begin < 0 ? "begins at no time of dhow_trace_now()" : "ends before it begins");
    if (!dhowi_tracing(context)) return DHOW_OK;
    dhowi_trace_record *r =
        dhowi_trace_add(atomic_load(&context->trace), DHOWI_TRACE_REGION, DHOWI_TRACE_HOST, name);
    if (r == NULL) return DHOW_OK;
    r->begin = begin;
    r->end = end;
    dhowi_trace_done(r);
    return DHOW_OK;
}
