/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantised arithmetic.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "kernel/optimise.h"
#include "model/lower/products/products.h"
#include "model/operators/nn/nn.h"

/* A scale or zero point of x: one number, one per element of an axis, or what broadcasts to x. */
static dhow_status per_axis(dhowi_lowering *b, int32_t v, const dhowi_tensor_desc *x, int64_t axis,
                            int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, v);
    int32_t at = 0;
    char s[160], t[160];
    *out = v;
    if (dhowi_count_of(&own) == 1)
        return own.rank <= x->rank ? DHOW_OK : dhowi_reshape(b, v, 0, NULL, out);
    const bool alike = own.rank == x->rank;
    bool fits = true;
    if (!alike) DHOWI_TRY(dhowi_axis(x, axis, &at));
    if (!alike) fits = dhowi_count_of(&own) == x->shape[at];
    for (int32_t i = 0; alike && i < own.rank; i++)
        fits = fits && (own.shape[i] == 1 || own.shape[i] == x->shape[i]);
    if (!fits)
        DHOWI_REFUSE("a scale or zero point is %s, which does not fit %s",
                     dhowi_desc_text(&own, s, sizeof s), dhowi_desc_text(x, t, sizeof t));
    return alike ? DHOW_OK : dhowi_along(b, v, x->rank, at, out);
}

/* A scale or zero point of a node that quantises x: also one for each block of an axis. */
static dhow_status per_block(dhowi_lowering *b, int32_t v, const dhowi_tensor_desc *x,
                             int32_t *out) {
    const int64_t block = dhowi_attr_int(b, "block_size", 0), at = dhowi_attr_int(b, "axis", 1);
    dhowi_tensor_desc wanted = *x;
    const dhowi_tensor_desc own = *dhowi_desc_at(b, v);
    int32_t axis;
    if (block == 0) return per_axis(b, v, x, at, out);
    DHOWI_TRY(dhowi_axis(x, at, &axis));
    if (block < 0) DHOWI_REFUSE("block_size is %" PRId64, block);
    const int64_t extent = x->shape[axis], size = DHOWI_MIN(block, DHOWI_MAX(extent, (int64_t)1));
    wanted.dtype = own.dtype;
    wanted.shape[axis] = dhowi_ceil_div(extent, size);
    if (!dhowi_shape_equal(own.rank, own.shape, wanted.rank, wanted.shape)) {
        char s[160], t[160];
        DHOWI_REFUSE("a scale or zero point is %s, blocks of %" PRId64 " want %s",
                     dhowi_desc_text(&own, s, sizeof s), block,
                     dhowi_desc_text(&wanted, t, sizeof t));
    }
    const int64_t outer = dhowi_extent(&own, 0, axis), n = own.shape[axis],
                  inner = dhowi_extent(&own, axis + 1, own.rank);
    const int64_t one[] = {outer * n, 1, inner}, each[] = {outer * n, size, inner},
                  whole[] = {outer, n * size, inner};
    DHOWI_TRY(dhowi_reshape(b, v, 3, one, out));
    DHOWI_TRY(dhowi_expand(b, *out, 3, each, out));
    DHOWI_TRY(dhowi_reshape(b, *out, 3, whole, out));
    DHOWI_TRY(dhowi_narrow(b, *out, 1, 0, extent, 1, out));
    return dhowi_reshape(b, *out, x->rank, x->shape, out);
}

static dhow_status limits_of(dhow_dtype dtype, int32_t encoding, double *low, double *high) {
    if (dhowi_integer_range(encoding, low, high)) return DHOW_OK;
    switch (dtype) {
        case DHOW_U8:
            *low = 0, *high = 255;
            return DHOW_OK;
        case DHOW_I8:
            *low = -128, *high = 127;
            return DHOW_OK;
        case DHOW_U16:
            *low = 0, *high = 65535;
            return DHOW_OK;
        case DHOW_I16:
            *low = -32768, *high = 32767;
            return DHOW_OK;
        default:
            return dhowi_fail(DHOW_UNSUPPORTED, "quantised values of type %s",
                              dhow_dtype_name(dtype));
    }
}

