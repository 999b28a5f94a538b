/* SPDX-License-Identifier: Apache-2.0
 *
 * The sweep: a program over the public API runs again and again, each time with one call of CUDA
 * failing in one way. Whatever fails: no crash, no hang, nothing left behind, results right where
 * success is claimed, a message that names the error where not, and the CPU and the other device go
 * on working. All in one process; `sweep K/N` tries the K-th of each N functions, `sweep
 * function...` these only.
 */
#include <dhow/dhow.h>
#include <dhow/graph.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fakecuda.h"

enum { LARGE = 40000, ORDINALS = 4, HANG_SECONDS = 60 };

static char g_now[256]; /* settings and fault of the run */
static int g_failed;

static void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void complain(const char *format, ...) {
    va_list list;
    (void)fprintf(stderr, "%s: ", g_now);
    va_start(list, format);
    (void)vfprintf(stderr, format, list);
    va_end(list);
    (void)fprintf(stderr, "\n");
    g_failed++;
}

static void quiet(void *user, dhow_log_level level, const char *message) {
    (void)user, (void)level, (void)message;
}

/* ---- the program ---- */

typedef struct program {
    dhow_context *context;
    dhow_device *cpu, *first, *second;
    dhow_status status; /* the first failure */
    char message[1024];
    bool wrong; /* a result */
} program;

#define TRY(call)                                                                              \
    do {                                                                                       \
        if (p->status == DHOW_OK && (p->status = (call)) != DHOW_OK)                           \
            (void)snprintf(p->message, sizeof p->message, "%s: %s", #call, dhow_last_error()); \
    } while (0)

/* All elements of a tensor have a value. */
static void expect(program *p, dhow_tensor *tensor, int64_t count, float value, const char *what) {
    float *got = calloc((size_t)count, sizeof *got);
    TRY(dhow_tensor_read(tensor, got, (uint64_t)count * sizeof *got));
    for (int64_t i = 0; i < count && p->status == DHOW_OK; i++) {
        if (got[i] == value) continue;
        complain("%s: element %lld is %g, not %g", what, (long long)i, (double)got[i],
                 (double)value);
        p->wrong = true;
        break;
    }
    free(got);
}

static void copies(program *p) {
    dhow_tensor *host = NULL, *there = NULL, *turned = NULL, *small = NULL, *back = NULL;
    dhow_tensor *pinned = NULL;
    TRY(dhow_tensor_full(p->cpu, DHOW_F32, DHOW_SHAPE(200, 200), 3, &host));
    TRY(dhow_tensor_to(host, p->first, &there));
    TRY(dhow_tensor_transpose(there, 0, 1, &turned));
    TRY(dhow_tensor_slice(turned, 0, 10, 30, 1, &small));
    TRY(dhow_tensor_to(small, p->cpu, &back));
    if (back != NULL) expect(p, back, 20 * 200, 3, "a strided copy");
    TRY(dhow_tensor_create_pinned(p->first, DHOW_F32, DHOW_SHAPE(200, 200), &pinned));
    TRY(dhow_copy(there, pinned));
    if (pinned != NULL) expect(p, pinned, LARGE, 3, "a pinned copy");
    dhow_tensor_release(pinned);
    dhow_tensor_release(back);
    dhow_tensor_release(small);
    dhow_tensor_release(turned);
    dhow_tensor_release(there);
    dhow_tensor_release(host);
}

/* Rows and planes with gaps. */
static void boxes(program *p) {
    dhow_tensor *t = NULL, *rows = NULL, *planes = NULL, *host = NULL, *flat = NULL;
    TRY(dhow_tensor_full(p->first, DHOW_F32, DHOW_SHAPE(8, 64, 512), 4, &t));
    TRY(dhow_tensor_slice(t, 2, 100, 300, 1, &rows));
    TRY(dhow_tensor_slice(rows, 1, 3, 60, 1, &planes));
    TRY(dhow_tensor_create(p->first, DHOW_F32, DHOW_SHAPE(8, 57, 200), &host));
    TRY(dhow_copy(planes, host));
    if (host != NULL) expect(p, host, 8 * 57 * 200, 4, "a copy of planes");
    TRY(dhow_tensor_create(p->first, DHOW_F32, DHOW_SHAPE(8, 64, 200), &flat));
    TRY(dhow_copy(rows, flat));
    if (flat != NULL) expect(p, flat, 8 * 64 * 200, 4, "a copy of rows");
    dhow_tensor_release(flat);
    dhow_tensor_release(host);
    dhow_tensor_release(planes);
    dhow_tensor_release(rows);
    dhow_tensor_release(t);
}

static void fills(program *p) {
    static const dhow_dtype dtypes[] = {DHOW_F64, DHOW_F16, DHOW_I8, DHOW_F32};
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        dhow_tensor *t = NULL, *cast = NULL;
        TRY(dhow_tensor_full(p->first, dtypes[i], DHOW_SHAPE(100), 7, &t));
        if (dtypes[i] == DHOW_F64) TRY(dhow_fill(NULL, t, 0.1));
        TRY(dhow_tensor_create(p->first, DHOW_F32, DHOW_SHAPE(100), &cast));
        TRY(dhow_cast(NULL, t, cast));
        if (cast != NULL) expect(p, cast, 100, dtypes[i] == DHOW_F64 ? 0.1f : 7, "a fill");
        dhow_tensor_release(cast);
        dhow_tensor_release(t);
    }
}

