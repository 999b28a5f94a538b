/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products with outer extents that broadcast, and of quantised values. With x = (p - z) s
 * and weights y = (q - w) t that are known, a sum of products x y is s t (sum of p r - z sum of r),
 * where r = q - w are bytes as well: integers, whose sums are exact (Jacob et al., 2018).
 */
#include <math.h>
#include <string.h>

#include "base/errors/planted.h"
#include "base/memory/size.h"
#include "kernel/optimise.h"
#include "model/lower/composite.h"
#include "model/lower/products/products.h"

/* The outer extents of both operands, broadcast; then each operand repeated to them. */
static dhow_status broadcast_outer(dhowi_lowering *b, int32_t *x, int32_t *y) {
    const dhowi_tensor_desc p = *dhowi_desc_at(b, *x), q = *dhowi_desc_at(b, *y);
    int64_t outer[DHOW_MAX_RANK], shape[DHOW_MAX_RANK];
    int32_t rank;
    if (q.rank == 2 ||
        (p.rank == q.rank && dhowi_shape_equal(p.rank - 2, p.shape, q.rank - 2, q.shape)))
        return DHOW_OK;
    if (!dhowi_shape_broadcast(p.rank - 2, p.shape, q.rank - 2, q.shape, &rank, outer)) {
        char s[160], t[160];
        DHOWI_REFUSE("%s and %s do not fit", dhowi_desc_text(&p, s, sizeof s),
                     dhowi_desc_text(&q, t, sizeof t));
    }
    memcpy(shape, outer, sizeof shape);
    memcpy(shape + rank, p.shape + p.rank - 2, 2 * sizeof *shape);
    DHOWI_TRY(dhowi_expand(b, *x, rank + 2, shape, x));
    memcpy(shape + rank, q.shape + q.rank - 2, 2 * sizeof *shape);
    return dhowi_expand(b, *y, rank + 2, shape, y);
}

/* ---- quantised values ---- */

void dhowi_note_codes(dhowi_lowering *b, int32_t item, int32_t codes, int32_t zero, int32_t scale) {
    const dhowi_tensor_desc *from = dhowi_desc_at(b, codes);
    dhowi_item *to = &b->items[item];
    if ((from->dtype != DHOW_U8 && from->dtype != DHOW_I8) || from->encoding != 0 ||
        to->desc.dtype != DHOW_F32 || (zero >= 0 && dhowi_desc_at(b, zero)->dtype != from->dtype) ||
        !dhowi_shape_equal(from->rank, from->shape, to->desc.rank, to->desc.shape))
        return;
    to->codes = codes + 1;
    to->zero = zero + 1;
    to->scale = scale + 1;
}

dhow_status dhowi_described(dhowi_lowering *b, int32_t codes, int32_t zero, int32_t scale,
                            int32_t *out) {
    dhowi_tensor_desc desc = *dhowi_desc_at(b, codes);
    desc.dtype = DHOW_F32;
    desc.encoding = 0;
    DHOWI_TRY(dhowi_item_new(b, &desc, out));
    dhowi_note_codes(b, *out, codes, zero, scale);
    return DHOW_OK;
}

static dhow_status turn(dhowi_lowering *b, int32_t x, int32_t *out) {
    static const int32_t swapped[] = {1, 0};
    *out = x;
    return x < 0 || dhowi_desc_at(b, x)->rank < 2 ? DHOW_OK : dhowi_permute(b, x, swapped, out);
}

dhow_status dhowi_turn_quantised(dhowi_lowering *b, int32_t x, int32_t *out) {
    const int32_t codes = b->items[x].codes - 1;
    int32_t zero = b->items[x].zero - 1, scale = b->items[x].scale - 1, turned;
    DHOWI_TRY(turn(b, x, out));
    if (codes < 0) return DHOW_OK;
    DHOWI_TRY(turn(b, codes, &turned));
    DHOWI_TRY(turn(b, zero, &zero));
    DHOWI_TRY(turn(b, scale, &scale));
    dhowi_note_codes(b, *out, turned, zero, scale);
    return DHOW_OK;
}

/* Whether an item that is not there, or broadcasts to `rank` dimensions, is the same along one of
 * them, counted from the end. */