/* What a quantisation may ask for beyond scales along one axis or for blocks. */
static dhow_status refuse_options(const dhowi_lowering *b) {
    const int64_t precision = dhowi_attr_int(b, "precision", 0);
    if (precision != 0 && precision != 1)
        return dhowi_fail(DHOW_UNSUPPORTED, "unsupported precision %s",
                          dhowi_onnx_type_name((int32_t)precision));
    return DHOW_OK;
}

/* A type to quantise to: an integer, or a float where it is an encoding. */
typedef struct quantized_type {
    dhow_dtype dtype;
    int32_t encoding;
} quantized_type;

static quantized_type type_of(const dhowi_tensor_desc *desc) {
    return (quantized_type){desc->dtype, desc->encoding};
}

static const char *type_name(quantized_type type) {
    return type.encoding != 0 ? dhowi_onnx_type_name(type.encoding) : dhow_dtype_name(type.dtype);
}

/* A known number that a step of codes may have as scale. */
static bool is_scale(dhowi_lowering *b, int32_t ref, float *out) {
    double number;
    uint32_t count;
    if (!dhowi_is_known(b, ref) || dhowi_count_of(dhowi_desc_at(b, ref)) != 1 ||
        dhowi_desc_at(b, ref)->encoding != 0 || dhowi_floats(b, ref, &number, 1, &count) != DHOW_OK)
        return false;
    *out = (float)number;
    return isnormal(*out) && *out > 0;
}

/* The same of a zero point, which may be missing. */
static bool is_zero_point(dhowi_lowering *b, int32_t ref, int32_t *out) {
    double number;
    uint32_t count;
    *out = 0;
    if (ref < 0) return true;
    if (!dhowi_is_known(b, ref) || dhowi_count_of(dhowi_desc_at(b, ref)) != 1 ||
        dhowi_floats(b, ref, &number, 1, &count) != DHOW_OK)
        return false;
    *out = (int32_t)number;
    return true;
}

static bool are_bytes(quantized_type type) {
    return type.encoding == 0 && (type.dtype == DHOW_U8 || type.dtype == DHOW_I8);
}

/* x as codes, or codes x as f32, in one step; *out is -1 where that is none. `scale` is -1 for 1.
 */
static dhow_status in_one_step(dhowi_lowering *b, int32_t x, int32_t scale, int32_t zero,
                               quantized_type to, int32_t *out) {
    const bool encodes = are_bytes(to);
    dhowi_tensor_desc desc = *dhowi_desc_at(b, x);
    dhowi_attrs attrs = {.coded = {.scale = {1, 1, 1, 1, 1}}};
    const uint32_t at = encodes ? DHOWI_MAP_OPERANDS : 0;
    *out = -1;
    if (!dhowi_optimises(DHOWI_OPTIMISE_INTEGERS) || !dhowi_maps_codes(b->device) ||
        !(encodes ? desc.dtype == DHOW_F32 : are_bytes(type_of(&desc))) ||
        (scale >= 0 && !is_scale(b, scale, &attrs.coded.scale[at])) ||
        !is_zero_point(b, zero, &attrs.coded.zero[at]))
        return DHOW_OK;
    (void)dhowi_program_add(&attrs.program, DHOWI_MAP_LOAD, 0);
    desc.dtype = to.dtype;
    desc.encoding = 0;
    return dhowi_emit(b, DHOWI_OP_map_codes, &x, 1, &attrs, &desc, out);
}

/* f32 x as codes by one scale and zero point that are computed, in one step; *out is -1 where that
 * is none. */
static dhow_status by_computed_scale(dhowi_lowering *b, int32_t x, int32_t scale, int32_t zero,
                                     dhow_dtype to, int32_t *out) {
    const dhowi_tensor_desc *factor = dhowi_desc_at(b, scale);
    const dhowi_tensor_desc *point = zero >= 0 ? dhowi_desc_at(b, zero) : NULL;
    dhowi_tensor_desc desc = *dhowi_desc_at(b, x);
    *out = -1;
    if (!dhowi_optimises(DHOWI_OPTIMISE_INTEGERS) || !dhowi_quantizes(b->device) ||
        factor->dtype != DHOW_F32 || factor->encoding != 0 || dhowi_count_of(factor) != 1 ||
        point == NULL || point->dtype != to || dhowi_count_of(point) != 1)
        return DHOW_OK;
    desc.dtype = to;
    desc.encoding = 0;
    const int32_t in[] = {x, scale, zero};
    return dhowi_emit(b, DHOWI_OP_quantize, in, 3, NULL, &desc, out);
}

