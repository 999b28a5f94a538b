/* SPDX-License-Identifier: Apache-2.0
 *
 * Where activations run behind oneDNN's primitives: a pass of one's own takes half as long as what
 * oneDNN 2.6 writes into them, as long as the values are still in a cache.
 */
#include "onednn.h"

activate_values *cpu_activation_behind(const cpu_device *device, uint32_t kind, int32_t dtype,
                                       double count) {
    static const double most = 1 << 20;
    const int own = kind == DHOW_ACTIVATION_SILU || kind == DHOW_ACTIVATION_GELU ||
                    kind == DHOW_ACTIVATION_GELU_TANH;
    const cpu_when when = device->backend->activations;
    if (!own || dtype != DHOW_F32 || when == CPU_NEVER || (count > most && when != CPU_ALWAYS))
        return NULL;
    return device->isa == CPU_ISA_V4 ? activate_v4 : device->isa == CPU_ISA_V3 ? activate_v3 : NULL;
}

void cpu_activate(activate_values *activate, const cpu_activation *activation, float *values,
                  const float *residual, int64_t count, int threads) {
    enum { PIECE = 8192, ALONE_BELOW = 4 * PIECE };
#pragma omp parallel for schedule(static) \
    num_threads(threads) if (threads > 1 && count >= ALONE_BELOW)
    for (int64_t at = 0; at < count; at += PIECE)
        activate(values + at, residual ? residual + at : NULL,
                 count - at < PIECE ? count - at : PIECE, activation);
}