static void transposed_convolution(program *p) {
    const dhow_conv_options options = DHOW_INIT(dhow_conv_options, .kernel = {2, 2}, .groups = 1);
    dhow_model *model = NULL;
    dhow_model_value v = 0;
    dhow_tensor *x = NULL, *y = NULL;
    TRY(dhow_model_create(p->context, &model));
    TRY(dhow_model_input(model, "x", DHOW_F32, DHOW_SHAPE(1, 2, 3, 3), &v));
    TRY(dhow_model_conv_transpose2d(model, "a", v, 2, 2, &options, 1, &v));
    TRY(dhow_model_output(model, "y", v));
    TRY(dhow_model_to(model, p->first));
    TRY(dhow_tensor_full(p->first, DHOW_F32, DHOW_SHAPE(1, 2, 3, 3), 1, &x));
    TRY(dhow_model_run(model, NULL, &x, 1, &y, 1));
    if (y != NULL) expect(p, y, 2 * 4 * 4, 0, "a transposed convolution");
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    dhow_model_release(model);
}

/* A model's convolutions, whose weights are packed; one without a bias. */
static void convolutions(program *p) {
    const dhow_window window =
        DHOW_INIT(dhow_window, .kernel = {3, 3}, .pad = {1, 1, 1, 1}, .stride = {1, 1});
    dhow_model *model = NULL;
    dhow_model_value v = 0;
    dhow_tensor *x = NULL, *y = NULL;
    TRY(dhow_model_create(p->context, &model));
    TRY(dhow_model_input(model, "x", DHOW_F16, DHOW_SHAPE(1, 8, 4, 4), &v));
    TRY(dhow_model_conv2d(model, "a", v, 8, 8, &window, 1, &v));
    TRY(dhow_model_relu(model, v, &v));
    TRY(dhow_model_conv2d(model, "b", v, 8, 8, &window, 0, &v));
    TRY(dhow_model_output(model, "y", v));
    TRY(dhow_model_to(model, p->first));
    TRY(dhow_tensor_full(p->first, DHOW_F16, DHOW_SHAPE(1, 8, 4, 4), 1, &x));
    TRY(dhow_model_run(model, NULL, &x, 1, &y, 1));
    if (y != NULL) {
        dhow_tensor *wide = NULL;
        TRY(dhow_tensor_to_dtype(NULL, y, DHOW_F32, &wide));
        if (wide != NULL) expect(p, wide, 8 * 4 * 4, 0, "a convolution");
        dhow_tensor_release(wide);
    }
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    dhow_model_release(model);
    transposed_convolution(p);
}

