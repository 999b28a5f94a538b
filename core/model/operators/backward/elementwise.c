/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of what works element by element.
 */
#include <math.h>

#include "model/operators/backward/backward.h"
#include "model/operators/math/math.h"
#include "model/operators/shape/shape.h"

/* ---- arithmetic ---- */

static dhow_status check_broadcast(const dhowi_reverser *r) {
    if (r->node->source == NULL || r->node->opset >= 7) return DHOW_OK; /* the builder's are */
    DHOWI_REFUSE("broadcasting of opset %d", r->node->opset);
}

dhow_status dhowi_back_sum(dhowi_reverser *r) {
    DHOWI_TRY(check_broadcast(r));
    for (uint32_t i = 0; i < r->node->in_count; i++) {
        if (dhowi_back_wants(r, i)) DHOWI_TRY(dhowi_back_pass(r, i, r->dy));
    }
    return DHOW_OK;
}

dhow_status dhowi_back_neg(dhowi_reverser *r) {
    int32_t d;
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_NEG, 0, 0, r->dy, &d));
    return dhowi_back_pass(r, 0, d);
}

dhow_status dhowi_back_sub(dhowi_reverser *r) {
    int32_t d;
    DHOWI_TRY(check_broadcast(r));
    if (dhowi_back_wants(r, 0)) DHOWI_TRY(dhowi_back_pass(r, 0, r->dy));
    if (!dhowi_back_wants(r, 1)) return DHOW_OK;
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_NEG, 0, 0, r->dy, &d));
    return dhowi_back_pass(r, 1, d);
}

dhow_status dhowi_back_mul(dhowi_reverser *r) {
    int32_t x, y, d;
    DHOWI_TRY(check_broadcast(r));
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_input(r, 1, &y));
    if (dhowi_back_wants(r, 0)) {
        DHOWI_TRY(dhowi_back_times(r, y, &d));
        DHOWI_TRY(dhowi_back_pass(r, 0, d));
    }
    if (!dhowi_back_wants(r, 1)) return DHOW_OK;
    DHOWI_TRY(dhowi_back_times(r, x, &d));
    return dhowi_back_pass(r, 1, d);
}

/* z = x / y: dx = dz / y, dy = -dz z / y */
dhow_status dhowi_back_div(dhowi_reverser *r) {
    int32_t y, z, d;
    DHOWI_TRY(check_broadcast(r));
    DHOWI_TRY(dhowi_back_input(r, 1, &y));
    DHOWI_TRY(dhowi_back_output(r, &z));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_DIV, r->dy, y, &d));
    if (dhowi_back_wants(r, 0)) DHOWI_TRY(dhowi_back_pass(r, 0, d));
    if (!dhowi_back_wants(r, 1)) return DHOW_OK;
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, d, z, &d));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_NEG, 0, 0, d, &d));
    return dhowi_back_pass(r, 1, d);
}

dhow_status dhowi_back_identity(dhowi_reverser *r) { return dhowi_back_pass(r, 0, r->dy); }

/* Of what the node dropped, the same again. */
dhow_status dhowi_back_dropout(dhowi_reverser *r) {
    int32_t in[3], d;
    DHOWI_TRY(dhowi_back_inputs(r, 3, in));
    const dhowi_back_scope scope = dhowi_back_enter(r, in, 3);
    const dhow_status status = dhowi_drop(r->b, r->dy, &d);
    dhowi_back_leave(r, scope);
    DHOWI_TRY(status);
    return dhowi_back_pass(r, 0, d);
}

dhow_status dhowi_back_relu(dhowi_reverser *r) {
    int32_t x, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_GT, x, 0, &d));
    DHOWI_TRY(dhowi_back_times(r, d, &d));
    return dhowi_back_pass(r, 0, d);
}

dhow_status dhowi_back_exp(dhowi_reverser *r) {
    int32_t y, d;
    DHOWI_TRY(dhowi_back_output(r, &y));
    DHOWI_TRY(dhowi_back_times(r, y, &d));
    return dhowi_back_pass(r, 0, d);
}

dhow_status dhowi_back_log(dhowi_reverser *r) {
    int32_t x, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_DIV, r->dy, x, &d));
    return dhowi_back_pass(r, 0, d);
}

