/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest whole backend: one device whose memory is plain host memory that dhow does not know
 * as such, every required slot, no kernel. Work is done when a slot returns. Built outside of
 * dhow's source tree, against the installed headers only.
 */
#include <dhow/plugin.h>
#include <stdio.h>
#include <string.h>

typedef struct toy {
    const dhow_host *host;
} toy;

static int32_t fail(dhow_error *err, int32_t code, const char *message) {
    err->code = code;
    err->native_code = 0;
    (void)snprintf(err->message, sizeof err->message, "%s", message);
    return code;
}

/* ---- backend and device: one struct is both, and every stream and event ---- */

static int32_t toy_probe(const dhow_host *host, dhow_probe *out, dhow_error *err) {
    (void)host, (void)err;
    out->state = DHOW_PLUGIN_READY;
    return DHOW_OK;
}

static int32_t toy_open(const dhow_host *host, void **out_backend, dhow_error *err) {
    toy *backend = host->alloc(host->user, sizeof *backend, _Alignof(toy));
    *out_backend = backend;
    if (backend == NULL) return fail(err, DHOW_OUT_OF_MEMORY, "no memory for the toy backend");
    backend->host = host;
    return DHOW_OK;
}

static void toy_close(void *backend) {
    const dhow_host *host = ((toy *)backend)->host;
    host->free(host->user, backend);
}

static int32_t toy_device_count(void *backend, uint32_t *out_count, dhow_error *err) {
    (void)backend, (void)err;
    *out_count = 1;
    return DHOW_OK;
}

static int32_t toy_device_describe(void *backend, uint32_t index, dhow_device_desc *out,
                                   dhow_error *err) {
    (void)backend, (void)index, (void)err;
    out->kind = DHOW_DEVICE_ACCELERATOR;
    (void)snprintf(out->name, sizeof out->name, "toy memory");
    (void)snprintf(out->driver, sizeof out->driver, "none");
    out->offset_align = 1;
    out->index_bits = 64;
    return DHOW_OK;
}

static int32_t toy_device_open(void *backend, uint32_t index, void **out_device, dhow_error *err) {
    (void)index, (void)err;
    *out_device = backend;
    return DHOW_OK;
}

static void toy_device_close(void *device) { (void)device; }

/* ---- memory ---- */

static int32_t toy_mem_alloc(void *device, uint64_t bytes, uint64_t *out_handle, dhow_error *err) {
    const dhow_host *host = ((toy *)device)->host;
    void *memory = host->alloc(host->user, bytes, 64);
    *out_handle = (uint64_t)(uintptr_t)memory;
    return memory != NULL ? DHOW_OK : fail(err, DHOW_OUT_OF_MEMORY, "toy memory is exhausted");
}

static void toy_mem_free(void *device, uint64_t handle) {
    const dhow_host *host = ((toy *)device)->host;
    host->free(host->user, (void *)(uintptr_t)handle);
}

/* ---- streams and events: nothing is ever pending ---- */

static int32_t toy_stream_create(void *device, uint32_t flags, void **out, dhow_error *err) {
    (void)flags, (void)err;
    *out = device;
    return DHOW_OK;
}

static void toy_destroy(void *object) { (void)object; }

static int32_t toy_done(void *object, dhow_error *err) {
    (void)object, (void)err;
    return DHOW_OK;
}

static int32_t toy_done_with(void *object, void *other, dhow_error *err) {
    (void)object, (void)other, (void)err;
    return DHOW_OK;
}

static int32_t toy_event_create(void *device, uint32_t flags, void **out, dhow_error *err) {
    *out = NULL;
    if (flags != 0) return fail(err, DHOW_UNSUPPORTED, "events without time and host signals only");
    *out = device;
    return DHOW_OK;
}

/* ---- copies ---- */

static char *address(const dhow_copy_end *end, uint64_t row, uint64_t plane) {
    return (char *)(uintptr_t)end->handle + end->offset + row * end->pitch[0] +
           plane * end->pitch[1];
}

static int32_t toy_copy(void *stream, const dhow_copy_rect *rect, dhow_error *err) {
    (void)stream, (void)err;
    for (uint64_t plane = 0; plane < rect->extent[2]; plane++) {
        for (uint64_t row = 0; row < rect->extent[1]; row++) {
            memcpy(address(&rect->dst, row, plane), address(&rect->src, row, plane),
                   (size_t)rect->extent[0]);
        }
    }
    return DHOW_OK;
}

static int32_t toy_fill(void *stream, uint64_t handle, uint64_t offset, uint64_t bytes,
                        uint64_t pattern, uint32_t pattern_bytes, dhow_error *err) {
    (void)stream, (void)err;
    char *memory = (char *)(uintptr_t)handle + offset;
    for (uint64_t i = 0; i < bytes; i += pattern_bytes) memcpy(memory + i, &pattern, pattern_bytes);
    return DHOW_OK;
}

/* ---- kernels: none ---- */

static int32_t toy_module_build(void *device, const dhow_module_desc *desc, void **out,
                                dhow_error *err) {
    (void)device, (void)desc;
    *out = NULL;
    return fail(err, DHOW_UNSUPPORTED, "the toy has no compiler");
}

static int32_t toy_module_kernel(void *module, const char *name, void **out, dhow_error *err) {
    (void)module, (void)name;
    *out = NULL;
    return fail(err, DHOW_NOT_FOUND, "the toy has no kernels");
}

static int32_t toy_launch(void *stream, void *kernel, const dhow_geometry *geometry,
                          const dhow_arg *args, uint32_t count, dhow_error *err) {
    (void)stream, (void)kernel, (void)geometry, (void)args, (void)count;
    return fail(err, DHOW_UNSUPPORTED, "the toy computes nothing");
}

DHOW_PLUGIN_EXPORT const dhow_plugin dhow_plugin_v1 = {
    DHOW_PLUGIN_HEADER,
    .name = "toy",
    .version = "1.0",
    .probe = toy_probe,
    .open = toy_open,
    .close = toy_close,
    .device_count = toy_device_count,
    .device_describe = toy_device_describe,
    .device_open = toy_device_open,
    .device_close = toy_device_close,
    .mem_alloc = toy_mem_alloc,
    .mem_free = toy_mem_free,
    .stream_create = toy_stream_create,
    .stream_destroy = toy_destroy,
    .stream_sync = toy_done,
    .stream_query = toy_done,
    .stream_wait = toy_done_with,
    .event_create = toy_event_create,
    .event_destroy = toy_destroy,
    .event_record = toy_done_with,
    .event_sync = toy_done,
    .event_query = toy_done,
    .copy = toy_copy,
    .fill = toy_fill,
    .module_build = toy_module_build,
    .module_free = toy_destroy,
    .module_kernel = toy_module_kernel,
    .launch = toy_launch,
};
