/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise operators.
 */
#include <math.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "model/operators/math/math.h"

/* The constants that an operator takes from its attributes. */
static dhow_status constants_of(const dhowi_lowering *b, dhowi_map_op op, double *c, double *q) {
    bool negative, positive;
    *c = *q = 0;
    switch (op) {
        case DHOWI_MAP_LEAKY:
            *c = (double)dhowi_attr_float(b, "alpha", 0.01f);
            break;
        case DHOWI_MAP_ELU:
        case DHOWI_MAP_CELU:
        case DHOWI_MAP_THRESHOLD:
            *c = (double)dhowi_attr_float(b, "alpha", 1.0f);
            break;
        case DHOWI_MAP_SELU:
            *c = (double)dhowi_attr_float(b, "alpha", 1.67326319217681884765625f);
            *q = (double)dhowi_attr_float(b, "gamma", 1.05070102214813232421875f);
            break;
        case DHOWI_MAP_HARD_SIGMOID:
            *c = (double)dhowi_attr_float(b, "alpha", 0.2f);
            *q = (double)dhowi_attr_float(b, "beta", 0.5f);
            break;
        case DHOWI_MAP_SHRINK:
            *c = (double)dhowi_attr_float(b, "lambd", 0.5f);
            *q = (double)dhowi_attr_float(b, "bias", 0.0f);
            break;
        case DHOWI_MAP_IS_INF:
            DHOWI_TRY(dhowi_attr_flag(b, "detect_negative", true, &negative));
            DHOWI_TRY(dhowi_attr_flag(b, "detect_positive", true, &positive));
            *c = negative;
            *q = positive;
            break;
        default:
            break;
    }
    return DHOW_OK;
}

/* Functions that integers have as well. */
static bool takes_integers(dhowi_map_op op) {
    return op == DHOWI_MAP_NEG || op == DHOWI_MAP_ABS || op == DHOWI_MAP_SIGN ||
           op == DHOWI_MAP_RELU || op == DHOWI_MAP_BIT_NOT || op == DHOWI_MAP_SHRINK;
}

/* Bits of floats would be those of their values cut to integers. */
static dhow_status expect_integers(const dhowi_lowering *b) {
    const dhow_dtype dtype = dhowi_desc_at(b, b->in[0])->dtype;
    if (!dhowi_is_float(dtype) && dtype != DHOW_BOOL) return DHOW_OK;
    DHOWI_REFUSE("x is %s, the operator takes integers", dhow_dtype_name(dtype));
}

static bool is_of_bits(dhowi_map_op op) {
    return op == DHOWI_MAP_BIT_AND || op == DHOWI_MAP_BIT_OR || op == DHOWI_MAP_BIT_XOR ||
           op == DHOWI_MAP_BIT_NOT;
}

