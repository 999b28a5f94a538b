/* SPDX-License-Identifier: Apache-2.0
 *
 * The forms of images: plain, and with channels in blocks; each is made when a step asks for it.
 */
#include "base/errors/planted.h"
#include "base/memory/array.h"
#include "base/memory/size.h"
#include "model/passes/images/images.h"

int64_t dhowi_block_of(const dhowi_blocker *k, int64_t channels) {
    return k->layout == DHOW_LAYOUT_NHWC ? channels : (int64_t)k->layout;
}

bool dhowi_is_image(const dhowi_lowering *b, int32_t ref) {
    const dhowi_item *item = &b->items[ref];
    return item->tensor == NULL && item->buffer >= 0 && item->desc.rank == 4 && item->contiguous &&
           item->offset == 0 &&
           b->buffers[item->buffer].bytes ==
               (uint64_t)dhowi_count_of(&item->desc) * dhow_dtype_bytes(item->desc.dtype);
}

dhow_status dhowi_form_of(dhowi_blocker *k, int32_t ref, dhowi_image_form **out) {
    uint32_t buffer = (uint32_t)k->b->items[ref].buffer;
    while (k->form_count <= buffer) {
        if (!dhowi_room((void **)&k->forms, k->form_count, &k->form_capacity, sizeof *k->forms))
            return dhowi_fail_memory("plan");
        k->forms[k->form_count++] = (dhowi_image_form){-1, -1, true};
    }
    *out = &k->forms[buffer];
    if ((*out)->plain < 0 && dhowi_is_image(k->b, ref)) (*out)->plain = ref;
    return DHOW_OK;
}

/* Whether the blocks of one are those of the other, but for how pixels are counted. */
static bool dhowi_same_blocks(const dhowi_lowering *b, int32_t x, int32_t y) {
    const dhowi_tensor_desc *p = &b->items[x].desc, *q = &b->items[y].desc;
    return DHOWI_GUARD(blocks_of_other_shape,
                       p->dtype == q->dtype && p->shape[0] == q->shape[0] &&
                           p->shape[1] == q->shape[1] &&
                           p->shape[2] * p->shape[3] == q->shape[2] * q->shape[3]);
}

/* Whether blocks are the plain form under another name: images of one pixel, and in NHWC those of
 * one channel. */
static bool lies_alike(const dhowi_blocker *k, const dhowi_tensor_desc *image) {
    const int64_t *e = image->shape;
    const bool whole = e[1] % dhowi_block_of(k, e[1]) == 0;
    return DHOWI_GUARD(alike_though_channels_differ,
                       (e[2] * e[3] == 1 && whole) || (k->layout == DHOW_LAYOUT_NHWC && e[1] == 1));
}

dhow_status dhowi_new_blocks(dhowi_blocker *k, int32_t ref, int32_t *out) {
    const dhowi_tensor_desc image = k->b->items[ref].desc;
    const int64_t block = dhowi_block_of(k, image.shape[1]);
    const dhowi_tensor_desc desc = {.dtype = image.dtype,
                                    .rank = 5,
                                    .shape = {image.shape[0], dhowi_ceil_div(image.shape[1], block),
                                              image.shape[2], image.shape[3], block}};
    return lies_alike(k, &image) ? dhowi_reshape(k->b, ref, 5, desc.shape, out)
                                 : dhowi_blank(k->b, &desc, out);
}

/* Channels first .. first+count-1 of both forms as [n, parts, h w, b], in step with each other. */
static dhow_status parts_of(dhowi_blocker *k, int32_t plain, int32_t blocks, int64_t first,
                            int64_t parts, int64_t width, int32_t *p, int32_t *q) {
    const dhowi_tensor_desc *x = &k->b->items[plain].desc, *y = &k->b->items[blocks].desc;
    const int64_t pixels = x->shape[2] * x->shape[3], b = y->shape[4];
    const int64_t shape[] = {x->shape[0], parts, pixels, width};
    const int64_t from[] = {x->shape[1] * pixels, b * pixels, 1, pixels};
    const int64_t to[] = {y->shape[1] * b * pixels, b * pixels, b, 1};
    DHOWI_TRY(dhowi_view(k->b, plain, 4, shape, from, first * pixels, p));
    return dhowi_view(k->b, blocks, 4, shape, to, first * pixels, q);
}

