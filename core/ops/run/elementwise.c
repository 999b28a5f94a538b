/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise operations and casts; what follows a product or a reduction where its kernel cannot
 * do it: sums, quotients and activations over the result, in place.
 */
#include <stdio.h>
#include <string.h>

#include "base/memory/size.h"
#include "base/text/text.h"
#include "copy/engine.h"
#include "dhow/create.h"
#include "kernel/optimise.h"
#include "ops/run/map.h"
#include "ops/run/rows.h"

dhow_status dhowi_infer_same(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                             const dhowi_attrs *attrs, dhowi_tensor_desc *out) {
    (void)op, (void)attrs;
    *out = *in[0];
    return DHOW_OK;
}

dhow_status dhowi_infer_broadcast(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                                  const dhowi_attrs *attrs, dhowi_tensor_desc *out) {
    (void)attrs;
    char a[160], b[160];
    if (in[0]->dtype != in[1]->dtype) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: a is %s, b is %s; dhow_cast() one of them",
                          op->name, dhowi_desc_text(in[0], a, sizeof a),
                          dhowi_desc_text(in[1], b, sizeof b));
    }
    out->dtype = in[0]->dtype;
    if (!dhowi_shape_broadcast(in[0]->rank, in[0]->shape, in[1]->rank, in[1]->shape, &out->rank,
                               out->shape)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: a is %s, b is %s; these shapes do not broadcast", op->name,
                          dhowi_desc_text(in[0], a, sizeof a), dhowi_desc_text(in[1], b, sizeof b));
    }
    return DHOW_OK;
}

dhow_status dhowi_run_unary(const dhowi_call *call) {
    dhow_tensor *x = call->in[0], *y = call->out;
    dhow_kernel *kernel;
    DHOWI_TRY(dhowi_op_kernel(call->op, x->dtype, call->stream->device, &kernel));
    const dhow_arg args[] = {dhowi_arg_buffer(x, DHOW_ACCESS_READ),
                             dhowi_arg_buffer(y, DHOW_ACCESS_WRITE), dhowi_arg_i64(y->count)};
    const dhowi_use uses[] = {{x->storage, DHOW_ACCESS_READ}, dhowi_use_of(y, DHOW_ACCESS_WRITE)};
    return dhowi_launch(call->stream, kernel, y->count, y->count, args, 3, uses, 2);
}

/* x[o][c][...], and f32 for each channel. */
dhow_status dhowi_run_scale_channels(const dhowi_call *call) {
    dhow_tensor *x = call->in[0], *scale = call->in[1], *shift = call->in[2], *y = call->out;
    int64_t inner = 1;
    dhow_kernel *kernel;
    for (int32_t i = 2; i < x->rank; i++) inner *= x->shape[i];
    DHOWI_TRY(dhowi_op_kernel(call->op, x->dtype, call->stream->device, &kernel));
    const dhow_arg args[] = {dhowi_arg_buffer(x, DHOW_ACCESS_READ),
                             dhowi_arg_buffer(y, DHOW_ACCESS_WRITE),
                             dhowi_arg_buffer(scale, DHOW_ACCESS_READ),
                             dhowi_arg_buffer(shift, DHOW_ACCESS_READ),
                             dhowi_arg_i64(y->count),
                             dhowi_arg_i64(x->shape[1]),
                             dhowi_arg_i64(inner)};
    const dhowi_use uses[] = {{x->storage, DHOW_ACCESS_READ},
                              dhowi_use_of(y, DHOW_ACCESS_WRITE),
                              {scale->storage, DHOW_ACCESS_READ},
                              {shift->storage, DHOW_ACCESS_READ}};
    return dhowi_launch(call->stream, kernel, y->count, y->count, args, (uint32_t)DHOWI_COUNT(args),
                        uses, 4);
}

static bool same_shape(const dhow_tensor *a, const dhow_tensor *b) {
    return a->contiguous && dhowi_shape_equal(a->rank, a->shape, b->rank, b->shape);
}

