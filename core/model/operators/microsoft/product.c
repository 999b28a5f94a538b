/* SPDX-License-Identifier: Apache-2.0
 *
 * FusedMatMul, distances, and the forms of Gelu.
 */
#include "model/lower/composite.h"
#include "model/lower/products/products.h"
#include "model/operators/math/math.h"
#include "model/operators/microsoft/microsoft.h"

/* `batch` moves the first dimension before the last; then `swapped` swaps the last two. */
static dhow_status turned(dhowi_lowering *b, uint32_t input, bool swapped, bool batch,
                          int32_t *out) {
    const int32_t rank = dhowi_desc_at(b, b->in[input])->rank;
    int32_t order[DHOW_MAX_RANK];
    if (rank < 2) DHOWI_REFUSE("input %u has %d dimensions", input, rank);
    for (int32_t i = 0; i < rank; i++) order[i] = batch && i < rank - 2 ? i + 1 : i;
    if (batch) order[rank - 2] = 0;
    if (swapped) {
        const int32_t last = order[rank - 1];
        order[rank - 1] = order[rank - 2];
        order[rank - 2] = last;
    }
    return dhowi_permute(b, b->in[input], order, out);
}

dhow_status dhowi_lower_ms_matmul(dhowi_lowering *b) {
    const double alpha = (double)dhowi_attr_float(b, "alpha", 1);
    bool a, a_batch, y, y_batch;
    int32_t in[2];
    DHOWI_TRY(dhowi_attr_flag(b, "transA", false, &a));
    DHOWI_TRY(dhowi_attr_flag(b, "transB", false, &y));
    DHOWI_TRY(dhowi_attr_flag(b, "transBatchA", false, &a_batch));
    DHOWI_TRY(dhowi_attr_flag(b, "transBatchB", false, &y_batch));
    DHOWI_TRY(turned(b, 0, a, a_batch, &in[0]));
    DHOWI_TRY(turned(b, 1, y, y_batch, &in[1]));
    DHOWI_TRY(dhowi_product(b, in[0], in[1], -1, &b->out[0]));
    if (alpha == 1) return DHOW_OK;
    return dhowi_map_number(b, DHOWI_MAP_MUL, b->out[0], alpha, &b->out[0]);
}

/* The row's argument says which; a bias is added to the last dimension before. */
dhow_status dhowi_lower_ms_gelu(dhowi_lowering *b) {
    const dhowi_map_op op = (dhowi_map_op)b->node->op->arg;
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    int32_t in[] = {b->in[0], dhowi_given(b, 1) ? b->in[1] : -1};
    if (op == DHOWI_MAP_SILU)
        return dhowi_swish(b, in[0], (double)dhowi_attr_float(b, "alpha", 1.702f), &b->out[0]);
    if (in[1] < 0) return dhowi_map_one(b, op, 0, 0, in[0], &b->out[0]);
    const dhowi_tensor_desc bias = *dhowi_desc_at(b, in[1]);
    if (bias.rank != 1 || x.rank < 1 || bias.shape[0] != x.shape[x.rank - 1]) {
        char s[160], t[160];
        DHOWI_REFUSE("the bias is %s for %s", dhowi_desc_text(&bias, s, sizeof s),
                     dhowi_desc_text(&x, t, sizeof t));
    }
    dhowi_program p = {0};
    (void)dhowi_program_add(&p, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_add(&p, DHOWI_MAP_ADD, 1);
    (void)dhowi_program_add(&p, op, 0);
    return dhowi_map(b, &p, in, 2, &b->out[0]);
}

/* |x|^2 of each row, as [rows][1]. */
static dhow_status squares_of(dhowi_lowering *b, int32_t x, int32_t *out) {
    static const bool along[] = {false, true};
    return dhowi_reduce(b, DHOWI_SUM_SQUARE, x, along, out);
}

/* Of each row of A from each row of B: |a|^2 + |b|^2 - 2 a b, or its root. */
dhow_status dhowi_lower_ms_distances(dhowi_lowering *b) {
    static const int32_t swapped[] = {1, 0};
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]), y = *dhowi_desc_at(b, b->in[1]);
    int32_t rows, columns, turned_b, sum;
    const bool squared = dhowi_attr_is(b, "metric", "sqeuclidean", "sqeuclidean");
    char s[160], t[160];
    if (!squared && !dhowi_attr_is(b, "metric", "euclidean", "sqeuclidean"))
        DHOWI_REFUSE("metric is neither euclidean nor sqeuclidean");
    if (x.rank != 2 || y.rank != 2 || x.shape[1] != y.shape[1])
        DHOWI_REFUSE("A is %s and B is %s: both must be matrices of as many columns",
                     dhowi_desc_text(&x, s, sizeof s), dhowi_desc_text(&y, t, sizeof t));
    DHOWI_TRY(squares_of(b, b->in[0], &rows));
    DHOWI_TRY(squares_of(b, b->in[1], &columns));
    DHOWI_TRY(dhowi_permute(b, columns, swapped, &columns));
    DHOWI_TRY(dhowi_permute(b, b->in[1], swapped, &turned_b));
    DHOWI_TRY(dhowi_product(b, b->in[0], turned_b, -1, &sum));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, sum, -2, &sum));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, sum, rows, &sum));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, sum, columns, &sum));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MAX, sum, 0, &b->out[0])); /* rounding may say less */
    return squared ? DHOW_OK : dhowi_map_one(b, DHOWI_MAP_SQRT, 0, 0, b->out[0], &b->out[0]);
}
