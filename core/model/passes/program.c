/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs of elementwise steps: their operands, and joining two of them.
 */
#include <string.h>

#include "base/errors/planted.h"
#include "model/passes/fuse.h"

uint32_t dhowi_operands_of(const dhowi_step *s) {
    uint32_t count = 0;
    while (count < DHOWI_MAP_OPERANDS && s->in[count] >= 0) count++;
    return count;
}

bool dhowi_reads_operand(uint32_t word) {
    uint32_t op = dhowi_word_op(word);
    return op == DHOWI_MAP_LOAD || (op <= DHOWI_MAP_PRELU && op != DHOWI_MAP_NOT) ||
           op >= DHOWI_MAP_BIT_AND;
}

uint32_t dhowi_word_constants(uint32_t word) {
    return dhowi_reads_operand(word) ? dhowi_word_source(word) == DHOWI_MAP_CONSTANT
                                     : dhowi_map_constants((dhowi_map_op)dhowi_word_op(word));
}

bool dhowi_is_used(const dhowi_program *p, uint32_t from, uint32_t source) {
    for (uint32_t i = from; i < p->words; i++) {
        if (dhowi_reads_operand(p->word[i]) && dhowi_word_source(p->word[i]) == source) return true;
    }
    return false;
}

/* The operation with its two sides exchanged; 0 when there is none. */
static dhowi_map_op exchanged(uint32_t op) {
    switch (op) {
        case DHOWI_MAP_ADD:
        case DHOWI_MAP_MUL:
        case DHOWI_MAP_MAX:
        case DHOWI_MAP_MIN:
        case DHOWI_MAP_EQ:
        case DHOWI_MAP_NE:
        case DHOWI_MAP_AND:
        case DHOWI_MAP_OR:
        case DHOWI_MAP_XOR:
            return (dhowi_map_op)op;
        case DHOWI_MAP_SUB:
            return DHOWI_GUARD(sides_exchanged_alone, false) ? DHOWI_MAP_SUB : DHOWI_MAP_RSUB;
        case DHOWI_MAP_DIV:
            return DHOWI_MAP_RDIV;
        case DHOWI_MAP_POW:
            return DHOWI_MAP_RPOW;
        case DHOWI_MAP_LT:
            return DHOWI_MAP_GT;
        case DHOWI_MAP_GT:
            return DHOWI_MAP_LT;
        case DHOWI_MAP_LE:
            return DHOWI_MAP_GE;
        case DHOWI_MAP_GE:
            return DHOWI_MAP_LE;
        default:
            return (dhowi_map_op)0;
    }
}

void dhowi_drop_operand(dhowi_step *s, uint32_t k) {
    dhowi_program *p = &s->attrs.program;
    uint32_t count = dhowi_operands_of(s);
    for (uint32_t i = k; i + 1 < count; i++) s->in[i] = s->in[i + 1];
    s->in[count - 1] = -1;
    for (uint32_t i = 0; i < p->words; i++) {
        uint32_t source = dhowi_word_source(p->word[i]);
        if (source < DHOWI_MAP_CONSTANT && source > k)
            p->word[i] = dhowi_word_with_source(p->word[i], source - 1);
    }
}

void dhowi_merge_operands(const dhowi_lowering *b, dhowi_step *s) {
    dhowi_program *p = &s->attrs.program;
    for (uint32_t k = dhowi_operands_of(s); k-- > 1;) {
        uint32_t first = 0;
        while (!dhowi_same_item(b, s->in[first], s->in[k])) first++;
        if (DHOWI_GUARD(same_operand_twice, first == k)) continue;
        for (uint32_t i = 0; i < p->words; i++) {
            if (dhowi_word_source(p->word[i]) == k)
                p->word[i] = dhowi_word_with_source(p->word[i], first);
        }
        dhowi_drop_operand(s, k);
    }
}

