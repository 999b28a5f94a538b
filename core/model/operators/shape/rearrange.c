/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that move elements to places which the plan can tell: CenterCropPad, ReverseSequence,
 * Col2Im.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "model/operators/shape/shape.h"

dhow_status dhowi_lower_center_crop_pad(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    int64_t wanted[DHOW_MAX_RANK], before[DHOW_MAX_RANK] = {0}, after[DHOW_MAX_RANK] = {0};
    uint32_t count, listed;
    DHOWI_TRY(dhowi_shape_values(b, b->in[1], "the shape", wanted, &count));
    const int64_t *axes = dhowi_attr_ints(b, "axes", &listed);
    if (count != (axes != NULL ? listed : (uint32_t)x.rank))
        DHOWI_REFUSE("the shape has %u extents for %u axes", count,
                     axes != NULL ? listed : (uint32_t)x.rank);
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis;
        DHOWI_TRY(dhowi_axis(&x, axes != NULL ? axes[i] : (int64_t)i, &axis));
        if (wanted[i] < 0) DHOWI_REFUSE("extent %" PRId64 " in the shape", wanted[i]);
        const int64_t more = wanted[i] - x.shape[axis];
        before[axis] = more / 2; /* towards zero: crops and pads alike */
        after[axis] = more - more / 2;
    }
    return dhowi_pad_with(b, b->in[0], before, after, 0, &b->out[0]);
}

/* ---- ReverseSequence: rows [outer, inner], one for each time and batch ---- */

/* Where the row at (t, s) comes from. */
static int64_t reversed(int64_t t, int64_t length) { return t < length ? length - 1 - t : t; }

static dhow_status reverse_rows(dhowi_lowering *b, const dhowi_tensor_desc *x, bool time_first,
                                const int64_t *lengths) {
    const int64_t times = x->shape[time_first ? 0 : 1], batch = x->shape[time_first ? 1 : 0];
    const int64_t flat[] = {times * batch, dhowi_extent(x, 2, x->rank)};
    DHOWI_TRY(dhowi_host_room(b, times * batch, sizeof(int64_t)));
    int64_t *from = dhowi_alloc_array((size_t)(times * batch) + 1, sizeof *from);
    if (from == NULL) return dhowi_fail_memory("plan");
    for (int64_t t = 0; t < times; t++) {
        for (int64_t s = 0; s < batch; s++) {
            const int64_t at = reversed(t, lengths[s]);
            from[time_first ? t * batch + s : s * times + t] =
                time_first ? at * batch + s : s * times + at;
        }
    }
    dhow_status status = dhowi_reshape(b, b->in[0], 2, flat, &b->out[0]);
    if (status == DHOW_OK) status = dhowi_pick(b, b->out[0], 0, from, flat[0], &b->out[0]);
    dhowi_free(from);
    DHOWI_TRY(status);
    return dhowi_reshape(b, b->out[0], x->rank, x->shape, &b->out[0]);
}

dhow_status dhowi_lower_reverse_sequence(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]), l = *dhowi_desc_at(b, b->in[1]);
    const int64_t time = dhowi_attr_int(b, "time_axis", 0),
                  batch = dhowi_attr_int(b, "batch_axis", 1);
    uint32_t count;
    if (x.rank < 2) DHOWI_REFUSE("x has %d dimensions", x.rank);
    if ((time != 0 && time != 1) || batch != 1 - time)
        DHOWI_REFUSE("time_axis %" PRId64 " and batch_axis %" PRId64 " are not 0 and 1", time,
                     batch);
    if (l.rank != 1 || l.shape[0] != x.shape[batch] || l.shape[0] > INT32_MAX)
        DHOWI_REFUSE("there are %" PRId64 " lengths for %" PRId64 " sequences", dhowi_count_of(&l),
                     x.shape[batch]);
    DHOWI_TRY(dhowi_need(b, b->in[1]));
    DHOWI_TRY(dhowi_host_room(b, l.shape[0], sizeof(int64_t)));
    int64_t *lengths = dhowi_alloc_array((size_t)l.shape[0] + 1, sizeof *lengths);
    if (lengths == NULL) return dhowi_fail_memory("plan");
    dhow_status status = dhowi_ints(b, b->in[1], lengths, (uint32_t)l.shape[0], &count);
    for (int64_t i = 0; i < l.shape[0] && status == DHOW_OK; i++) {
        if (lengths[i] < 0 || lengths[i] > x.shape[time])
            status =
                dhowi_fail(DHOW_INVALID_ARGUMENT, "a sequence of length %" PRId64 " in %" PRId64,
                           lengths[i], x.shape[time]);
    }
    if (status == DHOW_OK) status = reverse_rows(b, &x, time == 0, lengths);
    dhowi_free(lengths);
    return status;
}

