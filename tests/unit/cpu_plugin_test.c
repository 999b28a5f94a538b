/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU plugin driven through its slots, with a host table of our own.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tests/plugin_host.h"

/* ---- a host ---- */

static struct {
    char key[64];
    unsigned char *blob;
    uint64_t bytes;
    int loads, stores, foreign;
} cache;
static const char *fake_cc, *fake_path;

static const char *host_env(void *user, const char *name) {
    (void)user;
    if (strcmp(name, "CC") == 0) return fake_cc;
    if (strcmp(name, "PATH") == 0 && fake_path) return fake_path;
    return getenv(name);
}

static int32_t host_cache_load(void *user, const char *key, void **out_blob, uint64_t *out_bytes) {
    (void)user;
    *out_blob = NULL;
    *out_bytes = 0;
    if (!cache.blob || strcmp(cache.key, key) != 0) return DHOW_NOT_FOUND;
    *out_bytes = cache.bytes;
    *out_blob = plugin_host_alloc(NULL, cache.bytes, 64);
    memcpy(*out_blob, cache.blob, *out_bytes);
    if (cache.foreign) memset(*out_blob, 'x', 64);
    cache.loads++;
    return DHOW_OK;
}

static int32_t host_cache_store(void *user, const char *key, const void *blob, uint64_t bytes) {
    (void)user;
    free(cache.blob);
    cache.blob = plugin_host_alloc(NULL, bytes, 64);
    memcpy(cache.blob, blob, bytes);
    (void)snprintf(cache.key, sizeof cache.key, "%s", key);
    cache.bytes = bytes;
    cache.stores++;
    return DHOW_OK;
}

static dhow_host host = {.struct_size = (uint32_t)sizeof(dhow_host),
                         .log = plugin_host_log,
                         .alloc = plugin_host_alloc,
                         .free = plugin_host_free,
                         .env = host_env,
                         .cache_load = host_cache_load,
                         .cache_store = host_cache_store,
                         .cpu_threads = 2};
static dhow_error err = {.struct_size = (uint32_t)sizeof(dhow_error)};
static const dhow_plugin *plugin;
static void *backend, *device, *stream;

