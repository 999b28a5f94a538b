/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes, strides and the bytes they cover.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/memory/size.h"
#include "base/text/text.h"
#include "memory/native.h"
#include "tensor/tensor.h"

bool dhowi_dtype_valid(int32_t dtype) { return dtype >= DHOW_F32 && dtype <= DHOW_BOOL; }

dhow_status dhowi_shape_check(const char *function, dhow_dtype dtype, int32_t rank,
                              const int64_t *shape, int64_t *out_count, uint64_t *out_bytes) {
    if (!dhowi_dtype_valid((int32_t)dtype)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %d is no dtype", function, (int)dtype);
    }
    if (rank < 0 || rank > DHOW_MAX_RANK) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: rank %d; 0 to %d is allowed", function, rank,
                          DHOW_MAX_RANK);
    }
    if (rank > 0 && shape == NULL) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: shape is NULL", function);
    }
    int64_t count = 1, nonzero = 1;
    for (int32_t i = 0; i < rank; i++) {
        if (shape[i] < 0) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: extent %d is %" PRId64 "; 0 or more is allowed", function, i,
                              shape[i]);
        }
        count *= shape[i] == 0 ? 0 : 1;
        /* Strides must fit even where another extent is 0. */
        if (shape[i] != 0 && !dhowi_mul_i64(nonzero, shape[i], &nonzero)) nonzero = INT64_MAX;
    }
    char text[128];
    int64_t bytes;
    if (!dhowi_mul_i64(nonzero, dhow_dtype_bytes(dtype), &bytes) || bytes > INT64_MAX / 2) {
        return dhowi_fail(DHOW_OUT_OF_RANGE,
                          "%s: shape %s of %s has more bytes than an address holds", function,
                          dhowi_shape_text(rank, shape, text, sizeof text), dhow_dtype_name(dtype));
    }
    *out_count = count == 0 ? 0 : nonzero;
    *out_bytes = (uint64_t)*out_count * dhow_dtype_bytes(dtype);
    return DHOW_OK;
}

void dhowi_shape_strides(int32_t rank, const int64_t *shape, int64_t *strides) {
    int64_t stride = 1;
    for (int32_t i = rank; i-- > 0;) {
        strides[i] = stride;
        if (shape[i] > 1) stride *= shape[i];
    }
}

bool dhowi_shape_equal(int32_t rank_a, const int64_t *a, int32_t rank_b, const int64_t *b) {
    if (rank_a != rank_b) return false;
    for (int32_t i = 0; i < rank_a; i++) {
        if (a[i] != b[i]) return false;
    }
    return true;
}

bool dhowi_shape_broadcast(int32_t rank_a, const int64_t *a, int32_t rank_b, const int64_t *b,
                           int32_t *out_rank, int64_t *out) {
    int32_t rank = DHOWI_MAX(rank_a, rank_b);
    for (int32_t i = 0; i < rank; i++) {
        int64_t x = i < rank - rank_a ? 1 : a[i - (rank - rank_a)];
        int64_t y = i < rank - rank_b ? 1 : b[i - (rank - rank_b)];
        bool open = x < 0 || y < 0; /* extents that a model does not know yet fit anything */
        if (x != y && x != 1 && y != 1 && !open) return false;
        out[i] = x == 1 || (x < 0 && y != 1) ? y : x;
    }
    *out_rank = rank;
    return true;
}

dhow_status dhowi_dim_check(const char *function, int32_t rank, int32_t dim, int32_t *out) {
    if (dim < -rank || dim >= rank) {
        if (rank == 0)
            return dhowi_fail(DHOW_OUT_OF_RANGE,
                              "%s: dimension %d of a tensor of rank 0, which has none", function,
                              dim);
        return dhowi_fail(DHOW_OUT_OF_RANGE,
                          "%s: dimension %d of a tensor of rank %d; %d to %d are allowed", function,
                          dim, rank, -rank, rank - 1);
    }
    *out = dim < 0 ? dim + rank : dim;
    return DHOW_OK;
}

