/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocation failure at every site of core and the CPU plugin. A scenario runs in a fresh process
 * with its N-th allocation failing, for N = 1, 2, ... until it runs without reaching the N-th; then
 * the same with all allocations from the N-th on. Whatever happens: no crash, a status with a
 * message, nothing left behind, and the same process can do it all afterwards.
 */
#include "base/memory/alloc.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/objects/handle.h"
#include "dhow/dhow.h"
#include "training.h"

/* ---- failing allocations ---- */

static atomic_int g_seen; /* allocations since the hook was set */
static int g_nth;
static bool g_forever;

static bool let_pass(size_t bytes) {
    (void)bytes;
    int seen = atomic_fetch_add(&g_seen, 1) + 1;
    return g_nth == 0 || (g_forever ? seen < g_nth : seen != g_nth);
}

/* Jansson's allocations count as ours. */
static atomic_bool g_hooked, g_json_failed;
static void *json_alloc(size_t bytes) {
    if (!atomic_load(&g_hooked) || let_pass(bytes)) return malloc(bytes);
    atomic_store(&g_json_failed, true);
    return NULL;
}

static void start_failing(int nth, bool forever) {
    g_nth = nth;
    g_forever = forever;
    atomic_store(&g_seen, 0);
    atomic_store(&g_hooked, true);
    dhowi_alloc_set_hook(let_pass);
}
static void stop_failing(void) {
    dhowi_alloc_set_hook(NULL);
    atomic_store(&g_hooked, false);
}

/* ---- scenarios: each ends all it began, and returns its first failure ---- */

#define TRY(call)                               \
    do {                                        \
        if (status == DHOW_OK) status = (call); \
    } while (0)
/* A wrong result is a failure that no allocation excuses. */
#define EXPECT(condition)                                              \
    do {                                                               \
        if (status == DHOW_OK && !(condition)) status = DHOW_INTERNAL; \
    } while (0)

static char g_folder[] = "/tmp/dhow-alloc-XXXXXX";
static char g_npy[64], g_weights[64], g_cache[64];

static void no_log(void *user, dhow_log_level level, const char *message) {
    (void)user, (void)level, (void)message;
}

static dhow_status open_context(const char *backends, dhow_context **out) {
    const char *folders = getenv("DHOW_TEST_PLUGIN_FOLDERS");
    const dhow_context_options options =
        DHOW_INIT(dhow_context_options, .backends = backends,
                  .plugin_path = folders != NULL ? folders : DHOW_TEST_PLUGIN_PATH,
                  .cache_dir = g_cache, .num_threads = 2, .log = no_log);
    return dhow_context_create(&options, out);
}

static dhow_status create_context(void) {
    dhow_context *context = NULL;
    dhow_device *device = NULL;
    dhow_plugin_record record = DHOW_INIT(dhow_plugin_record);
    dhow_status status = open_context("cpu", &context);
    TRY(dhow_device_get(context, "cpu", &device));
    TRY(dhow_device_open(device));
    for (uint32_t i = 0; i < dhow_plugin_count(context); i++)
        TRY(dhow_plugin_at(context, i, &record));
    dhow_context_release(context);
    return status;
}

static dhow_status use_tensors(void) {
    static const float data[6] = {1, 2, 3, 4, 5, 6};
    float result[9] = {0};
    dhow_context *context = NULL;
    dhow_device *cpu = NULL;
    dhow_stream *stream = NULL;
    dhow_event *event = NULL;
    dhow_tensor *a = NULL, *turned = NULL, *packed = NULL, *c = NULL, *soft = NULL, *half = NULL;
    dhow_status status = open_context("cpu", &context);
    TRY(dhow_device_get(context, "cpu", &cpu));
    TRY(dhow_stream_create(cpu, &stream));
    TRY(dhow_event_create(cpu, 1, &event));
    TRY(dhow_tensor_from_data(cpu, DHOW_F32, DHOW_SHAPE(2, 3), data, &a));
    TRY(dhow_tensor_transpose(a, 0, 1, &turned));
    TRY(dhow_tensor_contiguous(stream, turned, &packed));
    TRY(dhow_tensor_create(cpu, DHOW_F32, DHOW_SHAPE(3, 3), &c));
    TRY(dhow_tensor_freeze(a));
    TRY(dhow_matmul(stream, packed, a, c));
    TRY(dhow_tensor_read(c, result, sizeof result));
    EXPECT(result[0] == 17 && result[8] == 45);
    TRY(dhow_add(stream, c, c, c));
    TRY(dhow_tensor_create(cpu, DHOW_F32, DHOW_SHAPE(3, 3), &soft));
    TRY(dhow_softmax(stream, c, 0, soft));
    TRY(dhow_tensor_create(cpu, DHOW_F16, DHOW_SHAPE(3, 3), &half));
    TRY(dhow_cast(stream, soft, half));
    TRY(dhow_event_record(event, stream));
    TRY(dhow_event_sync(event));
    TRY(dhow_copy(turned, packed));
    TRY(dhow_tensor_read(turned, result, 24));
    EXPECT(result[1] == 4);
    dhow_tensor_release(half);
    dhow_tensor_release(soft);
    dhow_tensor_release(c);
    dhow_tensor_release(packed);
    dhow_tensor_release(turned);
    dhow_tensor_release(a);
    dhow_event_release(event);
    dhow_stream_release(stream);
    dhow_context_release(context);
    return status;
}

