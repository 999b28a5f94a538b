/* SPDX-License-Identifier: Apache-2.0
 *
 * See vendor.h.
 */
#include "vendor.h"

conform_result vendor_array_new(conform_env *env, void *stream, dhow_dtype dtype, int64_t count,
                                uint64_t seed, vendor_array *out) {
    const uint64_t each = dhow_dtype_bytes(dtype);
    unsigned char *bytes = conform_memory(env, (size_t)count * each);
    const int64_t shape[] = {count};
    conform_array values = conform_array_random(env, dtype, 1, shape, -1, 1, seed);
    *out = (vendor_array){.dtype = dtype, .count = count, .value = values.value};
    for (int64_t i = 0; i < count; i++)
        conform_encode(dtype, values.value[i], bytes + (uint64_t)i * each);
    TRY(slot_memory(env, (uint64_t)count * each, &out->handle));
    return slot_write(env, stream, out->handle, 0, bytes, (uint64_t)count * each);
}

conform_result vendor_array_read(conform_env *env, void *stream, const vendor_array *a,
                                 double *out) {
    const uint64_t each = dhow_dtype_bytes(a->dtype);
    unsigned char *bytes = conform_memory(env, (size_t)a->count * each);
    TRY(slot_read(env, stream, a->handle, 0, bytes, (uint64_t)a->count * each));
    for (int64_t i = 0; i < a->count; i++)
        out[i] = conform_decode(a->dtype, bytes + (uint64_t)i * each);
    return CONFORM_PASS;
}

double vendor_activate(uint32_t activation, double alpha, double beta, double x) {
    switch (activation) {
        case DHOW_ACTIVATION_RELU:
            return x < 0 ? 0 : x; /* NaN stays */
        case DHOW_ACTIVATION_GELU:
            return x / 2 * erfc(-x * M_SQRT1_2);
        case DHOW_ACTIVATION_GELU_TANH:
            return x / 2 * (1 + tanh(M_SQRT2 * M_2_SQRTPI / 2 * (x + 0.044715 * x * x * x)));
        case DHOW_ACTIVATION_SIGMOID:
            return 1 / (1 + exp(-x));
        case DHOW_ACTIVATION_TANH:
            return tanh(x);
        case DHOW_ACTIVATION_SILU:
            return x / (1 + exp(-x));
        case DHOW_ACTIVATION_HARD_SWISH:
            return x * (x < -3 ? 0 : x > 3 ? 1 : x / 6 + 0.5);
        case DHOW_ACTIVATION_MISH:
            return x * tanh(log1p(exp(x))); /* of small x */
        case DHOW_ACTIVATION_LEAKY_RELU:
            return x < 0 ? alpha * x : x;
        case DHOW_ACTIVATION_CLIP:
            return x < alpha ? alpha : x > beta ? beta : x;
        default:
            return x;
    }
}

double vendor_tolerance(dhow_dtype dtype, double want, double size) {
    const double step = dtype == DHOW_F64    ? 1e-13
                        : dtype == DHOW_F16  ? 0x1p-10
                        : dtype == DHOW_BF16 ? 0x1p-7
                                             : 2e-6;
    const double sum = dtype == DHOW_F64 ? 1e-13 : 2e-6;
    return step * (fabs(want) + 0.5) + sum * size;
}

void vendor_prefix(conform_env *env, const char *what) {
    char rest[sizeof env->message];
    memcpy(rest, env->message, sizeof rest);
    (void)snprintf(env->message, sizeof env->message, "%s: %.1000s", what, rest);
}
