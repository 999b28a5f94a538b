/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of quantised values in integers. With x = (p - z) s and known weights (q - w) t[k],
 * where r = q - w are bytes as well, a result is s t[k] times the sum of (p - z) r: a sum of
 * integers, which is exact, with padding that stands for z.
 */
#include "kernel/optimise.h"
#include "model/operators/nn/nn.h"

/* Larger sums would not fit 32 bits. */
enum { MOST_TERMS = 1 << 16 };

/* Whether an item is not there, or known and one number or one for each of the first extent. */
static bool is_by_result(const dhowi_lowering *b, int32_t ref, const dhowi_tensor_desc *weight) {
    if (ref < 0) return true;
    const dhowi_tensor_desc *own = dhowi_desc_at(b, ref);
    const int64_t count = dhowi_count_of(own);
    return dhowi_is_known(b, ref) &&
           (count == 1 ||
            (own->rank == weight->rank && count == weight->shape[0] && own->shape[0] == count));
}

static bool has_codes(dhowi_lowering *b, int32_t x, int32_t weight, int32_t bias,
                      dhowi_codes_of_conv *c) {
    const dhowi_item *p = &b->items[x], *q = &b->items[weight];
    double zero;
    if (p->codes == 0 || q->codes == 0) return false;
    if (dhowi_count_of(&p->desc) == 0 || dhowi_count_of(&q->desc) == 0) return false;
    const int64_t terms = dhowi_count_of(&q->desc) / q->desc.shape[0];
    *c = (dhowi_codes_of_conv){.x = p->codes - 1,
                               .weight = q->codes - 1,
                               .weight_zero = q->zero - 1,
                               .weight_scale = q->scale - 1,
                               .bias = bias,
                               .scaled = p->scale != 0};
    if (!dhowi_is_known(b, c->weight) || !b->items[c->weight].contiguous ||
        dhowi_is_known(b, c->x) || terms > MOST_TERMS || (p->scale != 0) != (q->scale != 0) ||
        (bias >= 0 && !dhowi_is_known(b, bias)) || !is_by_result(b, c->weight_zero, &q->desc) ||
        !is_by_result(b, c->weight_scale, &q->desc) ||
        (p->scale != 0 && dhowi_desc_at(b, q->scale - 1)->dtype != DHOW_F32) ||
        (bias >= 0 && dhowi_desc_at(b, bias)->dtype != DHOW_F32) ||
        !dhowi_known_number(b, p->zero - 1, 0, &zero) ||
        !dhowi_known_number(b, p->scale - 1, 1, &c->scale))
        return false;
    c->zero = (int32_t)zero;
    return true;
}

bool dhowi_find_conv_codes(dhowi_lowering *b, int32_t x, int32_t weight, int32_t bias,
                           dhowi_codes_of_conv *out) {
    return dhowi_optimises(DHOWI_OPTIMISE_INTEGERS) && has_codes(b, x, weight, bias, out);
}

dhow_status dhowi_emit_conv_codes(dhowi_lowering *b, const dhowi_codes_of_conv *c, int32_t x,
                                  int32_t weight, const dhow_window *window,
                                  const dhowi_tensor_desc *image, int32_t *out) {
    const dhowi_tensor_desc shape = *dhowi_desc_at(b, weight);
    dhowi_tensor_desc y = *image;
    dhowi_attrs attrs = {.sums = {.window = *window, .src_zero = c->zero}};
    int32_t in[] = {x, -1, -1};
    bool fits;
    *out = -1;
    y.dtype = c->scaled ? DHOW_F32 : DHOW_I32;
    DHOWI_TRY(dhowi_convolves_integers(b->device, dhowi_desc_at(b, x), &shape, &attrs.sums, y.dtype,
                                       NULL, &fits));
    if (!fits) return DHOW_OK; /* centred weights are as large as those they replace */
    const dhowi_code_weights weights = {.codes = c->weight,
                                        .zero = c->weight_zero,
                                        .results = shape.shape[0],
                                        .terms = dhowi_count_of(&shape) / shape.shape[0],
                                        .exact = !c->scaled};
    DHOWI_TRY(dhowi_centre_weights(b, &weights, &shape, &in[1], &fits));
    if (fits && c->scaled)
        DHOWI_TRY(dhowi_rows_of_sums(b, c->scale, c->weight_scale, c->bias, shape.shape[0], &in[2],
                                     &fits));
    return fits ? dhowi_emit(b, DHOWI_OP_conv2d_integer, in, 3, &attrs, &y, out) : DHOW_OK;
}
