/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that only look at shapes or move elements: most become views, or nothing at all.
 */
#include "model/operators/shape/shape.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"

static int64_t clamp(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

dhow_status dhowi_lower_shape(dhowi_lowering *b) {
    const dhowi_tensor_desc *x = dhowi_desc_at(b, b->in[0]);
    int64_t start = dhowi_attr_int(b, "start", 0), end = dhowi_attr_int(b, "end", x->rank);
    start = clamp(start < 0 ? start + x->rank : start, 0, x->rank);
    end = clamp(end < 0 ? end + x->rank : end, start, x->rank);
    const int64_t count = end - start;
    int64_t shape[DHOW_MAX_RANK];
    memcpy(shape, x->shape, sizeof shape);
    return dhowi_constant(b, DHOW_I64, 1, &count, shape + start, &b->out[0]);
}

dhow_status dhowi_lower_size(dhowi_lowering *b) {
    const int64_t count = dhowi_count_of(dhowi_desc_at(b, b->in[0]));
    return dhowi_constant(b, DHOW_I64, 0, NULL, &count, &b->out[0]);
}

dhow_status dhowi_lower_reshape(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    int64_t shape[DHOW_MAX_RANK], known = 1;
    uint32_t rank;
    int32_t open = -1;
    bool zero_is_zero;
    DHOWI_TRY(dhowi_shape_values(b, b->in[1], "the shape", shape, &rank));
    DHOWI_TRY(dhowi_attr_flag(b, "allowzero", false, &zero_is_zero));
    for (uint32_t i = 0; i < rank; i++) {
        if (shape[i] == 0 && !zero_is_zero) {
            if ((int32_t)i >= x.rank) DHOWI_REFUSE("extent 0 at %u copies none of x", i);
            shape[i] = x.shape[i];
        }
        if (shape[i] == -1 && open >= 0) DHOWI_REFUSE("two extents of -1");
        if (shape[i] == -1) open = (int32_t)i;
        if (shape[i] != -1 && !dhowi_mul_i64(known, shape[i], &known))
            DHOWI_REFUSE("the shape is too large");
    }
    if (open >= 0) {
        if (known == 0 || dhowi_count_of(&x) % known != 0)
            DHOWI_REFUSE("%" PRId64 " elements do not split into rows of %" PRId64,
                         dhowi_count_of(&x), known);
        shape[open] = dhowi_count_of(&x) / known;
    }
    return dhowi_regroup(b, b->in[0], (int32_t)rank, shape, &b->out[0]);
}

dhow_status dhowi_lower_flatten(dhowi_lowering *b) {
    const dhowi_tensor_desc *x = dhowi_desc_at(b, b->in[0]);
    int64_t axis = dhowi_attr_int(b, "axis", 1);
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis > x->rank) DHOWI_REFUSE("axis %" PRId64, axis);
    const int64_t shape[] = {dhowi_extent(x, 0, (int32_t)axis),
                             dhowi_extent(x, (int32_t)axis, x->rank)};
    return dhowi_reshape(b, b->in[0], 2, shape, &b->out[0]);
}

dhow_status dhowi_lower_squeeze(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    int64_t axes[DHOW_MAX_RANK], shape[DHOW_MAX_RANK];
    bool drop[DHOW_MAX_RANK] = {false};
    uint32_t count;
    int32_t rank = 0;
    DHOWI_TRY(dhowi_axes(b, 1, axes, &count));
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis;
        DHOWI_TRY(dhowi_axis(&x, axes[i], &axis));
        if (x.shape[axis] != 1)
            DHOWI_REFUSE("axis %d has extent %" PRId64 ", not 1", axis, x.shape[axis]);
        drop[axis] = true;
    }
    for (int32_t i = 0; i < x.rank; i++) {
        if (count == 0 ? x.shape[i] != 1 : !drop[i]) shape[rank++] = x.shape[i];
    }
    return dhowi_regroup(b, b->in[0], rank, shape, &b->out[0]);
}

