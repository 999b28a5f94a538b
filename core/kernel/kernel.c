/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels: of modules, and the built-in ones of each device.
 */
#include "kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/text.h"
#include "kernel/builtin.h"
#include "kernel/module.h"

/* ---- built-in kernels of a device ---- */

typedef struct unit_module {
    struct unit_module *next;
    const char *unit, *options;
    dhow_module *module;
} unit_module;

typedef struct device_kernels {
    pthread_mutex_t mutex;
    unit_module *units;
    _Atomic(dhow_kernel *) kernels[]; /* as the generated table */
} device_kernels;

static int compare_names(const void *key, const void *entry) {
    return strcmp(key, ((const dhowi_builtin *)entry)->name);
}

int32_t dhowi_builtin_index(const char *name) {
    const dhowi_builtin *found = bsearch(name, dhowi_builtin_kernels, dhowi_builtin_kernel_count,
                                         sizeof *dhowi_builtin_kernels, compare_names);
    return found != NULL ? (int32_t)(found - dhowi_builtin_kernels) : -1;
}

static void *make_kernels(dhow_device *device) {
    (void)device;
    device_kernels *k = dhowi_alloc(sizeof *k + dhowi_builtin_kernel_count * sizeof k->kernels[0]);
    if (k == NULL) {
        (void)dhowi_fail_memory("kernels");
        return NULL;
    }
    pthread_mutex_init(&k->mutex, NULL);
    return k;
}

static void end_kernels(void *device, void *data) {
    (void)device;
    device_kernels *k = data;
    for (size_t i = 0; i < dhowi_builtin_kernel_count; i++) {
        dhow_kernel *kernel = atomic_load(&k->kernels[i]);
        if (kernel != NULL) dhowi_handle_free(DHOWI_KERNEL, kernel);
    }
    while (k->units != NULL) {
        unit_module *u = k->units;
        k->units = u->next;
        dhowi_module_end(u->module);
        dhowi_free(u);
    }
    pthread_mutex_destroy(&k->mutex);
    dhowi_free(k);
}

static device_kernels *kernels_of(dhow_device *device) {
    return dhowi_device_attach(device, DHOWI_ATTACH_KERNELS, make_kernels, end_kernels);
}

static dhow_status unit_text(const char *unit, char **out) {
    *out = NULL;
    for (size_t i = 0; i < dhowi_builtin_unit_count; i++) {
        const dhowi_builtin_unit *u = &dhowi_builtin_units[i];
        if (strcmp(u->name, unit) != 0) continue;
        *out = dhowi_unpacked(u->text);
        return *out != NULL ? DHOW_OK : DHOW_OUT_OF_MEMORY;
    }
    return dhowi_fail(DHOW_INTERNAL, "no text of %s is embedded", unit);
}

/* Declares every kernel of the same unit and options, so that one build serves them all. */
static dhow_status declare_unit(dhow_module *m, const dhowi_builtin *wanted) {
    uint32_t count = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < dhowi_builtin_kernel_count; i++) {
            const dhowi_builtin *b = &dhowi_builtin_kernels[i];
            if (strcmp(b->unit, wanted->unit) != 0 || strcmp(b->options, wanted->options) != 0)
                continue;
            if (pass == 0) {
                count++;
            } else {
                dhowi_found_kernel *k = &m->kernels[m->kernel_count++];
                (void)dhowi_copy_text(k->name, sizeof k->name, b->name);
                (void)dhowi_copy_text(k->signature, sizeof k->signature, b->signature);
            }
        }
        if (pass == 0) {
            m->kernels = dhowi_alloc_array(count, sizeof *m->kernels);
            if (m->kernels == NULL) return dhowi_fail_memory("kernels");
        }
    }
    return DHOW_OK;
}

/* Under the mutex. */
static dhow_status unit_of(device_kernels *k, dhow_device *device, const dhowi_builtin *b,
                           dhow_module **out) {
    for (unit_module *u = k->units; u != NULL; u = u->next) {
        if (strcmp(u->unit, b->unit) == 0 && strcmp(u->options, b->options) == 0) {
            *out = u->module;
            return DHOW_OK;
        }
    }
    char *text;
    DHOWI_TRY(unit_text(b->unit, &text));
    unit_module *u = dhowi_alloc(sizeof *u);
    dhow_status status = u != NULL ? dhowi_module_new(device, DHOW_MODULE_PORTABLE, b->unit, text,
                                                      strlen(text), b->options, &u->module)
                                   : dhowi_fail_memory("kernels");
    dhowi_free(text);
    if (status == DHOW_OK) {
        u->module->builtin = true;
        status = declare_unit(u->module, b);
        if (status != DHOW_OK) dhowi_module_end(u->module);
    }
    if (status != DHOW_OK) {
        dhowi_free(u);
        return status;
    }
    u->unit = b->unit;
    u->options = b->options;
    u->next = k->units;
    k->units = u;
    *out = u->module;
    return DHOW_OK;
}

