/* SPDX-License-Identifier: Apache-2.0
 *
 * Networks in the form that they are trained in (RepVGG, MobileOne) add several convolutions of one
 * image, and the image itself with numbers by channel. All are linear, so that one convolution
 * computes the sum: its weight is the sum of theirs, with smaller windows within the largest one.
 */
#include <string.h>

#include "base/errors/planted.h"
#include "base/memory/size.h"
#include "model/lower/products/products.h"
#include "model/passes/fuse.h"

enum { MOST_TERMS = 16 };

/* What is added up in one step or several. */
typedef struct term {
    int32_t ref;
    bool minus;
} term;

typedef struct sum {
    uint32_t step; /* whose result it is */
    uint32_t count, inner_count;
    term of[MOST_TERMS];
    uint32_t inner[MOST_TERMS]; /* steps that add up a part of it */
} sum;

/* A term as a part of a convolution, with the steps that are no more then, -1 for none. */
typedef struct part {
    dhowi_by_channel scale, shift; /* found: the image itself, or one of them */
    int32_t step, before;
    dhowi_branch branch;
} part;

/* ---- terms ---- */

/* The step that makes a term for one reader alone; -1 for none. */
static int32_t maker_of(const dhowi_finder *f, int32_t ref) {
    const int32_t step = dhowi_writer_of(f, ref);
    const dhowi_lowering *b = f->b;
    return step >= 0 &&
                   DHOWI_GUARD(merged_and_read_again, f->of[b->items[ref].buffer].reads == 1) &&
                   dhowi_same_item(b, ref, b->steps[step].out)
               ? step
               : -1;
}

/* A map that adds and subtracts its operands, of which none is a number. */
static bool is_sum(const dhowi_lowering *b, const dhowi_step *s) {
    const dhowi_program *p = &s->attrs.program;
    if (s->op != DHOWI_OP_map || s->on_host || p->words < 2 ||
        b->items[s->out].desc.dtype != DHOW_F32 || !dhowi_is_whole(b, s->out))
        return false;
    for (uint32_t i = 0; i < p->words; i++) {
        const uint32_t op = dhowi_word_op(p->word[i]);
        const bool adds =
            i == 0 ? op == DHOWI_MAP_LOAD : op == DHOWI_MAP_ADD || op == DHOWI_MAP_SUB;
        if (!adds || dhowi_word_source(p->word[i]) >= DHOWI_MAP_CONSTANT) return false;
    }
    return true;
}

/* The operands of a sum take the place of a term. */
static bool put_operands(const dhowi_step *s, uint32_t at, sum *out) {
    const dhowi_program *p = &s->attrs.program;
    const bool minus = out->of[at].minus;
    if (out->count + p->words - 1 > MOST_TERMS) return false;
    for (uint32_t i = 0; i < p->words; i++) {
        const bool off = dhowi_word_op(p->word[i]) == DHOWI_MAP_SUB;
        const term t = {s->in[dhowi_word_source(p->word[i])], minus != off};
        out->of[i == 0 ? at : out->count++] = t;
    }
    return true;
}

static bool find_terms(const dhowi_finder *f, uint32_t step, sum *out) {
    const dhowi_lowering *b = f->b;
    const int32_t y = b->steps[step].out;
    *out = (sum){.step = step, .count = 1, .of = {{y, false}}};
    if (!is_sum(b, &b->steps[step]) || !put_operands(&b->steps[step], 0, out)) return false;
    for (uint32_t i = 0; i < out->count;) {
        const int32_t maker = maker_of(f, out->of[i].ref);
        if (maker < 0 || !is_sum(b, &b->steps[maker]) || !dhowi_same_shape(b, out->of[i].ref, y)) {
            i++;
            continue;
        }
        if (!put_operands(&b->steps[maker], i, out)) return false;
        out->inner[out->inner_count++] = (uint32_t)maker;
    }
    return true;
}

/* ---- windows ---- */

/* Of models built in C, where 0 stands for 1. */
static int64_t one_or_more(int64_t n) { return DHOWI_MAX(n, (int64_t)1); }