dhow_status dhowi_lower_unsqueeze(dhowi_lowering *b) {
    dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]), y;
    int64_t axes[DHOW_MAX_RANK];
    bool added[DHOW_MAX_RANK] = {false};
    uint32_t count;
    if (!dhowi_given(b, 1) && dhowi_attr(b, "axes", DHOWI_ATTRIBUTE_INTS) == NULL)
        DHOWI_REFUSE("it has no axes");
    DHOWI_TRY(dhowi_axes(b, 1, axes, &count));
    y.rank = x.rank + (int32_t)count;
    if (y.rank > DHOW_MAX_RANK) DHOWI_REFUSE("%d dimensions, dhow takes %d", y.rank, DHOW_MAX_RANK);
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis;
        DHOWI_TRY(dhowi_axis(&y, axes[i], &axis));
        if (added[axis]) DHOWI_REFUSE("axis %d is given twice", axis);
        added[axis] = true;
    }
    for (int32_t i = 0, k = 0; i < y.rank; i++) y.shape[i] = added[i] ? 1 : x.shape[k++];
    return dhowi_regroup(b, b->in[0], y.rank, y.shape, &b->out[0]);
}

dhow_status dhowi_lower_transpose(dhowi_lowering *b) {
    const dhowi_tensor_desc *x = dhowi_desc_at(b, b->in[0]);
    int32_t order[DHOW_MAX_RANK];
    bool used[DHOW_MAX_RANK] = {false};
    uint32_t count;
    const int64_t *perm = dhowi_attr_ints(b, "perm", &count);
    if (perm != NULL && count != (uint32_t)x->rank)
        DHOWI_REFUSE("perm has %u entries, x %d dimensions", count, x->rank);
    for (int32_t i = 0; i < x->rank; i++) {
        DHOWI_TRY(dhowi_axis(x, perm != NULL ? perm[i] : x->rank - 1 - i, &order[i]));
        if (used[order[i]]) DHOWI_REFUSE("perm is no permutation");
        used[order[i]] = true;
    }
    return dhowi_permute(b, b->in[0], order, &b->out[0]);
}

/* ---- joining and parting ---- */

dhow_status dhowi_lower_concat(dhowi_lowering *b) {
    int32_t axis;
    int64_t along = 1; /* the default before opset 4 */
    if (b->node->opset >= 4) DHOWI_TRY(dhowi_attr_needed(b, "axis", &along));
    if (b->node->opset < 4) along = dhowi_attr_int(b, "axis", 1);
    DHOWI_TRY(dhowi_axis(dhowi_desc_at(b, b->in[0]), along, &axis));
    if (dhowi_kind_of(b, b->in[0]) == DHOW_DATUM_TEXTS) return dhowi_concat_texts(b, axis);
    if (b->in_count == 1) {
        b->out[0] = b->in[0];
        return DHOW_OK;
    }
    return dhowi_concat(b, b->in, b->in_count, axis, &b->out[0]);
}

/* Extents of the parts, as many as the node has outputs or more. */
static dhow_status split_sizes(dhowi_lowering *b, const dhowi_tensor_desc *x, int32_t axis,
                               int64_t *sizes, uint32_t *out_count) {
    const int64_t extent = x->shape[axis];
    uint32_t count = 0;
    const int64_t *split = dhowi_attr_ints(b, "split", &count);
    if (split != NULL && count <= DHOWI_MAX_OUTPUTS_OF_NODE)
        memcpy(sizes, split, count * sizeof *sizes);
    if (split == NULL && dhowi_given(b, 1))
        DHOWI_TRY(dhowi_ints(b, b->in[1], sizes, DHOWI_MAX_OUTPUTS_OF_NODE, &count));
    if (b->out_count == 0) DHOWI_REFUSE("it has no outputs");
    if (count == 0) { /* equal parts, the last one smaller */
        const int64_t parts = dhowi_attr_int(b, "num_outputs", b->out_count);
        if (parts < b->out_count || parts > DHOWI_MAX_OUTPUTS_OF_NODE)
            DHOWI_REFUSE("num_outputs is %" PRId64 ", it has %u", parts, b->out_count);
        if (b->node->opset < 18 && extent % parts != 0)
            DHOWI_REFUSE("%" PRId64 " elements do not split into %" PRId64 " equal parts", extent,
                         parts);
        int64_t part = dhowi_ceil_div(extent, parts), left = extent;
        for (; count < parts; count++, left -= sizes[count - 1])
            sizes[count] = left < part ? left : part;
    }
    if (count < b->out_count) DHOWI_REFUSE("%u sizes for %u outputs", count, b->out_count);
    *out_count = count;
    return DHOW_OK;
}

