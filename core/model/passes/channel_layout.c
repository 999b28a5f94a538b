/* SPDX-License-Identifier: Apache-2.0
 *
 * Channels in blocks: where a device's convolutions like [n, c/b, h, w, b] better, images keep that
 * form from one convolution to the next, through whatever in between can work on it. A value has up
 * to two forms; each is made when a step asks for it.
 */
#include "model/passes/channel_layout.h"

#include <string.h>

#include "base/errors/planted.h"
#include "base/memory/alloc.h"
#include "base/memory/array.h"

/* ---- steps ---- */

static dhow_status append(dhowi_blocker *k, const dhowi_step *s) {
    dhowi_lowering *b = k->b;
    if (!dhowi_room((void **)&b->steps, b->step_count, &b->step_capacity, sizeof *b->steps))
        return dhowi_fail_memory("plan");
    b->steps[b->step_count++] = *s;
    return DHOW_OK;
}

/* As it is, on plain images. */
static dhow_status keep(dhowi_blocker *k, const dhowi_step *s) {
    for (int i = 0; i < DHOWI_OP_MAX_INPUTS; i++) DHOWI_TRY(dhowi_want_plain(k, s->in[i]));
    DHOWI_TRY(dhowi_write_plain(k, s->out));
    DHOWI_TRY(dhowi_write_plain(k, s->second));
    return append(k, s);
}

