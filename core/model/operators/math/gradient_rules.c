/* SPDX-License-Identifier: Apache-2.0
 *
 * The derivatives of operators, one rule for each; the operator table names them.
 */

#include "model/operators/math/gradient.h"
#include "model/operators/math/math.h"

/* ---- helpers ---- */

static dhow_status input_of(dhowi_reverser *r, uint32_t i, int32_t *out) {
    if (i >= r->node->in_count || r->node->in[i] < 0) DHOWI_REFUSE("its input %u is missing", i);
    return dhowi_ref_of(r->b, r->node->in[i], out);
}

static dhow_status output_of(dhowi_reverser *r, int32_t *out) {
    return dhowi_ref_of(r->b, r->node->out[0], out);
}

static bool is_wanted(const dhowi_reverser *r, uint32_t i) {
    return i < r->node->in_count && r->node->in[i] >= 0 && r->leads[r->node->in[i]];
}

/* Sums over what was repeated. */
static dhow_status unbroadcast(dhowi_lowering *b, int32_t d, const dhowi_tensor_desc *to,
                               int32_t *out) {
    const dhowi_tensor_desc from = *dhowi_desc_at(b, d);
    bool axes[DHOW_MAX_RANK] = {false}, any = false;
    *out = d;
    if (dhowi_shape_equal(from.rank, from.shape, to->rank, to->shape)) return DHOW_OK;
    for (int32_t i = 0; i < from.rank; i++) {
        int32_t own = i - (from.rank - to->rank);
        axes[i] = own < 0 || (to->shape[own] == 1 && from.shape[i] != 1);
        any = any || axes[i];
    }
    if (any) DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM, d, axes, out));
    return dhowi_reshape(b, *out, to->rank, to->shape, out);
}

/* Adds to the derivative by the node's input i. */
static dhow_status pass(dhowi_reverser *r, uint32_t i, int32_t d) {
    int32_t x, *slope = &r->slope[r->node->in[i]];
    DHOWI_TRY(input_of(r, i, &x));
    const dhowi_tensor_desc desc = *dhowi_desc_at(r->b, x);
    DHOWI_TRY(unbroadcast(r->b, d, &desc, &d));
    if (*slope >= 0) return dhowi_map_two(r->b, DHOWI_MAP_ADD, *slope, d, slope);
    *slope = d;
    return DHOW_OK;
}

static dhow_status times(dhowi_reverser *r, int32_t x, int32_t *out) {
    return dhowi_map_two(r->b, DHOWI_MAP_MUL, r->dy, x, out);
}

/* ---- elementwise ---- */

static dhow_status check_broadcast(const dhowi_reverser *r) {
    if (r->node->opset >= 7) return DHOW_OK;
    DHOWI_REFUSE("broadcasting of opset %d", r->node->opset);
}

dhow_status dhowi_back_sum(dhowi_reverser *r) {
    DHOWI_TRY(check_broadcast(r));
    for (uint32_t i = 0; i < r->node->in_count; i++) {
        if (is_wanted(r, i)) DHOWI_TRY(pass(r, i, r->dy));
    }
    return DHOW_OK;
}

dhow_status dhowi_back_neg(dhowi_reverser *r) {
    int32_t d;
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_NEG, 0, 0, r->dy, &d));
    return pass(r, 0, d);
}

dhow_status dhowi_back_sub(dhowi_reverser *r) {
    int32_t d;
    DHOWI_TRY(check_broadcast(r));
    if (is_wanted(r, 0)) DHOWI_TRY(pass(r, 0, r->dy));
    if (!is_wanted(r, 1)) return DHOW_OK;
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_NEG, 0, 0, r->dy, &d));
    return pass(r, 1, d);
}

dhow_status dhowi_back_mul(dhowi_reverser *r) {
    int32_t x, y, d;
    DHOWI_TRY(check_broadcast(r));
    DHOWI_TRY(input_of(r, 0, &x));
    DHOWI_TRY(input_of(r, 1, &y));
    if (is_wanted(r, 0)) {
        DHOWI_TRY(times(r, y, &d));
        DHOWI_TRY(pass(r, 0, d));
    }
    if (!is_wanted(r, 1)) return DHOW_OK;
    DHOWI_TRY(times(r, x, &d));
    return pass(r, 1, d);
}

