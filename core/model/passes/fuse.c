/* SPDX-License-Identifier: Apache-2.0
 *
 * Joining steps: scales and biases go into the weights before them, elementwise chains become one
 * program, activations and residuals the end of a product. Everything is decided on steps, where
 * shapes and known values are at hand, so it does not matter what the graph called them.
 */
#include "model/passes/fuse.h"

#include <float.h>
#include <math.h>

#include "base/errors/planted.h"
#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "kernel/optimise.h"

/* ---- chains ---- */

static bool join_chain(dhowi_fuser *f, dhowi_step *p) {
    dhowi_lowering *b = f->b;
    dhowi_step joined;
    if (!dhowi_is_whole(b, p->out)) return false;
    const dhowi_readers *r = &f->readers[b->items[p->out].buffer];
    if (r->step < 0 || b->steps[r->step].op != DHOWI_OP_map) return false;
    dhowi_step *q = &b->steps[r->step];
    if (q == p || !dhowi_same_shape(b, p->out, q->out)) return false;
    for (uint32_t i = 0; i < dhowi_operands_of(q); i++) { /* no other view of the result */
        const dhowi_item *item = &b->items[q->in[i]];
        if (item->tensor == NULL && item->buffer == b->items[p->out].buffer &&
            !DHOWI_GUARD(join_beside_another_view, dhowi_same_item(b, q->in[i], p->out)))
            return false;
    }
    if (!dhowi_join_programs(b, p, q, &joined)) return false;
    *q = joined;
    dhowi_remove_step(p);
    return true;
}

/* ---- the end of a product ---- */

static uint32_t activation_of(dhowi_map_op op) {
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
        case DHOWI_MAP_HARD_SWISH:
            return DHOW_ACTIVATION_HARD_SWISH;
        case DHOWI_MAP_MISH:
            return DHOW_ACTIVATION_MISH;
        case DHOWI_MAP_LEAKY:
            return DHOW_ACTIVATION_LEAKY_RELU;
        case DHOWI_MAP_CLIP:
            return DHOW_ACTIVATION_CLIP;
        default:
            return DHOW_ACTIVATION_NONE;
    }
}

/* The activation that a program is, behind the load of its operand; kind NONE for any other. */
static dhowi_activation read_activation(const dhowi_step *q) {
    const dhowi_program *p = &q->attrs.program;
    const uint32_t own = dhowi_word_source(p->word[0]);
    dhowi_activation a = {0};
    if (p->words == 2) {
        const dhowi_map_op op = (dhowi_map_op)dhowi_word_op(p->word[1]);
        const double *numbers = &p->constant[dhowi_word_constant(p->word[1])];
        const uint32_t count = dhowi_map_constants(op);
        a.kind = activation_of(op);
        if (count > 0) a.alpha = (float)numbers[0];
        if (count > 1) a.beta = (float)numbers[1];
    }
    if (p->words == 3 && dhowi_word_op(p->word[1]) == DHOWI_MAP_SIGMOID &&
        dhowi_word_op(p->word[2]) == DHOWI_MAP_MUL &&
        DHOWI_GUARD(silu_of_another_value,
                    dhowi_operands_of(q) == 1 && dhowi_word_source(p->word[2]) == own))
        a.kind = DHOW_ACTIVATION_SILU;
    return a;
}

static bool takes_activation(const dhowi_lowering *b, const dhowi_step *s) {
    dhow_dtype dtype = b->items[s->out].desc.dtype;
    return dtype == DHOW_F32 || dtype == DHOW_F16 || dtype == DHOW_BF16;
}

