/* SPDX-License-Identifier: Apache-2.0
 *
 * The derivative of the CTC loss: minus the share of ways that are at a class in a step.
 */
#include "model/lower/products/products.h"
#include "model/operators/backward/backward.h"
#include "model/operators/math/math.h"

/* e^(forward + backward - score + loss): both sums have the step's score. */
static dhow_status shares_of(dhowi_reverser *r, dhowi_ctc *c, int32_t *out) {
    dhowi_lowering *b = r->b;
    const dhowi_tensor_desc one = {.dtype = c->dtype};
    int32_t nowhere, weight;
    DHOWI_TRY(dhowi_filled(b, &one, -1e30, &nowhere));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, c->forward, c->backward, out));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, *out, c->score, out));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, *out, c->loss, out));
    /* Sequences without a way have nothing to share. */
    DHOWI_TRY(dhowi_select(b, c->fits, *out, nowhere, out));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_EXP, 0, 0, *out, out));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_DIV, r->dy, c->share, &weight));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_NEG, 0, 0, weight, &weight));
    return dhowi_map_two(b, DHOWI_MAP_MUL, *out, weight, out);
}

/* Places with the same class add up: a product [steps, states] [states, classes] of each sequence.
 */
dhow_status dhowi_back_ctc(dhowi_reverser *r) {
    static const int32_t batch_first[] = {1, 0, 2};
    dhowi_lowering *b = r->b;
    dhowi_ctc c;
    int32_t in[2], shares, classes, d;
    DHOWI_TRY(dhowi_back_inputs(r, 2, in));
    const dhowi_back_scope scope = dhowi_back_enter(r, in, 2);
    dhow_status status = dhowi_ctc_forward(b, in[0], in[1], &c);
    if (status == DHOW_OK) status = dhowi_ctc_backward(b, &c);
    dhowi_back_leave(r, scope);
    DHOWI_TRY(status);
    DHOWI_TRY(shares_of(r, &c, &shares));
    const int64_t column[] = {c.batch, c.states, 1};
    DHOWI_TRY(dhowi_reshape(b, c.label, 3, column, &classes));
    DHOWI_TRY(dhowi_one_hot(b, classes, 2, c.classes, c.dtype, &classes));
    DHOWI_TRY(dhowi_permute(b, shares, batch_first, &shares));
    DHOWI_TRY(dhowi_product(b, shares, classes, -1, &d));
    DHOWI_TRY(dhowi_permute(b, d, batch_first, &d));
    return dhowi_back_pass(r, 0, d);
}