dhow_status dhowi_inline_numbers(dhowi_fuser *f, dhowi_step *s) {
    dhowi_lowering *b = f->b;
    dhowi_program *p = &s->attrs.program;
    for (uint32_t k = dhowi_operands_of(s); k-- > 0;) {
        double value;
        uint32_t count, uses = 0, at = 0;
        const dhowi_item *item = &b->items[s->in[k]];
        if (item->tensor == NULL || dhowi_count_of(&item->desc) != 1 || dhowi_operands_of(s) < 2)
            continue;
        if (item->desc.dtype == DHOW_I64 || item->desc.dtype == DHOW_U64) continue; /* inexact */
        for (uint32_t i = 0; i < p->words; i++) {
            if (!dhowi_reads_operand(p->word[i]) || dhowi_word_source(p->word[i]) != k) continue;
            uses++;
            at = i;
        }
        if (uses != 1 || p->constants == DHOWI_MAP_CONSTANTS) continue;
        DHOWI_TRY(dhowi_floats(b, s->in[k], &value, 1, &count));
        p->word[at] =
            dhowi_word_op(p->word[at]) | (uint32_t)DHOWI_MAP_CONSTANT << 8 | p->constants << 16;
        p->constant[p->constants++] = value;
        dhowi_drop_operand(s, k);
    }
    return DHOW_OK;
}

void dhowi_load_result_first(const dhowi_lowering *b, dhowi_step *s) {
    dhowi_program *p = &s->attrs.program;
    if (p->words < 2 || dhowi_word_op(p->word[0]) != DHOWI_MAP_LOAD ||
        !dhowi_reads_operand(p->word[1]))
        return;
    uint32_t first = dhowi_word_source(p->word[0]), second = dhowi_word_source(p->word[1]);
    dhowi_map_op op = exchanged(dhowi_word_op(p->word[1]));
    if (first >= DHOWI_MAP_CONSTANT || second >= DHOWI_MAP_CONSTANT || op == 0 ||
        b->items[s->in[first]].tensor == NULL || b->items[s->in[second]].tensor != NULL)
        return;
    p->word[0] = dhowi_word_with_source(p->word[0], second);
    p->word[1] = dhowi_word_with_source((uint32_t)op, first);
}

/* The operand number of an item in a step, added where it is new; -1 when there is no room. */
static int32_t add_operand(const dhowi_lowering *b, dhowi_step *s, int32_t ref) {
    uint32_t count = dhowi_operands_of(s);
    for (uint32_t i = 0; i < count; i++) {
        if (dhowi_same_item(b, s->in[i], ref)) return (int32_t)i;
    }
    if (count == DHOWI_MAP_OPERANDS) return -1;
    s->in[count] = ref;
    return (int32_t)count;
}

static bool append_word(const dhowi_lowering *b, dhowi_step *to, const dhowi_step *from,
                        uint32_t word) {
    dhowi_program *p = &to->attrs.program;
    const dhowi_program *q = &from->attrs.program;
    uint32_t source = dhowi_word_source(word), op = dhowi_word_op(word),
             first = dhowi_word_constant(word);
    const uint32_t constants = dhowi_word_constants(word);
    if (p->words == DHOWI_MAP_WORDS || p->constants + constants > DHOWI_MAP_CONSTANTS) return false;
    if (source < DHOWI_MAP_CONSTANT && dhowi_reads_operand(word)) {
        int32_t operand = add_operand(b, to, from->in[source]);
        if (operand < 0) return false;
        source = (uint32_t)operand;
    }
    p->word[p->words++] = op | source << 8 | p->constants << 16;
    for (uint32_t i = 0; i < constants; i++) p->constant[p->constants++] = q->constant[first + i];
    return true;
}

static bool saves(const dhowi_program *p, dhowi_map_op op) {
    for (uint32_t i = 0; i < p->words; i++) {
        if (dhowi_word_op(p->word[i]) == (uint32_t)op) return true;
    }
    return false;
}

/* p's program, then q's with p's result where q loaded it. What p saved is not read any more when
 * q's instructions begin. */