dhow_status dhowi_back_sqrt(dhowi_reverser *r) {
    int32_t y, d;
    DHOWI_TRY(dhowi_back_output(r, &y));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_DIV, r->dy, y, &d));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_MUL, d, 0.5, &d));
    return dhowi_back_pass(r, 0, d);
}

/* y (1 - y) */
dhow_status dhowi_back_sigmoid(dhowi_reverser *r) {
    int32_t y, d;
    DHOWI_TRY(dhowi_back_output(r, &y));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_RSUB, y, 1, &d));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, d, y, &d));
    DHOWI_TRY(dhowi_back_times(r, d, &d));
    return dhowi_back_pass(r, 0, d);
}

/* 1 - y^2 */
dhow_status dhowi_back_tanh(dhowi_reverser *r) {
    int32_t y, d;
    DHOWI_TRY(dhowi_back_output(r, &y));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, y, y, &d));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_RSUB, d, 1, &d));
    DHOWI_TRY(dhowi_back_times(r, d, &d));
    return dhowi_back_pass(r, 0, d);
}

/* x^e: e x^(e - 1), 0 for an e of 0 no matter what x is */
dhow_status dhowi_back_power(dhowi_reverser *r, double e) {
    int32_t x, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    if (e == 0) {
        DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_MUL, r->dy, 0, &d));
        return dhowi_back_pass(r, 0, d);
    }
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_POW, x, e - 1, &d));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_MUL, d, e, &d));
    return dhowi_back_scaled(r, d);
}

/* z = x^y: dx = dz y x^(y - 1), dy = dz z log x, 0 where x is 0, as in PyTorch. */
static dhow_status power_of_two(dhowi_reverser *r, int32_t x, int32_t y) {
    dhowi_lowering *b = r->b;
    int32_t z, d, zero;
    if (dhowi_back_wants(r, 0)) {
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_SUB, y, 1, &d));
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_EQ, y, 0, &zero));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, d, zero, &d)); /* 0^-1 times 0 is no number */
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_POW, x, d, &d));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, d, y, &d));
        DHOWI_TRY(dhowi_back_times(r, d, &d));
        DHOWI_TRY(dhowi_back_pass(r, 0, d));
    }
    if (!dhowi_back_wants(r, 1)) return DHOW_OK;
    DHOWI_TRY(dhowi_back_output(r, &z));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_EQ, x, 0, &zero));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, x, zero, &d));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_LOG, 0, 0, d, &d));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, d, z, &d));
    DHOWI_TRY(dhowi_back_times(r, d, &d));
    return dhowi_back_pass(r, 1, d);
}

dhow_status dhowi_back_pow(dhowi_reverser *r) {
    int32_t x, y;
    double e;
    uint32_t count;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_input(r, 1, &y));
    DHOWI_TRY(check_broadcast(r));
    if (dhowi_back_wants(r, 1) || !dhowi_is_known(r->b, y) ||
        dhowi_count_of(dhowi_desc_at(r->b, y)) != 1) {
        DHOWI_TRY(dhowi_cast_to(r->b, y, dhowi_desc_at(r->b, x)->dtype, &y));
        return power_of_two(r, x, y);
    }
    DHOWI_TRY(dhowi_floats(r->b, y, &e, 1, &count));
    return dhowi_back_power(r, e);
}

/* Comparisons and rounding: 0 wherever there is a derivative, as in PyTorch. */
dhow_status dhowi_back_none(dhowi_reverser *r) {
    (void)r;
    return DHOW_OK;
}

/* ---- functions of one number ---- */

/* dx = dy f(x) for a map of x alone. */
static dhow_status by_map(dhowi_reverser *r, dhowi_map_op op, double c, double q) {
    int32_t x, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_map_one(r->b, op, c, q, x, &d));
    return dhowi_back_scaled(r, d);
}

dhow_status dhowi_back_abs(dhowi_reverser *r) { return by_map(r, DHOWI_MAP_SIGN, 0, 0); }
dhow_status dhowi_back_sin(dhowi_reverser *r) { return by_map(r, DHOWI_MAP_COS, 0, 0); }
dhow_status dhowi_back_square(dhowi_reverser *r) { return by_map(r, DHOWI_MAP_LINEAR, 2, 0); }
dhow_status dhowi_back_softplus(dhowi_reverser *r) { return by_map(r, DHOWI_MAP_SIGMOID, 0, 0); }