#define OK(call)                                                                            \
    do {                                                                                    \
        const int32_t status_ = (call);                                                     \
        cr_assert(status_ == DHOW_OK, "%s gives %d: %s", #call, (int)status_, err.message); \
    } while (0)

static void open_device(void) {
    void *library = dlopen(DHOW_CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    cr_assert(library != NULL, "%s", dlerror());
    plugin = dlsym(library, DHOW_PLUGIN_SYMBOL);
    cr_assert(plugin != NULL);
    dhow_probe probe = {.struct_size = (uint32_t)sizeof probe};
    OK(plugin->probe(&host, &probe, &err));
    cr_assert(probe.state == DHOW_PLUGIN_READY, "%s", probe.reason);
    OK(plugin->open(&host, &backend, &err));
    OK(plugin->device_open(backend, 0, &device, &err));
    OK(plugin->stream_create(device, 0, &stream, &err));
}

static void close_device(void) {
    plugin->stream_destroy(stream);
    plugin->device_close(device);
    plugin->close(backend);
    free(cache.blob);
    cache.blob = NULL;
}

TestSuite(cpu_plugin, .init = open_device, .fini = close_device, .timeout = 120);

static void *allocate(uint64_t bytes) {
    uint64_t handle = 0;
    OK(plugin->mem_alloc(device, bytes, &handle, &err));
    return (void *)(uintptr_t)handle;
}

static void release(void *memory) { plugin->mem_free(device, (uint64_t)(uintptr_t)memory); }

static dhow_arg buffer_arg(void *memory, uint64_t offset) {
    return (dhow_arg){.kind = DHOW_ARG_BUFFER, .u.buffer = {(uint64_t)(uintptr_t)memory, offset}};
}

static dhow_arg i32_arg(int32_t value) {
    return (dhow_arg){.kind = DHOW_ARG_VALUE, .bytes = 4, .u.value = (uint32_t)value};
}
static dhow_arg i64_arg(int64_t value) {
    return (dhow_arg){.kind = DHOW_ARG_VALUE, .bytes = 8, .u.value = (uint64_t)value};
}

static dhow_arg f32_arg(float value) {
    dhow_arg arg = {.kind = DHOW_ARG_VALUE, .bytes = 4};
    memcpy(&arg.u.value, &value, sizeof value);
    return arg;
}

static dhow_buffer buffer_of(void *memory) { return (dhow_buffer){(uint64_t)(uintptr_t)memory, 0}; }

static float value_at(size_t i) { return (float)((i * 2654435761u >> 7) % 1000) / 250.0f - 2.0f; }

static void launch(const char *name, uint64_t work, const dhow_arg *args, uint32_t count) {
    void *kernel = NULL;
    const dhow_geometry geometry = {.work = work};
    OK(plugin->builtin_kernel(device, name, 64, &kernel, &err));
    OK(plugin->launch(stream, kernel, &geometry, args, count, &err));
}

/* ---- the plugin
 * --------------------------------------------------------------------------------------------------
 */

Test(cpu_plugin, describes_itself) {
    dhow_device_desc desc = {.struct_size = (uint32_t)sizeof desc};
    uint32_t count = 0;
    OK(plugin->device_count(backend, &count, &err));
    OK(plugin->device_describe(backend, 0, &desc, &err));
    cr_assert(count == 1 && desc.kind == DHOW_DEVICE_CPU && desc.compute_units >= 1);
    cr_assert(desc.memory_bytes > 0 && desc.name[0] && strstr(desc.driver, "OpenMP 2 threads"));
    cr_assert(desc.flags & DHOW_DEVICE_HOST_INLINE);
    cr_assert(plugin->device_describe(backend, 1, &desc, &err) == DHOW_OUT_OF_RANGE);
    dhow_component component = {.struct_size = (uint32_t)sizeof component};
    OK(plugin->component(NULL, 0, &component, &err));
    cr_assert(strcmp(component.name, "oneDNN") == 0 && component.detail[0]);
    cr_assert(plugin->component(backend, 1, &component, &err) == DHOW_OUT_OF_RANGE);
}

Test(cpu_plugin, memory_is_aligned_and_its_end_is_an_error) {
    static const uint64_t sizes[] = {1, 64, 4096, (2 << 20) - 1, 2 << 20, (5 << 20) + 3};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *memory = allocate(sizes[i]);
        cr_assert((uintptr_t)memory % (sizes[i] >= 2 << 20 ? 2 << 20 : 64) == 0);
        memset(memory, 1, sizes[i]);
        release(memory);
    }
    uint64_t handle = 1;
    cr_assert(plugin->mem_alloc(device, UINT64_MAX - 4096, &handle, &err) == DHOW_OUT_OF_MEMORY &&
              handle == 0);
#ifndef __SANITIZE_ADDRESS__ /* whose shadow memory needs the address space */
    struct rlimit limit;
    cr_assert(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = UINT64_C(4) << 30;
    cr_assert(setrlimit(RLIMIT_AS, &limit) == 0);
    cr_assert(plugin->mem_alloc(device, UINT64_C(5) << 30, &handle, &err) == DHOW_OUT_OF_MEMORY &&
              handle == 0);
    cr_assert(strstr(err.message, "5368709120") != NULL, "%s", err.message);
#endif
}

Test(cpu_plugin, boxes_are_copied_and_patterns_filled) {
    enum { BYTES = 9 << 20 };
    unsigned char *x = allocate(BYTES), *y = allocate(BYTES);
    for (size_t i = 0; i < BYTES; i++) x[i] = (unsigned char)(i * 7 + (i >> 12));
    memset(y, 0, BYTES);
    const dhow_copy_rect flat = {{BYTES - 13, 1, 1},
                                 {.handle = (uintptr_t)x, .offset = 5},
                                 {.handle = (uintptr_t)y, .offset = 3}};
    OK(plugin->copy(stream, &flat, &err));
    cr_assert(memcmp(y + 3, x + 5, BYTES - 13) == 0 && y[0] == 0 && y[2] == 0 &&
              y[BYTES - 10] == 0);
    memset(y, 0, BYTES);
    const dhow_copy_rect box = {{100, 50, 20},
                                {.handle = (uintptr_t)x, .offset = 1, .pitch = {128, 8192}},
                                {.handle = (uintptr_t)y, .offset = 7, .pitch = {100, 6000}}};
    OK(plugin->copy(stream, &box, &err));
    for (size_t p = 0; p < 20; p++) {
        for (size_t r = 0; r < 50; r++) {
            cr_assert(memcmp(y + 7 + p * 6000 + r * 100, x + 1 + p * 8192 + r * 128, 100) == 0);
        }
    }
    const uint64_t pattern = UINT64_C(0x0807060504030201);
    for (uint32_t width = 1; width <= 8; width *= 2) {
        memset(y, 0xee, BYTES);
        OK(plugin->fill(stream, (uintptr_t)y, 8, BYTES - 16, pattern, width, &err));
        for (size_t i = 0; i < BYTES - 16; i++)
            cr_assert(y[8 + i] == 1 + i % width, "width %u byte %zu", width, i);
        cr_assert(y[7] == 0xee && y[BYTES - 8] == 0xee);
    }
    release(x);
    release(y);
}

Test(cpu_plugin, large_results_equal_small_ones) {
    enum { N = (8 << 20) + 77 }; /* beyond the size that is streamed past the cache */
    float *x = allocate(N * 4), *y = allocate(N * 4), *z = allocate(N * 4);
    for (size_t i = 0; i < N; i++) x[i] = value_at(i);
    const dhow_arg gelu[] = {buffer_arg(x, 4), buffer_arg(y, 8), i64_arg(N - 4)};
    launch("gelu_f32", N - 4, gelu, 3);
    for (size_t i = 0; i < N - 4; i += 4096) {
        const int64_t n = (int64_t)(N - 4 - i < 4096 ? N - 4 - i : 4096);
        const dhow_arg part[] = {buffer_arg(x, 4 + 4 * i), buffer_arg(z, 8 + 4 * i), i64_arg(n)};
        launch("gelu_f32", (uint64_t)n, part, 3);
    }
    cr_assert(memcmp(y + 2, z + 2, (N - 4) * 4) == 0);
    const dhow_arg add[] = {buffer_arg(x, 0), buffer_arg(y, 0), buffer_arg(y, 0), i64_arg(N)};
    memcpy(z, y, N * 4);
    launch("add_f32", N, add, 4); /* in place */
    for (size_t i = 0; i < N; i++) cr_assert(y[i] == x[i] + z[i] || isnan(z[i]));
    const int64_t rows = 4100, cols = 2045;
    const dhow_arg softmax[] = {buffer_arg(x, 0), buffer_arg(y, 0), i64_arg(rows), i64_arg(cols),
                                i32_arg(0)};
    const dhow_arg head[] = {buffer_arg(x, 0), buffer_arg(z, 0), i64_arg(8), i64_arg(cols),
                             i32_arg(0)};
    launch("softmax_f32", (uint64_t)(rows * cols), softmax, 5);
    launch("softmax_f32", (uint64_t)(8 * cols), head, 5);
    cr_assert(memcmp(y, z, (size_t)(8 * cols) * 4) == 0);
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t j = 0; j < cols; j++) sum += (double)y[r * cols + j];
        cr_assert(fabs(sum - 1) < 1e-5, "row %lld", (long long)r);
    }
    release(x);
    release(y);
    release(z);
}

