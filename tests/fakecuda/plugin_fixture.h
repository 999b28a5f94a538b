/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA plugin without core: its slots, two devices and a stream on the fake runtime. Included
 * by tests, each of which is a program of its own.
 */
#ifndef TESTS_FAKECUDA_PLUGIN_FIXTURE_H_
#define TESTS_FAKECUDA_PLUGIN_FIXTURE_H_

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "dhow/plugin.h"
#include "fake.h"
#include "fakecuda.h"
#include "tests/plugin_host.h"

static const dhow_plugin *cuda;
static void *backend, *device[2], *stream;
static dhow_error err = {.struct_size = sizeof(dhow_error)};

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, err.message)
#define FAILS(status, call) cr_assert_eq((call), (status), "%s: %s", #call, err.message)
#define SAYS(text) \
    cr_assert_not_null(strstr(err.message, (text)), "'%s' does not say '%s'", err.message, (text))

static inline void load(const char *settings, const char *faults) {
    char why[256] = "";
    cr_assert(fakecuda_reset(settings, faults, why, sizeof why), "%s", why);
    void *library = dlopen(FAKECUDA_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(library, "%s", dlerror());
    cuda = dlsym(library, DHOW_PLUGIN_SYMBOL);
    cr_assert_not_null(cuda);
}

static inline void begin(const char *settings, const char *faults) {
    uint32_t count = 0;
    load(settings, faults);
    OK(cuda->open(&plugin_host, &backend, &err));
    OK(cuda->device_count(backend, &count, &err));
    for (uint32_t i = 0; i < 2 && i < count; i++)
        OK(cuda->device_open(backend, i, &device[i], &err));
    OK(cuda->stream_create(device[0], 0, &stream, &err));
}

static inline void end(void) {
    (void)cuda->stream_sync(stream, &err);
    cuda->stream_destroy(stream);
    for (int i = 0; i < 2; i++) {
        if (device[i] != NULL) cuda->device_close(device[i]);
    }
    cuda->close(backend);
    cr_assert_eq(fakecuda_live_objects(NULL), 0);
    cr_assert_eq(fakecuda_complaints(), 0, "%s", fakecuda_first_complaint());
    cr_assert_eq(fakecuda_call_count("cudaSetDevice"), 0);
    cr_assert_eq(fakecuda_call_count("cudaDeviceReset"), 0);
}

static inline uint64_t to_device(const void *data, uint64_t bytes) {
    uint64_t handle = 0;
    dhow_copy_rect rect = {.extent = {bytes, 1, 1}};
    OK(cuda->mem_alloc(device[0], bytes, &handle, &err));
    if (data == NULL) return handle;
    rect.src.space = DHOW_SPACE_HOST;
    rect.src.handle = (uint64_t)(uintptr_t)data;
    rect.dst.handle = handle;
    OK(cuda->copy(stream, &rect, &err));
    return handle;
}

static inline void from_device(uint64_t handle, void *data, uint64_t bytes) {
    dhow_copy_rect rect = {.extent = {bytes, 1, 1}};
    rect.src.handle = handle;
    rect.dst.space = DHOW_SPACE_HOST;
    rect.dst.handle = (uint64_t)(uintptr_t)data;
    OK(cuda->copy(stream, &rect, &err));
    OK(cuda->stream_sync(stream, &err));
}

static inline int32_t build(uint32_t format, const char *text, const char *options, char *log,
                            void **out) {
    dhow_module_desc desc = {.struct_size = sizeof desc};
    desc.format = format;
    desc.name = "own.cu";
    desc.text = text;
    desc.text_bytes = strlen(text);
    desc.options = options;
    desc.index_bits = 64;
    desc.log = log;
    desc.log_bytes = 4096;
    return cuda->module_build(device[0], &desc, out, &err);
}

static inline void launch_relu(uint64_t memory, int64_t n) {
    void *kernel = NULL;
    OK(cuda->builtin_kernel(device[0], "relu_f32", 32, &kernel, &err));
    const dhow_geometry geometry = {.work = (uint64_t)n};
    const dhow_arg args[] = {{DHOW_ARG_BUFFER, DHOW_ACCESS_READ, {.buffer = {memory, 0}}},
                             {DHOW_ARG_BUFFER, DHOW_ACCESS_WRITE, {.buffer = {memory, 0}}},
                             {DHOW_ARG_VALUE, 8, {.value = (uint64_t)n}}};
    OK(cuda->launch(stream, kernel, &geometry, args, 3, &err));
}

/* A kernel "scale" that does nothing. */
#define SCALE_PTX                                     \
    ".version 8.0\n.target sm_75\n.address_size 64\n" \
    ".visible .entry scale(.param .u64 a)\n{\n ret;\n}\n"

#endif /* TESTS_FAKECUDA_PLUGIN_FIXTURE_H_ */
