/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of small things: launches, hazard tracking, an addition of 16 numbers.
 */
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "memory/storage.h"
#include "raw_opencl.h"

enum { BATCH = 1000, SMALL = 16 };

typedef struct small {
    dhow_tensor *x, *z, *y;
    dhow_kernel *kernel;
    dhow_device *device;
    raw_buffer raw[3];
} small;

static const char k_axpy[] =
    "KERNEL(axpy, (IN(f32,x), IN(f32,z), OUT(f32,y), VAL(f32,a)))\n"
    "{ GRID_FOR(i, 16) y[i] = a * x[i] + z[i]; }\n";

static void launch_batch(void *data) {
    small *s = data;
    for (int i = 0; i < BATCH; i++)
        BENCH_OK(dhow_launch(NULL, s->kernel, SMALL, s->x, s->z, s->y, 2.0f));
    BENCH_OK(dhow_device_sync(s->device));
}
static void raw_batch(void *data) {
    small *s = data;
    void *const buffers[] = {s->raw[0].memory, s->raw[1].memory, s->raw[2].memory};
    raw_opencl_launch(&s->raw[0], buffers, BATCH);
}

static void make_small(dhow_device *device, small *s) {
    const int64_t shape[] = {SMALL};
    s->device = device;
    s->x = bench_tensor(device, 1, shape);
    s->z = bench_tensor(device, 1, shape);
    s->y = bench_tensor(device, 1, shape);
}
static void end_small(small *s) {
    dhow_tensor_release(s->x);
    dhow_tensor_release(s->z);
    dhow_tensor_release(s->y);
    dhow_kernel_release(s->kernel);
}

static void bench_opencl(bench *b, dhow_device *device) {
    small s = {0};
    dhow_module *module;
    if (!raw_opencl_open(0, SMALL * sizeof(float), &s.raw[0])) return;
    raw_opencl_share(&s.raw[0], SMALL * sizeof(float), &s.raw[1]);
    raw_opencl_share(&s.raw[0], SMALL * sizeof(float), &s.raw[2]);
    raw_opencl_build(&s.raw[0]);
    make_small(device, &s);
    BENCH_OK(dhow_module_build(device, &DHOW_INIT(dhow_module_source, .text = k_axpy), &module));
    BENCH_OK(dhow_module_kernel(module, "axpy", &s.kernel));
    dhow_module_release(module);
    bench_compare(b, "1000 launches and a wait, opencl",
                  "clSetKernelArg x4 + clEnqueueNDRangeKernel", 0.9, 1, launch_batch, raw_batch,
                  &s);
    for (int i = 0; i < 3; i++) raw_opencl_close(&s.raw[i]);
    end_small(&s);
}

/* ---- the CPU ---- */

static void add(void *data) {
    small *s = data;
    BENCH_OK(dhow_add(NULL, s->x, s->z, s->y));
}
static void create_release(void *data) {
    const int64_t shape[] = {1 << 18};
    dhow_tensor *t;
    BENCH_OK(dhow_tensor_create(((small *)data)->device, DHOW_F32, 1, shape, &t));
    dhow_tensor_release(t);
}

/* What a launch with two inputs and an output pays for tracking, on a stream that used them last.
 */
static void track(void *data) {
    static dhowi_hazard hazards[3];
    dhowi_timeline *self = data;
    dhowi_timepoint pending[DHOWI_MAX_PENDING];
    static const uint32_t access[] = {DHOW_ACCESS_READ, DHOW_ACCESS_READ, DHOW_ACCESS_WRITE};
    for (int i = 0; i < BATCH; i++) {
        uint32_t count = 0;
        for (int k = 0; k < 3; k++)
            if (!dhowi_hazard_is_quiet(&hazards[k], self)) /* as core/stream/submit.c does */
                count += dhowi_hazard_pending(&hazards[k], access[k], self, pending);
        uint64_t number =
            atomic_fetch_add_explicit(&self->submitted, 1, memory_order_relaxed) + 1 + count;
        for (int k = 0; k < 3; k++) dhowi_hazard_note(&hazards[k], access[k], self, number);
    }
}

void bench_launches(bench *b);
void bench_launches(bench *b) {
    dhow_device *cpu = bench_device(b, "cpu"), *opencl = bench_device(b, "opencl:0");
    dhowi_timeline timeline = {0};
    small s = {0};
    bench_figure(b, "hazard tracking of a launch with 3 tensors", "ns",
                 bench_seconds(20, track, &timeline) / BATCH * 1e9, 50);
    make_small(cpu, &s);
    /* PyTorch's add with out= takes 0.5 us; scripts/bench measures it beside. */
    bench_figure(b, "add of 16 floats into a tensor, cpu", "ns",
                 bench_seconds(20000, add, &s) * 1e9, 500);
    bench_figure(b, "create and release a 1 MiB tensor, cpu", "ns",
                 bench_seconds(20000, create_release, &s) * 1e9, 300);
    end_small(&s);
    if (opencl != NULL) bench_opencl(b, opencl);
}
