/* SPDX-License-Identifier: Apache-2.0
 *
 * Channels in blocks: where a device's convolutions like [n, c/b, h, w, b] better, images keep that
 * form from one convolution to the next, through whatever in between can work on it. A value has up
 * to two forms; each is made when a step asks for it.
 */
#include <string.h>

#include "base/errors/planted.h"
#include "base/memory/alloc.h"
#include "base/memory/array.h"
#include "model/passes/images/images.h"

/* ---- steps ---- */

/* As it is, on plain images. */
static dhow_status keep(dhowi_blocker *k, const dhowi_step *s) {
    for (int i = 0; i < DHOWI_OP_MAX_INPUTS; i++) DHOWI_TRY(dhowi_want_plain(k, s->in[i]));
    DHOWI_TRY(dhowi_write_plain(k, s->out));
    DHOWI_TRY(dhowi_write_plain(k, s->second));
    return dhowi_append_step(k->b, s);
}

static dhow_status put(dhowi_blocker *k, const dhowi_step *s, int32_t out, int32_t blocks) {
    dhowi_step changed = *s;
    changed.out = blocks;
    DHOWI_TRY(dhowi_append_step(k->b, &changed));
    return dhowi_have_blocks(k, out, blocks);
}

static bool is_blocked_layout(uint32_t layout) {
    return layout == DHOW_LAYOUT_NHWC || layout == DHOW_LAYOUT_BLOCKS_4 ||
           layout == DHOW_LAYOUT_BLOCKS_8 || layout == DHOW_LAYOUT_BLOCKS_16;
}

/* The layouts for a convolution: what it likes best, if that is the model's form; else whether it
 * can do with that form. *dst is NCHW when it stays plain. */
static dhow_status layouts_of(dhowi_blocker *k, const dhowi_step *s, uint32_t *src, uint32_t *dst) {
    const dhowi_lowering *b = k->b;
    const dhowi_tensor_desc *x = &b->items[s->in[0]].desc, *w = &b->items[s->in[1]].desc;
    *src = *dst = DHOW_LAYOUT_ANY;
    DHOWI_TRY(dhowi_conv_layouts(b->device, x, w, &s->attrs, s->in[2] >= 0, false,
                                 dhowi_model_inside(b->model), src, dst));
    if (k->layout == 0 && is_blocked_layout(*dst)) k->layout = *dst;
    if (k->layout == 0 || (*dst == k->layout && *src == k->layout)) return DHOW_OK;
    /* One channel lies the same way in several layouts, and the plan may have meant another: ask
     * for the model's form by its name before anything else. */
    const uint32_t best_src = *src, best_dst = *dst;
    *src = *dst = k->layout;
    DHOWI_TRY(dhowi_conv_layouts(b->device, x, w, &s->attrs, s->in[2] >= 0, false,
                                 dhowi_model_inside(b->model), src, dst));
    bool images = x->shape[2] * x->shape[3] > 1;
    if (*dst == k->layout || (*dst == DHOW_LAYOUT_NCHW && *src == DHOW_LAYOUT_NCHW && !images)) {
        *src = *dst == k->layout ? k->layout : DHOW_LAYOUT_NCHW;
        return DHOW_OK;
    }
    *src = best_src;
    *dst = best_dst == k->layout && best_src == DHOW_LAYOUT_NCHW ? best_dst : DHOW_LAYOUT_NCHW;
    return DHOW_OK;
}

/* Whether there is a plan for just these layouts: the one that the step will ask for. Without it,
 * nothing could compute on blocks. */
static dhow_status is_planned(const dhowi_blocker *k, const dhowi_step *s, uint32_t src,
                              uint32_t dst, bool *planned) {
    const dhowi_lowering *b = k->b;
    const uint32_t own_src = src, own_dst = dst;
    DHOWI_TRY(dhowi_conv_layouts(b->device, &b->items[s->in[0]].desc, &b->items[s->in[1]].desc,
                                 &s->attrs, s->in[2] >= 0, s->in[3] >= 0,
                                 dhowi_model_inside(b->model), &src, &dst));
    *planned = src == own_src && dst == own_dst;
    return DHOW_OK;
}

/* Whether x is plain alone, and need not be turned: each channel has windows of its own, the device
 * is as fast with planes, and no other convolution would have the turned one, too. */
