/* SPDX-License-Identifier: Apache-2.0
 *
 * See layout.h.
 */
#include "copy/layout.h"

#include <string.h>

static void swap_dims(dhowi_layout *l, int32_t a, int32_t b) {
    int64_t shape = l->shape[a], src = l->src_stride[a], dst = l->dst_stride[a];
    l->shape[a] = l->shape[b];
    l->src_stride[a] = l->src_stride[b];
    l->dst_stride[a] = l->dst_stride[b];
    l->shape[b] = shape;
    l->src_stride[b] = src;
    l->dst_stride[b] = dst;
}

/* Writing in order matters most: the destination's strides decide, the source's break ties. */
static bool belongs_outside(const dhowi_layout *l, int32_t a, int32_t b) {
    if (l->dst_stride[a] != l->dst_stride[b]) return l->dst_stride[a] > l->dst_stride[b];
    return l->src_stride[a] > l->src_stride[b];
}

void dhowi_layout_of(const dhow_tensor *src, const dhow_tensor *dst, dhowi_layout *l) {
    if (src->contiguous && dst->contiguous) { /* most copies are: no search for what they have */
        l->element_bytes = dhowi_tensor_element_bytes(src);
        l->rank = 1;
        l->shape[0] = src->count;
        l->src_stride[0] = l->dst_stride[0] = 1;
        return;
    }
    memset(l, 0, sizeof *l);
    l->element_bytes = dhowi_tensor_element_bytes(src);
    for (int32_t i = 0; i < src->rank; i++) {
        if (src->shape[i] == 1) continue;
        l->shape[l->rank] = src->shape[i];
        l->src_stride[l->rank] = src->strides[i];
        l->dst_stride[l->rank] = dst->strides[i];
        for (int32_t k = l->rank++; k > 0 && belongs_outside(l, k, k - 1); k--)
            swap_dims(l, k, k - 1);
    }
    int32_t kept = 0;
    for (int32_t i = 1; i < l->rank; i++) {
        bool joins = l->src_stride[kept] == l->src_stride[i] * l->shape[i] &&
                     l->dst_stride[kept] == l->dst_stride[i] * l->shape[i];
        if (joins) {
            l->shape[kept] *= l->shape[i];
        } else {
            l->shape[++kept] = l->shape[i];
        }
        l->src_stride[kept] = l->src_stride[i];
        l->dst_stride[kept] = l->dst_stride[i];
    }
    l->rank = kept + 1;
    if (l->shape[0] == 0) { /* a single element: no dimension was left */
        l->shape[0] = 1;
        l->src_stride[0] = l->dst_stride[0] = 1;
    }
}

bool dhowi_layout_is_linear(const dhowi_layout *l) {
    return l->rank == 1 && l->src_stride[0] == 1 && l->dst_stride[0] == 1;
}

/* Rows of a slice follow each other before the next slice begins: vendors' copies ask for that. */
static bool is_nested(const dhowi_layout *l) {
    for (int32_t i = 0; i + 1 < l->rank; i++) {
        if (l->src_stride[i] < l->src_stride[i + 1] * l->shape[i + 1] ||
            l->dst_stride[i] < l->dst_stride[i + 1] * l->shape[i + 1])
            return false;
    }
    return true;
}

bool dhowi_layout_is_box(const dhowi_layout *l, uint64_t min_row_bytes) {
    int32_t last = l->rank - 1;
    return l->rank <= 3 && is_nested(l) && l->src_stride[last] == 1 && l->dst_stride[last] == 1 &&
           (l->rank == 1 || (uint64_t)l->shape[last] * l->element_bytes >= min_row_bytes);
}

void dhowi_layout_rect(const dhowi_layout *l, dhow_copy_rect *rect) {
    uint64_t element = l->element_bytes;
    int32_t next = l->rank - 1;
    rect->extent[0] = element;
    rect->extent[1] = rect->extent[2] = 1;
    /* A row is a run of elements, or one element when they have gaps. */
    if (l->src_stride[next] == 1 && l->dst_stride[next] == 1)
        rect->extent[0] *= (uint64_t)l->shape[next--];
    rect->src.pitch[0] = rect->dst.pitch[0] = rect->extent[0];
    for (int k = 0; k < 2; k++) {
        if (k == 1) {
            rect->src.pitch[1] = rect->src.pitch[0] * rect->extent[1];
            rect->dst.pitch[1] = rect->dst.pitch[0] * rect->extent[1];
        }
        if (next < 0) continue;
        rect->extent[k + 1] = (uint64_t)l->shape[next];
        rect->src.pitch[k] = (uint64_t)l->src_stride[next] * element;
        rect->dst.pitch[k] = (uint64_t)l->dst_stride[next--] * element;
    }
}
