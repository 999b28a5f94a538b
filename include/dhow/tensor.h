/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors: a shape, strides and an element type over storage on one device. Views share storage.
 * Rank 0 to 8; extents may be 0. Handles are reference counted.
 *
 * Shapes are arrays of int64_t, outermost dimension first; strides count elements and are never
 * negative. Dimension arguments may be negative: -1 is the last.
 */
#ifndef DHOW_TENSOR_H_
#define DHOW_TENSOR_H_

#include "dhow/scalar.h"
#include "dhow/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dhow_tensor dhow_tensor;

/** Shape in place: `DHOW_SHAPE(2, 3)` expands to the two arguments rank and shape. */
#define DHOW_SHAPE(...) \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

/** In the place of a dimension: all of them. */
#define DHOW_ALL_DIMS INT32_MIN

/** Facts of a tensor. */
typedef struct dhow_tensor_info {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    dhow_device *device;  /**< borrowed */
    dhow_dtype dtype;
    int32_t rank;
    int64_t shape[DHOW_MAX_RANK];
    int64_t strides[DHOW_MAX_RANK]; /**< elements */
    int64_t count;                  /**< elements in all */
    uint64_t bytes;                 /**< of a contiguous tensor of this shape */
    int32_t contiguous;             /**< 1: row-major without gaps */
    int32_t pinned;                 /**< 1: host memory that another device copies fast */
} dhow_tensor_info;

/* ---- making ---- */

