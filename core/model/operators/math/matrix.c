/* SPDX-License-Identifier: Apache-2.0
 *
 * MatMul, Gemm and Det.
 */
#include "base/memory/size.h"
#include "model/lower/products/products.h"
#include "model/operators/math/math.h"

/* ---- integers ---- */

enum { MOST_PRODUCTS = 1 << 22 /* of a matrix product, one by one */ };

/* Of x[..., m, k] and y[..., k, n]. */
static double products_of(const dhowi_tensor_desc *p, const dhowi_tensor_desc *q) {
    double count = (double)p->shape[p->rank - 2] * (double)p->shape[p->rank - 1] *
                   (double)q->shape[q->rank - 1];
    for (int32_t i = 3; i <= DHOWI_MAX(p->rank, q->rank); i++) {
        const int64_t e = i <= p->rank ? p->shape[p->rank - i] : 1;
        const int64_t g = i <= q->rank ? q->shape[q->rank - i] : 1;
        count *= (double)DHOWI_MAX(e, g);
    }
    return count;
}

/* Every product by itself, as [..., m, k, n], and their sums: exact, as f64 is not beyond 2^53. */
static dhow_status sum_products(dhowi_lowering *b, int32_t x, int32_t y, int32_t *out) {
    const dhowi_tensor_desc p = *dhowi_desc_at(b, x), q = *dhowi_desc_at(b, y);
    int64_t left[DHOW_MAX_RANK + 1], right[DHOW_MAX_RANK + 1];
    bool axes[DHOW_MAX_RANK + 1] = {false};
    for (int32_t i = 0; i < p.rank; i++) left[i] = p.shape[i];
    left[p.rank] = 1;
    for (int32_t i = 0; i < q.rank - 2; i++) right[i] = q.shape[i];
    right[q.rank - 2] = 1;
    right[q.rank - 1] = q.shape[q.rank - 2];
    right[q.rank] = q.shape[q.rank - 1];
    DHOWI_TRY(dhowi_reshape(b, x, p.rank + 1, left, &x));
    DHOWI_TRY(dhowi_reshape(b, y, q.rank + 1, right, &y));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, x, y, out));
    dhowi_tensor_desc r = *dhowi_desc_at(b, *out);
    axes[r.rank - 2] = true;
    DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM, *out, axes, out));
    r.shape[r.rank - 2] = r.shape[r.rank - 1];
    return dhowi_reshape(b, *out, r.rank - 1, r.shape, out);
}

/* *out is -1 where there are too many products, or 64 bits with a sign do not hold the factors. */
static dhow_status small_product(dhowi_lowering *b, int32_t x, int32_t y, int32_t *out) {
    const dhowi_tensor_desc p = *dhowi_desc_at(b, x), q = *dhowi_desc_at(b, y);
    *out = -1;
    if (p.dtype == DHOW_U64 || q.dtype == DHOW_U64 || p.rank == DHOW_MAX_RANK ||
        q.rank == DHOW_MAX_RANK || p.shape[p.rank - 1] != q.shape[q.rank - 2] ||
        !(products_of(&p, &q) <= MOST_PRODUCTS))
        return DHOW_OK;
    DHOWI_TRY(dhowi_cast_to(b, x, DHOW_I64, &x));
    DHOWI_TRY(dhowi_cast_to(b, y, DHOW_I64, &y));
    return sum_products(b, x, y, out);
}

static dhow_status integer_product(dhowi_lowering *b, int32_t x, int32_t y, int32_t *out) {
    DHOWI_TRY(small_product(b, x, y, out));
    if (*out >= 0) return DHOW_OK;
    DHOWI_TRY(dhowi_cast_to(b, x, DHOW_F64, &x));
    DHOWI_TRY(dhowi_cast_to(b, y, DHOW_F64, &y));
    return dhowi_product(b, x, y, -1, out);
}

/* ---- the operators ---- */