/* saturate(round(x / scale) + zero); zero may be -1 */
static dhow_status quantized(dhowi_lowering *b, int32_t x, int32_t scale, int32_t zero,
                             quantized_type to, int32_t *out) {
    double low = 0, high = 0;
    int32_t in[] = {x, scale, zero};
    dhowi_program p = {0};
    DHOWI_TRY(limits_of(to.dtype, to.encoding, &low, &high));
    if (zero >= 0) DHOWI_TRY(dhowi_decoded(b, zero, DHOW_F32, &in[2]));
    DHOWI_TRY(dhowi_cast_to(b, x, DHOW_F32, &in[0]));
    if (are_bytes(to)) {
        DHOWI_TRY(in_one_step(b, in[0], scale, zero, to, out));
        if (*out < 0) DHOWI_TRY(by_computed_scale(b, in[0], scale, zero, to.dtype, out));
        if (*out >= 0) return DHOW_OK;
    }
    DHOWI_TRY(dhowi_decoded(b, scale, DHOW_F32, &in[1]));
    (void)dhowi_program_add(&p, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_add(&p, DHOWI_MAP_DIV, 1);
    (void)dhowi_program_constants(&p, DHOWI_MAP_ROUND, 0, 0, 0);
    if (zero >= 0) (void)dhowi_program_add(&p, DHOWI_MAP_ADD, 2);
    (void)dhowi_program_constants(&p, DHOWI_MAP_CLIP, 2, low, high);
    DHOWI_TRY(dhowi_map(b, &p, in, zero >= 0 ? 3 : 2, out));
    if (to.encoding != 0) return dhowi_integers_of(b, *out, to.encoding, out);
    return dhowi_cast_to(b, *out, to.dtype, out);
}

/* saturate(x / scale + zero) as float8 or float4, whose zero points are 0 and tell the type */
static dhow_status quantized_float(dhowi_lowering *b, int32_t x, int32_t scale, int32_t zero,
                                   int32_t encoding, int32_t *out) {
    bool saturates;
    DHOWI_TRY(dhowi_attr_flag(b, "saturate", true, &saturates));
    DHOWI_TRY(dhowi_cast_to(b, x, DHOW_F32, &x));
    DHOWI_TRY(dhowi_decoded(b, scale, DHOW_F32, &scale));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_DIV, x, scale, out));
    if (zero >= 0) {
        DHOWI_TRY(dhowi_decoded(b, zero, DHOW_F32, &zero));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, *out, zero, out));
    }
    return dhowi_encoded(b, *out, encoding, saturates, DHOWI_ROUND_UP, out);
}

dhow_status dhowi_check_quantised(const dhowi_lowering *b, uint32_t x, uint32_t zero) {
    const quantized_type type = type_of(dhowi_desc_at(b, b->in[x]));
    if (type.encoding == 0 && dhowi_is_float(type.dtype))
        DHOWI_REFUSE("input %u is %s, a quantised one is an integer", x,
                     dhow_dtype_name(type.dtype));
    if (!dhowi_given(b, zero)) return DHOW_OK;
    const quantized_type own = type_of(dhowi_desc_at(b, b->in[zero]));
    if (own.dtype == type.dtype && own.encoding == type.encoding) return DHOW_OK;
    DHOWI_REFUSE("input %u is %s; a zero point of input %u is %s as well", zero, type_name(own), x,
                 type_name(type));
}

static dhow_status real_of(dhowi_lowering *b, int32_t x, int32_t zero, int32_t scale, int32_t *out);

