/* SPDX-License-Identifier: Apache-2.0
 *
 * See hooks.h.
 */
#include "hooks.h"

#include <stddef.h>
#include <time.h>

#include "dhow/dhow.h"

typedef struct objects {
    dhow_context *context;
    dhow_device *cpu;
    dhow_tensor *x, *y, *from, *to;
} objects;

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int make(objects *o) {
    const dhow_context_options options =
        DHOW_INIT(dhow_context_options, .backends = "cpu", .plugin_path = BENCH_PLUGINS);
    return dhow_context_create(&options, &o->context) == DHOW_OK &&
           dhow_device_get(o->context, "cpu", &o->cpu) == DHOW_OK &&
           dhow_tensor_full(o->cpu, DHOW_F32, DHOW_SHAPE(16), 1, &o->x) == DHOW_OK &&
           dhow_tensor_full(o->cpu, DHOW_F32, DHOW_SHAPE(16), 1, &o->y) == DHOW_OK &&
           dhow_tensor_full(o->cpu, DHOW_U8, DHOW_SHAPE(4096), 1, &o->from) == DHOW_OK &&
           dhow_tensor_full(o->cpu, DHOW_U8, DHOW_SHAPE(4096), 1, &o->to) == DHOW_OK;
}

static dhow_status once(const objects *o, hooks_work work) {
    dhow_tensor *t;
    switch (work) {
        case HOOKS_LAUNCH:
            return dhow_add(NULL, o->x, o->x, o->y);
        case HOOKS_COPY:
            return dhow_copy(o->from, o->to);
        default:
            if (dhow_tensor_create(o->cpu, DHOW_F32, DHOW_SHAPE(1024), &t) != DHOW_OK)
                return DHOW_INTERNAL;
            dhow_tensor_release(t);
            return DHOW_OK;
    }
}

__attribute__((visibility("default"))) double hooks_run(hooks_work work, int count);
double hooks_run(hooks_work work, int count) {
    static objects o;
    dhow_status status = DHOW_OK;
    if (o.context == NULL && !make(&o)) return -1;
    const double start = now();
    for (int i = 0; i < count; i++) status |= once(&o, work);
    const double seconds = now() - start;
    return status == DHOW_OK ? seconds : -1;
}
