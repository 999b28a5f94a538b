/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations by a pass of their own.
 */
#ifndef DHOW_PLUGINS_CPU_ACTIVATE_H_
#define DHOW_PLUGINS_CPU_ACTIVATE_H_

#include <stdint.h>

/* values = activation(values): DHOW_ACTIVATION_SILU, _GELU or _GELU_TANH. Compiled for an
 * instruction set each. */
typedef void activate_values(float *values, int64_t count, uint32_t activation);
activate_values activate_v3, activate_v4;

#endif