Test(cpu_plugin, unknown_kernels_and_wrong_arguments_are_refused) {
    void *kernel = &kernel;
    const dhow_geometry geometry = {.work = 1}, native = {.native = 1};
    cr_assert(plugin->builtin_kernel(device, "no_such_f32", 64, &kernel, &err) == DHOW_NOT_FOUND &&
              !kernel);
    OK(plugin->builtin_kernel(device, "relu_f32", 64, &kernel, &err));
    void *again = NULL;
    OK(plugin->builtin_kernel(device, "relu_f32", 64, &again, &err));
    cr_assert(kernel == again);
    const dhow_arg args[] = {i64_arg(1), i64_arg(1), i64_arg(1)};
    cr_assert(plugin->launch(stream, kernel, &geometry, args, 2, &err) == DHOW_INVALID_ARGUMENT);
    cr_assert(plugin->launch(stream, kernel, &native, args, 3, &err) == DHOW_UNSUPPORTED);
}

Test(cpu_plugin, host_events_are_open_until_signalled) {
    void *event = NULL, *timed = NULL, *later = NULL;
    int64_t elapsed = -1;
    OK(plugin->event_create(device, DHOW_EVENT_HOST, &event, &err));
    cr_assert(plugin->event_query(event, &err) == DHOW_NOT_READY);
    OK(plugin->event_signal(event, &err));
    OK(plugin->event_query(event, &err));
    OK(plugin->stream_wait(stream, event, &err));
    OK(plugin->event_create(device, DHOW_EVENT_TIMING, &timed, &err));
    OK(plugin->event_create(device, DHOW_EVENT_TIMING, &later, &err));
    OK(plugin->event_query(timed, &err)); /* never recorded counts as reached */
    OK(plugin->event_record(timed, stream, &err));
    OK(plugin->event_record(later, stream, &err));
    OK(plugin->event_elapsed(timed, later, &elapsed, &err));
    cr_assert(elapsed >= 0);
    plugin->event_destroy(event);
    plugin->event_destroy(timed);
    plugin->event_destroy(later);
}

/* ---- modules
 * -----------------------------------------------------------------------------------------------------
 */

static char *read_header(void) {
    FILE *file = fopen(DHOW_KERNEL_HEADER, "re");
    cr_assert(file != NULL);
    char *text = calloc(1 << 18, 1);
    cr_assert(fread(text, 1, (1 << 18) - 1, file) > 0);
    fclose(file);
    return text;
}

static int32_t build(const char *text, const char *options, char *log, void **module) {
    char *header = read_header();
    static const dhow_kernel_param params[] = {{DHOW_PARAM_IN, DHOW_F32, "x"},
                                               {DHOW_PARAM_OUT, DHOW_F32, "y"},
                                               {DHOW_PARAM_VALUE, DHOW_I64, "n"},
                                               {DHOW_PARAM_VALUE, DHOW_F32, "factor"}};
    const dhow_kernel_decl decl = {
        "scale_f32", "(IN(f32,x), OUT(f32,y), VAL(i64,n), VAL(f32,factor))", params, 4, 0};
    const dhow_module_desc desc = {.struct_size = (uint32_t)sizeof desc,
                                   .format = DHOW_MODULE_PORTABLE,
                                   .name = "scale.k",
                                   .text = text,
                                   .text_bytes = strlen(text),
                                   .header = header,
                                   .options = options,
                                   .kernels = &decl,
                                   .kernel_count = 1,
                                   .index_bits = 64,
                                   .log = log,
                                   .log_bytes = 4096};
    const int32_t status = plugin->module_build(device, &desc, module, &err);
    free(header);
    return status;
}

static const char scale_text[] =
    "#include \"dhow/kernel/k.h\"\n"
    "KERNEL(scale_f32, (IN(f32,x), OUT(f32,y), VAL(i64,n), VAL(f32,factor)))\n"
    "{\n"
    "    GRID_FOR(i, n) y[i] = factor * x[i] + PLUS;\n"
    "}\n";

