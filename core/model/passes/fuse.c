/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining steps: scales and biases go into the weights before them, elementwise chains become one
 * program, activations and residuals the end of a product. Everything is decided on steps, where
 * shapes and known values are at hand, so it does not matter what the graph called them.
 */
#include <string.h>

#include "base/errors/planted.h"
#include "base/memory/alloc.h"
#include "model/passes/passes.h"
#include "ops/run/optimise.h"

/* Who reads a buffer: the number of operands, and the only step that does. */
typedef struct reader_list {
    uint32_t count;
    int32_t step; /* -1: none, -2: several, or an output */
} reader_list;

typedef struct fuser {
    dhowi_lowering *b;
    uint32_t first;
    reader_list *readers; /* by buffer */
} fuser;

static bool is_removed(const dhowi_step *s) { return s->op == DHOWI_OP_COUNT; }
static void remove_step(dhowi_step *s) { s->op = DHOWI_OP_COUNT; }

static void count_read(fuser *f, int32_t ref, int32_t step) {
    if (ref < 0 || f->b->items[ref].tensor != NULL) return;
    reader_list *r = &f->readers[f->b->items[ref].buffer];
    r->count++;
    r->step = DHOWI_GUARD(read_by_several, r->step == -1 || r->step == step) ? step : -2;
}

static void count_readers(fuser *f) {
    dhowi_lowering *b = f->b;
    for (uint32_t i = 0; i < b->buffer_count; i++)
        f->readers[i] = (reader_list){0, b->buffers[i].external != 0 ? -2 : -1};
    for (uint32_t i = f->first; i < b->step_count; i++) {
        if (is_removed(&b->steps[i])) continue;
        for (int k = 0; k < DHOWI_OP_MAX_INPUTS; k++) count_read(f, b->steps[i].in[k], (int32_t)i);
    }
    for (uint32_t i = 0; i < b->result_count; i++) {
        int32_t ref = b->results[i];
        if (DHOWI_GUARD(read_as_an_output, b->items[ref].tensor != NULL)) continue;
        f->readers[b->items[ref].buffer].count++;
        f->readers[b->items[ref].buffer].step = -2;
    }
}

/* The item covers its buffer, in order. */
static bool is_whole(const dhowi_lowering *b, int32_t ref) {
    const dhowi_item *item = &b->items[ref];
    return item->tensor == NULL &&
           DHOWI_GUARD(part_of_a_buffer, item->contiguous && item->offset == 0 &&
                                             b->buffers[item->buffer].bytes ==
                                                 (uint64_t)dhowi_count_of(&item->spec) *
                                                     dhow_dtype_bytes(item->spec.dtype));
}

static bool same_shape(const dhowi_lowering *b, int32_t x, int32_t y) {
    const dhowi_spec *p = &b->items[x].spec, *q = &b->items[y].spec;
    return p->dtype == q->dtype && dhowi_shape_equal(p->rank, p->shape, q->rank, q->shape);
}

static bool same_item(const dhowi_lowering *b, int32_t x, int32_t y) {
    const dhowi_item *p = &b->items[x], *q = &b->items[y];
    return x == y || (p->tensor == NULL && q->tensor == NULL && p->buffer == q->buffer &&
                      is_whole(b, x) && is_whole(b, y) && same_shape(b, x, y));
}

/* ---- programs ---- */

static uint32_t operands_of(const dhowi_step *s) {
    uint32_t count = 0;
    while (count < DHOWI_MAP_OPERANDS && s->in[count] >= 0) count++;
    return count;
}
static uint32_t op_of(uint32_t word) { return word & 255; }
static uint32_t source_of(uint32_t word) { return word >> 8 & 255; }
static uint32_t with_source(uint32_t word, uint32_t source) {
    return (word & ~UINT32_C(0xff00)) | source << 8;
}

