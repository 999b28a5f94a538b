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
#include "base/memory/size.h"
#include "model/passes/passes.h"

/* The other form of a buffer that holds a whole image. A buffer has items of several shapes: what
 * is [n, c, h, 1] to one step is [n, c, 1, h] to another, and [1, n c, h, 1] to a third. */
typedef struct form {
    int32_t plain;  /* item [n, c, h, w] that the blocks were made of */
    int32_t blocks; /* item [n, c/b, h, w, b], -1 for none */
    bool has_plain; /* its buffer is written */
} form;

typedef struct blocker {
    dhowi_lowering *b;
    dhowi_step *old; /* the steps before */
    uint32_t old_count;
    form *forms; /* by buffer */
    uint32_t form_count, form_capacity;
    uint32_t layout; /* of the images that are not plain, 0 until a convolution asks for one */
} blocker;

/* Channels of a block; NHWC is one block of all. */
static int64_t block_of(const blocker *k, int64_t channels) {
    return k->layout == DHOW_LAYOUT_NHWC ? channels : (int64_t)k->layout;
}

static bool is_image(const dhowi_lowering *b, int32_t ref) {
    const dhowi_item *item = &b->items[ref];
    return item->tensor == NULL && item->spec.rank == 4 && item->contiguous && item->offset == 0 &&
           b->buffers[item->buffer].bytes ==
               (uint64_t)dhowi_count_of(&item->spec) * dhow_dtype_bytes(item->spec.dtype);
}

static dhow_status form_of(blocker *k, int32_t ref, form **out) {
    uint32_t buffer = (uint32_t)k->b->items[ref].buffer;
    while (k->form_count <= buffer) {
        if (!dhowi_room((void **)&k->forms, k->form_count, &k->form_capacity, sizeof *k->forms))
            return dhowi_fail_memory("plan");
        k->forms[k->form_count++] = (form){-1, -1, true};
    }
    *out = &k->forms[buffer];
    if ((*out)->plain < 0 && is_image(k->b, ref)) (*out)->plain = ref;
    return DHOW_OK;
}

/* Whether the blocks of one are those of the other, but for how pixels are counted. */
static bool same_blocks(const dhowi_lowering *b, int32_t x, int32_t y) {
    const dhowi_spec *p = &b->items[x].spec, *q = &b->items[y].spec;
    return DHOWI_GUARD(blocks_of_other_shape,
                       p->dtype == q->dtype && p->shape[0] == q->shape[0] &&
                           p->shape[1] == q->shape[1] &&
                           p->shape[2] * p->shape[3] == q->shape[2] * q->shape[3]);
}

/* ---- between the forms ---- */

static dhow_status new_blocks(blocker *k, const dhowi_spec *image, int32_t *out) {
    int64_t block = block_of(k, image->shape[1]);
    const dhowi_spec spec = {.dtype = image->dtype,
                             .rank = 5,
                             .shape = {image->shape[0], dhowi_ceil_div(image->shape[1], block),
                                       image->shape[2], image->shape[3], block}};
    return dhowi_blank(k->b, &spec, out);
}

/* Channels first .. first+count-1 of both forms as [n, parts, h w, b], in step with each other. */
static dhow_status parts_of(blocker *k, int32_t plain, int32_t blocks, int64_t first, int64_t parts,
                            int64_t width, int32_t *p, int32_t *q) {
    const dhowi_spec *x = &k->b->items[plain].spec, *y = &k->b->items[blocks].spec;
    const int64_t pixels = x->shape[2] * x->shape[3], b = y->shape[4];
    const int64_t shape[] = {x->shape[0], parts, pixels, width};
    const int64_t from[] = {x->shape[1] * pixels, b * pixels, 1, pixels};
    const int64_t to[] = {y->shape[1] * b * pixels, b * pixels, b, 1};
    DHOWI_TRY(dhowi_view(k->b, plain, 4, shape, from, first * pixels, p));
    return dhowi_view(k->b, blocks, 4, shape, to, first * pixels, q);
}