static dhow_status convert(dhowi_blocker *k, int32_t plain, int32_t blocks, bool to_blocks) {
    dhowi_lowering *b = k->b;
    int64_t channels = b->items[plain].desc.shape[1], block = dhowi_block_of(k, channels);
    int64_t whole = channels / block, rest = channels % block;
    int32_t p, q;
    if (rest != 0 && to_blocks) { /* the last block is padded with zeros */
        const dhowi_attrs zero = {.scalar = {dhow_scalar_f64(0)}};
        DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_fill, NULL, 0, &zero, blocks));
    }
    if (whole > 0) {
        DHOWI_TRY(parts_of(k, plain, blocks, 0, whole, block, &p, &q));
        DHOWI_TRY(
            dhowi_emit_into(b, DHOWI_OP_copy, to_blocks ? &p : &q, 1, NULL, to_blocks ? q : p));
    }
    if (rest == 0) return DHOW_OK;
    DHOWI_TRY(parts_of(k, plain, blocks, whole * block, 1, rest, &p, &q));
    return dhowi_emit_into(b, DHOWI_OP_copy, to_blocks ? &p : &q, 1, NULL, to_blocks ? q : p);
}

dhow_status dhowi_want_plain(dhowi_blocker *k, int32_t ref) {
    dhowi_image_form *f;
    if (ref < 0 || k->b->items[ref].tensor != NULL) return DHOW_OK;
    DHOWI_TRY(dhowi_form_of(k, ref, &f));
    if (f->has_plain) return DHOW_OK;
    f->has_plain = true;
    if (DHOWI_GUARD(plain_never_made, false)) return DHOW_OK;
    return convert(k, f->plain, f->blocks, false);
}

dhow_status dhowi_write_plain(dhowi_blocker *k, int32_t ref) {
    dhowi_image_form *f;
    if (ref < 0 || k->b->items[ref].tensor != NULL) return DHOW_OK;
    DHOWI_TRY(dhowi_want_plain(k, ref));
    DHOWI_TRY(dhowi_form_of(k, ref, &f));
    if (!DHOWI_GUARD(blocks_of_before_a_write, false)) f->blocks = -1;
    return DHOW_OK;
}

static dhow_status make_blocks(dhowi_blocker *k, int32_t ref) {
    dhowi_image_form *f;
    int32_t blocks;
    DHOWI_TRY(dhowi_want_plain(k, ref));
    DHOWI_TRY(dhowi_new_blocks(k, ref, &blocks));
    if (k->b->items[blocks].buffer != k->b->items[ref].buffer)
        DHOWI_TRY(convert(k, ref, blocks, true));
    DHOWI_TRY(dhowi_form_of(k, ref, &f)); /* the array may have moved */
    f->plain = ref;
    f->blocks = blocks;
    return DHOW_OK;
}

/* Channels of an image, as Split and Slice view them. */
typedef struct channels_of {
    int32_t whole; /* the item of the image, -1 when it is none */
    int64_t first;
} channels_of;

static channels_of find_channels(const dhowi_blocker *k, int32_t ref) {
    const dhowi_item *view = &k->b->items[ref];
    channels_of none = {-1, 0}, found;
    if (k->layout == 0 || view->tensor != NULL || view->desc.rank != 4) return none;
    found.whole = k->images[view->buffer];
    if (found.whole < 0 || found.whole == ref) return none;
    const dhowi_item *image = &k->b->items[found.whole];
    const int64_t *e = view->desc.shape, *all = image->desc.shape, pixels = all[2] * all[3];
    const int64_t block = dhowi_block_of(k, all[1]);
    bool fits = view->desc.dtype == image->desc.dtype && e[0] == all[0] && e[2] == all[2] &&
                e[3] == all[3] && e[1] * pixels > 0 && view->offset % pixels == 0;
    for (int i = 0; i < 4; i++) fits = fits && (e[i] == 1 || view->strides[i] == image->strides[i]);
    if (!fits) return none;
    found.first = view->offset / pixels;
    if (found.first + e[1] > all[1]) return none;
    const bool whole = k->layout == DHOW_LAYOUT_NHWC || /* where the block is all channels */
                       (found.first % block == 0 && e[1] % block == 0);
    return DHOWI_GUARD(channels_within_a_block, whole) ? found : none;
}

bool dhowi_lies_in_nhwc(const dhowi_blocker *k, int32_t ref) {
    const dhowi_item *view = &k->b->items[ref];
    const int64_t *e = view->desc.shape, dense[] = {e[1] * e[2] * e[3], 1, e[3] * e[1], e[1]};
    if (k->layout != DHOW_LAYOUT_NHWC || view->tensor != NULL || view->desc.rank != 4 ||
        view->offset != 0 || dhowi_count_of(&view->desc) == 0 || dhowi_is_image(k->b, ref))
        return false;
    for (int i = 0; i < 4; i++)
        if (e[i] != 1 && view->strides[i] != dense[i]) return false;
    return true;
}

