/* SPDX-License-Identifier: Apache-2.0
 *
 * See kernel_support.h.
 */
#include "kernel_support.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const cpu_kernel *dhow_reverse_kernel_entry(const char *name);

const char *const element_names[E_COUNT] = {"f32", "f64", "f16", "bf16", "i8", "u8", "i32", "i64"};

size_t element_bytes(element type) {
    static const size_t bytes[E_COUNT] = {4, 8, 2, 2, 1, 1, 4, 8};
    return bytes[type];
}

/* Narrow floats by arithmetic, so that a mistake in the kernels' bit tricks is not repeated here.
 */
static double narrow_get(uint16_t bits, int exponent_bits, int mantissa_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1,
              exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const double sign = bits >> 15 ? -1.0 : 1.0;
    if (exponent == (1 << exponent_bits) - 1) return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

static uint16_t narrow_set(double value, int exponent_bits, int mantissa_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
    const unsigned sign = signbit(value) ? 0x8000u : 0u;
    if (isnan(value)) return (uint16_t)((unsigned)top << mantissa_bits | 1u << (mantissa_bits - 1));
    const double magnitude = fabs(value);
    int exponent = magnitude > 0 && isfinite(magnitude) ? ilogb(magnitude) : -bias;
    if (exponent < 1 - bias) exponent = 1 - bias;
    const double steps =
        isinf(magnitude) ? INFINITY : nearbyint(ldexp(magnitude, mantissa_bits - exponent));
    const double limit = ldexp(2.0, mantissa_bits);
    if (isinf(steps) || exponent > bias || (exponent == bias && steps >= limit)) {
        return (uint16_t)(sign | (unsigned)top << mantissa_bits);
    }
    /* steps below 2^mantissa_bits is a denormal; reaching 2^(mantissa_bits+1) carries into the
     * exponent by itself */
    return (uint16_t)(sign |
                      (((unsigned)(exponent + bias - 1) << mantissa_bits) + (unsigned)steps));
}

double element_get(element type, const void *array, size_t i) {
    switch (type) {
        case E_F32:
            return ((const float *)array)[i];
        case E_F64:
            return ((const double *)array)[i];
        case E_F16:
            return narrow_get(((const uint16_t *)array)[i], 5, 10);
        case E_BF16:
            return narrow_get(((const uint16_t *)array)[i], 8, 7);
        case E_I8:
            return ((const int8_t *)array)[i];
        case E_U8:
            return ((const uint8_t *)array)[i];
        case E_I32:
            return ((const int32_t *)array)[i];
        default:
            return (double)((const int64_t *)array)[i];
    }
}

void element_set(element type, void *array, size_t i, double value) {
    switch (type) {
        case E_F32:
            ((float *)array)[i] = (float)value;
            break;
        case E_F64:
            ((double *)array)[i] = value;
            break;
        case E_F16:
            ((uint16_t *)array)[i] = narrow_set((double)(float)value, 5, 10);
            break;
        case E_BF16:
            ((uint16_t *)array)[i] = narrow_set((double)(float)value, 8, 7);
            break;
        case E_I8:
            ((int8_t *)array)[i] = (int8_t)value;
            break;
        case E_U8:
            ((uint8_t *)array)[i] = (uint8_t)value;
            break;
        case E_I32:
            ((int32_t *)array)[i] = (int32_t)value;
            break;
        default:
            ((int64_t *)array)[i] = (int64_t)value;
    }
}

double element_round(element type, double value) {
    uint64_t space = 0;
    element_set(type, &space, 0, value);
    return element_get(type, &space, 0);
}

void expect_near(element type, double got, double want, double relative, const char *what,
                 size_t index) {
    const double half_ulp[E_COUNT] = {0, 0, 1.0 / 2048, 1.0 / 256, 0, 0, 0, 0};
    const double scale = type == E_F64 ? 1e-6 : 1.0;
    const double share = relative * scale + half_ulp[type];
    const double slack =
        fabs(want) * share * 1.001 + (type == E_F16 ? 3e-8 : 0.0) + 0.2 * relative * scale;
    if (isnan(want) ? isnan(got) : got == want || fabs(got - want) <= slack) return;
    cr_assert_fail("%s: element %zu is %.9g, should be %.9g (off by %.3g, allowed %.3g)", what,
                   index, got, want, fabs(got - want), slack);
}

static int best_isa(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) {
        return CPU_ISA_V4;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2")) {
        return CPU_ISA_V3;
    }
#endif
    return CPU_ISA_V2;
}

