/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules inside: texts, and the programs made of them.
 */
#ifndef DHOW_PLUGINS_OPENCL_MODULE_H_
#define DHOW_PLUGINS_OPENCL_MODULE_H_

#include "opencl.h"
#include "source.h"

typedef struct dhowi_cl_module {
    dhowi_cl_device *device;
    dhowi_cl_text source, options;       /* kept for the other form */
    cl_program programs[DHOWI_CL_FORMS]; /* of all its kernels, where those are not alone */
    bool portable;
    bool builtin;         /* one of dhow's own units */
    bool alone;           /* each kernel is a program of its own: see dhowi_cl_module_program() */
    int first_form;       /* of launches whose buffers begin where their memory does */
    uint32_t group_items; /* K_WG; 0 where it is not ours to choose. Under the build lock */
    char name[128];
    pthread_mutex_t lock;       /* kernels */
    pthread_mutex_t build_lock; /* programs */
    dhowi_cl_kernel *kernels;
} dhowi_cl_module;

/* Brings the module's text into OpenCL C and makes its options. */
int32_t dhowi_cl_module_make_texts(dhowi_cl_module *module, const dhow_module_desc *desc,
                                   dhow_error *err);
/* The program of all kernels in the module's first form, from the cache or compiled and cached. */
int32_t dhowi_cl_module_build_whole(dhowi_cl_module *module, const dhow_module_desc *desc,
                                    dhow_error *err);

#endif /* DHOW_PLUGINS_OPENCL_MODULE_H_ */