static void check_scale(void *module, float plus) {
    float x[100], y[100];
    void *kernel = NULL;
    const dhow_geometry geometry = {.work = 100};
    for (size_t i = 0; i < 100; i++) x[i] = value_at(i);
    const dhow_arg args[] = {buffer_arg(x, 0), buffer_arg(y, 0), i64_arg(100), f32_arg(3.0f)};
    OK(plugin->module_kernel(module, "scale_f32", &kernel, &err));
    OK(plugin->launch(stream, kernel, &geometry, args, 4, &err));
    for (size_t i = 0; i < 100; i++) cr_assert(fabsf(y[i] - (3.0f * x[i] + plus)) < 1e-5f);
    cr_assert(plugin->module_kernel(module, "other", &kernel, &err) == DHOW_NOT_FOUND);
}

Test(cpu_plugin, a_users_kernel_is_compiled_once_and_then_cached) {
    char log[4096] = "";
    void *first = NULL, *second = NULL, *other = NULL, *anew = NULL;
    OK(build(scale_text, "-DPLUS=1.0f", log, &first));
    OK(build(scale_text, "-DPLUS=1.0f", log, &second));
    cr_assert(cache.stores == 1 && cache.loads == 1);
    OK(build(scale_text, "-DPLUS=2.0f", log, &other));
    cr_assert(cache.stores == 2);
    check_scale(first, 1.0f);
    check_scale(second, 1.0f);
    check_scale(other, 2.0f);
    cache.foreign = 1;
    OK(build(scale_text, "-DPLUS=2.0f", log, &anew));
    check_scale(anew, 2.0f);
    plugin->module_free(first);
    plugin->module_free(second);
    plugin->module_free(other);
    plugin->module_free(anew);
}

static char g_logged[512];
static void keep_log(void *user, int32_t level, const char *message) {
    (void)user;
    if (level <= DHOW_LOG_WARN) (void)snprintf(g_logged, sizeof g_logged, "%s", message);
}

/* Another compiler served, and nothing was said. */
Test(cpu_plugin, a_CC_that_is_no_program_is_told) {
    char log[4096] = "";
    void *module = NULL;
    host.log = keep_log;
    fake_cc = "no-such-compiler -O2";
    OK(build(scale_text, "-DPLUS=3.0f", log, &module));
    cr_assert_not_null(strstr(g_logged, "'no-such-compiler -O2', which is no program"), "%s",
                       g_logged);
    plugin->module_free(module);
    g_logged[0] = '\0';
    fake_cc = "cc -O2";
    OK(build(scale_text, "-DPLUS=4.0f", log, &module));
    cr_assert_str_empty(g_logged);
    plugin->module_free(module);
    fake_cc = NULL;
    host.log = plugin_host_log;
}

Test(cpu_plugin, compiler_messages_name_the_users_line) {
    char log[4096] = "";
    void *module = &module;
    cr_assert(build(scale_text, "", log, &module) == DHOW_COMPILE_ERROR && module == NULL);
    cr_assert(strstr(log, "scale.k:4") != NULL, "%s", log);
}

Test(cpu_plugin, a_missing_compiler_and_foreign_formats_are_unsupported) {
    char log[64] = "";
    void *module = NULL;
    fake_path = "/nonexistent";
    cr_assert(build(scale_text, "", log, &module) == DHOW_UNSUPPORTED);
    cr_assert(strstr(err.message, "install gcc") != NULL);
    fake_path = NULL;
    const dhow_module_desc desc = {.struct_size = (uint32_t)sizeof desc,
                                   .format = DHOW_MODULE_PTX,
                                   .name = "x",
                                   .text = "",
                                   .options = ""};
    cr_assert(plugin->module_build(device, &desc, &module, &err) == DHOW_UNSUPPORTED);
    cr_assert(strstr(err.message, "PTX") != NULL);
}

/* ---- oneDNN against the portable kernels
 * ------------------------------------------------------------------------- */

static void portable_matmul(const dhow_blas_desc *d, void *a, void *b, void *bias, void *c) {
    const int ta = (d->flags & DHOW_BLAS_TRANSPOSE_A) != 0,
              tb = (d->flags & DHOW_BLAS_TRANSPOSE_B) != 0;
    dhow_arg args[] = {buffer_arg(a, 0),
                       buffer_arg(b, 0),
                       buffer_arg(bias, 0),
                       buffer_arg(c, 0),
                       i64_arg(d->m),
                       i64_arg(d->n),
                       i64_arg(d->k),
                       i64_arg(d->batch),
                       i64_arg(ta ? 1 : d->lda),
                       i64_arg(ta ? d->lda : 1),
                       i64_arg(tb ? 1 : d->ldb),
                       i64_arg(tb ? d->ldb : 1),
                       i64_arg(d->stride_a),
                       i64_arg(d->stride_b),
                       i64_arg(d->flags & DHOW_EPILOGUE_BIAS ? 1 : 0),
                       i64_arg(d->activation)};
    launch("matmul_f32", (uint64_t)(d->m * d->n * d->batch), args, 16);
}