dhow_status dhowi_back_cos(dhowi_reverser *r) {
    int32_t x, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_SIN, 0, 0, x, &d));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_NEG, 0, 0, d, &d));
    return dhowi_back_scaled(r, d);
}

/* -y^2 */
dhow_status dhowi_back_reciprocal(dhowi_reverser *r) {
    int32_t y, d;
    DHOWI_TRY(dhowi_back_output(r, &y));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, y, y, &d));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_NEG, 0, 0, d, &d));
    return dhowi_back_scaled(r, d);
}

/* c e^(-s x^2) */
static dhow_status bell(dhowi_lowering *b, int32_t x, double c, double s, int32_t *out) {
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, x, x, out));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, *out, -s, out));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_EXP, 0, 0, *out, out));
    return dhowi_map_number(b, DHOWI_MAP_MUL, *out, c, out);
}

dhow_status dhowi_back_erf(dhowi_reverser *r) {
    int32_t x, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(bell(r->b, x, 2 / sqrt(M_PI), 1, &d));
    return dhowi_back_scaled(r, d);
}

/* Phi(x) + x phi(x), of the normal distribution */
dhow_status dhowi_back_gelu(dhowi_reverser *r) {
    int32_t x, density, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(bell(r->b, x, 1 / sqrt(2 * M_PI), 0.5, &density));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, density, x, &density));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_MUL, x, M_SQRT1_2, &d));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_ERF, 0, 0, d, &d));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_LINEAR, 0.5, 0.5, d, &d));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_ADD, d, density, &d));
    return dhowi_back_scaled(r, d);
}

/* With t = tanh(u), u = k (x + a x^3): (1 + t)/2 + x/2 (1 - t^2) k (1 + 3 a x^2) */
dhow_status dhowi_back_gelu_tanh(dhowi_reverser *r) {
    static const double a = 0.044715;
    const double k = sqrt(2 / M_PI);
    int32_t x, square, t, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, x, x, &square));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_LINEAR, k * a, k, square, &t));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, t, x, &t));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_TANH, 0, 0, t, &t));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_LINEAR, 1.5 * a * k, 0.5 * k, square, &d));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, d, x, &d));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, t, t, &square));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_RSUB, square, 1, &square));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, d, square, &d));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_LINEAR, 0.5, 0.5, t, &t));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_ADD, d, t, &d));
    return dhowi_back_scaled(r, d);
}

dhow_status dhowi_back_gelu_of_mode(dhowi_reverser *r) {
    if (dhowi_attr_is(r->b, "approximate", "tanh", "none")) return dhowi_back_gelu_tanh(r);
    return dhowi_back_gelu(r);
}

/* Of y = x s with s = sigmoid(alpha x): s + alpha y (1 - s) */
static dhow_status swish_slope(dhowi_lowering *b, double alpha, int32_t x, int32_t y,
                               int32_t *out) {
    int32_t s;
    if (alpha != 1) {
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, x, alpha, &x));
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, y, alpha, &y));
    }
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SIGMOID, 0, 0, x, &s));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_RSUB, s, 1, out));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, *out, y, out));
    return dhowi_map_two(b, DHOWI_MAP_ADD, *out, s, out);
}

dhow_status dhowi_back_silu(dhowi_reverser *r) {
    int32_t x, y, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_output(r, &y));
    DHOWI_TRY(swish_slope(r->b, (double)dhowi_attr_float(r->b, "alpha", 1), x, y, &d));
    return dhowi_back_scaled(r, d);
}

/* z = swish(x) y: dx = dz y swish'(x), dy = dz swish(x) */
dhow_status dhowi_back_swiglu(dhowi_reverser *r) {
    const double alpha = (double)dhowi_attr_float(r->b, "alpha", 1);
    int32_t x, y, swish, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_input(r, 1, &y));
    DHOWI_TRY(dhowi_swish(r->b, x, alpha, &swish));
    if (dhowi_back_wants(r, 0)) {
        DHOWI_TRY(swish_slope(r->b, alpha, x, swish, &d));
        DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, d, y, &d));
        DHOWI_TRY(dhowi_back_scaled(r, d));
    }
    if (!dhowi_back_wants(r, 1)) return DHOW_OK;
    DHOWI_TRY(dhowi_back_times(r, swish, &d));
    return dhowi_back_pass(r, 1, d);
}