static void products(program *p) {
    dhow_tensor *x = NULL, *w = NULL, *bias = NULL, *y = NULL, *z = NULL;
    TRY(dhow_tensor_full(p->first, DHOW_F32, DHOW_SHAPE(16, 24), 1, &x));
    TRY(dhow_tensor_full(p->first, DHOW_F32, DHOW_SHAPE(8, 24), 2, &w));
    TRY(dhow_tensor_full(p->first, DHOW_F32, DHOW_SHAPE(8), 3, &bias));
    TRY(dhow_tensor_create(p->first, DHOW_F32, DHOW_SHAPE(16, 8), &y));
    TRY(dhow_linear(NULL, x, w, bias, y));
    if (y != NULL) expect(p, y, 16 * 8, 51, "linear");
    TRY(dhow_tensor_create(p->first, DHOW_F32, DHOW_SHAPE(16, 16), &z));
    dhow_tensor *turned = NULL;
    TRY(dhow_tensor_transpose(x, 0, 1, &turned));
    TRY(dhow_matmul(NULL, x, turned, z));
    if (z != NULL) expect(p, z, 16 * 16, 24, "matmul");
    dhow_tensor_release(turned);
    dhow_tensor *a = NULL, *b = NULL, *c = NULL;
    TRY(dhow_tensor_full(p->first, DHOW_F32, DHOW_SHAPE(3, 8, 4), 1, &a));
    TRY(dhow_tensor_full(p->first, DHOW_F32, DHOW_SHAPE(3, 4, 8), 2, &b));
    TRY(dhow_tensor_create(p->first, DHOW_F32, DHOW_SHAPE(3, 8, 8), &c));
    TRY(dhow_matmul(NULL, a, b, c));
    if (c != NULL) expect(p, c, 3 * 8 * 8, 8, "a batch of products");
    dhow_tensor_release(a);
    dhow_tensor_release(b);
    dhow_tensor_release(c);
    dhow_tensor_release(z);
    dhow_tensor_release(y);
    dhow_tensor_release(bias);
    dhow_tensor_release(w);
    dhow_tensor_release(x);
}

static void streams(program *p) {
    dhow_stream *one = NULL, *two = NULL;
    dhow_event *begun = NULL, *ended = NULL;
    dhow_tensor *t = NULL, *sum = NULL;
    double milliseconds = 0;
    TRY(dhow_stream_create(p->first, &one));
    TRY(dhow_stream_create(p->first, &two));
    TRY(dhow_event_create(p->first, 1, &begun));
    TRY(dhow_event_create(p->first, 1, &ended));
    TRY(dhow_tensor_full(p->first, DHOW_F32, DHOW_SHAPE(LARGE), 1, &t));
    TRY(dhow_tensor_create(p->first, DHOW_F32, DHOW_SHAPE(LARGE), &sum));
    TRY(dhow_event_record(begun, one));
    TRY(dhow_add(one, t, t, t));
    TRY(dhow_event_record(ended, one));
    TRY(dhow_stream_wait(two, ended));
    TRY(dhow_add(two, t, t, sum));
    TRY(dhow_event_sync(ended));
    TRY(dhow_event_elapsed_ms(begun, ended, &milliseconds));
    if (p->status == DHOW_OK) {
        const dhow_status status = dhow_stream_query(two);
        if (status != DHOW_NOT_READY) TRY(status);
    }
    TRY(dhow_stream_sync(two));
    if (sum != NULL) expect(p, sum, LARGE, 4, "two streams");
    dhow_tensor_release(sum);
    dhow_tensor_release(t);
    dhow_event_release(begun);
    dhow_event_release(ended);
    dhow_stream_release(one);
    dhow_stream_release(two);
}

static void devices(program *p) {
    dhow_tensor *t = NULL, *there = NULL, *back = NULL;
    TRY(dhow_tensor_full(p->first, DHOW_F32, DHOW_SHAPE(LARGE), 5, &t));
    TRY(dhow_tensor_to_async(NULL, t, p->second, &there));
    TRY(dhow_add(NULL, there, there, there));
    TRY(dhow_tensor_to_async(NULL, there, p->first, &back));
    TRY(dhow_relu(NULL, back, back));
    if (back != NULL) expect(p, back, LARGE, 10, "through the other device");
    dhow_tensor_release(back);
    dhow_tensor_release(there);
    dhow_tensor_release(t);
}

