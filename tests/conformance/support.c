/* SPDX-License-Identifier: Apache-2.0
 *
 * See support.h: checks and owned objects, and the run of one case.
 */
#include "support.h"

#include <stdarg.h>
#include <time.h>

#include "slots.h"

typedef struct conform_owned {
    conform_kind kind;
    void *object;
} conform_owned;

/* ---- messages ---- */

conform_result conform_fail(conform_env *env, const char *file, int line, const char *format, ...) {
    char text[1200];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *name = strrchr(file, '/');
    (void)snprintf(env->message, sizeof env->message, "%s:%d: %s", name != NULL ? name + 1 : file,
                   line, text);
    return CONFORM_FAIL;
}

conform_result conform_unsupported(conform_env *env, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(env->message, sizeof env->message, format, args);
    va_end(args);
    return CONFORM_UNSUPPORTED;
}

bool conform_computes(conform_env *env, dhow_dtype dtype) {
    dhow_device_info info = DHOW_INIT(dhow_device_info);
    return dhow_device_get_info(env->device, &info) == DHOW_OK &&
           (info.dtypes & DHOW_DTYPE_BIT(dtype)) != 0;
}

/* ---- owned objects ---- */

void conform_own(conform_env *env, conform_kind kind, void *object) {
    if (env->owned_count == env->owned_capacity) {
        env->owned_capacity = env->owned_capacity > 0 ? 2 * env->owned_capacity : 64;
        env->owned = realloc(env->owned, env->owned_capacity * sizeof *env->owned);
        if (env->owned == NULL) abort();
    }
    env->owned[env->owned_count++] = (conform_owned){kind, object};
}

void conform_disown(conform_env *env, void *object) {
    for (uint32_t i = env->owned_count; i-- > 0;) {
        if (env->owned[i].object != object) continue;
        env->owned[i] = env->owned[--env->owned_count];
        return;
    }
}

static void release(const conform_owned *owned) {
    switch (owned->kind) {
        case CONFORM_TENSOR:
            dhow_tensor_release(owned->object);
            break;
        case CONFORM_STREAM:
            dhow_stream_release(owned->object);
            break;
        case CONFORM_GRAPH:
            dhow_graph_release(owned->object);
            break;
        case CONFORM_EVENT:
            dhow_event_release(owned->object);
            break;
        case CONFORM_KERNEL:
            dhow_kernel_release(owned->object);
            break;
        case CONFORM_MODULE:
            dhow_module_release(owned->object);
            break;
        case CONFORM_MODEL:
            dhow_model_release(owned->object);
            break;
        case CONFORM_MEMORY:
            free(owned->object);
            break;
    }
}

void conform_release_all(conform_env *env) {
    while (env->owned_count > 0) release(&env->owned[--env->owned_count]);
    free(env->owned);
    env->owned = NULL;
    env->owned_capacity = 0;
}

void *conform_memory(conform_env *env, size_t bytes) {
    void *memory = calloc(1, bytes > 0 ? bytes : 1);
    if (memory == NULL) abort();
    conform_own(env, CONFORM_MEMORY, memory);
    return memory;
}

/* ---- one case ---- */

static conform_result run_on_slots(conform_env *env, const conform_case *c) {
    env->message[0] = '\0';
    conform_result result = c->fn(env);
    conform_slots_release(env->slots);
    conform_release_all(env);
    return result;
}

/* Live bytes of all devices without those that eager calls keep for the next ones; background work
 * lets go of the last ones a moment later. */
static uint64_t live_bytes(dhow_context *context) {
    uint64_t live = 0;
    for (uint32_t i = 0; i < dhow_device_count(context); i++) {
        dhow_device *device;
        dhow_memory_stats stats = DHOW_INIT(dhow_memory_stats);
        if (dhow_device_at(context, i, &device) != DHOW_OK) continue;
        dhow_status synced = dhow_device_sync(device), trimmed = dhow_memory_trim(device);
        (void)synced, (void)trimmed;
        if (dhow_memory_get_stats(device, &stats) == DHOW_OK) live += stats.live;
    }
    return live;
}

conform_result conform_run(conform_env *env, const conform_case *c) {
    if (env->slots != NULL) return run_on_slots(env, c);
    uint64_t before = live_bytes(env->context), after = before;
    env->message[0] = '\0';
    conform_result result = c->fn(env);
    conform_release_all(env);
    for (int attempt = 0; attempt < 200; attempt++) {
        after = live_bytes(env->context);
        if (after == before) return result;
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    if (result == CONFORM_FAIL) return result;
    return conform_fail(env, __FILE__, __LINE__,
                        "%" PRIu64 " bytes were live before the case, %" PRIu64 " after it", before,
                        after);
}
