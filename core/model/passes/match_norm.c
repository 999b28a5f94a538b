/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalisations spelt in single nodes: LayerNorm as mean, difference, square, mean, root, quotient
 * and perhaps scale and shift, RMSNorm as the same without the first two. They are recognised by
 * their steps, so that it does not matter how a file writes a square or a quotient, and only where
 * nothing else reads what they compute in between.
 */
#include "base/errors/planted.h"
#include "base/memory/size.h"
#include "model/passes/fuse.h"

/* What was found; steps, -1 for one that is not there. */
typedef struct norm {
    int32_t mean, centre, square, variance, eps_step, root, inverse, quotient, scale, shift;
    int32_t x, gamma, beta; /* items */
    double eps;
    int64_t rows, n;
} norm;

/* ---- reading steps ---- */

/* The step that alone reads a result, once. */
static int32_t only_reader(const dhowi_finder *f, int32_t step) {
    const int32_t out = f->b->steps[step].out;
    if (!dhowi_is_whole(f->b, out)) return -1;
    const dhowi_traffic *t = &f->of[f->b->items[out].buffer];
    return DHOWI_GUARD(norm_read_in_between, t->reads == 1) && t->writes == 1 ? t->reader : -1;
}

/* One number for each row of x: x's shape with 1 at the end. */
static bool is_column(const dhowi_lowering *b, int32_t column, int32_t x) {
    const dhowi_tensor_desc *p = &b->items[column].desc, *q = &b->items[x].desc;
    return p->rank == q->rank && p->rank > 0 && p->shape[p->rank - 1] == 1 &&
           dhowi_shape_equal(p->rank - 1, p->shape, q->rank - 1, q->shape) &&
           dhowi_is_whole(b, column);
}

static bool is_row(const dhowi_lowering *b, int32_t ref, int64_t n) {
    const dhowi_tensor_desc *desc = &b->items[ref].desc;
    return b->items[ref].tensor != NULL && desc->rank > 0 &&
           DHOWI_GUARD(affine_of_another_axis, desc->shape[desc->rank - 1] == n) &&
           dhowi_count_of(desc) == n;
}

/* A mean over the last dimension. */
static bool is_mean_of_rows(const dhowi_lowering *b, int32_t step) {
    if (step < 0 || b->steps[step].op != DHOWI_OP_reduce_mean) return false;
    const dhowi_tensor_desc *in = &b->items[b->steps[step].in[0]].desc;
    return in->rank == 3 && in->shape[2] == 1 && b->steps[step].attrs.dim == 1;
}

/* ---- finding ---- */

/* square, variance, eps, root and quotient around the mean of a square */
static bool find_root(const dhowi_finder *f, norm *k, int32_t *d) {
    dhowi_lowering *b = f->b;
    dhowi_form g;
    k->square = dhowi_writer_of(f, b->steps[k->variance].in[0]);
    if (!dhowi_read_form(f, k->square, &g) || only_reader(f, k->square) != k->variance)
        return false;
    if (g.op != DHOWI_MAP_SQUARE &&
        !(g.op == DHOWI_MAP_MUL && g.y >= 0 &&
          DHOWI_GUARD(square_of_two_values, dhowi_same_elements(b, g.x, g.y))))
        return false;
    *d = g.x;
    k->eps_step = only_reader(f, k->variance);
    if (!dhowi_read_form(f, k->eps_step, &g) || g.op != DHOWI_MAP_ADD || g.y >= 0) return false;
    k->eps = g.number;
    k->root = only_reader(f, k->eps_step);
    if (!dhowi_read_form(f, k->root, &g) || g.op != DHOWI_MAP_SQRT) return false;
    k->inverse = -1;
    k->quotient = only_reader(f, k->root);
    if (!dhowi_read_form(f, k->quotient, &g)) return false;
    double one;
    if (g.op == DHOWI_MAP_RECIPROCAL ||
        (g.op == DHOWI_MAP_DIV && dhowi_number_of(b, g.x, &one) && one == 1)) {
        k->inverse = k->quotient;
        k->quotient = only_reader(f, k->inverse);
        if (!dhowi_read_form(f, k->quotient, &g) || g.op != DHOWI_MAP_MUL || g.y < 0) return false;
        if (dhowi_same_elements(b, g.y, *d)) {
            int32_t first = g.x;
            g.x = g.y;
            g.y = first;
        }
    } else if (g.op != DHOWI_MAP_DIV || g.y < 0) {
        return false;
    }
    const int32_t last = k->inverse >= 0 ? k->inverse : k->root;
    return DHOWI_GUARD(quotient_of_another_value, dhowi_same_elements(b, g.x, *d)) &&
           is_column(b, g.y, g.x) && b->items[g.y].buffer == b->items[b->steps[last].out].buffer &&
           dhowi_is_whole(b, b->steps[k->quotient].out);
}