/* Says where items may take packs instead of elements. */
static void mark_packs(const dhow_dims *d, dhow_dtype dtype, dhow_dims *more) {
    const int64_t *const strides[] = {d->stride[0], d->stride[1]};
    const dhowi_packs packs = dhowi_packs_of(d, strides, 2, d->stride[2], dtype);
    more->offset[0] = packs.kind[0];
    more->offset[1] = packs.kind[1];
    more->offset[2] = packs.mode;
    more->stride[0][0] = packs.length;
    more->stride[0][1] = packs.multiplier;
}

static dhow_status run_strided(const dhowi_call *call, dhow_arg *args, const dhowi_use *uses) {
    static const dhow_dims none; /* what processors have no use for takes them time all the same */
    dhow_tensor *const operands[] = {call->in[0], call->in[1], call->out}, *y = call->out;
    dhow_device *device = call->stream->device;
    dhow_kernel *kernel;
    dhow_dims dims, more;
    int64_t span = 0;
    char base[32];
    (void)snprintf(base, sizeof base, "%s_dims", call->op->kernel);
    DHOWI_TRY(dhowi_kernel_of(device, base, y->dtype, &kernel));
    for (int i = 0; i < 3; i++) span = DHOWI_MAX(span, dhowi_span_of(operands[i]));
    dhowi_dims_of(y->rank, y->shape, operands, 3, &dims);
    args[3] = dhowi_arg_dims(&dims);
    args[4] = dhowi_arg_dims(&none);
    if (dhowi_index_width(device, 0) == DHOWI_INDEX_32) {
        memset(&more, 0, sizeof more);
        mark_packs(&dims, y->dtype, &more);
        span = dhowi_multipliers(device, &dims, span, more.shape);
        args[4] = dhowi_arg_dims(&more);
    }
    return dhowi_launch(call->stream, kernel, y->count, span, args, 5, uses, 3);
}

dhow_status dhowi_run_binary(const dhowi_call *call) {
    dhow_tensor *a = call->in[0], *b = call->in[1], *y = call->out;
    dhow_kernel *kernel;
    dhow_arg args[5] = {dhowi_arg_buffer(a, DHOW_ACCESS_READ),
                        dhowi_arg_buffer(b, DHOW_ACCESS_READ),
                        dhowi_arg_buffer(y, DHOW_ACCESS_WRITE), dhowi_arg_i64(y->count)};
    const dhowi_use uses[] = {{a->storage, DHOW_ACCESS_READ},
                              {b->storage, DHOW_ACCESS_READ},
                              dhowi_use_of(y, DHOW_ACCESS_WRITE)};
    if (!y->contiguous || !same_shape(a, y) || !same_shape(b, y))
        return run_strided(call, args, uses);
    DHOWI_TRY(dhowi_op_kernel(call->op, y->dtype, call->stream->device, &kernel));
    return dhowi_launch(call->stream, kernel, y->count, y->count, args, 4, uses, 3);
}

/* ---- casts and fills: their dtypes do not fit the table's one-dtype rows ---- */

static dhow_status cast_plain(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y) {
    char name[48];
    dhow_kernel *kernel;
    dhow_dtype from = x->dtype == DHOW_BOOL ? DHOW_U8 : x->dtype; /* the same bytes */
    (void)snprintf(name, sizeof name, "cast_%s_%s", dhow_dtype_name(from),
                   dhow_dtype_name(y->dtype));
    DHOWI_TRY(dhowi_builtin_kernel_named(stream->device, name, &kernel));
    const dhow_arg args[] = {dhowi_arg_buffer(x, DHOW_ACCESS_READ),
                             dhowi_arg_buffer(y, DHOW_ACCESS_WRITE), dhowi_arg_i64(y->count)};
    const dhowi_use uses[] = {{x->storage, DHOW_ACCESS_READ}, dhowi_use_of(y, DHOW_ACCESS_WRITE)};
    return dhowi_launch(stream, kernel, y->count, y->count, args, 3, uses, 2);
}

