/* SPDX-License-Identifier: Apache-2.0
 *
 * Built programs on disk, through the host's cache.
 */
#ifndef DHOW_OPENCL_CACHE_H_
#define DHOW_OPENCL_CACHE_H_

#include "opencl.h"

typedef struct dhowi_cl_cache_key {
    char text[64];
} dhowi_cl_cache_key;

/* The key of a program: everything its binary depends on. */
dhowi_cl_cache_key dhowi_cl_cache_key_of(const dhowi_cl_device *device, const char *source,
                                         size_t source_bytes, const char *options);

/* The program made from the stored binary, built; NULL when there is none or the runtime refuses
 * it. */
cl_program dhowi_cl_cache_load(dhowi_cl_device *device, const dhowi_cl_cache_key *key,
                               const char *options);

/* Stores a built program. A failure is logged and costs the next process a compilation, nothing
 * else. */
void dhowi_cl_cache_store(dhowi_cl_device *device, const dhowi_cl_cache_key *key,
                          cl_program program);

#endif /* DHOW_OPENCL_CACHE_H_ */
