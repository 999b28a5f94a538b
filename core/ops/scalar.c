/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of arithmetic with numbers: one launch of kernels/scalar.k.
 */
#include "ops/scalar.h"

/* f16 and bf16 compute in f32, in which the number is. */
static dhow_dtype computed_in(dhow_dtype dtype) {
    return dtype == DHOW_F16 || dtype == DHOW_BF16 ? DHOW_F32 : dtype;
}

static bool is_real(dhow_dtype dtype) { return (DHOWI_FLOATS & DHOW_DTYPE_BIT(dtype)) != 0; }

dhow_status dhowi_infer_scalar(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                               const dhowi_attrs *attrs, dhowi_tensor_desc *out) {
    const dhow_dtype dtype = computed_in(in[0]->dtype);
    uint64_t bits;
    DHOWI_TRY(dhowi_scalar_bits(op->name, dtype, attrs->scalar[0], &bits));
    DHOWI_TRY(dhowi_scalar_bits(op->name, dtype, attrs->scalar[1], &bits));
    *out = *in[0];
    return DHOW_OK;
}

/* Powers that are no library call, as in PyTorch. */
static int32_t form_of(const dhowi_call *call) {
    const int32_t form = (int32_t)(call->op->flags >> DHOWI_FORM_SHIFT);
    const double number = dhowi_scalar_float(call->attrs->scalar[0]);
    if (form != DHOWI_FORM_pow) return form;
    if (number == 2) return DHOWI_FORM_SQUARE;
    if (number == 3) return DHOWI_FORM_CUBE;
    return is_real(call->out->dtype) && number == 0.5 ? DHOWI_FORM_ROOT : form;
}

dhow_status dhowi_run_scalar(const dhowi_call *call) {
    dhow_tensor *x = call->in[0], *y = call->out;
    const dhow_dtype dtype = computed_in(y->dtype);
    uint64_t c, q;
    dhow_kernel *kernel;
    DHOWI_TRY(dhowi_scalar_bits(call->op->name, dtype, call->attrs->scalar[0], &c));
    DHOWI_TRY(dhowi_scalar_bits(call->op->name, dtype, call->attrs->scalar[1], &q));
    DHOWI_TRY(dhowi_op_kernel(call->op, y->dtype, call->stream->device, &kernel));
    const dhow_arg args[] = {dhowi_arg_buffer(x, DHOW_ACCESS_READ),
                             dhowi_arg_buffer(y, DHOW_ACCESS_WRITE),
                             dhowi_arg_i64(y->count),
                             dhowi_arg_i32(form_of(call)),
                             dhowi_arg_i64((int64_t)c),
                             dhowi_arg_i64((int64_t)q)};
    const dhowi_use uses[] = {{x->storage, DHOW_ACCESS_READ}, dhowi_use_of(y, DHOW_ACCESS_WRITE)};
    return dhowi_launch(call->stream, kernel, y->count, y->count, args, 6, uses, 2);
}