static dhow_status use_images(void) {
    static const dhow_window window =
        DHOW_FIELDS(dhow_window, {2, 2}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1);
    static const int64_t picks[2] = {1, 0};
    int64_t best[2] = {9, 9};
    dhow_context *context = NULL;
    dhow_device *cpu = NULL;
    dhow_tensor *x = NULL, *w = NULL, *y = NULL, *pooled = NULL, *gamma = NULL, *flat = NULL;
    dhow_tensor *normal = NULL, *sum = NULL, *index = NULL, *rows = NULL, *max = NULL;
    dhow_status status = open_context("cpu", &context);
    TRY(dhow_device_get(context, "cpu", &cpu));
    TRY(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(2, 3, 4, 4), 1, &x));
    TRY(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(5, 3, 2, 2), 1, &w));
    TRY(dhow_tensor_freeze(w));
    TRY(dhow_tensor_create(cpu, DHOW_F32, DHOW_SHAPE(2, 5, 3, 3), &y));
    TRY(dhow_conv2d(NULL, x, w, NULL, &window, y));
    TRY(dhow_tensor_create(cpu, DHOW_F32, DHOW_SHAPE(2, 5, 2, 2), &pooled));
    TRY(dhow_maxpool2d(NULL, y, &window, pooled));
    TRY(dhow_tensor_reshape(pooled, DHOW_SHAPE(2, -1), &flat));
    TRY(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(20), 1, &gamma));
    TRY(dhow_tensor_create(cpu, DHOW_F32, DHOW_SHAPE(2, 20), &normal));
    TRY(dhow_layernorm(NULL, flat, gamma, gamma, 1e-5f, normal));
    TRY(dhow_tensor_create(cpu, DHOW_F32, DHOW_SHAPE(2), &sum));
    TRY(dhow_reduce_sum(NULL, normal, 1, sum));
    TRY(dhow_tensor_from_data(cpu, DHOW_I64, DHOW_SHAPE(2), picks, &index));
    TRY(dhow_tensor_create(cpu, DHOW_F32, DHOW_SHAPE(2, 20), &rows));
    TRY(dhow_gather(NULL, flat, index, rows));
    TRY(dhow_tensor_create(cpu, DHOW_I64, DHOW_SHAPE(2), &max));
    TRY(dhow_argmax(NULL, rows, 1, max));
    TRY(dhow_tensor_read(max, best, sizeof best));
    EXPECT(best[0] == 0 && best[1] == 0); /* all are equal */
    dhow_tensor *const all[] = {x, w, y, pooled, gamma, flat, normal, sum, index, rows, max};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) dhow_tensor_release(all[i]);
    dhow_context_release(context);
    return status;
}

static dhow_status build_module(void) {
    static const dhow_module_source source =
        DHOW_FIELDS(dhow_module_source, .name = "own.k",
                    .text =
                        "KERNEL(twice, (IN(f32,x), OUT(f32,y), VAL(i64,n)))"
                        "{ GRID_FOR(i, n) y[i] = 2 * x[i]; }",
                    .options = "-DK=1");
    float result[4] = {0};
    dhow_context *context = NULL;
    dhow_device *cpu = NULL;
    dhow_module *module = NULL;
    dhow_kernel *kernel = NULL;
    dhow_tensor *x = NULL, *y = NULL;
    dhow_status status = open_context("cpu", &context);
    TRY(dhow_device_get(context, "cpu", &cpu));
    TRY(dhow_module_build(cpu, &source, &module));
    TRY(dhow_module_kernel(module, "twice", &kernel));
    TRY(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(4), 3, &x));
    TRY(dhow_tensor_create(cpu, DHOW_F32, DHOW_SHAPE(4), &y));
    TRY(dhow_launch(NULL, kernel, 4, x, y, 4));
    TRY(dhow_tensor_read(y, result, sizeof result));
    EXPECT(result[3] == 6);
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    dhow_kernel_release(kernel);
    dhow_module_release(module);
    dhow_context_release(context);
    return status;
}

