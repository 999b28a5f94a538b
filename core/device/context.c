/* SPDX-License-Identifier: Apache-2.0
 *
 * See dhow/context.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/alloc.h"
#include "base/machine.h"
#include "base/places.h"
#include "base/size.h"
#include "base/text.h"
#include "device/device.h"
#include "device/trace.h"

/* ---- settings ---- */

static dhow_status read_log_level(dhowi_log *log) {
    const char *text = dhowi_env("DHOW_LOG");
    log->level = DHOW_LOG_WARN;
    if (text != NULL && !dhowi_parse_log_level(text, &log->level)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "DHOW_LOG: '%.64s' is none of error, warn, info, debug", text);
    }
    return DHOW_OK;
}

static dhow_status read_threads(int32_t option, const dhowi_log *log, uint32_t *out) {
    enum { MAX_THREADS = 4096 };
    int64_t threads = option;
    const char *text = dhowi_env("DHOW_NUM_THREADS");
    if (option < 0 || option > MAX_THREADS) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "num_threads is %d; 0 to %d is allowed", option,
                          MAX_THREADS);
    }
    if (option == 0 && text != NULL &&
        !dhowi_parse_i64(text, strlen(text), 1, MAX_THREADS, &threads)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "DHOW_NUM_THREADS: '%.64s' is no number from 1 to %d", text, MAX_THREADS);
    }
    *out = threads > 0 ? (uint32_t)threads : dhowi_machine_cores("");
    if (dhowi_fork_generation() > 0 && *out > 1) {
        /* GNU's OpenMP waits for its threads, which stayed in the parent. */
        dhowi_log_line(log, DHOW_LOG_INFO, "the CPU computes with one thread in a forked child");
        *out = 1;
    }
    return DHOW_OK;
}

static dhow_status read_isolate(int32_t option, bool *out) {
    const char *text = dhowi_env("DHOW_ISOLATE");
    *out = false;
    if (text != NULL && !dhowi_parse_switch(text, out)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "DHOW_ISOLATE: '%.64s' is none of 0, 1, on, off",
                          text);
    }
    *out = *out || option != 0;
    return DHOW_OK;
}

static dhow_status read_validate(bool *out) {
    const char *text = dhowi_env("DHOW_VALIDATE");
    *out = false;
    if (text != NULL && !dhowi_parse_switch(text, out)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "DHOW_VALIDATE: '%.64s' is none of 0, 1, on, off",
                          text);
    }
    return DHOW_OK;
}

/* ---- devices ---- */

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