static bool is_rare(dhow_dtype dtype) {
    return dtype == DHOW_I16 || dtype == DHOW_U16 || dtype == DHOW_U32 || dtype == DHOW_U64;
}

static bool is_float(dhow_dtype dtype) {
    return dtype == DHOW_F32 || dtype == DHOW_F64 || dtype == DHOW_F16 || dtype == DHOW_BF16;
}

/* Integers reach the types that are rarely met through i64, which wraps as one step would; floats
   do not, since they saturate at the ends of the range they are sent to. */
static dhow_status convert(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y) {
    dhow_tensor *wide;
    bool direct = !is_rare(y->dtype) || x->dtype == DHOW_I64 || is_float(x->dtype);
    if (direct) return cast_plain(stream, x, y);
    DHOWI_TRY(dhowi_tensor_new(stream->device, DHOW_I64, x->rank, x->shape, &wide));
    dhow_status status = cast_plain(stream, x, wide);
    if (status == DHOW_OK) status = cast_plain(stream, wide, y);
    dhow_tensor_release(wide);
    return status;
}

dhow_status dhowi_run_cast(const dhowi_call *call) {
    return convert(call->stream, call->in[0], call->out);
}

dhow_status dhowi_run_copy(const dhowi_call *call) {
    return dhowi_copy_local(call->stream, call->in[0], call->out, true);
}

/* Elements of another type and the same width keep their bits. */
dhow_status dhowi_run_bitcast(const dhowi_call *call) { return dhowi_run_copy(call); }

dhow_status dhowi_run_fill(const dhowi_call *call) {
    return dhowi_fill_bits(call->stream, call->out,
                           dhowi_dtype_encode(call->out->dtype, call->attrs->scalar[0].value.f64));
}

static dhow_status cast_packed(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y) {
    dhow_tensor *packed = NULL, *result = NULL;
    dhow_status status = dhow_tensor_contiguous(stream, x, &packed);
    if (status == DHOW_OK)
        status = dhowi_tensor_new(stream->device, y->dtype, y->rank, y->shape, &result);
    if (status == DHOW_OK) status = convert(stream, packed, result);
    if (status == DHOW_OK) status = dhowi_copy_local(stream, result, y, true);
    dhow_tensor_release(packed);
    dhow_tensor_release(result);
    return status;
}

dhow_status dhow_cast(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y) {
    char a[192], b[192];
    DHOWI_TRY(dhowi_tensor_check_read(x, "cast", "x"));
    DHOWI_TRY(dhowi_tensor_check_write(y, "cast", "y"));
    bool fits = dhowi_shape_equal(x->rank, x->shape, y->rank, y->shape) &&
                dhowi_tensor_device(x) == dhowi_tensor_device(y);
    if (!fits) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "cast: x is %s, y is %s; they need one shape and one device",
                          dhowi_tensor_text(x, a, sizeof a), dhowi_tensor_text(y, b, sizeof b));
    }
    DHOWI_TRY(dhowi_stream_resolve(stream, dhowi_tensor_device(y), "cast", &stream));
    if (y->count == 0) return DHOW_OK;
    bool overlap = dhowi_tensor_overlap(x, y);
    if (x->dtype == y->dtype) return dhow_copy_async(stream, x, y, 0);
    if (x->contiguous && y->contiguous && !overlap) return convert(stream, x, y);
    return cast_packed(stream, x, y);
}

dhow_status dhow_tensor_to_dtype(dhow_stream *stream, dhow_tensor *tensor, dhow_dtype dtype,
                                 dhow_tensor **out) {
    static const char function[] = "dhow_tensor_to_dtype";
    int64_t count;
    uint64_t bytes;
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_tensor_check_read(tensor, function, "tensor"));
    DHOWI_TRY(dhowi_stream_resolve(stream, dhowi_tensor_device(tensor), function, &stream));
    DHOWI_TRY(dhowi_shape_check(function, dtype, tensor->rank, tensor->shape, &count, &bytes));
    if (tensor->dtype == dtype) {
        dhowi_handle_retain(&tensor->handle);
        *out = tensor;
        return DHOW_OK;
    }
    DHOWI_TRY(dhowi_tensor_new(stream->device, dtype, tensor->rank, tensor->shape, out));
    dhow_status status = dhow_cast(stream, tensor, *out);
    if (status == DHOW_OK) return DHOW_OK;
    dhow_tensor_release(*out);
    *out = NULL;
    return status;
}