dhow_status dhowi_builtin_kernel(dhow_device *device, int32_t index, dhow_kernel **out) {
    device_kernels *k = dhowi_device_attached(device, DHOWI_ATTACH_KERNELS);
    *out = k != NULL ? atomic_load_explicit(&k->kernels[index], memory_order_acquire) : NULL;
    if (*out != NULL) return DHOW_OK;
    DHOWI_TRY(dhowi_device_open(device));
    k = kernels_of(device);
    if (k == NULL) return DHOW_OUT_OF_MEMORY;
    const dhowi_builtin *b = &dhowi_builtin_kernels[index];
    dhow_status status = DHOW_OK;
    pthread_mutex_lock(&k->mutex);
    dhow_kernel *kernel = atomic_load(&k->kernels[index]);
    if (kernel == NULL) {
        kernel = dhowi_handle_new(DHOWI_KERNEL, sizeof *kernel);
        if (kernel == NULL) status = dhowi_fail_memory("kernel");
        if (status == DHOW_OK)
            status = dhowi_signature_parse(b->name, b->signature, &kernel->signature);
        if (status == DHOW_OK) {
            kernel->device = device;
            kernel->builtin = kernel->checked = true;
            kernel->signature_text = b->signature;
            (void)dhowi_copy_text(kernel->name, sizeof kernel->name, b->name);
            atomic_store_explicit(&k->kernels[index], kernel, memory_order_release);
        } else if (kernel != NULL) {
            dhowi_handle_free(DHOWI_KERNEL, kernel);
        }
    }
    pthread_mutex_unlock(&k->mutex);
    *out = status == DHOW_OK ? kernel : NULL;
    return status;
}

dhow_status dhowi_builtin_kernel_named(dhow_device *device, const char *name, dhow_kernel **out) {
    *out = NULL;
    int32_t index = dhowi_builtin_index(name);
    if (index < 0)
        return dhowi_fail(DHOW_UNSUPPORTED, "%s: there is no built-in kernel %s", device->name,
                          name);
    return dhowi_builtin_kernel(device, index, out);
}

/* Under the device's kernel mutex: the plugin's own kernel, else one built from the text. */
static dhow_status find_builtin(dhow_kernel *kernel, device_kernels *k, int width, void **out) {
    dhow_device *device = kernel->device;
    uint32_t bits = width == DHOWI_INDEX_64 ? 64 : 32;
    dhow_error err;
    dhowi_error_init(&err);
    int32_t code =
        device->api->builtin_kernel(dhowi_device_native(device), kernel->name, bits, out, &err);
    if (code == DHOW_OK) return DHOW_OK;
    if (code != DHOW_NOT_FOUND) return dhowi_device_failed(device, &err, code, kernel->name);
    const dhowi_builtin *b = &dhowi_builtin_kernels[dhowi_builtin_index(kernel->name)];
    dhow_module *module = NULL;
    void *native;
    DHOWI_TRY(unit_of(k, device, b, &module));
    dhow_status status = dhowi_module_native(module, width, &native);
    if (status == DHOW_UNSUPPORTED) {
        return dhowi_fail_prefix(status, "the kernel %s does not exist on %s", kernel->name,
                                 device->name);
    }
    DHOWI_TRY(status);
    code = device->api->module_kernel(native, kernel->name, out, &err);
    return code == DHOW_OK ? DHOW_OK : dhowi_device_failed(device, &err, code, kernel->name);
}

static dhow_status find_in_module(dhow_kernel *kernel, int width, void **out) {
    void *native;
    DHOWI_TRY(dhowi_module_native(kernel->module, width, &native));
    dhow_error err;
    dhowi_error_init(&err);
    int32_t code = kernel->device->api->module_kernel(native, kernel->name, out, &err);
    return code == DHOW_OK ? DHOW_OK
                           : dhowi_device_failed(kernel->device, &err, code, kernel->name);
}