void dhowi_tensor_extent_bytes(const dhow_tensor *t, uint64_t *out_begin, uint64_t *out_end) {
    uint64_t element = dhowi_tensor_element_bytes(t);
    int64_t last = 0;
    for (int32_t i = 0; i < t->rank; i++) last += (t->shape[i] - 1) * t->strides[i];
    *out_begin = dhowi_tensor_offset_bytes(t);
    *out_end = t->count == 0 ? *out_begin : *out_begin + ((uint64_t)last + 1) * element;
}

/* Where the first bytes of two storages lie to each other; false where they never meet. Wrapped
 * memory may show the same bytes twice. */
static bool place(const dhowi_storage *a, const dhowi_storage *b, uint64_t *out_a,
                  uint64_t *out_b) {
    *out_a = *out_b = 0;
    if (a == b) return true;
    if (a->device != b->device || (a->pool != NULL && b->pool != NULL)) return false;
    if (a->host == NULL) return dhowi_storage_native(a) == dhowi_storage_native(b);
    *out_a = a->native;
    *out_b = b->native;
    return true;
}

bool dhowi_tensor_overlap(const dhow_tensor *a, const dhow_tensor *b) {
    uint64_t a0, a1, b0, b1, base_a, base_b;
    if (!place(a->storage, b->storage, &base_a, &base_b)) return false;
    dhowi_tensor_extent_bytes(a, &a0, &a1);
    dhowi_tensor_extent_bytes(b, &b0, &b1);
    return base_a + a0 < base_b + b1 && base_b + b0 < base_a + a1;
}

bool dhowi_tensor_same(const dhow_tensor *a, const dhow_tensor *b) {
    if (a == b) return true;
    if (a->storage != b->storage || a->offset != b->offset || a->dtype != b->dtype) return false;
    if (!dhowi_shape_equal(a->rank, a->shape, b->rank, b->shape)) return false;
    for (int32_t i = 0; i < a->rank; i++) {
        if (a->shape[i] > 1 && a->strides[i] != b->strides[i]) return false;
    }
    return true;
}

/* ---- values ---- */

static uint16_t encode_f16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (magnitude <
        0x38800000u) { /* subnormal: the sum rounds to nearest even at the right place */
        float shifted = fabsf(value) + 0.5f;
        memcpy(&magnitude, &shifted, sizeof magnitude);
        return (uint16_t)(sign | (magnitude - 0x3f000000u));
    }
    return (uint16_t)(sign | ((magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13));
}

static uint16_t encode_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value)) return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/* Truncated into [low, high], NaN as 0. */
static int64_t to_integer(double value, double low, double high) {
    if (isnan(value)) return 0;
    if (value <= low) return low <= -0x1p63 ? INT64_MIN : (int64_t)low;
    if (value >= high) return high >= 0x1p63 ? INT64_MAX : (int64_t)high;
    return (int64_t)value;
}

uint64_t dhowi_dtype_encode(dhow_dtype dtype, double value) {
    uint64_t bits = 0;
    uint32_t word;
    float f = (float)value;
    switch (dtype) {
        case DHOW_F32:
            memcpy(&word, &f, sizeof word);
            return word;
        case DHOW_F64:
            memcpy(&bits, &value, sizeof bits);
            return bits;
        case DHOW_F16:
            return encode_f16(f);
        case DHOW_BF16:
            return encode_bf16(f);
        case DHOW_I8:
            return (uint8_t)to_integer(value, INT8_MIN, INT8_MAX);
        case DHOW_U8:
            return (uint8_t)to_integer(value, 0, UINT8_MAX);
        case DHOW_I16:
            return (uint16_t)to_integer(value, INT16_MIN, INT16_MAX);
        case DHOW_U16:
            return (uint16_t)to_integer(value, 0, UINT16_MAX);
        case DHOW_I32:
            return (uint32_t)to_integer(value, INT32_MIN, INT32_MAX);
        case DHOW_U32:
            return (uint32_t)to_integer(value, 0, UINT32_MAX);
        case DHOW_I64:
            return (uint64_t)to_integer(value, -0x1p63, 0x1p63);
        case DHOW_U64:
            if (value >= 0x1p64) return UINT64_MAX;
            if (value >= 0x1p63) return (uint64_t)value;
            return (uint64_t)to_integer(value, 0, 0x1p63);
        case DHOW_BOOL:
            return value != 0;
    }
    return 0;
}
