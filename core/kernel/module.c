/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules: kernel text or binaries of users, and of the built-in units. See dhow/kernel.h.
 */
#include "kernel/module.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/objects/struct_size.h"
#include "base/text/text.h"
#include "kernel/builtin.h"

enum { LOG_BYTES = 16384 };

/* The calling thread's log; it ends with the thread. */
static pthread_key_t g_log_key;
static pthread_once_t g_log_once = PTHREAD_ONCE_INIT;
static bool g_has_log_key;

static void make_log_key(void) { g_has_log_key = pthread_key_create(&g_log_key, dhowi_free) == 0; }

/* NULL before the thread's first build, and when there is no memory for it. */
static char *thread_log(void) {
    (void)pthread_once(&g_log_once, make_log_key);
    return g_has_log_key ? pthread_getspecific(g_log_key) : NULL;
}

static char *empty_thread_log(void) {
    char *log = thread_log();
    if (log == NULL && g_has_log_key) {
        log = dhowi_alloc(LOG_BYTES);
        if (log != NULL && pthread_setspecific(g_log_key, log) != 0) {
            dhowi_free(log);
            log = NULL;
        }
    }
    if (log != NULL) log[0] = '\0';
    return log;
}

const char *dhow_module_log(void) {
    const char *log = thread_log();
    return log != NULL ? log : "";
}

/* ---- building ---- */

/* The parameters of a module's kernels, as handed to the plugin. */
typedef struct kernel_decl {
    dhow_kernel_decl decl;
    dhowi_signature signature; /* whose names the params borrow */
    dhow_kernel_param params[DHOW_MAX_KERNEL_ARGS];
} kernel_decl;

static dhow_status decl_of(const dhowi_found_kernel *kernel, kernel_decl *out) {
    out->decl = (dhow_kernel_decl){.name = kernel->name, .signature = kernel->signature};
    if (kernel->signature[0] == '\0') return DHOW_OK;
    DHOWI_TRY(dhowi_signature_parse(kernel->name, kernel->signature, &out->signature));
    for (uint32_t i = 0; i < out->signature.count; i++) {
        const dhowi_param *p = &out->signature.params[i];
        out->params[i] = (dhow_kernel_param){p->kind, p->type, p->name};
    }
    out->decl.params = out->params;
    out->decl.param_count = out->signature.count;
    return DHOW_OK;
}

char *dhowi_unpacked(const unsigned char *packed) {
    char *text = dhowi_alloc(dhowi_unpack(packed, NULL) + 1);
    if (text != NULL)
        (void)dhowi_unpack(packed, text);
    else
        (void)dhowi_fail_memory("kernels");
    return text;
}

/* The text of dhow/kernel/k.h, as long as the device is there. */
static void *make_header(dhow_device *device) {
    (void)device;
    return dhowi_unpacked(dhowi_kernel_header);
}

static void end_header(void *device, void *text) {
    (void)device;
    dhowi_free(text);
}

static dhow_status build_declared(dhow_module *m, int width, const dhow_kernel_decl *decls,
                                  void **out_native) {
    char *log = empty_thread_log();
    bool portable = m->format == DHOW_MODULE_PORTABLE;
    const char *header = NULL;
    if (portable) {
        header = dhowi_device_attach(m->device, DHOWI_ATTACH_HEADER, make_header, end_header);
        if (header == NULL) return DHOW_OUT_OF_MEMORY; /* told */
    }
    dhow_module_desc desc = {.struct_size = (uint32_t)sizeof desc,
                             .format = m->format,
                             .name = m->name,
                             .text = m->text,
                             .text_bytes = m->text_bytes,
                             .header = header,
                             .options = m->options,
                             .kernels = decls,
                             .kernel_count = m->kernel_count,
                             .index_bits = width == DHOWI_INDEX_64 ? 64 : 32,
                             .log = log,
                             .log_bytes = log != NULL ? LOG_BYTES : 0,
                             .images = m->images,
                             .image_count = m->image_count,
                             .flags = m->builtin ? DHOW_MODULE_BUILTIN : 0};
    dhow_error err;
    dhowi_error_init(&err);
    *out_native = NULL;
    int32_t code =
        m->device->api->module_build(dhowi_device_native(m->device), &desc, out_native, &err);
    if (log != NULL) log[LOG_BYTES - 1] = '\0';
    if (code == DHOW_OK) return DHOW_OK;
    dhow_status status = dhowi_device_failed(m->device, &err, code, m->name);
    return portable && status == DHOW_COMPILE_ERROR ? dhowi_portable_hint(status) : status;
}

static dhow_status build(dhow_module *m, int width, void **out_native) {
    kernel_decl *all = dhowi_alloc_array(m->kernel_count, sizeof *all);
    dhow_kernel_decl *decls = dhowi_alloc_array(m->kernel_count, sizeof *decls);
    dhow_status status = DHOW_OK;
    if (m->kernel_count > 0 && (all == NULL || decls == NULL)) status = dhowi_fail_memory("module");
    for (uint32_t i = 0; i < m->kernel_count && status == DHOW_OK; i++) {
        status = decl_of(&m->kernels[i], &all[i]);
        decls[i] = all[i].decl;
    }
    if (status == DHOW_OK) status = build_declared(m, width, decls, out_native);
    dhowi_free(all);
    dhowi_free(decls);
    return status;
}