dhow_status dhowi_swish(dhowi_lowering *b, int32_t x, double alpha, int32_t *out) {
    dhowi_program p = {0};
    if (alpha == 1) return dhowi_map_one(b, DHOWI_MAP_SILU, 0, 0, x, out);
    (void)dhowi_program_add(&p, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_constants(&p, DHOWI_MAP_MUL, 1, alpha, 0);
    (void)dhowi_program_add(&p, DHOWI_MAP_SIGMOID, 0);
    (void)dhowi_program_add(&p, DHOWI_MAP_MUL, 0);
    return dhowi_map(b, &p, &x, 1, out);
}

static dhow_status expect_floats(const dhowi_lowering *b, const char *name, int32_t x) {
    const dhow_dtype dtype = dhowi_desc_at(b, x)->dtype;
    if (dhowi_is_float(dtype)) return DHOW_OK;
    DHOWI_REFUSE("%s is %s, the operator takes floats", name, dhow_dtype_name(dtype));
}

dhow_status dhowi_lower_swiglu(dhowi_lowering *b) {
    const dhowi_tensor_desc gate = *dhowi_desc_at(b, b->in[0]), x = *dhowi_desc_at(b, b->in[1]);
    char s[160], t[160];
    DHOWI_TRY(expect_floats(b, "A", b->in[0]));
    if (gate.dtype != x.dtype || !dhowi_shape_equal(gate.rank, gate.shape, x.rank, x.shape))
        DHOWI_REFUSE("A is %s and B is %s: both must be alike", dhowi_desc_text(&gate, s, sizeof s),
                     dhowi_desc_text(&x, t, sizeof t));
    DHOWI_TRY(dhowi_swish(b, b->in[0], (double)dhowi_attr_float(b, "alpha", 1), &b->out[0]));
    return dhowi_map_two(b, DHOWI_MAP_MUL, b->out[0], b->in[1], &b->out[0]);
}

dhow_status dhowi_lower_unary(dhowi_lowering *b) {
    dhowi_map_op op = (dhowi_map_op)b->node->op->arg;
    dhow_dtype dtype = dhowi_desc_at(b, b->in[0])->dtype;
    int32_t x = b->in[0];
    double c, q;
    if (is_of_bits(op)) DHOWI_TRY(expect_integers(b));
    DHOWI_TRY(constants_of(b, op, &c, &q));
    if (op == DHOWI_MAP_GELU && dhowi_attr_is(b, "approximate", "tanh", "none"))
        op = DHOWI_MAP_GELU_TANH;
    if (op == DHOWI_MAP_GELU && !dhowi_attr_is(b, "approximate", "none", "none"))
        return dhowi_refuse_text(b, "approximate");
    bool whole = !dhowi_is_float(dtype);
    if (whole && !takes_integers(op)) {
        if (op != DHOWI_MAP_FLOOR && op != DHOWI_MAP_CEIL && op != DHOWI_MAP_ROUND)
            return expect_floats(b, "x", x);
        b->out[0] = x;
        return DHOW_OK;
    }
    if (op == DHOWI_MAP_SILU)
        return dhowi_swish(b, x, (double)dhowi_attr_float(b, "alpha", 1), &b->out[0]);
    if (whole && op == DHOWI_MAP_SHRINK) DHOWI_TRY(dhowi_cast_to(b, x, DHOW_F32, &x));
    DHOWI_TRY(dhowi_map_one(b, op, c, q, x, &b->out[0]));
    if (op == DHOWI_MAP_IS_NAN || op == DHOWI_MAP_IS_INF)
        return dhowi_cast_to(b, b->out[0], DHOW_BOOL, &b->out[0]);
    return dhowi_cast_to(b, b->out[0], dtype, &b->out[0]);
}

/* Opset 6 and older: b is laid along `axis` of a. */
static dhow_status old_broadcast(dhowi_lowering *b, int32_t *y) {
    if (b->node->opset >= 7 || dhowi_attr(b, "axis", DHOWI_ATTRIBUTE_INT) == NULL) return DHOW_OK;
    const dhowi_tensor_desc *x = dhowi_desc_at(b, b->in[0]), own = *dhowi_desc_at(b, *y);
    int64_t shape[DHOW_MAX_RANK];
    int32_t axis;
    DHOWI_TRY(dhowi_axis(x, dhowi_attr_int(b, "axis", 0), &axis));
    int32_t rank = x->rank - axis;
    if (own.rank > rank) DHOWI_REFUSE("b does not fit a from axis %d on", axis);
    for (int32_t i = 0; i < rank; i++) shape[i] = i < own.rank ? own.shape[i] : 1;
    return dhowi_reshape(b, *y, rank, shape, y);
}

dhow_status dhowi_lower_binary(dhowi_lowering *b) {
    int32_t y = b->in[1];
    if (is_of_bits((dhowi_map_op)b->node->op->arg)) DHOWI_TRY(expect_integers(b));
    DHOWI_TRY(old_broadcast(b, &y));
    return dhowi_map_two(b, (dhowi_map_op)b->node->op->arg, b->in[0], y, &b->out[0]);
}

static dhow_status equal_texts(dhowi_lowering *b) {
    dhowi_text_pairs pairs;
    DHOWI_TRY(dhowi_pair_texts(b, &pairs));
    DHOWI_TRY(dhowi_host_room(b, pairs.count, sizeof(bool)));
    bool *equal = dhowi_alloc_array((size_t)pairs.count + 1, sizeof *equal);
    if (equal == NULL) return dhowi_fail_memory("plan");
    for (int64_t i = 0; i < pairs.count; i++)
        equal[i] = strcmp(dhowi_paired_text(&pairs, 0, i), dhowi_paired_text(&pairs, 1, i)) == 0;
    dhow_status status = dhowi_constant(b, DHOW_BOOL, pairs.rank, pairs.shape, equal, &b->out[0]);
    dhowi_free(equal);
    return status;
}

/* Equal takes texts as well. */
dhow_status dhowi_lower_compare(dhowi_lowering *b) {
    for (int i = 0; i < 2; i++)
        if (dhowi_kind_of(b, b->in[i]) == DHOW_DATUM_TEXTS) return equal_texts(b);
    DHOWI_TRY(dhowi_lower_binary(b));
    return dhowi_cast_to(b, b->out[0], DHOW_BOOL, &b->out[0]);
}

static dhow_status expect_bool(const dhowi_lowering *b, uint32_t input) {
    const dhow_dtype dtype = dhowi_desc_at(b, b->in[input])->dtype;
    if (dtype == DHOW_BOOL) return DHOW_OK;
    DHOWI_REFUSE("its input %u is %s, not bool", input, dhow_dtype_name(dtype));
}

dhow_status dhowi_lower_logic(dhowi_lowering *b) {
    for (uint32_t i = 0; i < b->in_count; i++) DHOWI_TRY(expect_bool(b, i));
    if (b->in_count == 1) /* Not */
        return dhowi_map_one(b, (dhowi_map_op)b->node->op->arg, 0, 0, b->in[0], &b->out[0]);
    return dhowi_lower_binary(b);
}

dhow_status dhowi_lower_shift(dhowi_lowering *b) {
    const bool left = dhowi_attr_is(b, "direction", "LEFT", "");
    if (!left && !dhowi_attr_is(b, "direction", "RIGHT", ""))
        return dhowi_refuse_text(b, "direction");
    DHOWI_TRY(expect_integers(b));
    return dhowi_map_two(b, left ? DHOWI_MAP_SHIFT_LEFT : DHOWI_MAP_SHIFT_RIGHT, b->in[0], b->in[1],
                         &b->out[0]);
}

dhow_status dhowi_lower_mod(dhowi_lowering *b) {
    bool fmod;
    DHOWI_TRY(dhowi_attr_flag(b, "fmod", false, &fmod));
    if (!fmod && b->node->opset < 28 && dhowi_is_float(dhowi_desc_at(b, b->in[0])->dtype))
        DHOWI_REFUSE("fmod is 0, floats take 1 before opset 28");
    return dhowi_map_two(b, fmod ? DHOWI_MAP_FMOD : DHOWI_MAP_MOD, b->in[0], b->in[1], &b->out[0]);
}

/* Powers that are no library call. */
static bool easy_power(double exponent, dhowi_map_op *out) {
    if (exponent == 2) *out = DHOWI_MAP_SQUARE;
    if (exponent == 0.5) *out = DHOWI_MAP_SQRT;
    if (exponent == -1) *out = DHOWI_MAP_RECIPROCAL;
    return exponent == 2 || exponent == 0.5 || exponent == -1;
}

dhow_status dhowi_lower_pow(dhowi_lowering *b) {
    int32_t x = b->in[0], y = b->in[1];
    dhow_dtype dtype = dhowi_desc_at(b, x)->dtype, other = dhowi_desc_at(b, y)->dtype;
    DHOWI_TRY(old_broadcast(b, &y));
    double exponent;
    dhowi_map_op op;
    bool scalar = dhowi_is_known(b, y) && dhowi_count_of(dhowi_desc_at(b, y)) == 1;
    if (scalar && dhowi_is_float(dtype)) {
        int32_t rank = dhowi_desc_at(b, y)->rank;
        DHOWI_TRY(dhowi_one_float(b, y, "the exponent", &exponent));
        if (rank <= dhowi_desc_at(b, x)->rank && easy_power(exponent, &op))
            return dhowi_map_one(b, op, 0, 0, x, &b->out[0]);
    }
    bool whole = !dhowi_is_float(dtype) && dhowi_is_float(other);
    if (whole) { /* integers to a broken power */
        DHOWI_TRY(dhowi_cast_to(b, x, DHOW_F64, &x));
        DHOWI_TRY(dhowi_cast_to(b, y, DHOW_F64, &y));
    } else {
        DHOWI_TRY(dhowi_cast_to(b, y, dtype, &y));
    }
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_POW, x, y, &b->out[0]));
    return dhowi_cast_to(b, b->out[0], dtype, &b->out[0]);
}