dhow_status dhowi_lower_split(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    int64_t sizes[DHOWI_MAX_OUTPUTS_OF_NODE], at = 0;
    int32_t axis;
    uint32_t count = 0;
    DHOWI_TRY(dhowi_axis(&x, dhowi_attr_int(b, "axis", 0), &axis));
    DHOWI_TRY(split_sizes(b, &x, axis, sizes, &count));
    for (uint32_t i = 0; i < count; i++) {
        if (sizes[i] < 0 || sizes[i] > x.shape[axis] - at)
            DHOWI_REFUSE("the parts exceed the extent %" PRId64, x.shape[axis]);
        if (i < b->out_count)
            DHOWI_TRY(dhowi_narrow(b, b->in[0], axis, at, sizes[i], 1, &b->out[i]));
        at += sizes[i];
    }
    if (at != x.shape[axis])
        DHOWI_REFUSE("the parts come to %" PRId64 " of the extent %" PRId64, at, x.shape[axis]);
    return DHOW_OK;
}

/* start, end and step of one axis as Python means them. */
static dhow_status range_of(int64_t n, int64_t start, int64_t end, int64_t step, dhowi_range *out) {
    if (step == 0) DHOWI_REFUSE("a step of 0");
    step = clamp(step, -n - 1, n + 1); /* what goes further leaves one element */
    if (start < 0) start += n;
    if (end < 0) end += n;
    start = step > 0 ? clamp(start, 0, n) : clamp(start, -1, n - 1);
    end = step > 0 ? clamp(end, start, n) : clamp(end, -1, start);
    const int64_t way = step > 0 ? end - start : start - end;
    *out = (dhowi_range){start, dhowi_ceil_div(way, step > 0 ? step : -step), step};
    return DHOW_OK;
}

/* A view; a negative step picks. */
static dhow_status slice_axis(dhowi_lowering *b, int32_t axis, const dhowi_range *of, int32_t *x) {
    if (of->step > 0) return dhowi_narrow(b, *x, axis, of->start, of->count, of->step, x);
    DHOWI_TRY(dhowi_host_room(b, of->count, sizeof(int64_t)));
    int64_t *numbers = dhowi_alloc_array((size_t)of->count + 1, sizeof *numbers);
    if (numbers == NULL) return dhowi_fail_memory("plan");
    for (int64_t i = 0; i < of->count; i++) numbers[i] = of->start + i * of->step;
    dhow_status status = dhowi_pick(b, *x, axis, numbers, of->count, x);
    dhowi_free(numbers);
    return status;
}