int build_count(void) { return best_isa() + 2; }

const char *build_name(int build) {
    static const char *const names[] = {"v2", "v3", "v4"};
    return build > best_isa() ? "reverse" : names[build];
}

const k_info *build_of(const char *name, int build) {
    if (build <= best_isa()) return dhow_cpu_kernel(name, build);
    const cpu_kernel *entry = dhow_reverse_kernel_entry(name);
    return entry ? entry->isa[0] : NULL;
}

void run_kernel(const k_info *kernel, int groups, void *const *argv) {
    for (int g = groups - 1; g >= 0; g--) kernel->run(g, groups, argv);
}

/* ---- memory
 * ------------------------------------------------------------------------------------------------------
 */

/* A block begins behind a page or ends before one that nothing may touch, in turn from check to
 * check: what a kernel reads or writes beside it crashes. */
typedef struct block {
    void *map;
    size_t bytes;
} block;
static block blocks[256];
static size_t block_count, check_count;

void *scratch(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = (bytes + page - 1) / page * page;
    cr_assert(block_count < sizeof blocks / sizeof blocks[0]);
    block *b = &blocks[block_count++];
    b->bytes = inside + 2 * page;
    b->map = mmap(NULL, b->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert(b->map != MAP_FAILED);
    unsigned char *first = (unsigned char *)b->map + page;
    cr_assert_eq(mprotect(first, inside, PROT_READ | PROT_WRITE), 0);
    return check_count % 2 == 0 ? first + inside - bytes : first;
}

void release_all(void) {
    check_count++;
    while (block_count > 0) {
        const block *b = &blocks[--block_count];
        cr_assert_eq(munmap(b->map, b->bytes), 0);
    }
}

void *scratch_values(element type, size_t count, double low, double high) {
    static uint32_t seed = 1;
    unsigned char *array = scratch(count * element_bytes(type));
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        element_set(type, array, i, low + (high - low) * (seed >> 8) / 16777216.0);
    }
    return array;
}

double activate(double x, int activation) {
    switch (activation) {
        case DHOW_ACTIVATION_RELU:
            return x < 0 ? 0 : x;
        case DHOW_ACTIVATION_GELU:
            return x * 0.5 * erfc(-x * 0.70710678118654752);
        case DHOW_ACTIVATION_GELU_TANH:
            return x / (1 + exp(-2 * 0.79788456080286536 * (x + 0.044715 * x * x * x)));
        case DHOW_ACTIVATION_SIGMOID:
            return 1 / (1 + exp(-x));
        case DHOW_ACTIVATION_TANH:
            return tanh(x);
        case DHOW_ACTIVATION_SILU:
            return x / (1 + exp(-x));
        default:
            return x;
    }
}

void expect_all_builds(const char *name, element type, void **argv, int out, const double *want,
                       size_t count, double tolerance) {
    void **place = argv[out];
    void *start = scratch(count * element_bytes(type));
    memcpy(start, *place, count * element_bytes(type));
    for (int build = 0; build < build_count(); build++) {
        for (int groups = 1; groups <= 3; groups += 2) {
            const k_info *kernel = build_of(name, build);
            char what[96];
            cr_assert(kernel != NULL, "no kernel %s", name);
            (void)snprintf(what, sizeof what, "%s %s, %d groups", name, build_name(build), groups);
            memcpy(*place, start, count * element_bytes(type));
            run_kernel(kernel, groups, argv);
            for (size_t i = 0; i < count; i++)
                expect_near(type, element_get(type, *place, i), want[i], tolerance, what, i);
        }
    }
}