/* ---- Col2Im: each pixel is the sum of the columns' elements that lie on it ---- */

typedef struct columns {
    int32_t spatial;
    int64_t image[DHOW_MAX_RANK], block[DHOW_MAX_RANK], windows[DHOW_MAX_RANK];
    int64_t stride[DHOW_MAX_RANK], dilation[DHOW_MAX_RANK], before[DHOW_MAX_RANK];
    int64_t pixels, places, count; /* of the image, in a block, windows */
    int64_t *sources; /* [places][pixels]: of column elements, those of a pixel first */
    int64_t *filled;  /* [pixels] */
} columns;

static dhow_status list_of(dhowi_lowering *b, const char *name, int32_t spatial, int64_t otherwise,
                           int64_t least, int64_t *to) {
    uint32_t count;
    const int64_t *list = dhowi_attr_ints(b, name, &count);
    if (list != NULL && count != (uint32_t)spatial)
        DHOWI_REFUSE("%s has %u entries, the image %d dimensions", name, count, spatial);
    for (int32_t i = 0; i < spatial; i++) {
        to[i] = list != NULL ? list[i] : otherwise;
        if (to[i] < least || to[i] > INT16_MAX) DHOWI_REFUSE("%s holds %" PRId64, name, to[i]);
    }
    return DHOW_OK;
}

static dhow_status columns_of(dhowi_lowering *b, columns *c) {
    uint32_t spatial, other, count;
    DHOWI_TRY(dhowi_shape_values(b, b->in[1], "image_shape", c->image, &spatial));
    DHOWI_TRY(dhowi_shape_values(b, b->in[2], "block_shape", c->block, &other));
    if (spatial != other || spatial < 1 || spatial > DHOW_MAX_RANK - 2)
        DHOWI_REFUSE("image_shape has %u extents, block_shape %u", spatial, other);
    c->spatial = (int32_t)spatial;
    DHOWI_TRY(list_of(b, "strides", c->spatial, 1, 1, c->stride));
    DHOWI_TRY(list_of(b, "dilations", c->spatial, 1, 1, c->dilation));
    const int64_t *pads = dhowi_attr_ints(b, "pads", &count);
    if (pads != NULL && count != 2 * spatial) DHOWI_REFUSE("pads has %u entries", count);
    c->pixels = c->places = c->count = 1;
    for (uint32_t i = 0; i < spatial; i++) {
        const int64_t first = pads != NULL ? pads[i] : 0,
                      last = pads != NULL ? pads[spatial + i] : 0;
        if (c->image[i] < 1 || c->image[i] > INT32_MAX || c->block[i] < 1 ||
            c->block[i] > INT16_MAX || first < 0 || first > INT16_MAX || last < 0 ||
            last > INT16_MAX)
            DHOWI_REFUSE("an image, block or padding of absurd extent in dimension %u", i);
        const int64_t room = c->image[i] + first + last - c->dilation[i] * (c->block[i] - 1) - 1;
        if (room < 0) DHOWI_REFUSE("the block is larger than the image and its padding");
        c->before[i] = first;
        c->windows[i] = room / c->stride[i] + 1;
        if (!dhowi_mul_i64(c->pixels, c->image[i], &c->pixels) ||
            !dhowi_mul_i64(c->places, c->block[i], &c->places) ||
            !dhowi_mul_i64(c->count, c->windows[i], &c->count))
            DHOWI_REFUSE("the image is too large");
    }
    return DHOW_OK;
}