/* Codes of zero around codes are zeros around what those stand for. */
static dhow_status note_zeros(dhowi_lowering *b, int32_t item, int32_t codes, int32_t zero,
                              int32_t scale) {
    int32_t number;
    if (b->items[codes].padding == 0 || !dhowi_optimises(DHOWI_OPTIMISE_PADS)) return DHOW_OK;
    dhowi_padding p = b->paddings[b->items[codes].padding - 1];
    if (!is_zero_point(b, zero, &number) || p.value != number) return DHOW_OK;
    DHOWI_TRY(scale >= 0 ? real_of(b, p.of, zero, scale, &p.of)
                         : dhowi_centred(b, p.of, zero, &p.of));
    p.value = 0;
    return dhowi_note_padding(b, item, &p);
}

dhow_status dhowi_centred(dhowi_lowering *b, int32_t x, int32_t zero, int32_t *out) {
    const int32_t codes = x, point = zero;
    DHOWI_TRY(in_one_step(b, x, -1, zero, (quantized_type){DHOW_F32, 0}, out));
    if (*out < 0)
        DHOWI_TRY(dhowi_decoded(b, x, DHOW_F32, out));
    else
        zero = -1; /* it is done */
    if (zero >= 0) {
        DHOWI_TRY(dhowi_decoded(b, zero, DHOW_F32, &zero));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, *out, zero, out));
    }
    dhowi_note_codes(b, *out, codes, point, -1);
    return note_zeros(b, *out, codes, point, -1);
}

/* (x - zero) scale, of an f32 scale */
static dhow_status real_of(dhowi_lowering *b, int32_t x, int32_t zero, int32_t scale,
                           int32_t *out) {
    DHOWI_TRY(in_one_step(b, x, scale, zero, (quantized_type){DHOW_F32, 0}, out));
    if (*out < 0) {
        DHOWI_TRY(dhowi_centred(b, x, zero, out));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, *out, scale, out));
    }
    dhowi_note_codes(b, *out, x, zero, scale);
    return note_zeros(b, *out, x, zero, scale);
}

/* The same; of weights once they are read, which sums of integers do not. */
static dhow_status real_when_read(dhowi_lowering *b, int32_t x, int32_t zero, int32_t scale,
                                  int32_t *out) {
    b->defers = dhowi_optimises(DHOWI_OPTIMISE_INTEGERS);
    const dhow_status status = real_of(b, x, zero, scale, out);
    b->defers = false;
    return status;
}

/* Codes of what is padded are the codes that it was made of, padded; *out is -1 where x is no such
 * thing. */
static dhow_status padded_codes(dhowi_lowering *b, int32_t x, int32_t scale, int32_t zero,
                                quantized_type to, int32_t *out) {
    *out = -1;
    if (b->items[x].padding == 0 || !are_bytes(to) || !dhowi_optimises(DHOWI_OPTIMISE_INTEGERS))
        return DHOW_OK;
    const dhowi_padding p = b->paddings[b->items[x].padding - 1];
    const dhowi_item of = b->items[p.of];
    double low, high;
    float own, others;
    int32_t point, other_point;
    if (of.codes == 0 || of.scale == 0 || dhowi_desc_at(b, of.codes - 1)->dtype != to.dtype ||
        !is_scale(b, scale, &own) || !is_scale(b, of.scale - 1, &others) || own != others ||
        !is_zero_point(b, zero, &point) || !is_zero_point(b, of.zero - 1, &other_point) ||
        point != other_point)
        return DHOW_OK;
    DHOWI_TRY(limits_of(to.dtype, 0, &low, &high));
    const double code = (double)rintf((float)p.value / own) + (double)point;
    return dhowi_pad_with(b, of.codes - 1, p.before, p.after, fmax(low, fmin(code, high)), out);
}

