/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products: against oneDNN with packed weights called directly and OpenBLAS on the CPU,
 * against CLBlast on OpenCL.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "raw_blas.h"
#include "raw_opencl.h"

typedef struct product {
    dhow_tensor *a, *b, *c;
    int64_t m, n, k;
    bool linear;
    float *ra, *rb, *rc;
    raw_onednn *onednn;
    raw_buffer cl[3];
} product;

static void ours(void *data) {
    product *p = data;
    BENCH_OK(p->linear ? dhow_linear(NULL, p->a, p->b, NULL, p->c)
                       : dhow_matmul(NULL, p->a, p->b, p->c));
}
static void ours_synced(void *data) {
    product *p = data;
    ours(data);
    BENCH_OK(dhow_device_sync(dhow_tensor_device(p->a)));
}
static void onednn(void *data) { raw_onednn_run(((product *)data)->onednn); }
static void openblas(void *data) {
    product *p = data;
    raw_openblas(p->m, p->n, p->k, p->ra, p->rb, p->linear, p->rc);
}
static void clblast(void *data) {
    product *p = data;
    (void)raw_clblast(&p->cl[0], &p->cl[1], &p->cl[2], (size_t)p->n);
}

static void make(dhow_device *device, product *p) {
    const int64_t a[] = {p->m, p->k}, c[] = {p->m, p->n};
    const int64_t b[] = {p->linear ? p->n : p->k, p->linear ? p->k : p->n};
    p->a = bench_tensor(device, 2, a);
    p->b = bench_tensor(device, 2, b);
    p->c = bench_tensor(device, 2, c);
    BENCH_OK(dhow_tensor_freeze(p->b));
}
static void end(product *p) {
    dhow_tensor_release(p->a);
    dhow_tensor_release(p->b);
    dhow_tensor_release(p->c);
}

static float *host_copy(dhow_tensor *t) {
    size_t bytes = (size_t)dhow_tensor_count(t) * sizeof(float);
    float *data = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (data == NULL) exit(1);
    BENCH_OK(dhow_tensor_read(t, data, bytes));
    return data;
}

static void bench_cpu(bench *b, dhow_device *cpu, int64_t m, int64_t n, int64_t k, bool linear) {
    product p = {.m = m, .n = n, .k = k, .linear = linear};
    char name[64];
    double flops = 2.0 * (double)m * (double)n * (double)k;
    int repeat = flops < 1e8 ? 20 : flops < 1e9 ? 4 : 1;
    make(cpu, &p);
    p.ra = host_copy(p.a);
    p.rb = host_copy(p.b);
    p.rc = host_copy(p.c);
    p.onednn = raw_onednn_make(m, n, k, p.ra, p.rb, linear, p.rc);
    (void)snprintf(name, sizeof name, "matmul %lldx%lldx%lld, constant weight, cpu", (long long)m,
                   (long long)k, (long long)n);
    if (p.onednn != NULL) bench_compare(b, name, "oneDNN, packed", 0.95, repeat, ours, onednn, &p);
    if (raw_openblas_found()) {
        bench_compare_apart(b, name, "OpenBLAS", 1.0, repeat, ours, openblas, &p);
    }
    raw_onednn_end(p.onednn);
    free(p.ra);
    free(p.rb);
    free(p.rc);
    end(&p);
}

static void bench_opencl(bench *b, dhow_device *device, int64_t n) {
    product p = {.m = n, .n = n, .k = n};
    char name[64];
    size_t bytes = (size_t)(n * n) * sizeof(float);
    if (!raw_opencl_open(0, bytes, &p.cl[0])) return;
    raw_opencl_share(&p.cl[0], bytes, &p.cl[1]);
    raw_opencl_share(&p.cl[0], bytes, &p.cl[2]);
    make(device, &p);
    (void)snprintf(name, sizeof name, "matmul %lld cubed, opencl", (long long)n);
    bench_compare(b, name, "CLBlast", 5.0, 1, ours_synced, clblast, &p);
    end(&p);
    raw_opencl_close(&p.cl[1]);
    raw_opencl_close(&p.cl[2]);
    raw_opencl_close(&p.cl[0]);
}

void bench_matmul(bench *b);
void bench_matmul(bench *b) {
    dhow_device *cpu = bench_device(b, "cpu"), *opencl = bench_device(b, "opencl:0");
    bench_cpu(b, cpu, 512, 512, 512, false);
    bench_cpu(b, cpu, 1024, 1024, 1024, false);
    bench_cpu(b, cpu, 2048, 2048, 2048, false);
    bench_cpu(b, cpu, 32, 500, 1000, true);
    bench_cpu(b, cpu, 1, 4096, 4096, true);
    for (int64_t n = 256; opencl != NULL && n <= 2048; n *= 2) bench_opencl(b, opencl, n);
}