/* Adds what is new; all of it, or nothing. */
static dhow_status list_devices(dhow_context *context) {
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
    dhow_status status = list_devices(context);
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

static dhow_status require_cpu(const dhow_context *context) {
    if (context->cpu != NULL) return DHOW_OK;
    const dhowi_plugin *cpu = dhowi_registry_find(&context->registry, "cpu", 3);
    if (cpu == NULL && getauxval(AT_SECURE) != 0) {
        return dhowi_fail(
            DHOW_UNAVAILABLE,
            "the cpu plugin, which is always needed, was not found; this program runs in secure "
            "mode (setuid or with file capabilities), where DHOW_PLUGIN_PATH is ignored and only "
            "%s is searched: install dhow there, or set plugin_path in dhow_context_options",
            DHOWI_PLUGIN_DIR);
    }
    return dhowi_fail(
        DHOW_UNAVAILABLE, "the cpu plugin, which is always needed, is not ready: %s; %s",
        cpu != NULL ? cpu->reason : "no libdhow_cpu.so was found",
        cpu != NULL ? cpu->hint : "install dhow again, or name its folder in DHOW_PLUGIN_PATH");
}

/* ---- the context ---- */

static dhow_status init_context(dhow_context *context, const dhow_context_options *options) {
    dhowi_discovery how = {
        .plugin_path = options->plugin_path,
        .backends = options->backends != NULL ? options->backends : dhowi_env("DHOW_BACKENDS")};
    const char *choice = options->device != NULL ? options->device : dhowi_env("DHOW_DEVICE");
    const char *cache =
        options->cache_dir != NULL ? options->cache_dir : dhowi_env("DHOW_CACHE_DIR");
    context->log.fn = options->log;
    context->log.user = options->log_user;
    DHOWI_TRY(dhowi_fork_watch());
    DHOWI_TRY(read_log_level(&context->log));
    DHOWI_TRY(read_threads(options->num_threads, &context->log, &how.cpu_threads));
    DHOWI_TRY(read_isolate(options->isolate_probes, &how.isolate));
    DHOWI_TRY(read_validate(&context->validate));
    if (context->validate) atomic_fetch_add(&dhowi_places_users, 1);
    DHOWI_TRY(dhowi_disk_cache_init(&context->cache, cache, &context->log));
    if (choice != NULL) {
        if (dhowi_device_check_spec(choice) != DHOW_OK) {
            return dhowi_fail_prefix(DHOW_INVALID_ARGUMENT,
                                     options->device != NULL ? "device" : "DHOW_DEVICE");
        }
        context->device_choice = dhowi_strdup(choice);
        if (context->device_choice == NULL) return dhowi_fail_memory("context");
    }
    DHOWI_TRY(dhowi_registry_init(&context->registry, &how, &context->log, &context->cache));
    dhowi_warn_of_variables(&context->registry, &context->log);
    DHOWI_TRY(list_devices(context));
    DHOWI_TRY(require_cpu(context));
    return dhowi_trace_init(context);
}

static void end_attachment(dhowi_attachment *attachment, void *owner) {
    void *data = atomic_exchange(&attachment->data, NULL);
    if (data != NULL) attachment->end(owner, data);
}

static void close_device(dhow_device *device) {
    dhowi_plugins_lock();
    device->api->device_close(dhowi_device_native(device));
    dhowi_plugins_unlock();
}

static void end_context(dhow_context *context) {
    DHOWI_KEEP_ERROR;
    bool ours = context->device_count == 0 ||
                context->devices[0]->fork_generation == dhowi_fork_generation();
    /* In a forked child the drivers' state belongs to the parent: only our own memory is freed. */
    if (ours) end_attachment(&context->host_queue, context);
    for (int id = DHOWI_ATTACHMENTS; ours && id-- > 0;) {
        for (uint32_t i = 0; i < context->device_count; i++) {
            end_attachment(&context->devices[i]->attachments[id], context->devices[i]);
        }
    }
    dhowi_trace_fini(context);
    for (uint32_t i = 0; i < context->device_count; i++) {
        dhow_device *device = context->devices[i];
        if (ours && device->native != NULL) close_device(device);
        pthread_mutex_destroy(&device->mutex);
        dhowi_handle_free(DHOWI_DEVICE, device);
    }
    if (ours) dhowi_registry_fini(&context->registry);
    dhowi_free(context->devices);
    dhowi_free(context->device_choice);
    pthread_mutex_destroy(&context->mutex);
    pthread_mutex_destroy(&context->copying);
    pthread_mutex_destroy(&context->discovery);
    bool validate = context->validate;
    dhowi_handle_free(DHOWI_CONTEXT, context);
    if (validate) dhowi_places_leave();
}

dhow_status dhow_context_create(const dhow_context_options *options, dhow_context **out) {
    static const dhow_context_options defaults;
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_context_create: out is NULL");
    *out = NULL;
    dhow_context *context = dhowi_handle_new(DHOWI_CONTEXT, sizeof *context);
    if (context == NULL) return dhowi_fail_memory("context");
    pthread_mutex_init(&context->mutex, NULL);
    pthread_mutex_init(&context->copying, NULL);
    dhowi_mutex_init_recursive(&context->discovery);
    atomic_init(&context->users, 1);
    dhow_status status = init_context(context, options != NULL ? options : &defaults);
    if (status != DHOW_OK) {
        end_context(context);
        return status;
    }
    *out = context;
    return DHOW_OK;
}

dhow_status dhow_context_retain(dhow_context *context) {
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, "dhow_context_retain", "context"));
    atomic_fetch_add(&context->users, 1);
    dhowi_handle_retain(&context->handle);
    return DHOW_OK;
}

void dhowi_context_drop(dhow_context *context) {
    if (dhowi_handle_drop(&context->handle)) end_context(context);
}

enum { MAX_LISTED = 16 }; /* of a kind */

typedef struct living {
    dhowi_handle_kind kind;
    uint32_t count, listed;
    const void *objects[MAX_LISTED];
} living;

/* Streams of dhow's own have no place. */
static bool is_users(dhowi_handle_kind kind, const void *object) {
    char place[2 * DHOWI_PLACE_BYTES];
    return kind != DHOWI_STREAM || dhowi_place_text(object, place, sizeof place)[0] != '\0';
}

static void count_object(void *user, const void *object) {
    living *l = user;
    l->count += is_users(l->kind, object);
}

static void list_object(void *user, const void *object) {
    living *l = user;
    if (is_users(l->kind, object) && l->listed < MAX_LISTED) l->objects[l->listed++] = object;
}

/* The objects may be gone by now: only their addresses are used. */
static void report_objects(const dhow_context *context, const living *l) {
    char place[2 * DHOWI_PLACE_BYTES];
    for (uint32_t i = 0; i < l->listed; i++) {
        dhowi_log_line(&context->log, DHOW_LOG_WARN, "  %s %s lives%s",
                       l->kind == DHOWI_EVENT ? "an" : "a", dhowi_handle_kind_name(l->kind),
                       dhowi_place_text(l->objects[i], place, sizeof place));
    }
    if (l->count > l->listed)
        dhowi_log_line(&context->log, DHOW_LOG_WARN, "  and %u more of kind %s",
                       l->count - l->listed, dhowi_handle_kind_name(l->kind));
}