static dhow_status stays_plain(dhowi_blocker *k, const dhowi_step *s, bool *plain) {
    const dhowi_lowering *b = k->b;
    const dhowi_tensor_desc *x = &b->items[s->in[0]].desc, *w = &b->items[s->in[1]].desc;
    uint32_t src = DHOW_LAYOUT_NCHW, dst = DHOW_LAYOUT_ANY;
    dhowi_image_form *f;
    DHOWI_TRY(dhowi_form_of(k, s->in[0], &f));
    *plain = w->shape[1] == 1 && x->shape[1] > 1 && s->in[3] < 0 && f->blocks < 0 &&
             b->items[s->in[0]].tensor == NULL && k->convolved[b->items[s->in[0]].buffer] == 1 &&
             !dhowi_lies_in_nhwc(k, s->in[0]);
    if (!*plain) return DHOW_OK;
    DHOWI_TRY(dhowi_conv_layouts(b->device, x, w, &s->attrs, s->in[2] >= 0, false,
                                 dhowi_model_inside(b->model), &src, &dst));
    *plain = src == DHOW_LAYOUT_NCHW && dst == DHOW_LAYOUT_NCHW;
    return DHOW_OK;
}

static dhow_status block_conv(dhowi_blocker *k, const dhowi_step *s) {
    dhowi_lowering *b = k->b;
    dhowi_step changed = *s;
    uint32_t src, dst;
    int32_t blocks;
    bool fits = dhowi_has_blocks(k, s->in[0]) && dhowi_is_image(b, s->out) &&
                b->items[s->in[1]].tensor != NULL && b->items[s->in[1]].desc.rank == 4 &&
                (s->in[3] < 0 || dhowi_has_blocks(k, s->in[3]));
    if (!fits) return keep(k, s);
    DHOWI_TRY(layouts_of(k, s, &src, &dst));
    if (!is_blocked_layout(dst) || dst != k->layout || (src != DHOW_LAYOUT_NCHW && src != dst))
        return keep(k, s);
    DHOWI_TRY(is_planned(k, s, src, dst, &fits));
    if (!fits) return keep(k, s);
    DHOWI_TRY(stays_plain(k, s, &fits));
    if (fits) return keep(k, s);
    if (src == dst) {
        DHOWI_TRY(dhowi_want_own_blocks(k, s->in[0], &changed.in[0]));
    } else {
        DHOWI_TRY(dhowi_want_plain(k, s->in[0]));
    }
    if (s->in[3] >= 0) DHOWI_TRY(dhowi_want_own_blocks(k, s->in[3], &changed.in[3]));
    changed.attrs.layout = k->layout;
    DHOWI_TRY(dhowi_new_blocks(k, s->out, &blocks));
    return put(k, &changed, s->out, blocks);
}

/* Of bytes, whose channels lie innermost. */
static dhow_status block_integers(dhowi_blocker *k, const dhowi_step *s) {
    dhowi_lowering *b = k->b;
    dhowi_step changed = *s;
    int32_t blocks;
    if (k->layout != DHOW_LAYOUT_NHWC || !dhowi_has_blocks(k, s->in[0]) ||
        !dhowi_is_image(b, s->out) || (s->in[3] >= 0 && !dhowi_has_blocks(k, s->in[3])))
        return keep(k, s);
    DHOWI_TRY(dhowi_want_own_blocks(k, s->in[0], &changed.in[0]));
    DHOWI_TRY(dhowi_want_plain(k, s->in[2]));
    if (s->in[3] >= 0) DHOWI_TRY(dhowi_want_own_blocks(k, s->in[3], &changed.in[3]));
    changed.attrs.layout = k->layout;
    DHOWI_TRY(dhowi_new_blocks(k, s->out, &blocks));
    return put(k, &changed, s->out, blocks);
}

/* An operand with one value for all pixels of a channel, or for all channels of a pixel, as blocks
 * see it. */
static bool even_operand(const dhowi_blocker *k, int32_t ref, int64_t shape[5],
                         int64_t strides[5]) {
    const dhowi_item *item = &k->b->items[ref];
    int64_t own[4] = {1, 1, 1, 1}, step[4] = {0};
    if (item->desc.rank > 4) return false;
    for (int32_t i = 0; i < item->desc.rank; i++) {
        own[4 - item->desc.rank + i] = item->desc.shape[i];
        step[4 - item->desc.rank + i] = item->strides[i];
    }
    if (own[1] != 1 && (own[2] != 1 || own[3] != 1)) return false;
    const int64_t block = own[1] == 1 ? 1 : dhowi_block_of(k, own[1]);
    const bool same = DHOWI_GUARD(channels_of_the_first_block, own[1] == block);
    const int64_t s[] = {own[0], own[1] / block, own[2], own[3], block},
                  t[] = {step[0], same ? 0 : step[1] * block, step[2], step[3], step[1]};
    memcpy(shape, s, sizeof s);
    memcpy(strides, t, sizeof t);
    return true;
}