static void check_blas(const dhow_blas *blas, dhow_blas_desc d, const char *what) {
    enum { SPACE = 400000 };
    float *a = allocate(SPACE * 4), *b = allocate(SPACE * 4), *bias = allocate(4096 * 4),
          *residual = allocate(SPACE * 4);
    float *want = allocate(SPACE * 4), *got = allocate(SPACE * 4);
    void *plan = NULL, *workspace, *packed = NULL;
    uint64_t workspace_bytes = 0, packed_bytes = 0;
    for (size_t i = 0; i < SPACE; i++)
        a[i] = value_at(i), b[i] = value_at(i + 99) / 8, residual[i] = value_at(i + 7);
    for (size_t i = 0; i < 4096; i++) bias[i] = value_at(i + 5);
    const int32_t status = blas->plan(device, &d, &plan, &workspace_bytes, &packed_bytes, &err);
    if (status == DHOW_UNSUPPORTED && d.activation == DHOW_ACTIVATION_RELU && d.m > 2) {
        d.activation = DHOW_ACTIVATION_NONE; /* by oneDNN a NaN would become 0 */
        OK(blas->plan(device, &d, &plan, &workspace_bytes, &packed_bytes, &err));
    } else {
        cr_assert_eq(status, DHOW_OK, "%s: %s", what, err.message);
    }
    workspace = allocate(workspace_bytes + 1);
    if (packed_bytes) {
        packed = allocate(packed_bytes);
        OK(blas->pack(plan, stream, buffer_of(b), buffer_of(packed), &err));
    }
    const dhow_buffer none = {0, 0};
    OK(blas->run(plan, stream, buffer_of(a), buffer_of(packed ? packed : b), buffer_of(got),
                 d.flags & DHOW_EPILOGUE_BIAS ? buffer_of(bias) : none,
                 d.flags & DHOW_EPILOGUE_RESIDUAL ? buffer_of(residual) : none,
                 buffer_of(workspace), &err));
    const uint32_t activation = d.activation;
    if (d.flags & DHOW_EPILOGUE_RESIDUAL) d.activation = DHOW_ACTIVATION_NONE;
    portable_matmul(&d, a, b, bias, want);
    const int64_t count = d.m * d.n * d.batch;
    for (int64_t i = 0; i < count; i++) {
        float v = want[i];
        if (d.flags & DHOW_EPILOGUE_RESIDUAL) {
            v += residual[i];
            if (activation == DHOW_ACTIVATION_RELU && v < 0) v = 0;
        }
        cr_assert(fabsf(got[i] - v) <= 2e-5f * (1 + fabsf(v)) * sqrtf((float)d.k),
                  "%s: element %lld is %g, not %g", what, (long long)i, (double)got[i], (double)v);
    }
    blas->destroy(plan);
    release(a), release(b), release(bias), release(residual), release(want), release(got),
        release(workspace);
    if (packed) release(packed);
}

Test(cpu_plugin, oneDNN_multiplies_as_the_portable_kernel_does) {
    const dhow_blas *blas = plugin->get_extension(device, "dhow.blas/1");
    dhow_component component = {.struct_size = (uint32_t)sizeof component};
    OK(plugin->component(backend, 0, &component, &err));
    if (!blas || !component.present) cr_skip_test("%s", component.detail);
    static const int64_t shapes[][3] = {{1, 300, 200}, {2, 33, 77}, {32, 500, 100}, {130, 64, 65}};
    for (size_t s = 0; s < 4; s++) {
        for (uint32_t flags = 0; flags < 32; flags++) {
            for (uint32_t activation = 0; activation <= DHOW_ACTIVATION_SILU; activation++) {
                const int64_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
                if ((flags & DHOW_EPILOGUE_RESIDUAL) && activation > DHOW_ACTIVATION_RELU) continue;
                char what[96];
                (void)snprintf(what, sizeof what, "%lldx%lldx%lld flags %u activation %u",
                               (long long)m, (long long)n, (long long)k, flags, activation);
                check_blas(blas,
                           (dhow_blas_desc){.struct_size = (uint32_t)sizeof(dhow_blas_desc),
                                            .flags = flags,
                                            .dtype_a = DHOW_F32,
                                            .dtype_b = DHOW_F32,
                                            .dtype_c = DHOW_F32,
                                            .compute = DHOW_F32,
                                            .activation = activation,
                                            .m = m,
                                            .n = n,
                                            .k = k,
                                            .batch = 1,
                                            .lda = flags & DHOW_BLAS_TRANSPOSE_A ? m : k,
                                            .ldb = flags & DHOW_BLAS_TRANSPOSE_B ? k : n,
                                            .ldc = n,
                                            .alpha = 1},
                           what);
            }
        }
    }
    check_blas(blas,
               (dhow_blas_desc){.struct_size = (uint32_t)sizeof(dhow_blas_desc),
                                .flags = DHOW_EPILOGUE_BIAS,
                                .dtype_a = DHOW_F32,
                                .dtype_b = DHOW_F32,
                                .dtype_c = DHOW_F32,
                                .compute = DHOW_F32,
                                .activation = DHOW_ACTIVATION_GELU,
                                .m = 17,
                                .n = 31,
                                .k = 40,
                                .batch = 6,
                                .lda = 40,
                                .ldb = 31,
                                .ldc = 31,
                                .stride_a = 17 * 40,
                                .stride_b = 0,
                                .stride_c = 17 * 31,
                                .alpha = 1},
               "a batch that shares b");
}