bool dhowi_join_programs(const dhowi_lowering *b, const dhowi_step *p, const dhowi_step *q,
                         dhowi_step *out) {
    const dhowi_program *program = &q->attrs.program;
    uint32_t result = DHOWI_MAP_OPERANDS, next = 1;
    *out = *q;
    memset(&out->attrs.program, 0, sizeof out->attrs.program);
    for (int i = 0; i < DHOWI_OP_MAX_INPUTS; i++) out->in[i] = -1;
    for (uint32_t i = 0; i < dhowi_operands_of(q); i++) {
        if (dhowi_same_item(b, q->in[i], p->out)) result = i;
    }
    if (result == DHOWI_MAP_OPERANDS || dhowi_word_op(program->word[0]) != DHOWI_MAP_LOAD)
        return false;
    for (uint32_t i = 0; i < p->attrs.program.words; i++) {
        if (!append_word(b, out, p, p->attrs.program.word[i])) return false;
    }
    uint32_t loaded = dhowi_word_source(program->word[0]);
    if (loaded != result) { /* v = other; v op result  ->  v = result; v op' other */
        uint32_t second = program->words > 1 ? program->word[1] : 0;
        dhowi_map_op op = exchanged(dhowi_word_op(second));
        if (program->words < 2 || dhowi_word_source(second) != result || op == 0 ||
            !DHOWI_GUARD(result_read_again, !dhowi_is_used(program, 2, result)) ||
            loaded >= DHOWI_MAP_CONSTANT)
            return false;
        if (!append_word(b, out, q, dhowi_word_with_source((uint32_t)op, loaded))) return false;
        next = 2;
    } else if (dhowi_is_used(program, 1, result)) { /* needed again later */
        bool second = !DHOWI_GUARD(saved_over_another, !saves(program, DHOWI_MAP_SAVE));
        if (second && saves(program, DHOWI_MAP_SAVE2)) return false;
        if (!dhowi_program_add(&out->attrs.program, second ? DHOWI_MAP_SAVE2 : DHOWI_MAP_SAVE, 0))
            return false;
        for (uint32_t i = next; i < program->words; i++) {
            uint32_t word = program->word[i];
            if (dhowi_reads_operand(word) && dhowi_word_source(word) == result)
                word = dhowi_word_with_source(word, second ? DHOWI_MAP_SAVED2 : DHOWI_MAP_SAVED);
            if (!append_word(b, out, q, word)) return false;
        }
        return true;
    }
    for (uint32_t i = next; i < program->words; i++) {
        if (!append_word(b, out, q, program->word[i])) return false;
    }
    return true;
}

/* The only instruction that reads an operand, 0 for none or several. */
static uint32_t only_reader(const dhowi_program *p, uint32_t source) {
    uint32_t at = 0;
    for (uint32_t i = p->words; i-- > 0;) {
        if (!dhowi_reads_operand(p->word[i]) || dhowi_word_source(p->word[i]) != source) continue;
        if (at != 0) return 0;
        at = i;
    }
    return at;
}

static bool append_words(const dhowi_lowering *b, dhowi_step *to, const dhowi_step *from,
                         uint32_t first, uint32_t last) {
    for (uint32_t i = first; i < last; i++)
        if (!append_word(b, to, from, from->attrs.program.word[i])) return false;
    return true;
}

bool dhowi_join_within(const dhowi_lowering *b, const dhowi_step *p, const dhowi_step *q,
                       dhowi_step *out) {
    const dhowi_program *program = &q->attrs.program;
    uint32_t result = 0;
    while (result < dhowi_operands_of(q) && !dhowi_same_item(b, q->in[result], p->out)) result++;
    const uint32_t at = only_reader(program, result);
    const dhowi_map_op op = exchanged(dhowi_word_op(program->word[at]));
    if (at == 0 || op == 0 ||
        !DHOWI_GUARD(saved_by_both,
                     !saves(program, DHOWI_MAP_SAVE) && !saves(&p->attrs.program, DHOWI_MAP_SAVE)))
        return false;
    *out = *q;
    memset(&out->attrs.program, 0, sizeof out->attrs.program);
    for (int i = 0; i < DHOWI_OP_MAX_INPUTS; i++) out->in[i] = -1;
    return append_words(b, out, q, 0, at) &&
           dhowi_program_add(&out->attrs.program, DHOWI_MAP_SAVE, 0) &&
           append_words(b, out, p, 0, p->attrs.program.words) &&
           dhowi_program_add(&out->attrs.program, op, DHOWI_MAP_SAVED) &&
           append_words(b, out, q, at + 1, program->words);
}
