/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of channel layouts share.
 */
#ifndef DHOWI_MODEL_PASSES_IMAGES_IMAGES_H_
#define DHOWI_MODEL_PASSES_IMAGES_IMAGES_H_

#include "model/passes/passes.h"

/* The other form of a buffer that holds a whole image. A buffer has items of several shapes: what
 * is [n, c, h, 1] to one step is [n, c, 1, h] to another, and [1, n c, h, 1] to a third. */
typedef struct dhowi_image_form {
    int32_t plain;  /* item [n, c, h, w] that the blocks were made of */
    int32_t blocks; /* item [n, c/b, h, w, b], -1 for none */
    bool has_plain; /* its buffer is written */
} dhowi_image_form;

typedef struct dhowi_blocker {
    dhowi_lowering *b;
    dhowi_step *old; /* the steps before */
    uint32_t old_count;
    int32_t *images;         /* by buffer of those steps: an item that is a whole image, or -1 */
    uint32_t *convolved;     /* by buffer: so many convolutions read it */
    dhowi_image_form *forms; /* by buffer */
    uint32_t form_count, form_capacity;
    uint32_t layout; /* of the images that are not plain, 0 until a convolution asks for one */
} dhowi_blocker;

/* Channels of a block; NHWC is one block of all. */
int64_t dhowi_block_of(const dhowi_blocker *k, int64_t channels);
bool dhowi_is_image(const dhowi_lowering *b, int32_t ref);
dhow_status dhowi_form_of(dhowi_blocker *k, int32_t ref, dhowi_image_form **out);
/* For the image `ref`: a buffer of its own, or a view of the plain one where both lie alike. */
dhow_status dhowi_new_blocks(dhowi_blocker *k, int32_t ref, int32_t *out);
/* Any view of the buffer may be read afterwards. */
dhow_status dhowi_want_plain(dhowi_blocker *k, int32_t ref);
/* A step writes to some view of the buffer, and perhaps to a part of it alone. */
dhow_status dhowi_write_plain(dhowi_blocker *k, int32_t ref);
/* Whether a view [n, c, h, w] is dense when its channels come last: pixels that were rows. */
bool dhowi_lies_in_nhwc(const dhowi_blocker *k, int32_t ref);
/* Whether blocks can be wanted of it: an image, whole blocks of an image's channels, or a view that
 * lies in NHWC. */
bool dhowi_has_blocks(const dhowi_blocker *k, int32_t ref);
/* An image in blocks, with its own height and width; of channels of an image a view. */
dhow_status dhowi_want_blocks(dhowi_blocker *k, int32_t ref, int32_t *out);
/* The same, and what is a view is copied. */
dhow_status dhowi_want_own_blocks(dhowi_blocker *k, int32_t ref, int32_t *out);
dhow_status dhowi_have_blocks(dhowi_blocker *k, int32_t ref, int32_t blocks);
/* Whether only the blocked form is there, of the whole image: staying in it saves a conversion. */
bool dhowi_is_blocked(dhowi_blocker *k, int32_t ref);

/* copies.c: so many steps from number `at` on, as copies of blocks; 0 where they stay plain.
 */
dhow_status dhowi_copy_blocks(dhowi_blocker *k, uint32_t at, uint32_t *used);

#endif /* DHOWI_MODEL_PASSES_IMAGES_IMAGES_H_ */
