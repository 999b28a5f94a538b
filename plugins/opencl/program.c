/* SPDX-License-Identifier: Apache-2.0
 *
 * The programs of a module: a text in OpenCL C, compiled or taken from the cache, in each form that
 * its kernels are wanted in.
 */
#include <stdio.h>
#include <string.h>

#include "cache.h"
#include "module.h"

/* dhow's own kernels are compiled once, in the form that takes every launch; a program's in the one
 * whose launches are cheaper by an argument, and again for the first launch with a part. */
static bool is_builtin(const dhow_module_desc *desc) {
    return desc->struct_size >= offsetof(dhow_module_desc, reserved) &&
           (desc->flags & DHOW_MODULE_BUILTIN) != 0;
}

/* Of dhow's own units a model uses few kernels. PoCL compiles a kernel at its first launch and
 * keeps it, but all of a program whose binary is asked for; other drivers compile all that they
 * build. */
static bool compiles_late(const dhowi_cl_device *device) { return dhowi_cl_is_pocl(device); }

/* Intel's compiler for processors unrolls a loop of known length before it vectorises loops, and
 * the copies of its body stay scalar or become gathers. */
static bool unrolls_first(const dhowi_cl_device *device) {
    static const char intel[] = "Intel(R) OpenCL";
    return strncmp(device->driver, intel, sizeof intel - 1) == 0;
}

/* Processors get the loop form, in which a group is one thread and its items are a loop that the
 * compiler vectorises; a group of items with barriers is 3 to 60 times slower there. A group size
 * among the module's own options asks for items and barriers everywhere, which is how that form is
 * tested without a GPU. */
static void add_options(dhowi_cl_module *module, const dhow_module_desc *desc) {
    const dhowi_cl_device *device = module->device;
    dhowi_cl_text *out = &module->options;
    if (strstr(desc->options, "-cl-std") == NULL) dhowi_cl_text_print(out, "-cl-std=CL1.2 ");
    if (desc->format == DHOW_MODULE_PORTABLE) {
        /* Neither infinities nor NaN are assumed away. PoCL counts warnings on stderr, and those of
         * a portable text are about what it makes of one for other languages. */
        dhowi_cl_text_print(out, "-cl-mad-enable -cl-no-signed-zeros -w ");
        if (strstr(desc->options, "-DK_WG=") == NULL) {
            if (device->is_cpu) {
                dhowi_cl_text_print(out, "-DK_LOOPS %s",
                                    unrolls_first(device) ? "-DK_ROLLED " : "");
                if (module->builtin)
                    module->first_form =
                        device->backend->joins_values ? DHOWI_CL_JOINED : DHOWI_CL_OFFSETS;
            } else {
                module->group_items = device->group_items; /* see dhowi_cl_module_build_form() */
            }
        }
        if (desc->index_bits == 64 && strstr(desc->options, "-DK_IDX64") == NULL)
            dhowi_cl_text_print(out, "-DK_IDX64 ");
    }
    dhowi_cl_text_add(out, desc->options, strlen(desc->options));
}

/* The line of the compiler's messages that names the first error. */
static void first_error(const char *log, char *out, size_t out_bytes) {
    const char *at = strstr(log, "error");
    if (at == NULL) at = log + strspn(log, "\n");
    while (at > log && at[-1] != '\n') at--;
    snprintf(out, out_bytes, "%.*s", (int)strcspn(at, "\n"), at);
}

/* Copies the compiler's messages to where the host wants them and returns the first error's line in
 * `line`. */
static void read_log(const dhowi_cl_device *device, cl_program program,
                     const dhow_module_desc *desc, char *line, size_t line_bytes) {
    size_t bytes = 0;
    line[0] = '\0';
    if (dhowi_cl.GetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) !=
            CL_SUCCESS ||
        bytes == 0 || bytes > SIZE_MAX / 2)
        return;
    char *log = dhowi_cl_new(device->host, bytes + 1);
    if (log == NULL) return;
    if (dhowi_cl.GetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, bytes, log, NULL) ==
        CL_SUCCESS) {
        if (desc->log != NULL && desc->log_bytes > 0)
            snprintf(desc->log, (size_t)desc->log_bytes, "%s", log);
        first_error(log, line, line_bytes);
    }
    dhowi_cl_delete(device->host, log);
}

static int32_t compile(dhowi_cl_device *device, const dhow_module_desc *desc,
                       const dhowi_cl_text *source, const char *options, cl_program *out,
                       dhow_error *err) {
    cl_int code = CL_SUCCESS;
    const char *text = source->data;
    char line[320];
    cl_program program =
        dhowi_cl.CreateProgramWithSource(device->context, 1, &text, &source->bytes, &code);
    if (code != CL_SUCCESS)
        return dhowi_cl_fail(err, code, "%s: '%.100s' makes no program", device->name, desc->name);
    code = dhowi_cl.BuildProgram(program, 1, &device->id, options, NULL, NULL);
    read_log(device, program, desc, line, sizeof line);
    if (code == CL_SUCCESS) {
        *out = program;
        return DHOW_OK;
    }
    dhowi_cl.ReleaseProgram(program);
    return dhowi_cl_fail(err, code, "'%.80s' does not compile for %.40s: %s", desc->name,
                         device->name, line);
}

