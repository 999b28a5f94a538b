/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU backend: one device, whose memory is the host's and whose streams run inside the calls.
 */
#include <stdio.h>
#include <string.h>

#include "cpu.h"

static int32_t probe(const dhow_host *host, dhow_probe *out, dhow_error *err) {
    (void)host, (void)err;
    out->state = DHOW_PLUGIN_READY;
    if (cpu_best_isa() < 0) {
        out->state = DHOW_PLUGIN_NO_DEVICE;
        (void)snprintf(
            out->reason, sizeof out->reason,
            "the processor lacks instructions of x86-64-v2 (SSE4.2, POPCNT, CMPXCHG16B, LAHF)");
        (void)snprintf(out->hint, sizeof out->hint,
                       "build dhow with -march for this processor, or use another machine");
    }
    return DHOW_OK;
}

static int32_t read_when(const dhow_host *host, const char *name, cpu_when *out, dhow_error *err) {
    const char *text = host->env(host->user, name);
    *out = CPU_WHERE_IT_PAYS;
    if (!text || strcmp(text, "1") == 0 || strcmp(text, "on") == 0) return DHOW_OK;
    *out = strcmp(text, "always") == 0 ? CPU_ALWAYS : CPU_NEVER;
    if (*out == CPU_ALWAYS || strcmp(text, "0") == 0 || strcmp(text, "off") == 0) return DHOW_OK;
    return cpu_fail(err, DHOW_INVALID_ARGUMENT, 0, "%s: '%.64s' is none of 0, 1, on, off, always",
                    name, text);
}

/* The best instruction set that DHOW_CPU_ISA allows: as devinfo prints it, or its last two letters.
 */
static int32_t read_isa(const dhow_host *host, int *out, dhow_error *err) {
    const char *text = host->env(host->user, "DHOW_CPU_ISA");
    *out = cpu_best_isa();
    if (!text) return DHOW_OK;
    for (int isa = CPU_ISA_V2; isa <= CPU_ISA_V4; isa++) {
        const char *name = cpu_isa_name(isa), *dash = strrchr(name, '-');
        if (strcmp(text, name) != 0 && (!dash || strcmp(text, dash + 1) != 0)) continue;
        if (isa < *out) *out = isa;
        cpu_onednn_limit(*out);
        return DHOW_OK;
    }
    return cpu_fail(err, DHOW_INVALID_ARGUMENT, 0,
                    "DHOW_CPU_ISA: '%.64s' is none of x86-64-v2, x86-64-v3, x86-64-v4", text);
}

static int32_t open_backend(const dhow_host *host, void **out_backend, dhow_error *err) {
    cpu_when winograd, dots, tiles, activations, one_row, panels, bytes, apart;
    int isa;
    *out_backend = NULL;
    int32_t status = read_isa(host, &isa, err);
    if (status == DHOW_OK) status = read_when(host, "DHOW_CPU_WINOGRAD", &winograd, err);
    if (status == DHOW_OK) status = read_when(host, "DHOW_CPU_DOTS", &dots, err);
    if (status == DHOW_OK) status = read_when(host, "DHOW_CPU_TILES", &tiles, err);
    if (status == DHOW_OK) status = read_when(host, "DHOW_CPU_ACTIVATIONS", &activations, err);
    if (status == DHOW_OK) status = read_when(host, "DHOW_CPU_ONE_ROW", &one_row, err);
    if (status == DHOW_OK) status = read_when(host, "DHOW_CPU_PANELS", &panels, err);
    if (status == DHOW_OK) status = read_when(host, "DHOW_CPU_BYTES", &bytes, err);
    if (status == DHOW_OK) status = read_when(host, "DHOW_CPU_AFFINITY", &apart, err);
    if (status != DHOW_OK) return status;
    cpu_backend *backend = host->alloc(host->user, sizeof *backend, 64);
    if (!backend) return cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate the CPU backend");
    backend->host = host;
    backend->isa = isa;
    backend->winograd = winograd;
    backend->dots = dots;
    backend->tiles = tiles;
    backend->activations = activations;
    backend->one_row = one_row;
    backend->panels = panels;
    backend->bytes = bytes;
    backend->apart = apart;
    *out_backend = backend;
    return DHOW_OK;
}

static void close_backend(void *backend) {
    if (!backend) return;
    const dhow_host *host = ((cpu_backend *)backend)->host;
    host->free(host->user, backend);
}

static int32_t device_count(void *backend, uint32_t *out_count, dhow_error *err) {
    (void)backend, (void)err;
    *out_count = 1;
    return DHOW_OK;
}

