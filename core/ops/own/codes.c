/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of 4 or 8 bits; encodings.
 */
#include "ops/own/own.h"

/* Inputs are a, w, scales and, if given, zero points as packed bytes, zero points as numbers, bias.
 * attrs->split: n, inner = k, `count` blocks of 2^stride codes of `taps` bits. */
static void add_nbits(dhowi_own_launch *l, const dhowi_call *call) {
    const dhowi_axis_split *r = &call->attrs->split;
    dhowi_add_tensor(l, call->in[1], DHOW_ACCESS_READ);
    dhowi_add_tensor(l, call->in[2], DHOW_ACCESS_READ);
    dhowi_add_tensor(l, call->in[call->in[3] != NULL ? 3 : 1], DHOW_ACCESS_READ);
    dhowi_add_tensor(l, call->in[call->in[4] != NULL ? 4 : 2], DHOW_ACCESS_READ);
    l->span = DHOWI_MAX(l->span, r->n * r->inner);
}

static void add_nbits_values(dhowi_own_launch *l, const dhowi_call *call) {
    const dhowi_axis_split *r = &call->attrs->split;
    DHOWI_ADD_VALUES(l, r->n, r->inner, r->count);
    l->args[l->arg_count++] = dhowi_arg_i32((int32_t)r->stride);
    l->args[l->arg_count++] = dhowi_arg_i32((int32_t)r->taps);
    /* Rows as bytes: kernels of the CPU device alone know of them. */
    const bool bytes =
        r->flag[0] != 0 && call->stream->device == call->stream->device->context->cpu;
    const int32_t zeros = call->in[3] != NULL ? 1 : call->in[4] != NULL ? 2 : 0;
    l->args[l->arg_count++] = dhowi_arg_i32(zeros + (bytes ? 4 : 0));
}

/* Unpacks w into the second result, [n][k], and multiplies by that. */
static dhow_status run_unpacked(const dhowi_call *call, int64_t rows) {
    const dhowi_axis_split *r = &call->attrs->split;
    dhow_kernel *kernel;
    dhowi_own_launch l = {0};
    DHOWI_TRY(dhowi_kernel_of(call->stream->device, "unpack_nbits", call->in[0]->dtype, &kernel));
    add_nbits(&l, call);
    dhowi_add_tensor(&l, call->second, DHOW_ACCESS_WRITE);
    add_nbits_values(&l, call);
    DHOWI_TRY(dhowi_run_launch(call, &l, kernel, r->n * r->inner));
    const dhowi_gemm g = {.op = call->op, /* whose kernel is that of products */
                          .m = rows,
                          .n = r->n,
                          .k = r->inner,
                          .batch = 1,
                          .a_row = r->inner,
                          .a_col = 1,
                          .b_row = 1,
                          .b_col = r->inner,
                          .a = call->in[0],
                          .b = call->second,
                          .bias = call->in[5],
                          .inside = call->inside,
                          .c = call->out};
    return dhowi_gemm_run(call->stream, &g);
}

dhow_status dhowi_run_matmul_nbits(const dhowi_call *call) {
    const int64_t n = call->attrs->split.n, rows = call->out->count / n;
    dhow_kernel *kernel;
    dhowi_own_launch l = {0};
    if (call->second != NULL) return run_unpacked(call, rows);
    dhowi_add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    add_nbits(&l, call);
    dhowi_add_tensor(&l, call->in[call->in[5] != NULL ? 5 : 2], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, rows);
    add_nbits_values(&l, call);
    l.args[l.arg_count++] = dhowi_arg_i32(call->in[5] != NULL);
    DHOWI_TRY(dhowi_kernel_of(call->stream->device, "matmul_nbits", call->in[0]->dtype, &kernel));
    return dhowi_run_launch(call, &l, kernel,
                            dhowi_work_of(call->out->count, call->attrs->split.inner));
}

/* x[rows or fewer][inner], which rows share, matrices of `outer` experts [outer][n][inner], whose
 * places are i64[rows], and a bias [outer][n], or none; of matrices of codes also the scales
 * [outer][n][blocks] and zero points, packed or of numbers, or none, and attrs->split as it is for
 * matmul_nbits. */
