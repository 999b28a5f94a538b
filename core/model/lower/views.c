/* SPDX-License-Identifier: Apache-2.0
 *
 * Views: items that see the elements of others in another shape.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/size.h"
#include "model/lower/lower.h"

static bool is_dense(const dhowi_tensor_desc *desc, const int64_t *strides) {
    int64_t expected[DHOW_MAX_RANK];
    dhowi_shape_strides(desc->rank, desc->shape, expected);
    for (int32_t i = 0; i < desc->rank; i++) {
        if (desc->shape[i] != 1 && strides[i] != expected[i]) return false;
    }
    return true;
}

dhow_status dhowi_view(dhowi_lowering *b, int32_t x, int32_t rank, const int64_t *shape,
                       const int64_t *strides, int64_t offset, int32_t *out) {
    dhowi_tensor_desc desc = {
        .dtype = b->items[x].desc.dtype, .rank = rank, .encoding = b->items[x].desc.encoding};
    if (rank > 0) memcpy(desc.shape, shape, (size_t)rank * sizeof *shape);
    DHOWI_TRY(dhowi_item_new(b, &desc, out));
    dhowi_item *item = &b->items[*out], *from = &b->items[x];
    if (rank > 0) memcpy(item->strides, strides, (size_t)rank * sizeof *strides);
    item->offset = offset;
    item->contiguous = dhowi_count_of(&desc) <= 1 || is_dense(&desc, strides);
    item->buffer = from->buffer;
    item->fixed = from->fixed;
    item->late = from->late;
    if (from->tensor == NULL) return DHOW_OK;
    return dhowi_tensor_view(from->tensor->storage, desc.dtype, rank, shape, item->strides, offset,
                             &item->tensor);
}

void dhowi_move_views(dhowi_lowering *b, int32_t from, int32_t to, int64_t offset) {
    for (uint32_t i = 0; i < b->item_count; i++) {
        if (b->items[i].buffer != from) continue;
        b->items[i].buffer = to;
        b->items[i].offset += offset;
    }
}

static dhow_status reshape_texts(dhowi_lowering *b, int32_t x, int32_t rank, const int64_t *shape,
                                 int32_t *out) {
    dhow_datum *y = NULL;
    DHOWI_TRY(dhow_datum_of_texts(rank, shape, (const char *const *)b->items[x].texts->texts, &y));
    const dhow_status status = dhowi_texts(b, y, out);
    dhow_datum_release(y);
    return status;
}

dhow_status dhowi_reshape(dhowi_lowering *b, int32_t x, int32_t rank, const int64_t *shape,
                          int32_t *out) {
    int64_t strides[DHOW_MAX_RANK], count = 1;
    if (rank > DHOW_MAX_RANK) DHOWI_REFUSE("%d dimensions, dhow takes %d", rank, DHOW_MAX_RANK);
    for (int32_t i = 0; i < rank; i++) {
        if (shape[i] < 0 || !dhowi_mul_i64(count, shape[i], &count))
            DHOWI_REFUSE("extent %" PRId64 " in a shape", shape[i]);
    }
    if (count != dhowi_count_of(&b->items[x].desc)) {
        DHOWI_REFUSE("%" PRId64 " elements cannot take a shape of %" PRId64,
                     dhowi_count_of(&b->items[x].desc), count);
    }
    if (b->items[x].kind == DHOW_DATUM_TEXTS) return reshape_texts(b, x, rank, shape, out);
    if (!b->items[x].contiguous) DHOWI_TRY(dhowi_dense(b, x, &x));
    dhowi_shape_strides(rank, shape, strides);
    return dhowi_view(b, x, rank, shape, strides, b->items[x].offset, out);
}

/* Dimensions that lie evenly one within the other are one run of elements; the innermost first. */
typedef struct run_of_elements {
    int64_t length, step;
} run_of_elements;

static int32_t runs_of(const dhowi_item *item, run_of_elements *runs) {
    int32_t count = 0;
    for (int32_t i = item->desc.rank - 1; i >= 0; i--) {
        const int64_t extent = item->desc.shape[i], step = item->strides[i];
        if (extent == 1) continue;
        run_of_elements *last = count > 0 ? &runs[count - 1] : NULL;
        if (last != NULL && step == last->step * last->length) {
            last->length *= extent;
        } else {
            runs[count++] = (run_of_elements){extent, step};
        }
    }
    return count;
}