dhow_status dhowi_lower_quantize(dhowi_lowering *b) {
    const dhowi_tensor_desc from = *dhowi_desc_at(b, b->in[0]);
    int32_t scale, zero = -1;
    const int64_t wanted = dhowi_attr_int(b, "output_dtype", 0);
    const int32_t type = wanted == (int32_t)wanted ? (int32_t)wanted : -1;
    quantized_type to = {DHOW_U8, 0};
    double low, high;
    if (wanted != 0) to = (quantized_type){dhowi_onnx_held(type), dhowi_onnx_encoding(type)};
    if (to.dtype == 0)
        return dhowi_fail(DHOW_UNSUPPORTED, "unsupported output_dtype %s",
                          dhowi_onnx_type_name(type));
    if (from.encoding != 0)
        return dhowi_fail(DHOW_UNSUPPORTED, "x is %s", dhowi_onnx_type_name(from.encoding));
    DHOWI_TRY(refuse_options(b));
    DHOWI_TRY(per_block(b, b->in[1], &from, &scale));
    if (dhowi_given(b, 2)) {
        to = type_of(dhowi_desc_at(b, b->in[2]));
        DHOWI_TRY(per_block(b, b->in[2], &from, &zero));
    }
    if (to.encoding != 0 && !dhowi_integer_range(to.encoding, &low, &high))
        return quantized_float(b, b->in[0], scale, zero, to.encoding, &b->out[0]);
    DHOWI_TRY(padded_codes(b, b->in[0], scale, zero, to, &b->out[0]));
    return b->out[0] >= 0 ? DHOW_OK : quantized(b, b->in[0], scale, zero, to, &b->out[0]);
}

dhow_status dhowi_lower_dequantize(dhowi_lowering *b) {
    const dhowi_tensor_desc from = *dhowi_desc_at(b, b->in[0]), by = *dhowi_desc_at(b, b->in[1]);
    int32_t scale, zero = -1, x;
    DHOWI_TRY(refuse_options(b));
    DHOWI_TRY(dhowi_check_quantised(b, 0, 2));
    const int64_t wanted = dhowi_attr_int(b, "output_dtype", 0);
    const dhow_dtype dtype = wanted != 0        ? dhowi_onnx_dtype((int32_t)wanted)
                             : by.encoding == 0 ? by.dtype
                                                : 0;
    if (dtype == 0)
        return dhowi_fail(DHOW_UNSUPPORTED, "unsupported output_dtype %s",
                          dhowi_onnx_type_name(wanted != 0 ? (int32_t)wanted : by.encoding));
    DHOWI_TRY(per_block(b, b->in[1], &from, &scale));
    if (dhowi_given(b, 2)) DHOWI_TRY(per_block(b, b->in[2], &from, &zero));
    DHOWI_TRY(dhowi_decoded(b, scale, DHOW_F32, &scale));
    DHOWI_TRY(real_when_read(b, b->in[0], zero, scale, &x));
    return dhowi_cast_to(b, x, dtype, &b->out[0]);
}

/* Scale and zero point of x in two steps, for which the device has kernels. */
static dhow_status range_in_parts(dhowi_lowering *b, int32_t x, int32_t *scale, int32_t *zero) {
    enum { PART = 4096, MOST_PARTS = 512 };
    const int64_t count = dhowi_count_of(dhowi_desc_at(b, x)),
                  parts = DHOWI_MIN(dhowi_ceil_div(count, (int64_t)PART), (int64_t)MOST_PARTS);
    const dhowi_tensor_desc number = {.dtype = DHOW_F32}, code = {.dtype = DHOW_U8},
                            ranges = {.dtype = DHOW_F32, .rank = 2, .shape = {parts, 2}};
    int32_t range;
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_range, &x, 1, NULL, &ranges, &range));
    return dhowi_emit_two(b, DHOWI_OP_scale_of_range, &range, 1, NULL, &number, &code, scale, zero);
}

/* The same in steps that every device has. */
static dhow_status range_in_steps(dhowi_lowering *b, int32_t v, int32_t *scale, int32_t *zero) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, v);
    const quantized_type bytes = {DHOW_U8, 0};
    const int32_t rank = x.rank;
    bool axes[DHOW_MAX_RANK] = {false};
    int32_t low, high, nothing;
    for (int32_t i = 0; i < rank; i++) axes[i] = true;
    if (dhowi_count_of(&x) == 0) {
        const dhowi_tensor_desc number = {.dtype = x.dtype};
        DHOWI_TRY(dhowi_filled(b, &number, 0, &low));
        high = low;
    } else {
        DHOWI_TRY(dhowi_reduce(b, DHOWI_MIN_OF, v, axes, &low));
        DHOWI_TRY(dhowi_reduce(b, DHOWI_MAX_OF, v, axes, &high));
        DHOWI_TRY(dhowi_reshape(b, low, 0, NULL, &low));
        DHOWI_TRY(dhowi_reshape(b, high, 0, NULL, &high));
    }
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MIN, low, 0, &low));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MAX, high, 0, &high));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, high, low, scale));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_DIV, *scale, 255, scale));
    /* zeros alone, or nothing at all, have a scale of 1 */
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_EQ, *scale, 0, &nothing));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, *scale, nothing, scale));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_NEG, 0, 0, low, &low));
    return quantized(b, low, *scale, -1, bytes, zero);
}

