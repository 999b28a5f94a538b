/* SPDX-License-Identifier: Apache-2.0
 *
 * Eager functions that take numbers: arithmetic and fills.
 */
#include "copy/engine.h"
#include "ops/run/op.h"

#define WITH_SCALAR(name, formula)                                                       \
    dhow_status dhow_##name##_scalar(dhow_stream *stream, dhow_tensor *x, dhow_scalar s, \
                                     dhow_tensor *y) {                                   \
        const dhowi_attrs attrs = {.scalar = {s, dhow_scalar_i64(0)}};                   \
        return dhowi_op_call(DHOWI_OP_##name##_scalar, stream, &x, 1, &attrs, y);        \
    }
DHOW_SCALAR_MAP(WITH_SCALAR)

dhow_status dhow_affine(dhow_stream *stream, dhow_tensor *x, dhow_scalar a, dhow_scalar b,
                        dhow_tensor *y) {
    const dhowi_attrs attrs = {.scalar = {a, b}};
    return dhowi_op_call(DHOWI_OP_affine, stream, &x, 1, &attrs, y);
}

dhow_status dhow_fill_scalar(dhow_stream *stream, dhow_tensor *y, dhow_scalar value) {
    static const char function[] = "fill_scalar";
    uint64_t bits;
    DHOWI_TRY(dhowi_tensor_check_write(y, function, "y"));
    DHOWI_TRY(dhowi_stream_resolve(stream, dhowi_tensor_device(y), function, &stream));
    DHOWI_TRY(dhowi_scalar_bits(function, y->dtype, value, &bits));
    return dhowi_fill_bits(stream, y, bits);
}
