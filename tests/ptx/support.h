/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a kernel's PTX and the CPU's kernel of the same name, and compares.
 */
#ifndef PTX_SUPPORT_H_
#define PTX_SUPPORT_H_

#include "ptx.h"

typedef enum element { F32, F16, BF16, F64, U8, U16, U32, U64, I32, I64 } element;

/* An argument: a number by value, or memory of `count` elements that lies `shift` elements behind
 * 256 bytes. */
typedef struct arg {
    const char *name;
    enum { VALUE, INPUT, OUTPUT } role;
    element type;
    size_t count, shift;
    const void *value;  /* VALUE: the number; INPUT: what to copy instead of made values; OUTPUT:
                           `exact` results instead of the CPU's */
    size_t value_bytes; /* VALUE */
} arg;

#define INT64(name, v) \
    { #name, VALUE, I64, 0, 0, &(long long){v }, sizeof(long long) }
#define INT32(name, v) \
    { #name, VALUE, I32, 0, 0, &(int){v }, sizeof(int) }
#define FLOAT32(name, v) \
    { #name, VALUE, F32, 0, 0, &(float){v }, sizeof(float) }
#define IN(name, type, count, shift) \
    { #name, INPUT, type, count, shift, NULL, 0 }
#define OUT(name, type, count, shift) \
    { #name, OUTPUT, type, count, shift, NULL, 0 }
#define OUT_EXACT(name, type, count, shift, results) \
    { #name, OUTPUT, type, count, shift, results, 0 }

/* A sum in f64, and that of its terms' sizes: by 1e-6 of these it may differ, and by the tolerance
 * of its value. */
typedef struct exact {
    double value, size;
} exact;

/* What the argument at `place` among others is made of. Ownership: the caller frees it. */
double *made_values(element type, size_t count, size_t place);

typedef struct dims {
    long long rank, shape[8], stride[3][8], offset[3];
} dims;
#define DIMS(name, ...) \
    { #name, VALUE, I64, 0, 0, &(dims){__VA_ARGS__ }, sizeof(dims) }

/* What kernels divide by an extent with, see OVER() in kernel/k.h. */
static inline long long multiplier(unsigned long long extent) {
    const int up = extent > 1 ? 64 - __builtin_clzll(extent - 1) : 0;
    return (long long)((((1ull << up) << 32) + extent - 1) / extent - (1ull << 32));
}
#define M(extent) multiplier(extent)

enum { MAX_ARGS = 32 };

/* A mistake: the `nth` line (from 0) of a kernel that has both `opcode` and `from` gets `to`
 * instead of `from`, or is dropped where `to` is NULL. */
typedef struct plant {
    const char *kernel, *opcode, *from, *to;
    int nth;
} plant;

/* The module that nvcc made of a unit, with a mistake or NULL. */
ptx_module *ptx_load(const char *unit, const char *type, int index_bits, const plant *mistake);

/* Runs, expects no finding and results within `tolerance` (relative) of the CPU's. */
void expect_as_cpu(const ptx_module *module, const char *kernel, unsigned groups, double tolerance,
                   const arg *args, size_t count);
#define AS_CPU(module, kernel, groups, tolerance, ...)                                           \
    do {                                                                                         \
        const arg args_[] = {__VA_ARGS__};                                                       \
        expect_as_cpu(module, kernel, groups, tolerance, args_, sizeof args_ / sizeof args_[0]); \
    } while (0)

/* Runs with memory made from `args`. The result: whether all outputs are as the CPU's; `why`, where
 * not. */
bool compare_with_cpu(const ptx_module *module, const char *kernel, unsigned groups,
                      double tolerance, const arg *args, size_t count, ptx_report *report,
                      char *why, size_t why_bytes);

#endif /* PTX_SUPPORT_H_ */
