/* SPDX-License-Identifier: Apache-2.0
 *
 * What probing tells, and what devices are described as.
 */
#include "fixture.h"
#include "symbols.h"

Test(opencl_probe, no_driver_is_a_state_that_names_the_vendors_folder) {
    setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
    dhow_probe answer = probe_plugin();
    cr_assert_eq(answer.state, DHOW_PLUGIN_NO_DRIVER);
    if (strstr(answer.reason, "libOpenCL.so.1") != NULL) cr_skip_test("no loader either");
    cr_assert(strstr(answer.reason, "/nonexistent") != NULL, "%s", answer.reason);
    cr_assert(strstr(answer.hint, "pocl-opencl-icd") != NULL, "%s", answer.hint);
    cr_assert(strstr(answer.hint, "/etc/OpenCL/vendors") != NULL, "%s", answer.hint);
}

Test(opencl_probe, no_device_is_a_state_with_a_reason) {
    setenv("OCL_ICD_VENDORS", "/etc/OpenCL/vendors", 1);
    dhow_probe answer = probe_plugin();
    cr_assert(answer.state != DHOW_PLUGIN_READY || answer.reason[0] == '\0');
    cr_assert(answer.state == DHOW_PLUGIN_READY || answer.hint[0] != '\0');
}

Test(opencl_probe, a_missing_loader_is_told_in_the_words_of_dlopen) {
    char why[192] = "";
    cr_assert_eq(dhowi_cl_load("libOpenCL.so.99", why, sizeof why), DHOWI_CL_NO_LIBRARY);
    cr_assert(strstr(why, "libOpenCL.so.99: cannot open shared object file") != NULL, "%s", why);
}

Test(opencl_probe, a_loader_without_the_functions_is_named_with_the_first_one) {
    char why[192] = "";
    cr_assert_eq(dhowi_cl_load("libm.so.6", why, sizeof why), DHOWI_CL_NO_SYMBOL);
    cr_assert_str_eq(why, "libm.so.6 has no clGetPlatformIDs");
}

Test(opencl_plugin, devices_are_described_and_graphics_processors_come_first) {
    uint32_t last_class = 0;
    for (uint32_t i = 0; i < device_count; i++) {
        dhow_device_desc desc = {.struct_size = sizeof desc};
        OK(plugin->device_describe(backend, i, &desc, &err));
        uint32_t class = desc.kind == DHOW_DEVICE_GPU ? 0 : desc.kind == DHOW_DEVICE_CPU ? 2 : 1;
        cr_assert_geq(class, last_class);
        last_class = class;
        cr_assert_neq(desc.name[0], '\0');
        cr_assert(strstr(desc.driver, "OpenCL") != NULL, "%s", desc.driver);
        cr_assert_gt(desc.memory_bytes, 0);
        cr_assert_gt(desc.compute_units, 0);
        cr_assert(desc.dtypes & DHOW_DTYPE_BIT(DHOW_BF16));
        cr_assert_eq(desc.kind == DHOW_DEVICE_CPU, (desc.flags & DHOW_DEVICE_PAGEABLE_ASYNC) != 0);
    }
    dhow_device_desc desc = {.struct_size = sizeof desc};
    FAILS(DHOW_OUT_OF_RANGE, plugin->device_describe(backend, device_count, &desc, &err));
}