/* z = x / y: dx = dz / y, dy = -dz z / y */
dhow_status dhowi_back_div(dhowi_reverser *r) {
    int32_t y, z, d;
    DHOWI_TRY(check_broadcast(r));
    DHOWI_TRY(input_of(r, 1, &y));
    DHOWI_TRY(output_of(r, &z));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_DIV, r->dy, y, &d));
    if (is_wanted(r, 0)) DHOWI_TRY(pass(r, 0, d));
    if (!is_wanted(r, 1)) return DHOW_OK;
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, d, z, &d));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_NEG, 0, 0, d, &d));
    return pass(r, 1, d);
}

dhow_status dhowi_back_identity(dhowi_reverser *r) { return pass(r, 0, r->dy); }

dhow_status dhowi_back_relu(dhowi_reverser *r) {
    int32_t x, d;
    DHOWI_TRY(input_of(r, 0, &x));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_GT, x, 0, &d));
    DHOWI_TRY(times(r, d, &d));
    return pass(r, 0, d);
}

dhow_status dhowi_back_exp(dhowi_reverser *r) {
    int32_t y, d;
    DHOWI_TRY(output_of(r, &y));
    DHOWI_TRY(times(r, y, &d));
    return pass(r, 0, d);
}

dhow_status dhowi_back_log(dhowi_reverser *r) {
    int32_t x, d;
    DHOWI_TRY(input_of(r, 0, &x));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_DIV, r->dy, x, &d));
    return pass(r, 0, d);
}

dhow_status dhowi_back_sqrt(dhowi_reverser *r) {
    int32_t y, d;
    DHOWI_TRY(output_of(r, &y));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_DIV, r->dy, y, &d));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_MUL, d, 0.5, &d));
    return pass(r, 0, d);
}

/* y (1 - y) */
dhow_status dhowi_back_sigmoid(dhowi_reverser *r) {
    int32_t y, d;
    DHOWI_TRY(output_of(r, &y));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_RSUB, y, 1, &d));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, d, y, &d));
    DHOWI_TRY(times(r, d, &d));
    return pass(r, 0, d);
}

/* 1 - y^2 */
dhow_status dhowi_back_tanh(dhowi_reverser *r) {
    int32_t y, d;
    DHOWI_TRY(output_of(r, &y));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, y, y, &d));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_RSUB, d, 1, &d));
    DHOWI_TRY(times(r, d, &d));
    return pass(r, 0, d);
}

/* By a constant: e x^(e - 1) */
dhow_status dhowi_back_pow(dhowi_reverser *r) {
    int32_t x, y, d;
    double e;
    uint32_t count;
    DHOWI_TRY(input_of(r, 0, &x));
    DHOWI_TRY(input_of(r, 1, &y));
    if (is_wanted(r, 1) || !dhowi_is_known(r->b, y) || dhowi_count_of(dhowi_desc_at(r->b, y)) != 1)
        DHOWI_REFUSE("an exponent that is no constant number");
    DHOWI_TRY(dhowi_floats(r->b, y, &e, 1, &count));
    if (e == 0) { /* no matter what x is */
        DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_MUL, r->dy, 0, &d));
        return pass(r, 0, d);
    }
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_POW, x, e - 1, &d));
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_MUL, d, e, &d));
    DHOWI_TRY(times(r, d, &d));
    return pass(r, 0, d);
}

/* ---- shapes, sums, products ---- */

dhow_status dhowi_back_reshape(dhowi_reverser *r) {
    int32_t x, d;
    DHOWI_TRY(input_of(r, 0, &x));
    const dhowi_tensor_desc desc = *dhowi_desc_at(r->b, x);
    DHOWI_TRY(dhowi_reshape(r->b, r->dy, desc.rank, desc.shape, &d));
    return pass(r, 0, d);
}

