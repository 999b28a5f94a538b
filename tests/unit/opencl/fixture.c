/* SPDX-License-Identifier: Apache-2.0
 *
 * See fixture.h.
 */
#include "fixture.h"

#include <dlfcn.h>
#include <stdio.h>

#include "tests/plugin_host.h"

/* ---- a host ---- */

opencl_cache cache;

static int32_t host_cache_load(void *user, const char *key, void **out_blob, uint64_t *out_bytes) {
    (void)user;
    *out_blob = NULL;
    *out_bytes = 0;
    if (cache.blob == NULL || strcmp(cache.key, key) != 0) return DHOW_NOT_FOUND;
    *out_blob = plugin_host_alloc(NULL, cache.bytes, 16);
    memcpy(*out_blob, cache.blob, (size_t)cache.bytes);
    *out_bytes = cache.bytes;
    cache.loads++;
    return DHOW_OK;
}

static int32_t host_cache_store(void *user, const char *key, const void *blob, uint64_t bytes) {
    (void)user;
    free(cache.blob);
    snprintf(cache.key, sizeof cache.key, "%s", key);
    cache.blob = plugin_host_alloc(NULL, bytes, 16);
    memcpy(cache.blob, blob, (size_t)bytes);
    cache.bytes = bytes;
    cache.stores++;
    return DHOW_OK;
}

const dhow_host host = {
    .struct_size = sizeof(dhow_host),
    .log = plugin_host_log,
    .alloc = plugin_host_alloc,
    .free = plugin_host_free,
    .env = plugin_host_env,
    .cache_load = host_cache_load,
    .cache_store = host_cache_store,
    .cpu_threads = 2,
};

/* ---- the plugin ---- */

const dhow_plugin *plugin;
void *backend, *device, *stream;
uint32_t device_count;
dhow_error err = {.struct_size = sizeof(dhow_error)};
static char *kernel_header;

dhow_probe probe_plugin(void) {
    dhow_probe answer = {.struct_size = sizeof answer};
    setenv("POCL_DEVICES", "pthread basic", 1);
    void *library = dlopen(DHOW_TEST_OPENCL_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(library, "%s", dlerror());
    plugin = dlsym(library, DHOW_PLUGIN_SYMBOL);
    cr_assert_not_null(plugin);
    OK(plugin->probe(&host, &answer, &err));
    return answer;
}

static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    char *text = calloc(1, 1 << 20);
    cr_assert_lt(fread(text, 1, (1 << 20) - 1, file), (1 << 20) - 1);
    fclose(file);
    return text;
}

void open_plugin(void) {
    dhow_probe answer = probe_plugin();
    if (answer.state != DHOW_PLUGIN_READY) cr_skip_test("no OpenCL here: %s", answer.reason);
    kernel_header = read_file(DHOW_TEST_SOURCE_DIR "/include/dhow/kernel/k.h");
    OK(plugin->open(&host, &backend, &err));
    OK(plugin->device_count(backend, &device_count, &err));
    OK(plugin->device_open(backend, device_count - 1, &device, &err));
    OK(plugin->stream_create(device, 0, &stream, &err));
}

void close_plugin(void) {
    if (stream == NULL) return;
    OK(plugin->stream_sync(stream, &err));
    plugin->stream_destroy(stream);
    plugin->device_close(device);
    plugin->close(backend);
    free(kernel_header);
    free(cache.blob);
}

TestSuite(opencl_plugin, .init = open_plugin, .fini = close_plugin);

uint64_t alloc_bytes(uint64_t bytes) {
    uint64_t handle = 0;
    OK(plugin->mem_alloc(device, bytes, &handle, &err));
    return handle;
}

dhow_copy_end on_host(const void *memory) {
    return (dhow_copy_end){.space = DHOW_SPACE_HOST, .handle = (uint64_t)(uintptr_t)memory};
}

dhow_copy_end on_device(uint64_t handle, uint64_t offset) {
    return (dhow_copy_end){.space = DHOW_SPACE_DEVICE, .handle = handle, .offset = offset};
}

void copy_bytes(dhow_copy_end dst, dhow_copy_end src, uint64_t bytes) {
    dhow_copy_rect rect = {.extent = {bytes, 1, 1}, .src = src, .dst = dst};
    OK(plugin->copy(stream, &rect, &err));
}

void upload(uint64_t handle, uint64_t offset, const void *data, uint64_t bytes) {
    copy_bytes(on_device(handle, offset), on_host(data), bytes);
    OK(plugin->stream_sync(stream, &err));
}

void download(void *data, uint64_t handle, uint64_t offset, uint64_t bytes) {
    copy_bytes(on_host(data), on_device(handle, offset), bytes);
    OK(plugin->stream_sync(stream, &err));
}