static dhow_status record(void *user, dhow_stream *stream) {
    dhow_tensor **t = user;
    const dhow_status status = dhow_add(stream, t[0], t[0], t[1]);
    return status == DHOW_OK ? dhow_relu(stream, t[1], t[1]) : status;
}

static void graphs(program *p) {
    dhow_stream *stream = NULL;
    dhow_graph *graph = NULL;
    dhow_tensor *t[2] = {NULL, NULL};
    TRY(dhow_stream_create(p->first, &stream));
    TRY(dhow_tensor_full(p->first, DHOW_F32, DHOW_SHAPE(100), 2, &t[0]));
    TRY(dhow_tensor_create(p->first, DHOW_F32, DHOW_SHAPE(100), &t[1]));
    TRY(dhow_graph_record(stream, record, t, &graph));
    TRY(dhow_fill(stream, t[0], 3));
    TRY(dhow_graph_replay(graph, stream));
    TRY(dhow_graph_replay(graph, NULL));
    if (graph != NULL) expect(p, t[1], 100, 6, "a replay");
    dhow_graph_release(graph);
    dhow_tensor_release(t[0]);
    dhow_tensor_release(t[1]);
    dhow_stream_release(stream);
}

static void own_kernels(program *p) {
    static const char text[] =
        "KERNEL(triple, (IN(f32,x), OUT(f32,y), VAL(i64,n)))\n"
        "{ GRID_FOR(i, n) y[i] = 3 * x[i]; }\n";
    dhow_module *module = NULL;
    dhow_kernel *kernel = NULL;
    dhow_tensor *x = NULL, *y = NULL;
    TRY(dhow_module_build(p->first, &DHOW_INIT(dhow_module_source, .text = text, .name = "own.k"),
                          &module));
    TRY(dhow_module_kernel(module, "triple", &kernel));
    TRY(dhow_tensor_full(p->first, DHOW_F32, DHOW_SHAPE(100), 2, &x));
    TRY(dhow_tensor_create(p->first, DHOW_F32, DHOW_SHAPE(100), &y));
    TRY(dhow_launch(NULL, kernel, 100, x, y, 100));
    if (y != NULL) expect(p, y, 100, 6, "an own kernel");
    dhow_tensor_release(y);
    dhow_tensor_release(x);
    dhow_kernel_release(kernel);
    dhow_module_release(module);
}

/* The fake runs no CUDA C; it gets as far as the launch. */
static void native_kernels(program *p) {
    static const char text[] = "extern \"C\" __global__ void k(float *x) { x[0] = 1; }\n";
    const uint32_t one[3] = {1, 1, 1};
    const dhow_module_source source =
        DHOW_INIT(dhow_module_source, .text = text, .name = "own.cu", .format = DHOW_MODULE_CUDA_C,
                  .signatures = "k(OUT(f32,x))");
    dhow_module *module = NULL;
    dhow_kernel *kernel = NULL;
    dhow_tensor *x = NULL;
    TRY(dhow_module_build(p->first, &source, &module));
    TRY(dhow_module_kernel(module, "k", &kernel));
    TRY(dhow_tensor_full(p->first, DHOW_F32, DHOW_SHAPE(100), 2, &x));
    if (p->status == DHOW_OK) {
        const dhow_status status = dhow_launch_grid(NULL, kernel, one, one, 100000, x);
        if (status != DHOW_UNSUPPORTED || strstr(dhow_last_error(), "(801)") == NULL) TRY(status);
    }
    dhow_tensor_release(x);
    dhow_kernel_release(kernel);
    dhow_module_release(module);
}

/* Other devices are none the worse for it. */
static void others(program *failed, bool second_too) {
    program alone = *failed, *p = &alone;
    dhow_tensor *t = NULL, *there = NULL;
    p->status = DHOW_OK;
    TRY(dhow_tensor_full(p->cpu, DHOW_F32, DHOW_SHAPE(64), 1, &t));
    TRY(dhow_add(NULL, t, t, t));
    if (t != NULL) expect(p, t, 64, 2, "the CPU afterwards");
    if (second_too) {
        TRY(dhow_tensor_full(p->second, DHOW_F32, DHOW_SHAPE(64), 1, &there));
        TRY(dhow_add(NULL, there, there, there));
        if (there != NULL) expect(p, there, 64, 2, "the other device afterwards");
    }
    if (p->status != DHOW_OK) complain("afterwards: %s", p->message);
    failed->wrong |= p->wrong;
    dhow_tensor_release(t);
    dhow_tensor_release(there);
}