static dhow_status build_model(dhow_context *context, dhow_model **out) {
    dhow_model_value x = 0, h = 0, y = 0;
    dhow_status status = dhow_model_create(context, out);
    TRY(dhow_model_input(*out, "x", DHOW_F32, DHOW_SHAPE(-1, 8), &x));
    TRY(dhow_model_linear(*out, "first", x, 8, 16, 1, &h));
    TRY(dhow_model_relu(*out, h, &h));
    TRY(dhow_model_linear(*out, "second", h, 16, 4, 1, &y));
    TRY(dhow_model_softmax(*out, y, -1, &y));
    TRY(dhow_model_output(*out, "y", y));
    return status;
}

static dhow_status run_model(void) {
    float result[8] = {0};
    dhow_context *context = NULL;
    dhow_device *cpu = NULL;
    dhow_model *model = NULL;
    dhow_tensor *x = NULL, *y = NULL;
    dhow_status status = open_context("cpu", &context);
    TRY(dhow_device_get(context, "cpu", &cpu));
    TRY(build_model(context, &model));
    TRY(dhow_model_save_state(model, g_weights));
    TRY(dhow_model_load_state(model, g_weights));
    TRY(dhow_model_to(model, cpu));
    TRY(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(2, 8), 1, &x));
    TRY(dhow_model_run(model, NULL, &x, 1, &y, 1));
    TRY(dhow_tensor_read(y, result, sizeof result));
    EXPECT(result[0] == 0.25f && result[7] == 0.25f); /* all weights are zero */
    dhow_tensor_release(y);
    dhow_tensor_release(x);
    dhow_model_release(model);
    dhow_context_release(context);
    return status;
}

static dhow_status use_files(void) {
    static const char *const names[] = {"a", "b"};
    float result[6] = {0};
    dhow_context *context = NULL;
    dhow_device *cpu = NULL;
    dhow_safetensors *file = NULL;
    dhow_tensor *tensors[2] = {NULL, NULL}, *back = NULL, *again = NULL;
    dhow_status status = open_context("cpu", &context);
    TRY(dhow_device_get(context, "cpu", &cpu));
    TRY(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(2, 3), 7, &tensors[0]));
    TRY(dhow_tensor_full(cpu, DHOW_BF16, DHOW_SHAPE(4), 1, &tensors[1]));
    TRY(dhow_npy_save(tensors[0], g_npy));
    TRY(dhow_npy_save(tensors[1], g_npy));
    TRY(dhow_npy_load(cpu, g_npy, &back));
    TRY(dhow_safetensors_save(g_weights, 2, names, tensors));
    TRY(dhow_safetensors_open(context, g_weights, &file));
    TRY(dhow_safetensors_load(file, "a", cpu, &again));
    TRY(dhow_tensor_read(again, result, sizeof result));
    EXPECT(result[5] == 7);
    dhow_tensor_release(again);
    dhow_tensor_release(back);
    dhow_safetensors_close(file);
    dhow_tensor_release(tensors[0]);
    dhow_tensor_release(tensors[1]);
    dhow_context_release(context);
    return status;
}

/* Staged copies: the ring, the copy thread, and packing on both sides; on sim, or on the backend
 * that DHOW_TEST_BACKEND names. */
