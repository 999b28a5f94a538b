/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors made from others or from a rule, see dhow/create.h.
 */
#include "dhow/create.h"

#include <math.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "copy/engine.h"

dhow_status dhow_tensor_zeros(dhow_device *device, dhow_dtype dtype, int32_t rank,
                              const int64_t *shape, dhow_tensor **out) {
    return dhow_tensor_full(device, dtype, rank, shape, 0, out);
}

dhow_status dhow_tensor_ones(dhow_device *device, dhow_dtype dtype, int32_t rank,
                             const int64_t *shape, dhow_tensor **out) {
    return dhow_tensor_full(device, dtype, rank, shape, 1, out);
}

/* ---- like another ---- */

static dhow_status new_like(const char *function, const dhow_tensor *t, dhow_tensor **out) {
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_tensor_check(t, function, "tensor"));
    DHOWI_TRY(dhowi_device_usable(dhowi_tensor_device(t)));
    return dhowi_tensor_new(dhowi_tensor_device(t), t->dtype, t->rank, t->shape, out);
}

static dhow_status filled_like(const char *function, const dhow_tensor *t, dhow_scalar value,
                               dhow_tensor **out) {
    uint64_t bits = 0;
    dhow_stream *stream;
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_tensor_check(t, function, "tensor"));
    DHOWI_TRY(dhowi_scalar_bits(function, t->dtype, value, &bits));
    DHOWI_TRY(new_like(function, t, out));
    dhow_status status = dhowi_stream_default(dhowi_tensor_device(t), &stream);
    if (status == DHOW_OK) status = dhowi_fill_bits(stream, *out, bits);
    if (status == DHOW_OK) return DHOW_OK;
    dhow_tensor_release(*out);
    *out = NULL;
    return status;
}

dhow_status dhow_tensor_empty_like(const dhow_tensor *tensor, dhow_tensor **out) {
    return new_like("dhow_tensor_empty_like", tensor, out);
}

dhow_status dhow_tensor_zeros_like(const dhow_tensor *tensor, dhow_tensor **out) {
    return filled_like("dhow_tensor_zeros_like", tensor, dhow_scalar_i64(0), out);
}

dhow_status dhow_tensor_ones_like(const dhow_tensor *tensor, dhow_tensor **out) {
    return filled_like("dhow_tensor_ones_like", tensor, dhow_scalar_i64(1), out);
}

dhow_status dhow_tensor_full_like(const dhow_tensor *tensor, dhow_scalar value, dhow_tensor **out) {
    return filled_like("dhow_tensor_full_like", tensor, value, out);
}

dhow_status dhow_tensor_clone(dhow_stream *stream, dhow_tensor *tensor, dhow_tensor **out) {
    static const char function[] = "dhow_tensor_clone";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_tensor_check_read(tensor, function, "tensor"));
    DHOWI_TRY(dhowi_stream_resolve(stream, dhowi_tensor_device(tensor), function, &stream));
    DHOWI_TRY(new_like(function, tensor, out));
    dhow_status status = tensor->count > 0 ? dhowi_copy_local(stream, tensor, *out, true) : DHOW_OK;
    if (status == DHOW_OK) return DHOW_OK;
    dhow_tensor_release(*out);
    *out = NULL;
    return status;
}

/* ---- numbers in a row ---- */

typedef struct series {
    const char *function;
    dhow_dtype dtype;
    bool real;
    double start, step;
    int64_t first, by, count; /* of integers */
} series;

static dhow_status refuse(const series *s, const char *why) {
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s", s->function, why);
}

static dhow_status count_reals(series *s, dhow_scalar end) {
    const double steps = ceil((dhowi_scalar_float(end) - s->start) / s->step);
    if (s->step == 0) return refuse(s, "the step is 0");
    if (!isfinite(s->start) || !isfinite(s->step) || !isfinite(steps))
        return refuse(s, "start, end and step must be finite");
    if (steps < 0) return refuse(s, "the step leads away from the end");
    if (steps >= 0x1p62)
        return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: %g elements", s->function, steps);
    s->count = (int64_t)steps;
    return DHOW_OK;
}