static bool same_image(const dhowi_blocker *k, int32_t x, int32_t y) {
    const dhowi_item *items = k->b->items;
    return items[x].tensor == NULL && dhowi_has_blocks(k, x) &&
           dhowi_shape_equal(4, items[x].desc.shape, 4, items[y].desc.shape);
}

static dhow_status map_operand(dhowi_blocker *k, int32_t ref, int32_t image, int32_t *out) {
    int64_t shape[5], strides[5];
    if (same_image(k, ref, image)) return dhowi_want_blocks(k, ref, out);
    DHOWI_TRY(dhowi_want_plain(k, ref));
    (void)even_operand(k, ref, shape, strides);
    return dhowi_view(k->b, ref, 5, shape, strides, k->b->items[ref].offset, out);
}

/* Elementwise over images of one shape, and with numbers per channel or pixel. A padded last block
 * would hold zeros where maps make others. */
static dhow_status block_map(dhowi_blocker *k, const dhowi_step *s) {
    dhowi_lowering *b = k->b;
    dhowi_step changed = *s;
    int64_t shape[5], strides[5];
    bool any = false;
    bool fits =
        dhowi_is_image(b, s->out) &&
        b->items[s->out].desc.shape[1] % dhowi_block_of(k, b->items[s->out].desc.shape[1]) == 0;
    for (int i = 0; i < DHOWI_MAP_OPERANDS && s->in[i] >= 0 && fits; i++) {
        fits = same_image(k, s->in[i], s->out) || even_operand(k, s->in[i], shape, strides);
        any = any || (fits && same_image(k, s->in[i], s->out) && dhowi_is_blocked(k, s->in[i]));
    }
    if (!fits || !any) return keep(k, s);
    for (int i = 0; i < DHOWI_MAP_OPERANDS && s->in[i] >= 0; i++)
        DHOWI_TRY(map_operand(k, s->in[i], s->out, &changed.in[i]));
    int32_t blocks;
    DHOWI_TRY(dhowi_new_blocks(k, s->out, &blocks));
    return put(k, &changed, s->out, blocks);
}

/* Whether elements are all that is there of an image, in whichever order. */
static bool has_whole_blocks(dhowi_blocker *k, int32_t ref) {
    const int64_t channels = k->b->items[ref].desc.shape[1];
    return dhowi_is_blocked(k, ref) && channels % dhowi_block_of(k, channels) == 0;
}

/* The range of an image does not depend on its order. */
static dhow_status block_range(dhowi_blocker *k, const dhowi_step *s) {
    dhowi_step changed = *s;
    if (!has_whole_blocks(k, s->in[0])) return keep(k, s);
    DHOWI_TRY(dhowi_want_own_blocks(k, s->in[0], &changed.in[0]));
    return dhowi_append_step(k->b, &changed);
}

/* By one scale and zero point. */
static dhow_status block_quantize(dhowi_blocker *k, const dhowi_step *s) {
    dhowi_step changed = *s;
    int32_t blocks;
    if (!has_whole_blocks(k, s->in[0]) || !dhowi_is_image(k->b, s->out)) return keep(k, s);
    DHOWI_TRY(dhowi_want_own_blocks(k, s->in[0], &changed.in[0]));
    for (int i = 1; i < DHOWI_OP_MAX_INPUTS; i++) DHOWI_TRY(dhowi_want_plain(k, s->in[i]));
    DHOWI_TRY(dhowi_new_blocks(k, s->out, &blocks));
    return put(k, &changed, s->out, blocks);
}