static dhow_status copy_between_devices(void) {
    float result[6] = {0};
    dhow_context *context = NULL;
    dhow_device *cpu = NULL, *sim = NULL, *other = NULL;
    dhow_tensor *x = NULL, *there = NULL, *turned = NULL, *farther = NULL, *back = NULL;
    dhow_tensor *pinned = NULL;
    const char *backend = getenv("DHOW_TEST_BACKEND");
    char name[16], names[3][32];
    (void)snprintf(name, sizeof name, "%.15s", backend != NULL ? backend : "sim");
    (void)snprintf(names[0], sizeof names[0], "cpu,%s", name);
    (void)snprintf(names[1], sizeof names[1], "%s:0", name);
    (void)snprintf(names[2], sizeof names[2], "%s:1", name);
    dhow_status status = open_context(names[0], &context);
    TRY(dhow_device_get(context, "cpu", &cpu));
    TRY(dhow_device_get(context, names[1], &sim));
    TRY(dhow_device_get(context, names[2], &other));
    TRY(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(2, 3), 5, &x));
    TRY(dhow_tensor_to(x, sim, &there));
    TRY(dhow_tensor_transpose(there, 0, 1, &turned));
    TRY(dhow_tensor_to(turned, other, &farther));
    TRY(dhow_tensor_to(farther, cpu, &back));
    TRY(dhow_tensor_create_pinned(sim, DHOW_F32, DHOW_SHAPE(3, 2), &pinned));
    TRY(dhow_copy(farther, pinned));
    TRY(dhow_tensor_read(back, result, sizeof result));
    EXPECT(result[0] == 5 && result[5] == 5);
    dhow_tensor_release(pinned);
    dhow_tensor_release(back);
    dhow_tensor_release(farther);
    dhow_tensor_release(turned);
    dhow_tensor_release(there);
    dhow_tensor_release(x);
    dhow_context_release(context);
    return status;
}

/* A loader and predictions without threads of their own, so that every run allocates in the same
 * order. */
static dhow_status feed(void) {
    float result[10] = {0};
    dhow_context *context = NULL;
    dhow_device *cpu = NULL, *sim = NULL;
    dhow_tensor *x = NULL, *rows = NULL;
    dhow_dataset *samples = NULL, *files = NULL;
    dhow_loader *loader = NULL, *from_file = NULL;
    dhow_model *model = NULL;
    dhow_model_value in = 0, out = 0;
    dhow_sink *sink = NULL, *to_file = NULL;
    const char *paths[1] = {g_npy}, *written[1] = {g_weights};
    dhow_status status = open_context("cpu,sim", &context);
    TRY(dhow_device_get(context, "cpu", &cpu));
    TRY(dhow_device_get(context, "sim", &sim));
    TRY(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(10, 1), 3, &x));
    TRY(dhow_npy_save(x, g_npy));
    TRY(dhow_dataset_from_tensors(&x, 1, &samples));
    TRY(dhow_dataset_open_npy(context, paths, 1, &files));
    const dhow_loader_options options =
        DHOW_INIT(dhow_loader_options, .batch_size = 4, .shuffle = 1, .device = sim);
    TRY(dhow_loader_create(samples, &options, &loader));
    TRY(dhow_loader_create(files, &options, &from_file));
    TRY(dhow_model_create(context, &model));
    TRY(dhow_model_input(model, "x", DHOW_F32, DHOW_SHAPE(-1, 1), &in));
    TRY(dhow_model_add(model, in, in, &out));
    TRY(dhow_model_output(model, "y", out));
    TRY(dhow_model_to(model, sim));
    TRY(dhow_sink_to_tensors(context, &sink));
    TRY(dhow_sink_to_npy(context, written, 1, &to_file));
    TRY(dhow_predict(model, loader, sink));
    TRY(dhow_predict(model, from_file, to_file));
    TRY(dhow_sink_finish(to_file));
    TRY(dhow_sink_tensor(sink, 0, &rows));
    TRY(dhow_tensor_read(rows, result, sizeof result));
    EXPECT(result[0] == 6 && result[9] == 6);
    dhow_tensor_release(rows);
    dhow_sink_release(sink);
    dhow_sink_release(to_file);
    dhow_model_release(model);
    dhow_loader_release(loader);
    dhow_loader_release(from_file);
    dhow_dataset_release(samples);
    dhow_dataset_release(files);
    dhow_tensor_release(x);
    dhow_context_release(context);
    return status;
}

/* With a trace of it. */
static dhow_status run_parallel(void) {
    float result[10] = {0};
    dhow_context *context = NULL;
    dhow_device *cpu = NULL, *sim = NULL;
    dhow_tensor *x = NULL, *y = NULL;
    dhow_model *model = NULL;
    dhow_model_value in = 0, out = 0;
    dhow_parallel *parallel = NULL;
    dhow_status status = open_context("cpu,sim", &context);
    TRY(dhow_device_get(context, "cpu", &cpu));
    TRY(dhow_device_get(context, "sim", &sim));
    TRY(dhow_trace_start(context, 1000));
    TRY(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(10, 1), 3, &x));
    TRY(dhow_model_create(context, &model));
    TRY(dhow_model_input(model, "x", DHOW_F32, DHOW_SHAPE(-1, 1), &in));
    TRY(dhow_model_add(model, in, in, &out));
    TRY(dhow_model_output(model, "y", out));
    TRY(dhow_parallel_create(model, &sim, 1, NULL, &parallel));
    TRY(dhow_parallel_run(parallel, &x, 1, &y, 1));
    TRY(dhow_tensor_read(y, result, sizeof result));
    EXPECT(result[0] == 6 && result[9] == 6);
    TRY(dhow_trace_save(context, g_npy));
    dhow_tensor_release(y);
    dhow_parallel_release(parallel);
    dhow_model_release(model);
    dhow_tensor_release(x);
    dhow_context_release(context);
    return status;
}

