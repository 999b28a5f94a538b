/* SPDX-License-Identifier: Apache-2.0
 *
 * The records of plugins, see dhow/context.h.
 */
#include <string.h>
#include <sys/auxv.h>

#include "base/objects/struct_size.h"
#include "device/device.h"

/* Listing components asks the plugin once; the record is otherwise fixed. */
static dhow_status record(const dhow_context *context, uint32_t index, const char *function,
                          dhowi_plugin **out) {
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, function, "context"));
    if (index >= context->registry.count) {
        return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: index %u, the context has %u plugin records",
                          function, index, context->registry.count);
    }
    dhow_context *owner = (dhow_context *)(uintptr_t)context;
    DHOWI_TRY(dhowi_context_complete(owner));
    *out = &owner->registry.plugins[index];
    pthread_mutex_lock(&owner->mutex);
    dhowi_plugin_list_components(*out);
    pthread_mutex_unlock(&owner->mutex);
    return DHOW_OK;
}

uint32_t dhow_plugin_count(const dhow_context *context) {
    return dhowi_handle_is(context, DHOWI_CONTEXT) ? context->registry.count : 0;
}

dhow_status dhow_plugin_at(const dhow_context *context, uint32_t index, dhow_plugin_record *given) {
    dhow_plugin_record own, *out = &own;
    DHOWI_TRY(DHOWI_STRUCT_OUT(dhow_plugin_record, given, &own, "dhow_plugin_at"));
    dhowi_plugin *p = NULL;
    DHOWI_TRY(record(context, index, "dhow_plugin_at", &p));
    *out = DHOW_INIT(dhow_plugin_record, .path = p->path, .backend = p->backend,
                     .version = p->version, .state = p->state, .reason = p->reason, .hint = p->hint,
                     .device_count = p->device_count, .component_count = p->component_count);
    DHOWI_STRUCT_GIVE(given, out);
    return DHOW_OK;
}

dhow_status dhow_plugin_component_at(const dhow_context *context, uint32_t plugin, uint32_t index,
                                     dhow_plugin_component *given) {
    dhow_plugin_component own, *out = &own;
    DHOWI_TRY(DHOWI_STRUCT_OUT(dhow_plugin_component, given, &own, "dhow_plugin_component_at"));
    dhowi_plugin *p = NULL;
    DHOWI_TRY(record(context, plugin, "dhow_plugin_component_at", &p));
    if (index >= p->component_count) {
        return dhowi_fail(DHOW_OUT_OF_RANGE,
                          "dhow_plugin_component_at: index %u, the plugin has %u", index,
                          p->component_count);
    }
    const dhow_component *c = &p->components[index];
    *out = DHOW_INIT(dhow_plugin_component, .name = c->name, .purpose = c->purpose,
                     .detail = c->detail, .present = c->present);
    DHOWI_STRUCT_GIVE(given, out);
    return DHOW_OK;
}