/**
 * Creates a tensor with undefined contents.
 *
 * @param device  where it lies
 * @param dtype   of its elements
 * @param rank    0 to 8
 * @param shape   `rank` extents, 0 or more, NULL for rank 0; DHOW_SHAPE(2, 3) writes both
 * @param out     receives the tensor; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_RANGE (more bytes than an address holds), OUT_OF_MEMORY (the
 * message says asked, free, total and the largest holders), DEVICE_LOST
 *
 * Ownership: *out is owned, release with dhow_tensor_release(). Threads: any. Blocks: only when
 * memory is short.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_create(dhow_device *device, dhow_dtype dtype,
                                                       int32_t rank, const int64_t *shape,
                                                       dhow_tensor **out);

/**
 * Creates a tensor from `count` contiguous elements in host memory.
 *
 * @param device  where it lies
 * @param dtype   of its elements
 * @param rank    0 to 8
 * @param shape   `rank` extents, 0 or more; DHOW_SHAPE(2, 3) writes both
 * @param data    dense elements in row-major order; copied
 * @param out     receives the tensor; NULL on errors
 * @return as dhow_tensor_create()
 *
 * Ownership: *out is owned; data is copied. Threads: any. Blocks: until the data is read.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_from_data(dhow_device *device, dhow_dtype dtype,
                                                          int32_t rank, const int64_t *shape,
                                                          const void *data, dhow_tensor **out);

/**
 * Creates a tensor whose elements all have one value; integers take it truncated, bool as value
 * != 0.
 *
 * @param device  where it lies
 * @param dtype   of its elements
 * @param rank    0 to 8
 * @param shape   `rank` extents, 0 or more; DHOW_SHAPE(2, 3) writes both
 * @param value   of every element
 * @param out     receives the tensor; NULL on errors
 * @return as dhow_tensor_create()
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_full(dhow_device *device, dhow_dtype dtype,
                                                     int32_t rank, const int64_t *shape,
                                                     double value, dhow_tensor **out);

/**
 * The same with a number that keeps its kind, exact for integers of 64 bits.
 *
 * @param device  where it lies
 * @param dtype   of its elements
 * @param rank    0 to 8
 * @param shape   `rank` extents, 0 or more; DHOW_SHAPE(2, 3) writes both
 * @param value   of every element, exactly
 * @param out     receives the tensor; NULL on errors
 * @return as dhow_tensor_create(); OUT_OF_RANGE, INVALID_ARGUMENT for a number that the dtype has
 * not, see dhow/scalar.h
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_full_scalar(dhow_device *device, dhow_dtype dtype,
                                                            int32_t rank, const int64_t *shape,
                                                            dhow_scalar value, dhow_tensor **out);

/**
 * Creates a tensor of values that are evenly spread over low <= value < high; integers and bool
 * take them rounded down, others rounded to what the dtype has. An element depends on its place and
 * the seed alone: it is the same on every device.
 *
 * @param device  where it lies
 * @param dtype   of its elements
 * @param rank    0 to 8
 * @param shape   `rank` extents, 0 or more; DHOW_SHAPE(2, 3) writes both
 * @param low     the least value
 * @param high    above all values
 * @param seed    the same numbers for the same seed
 * @param out     receives the tensor; NULL on errors
 * @return as dhow_tensor_create(), or what the copy to the device says
 *
 * Ownership: *out is owned. Threads: any. Blocks: until the values are there.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_uniform(dhow_device *device, dhow_dtype dtype,
                                                        int32_t rank, const int64_t *shape,
                                                        double low, double high, uint64_t seed,
                                                        dhow_tensor **out);

/**
 * The same with normally distributed values.
 *
 * @param device  where it lies
 * @param dtype   of its elements
 * @param rank    0 to 8
 * @param shape   `rank` extents, 0 or more; DHOW_SHAPE(2, 3) writes both
 * @param mean, deviation  of the distribution
 * @param seed    the same numbers for the same seed
 * @param out     receives the tensor; NULL on errors
 * @return as dhow_tensor_uniform()
 *
 * Ownership: *out is owned. Threads: any. Blocks: until the values are there.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_normal(dhow_device *device, dhow_dtype dtype,
                                                       int32_t rank, const int64_t *shape,
                                                       double mean, double deviation, uint64_t seed,
                                                       dhow_tensor **out);

/**
 * Creates a CPU tensor in host memory that `device` copies from and to at full speed.
 *
 * @param device  that copies it at full speed; the tensor lies on the host
 * @param dtype   of its elements
 * @param rank    0 to 8
 * @param shape   `rank` extents, 0 or more; DHOW_SHAPE(2, 3) writes both
 * @param out     receives the tensor; NULL on errors
 * @return as dhow_tensor_create(); UNSUPPORTED where the device has no such memory
 *
 * Ownership: *out is owned. Threads: any. Blocks: while the memory is pinned.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_create_pinned(dhow_device *device, dhow_dtype dtype,
                                                              int32_t rank, const int64_t *shape,
                                                              dhow_tensor **out);

/**
 * Wraps host memory as a CPU tensor without copying it.
 *
 * @param context  whose CPU device the tensor belongs to
 * @param dtype    of its elements
 * @param rank     0 to 8
 * @param shape    `rank` extents, 0 or more; DHOW_SHAPE(2, 3) writes both
 * @param data     contiguous, aligned for its type; NULL only without elements
 * @param release  called with `user` when the storage ends; may be NULL
 * @param user     handed to it
 * @param out      receives the tensor; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY (then release is not called)
 *
 * Ownership: *out is owned; data is borrowed until release is called. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_wrap(dhow_context *context, dhow_dtype dtype,
                                                     int32_t rank, const int64_t *shape, void *data,
                                                     void (*release)(void *user), void *user,
                                                     dhow_tensor **out);

/**
 * Wraps memory of a device that the program made with the vendor's API, without copying it. Wrapped
 * twice, memory is two storages that know nothing of each other's work: wrap it once, and make
 * views.
 *
 * @param device        where the memory is
 * @param dtype         of its elements
 * @param rank          0 to 8
 * @param shape         `rank` extents, 0 or more; DHOW_SHAPE(2, 3) writes both
 * @param strides       `rank` strides in elements, >= 0, of which no two indices share an element;
 * NULL: row-major without gaps
 * @param native        a device address for CUDA, a cl_mem for OpenCL, of the context that
 * dhow_stream_native() shows, a host address for the CPU; as a number
 * @param offset_bytes  where the first element lies in the memory; a multiple of the element's
 * size, as the memory's own address is
 * @param bytes         of the memory, from its beginning: the tensor must lie inside
 * @param release       called with `user` when the storage ends, after all work of dhow that uses
 * it; may be NULL
 * @param user          handed to it
 * @param out           receives the tensor; NULL on errors
 * @return INVALID_ARGUMENT (also: memory of another device, strides that are negative or overlap),
 * OUT_OF_RANGE (the tensor does not fit), UNSUPPORTED (the plugin has no dhow.native/1),
 * OUT_OF_MEMORY, DEVICE_LOST; then release is not called
 *
 * Ownership: *out is owned; the memory is borrowed until release is called. Threads: any; release
 * is called by whichever thread drops the last reference. Blocks: while the device opens; the last
 * release until the work that uses the memory has ended.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_wrap_device(dhow_device *device, dhow_dtype dtype,
                                                            int32_t rank, const int64_t *shape,
                                                            const int64_t *strides, uint64_t native,
                                                            uint64_t offset_bytes, uint64_t bytes,
                                                            void (*release)(void *user), void *user,
                                                            dhow_tensor **out);

/**
 * Pins the host memory of a CPU tensor - wrapped or dhow's own - in place. It stays pinned as long
 * as the tensor's storage lives. For memory that is copied often: pinning takes about as long as
 * one copy.
 *
 * @param tensor  in host memory, not pinned yet
 * @param device  of the tensor's context, which copies it at full speed
 * @return INVALID_ARGUMENT (the tensor is not in host memory, or is pinned already), UNSUPPORTED
 * (the device cannot; use dhow_tensor_create_pinned()), or what the driver says
 *
 * Threads: one, while nobody else uses the tensor. Blocks: while the memory is pinned.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_pin(dhow_tensor *tensor, dhow_device *device);

/**
 * Adds a reference.
 *
 * @param tensor  to which the caller has a reference
 * @return INVALID_ARGUMENT (no live tensor)
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_retain(dhow_tensor *tensor);

/**
 * Drops a reference. Work that still uses the tensor finishes first in the background.
 *
 * @param tensor  NULL is allowed
 *
 * Threads: any. Blocks: no.
 */
