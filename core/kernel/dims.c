/* SPDX-License-Identifier: Apache-2.0
 *
 * What kernels of GPUs want to know of extents and strides, which takes the host a moment and each
 * of their items as long.
 */
#include "kernel/kernel.h"
#include "kernel/optimise.h"

int64_t dhowi_multiplier(int64_t extent) {
    if (extent < 1 || extent > INT32_MAX) return 0; /* nothing to do, or indices of 64 bits */
    const uint64_t divisor = (uint64_t)extent, one = UINT64_C(1) << 32;
    int up = 0;
    while ((UINT64_C(1) << up) < divisor) up++;
    return (int64_t)(((one << up) + divisor - 1) / divisor - one);
}

int64_t dhowi_multipliers(const dhow_device *device, const dhow_dims *dims, int64_t span,
                          int64_t multipliers[DHOW_MAX_RANK]) {
    if (!dhowi_optimises(DHOWI_OPTIMISE_MULTIPLIERS)) span = INT64_MAX;
    if (dhowi_index_width(device, span) != DHOWI_INDEX_32) return span;
    for (int64_t k = 0; k < dims->rank; k++) multipliers[k] = dhowi_multiplier(dims->shape[k]);
    return span;
}

int64_t dhowi_share_of(dhow_dtype dtype) { return dhow_dtype_bytes(dtype) == 8 ? 2 : 4; }

int64_t dhowi_pack_of(dhow_dtype dtype) {
    return dtype == DHOW_F16 || dtype == DHOW_BF16 ? 8 : dhowi_share_of(dtype);
}

bool dhowi_has_shares(const dhow_dims *dims, const int64_t *strides, int64_t count) {
    const int64_t last = dims->rank - 1, rest = count - 1;
    bool fits = strides[last] == 0 || strides[last] == 1;
    for (int64_t k = 0; k < last && strides[last] == 1; k++)
        fits = fits && (strides[k] & rest) == 0;
    return fits && (last == 0 || (dims->shape[last] & rest) == 0);
}