dhow_status dhowi_slice_ranges(dhowi_lowering *b, dhowi_range *out) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    int64_t starts[DHOW_MAX_RANK], ends[DHOW_MAX_RANK], axes[DHOW_MAX_RANK], steps[DHOW_MAX_RANK];
    uint32_t count, other;
    if (b->in_count == 1) { /* opset 1 */
        const int64_t *s = dhowi_attr_ints(b, "starts", &count);
        const int64_t *e = dhowi_attr_ints(b, "ends", &other);
        if (s == NULL || e == NULL) DHOWI_REFUSE("it has no starts and ends");
        if (count != other || count > DHOW_MAX_RANK)
            DHOWI_REFUSE("starts and ends differ in length");
        memcpy(starts, s, count * sizeof *s);
        memcpy(ends, e, count * sizeof *e);
    } else {
        if (!dhowi_given(b, 1) || !dhowi_given(b, 2)) DHOWI_REFUSE("it has no starts and ends");
        DHOWI_TRY(dhowi_ints(b, b->in[1], starts, DHOW_MAX_RANK, &count));
        DHOWI_TRY(dhowi_ints(b, b->in[2], ends, DHOW_MAX_RANK, &other));
        if (count != other) DHOWI_REFUSE("starts and ends differ in length");
    }
    for (uint32_t i = 0; i < DHOW_MAX_RANK; i++) {
        axes[i] = i;
        steps[i] = 1;
    }
    DHOWI_TRY(dhowi_axes(b, 3, axes, &other));
    const bool named = dhowi_given(b, 3) || dhowi_attr(b, "axes", DHOWI_ATTRIBUTE_INTS) != NULL;
    if (named && other != count) DHOWI_REFUSE("axes and starts differ in length");
    if (dhowi_given(b, 4)) {
        DHOWI_TRY(dhowi_ints(b, b->in[4], steps, DHOW_MAX_RANK, &other));
        if (other != count) DHOWI_REFUSE("steps and starts differ in length");
    }
    bool seen[DHOW_MAX_RANK] = {false};
    for (int32_t i = 0; i < x.rank; i++) out[i] = (dhowi_range){0, x.shape[i], 1};
    for (uint32_t i = 0; i < count; i++) {
        int32_t axis;
        DHOWI_TRY(dhowi_axis(&x, axes[i], &axis));
        if (seen[axis]) DHOWI_REFUSE("axis %d is there twice", axis);
        seen[axis] = true;
        DHOWI_TRY(range_of(x.shape[axis], starts[i], ends[i], steps[i], &out[axis]));
    }
    return DHOW_OK;
}

dhow_status dhowi_lower_slice(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    dhowi_range ranges[DHOW_MAX_RANK];
    DHOWI_TRY(dhowi_slice_ranges(b, ranges));
    b->out[0] = b->in[0];
    for (int32_t i = 0; i < x.rank; i++) {
        if (ranges[i].step != 1 || ranges[i].count != x.shape[i])
            DHOWI_TRY(slice_axis(b, i, &ranges[i], &b->out[0]));
    }
    return DHOW_OK;
}

dhow_status dhowi_lower_expand(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    int64_t wanted[DHOW_MAX_RANK], shape[DHOW_MAX_RANK];
    uint32_t count;
    int32_t rank;
    DHOWI_TRY(dhowi_shape_values(b, b->in[1], "the shape", wanted, &count));
    if (!dhowi_shape_broadcast(x.rank, x.shape, (int32_t)count, wanted, &rank, shape)) {
        char text[160];
        DHOWI_REFUSE("%s does not repeat to the shape", dhowi_desc_text(&x, text, sizeof text));
    }
    return dhowi_expand(b, b->in[0], rank, shape, &b->out[0]);
}

/* Each dimension becomes two, of which the outer repeats. */
dhow_status dhowi_lower_tile(dhowi_lowering *b) {
    int64_t repeats[DHOW_MAX_RANK];
    uint32_t count;
    DHOWI_TRY(dhowi_shape_values(b, b->in[1], "repeats", repeats, &count));
    if ((int32_t)count != dhowi_desc_at(b, b->in[0])->rank) DHOWI_REFUSE("%u repeats", count);
    b->out[0] = b->in[0];
    for (int32_t i = 0; i < (int32_t)count; i++) {
        const dhowi_tensor_desc x = *dhowi_desc_at(b, b->out[0]);
        if (repeats[i] == 1) continue;
        if (repeats[i] < 0) DHOWI_REFUSE("%" PRId64 " repeats", repeats[i]);
        const int64_t flat[] = {dhowi_extent(&x, 0, i), 1, dhowi_extent(&x, i, x.rank)};
        const int64_t wide[] = {flat[0], repeats[i], flat[2]};
        dhowi_tensor_desc y = x;
        if (!dhowi_mul_i64(x.shape[i], repeats[i], &y.shape[i])) DHOWI_REFUSE("it is too large");
        DHOWI_TRY(dhowi_reshape(b, b->out[0], 3, flat, &b->out[0]));
        DHOWI_TRY(dhowi_expand(b, b->out[0], 3, wide, &b->out[0]));
        DHOWI_TRY(dhowi_reshape(b, b->out[0], y.rank, y.shape, &b->out[0]));
    }
    return DHOW_OK;
}

