/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a plugin's table and makes our own copy of it, in which every slot can be called.
 */
#include <stdio.h>
#include <string.h>

#include "base/memory/size.h"
#include "base/text/text.h"
#include "plugin/plugin.h"
#include "plugin/required.h"

/* A plugin of a much later minor may have a longer table, but not that long. */
enum { MAX_TABLE_BYTES = 16384 };

static int32_t unsupported(dhow_error *err, const char *slot) {
    err->code = DHOW_UNSUPPORTED;
    (void)snprintf(err->message, sizeof err->message, "the plugin has no %s", slot);
    return DHOW_UNSUPPORTED;
}

#define UNUSED(x) (void)(x)
static int32_t stub_builtin_kernel(void *d, const char *n, uint32_t b, void **out,
                                   dhow_error *err) {
    UNUSED(d), UNUSED(n), UNUSED(b);
    *out = NULL;
    err->code = DHOW_NOT_FOUND;
    return DHOW_NOT_FOUND;
}
static int32_t stub_host_alloc(void *d, uint64_t b, void **out, dhow_error *err) {
    UNUSED(d), UNUSED(b);
    *out = NULL;
    return unsupported(err, "host_alloc (pinned memory)");
}
static void stub_host_free(void *d, void *m) { UNUSED(d), UNUSED(m); }
static int32_t stub_host_register(void *d, void *m, uint64_t b, dhow_error *err) {
    UNUSED(d), UNUSED(m), UNUSED(b);
    return unsupported(err, "host_register");
}
static int32_t stub_host_unregister(void *d, void *m, dhow_error *err) {
    UNUSED(d), UNUSED(m);
    return unsupported(err, "host_unregister");
}
static int32_t stub_map(void *d, uint64_t h, uint64_t o, uint64_t b, uint32_t a, void **out,
                        dhow_error *err) {
    UNUSED(d), UNUSED(h), UNUSED(o), UNUSED(b), UNUSED(a);
    *out = NULL;
    return unsupported(err, "map");
}
static int32_t stub_unmap(void *d, uint64_t h, void *m, dhow_error *err) {
    UNUSED(d), UNUSED(h), UNUSED(m);
    return unsupported(err, "unmap");
}
static int32_t stub_can_copy(void *dst, void *src, dhow_error *err) {
    UNUSED(dst), UNUSED(src);
    return unsupported(err, "peer copies");
}
static int32_t stub_peer_copy(void *s, void *d, uint64_t sh, uint64_t so, uint64_t dh, uint64_t dof,
                              uint64_t b, dhow_error *err) {
    UNUSED(s), UNUSED(d), UNUSED(sh), UNUSED(so), UNUSED(dh), UNUSED(dof), UNUSED(b);
    return unsupported(err, "peer_copy");
}
static int32_t stub_event_signal(void *e, dhow_error *err) {
    UNUSED(e);
    return unsupported(err, "event_signal (host-signalled events)");
}
static int32_t stub_event_elapsed(void *a, void *b, int64_t *out, dhow_error *err) {
    UNUSED(a), UNUSED(b);
    *out = 0;
    return unsupported(err, "event_elapsed (timing)");
}
static int32_t stub_mem_info(void *d, uint64_t *f, uint64_t *t, dhow_error *err) {
    UNUSED(d);
    *f = *t = 0;
    return unsupported(err, "mem_info");
}
static int32_t stub_component(void *b, uint32_t i, dhow_component *out, dhow_error *err) {
    UNUSED(b), UNUSED(i), UNUSED(out);
    err->code = DHOW_OUT_OF_RANGE;
    return DHOW_OUT_OF_RANGE;
}
static const void *stub_get_extension(void *d, const char *id) {
    UNUSED(d), UNUSED(id);
    return NULL;
}

static void fill_stubs(dhow_plugin *api) {
#define FILL(slot) \
    if (api->slot == NULL) api->slot = stub_##slot
    FILL(builtin_kernel);
    FILL(host_alloc);
    FILL(host_free);
    FILL(host_register);
    FILL(host_unregister);
    FILL(map);
    FILL(unmap);
    FILL(can_copy);
    FILL(peer_copy);
    FILL(event_signal);
    FILL(event_elapsed);
    FILL(mem_info);
    FILL(component);
    FILL(get_extension);
#undef FILL
}

bool dhowi_plugin_take_table(const dhow_plugin *table, uint64_t available, dhow_plugin *api,
                             char *reason, size_t capacity) {
    if (available != 0 && available < DHOW_PLUGIN_MIN_SIZE) {
        (void)snprintf(reason, capacity, "%s has %llu bytes, at least %zu are needed",
                       DHOW_PLUGIN_SYMBOL, (unsigned long long)available, DHOW_PLUGIN_MIN_SIZE);
        return false;
    }
    if (table->magic != DHOW_PLUGIN_MAGIC) {
        (void)snprintf(reason, capacity, "magic 0x%08x, expected 0x%08x", table->magic,
                       DHOW_PLUGIN_MAGIC);
        return false;
    }
    if (table->pointer_bytes != sizeof(void *) ||
        table->little_endian != (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)) {
        (void)snprintf(reason, capacity,
                       "pointers of %u bytes, little endian %u: built for another machine",
                       table->pointer_bytes, table->little_endian);
        return false;
    }
    if (table->struct_size < DHOW_PLUGIN_MIN_SIZE || table->struct_size > MAX_TABLE_BYTES ||
        table->struct_size % 8 != 0 || (available != 0 && table->struct_size > available)) {
        (void)snprintf(
            reason, capacity,
            "struct_size %u of minor %u; %zu to %u, a multiple of 8 and no more than the symbol's "
            "%llu bytes is allowed",
            table->struct_size, table->minor, DHOW_PLUGIN_MIN_SIZE, MAX_TABLE_BYTES,
            (unsigned long long)available);
        return false;
    }
    if (table->sanitizers != DHOW_PLUGIN_SANITIZERS) {
        (void)snprintf(reason, capacity, "built with sanitizers 0x%x, this library with 0x%x",
                       table->sanitizers, DHOW_PLUGIN_SANITIZERS);
        return false;
    }
    memset(api, 0, sizeof *api);
    memcpy(api, table, DHOWI_MIN(table->struct_size, sizeof *api));
    const char *missing = dhowi_plugin_missing_slot(api);
    if (missing != NULL) {
        (void)snprintf(reason, capacity, "the required slot '%s' is NULL", missing);
        return false;
    }
    if (api->name == NULL || !dhowi_is_backend_name(api->name, strnlen(api->name, 32))) {
        (void)snprintf(reason, capacity, "its backend name is no [a-z][a-z0-9]{0,14}");
        return false;
    }
    fill_stubs(api);
    return true;
}
