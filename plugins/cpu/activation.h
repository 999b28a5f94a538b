/* SPDX-License-Identifier: Apache-2.0
 *
 * What ends the convolutions that are computed without oneDNN.
 */
#ifndef DHOW_PLUGINS_CPU_ACTIVATION_H_
#define DHOW_PLUGINS_CPU_ACTIVATION_H_

#include "dhow/plugin.h"

typedef struct cpu_activation {
    uint32_t kind; /* DHOW_ACTIVATION_... */
    float alpha, beta;
} cpu_activation;

/* Those that vectors.h computes. */
static inline int cpu_activates(uint32_t kind) {
    return kind == DHOW_ACTIVATION_NONE || kind == DHOW_ACTIVATION_RELU ||
           kind == DHOW_ACTIVATION_LEAKY_RELU || kind == DHOW_ACTIVATION_CLIP ||
           kind == DHOW_ACTIVATION_HARD_SWISH || kind == DHOW_ACTIVATION_SIGMOID ||
           kind == DHOW_ACTIVATION_SILU;
}

/* Those, and what a pass behind the values computes, see activate.h. */
static inline int cpu_ends_with(uint32_t kind) {
    return cpu_activates(kind) || kind == DHOW_ACTIVATION_GELU || kind == DHOW_ACTIVATION_GELU_TANH;
}

#endif