dhow_status dhowi_kernel_native(dhow_kernel *kernel, int width, void **out) {
    *out = atomic_load_explicit(&kernel->native[width], memory_order_acquire);
    if (*out != NULL) return DHOW_OK;
    dhow_status status;
    if (kernel->builtin) {
        device_kernels *k = kernels_of(kernel->device);
        pthread_mutex_lock(&k->mutex);
        status = find_builtin(kernel, k, width, out);
        pthread_mutex_unlock(&k->mutex);
    } else {
        status = find_in_module(kernel, width, out);
    }
    if (status == DHOW_OK)
        atomic_store_explicit(&kernel->native[width], *out, memory_order_release);
    return status;
}

/* ---- the public side ---- */

dhow_status dhow_kernel_get(dhow_device *device, const char *name, dhow_kernel **out) {
    static const char function[] = "dhow_kernel_get";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_device_check(device, function));
    if (name == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: name is NULL", function);
    int32_t index = dhowi_builtin_index(name);
    if (index < 0) {
        return dhowi_fail(DHOW_NOT_FOUND,
                          "%s: there is no built-in kernel '%.64s'; names are like softmax_f16",
                          function, name);
    }
    dhow_kernel *kernel;
    void *native;
    DHOWI_TRY(dhowi_builtin_kernel(device, index, &kernel));
    DHOWI_TRY(dhowi_kernel_native(kernel, dhowi_index_width(device, 0), &native));
    dhowi_handle_retain(&kernel->handle);
    dhowi_handle_retain(&device->context->handle);
    *out = kernel;
    return DHOW_OK;
}

static const dhowi_found_kernel *find_declared(const dhow_module *m, const char *name) {
    for (uint32_t i = 0; i < m->kernel_count; i++) {
        if (strcmp(m->kernels[i].name, name) == 0) return &m->kernels[i];
    }
    return NULL;
}

static dhow_status fail_no_kernel(const dhow_module *m, const char *name) {
    char names[512];
    dhowi_text text = DHOWI_TEXT(names);
    for (uint32_t i = 0; i < m->kernel_count; i++) {
        dhowi_text_add(&text, "%s%s", i > 0 ? ", " : "", m->kernels[i].name);
    }
    return dhowi_fail(DHOW_NOT_FOUND, "%s has no kernel '%.64s'; it has %s", m->name, name, names);
}

dhow_status dhow_module_kernel(dhow_module *module, const char *name, dhow_kernel **out) {
    static const char function[] = "dhow_module_kernel";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_handle_check(module, DHOWI_MODULE, function, "module"));
    if (name == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: name is NULL", function);
    const dhowi_found_kernel *declared = find_declared(module, name);
    if (declared == NULL && module->kernel_count > 0) return fail_no_kernel(module, name);
    dhow_kernel *kernel = dhowi_handle_new(DHOWI_KERNEL, sizeof *kernel);
    if (kernel == NULL) return dhowi_fail_memory("kernel");
    dhow_status status = DHOW_OK;
    kernel->device = module->device;
    kernel->module = module;
    kernel->signature_text = declared != NULL ? declared->signature : "";
    kernel->checked = declared != NULL;
    (void)dhowi_copy_text(kernel->name, sizeof kernel->name, name);
    if (declared != NULL)
        status = dhowi_signature_parse(name, declared->signature, &kernel->signature);
    void *native;
    if (status == DHOW_OK) {
        status = dhowi_kernel_native(kernel, dhowi_index_width(module->device, 0), &native);
    }
    if (status != DHOW_OK) {
        dhowi_handle_free(DHOWI_KERNEL, kernel);
        return status;
    }
    dhowi_handle_retain(&module->handle);
    *out = kernel;
    return DHOW_OK;
}

void dhow_kernel_release(dhow_kernel *kernel) {
    DHOWI_KEEP_ERROR;
    if (!dhowi_handle_is(kernel, DHOWI_KERNEL)) return;
    dhow_module *module = kernel->module;
    dhow_context *context = kernel->device->context;
    bool last = dhowi_handle_drop(&kernel->handle);
    if (kernel->builtin) { /* the device's own reference remains */
        dhowi_context_drop(context);
    } else if (last) {
        dhowi_handle_free(DHOWI_KERNEL, kernel);
        dhow_module_release(module);
    }
}

const char *dhow_kernel_signature(const dhow_kernel *kernel) {
    return dhowi_handle_is(kernel, DHOWI_KERNEL) ? kernel->signature_text : "";
}