dhow_status dhowi_module_native(dhow_module *m, int width, void **out) {
    *out = atomic_load_explicit(&m->native[width], memory_order_acquire);
    if (*out != NULL) return DHOW_OK;
    DHOWI_TRY(dhowi_device_usable(m->device));
    dhow_status status = DHOW_OK;
    pthread_mutex_lock(&m->mutex);
    *out = atomic_load(&m->native[width]);
    if (*out == NULL) {
        status = build(m, width, out);
        if (status == DHOW_OK) atomic_store_explicit(&m->native[width], *out, memory_order_release);
    }
    pthread_mutex_unlock(&m->mutex);
    return status;
}

/* ---- making ---- */

static dhow_status fill(dhow_module *m, const char *name, const void *text, uint64_t bytes,
                        const char *options) {
    (void)dhowi_copy_text(m->name, sizeof m->name, name);
    m->text = dhowi_alloc((size_t)bytes + 1);
    m->options = dhowi_strdup(options);
    if (m->text == NULL || m->options == NULL) return dhowi_fail_memory("module");
    memcpy(m->text, text, (size_t)bytes);
    m->text_bytes = bytes;
    return DHOW_OK;
}

dhow_status dhowi_module_new(dhow_device *device, uint32_t format, const char *name,
                             const void *text, uint64_t bytes, const char *options,
                             dhow_module **out) {
    *out = NULL;
    dhow_module *m = dhowi_handle_new(DHOWI_MODULE, sizeof *m);
    if (m == NULL) return dhowi_fail_memory("module");
    m->device = device;
    m->format = format;
    pthread_mutex_init(&m->mutex, NULL);
    dhow_status status = fill(m, name, text, bytes, options);
    if (status != DHOW_OK) {
        dhowi_module_end(m);
        return status;
    }
    *out = m;
    return DHOW_OK;
}

void dhowi_module_end(dhow_module *m) {
    bool forked = m->device->fork_generation != dhowi_fork_generation();
    for (int w = 0; w < DHOWI_INDEX_WIDTHS; w++) {
        void *native = atomic_load(&m->native[w]);
        if (native != NULL && !forked) m->device->api->module_free(native);
    }
    pthread_mutex_destroy(&m->mutex);
    dhowi_free(m->kernels);
    dhowi_free(m->text);
    dhowi_free(m->options);
    dhowi_handle_free(DHOWI_MODULE, m);
}

static dhow_status declare(dhow_module *m, const dhow_module_source *source) {
    if (m->format == DHOW_MODULE_PORTABLE) {
        DHOWI_TRY(dhowi_find_kernels(m->name, m->text, m->options, &m->kernels, &m->kernel_count));
        for (uint32_t i = 0; i < m->kernel_count; i++)
            DHOWI_TRY(dhowi_portable_name(m->name, m->kernels[i].name));
        return DHOW_OK;
    }
    if (source->signatures == NULL) return DHOW_OK;
    return dhowi_parse_declarations(m->name, source->signatures, &m->kernels, &m->kernel_count);
}

dhow_status dhow_module_build(dhow_device *device, const dhow_module_source *given,
                              dhow_module **out) {
    static const char function[] = "dhow_module_build";
    dhow_module_source own, *source = &own;
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    char *log = thread_log();
    if (log != NULL) log[0] = '\0';
    DHOWI_TRY(dhowi_device_check(device, function));
    DHOWI_TRY(DHOWI_STRUCT_IN(dhow_module_source, given, source, function, "source"));
    if ((source->text == NULL) == (source->image == NULL)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: give either source->text or source->image",
                          function);
    }
    uint32_t format = source->format != 0 ? source->format : DHOW_MODULE_PORTABLE;
    const void *text = source->text != NULL ? (const void *)source->text : source->image;
    uint64_t bytes = source->text != NULL ? strlen(source->text) : source->image_bytes;
    bool portable = format == DHOW_MODULE_PORTABLE;
    DHOWI_TRY(dhowi_device_open(device));
    dhow_module *m;
    DHOWI_TRY(dhowi_module_new(device, format, source->name != NULL ? source->name : "kernel text",
                               text, bytes, source->options != NULL ? source->options : "", &m));
    m->images = portable ? source->images : NULL;
    m->image_count = m->images != NULL ? source->image_count : 0;
    void *native;
    dhow_status status = declare(m, source);
    /* Mistakes shall show now, not at the first launch. */
    if (status == DHOW_OK) status = dhowi_module_native(m, dhowi_index_width(device, 0), &native);
    if (status != DHOW_OK) {
        dhowi_module_end(m);
        return status;
    }
    dhowi_handle_retain(&device->context->handle);
    *out = m;
    return DHOW_OK;
}

void dhow_module_release(dhow_module *module) {
    DHOWI_KEEP_ERROR;
    if (!dhowi_handle_is(module, DHOWI_MODULE) || !dhowi_handle_drop(&module->handle)) return;
    dhow_context *context = module->device->context;
    /* Launched kernels may still run; their failures belong to those who sync their streams. */
    dhow_status ignored = dhow_device_sync(module->device);
    (void)ignored;
    dhowi_module_end(module);
    dhowi_context_drop(context);
}
