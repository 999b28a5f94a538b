/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise steps and copies that read and write codes.
 */
#include <string.h>

#include "base/errors/planted.h"
#include "base/memory/size.h"
#include "model/codes/codes.h"

/* A map_codes of one operand that loads it and does nothing more. */
static bool only_loads(const dhowi_step *s) {
    return s->op == DHOWI_OP_map_codes && s->attrs.program.words == 1 && s->in[1] < 0;
}

bool dhowi_decodes(const dhowi_lowering *b, const dhowi_step *s, dhowi_code *out) {
    if (b->items[s->out].desc.dtype != DHOW_F32 || s->in[0] < 0) return false;
    const dhow_dtype from = b->items[s->in[0]].desc.dtype;
    *out = (dhowi_code){s->in[0], 0, 1};
    if (s->op == DHOWI_OP_cast) return dhowi_is_code(b, s->in[0]) || from == DHOW_I32;
    if (!only_loads(s) || from == DHOW_F32) return false;
    out->zero = s->attrs.coded.zero[0];
    out->scale = s->attrs.coded.scale[0];
    return true;
}

bool dhowi_encodes(const dhowi_lowering *b, const dhowi_step *s, dhowi_code *out) {
    if (!only_loads(s) || !dhowi_is_code(b, s->out) || b->items[s->in[0]].desc.dtype != DHOW_F32)
        return false;
    *out = (dhowi_code){s->out, s->attrs.coded.zero[DHOWI_MAP_OPERANDS],
                        s->attrs.coded.scale[DHOWI_MAP_OPERANDS]};
    return true;
}

/* Whether a program ends with whole numbers within the range of a type, which a cast keeps:
 * rounded, then perhaps shifted by codes as they are, then held. */
static bool ends_whole(const dhowi_lowering *b, const dhowi_step *s, dhow_dtype to) {
    const dhowi_program *p = &s->attrs.program;
    const double low = to == DHOW_U8 ? 0 : -128, high = to == DHOW_U8 ? 255 : 127;
    if (s->op != DHOWI_OP_map_codes || p->words < 3) return false;
    const uint32_t clip = p->word[p->words - 1], shift = p->word[p->words - 2];
    const double *held = &p->constant[dhowi_word_constant(clip)];
    if (dhowi_word_op(clip) != DHOWI_MAP_CLIP || held[0] != low || held[1] != high) return false;
    if (dhowi_word_op(shift) == DHOWI_MAP_ROUND) return true;
    const uint32_t source = dhowi_word_source(shift);
    return dhowi_word_op(shift) == DHOWI_MAP_ADD && source < DHOWI_MAP_CONSTANT &&
           b->items[s->in[source]].desc.dtype != DHOW_F32 && s->attrs.coded.scale[source] == 1 &&
           dhowi_word_op(p->word[p->words - 3]) == DHOWI_MAP_ROUND;
}

/* A map or a copy of f32 as one that may read and write codes; others stay. */
static bool make_coded(const dhowi_lowering *b, dhowi_step *s) {
    static const float ones[DHOWI_MAP_OPERANDS + 1] = {1, 1, 1, 1, 1};
    const bool copies = s->op == DHOWI_OP_copy;
    if (s->op == DHOWI_OP_map_codes) return true;
    if ((!copies && s->op != DHOWI_OP_map) || b->items[s->out].desc.dtype != DHOW_F32 ||
        (copies && !dhowi_same_shape(b, s->in[0], s->out)))
        return false;
    dhowi_program program = {0};
    if (copies)
        (void)dhowi_program_add(&program, DHOWI_MAP_LOAD, 0);
    else
        program = s->attrs.program;
    memset(&s->attrs.coded, 0, sizeof s->attrs.coded);
    s->attrs.coded.program = program;
    memcpy(s->attrs.coded.scale, ones, sizeof ones);
    s->op = DHOWI_OP_map_codes;
    return true;
}

/* What only moves codes is a copy of them. */
static void unmake_coded(const dhowi_lowering *b, dhowi_step *s) {
    const dhowi_coded *c = &s->attrs.coded;
    const int last = DHOWI_MAP_OPERANDS;
    if (only_loads(s) && dhowi_is_code(b, s->out) && dhowi_same_shape(b, s->in[0], s->out) &&
        DHOWI_GUARD(copy_of_other_codes,
                    c->scale[0] == c->scale[last] && c->zero[0] == c->zero[last]))
        s->op = DHOWI_OP_copy;
}

/* ---- reading ---- */

