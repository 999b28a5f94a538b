/* SPDX-License-Identifier: Apache-2.0
 *
 * Scales and biases go into the weights of the product before them.
 */
#include <math.h>
#include <string.h>

#include "base/errors/planted.h"
#include "base/memory/alloc.h"
#include "model/passes/fuse.h"

/* A known operand with one number for each of the n channels along `axis`. */
static bool is_per_channel(const dhowi_lowering *b, int32_t ref, int32_t rank, int32_t axis,
                           int64_t n) {
    const dhowi_item *item = &b->items[ref];
    if (item->tensor == NULL || item->desc.rank > rank) return false;
    for (int32_t i = 0; i < item->desc.rank; i++) {
        int32_t at = i + rank - item->desc.rank;
        if (!DHOWI_GUARD(scale_of_another_axis, item->desc.shape[i] == (at == axis ? n : 1)))
            return false;
    }
    return dhowi_count_of(&item->desc) == n;
}

dhowi_by_channel dhowi_by_channel_at(const dhowi_lowering *b, const dhowi_step *q, uint32_t word,
                                     dhowi_map_op op, int32_t axis, int64_t n) {
    const dhowi_program *p = &q->attrs.program;
    if (word >= p->words || dhowi_word_op(p->word[word]) != op) return (dhowi_by_channel){0};
    const uint32_t source = dhowi_word_source(p->word[word]);
    if (source == DHOWI_MAP_CONSTANT)
        return (dhowi_by_channel){true, -1, p->constant[dhowi_word_constant(p->word[word])]};
    if (source > DHOWI_MAP_CONSTANT) return (dhowi_by_channel){0};
    const dhowi_item *item = &b->items[q->in[source]];
    const int32_t rank = b->items[q->out].desc.rank;
    const bool one =
        item->tensor != NULL && item->desc.rank <= rank && dhowi_count_of(&item->desc) == 1;
    return (dhowi_by_channel){one || is_per_channel(b, q->in[source], rank, axis, n), q->in[source],
                              0};
}

dhow_status dhowi_as_row(dhowi_lowering *b, const dhowi_by_channel *c, dhow_dtype dtype, int64_t n,
                         int32_t *out) {
    const int64_t one = 1;
    *out = -1;
    if (!c->found) return DHOW_OK;
    if (c->ref < 0) {
        DHOWI_TRY(dhowi_filled(b,
                               &(const dhowi_tensor_desc){.dtype = dtype, .rank = 1, .shape = {n}},
                               c->number, out));
    } else if (dhowi_count_of(&b->items[c->ref].desc) == n) {
        DHOWI_TRY(dhowi_reshape(b, c->ref, 1, &n, out));
    } else {
        DHOWI_TRY(dhowi_reshape(b, c->ref, 1, &one, out));
        DHOWI_TRY(dhowi_expand(b, *out, 1, &n, out));
    }
    if (DHOWI_GUARD(row_of_one_number, false)) return DHOW_OK;
    return dhowi_dense(b, *out, out);
}

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

/* Whether an operand is as lasting as the model: none, a parameter, what is computed from those
 * alone, or a folding. */
static bool lasts(const dhowi_lowering *b, int32_t ref) {
    const dhow_tensor *t = tensor_at(b, ref);
    return t == NULL || b->items[ref].value >= 0 ||
           atomic_load_explicit(&t->storage->frozen, memory_order_relaxed);
}

/* Whether they are the same part of the same memory. */
static bool same_part(const dhow_tensor *p, const dhow_tensor *q) {
    if (p == NULL || q == NULL) return p == q;
    return p->storage == q->storage && p->offset == q->offset && p->dtype == q->dtype &&
           p->rank == q->rank &&
           memcmp(p->shape, q->shape, (size_t)p->rank * sizeof *p->shape) == 0;
}

