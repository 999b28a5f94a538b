/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise steps with operands that broadcast, items of one value, and pairs of texts.
 */
#include "base/memory/size.h"
#include "model/lower/composite.h"

dhow_status dhowi_filled(dhowi_lowering *b, const dhowi_tensor_desc *desc, double value,
                         int32_t *out) {
    const int64_t zeros[DHOW_MAX_RANK] = {0};
    int64_t one = 1;
    int32_t single;
    uint64_t bits = dhowi_dtype_encode(desc->dtype, value);
    DHOWI_TRY(dhowi_constant(b, desc->dtype, 1, &one, &bits, &single));
    return dhowi_view(b, single, desc->rank, desc->shape, zeros, 0, out);
}

dhow_status dhowi_map(dhowi_lowering *b, const dhowi_program *program, const int32_t *in,
                      uint32_t count, int32_t *out) {
    dhowi_tensor_desc desc = b->items[in[0]].desc;
    for (uint32_t i = 1; i < count; i++) {
        const dhowi_tensor_desc own = desc, *other = &b->items[in[i]].desc;
        if (other->dtype != desc.dtype) {
            DHOWI_REFUSE("inputs of types %s and %s", dhow_dtype_name(desc.dtype),
                         dhow_dtype_name(other->dtype));
        }
        if (!dhowi_shape_broadcast(own.rank, own.shape, other->rank, other->shape, &desc.rank,
                                   desc.shape)) {
            char p[160], q[160];
            DHOWI_REFUSE("%s and %s do not broadcast", dhowi_desc_text(&own, p, sizeof p),
                         dhowi_desc_text(other, q, sizeof q));
        }
    }
    dhowi_attrs attrs = {.program = *program};
    return dhowi_emit(b, DHOWI_OP_map, in, count, &attrs, &desc, out);
}

dhow_status dhowi_map_one(dhowi_lowering *b, dhowi_map_op op, double c, double q, int32_t x,
                          int32_t *out) {
    dhowi_program p = {0};
    (void)dhowi_program_add(&p, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_constants(&p, op, dhowi_map_constants(op), c, q);
    return dhowi_map(b, &p, &x, 1, out);
}

dhow_status dhowi_map_two(dhowi_lowering *b, dhowi_map_op op, int32_t x, int32_t y, int32_t *out) {
    const int32_t in[] = {x, y};
    dhowi_program p = {0};
    (void)dhowi_program_add(&p, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_add(&p, op, 1);
    return dhowi_map(b, &p, in, 2, out);
}

dhow_status dhowi_map_number(dhowi_lowering *b, dhowi_map_op op, int32_t x, double number,
                             int32_t *out) {
    dhowi_program p = {0};
    (void)dhowi_program_add(&p, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_constants(&p, op, 1, number, 0);
    return dhowi_map(b, &p, &x, 1, out);
}

dhow_status dhowi_select(dhowi_lowering *b, int32_t condition, int32_t x, int32_t y, int32_t *out) {
    dhow_dtype dtype = b->items[x].desc.dtype;
    int32_t in[] = {condition, x, y};
    dhowi_program p = {0};
    DHOWI_TRY(dhowi_cast_to(b, condition, dtype, &in[0]));
    (void)dhowi_program_add(&p, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_add(&p, DHOWI_MAP_SAVE, 0);
    (void)dhowi_program_add(&p, DHOWI_MAP_LOAD, 1);
    (void)dhowi_program_add(&p, DHOWI_MAP_SELECT, 2);
    return dhowi_map(b, &p, in, 3, out);
}

dhow_status dhowi_dropout(dhowi_lowering *b, int32_t x, int32_t key, const dhowi_attrs *a,
                          int32_t *out) {
    const dhowi_tensor_desc y = *dhowi_desc_at(b, x);
    const int32_t in[] = {x, key};
    return dhowi_emit(b, DHOWI_OP_dropout, in, 2, a, &y, out);
}

dhow_status dhowi_pair_texts(const dhowi_lowering *b, dhowi_text_pairs *out) {
    for (int i = 0; i < 2; i++) {
        if (dhowi_kind_of(b, b->in[i]) != DHOW_DATUM_TEXTS)
            DHOWI_REFUSE("its input %d is no text, the other one is", i);
        out->of[i] = b->items[b->in[i]].texts;
    }
    if (!dhowi_shape_broadcast(out->of[0]->rank, out->of[0]->shape, out->of[1]->rank,
                               out->of[1]->shape, &out->rank, out->shape))
        DHOWI_REFUSE("the shapes of its texts do not broadcast");
    out->count = 1;
    for (int32_t i = 0; i < out->rank; i++)
        if (!dhowi_mul_i64(out->count, out->shape[i], &out->count)) DHOWI_REFUSE("too many texts");
    return DHOW_OK;
}

const char *dhowi_paired_text(const dhowi_text_pairs *pairs, int which, int64_t place) {
    const dhow_datum *x = pairs->of[which];
    int64_t at = 0, step = 1;
    for (int32_t own = x->rank - 1, k = pairs->rank - 1; own >= 0; own--, k--) {
        if (x->shape[own] > 1) at += place % pairs->shape[k] * step;
        place /= pairs->shape[k];
        step *= x->shape[own];
    }
    return x->texts[at];
}

dhow_status dhowi_add_integers(dhowi_lowering *b, int32_t x, int32_t *sum) {
    DHOWI_TRY(dhowi_cast_to(b, x, DHOW_I32, &x));
    if (*sum < 0) {
        *sum = x;
        return DHOW_OK;
    }
    return dhowi_map_two(b, DHOWI_MAP_ADD, *sum, x, sum);
}
