/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between any two devices, with any strides. One engine picks the path; dhow_copy_plan()
 * tells which.
 */
#ifndef DHOW_COPY_H_
#define DHOW_COPY_H_

#include "dhow/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    /** Does not wait for pending writers and readers of the two tensors: the caller orders by
       events. Later work on the tensors waits for this copy and for all that it has not waited
       for. */
    DHOW_COPY_UNORDERED = 1u << 0
};

/** What a copy does, in order of preference. */
typedef enum dhow_copy_path {
    DHOW_COPY_NOTHING = 0, /**< no elements, or a tensor onto itself */
    DHOW_COPY_NATIVE = 1,  /**< within one device */
    DHOW_COPY_HOST = 2,    /**< between a device and host memory it reads and writes itself */
    DHOW_COPY_MAPPED = 3,  /**< device memory is seen by the host and copied once */
    DHOW_COPY_PEER = 4,    /**< between two devices of one backend */
    DHOW_COPY_STAGED = 5   /**< through a ring of pinned host memory, both directions overlapped */
} dhow_copy_path;

typedef struct dhow_copy_plan_info {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    dhow_copy_path path;
    uint64_t bytes;
    uint64_t chunk_bytes; /**< of the ring, for STAGED */
    uint32_t chunk_count;
    int32_t packs_src;   /**< 1: strided elements are first gathered on the source device */
    int32_t unpacks_dst; /**< 1: and scattered on the destination device */
    char text[192];      /**< the path in words */
} dhow_copy_plan_info;

/**
 * Copies src into dst and returns when the bytes are there. Overlapping views of one storage give
 * the result of a copy through a third place.
 *
 * @param src  of any device and strides
 * @param dst  on any device of src's context, with src's shape and dtype (dhow_cast() converts);
 * neither frozen nor expanded
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY (staging), DEVICE_LOST, or what a device reports
 *
 * Threads: any. Blocks: yes.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_copy(dhow_tensor *src, dhow_tensor *dst);

/**
 * Starts a copy. Both storages live until it has run, and later work on them waits for it.
 *
 * @param stream    of src's or dst's device: the copy runs after work submitted to it before, and
 * work submitted to it later runs after the copy. NULL: the default stream of dst's device, of
 * src's when dst is on the CPU
 * @param src, dst  as for dhow_copy()
 * @param flags     0 or DHOW_COPY_UNORDERED
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY (staging), or what a device reports at once; a later
 * failure comes out of the next wait on the stream or on a tensor
 *
 * Threads: any. Blocks: no, except that a CPU stream computes at once, that a device without
 * host-signalled events waits for a staged copy before it takes work that depends on it, and that a
 * copy of at most 64 KiB from unpinned memory blocks until earlier copies into that memory finish.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_copy_async(dhow_stream *stream, dhow_tensor *src,
                                                    dhow_tensor *dst, uint32_t flags);

/**
 * Joins tensors along a dimension: y = [tensors[0], tensors[1], ...]. They may be on any devices.
 *
 * @param stream   as for dhow_copy_async(), for each of the copies; a stream must be of y's device
 * @param tensors  `count` of them, of y's dtype and rank; their extents are y's but for `dim`,
 * where they add up to y's
 * @param count    of tensors, 1 or more
 * @param dim      of y; -1 is the last
 * @param y        written as a whole; neither frozen nor expanded
 * @return INVALID_ARGUMENT (also where y overlaps a tensor), OUT_OF_RANGE (no such dimension), or
 * as dhow_copy_async()
 *
 * Threads: any. Blocks: as dhow_copy_async().
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_cat(dhow_stream *stream, dhow_tensor *const *tensors,
                                             uint32_t count, int32_t dim, dhow_tensor *y);

/**
 * Joins tensors along a new dimension: index i of dimension `dim` of y is tensors[i]. They may be
 * on any devices.
 *
 * @param stream   as for dhow_cat()
 * @param tensors  `count` of them, all of y's dtype and of y's shape without `dim`, whose extent is
 * `count`
 * @param count    of tensors, 1 or more
 * @param dim      of y; -1 is the last
 * @param y        written as a whole; neither frozen nor expanded
 * @return as dhow_cat()
 *
 * Threads: any. Blocks: as dhow_copy_async().
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_stack(dhow_stream *stream, dhow_tensor *const *tensors,
                                               uint32_t count, int32_t dim, dhow_tensor *y);

/**
 * Tells how dhow_copy_async() would copy.
 *
 * @param src, dst  as for dhow_copy()
 * @param out       filled in, cleared on errors; begin with DHOW_INIT()
 * @return INVALID_ARGUMENT
 *
 * Threads: any. Blocks: while devices open.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_copy_plan(dhow_tensor *src, dhow_tensor *dst,
                                                   dhow_copy_plan_info *out);

/**
 * The tensor on a device: itself, retained, when it is there already, else a new contiguous tensor
 * whose bytes have arrived.
 *
 * @param tensor  of any device and strides
 * @param device  of the tensor's context
 * @param out     receives the tensor; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY, or what a device reports
 *
 * Ownership: *out is owned. Threads: any. Blocks: until copied.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_to(dhow_tensor *tensor, dhow_device *device,
                                                   dhow_tensor **out);

/**
 * dhow_tensor_to() without the wait; using *out waits by itself.
 *
 * @param stream  as for dhow_copy_async()
 * @param tensor  of any device and strides
 * @param device  of the tensor's context
 * @param out     receives the tensor; NULL on errors
 * @return as dhow_copy_async()
 *
 * Ownership: *out is owned. Threads: any. Blocks: as dhow_copy_async().
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_to_async(dhow_stream *stream, dhow_tensor *tensor,
                                                         dhow_device *device, dhow_tensor **out);

/**
 * Reads all elements, row-major, into host memory.
 *
 * @param tensor  of any device and strides
 * @param data    receives the elements, dense; undefined on errors
 * @param bytes   size of `data`; must be the tensor's
 * @return INVALID_ARGUMENT, or what a device reports
 *
 * Ownership: data is borrowed for the call. Threads: any. Blocks: yes.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_read(dhow_tensor *tensor, void *data,
                                                     uint64_t bytes);

/**
 * Writes all elements from row-major host memory.
 *
 * @param tensor  of any device and strides; neither frozen nor expanded
 * @param data    dense elements; read before this returns
 * @param bytes   size of `data`; must be the tensor's
 * @return INVALID_ARGUMENT, or what a device reports
 *
 * Ownership: data is borrowed for the call. Threads: any. Blocks: yes.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_write(dhow_tensor *tensor, const void *data,
                                                      uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_COPY_H_ */
