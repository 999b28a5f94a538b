/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices of a context, in the order of dhow_device_at() and of "auto".
 */
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/memory/alloc.h"
#include "device/context.h"

static dhow_device *new_device(dhow_context *context, dhowi_plugin *plugin, uint32_t index) {
    dhow_device *device = dhowi_handle_new(DHOWI_DEVICE, sizeof *device);
    if (device == NULL) return NULL;
    device->context = context;
    device->api = &plugin->api;
    device->plugin = plugin;
    device->index = index;
    device->fork_generation = dhowi_fork_generation();
    (void)snprintf(device->name, sizeof device->name, "%s:%u", plugin->backend, index);
    /* Making an attachment may fail in the driver, and a failure looks at the device again. */
    dhowi_mutex_init_recursive(&device->mutex);
    if (plugin->descs != NULL) {
        device->desc = plugin->descs[index];
    } else {
        dhowi_plugin_describe(plugin, index, &device->desc);
    }
    if (dhowi_device_has_driver(device)) dhowi_plugin_has_driver(plugin);
    return device;
}

/* The order of dhow_device_at() and of "auto": the highest first. */
static uint32_t priority(const dhow_device *device) {
    if (device->desc.kind == DHOW_DEVICE_SIMULATED) return 0;
    if (device->desc.priority != 0) return device->desc.priority;
    switch (device->desc.kind) {
        case DHOW_DEVICE_GPU:
            return DHOW_PRIORITY_GPU;
        case DHOW_DEVICE_CPU:
            return DHOW_PRIORITY_CPU;
        default:
            return DHOW_PRIORITY_ACCELERATOR;
    }
}

/* UUIDs differ from backend to backend for some vendors, and some give no PCI place: either will
 * do. */
static bool is_same_hardware(const dhow_device *a, const dhow_device *b) {
    if (a->plugin == b->plugin) return false;
    return (a->desc.uuid[0] != '\0' && strcmp(a->desc.uuid, b->desc.uuid) == 0) ||
           (a->desc.pci[0] != '\0' && strcmp(a->desc.pci, b->desc.pci) == 0);
}

static void find_same_hardware(dhow_context *context) {
    for (uint32_t i = 1; i < context->device_count; i++) {
        for (uint32_t k = 0; k < i && context->devices[i]->same_as == NULL; k++) {
            if (is_same_hardware(context->devices[i], context->devices[k]))
                context->devices[i]->same_as = context->devices[k];
        }
    }
}

static void drop_devices(dhow_device **devices, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        pthread_mutex_destroy(&devices[i]->mutex);
        dhowi_handle_free(DHOWI_DEVICE, devices[i]);
    }
}

/* The devices of plugins that serve and are not listed yet; *out has room for them. */
static dhow_status find_new(dhow_context *context, dhow_device **out, uint32_t *out_count) {
    for (uint32_t i = 0; i < context->registry.count; i++) {
        dhowi_plugin *plugin = &context->registry.plugins[i];
        if (plugin->listed || !plugin->taken || !dhowi_plugin_serves(plugin)) continue;
        for (uint32_t k = 0; k < plugin->device_count; k++) {
            dhow_device *device = new_device(context, plugin, k);
            if (device == NULL) return dhowi_fail_memory("devices");
            device->place = context->device_count + *out_count;
            out[(*out_count)++] = device;
        }
    }
    return DHOW_OK;
}

static void insert(dhow_device **devices, uint32_t at, dhow_device *device) {
    for (; at > 0 && priority(devices[at - 1]) < priority(device); at--)
        devices[at] = devices[at - 1];
    devices[at] = device;
}

dhow_status dhowi_context_list(dhow_context *context) {
    uint32_t room = context->device_count, count = 0;
    for (uint32_t i = 0; i < context->registry.count; i++)
        room += context->registry.plugins[i].device_count;
    dhow_device **found = dhowi_alloc_array(room, sizeof(dhow_device *));
    dhow_device **all = dhowi_alloc_array(room, sizeof(dhow_device *));
    dhow_status status = found != NULL && all != NULL ? find_new(context, found, &count)
                                                      : dhowi_fail_memory("devices");
    if (status != DHOW_OK) {
        drop_devices(found, count);
        dhowi_free(all);
        dhowi_free(found);
        return status;
    }
    if (context->device_count > 0)
        memcpy(all, context->devices, context->device_count * sizeof(dhow_device *));
    for (uint32_t i = 0; i < count; i++) {
        insert(all, context->device_count + i, found[i]);
        if (strcmp(found[i]->name, "cpu:0") == 0) context->cpu = found[i];
    }
    for (uint32_t i = 0; i < context->registry.count; i++)
        context->registry.plugins[i].listed = context->registry.plugins[i].taken;
    dhowi_free(context->devices);
    context->devices = all;
    context->device_count += count;
    dhowi_free(found);
    find_same_hardware(context);
    return DHOW_OK;
}

static dhow_status complete(dhow_context *context) {
    context->completing = true;
    dhowi_registry_take_rest(&context->registry);
    dhow_status status = dhowi_context_list(context);
    context->completing = false;
    if (status == DHOW_OK) atomic_store_explicit(&context->complete, true, memory_order_release);
    return status;
}

dhow_status dhowi_context_complete(dhow_context *context) {
    if (atomic_load_explicit(&context->complete, memory_order_acquire)) return DHOW_OK;
    /* A forked child uses no device; the lock may be held by a thread that is not there. */
    if (context->cpu->fork_generation != dhowi_fork_generation()) return DHOW_OK;
    dhow_status status = DHOW_OK;
    dhowi_plugins_lock();
    pthread_mutex_lock(&context->discovery);
    if (!atomic_load(&context->complete) && !context->completing) status = complete(context);
    pthread_mutex_unlock(&context->discovery);
    dhowi_plugins_unlock();
    return status;
}

uint32_t dhow_device_count(const dhow_context *context) {
    if (!dhowi_handle_is(context, DHOWI_CONTEXT)) return 0;
    dhow_status status = dhowi_context_complete((dhow_context *)(uintptr_t)context);
    (void)status; /* what there is no memory for is not counted; dhow_device_at() says so */
    return context->device_count;
}

dhow_status dhow_device_at(dhow_context *context, uint32_t index, dhow_device **out) {
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_device_at: out is NULL");
    *out = NULL;
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, "dhow_device_at", "context"));
    DHOWI_TRY(dhowi_context_complete(context));
    if (index >= context->device_count) {
        return dhowi_fail(DHOW_OUT_OF_RANGE,
                          "dhow_device_at: index %u, the context has %u device%s", index,
                          context->device_count, context->device_count == 1 ? "" : "s");
    }
    *out = context->devices[index];
    return DHOW_OK;
}
