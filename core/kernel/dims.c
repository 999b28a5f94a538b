/* SPDX-License-Identifier: Apache-2.0
 *
 * What kernels of GPUs want to know of extents and strides, which takes the host a moment and each
 * of their items as long.
 */
#include <string.h>

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

bool dhowi_has_shares(const dhow_dims *dims, const int64_t *strides, int64_t count) {
    const int64_t last = dims->rank - 1, rest = count - 1;
    bool fits = strides[last] == 0 || strides[last] == 1;
    for (int64_t k = 0; k < last && strides[last] == 1; k++)
        fits = fits && (strides[k] & rest) == 0;
    return fits && (last == 0 || (dims->shape[last] & rest) == 0);
}

/* ---- packs ---- */

/* What an operand is to an item that takes a pack of the result. */
enum { ONE_FOR_ROW, ROW, PACKS, NEITHER };

static int64_t pack_of(dhow_dtype dtype) {
    return dtype == DHOW_F16 || dtype == DHOW_BF16 ? 8 : dhowi_share_of(dtype);
}

/* Where rows are made of packs. */
static int64_t kind_in_rows(const dhow_dims *dims, const int64_t *strides, int64_t pack) {
    if (!dhowi_has_shares(dims, strides, pack)) return NEITHER;
    return strides[dims->rank - 1] == 1 ? PACKS : ONE_FOR_ROW;
}

/* Where packs lie across the ends of rows, since the result has no gaps. */
static int64_t kind_across_rows(const dhow_dims *dims, const int64_t *strides,
                                const int64_t *result) {
    const int64_t moves = strides[dims->rank - 1];
    if (memcmp(strides, result, (size_t)dims->rank * sizeof *strides) == 0) return PACKS;
    return moves == 1 ? ROW : moves == 0 ? ONE_FOR_ROW : NEITHER;
}

static bool has_gaps(const dhow_dims *dims, const int64_t *strides) {
    int64_t count = 1;
    bool gaps = false;
    for (int64_t k = dims->rank - 1; k >= 0; count *= dims->shape[k--])
        gaps = gaps || strides[k] != count;
    return gaps;
}

dhowi_packs dhowi_packs_of(const dhow_dims *dims, const int64_t *const *strides, uint32_t count,
                           const int64_t *result, dhow_dtype dtype) {
    const int64_t pack = pack_of(dtype);
    dhowi_packs p = {.length = dims->shape[dims->rank - 1]};
    const bool across = p.length >= pack && !has_gaps(dims, result);
    p.multiplier = dhowi_multiplier(p.length);
    for (int mode = 1; mode <= 2 && p.mode == 0 && dhowi_optimises(DHOWI_OPTIMISE_SHARES); mode++) {
        bool fits = mode == 1 ? kind_in_rows(dims, result, pack) == PACKS : across;
        for (uint32_t k = 0; k < count && fits; k++) {
            p.kind[k] = mode == 1 ? kind_in_rows(dims, strides[k], pack)
                                  : kind_across_rows(dims, strides[k], result);
            fits = p.kind[k] != NEITHER;
        }
        if (fits) p.mode = mode;
    }
    return p;
}
