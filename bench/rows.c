/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise and row operations on 16 M floats: the CPU against hand-written loops, OpenCL against
 * the CPU; products with a number.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "hand.h"

enum { ROWS = 4096, COLS = 4096, SCALED = 4 << 20 };

typedef struct big {
    dhow_tensor *x, *z, *y, *gamma, *beta;
    float *rx, *rz, *ry, *rg, *rb;
    struct big *other;
} big;

static const int64_t k_shape[] = {ROWS, COLS}, k_row[] = {COLS};
#define COUNT ((int64_t)ROWS * COLS)

static void make(dhow_device *device, big *s) {
    s->x = bench_tensor(device, 2, k_shape);
    s->z = bench_tensor(device, 2, k_shape);
    s->y = bench_tensor(device, 2, k_shape);
    s->gamma = bench_tensor(device, 1, k_row);
    s->beta = bench_tensor(device, 1, k_row);
}
static void end(big *s) {
    dhow_tensor_release(s->x);
    dhow_tensor_release(s->z);
    dhow_tensor_release(s->y);
    dhow_tensor_release(s->gamma);
    dhow_tensor_release(s->beta);
}
static void wait(big *s) { BENCH_OK(dhow_device_sync(dhow_tensor_device(s->y))); }

#define OURS(name, call)                  \
    static void ours_##name(void *data) { \
        big *s = data;                    \
        BENCH_OK(call);                   \
        wait(s);                          \
    }
OURS(relu, dhow_relu(NULL, s->x, s->y))
OURS(add, dhow_add(NULL, s->x, s->z, s->y))
OURS(gelu, dhow_gelu(NULL, s->x, s->y))
OURS(gelu_tanh, dhow_gelu_tanh(NULL, s->x, s->y))
OURS(softmax, dhow_softmax(NULL, s->x, -1, s->y))
OURS(layernorm, dhow_layernorm(NULL, s->x, s->gamma, s->beta, 1e-5f, s->y))

static void theirs_relu(void *data) { hand_relu(((big *)data)->rx, ((big *)data)->ry, COUNT); }
static void theirs_add(void *data) {
    hand_add(((big *)data)->rx, ((big *)data)->rz, ((big *)data)->ry, COUNT);
}
static void theirs_gelu(void *data) { hand_gelu(((big *)data)->rx, ((big *)data)->ry, COUNT); }
static void theirs_softmax(void *data) {
    hand_softmax(((big *)data)->rx, ((big *)data)->ry, ROWS, COLS);
}
static void theirs_layernorm(void *data) {
    big *s = data;
    hand_layernorm(s->rx, s->rg, s->rb, s->ry, ROWS, COLS, 1e-5f);
}

static void other_relu(void *data) { ours_relu(((big *)data)->other); }
static void other_add(void *data) { ours_add(((big *)data)->other); }
static void other_gelu(void *data) { ours_gelu(((big *)data)->other); }
static void other_softmax(void *data) { ours_softmax(((big *)data)->other); }
static void other_layernorm(void *data) { ours_layernorm(((big *)data)->other); }

/* A number in place of a full tensor: a third of the bytes less. */
static void mul_scalar(void *data) {
    big *s = data;
    BENCH_OK(dhow_mul_scalar(NULL, s->x, DHOW_SCALAR(1.5f), s->y));
}
static void mul_full(void *data) {
    big *s = data;
    BENCH_OK(dhow_mul(NULL, s->x, s->z, s->y));
}
static void mul_one(void *data) { /* the number in a tensor */
    big *s = data;
    BENCH_OK(dhow_mul(NULL, s->x, s->gamma, s->y));
}
#define AND_WAIT(name)                    \
    static void name##_done(void *data) { \
        name(data);                       \
        wait(data);                       \
    }
AND_WAIT(mul_scalar)
AND_WAIT(mul_one)
AND_WAIT(mul_full)

static void bench_scalar(bench *b, dhow_device *device, const char *name) {
    const int64_t shape[] = {SCALED}, one[] = {1};
    char row[80];
    big s = {.x = bench_tensor(device, 1, shape),
             .z = bench_tensor(device, 1, shape),
             .y = bench_tensor(device, 1, shape),
             .gamma = bench_tensor(device, 1, one)};
    (void)snprintf(row, sizeof row, "multiply 4 M floats by a number, %s", name);
    bench_compare(b, row, "by a full tensor", 0.95, 4, mul_scalar_done, mul_full_done, &s);
    (void)snprintf(row, sizeof row, "multiply 4 M floats by a tensor of one element, %s", name);
    bench_compare(b, row, "by a full tensor", 0.95, 4, mul_one_done, mul_full_done, &s);
    dhow_tensor_release(s.gamma);
    dhow_tensor_release(s.x);
    dhow_tensor_release(s.z);
    dhow_tensor_release(s.y);
}

static float *host_copy(dhow_tensor *t) {
    size_t bytes = (size_t)dhow_tensor_count(t) * sizeof(float);
    float *data = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (data == NULL) exit(1);
    BENCH_OK(dhow_tensor_read(t, data, bytes));
    return data;
}

void bench_rows(bench *b);
void bench_rows(bench *b) {
    dhow_device *cpu = bench_device(b, "cpu"), *opencl = bench_device(b, "opencl:0");
    const char hand[] = "hand-written C, -O3 -ffast-math, OpenMP";
    big s = {0}, c = {0};
    make(cpu, &s);
    s.rx = host_copy(s.x);
    s.rz = host_copy(s.z);
    s.ry = host_copy(s.y);
    s.rg = host_copy(s.gamma);
    s.rb = host_copy(s.beta);
    bench_compare(b, "relu, 16 M floats, cpu", hand, 0.95, 1, ours_relu, theirs_relu, &s);
    bench_compare(b, "add, 16 M floats, cpu", hand, 0.95, 1, ours_add, theirs_add, &s);
    bench_compare(b, "gelu (erf; peer: tanh form), 16 M floats, cpu", hand, 0.95, 1, ours_gelu,
                  theirs_gelu, &s);
    bench_compare(b, "gelu_tanh, 16 M floats, cpu", hand, 0.95, 1, ours_gelu_tanh, theirs_gelu, &s);
    bench_compare(b, "softmax, 4096x4096, cpu", hand, 0.95, 1, ours_softmax, theirs_softmax, &s);
    bench_compare(b, "layernorm, 4096x4096, cpu", hand, 0.95, 1, ours_layernorm, theirs_layernorm,
                  &s);
    bench_scalar(b, cpu, "cpu");
    if (opencl != NULL) {
        const char peer[] = "the CPU plugin";
        bench_scalar(b, opencl, "opencl");
        make(opencl, &c);
        c.other = &s;
        bench_compare(b, "relu, 16 M floats, opencl", peer, 0.6, 1, ours_relu, other_relu, &c);
        bench_compare(b, "add, 16 M floats, opencl", peer, 0.6, 1, ours_add, other_add, &c);
        bench_compare(b, "gelu, 16 M floats, opencl", peer, 0.6, 1, ours_gelu, other_gelu, &c);
        bench_compare(b, "softmax, 4096x4096, opencl", peer, 0.6, 1, ours_softmax, other_softmax,
                      &c);
        bench_compare(b, "layernorm, 4096x4096, opencl", peer, 0.6, 1, ours_layernorm,
                      other_layernorm, &c);
        end(&c);
    }
    free(s.rx);
    free(s.rz);
    free(s.ry);
    free(s.rg);
    free(s.rb);
    end(&s);
}
