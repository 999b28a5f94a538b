/* SPDX-License-Identifier: Apache-2.0
 *
 * See native.h.
 */
#include "memory/native.h"

static const dhow_native *table_of(dhow_device *device) {
    const dhow_native *native =
        device->api->get_extension(dhowi_device_native(device), "dhow.native/1");
    return native != NULL && native->struct_size >= sizeof *native ? native : NULL;
}

dhow_status dhowi_native_of(dhow_device *device, const char *function, const dhow_native **out) {
    *out = table_of(device);
    if (*out != NULL) return DHOW_OK;
    return dhowi_fail(DHOW_UNSUPPORTED,
                      "%s: %s: the plugin '%s' has no dhow.native/1, the table for a vendor's own "
                      "memory, streams and events",
                      function, device->name, device->api->name);
}

uint64_t dhowi_storage_native(const dhowi_storage *s) {
    dhow_error err;
    uint64_t native = 0;
    dhowi_error_init(&err);
    const dhow_native *table = s->host != NULL ? NULL : table_of(s->device);
    if (table == NULL ||
        table->mem_native(dhowi_device_native(s->device), s->native, &native, &err) != DHOW_OK)
        return s->native;
    return native;
}

/* A handle for no bytes at all: some of dhow's own, since a vendor has no such memory. */
static int32_t wrap_nothing(dhowi_storage *s, dhow_error *err) {
    s->unwrap = s->device->api->mem_free;
    return s->device->api->mem_alloc(dhowi_device_native(s->device), 64, &s->native, err);
}

dhow_status dhowi_storage_wrap_native(dhow_device *device, const char *function, uint64_t native,
                                      uint64_t bytes, dhowi_storage **out, uint64_t *out_offset) {
    const dhow_native *table;
    dhow_error err;
    dhowi_error_init(&err);
    *out = NULL;
    *out_offset = 0;
    DHOWI_TRY(dhowi_device_open(device));
    DHOWI_TRY(dhowi_native_of(device, function, &table));
    dhowi_storage *s = dhowi_handle_new(DHOWI_STORAGE, sizeof *s);
    if (s == NULL) return dhowi_fail_memory("storage");
    s->device = device;
    s->unwrap = table->mem_unwrap;
    int32_t code = bytes == 0 ? wrap_nothing(s, &err)
                              : table->mem_wrap(dhowi_device_native(device), native, bytes,
                                                &s->native, out_offset, &err);
    if (code != DHOW_OK) {
        dhowi_handle_free(DHOWI_STORAGE, s);
        return dhowi_device_failed(device, &err, code, function);
    }
    s->bytes = s->block_bytes = *out_offset + bytes;
    atomic_flag_clear(&s->hazard.lock);
    dhowi_handle_retain(&device->context->handle);
    *out = s;
    return DHOW_OK;
}