/* What `devinfo` and the allocator ask. */
static void questions(program *p) {
    dhow_memory_stats stats = DHOW_INIT(dhow_memory_stats);
    dhow_tensor *huge = NULL;
    if (p->status == DHOW_OK) {
        const dhow_status status =
            dhow_tensor_create(p->first, DHOW_U8, DHOW_SHAPE(INT64_C(1) << 40), &huge);
        if (status == DHOW_OK) complain("more memory than there is");
        if (status != DHOW_OUT_OF_MEMORY) TRY(status);
        dhow_tensor_release(huge);
    }
    TRY(dhow_memory_get_stats(p->first, &stats));
    TRY(dhow_memory_trim(p->first));
    TRY(dhow_device_sync(p->first));
}

static void run_program(program *p, const char *cache, bool fault_passes) {
    const dhow_context_options options =
        DHOW_INIT(dhow_context_options, .backends = "cpu,cuda", .cache_dir = cache,
                  .num_threads = 2, .log = quiet);
    static void (*const parts[])(program * p) = {copies,       boxes,          fills,    products,
                                                 convolutions, streams,        devices,  graphs,
                                                 own_kernels,  native_kernels, questions};
    memset(p, 0, sizeof *p);
    TRY(dhow_context_create(&options, &p->context));
    TRY(dhow_device_get(p->context, "cpu", &p->cpu));
    TRY(dhow_device_get(p->context, "cuda:0", &p->first));
    TRY(dhow_device_get(p->context, "cuda:1", &p->second));
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (p->status == DHOW_OK) parts[i](p);
    }
    if (p->status != DHOW_OK && p->cpu != NULL)
        others(p, fault_passes && p->second != NULL && fakecuda_device_error(0) != 0 &&
                      fakecuda_device_error(1) == 0);
    dhow_context_release(p->context);
}

/* ---- one run ---- */

typedef struct kind {
    const char *name, *form; /* of function and ordinal */
    int code;
    bool passes; /* strikes once: what does not fail goes on */
} kind;

static const kind k_kinds[] = {{"once", "%s@%d=999", 999, true},
                               {"for good", "%s@%d+=999", 999, false},
                               {"out of memory", "%s@%d=2", 2, true},
                               {"sticky", "%s@%d=700", 700, true},
                               {"asynchronous", "%s@%d=async:719", 719, true},
                               {"refused", "%s@%d=1", 1, true}};
enum { KINDS = sizeof k_kinds / sizeof k_kinds[0] };

/* "cuda:0: copy: cuda:0: ..." */
static bool is_named_twice(const char *message) {
    const char *first = strstr(message, "cuda:0: ");
    const char *second = first != NULL ? strstr(first + 1, "cuda:0: ") : NULL;
    return second != NULL && strstr(message, "is lost since") == NULL;
}

static bool is_named(const char *message, int code) {
    char number[16];
    (void)snprintf(number, sizeof number, "(%d)", code);
    return strstr(message, cudaGetErrorName((cudaError_t)code)) != NULL ||
           strstr(message, number) != NULL || strstr(message, "CUBLAS_STATUS") != NULL ||
           strstr(message, "NVRTC") != NULL;
}

static void wait_for_the_end(void) {
    for (int i = 0; i < 500 && fakecuda_live_objects(NULL) != 0; i++)
        (void)nanosleep(&(struct timespec){0, 10000000}, NULL);
}