static dhowi_window3d window_of(const dhowi_lowering *b, const dhowi_step *s) {
    if (s->op == DHOWI_OP_conv3d) return s->attrs.space;
    const dhow_window *w = &s->attrs.window;
    const int64_t *kernel = b->items[s->in[1]].desc.shape + 2;
    return (dhowi_window3d){
        .kernel = {1, kernel[0], kernel[1]},
        .stride = {1, one_or_more(w->stride[0]), one_or_more(w->stride[1])},
        .dilation = {1, one_or_more(w->dilation[0]), one_or_more(w->dilation[1])},
        .before = {0, w->pad[0], w->pad[1]},
        .groups = one_or_more(w->groups)};
}

/* Whether each pixel of a window is one of a larger one, which begins at `at`. */
static bool lies_within(const dhowi_window3d *large, const dhowi_window3d *own, int64_t at[3]) {
    for (int i = 0; i < 3; i++) {
        const int64_t apart = large->before[i] - own->before[i], dilation = large->dilation[i];
        at[i] = apart / dilation;
        if (!DHOWI_GUARD(merged_with_other_steps,
                         large->stride[i] == own->stride[i] && apart % dilation == 0 &&
                             (own->kernel[i] == 1 || own->dilation[i] == dilation)) ||
            at[i] < 0 || at[i] + own->kernel[i] > large->kernel[i])
            return false;
    }
    return true;
}

/* ---- parts ---- */

static bool is_plain(const dhowi_lowering *b, const dhowi_step *s) {
    const dhowi_attrs *a = &s->attrs;
    return (s->op == DHOWI_OP_conv2d || s->op == DHOWI_OP_conv3d) && !s->on_host &&
           b->items[s->in[1]].tensor != NULL && b->items[s->in[1]].contiguous && s->in[3] < 0 &&
           (s->in[2] < 0 || (b->items[s->in[2]].tensor != NULL && b->items[s->in[2]].contiguous)) &&
           a->activation.kind == DHOW_ACTIVATION_NONE &&
           a->src_activation.kind == DHOW_ACTIVATION_NONE && a->layout == 0 && !a->exact_sums;
}

static bool is_image_of(const dhowi_lowering *b, const dhowi_step *lead, int32_t ref) {
    return DHOWI_GUARD(merged_of_another_image, dhowi_same_elements(b, ref, lead->in[0])) &&
           dhowi_same_shape(b, ref, lead->in[0]);
}

static bool is_convolution(const dhowi_lowering *b, const dhowi_step *lead, int32_t step,
                           part *out) {
    const dhowi_step *s = &b->steps[step];
    if (s->op != lead->op || !is_plain(b, s) || !is_image_of(b, lead, s->in[0]) ||
        !dhowi_same_shape(b, s->out, lead->out))
        return false;
    const dhowi_window3d large = window_of(b, lead), own = window_of(b, s);
    out->branch.weight = s->in[1];
    out->branch.bias = s->in[2];
    return DHOWI_GUARD(merged_groups, large.groups == own.groups) &&
           lies_within(&large, &own, out->branch.at);
}

/* The image times numbers by channel, plus others, in one map or in two. */
static bool is_scaled(const dhowi_finder *f, const dhowi_step *lead, part *out) {
    dhowi_lowering *b = f->b;
    dhowi_step s = b->steps[out->step];
    const dhowi_tensor_desc *x = &b->items[lead->in[0]].desc;
    if (s.op != DHOWI_OP_map || s.on_host || !dhowi_same_shape(b, s.out, lead->out) ||
        dhowi_word_op(s.attrs.program.word[0]) != DHOWI_MAP_LOAD)
        return false;
    uint32_t first = dhowi_word_source(s.attrs.program.word[0]), words = 1;
    out->before = first < DHOWI_MAP_CONSTANT ? maker_of(f, s.in[first]) : -1;
    if (out->before >= 0) {
        const dhowi_step *p = &b->steps[out->before];
        dhowi_step joined;
        if (p->op != DHOWI_OP_map || p->on_host || !dhowi_join_programs(b, p, &s, &joined))
            out->before = -1; /* which the image is, then */
        else
            s = joined;
    }
    first = dhowi_word_source(s.attrs.program.word[0]);
    if (first >= DHOWI_MAP_CONSTANT || !is_image_of(b, lead, s.in[first])) return false;
    out->scale = dhowi_by_channel_at(b, &s, words, DHOWI_MAP_MUL, 1, x->shape[1]);
    words += out->scale.found;
    out->shift = dhowi_by_channel_at(b, &s, words, DHOWI_MAP_ADD, 1, x->shape[1]);
    words += out->shift.found;
    return words == s.attrs.program.words;
}

