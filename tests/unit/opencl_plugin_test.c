/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenCL plugin driven through its slots, as the host would, with a host table of our own. Runs
 * on PoCL's processor devices (two of them); without an OpenCL runtime only the tests of missing
 * drivers do anything.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dhow/plugin.h"
#include "symbols.h"

/* ---- a host --------------------------------------------------------------------------------- */

static struct {
    char key[64];
    unsigned char *blob;
    uint64_t bytes;
    int loads, stores;
} cache;

static void host_log(void *user, int32_t level, const char *message) {
    (void)user;
    if (level <= DHOW_LOG_WARN) fprintf(stderr, "%s\n", message);
}

static void *host_alloc(void *user, uint64_t bytes, uint64_t align) {
    (void)user;
    return aligned_alloc((size_t)align, (size_t)((bytes + align - 1) / align * align));
}

static void host_free(void *user, void *memory) {
    (void)user;
    free(memory);
}

static const char *host_env(void *user, const char *name) {
    (void)user;
    return getenv(name);
}

static int32_t host_cache_load(void *user, const char *key, void **out_blob, uint64_t *out_bytes) {
    (void)user;
    *out_blob = NULL;
    *out_bytes = 0;
    if (cache.blob == NULL || strcmp(cache.key, key) != 0) return DHOW_NOT_FOUND;
    *out_blob = host_alloc(NULL, cache.bytes, 16);
    memcpy(*out_blob, cache.blob, (size_t)cache.bytes);
    *out_bytes = cache.bytes;
    cache.loads++;
    return DHOW_OK;
}

static int32_t host_cache_store(void *user, const char *key, const void *blob, uint64_t bytes) {
    (void)user;
    free(cache.blob);
    snprintf(cache.key, sizeof cache.key, "%s", key);
    cache.blob = host_alloc(NULL, bytes, 16);
    memcpy(cache.blob, blob, (size_t)bytes);
    cache.bytes = bytes;
    cache.stores++;
    return DHOW_OK;
}

static const dhow_host host = {
    .struct_size = sizeof(dhow_host),
    .log = host_log,
    .alloc = host_alloc,
    .free = host_free,
    .env = host_env,
    .cache_load = host_cache_load,
    .cache_store = host_cache_store,
    .cpu_threads = 2,
};

/* ---- the plugin, opened on its last device (with PoCL: the one with threads) ---------------- */

static const dhow_plugin *plugin;
static void *backend, *device, *stream;
static uint32_t device_count;
static dhow_error err = {.struct_size = sizeof(dhow_error)};
static char *kernel_header;

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, err.message)
#define FAILS(status, call) cr_assert_eq((call), (status), "%s: %s", #call, err.message)
#define SAYS(text) \
    cr_assert(strstr(err.message, (text)) != NULL, "'%s' does not say '%s'", err.message, (text))

