/* SPDX-License-Identifier: Apache-2.0
 *
 * See dhow/context.h.
 */
#include "device/context.h"

#include <sys/auxv.h>

#include "base/memory/alloc.h"
#include "base/objects/call_sites.h"
#include "base/objects/struct_size.h"
#include "base/text/text.h"
#include "device/trace.h"

/* ---- devices ---- */

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
    DHOWI_TRY(dhowi_read_log_level(&context->log));
    DHOWI_TRY(dhowi_read_threads(options->num_threads, &context->log, &how.cpu_threads));
    DHOWI_TRY(dhowi_read_isolate(options->isolate_probes, &how.isolate));
    DHOWI_TRY(dhowi_read_validate(&context->validate));
    DHOWI_TRY(dhowi_read_collectives(&context->collectives));
    DHOWI_TRY(dhowi_read_splits(&context->splits));
    if (context->validate) atomic_fetch_add(&dhowi_call_sites_users, 1);
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
    DHOWI_TRY(dhowi_context_list(context));
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
    if (ours) end_attachment(&context->background_work, context);
    if (ours) end_attachment(&context->steps, context);
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
    pthread_mutex_destroy(&context->discovery);
    bool validate = context->validate;
    dhowi_handle_free(DHOWI_CONTEXT, context);
    if (validate) dhowi_call_sites_leave();
}

dhow_status dhow_context_create(const dhow_context_options *options, dhow_context **out) {
    static const char function[] = "dhow_context_create";
    dhow_context_options own = DHOW_INIT(dhow_context_options);
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(DHOWI_STRUCT_IN(dhow_context_options, options, &own, function, "options"));
    dhow_context *context = dhowi_handle_new(DHOWI_CONTEXT, sizeof *context);
    if (context == NULL) return dhowi_fail_memory("context");
    pthread_mutex_init(&context->mutex, NULL);
    dhowi_mutex_init_recursive(&context->discovery);
    atomic_init(&context->users, 1);
    dhow_status status = init_context(context, &own);
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

static bool drop_user(dhow_context *context, uint32_t *out_left) {
    uint32_t seen = atomic_load(&context->users);
    while (seen > 0 && !atomic_compare_exchange_weak(&context->users, &seen, seen - 1)) {
    }
    *out_left = seen - 1;
    return seen > 0;
}

void dhowi_context_forget_steps(dhow_context *context) {
    void *steps = atomic_load_explicit(&context->steps.data, memory_order_acquire);
    if (steps != NULL) context->forget_steps(steps);
}

/* Models of eager calls hold the context, and so does background work: with the program's last
 * reference those are released and this is awaited here, so that the context ends on this thread.
 */
static void leave(dhow_context *context) {
    bool ours = context->device_count == 0 ||
                context->devices[0]->fork_generation == dhowi_fork_generation();
    void *work = atomic_load_explicit(&context->background_work.data, memory_order_acquire);
    if (ours) dhowi_context_forget_steps(context);
    if (ours && work != NULL) context->drain(work);
}

void dhow_context_release(dhow_context *context) {
    DHOWI_KEEP_ERROR;
    uint32_t left;
    if (!dhowi_handle_is(context, DHOWI_CONTEXT) || !drop_user(context, &left)) return;
    if (left == 0) {
        leave(context);
        if (atomic_load(&context->handle.references) > 1) dhowi_trace_at_release(context);
    }
    if (context->validate && atomic_load(&context->handle.references) > 1)
        dhowi_report_living(context);
    dhowi_context_drop(context);
}

/* `hook` becomes `work`, which is done with the program's last reference. */
static void *attach(dhow_context *context, dhowi_attachment *slot,
                    void *(*make)(dhow_context *context), void (*end)(void *context, void *data),
                    void (**hook)(void *data), void (*work)(void *data)) {
    void *data = atomic_load_explicit(&slot->data, memory_order_acquire);
    if (data != NULL) return data;
    pthread_mutex_lock(&context->mutex);
    data = atomic_load(&slot->data);
    if (data == NULL) {
        data = make(context);
        slot->end = end;
        *hook = work;
        atomic_store_explicit(&slot->data, data, memory_order_release);
    }
    pthread_mutex_unlock(&context->mutex);
    return data;
}

void *dhowi_context_attach_work(dhow_context *context, void *(*make)(dhow_context *context),
                                void (*end)(void *context, void *data),
                                void (*drain_data)(void *data)) {
    return attach(context, &context->background_work, make, end, &context->drain, drain_data);
}

void *dhowi_context_attach_steps(dhow_context *context, void *(*make)(dhow_context *context),
                                 void (*end)(void *context, void *data),
                                 void (*forget)(void *data)) {
    return attach(context, &context->steps, make, end, &context->forget_steps, forget);
}