/* What the elements of an f32 item are codes of, in the item's order. */
static dhow_status codes_behind(const dhowi_finder *f, int32_t ref, dhowi_code *out, bool *found) {
    dhowi_lowering *b = f->b;
    const dhowi_item item = b->items[ref];
    const int32_t at = item.tensor == NULL ? dhowi_writer_of(f, ref) : -1;
    *found = at >= 0 && item.desc.dtype == DHOW_F32 && dhowi_decodes(b, &b->steps[at], out) &&
             b->items[out->codes].tensor == NULL;
    if (!*found || dhowi_same_item(b, ref, b->steps[at].out)) return DHOW_OK;
    *found = dhowi_is_whole(b, b->steps[at].out) && dhowi_is_whole(b, out->codes);
    if (!*found) return DHOW_OK;
    return dhowi_view(b, out->codes, item.desc.rank, item.desc.shape, item.strides, item.offset,
                      &out->codes);
}

static dhow_status read_codes(const dhowi_finder *f, dhowi_step *s) {
    dhowi_lowering *b = f->b;
    dhowi_step changed = *s;
    bool any = false;
    for (int k = 0; k < DHOWI_MAP_OPERANDS && s->in[k] >= 0; k++) {
        dhowi_code code;
        bool found;
        DHOWI_TRY(codes_behind(f, s->in[k], &code, &found));
        if (!found || !make_coded(b, &changed)) continue;
        changed.in[k] = code.codes;
        changed.attrs.coded.zero[k] = code.zero;
        changed.attrs.coded.scale[k] = code.scale;
        any = true;
    }
    if (!any) return DHOW_OK;
    unmake_coded(b, &changed);
    *s = changed;
    return DHOW_OK;
}

dhow_status dhowi_read_codes(dhowi_lowering *b, uint32_t first_step) {
    dhowi_finder f;
    dhow_status status = dhowi_finder_begin(&f, b, first_step);
    for (uint32_t i = first_step; i < b->step_count && status == DHOW_OK; i++) {
        dhowi_step *s = &b->steps[i];
        if (s->op == DHOWI_OP_map || s->op == DHOWI_OP_copy || s->op == DHOWI_OP_map_codes)
            status = read_codes(&f, s);
    }
    dhowi_finder_end(&f);
    return status;
}

/* ---- writing ---- */

enum { MOST_WRITERS = 64 };

/* The steps that write what an item is all of, each of which could write codes in its place. */
static bool find_writers(const dhowi_finder *f, uint32_t first_step, uint32_t reader,
                         uint32_t writers[MOST_WRITERS], uint32_t *count) {
    const dhowi_lowering *b = f->b;
    const int32_t buffer = b->items[b->steps[reader].in[0]].buffer;
    const uint32_t wanted = f->of[buffer].writes;
    *count = 0;
    if (wanted > MOST_WRITERS) return false;
    for (uint32_t i = reader; i-- > first_step && *count < wanted;) {
        dhowi_step s = b->steps[i];
        if (dhowi_is_removed(&s)) continue;
        if (s.second >= 0 && b->items[s.second].buffer == buffer) return false;
        if (b->items[s.out].tensor != NULL || b->items[s.out].buffer != buffer) continue;
        if (!make_coded(b, &s)) return false;
        writers[(*count)++] = i;
    }
    return *count == wanted;
}

/* The f32 that a step makes codes of is written by others, which write codes then. */
static dhow_status write_codes(const dhowi_finder *f, uint32_t first_step, uint32_t at,
                               bool *changed) {
    dhowi_lowering *b = f->b;
    const dhowi_step e = b->steps[at];
    uint32_t writers[MOST_WRITERS], count;
    dhowi_code code;
    const bool casts = e.op == DHOWI_OP_cast && dhowi_is_code(b, e.out) &&
                       b->items[e.in[0]].desc.dtype == DHOW_F32;
    if (casts) code = (dhowi_code){e.out, 0, 1};
    if ((!casts && !dhowi_encodes(b, &e, &code)) || b->items[e.in[0]].tensor != NULL ||
        !dhowi_is_whole(b, e.in[0]) || !dhowi_is_whole(b, e.out))
        return DHOW_OK;
    const int32_t buffer = b->items[e.in[0]].buffer;
    const dhowi_traffic *t = &f->of[buffer];
    if (!DHOWI_GUARD(encoded_and_read_again, t->reads == 1) || b->buffers[buffer].external != 0 ||
        !find_writers(f, first_step, at, writers, &count) || count == 0)
        return DHOW_OK;
    for (uint32_t i = 0; i < count; i++) {
        if (casts && !ends_whole(b, &b->steps[writers[i]], b->items[e.out].desc.dtype))
            return DHOW_OK;
    }
    for (uint32_t i = 0; i < count; i++) {
        dhowi_step *s = &b->steps[writers[i]];
        const dhowi_item out = b->items[s->out];
        int32_t to = e.out;
        if (!dhowi_same_item(b, s->out, e.in[0]))
            DHOWI_TRY(
                dhowi_view(b, e.out, out.desc.rank, out.desc.shape, out.strides, out.offset, &to));
        (void)make_coded(b, s);
        s->out = to;
        s->attrs.coded.zero[DHOWI_MAP_OPERANDS] = code.zero;
        s->attrs.coded.scale[DHOWI_MAP_OPERANDS] = code.scale;
        unmake_coded(b, s);
    }
    dhowi_remove_step(&b->steps[at]);
    *changed = true;
    return DHOW_OK;
}