static dhow_status count_integers(series *s, dhow_scalar start, dhow_scalar end, dhow_scalar step) {
    uint64_t first, last, by, bits;
    DHOWI_TRY(dhowi_scalar_bits(s->function, DHOW_I64, start, &first));
    DHOWI_TRY(dhowi_scalar_bits(s->function, DHOW_I64, end, &last));
    DHOWI_TRY(dhowi_scalar_bits(s->function, DHOW_I64, step, &by));
    s->first = (int64_t)first;
    s->by = (int64_t)by;
    const int64_t to = (int64_t)last;
    if (s->by == 0) return refuse(s, "the step is 0");
    if (to != s->first && (to > s->first) != (s->by > 0))
        return refuse(s, "the step leads away from the end");
    /* Distances in 64 bits without a sign: they may be longer than an i64. */
    const uint64_t way = to > s->first ? last - first : first - last;
    const uint64_t pace = s->by > 0 ? by : 0 - by;
    const uint64_t count = way / pace + (way % pace != 0);
    if (count > INT64_MAX / 16)
        return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: more elements than an address holds",
                          s->function);
    s->count = (int64_t)count;
    if (count == 0) return DHOW_OK;
    DHOWI_TRY(dhowi_scalar_bits(s->function, s->dtype, dhow_scalar_i64(s->first), &bits));
    const int64_t end_at = (int64_t)(first + (count - 1) * by);
    return dhowi_scalar_bits(s->function, s->dtype, dhow_scalar_i64(end_at), &bits);
}

static void write_series(const series *s, char *to) {
    const size_t bytes = dhow_dtype_bytes(s->dtype);
    for (int64_t i = 0; i < s->count; i++) {
        const uint64_t bits = s->real ? dhowi_dtype_encode(s->dtype, s->start + (double)i * s->step)
                                      : (uint64_t)s->first + (uint64_t)i * (uint64_t)s->by;
        memcpy(to + (size_t)i * bytes, &bits, bytes); /* little-endian, like all of dhow */
    }
}

dhow_status dhow_tensor_arange(dhow_device *device, dhow_dtype dtype, dhow_scalar start,
                               dhow_scalar end, dhow_scalar step, dhow_tensor **out) {
    series s = {
        .function = "dhow_tensor_arange",
        .dtype = dtype,
        .real = dtype == DHOW_F32 || dtype == DHOW_F64 || dtype == DHOW_F16 || dtype == DHOW_BF16,
        .start = dhowi_scalar_float(start),
        .step = dhowi_scalar_float(step)};
    int64_t count;
    uint64_t bytes;
    if (out == NULL) return refuse(&s, "out is NULL");
    *out = NULL;
    DHOWI_TRY(dhowi_device_check(device, s.function));
    DHOWI_TRY(dhowi_shape_check(s.function, dtype, 0, NULL, &count, &bytes));
    if (dtype == DHOW_BOOL) return refuse(&s, "bool has no numbers in a row");
    DHOWI_TRY(s.real ? count_reals(&s, end) : count_integers(&s, start, end, step));
    DHOWI_TRY(dhowi_shape_check(s.function, dtype, DHOW_SHAPE(s.count), &count, &bytes));
    /* The tensor first: the device's limit is asked before the host's memory. */
    dhow_tensor *tensor;
    DHOWI_TRY(dhow_tensor_create(device, dtype, DHOW_SHAPE(s.count), &tensor));
    char *values = dhowi_alloc(bytes > 0 ? bytes : 1);
    dhow_status status = DHOW_OK;
    if (values == NULL)
        status = dhowi_fail_memory(s.function);
    else
        write_series(&s, values);
    if (status == DHOW_OK) status = dhow_tensor_write(tensor, values, bytes);
    dhowi_free(values);
    if (status != DHOW_OK) {
        dhow_tensor_release(tensor);
        return status;
    }
    *out = tensor;
    return DHOW_OK;
}
