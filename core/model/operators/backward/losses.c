/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of losses by class, see operators/losses/loss.c for what they are.
 */
#include "model/operators/backward/backward.h"

typedef struct targets {
    int32_t one_hot; /* [n, c, ...] */
    int32_t weight;  /* [n, 1, ...]; -1: all ones */
    int64_t count;
} targets;

/* What a target counts: 0 for the one to ignore, else the weight of its class. */
static dhow_status weigh(dhowi_reverser *r, int32_t classes, dhow_dtype dtype, targets *t) {
    dhowi_lowering *b = r->b;
    int32_t own, kept;
    t->weight = -1;
    if (r->node->in_count > 2 && r->node->in[2] >= 0) {
        DHOWI_TRY(dhowi_back_input(r, 2, &own));
        DHOWI_TRY(dhowi_along(b, own, dhowi_desc_at(b, t->one_hot)->rank, 1, &own));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, t->one_hot, own, &own));
        DHOWI_TRY(dhowi_sum_along(b, own, 1, &t->weight));
    }
    if (dhowi_attr(b, "ignore_index", DHOWI_ATTRIBUTE_INT) == NULL) return DHOW_OK;
    DHOWI_TRY(dhowi_cast_to(b, classes, dtype, &kept));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_NE, kept, (double)dhowi_attr_int(b, "ignore_index", 0),
                               &kept));
    if (t->weight >= 0) return dhowi_map_two(b, DHOWI_MAP_MUL, t->weight, kept, &t->weight);
    t->weight = kept;
    return DHOW_OK;
}

static dhow_status targets_of(dhowi_reverser *r, const dhowi_tensor_desc *x, targets *t) {
    dhowi_tensor_desc wide = *x;
    int32_t classes;
    DHOWI_TRY(dhowi_back_input(r, 1, &classes));
    t->count = dhowi_count_of(dhowi_desc_at(r->b, classes));
    wide.shape[1] = 1;
    DHOWI_TRY(dhowi_reshape(r->b, classes, wide.rank, wide.shape, &classes));
    DHOWI_TRY(dhowi_one_hot(r->b, classes, 1, x->shape[1], x->dtype, &t->one_hot));
    return weigh(r, classes, x->dtype, t);
}

/* The result's derivative, times what each target counts in it: [n, 1, ...] or one number. */
static dhow_status share_of(dhowi_reverser *r, const dhowi_tensor_desc *x, const targets *t,
                            int32_t *out) {
    dhowi_lowering *b = r->b;
    dhowi_tensor_desc wide = *x;
    bool axes[DHOW_MAX_RANK];
    int32_t total;
    wide.shape[1] = 1;
    *out = r->dy;
    if (dhowi_attr_is(b, "reduction", "none", "mean"))
        DHOWI_TRY(dhowi_reshape(b, r->dy, wide.rank, wide.shape, out));
    const bool mean = dhowi_attr_is(b, "reduction", "mean", "mean");
    if (t->weight < 0)
        return mean ? dhowi_map_number(b, DHOWI_MAP_MUL, *out, 1 / (double)t->count, out) : DHOW_OK;
    for (int32_t i = 0; i < wide.rank; i++) axes[i] = true;
    if (mean) {
        DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM, t->weight, axes, &total));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_DIV, *out, total, out));
    }
    return dhowi_map_two(b, DHOWI_MAP_MUL, *out, t->weight, out);
}

/* (softmax(x) - one hot) times the share */
dhow_status dhowi_back_entropy_loss(dhowi_reverser *r) {
    const dhowi_attrs attrs = {.dim = 1};
    int32_t x, d, share;
    targets t;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    const dhowi_tensor_desc own = *dhowi_desc_at(r->b, x);
    DHOWI_TRY(targets_of(r, &own, &t));
    DHOWI_TRY(share_of(r, &own, &t, &share));
    DHOWI_TRY(dhowi_emit(r->b, DHOWI_OP_softmax, &x, 1, &attrs, &own, &d));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_SUB, d, t.one_hot, &d));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, d, share, &d));
    return dhowi_back_pass(r, 0, d);
}

dhow_status dhowi_back_likelihood_loss(dhowi_reverser *r) {
    int32_t x, d, share;
    targets t;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    const dhowi_tensor_desc own = *dhowi_desc_at(r->b, x);
    DHOWI_TRY(targets_of(r, &own, &t));
    DHOWI_TRY(share_of(r, &own, &t, &share));
    DHOWI_TRY(dhowi_map_two(r->b, DHOWI_MAP_MUL, t.one_hot, share, &d));
    DHOWI_TRY(dhowi_map_one(r->b, DHOWI_MAP_NEG, 0, 0, d, &d));
    return dhowi_back_pass(r, 0, d);
}
