/* SPDX-License-Identifier: Apache-2.0
 *
 * The built-in kernels as the build compiled them: one fat binary per unit and type, twice, for
 * indices of 32 and of 64 bits. Generated; without nvcc there are names and no images.
 */
#ifndef DHOW_CUDA_IMAGES_H_
#define DHOW_CUDA_IMAGES_H_

#include <stddef.h>
#include <stdint.h>

typedef struct dhowi_cuda_builtin_name {
    const char *name; /* "relu_f32" */
    uint32_t unit;    /* the image that holds it */
} dhowi_cuda_builtin_name;

extern const dhowi_cuda_builtin_name dhowi_cuda_builtin_names[]; /* sorted by name */
extern const size_t dhowi_cuda_builtin_count;
extern const uint32_t dhowi_cuda_unit_count;

/* The fat binary of a unit, or NULL. */
const void *dhowi_cuda_image(uint32_t unit, uint32_t index_bits);

#endif /* DHOW_CUDA_IMAGES_H_ */