/* Adds another operand of the same shape, then perhaps a ReLU. */
static bool absorb_residual(dhowi_fuser *f, dhowi_step *s) {
    dhowi_lowering *b = f->b;
    if (!dhowi_is_whole(b, s->out) || s->in[3] >= 0 || s->attrs.activation.kind != 0) return false;
    const dhowi_readers *r = &f->readers[b->items[s->out].buffer];
    if (r->step < 0 || r->count != 1 || b->steps[r->step].op != DHOWI_OP_map) return false;
    dhowi_step *q = &b->steps[r->step];
    const dhowi_program *p = &q->attrs.program;
    if (dhowi_operands_of(q) != 2 || p->words > 3 || p->words < 2 ||
        dhowi_word_op(p->word[0]) != DHOWI_MAP_LOAD || dhowi_word_op(p->word[1]) != DHOWI_MAP_ADD ||
        dhowi_word_source(p->word[0]) + dhowi_word_source(p->word[1]) != 1)
        return false;
    uint32_t own = dhowi_same_item(b, q->in[0], s->out) ? 0 : 1;
    int32_t other = q->in[1 - own];
    if (!dhowi_same_item(b, q->in[own], s->out) ||
        !DHOWI_GUARD(residual_of_another_shape, dhowi_same_shape(b, other, s->out)) ||
        !dhowi_same_shape(b, q->out, s->out) || !b->items[other].contiguous ||
        b->items[other].offset != 0 || b->items[other].tensor != NULL || !dhowi_is_whole(b, q->out))
        return false;
    if (p->words == 3 &&
        !DHOWI_GUARD(residual_and_anything, dhowi_word_op(p->word[2]) == DHOWI_MAP_RELU))
        return false;
    s->in[3] = other;
    if (p->words == 3) s->attrs.activation.kind = DHOW_ACTIVATION_RELU;
    (void)dhowi_take_over(s, q);
    return true;
}

static bool absorb_activation(dhowi_fuser *f, dhowi_step *s) {
    dhowi_step *q = dhowi_next_map(f, s);
    if (q == NULL || !DHOWI_GUARD(two_activations, s->attrs.activation.kind == 0) ||
        !takes_activation(f->b, s))
        return false;
    const dhowi_activation activation = read_activation(q);
    if (activation.kind == DHOW_ACTIVATION_NONE) return false;
    s->attrs.activation = activation;
    (void)dhowi_take_over(s, q);
    return true;
}

/* ---- the beginning of a convolution ---- */

/* The bound as elements of a type hold it. */
static float rounded(dhow_dtype dtype, float bound) {
    const int digits = dtype == DHOW_F16 ? 11 : dtype == DHOW_BF16 ? 8 : 24;
    const int least = dtype == DHOW_F16 ? -14 : -126;
    const double largest = dtype == DHOW_F16 ? 65504 : (double)FLT_MAX;
    if (bound == 0 || !isfinite(bound)) return bound;
    const int unit = DHOWI_MAX(ilogbf(bound), least) - (digits - 1);
    const double value = ldexp(rint(ldexp((double)bound, -unit)), unit);
    return fabs(value) > largest ? copysignf(INFINITY, bound) : (float)value;
}

static dhow_status takes(const dhowi_lowering *b, const dhowi_step *s, bool ends, bool *out) {
    return dhowi_conv_takes(b->device, &b->items[s->in[0]].desc, &b->items[s->in[1]].desc,
                            &s->attrs, s->in[2] >= 0, s->in[3] >= 0, dhowi_model_inside(b->model),
                            ends, out);
}

/* The convolution with a known weight that alone reads what s convolves and activates; NULL. */
static dhowi_step *next_convolution(dhowi_fuser *f, const dhowi_step *s) {
    dhowi_lowering *b = f->b;
    const uint32_t kind = s->attrs.activation.kind;
    if (s->op != DHOWI_OP_conv2d || !dhowi_is_whole(b, s->out) ||
        (kind != DHOW_ACTIVATION_RELU && kind != DHOW_ACTIVATION_CLIP))
        return NULL;
    const dhowi_readers *r = &f->readers[b->items[s->out].buffer];
    if (r->step < 0 || b->steps[r->step].op != DHOWI_OP_conv2d) return NULL;
    dhowi_step *q = &b->steps[r->step];
    const bool once = DHOWI_GUARD(activated_and_read_again, r->count == 1);
    return once && dhowi_same_item(b, q->in[0], s->out) && b->items[q->in[1]].tensor != NULL ? q
                                                                                             : NULL;
}

/* Where the library's convolution lacks the activation that ends it, and the one that reads the
 * result can do it while it reads: a 1x1 convolution and ReLU6, then one of each channel. */