dhow_status dhowi_lower_variadic(dhowi_lowering *b) {
    bool mean = b->node->op->arg == DHOWI_MAP_LINEAR;
    dhowi_map_op op = mean ? DHOWI_MAP_ADD : (dhowi_map_op)b->node->op->arg;
    b->out[0] = b->in[0];
    for (uint32_t i = 1; i < b->in_count; i++)
        DHOWI_TRY(dhowi_map_two(b, op, b->out[0], b->in[i], &b->out[0]));
    if (!mean) return DHOW_OK;
    return dhowi_map_number(b, DHOWI_MAP_DIV, b->out[0], (double)b->in_count, &b->out[0]);
}

dhow_status dhowi_lower_where(dhowi_lowering *b) {
    DHOWI_TRY(expect_bool(b, 0));
    return dhowi_select(b, b->in[0], b->in[1], b->in[2], &b->out[0]);
}

static dhow_status clip_bound(dhowi_lowering *b, uint32_t i, dhowi_map_op op) {
    if (!dhowi_given(b, i)) return DHOW_OK;
    return dhowi_map_two(b, op, b->out[0], b->in[i], &b->out[0]);
}

dhow_status dhowi_lower_clip(dhowi_lowering *b) {
    double low = -(double)INFINITY, high = (double)INFINITY;
    dhow_dtype dtype = dhowi_desc_at(b, b->in[0])->dtype;
    b->out[0] = b->in[0];
    if (b->node->opset < 11) {
        low = (double)dhowi_attr_float(b, "min", -INFINITY);
        high = (double)dhowi_attr_float(b, "max", INFINITY);
        if (low > high) DHOWI_REFUSE("min %g is above max %g", low, high);
        return dhowi_map_one(b, DHOWI_MAP_CLIP, low, high, b->in[0], &b->out[0]);
    }
    bool known = dhowi_is_float(dtype) && (!dhowi_given(b, 1) || dhowi_is_known(b, b->in[1])) &&
                 (!dhowi_given(b, 2) || dhowi_is_known(b, b->in[2]));
    if (known) {
        if (dhowi_given(b, 1)) DHOWI_TRY(dhowi_one_float(b, b->in[1], "min", &low));
        if (dhowi_given(b, 2)) DHOWI_TRY(dhowi_one_float(b, b->in[2], "max", &high));
        /* min(max(x, low), high): where the bounds cross, everything becomes the upper one. */
        return dhowi_map_one(b, DHOWI_MAP_CLIP, fmin(low, high), high, b->in[0], &b->out[0]);
    }
    DHOWI_TRY(clip_bound(b, 1, DHOWI_MAP_MAX));
    return clip_bound(b, 2, DHOWI_MAP_MIN);
}

