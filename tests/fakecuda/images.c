/* SPDX-License-Identifier: Apache-2.0
 *
 * The images that the plugin is linked with here: all kernels of the CPU table.
 */
#include "plugins/cuda/images.h"

#include "fake.h"

#define IMAGE(unit, type, bits) \
    { FAKE_FATBIN_MAGIC, 1, 16, 16, FAKE_FATBIN_MARK, bits == 64, unit "." type "." #bits }
#define UNIT(unit, type) {IMAGE(unit, type, 32), IMAGE(unit, type, 64)},

const void *dhowi_cuda_image(uint32_t unit, uint32_t index_bits) {
    static const fake_fatbin images[][2] = {
#include "units.inc"
    };
    return &images[unit][index_bits == 64];
}