/* The strides of a shape over the same elements in the same order; false where there are none. */
static bool strides_for(const dhowi_item *item, int32_t rank, const int64_t *shape,
                        int64_t *strides) {
    run_of_elements runs[DHOW_MAX_RANK];
    const int32_t count = runs_of(item, runs);
    int32_t at = 0;
    for (int32_t i = rank - 1; i >= 0; i--) {
        strides[i] = 0;
        if (shape[i] == 1) continue;
        if (at < count && runs[at].length == 1) at++;
        if (at == count || runs[at].length % shape[i] != 0) return false;
        strides[i] = runs[at].step;
        runs[at].step *= shape[i];
        runs[at].length /= shape[i];
    }
    return true;
}

dhow_status dhowi_regroup(dhowi_lowering *b, int32_t x, int32_t rank, const int64_t *shape,
                          int32_t *out) {
    if (b->items[x].kind == DHOW_DATUM_TEXTS) return dhowi_reshape(b, x, rank, shape, out);
    const dhowi_item item = b->items[x];
    int64_t strides[DHOW_MAX_RANK], count = 1;
    bool fits = !item.contiguous && rank <= DHOW_MAX_RANK && dhowi_count_of(&item.desc) > 0;
    for (int32_t i = 0; i < rank && fits; i++)
        fits = shape[i] > 0 && dhowi_mul_i64(count, shape[i], &count);
    if (!fits || count != dhowi_count_of(&item.desc) || !strides_for(&item, rank, shape, strides))
        return dhowi_reshape(b, x, rank, shape, out);
    return dhowi_view(b, x, rank, shape, strides, item.offset, out);
}

dhow_status dhowi_permute(dhowi_lowering *b, int32_t x, const int32_t *order, int32_t *out) {
    const dhowi_item item = b->items[x];
    int64_t shape[DHOW_MAX_RANK], strides[DHOW_MAX_RANK];
    for (int32_t i = 0; i < item.desc.rank; i++) {
        shape[i] = item.desc.shape[order[i]];
        strides[i] = item.strides[order[i]];
    }
    return dhowi_view(b, x, item.desc.rank, shape, strides, item.offset, out);
}

dhow_status dhowi_narrow(dhowi_lowering *b, int32_t x, int32_t dim, int64_t start, int64_t count,
                         int64_t step, int32_t *out) {
    dhowi_item item = b->items[x];
    if (dim < 0 || dim >= item.desc.rank) DHOWI_REFUSE("there is no dimension %d", dim);
    const int64_t extent = item.desc.shape[dim], last = start + (count - 1) * step;
    if (count < 0 || (count > 0 && (start < 0 || start >= extent || last < 0 || last >= extent)))
        DHOWI_REFUSE("elements %" PRId64 " to %" PRId64 " of dimension %d, which has %" PRId64,
                     start, last, dim, extent);
    int64_t offset = item.offset + (count > 0 ? start * item.strides[dim] : 0);
    item.desc.shape[dim] = count;
    if (count > 1) item.strides[dim] *= step; /* a single one has none, and any may be asked for */
    return dhowi_view(b, x, item.desc.rank, item.desc.shape, item.strides, offset, out);
}

dhow_status dhowi_expand(dhowi_lowering *b, int32_t x, int32_t rank, const int64_t *shape,
                         int32_t *out) {
    const dhowi_item item = b->items[x];
    int64_t strides[DHOW_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) {
        int32_t own = i - (rank - item.desc.rank);
        bool moves = own >= 0 && item.desc.shape[own] != 1;
        if (moves && item.desc.shape[own] != shape[i])
            DHOWI_REFUSE("extent %" PRId64 " does not repeat to %" PRId64, item.desc.shape[own],
                         shape[i]);
        strides[i] = moves ? item.strides[own] : 0;
    }
    return dhowi_view(b, x, rank, shape, strides, item.offset, out);
}

dhow_status dhowi_part_of(dhowi_lowering *b, int32_t x, int32_t axis, int64_t index, int32_t *out) {
    DHOWI_TRY(dhowi_narrow(b, x, axis, index, 1, 1, out));
    dhowi_tensor_desc desc = *dhowi_desc_at(b, *out);
    for (int32_t i = axis; i + 1 < desc.rank; i++) desc.shape[i] = desc.shape[i + 1];
    dhowi_item item = b->items[*out];
    for (int32_t i = axis; i + 1 < desc.rank; i++) item.strides[i] = item.strides[i + 1];
    return dhowi_view(b, *out, desc.rank - 1, desc.shape, item.strides, item.offset, out);
}
