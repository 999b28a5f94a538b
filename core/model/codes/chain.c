/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise steps on the same codes, the second of which reads what the first one made of them,
 * as x sigmoid(x) between QuantizeLinear and DequantizeLinear: one step of one operand, which a
 * device may compute for the 256 codes there are.
 */
#include "base/errors/planted.h"
#include "base/memory/size.h"
#include "model/codes/codes.h"

/* Whether an instruction makes numbers of numbers: a code of NaN is 0, which is not what is held
 * between bounds. */
static bool is_number(uint32_t word) {
    switch (dhowi_word_op(word)) {
        case DHOWI_MAP_LOAD:
        case DHOWI_MAP_RELU:
        case DHOWI_MAP_GELU:
        case DHOWI_MAP_GELU_TANH:
        case DHOWI_MAP_SIGMOID:
        case DHOWI_MAP_TANH:
        case DHOWI_MAP_ERF:
        case DHOWI_MAP_SOFTPLUS:
        case DHOWI_MAP_ELU:
        case DHOWI_MAP_LEAKY:
        case DHOWI_MAP_HARD_SIGMOID:
        case DHOWI_MAP_HARD_SWISH:
        case DHOWI_MAP_CLIP:
            return true;
        default:
            return false;
    }
}

/* Whether a step makes codes of codes by numbers alone. */
static bool is_first(const dhowi_lowering *b, const dhowi_step *p) {
    if (p->op != DHOWI_OP_map_codes || dhowi_operands_of(p) != 1 || !dhowi_is_code(b, p->in[0]) ||
        !dhowi_is_code(b, p->out) || !dhowi_is_whole(b, p->out))
        return false;
    for (uint32_t i = 0; i < p->attrs.program.words; i++)
        if (!is_number(p->attrs.program.word[i])) return false;
    return true;
}

/* Whether q reads p's result as the codes they are, and beside it at most what p reads, as the same
 * codes. */
static bool is_second(const dhowi_lowering *b, const dhowi_step *p, const dhowi_step *q) {
    const dhowi_coded *first = &p->attrs.coded, *second = &q->attrs.coded;
    const uint32_t count = dhowi_operands_of(q);
    bool reads = false;
    if (q->op != DHOWI_OP_map_codes || !dhowi_is_code(b, q->out) ||
        !dhowi_same_shape(b, p->out, q->out))
        return false;
    for (uint32_t k = 0; k < count; k++) {
        const bool result = dhowi_same_item(b, q->in[k], p->out);
        const uint32_t own = result ? DHOWI_MAP_OPERANDS : 0;
        if (!result && !dhowi_same_item(b, q->in[k], p->in[0])) return false;
        if (!DHOWI_GUARD(chained_as_other_codes, second->zero[k] == first->zero[own]) ||
            (!result && second->scale[k] != first->scale[0]))
            return false;
        reads = reads || result;
    }
    return reads;
}

/* What a reader sees of the codes of p's result, behind p's own program. */
static bool add_rounding(const dhowi_lowering *b, dhowi_step *p, float read_scale) {
    const bool is_signed = b->items[p->out].desc.dtype == DHOW_I8;
    const double low = (is_signed ? -128 : 0) - p->attrs.coded.zero[DHOWI_MAP_OPERANDS];
    dhowi_program *program = &p->attrs.program;
    return dhowi_program_constants(program, DHOWI_MAP_DIV, 1,
                                   (double)p->attrs.coded.scale[DHOWI_MAP_OPERANDS], 0) &&
           dhowi_program_add(program, DHOWI_MAP_ROUND, 0) &&
           dhowi_program_constants(program, DHOWI_MAP_CLIP, 2, low, low + 255) &&
           dhowi_program_constants(program, DHOWI_MAP_MUL, 1, (double)read_scale, 0);
}

static bool chain(const dhowi_finder *f, dhowi_step *q) {
    const dhowi_lowering *b = f->b;
    for (uint32_t k = 0; k < dhowi_operands_of(q); k++) {
        const int32_t at = b->items[q->in[k]].tensor == NULL ? dhowi_writer_of(f, q->in[k]) : -1;
        if (at < 0 || &b->steps[at] == q || !is_first(b, &b->steps[at])) continue;
        dhowi_step p = b->steps[at], joined;
        const dhowi_traffic *t = &f->of[b->items[p.out].buffer];
        if (!DHOWI_GUARD(chained_and_read_again, t->reads == 1) ||
            b->buffers[b->items[p.out].buffer].external != 0 || !is_second(b, &p, q) ||
            !add_rounding(b, &p, q->attrs.coded.scale[k]) ||
            !dhowi_join_programs(b, &p, q, &joined) || dhowi_operands_of(&joined) != 1)
            continue;
        joined.attrs.coded.scale[0] = p.attrs.coded.scale[0];
        joined.attrs.coded.zero[0] = p.attrs.coded.zero[0];
        *q = joined;
        dhowi_remove_step(&b->steps[at]);
        return true;
    }
    return false;
}

dhow_status dhowi_chain_codes(dhowi_lowering *b, uint32_t first_step, bool *changed) {
    dhowi_finder f;
    const dhow_status status = dhowi_finder_begin(&f, b, first_step);
    for (uint32_t i = first_step; i < b->step_count && status == DHOW_OK; i++)
        if (b->steps[i].op == DHOWI_OP_map_codes) *changed = chain(&f, &b->steps[i]) || *changed;
    dhowi_finder_end(&f);
    return status;
}