static bool is_even(const dhowi_lowering *b, int32_t item, int32_t rank, int32_t from_end) {
    if (item < 0) return true;
    const dhowi_tensor_desc *desc = dhowi_desc_at(b, item);
    if (desc->rank > rank) return false;
    return desc->rank < from_end || desc->shape[desc->rank - from_end] == 1;
}

typedef struct operands {
    int32_t x, x_zero, y, y_zero; /* codes and zero points; -1: none */
    dhowi_tensor_desc p, q;
} operands;

/* Whether a zero point is not there, or known and one number or one for each column. */
static bool is_by_column(const dhowi_lowering *b, int32_t zero, int64_t n) {
    if (zero < 0) return true;
    const int64_t count = dhowi_count_of(dhowi_desc_at(b, zero));
    return dhowi_is_known(b, zero) && (count == 1 || count == n);
}

static bool find_codes(const dhowi_lowering *b, int32_t x, int32_t y, operands *o) {
    const dhowi_item *left = &b->items[x], *right = &b->items[y];
    if (left->codes == 0 || right->codes == 0) return false;
    *o = (operands){left->codes - 1, left->zero - 1, right->codes - 1,
                    right->zero - 1, left->desc,     right->desc};
    /* Of two constants the CPU computes it, which may add up no bytes where the device does. */
    return o->p.rank >= 2 && o->q.rank == 2 && o->p.shape[o->p.rank - 1] == o->q.shape[0] &&
           !dhowi_is_known(b, o->x) && dhowi_is_known(b, o->y) &&
           is_by_column(b, o->y_zero, o->q.shape[1]) && is_even(b, o->x_zero, o->p.rank, 1) &&
           is_even(b, left->scale - 1, o->p.rank, 1) && is_even(b, o->y_zero, 2, 2) &&
           is_even(b, right->scale - 1, 2, 2);
}

/* Of the weights y; out->weights is -1 where that is too much for the host. Steps of a recurrent
 * layer multiply by the same ones. */
static dhow_status centre_columns(dhowi_lowering *b, int32_t y, const operands *o,
                                  dhowi_code_columns *out) {
    const dhowi_item item = b->items[y];
    int32_t codes;
    *out = (dhowi_code_columns){item.bytes - 1, item.byte_sums - 1, item.byte_shifts - 1};
    if (out->weights >= 0 || !dhowi_fold(b, (uint64_t)dhowi_count_of(&o->q))) return DHOW_OK;
    DHOWI_TRY(dhowi_dense(b, o->y, &codes));
    if (dhowi_is_known(b, codes)) DHOWI_TRY(dhowi_make_columns(b, codes, o->y_zero, out));
    b->items[y].bytes = out->weights + 1;
    b->items[y].byte_sums = out->sums + 1;
    b->items[y].byte_shifts = out->shifts + 1;
    return DHOW_OK;
}

/* *out += shifts[n] times the sums of the rows of x */
static dhow_status add_shifts(dhowi_lowering *b, int32_t x, int32_t shifts, int32_t *out) {
    const int32_t rank = dhowi_desc_at(b, x)->rank;
    bool axes[DHOW_MAX_RANK] = {false};
    int32_t rows;
    axes[rank - 1] = true;
    DHOWI_TRY(dhowi_cast_to(b, x, DHOW_I32, &rows));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM, rows, axes, &rows));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, rows, shifts, &rows));
    return dhowi_map_two(b, DHOWI_MAP_ADD, *out, rows, out);
}

