/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow-bench-cuda: dhow's CUDA devices against the CUDA runtime and cuBLASLt called directly.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "bench.h"
#include "raw_cuda.h"

extern char **environ;

void bench_feed(bench *b);
void bench_mlp(bench *b);
void bench_models(bench *b);

const char bench_default_device[] = "cuda";

/* ---- copies --------------------------------------------------------------------------------- */

typedef struct transfer {
    dhow_tensor *host[2], *device[3];
    dhow_stream *stream[2];
    raw_cuda raw;
    size_t raw_bytes; /* of a copy on the device */
} transfer;

static void upload(void *data) {
    transfer *t = data;
    BENCH_OK(dhow_copy(t->host[0], t->device[0]));
}
static void download(void *data) {
    transfer *t = data;
    BENCH_OK(dhow_copy(t->device[0], t->host[0]));
}
static void both(void *data) {
    transfer *t = data;
    BENCH_OK(dhow_copy_async(t->stream[0], t->host[0], t->device[0], 0));
    BENCH_OK(dhow_copy_async(t->stream[1], t->device[1], t->host[1], 0));
    BENCH_OK(dhow_stream_sync(t->stream[0]));
    BENCH_OK(dhow_stream_sync(t->stream[1]));
}
static void on_device(void *data) {
    transfer *t = data;
    BENCH_OK(dhow_copy(t->device[0], t->device[1]));
}
static void raw_upload(void *data) { raw_cuda_upload(&((transfer *)data)->raw); }
static void raw_download(void *data) { raw_cuda_download(&((transfer *)data)->raw); }
static void raw_both(void *data) { raw_cuda_both(&((transfer *)data)->raw); }
static void raw_copy(void *data) {
    transfer *t = data;
    raw_cuda_copy(&t->raw, t->raw_bytes);
}

static dhow_tensor *blank(dhow_device *device, int64_t floats) {
    dhow_tensor *t;
    BENCH_OK(dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(floats), 1, &t));
    return t;
}

static dhow_tensor *blank_host(dhow_device *device, dhow_device *cpu, int64_t floats, int pinned) {
    dhow_tensor *t;
    void *memory;
    if (!pinned) return blank(cpu, floats);
    BENCH_OK(dhow_tensor_create_pinned(device, DHOW_F32, DHOW_SHAPE(floats), &t));
    BENCH_OK(dhow_tensor_host_ptr(t, &memory));
    memset(memory, 1, (size_t)floats * 4);
    return t;
}

static void end_transfer(transfer *t) {
    for (int i = 0; i < 2; i++) {
        dhow_tensor_release(t->host[i]);
        dhow_stream_release(t->stream[i]);
    }
    for (int i = 0; i < 3; i++) dhow_tensor_release(t->device[i]);
}

static void bench_transfers(bench *b) {
    dhow_device *device = bench_main_device(b), *cpu = bench_device(b, "cpu");
    const int64_t bytes = bench_is_small(b) ? 8 << 20 : 256 << 20;
    transfer t = {0};
    raw_cuda_open((size_t)bytes, 2, 2, &t.raw);
    for (int i = 0; i < 2; i++) {
        t.host[i] = blank_host(device, cpu, bytes / 4, 1);
        t.device[i] = blank(device, bytes / 4);
        BENCH_OK(dhow_stream_create(device, &t.stream[i]));
    }
    bench_compare(b, "pinned host to cuda, 256 MiB", "cudaMemcpyAsync", 0.98, 2, upload, raw_upload,
                  &t);
    bench_compare(b, "cuda to pinned host, 256 MiB", "cudaMemcpyAsync", 0.98, 2, download,
                  raw_download, &t);
    bench_compare(b, "both at once, 256 MiB each", "cudaMemcpyAsync", 0.98, 2, both, raw_both, &t);
    dhow_tensor_release(t.host[0]);
    t.host[0] = blank_host(device, cpu, bytes / 4, 0);
    bench_compare(b, "pageable host to cuda, 256 MiB", "pinned cudaMemcpyAsync", 0.80, 2, upload,
                  raw_upload, &t);
    bench_compare(b, "cuda to pageable host, 256 MiB", "pinned cudaMemcpyAsync", 0, 2, download,
                  raw_download, &t);
    end_transfer(&t);
    raw_cuda_close(&t.raw);
}

