/* SPDX-License-Identifier: Apache-2.0
 *
 * Pinning memory of the host in place.
 */
#include "memory/pool.h"

static pthread_mutex_t g_pin_mutex = PTHREAD_MUTEX_INITIALIZER; /* pinning is rare and slow */

__attribute__((constructor)) static void guard(void) {
    dhowi_fork_guard(DHOWI_FORK_PINS, &g_pin_mutex, false);
}

static dhow_status pin(dhowi_storage *s, dhow_device *device) {
    dhow_error err;
    dhowi_error_init(&err);
    if (s->pinned_by != NULL) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_tensor_pin: the memory is pinned by %s",
                          s->pinned_by->name);
    }
    if (dhowi_device_is_host(device) || s->bytes == 0) return DHOW_OK; /* nothing to gain */
    DHOWI_TRY(dhowi_device_open(device));
    dhowi_device_memory *m = dhowi_memory_of(device);
    if (m == NULL) return DHOW_OUT_OF_MEMORY;
    int32_t code = device->api->host_register(dhowi_device_native(device), s->host, s->bytes, &err);
    if (code != DHOW_OK) {
        dhow_status status = dhowi_device_failed(device, &err, code, "pinning memory in place");
        return status != DHOW_UNSUPPORTED
                   ? status
                   : dhowi_fail(status, "%.800s; dhow_tensor_create_pinned() makes memory that is",
                                dhow_last_error());
    }
    atomic_fetch_add(&m->registered, (int64_t)s->bytes);
    s->registered = true;
    s->pinned_by = device;
    return DHOW_OK;
}

dhow_status dhowi_storage_pin(dhowi_storage *s, dhow_device *device) {
    pthread_mutex_lock(&g_pin_mutex);
    dhow_status status = pin(s, device);
    pthread_mutex_unlock(&g_pin_mutex);
    return status;
}

void dhowi_storage_unpin(dhowi_storage *s) {
    if (!s->registered) return;
    dhow_error err;
    dhowi_error_init(&err);
    DHOWI_KEEP_ERROR;
    (void)dhowi_hazard_wait(&s->hazard, DHOW_ACCESS_WRITE);
    int32_t code =
        s->pinned_by->api->host_unregister(dhowi_device_native(s->pinned_by), s->host, &err);
    if (code != DHOW_OK) {
        dhowi_log_line(&s->device->context->log, DHOW_LOG_WARN, "%s: memory stays pinned: %s",
                       s->pinned_by->name, err.message);
    }
    atomic_fetch_sub(&dhowi_memory_of(s->pinned_by)->registered, (int64_t)s->bytes);
    s->registered = false;
    s->pinned_by = NULL;
}
