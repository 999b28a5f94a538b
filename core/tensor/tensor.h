/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors inside core: a shape over a storage.
 */
#ifndef DHOWI_TENSOR_TENSOR_H_
#define DHOWI_TENSOR_TENSOR_H_

#include "dhow/tensor.h"
#include "stream/stream.h"

struct dhow_tensor {
    dhowi_handle handle;
    dhowi_storage *storage;
    dhow_dtype dtype;
    int32_t rank;
    int64_t shape[DHOW_MAX_RANK];
    int64_t strides[DHOW_MAX_RANK]; /* elements, >= 0 */
    int64_t offset;                 /* elements */
    int64_t count;
    bool contiguous;
    bool overlapping; /* an expanded view: several indices share an element, so it is read-only */
};

/* ---- shapes ---- */

/* Row-major strides; OUT_OF_RANGE when the bytes do not fit an address. */
dhow_status dhowi_shape_check(const char *function, dhow_dtype dtype, int32_t rank,
                              const int64_t *shape, int64_t *out_count, uint64_t *out_bytes);
void dhowi_shape_strides(int32_t rank, const int64_t *shape, int64_t *strides);
bool dhowi_shape_equal(int32_t rank_a, const int64_t *a, int32_t rank_b, const int64_t *b);
/* NumPy's broadcasting of two shapes; false when they do not fit. */
bool dhowi_shape_broadcast(int32_t rank_a, const int64_t *a, int32_t rank_b, const int64_t *b,
                           int32_t *out_rank, int64_t *out);
/* Refuses sizes that do not come to an extent. */
dhow_status dhowi_parts_check(const char *function, int64_t extent, const int64_t *sizes,
                              uint32_t count);
/* Turns a dimension that may be negative into 0 .. rank-1: OUT_OF_RANGE. */
dhow_status dhowi_dim_check(const char *function, int32_t rank, int32_t dim, int32_t *out);

/* ---- tensors ---- */

/* A row-major tensor over a new storage; the shape is already checked. */
dhow_status dhowi_tensor_new(dhow_device *device, dhow_dtype dtype, int32_t rank,
                             const int64_t *shape, dhow_tensor **out);
/* A view over an existing storage; takes no reference of yours. */
dhow_status dhowi_tensor_view(dhowi_storage *storage, dhow_dtype dtype, int32_t rank,
                              const int64_t *shape, const int64_t *strides, int64_t offset,
                              dhow_tensor **out);
static inline dhow_status dhowi_tensor_check(const dhow_tensor *tensor, const char *function,
                                             const char *name) {
    return dhowi_handle_check(tensor, DHOWI_TENSOR, function, name);
}
/* INVALID_ARGUMENT when the tensor must not be written: frozen, exported, or an expanded
 * view. */
dhow_status dhowi_tensor_check_write(const dhow_tensor *tensor, const char *function,
                                     const char *name);
dhow_status dhowi_tensor_check_read(const dhow_tensor *tensor, const char *function,
                                    const char *name);
/* "f32[2, 3] on cuda:0", for messages. */
const char *dhowi_tensor_text(const dhow_tensor *tensor, char *buffer, size_t capacity);

static inline dhow_device *dhowi_tensor_device(const dhow_tensor *t) { return t->storage->device; }
static inline uint32_t dhowi_tensor_element_bytes(const dhow_tensor *t) {
    return dhow_dtype_bytes(t->dtype);
}
static inline uint64_t dhowi_tensor_offset_bytes(const dhow_tensor *t) {
    return (uint64_t)t->offset * dhowi_tensor_element_bytes(t);
}
static inline uint64_t dhowi_tensor_bytes(const dhow_tensor *t) {
    return (uint64_t)t->count * dhowi_tensor_element_bytes(t);
}
/* Whether there is nothing else in its storage. */
static inline bool dhowi_tensor_covers(const dhow_tensor *t) {
    return dhowi_tensor_bytes(t) >= t->storage->bytes;
}
/* What work does with a tensor. A write that leaves other elements of the storage as they are
 * passes on whether those were ever made, as work that reads them does. */
static inline dhowi_use dhowi_use_of(const dhow_tensor *t, uint32_t access) {
    const bool part = (access & DHOW_ACCESS_WRITE) != 0 && !dhowi_tensor_covers(t);
    return (dhowi_use){t->storage, part ? access | DHOW_ACCESS_READ : access};
}
/* What a tensor is over memory that dhow did not make. */
typedef struct dhowi_wrapped_memory {
    dhow_dtype dtype;
    int32_t rank;
    const int64_t *shape, *strides; /* strides NULL: row-major */
    uint64_t native, offset_bytes;
    uint64_t bytes; /* of the memory, from its beginning */
    bool frozen;
    dhow_device *pinned_by; /* host memory that this device copies fast, or NULL */
    void (*release)(void *user);
    void *user;
} dhowi_wrapped_memory;

/* Checks and wraps; `release` is not called when it fails. */
dhow_status dhowi_tensor_wrap(const char *function, dhow_device *device,
                              const dhowi_wrapped_memory *memory, dhow_tensor **out);

/* The bytes of the storage between the first and the last element, [begin, end). */
void dhowi_tensor_extent_bytes(const dhow_tensor *t, uint64_t *out_begin, uint64_t *out_end);
/* Whether two tensors may touch the same bytes. */
bool dhowi_tensor_overlap(const dhow_tensor *a, const dhow_tensor *b);
/* Whether they are the same elements in the same order. */
bool dhowi_tensor_same(const dhow_tensor *a, const dhow_tensor *b);

/* One value in a dtype's bits, lowest address first. */
uint64_t dhowi_dtype_encode(dhow_dtype dtype, double value);
/* The bits of a number as an element, exact for integers: OUT_OF_RANGE, INVALID_ARGUMENT as
 * dhow/scalar.h says. */
dhow_status dhowi_scalar_bits(const char *function, dhow_dtype dtype, dhow_scalar s,
                              uint64_t *bits);
/* An element as a number: f64 for floats, u64 for u64, i64 for the others. */
dhow_scalar dhowi_scalar_of(dhow_dtype dtype, const void *element);
/* The number as a double, rounded. */
double dhowi_scalar_float(dhow_scalar s);
bool dhowi_dtype_valid(int32_t dtype);

#endif /* DHOWI_TENSOR_TENSOR_H_ */