/* Whether an instruction looks at its operand. */
static bool reads_operand(uint32_t word) {
    uint32_t op = op_of(word);
    return op == DHOWI_MAP_LOAD || (op <= DHOWI_MAP_PRELU && op != DHOWI_MAP_NOT) ||
           op >= DHOWI_MAP_BIT_AND;
}
static bool is_used(const dhowi_program *p, uint32_t from, uint32_t source) {
    for (uint32_t i = from; i < p->words; i++) {
        if (reads_operand(p->word[i]) && source_of(p->word[i]) == source) return true;
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

/* Drops an operand that no instruction reads any more. */
static void drop_operand(dhowi_step *s, uint32_t k) {
    dhowi_program *p = &s->attrs.program;
    uint32_t count = operands_of(s);
    for (uint32_t i = k; i + 1 < count; i++) s->in[i] = s->in[i + 1];
    s->in[count - 1] = -1;
    for (uint32_t i = 0; i < p->words; i++) {
        uint32_t source = source_of(p->word[i]);
        if (source < DHOWI_MAP_CONSTANT && source > k)
            p->word[i] = with_source(p->word[i], source - 1);
    }
}

/* One operand for each item: what follows asks which operand is a step's result. */
static void merge_operands(const dhowi_lowering *b, dhowi_step *s) {
    dhowi_program *p = &s->attrs.program;
    for (uint32_t k = operands_of(s); k-- > 1;) {
        uint32_t first = 0;
        while (!same_item(b, s->in[first], s->in[k])) first++;
        if (DHOWI_GUARD(same_operand_twice, first == k)) continue;
        for (uint32_t i = 0; i < p->words; i++) {
            if (source_of(p->word[i]) == k) p->word[i] = with_source(p->word[i], first);
        }
        drop_operand(s, k);
    }
}

/* Known single numbers become constants of the program. */
static dhow_status inline_numbers(fuser *f, dhowi_step *s) {
    dhowi_lowering *b = f->b;
    dhowi_program *p = &s->attrs.program;
    for (uint32_t k = operands_of(s); k-- > 0;) {
        double value;
        uint32_t count, uses = 0, at = 0;
        const dhowi_item *item = &b->items[s->in[k]];
        if (item->tensor == NULL || dhowi_count_of(&item->spec) != 1 || operands_of(s) < 2)
            continue;
        if (item->spec.dtype == DHOW_I64 || item->spec.dtype == DHOW_U64) continue; /* inexact */
        for (uint32_t i = 0; i < p->words; i++) {
            if (!reads_operand(p->word[i]) || source_of(p->word[i]) != k) continue;
            uses++;
            at = i;
        }
        if (uses != 1 || p->constants == DHOWI_MAP_CONSTANTS) continue;
        DHOWI_TRY(dhowi_floats(b, s->in[k], &value, 1, &count));
        p->word[at] = op_of(p->word[at]) | (uint32_t)DHOWI_MAP_CONSTANT << 8 | p->constants << 16;
        p->constant[p->constants++] = value;
        drop_operand(s, k);
    }
    return DHOW_OK;
}

/* A known operand that is loaded first, as in bias + product, changes places with the next. */
static void load_result_first(const dhowi_lowering *b, dhowi_step *s) {
    dhowi_program *p = &s->attrs.program;
    if (p->words < 2 || op_of(p->word[0]) != DHOWI_MAP_LOAD || !reads_operand(p->word[1])) return;
    uint32_t first = source_of(p->word[0]), second = source_of(p->word[1]);
    dhowi_map_op op = exchanged(op_of(p->word[1]));
    if (first >= DHOWI_MAP_CONSTANT || second >= DHOWI_MAP_CONSTANT || op == 0 ||
        b->items[s->in[first]].tensor == NULL || b->items[s->in[second]].tensor != NULL)
        return;
    p->word[0] = with_source(p->word[0], second);
    p->word[1] = with_source((uint32_t)op, first);
}

/* ---- scales and biases into weights ---- */

/* A known operand with one number for each of the n channels along `axis`. */
static bool is_per_channel(const dhowi_lowering *b, int32_t ref, int32_t rank, int32_t axis,
                           int64_t n) {
    const dhowi_item *item = &b->items[ref];
    if (item->tensor == NULL || item->spec.rank > rank) return false;
    for (int32_t i = 0; i < item->spec.rank; i++) {
        int32_t at = i + rank - item->spec.rank;
        if (!DHOWI_GUARD(scale_of_another_axis, item->spec.shape[i] == (at == axis ? n : 1)))
            return false;
    }
    return dhowi_count_of(&item->spec) == n;
}

static dhow_status as_row(dhowi_lowering *b, int32_t ref, int32_t *out) {
    const int64_t n = dhowi_count_of(&b->items[ref].spec);
    DHOWI_TRY(dhowi_reshape(b, ref, 1, &n, out));
    return dhowi_dense(b, *out, out);
}

/* ---- foldings that are kept for later plans ---- */

static dhow_tensor *tensor_at(const dhowi_lowering *b, int32_t ref) {
    return ref >= 0 ? b->items[ref].tensor : NULL;
}

/* Rows of the same numbers, or none on both sides. */
static bool same_row(dhow_tensor *p, dhow_tensor *q) {
    void *x, *y;
    if (p == NULL || q == NULL) return p == q;
    return p->dtype == q->dtype && p->count == q->count && dhow_tensor_host_ptr(p, &x) == DHOW_OK &&
           dhow_tensor_host_ptr(q, &y) == DHOW_OK && memcmp(x, y, dhowi_tensor_bytes(p)) == 0;
}

/* The values of the model that a product has as weight and bias; false when one is no value. */
static bool folds_values(const dhowi_lowering *b, const dhowi_step *s, int32_t *weight,
                         int32_t *bias) {
    *weight = b->items[s->in[1]].value;
    *bias = s->in[2] >= 0 ? b->items[s->in[2]].value : -1;
    return s->node != NULL && *weight >= 0 && (s->in[2] < 0 || *bias >= 0);
}

static dhow_tensor *kept(dhow_tensor *t) {
    if (t == NULL) return NULL;
    dhowi_handle_retain(&t->handle);
    atomic_store_explicit(&t->storage->frozen, true, memory_order_relaxed);
    return t;
}

/* One folding a node: loops lower a node several times, perhaps with other numbers. */
static void keep_folding(const dhowi_lowering *b, const dhowi_step *before, int32_t scale,
                         int32_t shift, const dhowi_step *after) {
    dhowi_node *node = (dhowi_node *)(uintptr_t)before->node;
    int32_t weight, bias;
    if (!folds_values(b, before, &weight, &bias) || node->folding.weight != NULL) return;
    node->folding = (dhowi_folding){.of_weight = weight,
                                    .of_bias = bias,
                                    .scale = kept(tensor_at(b, scale)),
                                    .shift = kept(tensor_at(b, shift)),
                                    .weight = kept(tensor_at(b, after->in[1])),
                                    .bias = kept(tensor_at(b, after->in[2]))};
}

static dhow_status take_folding(dhowi_lowering *b, dhowi_step *s, int32_t scale, int32_t shift,
                                bool *taken) {
    int32_t weight, bias;
    *taken = false;
    if (!folds_values(b, s, &weight, &bias)) return DHOW_OK;
    const dhowi_folding *f = &s->node->folding;
    if (!DHOWI_GUARD(folding_of_other_numbers, f->of_weight == weight && f->of_bias == bias &&
                                                   same_row(f->scale, tensor_at(b, scale)) &&
                                                   same_row(f->shift, tensor_at(b, shift))) ||
        f->weight == NULL)
        return DHOW_OK;
    *taken = true;
    DHOWI_TRY(dhowi_known(b, f->weight, -1, &s->in[1]));
    return f->bias != NULL ? dhowi_known(b, f->bias, -1, &s->in[2]) : DHOW_OK;
}

/* weight and bias times `scale`, bias plus `shift`; rows, each -1 for none */
static dhow_status scaled_weights(dhowi_lowering *b, dhowi_step *s, int32_t scale, int32_t shift) {
    int32_t weight = s->in[1], bias = s->in[2];
    if (scale >= 0) {
        int32_t column;
        const int64_t n = dhowi_count_of(&b->items[scale].spec), shape[] = {n, 1, 1, 1};
        const bool rows = s->op != DHOWI_OP_matmul; /* the channels come first */
        DHOWI_TRY(dhowi_reshape(b, scale, rows ? b->items[weight].spec.rank : 1, rows ? shape : &n,
                                &column));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, weight, column, &weight));
        if (bias >= 0 && !DHOWI_GUARD(bias_not_scaled, false))
            DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, bias, scale, &bias));
    }
    if (shift >= 0 && bias >= 0) DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, bias, shift, &bias));
    if (shift >= 0 && bias < 0) bias = shift;
    s->in[1] = weight;
    s->in[2] = bias;
    return DHOW_OK;
}

