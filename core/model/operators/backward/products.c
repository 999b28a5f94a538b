/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of products.
 */
#include "model/lower/products/products.h"

#include "model/operators/backward/backward.h"

dhow_status dhowi_back_matmul(dhowi_reverser *r) {
    int32_t x, y, t, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_input(r, 1, &y));
    if (dhowi_desc_at(r->b, x)->rank < 2 || dhowi_desc_at(r->b, y)->rank < 2)
        DHOWI_REFUSE("a product with a vector; reshape it to a matrix");
    if (dhowi_back_wants(r, 0)) {
        DHOWI_TRY(dhowi_turned(r->b, y, &t));
        DHOWI_TRY(dhowi_product(r->b, r->dy, t, -1, &d));
        DHOWI_TRY(dhowi_back_pass(r, 0, d));
    }
    if (!dhowi_back_wants(r, 1)) return DHOW_OK;
    DHOWI_TRY(dhowi_turned(r->b, x, &t));
    DHOWI_TRY(dhowi_product(r->b, t, r->dy, -1, &d));
    return dhowi_back_pass(r, 1, d);
}

/* y = x w^T + bias */
dhow_status dhowi_back_linear(dhowi_reverser *r) {
    int32_t x, w, rows, t, d;
    DHOWI_TRY(dhowi_back_input(r, 0, &x));
    DHOWI_TRY(dhowi_back_input(r, 1, &w));
    DHOWI_TRY(dhowi_as_matrix(r->b, r->dy, &rows));
    if (dhowi_back_wants(r, 2)) {
        DHOWI_TRY(dhowi_sum_but(r->b, rows, 1, &d));
        DHOWI_TRY(dhowi_back_pass(r, 2, d));
    }
    if (dhowi_back_wants(r, 1)) {
        DHOWI_TRY(dhowi_as_matrix(r->b, x, &d));
        DHOWI_TRY(dhowi_turned(r->b, rows, &t));
        DHOWI_TRY(dhowi_product(r->b, t, d, -1, &d));
        DHOWI_TRY(dhowi_back_pass(r, 1, d));
    }
    if (!dhowi_back_wants(r, 0)) return DHOW_OK;
    const dhowi_tensor_desc own = *dhowi_desc_at(r->b, x);
    DHOWI_TRY(dhowi_product(r->b, rows, w, -1, &d));
    DHOWI_TRY(dhowi_reshape(r->b, d, own.rank, own.shape, &d));
    return dhowi_back_pass(r, 0, d);
}

/* One factor's derivative of alpha op(a) op(b), where `left` times `right` has that of op(factor).
 */
static dhow_status of_factor(dhowi_reverser *r, uint32_t i, int32_t left, int32_t right,
                             bool transposed, double alpha) {
    int32_t d;
    DHOWI_TRY(dhowi_product(r->b, left, right, -1, &d));
    if (transposed) DHOWI_TRY(dhowi_turned(r->b, d, &d));
    if (alpha != 1) DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_MUL, d, alpha, &d));
    return dhowi_back_pass(r, i, d);
}

/* y = alpha op(a) op(b) + beta c, op being a transposition where the node says so */
dhow_status dhowi_back_gemm(dhowi_reverser *r) {
    const bool turned[] = {dhowi_attr_int(r->b, "transA", 0) != 0,
                           dhowi_attr_int(r->b, "transB", 0) != 0};
    const double alpha = (double)dhowi_attr_float(r->b, "alpha", 1),
                 beta = (double)dhowi_attr_float(r->b, "beta", 1);
    int32_t in[2], d;
    for (uint32_t i = 0; i < 2; i++) { /* those of op, transposed: what the other one needs */
        DHOWI_TRY(dhowi_back_input(r, i, &in[i]));
        if (!turned[i]) DHOWI_TRY(dhowi_turned(r->b, in[i], &in[i]));
    }
    if (dhowi_back_wants(r, 0)) DHOWI_TRY(of_factor(r, 0, r->dy, in[1], turned[0], alpha));
    if (dhowi_back_wants(r, 1)) DHOWI_TRY(of_factor(r, 1, in[0], r->dy, turned[1], alpha));
    if (!dhowi_back_wants(r, 2)) return DHOW_OK;
    DHOWI_TRY(dhowi_map_number(r->b, DHOWI_MAP_MUL, r->dy, beta, &d));
    return dhowi_back_pass(r, 2, d);
}