static dhow_probe probe_plugin(void) {
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

static void setup(void) {
    dhow_probe answer = probe_plugin();
    if (answer.state != DHOW_PLUGIN_READY) cr_skip_test("no OpenCL here: %s", answer.reason);
    kernel_header = read_file(DHOW_TEST_SOURCE_DIR "/include/dhow/kernel/k.h");
    OK(plugin->open(&host, &backend, &err));
    OK(plugin->device_count(backend, &device_count, &err));
    OK(plugin->device_open(backend, device_count - 1, &device, &err));
    OK(plugin->stream_create(device, 0, &stream, &err));
}

static void teardown(void) {
    if (stream == NULL) return;
    OK(plugin->stream_sync(stream, &err));
    plugin->stream_destroy(stream);
    plugin->device_close(device);
    plugin->close(backend);
    free(kernel_header);
    free(cache.blob);
}

TestSuite(opencl_plugin, .init = setup, .fini = teardown);

static uint64_t alloc_bytes(uint64_t bytes) {
    uint64_t handle = 0;
    OK(plugin->mem_alloc(device, bytes, &handle, &err));
    return handle;
}

static dhow_copy_end on_host(const void *memory) {
    return (dhow_copy_end){.space = DHOW_SPACE_HOST, .handle = (uint64_t)(uintptr_t)memory};
}

static dhow_copy_end on_device(uint64_t handle, uint64_t offset) {
    return (dhow_copy_end){.space = DHOW_SPACE_DEVICE, .handle = handle, .offset = offset};
}

static void copy_bytes(dhow_copy_end dst, dhow_copy_end src, uint64_t bytes) {
    dhow_copy_rect rect = {.extent = {bytes, 1, 1}, .src = src, .dst = dst};
    OK(plugin->copy(stream, &rect, &err));
}

static void upload(uint64_t handle, uint64_t offset, const void *data, uint64_t bytes) {
    copy_bytes(on_device(handle, offset), on_host(data), bytes);
    OK(plugin->stream_sync(stream, &err));
}

static void download(void *data, uint64_t handle, uint64_t offset, uint64_t bytes) {
    copy_bytes(on_host(data), on_device(handle, offset), bytes);
    OK(plugin->stream_sync(stream, &err));
}

static dhow_module_desc describe(uint32_t format, const char *text, const dhow_kernel_decl *kernels,
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

static dhow_arg buffer_arg(uint64_t handle, uint64_t offset) {
    dhow_arg arg = {.kind = DHOW_ARG_BUFFER, .bytes = DHOW_ACCESS_READ | DHOW_ACCESS_WRITE};
    arg.u.buffer.handle = handle;
    arg.u.buffer.offset = offset;
    return arg;
}

static dhow_arg value_arg(const void *value, uint32_t bytes) {
    dhow_arg arg = {.kind = DHOW_ARG_VALUE, .bytes = bytes};
    memcpy(&arg.u.value, value, bytes);
    return arg;
}

static dhow_arg i64_arg(int64_t value) { return value_arg(&value, 8); }

static dhow_geometry work_of(uint64_t work) { return (dhow_geometry){.work = work}; }

static void *build_kernel(const dhow_module_desc *desc, const char *name, void **out_module) {
    void *kernel = NULL;
    OK(plugin->module_build(device, desc, out_module, &err));
    OK(plugin->module_kernel(*out_module, name, &kernel, &err));
    return kernel;
}

/* ---- probing -------------------------------------------------------------------------------- */

Test(opencl_probe, no_driver_is_a_state_that_names_the_vendors_folder) {
    setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
    dhow_probe answer = probe_plugin();
    cr_assert_eq(answer.state, DHOW_PLUGIN_NO_DRIVER);
    if (strstr(answer.reason, "libOpenCL.so.1") != NULL) cr_skip_test("no loader either");
    cr_assert(strstr(answer.reason, "/nonexistent") != NULL, "%s", answer.reason);
    cr_assert(strstr(answer.hint, "pocl-opencl-icd") != NULL, "%s", answer.hint);
    cr_assert(strstr(answer.hint, "/etc/OpenCL/vendors") != NULL, "%s", answer.hint);
}

Test(opencl_probe, no_device_is_a_state_with_a_reason) {
    setenv("OCL_ICD_VENDORS", "/etc/OpenCL/vendors", 1);
    dhow_probe answer = probe_plugin();
    cr_assert(answer.state != DHOW_PLUGIN_READY || answer.reason[0] == '\0');
    cr_assert(answer.state == DHOW_PLUGIN_READY || answer.hint[0] != '\0');
}

Test(opencl_probe, a_missing_loader_is_told_in_the_words_of_dlopen) {
    char why[192] = "";
    cr_assert_eq(dhowi_cl_load("libOpenCL.so.99", why, sizeof why), DHOWI_CL_NO_LIBRARY);
    cr_assert(strstr(why, "libOpenCL.so.99: cannot open shared object file") != NULL, "%s", why);
}

Test(opencl_probe, a_loader_without_the_functions_is_named_with_the_first_one) {
    char why[192] = "";
    cr_assert_eq(dhowi_cl_load("libm.so.6", why, sizeof why), DHOWI_CL_NO_SYMBOL);
    cr_assert_str_eq(why, "libm.so.6 has no clGetPlatformIDs");
}

Test(opencl_plugin, devices_are_described_and_graphics_processors_come_first) {
    uint32_t last_class = 0;
    for (uint32_t i = 0; i < device_count; i++) {
        dhow_device_desc desc = {.struct_size = sizeof desc};
        OK(plugin->device_describe(backend, i, &desc, &err));
        uint32_t class = desc.kind == DHOW_DEVICE_GPU ? 0 : desc.kind == DHOW_DEVICE_CPU ? 2 : 1;
        cr_assert_geq(class, last_class);
        last_class = class;
        cr_assert_neq(desc.name[0], '\0');
        cr_assert(strstr(desc.driver, "OpenCL") != NULL, "%s", desc.driver);
        cr_assert_gt(desc.memory_bytes, 0);
        cr_assert_gt(desc.compute_units, 0);
        cr_assert(desc.dtypes & DHOW_DTYPE_BIT(DHOW_BF16));
        cr_assert_eq(desc.kind == DHOW_DEVICE_CPU, (desc.flags & DHOW_DEVICE_PAGEABLE_ASYNC) != 0);
    }
    dhow_device_desc desc = {.struct_size = sizeof desc};
    FAILS(DHOW_OUT_OF_RANGE, plugin->device_describe(backend, device_count, &desc, &err));
}

/* ---- memory and copies ---------------------------------------------------------------------- */

Test(opencl_plugin, more_memory_than_there_is_is_out_of_memory_with_figures) {
    uint64_t handle = 1;
    FAILS(DHOW_OUT_OF_MEMORY, plugin->mem_alloc(device, UINT64_C(1) << 60, &handle, &err));
    cr_assert_eq(handle, 0);
    SAYS("1152921504606846976 bytes");
    void *memory = &handle;
    FAILS(DHOW_OUT_OF_MEMORY, plugin->host_alloc(device, UINT64_C(1) << 60, &memory, &err));
    cr_assert_null(memory);
}

/* The same box done by hand. */
static void copy_box(unsigned char *dst, const unsigned char *src, const dhow_copy_rect *rect) {
    for (uint64_t z = 0; z < rect->extent[2]; z++)
        for (uint64_t y = 0; y < rect->extent[1]; y++)
            memcpy(dst + rect->dst.offset + z * rect->dst.pitch[1] + y * rect->dst.pitch[0],
                   src + rect->src.offset + z * rect->src.pitch[1] + y * rect->src.pitch[0],
                   (size_t)rect->extent[0]);
}

enum { BOX_BYTES = 4096 };

static void check_box(const dhow_copy_rect *shape) {
    unsigned char source[BOX_BYTES], expected[BOX_BYTES], result[BOX_BYTES];
    uint64_t first = alloc_bytes(BOX_BYTES), second = alloc_bytes(BOX_BYTES);
    for (int i = 0; i < BOX_BYTES; i++) source[i] = (unsigned char)(i * 31 + i / 7);
    for (int direction = 0; direction < 3; direction++) {
        dhow_copy_rect rect = *shape;
        memset(expected, 0xee, sizeof expected);
        memset(result, 0xee, sizeof result);
        copy_box(expected, source, shape);
        upload(first, 0, source, BOX_BYTES);
        upload(second, 0, result, BOX_BYTES);
        rect.src.space = direction == 0 ? DHOW_SPACE_HOST : DHOW_SPACE_DEVICE;
        rect.src.handle = direction == 0 ? (uint64_t)(uintptr_t)source : first;
        rect.dst.space = direction == 1 ? DHOW_SPACE_HOST : DHOW_SPACE_DEVICE;
        rect.dst.handle = direction == 1 ? (uint64_t)(uintptr_t)result : second;
        OK(plugin->copy(stream, &rect, &err));
        OK(plugin->stream_sync(stream, &err));
        if (direction != 1) download(result, second, 0, BOX_BYTES);
        cr_assert_arr_eq(result, expected, BOX_BYTES, "box of %d x %d x %d, direction %d",
                         (int)shape->extent[0], (int)shape->extent[1], (int)shape->extent[2],
                         direction);
    }
    plugin->mem_free(device, first);
    plugin->mem_free(device, second);
}

Test(opencl_plugin, boxes_of_every_kind_arrive_byte_for_byte) {
    static const struct {
        uint64_t extent[3], src_offset, src_pitch[2], dst_offset, dst_pitch[2];
    } boxes[] = {
        {{0, 1, 1}, 0, {0, 0}, 0, {0, 0}},        /* nothing */
        {{1, 1, 1}, 3, {0, 0}, 4095, {0, 0}},     /* one byte */
        {{777, 1, 1}, 13, {0, 0}, 5, {0, 0}},     /* odd offsets */
        {{16, 8, 4}, 0, {16, 128}, 0, {16, 128}}, /* contiguous */
        {{16, 8, 4}, 1, {16, 128}, 7, {20, 160}}, /* one end contiguous */
        {{5, 7, 1}, 3, {11, 0}, 2, {9, 0}},       /* rows */
        {{5, 7, 3}, 3, {11, 77}, 2, {9, 90}},     /* planes */
        {{5, 7, 3}, 3, {11, 80}, 2, {9, 64}},     /* planes not a whole number of rows apart */
        {{4, 1, 9}, 0, {0, 100}, 50, {0, 40}},    /* planes of one row */
        {{4, 6, 5}, 0, {200, 8}, 0, {20, 4}},     /* transposed: planes closer than rows */
        {{6, 5, 1}, 9, {3, 0}, 0, {10, 0}},       /* source rows overlap */
        {{6, 5, 4}, 9, {0, 0}, 0, {6, 30}},       /* one row repeated */
    };
    for (size_t i = 0; i < sizeof boxes / sizeof boxes[0]; i++) {
        dhow_copy_rect rect = {
            .extent = {boxes[i].extent[0], boxes[i].extent[1], boxes[i].extent[2]}};
        rect.src.offset = boxes[i].src_offset;
        rect.dst.offset = boxes[i].dst_offset;
        memcpy(rect.src.pitch, boxes[i].src_pitch, sizeof rect.src.pitch);
        memcpy(rect.dst.pitch, boxes[i].dst_pitch, sizeof rect.dst.pitch);
        check_box(&rect);
    }
}

/* Columns 0..3 to columns 4..7 of the same rows: the boxes interleave and share no byte. */
Test(opencl_plugin, interleaved_boxes_of_one_buffer_are_no_overlap) {
    unsigned char bytes[64];
    uint64_t handle = alloc_bytes(64);
    for (int i = 0; i < 64; i++) bytes[i] = (unsigned char)i;
    upload(handle, 0, bytes, 64);
    dhow_copy_rect rect = {
        .extent = {4, 8, 1}, .src = on_device(handle, 0), .dst = on_device(handle, 4)};
    rect.src.pitch[0] = rect.dst.pitch[0] = 8;
    OK(plugin->copy(stream, &rect, &err));
    download(bytes, handle, 0, 64);
    for (int i = 0; i < 64; i++) cr_assert_eq(bytes[i], i / 8 * 8 + i % 4);
    plugin->mem_free(device, handle);
}

Test(opencl_plugin, fill_repeats_patterns_of_1_2_4_and_8_bytes) {
    unsigned char bytes[256];
    uint64_t handle = alloc_bytes(256);
    const uint64_t pattern = UINT64_C(0x8877665544332211);
    for (uint32_t size = 1; size <= 8; size *= 2) {
        OK(plugin->fill(stream, handle, 0, 256, 0, 1, &err));
        OK(plugin->fill(stream, handle, 8, 64, pattern, size, &err));
        download(bytes, handle, 0, 256);
        for (int i = 0; i < 256; i++)
            cr_assert_eq(bytes[i], i < 8 || i >= 72 ? 0 : 0x11 * (1 + (i - 8) % (int)size));
    }
    OK(plugin->fill(stream, handle, 0, 0, 1, 4, &err));
    FAILS(DHOW_UNSUPPORTED, plugin->fill(stream, handle, 2, 8, 1, 4, &err));
    plugin->mem_free(device, handle);
}

Test(opencl_plugin, a_map_shows_the_device_and_pinned_memory_copies) {
    dhow_device_desc desc = {.struct_size = sizeof desc};
    OK(plugin->device_describe(backend, device_count - 1, &desc, &err));
    uint64_t handle = alloc_bytes(1000), free_bytes = 0, total_bytes = 0;
    void *pinned = NULL, *view = NULL;
    OK(plugin->host_alloc(device, 1000, &pinned, &err));
    memset(pinned, 7, 1000);
    dhow_copy_end from = on_host(pinned);
    from.pinned = 1;
    copy_bytes(on_device(handle, 0), from, 1000);
    OK(plugin->stream_sync(stream, &err));
    if (desc.flags & DHOW_DEVICE_HOST_VISIBLE) {
        OK(plugin->map(device, handle, 100, 50, DHOW_ACCESS_READ | DHOW_ACCESS_WRITE, &view, &err));
        cr_assert_eq(((char *)view)[49], 7);
        memset(view, 9, 50);
        OK(plugin->unmap(device, handle, view, &err));
    }
    char bytes[1000];
    download(bytes, handle, 0, 1000);
    cr_assert_eq(bytes[99], 7);
    if (view != NULL) cr_assert(bytes[100] == 9 && bytes[149] == 9);
    cr_assert_eq(bytes[150], 7);
    plugin->host_free(device, pinned);
    plugin->mem_free(device, handle);
    if (plugin->mem_info(device, &free_bytes, &total_bytes, &err) == DHOW_OK) {
        cr_assert_leq(free_bytes, total_bytes);
        cr_assert_eq(total_bytes, desc.memory_bytes);
    }
}

/* ---- kernels -------------------------------------------------------------------------------- */

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

static const dhow_kernel_decl portable_kernels[] = {
    {"scale", "(IN(f32,x), OUT(f32,y), VAL(i64,n), VAL(f32,by))"},
    {"next", "(ALIAS(u8,x), ALIAS_OUT(u8,y), VAL(i64,n))"},
    {"strided_i32", "(IN(i32,x), OUT(i32,y), VAL(dims,d))"},
    {"sums", "(IN(f32,x), OUT(f32,y), VAL(i64,rows), VAL(i64,cols))"},
};

static dhow_module_desc portable_module(void) {
    dhow_module_desc desc = describe(DHOW_MODULE_PORTABLE, portable_text, portable_kernels, 4);
    desc.options = "-DT=i32";
    return desc;
}

Test(opencl_plugin, portable_kernels_take_buffers_at_any_offset) {
    enum { COUNT = 10007 };
    static float x[COUNT], y[COUNT];
    static unsigned char bytes[COUNT];
    void *module = NULL, *next = NULL, *kernel = NULL;
    dhow_module_desc desc = portable_module();
    kernel = build_kernel(&desc, "scale", &module);
    OK(plugin->module_kernel(module, "next", &next, &err));
    uint64_t a = alloc_bytes(2 * sizeof x), b = alloc_bytes(2 * sizeof x);
    for (int i = 0; i < COUNT; i++) x[i] = (float)i, bytes[i] = (unsigned char)i;
    for (int pass = 0; pass < 3; pass++) {
        const float by = 0.5f + (float)pass;
        const uint64_t x_offset = 4 + 12 * (uint64_t)pass, y_offset = 20;
        upload(a, x_offset, x, sizeof x);
        dhow_geometry work = work_of(COUNT);
        dhow_arg args[] = {buffer_arg(a, x_offset), buffer_arg(b, y_offset), i64_arg(COUNT),
                           value_arg(&by, 4)};
        OK(plugin->launch(stream, kernel, &work, args, 4, &err));
        download(y, b, y_offset, sizeof y);
        for (int i = 0; i < COUNT; i++) cr_assert_eq(y[i], x[i] * by);
    }
    upload(a, 3, bytes, COUNT);
    dhow_geometry work = work_of(COUNT);
    dhow_arg args[] = {buffer_arg(a, 3), buffer_arg(a, 3), i64_arg(COUNT)};
    OK(plugin->launch(stream, next, &work, args, 3, &err));
    download(bytes, a, 3, COUNT);
    for (int i = 0; i < COUNT; i++) cr_assert_eq(bytes[i], (unsigned char)(i + 1));
    plugin->mem_free(device, a);
    plugin->mem_free(device, b);
    plugin->module_free(module);
}

/* A group size among the options asks for the form of graphics processors, with its barriers, on
 * processors too. */
static void check_dims_and_sums(const char *options) {
    void *module = NULL, *sums = NULL;
    dhow_module_desc desc = portable_module();
    desc.options = options;
    void *kernel = build_kernel(&desc, "strided_i32", &module);
    OK(plugin->module_kernel(module, "sums", &sums, &err));
    int32_t x[64], y[64];
    for (int i = 0; i < 64; i++) x[i] = i;
    uint64_t a = alloc_bytes(sizeof x), b = alloc_bytes(sizeof y);
    upload(a, 0, x, sizeof x);
    for (int64_t stride = 1; stride <= 3; stride++) {
        dhow_dims dims = {.rank = 1, .shape = {10}, .offset = {stride, 2}};
        dims.stride[0][0] = stride;
        dims.stride[1][0] = 5;
        dhow_arg third = {.kind = DHOW_ARG_DIMS};
        third.u.dims = &dims;
        dhow_arg args[] = {buffer_arg(a, 0), buffer_arg(b, 0), third};
        dhow_geometry work = work_of(10);
        OK(plugin->launch(stream, kernel, &work, args, 3, &err));
        download(y, b, 0, sizeof y);
        for (int i = 0; i < 10; i++) cr_assert_eq(y[2 + 5 * i], stride + stride * i);
    }
    float ones[60], total[6];
    for (int i = 0; i < 60; i++) ones[i] = 1;
    upload(a, 0, ones, sizeof ones);
    dhow_arg args[] = {buffer_arg(a, 0), buffer_arg(b, 0), i64_arg(6), i64_arg(10)};
    dhow_geometry work = work_of(60);
    OK(plugin->launch(stream, sums, &work, args, 4, &err));
    download(total, b, 0, sizeof total);
    for (int i = 0; i < 6; i++) cr_assert_eq(total[i], 10.0f);
    plugin->mem_free(device, a);
    plugin->mem_free(device, b);
    plugin->module_free(module);
}

Test(opencl_plugin, dims_go_by_value_and_groups_reduce) { check_dims_and_sums("-DT=i32"); }

Test(opencl_plugin, the_form_of_graphics_processors_gives_the_same) {
    check_dims_and_sums("-DT=i32 -DK_WG=64");
}

Test(opencl_plugin, launches_that_do_not_fit_the_kernel_are_refused) {
    void *module = NULL, *kernel = NULL;
    dhow_module_desc desc = portable_module();
    FAILS(DHOW_OK, plugin->module_build(device, &desc, &module, &err));
    FAILS(DHOW_NOT_FOUND, plugin->module_kernel(module, "absent", &kernel, &err));
    SAYS("'user.k' has no kernel 'absent'");
    cr_assert_null(kernel);
    OK(plugin->module_kernel(module, "scale", &kernel, &err));
    uint64_t a = alloc_bytes(64);
    dhow_geometry work = work_of(1), grid = {.native = 1, .grid = {1, 1, 1}, .block = {1, 1, 1}};
    dhow_arg args[] = {buffer_arg(a, 0), buffer_arg(a, 0), i64_arg(1), i64_arg(1)};
    FAILS(DHOW_INVALID_ARGUMENT, plugin->launch(stream, kernel, &work, args, 3, &err));
    SAYS("has 4 OpenCL parameters");
    FAILS(DHOW_INVALID_ARGUMENT, plugin->launch(stream, kernel, &grid, args, 4, &err));
    SAYS("is portable and was launched with a grid");
    plugin->mem_free(device, a);
    plugin->module_free(module);
}

Test(opencl_plugin, native_kernels_get_grid_block_and_local_memory) {
    static const char text[] =
        "__kernel void turn(__global const int *x, __global int *y, int n, __local int *t) {\n"
        "    size_t l = get_local_id(0), w = get_local_size(0), i = get_global_id(0);\n"
        "    t[l] = x[i];\n"
        "    barrier(CLK_LOCAL_MEM_FENCE);\n"
        "    y[i + get_group_id(1) * n] = t[w - 1 - l];\n"
        "}\n";
    enum { WIDTH = 8, COUNT = 64 };
    int32_t x[COUNT], y[2 * COUNT];
    const int32_t n = COUNT;
    void *module = NULL;
    dhow_module_desc desc = describe(DHOW_MODULE_OPENCL_C, text, NULL, 0);
    void *kernel = build_kernel(&desc, "turn", &module);
    for (int i = 0; i < COUNT; i++) x[i] = i;
    uint64_t a = alloc_bytes(sizeof x + 4096), b = alloc_bytes(sizeof y);
    dhow_geometry grid = {.native = 1,
                          .grid = {COUNT / WIDTH, 2, 1},
                          .block = {WIDTH, 1, 1},
                          .shared_bytes = WIDTH * 4};
    for (uint64_t offset = 0; offset <= 4096;
         offset += 2048) { /* sub-buffers where they may begin */
        memset(y, 0, sizeof y);
        upload(a, offset, x, sizeof x);
        dhow_arg args[] = {buffer_arg(a, offset), buffer_arg(b, 0), value_arg(&n, 4)};
        OK(plugin->launch(stream, kernel, &grid, args, 3, &err));
        download(y, b, 0, sizeof y);
        for (int i = 0; i < 2 * COUNT; i++)
            cr_assert_eq(y[i], i % COUNT / WIDTH * WIDTH + WIDTH - 1 - i % WIDTH);
    }
    dhow_arg args[] = {buffer_arg(a, 4), buffer_arg(b, 0), value_arg(&n, 4)};
    FAILS(DHOW_UNSUPPORTED, plugin->launch(stream, kernel, &grid, args, 3, &err));
    SAYS("argument 1 begins at byte 4");
    plugin->mem_free(device, a);
    plugin->mem_free(device, b);
    plugin->module_free(module);
}

Test(opencl_plugin, a_compile_error_points_into_the_users_text) {
    char log[4096] = "";
    void *module = &module;
    static const char text[] =
        "KERNEL(bad, (IN(f32,x), OUT(f32,y), VAL(i64,n)))\n{\n    GRID_FOR(i, n) y[i] = oops;\n}\n";
    static const dhow_kernel_decl kernel = {"bad", "(IN(f32,x), OUT(f32,y), VAL(i64,n))"};
    dhow_module_desc desc = describe(DHOW_MODULE_PORTABLE, text, &kernel, 1);
    desc.log = log;
    desc.log_bytes = sizeof log;
    FAILS(DHOW_COMPILE_ERROR, plugin->module_build(device, &desc, &module, &err));
    cr_assert_null(module);
    cr_assert(strstr(log, "oops") != NULL, "%s", log);
    cr_assert(strstr(log, "user.k:3") != NULL, "%s", log);
    SAYS("user.k:3");
    SAYS("CL_BUILD_PROGRAM_FAILURE");
    desc.format = DHOW_MODULE_PTX;
    FAILS(DHOW_UNSUPPORTED, plugin->module_build(device, &desc, &module, &err));
    static const dhow_kernel_decl wrong = {"bad", "(IN(f32 x), OUT(f32,y))"};
    desc = describe(DHOW_MODULE_PORTABLE, text, &wrong, 1);
    FAILS(DHOW_INVALID_ARGUMENT, plugin->module_build(device, &desc, &module, &err));
    SAYS("is no argument list");
}

Test(opencl_plugin, a_program_comes_from_the_cache_and_a_damaged_one_is_built_again) {
    dhow_module_desc desc = portable_module();
    for (int pass = 0; pass < 4; pass++) {
        void *module = NULL;
        if (pass == 2) cache.blob[cache.bytes / 2] ^= 0x55;
        if (pass == 3) cache.bytes = 20;
        void *kernel = build_kernel(&desc, "next", &module);
        unsigned char byte = 41;
        uint64_t a = alloc_bytes(1);
        upload(a, 0, &byte, 1);
        dhow_arg args[] = {buffer_arg(a, 0), buffer_arg(a, 0), i64_arg(1)};
        dhow_geometry work = work_of(1);
        OK(plugin->launch(stream, kernel, &work, args, 3, &err));
        download(&byte, a, 0, 1);
        cr_assert_eq(byte, 42);
        cr_assert_eq(cache.loads, pass);
        cr_assert_eq(cache.stores, pass < 2 ? 1 : pass);
        plugin->mem_free(device, a);
        plugin->module_free(module);
    }
    desc.options = "-DT=i32 -DOTHER";
    void *module = NULL;
    OK(plugin->module_build(device, &desc, &module, &err));
    cr_assert_eq(cache.loads, 3, "other options, other program");
    plugin->module_free(module);
}

/* ---- events --------------------------------------------------------------------------------- */

static int32_t wait_for_not(int32_t status, int32_t (*question)(void *, dhow_error *),
                            void *object) {
    int32_t answer = status;
    for (int i = 0; i < 5000 && answer == status; i++) {
        answer = question(object, &err);
        if (answer == status) usleep(1000);
    }
    return answer;
}

Test(opencl_plugin, a_stream_waits_for_the_host_and_another_stream_for_it) {
    void *second = NULL, *gate = NULL, *done = NULL;
    uint64_t a = alloc_bytes(1024), b = alloc_bytes(1024);
    unsigned char bytes[1024];
    OK(plugin->stream_create(device, 0, &second, &err));
    OK(plugin->event_create(device, DHOW_EVENT_HOST, &gate, &err));
    OK(plugin->event_create(device, 0, &done, &err));
    OK(plugin->event_query(done, &err)); /* never recorded */
    OK(plugin->stream_wait(second, done, &err));
    OK(plugin->fill(stream, a, 0, 1024, 0, 1, &err));
    OK(plugin->stream_wait(stream, gate, &err));
    OK(plugin->fill(stream, a, 0, 1024, 5, 1, &err));
    OK(plugin->event_record(done, stream, &err));
    OK(plugin->stream_wait(second, done, &err));
    dhow_copy_rect rect = {.extent = {1024, 1, 1}, .src = on_device(a, 0), .dst = on_device(b, 0)};
    OK(plugin->copy(second, &rect, &err));
    usleep(20000);
    FAILS(DHOW_NOT_READY, plugin->event_query(gate, &err));
    FAILS(DHOW_NOT_READY, plugin->event_query(done, &err));
    FAILS(DHOW_NOT_READY, plugin->stream_query(second, &err));
    OK(plugin->event_signal(gate, &err));
    OK(plugin->event_query(gate, &err));
    OK(plugin->event_sync(gate, &err));
    OK(plugin->event_sync(done, &err));
    OK(wait_for_not(DHOW_NOT_READY, plugin->stream_query, second));
    OK(plugin->stream_sync(second, &err));
    OK(plugin->stream_wait(stream, gate, &err)); /* reached: no wait */
    download(bytes, b, 0, 1024);
    for (int i = 0; i < 1024; i++) cr_assert_eq(bytes[i], 5);
    FAILS(DHOW_INVALID_ARGUMENT, plugin->event_signal(done, &err));
    plugin->event_destroy(gate);
    plugin->event_destroy(done);
    plugin->stream_destroy(second);
    plugin->mem_free(device, a);
    plugin->mem_free(device, b);
}

static void *signal_later(void *event) {
    dhow_error own = {.struct_size = sizeof own};
    usleep(30000);
    plugin->event_signal(event, &own);
    return NULL;
}

/* PoCL's synchronous device has no host events; there the wait for another device's blocks. */
Test(opencl_plugin, devices_wait_for_each_other_and_for_one_host_event) {
    if (device_count < 2) cr_skip_test("one device only");
    void *other = NULL, *other_stream = NULL, *gate = NULL, *done = NULL, *own_gate = NULL;
    uint64_t a = alloc_bytes(64), b = 0;
    unsigned char byte = 0;
    pthread_t thread;
    OK(plugin->device_open(backend, 0, &other, &err));
    OK(plugin->stream_create(other, 0, &other_stream, &err));
    OK(plugin->mem_alloc(other, 64, &b, &err));
    OK(plugin->event_create(device, DHOW_EVENT_HOST, &gate, &err));
    OK(plugin->event_create(device, 0, &done, &err));
    if (plugin->event_create(other, DHOW_EVENT_HOST, &own_gate, &err) == DHOW_OK)
        plugin->event_destroy(own_gate);
    else
        SAYS("its streams cannot wait for the host");
    OK(plugin->stream_wait(stream, gate, &err));
    OK(plugin->fill(stream, a, 0, 64, 3, 1, &err));
    OK(plugin->event_record(done, stream, &err));
    cr_assert_eq(pthread_create(&thread, NULL, signal_later, gate), 0);
    OK(plugin->stream_wait(other_stream, gate, &err));
    OK(plugin->fill(other_stream, b, 0, 64, 4, 1, &err));
    OK(plugin->stream_wait(other_stream, done,
                           &err)); /* another context's marker: the host waits */
    OK(plugin->event_query(done, &err));
    dhow_copy_rect rect = {.extent = {1, 1, 1}, .src = on_device(b, 9), .dst = on_host(&byte)};
    OK(plugin->copy(other_stream, &rect, &err));
    OK(plugin->stream_sync(other_stream, &err));
    cr_assert_eq(byte, 4);
    pthread_join(thread, NULL);
    plugin->event_destroy(gate);
    plugin->event_destroy(done);
    plugin->mem_free(other, b);
    plugin->mem_free(device, a);
    plugin->stream_destroy(other_stream);
    plugin->device_close(other);
}

Test(opencl_plugin, time_passes_between_timing_events) {
    void *start = NULL, *end = NULL, *plain = NULL;
    int64_t nanoseconds = -1;
    uint64_t a = alloc_bytes(1 << 24);
    OK(plugin->event_create(device, DHOW_EVENT_TIMING, &start, &err));
    OK(plugin->event_create(device, DHOW_EVENT_TIMING, &end, &err));
    OK(plugin->event_create(device, 0, &plain, &err));
    OK(plugin->fill(stream, a, 0, 1 << 24, 1, 1, &err));
    OK(plugin->event_record(start, stream, &err));
    OK(plugin->fill(stream, a, 0, 1 << 24, 2, 1, &err));
    OK(plugin->event_record(end, stream, &err));
    OK(plugin->event_sync(end, &err));
    OK(plugin->event_elapsed(start, end, &nanoseconds, &err));
    cr_assert(nanoseconds > 10000 && nanoseconds < INT64_C(10000000000), "%" PRId64, nanoseconds);
    unsigned char byte = 0;
    download(&byte, a, 77, 1);
    cr_assert_eq(byte, 2);
    FAILS(DHOW_INVALID_ARGUMENT, plugin->event_elapsed(start, plain, &nanoseconds, &err));
    plugin->event_destroy(start);
    plugin->event_destroy(end);
    plugin->event_destroy(plain);
    plugin->mem_free(device, a);
}

Test(opencl_plugin, a_host_event_destroyed_unsignalled_hangs_nobody) {
    void *gate = NULL, *second = NULL;
    uint64_t a = alloc_bytes(64);
    OK(plugin->stream_create(device, 0, &second, &err));
    OK(plugin->event_create(device, DHOW_EVENT_HOST, &gate, &err));
    OK(plugin->stream_wait(second, gate, &err));
    OK(plugin->fill(second, a, 0, 64, 1, 1, &err));
    plugin->event_destroy(gate);
    plugin->stream_sync(second, &err); /* whatever it says, it comes back */
    plugin->stream_destroy(second);
    plugin->mem_free(device, a);
}

/* ---- threads -------------------------------------------------------------------------------- */

static void *shared_kernel;

/* One kernel, one stream per thread: arguments must not mix. */
static void *launch_many(void *failed) {
    dhow_error own = {.struct_size = sizeof own};
    void *own_stream = NULL;
    uint64_t handle = 0;
    unsigned char byte = 0;
    int32_t status = plugin->stream_create(device, 0, &own_stream, &own);
    status += plugin->mem_alloc(device, 64, &handle, &own);
    status += plugin->fill(own_stream, handle, 0, 64, 0, 1, &own);
    dhow_arg args[] = {buffer_arg(handle, 5), buffer_arg(handle, 5), i64_arg(1)};
    dhow_geometry work = work_of(1);
    for (int i = 0; i < 200; i++)
        status += plugin->launch(own_stream, shared_kernel, &work, args, 3, &own);
    dhow_copy_rect rect = {.extent = {1, 1, 1}, .src = on_device(handle, 5), .dst = on_host(&byte)};
    status += plugin->copy(own_stream, &rect, &own);
    status += plugin->stream_sync(own_stream, &own);
    plugin->mem_free(device, handle);
    plugin->stream_destroy(own_stream);
    if (status != 0 || byte != 200) *(int *)failed = 1;
    return NULL;
}

Test(opencl_plugin, threads_launch_one_kernel_on_streams_of_their_own) {
    void *module = NULL;
    dhow_module_desc desc = portable_module();
    shared_kernel = build_kernel(&desc, "next", &module);
    pthread_t threads[4];
    int failed[4] = {0, 0, 0, 0};
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, launch_many, &failed[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) cr_assert_eq(failed[i], 0);
    plugin->module_free(module);
}

/* ---- CLBlast -------------------------------------------------------------------------------- */

static dhow_blas_desc square_desc(void) {
    return (dhow_blas_desc){
        .struct_size = sizeof(dhow_blas_desc),
        .flags = DHOW_BLAS_TRANSPOSE_B,
        .dtype_a = DHOW_F32,
        .dtype_b = DHOW_F32,
        .dtype_c = DHOW_F32,
        .compute = DHOW_F32,
        .m = 5,
        .n = 7,
        .k = 9,
        .batch = 2,
        .lda = 9,
        .ldb = 9,
        .ldc = 7,
        .stride_a = 45,
        .stride_b = 0,
        .stride_c = 35,
        .alpha = 2.0f,
        .beta = 0.0f,
    };
}

Test(opencl_plugin, processors_leave_matmul_to_the_portable_kernel) {
    const dhow_blas *blas = plugin->get_extension(device, "dhow.blas/1");
    cr_assert_not_null(blas);
    cr_assert_null(plugin->get_extension(device, "dhow.blas/2"));
    dhow_blas_desc desc = square_desc();
    dhow_device_desc about = {.struct_size = sizeof about};
    void *plan = NULL;
    uint64_t workspace = 1, packed = 1;
    OK(plugin->device_describe(backend, device_count - 1, &about, &err));
    if (about.kind != DHOW_DEVICE_CPU) cr_skip_test("no processor device");
    FAILS(DHOW_UNSUPPORTED, blas->plan(device, &desc, &plan, &workspace, &packed, &err));
    SAYS("the portable kernel is faster");
    dhow_component component = {.struct_size = sizeof component};
    OK(plugin->component(NULL, 0, &component, &err));
    cr_assert_str_eq(component.name, "CLBlast");
    cr_assert(strstr(component.detail, "libclblast") != NULL, "%s", component.detail);
    FAILS(DHOW_OUT_OF_RANGE, plugin->component(NULL, 1, &component, &err));
}

static void force_blas(void) {
    setenv("DHOW_OPENCL_BLAS", "on", 1);
    setup();
}

Test(opencl_blas, clblast_forced_on_agrees_with_three_loops, .init = force_blas, .fini = teardown,
     .timeout = 120) {
    const dhow_blas *blas = plugin->get_extension(device, "dhow.blas/1");
    dhow_blas_desc desc = square_desc();
    dhow_component component = {.struct_size = sizeof component};
    void *plan = NULL;
    uint64_t workspace = 1, packed = 1;
    OK(plugin->component(NULL, 0, &component, &err));
    if (!component.present) cr_skip_test("%s", component.detail);
    desc.flags |= DHOW_BLAS_BIAS;
    FAILS(DHOW_UNSUPPORTED, blas->plan(device, &desc, &plan, &workspace, &packed, &err));
    desc.flags = DHOW_BLAS_TRANSPOSE_B;
    OK(blas->plan(device, &desc, &plan, &workspace, &packed, &err));
    cr_assert(workspace == 0 && packed == 0);
    float a[90], b[63], c[70];
    for (int i = 0; i < 90; i++) a[i] = (float)(i % 13) - 6;
    for (int i = 0; i < 63; i++) b[i] = (float)(i % 11) - 5;
    uint64_t da = alloc_bytes(1024), db = alloc_bytes(1024), dc = alloc_bytes(1024);
    upload(da, 4, a, sizeof a);
    upload(db, 8, b, sizeof b);
    dhow_buffer none = {0, 0};
    OK(blas->run(plan, stream, (dhow_buffer){da, 4}, (dhow_buffer){db, 8}, (dhow_buffer){dc, 12},
                 none, none, none, &err));
    download(c, dc, 12, sizeof c);
    for (int batch = 0; batch < 2; batch++)
        for (int i = 0; i < 5; i++)
            for (int j = 0; j < 7; j++) {
                float sum = 0;
                for (int k = 0; k < 9; k++) sum += a[batch * 45 + i * 9 + k] * b[j * 9 + k];
                cr_assert_float_eq(c[batch * 35 + i * 7 + j], 2 * sum, 1e-3);
            }
    blas->destroy(plan);
    plugin->mem_free(device, da);
    plugin->mem_free(device, db);
    plugin->mem_free(device, dc);
}

Test(opencl_blas, a_word_that_is_no_switch_is_an_error_that_names_it) {
    setenv("DHOW_OPENCL_BLAS", "perhaps", 1);
    if (probe_plugin().state != DHOW_PLUGIN_READY) cr_skip_test("no OpenCL here");
    FAILS(DHOW_INVALID_ARGUMENT, plugin->open(&host, &backend, &err));
    SAYS("'perhaps'");
}