static dhow_status fold_rows(dhowi_lowering *b, dhowi_step *s, int32_t scale, int32_t shift) {
    const dhowi_step before = *s;
    bool taken;
    if (scale >= 0) DHOWI_TRY(as_row(b, scale, &scale));
    if (shift >= 0) DHOWI_TRY(as_row(b, shift, &shift));
    DHOWI_TRY(take_folding(b, s, scale, shift, &taken));
    if (taken) return DHOW_OK;
    DHOWI_TRY(scaled_weights(b, s, scale, shift));
    keep_folding(b, &before, scale, shift, s);
    return DHOW_OK;
}

/* Takes the first instructions after LOAD away; a program of LOAD alone is no step any more. */
static void take_words(dhowi_step *s, uint32_t count) {
    dhowi_program *p = &s->attrs.program;
    memmove(p->word + 1, p->word + 1 + count, (p->words - 1 - count) * sizeof *p->word);
    p->words -= count;
    for (uint32_t k = operands_of(s); k-- > 0;) {
        if (!is_used(p, 0, k)) drop_operand(s, k);
    }
}

/* The map that alone reads a step's result, loading it first. */
static dhowi_step *next_map(fuser *f, const dhowi_step *s) {
    dhowi_lowering *b = f->b;
    if (!is_whole(b, s->out)) return NULL;
    const reader_list *r = &f->readers[b->items[s->out].buffer];
    if (r->step < 0 || b->steps[r->step].op != DHOWI_OP_map) return NULL;
    dhowi_step *q = &b->steps[r->step];
    const dhowi_program *p = &q->attrs.program;
    if (op_of(p->word[0]) != DHOWI_MAP_LOAD || source_of(p->word[0]) >= DHOWI_MAP_CONSTANT)
        return NULL;
    return same_item(b, q->in[source_of(p->word[0])], s->out) && same_shape(b, q->out, s->out) &&
                   is_whole(b, q->out)
               ? q
               : NULL;
}