dhow_status dhowi_lower_prelu(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]), s = *dhowi_desc_at(b, b->in[1]);
    int32_t slope = b->in[1];
    /* Opset 6 has one slope per channel. */
    if (b->node->opset < 7 && s.rank == 1 && x.rank > 1 && s.shape[0] == x.shape[1])
        DHOWI_TRY(dhowi_along(b, slope, x.rank, 1, &slope));
    return dhowi_map_two(b, DHOWI_MAP_PRELU, b->in[0], slope, &b->out[0]);
}

static dhow_status rounding_of(const dhowi_lowering *b, dhowi_rounding *out) {
    const bool nearest = dhowi_attr_is(b, "round_mode", "nearest", "up");
    *out = nearest ? DHOWI_ROUND_NEAREST : DHOWI_ROUND_UP;
    if (nearest || dhowi_attr_is(b, "round_mode", "up", "up")) return DHOW_OK;
    *out = DHOWI_ROUND_DOWN;
    return dhowi_attr_is(b, "round_mode", "down", "up") ? DHOW_OK
                                                        : dhowi_refuse_text(b, "round_mode");
}

/* The bits as another type of the same width. */
dhow_status dhowi_lower_bitcast(dhowi_lowering *b) {
    const int64_t to = dhowi_attr_int(b, "to", 0);
    const int32_t type = to > 0 && to <= INT32_MAX ? (int32_t)to : 0;
    dhowi_tensor_desc desc = *dhowi_desc_at(b, b->in[0]);
    const dhow_dtype from = desc.dtype;
    desc.dtype = dhowi_onnx_dtype(type);
    if (desc.dtype == 0)
        return dhowi_fail(DHOW_UNSUPPORTED, "unsupported type %s", dhowi_onnx_type_name(type));
    if (dhow_dtype_bytes(from) != dhow_dtype_bytes(desc.dtype))
        DHOWI_REFUSE("x is %s, which is not as wide as %s", dhow_dtype_name(from),
                     dhow_dtype_name(desc.dtype));
    return dhowi_emit(b, DHOWI_OP_bitcast, b->in, 1, NULL, &desc, &b->out[0]);
}

