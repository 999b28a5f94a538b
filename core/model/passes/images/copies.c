/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between images whose channels lie in blocks: into parts of one image, and of channels that
 * change their places.
 */
#include <string.h>

#include "base/errors/planted.h"
#include "model/passes/images/images.h"

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
    if (j.whole < 0 || !any) return DHOW_OK;
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

/* The strides and the offset in NHWC of a view of an image, whose dimensions each run over images,
 * over channels or over pixels; false where one runs over several. */
static bool is_view_in_nhwc(const dhowi_item *view, const int64_t image[4], int64_t *strides,
                            int64_t *offset) {
    const int64_t channels = image[1], pixels = image[2] * image[3], all = channels * pixels;
    int64_t channel = view->offset % all / pixels, pixel = view->offset % pixels;
    *offset = view->offset / all * all + pixel * channels + channel;
    for (int32_t i = 0; i < view->desc.rank; i++) {
        const int64_t last = view->desc.shape[i] - 1, stride = view->strides[i];
        if (last < 0) return false;
        strides[i] = stride;
        if (last == 0 || stride % all == 0) continue;
        if (stride % pixels == 0) {
            strides[i] = stride / pixels;
            channel += last * strides[i];
        } else {
            strides[i] = stride * channels;
            pixel += last * stride;
        }
    }
    return channel < channels && pixel < pixels;
}

/* Out of an image that is there in NHWC alone: the channels of each pixel as a row, often. */
static dhow_status copy_out_of_blocks(dhowi_blocker *k, const dhowi_step *s, bool *done) {
    dhowi_lowering *b = k->b;
    dhowi_image_form *f;
    int64_t strides[DHOW_MAX_RANK], offset;
    int32_t x;
    *done = false;
    if (k->layout != DHOW_LAYOUT_NHWC || b->items[s->in[0]].tensor != NULL ||
        k->images[b->items[s->in[0]].buffer] < 0)
        return DHOW_OK;
    DHOWI_TRY(dhowi_form_of(k, s->in[0], &f));
    const dhowi_item *in = &b->items[s->in[0]];
    if (f->blocks < 0 || f->has_plain ||
        !is_view_in_nhwc(in, b->items[f->plain].desc.shape, strides, &offset))
        return DHOW_OK;
    *done = true;
    const dhowi_tensor_desc desc = in->desc;
    DHOWI_TRY(dhowi_view(b, f->blocks, desc.rank, desc.shape, strides, offset, &x));
    DHOWI_TRY(dhowi_write_plain(k, s->out));
    return dhowi_emit_into(b, DHOWI_OP_copy, &x, 1, NULL, s->out);
}

static bool is_written_later(const dhowi_blocker *k, uint32_t at, int32_t buffer) {
    for (uint32_t i = at + 1; i < k->old_count; i++)
        if (dhowi_step_writes(k->b, &k->old[i], buffer)) return true;
    return false;
}

/* An image made dense of pixels that lie in NHWC already: they are its blocks. */
static dhow_status copy_into_blocks(dhowi_blocker *k, uint32_t at, bool *done) {
    dhowi_lowering *b = k->b;
    const dhowi_step *s = &k->old[at];
    const dhowi_item *in = &b->items[s->in[0]], *out = &b->items[s->out];
    int32_t blocks;
    *done = dhowi_lies_in_nhwc(k, s->in[0]) && dhowi_is_image(b, s->out) &&
            dhowi_shape_equal(4, in->desc.shape, out->desc.rank, out->desc.shape) &&
            !is_written_later(k, at, in->buffer) && !is_written_later(k, at, out->buffer);
    if (!*done) return DHOW_OK;
    DHOWI_TRY(dhowi_want_blocks(k, s->in[0], &blocks));
    return dhowi_have_blocks(k, s->out, blocks);
}

dhow_status dhowi_copy_blocks(dhowi_blocker *k, uint32_t at, uint32_t *used) {
    bool done = false;
    *used = 0;
    if (k->b->items[k->old[at].out].tensor != NULL) return DHOW_OK;
    if (k->old[at].op == DHOWI_OP_copy) DHOWI_TRY(block_shuffle(k, &k->old[at], &done));
    if (!done) DHOWI_TRY(block_concat(k, at, used));
    if (k->old[at].op == DHOWI_OP_copy && !done && *used == 0)
        DHOWI_TRY(copy_into_blocks(k, at, &done));
    if (k->old[at].op == DHOWI_OP_copy && !done && *used == 0)
        DHOWI_TRY(copy_out_of_blocks(k, &k->old[at], &done));
    if (done) *used = 1;
    return DHOW_OK;
}