static dhow_status train_alone(void) {
    dhow_context *context = NULL;
    dhow_status status = open_context("cpu", &context);
    TRY(fault_train(context, 1, g_weights));
    dhow_context_release(context);
    return status;
}

static dhow_status train_together(void) {
    dhow_context *context = NULL;
    dhow_status status = open_context("cpu,sim", &context);
    TRY(fault_train(context, 2, g_weights));
    dhow_context_release(context);
    return status;
}

static dhow_status use_cache(void) {
    dhow_context *context = NULL;
    dhow_status status = open_context("cpu", &context);
    TRY(fault_cache(context));
    dhow_context_release(context);
    return status;
}

/* ---- one run in a process of its own ---- */

typedef struct outcome {
    dhow_status status, again; /* with the failure, and after it */
    bool in_json;              /* it was one of jansson's */
    bool reached;              /* the allocation that was to fail */
    int seen;
    int64_t left, left_again; /* objects and blocks still there */
    char message[512];
} outcome;

static outcome *g_outcome; /* shared with the child */

static int64_t left_behind(void) {
    int64_t count = dhowi_alloc_live() - dhowi_handle_slabs();
    for (int kind = 0; kind < DHOWI_HANDLE_KINDS; kind++)
        count += dhowi_handle_live((dhowi_handle_kind)kind);
    return count;
}

typedef struct job {
    dhow_status (*scenario)(void);
    dhow_status status;
    char message[sizeof((outcome *)0)->message];
} job;

static void *run_job(void *argument) {
    job *j = argument;
    j->status = j->scenario();
    (void)snprintf(j->message, sizeof j->message, "%s", dhow_last_error());
    return NULL;
}

/* In a thread of its own, so that what belongs to the thread must go with it. */
static job in_thread(dhow_status (*scenario)(void)) {
    job j = {.scenario = scenario, .status = DHOW_INTERNAL};
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_job, &j) == 0) (void)pthread_join(thread, NULL);
    return j;
}

static void run(dhow_status (*scenario)(void), int nth, bool forever) {
    start_failing(nth, forever);
    job with = in_thread(scenario);
    stop_failing();
    g_outcome->status = with.status;
    memcpy(g_outcome->message, with.message, sizeof with.message);
    g_outcome->seen = atomic_load(&g_seen);
    g_outcome->in_json = atomic_load(&g_json_failed);
    g_outcome->reached = g_outcome->seen >= nth;
    g_outcome->left = left_behind();
    g_outcome->again = in_thread(scenario).status;
    g_outcome->left_again = left_behind();
}

static void run_apart(dhow_status (*scenario)(void), int nth, bool forever) {
    memset(g_outcome, 0, sizeof *g_outcome);
    (void)fflush(NULL);
    pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0) {
        run(scenario, nth, forever);
        _exit(0);
    }
    int status = 0;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0,
              "died (wait status 0x%x) with allocation %d failing%s", (unsigned)status, nth,
              forever ? " and all later ones" : "");
}