static dhow_tensor *kept(dhow_tensor *t) {
    if (t == NULL) return NULL;
    dhowi_handle_retain(&t->handle);
    atomic_store_explicit(&t->storage->frozen, true, memory_order_relaxed);
    return t;
}

/* A few for a node: loops lower one several times, perhaps with other numbers. */
void dhowi_keep_folding(const dhowi_lowering *b, const dhowi_node *of, const dhowi_branch *parts,
                        uint32_t part_count, int32_t weight, int32_t bias) {
    enum { MOST_FOLDINGS = 8 };
    dhowi_node *node = (dhowi_node *)(uintptr_t)of;
    int count = 0;
    if (node == NULL) return;
    for (uint32_t i = 0; i < part_count; i++)
        if (!lasts(b, parts[i].weight) || !lasts(b, parts[i].bias)) return;
    for (const dhowi_folding *f = node->foldings; f != NULL; f = f->next) count++;
    const size_t bytes = sizeof(dhowi_folding) + part_count * sizeof(dhowi_folded);
    dhowi_folding *f = count < MOST_FOLDINGS ? dhowi_alloc(bytes) : NULL;
    if (f == NULL) return;
    b->model->keeps_results = true;
    *f = (dhowi_folding){.next = node->foldings,
                         .weight = kept(tensor_at(b, weight)),
                         .bias = kept(tensor_at(b, bias)),
                         .count = part_count};
    for (uint32_t i = 0; i < part_count; i++) {
        const dhowi_branch *p = &parts[i];
        f->of[i] = (dhowi_folded){.weight = kept(tensor_at(b, p->weight)),
                                  .bias = kept(tensor_at(b, p->bias)),
                                  .scale = kept(tensor_at(b, p->scale)),
                                  .shift = kept(tensor_at(b, p->shift)),
                                  .minus = p->minus};
        memcpy(f->of[i].at, p->at, sizeof p->at);
    }
    node->foldings = f;
}

static bool is_of(const dhowi_lowering *b, const dhowi_folding *f, const dhowi_branch *parts,
                  uint32_t count) {
    bool same = f->count == count;
    for (uint32_t i = 0; i < count && same; i++) {
        const dhowi_folded *p = &f->of[i];
        const dhowi_branch *q = &parts[i];
        same =
            p->minus == q->minus && memcmp(p->at, q->at, sizeof p->at) == 0 &&
            same_part(p->weight, tensor_at(b, q->weight)) &&
            same_part(p->bias, tensor_at(b, q->bias)) &&
            DHOWI_GUARD(folding_of_other_numbers, same_row(p->scale, tensor_at(b, q->scale)) &&
                                                      same_row(p->shift, tensor_at(b, q->shift)));
    }
    return same;
}

const dhowi_folding *dhowi_find_folding(const dhowi_lowering *b, const dhowi_node *node,
                                        const dhowi_branch *parts, uint32_t count) {
    const dhowi_folding *f = node != NULL ? node->foldings : NULL;
    while (f != NULL && !is_of(b, f, parts, count)) f = f->next;
    return f;
}

void dhowi_replace_known(dhowi_lowering *b, int32_t ref, dhow_tensor *t) {
    dhow_tensor_release(b->items[ref].tensor);
    b->items[ref].tensor = kept(t);
}

