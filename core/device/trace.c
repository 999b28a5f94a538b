/* SPDX-License-Identifier: Apache-2.0
 *
 * See trace.h.
 */
#include "device/trace.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/size.h"
#include "base/text.h"

enum { DEFAULT_CAPACITY = 1 << 20 };

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
    atomic_store(&context->tracing, true);
    return DHOW_OK;
}

dhow_status dhowi_trace_save(dhow_context *context, const char *path) {
    const char **names = dhowi_alloc_array(context->device_count, sizeof *names);
    if (names == NULL) return dhowi_fail_memory(path);
    for (uint32_t i = 0; i < context->device_count; i++)
        names[context->devices[i]->place] = context->devices[i]->name;
    dhow_status status =
        dhowi_trace_write(atomic_load(&context->trace), path, names, context->device_count);
    dhowi_free(names);
    return status;
}

void dhowi_trace_fini(dhow_context *context) {
    dhowi_trace *trace = atomic_load(&context->trace);
    bool ours = context->device_count > 0 &&
                context->devices[0]->fork_generation == dhowi_fork_generation();
    atomic_store(&context->tracing, false);
    if (trace != NULL && context->trace_path != NULL && ours) {
        if (dhowi_trace_save(context, context->trace_path) != DHOW_OK) {
            dhowi_log_line(&context->log, DHOW_LOG_ERROR, "DHOW_TRACE: %s", dhow_last_error());
        }
    }
    dhowi_free(trace);
    dhowi_free(context->trace_path);
}