/* s computes what q did; it takes q's place, where all operands exist. */
static dhowi_step *take_over(dhowi_step *s, dhowi_step *q) {
    dhowi_step joined = *s;
    joined.out = q->out;
    *q = joined;
    remove_step(s);
    return q;
}

static uint32_t per_channel_source(const dhowi_lowering *b, const dhowi_step *q, uint32_t word,
                                   uint32_t op, int32_t axis, int64_t n) {
    uint32_t source = source_of(q->attrs.program.word[word]);
    if (word >= q->attrs.program.words || op_of(q->attrs.program.word[word]) != op ||
        source >= DHOWI_MAP_CONSTANT ||
        !is_per_channel(b, q->in[source], b->items[q->out].spec.rank, axis, n))
        return UINT32_MAX;
    return source;
}

/* What comes of it is as large as the weights, which are there already. */
static dhow_status fold_freely(dhowi_lowering *b, dhowi_step *s, int32_t scale, int32_t shift) {
    b->free_of_limit = true;
    dhow_status status = s->op == DHOWI_OP_conv2d || scale >= 0 ? fold_rows(b, s, scale, shift)
                                                                : as_row(b, shift, &s->in[2]);
    b->free_of_limit = false;
    return status;
}

static dhow_status fold_into_weights(fuser *f, dhowi_step *s, bool *changed) {
    dhowi_lowering *b = f->b;
    dhowi_step *q = next_map(f, s);
    *changed = false;
    if (q == NULL || b->items[s->in[1]].tensor == NULL || s->attrs.activation != 0 ||
        s->in[3] >= 0 || (s->in[2] >= 0 && b->items[s->in[2]].tensor == NULL))
        return DHOW_OK;
    bool conv = s->op == DHOWI_OP_conv2d, scalable = conv || b->items[s->in[1]].spec.rank == 2;
    const dhowi_spec *y = &b->items[s->out].spec;
    int32_t axis = conv ? 1 : y->rank - 1;
    int64_t n = y->shape[axis];
    uint32_t own = source_of(q->attrs.program.word[0]), words = 0;
    uint32_t scale = scalable ? per_channel_source(b, q, 1, DHOWI_MAP_MUL, axis, n) : UINT32_MAX;
    if (scale != UINT32_MAX) words++;
    uint32_t shift = per_channel_source(b, q, 1 + words, DHOWI_MAP_ADD, axis, n);
    if (shift != UINT32_MAX) words++;
    const bool weights = conv || scale != UINT32_MAX; /* else a bias where there is none */
    if (words == 0 || !DHOWI_GUARD(folded_and_read_again, !is_used(&q->attrs.program, 1, own)) ||
        (!weights && s->in[2] >= 0))
        return DHOW_OK;
    int32_t scale_ref = scale != UINT32_MAX ? q->in[scale] : -1;
    int32_t shift_ref = shift != UINT32_MAX ? q->in[shift] : -1;
    DHOWI_TRY(fold_freely(b, s, scale_ref, shift_ref));
    take_words(q, words);
    if (q->attrs.program.words == 1) (void)take_over(s, q);
    *changed = true;
    return DHOW_OK;
}