dhow_status dhowi_quantised_by_range(dhowi_lowering *b, int32_t v, int32_t out[3]) {
    const dhowi_tensor_desc *x = dhowi_desc_at(b, v);
    const quantized_type bytes = {DHOW_U8, 0};
    if (!dhowi_is_float(x->dtype)) DHOWI_REFUSE("x is %s", dhow_dtype_name(x->dtype));
    const bool parts = x->dtype == DHOW_F32 && dhowi_count_of(x) > 0 &&
                       dhowi_optimises(DHOWI_OPTIMISE_INTEGERS) && dhowi_quantizes(b->device);
    DHOWI_TRY(parts ? range_in_parts(b, v, &out[1], &out[2])
                    : range_in_steps(b, v, &out[1], &out[2]));
    return quantized(b, v, out[1], out[2], bytes, &out[0]);
}

dhow_status dhowi_lower_dynamic_quantize(dhowi_lowering *b) {
    return dhowi_quantised_by_range(b, b->in[0], b->out);
}

/* ---- sums of integer products ---- */

/* Some rows of the weights after the others, each sum in f32, which has it exactly. */
static dhow_status float_product(dhowi_lowering *b, int32_t x, int32_t y, int32_t *out) {
    const dhowi_tensor_desc p = *dhowi_desc_at(b, x), q = *dhowi_desc_at(b, y);
    const int64_t k = p.shape[p.rank - 1];
    const dhowi_summed s = {dhowi_extent(&q, 0, q.rank - 2), q.shape[q.rank - 2],
                            q.shape[q.rank - 1]};
    int64_t run = 1;
    if (s.each != k || k == 0) { /* the product refuses it, or is zeros */
        DHOWI_TRY(dhowi_product(b, x, y, -1, out));
        return dhowi_cast_to(b, *out, DHOW_I32, out);
    }
    DHOWI_TRY(dhowi_exact_run(b, y, &s, 1, &run));
    *out = -1;
    for (int64_t first = 0; first < k; first += run) {
        const int64_t count = DHOWI_MIN(k - first, run);
        int32_t left = x, right = y;
        if (count < k) DHOWI_TRY(dhowi_narrow(b, x, p.rank - 1, first, count, 1, &left));
        if (count < k) DHOWI_TRY(dhowi_narrow(b, y, q.rank - 2, first, count, 1, &right));
        DHOWI_TRY(dhowi_product(b, left, right, -1, &left));
        DHOWI_TRY(dhowi_add_integers(b, left, out));
    }
    return DHOW_OK;
}

/* Channels of centred values, which stay known to be quantised. */
static dhow_status some_channels(dhowi_lowering *b, int32_t x, int64_t first, int64_t count,
                                 int32_t *out) {
    const int32_t zero = b->items[x].zero - 1;
    int32_t codes = b->items[x].codes - 1;
    DHOWI_TRY(dhowi_narrow(b, x, 1, first, count, 1, out));
    if (codes < 0) return DHOW_OK;
    DHOWI_TRY(dhowi_narrow(b, codes, 1, first, count, 1, &codes));
    dhowi_note_codes(b, *out, codes, zero, -1);
    return DHOW_OK;
}

/* No transforms that round, as a vendor's fast algorithms are. */
static dhow_status convolve_exactly(dhowi_lowering *b, int32_t x, int32_t w, int32_t bias,
                                    int32_t *out) {
    const uint32_t first = b->step_count;
    DHOWI_TRY(dhowi_convolve(b, x, w, bias, out));
    for (uint32_t i = first; i < b->step_count; i++)
        b->steps[i].attrs.exact_sums = b->steps[i].op == DHOWI_OP_conv2d;
    return DHOW_OK;
}