/* False where the fault struck nothing. */
static bool run(const char *settings, const char *fault, const kind *k, const char *cache) {
    program p;
    fakecuda_objects left;
    char why[256];
    (void)snprintf(g_now, sizeof g_now, "%s %s", settings, fault != NULL ? fault : "no fault");
    if (!fakecuda_reset(settings, fault, why, sizeof why)) {
        complain("%s", why);
        return false;
    }
    (void)alarm(HANG_SECONDS);
    run_program(&p, cache, k->passes);
    wait_for_the_end();
    const uint32_t struck = fakecuda_faults_struck();
    /* Where no context can be entered any more, things are released without one, and the runtime
     * then keeps one of its own. */
    const bool is_locked_out =
        fault != NULL && !k->passes && strncmp(fault, "cuCtxPushCurrent@", 17) == 0;
    const uint32_t count = fakecuda_live_objects(&left);
    if (count > (is_locked_out ? left.contexts : 0))
        complain(
            "left: %u device blocks, %u host blocks, %u registrations, %u streams, %u events, "
            "%u graphs, %u libraries, %u contexts, %u + %u of cuBLAS, %u of cuDNN, %u of NCCL, "
            "%u programs",
            left.device_blocks, left.host_blocks, left.registrations, left.streams, left.events,
            left.graphs + left.graph_execs, left.libraries, left.contexts, left.blas_handles,
            left.lt_objects, left.cudnn_objects, left.nccl_comms, left.programs);
    if (fakecuda_complaints() != 0) complain("%s", fakecuda_first_complaint());
    if (p.status != DHOW_OK && struck == 0) complain("nothing struck, yet: %s", p.message);
    /* Error 1 is how the driver says that a kernel has no more parameters. */
    const bool is_answer =
        fault != NULL && k->code == 1 && strncmp(fault, "cuFuncGetParamInfo", 18) == 0;
    if (p.status != DHOW_OK && is_named_twice(p.message))
        complain("the message names its device twice: %s", p.message);
    if (p.status != DHOW_OK && !is_answer && !is_named(p.message, k->code))
        complain("the message names no error of CUDA: %s", p.message);
    if (p.status != DHOW_OK && k->code == 2 && k->passes && fault != NULL &&
        strncmp(fault, "cudaMalloc@", 11) == 0)
        complain("memory that was short once is not asked for again: %s", p.message);
    (void)alarm(0);
    return struck != 0;
}

static void hung(int signal) {
    (void)signal;
    static const char text[] = ": hangs\n";
    ssize_t unused = write(2, g_now, strlen(g_now));
    unused = write(2, text, sizeof text - 1);
    (void)unused;
    _exit(3);
}

/* ---- the sweep ---- */

/* Functions of NVRTC are called only where the cache has nothing. */
static const char *cache_for(const char *function, const char *cache) {
    return strncmp(function, "nvrtc", 5) == 0 ? "off" : cache;
}

static int sweep(const char *settings, const char *function, const char *cache) {
    int runs = 0;
    for (int ordinal = 1; ordinal <= ORDINALS; ordinal++) {
        for (size_t i = 0; i < KINDS; i++) {
            char fault[128];
            (void)snprintf(fault, sizeof fault, k_kinds[i].form, function, ordinal);
            if (!run(settings, fault, &k_kinds[i], cache_for(function, cache))) return runs;
            runs++;
        }
    }
    return runs;
}

static bool is_wanted(const char *function, size_t index, int argc, char **argv) {
    bool wanted = argc == 1;
    size_t part, parts;
    if (argc == 2 && sscanf(argv[1], "%zu/%zu", &part, &parts) == 2 && parts > 0)
        return index % parts + 1 == part;
    for (int i = 1; i < argc; i++) wanted |= strcmp(argv[i], function) == 0;
    return wanted;
}