static int32_t build_sized(dhowi_cl_module *module, const dhow_module_desc *desc,
                           const char *kernel, int form, cl_program *out, dhow_error *err) {
    dhowi_cl_text options = {.host = module->device->host};
    static const char *const flags[DHOWI_CL_FORMS] = {" -DK_PLAIN", "", " -DK_JOINED"};
    dhowi_cl_text_print(&options, "%s%s", module->options.data,
                        module->portable ? flags[form] : "");
    if (module->group_items > 0) dhowi_cl_text_print(&options, " -DK_WG=%u", module->group_items);
    if (module->alone) dhowi_cl_text_print(&options, " -DK_WANTED_%s=1", kernel);
    if (options.failed)
        return dhowi_cl_refuse(err, DHOW_OUT_OF_MEMORY,
                               "no host memory for the options of '%.200s'", desc->name);
    int32_t status = DHOW_OK;
    dhowi_cl_cache_key key = dhowi_cl_cache_key_of(module->device, module->source.data,
                                                   module->source.bytes, options.data);
    *out = dhowi_cl_cache_load(module->device, &key, options.data);
    if (*out == NULL) {
        status = compile(module->device, desc, &module->source, options.data, out, err);
        if (status == DHOW_OK && !(module->builtin && compiles_late(module->device)))
            dhowi_cl_cache_store(module->device, &key, *out);
    }
    dhowi_cl_text_free(&options);
    return status;
}

/* ---- groups that are too large ----
 * A device tells how many items a group may have at most, and a kernel that needs many registers or
 * much local memory may still not get as many: it is built anew for half of them. */

enum { LEAST_GROUP_ITEMS = 16 };

static bool lacks_resources(const dhow_error *err) {
    const char *text = err->message;
    if (err->native_code == CL_OUT_OF_RESOURCES || err->native_code == CL_INVALID_WORK_GROUP_SIZE)
        return true;
    return err->native_code == CL_BUILD_PROGRAM_FAILURE &&
           (strstr(text, "work_group_size") != NULL || strstr(text, "work group size") != NULL ||
            strstr(text, "resources") != NULL);
}

/* Under the build lock. */
static bool halve(dhowi_cl_module *module, const char *why) {
    char line[320];
    if (module->group_items < 2 * LEAST_GROUP_ITEMS) return false;
    module->group_items /= 2;
    (void)snprintf(line, sizeof line, "%.40s: '%.80s' is built for groups of %u items: %.100s",
                   module->device->name, module->name, module->group_items, why);
    module->device->host->log(module->device->host->user, DHOW_LOG_INFO, line);
    return true;
}

static int32_t build(dhowi_cl_module *module, const dhow_module_desc *desc, const char *kernel,
                     int form, cl_program *out, dhow_error *err) {
    int32_t status;
    do status = build_sized(module, desc, kernel, form, out, err);
    while (status != DHOW_OK && lacks_resources(err) && halve(module, err->message));
    return status;
}

int32_t dhowi_cl_module_build_whole(dhowi_cl_module *module, const dhow_module_desc *desc,
                                    dhow_error *err) {
    return build(module, desc, NULL, module->first_form, &module->programs[module->first_form],
                 err);
}

bool dhowi_cl_module_halve(dhowi_cl_module *module, size_t from, cl_int why) {
    bool halved = false;
    if (why != CL_OUT_OF_RESOURCES && why != CL_INVALID_WORK_GROUP_SIZE) return false;
    pthread_mutex_lock(&module->build_lock);
    if (module->group_items > 0 && module->group_items < from) {
        halved = true; /* another kernel of it was too large already */
    } else if (halve(module, dhowi_cl_error_name(why))) {
        halved = true;
        for (int form = 0; form < DHOWI_CL_FORMS; form++) {
            if (module->programs[form] != NULL) dhowi_cl.ReleaseProgram(module->programs[form]);
            module->programs[form] = NULL;
        }
    }
    pthread_mutex_unlock(&module->build_lock);
    return halved;
}

int32_t dhowi_cl_module_make_texts(dhowi_cl_module *module, const dhow_module_desc *desc,
                                   dhow_error *err) {
    module->source.host = module->options.host = module->device->host;
    if (desc->log != NULL && desc->log_bytes > 0) desc->log[0] = '\0';
    module->builtin = is_builtin(desc);
    module->alone = module->builtin && !compiles_late(module->device);
    add_options(module, desc);
    if (module->options.failed)
        return dhowi_cl_refuse(err, DHOW_OUT_OF_MEMORY,
                               "no host memory for the options of '%.200s'", desc->name);
    return module->portable ? dhowi_cl_source_portable(&module->source, desc, module->alone, err)
                            : dhowi_cl_source_native(&module->source, desc, err);
}

int32_t dhowi_cl_module_program(dhowi_cl_module *module, const char *kernel, int form,
                                cl_program *out, dhow_error *err) {
    const dhow_module_desc desc = {.name = module->name};
    cl_program *whole = &module->programs[form];
    int32_t status = DHOW_OK;
    pthread_mutex_lock(&module->build_lock);
    if (module->alone) {
        status = build(module, &desc, kernel, form, out, err);
    } else {
        if (*whole == NULL) status = build(module, &desc, NULL, form, whole, err);
        if (status == DHOW_OK) dhowi_cl.RetainProgram(*whole);
        *out = *whole;
    }
    pthread_mutex_unlock(&module->build_lock);
    return status;
}
