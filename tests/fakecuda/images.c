/* SPDX-License-Identifier: Apache-2.0
 *
 * The images that the plugin is linked with here: all kernels of the CPU table.
 */
#include "plugins/cuda/images.h"

#include "fake.h"

const void *dhowi_cuda_image(uint32_t unit, uint32_t index_bits) {
    static const fake_fatbin image = FAKE_FATBIN_INIT;
    (void)unit, (void)index_bits;
    return &image;
}
