/* SPDX-License-Identifier: Apache-2.0
 *
 * See trace.h.
 */
#include "device/trace.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file.h"
#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "base/objects/struct_size.h"
#include "base/text/text.h"
#include "dhow/trace.h"

enum { DEFAULT_CAPACITY = 1 << 20 };

static dhow_context *g_traced; /* whose files are not written yet */
static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void guard(void) {
    dhowi_fork_guard(DHOWI_FORK_TRACES, &g_mutex, false);
}

static void enter(dhow_context *context) {
    pthread_mutex_lock(&g_mutex);
    context->next_traced = g_traced;
    g_traced = context;
    pthread_mutex_unlock(&g_mutex);
}

static void leave(const dhow_context *context) {
    pthread_mutex_lock(&g_mutex);
    for (dhow_context **c = &g_traced; *c != NULL; c = &(*c)->next_traced) {
        if (*c != context) continue;
        *c = context->next_traced;
        break;
    }
    pthread_mutex_unlock(&g_mutex);
}

/* In a forked child the parent writes the file. */
static bool is_ours(const dhow_context *context) {
    return context->device_count > 0 &&
           context->devices[0]->fork_generation == dhowi_fork_generation();
}

/* The first context of a process writes the file itself, the n-th one name.n.json. */
static dhow_status own_path(const char *path, char *out, size_t capacity) {
    static atomic_uint contexts;
    uint32_t number = atomic_fetch_add(&contexts, 1) + 1;
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    size_t stem =
        dot != NULL && (slash == NULL || dot > slash + 1) ? (size_t)(dot - path) : strlen(path);
    int n = number == 1
                ? snprintf(out, capacity, "%s", path)
                : snprintf(out, capacity, "%.*s.%u%s", (int)stem, path, number, path + stem);
    if (n > 0 && (size_t)n < capacity) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%.200s...: the path is too long", path);
}

dhow_status dhowi_trace_init(dhow_context *context) {
    const char *path = dhowi_env("DHOW_TRACE");
    char own[PATH_MAX];
    dhowi_file_writer trial;
    if (path == NULL) return DHOW_OK;
    dhow_status status = own_path(path, own, sizeof own);
    /* Better now than after hours of work. */
    if (status == DHOW_OK) status = dhowi_file_begin(own, &trial);
    if (status != DHOW_OK) return dhowi_fail_prefix(status, "DHOW_TRACE");
    dhowi_file_drop(&trial);
    context->trace_path = dhowi_strdup(own);
    dhowi_trace *trace = dhowi_trace_new(DEFAULT_CAPACITY);
    atomic_store(&context->trace, trace);
    if (trace == NULL || context->trace_path == NULL) return dhowi_fail_memory("DHOW_TRACE");
    enter(context);
    dhowi_trace_driver_started(context);
    atomic_store(&context->tracing, true);
    return DHOW_OK;
}

static dhow_status save(dhow_context *context, const char *path) {
    const char **names = dhowi_alloc_array(context->device_count, sizeof *names);
    if (names == NULL) return dhowi_fail_memory(path);
    for (uint32_t i = 0; i < context->device_count; i++)
        names[context->devices[i]->place] = context->devices[i]->name;
    dhow_status status =
        dhowi_trace_write(atomic_load(&context->trace), path, names, context->device_count);
    dhowi_free(names);
    return status;
}

static void write_file(dhow_context *context) {
    if (save(context, context->trace_path) != DHOW_OK)
        dhowi_log_line(&context->log, DHOW_LOG_ERROR, "DHOW_TRACE: %s", dhow_last_error());
}

static void finish_spans(dhow_context *context, int64_t patience_ms) {
    void (*finish)(dhow_context *, int64_t) = atomic_load(&context->finish_spans);
    if (finish != NULL) finish(context, patience_ms);
}

void dhowi_trace_at_release(dhow_context *context) {
    if (context->trace_path == NULL || !is_ours(context)) return;
    finish_spans(context, -1);
    write_file(context);
}

void dhowi_trace_fini(dhow_context *context) {
    dhowi_trace *trace = atomic_load(&context->trace);
    atomic_store(&context->tracing, false);
    leave(context);
    if (trace != NULL && context->trace_path != NULL && is_ours(context)) write_file(context);
    dhowi_trace_free(trace);
    dhowi_free(context->trace_path);
}

/* ---- traces of parts of a program, see dhow/trace.h ---- */

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
    finish_spans(context, -1);
    dhow_status status = save(context, path);
    pthread_mutex_unlock(&context->discovery);
    return status;
}

dhow_status dhow_trace_get_stats(const dhow_context *context, dhow_trace_stats *given) {
    static const char function[] = "dhow_trace_get_stats";
    dhow_trace_stats own, *out = &own;
    DHOWI_TRY(DHOWI_STRUCT_OUT(dhow_trace_stats, given, &own, function));
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, function, "context"));
    const dhowi_trace *trace = atomic_load(&context->trace);
    if (trace == NULL) return DHOW_OK;
    uint64_t count = atomic_load(&trace->count);
    out->recorded = DHOWI_MIN(count, trace->capacity);
    out->dropped = count - out->recorded;
    out->untimed = atomic_load(&trace->untimed);
    DHOWI_STRUCT_GIVE(given, out);
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

/* ---- at exit ---- */

/* Other threads may still run. Work that a device has not ended soon stands with the host's times:
 * nobody would understand a program that does not exit. */
static void write_all(void) {
    enum { PATIENCE_MS = 2000 };
    pthread_mutex_lock(&g_mutex);
    for (dhow_context *c = g_traced; c != NULL; c = c->next_traced) {
        if (!is_ours(c)) continue;
        finish_spans(c, PATIENCE_MS);
        write_file(c);
    }
    g_traced = NULL; /* once, though it is registered with each driver */
    pthread_mutex_unlock(&g_mutex);
}

void dhowi_trace_driver_started(const dhow_context *context) {
    if (context->trace_path != NULL) (void)atexit(write_all);
}
