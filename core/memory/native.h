/* SPDX-License-Identifier: Apache-2.0
 *
 * The vendor's own objects: those of a program that dhow works with, and dhow's in the hands of a
 * program.
 */
#ifndef DHOWI_MEMORY_NATIVE_H_
#define DHOWI_MEMORY_NATIVE_H_

#include "memory/storage.h"

/* The device's dhow.native/1; UNSUPPORTED, which names the function, where it has none. The device
 * is open. */
dhow_status dhowi_native_of(dhow_device *device, const char *function, const dhow_native **out);

/* A storage over `bytes` bytes of device memory that is the program's; it begins *out_offset bytes
 * behind the storage. The device is no host. */
dhow_status dhowi_storage_wrap_native(dhow_device *device, const char *function, uint64_t native,
                                      uint64_t bytes, dhowi_storage **out, uint64_t *out_offset);

/* What the vendor's API calls the storage's memory. */
uint64_t dhowi_storage_native(const dhowi_storage *storage);

#endif /* DHOWI_MEMORY_NATIVE_H_ */
