/* SPDX-License-Identifier: Apache-2.0
 *
 * The shape of a copy: the two tensors' strides, with dimensions merged and sorted so that as few
 * as possible remain.
 */
#ifndef DHOWI_COPY_LAYOUT_H_
#define DHOWI_COPY_LAYOUT_H_

#include "tensor/tensor.h"

typedef struct dhowi_layout {
    uint32_t element_bytes;
    int32_t rank; /* at least 1 */
    int64_t shape[DHOW_MAX_RANK];
    int64_t src_stride[DHOW_MAX_RANK], dst_stride[DHOW_MAX_RANK]; /* elements */
} dhowi_layout;

/* Of two tensors of one shape with at least one element. */
void dhowi_layout_of(const dhow_tensor *src, const dhow_tensor *dst, dhowi_layout *out);
/* One run of bytes on both sides. */
bool dhowi_layout_is_linear(const dhowi_layout *layout);
/* A box that a plugin's copy() takes at good speed: rows without gaps, of at least min_row_bytes,
 * at most three dimensions. */
bool dhowi_layout_is_box(const dhowi_layout *layout, uint64_t min_row_bytes);
/* Extents and pitches of the innermost up to three dimensions; handles and offsets are the
 * caller's. */
void dhowi_layout_rect(const dhowi_layout *layout, dhow_copy_rect *rect);

#endif /* DHOWI_COPY_LAYOUT_H_ */