static dhow_status block_pool(dhowi_blocker *k, const dhowi_step *s) {
    dhowi_lowering *b = k->b;
    dhowi_step changed = *s;
    dhow_dtype dtype = b->items[s->out].desc.dtype;
    int32_t blocks;
    if (!dhowi_is_blocked(k, s->in[0]) || !dhowi_is_image(b, s->out) || dtype == DHOW_F64)
        return keep(k, s);
    if (s->op != DHOWI_OP_pool_blocks) changed.attrs.dim = s->op == DHOWI_OP_maxpool2d ? 0 : 1;
    changed.op = DHOWI_OP_pool_blocks;
    for (int i = 0; i < 2; i++) {
        if (changed.attrs.window.stride[i] == 0) changed.attrs.window.stride[i] = 1;
    }
    DHOWI_TRY(dhowi_want_own_blocks(k, s->in[0], &changed.in[0]));
    DHOWI_TRY(dhowi_new_blocks(k, s->out, &blocks));
    return put(k, &changed, s->out, blocks);
}

/* x as [outer][n][inner] around height or width becomes the same around it in blocks. */
static bool blocked_run(const dhowi_blocker *k, const dhowi_tensor_desc *x, dhowi_axis_split *r) {
    const int64_t *e = x->shape, planes = e[0] * e[1], block = dhowi_block_of(k, e[1]);
    if (e[1] % block != 0) return false;
    if (r->outer == planes && r->n == e[2] && r->inner == e[3]) {
        r->outer = planes / block;
        r->inner = e[3] * block;
        return true;
    }
    if (r->outer == planes * e[2] && r->n == e[3] && r->inner == 1) {
        r->outer = planes / block * e[2];
        r->inner = block;
        return true;
    }
    return false;
}

static dhow_status block_resize(dhowi_blocker *k, const dhowi_step *s) {
    dhowi_lowering *b = k->b;
    dhowi_step changed = *s;
    int32_t blocks;
    if (!dhowi_is_blocked(k, s->in[0]) || !dhowi_is_image(b, s->out) ||
        !blocked_run(k, &b->items[s->in[0]].desc, &changed.attrs.split))
        return keep(k, s);
    DHOWI_TRY(dhowi_want_own_blocks(k, s->in[0], &changed.in[0]));
    DHOWI_TRY(dhowi_new_blocks(k, s->out, &blocks));
    return put(k, &changed, s->out, blocks);
}

/* Whether the largest or smallest element of a whole image is wanted, which order does not change.
 */
static bool is_extreme_of_all(const dhowi_blocker *k, const dhowi_step *s,
                              const dhowi_image_form *f) {
    const dhowi_lowering *b = k->b;
    const dhowi_tensor_desc *image = &b->items[f->plain].desc;
    return (s->op == DHOWI_OP_reduce_max || s->op == DHOWI_OP_reduce_min) &&
           dhowi_count_of(&b->items[s->out].desc) == 1 &&
           dhowi_count_of(&b->items[s->in[0]].desc) == dhowi_count_of(image) &&
           image->shape[1] % dhowi_block_of(k, image->shape[1]) == 0;
}

/* A reduction over all pixels gives the channels in their plain order. */
static dhow_status block_reduction(dhowi_blocker *k, const dhowi_step *s) {
    dhowi_lowering *b = k->b;
    const dhowi_item *item = &b->items[s->in[0]];
    dhowi_step changed = *s;
    dhowi_image_form *f;
    if (item->tensor != NULL || item->desc.rank != 3 || !item->contiguous || item->offset != 0)
        return keep(k, s);
    DHOWI_TRY(dhowi_form_of(k, s->in[0], &f));
    if (f->blocks < 0 || f->has_plain) return keep(k, s);
    const int64_t *e = b->items[f->plain].desc.shape;
    if (is_extreme_of_all(k, s, f)) {
        DHOWI_TRY(dhowi_reshape(b, f->blocks, 3, item->desc.shape, &changed.in[0]));
        return dhowi_append_step(k->b, &changed);
    }
    bool fits = DHOWI_GUARD(reduction_of_other_pixels, item->desc.shape[0] == e[0] * e[1] &&
                                                           item->desc.shape[1] == e[2] * e[3]) &&
                item->desc.shape[2] == 1 && e[1] % dhowi_block_of(k, e[1]) == 0 &&
                (s->op == DHOWI_OP_mean_codes || s->attrs.dim == 1);
    if (!fits) return keep(k, s);
    const int64_t block = dhowi_block_of(k, e[1]);
    const int64_t shape[] = {e[0] * e[1] / block, e[2] * e[3], block};
    DHOWI_TRY(dhowi_reshape(b, f->blocks, 3, shape, &changed.in[0]));
    return dhowi_append_step(k->b, &changed);
}