/* CUDA to OpenCL against the slower of the ways there and on. */
static void bench_across(bench *b) {
    dhow_device *device = bench_main_device(b), *opencl = bench_device(b, "opencl");
    dhow_device_info info = DHOW_INIT(dhow_device_info);
    if (opencl == NULL) {
        printf("%-44s no OpenCL device\n", "cuda to opencl, 256 MiB");
        return;
    }
    BENCH_OK(dhow_device_get_info(opencl, &info));
    const int64_t bytes = bench_is_small(b) ? 8 << 20 : 256 << 20;
    char name[96];
    transfer down = {0}, up = {0}, across = {0};
    raw_cuda_open((size_t)bytes, 1, 1, &down.raw);
    across.host[0] = blank(device, bytes / 4);
    across.device[0] = blank(opencl, bytes / 4);
    up.host[0] = blank_host(opencl, opencl, bytes / 4, 1);
    up.device[0] = blank(opencl, bytes / 4);
    const double first = bench_seconds(2, raw_download, &down);
    const double second = bench_seconds(2, upload, &up);
    (void)snprintf(name, sizeof name, "cuda to opencl (%.24s), 256 MiB", info.description);
    bench_report(b, name, "the slower of both pinned rates", 0.80,
                 bench_seconds(2, upload, &across), first > second ? first : second);
    end_transfer(&across);
    end_transfer(&up);
    raw_cuda_close(&down.raw);
}

/* Whole MiB, as many as are wanted or as fit `parts` times into the device. */
static int64_t fitting(dhow_device *device, int64_t wanted, int64_t parts) {
    dhow_device_info info = DHOW_INIT(dhow_device_info);
    BENCH_OK(dhow_device_get_info(device, &info));
    const uint64_t room = info.free_bytes != 0 ? info.free_bytes : info.memory_bytes / 2;
    const int64_t most = (int64_t)(room >> 20) / parts;
    return (most << 20) < wanted ? (most > 0 ? most : 1) << 20 : wanted;
}

static void bench_copies(bench *b) {
    bench_transfers(b);
    bench_across(b);
    dhow_device *device = bench_main_device(b);
    const int64_t wanted = bench_is_small(b) ? INT64_C(16) << 20 : INT64_C(4) << 30;
    const int64_t bytes = fitting(device, wanted, 6); /* four, and what is cached */
    char name[64];
    transfer t = {.raw_bytes = (size_t)bytes};
    (void)snprintf(name, sizeof name, "copy within cuda, %lld %s",
                   (long long)(bytes >> (bytes % (1 << 30) == 0 ? 30 : 20)),
                   bytes % (1 << 30) == 0 ? "GiB" : "MiB");
    raw_cuda_open((size_t)bytes, 2, 0, &t.raw);
    t.device[0] = blank(device, bytes / 4);
    t.device[1] = blank(device, bytes / 4);
    bench_compare(b, name, "cudaMemcpyAsync", 0.98, 2, on_device, raw_copy, &t);
    end_transfer(&t);
    raw_cuda_close(&t.raw);
}

/* ---- bandwidth ------------------------------------------------------------------------------ */

typedef struct stretch {
    dhow_device *device;
    dhow_tensor *x, *z, *y, *gamma, *beta;
    transfer copy;
} stretch;

#define RUN_(name, call)                       \
    static void name(void *data) {             \
        stretch *s = data;                     \
        BENCH_OK(call);                        \
        BENCH_OK(dhow_device_sync(s->device)); \
    }
RUN_(run_relu, dhow_relu(NULL, s->x, s->y))
RUN_(run_gelu, dhow_gelu(NULL, s->x, s->y))
RUN_(run_add, dhow_add(NULL, s->x, s->z, s->y))
RUN_(run_softmax, dhow_softmax(NULL, s->x, 1, s->y))
RUN_(run_layernorm, dhow_layernorm(NULL, s->x, s->gamma, s->beta, 1e-5f, s->y))
static void run_copy(void *data) { raw_copy(&((stretch *)data)->copy); }

