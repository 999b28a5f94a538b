/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies against memcpy and against the raw OpenCL calls.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "raw_opencl.h"

enum { MIB = 1 << 20 };

typedef struct pair {
    dhow_tensor *src, *dst, *via;
    void *raw_src, *raw_dst;
    size_t bytes;
    raw_buffer raw, raw2;
    double slower;
} pair;

static void copy(void *data) {
    pair *p = data;
    BENCH_OK(dhow_copy(p->src, p->dst));
}
static void copy_via(void *data) {
    pair *p = data;
    BENCH_OK(dhow_copy(p->src, p->via));
    BENCH_OK(dhow_copy(p->via, p->dst));
}
static void run_memcpy(void *data) {
    pair *p = data;
    memcpy(p->raw_dst, p->raw_src, p->bytes);
}

static void bench_host(bench *b, dhow_device *cpu) {
    const int64_t shape[] = {64 * MIB / 4};
    pair p = {.bytes = 64 * MIB};
    p.src = bench_tensor(cpu, 1, shape);
    p.dst = bench_tensor(cpu, 1, shape);
    p.raw_src = aligned_alloc(4096, p.bytes);
    p.raw_dst = aligned_alloc(4096, p.bytes);
    memset(p.raw_src, 1, p.bytes);
    memset(p.raw_dst, 2, p.bytes);
    bench_compare(b, "copy cpu to cpu, 64 MiB", "memcpy", 0.95, 1, copy, run_memcpy, &p);
    dhow_tensor_release(p.src);
    dhow_tensor_release(p.dst);
    free(p.raw_src);
    free(p.raw_dst);
}

/* ---- strided ---- */

typedef struct strided {
    dhow_tensor *square, *turned, *dst;
} strided;

static void copy_turned(void *data) {
    strided *s = data;
    BENCH_OK(dhow_copy(s->turned, s->dst));
}
static void copy_straight(void *data) {
    strided *s = data;
    BENCH_OK(dhow_copy(s->square, s->dst));
}

static void bench_strided(bench *b, dhow_device *device, const char *name, double bar) {
    const int64_t shape[] = {4096, 4096};
    strided s;
    s.square = bench_tensor(device, 2, shape);
    s.dst = bench_tensor(device, 2, shape);
    BENCH_OK(dhow_tensor_transpose(s.square, 0, 1, &s.turned));
    bench_compare(b, name, "contiguous copy of the same bytes", bar, 1, copy_turned, copy_straight,
                  &s);
    dhow_tensor_release(s.square);
    dhow_tensor_release(s.turned);
    dhow_tensor_release(s.dst);
}

/* ---- OpenCL ---- */

static void raw_write(void *data) {
    pair *p = data;
    raw_opencl_write(&p->raw, p->raw_src, p->bytes);
}
static void raw_read(void *data) {
    pair *p = data;
    raw_opencl_read(&p->raw, p->raw_dst, p->bytes);
}
static void raw_read2(void *data) {
    pair *p = data;
    raw_opencl_read(&p->raw2, p->raw_dst, p->bytes);
}
static void raw_slower(void *data) {
    pair *p = data;
    if (p->slower > 0) {
        raw_read(data);
    } else {
        raw_read2(data);
    }
}
static void raw_both(void *data) {
    raw_read(data);
    raw_write(data);
}
static void to_device(void *data) {
    pair *p = data;
    BENCH_OK(dhow_tensor_write(p->src, p->raw_src, p->bytes));
}
static void to_host(void *data) {
    pair *p = data;
    BENCH_OK(dhow_tensor_read(p->src, p->raw_dst, p->bytes));
}

static void bench_opencl(bench *b, dhow_device *cpu, dhow_device *cl0, dhow_device *cl1) {
    pair p = {.bytes = 64 * MIB};
    const int64_t small[] = {64 * MIB / 4}, large[] = {256 * (int64_t)MIB / 4};
    p.raw_src = aligned_alloc(4096, 256 * (size_t)MIB);
    p.raw_dst = aligned_alloc(4096, 256 * (size_t)MIB);
    memset(p.raw_src, 1, 256 * (size_t)MIB);
    memset(p.raw_dst, 1, 256 * (size_t)MIB);
    if (!raw_opencl_open(0, 256 * (size_t)MIB, &p.raw)) return;
    p.src = bench_tensor(cl0, 1, small);
    bench_compare(b, "host to opencl, 64 MiB", "clEnqueueWriteBuffer", 0.95, 1, to_device,
                  raw_write, &p);
    bench_compare(b, "opencl to host, 64 MiB", "clEnqueueReadBuffer", 0.95, 1, to_host, raw_read,
                  &p);
    dhow_tensor_release(p.src);
    p.bytes = 256 * (size_t)MIB;
    p.src = bench_tensor(cl0, 1, large);
    p.dst = bench_tensor(cl0, 1, large);
    p.via = bench_tensor(cpu, 1, large);
    bench_compare(b, "opencl to cpu to opencl, 256 MiB", "raw read, then raw write", 0.8, 1,
                  copy_via, raw_both, &p);
    dhow_tensor_release(p.dst);
    if (cl1 != NULL && raw_opencl_open(1, 256 * (size_t)MIB, &p.raw2)) {
        p.dst = bench_tensor(cl1, 1, large);
        p.slower = bench_seconds(1, raw_read, &p) - bench_seconds(1, raw_read2, &p);
        bench_compare(b, "opencl:0 to opencl:1, 256 MiB", "the slower raw copy of the two", 0.8, 1,
                      copy, raw_slower, &p);
        dhow_tensor_release(p.dst);
        raw_opencl_close(&p.raw2);
    }
    dhow_tensor_release(p.src);
    dhow_tensor_release(p.via);
    raw_opencl_close(&p.raw);
    free(p.raw_src);
    free(p.raw_dst);
}

void bench_copies(bench *b);
void bench_copies(bench *b) {
    dhow_device *cpu = bench_device(b, "cpu"), *cl0 = bench_device(b, "opencl:0"),
                *cl1 = bench_device(b, "opencl:1");
    bench_host(b, cpu);
    bench_strided(b, cpu, "transposed copy 4096x4096, cpu", 0.4);
    if (cl0 == NULL) return;
    bench_strided(b, cl0, "transposed copy 4096x4096, opencl", 0.15);
    bench_opencl(b, cpu, cl0, cl1);
}