/* Some channels after the others. Where groups of channels or the window of one channel are too
 * large for that, sums are those of f64. */
static dhow_status float_convolution(dhowi_lowering *b, int32_t x, int32_t w, int32_t *out) {
    const dhowi_tensor_desc p = *dhowi_desc_at(b, x), q = *dhowi_desc_at(b, w);
    const bool images = q.rank > 1 && p.rank == q.rank; /* else the convolution refuses them */
    const int64_t channels = images ? q.shape[1] : 0, window = dhowi_extent(&q, 2, q.rank);
    const dhowi_summed s = {images ? q.shape[0] : 0, channels * window, 1};
    int64_t run;
    DHOWI_TRY(dhowi_exact_run(b, w, &s, DHOWI_MAX(window, (int64_t)1), &run));
    if (run == s.each || run == 0 || p.shape[1] != channels) {
        const dhow_dtype dtype = run == s.each ? DHOW_F32 : DHOW_F64;
        DHOWI_TRY(dhowi_cast_to(b, x, dtype, &x));
        DHOWI_TRY(dhowi_cast_to(b, w, dtype, &w));
        DHOWI_TRY(convolve_exactly(b, x, w, -1, &x));
        return dhowi_cast_to(b, x, DHOW_I32, out);
    }
    *out = -1;
    for (int64_t first = 0; first < channels; first += run / window) {
        const int64_t count = DHOWI_MIN(channels - first, run / window);
        int32_t some, weights, sums;
        DHOWI_TRY(some_channels(b, x, first, count, &some));
        DHOWI_TRY(some_channels(b, w, first, count, &weights));
        DHOWI_TRY(dhowi_sum_conv(b, some, weights, &sums));
        if (sums < 0) DHOWI_TRY(convolve_exactly(b, some, weights, -1, &sums));
        DHOWI_TRY(dhowi_add_integers(b, sums, out));
    }
    return DHOW_OK;
}

dhow_status dhowi_lower_matmul_integer(dhowi_lowering *b) {
    int32_t x, y, zx = dhowi_given(b, 2) ? b->in[2] : -1, zy = dhowi_given(b, 3) ? b->in[3] : -1;
    const dhowi_tensor_desc p = *dhowi_desc_at(b, b->in[0]);
    DHOWI_TRY(dhowi_check_quantised(b, 0, 2));
    DHOWI_TRY(dhowi_check_quantised(b, 1, 3));
    if (zx >= 0 && dhowi_count_of(dhowi_desc_at(b, zx)) > 1) /* one per row */
        DHOWI_TRY(dhowi_along(b, zx, p.rank, p.rank - 2, &zx));
    DHOWI_TRY(dhowi_centred(b, b->in[0], zx, &x));
    DHOWI_TRY(dhowi_described(b, b->in[1], zy, -1, &y));
    if (p.rank < 2 || dhowi_desc_at(b, y)->rank < 2) return dhowi_fail(DHOW_UNSUPPORTED, "vectors");
    DHOWI_TRY(dhowi_integer_product(b, x, y, &b->out[0]));
    if (b->out[0] >= 0) return DHOW_OK;
    DHOWI_TRY(dhowi_centred(b, b->in[1], zy, &y));
    return float_product(b, x, y, &b->out[0]);
}

dhow_status dhowi_lower_conv_integer(dhowi_lowering *b) {
    int32_t x, w, zw = dhowi_given(b, 3) ? b->in[3] : -1;
    DHOWI_TRY(dhowi_check_quantised(b, 0, 2));
    DHOWI_TRY(dhowi_check_quantised(b, 1, 3));
    DHOWI_TRY(dhowi_centred(b, b->in[0], dhowi_given(b, 2) ? b->in[2] : -1, &x));
    const dhowi_tensor_desc weights = *dhowi_desc_at(b, b->in[1]);
    if (zw >= 0) DHOWI_TRY(per_axis(b, zw, &weights, 0, &zw));
    DHOWI_TRY(dhowi_described(b, b->in[1], zw, -1, &w));
    DHOWI_TRY(dhowi_sum_conv(b, x, w, &b->out[0]));
    if (b->out[0] >= 0) return DHOW_OK;
    DHOWI_TRY(dhowi_centred(b, b->in[1], zw, &w));
    return float_convolution(b, x, w, &b->out[0]);
}

