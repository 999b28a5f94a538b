/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of activations of ONNX that have two pieces, and of those between two tensors.
 */
#include "model/operators/backward/backward.h"
#include "model/operators/math/math.h"

static dhow_status times_map(dhowi_reverser *r, dhowi_map_op op, double c, double q, int32_t x,
                             int32_t *out) {
    DHOWI_TRY(dhowi_map_one(r->b, op, c, q, x, out));
    return dhowi_back_times(r, *out, out);
}

/* `above` where x > 0, else `below`: the factors of dy. */
static dhow_status two_pieces(dhowi_reverser *r, int32_t x, double above, int32_t below) {
    const dhowi_tensor_desc desc = *dhowi_desc_at(r->b, x);
    int32_t positive, slope, d;
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_GT, x, 0, &positive));
    DHOWI_TRY(dhowi_filled(r->b, &desc, above, &slope));
    DHOWI_TRY(dhowi_select(r->b, positive, slope, below, &d));
    return dhowi_back_scaled(r, d);
}

/* Below 0: e^(x / alpha) = y / alpha + 1 */
dhow_status dhowi_back_celu(dhowi_reverser *r) {
    const double alpha = (double)dhowi_attr_float(r->b, "alpha", 1);
    int32_t x, y, below;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_output(r, &y));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_LINEAR, 1 / alpha, 1, y, &below));
    return two_pieces(r, x, 1, below);
}

/* Below 0: gamma alpha e^x = y + gamma alpha */
dhow_status dhowi_back_selu(dhowi_reverser *r) {
    const double alpha = (double)dhowi_attr_float(r->b, "alpha", 1.67326319217681884765625f),
                 gamma = (double)dhowi_attr_float(r->b, "gamma", 1.05070102214813232421875f);
    int32_t x, y, below;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_output(r, &y));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_ADD, y, gamma * alpha, &below));
    return two_pieces(r, x, gamma, below);
}

dhow_status dhowi_back_threshold(dhowi_reverser *r) {
    int32_t x, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(
        dhowi_map_number(r->b, DHOWI_MAP_GT, x, (double)dhowi_attr_float(r->b, "alpha", 1), &d));
    return dhowi_back_scaled(r, d);
}

/* 1 where |x| > lambd */
dhow_status dhowi_back_shrink(dhowi_reverser *r) {
    int32_t x, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_ABS, 0, 0, x, &d));
    DHOWI_TRY(
        dhowi_map_number(r->b, DHOWI_MAP_GT, d, (double)dhowi_attr_float(r->b, "lambd", 0.5f), &d));
    return dhowi_back_scaled(r, d);
}

/* dx = dy, or slope dy below 0; to the slope goes x dy there. */
dhow_status dhowi_back_prelu(dhowi_reverser *r) {
    int32_t x, slope, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_input(r, 1, &slope));
    const dhowi_tensor_desc own = *dhowi_desc_at(r->b, x);
    if (r->node->opset < 7 && dhowi_desc_at(r->b, slope)->rank == 1 && own.rank > 1)
        DHOWI_REFUSE("slopes of channels of opset %d", r->node->opset);
    if (dhowi_back_wants(r, 0)) {
        int32_t all;
        DHOWI_TRY(dhowi_expand(r->b, slope, own.rank, own.shape, &all));
        DHOWI_TRY(two_pieces(r, x, 1, all));
    }
    if (!dhowi_back_wants(r, 1)) return DHOW_OK;
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_MIN, x, 0, &d));
    DHOWI_TRY(dhowi_back_times(r, d, &d));
    return dhowi_back_pass(r, 1, d);
}

/* Of x - n y with n the quotient without its fraction: dy, and -n dy = (z - x) / y dy. */
dhow_status dhowi_back_mod(dhowi_reverser *r) {
    int32_t x, y, z, d;
    if (dhowi_back_wants(r, 0)) DHOWI_TRY(dhowi_back_pass(r, 0, r->dy));
    if (!dhowi_back_wants(r, 1)) return DHOW_OK;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_input(r, 1, &y));
    DHOWI_TRY(dhowi_back_output(r, &z));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_SUB, z, x, &d));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_DIV, d, y, &d));
    DHOWI_TRY(times_map(r, DHOWI_MAP_ROUND, 0, 0, d, &d));
    return dhowi_back_pass(r, 1, d);
}

dhow_status dhowi_back_mean(dhowi_reverser *r) {
    int32_t d;
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_DIV, r->dy, (double)r->node->in_count, &d));
    for (uint32_t i = 0; i < r->node->in_count; i++) {
        if (dhowi_back_wants(r, i)) DHOWI_TRY(dhowi_back_pass(r, i, d));
    }
    return DHOW_OK;
}

/* Between floats; integers and what is made of them have no slope. */
dhow_status dhowi_back_cast(dhowi_reverser *r) {
    int32_t x, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    const dhowi_tensor_desc own = *dhowi_desc_at(r->b, x);
    if (!dhowi_is_float(own.dtype) || !dhowi_is_float(dhowi_desc_at(r->b, r->dy)->dtype) ||
        !dhowi_back_wants(r, 0))
        return DHOW_OK;
    DHOWI_TRY(dhowi_cast_to(r->b, r->dy, own.dtype, &d));
    return dhowi_back_pass(r, 0, d);
}