/* ---- chains ---- */

/* The operand number of an item in a step, added where it is new; -1 when there is no room. */
static int32_t add_operand(const dhowi_lowering *b, dhowi_step *s, int32_t ref) {
    uint32_t count = operands_of(s);
    for (uint32_t i = 0; i < count; i++) {
        if (same_item(b, s->in[i], ref)) return (int32_t)i;
    }
    if (count == DHOWI_MAP_OPERANDS) return -1;
    s->in[count] = ref;
    return (int32_t)count;
}

static bool append_word(const dhowi_lowering *b, dhowi_step *to, const dhowi_step *from,
                        uint32_t word) {
    dhowi_program *p = &to->attrs.program;
    const dhowi_program *q = &from->attrs.program;
    uint32_t source = source_of(word), op = op_of(word), first = word >> 16 & 255;
    uint32_t constants = dhowi_map_constants((dhowi_map_op)op);
    if (source == DHOWI_MAP_CONSTANT && reads_operand(word)) constants = 1;
    if (p->words == DHOWI_MAP_WORDS || p->constants + constants > DHOWI_MAP_CONSTANTS) return false;
    if (source < DHOWI_MAP_CONSTANT && reads_operand(word)) {
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
        if (op_of(p->word[i]) == (uint32_t)op) return true;
    }
    return false;
}

/* p's program, then q's with p's result where q loaded it. What p saved is not read any more when
 * q's instructions begin. */