typedef struct image_case {
    int64_t n, c, h, w, k, size, groups, stride, pad;
    uint32_t flags, activation, layout;
} image_case;

/* Returns 0 when there is no plan: the plugin refuses what oneDNN has only reference loops for. */
static int check_image(const dhow_conv *conv, const image_case *t) {
    enum { SPACE = 200000 };
    const int64_t oh = (t->h + 2 * t->pad - t->size) / t->stride + 1,
                  ow = (t->w + 2 * t->pad - t->size) / t->stride + 1;
    float *x = allocate(SPACE * 4), *w = allocate(SPACE * 4), *bias = allocate(4096),
          *want = allocate(SPACE * 4);
    float *got = allocate(SPACE * 4);
    for (size_t i = 0; i < SPACE; i++) x[i] = value_at(i), w[i] = value_at(i + 3) / 4;
    for (size_t i = 0; i < 1024; i++) bias[i] = value_at(i + 11);
    const dhow_conv_desc d = {.struct_size = (uint32_t)sizeof d,
                              .flags = t->flags,
                              .dtype = DHOW_F32,
                              .weight_dtype = DHOW_F32,
                              .compute = DHOW_F32,
                              .activation = t->activation,
                              .src_layout = t->layout,
                              .dst_layout = t->layout,
                              .n = t->n,
                              .c = t->c,
                              .h = t->h,
                              .w = t->w,
                              .k = t->k,
                              .kh = t->size,
                              .kw = t->size,
                              .groups = t->groups,
                              .stride = {t->stride, t->stride},
                              .dilation = {1, 1},
                              .pad = {t->pad, t->pad, t->pad, t->pad}};
    dhow_conv_plan_info info = {.struct_size = (uint32_t)sizeof info};
    void *plan = NULL, *packed = NULL;
    const int32_t code = conv->plan(device, &d, &plan, &info, &err);
    if (code == DHOW_UNSUPPORTED) {
        release(x), release(w), release(bias), release(want), release(got);
        return 0;
    }
    cr_assert_eq(code, DHOW_OK, "%s", err.message);
    void *src = allocate(info.src_bytes), *dst = allocate(info.dst_bytes),
         *workspace = allocate(info.workspace_bytes + 1);
    const int64_t x_shape[] = {t->n, t->c, t->h, t->w}, y_shape[] = {t->n, t->k, oh, ow};
    OK(conv->reorder(device, stream, DHOW_F32, x_shape, DHOW_LAYOUT_NCHW, buffer_of(x),
                     info.src_layout, buffer_of(src), &err));
    if (info.packed_bytes) {
        packed = allocate(info.packed_bytes);
        OK(conv->pack(plan, stream, buffer_of(w), buffer_of(packed), &err));
    }
    const dhow_buffer none = {0, 0};
    OK(conv->run(plan, stream, buffer_of(src), buffer_of(packed ? packed : w), buffer_of(dst),
                 t->flags & DHOW_EPILOGUE_BIAS ? buffer_of(bias) : none, none, buffer_of(workspace),
                 &err));
    OK(conv->reorder(device, stream, DHOW_F32, y_shape, info.dst_layout, buffer_of(dst),
                     DHOW_LAYOUT_NCHW, buffer_of(got), &err));
    const dhow_arg args[] = {
        buffer_arg(x, 0),      buffer_arg(w, 0),   buffer_arg(bias, 0),
        buffer_arg(want, 0),   i64_arg(t->n),      i64_arg(t->c),
        i64_arg(t->h),         i64_arg(t->w),      i64_arg(t->k),
        i64_arg(t->size),      i64_arg(t->size),   i64_arg(oh),
        i64_arg(ow),           i64_arg(t->groups), i64_arg(t->stride),
        i64_arg(t->stride),    i64_arg(1),         i64_arg(1),
        i64_arg(t->pad),       i64_arg(t->pad),    i64_arg(t->flags & DHOW_EPILOGUE_BIAS ? 1 : 0),
        i64_arg(t->activation)};
    launch("conv2d_f32", (uint64_t)(t->n * t->k * oh * ow), args, 22);
    for (int64_t i = 0; i < t->n * t->k * oh * ow; i++) {
        cr_assert(fabsf(got[i] - want[i]) < 1e-3f * (1 + fabsf(want[i])),
                  "element %lld is %g, not %g", (long long)i, (double)got[i], (double)want[i]);
    }
    conv->destroy(plan);
    release(x), release(w), release(bias), release(want), release(got), release(src), release(dst),
        release(workspace);
    if (packed) release(packed);
    return 1;
}

/* Trained weights have such numbers where channels died: a convolution of PP-OCRv5 took 50 ms for
 * them, not 0.4. */