bool dhowi_has_blocks(const dhowi_blocker *k, int32_t ref) {
    return dhowi_is_image(k->b, ref) || find_channels(k, ref).whole >= 0 ||
           dhowi_lies_in_nhwc(k, ref);
}

/* Those channels of the image's blocks. */
static dhow_status view_channels(dhowi_blocker *k, int32_t ref, channels_of c, int32_t *out) {
    const int64_t all = k->b->items[c.whole].desc.shape[1], block = dhowi_block_of(k, all),
                  channels = k->b->items[ref].desc.shape[1],
                  first = DHOWI_GUARD(channels_from_the_first, c.first == 0) ? 0 : c.first;
    int32_t blocks;
    DHOWI_TRY(dhowi_want_blocks(k, c.whole, &blocks));
    return k->layout == DHOW_LAYOUT_NHWC
               ? dhowi_narrow(k->b, blocks, 4, first, channels, 1, out)
               : dhowi_narrow(k->b, blocks, 1, first / block, channels / block, 1, out);
}

dhow_status dhowi_want_own_blocks(dhowi_blocker *k, int32_t ref, int32_t *out) {
    int32_t view;
    DHOWI_TRY(dhowi_want_blocks(k, ref, &view));
    *out = view;
    if (k->b->items[view].contiguous) return DHOW_OK;
    DHOWI_TRY(dhowi_blank(k->b, &k->b->items[view].desc, out));
    return dhowi_emit_into(k->b, DHOWI_OP_copy, &view, 1, NULL, *out);
}

dhow_status dhowi_want_blocks(dhowi_blocker *k, int32_t ref, int32_t *out) {
    dhowi_image_form *f;
    if (!dhowi_is_image(k->b, ref)) {
        const channels_of channels = find_channels(k, ref);
        if (channels.whole >= 0) return view_channels(k, ref, channels, out);
    }
    if (dhowi_lies_in_nhwc(k, ref)) {
        const int64_t *e = k->b->items[ref].desc.shape;
        const int64_t shape[] = {e[0], 1, e[2], e[3], e[1]};
        const int64_t strides[] = {e[1] * e[2] * e[3], e[1] * e[2] * e[3], e[3] * e[1], e[1], 1};
        DHOWI_TRY(dhowi_want_plain(k, ref));
        return dhowi_view(k->b, ref, 5, shape, strides, 0, out);
    }
    DHOWI_TRY(dhowi_form_of(k, ref, &f));
    if (f->blocks < 0 || !dhowi_same_blocks(k->b, f->plain, ref)) DHOWI_TRY(make_blocks(k, ref));
    DHOWI_TRY(dhowi_form_of(k, ref, &f));
    const dhowi_tensor_desc *own = &k->b->items[ref].desc, *made = &k->b->items[f->blocks].desc;
    *out = f->blocks;
    if (DHOWI_GUARD(blocks_of_other_pixels,
                    own->shape[2] == made->shape[2] && own->shape[3] == made->shape[3]))
        return DHOW_OK;
    const int64_t shape[] = {made->shape[0], made->shape[1], own->shape[2], own->shape[3],
                             made->shape[4]};
    return dhowi_reshape(k->b, f->blocks, 5, shape, out);
}

dhow_status dhowi_have_blocks(dhowi_blocker *k, int32_t ref, int32_t blocks) {
    dhowi_image_form *f;
    DHOWI_TRY(dhowi_form_of(k, ref, &f));
    f->plain = ref;
    f->blocks = blocks;
    f->has_plain = k->b->items[blocks].buffer == k->b->items[ref].buffer;
    return DHOW_OK;
}

bool dhowi_is_blocked(dhowi_blocker *k, int32_t ref) {
    dhowi_image_form *f;
    if (ref < 0 || k->b->items[ref].tensor != NULL) return false;
    if (dhowi_lies_in_nhwc(k, ref)) return true;
    if (!dhowi_is_image(k->b, ref)) {
        ref = find_channels(k, ref).whole;
        if (ref < 0) return false;
    }
    return dhowi_form_of(k, ref, &f) == DHOW_OK && f->blocks >= 0 && !f->has_plain &&
           dhowi_same_blocks(k->b, f->plain, ref);
}
