/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures in files: PPM, and PNG where libpng is there.
 */
#ifndef EXAMPLES_CUTOUT_PICTURE_H_
#define EXAMPLES_CUTOUT_PICTURE_H_

#include <stdint.h>

/* Rows of red, green, blue from the top; alpha is NULL for opaque pictures. */
typedef struct picture {
    int width, height;
    uint8_t *rgb, *alpha;
} picture;

/* 0 when it fails; picture_error() says why. A name that ends in .png is one, others are PPM. */
int picture_read(const char *path, picture *out);
/* PPM has no alpha: the picture is laid over white. */
int picture_write(const char *path, const picture *p);
void picture_free(picture *p);
const char *picture_error(void);

#endif /* EXAMPLES_CUTOUT_PICTURE_H_ */
