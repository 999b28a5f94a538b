/* SPDX-License-Identifier: Apache-2.0
 *
 * The images that the plugin is linked with here: all kernels of the CPU table.
 */
#include "plugins/cuda/images.h"

#include "fake.h"

const void *dhowi_cuda_image(uint32_t unit, uint32_t index_bits) {
    static const fake_fatbin narrow = FAKE_FATBIN_INIT;
    static const fake_fatbin wide = {FAKE_FATBIN_MAGIC, 1, 16, 16, FAKE_FATBIN_MARK "\0wide"};
    (void)unit;
    return index_bits == 64 ? &wide : &narrow;
}