/* With t = tanh(softplus(x)): t + x (1 - t^2) sigmoid(x) */
dhow_status dhowi_back_mish(dhowi_reverser *r) {
    int32_t x, t, s, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_SOFTPLUS, 0, 0, x, &t));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_TANH, 0, 0, t, &t));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_SIGMOID, 0, 0, x, &s));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, t, t, &d));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_RSUB, d, 1, &d));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, d, x, &d));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, d, s, &d));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_ADD, d, t, &d));
    return dhowi_back_scaled(r, d);
}

/* 1 / (1 + |x|)^2 */
dhow_status dhowi_back_softsign(dhowi_reverser *r) {
    int32_t x, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_ABS, 0, 0, x, &d));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_ADD, d, 1, &d));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, d, d, &d));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_RECIPROCAL, 0, 0, d, &d));
    return dhowi_back_scaled(r, d);
}

/* dx = dy / (a x^2 + b), or by its root: the inverses of circular and hyperbolic functions. */
static dhow_status by_square(dhowi_reverser *r, double a, double b, bool root) {
    int32_t x, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, x, x, &d));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_LINEAR, a, b, d, &d));
    if (root) DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_SQRT, 0, 0, d, &d));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_RECIPROCAL, 0, 0, d, &d));
    return dhowi_back_scaled(r, d);
}

dhow_status dhowi_back_asin(dhowi_reverser *r) { return by_square(r, -1, 1, true); }
dhow_status dhowi_back_asinh(dhowi_reverser *r) { return by_square(r, 1, 1, true); }
dhow_status dhowi_back_acosh(dhowi_reverser *r) { return by_square(r, 1, -1, true); }
dhow_status dhowi_back_atan(dhowi_reverser *r) { return by_square(r, 1, 1, false); }
dhow_status dhowi_back_atanh(dhowi_reverser *r) { return by_square(r, -1, 1, false); }
dhow_status dhowi_back_sinh(dhowi_reverser *r) { return by_map(r, DHOWI_MAP_COSH, 0, 0); }
dhow_status dhowi_back_cosh(dhowi_reverser *r) { return by_map(r, DHOWI_MAP_SINH, 0, 0); }

/* Minus the arc sine's. */
dhow_status dhowi_back_acos(dhowi_reverser *r) {
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_NEG, 0, 0, r->dy, &r->dy));
    return dhowi_back_asin(r);
}

/* 1 + y^2 */
dhow_status dhowi_back_tan(dhowi_reverser *r) {
    int32_t y, d;
    DHOWI_TRY(dhowi_back_output(r, &y));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, y, y, &d));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_ADD, d, 1, &d));
    return dhowi_back_scaled(r, d);
}

/* One slope above 0 and another, of c below it: x > 0, else `below`. */
static dhow_status two_slopes(dhowi_reverser *r, int32_t x, int32_t below) {
    const dhowi_tensor_desc desc = *dhowi_desc_at(r->b, x);
    int32_t positive, one, d;
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_GT, x, 0, &positive));
    DHOWI_TRY(dhowi_filled(r->b, &desc, 1, &one));
    DHOWI_TRY(dhowi_select(r->b, positive, one, below, &d));
    return dhowi_back_scaled(r, d);
}

/* The builder has its number in a program. */
static double alpha_of(const dhowi_reverser *r, float otherwise) {
    if (dhowi_is_built(r->node)) return r->node->attrs->program.constant[0];
    return (double)dhowi_attr_float(r->b, "alpha", otherwise);
}

dhow_status dhowi_back_leaky(dhowi_reverser *r) {
    int32_t x, below;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    const dhowi_tensor_desc desc = *dhowi_desc_at(r->b, x);
    DHOWI_TRY(dhowi_filled(r->b, &desc, alpha_of(r, 0.01f), &below));
    return two_slopes(r, x, below);
}

/* Below 0: alpha e^x = y + alpha */
dhow_status dhowi_back_elu(dhowi_reverser *r) {
    int32_t x, y, below;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_output(r, &y));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_ADD, y, alpha_of(r, 1), &below));
    return two_slopes(r, x, below);
}