/* weight and bias times `scale`, bias plus `shift`; rows, each -1 for none */
static dhow_status scaled_weights(dhowi_lowering *b, dhowi_step *s, int32_t scale, int32_t shift) {
    int32_t weight = s->in[1], bias = s->in[2];
    if (scale >= 0) {
        int32_t column;
        const int64_t n = dhowi_count_of(&b->items[scale].desc), shape[] = {n, 1, 1, 1, 1};
        const bool rows = s->op != DHOWI_OP_matmul; /* the channels come first */
        DHOWI_TRY(dhowi_reshape(b, scale, rows ? b->items[weight].desc.rank : 1, rows ? shape : &n,
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
    const dhowi_branch of = {.weight = s->in[1], .bias = s->in[2], .scale = scale, .shift = shift};
    const dhowi_folding *f = dhowi_find_folding(b, s->node, &of, 1);
    b->defers = true;
    const dhow_status status = scaled_weights(b, s, scale, shift);
    b->defers = false;
    DHOWI_TRY(status);
    if (f == NULL) {
        dhowi_keep_folding(b, s->node, &of, 1, s->in[1], s->in[2]);
        return DHOW_OK;
    }
    if (s->in[1] != of.weight) dhowi_replace_known(b, s->in[1], f->weight);
    if (s->in[2] != of.bias && s->in[2] != shift) dhowi_replace_known(b, s->in[2], f->bias);
    return DHOW_OK;
}

/* Takes the first instructions after LOAD away; a program of LOAD alone is no step any more. */
static void take_words(dhowi_step *s, uint32_t count) {
    dhowi_program *p = &s->attrs.program;
    memmove(p->word + 1, p->word + 1 + count, (p->words - 1 - count) * sizeof *p->word);
    p->words -= count;
    for (uint32_t k = dhowi_operands_of(s); k-- > 0;) {
        if (!dhowi_is_used(p, 0, k)) dhowi_drop_operand(s, k);
    }
}

dhowi_step *dhowi_next_map(dhowi_fuser *f, const dhowi_step *s) {
    dhowi_lowering *b = f->b;
    if (!dhowi_is_whole(b, s->out)) return NULL;
    const dhowi_readers *r = &f->readers[b->items[s->out].buffer];
    if (r->step < 0 || b->steps[r->step].op != DHOWI_OP_map) return NULL;
    dhowi_step *q = &b->steps[r->step];
    const dhowi_program *p = &q->attrs.program;
    if (dhowi_word_op(p->word[0]) != DHOWI_MAP_LOAD ||
        dhowi_word_source(p->word[0]) >= DHOWI_MAP_CONSTANT)
        return NULL;
    return dhowi_same_item(b, q->in[dhowi_word_source(p->word[0])], s->out) &&
                   dhowi_same_shape(b, q->out, s->out) && dhowi_is_whole(b, q->out)
               ? q
               : NULL;
}

dhowi_step *dhowi_take_over(dhowi_step *s, dhowi_step *q) {
    dhowi_step joined = *s;
    joined.out = q->out;
    *q = joined;
    dhowi_remove_step(s);
    return q;
}

/* The folded tensors are as large as the weights they replace, so the limit of host memory does not
 * count them. */
static dhow_status fold_freely(dhowi_lowering *b, dhowi_step *s, const dhowi_by_channel *scale,
                               const dhowi_by_channel *shift, int64_t n) {
    const dhow_dtype dtype = b->items[s->out].desc.dtype;
    int32_t scales, shifts;
    b->free_of_limit = true;
    dhow_tensor *row;
    dhow_status status = dhowi_as_row(b, scale, dtype, n, &scales);
    if (status == DHOW_OK) status = dhowi_as_row(b, shift, dtype, n, &shifts);
    if (status == DHOW_OK && scales >= 0) status = dhowi_known_values(b, scales, &row);
    if (status == DHOW_OK && shifts >= 0) status = dhowi_known_values(b, shifts, &row);
    if (status == DHOW_OK && (s->op == DHOWI_OP_conv2d || s->op == DHOWI_OP_conv3d || scale->found))
        status = fold_rows(b, s, scales, shifts);
    else if (status == DHOW_OK)
        s->in[2] = shifts;
    b->free_of_limit = false;
    return status;
}

/* Bounds of values: what RELU and CLIP are. */
typedef struct bounds {
    bool found;
    double low, high;
} bounds;

static bounds bounds_at(const dhowi_program *p, uint32_t word) {
    const dhowi_map_op op =
        word < p->words ? (dhowi_map_op)dhowi_word_op(p->word[word]) : DHOWI_MAP_LOAD;
    const double *numbers = &p->constant[word < p->words ? dhowi_word_constant(p->word[word]) : 0];
    if (op == DHOWI_MAP_RELU) return (bounds){true, 0, INFINITY};
    if (op == DHOWI_MAP_CLIP) return (bounds){true, numbers[0], numbers[1]};
    return (bounds){0};
}

/* What scales and shifts behind bounds, each the same number for all, does as well before them:
 * max(x, 0) s + t is max(x s + t, t), or the least of both where s is negative. False where it does
 * not: x becomes no number, or what is known is one for each channel. */
static bool move_bounds(bounds *of, const dhowi_by_channel *scale, const dhowi_by_channel *shift) {
    const double s = scale->found ? scale->number : 1, t = shift->found ? shift->number : 0,
                 low = of->low * s + t, high = of->high * s + t;
    if ((scale->found && scale->ref >= 0) || (shift->found && shift->ref >= 0) || s == 0 ||
        !isfinite(s) || !isfinite(t) || isnan(low) || isnan(high))
        return false;
    const bool turned = DHOWI_GUARD(bounds_not_turned, s < 0);
    of->low = turned ? high : low;
    of->high = turned ? low : high;
    return true;
}

/* Puts bounds into the place of an instruction; false where there is no room for their numbers. */
static bool put_bounds(dhowi_program *p, uint32_t word, const bounds *of) {
    const bool relu = of->low == 0 && of->high == (double)INFINITY;
    dhowi_program changed = *p;
    changed.words = word;
    if (!dhowi_program_constants(&changed, relu ? DHOWI_MAP_RELU : DHOWI_MAP_CLIP, relu ? 0 : 2,
                                 of->low, of->high))
        return false;
    changed.words = p->words;
    *p = changed;
    return true;
}

dhow_status dhowi_fold_into_weights(dhowi_fuser *f, dhowi_step *s, bool *changed) {
    dhowi_lowering *b = f->b;
    dhowi_step *q = dhowi_next_map(f, s);
    *changed = false;
    if (q == NULL || b->items[s->in[1]].tensor == NULL ||
        s->attrs.activation.kind != DHOW_ACTIVATION_NONE || s->in[3] >= 0 ||
        (s->in[2] >= 0 && b->items[s->in[2]].tensor == NULL))
        return DHOW_OK;
    bool conv = s->op == DHOWI_OP_conv2d || s->op == DHOWI_OP_conv3d,
         scalable = conv || b->items[s->in[1]].desc.rank == 2;
    const dhowi_tensor_desc *y = &b->items[s->out].desc;
    int32_t axis = conv ? 1 : y->rank - 1;
    int64_t n = y->shape[axis];
    dhowi_program *p = &q->attrs.program;
    bounds within = bounds_at(p, 1);
    uint32_t own = dhowi_word_source(p->word[0]), first = within.found ? 2 : 1, words = 0;
    const dhowi_by_channel scale =
        scalable ? dhowi_by_channel_at(b, q, first, DHOWI_MAP_MUL, axis, n) : (dhowi_by_channel){0};
    if (scale.found) words++;
    const dhowi_by_channel shift = dhowi_by_channel_at(b, q, first + words, DHOWI_MAP_ADD, axis, n);
    if (shift.found) words++;
    const bool weights = conv || scale.found; /* else a bias where there is none */
    if (words == 0 || !DHOWI_GUARD(folded_and_read_again, !dhowi_is_used(p, 1, own)) ||
        (!weights && s->in[2] >= 0) ||
        (within.found &&
         (!move_bounds(&within, &scale, &shift) || !put_bounds(p, first + words - 1, &within))))
        return DHOW_OK;
    DHOWI_TRY(fold_freely(b, s, &scale, &shift, n));
    take_words(q, words);
    if (p->words == 1) (void)dhowi_take_over(s, q);
    *changed = true;
    return DHOW_OK;
}