/* The image itself goes beside others into a convolution of each channel by itself: elsewhere it is
 * as good as a residual, and sums lose less. */
static bool is_image(const dhowi_finder *f, const dhowi_step *lead, int32_t ref, part *out) {
    const dhowi_lowering *b = f->b;
    const dhowi_window3d large = window_of(b, lead);
    const dhowi_window3d own = {.kernel = {1, 1, 1}, .stride = {1, 1, 1}};
    if (!dhowi_same_shape(b, lead->in[0], lead->out) || !lies_within(&large, &own, out->branch.at))
        return false;
    if (!is_image_of(b, lead, ref)) return out->step >= 0 && is_scaled(f, lead, out);
    out->step = -1;
    return b->items[lead->in[1]].desc.shape[1] == 1;
}

static bool find_part(const dhowi_finder *f, const dhowi_step *lead, const term *t, part *out) {
    *out = (part){.step = maker_of(f, t->ref), .before = -1};
    out->branch =
        (dhowi_branch){.weight = -1, .bias = -1, .scale = -1, .shift = -1, .minus = t->minus};
    return (out->step >= 0 && is_convolution(f->b, lead, out->step, out)) ||
           is_image(f, lead, t->ref, out);
}

/* ---- the one convolution ---- */

/* Takes the parts of a lead, which is the first of them, out of the sum's terms. */
static uint32_t take_parts(const dhowi_finder *f, uint32_t lead, sum *s, part *out) {
    const dhowi_step *first = &f->b->steps[maker_of(f, s->of[lead].ref)];
    uint32_t left = 0, count = 1;
    (void)find_part(f, first, &s->of[lead], out);
    for (uint32_t i = 0; i < s->count; i++) {
        if (i == lead) continue;
        if (find_part(f, first, &s->of[i], &out[count]))
            count++;
        else
            s->of[left++] = s->of[i];
    }
    s->count = left;
    return count;
}

/* The parts of the convolution that takes most of the terms; 1 where none takes another one. */
static uint32_t find_parts(const dhowi_finder *f, sum *s, part *out) {
    const sum all = *s;
    uint32_t best = 1, count = 0;
    part tried[MOST_TERMS];
    for (uint32_t i = 0; i < all.count; i++) {
        const int32_t step = maker_of(f, all.of[i].ref);
        sum rest = all;
        if (step < 0 || all.of[i].minus || !is_plain(f->b, &f->b->steps[step])) continue;
        count = take_parts(f, i, &rest, tried);
        if (count <= best || (count == 2 && tried[1].step < 0)) continue; /* a residual */
        best = count;
        *s = rest;
        memcpy(out, tried, sizeof tried);
    }
    return best;
}

static dhow_status rows_of(dhowi_lowering *b, part *p, int64_t channels) {
    dhow_tensor *row;
    if (p->branch.weight >= 0) return DHOW_OK;
    if (!p->scale.found) p->scale = (dhowi_by_channel){true, -1, 1};
    DHOWI_TRY(dhowi_as_row(b, &p->scale, DHOW_F32, channels, &p->branch.scale));
    DHOWI_TRY(dhowi_as_row(b, &p->shift, DHOW_F32, channels, &p->branch.shift));
    DHOWI_TRY(dhowi_known_values(b, p->branch.scale, &row));
    return p->branch.shift < 0 ? DHOW_OK : dhowi_known_values(b, p->branch.shift, &row);
}