Test(cpu_plugin, packed_weights_have_no_subnormal_numbers) {
    enum { CHANNELS = 64, PIXELS = 16, ALL = CHANNELS * CHANNELS };
    const dhow_conv *conv = plugin->get_extension(device, "dhow.conv/1");
    if (conv == NULL) cr_skip_test("no oneDNN here");
    const dhow_conv_desc d = {.struct_size = (uint32_t)sizeof d,
                              .flags = DHOW_BLAS_CONSTANT_B,
                              .dtype = DHOW_F32,
                              .weight_dtype = DHOW_F32,
                              .compute = DHOW_F32,
                              .src_layout = DHOW_LAYOUT_ANY,
                              .dst_layout = DHOW_LAYOUT_ANY,
                              .n = 1,
                              .c = CHANNELS,
                              .h = PIXELS,
                              .w = PIXELS,
                              .k = CHANNELS,
                              .kh = 1,
                              .kw = 1,
                              .groups = 1,
                              .stride = {1, 1},
                              .dilation = {1, 1}};
    dhow_conv_plan_info info = {.struct_size = (uint32_t)sizeof info};
    void *plan = NULL;
    OK(conv->plan(device, &d, &plan, &info, &err));
    if (info.packed_bytes == 0) cr_skip_test("this processor's weights lie as they were");
    float *w = allocate(ALL * sizeof *w), *packed = allocate(info.packed_bytes);
    for (int i = 0; i < ALL; i++) w[i] = i % 3 == 0 ? 1e-40f : i % 3 == 1 ? -1e-44f : -0.5f;
    OK(conv->pack(plan, stream, buffer_of(w), buffer_of(packed), &err));
    int normal = 0;
    for (uint64_t i = 0; i < info.packed_bytes / sizeof *packed; i++) {
        cr_assert(packed[i] == 0 || isnormal(packed[i]), "%g", (double)packed[i]);
        normal += packed[i] == -0.5f;
    }
    cr_expect_eq(normal, ALL / 3, "%d", normal);
    conv->destroy(plan);
    release(w), release(packed);
}

Test(cpu_plugin, oneDNN_convolves_as_the_portable_kernel_does) {
    const dhow_conv *conv = plugin->get_extension(device, "dhow.conv/1");
    dhow_component component = {.struct_size = (uint32_t)sizeof component};
    OK(plugin->component(backend, 0, &component, &err));
    if (!conv || !component.present) cr_skip_test("%s", component.detail);
    static const uint32_t layouts[] = {DHOW_LAYOUT_NCHW, DHOW_LAYOUT_NHWC, DHOW_LAYOUT_ANY};
    int planned = 0;
    for (int l = 0; l < 3; l++) {
        const image_case cases[] = {
            {2, 3, 12, 13, 8, 3, 1, 1, 1, DHOW_BLAS_CONSTANT_B | DHOW_EPILOGUE_BIAS,
             DHOW_ACTIVATION_RELU, layouts[l]},
            {1, 16, 9, 9, 32, 3, 1, 2, 0, DHOW_BLAS_CONSTANT_B, DHOW_ACTIVATION_GELU, layouts[l]},
            {1, 10, 9, 9, 10, 5, 5, 1, 2, DHOW_BLAS_CONSTANT_B | DHOW_EPILOGUE_BIAS,
             DHOW_ACTIVATION_NONE, layouts[l]},
            {1, 4, 8, 8, 6, 1, 1, 1, 0, DHOW_EPILOGUE_BIAS, DHOW_ACTIVATION_SILU, layouts[l]},
        };
        for (int i = 0; i < 4; i++) planned += check_image(conv, &cases[i]);
    }
    cr_assert_geq(planned, 9, "only %d of 12 convolutions have a plan", planned);
}

/* ---- transposed convolutions ---- */

