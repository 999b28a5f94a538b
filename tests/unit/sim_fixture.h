/* SPDX-License-Identifier: Apache-2.0
 *
 * A host for the plugin of simulated devices, and short words for its slots. Included by the tests
 * of the plugin, each of which is a program of its own.
 */
#ifndef TESTS_UNIT_SIM_FIXTURE_H_
#define TESTS_UNIT_SIM_FIXTURE_H_

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/plugin.h"

/* ---- a host ---- */

static atomic_int complaints;

static inline void host_log(void *user, int32_t level, const char *message) {
    (void)user, (void)message;
    if (level == DHOW_LOG_ERROR) atomic_fetch_add(&complaints, 1);
}

static inline void *host_alloc(void *user, uint64_t bytes, uint64_t align) {
    (void)user;
    return aligned_alloc((size_t)align, (size_t)((bytes + align - 1) / align * align));
}

static inline void host_free(void *user, void *memory) {
    (void)user;
    free(memory);
}

static const char *host_env(void *user, const char *name) {
    (void)user;
    return getenv(name);
}

static const dhow_host host = {.struct_size = sizeof(dhow_host),
                               .log = host_log,
                               .alloc = host_alloc,
                               .free = host_free,
                               .env = host_env,
                               .cpu_threads = 1};

/* ---- a device with a stream ---- */

static const dhow_plugin *sim;
static void *backend, *device, *other, *stream;
static dhow_error err = {.struct_size = sizeof(dhow_error)};

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, err.message)
#define FAILS(status, call) cr_assert_eq((call), (status), "%s: %s", #call, err.message)
#define SAYS(text) \
    cr_assert_not_null(strstr(err.message, (text)), "'%s' does not say '%s'", err.message, (text))

static inline int32_t probe(const char *settings, const char *faults, dhow_probe *out) {
    void *library = dlopen(DHOW_TEST_SIM_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(library, "%s", dlerror());
    sim = dlsym(library, DHOW_PLUGIN_SYMBOL);
    cr_assert_not_null(sim);
    setenv("DHOW_SIM", settings, 1);
    setenv("DHOW_SIM_FAULTS", faults, 1);
    memset(out, 0, sizeof *out);
    return sim->probe(&host, out, &err);
}

static inline void open_sim(const char *settings, const char *faults) {
    dhow_probe answer;
    OK(probe(settings, faults, &answer));
    OK(sim->open(&host, &backend, &err));
    OK(sim->device_open(backend, 0, &device, &err));
    OK(sim->device_open(backend, 1, &other, &err));
    OK(sim->stream_create(device, 0, &stream, &err));
}

static inline void close_sim(void) {
    sim->stream_destroy(stream);
    sim->device_close(other);
    sim->device_close(device);
    sim->close(backend);
}

static inline uint64_t allocate(void *where, uint64_t bytes) {
    uint64_t handle = 0;
    OK(sim->mem_alloc(where, bytes, &handle, &err));
    return handle;
}

static inline void *pin(uint64_t bytes) {
    void *memory = NULL;
    OK(sim->host_alloc(device, bytes, &memory, &err));
    return memory;
}

static dhow_copy_rect rect_of(const void *from, uint64_t to, const void *back, uint64_t bytes,
                              uint32_t pinned) {
    const bool upload = from != NULL;
    const dhow_copy_end at_host = {.space = DHOW_SPACE_HOST,
                                   .pinned = pinned,
                                   .handle = (uint64_t)(uintptr_t)(upload ? from : back)};
    const dhow_copy_end at_device = {.space = DHOW_SPACE_DEVICE, .handle = to};
    return (dhow_copy_rect){.extent = {bytes, 1, 1},
                            .src = upload ? at_host : at_device,
                            .dst = upload ? at_device : at_host};
}

static inline int32_t upload(uint64_t to, const void *from, uint64_t bytes, uint32_t pinned) {
    const dhow_copy_rect rect = rect_of(from, to, NULL, bytes, pinned);
    return sim->copy(stream, &rect, &err);
}

static inline int32_t download(void *to, uint64_t from, uint64_t bytes, uint32_t pinned) {
    const dhow_copy_rect rect = rect_of(NULL, from, to, bytes, pinned);
    return sim->copy(stream, &rect, &err);
}

static inline int32_t fill_byte(void *on, uint64_t handle, uint64_t bytes, unsigned char value) {
    return sim->fill(on, handle, 0, bytes, value, 1, &err);
}

static inline void *kernel_named(const char *name) {
    void *kernel = NULL;
    OK(sim->builtin_kernel(device, name, 64, &kernel, &err));
    return kernel;
}

static inline int32_t relu(uint64_t x, uint64_t y, uint64_t n) {
    const dhow_geometry geometry = {.work = n};
    const dhow_arg args[3] = {
        {DHOW_ARG_BUFFER, DHOW_ACCESS_READ, {.buffer = {x, 0}}},
        {DHOW_ARG_BUFFER, DHOW_ACCESS_WRITE, {.buffer = {y, 0}}},
        {DHOW_ARG_VALUE, 8, {.value = n}},
    };
    return sim->launch(stream, kernel_named("relu_f32"), &geometry, args, 3, &err);
}

#endif /* TESTS_UNIT_SIM_FIXTURE_H_ */
