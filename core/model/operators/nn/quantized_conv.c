/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of quantised values in integers. With x = (p - z) s and known weights (q - w) t[k],
 * where r = q - w are bytes as well, a result is s t[k] times the sum of (p - z) r: a sum of
 * integers, which is exact, with padding that stands for z.
 */
#include <math.h>
#include <string.h>

#include "kernel/optimise.h"
#include "model/operators/nn/nn.h"

/* Larger sums would not fit 32 bits. */
enum { MOST_TERMS = 1 << 16, MOST_CENTRED = 255, EXACT_IN_F32 = 1 << 24 };

/* A known number, or `otherwise` for an item that is not there; false for another item. */
static bool number_of(dhowi_lowering *b, int32_t ref, double otherwise, double *out) {
    uint32_t count;
    *out = otherwise;
    return ref < 0 || (dhowi_is_known(b, ref) && dhowi_count_of(dhowi_desc_at(b, ref)) == 1 &&
                       dhowi_floats(b, ref, out, 1, &count) == DHOW_OK);
}

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
        !number_of(b, p->zero - 1, 0, &zero) || !number_of(b, p->scale - 1, 1, &c->scale))
        return false;
    c->zero = (int32_t)zero;
    return true;
}

bool dhowi_find_conv_codes(dhowi_lowering *b, int32_t x, int32_t weight, int32_t bias,
                           dhowi_codes_of_conv *out) {
    return dhowi_optimises(DHOWI_OPTIMISE_INTEGERS) && has_codes(b, x, weight, bias, out);
}

/* ---- weights ---- */

/* Known elements without gaps, as those of a file are. */
static dhow_status elements_of(dhowi_lowering *b, int32_t ref, void **out) {
    DHOWI_TRY(dhowi_dense(b, ref, &ref));
    if (!dhowi_is_known(b, ref))
        return dhowi_fail(DHOW_UNSUPPORTED, "its constants are too large for the host");
    return dhow_tensor_host_ptr(b->items[ref].tensor, out);
}

static int32_t byte_at(dhow_dtype dtype, const void *bytes, int64_t i) {
    return dtype == DHOW_I8 ? ((const int8_t *)bytes)[i] : ((const uint8_t *)bytes)[i];
}

/* The weights less their zero points as i8; *fits is false where one does not fit, or where sums
 * may lie beyond what the library has exact. */
static dhow_status centre(dhowi_lowering *b, const dhowi_codes_of_conv *c,
                          const dhowi_tensor_desc *shape, int32_t *out, bool *fits) {
    const int64_t results = shape->shape[0], terms = dhowi_count_of(shape) / results;
    const dhow_dtype dtype = dhowi_desc_at(b, c->weight)->dtype;
    dhowi_tensor_desc desc = *shape;
    void *codes, *zeros = NULL, *made;
    int64_t zero_count = 1;
    desc.dtype = DHOW_I8;
    desc.encoding = 0;
    DHOWI_TRY(elements_of(b, c->weight, &codes));
    if (c->weight_zero >= 0) {
        zero_count = dhowi_count_of(dhowi_desc_at(b, c->weight_zero));
        DHOWI_TRY(elements_of(b, c->weight_zero, &zeros));
    }
    DHOWI_TRY(dhowi_item_known(b, &desc, out));
    DHOWI_TRY(dhow_tensor_host_ptr(b->items[*out].tensor, &made));
    *fits = true;
    for (int64_t k = 0; k < results && *fits; k++) {
        const int32_t zero = zeros != NULL ? byte_at(dtype, zeros, zero_count == 1 ? 0 : k) : 0;
        int64_t sum = 0;
        for (int64_t i = k * terms; i < (k + 1) * terms; i++) {
            const int32_t value = byte_at(dtype, codes, i) - zero;
            *fits = *fits && value >= INT8_MIN && value <= INT8_MAX;
            ((int8_t *)made)[i] = (int8_t)value;
            sum += value < 0 ? -value : value;
        }
        *fits = *fits && (c->scaled || sum * MOST_CENTRED < EXACT_IN_F32);
    }
    return DHOW_OK;
}

/* A bias in units of the sums. It was an integer, as a rule, before it was multiplied by the scale.
 */
static float in_units(double bias, double scale) {
    const double units = bias / scale, whole = rint(units);
    return (float)(fabs(units - whole) <= fabs(units) * 0x1p-22 ? whole : units);
}

/* f32[2, k]: biases in units of the sums, and scales; *fits is false where these are no numbers to
 * divide by. */
static dhow_status make_rows(dhowi_lowering *b, const dhowi_codes_of_conv *c, int64_t results,
                             int32_t *out, bool *fits) {
    const dhowi_tensor_desc desc = {.dtype = DHOW_F32, .rank = 2, .shape = {2, results}};
    const int64_t scale_count = dhowi_count_of(dhowi_desc_at(b, c->weight_scale));
    void *scales, *biases = NULL, *made;
    DHOWI_TRY(elements_of(b, c->weight_scale, &scales));
    if (c->bias >= 0) DHOWI_TRY(elements_of(b, c->bias, &biases));
    DHOWI_TRY(dhowi_item_known(b, &desc, out));
    DHOWI_TRY(dhow_tensor_host_ptr(b->items[*out].tensor, &made));
    float *rows = made;
    *fits = true;
    for (int64_t k = 0; k < results; k++) {
        const float scale = (float)c->scale * ((const float *)scales)[scale_count == 1 ? 0 : k];
        rows[k] = biases != NULL ? in_units((double)((const float *)biases)[k], (double)scale) : 0;
        rows[results + k] = scale;
        *fits = *fits && isnormal(scale) && isfinite(rows[k]);
    }
    return DHOW_OK;
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
    DHOWI_TRY(centre(b, c, &shape, &in[1], &fits));
    if (fits && c->scaled) DHOWI_TRY(make_rows(b, c, shape.shape[0], &in[2], &fits));
    return fits ? dhowi_emit(b, DHOWI_OP_conv2d_integer, in, 3, &attrs, &y, out) : DHOW_OK;
}