/* The peer copies as many bytes as the operation reads and writes. */
static void bench_bandwidth(bench *b) {
    dhow_device *device = bench_main_device(b);
    const int64_t cols = 4096;
    const int64_t rows = fitting(device, bench_is_small(b) ? 1 << 20 : 1 << 30, 8) / (cols * 4);
    const size_t bytes = (size_t)(rows * cols) * 4;
    char name[64];
    stretch s = {.device = device};
    raw_cuda_open(bytes + bytes / 2, 2, 0, &s.copy.raw);
    dhow_tensor **all[] = {&s.x, &s.z, &s.y};
    for (int i = 0; i < 3; i++)
        BENCH_OK(dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(rows, cols), 0.5 + i, all[i]));
    s.gamma = blank(device, cols);
    s.beta = blank(device, cols);
    s.copy.raw_bytes = bytes;
    (void)snprintf(name, sizeof name, "relu, %lld M floats", (long long)(rows * cols >> 20));
    bench_compare(b, name, "copy of the same bytes", 0.90, 2, run_relu, run_copy, &s);
    (void)snprintf(name, sizeof name, "gelu, %lld M floats", (long long)(rows * cols >> 20));
    bench_compare(b, name, "copy of the same bytes", 0.90, 2, run_gelu, run_copy, &s);
    (void)snprintf(name, sizeof name, "softmax, %lldx4096", (long long)rows);
    bench_compare(b, name, "copy of the same bytes", 0.90, 2, run_softmax, run_copy, &s);
    (void)snprintf(name, sizeof name, "layernorm, %lldx4096", (long long)rows);
    bench_compare(b, name, "copy of the same bytes", 0.90, 2, run_layernorm, run_copy, &s);
    s.copy.raw_bytes = bytes + bytes / 2;
    (void)snprintf(name, sizeof name, "add, %lld M floats", (long long)(rows * cols >> 20));
    bench_compare(b, name, "copy of the same bytes", 0.90, 2, run_add, run_copy, &s);
    for (int i = 0; i < 3; i++) dhow_tensor_release(*all[i]);
    dhow_tensor_release(s.gamma);
    dhow_tensor_release(s.beta);
    raw_cuda_close(&s.copy.raw);
}

/* ---- launches and memory -------------------------------------------------------------------- */

enum { BATCH = 1000, SMALL = 256 };

