/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules: a text is brought into OpenCL C, compiled or taken from the cache, and its kernels are
 * handed out by name.
 */
#include "module.h"

#include <stdio.h>
#include <string.h>

int32_t dhowi_cl_module_build(void *device_pointer, const dhow_module_desc *desc, void **out_module,
                              dhow_error *err) {
    static const char *const formats[] = {"an unknown format", "", "CUDA C", "", "PTX", "a cubin"};
    dhowi_cl_device *device = device_pointer;
    *out_module = NULL;
    if (desc->format != DHOW_MODULE_PORTABLE && desc->format != DHOW_MODULE_OPENCL_C)
        return dhowi_cl_refuse(
            err, DHOW_UNSUPPORTED,
            "'%.200s': OpenCL devices take portable kernels and OpenCL C, not %s", desc->name,
            formats[desc->format <= DHOW_MODULE_CUBIN ? desc->format : 0]);
    dhowi_cl_module *module = dhowi_cl_new(device->host, sizeof *module);
    if (module == NULL)
        return dhowi_cl_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
    module->device = device;
    module->portable = desc->format == DHOW_MODULE_PORTABLE;
    snprintf(module->name, sizeof module->name, "%s", desc->name);
    pthread_mutex_init(&module->lock, NULL);
    pthread_mutex_init(&module->build_lock, NULL);
    int32_t status = dhowi_cl_module_make_texts(module, desc, err);
    if (status == DHOW_OK && !module->alone)
        status = dhowi_cl_module_build_whole(module, desc, err);
    if (status != DHOW_OK) {
        dhowi_cl_module_free(module);
        return status;
    }
    *out_module = module;
    return DHOW_OK;
}

void dhowi_cl_module_free(void *module_pointer) {
    dhowi_cl_module *module = module_pointer;
    while (module->kernels != NULL) {
        dhowi_cl_kernel *kernel = module->kernels;
        module->kernels = kernel->next;
        dhowi_cl_kernel_destroy(kernel);
    }
    for (int form = 0; form < DHOWI_CL_FORMS; form++)
        if (module->programs[form] != NULL) dhowi_cl.ReleaseProgram(module->programs[form]);
    dhowi_cl_text_free(&module->source);
    dhowi_cl_text_free(&module->options);
    pthread_mutex_destroy(&module->build_lock);
    pthread_mutex_destroy(&module->lock);
    dhowi_cl_delete(module->device->host, module);
}

int32_t dhowi_cl_module_kernel(void *module_pointer, const char *name, void **out_kernel,
                               dhow_error *err) {
    dhowi_cl_module *module = module_pointer;
    int32_t status = DHOW_OK;
    *out_kernel = NULL;
    pthread_mutex_lock(&module->lock);
    dhowi_cl_kernel *kernel = module->kernels;
    while (kernel != NULL && strcmp(kernel->name, name) != 0) kernel = kernel->next;
    if (kernel == NULL) {
        status =
            dhowi_cl_kernel_create(module->device, module, name, module->portable, &kernel, err);
        if (status == DHOW_OK) {
            kernel->next = module->kernels;
            module->kernels = kernel;
        } else if (status == DHOW_NOT_FOUND) {
            dhowi_cl_refuse(err, DHOW_NOT_FOUND, "'%.150s' has no kernel '%.150s'", module->name,
                            name);
        }
    }
    pthread_mutex_unlock(&module->lock);
    *out_kernel = kernel;
    return status;
}