dhow_status dhowi_back_transpose(dhowi_reverser *r) {
    const dhowi_tensor_desc dy = *dhowi_desc_at(r->b, r->dy);
    int32_t order[DHOW_MAX_RANK], d;
    uint32_t count;
    const dhowi_node *gradient = r->b->node;
    r->b->node = r->node; /* whose attribute is read */
    const int64_t *perm = dhowi_attr_ints(r->b, "perm", &count);
    r->b->node = gradient;
    for (int32_t i = 0; i < dy.rank; i++) {
        int64_t to = perm != NULL ? perm[i] : dy.rank - 1 - i;
        order[to < 0 ? to + dy.rank : to] = i;
    }
    DHOWI_TRY(dhowi_permute(r->b, r->dy, order, &d));
    return pass(r, 0, d);
}

/* The marked axes of a reduction, as its lowering reads them. */
static dhow_status axes_of(dhowi_reverser *r, const dhowi_tensor_desc *x, bool *axes,
                           double *elements) {
    dhowi_lowering *b = r->b;
    int32_t refs[2] = {-1, -1}, *in = b->in;
    uint32_t in_count = b->in_count, count;
    int64_t list[DHOW_MAX_RANK];
    const dhowi_node *gradient = b->node;
    for (uint32_t i = 0; i < r->node->in_count && i < 2; i++)
        if (r->node->in[i] >= 0) DHOWI_TRY(input_of(r, i, &refs[i]));
    b->node = r->node;
    b->in = refs;
    b->in_count = r->node->in_count;
    dhow_status status = dhowi_axes(b, 1, list, &count);
    bool none = count == 0 && dhowi_attr_int(b, "noop_with_empty_axes", 0) != 0;
    b->node = gradient;
    b->in = in;
    b->in_count = in_count;
    DHOWI_TRY(status);
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis;
        DHOWI_TRY(dhowi_axis(x, list[i], &axis));
        axes[axis] = true;
    }
    *elements = 1;
    for (int32_t i = 0; i < x->rank; i++) {
        axes[i] = axes[i] || (count == 0 && !none);
        if (axes[i]) *elements *= (double)x->shape[i];
    }
    return DHOW_OK;
}

static dhow_status of_reduction(dhowi_reverser *r, bool mean) {
    bool axes[DHOW_MAX_RANK] = {false};
    double elements;
    int32_t x, d;
    DHOWI_TRY(input_of(r, 0, &x));
    const dhowi_tensor_desc desc = *dhowi_desc_at(r->b, x);
    DHOWI_TRY(axes_of(r, &desc, axes, &elements));
    int64_t kept[DHOW_MAX_RANK];
    for (int32_t i = 0; i < desc.rank; i++) kept[i] = axes[i] ? 1 : desc.shape[i];
    DHOWI_TRY(dhowi_reshape(r->b, r->dy, desc.rank, kept, &d));
    if (mean) DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_MUL, d, 1 / elements, &d));
    DHOWI_TRY(dhowi_expand(r->b, d, desc.rank, desc.shape, &d));
    return pass(r, 0, d);
}
dhow_status dhowi_back_reduce_sum(dhowi_reverser *r) { return of_reduction(r, false); }
dhow_status dhowi_back_reduce_mean(dhowi_reverser *r) { return of_reduction(r, true); }

static dhow_status turned(dhowi_lowering *b, int32_t x, int32_t *out) {
    int32_t rank = dhowi_desc_at(b, x)->rank, order[DHOW_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) order[i] = i;
    order[rank - 2] = rank - 1;
    order[rank - 1] = rank - 2;
    return dhowi_permute(b, x, order, out);
}

dhow_status dhowi_back_matmul(dhowi_reverser *r) {
    int32_t x, y, t, d;
    DHOWI_TRY(input_of(r, 0, &x));
    DHOWI_TRY(input_of(r, 1, &y));
    if (dhowi_desc_at(r->b, x)->rank < 2 || dhowi_desc_at(r->b, y)->rank < 2)
        DHOWI_REFUSE("a product with a vector; reshape it to a matrix");
    if (is_wanted(r, 0)) {
        DHOWI_TRY(turned(r->b, y, &t));
        DHOWI_TRY(dhowi_product(r->b, r->dy, t, -1, &d));
        DHOWI_TRY(pass(r, 0, d));
    }
    if (!is_wanted(r, 1)) return DHOW_OK;
    DHOWI_TRY(turned(r->b, x, &t));
    DHOWI_TRY(dhowi_product(r->b, t, r->dy, -1, &d));
    return pass(r, 1, d);
}