/* The same kernel on both sides, so that only the launches differ. */
static const char k_ptx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry axpy(.param .u64 x, .param .u64 z, .param .u64 y, .param .f32 a)\n{\n"
    " .reg .b64 %d<8>;\n .reg .f32 %f<5>;\n .reg .b32 %r<2>;\n"
    " ld.param.u64 %d1, [x];\n ld.param.u64 %d2, [z];\n ld.param.u64 %d3, [y];\n"
    " ld.param.f32 %f1, [a];\n mov.u32 %r1, %tid.x;\n mul.wide.u32 %d4, %r1, 4;\n"
    " add.s64 %d5, %d1, %d4;\n add.s64 %d6, %d2, %d4;\n add.s64 %d7, %d3, %d4;\n"
    " ld.global.f32 %f2, [%d5];\n ld.global.f32 %f3, [%d6];\n fma.rn.f32 %f4, %f1, %f2, %f3;\n"
    " st.global.f32 [%d7], %f4;\n ret;\n}\n";

typedef struct small {
    dhow_device *device;
    dhow_tensor *x, *z, *y;
    dhow_kernel *kernel;
    raw_launch raw;
} small;

static void launch_batch(void *data) {
    small *s = data;
    static const uint32_t grid[3] = {1, 1, 1}, block[3] = {SMALL, 1, 1};
    for (int i = 0; i < BATCH; i++)
        BENCH_OK(dhow_launch_grid(NULL, s->kernel, grid, block, 0, s->x, s->z, s->y, 2.0f));
    BENCH_OK(dhow_device_sync(s->device));
}
static void raw_batch(void *data) { raw_launch_run(&((small *)data)->raw, BATCH); }

static void allocate(void *data) {
    dhow_tensor *t;
    BENCH_OK(dhow_tensor_create(data, DHOW_F32, DHOW_SHAPE(1 << 18), &t));
    dhow_tensor_release(t);
}

static void bench_launches(bench *b) {
    dhow_device *device = bench_main_device(b);
    dhow_module *module;
    small s = {.device = device};
    raw_launch_open(k_ptx, "axpy", SMALL * 4, &s.raw);
    s.x = blank(device, SMALL);
    s.z = blank(device, SMALL);
    s.y = blank(device, SMALL);
    BENCH_OK(dhow_module_build(
        device,
        &DHOW_INIT(dhow_module_source, .format = DHOW_MODULE_PTX, .text = k_ptx,
                   .signatures = "axpy(IN(f32,x), IN(f32,z), OUT(f32,y), VAL(f32,a))"),
        &module));
    BENCH_OK(dhow_module_kernel(module, "axpy", &s.kernel));
    if (!bench_is_small(b)) /* the stand-in for CUDA runs no PTX */
        bench_compare(b, "1000 launches of 3 tensors and a float", "cudaLaunchKernelExC", 0.95, 1,
                      launch_batch, raw_batch, &s);
    bench_figure(b, "create and release a tensor of 1 MiB", "ns",
                 bench_seconds(1000, allocate, device) * 1e9, 300);
    dhow_kernel_release(s.kernel);
    dhow_module_release(module);
    dhow_tensor_release(s.x);
    dhow_tensor_release(s.z);
    dhow_tensor_release(s.y);
    raw_launch_close(&s.raw);
}

/* ---- products ------------------------------------------------------------------------------- */

typedef struct product {
    dhow_device *device;
    dhow_tensor *a, *b, *c;
    raw_matmul *raw;
} product;

static void multiply(void *data) {
    product *p = data;
    BENCH_OK(dhow_matmul(NULL, p->a, p->b, p->c));
    BENCH_OK(dhow_device_sync(p->device));
}
static void raw_multiply(void *data) { raw_matmul_run(((product *)data)->raw); }

static dhow_tensor *random_square(dhow_device *device, dhow_dtype dtype, int64_t n) {
    const int64_t shape[] = {n, n};
    dhow_tensor *t = bench_tensor(device, 2, shape), *cast;
    if (dtype == DHOW_F32) return t;
    BENCH_OK(dhow_tensor_create(device, dtype, 2, shape, &cast));
    BENCH_OK(dhow_cast(NULL, t, cast));
    dhow_tensor_release(t);
    return cast;
}

static void bench_product(bench *b, const char *name, raw_type type) {
    dhow_device *device = bench_main_device(b);
    const int64_t n = bench_is_small(b) ? 64 : 8192;
    const dhow_dtype dtype = type == RAW_BF16 ? DHOW_BF16 : DHOW_F32;
    product p = {.device = device, .raw = raw_matmul_open(type, n)};
    if (p.raw == NULL) {
        printf("%-44s no cuBLASLt\n", name);
        return;
    }
    p.a = random_square(device, dtype, n);
    p.b = random_square(device, dtype, n);
    p.c = random_square(device, dtype, n);
    BENCH_OK(dhow_device_set_precision(
        device, type == RAW_TF32 ? DHOW_PRECISION_REDUCED : DHOW_PRECISION_F32));
    bench_compare(b, name, "cublasLtMatmul", 0.99, 2, multiply, raw_multiply, &p);
    BENCH_OK(dhow_device_set_precision(device, DHOW_PRECISION_F32));
    dhow_tensor_release(p.a);
    dhow_tensor_release(p.b);
    dhow_tensor_release(p.c);
    raw_matmul_close(p.raw);
}

static void bench_matmul(bench *b) {
    bench_product(b, "matmul 8192 f32", RAW_F32);
    bench_product(b, "matmul 8192 TF32", RAW_TF32);
    bench_product(b, "matmul 8192 bf16", RAW_BF16);
}

/* ---- start-up ------------------------------------------------------------------------------- */

static void spawn(char *const *arguments) {
    pid_t child;
    int state;
    posix_spawn_file_actions_t actions;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1 /* O_WRONLY */, 0);
    if (posix_spawn(&child, arguments[0], &actions, NULL, arguments, environ) != 0 ||
        waitpid(child, &state, 0) < 0 || state != 0) {
        (void)fprintf(stderr, "dhow-bench-cuda: %s fails\n", arguments[0]);
        exit(1);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
}
static void run_devinfo(void *data) {
    (void)data;
    char *arguments[] = {BENCH_DEVINFO, NULL};
    spawn(arguments);
}
static void run_count(void *data) {
    (void)data;
    char *arguments[] = {BENCH_COUNT, NULL};
    spawn(arguments);
}

static void bench_start(bench *b) {
    (void)setenv("DHOW_BACKENDS", "cuda", 1);
    const double ours = bench_seconds(1, run_devinfo, NULL),
                 raw = bench_seconds(1, run_count, NULL);
    bench_figure(b, "devinfo beyond cudaGetDeviceCount alone", "ms", (ours - raw) * 1e3, 20);
    (void)unsetenv("DHOW_BACKENDS");
}

const bench_group bench_groups[] = {{"copies", bench_copies},     {"bandwidth", bench_bandwidth},
                                    {"launches", bench_launches}, {"matmul", bench_matmul},
                                    {"model", bench_mlp},         {"models", bench_models},
                                    {"feed", bench_feed},         {"start", bench_start}};
const size_t bench_group_count = sizeof bench_groups / sizeof bench_groups[0];
