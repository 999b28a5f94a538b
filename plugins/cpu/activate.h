/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations by a pass of their own.
 */
#ifndef DHOW_PLUGINS_CPU_ACTIVATE_H_
#define DHOW_PLUGINS_CPU_ACTIVATE_H_

#include <stddef.h>
#include <stdint.h>

#include "activation.h"

/* values = activation(values + residual), of what cpu_ends_with(); residual may be NULL. Compiled
 * for an instruction set each. */
typedef void activate_values(float *values, const float *residual, int64_t count,
                             const cpu_activation *activation);
activate_values activate_v3, activate_v4;

/* The same of rows that lie `stride` apart. */
static inline void activate_rows(activate_values *activate, float *values, int64_t stride,
                                 int64_t rows, int64_t columns, const cpu_activation *activation) {
    if (columns == stride) {
        activate(values, NULL, rows * columns, activation);
        return;
    }
    for (int64_t r = 0; r < rows; r++) activate(values + r * stride, NULL, columns, activation);
}

#endif