/* The pixel that element `place` of a window lies on; -1: the padding. */
static int64_t pixel_of(const columns *c, int64_t place, int64_t window) {
    int64_t pixel = 0, step = 1;
    for (int32_t i = c->spatial - 1; i >= 0; i--) {
        const int64_t at = window % c->windows[i] * c->stride[i] +
                           place % c->block[i] * c->dilation[i] - c->before[i];
        if (at < 0 || at >= c->image[i]) return -1;
        pixel += at * step;
        step *= c->image[i];
        place /= c->block[i];
        window /= c->windows[i];
    }
    return pixel;
}

/* How many elements lie on a pixel at most; the others' sources are the zero behind the columns. */
static int64_t spread(columns *c) {
    int64_t most = 1;
    for (int64_t i = 0; i < c->places * c->pixels; i++) c->sources[i] = c->places * c->count;
    for (int64_t i = 0; i < c->places * c->count; i++) {
        const int64_t pixel = pixel_of(c, i / c->count, i % c->count);
        if (pixel < 0) continue;
        c->sources[c->filled[pixel]++ * c->pixels + pixel] = i;
        most = DHOWI_MAX(most, c->filled[pixel]);
    }
    return most;
}

static dhow_status sum_columns(dhowi_lowering *b, columns *c, int64_t n, int64_t channels) {
    const int64_t flat[] = {n, channels, c->places * c->count}, none[3] = {0}, one[] = {0, 0, 1};
    int64_t shape[DHOW_MAX_RANK] = {n, channels};
    const int64_t most = spread(c);
    int32_t x, part;
    DHOWI_TRY(dhowi_reshape(b, b->in[0], 3, flat, &x));
    DHOWI_TRY(dhowi_pad_with(b, x, none, one, 0, &x));
    for (int64_t i = 0; i < most; i++) {
        DHOWI_TRY(dhowi_pick(b, x, 2, c->sources + i * c->pixels, c->pixels, &part));
        if (i > 0) DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_ADD, b->out[0], part, &part));
        b->out[0] = part;
    }
    memcpy(shape + 2, c->image, (size_t)c->spatial * sizeof *shape);
    return dhowi_reshape(b, b->out[0], c->spatial + 2, shape, &b->out[0]);
}

dhow_status dhowi_lower_col2im(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    columns c = {0};
    char text[160];
    int64_t sources;
    DHOWI_TRY(columns_of(b, &c));
    if (x.rank != 3 || x.shape[1] % c.places != 0 || x.shape[2] != c.count)
        DHOWI_REFUSE("x is %s; columns of %" PRId64 " elements in %" PRId64 " windows fit",
                     dhowi_desc_text(&x, text, sizeof text), c.places, c.count);
    if (!dhowi_mul_i64(c.places, c.pixels, &sources)) DHOWI_REFUSE("the image is too large");
    DHOWI_TRY(dhowi_host_room(b, sources, sizeof(int64_t)));
    c.sources = dhowi_alloc_array((size_t)sources + 1, sizeof *c.sources);
    c.filled = dhowi_alloc_array((size_t)c.pixels + 1, sizeof *c.filled);
    dhow_status status = dhowi_fail_memory("plan");
    if (c.sources != NULL && c.filled != NULL) {
        memset(c.filled, 0, ((size_t)c.pixels + 1) * sizeof *c.filled);
        status = sum_columns(b, &c, x.shape[0], x.shape[1] / c.places);
    }
    dhowi_free(c.sources);
    dhowi_free(c.filled);
    return status;
}
