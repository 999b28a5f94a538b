/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows over images: what convolution and pooling share.
 */
#ifndef DHOWI_MODEL_OPERATORS_WINDOW_H_
#define DHOWI_MODEL_OPERATORS_WINDOW_H_

#include "model/lower/lower.h"

enum { DHOWI_MAX_WINDOW = 1 << 24 };

/* One list attribute over the spatial dimensions, which are laid at the end of three. */
dhow_status dhowi_window_list(const dhowi_lowering *b, const char *name, int spatial,
                              int64_t otherwise, int64_t low, int64_t to[3]);
/* Everything but the kernel, which is set before. */
dhow_status dhowi_window_of(const dhowi_lowering *b, const dhowi_tensor_desc *x, dhowi_window3d *s);
/* The extents that the window gives. */
dhow_status dhowi_window_result(dhowi_window3d *s);
/* Those of a pool. As in ONNX Runtime, which divides towards 0, a window that is larger than the
 * image and its padding by less than its stride gives one element, of what is there; by less than
 * two strides none. */
dhow_status dhowi_pool_result(dhowi_window3d *s, bool ceil_mode);
void dhowi_window_shape(const dhowi_window3d *s, int32_t rank, dhowi_tensor_desc *y);
/* Refuses what is no image of one to three dimensions. */
dhow_status dhowi_check_images(const dhowi_tensor_desc *x);
/* [n, c, w] as [n, c, 1, w]. */
dhow_status dhowi_as_image(dhowi_lowering *b, int32_t x, int32_t *out);

/* How a window over a volume is one over images. */
typedef enum dhowi_volume_form {
    DHOWI_VOLUME, /* it is none */
    DHOWI_JOINED, /* two neighbouring axes, which it leaves as they are, are one */
    DHOWI_SLICES  /* every slice is an image by itself: worth a transpose on processors */
} dhowi_volume_form;
/* Makes s that of the image whose axes are joined. */
dhowi_volume_form dhowi_volume_as_image(const dhowi_lowering *b, const dhowi_tensor_desc *x,
                                        dhowi_window3d *s);

#endif /* DHOWI_MODEL_OPERATORS_WINDOW_H_ */
