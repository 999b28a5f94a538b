/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend itself: the one exported symbol and the probe.
 */
#include <stdio.h>
#include <string.h>

#include "sim.h"

/* ---- the machine's settings ---- */

static void *machine_alloc(void *user, uint64_t bytes, uint64_t align) {
    const dhow_host *host = user;
    return host->alloc(host->user, bytes, align);
}

static void machine_free(void *user, void *memory) {
    const dhow_host *host = user;
    host->free(host->user, memory);
}

static void machine_complain(void *user, const char *message) {
    const dhow_host *host = user;
    host->log(host->user, DHOW_LOG_ERROR, message);
}

/* DHOW_SIM describes the machine, DHOW_SIM_FAULTS what goes wrong on it. */
static int32_t read_settings(const dhow_host *host, simdev_config *out, dhow_error *err) {
    union {
        const dhow_host *from;
        void *to;
    } user = {host}; /* not written through */
    simdev_config_init(out);
    out->user = user.to;
    out->alloc = machine_alloc;
    out->free = machine_free;
    out->complain = machine_complain;
    int32_t status = simdev_config_parse(out, host->env(host->user, "DHOW_SIM"), err);
    if (status != DHOW_OK) return status;
    return simdev_config_parse_faults(out, host->env(host->user, "DHOW_SIM_FAULTS"), err);
}

/* ---- slots ---- */

/* A real backend opens its vendor's library here, looks up the functions it needs and asks for the
 * number of devices. Each thing that can be missing has its state, and a reason and a hint for the
 * person who reads `devinfo`. */
static int32_t probe(const dhow_host *host, dhow_probe *out, dhow_error *err) {
    simdev_config config;
    int32_t status = read_settings(host, &config, err);
    if (status != DHOW_OK) return status; /* INIT_FAILED with err's text */
    out->state = DHOW_PLUGIN_READY;
    if (config.device_count == 0) {
        out->state = DHOW_PLUGIN_NO_DEVICE;
        (void)snprintf(out->reason, sizeof out->reason, "the simulated machine has no devices");
        (void)snprintf(out->hint, sizeof out->hint, "set DHOW_SIM=devices=2");
    }
    return DHOW_OK;
}

static int32_t open_backend(const dhow_host *host, void **out_backend, dhow_error *err) {
    simdev_config config;
    *out_backend = NULL;
    int32_t status = read_settings(host, &config, err);
    if (status != DHOW_OK) return status;
    sim_backend *backend = sim_new(host, sizeof *backend);
    if (backend == NULL) return sim_fail(err, DHOW_OUT_OF_MEMORY, "no host memory for the backend");
    backend->host = host;
    status = simdev_machine_create(&config, &backend->machine, err);
    if (status == DHOW_OK) status = simdev_machine_enter(backend->machine, "open", err);
    if (status != DHOW_OK) {
        simdev_machine_destroy(backend->machine);
        sim_delete(host, backend);
        return status;
    }
    *out_backend = backend;
    return DHOW_OK;
}

static void close_backend(void *handle) {
    sim_backend *backend = handle;
    simdev_machine_destroy(backend->machine);
    sim_delete(backend->host, backend);
}

/* The slots left out (map, unmap, component) are stubs of the host's then. */
DHOW_PLUGIN_EXPORT extern const dhow_plugin dhow_plugin_v1;
const dhow_plugin dhow_plugin_v1 = {
    DHOW_PLUGIN_HEADER,
    .name = "sim",
    .version = DHOW_SIM_VERSION,
    .probe = probe,
    .open = open_backend,
    .close = close_backend,
    .device_count = sim_device_count,
    .device_describe = sim_device_describe,
    .device_open = sim_device_open,
    .device_close = sim_device_close,
    .mem_alloc = sim_mem_alloc,
    .mem_free = sim_mem_free,
    .stream_create = sim_stream_create,
    .stream_destroy = sim_stream_destroy,
    .stream_sync = sim_stream_sync,
    .stream_query = sim_stream_query,
    .stream_wait = sim_stream_wait,
    .event_create = sim_event_create,
    .event_destroy = sim_event_destroy,
    .event_record = sim_event_record,
    .event_sync = sim_event_sync,
    .event_query = sim_event_query,
    .copy = sim_copy,
    .fill = sim_fill,
    .module_build = sim_module_build,
    .module_free = sim_module_free,
    .module_kernel = sim_module_kernel,
    .launch = sim_launch,
    .builtin_kernel = sim_builtin_kernel,
    .get_extension = sim_get_extension,
    .host_alloc = sim_host_alloc,
    .host_free = sim_host_free,
    .host_register = sim_host_register,
    .host_unregister = sim_host_unregister,
    .can_copy = sim_can_copy,
    .peer_copy = sim_peer_copy,
    .event_signal = sim_event_signal,
    .event_elapsed = sim_event_elapsed,
    .mem_info = sim_mem_info,
};
