/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules inside core, see module.c.
 */
#ifndef DHOWI_KERNEL_MODULE_H_
#define DHOWI_KERNEL_MODULE_H_

#include "kernel/kernel.h"

/* A packed text of kernel/builtin.h, to be freed; NULL with an error. */
char *dhowi_unpacked(const unsigned char *packed);
/* A module that is not yet built and declares no kernels; holds no context reference. */
dhow_status dhowi_module_new(dhow_device *device, uint32_t format, const char *name,
                             const void *text, uint64_t bytes, const char *options,
                             dhow_module **out);
void dhowi_module_end(dhow_module *module);
/* The plugin's module for an index width, built on first use. */
dhow_status dhowi_module_native(dhow_module *module, int width, void **out);

/* INVALID_ARGUMENT for a kernel with a name that a language has for itself, so that its text would
 * compile in others alone. */
dhow_status dhowi_portable_name(const char *module, const char *kernel);
/* This thread's COMPILE_ERROR, with the portable name of a function that it complains of. */
dhow_status dhowi_portable_hint(dhow_status status);

#endif /* DHOWI_KERNEL_MODULE_H_ */