/* What the fake has and the plugin does not call; anything else must be reached by the program. */
static const char *const k_not_called[] = {
    "cuCtxGetDevice", "cuCtxSetCurrent", "cuDeviceGetCount", "cuDeviceGetUuid",
    "cuDevicePrimaryCtxGetState", "cuDriverGetVersion", "cuInit", "cuKernelGetParamInfo",
    "cuMemGetAddressRange", "cuStreamGetCtx", /* interop_test.c */
    "cuStreamWriteValue32", "cudaDeviceReset", "cudaDeviceSynchronize", "cudaFuncGetAttributes",
    "cudaGetDevice", "cudaHostRegister", /* a slot that dhow has no use for yet */
    "cudaHostUnregister", "cudaKernelSetAttributeForDevice", "cudaLaunchHostFunc",
    "cudaLaunchKernelExC", "cudaLibraryGetKernelCount", "cudaMemset2DAsync",
    "cudaPointerGetAttributes", "cudaSetDevice", "cudaDeviceGetStreamPriorityRange",
    "cudaGetDriverEntryPointByVersion", "cudaStreamCreateWithPriority", "cudaStreamIsCapturing",
    "nvmlDeviceGetHandleByUUID",
    /* devices are described by dhow-probe, out of reach; plugin_test.c sweeps these */
    "cudaDeviceGetPCIBusId", "cudaDriverGetVersion", "cudaGetDeviceProperties",
    "cudaRuntimeGetVersion", "nvmlDeviceGetHandleByPciBusId_v2", "nvmlDeviceGetMemoryInfo",
    "nvmlInit_v2",
    /* plugin_coll_test.c sweeps these */
    "ncclAllGather", "ncclAllReduce", "ncclBroadcast", "ncclCommAbort", "ncclCommDestroy",
    "ncclCommFinalize", "ncclCommGetAsyncError", "ncclCommInitAll", "ncclCommInitRankConfig",
    "ncclGetUniqueId", "ncclGetVersion", "ncclGroupEnd", "ncclGroupStart", "ncclReduce",
    "ncclReduceScatter", "ncclWork", NULL};

static void check_reach(const bool *called) {
    for (size_t i = 0; fakecuda_function(i) != NULL; i++) {
        bool listed = called[i];
        for (size_t k = 0; k_not_called[k] != NULL; k++)
            listed |= strcmp(k_not_called[k], fakecuda_function(i)) == 0;
        if (!listed) complain("%s is not reached by the program", fakecuda_function(i));
    }
}

/* With peers and cuBLASLt, without either, a GPU that is newer than NVRTC, and streams that wait
 * for the host. */
static const char *const k_settings[] = {"devices=2", "devices=2,peer=0,noheuristic=1",
                                         "devices=2,cc=122,nofused=1", "devices=2,peer=0"};
enum { HOST_WAITS = 3 };

int main(int argc, char **argv) {
    char cache[] = "/tmp/fakecuda-sweep-XXXXXX", command[64];
    const kind none = {"", "", 0, false};
    int runs = 0, functions = 0;
    bool called_before[256] = {false}, reached[256] = {false};
    (void)signal(SIGALRM, hung);
    if (mkdtemp(cache) == NULL) return 2;
    for (size_t s = 0; s < sizeof k_settings / sizeof k_settings[0]; s++) {
        bool called[256] = {false};
        (void)setenv("DHOW_CUDA_HOST_WAITS", s == HOST_WAITS ? "on" : "off", 1);
        (void)run(k_settings[s], NULL, &none,
                  "off"); /* everything is called when nothing is cached */
        for (size_t i = 0; fakecuda_function(i) != NULL; i++) {
            called[i] = fakecuda_call_count(fakecuda_function(i)) != 0;
            reached[i] |= called[i];
        }
        (void)run(k_settings[s], NULL, &none, cache);
        for (size_t i = 0; fakecuda_function(i) != NULL; i++) {
            /* The second time what it adds, and what staged copies do otherwise. */
            const char *name = fakecuda_function(i);
            const bool again =
                s == 1 && (strncmp(name, "cudaMemcpyAsync", 15) == 0 ||
                           strncmp(name, "cudaEvent", 9) == 0 || strncmp(name, "cudaHost", 8) == 0);
            if (!called[i] || (called_before[i] && !again) || !is_wanted(name, i, argc, argv))
                continue;
            functions += called_before[i] ? 0 : 1;
            called_before[i] = true;
            runs += sweep(k_settings[s], name, cache);
        }
    }
    (void)snprintf(g_now, sizeof g_now, "the sweep");
    check_reach(reached);
    if (is_wanted("kernel:*", 0, argc, argv)) runs += sweep(k_settings[0], "kernel:*", cache);
    (void)printf("%d functions of CUDA, %d runs with a fault, %d complaints\n", functions, runs,
                 g_failed);
    (void)snprintf(command, sizeof command, "rm -rf %s", cache);
    (void)!system(command);
    return g_failed != 0 || runs == 0;
}