/* `slope` where low < x < high, else 0. */
static dhow_status between(dhowi_reverser *r, int32_t x, double low, double high, double slope,
                           int32_t *out) {
    int32_t above;
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_GT, x, low, &above));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_LT, x, high, out));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, *out, above, out));
    return slope == 1 ? DHOW_OK : dhowi_map_number(r->b, DHOWI_MAP_MUL, *out, slope, out);
}

dhow_status dhowi_back_hard_sigmoid(dhowi_reverser *r) {
    const double alpha = (double)dhowi_attr_float(r->b, "alpha", 0.2f),
                 beta = (double)dhowi_attr_float(r->b, "beta", 0.5f);
    int32_t x, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(between(r, x, -beta / alpha, (1 - beta) / alpha, alpha, &d));
    return dhowi_back_scaled(r, d);
}

/* x/3 + 1/2 between -3 and 3, 1 above */
dhow_status dhowi_back_hard_swish(dhowi_reverser *r) {
    int32_t x, inside, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(between(r, x, -3, 3, 1, &inside));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_LINEAR, 1.0 / 3, 0.5, x, &d));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, d, inside, &d));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_GE, x, 3, &inside));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_ADD, d, inside, &d));
    return dhowi_back_scaled(r, d);
}

/* Ends are the builder's, attributes before opset 11, or inputs that are known. As in PyTorch, the
 * ends themselves pass. */
dhow_status dhowi_back_clip(dhowi_reverser *r) {
    double ends[2] = {-INFINITY, INFINITY};
    int32_t x, above, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    for (uint32_t i = 0; i < 2; i++) {
        int32_t end;
        uint32_t count;
        if (dhowi_is_built(r->node)) {
            ends[i] = r->node->attrs->scalar[i].value.f64;
        } else if (r->node->opset < 11) {
            ends[i] = (double)dhowi_attr_float(r->b, i == 0 ? "min" : "max", (float)ends[i]);
        }
        if (i + 1 >= r->node->in_count || r->node->in[i + 1] < 0) continue;
        DHOWI_TRY(dhowi_back_input(r, i + 1, &end));
        DHOWI_TRY(dhowi_floats(r->b, end, &ends[i], 1, &count));
    }
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_GE, x, ends[0], &above));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_LE, x, ends[1], &d));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, d, above, &d));
    return dhowi_back_scaled(r, d);
}

/* ---- choices ---- */

/* The larger or smaller of two: those that are equal get half each, as in PyTorch. */
dhow_status dhowi_back_extreme(dhowi_reverser *r) {
    int32_t in[2], y, chosen[2], both, d;
    if (r->node->in_count != 2) DHOWI_REFUSE("%u inputs; it takes two", r->node->in_count);
    DHOWI_TRY(check_broadcast(r));
    DHOWI_TRY(dhowi_back_output(r, &y));
    for (uint32_t i = 0; i < 2; i++) {
        DHOWI_TRY(dhowi_back_input(r, i, &in[i]));
        DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_EQ, y, in[i], &chosen[i]));
    }
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_ADD, chosen[0], chosen[1], &both));
    for (uint32_t i = 0; i < 2; i++) {
        if (!dhowi_back_wants(r, i)) continue;
        DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_DIV, chosen[i], both, &d));
        DHOWI_TRY(dhowi_back_times(r, d, &d));
        DHOWI_TRY(dhowi_back_pass(r, i, d));
    }
    return DHOW_OK;
}

dhow_status dhowi_back_where(dhowi_reverser *r) {
    const dhowi_tensor_desc desc = *dhowi_desc_at(r->b, r->dy);
    int32_t condition, zero, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &condition));
    DHOWI_TRY(dhowi_filled(r->b, &desc, 0, &zero));
    for (uint32_t i = 1; i < 3; i++) {
        if (!dhowi_back_wants(r, i)) continue;
        DHOWI_TRY(dhowi_select(r->b, condition, i == 1 ? r->dy : zero, i == 1 ? zero : r->dy, &d));
        DHOWI_TRY(dhowi_back_pass(r, i, d));
    }
    return DHOW_OK;
}