static int32_t device_describe(void *backend, uint32_t index, dhow_device_desc *out,
                               dhow_error *err) {
    const dhow_host *host = ((cpu_backend *)backend)->host;
    if (index != 0)
        return cpu_fail(err, DHOW_OUT_OF_RANGE, 0, "there is one CPU device, asked for number %u",
                        index);
    out->kind = DHOW_DEVICE_CPU;
    out->flags = DHOW_DEVICE_HOST_INLINE | DHOW_DEVICE_HOST_VISIBLE | DHOW_DEVICE_PAGEABLE_ASYNC |
                 DHOW_DEVICE_RUNS_KERNELS;
    out->compute_units = host->cpu_threads;
    out->offset_align =
        8; /* the widest element; matmul's panels are copies, so nothing wants more */
    out->index_bits = 64;
    cpu_memory_info(host, &out->free_bytes, &out->memory_bytes);
    for (int dtype = DHOW_F32; dtype <= DHOW_BOOL; dtype++) out->dtypes |= DHOW_DTYPE_BIT(dtype);
    cpu_model_name(out->name, sizeof out->name);
    (void)snprintf(out->driver, sizeof out->driver, "%s kernels, OpenMP %u thread%s",
                   cpu_isa_name(((cpu_backend *)backend)->isa), host->cpu_threads,
                   host->cpu_threads == 1 ? "" : "s");
    return DHOW_OK;
}

static int32_t device_open(void *backend, uint32_t index, void **out_device, dhow_error *err) {
    const dhow_host *host = ((cpu_backend *)backend)->host;
    *out_device = NULL;
    if (index != 0)
        return cpu_fail(err, DHOW_OUT_OF_RANGE, 0, "there is one CPU device, asked for number %u",
                        index);
    cpu_device *device = host->alloc(host->user, sizeof *device, 64);
    if (!device) return cpu_fail(err, DHOW_OUT_OF_MEMORY, 0, "cannot allocate the CPU device");
    memset(device, 0, sizeof *device);
    device->backend = backend;
    device->isa = device->backend->isa;
    device->reads_rows_ahead = cpu_reads_rows_ahead();
    cpu_team_init(&device->team, (int)host->cpu_threads);
    device->team.apart = device->backend->apart != CPU_NEVER;
    uint64_t unused = 0;
    cpu_memory_info(host, &unused, &device->memory_bytes);
    (void)pthread_mutex_init(&device->lock, NULL);
    *out_device = device;
    return DHOW_OK;
}

static void device_close(void *handle) {
    cpu_device *device = handle;
    if (!device) return;
    const dhow_host *host = device->backend->host;
    cpu_builtins_free(device);
    onednn_forms_release(device);
    cpu_team_destroy(&device->team);
    (void)pthread_mutex_destroy(&device->lock);
    host->free(host->user, device);
}

static int32_t component(void *backend, uint32_t index, dhow_component *out, dhow_error *err) {
    (void)backend;
    if (index == 0) return cpu_onednn_component(out);
    return cpu_fail(err, DHOW_OUT_OF_RANGE, 0, "the CPU plugin has one component");
}

static const void *get_extension(void *device, const char *id) {
    (void)device;
    if (strcmp(id, "dhow.blas/1") == 0) return cpu_blas();
    if (strcmp(id, "dhow.conv/1") == 0) return cpu_conv();
    return NULL;
}

DHOW_PLUGIN_EXPORT extern const dhow_plugin dhow_plugin_v1;
const dhow_plugin dhow_plugin_v1 = {
    DHOW_PLUGIN_HEADER,
    .name = "cpu",
    .version = DHOW_CPU_VERSION,
    .probe = probe,
    .open = open_backend,
    .close = close_backend,
    .device_count = device_count,
    .device_describe = device_describe,
    .device_open = device_open,
    .device_close = device_close,
    .mem_alloc = cpu_mem_alloc,
    .mem_free = cpu_mem_free,
    .stream_create = cpu_stream_create,
    .stream_destroy = cpu_stream_destroy,
    .stream_sync = cpu_stream_sync,
    .stream_query = cpu_stream_query,
    .stream_wait = cpu_stream_wait,
    .event_create = cpu_event_create,
    .event_destroy = cpu_event_destroy,
    .event_record = cpu_event_record,
    .event_sync = cpu_event_sync,
    .event_query = cpu_event_query,
    .copy = cpu_copy,
    .fill = cpu_fill,
    .module_build = cpu_module_build,
    .module_free = cpu_module_free,
    .module_kernel = cpu_module_kernel,
    .launch = cpu_launch,
    .builtin_kernel = cpu_builtin_kernel,
    .host_alloc = cpu_host_alloc,
    .host_free = cpu_host_free,
    .host_register = cpu_host_register,
    .host_unregister = cpu_host_unregister,
    .map = cpu_map,
    .unmap = cpu_unmap,
    .can_copy = cpu_can_copy,
    .peer_copy = cpu_peer_copy,
    .event_signal = cpu_event_signal,
    .event_elapsed = cpu_event_elapsed,
    .mem_info = cpu_mem_info,
    .component = component,
    .get_extension = get_extension,
};