DHOW_API void dhow_tensor_release(dhow_tensor *tensor);

/**
 * Names the tensor's storage in messages and memory reports.
 *
 * @param tensor  views of its storage show the label too
 * @param label   copied, the first 31 bytes; not NULL
 * @return INVALID_ARGUMENT
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_set_label(dhow_tensor *tensor, const char *label);

/**
 * Promises that the values never change again. Operations may then keep a packed copy beside them
 * (the weight of a matmul); writing through dhow is refused from then on. Models freeze their
 * parameters.
 *
 * @param tensor  also one that is frozen already
 * @return INVALID_ARGUMENT
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_freeze(dhow_tensor *tensor);

/* ---- looking ---- */

/**
 * All facts of a tensor.
 *
 * @param tensor  pending work is not waited for
 * @param out     filled in, cleared on errors; begin with DHOW_INIT()
 * @return INVALID_ARGUMENT
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_get_info(const dhow_tensor *tensor,
                                                         dhow_tensor_info *out);

/**
 * The device of a tensor.
 *
 * @param tensor  NULL or what is no tensor gives NULL
 *
 * Ownership: borrowed. Threads: any. Blocks: no.
 */
DHOW_API dhow_device *dhow_tensor_device(const dhow_tensor *tensor);

/**
 * Number of elements.
 *
 * @param tensor  NULL or what is no tensor gives -1
 *
 * Threads: any. Blocks: no.
 */
DHOW_API int64_t dhow_tensor_count(const dhow_tensor *tensor);

/**
 * Extent of one dimension.
 *
 * @param tensor  NULL or what is no tensor gives -1
 * @param dim     -1 is the last; one that is not there gives -1
 *
 * Threads: any. Blocks: no.
 */
DHOW_API int64_t dhow_tensor_extent(const dhow_tensor *tensor, int32_t dim);

/**
 * The text of an element type, "f32".
 *
 * @param dtype  any number; one that is none is "?"
 *
 * Ownership: static. Threads: any. Blocks: no.
 */