dhow_status dhowi_run_experts(const dhowi_call *call) {
    enum { X, WEIGHT, INDEX, BIAS, SCALES, ZEROS };
    const dhowi_axis_split *r = &call->attrs->split;
    const bool coded = call->in[SCALES] != NULL, biased = call->in[BIAS] != NULL;
    dhow_tensor *zeros = call->in[ZEROS];
    const int32_t zero_mode = zeros == NULL ? 0 : zeros->dtype == DHOW_U8 ? 1 : 2;
    dhow_kernel *kernel;
    dhowi_own_launch l = {0};
    dhowi_add_tensor(&l, call->in[X], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->in[WEIGHT], DHOW_ACCESS_READ);
    if (coded) {
        dhowi_add_tensor(&l, call->in[SCALES], DHOW_ACCESS_READ);
        dhowi_add_tensor(&l, zero_mode == 1 ? zeros : call->in[WEIGHT], DHOW_ACCESS_READ);
        dhowi_add_tensor(&l, zero_mode == 2 ? zeros : call->in[SCALES], DHOW_ACCESS_READ);
    }
    dhowi_add_tensor(&l, call->in[INDEX], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->in[biased ? BIAS : X], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    const int64_t rows = call->out->count / r->n;
    l.span = DHOWI_MAX(l.span, dhowi_work_of(r->outer * r->n, r->inner));
    DHOWI_ADD_VALUES(&l, rows, rows / call->in[X]->shape[0], r->outer, r->n, r->inner);
    if (coded) {
        const bool rounds = r->flag[0] != 0 && dhowi_device_is_host(call->stream->device);
        DHOWI_ADD_VALUES(&l, r->count);
        l.args[l.arg_count++] = dhowi_arg_i32((int32_t)r->stride);
        l.args[l.arg_count++] = dhowi_arg_i32((int32_t)r->taps);
        l.args[l.arg_count++] = dhowi_arg_i32(zero_mode + (rounds ? 4 : 0));
    }
    l.args[l.arg_count++] = dhowi_arg_i32(biased);
    DHOWI_TRY(dhowi_kernel_of(call->stream->device, coded ? "expert_codes" : "expert_product",
                              call->out->dtype, &kernel));
    return dhowi_run_launch(call, &l, kernel, dhowi_work_of(call->out->count, r->inner));
}

/* Inputs are what the kernel takes, in its order. */
static void add_codes(dhowi_own_launch *l, const dhowi_call *call, uint32_t inputs) {
    for (uint32_t i = 0; i < inputs; i++) dhowi_add_tensor(l, call->in[i], DHOW_ACCESS_READ);
    dhowi_add_tensor(l, call->out, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(l, call->out->count);
}

static dhow_status run_codes(const dhowi_call *call, uint32_t inputs) {
    dhowi_own_launch l = {0};
    add_codes(&l, call, inputs);
    return dhowi_run_own(call, &l, call->out->count);
}

dhow_status dhowi_run_decode(const dhowi_call *call) { return run_codes(call, 2); }

dhow_status dhowi_run_encode(const dhowi_call *call) { return run_codes(call, 3); }

/* Inputs are x, scale and zero point. */
dhow_status dhowi_run_quantize(const dhowi_call *call) {
    dhowi_own_launch l = {0};
    add_codes(&l, call, 3);
    l.args[l.arg_count++] = dhowi_arg_i32(call->out->dtype == DHOW_I8 ? -128 : 0);
    return dhowi_run_own(call, &l, call->out->count);
}

/* Of x[outer][n][inner], whose scale and zero point are the first of attrs->coded. */
dhow_status dhowi_run_mean_codes(const dhowi_call *call) {
    dhow_tensor *x = call->in[0];
    const dhowi_coded *coded = &call->attrs->coded;
    dhow_kernel *kernel;
    dhowi_own_launch l = {0};
    dhowi_add_tensor(&l, x, DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, x->shape[0], x->shape[1], x->shape[2]);
    l.args[l.arg_count++] = dhowi_arg_f32(coded->scale[0]);
    l.args[l.arg_count++] = dhowi_arg_i32(coded->zero[0]);
    l.args[l.arg_count++] = dhowi_arg_i32(x->dtype == DHOW_I8 ? -128 : 0);
    DHOWI_TRY(dhowi_kernel_of(call->stream->device, "mean_codes", call->out->dtype, &kernel));
    return dhowi_run_launch(call, &l, kernel, x->count);
}

/* Of x, as many parts as the result has rows. */
dhow_status dhowi_run_range(const dhowi_call *call) {
    dhowi_own_launch l = {0};
    dhowi_add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, call->in[0]->count, call->out->shape[0]);
    return dhowi_run_own(call, &l, call->in[0]->count);
}

/* The second result is the zero point. */
dhow_status dhowi_run_scale_of_range(const dhowi_call *call) {
    dhowi_own_launch l = {0};
    dhowi_add_tensor(&l, call->in[0], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    dhowi_add_tensor(&l, call->second, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, call->in[0]->shape[0]);
    return dhowi_run_own(call, &l, 1);
}