dhow_status dhowi_integer_product(dhowi_lowering *b, int32_t x, int32_t y, int32_t *out) {
    /* Larger sums would not fit 32 bits, whose wrapped values the f32 of a scaled product has not.
     */
    enum { MOST_ROWS = 1 << 16 };
    operands o;
    bool taken = false;
    dhowi_code_columns c;
    int32_t zero;
    *out = -1;
    if (!dhowi_optimises(DHOWI_OPTIMISE_INTEGERS) || !find_codes(b, x, y, &o)) return DHOW_OK;
    const int64_t k = o.q.shape[0], n = o.q.shape[1];
    if (k == 0 || n == 0 || k > MOST_ROWS) return DHOW_OK;
    DHOWI_TRY(dhowi_takes_integers(b->device, dhowi_desc_at(b, o.x)->dtype,
                                   dhowi_count_of(&o.p) / k, k, n, &taken));
    if (!taken) return DHOW_OK;
    DHOWI_TRY(centre_columns(b, y, &o, &c));
    if (c.weights < 0) return DHOW_OK;
    dhowi_tensor_desc desc = o.p;
    desc.dtype = DHOW_I32;
    desc.shape[desc.rank - 1] = n;
    const int32_t in[] = {o.x, c.weights};
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_matmul_integer, in, 2, NULL, &desc, out));
    if (c.shifts >= 0) DHOWI_TRY(add_shifts(b, o.x, c.shifts, out));
    if (DHOWI_GUARD(codes_without_zero, o.x_zero < 0)) return DHOW_OK;
    DHOWI_TRY(dhowi_cast_to(b, o.x_zero, DHOW_I32, &zero));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, zero, c.sums, &zero));
    return dhowi_map_two(b, DHOWI_MAP_SUB, *out, zero, out);
}

/* ---- with all that follows in one step ---- */

bool dhowi_known_number(dhowi_lowering *b, int32_t ref, double otherwise, double *out) {
    uint32_t count;
    *out = otherwise;
    return ref < 0 || (dhowi_is_known(b, ref) && dhowi_count_of(dhowi_desc_at(b, ref)) == 1 &&
                       dhowi_floats(b, ref, out, 1, &count) == DHOW_OK);
}

/* A bias in units of the sums. It was an integer, as a rule, before it was multiplied by the scale.
 */
static float in_units(double bias, double scale) {
    const double units = bias / scale, whole = rint(units);
    return (float)(fabs(units - whole) <= fabs(units) * 0x1p-22 ? whole : units);
}

/* Known f32, one number or as many as there are results; NULL where it is something else. */
static dhow_status numbers_of(dhowi_lowering *b, int32_t ref, int64_t results, const float **out,
                              int64_t *count) {
    const void *data = NULL;
    *out = NULL;
    if (dhowi_desc_at(b, ref)->dtype != DHOW_F32 || !dhowi_is_known(b, ref)) return DHOW_OK;
    *count = dhowi_count_of(dhowi_desc_at(b, ref));
    if (*count == 1 || *count == results) DHOWI_TRY(dhowi_known_bytes(b, ref, &data));
    *out = data;
    return DHOW_OK;
}

dhow_status dhowi_rows_of_sums(dhowi_lowering *b, double x_scale, int32_t scale, int32_t bias,
                               int64_t results, int32_t *out, bool *fits) {
    static const float one = 1, none = 0;
    const dhowi_tensor_desc desc = {.dtype = DHOW_F32, .rank = 2, .shape = {2, results}};
    const float *scales = &one, *biases = &none;
    int64_t scale_count = 1, bias_count = 1;
    void *made;
    if (scale >= 0) DHOWI_TRY(numbers_of(b, scale, results, &scales, &scale_count));
    if (bias >= 0) DHOWI_TRY(numbers_of(b, bias, results, &biases, &bias_count));
    *fits = scales != NULL && biases != NULL;
    if (!*fits) return DHOW_OK;
    DHOWI_TRY(dhowi_item_known(b, &desc, out));
    DHOWI_TRY(dhowi_known_data(b, *out, &made));
    float *rows = made;
    for (int64_t r = 0; r < results; r++) {
        const float own = (float)x_scale * scales[scale_count == 1 ? 0 : r];
        rows[r] = in_units((double)biases[bias_count == 1 ? 0 : r], (double)own);
        rows[results + r] = own;
        *fits = *fits && isnormal(own) && isfinite(rows[r]);
    }
    return DHOW_OK;
}

/* In one step with scales and bias, which may be followed by more; *out is -1 where there is none.
 */