static void check_outcome(int nth, bool forever) {
    const outcome *o = g_outcome;
    const char *how = forever ? "and all later ones" : "once";
    cr_assert_neq(o->status, DHOW_INTERNAL, "allocation %d failing %s: wrong result: %s", nth, how,
                  o->message);
    if (o->status != DHOW_OK) {
        cr_assert_neq(o->message[0], '\0', "allocation %d failing %s: no message", nth, how);
        /* A backend that could not open is told by those who look for its devices. */
        bool told = o->status == DHOW_UNAVAILABLE || o->status == DHOW_NOT_FOUND;
        /* Jansson calls a text that it has no memory for a wrong one, or leaves out a letter. */
        bool unread =
            o->in_json && (o->status == DHOW_CORRUPT || o->status == DHOW_INVALID_ARGUMENT);
        cr_assert(o->status == DHOW_OUT_OF_MEMORY || unread ||
                      (told && strstr(o->message, "OUT_OF_MEMORY") != NULL),
                  "allocation %d failing %s: %s: %s", nth, how, dhow_status_name(o->status),
                  o->message);
    }
    cr_assert_eq(o->left, 0, "allocation %d failing %s: %lld things left behind; %s: %s", nth, how,
                 (long long)o->left, dhow_status_name(o->status), o->message);
    cr_assert_eq(o->again, DHOW_OK, "after allocation %d failed %s: %s", nth, how,
                 dhow_status_name(o->again));
    cr_assert_eq(o->left_again, 0, "after allocation %d failed %s: %lld things left behind", nth,
                 how, (long long)o->left_again);
}

/* All sites of a scenario; there are at least `expected`. */
static void sweep(const char *name, dhow_status (*scenario)(void), int expected) {
    const char *each = getenv("DHOW_TEST_ALLOC_STEP"); /* every so many allocations fail */
    const int step = each != NULL ? (int)strtol(each, NULL, 10) : 1;
    int sites = 0, failed = 0;
    cr_assert_gt(step, 0, "DHOW_TEST_ALLOC_STEP");
    run_apart(scenario, 0, false);
    cr_assert_eq(g_outcome->status, DHOW_OK, "%s", g_outcome->message);
    check_outcome(0, false);
    for (int forever = 0; forever < 2; forever++) {
        for (int nth = 1 + forever % step;; nth += step) {
            run_apart(scenario, nth, forever != 0);
            check_outcome(nth, forever != 0);
            if (!g_outcome->reached) break;
            failed += g_outcome->status != DHOW_OK;
            if (forever == 0) sites = nth + step - 1; /* at most */
        }
    }
    (void)fprintf(stderr, "%s: %d sites, %d runs failed in order\n", name, sites, failed);
    cr_assert_geq(sites, expected, "%s: %d sites, there were %d", name, sites, expected);
    cr_assert_gt(failed, 0);
}

static void set_up(void) {
    cr_assert_not_null(mkdtemp(g_folder));
    (void)snprintf(g_npy, sizeof g_npy, "%s/t.npy", g_folder);
    (void)snprintf(g_weights, sizeof g_weights, "%s/w.safetensors", g_folder);
    (void)snprintf(g_cache, sizeof g_cache, "%s/cache", g_folder);
    g_outcome =
        mmap(NULL, sizeof *g_outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(g_outcome, MAP_FAILED);
    json_set_alloc_funcs(json_alloc, free);
}

static void tear_down(void) {
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", g_folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(alloc, .init = set_up, .fini = tear_down, .timeout = 240);

/* The numbers are what was found on x86-64 with oneDNN, less what other libraries may differ by. */
Test(alloc, a_context_survives_any_failing_allocation) { sweep("context", create_context, 7); }
Test(alloc, tensors_survive_any_failing_allocation) { sweep("tensors", use_tensors, 30); }
Test(alloc, operations_survive_any_failing_allocation) { sweep("operations", use_images, 30); }
Test(alloc, a_kernel_from_text_survives_any_failing_allocation) {
    (void)snprintf(g_cache, sizeof g_cache, "off");
    sweep("kernel compiled", build_module, 26);
}
Test(alloc, a_kernel_from_the_cache_survives_any_failing_allocation) {
    sweep("kernel cached", build_module, 25);
}
Test(alloc, a_model_survives_any_failing_allocation) { sweep("model", run_model, 200); }
Test(alloc, files_survive_any_failing_allocation) { sweep("files", use_files, 100); }
Test(alloc, loaders_and_predictions_survive_any_failing_allocation) { sweep("feed", feed, 100); }
Test(alloc, parallel_runs_survive_any_failing_allocation) { sweep("parallel", run_parallel, 60); }
Test(alloc, copies_between_devices_survive_any_failing_allocation) {
    /* The simulated machine allocates as well, the fake CUDA runtime not through the host. */
    sweep("copies", copy_between_devices, getenv("DHOW_TEST_BACKEND") != NULL ? 25 : 50);
}
Test(alloc, training_survives_any_failing_allocation) { sweep("training", train_alone, 230); }
Test(alloc, training_on_devices_survives_any_failing_allocation) {
    sweep("training on devices", train_together, 400);
}
Test(alloc, caches_survive_any_failing_allocation) { sweep("caches", use_cache, 45); }