static dhow_status put(dhowi_blocker *k, const dhowi_step *s, int32_t out, int32_t blocks) {
    dhowi_step changed = *s;
    changed.out = blocks;
    DHOWI_TRY(append(k, &changed));
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
    *dst = best_dst == k->layout && best_src == DHOW_LAYOUT_NCHW && x->shape[1] > 1
               ? best_dst
               : DHOW_LAYOUT_NCHW;
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

/* An operand with one value for all pixels of a channel, or for all channels of a pixel, as NHWC
 * sees it. */
static bool even_operand(const dhowi_lowering *b, int32_t ref, int64_t shape[5],
                         int64_t strides[5]) {
    const dhowi_item *item = &b->items[ref];
    int64_t own[4] = {1, 1, 1, 1}, step[4] = {0};
    if (item->desc.rank > 4) return false;
    for (int32_t i = 0; i < item->desc.rank; i++) {
        own[4 - item->desc.rank + i] = item->desc.shape[i];
        step[4 - item->desc.rank + i] = item->strides[i];
    }
    if (own[1] != 1 && (own[2] != 1 || own[3] != 1)) return false;
    const int64_t s[] = {own[0], 1, own[2], own[3], own[1]},
                  t[] = {step[0], 0, step[2], step[3], step[1]};
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
    (void)even_operand(k->b, ref, shape, strides);
    return dhowi_view(k->b, ref, 5, shape, strides, k->b->items[ref].offset, out);
}

/* Elementwise over images of one shape, and in NHWC with numbers per channel. A padded last block
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
        fits = same_image(k, s->in[i], s->out) ||
               (k->layout == DHOW_LAYOUT_NHWC && even_operand(b, s->in[i], shape, strides));
        any = any || (fits && same_image(k, s->in[i], s->out) && dhowi_is_blocked(k, s->in[i]));
    }
    if (!fits || !any) return keep(k, s);
    for (int i = 0; i < DHOWI_MAP_OPERANDS && s->in[i] >= 0; i++)
        DHOWI_TRY(map_operand(k, s->in[i], s->out, &changed.in[i]));
    int32_t blocks;
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
        return append(k, &changed);
    }
    bool fits = DHOWI_GUARD(reduction_of_other_pixels, item->desc.shape[0] == e[0] * e[1] &&
                                                           item->desc.shape[1] == e[2] * e[3]) &&
                item->desc.shape[2] == 1 && e[1] % dhowi_block_of(k, e[1]) == 0 &&
                s->attrs.dim == 1;
    if (!fits) return keep(k, s);
    const int64_t block = dhowi_block_of(k, e[1]);
    const int64_t shape[] = {e[0] * e[1] / block, e[2] * e[3], block};
    DHOWI_TRY(dhowi_reshape(b, f->blocks, 3, shape, &changed.in[0]));
    return append(k, &changed);
}

/* Copies into parts of one image along the channels: a concatenation. */
typedef struct joint {
    uint32_t first, count;
    int32_t whole; /* the item of the image, -1 when it is none */
} joint;

/* A copy, or one that changes what bytes stand for. */
static bool is_part(const dhowi_step *s) {
    return s->op == DHOWI_OP_copy ||
           (s->op == DHOWI_OP_map_codes && s->attrs.program.words == 1 && s->in[1] < 0);
}

static joint find_joint(const dhowi_blocker *k, uint32_t at) {
    const dhowi_lowering *b = k->b;
    joint j = {at, 0, -1};
    int32_t buffer = b->items[k->old[at].out].buffer;
    int64_t channels = 0;
    j.whole = k->images[buffer];
    if (j.whole < 0) return j;
    const dhowi_item *whole = &b->items[j.whole];
    int64_t pixels = whole->desc.shape[2] * whole->desc.shape[3];
    for (uint32_t i = at; i < k->old_count && is_part(&k->old[i]); i++, j.count++) {
        const dhowi_item *out = &b->items[k->old[i].out], *in = &b->items[k->old[i].in[0]];
        if (out->tensor != NULL || out->buffer != buffer) break;
        bool fits = out->desc.rank == 4 && out->offset == channels * pixels &&
                    memcmp(out->strides, whole->strides, 4 * sizeof *out->strides) == 0 &&
                    DHOWI_GUARD(joint_of_some_images, out->desc.shape[0] == whole->desc.shape[0]) &&
                    memcmp(out->desc.shape + 2, whole->desc.shape + 2, 2 * sizeof(int64_t)) == 0 &&
                    dhowi_shape_equal(4, out->desc.shape, in->desc.rank, in->desc.shape) &&
                    out->desc.shape[1] % dhowi_block_of(k, out->desc.shape[1]) == 0 &&
                    in->tensor == NULL && dhowi_has_blocks(k, k->old[i].in[0]);
        if (!fits) {
            j.whole = -1;
            return j;
        }
        channels += out->desc.shape[1];
    }
    if (channels != whole->desc.shape[1]) j.whole = -1;
    return j;
}

static dhow_status block_concat(dhowi_blocker *k, uint32_t at, uint32_t *used) {
    dhowi_lowering *b = k->b;
    joint j = find_joint(k, at);
    bool any = false;
    int32_t blocks, part;
    int64_t first = 0;
    for (uint32_t i = at; i < at + j.count && j.whole >= 0; i++)
        any = any || dhowi_is_blocked(k, k->old[i].in[0]);
    *used = 1;
    if (j.whole < 0 || !any) return keep(k, &k->old[at]);
    DHOWI_TRY(dhowi_new_blocks(k, j.whole, &blocks));
    for (uint32_t i = at; i < at + j.count; i++) {
        int32_t from;
        DHOWI_TRY(dhowi_want_blocks(k, k->old[i].in[0], &from));
        int32_t dim = k->layout == DHOW_LAYOUT_NHWC ? 4 : 1;
        int64_t parts = b->items[from].desc.shape[dim];
        DHOWI_TRY(dhowi_narrow(b, blocks, dim, first, parts, 1, &part));
        b->node = k->old[i].node;
        DHOWI_TRY(dhowi_emit_into(b, k->old[i].op, &from, 1, &k->old[i].attrs, part));
        first += parts;
    }
    *used = j.count;
    return dhowi_have_blocks(k, j.whole, blocks);
}

/* A view of an image that runs over images and channels first and over all pixels last, as NHWC
 * has it: the pixels as one dimension, between those of images and those of channels. */
typedef struct pixel_view {
    int32_t images, rank; /* dimensions before the pixels, and all */
    int64_t shape[DHOW_MAX_RANK], strides[DHOW_MAX_RANK], offset;
} pixel_view;

/* How many of the last dimensions are the pixels; 0 for none. */
static int32_t pixel_dimensions(const dhowi_item *view, int64_t pixels) {
    int64_t dense = 1;
    for (int32_t i = view->desc.rank - 1; i >= 0 && dense < pixels; i--) {
        if (view->desc.shape[i] != 1 && view->strides[i] != dense) return 0;
        dense *= view->desc.shape[i];
        if (dense == pixels) return view->desc.rank - i;
    }
    return 0;
}

static bool read_pixel_view(const dhowi_item *view, const int64_t image[4], pixel_view *out) {
    const int64_t pixels = image[2] * image[3], all = image[1] * pixels;
    const int32_t leading = view->desc.rank - pixel_dimensions(view, pixels);
    int64_t channel = view->offset % all / pixels;
    if (leading == view->desc.rank || view->offset % pixels != 0) return false;
    *out = (pixel_view){.rank = leading + 1, .offset = view->offset - channel * (pixels - 1)};
    bool fits = true;
    for (int32_t i = 0; i < leading; i++) {
        const int64_t extent = view->desc.shape[i], stride = view->strides[i];
        const bool of_images = extent == 1 ? i == out->images : stride % all == 0;
        const int32_t at = of_images ? i : i + 1;
        fits = fits && (!of_images || i == out->images) && (of_images || stride % pixels == 0);
        out->images += of_images;
        out->shape[at] = extent;
        out->strides[at] = of_images || extent == 1 ? stride : stride / pixels;
        if (!of_images) channel += (extent - 1) * out->strides[at];
    }
    out->shape[out->images] = pixels;
    out->strides[out->images] = image[1];
    return fits && DHOWI_GUARD(channels_of_the_next_image, channel < image[1]);
}

/* Channels that change their places, each with all its pixels: a shuffle of groups. */
static dhow_status block_shuffle(dhowi_blocker *k, const dhowi_step *s, bool *done) {
    dhowi_lowering *b = k->b;
    const int32_t whole = k->images[b->items[s->out].buffer];
    dhowi_image_form *f;
    pixel_view from, to;
    int32_t blocks, x, y;
    *done = false;
    if (k->layout != DHOW_LAYOUT_NHWC || b->items[s->in[0]].tensor != NULL || whole < 0)
        return DHOW_OK;
    DHOWI_TRY(dhowi_form_of(k, s->in[0], &f));
    const dhowi_item *in = &b->items[s->in[0]], *out = &b->items[s->out];
    if (f->blocks < 0 || f->has_plain || out->offset != 0 || !out->contiguous ||
        dhowi_count_of(&out->desc) != dhowi_count_of(&b->items[whole].desc) ||
        !dhowi_shape_equal(in->desc.rank, in->desc.shape, out->desc.rank, out->desc.shape) ||
        !read_pixel_view(in, b->items[f->plain].desc.shape, &from) ||
        !read_pixel_view(out, b->items[whole].desc.shape, &to) ||
        !dhowi_shape_equal(from.rank, from.shape, to.rank, to.shape))
        return DHOW_OK;
    *done = true;
    DHOWI_TRY(dhowi_view(b, f->blocks, from.rank, from.shape, from.strides, from.offset, &x));
    DHOWI_TRY(dhowi_new_blocks(k, whole, &blocks));
    DHOWI_TRY(dhowi_view(b, blocks, to.rank, to.shape, to.strides, to.offset, &y));
    DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_copy, &x, 1, NULL, y));
    return dhowi_have_blocks(k, whole, blocks);
}

static dhow_status block_copy(dhowi_blocker *k, uint32_t at, uint32_t *used) {
    bool done;
    *used = 1;
    if (k->b->items[k->old[at].out].tensor != NULL) return keep(k, &k->old[at]);
    DHOWI_TRY(block_shuffle(k, &k->old[at], &done));
    return done ? DHOW_OK : block_concat(k, at, used);
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
                       : block_concat(k, at, used);
        case DHOWI_OP_maxpool2d:
        case DHOWI_OP_avgpool2d:
        case DHOWI_OP_pool_blocks: /* of bytes, plain until here */
            return block_pool(k, s);
        case DHOWI_OP_resample:
        case DHOWI_OP_gather_axis:
            return block_resize(k, s);
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
    if (k->old == NULL || k->images == NULL) return dhowi_fail_memory("plan");
    memcpy(k->old, b->steps + first_step, k->old_count * sizeof *k->old);
    b->step_count = first_step;
    for (uint32_t i = 0; i < b->buffer_count; i++) k->images[i] = -1;
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
    dhowi_free(k.forms);
    return status;
}