static dhow_status start_convolution(dhowi_fuser *f, dhowi_step *s) {
    dhowi_step *q = next_convolution(f, s);
    bool later, already = false;
    if (q == NULL) return DHOW_OK;
    const dhow_dtype dtype = f->b->items[s->out].desc.dtype;
    dhowi_step changed = *q;
    changed.attrs.src_activation = s->attrs.activation;
    changed.attrs.src_activation.alpha = rounded(dtype, s->attrs.activation.alpha);
    changed.attrs.src_activation.beta = rounded(dtype, s->attrs.activation.beta);
    DHOWI_TRY(takes(f->b, &changed, false, &later));
    if (later) DHOWI_TRY(takes(f->b, s, true, &already));
    if (!later || already) return DHOW_OK;
    *q = changed;
    s->attrs.activation = (dhowi_activation){0};
    return DHOW_OK;
}

static dhow_status start_convolutions(dhowi_fuser *f) {
    dhowi_count_readers(f);
    for (uint32_t i = f->first; i < f->b->step_count; i++)
        DHOWI_TRY(start_convolution(f, &f->b->steps[i]));
    return DHOW_OK;
}

/* ---- all of it ---- */

static bool is_product(const dhowi_step *s) {
    return s->op == DHOWI_OP_conv2d || s->op == DHOWI_OP_matmul || s->op == DHOWI_OP_linear;
}

static dhow_status fold_all(dhowi_fuser *f, bool *changed) {
    dhowi_lowering *b = f->b;
    *changed = false;
    dhowi_count_readers(f);
    for (uint32_t i = f->first; i < b->step_count && dhowi_optimises(DHOWI_OPTIMISE_WEIGHTS); i++) {
        bool folded = false;
        if (is_product(&b->steps[i]) || b->steps[i].op == DHOWI_OP_conv3d)
            DHOWI_TRY(dhowi_fold_into_weights(f, &b->steps[i], &folded));
        *changed = *changed || folded;
    }
    return dhowi_optimises(DHOWI_OPTIMISE_BRANCHES) ? dhowi_merge_branches(f, changed) : DHOW_OK;
}

/* One walk over all steps. What a walk knows of readers goes stale as it joins, but only towards
 * caution: a removed step is no map, so nothing is joined to it. */
static dhow_status walk(dhowi_fuser *f, bool *changed) {
    dhowi_lowering *b = f->b;
    for (bool again = true; again; *changed = *changed || again) DHOWI_TRY(fold_all(f, &again));
    dhowi_count_readers(f);
    for (uint32_t i = f->first; i < b->step_count; i++) {
        dhowi_step *s = &b->steps[i];
        if (s->op != DHOWI_OP_map) continue;
        if (dhowi_optimises(DHOWI_OPTIMISE_NUMBERS)) DHOWI_TRY(dhowi_inline_numbers(f, s));
        if (dhowi_optimises(DHOWI_OPTIMISE_CHAINS) && join_chain(f, s)) *changed = true;
    }
    return DHOW_OK;
}

static bool end_products(dhowi_fuser *f) {
    dhowi_lowering *b = f->b;
    bool changed = false;
    dhowi_count_readers(f);
    for (uint32_t i = f->first; i < b->step_count; i++) {
        if (is_product(&b->steps[i]) &&
            (absorb_activation(f, &b->steps[i]) || absorb_residual(f, &b->steps[i])))
            changed = true;
    }
    return changed;
}

/* A function too long for one program: the second half reads x and what the first makes of it. */
static void recognise_halves(dhowi_fuser *f) {
    dhowi_lowering *b = f->b;
    dhowi_count_readers(f);
    for (uint32_t i = f->first; i < b->step_count; i++) {
        const dhowi_step *p = &b->steps[i];
        if (p->op != DHOWI_OP_map || dhowi_operands_of(p) != 1 || !dhowi_is_whole(b, p->out))
            continue;
        const dhowi_readers *r = &f->readers[b->items[p->out].buffer];
        if (r->step < 0 || b->steps[r->step].op != DHOWI_OP_map) continue;
        dhowi_step *q = &b->steps[r->step];
        uint32_t of_first = 0, count = dhowi_operands_of(q);
        int factor = dhowi_last_factor(q);
        bool fits = dhowi_same_shape(b, p->out, q->out) && dhowi_same_shape(b, p->in[0], q->out);
        for (uint32_t k = 0; k < count && fits; k++) {
            bool first = dhowi_same_item(b, q->in[k], p->out);
            const bool own = first || dhowi_same_item(b, q->in[k], p->in[0]);
            if (own && factor == (int)k) factor = -1;
            fits = own || DHOWI_GUARD(halves_of_two_values, factor == (int)k);
            of_first |= (uint32_t)first << k;
        }
        if (fits && dhowi_recognise_pair(p, q, of_first, factor, dhowi_written_dtype(b, q->out)))
            dhowi_remove_step(&b->steps[i]);
    }
}