/* d = x - mean(x), read by its square and its quotient alone */
static void find_centre(const dhowi_finder *f, norm *k, int32_t d) {
    dhowi_lowering *b = f->b;
    dhowi_form g, q;
    k->mean = k->centre = -1;
    k->x = d;
    const int32_t centre = dhowi_writer_of(f, d);
    if (!dhowi_is_whole(b, d) || !dhowi_read_form(f, centre, &g) || g.op != DHOWI_MAP_SUB ||
        g.y < 0)
        return;
    const int32_t mean = dhowi_writer_of(f, g.y);
    (void)dhowi_read_form(f, k->square, &q);
    const uint32_t reads = q.y >= 0 && b->steps[k->square].in[1] >= 0 ? 3 : 2;
    if (!is_mean_of_rows(b, mean) || only_reader(f, mean) != centre || !is_column(b, g.y, g.x) ||
        !dhowi_same_elements(b, b->steps[mean].in[0], g.x) ||
        f->of[b->items[d].buffer].reads != reads)
        return;
    k->mean = mean;
    k->centre = centre;
    k->x = g.x;
}

/* Scale, and perhaps shift, by constants of the last dimension. */
static void find_affine(const dhowi_finder *f, norm *k) {
    dhowi_form g;
    k->scale = k->shift = -1;
    const int32_t scale = only_reader(f, k->quotient);
    if (!dhowi_read_form(f, scale, &g) || g.op != DHOWI_MAP_MUL || g.y < 0 ||
        !is_row(f->b, g.y, k->n) || !dhowi_is_whole(f->b, f->b->steps[scale].out))
        return;
    k->scale = scale;
    k->gamma = g.y;
    const int32_t shift = only_reader(f, scale);
    dhowi_form h;
    if (!dhowi_read_form(f, shift, &h) || h.op != DHOWI_MAP_ADD || h.y < 0 ||
        !is_row(f->b, h.y, k->n) || !dhowi_is_whole(f->b, f->b->steps[shift].out))
        return;
    k->shift = shift;
    k->beta = h.y;
}

static bool find_norm(const dhowi_finder *f, int32_t variance, norm *k) {
    int32_t d;
    *k = (norm){.variance = variance};
    if (!is_mean_of_rows(f->b, variance) || !find_root(f, k, &d)) return false;
    find_centre(f, k, d);
    const dhowi_tensor_desc *x = &f->b->items[k->x].desc;
    k->n = x->shape[x->rank - 1];
    k->rows = k->n > 0 ? dhowi_count_of(x) / k->n : 0;
    find_affine(f, k);
    return k->rows > 0 && f->b->items[k->x].contiguous && dhowi_is_aligned(f->b, k->x) &&
           f->b->items[f->b->steps[variance].in[0]].desc.shape[1] == k->n;
}

/* ---- replacing ---- */

static void remove_step(dhowi_lowering *b, int32_t step) {
    if (step >= 0) b->steps[step].op = DHOWI_OP_COUNT;
}

static dhow_status row_of(dhowi_lowering *b, int32_t ref, int64_t n, int32_t *out) {
    DHOWI_TRY(dhowi_reshape(b, ref, 1, &n, out));
    return dhowi_dense(b, *out, out);
}

/* One step in the place of the last one, whose result it has. */
static dhow_status replace(dhowi_lowering *b, const norm *k) {
    const bool affine = k->shift >= 0 && k->centre >= 0;
    const int32_t last = affine ? k->shift : k->scale >= 0 ? k->scale : k->quotient;
    const dhow_dtype dtype = b->items[k->x].desc.dtype;
    if (dtype == DHOW_F64 && (double)(float)k->eps != k->eps)
        return DHOW_OK; /* the steps have f32 */
    if (!affine && (dhowi_op_of(DHOWI_OP_normalize)->dtypes & DHOW_DTYPE_BIT(dtype)) == 0)
        return DHOW_OK;
    dhowi_step s = {.op = affine ? DHOWI_OP_layernorm : DHOWI_OP_normalize,
                    .second = -1,
                    .node = b->steps[last].node,
                    .attrs = {.eps = (float)k->eps}};
    for (int i = 0; i < DHOWI_OP_MAX_INPUTS; i++) s.in[i] = -1;
    const int64_t flat[] = {k->rows, k->n};
    if (!affine) {
        s.attrs.split.outer = k->rows;
        s.attrs.split.n = k->n;
        s.attrs.split.flag[0] = k->centre >= 0;
    }
    DHOWI_TRY(dhowi_reshape(b, k->x, 2, flat, &s.in[0]));
    DHOWI_TRY(dhowi_reshape(b, b->steps[last].out, 2, flat, &s.out));
    if (k->scale >= 0) DHOWI_TRY(row_of(b, k->gamma, k->n, &s.in[1]));
    if (affine) DHOWI_TRY(row_of(b, k->beta, k->n, &s.in[2]));
    const int32_t gone[] = {k->mean, k->centre,  k->square,   k->variance, k->eps_step,
                            k->root, k->inverse, k->quotient, k->scale};
    for (size_t i = 0; i < DHOWI_COUNT(gone); i++) remove_step(b, gone[i]);
    b->steps[last] = s;
    return DHOW_OK;
}

/* ---- all of it ---- */

dhow_status dhowi_recognise_norms(dhowi_lowering *b, uint32_t first_step) {
    dhowi_finder f;
    DHOWI_TRY(dhowi_finder_begin(&f, b, first_step));
    dhow_status status = DHOW_OK;
    b->free_of_limit = true; /* rows of constants that are there */
    for (uint32_t i = first_step; i < b->step_count && status == DHOW_OK; i++) {
        norm k;
        if (b->steps[i].op == DHOWI_OP_reduce_mean && find_norm(&f, (int32_t)i, &k))
            status = replace(b, &k);
    }
    b->free_of_limit = false;
    dhowi_finder_end(&f);
    return status;
}