/* The quantised input i: codes, and the items of scale and zero point. */
typedef struct quantised_input {
    int32_t codes, scale, zero;
} quantised_input;

static dhow_status take_quantised(dhowi_lowering *b, uint32_t i, int64_t axis,
                                  quantised_input *out) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[i]);
    *out = (quantised_input){b->in[i], -1, -1};
    DHOWI_TRY(dhowi_check_quantised(b, i, i + 2));
    DHOWI_TRY(per_axis(b, b->in[i + 1], &x, axis, &out->scale));
    if (dhowi_given(b, i + 2)) DHOWI_TRY(per_axis(b, b->in[i + 2], &x, axis, &out->zero));
    return dhowi_cast_to(b, out->scale, DHOW_F32, &out->scale);
}

dhow_status dhowi_real_of(dhowi_lowering *b, uint32_t i, int64_t axis, int32_t *out) {
    quantised_input q;
    DHOWI_TRY(take_quantised(b, i, axis, &q));
    return real_when_read(b, q.codes, q.zero, q.scale, out);
}

dhow_status dhowi_quantized_by(dhowi_lowering *b, int32_t x, uint32_t i, dhow_dtype dtype,
                               int32_t *out) {
    if (!dhowi_given(b, i)) DHOWI_REFUSE("the scale of the result is missing");
    const int32_t zero = dhowi_given(b, i + 1) ? b->in[i + 1] : -1;
    const dhow_dtype given = zero >= 0 ? dhowi_desc_at(b, zero)->dtype : dtype;
    const dhowi_tensor_desc real = *dhowi_desc_at(b, x);
    DHOWI_TRY(quantized(b, x, b->in[i], zero, (quantized_type){given, 0}, out));
    const dhowi_tensor_desc *made = dhowi_desc_at(b, *out);
    if (!dhowi_shape_equal(real.rank, real.shape, made->rank, made->shape))
        DHOWI_REFUSE("the scale or zero point of the result has more elements than the result");
    return DHOW_OK;
}

dhow_status dhowi_lower_qlinear_matmul(dhowi_lowering *b) {
    int32_t x, y;
    DHOWI_TRY(dhowi_real_of(b, 0, -2, &x));
    DHOWI_TRY(dhowi_real_of(b, 3, -1, &y));
    DHOWI_TRY(dhowi_product(b, x, y, -1, &x));
    return quantized(b, x, b->in[6], b->in[7], type_of(dhowi_desc_at(b, b->in[7])), &b->out[0]);
}

dhow_status dhowi_lower_qlinear_conv(dhowi_lowering *b) {
    int32_t x, w, bias = -1, y;
    quantised_input weight;
    DHOWI_TRY(dhowi_real_of(b, 0, 1, &x));
    DHOWI_TRY(take_quantised(b, 3, 0, &weight));
    if (dhowi_given(b, 8)) { /* an integer of scale x_scale w_scale */
        int32_t scale;
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, b->in[4], b->in[1], &scale));
        DHOWI_TRY(dhowi_cast_to(b, b->in[8], DHOW_F32, &bias));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, bias, scale, &bias));
    }
    DHOWI_TRY(dhowi_described(b, weight.codes, weight.zero, weight.scale, &w));
    DHOWI_TRY(dhowi_convolve_codes(b, x, w, bias, &y));
    if (y < 0) {
        DHOWI_TRY(real_of(b, weight.codes, weight.zero, weight.scale, &w));
        DHOWI_TRY(convolve_exactly(b, x, w, bias, &y)); /* what rounds apart is another code */
    }
    return quantized(b, y, b->in[6], b->in[7], type_of(dhowi_desc_at(b, b->in[7])), &b->out[0]);
}
