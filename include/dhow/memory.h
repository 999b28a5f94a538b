/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a device. Tensors take theirs from one caching allocator per device: freed blocks are
 * kept by size and given out again without a call to the driver, in stream order. The numbers mean
 * the same on every backend.
 */
#ifndef DHOW_MEMORY_H_
#define DHOW_MEMORY_H_

#include "dhow/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Accounting of one device, in bytes. */
typedef struct dhow_memory_stats {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    uint64_t live;        /**< asked for by living tensors */
    uint64_t live_peak;   /**< largest value of `live` since the last reset */
    uint64_t reserved;    /**< taken from the driver: blocks in use and cached ones */
    uint64_t reserved_peak;
    uint64_t cached;       /**< blocks kept for reuse */
    uint64_t pinned;       /**< pinned host memory made by this device, tensors and staging */
    uint64_t staging;      /**< the part of `pinned` that copies use */
    uint64_t limit;        /**< see dhow_memory_set_limit(), 0 for none */
    uint64_t allocations;  /**< blocks given out so far */
    uint64_t driver_calls; /**< blocks that had to be taken from the driver */
} dhow_memory_stats;

/**
 * The accounting of a device.
 *
 * @param device  open or not
 * @param out     filled in, cleared on errors; begin with DHOW_INIT()
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_memory_get_stats(dhow_device *device,
                                                          dhow_memory_stats *out);

/**
 * Sets the peaks to the present values.
 *
 * @param device  open or not
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_memory_reset_peaks(dhow_device *device);

/**
 * Gives cached blocks back to the driver, those that eager calls keep for the next ones alike them
 * included.
 *
 * @param device  open or not
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY, or what the device reports while its work is awaited
 *
 * Threads: any. Blocks: until work that still uses cached blocks has ended.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_memory_trim(dhow_device *device);

/**
 * Lets `reserved` grow to at most limit_bytes. Exceeding it is OUT_OF_MEMORY.
 *
 * @param device       open or not; what it holds beyond the limit stays
 * @param limit_bytes  0 lifts the limit
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_memory_set_limit(dhow_device *device,
                                                          uint64_t limit_bytes);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_MEMORY_H_ */