/* A small type as itself stays what it is; all others go by way of numbers. */
dhow_status dhowi_lower_cast(dhowi_lowering *b) {
    const dhowi_tensor_desc from = *dhowi_desc_at(b, b->in[0]);
    const bool like = b->node->op->arg != 0; /* CastLike */
    const int64_t to = like ? 0 : dhowi_attr_int(b, "to", 0);
    const int32_t type = to > 0 && to <= INT32_MAX ? (int32_t)to : 0;
    const int32_t encoding =
        like ? dhowi_desc_at(b, b->in[1])->encoding : dhowi_onnx_encoding(type);
    const dhow_dtype dtype = like ? dhowi_desc_at(b, b->in[1])->dtype : dhowi_onnx_held(type);
    dhowi_rounding rounding;
    bool saturates;
    int32_t x = b->in[0];
    if (dtype == 0)
        return dhowi_fail(DHOW_UNSUPPORTED, "unsupported type %s", dhowi_onnx_type_name(type));
    DHOWI_TRY(dhowi_attr_flag(b, "saturate", true, &saturates));
    DHOWI_TRY(rounding_of(b, &rounding));
    b->out[0] = x;
    if (from.encoding != 0 && from.encoding == encoding) return DHOW_OK;
    if (encoding == 0) return dhowi_decoded(b, x, dtype, &b->out[0]);
    if (from.encoding != 0) DHOWI_TRY(dhowi_decoded(b, x, DHOW_F32, &x));
    return dhowi_encoded(b, x, encoding, saturates, rounding, &b->out[0]);
}

dhow_status dhowi_lower_identity(dhowi_lowering *b) {
    b->out[0] = b->in[0];
    return DHOW_OK;
}
