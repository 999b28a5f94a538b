/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations by a pass of their own.
 */
#ifndef DHOW_PLUGINS_CPU_ACTIVATE_H_
#define DHOW_PLUGINS_CPU_ACTIVATE_H_

#include <stdint.h>

#include "activation.h"

/* values = activation(values + residual), of what cpu_ends_with(); residual may be NULL. Compiled
 * for an instruction set each. */
typedef void activate_values(float *values, const float *residual, int64_t count,
                             const cpu_activation *activation);
activate_values activate_v3, activate_v4;

#endif