DHOW_API const char *dhow_dtype_name(dhow_dtype dtype);

/**
 * Bytes of an element.
 *
 * @param dtype  any number; one that is none has 0
 *
 * Threads: any. Blocks: no.
 */
DHOW_API uint32_t dhow_dtype_bytes(dhow_dtype dtype);

/**
 * The address of a CPU tensor's first element, after all work that uses its storage has ended. Ask
 * again after giving the tensor to further asynchronous work.
 *
 * @param tensor  in host memory, of any strides
 * @param out     receives the address; NULL on errors
 * @return INVALID_ARGUMENT (not on the CPU: use dhow_tensor_read() or dhow_tensor_to()), or what
 * the work reports
 *
 * Ownership: borrowed until the storage ends. Threads: any. Blocks: until pending work has ended.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_host_ptr(dhow_tensor *tensor, void **out);

/**
 * The backend's own handle (a device address for CUDA, a cl_mem for OpenCL), for use with the
 * vendor's API. Waits for pending work and marks the storage as exported: further use through dhow
 * fails until dhow_tensor_native_done().
 *
 * @param tensor      of any device; views of its storage are exported with it
 * @param out_handle  receives the handle; 0 on errors
 * @param out_offset  receives bytes from there to the first element; 0 on errors
 * @return INVALID_ARGUMENT, or what the work reports
 *
 * Ownership: the handle is borrowed until dhow_tensor_native_done(). Threads: any. Blocks: until
 * pending work has ended.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_native(dhow_tensor *tensor, uint64_t *out_handle,
                                                       uint64_t *out_offset);

/**
 * Ends foreign use of the storage: what was submitted to `stream` before counts as its writer.
 *
 * @param tensor  that dhow_tensor_native() exported, or a view of its storage
 * @param stream  of the tensor's device; NULL: the foreign work has ended
 * @return INVALID_ARGUMENT (also: the tensor is not exported)
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_native_done(dhow_tensor *tensor,
                                                            dhow_stream *stream);

/* ---- views: new handles over the same storage, nothing is copied ---- */