static void recognise_activations(dhowi_fuser *f) {
    dhowi_lowering *b = f->b;
    for (uint32_t i = f->first; i < b->step_count; i++) {
        if (b->steps[i].op == DHOWI_OP_map)
            dhowi_recognise(&b->steps[i], dhowi_written_dtype(b, b->steps[i].out));
    }
    recognise_halves(f);
}

static dhow_status walk_all(dhowi_fuser *f) {
    enum { MAX_WALKS = 6 };
    for (int i = 0; i < MAX_WALKS; i++) {
        bool changed = false;
        DHOWI_TRY(walk(f, &changed));
        if (!changed) break;
    }
    return DHOW_OK;
}

static dhow_status join_all(dhowi_fuser *f) {
    dhowi_lowering *b = f->b;
    for (uint32_t i = f->first; i < b->step_count; i++) {
        if (b->steps[i].op != DHOWI_OP_map) continue;
        dhowi_merge_operands(b, &b->steps[i]);
        dhowi_load_result_first(b, &b->steps[i]);
    }
    DHOWI_TRY(walk_all(f));
    if (dhowi_optimises(DHOWI_OPTIMISE_PARTS)) {
        DHOWI_TRY(dhowi_map_parts(f));
        DHOWI_TRY(walk_all(f));
    }
    if (dhowi_optimises(DHOWI_OPTIMISE_ACTIVATIONS)) recognise_activations(f);
    for (int i = 0; i < 2 && dhowi_optimises(DHOWI_OPTIMISE_ENDS) && end_products(f); i++) continue;
    if (dhowi_optimises(DHOWI_OPTIMISE_STARTS)) DHOWI_TRY(start_convolutions(f));
    return dhowi_optimises(DHOWI_OPTIMISE_PRODUCTS) ? dhowi_merge_products(f) : DHOW_OK;
}

void dhowi_compact(dhowi_lowering *b, uint32_t first) {
    uint32_t kept = first;
    for (uint32_t i = first; i < b->step_count; i++) {
        if (!dhowi_is_removed(&b->steps[i])) b->steps[kept++] = b->steps[i];
    }
    b->step_count = kept;
}

dhow_status dhowi_fuse(dhowi_lowering *b, uint32_t first_step) {
    /* Folding weights adds items, never buffers: what is known is computed at once. */
    if (dhowi_optimises(DHOWI_OPTIMISE_NORMS)) DHOWI_TRY(dhowi_recognise_norms(b, first_step));
    if (dhowi_optimises(DHOWI_OPTIMISE_ATTENTION))
        DHOWI_TRY(dhowi_recognise_attention(b, first_step));
    if (dhowi_optimises(DHOWI_OPTIMISE_ROWS)) DHOWI_TRY(dhowi_lift_rows(b, first_step));
    dhowi_fuser f = {.b = b, .first = first_step};
    f.readers = dhowi_alloc_array((size_t)b->buffer_count + 1, sizeof *f.readers);
    if (f.readers == NULL) return dhowi_fail_memory("plan");
    b->node = NULL;
    if (dhowi_optimises(DHOWI_OPTIMISE_INTEGERS)) dhowi_remove_unread(&f);
    dhow_status status = join_all(&f);
    dhowi_free(f.readers);
    if (status == DHOW_OK && dhowi_optimises(DHOWI_OPTIMISE_OPERANDS))
        status = dhowi_join_rows(b, first_step);
    if (status == DHOW_OK) dhowi_compact(b, first_step);
    return status;
}
