/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels. A backend has them in one of two ways: ready-made, through builtin_kernel, or by
 * compiling the text that module_build is given. This one brings the CPU build of the portable
 * kernels and has no compiler; a backend with neither still allocates and copies.
 */
#include "sim.h"

int32_t sim_builtin_kernel(void *device, const char *name, uint32_t index_bits, void **out_kernel,
                           dhow_error *err) {
    simdev_kernel *kernel = NULL;
    (void)index_bits; /* device_describe offers 64 alone */
    int32_t status = simdev_kernel_find(((sim_device *)device)->native, name, &kernel, err);
    *out_kernel = kernel;
    return status;
}

int32_t sim_module_build(void *device, const dhow_module_desc *desc, void **out_module,
                         dhow_error *err) {
    (void)device;
    *out_module = NULL;
    return sim_fail(err, DHOW_UNSUPPORTED,
                    "%s: simulated devices have no compiler, only the kernels of kernels/*.k",
                    desc->name);
}

/* Required slots, never called here, since no module is ever made. */
void sim_module_free(void *module) { (void)module; }

int32_t sim_module_kernel(void *module, const char *name, void **out_kernel, dhow_error *err) {
    (void)module;
    *out_kernel = NULL;
    return sim_fail(err, DHOW_NOT_FOUND, "kernel %s: simulated devices have no modules", name);
}

/* Nothing of `args` may be needed after the return, the dims they point to included. Portable
 * kernels are right for every number of groups, so `geometry` is advice. */
int32_t sim_launch(void *stream, void *kernel, const dhow_geometry *geometry, const dhow_arg *args,
                   uint32_t arg_count, dhow_error *err) {
    if (geometry->native)
        return sim_fail(err, DHOW_UNSUPPORTED, "simulated devices run portable kernels only");
    return simdev_launch(((sim_stream *)stream)->native, kernel, geometry->work, args, arg_count,
                         err);
}