static bool join_programs(const dhowi_lowering *b, const dhowi_step *p, const dhowi_step *q,
                          dhowi_step *out) {
    const dhowi_program *program = &q->attrs.program;
    uint32_t result = DHOWI_MAP_OPERANDS, next = 1;
    *out = *q;
    memset(&out->attrs.program, 0, sizeof out->attrs.program);
    for (int i = 0; i < DHOWI_OP_MAX_INPUTS; i++) out->in[i] = -1;
    for (uint32_t i = 0; i < operands_of(q); i++) {
        if (same_item(b, q->in[i], p->out)) result = i;
    }
    if (result == DHOWI_MAP_OPERANDS || op_of(program->word[0]) != DHOWI_MAP_LOAD) return false;
    for (uint32_t i = 0; i < p->attrs.program.words; i++) {
        if (!append_word(b, out, p, p->attrs.program.word[i])) return false;
    }
    uint32_t loaded = source_of(program->word[0]);
    if (loaded != result) { /* v = other; v op result  ->  v = result; v op' other */
        uint32_t second = program->words > 1 ? program->word[1] : 0;
        dhowi_map_op op = exchanged(op_of(second));
        if (program->words < 2 || source_of(second) != result || op == 0 ||
            !DHOWI_GUARD(result_read_again, !is_used(program, 2, result)) ||
            loaded >= DHOWI_MAP_CONSTANT)
            return false;
        if (!append_word(b, out, q, with_source((uint32_t)op, loaded))) return false;
        next = 2;
    } else if (is_used(program, 1, result)) { /* needed again later */
        bool second = !DHOWI_GUARD(saved_over_another, !saves(program, DHOWI_MAP_SAVE));
        if (second && saves(program, DHOWI_MAP_SAVE2)) return false;
        if (!dhowi_program_add(&out->attrs.program, second ? DHOWI_MAP_SAVE2 : DHOWI_MAP_SAVE, 0))
            return false;
        for (uint32_t i = next; i < program->words; i++) {
            uint32_t word = program->word[i];
            if (reads_operand(word) && source_of(word) == result)
                word = with_source(word, second ? DHOWI_MAP_SAVED2 : DHOWI_MAP_SAVED);
            if (!append_word(b, out, q, word)) return false;
        }
        return true;
    }
    for (uint32_t i = next; i < program->words; i++) {
        if (!append_word(b, out, q, program->word[i])) return false;
    }
    return true;
}

static bool join_chain(fuser *f, dhowi_step *p) {
    dhowi_lowering *b = f->b;
    dhowi_step joined;
    if (!is_whole(b, p->out)) return false;
    const reader_list *r = &f->readers[b->items[p->out].buffer];
    if (r->step < 0 || b->steps[r->step].op != DHOWI_OP_map) return false;
    dhowi_step *q = &b->steps[r->step];
    if (q == p || !same_shape(b, p->out, q->out)) return false;
    for (uint32_t i = 0; i < operands_of(q); i++) { /* no other view of the result */
        const dhowi_item *item = &b->items[q->in[i]];
        if (item->tensor == NULL && item->buffer == b->items[p->out].buffer &&
            !DHOWI_GUARD(join_beside_another_view, same_item(b, q->in[i], p->out)))
            return false;
    }
    if (!join_programs(b, p, q, &joined)) return false;
    *q = joined;
    remove_step(p);
    return true;
}

/* ---- the end of a product ---- */

static uint32_t activation_of(uint32_t op) {
    switch (op) {
        case DHOWI_MAP_RELU:
            return DHOW_ACTIVATION_RELU;
        case DHOWI_MAP_GELU:
            return DHOW_ACTIVATION_GELU;
        case DHOWI_MAP_GELU_TANH:
            return DHOW_ACTIVATION_GELU_TANH;
        case DHOWI_MAP_SIGMOID:
            return DHOW_ACTIVATION_SIGMOID;
        case DHOWI_MAP_TANH:
            return DHOW_ACTIVATION_TANH;
        case DHOWI_MAP_SILU:
            return DHOW_ACTIVATION_SILU;
        default:
            return DHOW_ACTIVATION_NONE;
    }
}

static bool takes_activation(const dhowi_lowering *b, const dhowi_step *s) {
    dhow_dtype dtype = b->items[s->out].spec.dtype;
    return dtype == DHOW_F32 || dtype == DHOW_F16 || dtype == DHOW_BF16;
}

