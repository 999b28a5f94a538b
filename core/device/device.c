/* SPDX-License-Identifier: Apache-2.0
 *
 * See device.h and dhow/device.h.
 */
#include "device/device.h"

#include <string.h>

#include "base/objects/struct_size.h"
#include "device/trace.h"

/* A plugin may name its device itself, at the beginning of its message. */
static const char *without_name(const dhow_device *device, const char *message) {
    size_t name = strlen(device->name);
    bool named = strncmp(message, device->name, name) == 0 && strncmp(message + name, ": ", 2) == 0;
    return named ? message + name + 2 : message;
}

/* Keeps this thread's error as the reason; false when the device was lost before. */
static bool lose(dhow_device *device) {
    pthread_mutex_lock(&device->mutex);
    const bool first = !atomic_load(&device->lost);
    if (first) {
        dhowi_error_save(&device->loss, DHOW_DEVICE_LOST);
        atomic_store(&device->lost, true);
    }
    pthread_mutex_unlock(&device->mutex);
    return first;
}

dhow_status dhowi_device_failed(dhow_device *device, dhow_error *err, int32_t code,
                                const char *what) {
    dhow_status status = dhowi_error_take(err, code);
    const char *said = without_name(device, err->message);
    (void)dhowi_fail_native(status, err->native_code, "%s: %s: %s", device->name, what,
                            said[0] != '\0' ? said : dhow_status_text(status));
    if (status == DHOW_DEVICE_LOST && lose(device))
        dhowi_log_line(&device->context->log, DHOW_LOG_ERROR, "%s", dhow_last_error());
    return status;
}

dhow_status dhowi_device_usable(dhow_device *device) {
    if (device->fork_generation != dhowi_fork_generation()) {
        return dhowi_fail(
            DHOW_FORKED, "%s: opened before fork(); use it in the parent, or %s", device->name,
            dhowi_device_has_driver(device)
                ? "fork before the first use of its backend, or call exec after fork(): its driver "
                  "does not work in the child, whatever the context"
                : "create a context in the child");
    }
    if (atomic_load_explicit(&device->lost, memory_order_acquire)) {
        (void)dhowi_error_raise(&device->loss);
        return dhowi_fail_prefix(DHOW_DEVICE_LOST, "%s is lost since", device->name);
    }
    return DHOW_OK;
}

static dhow_status open_now(dhow_device *device) {
    dhow_error err;
    dhowi_error_init(&err);
    void *native = NULL;
    DHOWI_TRY(dhowi_plugin_start(device->plugin, &device->context->registry.host));
    int32_t code = device->api->device_open(device->plugin->self, device->index, &native, &err);
    if (code != DHOW_OK) {
        dhow_status status = dhowi_error_take(&err, code);
        return dhowi_fail_native(status, err.native_code, "%s: cannot be opened: %s", device->name,
                                 without_name(device, err.message));
    }
    atomic_store_explicit(&device->native, native, memory_order_release);
    dhowi_trace_driver_started(device->context);
    return DHOW_OK;
}

dhow_status dhowi_device_open(dhow_device *device) {
    DHOWI_TRY(dhowi_device_usable(device));
    if (dhowi_device_native(device) != NULL) return DHOW_OK;
    dhowi_plugins_lock();
    pthread_mutex_lock(&device->mutex);
    dhow_status status = dhowi_device_native(device) != NULL ? DHOW_OK : open_now(device);
    pthread_mutex_unlock(&device->mutex);
    dhowi_plugins_unlock();
    return status;
}

void *dhowi_device_attach(dhow_device *device, dhowi_attachment_id id,
                          void *(*make)(dhow_device *device),
                          void (*end)(void *device, void *data)) {
    dhowi_attachment *slot = &device->attachments[id];
    void *data = atomic_load_explicit(&slot->data, memory_order_acquire);
    if (data != NULL) return data;
    pthread_mutex_lock(&device->mutex);
    data = atomic_load(&slot->data);
    if (data == NULL) {
        data = make(device);
        slot->end = end;
        atomic_store_explicit(&slot->data, data, memory_order_release);
    }
    pthread_mutex_unlock(&device->mutex);
    return data;
}

dhow_status dhow_device_get_info(const dhow_device *device, dhow_device_info *given) {
    dhow_device_info own, *out = &own;
    DHOWI_TRY(DHOWI_STRUCT_OUT(dhow_device_info, given, &own, "dhow_device_get_info"));
    DHOWI_TRY(dhowi_device_check(device, "dhow_device_get_info"));
    const dhow_device_desc *d = &device->desc;
    *out =
        DHOW_INIT(dhow_device_info, .name = device->name, .backend = device->api->name,
                  .description = d->name, .driver = d->driver, .uuid = d->uuid, .pci = d->pci,
                  .kind = (dhow_device_kind)d->kind, .index = device->index,
                  .compute_units = d->compute_units, .host_memory = dhowi_device_is_host(device),
                  .memory_bytes = d->memory_bytes, .free_bytes = d->free_bytes, .dtypes = d->dtypes,
                  .same_as = device->same_as != NULL ? device->same_as->name : "");
    DHOWI_STRUCT_GIVE(given, out);
    return DHOW_OK;
}

const char *dhow_device_name(const dhow_device *device) {
    return dhowi_handle_is(device, DHOWI_DEVICE) ? device->name : "(invalid device)";
}

dhow_context *dhow_device_context(const dhow_device *device) {
    return dhowi_handle_is(device, DHOWI_DEVICE) ? device->context : NULL;
}

dhow_status dhow_device_open(dhow_device *device) {
    DHOWI_TRY(dhowi_device_check(device, "dhow_device_open"));
    return dhowi_device_open(device);
}

dhow_status dhow_device_set_precision(dhow_device *device, dhow_precision precision) {
    static const char function[] = "dhow_device_set_precision";
    DHOWI_TRY(dhowi_device_check(device, function));
    if (precision == DHOW_PRECISION_BF16 || precision == DHOW_PRECISION_F16 ||
        precision == DHOW_PRECISION_DEVICE)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: %s is no precision of devices; dhow_model_set_precision() takes it",
                          function,
                          precision == DHOW_PRECISION_BF16  ? "DHOW_PRECISION_BF16"
                          : precision == DHOW_PRECISION_F16 ? "DHOW_PRECISION_F16"
                                                            : "DHOW_PRECISION_DEVICE");
    if (precision != DHOW_PRECISION_F32 && precision != DHOW_PRECISION_REDUCED)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: %d is no precision; DHOW_PRECISION_F32 and DHOW_PRECISION_REDUCED "
                          "are",
                          function, (int)precision);
    atomic_store(&device->precision, precision == DHOW_PRECISION_REDUCED ? DHOW_BF16 : 0);
    return DHOW_OK;
}

dhow_precision dhow_device_precision(const dhow_device *device) {
    return dhowi_handle_is(device, DHOWI_DEVICE) && atomic_load(&device->precision) != 0
               ? DHOW_PRECISION_REDUCED
               : DHOW_PRECISION_F32;
}
