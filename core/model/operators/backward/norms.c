/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of normalisation.
 */
#include "model/operators/backward/backward.h"
#include "model/operators/nn/nn.h"

/* ---- rows ---- */

static dhow_status mean_of_rows(dhowi_lowering *b, int32_t x, int32_t *out) {
    bool axes[DHOW_MAX_RANK] = {false};
    axes[dhowi_desc_at(b, x)->rank - 1] = true;
    return dhowi_reduce(b, DHOWI_MEAN, x, axes, out);
}

/* (x - mean) / sqrt(variance + eps), and the divisor's reciprocal. */
static dhow_status normalized(dhowi_lowering *b, int32_t x, double eps, int32_t *out,
                              int32_t *scale) {
    DHOWI_TRY(mean_of_rows(b, x, out));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, x, *out, out));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, *out, *out, scale));
    DHOWI_TRY(mean_of_rows(b, *scale, scale));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_ADD, *scale, eps, scale));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SQRT, 0, 0, *scale, scale));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_RECIPROCAL, 0, 0, *scale, scale));
    return dhowi_map_two(b, DHOWI_MAP_MUL, *out, *scale, out);
}

/* Over the last dimension, with h = (x - mean) / sigma and g = dy weight:
 * dx = (g - mean of g - h mean of (g h)) / sigma, dweight = sum of dy h, dbias = sum of dy */
dhow_status dhowi_back_layer_norm(dhowi_reverser *r) {
    dhowi_lowering *b = r->b;
    int32_t x, h, scale, g, d, mean;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    const double eps = dhowi_is_built(r->node) ? (double)r->node->attrs->eps
                                               : (double)dhowi_attr_float(b, "epsilon", 1e-5f);
    const int64_t axis = dhowi_is_built(r->node) ? -1 : dhowi_attr_int(b, "axis", -1);
    if (axis != -1 && axis != own.rank - 1)
        DHOWI_REFUSE("axis %lld; it has the last", (long long)axis);
    DHOWI_TRY(normalized(b, x, eps, &h, &scale));
    if (dhowi_back_wants(r, 1)) {
        DHOWI_TRY(dhowi_back_times(r, h, &d));
        DHOWI_TRY(dhowi_back_pass(r, 1, d));
    }
    if (dhowi_back_wants(r, 2)) DHOWI_TRY(dhowi_back_pass(r, 2, r->dy));
    if (!dhowi_back_wants(r, 0)) return DHOW_OK;
    DHOWI_TRY(dhowi_back_input(r, 1, &g));
    DHOWI_TRY(dhowi_back_times(r, g, &g));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, g, h, &d));
    DHOWI_TRY(mean_of_rows(b, d, &d));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, h, d, &d));
    DHOWI_TRY(mean_of_rows(b, g, &mean));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, g, mean, &g));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, g, d, &d));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, d, scale, &d));
    return dhowi_back_pass(r, 0, d);
}

/* ---- batches ---- */

typedef struct batch_norm {
    int32_t h;     /* (x - mean) / sqrt(variance + eps) */
    int32_t scale; /* the divisor's reciprocal, [1, c, 1, ...] */
} batch_norm;

static dhow_status given_statistics(dhowi_reverser *r, int32_t x, double eps, batch_norm *n) {
    const int32_t rank = dhowi_desc_at(r->b, x)->rank;
    int32_t mean;
    DHOWI_TRY(dhowi_back_input(r, 3, &mean));
    DHOWI_TRY(dhowi_along(r->b, mean, rank, 1, &mean));
    DHOWI_TRY(dhowi_back_input(r, 4, &n->scale));
    DHOWI_TRY(dhowi_along(r->b, n->scale, rank, 1, &n->scale));
    DHOWI_TRY(dhowi_inverse_root(r->b, n->scale, eps, &n->scale));
    return dhowi_map_two(r->b, DHOWI_MAP_SUB, x, mean, &n->h);
}

/* y = h weight + bias: dweight is the sum of dy h, dbias that of dy. */
static dhow_status of_channels(dhowi_reverser *r, const batch_norm *n) {
    int32_t d;
    if (dhowi_back_wants(r, 1)) {
        DHOWI_TRY(dhowi_back_times(r, n->h, &d));
        DHOWI_TRY(dhowi_sum_but(r->b, d, 1, &d));
        DHOWI_TRY(dhowi_back_pass(r, 1, d));
    }
    if (!dhowi_back_wants(r, 2)) return DHOW_OK;
    DHOWI_TRY(dhowi_sum_but(r->b, r->dy, 1, &d));
    return dhowi_back_pass(r, 2, d);
}

/* d minus what its mean and that of d h contribute by the batch's own statistics. */
static dhow_status without_means(dhowi_lowering *b, int32_t h, int32_t *d) {
    const int32_t rank = dhowi_desc_at(b, h)->rank;
    bool axes[DHOW_MAX_RANK];
    int32_t mean, along;
    for (int32_t i = 0; i < rank; i++) axes[i] = i != 1;
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MEAN, *d, axes, &mean));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, *d, h, &along));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MEAN, along, axes, &along));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, h, along, &along));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, *d, mean, d));
    return dhowi_map_two(b, DHOWI_MAP_SUB, *d, along, d);
}

static dhow_status back_batch_norm(dhowi_reverser *r, bool training) {
    dhowi_lowering *b = r->b;
    const double eps = dhowi_batch_norm_eps(b);
    batch_norm n;
    int32_t x, w, d = r->dy, mean;
    if (!training && (dhowi_back_wants(r, 3) || dhowi_back_wants(r, 4)))
        DHOWI_REFUSE("its statistics depend on parameters");
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    if (training) {
        DHOWI_TRY(dhowi_batch_statistics(b, x, &mean, &n.h, &n.scale));
        DHOWI_TRY(dhowi_inverse_root(b, n.scale, eps, &n.scale));
    } else {
        DHOWI_TRY(given_statistics(r, x, eps, &n));
    }
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, n.h, n.scale, &n.h));
    DHOWI_TRY(of_channels(r, &n));
    if (!dhowi_back_wants(r, 0)) return DHOW_OK;
    if (training) DHOWI_TRY(without_means(b, n.h, &d));
    DHOWI_TRY(dhowi_back_input(r, 1, &w));
    DHOWI_TRY(dhowi_along(b, w, dhowi_desc_at(b, x)->rank, 1, &w));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, w, n.scale, &w));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, d, w, &d));
    return dhowi_back_pass(r, 0, d);
}

dhow_status dhowi_back_batch_norm(dhowi_reverser *r) { return back_batch_norm(r, false); }
dhow_status dhowi_back_batch_norm_training(dhowi_reverser *r) { return back_batch_norm(r, true); }