/* Adds another operand of the same shape, then perhaps a ReLU. */
static bool absorb_residual(fuser *f, dhowi_step *s) {
    dhowi_lowering *b = f->b;
    if (!is_whole(b, s->out) || s->in[3] >= 0 || s->attrs.activation != 0) return false;
    const reader_list *r = &f->readers[b->items[s->out].buffer];
    if (r->step < 0 || r->count != 1 || b->steps[r->step].op != DHOWI_OP_map) return false;
    dhowi_step *q = &b->steps[r->step];
    const dhowi_program *p = &q->attrs.program;
    if (operands_of(q) != 2 || p->words > 3 || p->words < 2 ||
        op_of(p->word[0]) != DHOWI_MAP_LOAD || op_of(p->word[1]) != DHOWI_MAP_ADD ||
        source_of(p->word[0]) + source_of(p->word[1]) != 1)
        return false;
    uint32_t own = same_item(b, q->in[0], s->out) ? 0 : 1;
    int32_t other = q->in[1 - own];
    if (!same_item(b, q->in[own], s->out) ||
        !DHOWI_GUARD(residual_of_another_shape, same_shape(b, other, s->out)) ||
        !same_shape(b, q->out, s->out) || !b->items[other].contiguous ||
        b->items[other].offset != 0 || b->items[other].tensor != NULL || !is_whole(b, q->out))
        return false;
    if (p->words == 3 && !DHOWI_GUARD(residual_and_anything, op_of(p->word[2]) == DHOWI_MAP_RELU))
        return false;
    s->in[3] = other;
    if (p->words == 3) s->attrs.activation = DHOW_ACTIVATION_RELU;
    (void)take_over(s, q);
    return true;
}

static bool absorb_activation(fuser *f, dhowi_step *s) {
    dhowi_step *q = next_map(f, s);
    if (q == NULL || !DHOWI_GUARD(two_activations, s->attrs.activation == 0) ||
        !takes_activation(f->b, s))
        return false;
    const dhowi_program *p = &q->attrs.program;
    uint32_t own = source_of(p->word[0]);
    uint32_t activation = p->words == 2 ? activation_of(op_of(p->word[1])) : 0;
    if (p->words == 3 && op_of(p->word[1]) == DHOWI_MAP_SIGMOID &&
        op_of(p->word[2]) == DHOWI_MAP_MUL &&
        DHOWI_GUARD(silu_of_another_value, operands_of(q) == 1 && source_of(p->word[2]) == own))
        activation = DHOW_ACTIVATION_SILU;
    if (activation == 0) return false;
    s->attrs.activation = activation;
    (void)take_over(s, q);
    return true;
}

/* ---- all of it ---- */

static bool is_product(const dhowi_step *s) {
    return s->op == DHOWI_OP_conv2d || s->op == DHOWI_OP_matmul || s->op == DHOWI_OP_linear;
}

/* One walk over all steps. What a walk knows of readers goes stale as it joins, but only towards
 * caution: a removed step is no map, so nothing is joined to it. */
static dhow_status walk(fuser *f, bool *changed) {
    dhowi_lowering *b = f->b;
    count_readers(f);
    for (uint32_t i = f->first; i < b->step_count && dhowi_optimises(DHOWI_OPTIMISE_WEIGHTS); i++) {
        bool folded = false;
        if (is_product(&b->steps[i])) DHOWI_TRY(fold_into_weights(f, &b->steps[i], &folded));
        *changed = *changed || folded;
    }
    count_readers(f);
    for (uint32_t i = f->first; i < b->step_count; i++) {
        dhowi_step *s = &b->steps[i];
        if (s->op != DHOWI_OP_map) continue;
        if (dhowi_optimises(DHOWI_OPTIMISE_NUMBERS)) DHOWI_TRY(inline_numbers(f, s));
        if (dhowi_optimises(DHOWI_OPTIMISE_CHAINS) && join_chain(f, s)) *changed = true;
    }
    return DHOW_OK;
}