/* What is made is as large as what it replaces, so that the limit of host memory does not count it.
 */
static dhow_status sum_weights(dhowi_lowering *b, dhowi_step *s, part *parts, uint32_t count) {
    dhowi_branch of[MOST_TERMS];
    dhow_status status = DHOW_OK;
    b->free_of_limit = true;
    for (uint32_t i = 0; i < count && status == DHOW_OK; i++) {
        status = rows_of(b, &parts[i], b->items[s->in[0]].desc.shape[1]);
        of[i] = parts[i].branch;
    }
    b->free_of_limit = false;
    DHOWI_TRY(status);
    const dhowi_folding *f = dhowi_find_folding(b, s->node, of, count);
    DHOWI_TRY(dhowi_sum_branches(b, of, count, &s->in[1], &s->in[2]));
    if (f == NULL) {
        dhowi_keep_folding(b, s->node, of, count, s->in[1], s->in[2]);
        return DHOW_OK;
    }
    dhowi_replace_known(b, s->in[1], f->weight);
    if (s->in[2] >= 0) dhowi_replace_known(b, s->in[2], f->bias);
    return DHOW_OK;
}

static void remove_parts(dhowi_lowering *b, const sum *s, const part *parts, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        if (parts[i].step >= 0) dhowi_remove_step(&b->steps[parts[i].step]);
        if (parts[i].before >= 0) dhowi_remove_step(&b->steps[parts[i].before]);
    }
    for (uint32_t i = 0; i < s->inner_count; i++) dhowi_remove_step(&b->steps[s->inner[i]]);
}

static dhow_status merge(dhowi_lowering *b, const sum *s, part *parts, uint32_t count) {
    dhowi_step *lead = &b->steps[parts[0].step], *last = &b->steps[s->step], joined = *lead;
    DHOWI_TRY(sum_weights(b, &joined, parts, count));
    remove_parts(b, s, parts, count);
    *lead = joined;
    if (s->count == 0) {
        (void)dhowi_take_over(lead, last);
        return DHOW_OK;
    }
    last->attrs.program = (dhowi_program){0};
    (void)dhowi_program_add(&last->attrs.program, DHOWI_MAP_LOAD, 0);
    for (uint32_t i = 1; i < DHOWI_OP_MAX_INPUTS; i++) last->in[i] = -1;
    last->in[0] = joined.out;
    for (uint32_t i = 0; i < s->count; i++) {
        last->in[i + 1] = s->of[i].ref;
        (void)dhowi_program_add(&last->attrs.program,
                                s->of[i].minus ? DHOWI_MAP_SUB : DHOWI_MAP_ADD, (int)i + 1);
    }
    dhowi_merge_operands(b, last);
    return DHOW_OK;
}

static dhow_status merge_at(dhowi_finder *f, uint32_t step, bool *changed) {
    part parts[MOST_TERMS];
    sum s;
    *changed = false;
    if (!find_terms(f, step, &s)) return DHOW_OK;
    const uint32_t count = find_parts(f, &s, parts);
    if (count == 1 || s.count >= DHOWI_MAP_OPERANDS) return DHOW_OK;
    *changed = true;
    return merge(f->b, &s, parts, count);
}

dhow_status dhowi_merge_branches(dhowi_fuser *f, bool *changed) {
    dhowi_lowering *b = f->b;
    dhowi_finder finder;
    bool here = false;
    DHOWI_TRY(dhowi_finder_begin(&finder, b, f->first));
    dhow_status status = DHOW_OK;
    for (uint32_t i = b->step_count; i-- > f->first && status == DHOW_OK;) {
        status = merge_at(&finder, i, &here);
        if (!here || status != DHOW_OK) continue;
        *changed = true;
        dhowi_finder_end(&finder);
        status = dhowi_finder_begin(&finder, b, f->first);
    }
    dhowi_finder_end(&finder);
    return status;
}