static uint32_t draw(uint32_t below) {
    static uint32_t state = 7;
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

/* A description that varies in all that a transposed convolution has. */
static dhow_conv_desc drawn_transposed(void) {
    const int64_t groups = 1 + draw(2) * draw(3);
    dhow_conv_desc d = {.struct_size = (uint32_t)sizeof d,
                        .flags = DHOW_CONV_TRANSPOSED | (draw(2) ? DHOW_BLAS_CONSTANT_B : 0u) |
                                 (draw(2) ? DHOW_EPILOGUE_BIAS : 0u),
                        .dtype = DHOW_F32,
                        .weight_dtype = DHOW_F32,
                        .compute = DHOW_F32,
                        .n = 1 + draw(2),
                        .c = groups * (1 + draw(9)),
                        .h = draw(4) ? 1 + draw(40) : 1,
                        .w = 1 + draw(50),
                        .k = groups * (1 + draw(20)),
                        .kh = 1 + draw(5),
                        .kw = 1 + draw(5),
                        .groups = groups};
    for (int i = 0; i < 2; i++) {
        const int64_t in = i ? d.w : d.h, kernel = i ? d.kw : d.kh;
        d.stride[i] = 1 + draw(4);
        d.dilation[i] = 1 + draw(3);
        const int64_t full = (in - 1) * d.stride[i] + (kernel - 1) * d.dilation[i] + 1;
        d.pad[i] = full > 6 ? draw(4) : 0;
        d.pad[i + 2] = full > 6 ? draw(3) : 0;
        d.out[1 + i] = full - d.pad[i] - d.pad[i + 2] + draw(3);
    }
    d.out[0] = 1;
    return d;
}

/* Each pixel of x reaches pixels of y. */
static void transposed_loops(const dhow_conv_desc *d, const float *x, const float *w,
                             const float *bias, double *y) {
    const int64_t inputs = d->c / d->groups, outputs = d->k / d->groups, taps = d->kh * d->kw;
    const int64_t image = d->h * d->w, result = d->out[1] * d->out[2];
    for (int64_t i = 0; i < d->n * d->k * result; i++)
        y[i] = d->flags & DHOW_EPILOGUE_BIAS ? (double)bias[i / result % d->k] : 0;
    for (int64_t i = 0; i < d->n * d->c * outputs * taps; i++) {
        const int64_t t = i % taps, k = i / taps % outputs, c = i / taps / outputs;
        const int64_t group = c % d->c / inputs, n = c / d->c;
        double *plane = y + (n * d->k + group * outputs + k) * result;
        for (int64_t p = 0; p < image; p++) {
            const int64_t oy = p / d->w * d->stride[0] + t / d->kw * d->dilation[0] - d->pad[0];
            const int64_t ox = p % d->w * d->stride[1] + t % d->kw * d->dilation[1] - d->pad[1];
            if (oy < 0 || oy >= d->out[1] || ox < 0 || ox >= d->out[2]) continue;
            plane[oy * d->out[2] + ox] +=
                (double)x[c * image + p] * (double)w[(c % d->c * outputs + k) * taps + t];
        }
    }
}

static void check_transposed(const dhow_conv *conv, const dhow_conv_desc *d) {
    const int64_t count = d->n * d->k * d->out[1] * d->out[2], pixels = d->n * d->c * d->h * d->w;
    const int64_t weights = d->c * d->k / d->groups * d->kh * d->kw;
    dhow_conv_plan_info info = {.struct_size = (uint32_t)sizeof info};
    void *plan = NULL;
    OK(conv->plan(device, d, &plan, &info, &err));
    const int is_constant = (d->flags & DHOW_BLAS_CONSTANT_B) != 0;
    cr_assert_eq(info.packed_bytes, is_constant ? (uint64_t)weights * 4 : 0);
    cr_assert_eq(info.dst_bytes, (uint64_t)count * 4);
    float *x = allocate((uint64_t)pixels * 4), *w = allocate((uint64_t)weights * 4);
    float *packed = allocate((uint64_t)weights * 4);
    float *bias = allocate((uint64_t)d->k * 4), *y = allocate((uint64_t)count * 4);
    double *want = allocate((uint64_t)count * 8);
    void *workspace = allocate(info.workspace_bytes);
    for (int64_t i = 0; i < pixels; i++) x[i] = value_at((size_t)i);
    for (int64_t i = 0; i < weights; i++) w[i] = value_at((size_t)i + 3) / 4;
    for (int64_t i = 0; i < d->k; i++) bias[i] = value_at((size_t)i + 11);
    for (int64_t i = 0; i < count; i++) y[i] = NAN;
    memset(workspace, 0xff, info.workspace_bytes); /* NaN, too */
    const dhow_buffer none = {0, 0};
    if (is_constant) OK(conv->pack(plan, stream, buffer_of(w), buffer_of(packed), &err));
    OK(conv->run(plan, stream, buffer_of(x), buffer_of(is_constant ? packed : w), buffer_of(y),
                 d->flags & DHOW_EPILOGUE_BIAS ? buffer_of(bias) : none, none, buffer_of(workspace),
                 &err));
    transposed_loops(d, x, w, bias, want);
    for (int64_t i = 0; i < count; i++) {
        cr_assert(fabs((double)y[i] - want[i]) < 1e-4 * (1 + fabs(want[i])),
                  "x[%lld, %lld, %lld, %lld] w[%lld, %lld] stride %lld, %lld groups %lld: element "
                  "%lld is %g, not %g",
                  (long long)d->n, (long long)d->c, (long long)d->h, (long long)d->w,
                  (long long)d->kh, (long long)d->kw, (long long)d->stride[0],
                  (long long)d->stride[1], (long long)d->groups, (long long)i, (double)y[i],
                  want[i]);
    }
    conv->destroy(plan);
    release(x), release(w), release(packed), release(bias), release(y), release(want);
    release(workspace);
}

Test(cpu_plugin, transposed_convolutions_are_those_of_plain_loops) {
    const dhow_conv *conv = plugin->get_extension(device, "dhow.conv/1");
    dhow_component component = {.struct_size = (uint32_t)sizeof component};
    OK(plugin->component(backend, 0, &component, &err));
    if (!conv || !component.present) cr_skip_test("%s", component.detail);
    for (int i = 0; i < 300; i++) {
        const dhow_conv_desc d = drawn_transposed();
        check_transposed(conv, &d);
    }
    const dhow_conv_desc high = {.struct_size = (uint32_t)sizeof high, /* in many parts */
                                 .flags = DHOW_CONV_TRANSPOSED,
                                 .dtype = DHOW_F32,
                                 .weight_dtype = DHOW_F32,
                                 .compute = DHOW_F32,
                                 .n = 1,
                                 .c = 5,
                                 .h = 301,
                                 .w = 150,
                                 .k = 30,
                                 .kh = 3,
                                 .kw = 3,
                                 .groups = 1,
                                 .stride = {2, 2},
                                 .dilation = {1, 1},
                                 .pad = {1, 1, 1, 1},
                                 .out = {1, 602, 300}};
    check_transposed(conv, &high);
}