dhow_status dhow_fill(dhow_stream *stream, dhow_tensor *y, double value) {
    DHOWI_TRY(dhowi_tensor_check_write(y, "fill", "y"));
    DHOWI_TRY(dhowi_stream_resolve(stream, dhowi_tensor_device(y), "fill", &stream));
    return dhowi_fill_bits(stream, y, dhowi_dtype_encode(y->dtype, value));
}

/* ---- what follows a product ---- */

static _Atomic int32_t g_kernel_index[3][DHOW_BOOL + 1];
static const dhowi_op k_add = {.name = "add", .kernel = "add", .kernel_index = g_kernel_index[0]},
                      k_div = {.name = "div", .kernel = "div", .kernel_index = g_kernel_index[1]},
                      k_map = {.name = "map", .kernel = "map", .kernel_index = g_kernel_index[2]};

static dhow_status change(const dhowi_op *op, dhow_stream *stream, dhow_tensor *y, dhow_tensor *x) {
    const dhowi_call call = {.op = op, .stream = stream, .in = {y, x}, .out = y};
    return dhowi_run_binary(&call);
}

dhow_status dhowi_add_to(dhow_stream *stream, dhow_tensor *y, dhow_tensor *x) {
    return change(&k_add, stream, y, x);
}

dhow_status dhowi_divide_by(dhow_stream *stream, dhow_tensor *y, dhow_tensor *x) {
    return change(&k_div, stream, y, x);
}

bool dhowi_kernels_end_with(const dhowi_activation *activation) {
    return activation->kind <= DHOW_ACTIVATION_SILU;
}

/* The program of those that are no kernel of their own. */
static void write_program(const dhowi_activation *a, dhowi_program *out) {
    static const dhowi_map_op operations[] = {[DHOW_ACTIVATION_HARD_SWISH] = DHOWI_MAP_HARD_SWISH,
                                              [DHOW_ACTIVATION_MISH] = DHOWI_MAP_MISH,
                                              [DHOW_ACTIVATION_LEAKY_RELU] = DHOWI_MAP_LEAKY,
                                              [DHOW_ACTIVATION_CLIP] = DHOWI_MAP_CLIP};
    const dhowi_map_op op = operations[a->kind];
    (void)dhowi_program_add(out, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_constants(out, op, dhowi_map_constants(op), (double)a->alpha,
                                  (double)a->beta);
}

dhow_status dhowi_activate(dhow_stream *stream, const dhowi_activation *activation,
                           dhow_tensor *y) {
    static _Atomic int32_t index[DHOW_ACTIVATION_SILU + 1][DHOW_BOOL + 1];
    static const char *const kernels[] = {
        [DHOW_ACTIVATION_RELU] = "relu",           [DHOW_ACTIVATION_GELU] = "gelu",
        [DHOW_ACTIVATION_GELU_TANH] = "gelu_tanh", [DHOW_ACTIVATION_SIGMOID] = "sigmoid",
        [DHOW_ACTIVATION_TANH] = "tanh",           [DHOW_ACTIVATION_SILU] = "silu"};
    dhowi_call call = {.stream = stream, .in = {y}, .out = y};
    if (activation->kind == DHOW_ACTIVATION_NONE) return DHOW_OK;
    if (!dhowi_kernels_end_with(activation)) {
        dhowi_attrs attrs = {0};
        write_program(activation, &attrs.program);
        call.op = &k_map;
        call.attrs = &attrs;
        return dhowi_run_map(&call);
    }
    const dhowi_op op = {.name = kernels[activation->kind],
                         .kernel = kernels[activation->kind],
                         .kernel_index = index[activation->kind]};
    call.op = &op;
    return dhowi_run_unary(&call);
}
