/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenCL plugin driven through its slots, as the host would, with a host table of our own. Runs
 * on PoCL's processor devices (two of them); without an OpenCL runtime only the tests of missing
 * drivers do anything.
 */
#ifndef DHOW_TESTS_OPENCL_FIXTURE_H_
#define DHOW_TESTS_OPENCL_FIXTURE_H_

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/plugin.h"

/* Of the suite opencl_plugin, whose tests find the plugin open on its last device (with PoCL: the
 * one with threads), with a stream. */
extern const dhow_plugin *plugin;
extern void *backend, *device, *stream;
extern uint32_t device_count;
extern dhow_error err;

/* The host's disk cache has room for one. */
typedef struct opencl_cache {
    char key[64];
    unsigned char *blob;
    uint64_t bytes;
    int loads, stores;
} opencl_cache;
extern opencl_cache cache;
extern const dhow_host host;

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, err.message)
#define FAILS(status, call) cr_assert_eq((call), (status), "%s: %s", #call, err.message)
#define SAYS(text) \
    cr_assert(strstr(err.message, (text)) != NULL, "'%s' does not say '%s'", err.message, (text))

/* Loads the plugin and asks it whether it can work here. */
dhow_probe probe_plugin(void);
/* Skips the test where there is no OpenCL. */
void open_plugin(void);
void close_plugin(void);

uint64_t alloc_bytes(uint64_t bytes);
dhow_copy_end on_host(const void *memory);
dhow_copy_end on_device(uint64_t handle, uint64_t offset);
void copy_bytes(dhow_copy_end dst, dhow_copy_end src, uint64_t bytes);
/* Copies that are waited for. */
void upload(uint64_t handle, uint64_t offset, const void *data, uint64_t bytes);
void download(void *data, uint64_t handle, uint64_t offset, uint64_t bytes);

dhow_module_desc describe(uint32_t format, const char *text, const dhow_kernel_decl *kernels,
                          uint32_t count);
/* Kernels of the dialect that several tests use. */
dhow_module_desc portable_module(void);
void *build_kernel(const dhow_module_desc *desc, const char *name, void **out_module);
dhow_arg buffer_arg(uint64_t handle, uint64_t offset);
dhow_arg value_arg(const void *value, uint32_t bytes);
dhow_arg i64_arg(int64_t value);
dhow_geometry work_of(uint64_t work);

#endif /* DHOW_TESTS_OPENCL_FIXTURE_H_ */