/* DHOW_VALIDATE: a program that gives up its context while it holds objects has most likely
 * forgotten them. */
static void report_living(const dhow_context *context) {
    char story[512];
    dhowi_text text = DHOWI_TEXT(story);
    living l = {0};
    for (l.kind = DHOWI_STREAM; l.kind < DHOWI_HANDLE_KINDS; l.kind++) {
        if (l.kind == DHOWI_STORAGE || l.kind == DHOWI_KERNEL) continue; /* dhow makes them, too */
        l.count = 0;
        dhowi_handle_each(l.kind, count_object, &l);
        if (l.count > 0)
            dhowi_text_add(&text, "%s%u of kind %s", text.length > 0 ? ", " : "", l.count,
                           dhowi_handle_kind_name(l.kind));
    }
    if (text.length == 0) return;
    dhowi_log_line(&context->log, DHOW_LOG_WARN,
                   "a context was released while these objects of the process live: %s", story);
    for (l.kind = DHOWI_STREAM; l.kind < DHOWI_HANDLE_KINDS; l.kind++) {
        if (l.kind == DHOWI_STORAGE || l.kind == DHOWI_KERNEL) continue;
        l.count = l.listed = 0;
        dhowi_handle_each(l.kind, count_object, &l);
        dhowi_handle_each(l.kind, list_object, &l);
        report_objects(context, &l); /* a log function may make objects, so not from inside */
    }
}

static bool drop_user(dhow_context *context, uint32_t *out_left) {
    uint32_t seen = atomic_load(&context->users);
    while (seen > 0 && !atomic_compare_exchange_weak(&context->users, &seen, seen - 1)) {
    }
    *out_left = seen - 1;
    return seen > 0;
}

/* Background work holds the context: with the program's last reference it is awaited here, so that
 * the context ends on this thread. */
static void drain(dhow_context *context) {
    bool ours = context->device_count == 0 ||
                context->devices[0]->fork_generation == dhowi_fork_generation();
    void *queue = atomic_load_explicit(&context->host_queue.data, memory_order_acquire);
    if (ours && queue != NULL) context->drain(queue);
}

void dhow_context_release(dhow_context *context) {
    DHOWI_KEEP_ERROR;
    uint32_t left;
    if (!dhowi_handle_is(context, DHOWI_CONTEXT) || !drop_user(context, &left)) return;
    if (left == 0) {
        drain(context);
        if (atomic_load(&context->handle.references) > 1) dhowi_trace_at_release(context);
    }
    if (context->validate && atomic_load(&context->handle.references) > 1) report_living(context);
    dhowi_context_drop(context);
}

void *dhowi_context_attach_host_queue(dhow_context *context, void *(*make)(dhow_context *context),
                                      void (*end)(void *context, void *data),
                                      void (*drain_data)(void *data)) {
    dhowi_attachment *slot = &context->host_queue;
    void *data = atomic_load_explicit(&slot->data, memory_order_acquire);
    if (data != NULL) return data;
    pthread_mutex_lock(&context->mutex);
    data = atomic_load(&slot->data);
    if (data == NULL) {
        data = make(context);
        slot->end = end;
        context->drain = drain_data;
        atomic_store_explicit(&slot->data, data, memory_order_release);
    }
    pthread_mutex_unlock(&context->mutex);
    return data;
}

/* ---- plugin records ---- */

uint32_t dhow_plugin_count(const dhow_context *context) {
    return dhowi_handle_is(context, DHOWI_CONTEXT) ? context->registry.count : 0;
}

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

dhow_status dhow_plugin_at(const dhow_context *context, uint32_t index, dhow_plugin_record *out) {
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_plugin_at: out is NULL");
    memset(out, 0, sizeof *out);
    dhowi_plugin *p = NULL;
    DHOWI_TRY(record(context, index, "dhow_plugin_at", &p));
    *out = (dhow_plugin_record){.path = p->path,
                                .backend = p->backend,
                                .version = p->version,
                                .state = p->state,
                                .reason = p->reason,
                                .hint = p->hint,
                                .device_count = p->device_count,
                                .component_count = p->component_count};
    return DHOW_OK;
}

dhow_status dhow_plugin_component_at(const dhow_context *context, uint32_t plugin, uint32_t index,
                                     dhow_plugin_component *out) {
    if (out == NULL)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_plugin_component_at: out is NULL");
    memset(out, 0, sizeof *out);
    dhowi_plugin *p = NULL;
    DHOWI_TRY(record(context, plugin, "dhow_plugin_component_at", &p));
    if (index >= p->component_count) {
        return dhowi_fail(DHOW_OUT_OF_RANGE,
                          "dhow_plugin_component_at: index %u, the plugin has %u", index,
                          p->component_count);
    }
    const dhow_component *c = &p->components[index];
    *out = (dhow_plugin_component){
        .name = c->name, .purpose = c->purpose, .detail = c->detail, .present = c->present};
    return DHOW_OK;
}