static dhow_status product_of_codes(dhowi_lowering *b, int32_t x, int32_t y, int32_t bias,
                                    int32_t *out) {
    enum { MOST_TERMS = 1 << 16 };
    operands o;
    double zero, scale;
    bool fits;
    *out = -1;
    if (!dhowi_optimises(DHOWI_OPTIMISE_INTEGERS) || !find_codes(b, x, y, &o) ||
        !dhowi_known_number(b, o.x_zero, 0, &zero) ||
        !dhowi_known_number(b, b->items[x].scale - 1, 1, &scale))
        return DHOW_OK;
    const int64_t k = o.q.shape[0], n = o.q.shape[1];
    if (dhowi_count_of(&o.p) == 0 || n == 0 || k > MOST_TERMS) return DHOW_OK;
    dhowi_code_weights w = {
        .codes = o.y, .zero = o.y_zero, .results = n, .terms = k, .columns = true};
    const dhowi_tensor_desc image =
        dhowi_image_of_rows(dhowi_desc_at(b, o.x)->dtype, dhowi_count_of(&o.p), k);
    const dhowi_tensor_desc weight = {.dtype = DHOW_I8, .rank = 4, .shape = {n, k, 1, 1}},
                            wide = {.dtype = DHOW_I16, .rank = 4, .shape = {n, k, 1, 1}};
    const dhowi_attrs attrs = {.sums = {.src_zero = (int32_t)zero}};
    int32_t in[] = {o.x, -1, -1};
    dhowi_tensor_desc desc = o.p;
    desc.shape[desc.rank - 1] = n;
    DHOWI_TRY(
        dhowi_convolves_integers(b->device, &image, &weight, &attrs.sums, DHOW_F32, NULL, &fits));
    if (fits)
        DHOWI_TRY(dhowi_convolves_integers(b->device, &image, &wide, &attrs.sums, DHOW_F32, NULL,
                                           &w.may_be_wide));
    if (fits) DHOWI_TRY(dhowi_centre_weights(b, &w, &weight, &in[1], &fits));
    if (fits)
        DHOWI_TRY(dhowi_rows_of_sums(b, scale, b->items[y].scale - 1, bias, n, &in[2], &fits));
    return fits ? dhowi_emit(b, DHOWI_OP_matmul_codes, in, 3, &attrs, &desc, out) : DHOW_OK;
}

/* Sums of integers as the product of x and y, with a bias. */
static dhow_status scaled_sums(dhowi_lowering *b, int32_t x, int32_t y, int32_t sums, int32_t bias,
                               int32_t *out) {
    const int32_t s = b->items[x].scale - 1, t = b->items[y].scale - 1;
    int32_t scale = s >= 0 ? s : t;
    DHOWI_TRY(dhowi_cast_to(b, sums, DHOW_F32, out));
    if (s >= 0 && t >= 0) DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, s, t, &scale));
    if (scale >= 0) DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, *out, scale, out));
    return bias < 0 ? DHOW_OK : dhowi_map_two(b, DHOWI_MAP_ADD, *out, bias, out);
}

/* ---- products ---- */

dhow_status dhowi_product(dhowi_lowering *b, int32_t x, int32_t y, int32_t bias, int32_t *out) {
    const dhowi_tensor_desc p = *dhowi_desc_at(b, x), q = *dhowi_desc_at(b, y);
    char s[160], t[160];
    if (p.rank < 2 || q.rank < 2 || p.dtype != q.dtype ||
        p.shape[p.rank - 1] != q.shape[q.rank - 2]) {
        DHOWI_REFUSE("%s and %s do not fit", dhowi_desc_text(&p, s, sizeof s),
                     dhowi_desc_text(&q, t, sizeof t));
    }
    int32_t sums;
    DHOWI_TRY(product_of_codes(b, x, y, bias, out));
    if (*out >= 0) return DHOW_OK;
    DHOWI_TRY(dhowi_integer_product(b, x, y, &sums));
    if (sums >= 0) return scaled_sums(b, x, y, sums, bias, out);
    DHOWI_TRY(broadcast_outer(b, &x, &y));
    if (bias >= 0)
        DHOWI_TRY(dhowi_dense(b, bias, &bias)); /* which may not lie apart, as they may */
    dhowi_tensor_desc desc = *dhowi_desc_at(b, x);
    desc.shape[desc.rank - 1] = q.shape[q.rank - 1];
    const int32_t in[] = {x, y, bias};
    return dhowi_emit(b, DHOWI_OP_matmul, in, 3, NULL, &desc, out);
}