static dhow_status block_copy(dhowi_blocker *k, uint32_t at, uint32_t *used) {
    DHOWI_TRY(dhowi_copy_blocks(k, at, used));
    if (*used > 0) return DHOW_OK;
    *used = 1;
    return keep(k, &k->old[at]);
}

static dhow_status block_step(dhowi_blocker *k, uint32_t at, uint32_t *used) {
    const dhowi_step *s = &k->old[at];
    *used = 1;
    k->b->node = s->node;
    if (s->op == DHOWI_OP_conv2d) return block_conv(k, s);
    if (s->op == DHOWI_OP_conv2d_integer) return block_integers(k, s);
    if (k->layout == 0) return keep(k, s);
    switch (s->op) {
        case DHOWI_OP_map:
            return block_map(k, s);
        case DHOWI_OP_map_codes:
            return dhowi_is_image(k->b, s->out) || k->b->items[s->out].tensor != NULL
                       ? block_map(k, s)
                       : block_copy(k, at, used);
        case DHOWI_OP_range:
            return block_range(k, s);
        case DHOWI_OP_quantize:
            return block_quantize(k, s);
        case DHOWI_OP_maxpool2d:
        case DHOWI_OP_avgpool2d:
        case DHOWI_OP_pool_blocks: /* of bytes, plain until here */
            return block_pool(k, s);
        case DHOWI_OP_resample:
        case DHOWI_OP_gather_axis:
            return block_resize(k, s);
        case DHOWI_OP_mean_codes:
        case DHOWI_OP_reduce_mean:
        case DHOWI_OP_reduce_sum:
        case DHOWI_OP_reduce_max:
        case DHOWI_OP_reduce_min:
            return block_reduction(k, s);
        case DHOWI_OP_copy:
            return block_copy(k, at, used);
        default:
            return keep(k, s);
    }
}

static dhow_status block_all(dhowi_blocker *k) {
    for (uint32_t i = 0, used; i < k->old_count; i += used) DHOWI_TRY(block_step(k, i, &used));
    for (uint32_t i = 0; i < k->b->result_count; i++)
        DHOWI_TRY(dhowi_want_plain(k, k->b->results[i]));
    return DHOW_OK;
}

/* Takes the steps over, and notes the images of their buffers. */
static dhow_status begin(dhowi_blocker *k, uint32_t first_step) {
    dhowi_lowering *b = k->b;
    k->old = dhowi_alloc_array((size_t)k->old_count + 1, sizeof *k->old);
    k->images = dhowi_alloc_array((size_t)b->buffer_count + 1, sizeof *k->images);
    k->convolved = dhowi_alloc_array((size_t)b->buffer_count + 1, sizeof *k->convolved);
    if (k->old == NULL || k->images == NULL || k->convolved == NULL)
        return dhowi_fail_memory("plan");
    memcpy(k->old, b->steps + first_step, k->old_count * sizeof *k->old);
    b->step_count = first_step;
    for (uint32_t i = 0; i < b->buffer_count; i++) k->images[i] = -1;
    for (uint32_t i = 0; i < k->old_count; i++) {
        const dhowi_item *x = k->old[i].op == DHOWI_OP_conv2d ? &b->items[k->old[i].in[0]] : NULL;
        if (x != NULL && x->tensor == NULL) k->convolved[x->buffer]++;
    }
    for (uint32_t i = b->item_count; i-- > 0;) /* the first of each */
        if (dhowi_is_image(b, (int32_t)i)) k->images[b->items[i].buffer] = (int32_t)i;
    return DHOW_OK;
}

dhow_status dhowi_use_blocks(dhowi_lowering *b, uint32_t first_step) {
    bool any = false, integers = false;
    for (uint32_t i = first_step; i < b->step_count; i++) {
        any = any || b->steps[i].op == DHOWI_OP_conv2d;
        integers = integers || b->steps[i].op == DHOWI_OP_conv2d_integer;
    }
    if (!any && !integers) return DHOW_OK;
    dhowi_blocker k = {
        .b = b,
        .old_count = b->step_count - first_step,
        .layout = integers ? DHOW_LAYOUT_NHWC : 0}; /* which bytes cannot do without */
    dhow_status status = begin(&k, first_step);
    if (status == DHOW_OK) status = block_all(&k);
    dhowi_free(k.old);
    dhowi_free(k.images);
    dhowi_free(k.convolved);
    dhowi_free(k.forms);
    return status;
}
