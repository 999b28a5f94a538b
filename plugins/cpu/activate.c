/* SPDX-License-Identifier: Apache-2.0
 *
 * See activate.h. LANES and ACTIVATE are given by the build.
 */
#include "activate.h"

#include "vectors.h"

INLINE void activate_as(float *values, int64_t count, uint32_t kind, const cpu_activation *a) {
    const cpu_activation as = {kind, a->alpha, a->beta};
    for (int64_t i = 0; i < count; i += LANES) {
        const vec x = load_part(values + i, count - i);
        store_part(values + i, activate_inline(x, &as), count - i);
    }
}

void ACTIVATE(float *values, int64_t count, const cpu_activation *a) {
    if (a->kind == DHOW_ACTIVATION_SILU) {
        activate_as(values, count, DHOW_ACTIVATION_SILU, a);
    } else {
        activate_as(values, count, a->kind, a);
    }
}
