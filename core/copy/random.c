/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors of random values. Element i is computed from seed and i alone, on the host, so that it is
 * the same on every device; what a device gets travels in pieces.
 */
#include <math.h>
#include <string.h>

#include "base/memory/size.h"
#include "base/memory/splitmix64.h"
#include "copy/engine.h"

enum { PIECE = 1 << 16 }; /* elements */

typedef struct values {
    bool normal, whole; /* whole: rounded down */
    double offset, scale;
    uint64_t state;
} values;

/* The k-th number of a sequence, 0 <= it < 1. */
static double unit(const values *v, uint64_t k) {
    return (double)(dhowi_splitmix64(v->state + k * DHOWI_SPLITMIX64_STEP) >> 11) * 0x1p-53;
}

/* The normal ones: Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958. */
static double value_at(const values *v, uint64_t i) {
    double value = unit(v, 2 * i);
    if (v->normal) {
        const double turn = 6.283185307179586;
        value = sqrt(-2 * log(1 - value)) * cos(turn * unit(v, 2 * i + 1));
    }
    value = v->offset + v->scale * value;
    return v->whole ? floor(value) : value;
}

static void write_values(const values *v, dhow_dtype dtype, int64_t first, int64_t count,
                         char *to) {
    const size_t bytes = dhow_dtype_bytes(dtype);
    for (int64_t i = 0; i < count; i++) {
        const uint64_t bits = dhowi_dtype_encode(dtype, value_at(v, (uint64_t)(first + i)));
        memcpy(to + (size_t)i * bytes, &bits, bytes); /* little-endian, like all of dhow */
    }
}

/* Through a piece of host memory. */
static dhow_status send_values(const values *v, dhow_tensor *flat) {
    dhow_tensor *piece;
    void *memory;
    const int64_t room = DHOWI_MIN(flat->count, (int64_t)PIECE);
    dhow_device *cpu = dhowi_tensor_device(flat)->context->cpu;
    DHOWI_TRY(dhow_tensor_create(cpu, flat->dtype, DHOW_SHAPE(room), &piece));
    dhow_status status = dhow_tensor_host_ptr(piece, &memory);
    for (int64_t at = 0; at < flat->count && status == DHOW_OK; at += room) {
        dhow_tensor *from = NULL, *to = NULL;
        const int64_t count = DHOWI_MIN(room, flat->count - at);
        write_values(v, flat->dtype, at, count, memory);
        status = dhow_tensor_narrow(piece, 0, 0, count, &from);
        if (status == DHOW_OK) status = dhow_tensor_narrow(flat, 0, at, count, &to);
        if (status == DHOW_OK) status = dhow_copy(from, to);
        dhow_tensor_release(from);
        dhow_tensor_release(to);
    }
    dhow_tensor_release(piece);
    return status;
}

static dhow_status fill(const values *v, dhow_tensor *t) {
    void *memory;
    dhow_tensor *flat;
    if (t->count == 0) return DHOW_OK;
    if (t->storage->host != NULL) {
        DHOWI_TRY(dhow_tensor_host_ptr(t, &memory));
        write_values(v, t->dtype, 0, t->count, memory);
        return DHOW_OK;
    }
    DHOWI_TRY(dhow_tensor_reshape(t, DHOW_SHAPE(-1), &flat));
    dhow_status status = send_values(v, flat);
    dhow_tensor_release(flat);
    return status;
}

static bool is_whole(dhow_dtype dtype) {
    return dtype != DHOW_F32 && dtype != DHOW_F64 && dtype != DHOW_F16 && dtype != DHOW_BF16;
}

static dhow_status make(const char *function, values v, uint64_t seed, dhow_device *device,
                        dhow_dtype dtype, int32_t rank, const int64_t *shape, dhow_tensor **out) {
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    if (!isfinite(v.offset) || !isfinite(v.scale) || v.scale < 0) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          v.normal ? "%s: mean %g, deviation %g; both must be finite and the "
                                     "deviation not negative"
                                   : "%s: low %g, high - low %g; both must be finite and high not "
                                     "below low",
                          function, v.offset, v.scale);
    }
    DHOWI_TRY(dhow_tensor_create(device, dtype, rank, shape, out));
    v.whole = is_whole(dtype);
    v.state = dhowi_splitmix64(seed + DHOWI_SPLITMIX64_STEP);
    dhow_status status = fill(&v, *out);
    if (status == DHOW_OK) return DHOW_OK;
    dhow_tensor_release(*out);
    *out = NULL;
    return status;
}

dhow_status dhow_tensor_uniform(dhow_device *device, dhow_dtype dtype, int32_t rank,
                                const int64_t *shape, double low, double high, uint64_t seed,
                                dhow_tensor **out) {
    const values v = {.offset = low, .scale = high - low};
    return make("dhow_tensor_uniform", v, seed, device, dtype, rank, shape, out);
}

dhow_status dhow_tensor_normal(dhow_device *device, dhow_dtype dtype, int32_t rank,
                               const int64_t *shape, double mean, double deviation, uint64_t seed,
                               dhow_tensor **out) {
    const values v = {.normal = true, .offset = mean, .scale = deviation};
    return make("dhow_tensor_normal", v, seed, device, dtype, rank, shape, out);
}