static dhow_status block_of(dhowi_lowering *b, int64_t *block) {
    const dhowi_tensor_desc *x = dhowi_desc_at(b, b->in[0]);
    DHOWI_TRY(dhowi_attr_needed(b, "blocksize", block));
    if (x->rank != 4 || *block < 1) DHOWI_REFUSE("it takes images [n, c, h, w] and a blocksize");
    if (*block > INT16_MAX) DHOWI_REFUSE("blocksize %" PRId64, *block);
    return DHOW_OK;
}

/* Whether a channel's pixels of a block lie together, else the channels of a pixel do. */
static dhow_status order_of_blocks(dhowi_lowering *b, bool *crd) {
    *crd = dhowi_attr_is(b, "mode", "CRD", "DCR");
    return *crd || dhowi_attr_is(b, "mode", "DCR", "DCR") ? DHOW_OK : dhowi_refuse_text(b, "mode");
}

dhow_status dhowi_lower_depth_to_space(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    int64_t s;
    bool crd;
    DHOWI_TRY(block_of(b, &s));
    const int64_t *e = x.shape, c = e[1] / (s * s);
    if (e[1] % (s * s) != 0) DHOWI_REFUSE("blocksize %" PRId64 " does not divide the channels", s);
    DHOWI_TRY(order_of_blocks(b, &crd));
    const int64_t dcr_shape[] = {e[0], s, s, c, e[2], e[3]},
                  crd_shape[] = {e[0], c, s, s, e[2], e[3]};
    const int32_t dcr_order[] = {0, 3, 4, 1, 5, 2}, crd_order[] = {0, 1, 4, 2, 5, 3};
    const int64_t shape[] = {e[0], c, e[2] * s, e[3] * s};
    DHOWI_TRY(dhowi_reshape(b, b->in[0], 6, crd ? crd_shape : dcr_shape, &b->out[0]));
    DHOWI_TRY(dhowi_permute(b, b->out[0], crd ? crd_order : dcr_order, &b->out[0]));
    return dhowi_reshape(b, b->out[0], 4, shape, &b->out[0]);
}

dhow_status dhowi_lower_space_to_depth(dhowi_lowering *b) {
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    int64_t s;
    bool crd;
    DHOWI_TRY(block_of(b, &s));
    DHOWI_TRY(order_of_blocks(b, &crd));
    const int64_t *e = x.shape;
    if (e[2] % s != 0 || e[3] % s != 0)
        DHOWI_REFUSE("blocksize %" PRId64 " does not divide the image", s);
    const int64_t parts[] = {e[0], e[1], e[2] / s, s, e[3] / s, s};
    const int32_t dcr_order[] = {0, 3, 5, 1, 2, 4}, crd_order[] = {0, 1, 3, 5, 2, 4};
    const int64_t shape[] = {e[0], e[1] * s * s, e[2] / s, e[3] / s};
    DHOWI_TRY(dhowi_reshape(b, b->in[0], 6, parts, &b->out[0]));
    DHOWI_TRY(dhowi_permute(b, b->out[0], crd ? crd_order : dcr_order, &b->out[0]));
    return dhowi_reshape(b, b->out[0], 4, shape, &b->out[0]);
}