/**
 * Elements start, start + step, ... below stop along one dimension. Out-of-range start and stop are
 * clamped, as in Python.
 *
 * @param tensor  of any device and strides; its storage is retained
 * @param dim     that is cut; -1 is the last
 * @param start   the first index, from the end when negative
 * @param stop    behind the last index, from the end when negative
 * @param step    at least 1
 * @param out     receives the view; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_slice(dhow_tensor *tensor, int32_t dim,
                                                      int64_t start, int64_t stop, int64_t step,
                                                      dhow_tensor **out);

/**
 * `length` indices of a dimension from `start` on.
 *
 * @param tensor  of any device and strides; its storage is retained
 * @param dim     that is cut; -1 is the last
 * @param start   the first index that stays
 * @param length  how many stay
 * @param out     receives the view; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_RANGE (no such dimension, or indices that are not there),
 * OUT_OF_MEMORY
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_narrow(dhow_tensor *tensor, int32_t dim,
                                                       int64_t start, int64_t length,
                                                       dhow_tensor **out);

/**
 * Divides a dimension into `count` views of equal extents, the last ones shorter or of extent 0
 * where it does not come out even: ceil(extent / count) each, as in PyTorch.
 *
 * @param tensor  of any device and strides; its storage is retained
 * @param dim     that is divided; -1 is the last
 * @param count   of views, 1 or more
 * @param out     receives `count` views; all NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Ownership: the views are owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_chunk(dhow_tensor *tensor, int32_t dim,
                                                      uint32_t count, dhow_tensor **out);

/**
 * Divides a dimension into `count` views of given extents, as PyTorch's split().
 *
 * @param tensor  of any device and strides; its storage is retained
 * @param dim     that is divided; -1 is the last
 * @param sizes   `count` extents, which come to that of the dimension
 * @param count   of sizes and views, 1 or more
 * @param out     receives `count` views; all NULL on errors
 * @return INVALID_ARGUMENT (the sizes do not come to the extent), OUT_OF_RANGE (no such dimension),
 * OUT_OF_MEMORY
 *
 * Ownership: the views are owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_split(dhow_tensor *tensor, int32_t dim,
                                                      const int64_t *sizes, uint32_t count,
                                                      dhow_tensor **out);

/**
 * One index of a dimension; the dimension disappears.
 *
 * @param tensor  of any device and strides; its storage is retained
 * @param dim     that the view lacks; -1 is the last
 * @param index   in it, negative from the end
 * @param out     receives the view; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_RANGE, OUT_OF_MEMORY
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_select(dhow_tensor *tensor, int32_t dim,
                                                       int64_t index, dhow_tensor **out);

/**
 * Reorders dimensions: dimension i of the result is dimension order[i] of the tensor.
 *
 * @param tensor  of any device and strides; its storage is retained
 * @param order   a permutation of 0 .. rank-1
 * @param out     receives the view; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_permute(dhow_tensor *tensor, const int32_t *order,
                                                        dhow_tensor **out);

/**
 * Swaps two dimensions.
 *
 * @param tensor      of any device and strides; its storage is retained
 * @param dim0, dim1  the two that change places; -1 is the last
 * @param out         receives the view; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_RANGE, OUT_OF_MEMORY
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_transpose(dhow_tensor *tensor, int32_t dim0,
                                                          int32_t dim1, dhow_tensor **out);

/**
 * The same elements in another shape; one extent may be -1 and is worked out.
 *
 * @param tensor  of any device; its storage is retained
 * @param rank    0 to 8, of the view
 * @param shape   `rank` extents, one of which may be -1
 * @param out     receives the view; NULL on errors
 * @return INVALID_ARGUMENT (counts differ, or the strides do not allow a view: make it contiguous
 * first), OUT_OF_MEMORY
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_reshape(dhow_tensor *tensor, int32_t rank,
                                                        const int64_t *shape, dhow_tensor **out);

/**
 * Without a dimension of extent 1; another extent stays, as in PyTorch.
 *
 * @param tensor  of any device and strides; its storage is retained
 * @param dim     DHOW_ALL_DIMS: without any dimension of extent 1
 * @param out     receives the view; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_squeeze(dhow_tensor *tensor, int32_t dim,
                                                        dhow_tensor **out);

/**
 * With a further dimension of extent 1.
 *
 * @param tensor  of any device and strides; its storage is retained
 * @param dim     where it will be, -1 for the last of the result
 * @param out     receives the view; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_RANGE (dim is not between -rank - 1 and rank, or the rank is
 * DHOW_MAX_RANK), OUT_OF_MEMORY
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_unsqueeze(dhow_tensor *tensor, int32_t dim,
                                                          dhow_tensor **out);

/**
 * Joins the dimensions from `first` to `last` into one; a tensor of rank 0 gets one of extent 1.
 *
 * @param tensor       of any device; its storage is retained
 * @param first, last  dimensions that become one, both included; -1 is the last
 * @param out          receives the view; NULL on errors
 * @return INVALID_ARGUMENT (last is before first, or the strides do not allow a view: make it
 * contiguous first), OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_flatten(dhow_tensor *tensor, int32_t first,
                                                        int32_t last, dhow_tensor **out);

/**
 * Repeats extents of 1 (and missing outer dimensions) to `shape` without copying, by strides of 0.
 * The result is read-only.
 *
 * @param tensor  of any device and strides; its storage is retained
 * @param rank    0 to 8, of the view
 * @param shape   `rank` extents that the tensor broadcasts to
 * @param out     receives the view; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_expand(dhow_tensor *tensor, int32_t rank,
                                                       const int64_t *shape, dhow_tensor **out);

/**
 * A row-major tensor of the same values: the tensor itself, retained, when it already is one, else
 * a copy.
 *
 * @param stream  of the tensor's device, or NULL for its default stream
 * @param tensor  of any strides
 * @param out     receives the tensor; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY, or what the device says
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_contiguous(dhow_stream *stream, dhow_tensor *tensor,
                                                           dhow_tensor **out);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_TENSOR_H_ */