static bool end_products(fuser *f) {
    dhowi_lowering *b = f->b;
    bool changed = false;
    count_readers(f);
    for (uint32_t i = f->first; i < b->step_count; i++) {
        if (is_product(&b->steps[i]) &&
            (absorb_activation(f, &b->steps[i]) || absorb_residual(f, &b->steps[i])))
            changed = true;
    }
    return changed;
}

/* A function too long for one program: the second half reads x and what the first makes of it. */
static void recognise_halves(fuser *f) {
    dhowi_lowering *b = f->b;
    count_readers(f);
    for (uint32_t i = f->first; i < b->step_count; i++) {
        const dhowi_step *p = &b->steps[i];
        if (p->op != DHOWI_OP_map || operands_of(p) != 1 || !is_whole(b, p->out)) continue;
        const reader_list *r = &f->readers[b->items[p->out].buffer];
        if (r->step < 0 || b->steps[r->step].op != DHOWI_OP_map) continue;
        dhowi_step *q = &b->steps[r->step];
        uint32_t of_first = 0, count = operands_of(q);
        bool fits = same_shape(b, p->out, q->out) && same_shape(b, p->in[0], q->out);
        for (uint32_t k = 0; k < count && fits; k++) {
            bool first = same_item(b, q->in[k], p->out);
            fits = first || DHOWI_GUARD(halves_of_two_values, same_item(b, q->in[k], p->in[0]));
            of_first |= (uint32_t)first << k;
        }
        if (fits && dhowi_recognise_pair(p, q, of_first, b->items[q->out].spec.dtype))
            remove_step(&b->steps[i]);
    }
}

static void recognise_activations(fuser *f) {
    dhowi_lowering *b = f->b;
    for (uint32_t i = f->first; i < b->step_count; i++) {
        if (b->steps[i].op == DHOWI_OP_map)
            dhowi_recognise(&b->steps[i], b->items[b->steps[i].out].spec.dtype);
    }
    recognise_halves(f);
}

static dhow_status join_all(fuser *f) {
    enum { MAX_WALKS = 6 };
    dhowi_lowering *b = f->b;
    for (uint32_t i = f->first; i < b->step_count; i++) {
        if (b->steps[i].op != DHOWI_OP_map) continue;
        merge_operands(b, &b->steps[i]);
        load_result_first(b, &b->steps[i]);
    }
    for (int i = 0; i < MAX_WALKS; i++) {
        bool changed = false;
        DHOWI_TRY(walk(f, &changed));
        if (!changed) break;
    }
    if (dhowi_optimises(DHOWI_OPTIMISE_ACTIVATIONS)) recognise_activations(f);
    for (int i = 0; i < 2 && dhowi_optimises(DHOWI_OPTIMISE_ENDS) && end_products(f); i++) continue;
    return DHOW_OK;
}

static void compact(dhowi_lowering *b, uint32_t first) {
    uint32_t kept = first;
    for (uint32_t i = first; i < b->step_count; i++) {
        if (!is_removed(&b->steps[i])) b->steps[kept++] = b->steps[i];
    }
    b->step_count = kept;
}

dhow_status dhowi_fuse(dhowi_lowering *b, uint32_t first_step) {
    /* Folding weights adds items, never buffers: what is known is computed at once. */
    if (dhowi_optimises(DHOWI_OPTIMISE_NORMS)) DHOWI_TRY(dhowi_recognise_norms(b, first_step));
    fuser f = {.b = b, .first = first_step};
    f.readers = dhowi_alloc_array((size_t)b->buffer_count + 1, sizeof *f.readers);
    if (f.readers == NULL) return dhowi_fail_memory("plan");
    b->node = NULL;
    dhow_status status = join_all(&f);
    dhowi_free(f.readers);
    if (status == DHOW_OK) compact(b, first_step);
    return status;
}