dhow_module_desc describe(uint32_t format, const char *text, const dhow_kernel_decl *kernels,
                          uint32_t count) {
    return (dhow_module_desc){
        .struct_size = sizeof(dhow_module_desc),
        .format = format,
        .name = "user.k",
        .text = text,
        .text_bytes = strlen(text),
        .header = kernel_header,
        .options = "",
        .kernels = kernels,
        .kernel_count = count,
        .index_bits = 64,
    };
}

dhow_arg buffer_arg(uint64_t handle, uint64_t offset) {
    dhow_arg arg = {.kind = DHOW_ARG_BUFFER, .bytes = DHOW_ACCESS_READ | DHOW_ACCESS_WRITE};
    arg.u.buffer.handle = handle;
    arg.u.buffer.offset = offset;
    return arg;
}

dhow_arg value_arg(const void *value, uint32_t bytes) {
    dhow_arg arg = {.kind = DHOW_ARG_VALUE, .bytes = bytes};
    memcpy(&arg.u.value, value, bytes);
    return arg;
}

dhow_arg i64_arg(int64_t value) { return value_arg(&value, 8); }

dhow_geometry work_of(uint64_t work) { return (dhow_geometry){.work = work}; }

void *build_kernel(const dhow_module_desc *desc, const char *name, void **out_module) {
    void *kernel = NULL;
    OK(plugin->module_build(device, desc, out_module, &err));
    OK(plugin->module_kernel(*out_module, name, &kernel, &err));
    return kernel;
}

static const char portable_text[] =
    "#include \"dhow/kernel/k.h\"\n"
    "/* KERNEL(commented, (IN(f32,x))) { */\n"
    "KERNEL(scale, (IN(f32,x), OUT(f32,y), VAL(i64,n), VAL(f32,by)))\n"
    "{\n"
    "    GRID_FOR(i, n) y[i] = x[i] * by;\n"
    "}\n"
    "KERNEL(next, (ALIAS(u8,x), ALIAS_OUT(u8,y), VAL(i64,n))) { GRID_FOR(i, n) y[i] = (u8)(x[i] + "
    "1); }\n"
    "KERNEL(K_T(strided), (IN(T,x), OUT(T,y), VAL(dims,d)))\n"
    "{\n"
    "    GRID_FOR(i, d.shape[0]) y[d.offset[1] + i*d.stride[1][0]] = x[d.offset[0] + "
    "i*d.stride[0][0]];\n"
    "}\n"
    "KERNEL(sums, (IN(f32,x), OUT(f32,y), VAL(i64,rows), VAL(i64,cols)))\n"
    "{\n"
    "    REDUCE_SPACE(f32);\n"
    "    GROUP_FOR(r, rows) {\n"
    "        GLOBAL const f32 *xr = x + r*cols;\n"
    "        REDUCE(SUM, f32, s, j, cols, xr[j]);\n"
    "        ONCE y[r] = s;\n"
    "    }\n"
    "}\n";

#define PARAMS(...)                           \
    (const dhow_kernel_param[]){__VA_ARGS__}, \
        sizeof((const dhow_kernel_param[]){__VA_ARGS__}) / sizeof(dhow_kernel_param), 0

static const dhow_kernel_decl portable_kernels[] = {
    {"scale", "(IN(f32,x), OUT(f32,y), VAL(i64,n), VAL(f32,by))",
     PARAMS({DHOW_PARAM_IN, DHOW_F32, "x"}, {DHOW_PARAM_OUT, DHOW_F32, "y"},
            {DHOW_PARAM_VALUE, DHOW_I64, "n"}, {DHOW_PARAM_VALUE, DHOW_F32, "by"})},
    {"next", "(ALIAS(u8,x), ALIAS_OUT(u8,y), VAL(i64,n))",
     PARAMS({DHOW_PARAM_ALIAS, DHOW_U8, "x"}, {DHOW_PARAM_ALIAS_OUT, DHOW_U8, "y"},
            {DHOW_PARAM_VALUE, DHOW_I64, "n"})},
    {"strided_i32", "(IN(i32,x), OUT(i32,y), VAL(dims,d))",
     PARAMS({DHOW_PARAM_IN, DHOW_I32, "x"}, {DHOW_PARAM_OUT, DHOW_I32, "y"},
            {DHOW_PARAM_VALUE, DHOW_PARAM_DIMS, "d"})},
    {"sums", "(IN(f32,x), OUT(f32,y), VAL(i64,rows), VAL(i64,cols))",
     PARAMS({DHOW_PARAM_IN, DHOW_F32, "x"}, {DHOW_PARAM_OUT, DHOW_F32, "y"},
            {DHOW_PARAM_VALUE, DHOW_I64, "rows"}, {DHOW_PARAM_VALUE, DHOW_I64, "cols"})},
};

dhow_module_desc portable_module(void) {
    dhow_module_desc desc = describe(DHOW_MODULE_PORTABLE, portable_text, portable_kernels, 4);
    desc.options = "-DT=i32";
    return desc;
}