dhow_status dhowi_lower_matmul(dhowi_lowering *b) {
    int32_t x = b->in[0], y = b->in[1];
    const dhow_dtype dtype = dhowi_desc_at(b, x)->dtype;
    const dhowi_tensor_desc p = *dhowi_desc_at(b, x), q = *dhowi_desc_at(b, y);
    if (p.rank == 0 || q.rank == 0) DHOWI_REFUSE("a scalar is no matrix");
    if (p.rank == 1) DHOWI_TRY(dhowi_along(b, x, 2, 1, &x));
    if (q.rank == 1) DHOWI_TRY(dhowi_along(b, y, 2, 0, &y));
    if (dhowi_is_float(dtype))
        DHOWI_TRY(dhowi_product(b, x, y, -1, &b->out[0]));
    else
        DHOWI_TRY(integer_product(b, x, y, &b->out[0]));
    dhowi_tensor_desc r = *dhowi_desc_at(b, b->out[0]);
    if (p.rank == 1) { /* the rows go */
        r.shape[r.rank - 2] = r.shape[r.rank - 1];
        r.rank--;
    }
    if (q.rank == 1) r.rank--;
    DHOWI_TRY(dhowi_reshape(b, b->out[0], r.rank, r.shape, &b->out[0]));
    return dhowi_cast_to(b, b->out[0], dtype, &b->out[0]);
}

dhow_status dhowi_lower_gemm(dhowi_lowering *b) {
    static const int32_t swapped[] = {1, 0};
    int32_t x = b->in[0], y = b->in[1], bias = -1;
    bool down, across;
    double alpha = (double)dhowi_attr_float(b, "alpha", 1),
           beta = (double)dhowi_attr_float(b, "beta", 1);
    const dhow_dtype dtype = dhowi_desc_at(b, x)->dtype;
    if (dhowi_desc_at(b, x)->rank != 2 || dhowi_desc_at(b, y)->rank != 2)
        DHOWI_REFUSE("its operands are no matrices");
    if (!dhowi_is_float(dtype)) return dhowi_fail(DHOW_UNSUPPORTED, "integers");
    DHOWI_TRY(dhowi_attr_flag(b, "transA", false, &down));
    DHOWI_TRY(dhowi_attr_flag(b, "transB", false, &across));
    if (down) DHOWI_TRY(dhowi_permute(b, x, swapped, &x));
    if (across) DHOWI_TRY(dhowi_turn_quantised(b, y, &y));
    int64_t n = dhowi_desc_at(b, y)->shape[1];
    bool added = dhowi_given(b, 2) && beta != 0;
    if (added && alpha == 1 && beta == 1) { /* a row for all rows goes into the product */
        const dhowi_tensor_desc c = *dhowi_desc_at(b, b->in[2]);
        if (dhowi_count_of(&c) == n && c.rank > 0 && c.shape[c.rank - 1] == n && c.dtype == dtype) {
            DHOWI_TRY(dhowi_reshape(b, b->in[2], 1, &n, &bias));
            DHOWI_TRY(dhowi_dense(b, bias, &bias));
            added = false;
        }
    }
    DHOWI_TRY(dhowi_product(b, x, y, bias, &b->out[0]));
    if (alpha != 1) DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, b->out[0], alpha, &b->out[0]));
    if (!added) return DHOW_OK;
    const dhowi_tensor_desc product = *dhowi_desc_at(b, b->out[0]);
    int32_t c = b->in[2];
    if (beta != 1) DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, c, beta, &c));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, b->out[0], c, &b->out[0]));
    const dhowi_tensor_desc *sum = dhowi_desc_at(b, b->out[0]);
    if (dhowi_shape_equal(sum->rank, sum->shape, product.rank, product.shape)) return DHOW_OK;
    char p[160], q[160];
    DHOWI_REFUSE("C is %s, the product %s", dhowi_desc_text(dhowi_desc_at(b, c), p, sizeof p),
                 dhowi_desc_text(&product, q, sizeof q));
}

dhow_status dhowi_lower_det(dhowi_lowering *b) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, b->in[0]);
    char text[160];
    int32_t x;
    if (own.rank < 2 || own.shape[own.rank - 1] != own.shape[own.rank - 2])
        DHOWI_REFUSE("x is %s, no square matrices", dhowi_desc_text(&own, text, sizeof text));
    if (!dhowi_is_float(own.dtype)) DHOWI_REFUSE("x is %s", dhow_dtype_name(own.dtype));
    dhowi_tensor_desc y = own;
    y.rank -= 2;
    if (own.shape[own.rank - 1] == 0) return dhowi_filled(b, &y, 1, &b->out[0]);
    DHOWI_TRY(dhowi_widened(b, DHOWI_OP_determinant, b->in[0], &x));
    const dhowi_tensor_desc work = *dhowi_desc_at(b, x);
    y.dtype = work.dtype;
    DHOWI_TRY(dhowi_emit_two(b, DHOWI_OP_determinant, &x, 1, NULL, &y, &work, &b->out[0], NULL));
    return dhowi_cast_to(b, b->out[0], own.dtype, &b->out[0]);
}
