/* SPDX-License-Identifier: Apache-2.0
 *
 * What convolutions do to each element.
 */
#include <math.h>

#include "sim.h"

double sim_activate(uint32_t activation, float alpha, float beta, double x) {
    const double low = (double)alpha, high = (double)beta;
    switch (activation) {
        case DHOW_ACTIVATION_RELU:
            return x < 0 ? 0 : x;
        case DHOW_ACTIVATION_GELU:
            return x / 2 * (1 + erf(x / sqrt(2)));
        case DHOW_ACTIVATION_GELU_TANH:
            return x / 2 *
                   (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
        case DHOW_ACTIVATION_SIGMOID:
            return 1 / (1 + exp(-x));
        case DHOW_ACTIVATION_TANH:
            return tanh(x);
        case DHOW_ACTIVATION_SILU:
            return x / (1 + exp(-x));
        case DHOW_ACTIVATION_HARD_SWISH:
            return x * (x < -3 ? 0 : x > 3 ? 1 : x / 6 + 0.5);
        case DHOW_ACTIVATION_MISH:
            return x * tanh(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)));
        case DHOW_ACTIVATION_LEAKY_RELU:
            return x < 0 ? low * x : x;
        case DHOW_ACTIVATION_CLIP:
            return x < low ? low : x > high ? high : x;
        default:
            return x;
    }
}