static dhow_status convert(blocker *k, int32_t plain, int32_t blocks, bool to_blocks) {
    dhowi_lowering *b = k->b;
    int64_t channels = b->items[plain].spec.shape[1], block = block_of(k, channels);
    int64_t whole = channels / block, rest = channels % block;
    int32_t p, q;
    if (rest != 0 && to_blocks) { /* the last block is padded with zeros */
        const dhowi_attrs zero = {.run = {.value = 0}};
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

/* Any view of the buffer may be read afterwards. */
static dhow_status want_plain(blocker *k, int32_t ref) {
    form *f;
    if (ref < 0 || k->b->items[ref].tensor != NULL) return DHOW_OK;
    DHOWI_TRY(form_of(k, ref, &f));
    if (f->has_plain) return DHOW_OK;
    f->has_plain = true;
    if (DHOWI_GUARD(plain_never_made, false)) return DHOW_OK;
    return convert(k, f->plain, f->blocks, false);
}

/* A step writes to some view of the buffer, and perhaps to a part of it alone. */
static dhow_status write_plain(blocker *k, int32_t ref) {
    form *f;
    if (ref < 0 || k->b->items[ref].tensor != NULL) return DHOW_OK;
    DHOWI_TRY(want_plain(k, ref));
    DHOWI_TRY(form_of(k, ref, &f));
    if (!DHOWI_GUARD(blocks_of_before_a_write, false)) f->blocks = -1;
    return DHOW_OK;
}

static dhow_status make_blocks(blocker *k, int32_t ref) {
    form *f;
    int32_t blocks;
    DHOWI_TRY(want_plain(k, ref));
    const dhowi_spec spec = k->b->items[ref].spec;
    DHOWI_TRY(new_blocks(k, &spec, &blocks));
    DHOWI_TRY(convert(k, ref, blocks, true));
    DHOWI_TRY(form_of(k, ref, &f)); /* the array may have moved */
    f->plain = ref;
    f->blocks = blocks;
    return DHOW_OK;
}

/* An image in blocks, with its own height and width. */
static dhow_status want_blocks(blocker *k, int32_t ref, int32_t *out) {
    form *f;
    DHOWI_TRY(form_of(k, ref, &f));
    if (f->blocks < 0 || !same_blocks(k->b, f->plain, ref)) DHOWI_TRY(make_blocks(k, ref));
    DHOWI_TRY(form_of(k, ref, &f));
    const dhowi_spec *own = &k->b->items[ref].spec, *made = &k->b->items[f->blocks].spec;
    *out = f->blocks;
    if (DHOWI_GUARD(blocks_of_other_pixels,
                    own->shape[2] == made->shape[2] && own->shape[3] == made->shape[3]))
        return DHOW_OK;
    const int64_t shape[] = {made->shape[0], made->shape[1], own->shape[2], own->shape[3],
                             made->shape[4]};
    return dhowi_reshape(k->b, f->blocks, 5, shape, out);
}

static dhow_status have_blocks(blocker *k, int32_t ref, int32_t blocks) {
    form *f;
    DHOWI_TRY(form_of(k, ref, &f));
    f->plain = ref;
    f->blocks = blocks;
    f->has_plain = false;
    return DHOW_OK;
}

/* Whether only the blocked form is there: staying in it saves a conversion. */
static bool is_blocked(blocker *k, int32_t ref) {
    form *f;
    if (ref < 0 || k->b->items[ref].tensor != NULL || !is_image(k->b, ref)) return false;
    return form_of(k, ref, &f) == DHOW_OK && f->blocks >= 0 && !f->has_plain &&
           same_blocks(k->b, f->plain, ref);
}

/* ---- steps ---- */

static dhow_status append(blocker *k, const dhowi_step *s) {
    dhowi_lowering *b = k->b;
    if (!dhowi_room((void **)&b->steps, b->step_count, &b->step_capacity, sizeof *b->steps))
        return dhowi_fail_memory("plan");
    b->steps[b->step_count++] = *s;
    return DHOW_OK;
}

/* As it is, on plain images. */
static dhow_status keep(blocker *k, const dhowi_step *s) {
    for (int i = 0; i < DHOWI_OP_MAX_INPUTS; i++) DHOWI_TRY(want_plain(k, s->in[i]));
    DHOWI_TRY(write_plain(k, s->out));
    DHOWI_TRY(write_plain(k, s->second));
    return append(k, s);
}

static dhow_status put(blocker *k, const dhowi_step *s, int32_t out, int32_t blocks) {
    dhowi_step changed = *s;
    changed.out = blocks;
    DHOWI_TRY(append(k, &changed));
    return have_blocks(k, out, blocks);
}

static bool is_blocked_layout(uint32_t layout) {
    return layout == DHOW_LAYOUT_NHWC || layout == DHOW_LAYOUT_BLOCKS_4 ||
           layout == DHOW_LAYOUT_BLOCKS_8 || layout == DHOW_LAYOUT_BLOCKS_16;
}

/* The layouts for a convolution: what it likes best, if that is the model's form; else whether it
 * can do with that form. *dst is NCHW when it stays plain. */
static dhow_status layouts_of(blocker *k, const dhowi_step *s, uint32_t *src, uint32_t *dst) {
    const dhowi_lowering *b = k->b;
    const dhowi_spec *x = &b->items[s->in[0]].spec, *w = &b->items[s->in[1]].spec;
    *src = *dst = DHOW_LAYOUT_ANY;
    DHOWI_TRY(dhowi_conv_layouts(b->device, x, w, &s->attrs, s->in[2] >= 0, false, src, dst));
    if (k->layout == 0 && is_blocked_layout(*dst)) k->layout = *dst;
    if (k->layout == 0 || (*dst == k->layout && *src == k->layout)) return DHOW_OK;
    /* One channel lies the same way in several layouts, and the plan may have meant another: ask
     * for the model's form by its name before anything else. */
    const uint32_t best_src = *src, best_dst = *dst;
    *src = *dst = k->layout;
    DHOWI_TRY(dhowi_conv_layouts(b->device, x, w, &s->attrs, s->in[2] >= 0, false, src, dst));
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
static dhow_status is_planned(const blocker *k, const dhowi_step *s, uint32_t src, uint32_t dst,
                              bool *planned) {
    const dhowi_lowering *b = k->b;
    const uint32_t own_src = src, own_dst = dst;
    DHOWI_TRY(dhowi_conv_layouts(b->device, &b->items[s->in[0]].spec, &b->items[s->in[1]].spec,
                                 &s->attrs, s->in[2] >= 0, s->in[3] >= 0, &src, &dst));
    *planned = src == own_src && dst == own_dst;
    return DHOW_OK;
}

static dhow_status block_conv(blocker *k, const dhowi_step *s) {
    dhowi_lowering *b = k->b;
    dhowi_step changed = *s;
    uint32_t src, dst;
    int32_t blocks;
    bool fits = is_image(b, s->in[0]) && is_image(b, s->out) && b->items[s->in[1]].tensor != NULL &&
                b->items[s->in[1]].spec.rank == 4 && (s->in[3] < 0 || is_image(b, s->in[3]));
    if (!fits) return keep(k, s);
    DHOWI_TRY(layouts_of(k, s, &src, &dst));
    if (!is_blocked_layout(dst) || dst != k->layout || (src != DHOW_LAYOUT_NCHW && src != dst))
        return keep(k, s);
    DHOWI_TRY(is_planned(k, s, src, dst, &fits));
    if (!fits) return keep(k, s);
    if (src == dst) {
        DHOWI_TRY(want_blocks(k, s->in[0], &changed.in[0]));
    } else {
        DHOWI_TRY(want_plain(k, s->in[0]));
    }
    if (s->in[3] >= 0) DHOWI_TRY(want_blocks(k, s->in[3], &changed.in[3]));
    changed.attrs.layout = k->layout;
    const dhowi_spec image = b->items[s->out].spec;
    DHOWI_TRY(new_blocks(k, &image, &blocks));
    return put(k, &changed, s->out, blocks);
}

/* An operand with one value for all pixels of a channel, as NHWC sees it. */
static bool per_channel(const dhowi_lowering *b, int32_t ref, int64_t shape[5],
                        int64_t strides[5]) {
    const dhowi_item *item = &b->items[ref];
    int64_t own[4] = {1, 1, 1, 1}, step[4] = {0};
    if (item->spec.rank > 4) return false;
    for (int32_t i = 0; i < item->spec.rank; i++) {
        own[4 - item->spec.rank + i] = item->spec.shape[i];
        step[4 - item->spec.rank + i] = item->strides[i];
    }
    if (!DHOWI_GUARD(numbers_by_pixel, own[2] == 1 && own[3] == 1)) return false;
    const int64_t s[] = {own[0], 1, 1, 1, own[1]}, t[] = {step[0], 0, 0, 0, step[1]};
    memcpy(shape, s, sizeof s);
    memcpy(strides, t, sizeof t);
    return true;
}

static bool same_image(const dhowi_lowering *b, int32_t x, int32_t y) {
    return b->items[x].tensor == NULL && is_image(b, x) &&
           dhowi_shape_equal(4, b->items[x].spec.shape, 4, b->items[y].spec.shape);
}

static dhow_status map_operand(blocker *k, int32_t ref, int32_t image, int32_t *out) {
    int64_t shape[5], strides[5];
    if (same_image(k->b, ref, image)) return want_blocks(k, ref, out);
    DHOWI_TRY(want_plain(k, ref));
    (void)per_channel(k->b, ref, shape, strides);
    return dhowi_view(k->b, ref, 5, shape, strides, k->b->items[ref].offset, out);
}

/* Elementwise over images of one shape, and in NHWC with numbers per channel. A padded last block
 * would hold zeros where maps make others. */
static dhow_status block_map(blocker *k, const dhowi_step *s) {
    dhowi_lowering *b = k->b;
    dhowi_step changed = *s;
    int64_t shape[5], strides[5];
    bool any = false;
    bool fits = is_image(b, s->out) &&
                b->items[s->out].spec.shape[1] % block_of(k, b->items[s->out].spec.shape[1]) == 0;
    for (int i = 0; i < DHOWI_MAP_OPERANDS && s->in[i] >= 0 && fits; i++) {
        fits = same_image(b, s->in[i], s->out) ||
               (k->layout == DHOW_LAYOUT_NHWC && per_channel(b, s->in[i], shape, strides));
        any = any || (fits && same_image(b, s->in[i], s->out) && is_blocked(k, s->in[i]));
    }
    if (!fits || !any) return keep(k, s);
    for (int i = 0; i < DHOWI_MAP_OPERANDS && s->in[i] >= 0; i++)
        DHOWI_TRY(map_operand(k, s->in[i], s->out, &changed.in[i]));
    const dhowi_spec image = b->items[s->out].spec;
    int32_t blocks;
    DHOWI_TRY(new_blocks(k, &image, &blocks));
    return put(k, &changed, s->out, blocks);
}

static dhow_status block_pool(blocker *k, const dhowi_step *s) {
    dhowi_lowering *b = k->b;
    dhowi_step changed = *s;
    dhow_dtype dtype = b->items[s->out].spec.dtype;
    int32_t blocks;
    if (!is_blocked(k, s->in[0]) || !is_image(b, s->out) || dtype != DHOW_F32) return keep(k, s);
    const dhowi_spec image = b->items[s->out].spec;
    changed.op = DHOWI_OP_pool_blocks;
    changed.attrs.dim = s->op == DHOWI_OP_maxpool2d ? 0 : 1;
    for (int i = 0; i < 2; i++) {
        if (changed.attrs.window.stride[i] == 0) changed.attrs.window.stride[i] = 1;
    }
    DHOWI_TRY(want_blocks(k, s->in[0], &changed.in[0]));
    DHOWI_TRY(new_blocks(k, &image, &blocks));
    return put(k, &changed, s->out, blocks);
}

/* x as [outer][n][inner] around height or width becomes the same around it in blocks. */
static bool blocked_run(const blocker *k, const dhowi_spec *x, dhowi_run *r) {
    const int64_t *e = x->shape, planes = e[0] * e[1], block = block_of(k, e[1]);
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

static dhow_status block_resize(blocker *k, const dhowi_step *s) {
    dhowi_lowering *b = k->b;
    dhowi_step changed = *s;
    int32_t blocks;
    if (!is_blocked(k, s->in[0]) || !is_image(b, s->out) ||
        !blocked_run(k, &b->items[s->in[0]].spec, &changed.attrs.run))
        return keep(k, s);
    const dhowi_spec image = b->items[s->out].spec;
    DHOWI_TRY(want_blocks(k, s->in[0], &changed.in[0]));
    DHOWI_TRY(new_blocks(k, &image, &blocks));
    return put(k, &changed, s->out, blocks);
}

/* A reduction over all pixels gives the channels in their plain order. */
static dhow_status block_reduction(blocker *k, const dhowi_step *s) {
    dhowi_lowering *b = k->b;
    const dhowi_item *item = &b->items[s->in[0]];
    dhowi_step changed = *s;
    form *f;
    if (item->tensor != NULL || item->spec.rank != 3 || !item->contiguous || item->offset != 0)
        return keep(k, s);
    DHOWI_TRY(form_of(k, s->in[0], &f));
    if (f->blocks < 0 || f->has_plain) return keep(k, s);
    const int64_t *e = b->items[f->plain].spec.shape;
    bool fits = DHOWI_GUARD(reduction_of_other_pixels, item->spec.shape[0] == e[0] * e[1] &&
                                                           item->spec.shape[1] == e[2] * e[3]) &&
                item->spec.shape[2] == 1 && e[1] % block_of(k, e[1]) == 0 && s->attrs.dim == 1;
    if (!fits) return keep(k, s);
    const int64_t block = block_of(k, e[1]);
    const int64_t shape[] = {e[0] * e[1] / block, e[2] * e[3], block};
    DHOWI_TRY(dhowi_reshape(b, f->blocks, 3, shape, &changed.in[0]));
    return append(k, &changed);
}

/* Copies into parts of one image along the channels: a concatenation. */
typedef struct joint {
    uint32_t first, count;
    int32_t whole; /* the item of the image, -1 when it is none */
} joint;

static joint find_joint(const blocker *k, uint32_t at) {
    const dhowi_lowering *b = k->b;
    joint j = {at, 0, -1};
    int32_t buffer = b->items[k->old[at].out].buffer;
    int64_t channels = 0;
    for (uint32_t i = 0; i < b->item_count && j.whole < 0; i++) {
        if (b->items[i].buffer == buffer && is_image(b, (int32_t)i)) j.whole = (int32_t)i;
    }
    if (j.whole < 0) return j;
    const dhowi_item *whole = &b->items[j.whole];
    int64_t pixels = whole->spec.shape[2] * whole->spec.shape[3];
    for (uint32_t i = at; i < k->old_count && k->old[i].op == DHOWI_OP_copy; i++, j.count++) {
        const dhowi_item *out = &b->items[k->old[i].out], *in = &b->items[k->old[i].in[0]];
        if (out->tensor != NULL || out->buffer != buffer) break;
        bool fits = out->spec.rank == 4 && out->offset == channels * pixels &&
                    memcmp(out->strides, whole->strides, 4 * sizeof *out->strides) == 0 &&
                    DHOWI_GUARD(joint_of_some_images, out->spec.shape[0] == whole->spec.shape[0]) &&
                    memcmp(out->spec.shape + 2, whole->spec.shape + 2, 2 * sizeof(int64_t)) == 0 &&
                    dhowi_shape_equal(4, out->spec.shape, in->spec.rank, in->spec.shape) &&
                    out->spec.shape[1] % block_of(k, out->spec.shape[1]) == 0 &&
                    in->tensor == NULL && is_image(b, k->old[i].in[0]);
        if (!fits) {
            j.whole = -1;
            return j;
        }
        channels += out->spec.shape[1];
    }
    if (channels != whole->spec.shape[1]) j.whole = -1;
    return j;
}

static dhow_status block_concat(blocker *k, uint32_t at, uint32_t *used) {
    dhowi_lowering *b = k->b;
    joint j = {at, 1, -1};
    bool any = false;
    int32_t blocks, part;
    int64_t first = 0;
    if (b->items[k->old[at].out].tensor == NULL) j = find_joint(k, at);
    for (uint32_t i = at; i < at + j.count && j.whole >= 0; i++)
        any = any || is_blocked(k, k->old[i].in[0]);
    *used = 1;
    if (j.whole < 0 || !any) return keep(k, &k->old[at]);
    const dhowi_spec image = b->items[j.whole].spec;
    DHOWI_TRY(new_blocks(k, &image, &blocks));
    for (uint32_t i = at; i < at + j.count; i++) {
        int32_t from;
        DHOWI_TRY(want_blocks(k, k->old[i].in[0], &from));
        int32_t dim = k->layout == DHOW_LAYOUT_NHWC ? 4 : 1;
        int64_t parts = b->items[from].spec.shape[dim];
        DHOWI_TRY(dhowi_narrow(b, blocks, dim, first, parts, 1, &part));
        b->node = k->old[i].node;
        DHOWI_TRY(dhowi_emit_into(b, DHOWI_OP_copy, &from, 1, NULL, part));
        first += parts;
    }
    *used = j.count;
    return have_blocks(k, j.whole, blocks);
}

static dhow_status block_step(blocker *k, uint32_t at, uint32_t *used) {
    const dhowi_step *s = &k->old[at];
    *used = 1;
    k->b->node = s->node;
    if (s->op == DHOWI_OP_conv2d) return block_conv(k, s);
    if (k->layout == 0) return keep(k, s);
    switch (s->op) {
        case DHOWI_OP_map:
            return block_map(k, s);
        case DHOWI_OP_maxpool2d:
        case DHOWI_OP_avgpool2d:
            return block_pool(k, s);
        case DHOWI_OP_resample:
        case DHOWI_OP_gather_axis:
            return block_resize(k, s);
        case DHOWI_OP_reduce_mean:
        case DHOWI_OP_reduce_sum:
        case DHOWI_OP_reduce_max:
            return block_reduction(k, s);
        case DHOWI_OP_copy:
            return block_concat(k, at, used);
        default:
            return keep(k, s);
    }
}

static dhow_status block_all(blocker *k) {
    for (uint32_t i = 0, used; i < k->old_count; i += used) DHOWI_TRY(block_step(k, i, &used));
    for (uint32_t i = 0; i < k->b->result_count; i++) DHOWI_TRY(want_plain(k, k->b->results[i]));
    return DHOW_OK;
}

dhow_status dhowi_use_blocks(dhowi_lowering *b, uint32_t first_step) {
    bool any = false;
    for (uint32_t i = first_step; i < b->step_count; i++)
        any = any || b->steps[i].op == DHOWI_OP_conv2d;
    if (!any) return DHOW_OK;
    blocker k = {.b = b, .old_count = b->step_count - first_step};
    k.old = dhowi_alloc_array((size_t)k.old_count + 1, sizeof *k.old);
    if (k.old == NULL) return dhowi_fail_memory("plan");
    memcpy(k.old, b->steps + first_step, k.old_count * sizeof *k.old);
    b->step_count = first_step;
    dhow_status status = block_all(&k);
    dhowi_free(k.old);
    dhowi_free(k.forms);
    return status;
}
