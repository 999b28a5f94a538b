/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: an ONNX file from its bytes to a run. What loads is planned and run twice on
 * the CPU with small inputs; the second run, which replays the plan, gives the same bits. Every
 * other file goes by way of a folder, where data.bin may be its external data.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory/alloc.h"
#include "dhow/dhow.h"

enum { MOST = 16, MOST_BYTES = 1 << 24, MOST_ELEMENTS = 4096 };

static dhow_context *g_context;
static dhow_device *g_cpu;
static char g_model[96];
static int g_file = -1;

/* Memory as far as a file of some KiB needs it: more is refused, which is a status like others. */
static size_t g_taken;
static bool allow(size_t size) {
    g_taken += size;
    return size <= MOST_BYTES && g_taken <= 16 * (size_t)MOST_BYTES;
}

static void make_folder(void) {
    char folder[64], path[96];
    unsigned char bytes[4096];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 7);
    (void)snprintf(folder, sizeof folder, "/dev/shm/dhow-fuzz-%d", (int)getpid());
    if (mkdir(folder, 0700) != 0) abort();
    (void)snprintf(path, sizeof path, "%s/data.bin", folder);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    if (fd < 0 || write(fd, bytes, sizeof bytes) != (ssize_t)sizeof bytes) abort();
    (void)close(fd);
    (void)snprintf(g_model, sizeof g_model, "%s/model.onnx", folder);
    g_file = open(g_model, O_CREAT | O_RDWR, 0600);
    if (g_file < 0) abort();
}

static void end(void) {
    char path[96];
    dhow_context_release(g_context);
    (void)unlink(g_model);
    (void)snprintf(path, sizeof path, "/dev/shm/dhow-fuzz-%d/data.bin", (int)getpid());
    (void)unlink(path);
    *strrchr(path, '/') = '\0';
    (void)rmdir(path);
}

static void begin(void) {
    (void)setenv("DHOW_PLUGIN_PATH", DHOW_FUZZ_PLUGIN_PATH, 0);
    (void)setenv("DHOW_LOG", "error", 0);
    cpu_set_t all, one; /* a device of one thread: sums have one order, and runs are short */
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_getaffinity(0, sizeof all, &all) != 0 || sched_setaffinity(0, sizeof one, &one) != 0)
        abort();
    static const dhow_context_options options = {
        .struct_size = sizeof(dhow_context_options), .backends = "cpu", .cache_dir = "off"};
    if (dhow_context_create(&options, &g_context) != DHOW_OK ||
        dhow_device_get(g_context, "cpu", &g_cpu) != DHOW_OK) {
        (void)fprintf(stderr, "%s\n", dhow_last_error());
        abort();
    }
    if (sched_setaffinity(0, sizeof all, &all) != 0) abort();
    make_folder();
    (void)atexit(end);
    dhowi_alloc_set_hook(allow);
}

static dhow_status load(const uint8_t *data, size_t size, dhow_model **out) {
    if (size % 2 == 0) return dhow_model_load_memory(g_context, data, size, out);
    if (ftruncate(g_file, 0) != 0 || pwrite(g_file, data, size, 0) != (ssize_t)size) abort();
    return dhow_model_load(g_context, g_model, out);
}

/* Open extents become 2. NULL: the model wants what is no small tensor. */
static dhow_tensor *input_of(const dhow_model *model, uint32_t i) {
    dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
    dhow_tensor *t = NULL;
    int64_t count = 1;
    if (dhow_model_input_at(model, i, &info) != DHOW_OK) abort();
    if (info.kind != DHOW_DATUM_TENSOR || info.dtype == 0) return NULL;
    const int32_t rank = info.rank < 0 ? 1 : info.rank;
    for (int32_t k = 0; k < rank; k++) {
        if (info.rank < 0 || info.shape[k] < 0) info.shape[k] = 2;
        if (info.shape[k] > MOST_ELEMENTS) return NULL;
        count *= info.shape[k];
        if (count > MOST_ELEMENTS) return NULL;
    }
    return dhow_tensor_full(g_cpu, info.dtype, rank, info.shape, 1, &t) == DHOW_OK ? t : NULL;
}

static void compare(dhow_tensor *const *first, dhow_tensor *const *again, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        dhow_tensor_info p = DHOW_INIT(dhow_tensor_info), q = DHOW_INIT(dhow_tensor_info);
        void *a, *b;
        if (dhow_tensor_get_info(first[i], &p) != DHOW_OK) abort();
        if (dhow_tensor_get_info(again[i], &q) != DHOW_OK) abort();
        if (p.dtype != q.dtype || p.rank != q.rank || p.bytes != q.bytes) abort();
        if (p.bytes == 0) continue;
        if (dhow_tensor_host_ptr(first[i], &a) != DHOW_OK) abort();
        if (dhow_tensor_host_ptr(again[i], &b) != DHOW_OK) abort();
        if (memcmp(a, b, p.bytes) != 0) abort();
    }
}

static bool run(dhow_model *model, dhow_tensor *const *in, uint32_t inputs, dhow_tensor **out,
                uint32_t outputs) {
    const dhow_status status = dhow_model_run(model, NULL, in, inputs, out, outputs);
    if (status != DHOW_OK && dhow_last_error()[0] == '\0') abort();
    return status == DHOW_OK;
}

static void run_twice(dhow_model *model) {
    const uint32_t inputs = dhow_model_input_count(model), outputs = dhow_model_output_count(model);
    dhow_tensor *in[MOST] = {NULL}, *first[MOST] = {NULL}, *again[MOST] = {NULL};
    bool good = inputs <= MOST && outputs <= MOST;
    for (uint32_t i = 0; good && i < inputs; i++) good = (in[i] = input_of(model, i)) != NULL;
    if (good && run(model, in, inputs, first, outputs) && run(model, in, inputs, again, outputs))
        compare(first, again, outputs);
    for (uint32_t i = 0; i < MOST; i++) {
        dhow_tensor_release(in[i]);
        dhow_tensor_release(first[i]);
        dhow_tensor_release(again[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dhow_model *model;
    if (g_context == NULL) begin();
    g_taken = 0;
    const dhow_status status = load(data, size, &model);
    if (status != DHOW_OK) {
        if (model != NULL || dhow_last_error()[0] == '\0') abort();
        return 0;
    }
    if (dhow_model_set_memory_limit(model, MOST_BYTES) != DHOW_OK) abort();
    if (dhow_model_set_time_limit(model, 2) != DHOW_OK) abort();
    run_twice(model);
    dhow_model_release(model);
    return 0;
}