dhow_status dhowi_write_codes(dhowi_lowering *b, uint32_t first_step, bool *changed) {
    dhowi_finder f;
    dhow_status status = dhowi_finder_begin(&f, b, first_step);
    for (uint32_t i = first_step; i < b->step_count && status == DHOW_OK; i++)
        if (!dhowi_is_removed(&b->steps[i])) status = write_codes(&f, first_step, i, changed);
    dhowi_finder_end(&f);
    return status;
}

/* ---- means ---- */

static dhow_status average_codes(const dhowi_finder *f, dhowi_step *s) {
    enum { MOST = 1 << 23 }; /* as the kernel has it */
    dhowi_lowering *b = f->b;
    const dhowi_tensor_desc x = b->items[s->in[0]].desc;
    dhowi_code code;
    bool found;
    if (x.rank != 3 || s->attrs.dim != 1 || x.shape[1] < 1 || x.shape[1] > MOST) return DHOW_OK;
    DHOWI_TRY(codes_behind(f, s->in[0], &code, &found));
    if (!found || !dhowi_is_code(b, code.codes) || !b->items[code.codes].contiguous) return DHOW_OK;
    s->op = DHOWI_OP_mean_codes;
    s->in[0] = code.codes;
    s->attrs.coded = (dhowi_coded){.scale = {code.scale}, .zero = {code.zero}};
    return DHOW_OK;
}

dhow_status dhowi_average_codes(dhowi_lowering *b, uint32_t first_step) {
    dhowi_finder f;
    if (!dhowi_averages_codes(b->device)) return DHOW_OK;
    dhow_status status = dhowi_finder_begin(&f, b, first_step);
    for (uint32_t i = first_step; i < b->step_count && status == DHOW_OK; i++)
        if (b->steps[i].op == DHOWI_OP_reduce_mean) status = average_codes(&f, &b->steps[i]);
    dhowi_finder_end(&f);
    return status;
}

/* ---- pools ---- */

/* Whether each window sees an image's pixel: one that does not is 0. */
static bool sees_pixels(const dhowi_lowering *b, const dhowi_step *s) {
    const dhow_window *w = &s->attrs.window;
    const int64_t *x = b->items[s->in[0]].desc.shape, *y = b->items[s->out].desc.shape;
    for (int i = 0; i < 2; i++) {
        const int64_t stride = DHOWI_MAX(w->stride[i], (int64_t)1);
        if (w->pad[i] >= w->kernel[i] || (y[2 + i] - 1) * stride - w->pad[i] >= x[2 + i])
            return false;
    }
    return true;
}

static dhow_status pool_codes(const dhowi_finder *f, dhowi_step *s) {
    dhowi_lowering *b = f->b;
    dhowi_code from, to;
    bool found;
    if (b->items[s->out].tensor != NULL || !dhowi_is_whole(b, s->out)) return DHOW_OK;
    const dhowi_traffic *t = &f->of[b->items[s->out].buffer];
    if (t->reads != 1 || b->buffers[b->items[s->out].buffer].external != 0 ||
        !dhowi_encodes(b, &b->steps[t->reader], &to) ||
        !dhowi_same_item(b, b->steps[t->reader].in[0], s->out) || !sees_pixels(b, s))
        return DHOW_OK;
    DHOWI_TRY(codes_behind(f, s->in[0], &from, &found));
    if (!found || !b->items[from.codes].contiguous ||
        dhowi_op_supported(dhowi_op_of(DHOWI_OP_pool_blocks), b->items[from.codes].desc.dtype,
                           b->device) != DHOW_OK ||
        from.scale != to.scale || from.zero != to.zero ||
        b->items[from.codes].desc.dtype != b->items[to.codes].desc.dtype)
        return DHOW_OK;
    s->op = DHOWI_OP_pool_blocks;
    s->attrs.dim = 0;
    for (int i = 0; i < 2; i++) {
        if (s->attrs.window.stride[i] == 0) s->attrs.window.stride[i] = 1;
    }
    s->in[0] = from.codes;
    s->out = to.codes;
    dhowi_remove_step(&b->steps[t->reader]);
    return DHOW_OK;
}

dhow_status dhowi_pool_codes(dhowi_lowering *b, uint32_t first_step) {
    dhowi_finder f;
    dhow_status status = dhowi_finder_begin(&f, b, first_step);
    for (uint32_t i = first_step; i < b->step_count && status == DHOW_OK; i++)
        if (b->steps[i].op == DHOWI_OP_maxpool2d) status = pool_codes(&f, &b->steps[i]);
    dhowi_finder_end(&f);
    return status;
}
