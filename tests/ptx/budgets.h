/* SPDX-License-Identifier: Apache-2.0
 *
 * Counting what a kernel's PTX executes, against tests/kernels/budgets.txt.
 */
#ifndef PTX_BUDGETS_H_
#define PTX_BUDGETS_H_

#include <stdio.h>

#include "support.h"

typedef struct real {
    const char *name, *bits; /* of floats, and of what moves them as bits */
    element type, type_bits;
    double tolerance, rounding;
} real;

/* MUST: the limit holds. */
typedef enum demand { MAY, MUST } demand;

typedef struct budgets {
    FILE *file;  /* what is measured */
    char *known; /* what is in the repository */
    bool same_compiler;
    unsigned wrong;
} budgets;

extern const double budget_limit; /* instructions for a byte */

/* A launch of two groups, which also has to compute what the CPU does. */
void measure(budgets *b, demand d, const ptx_module *m, const char *kernel, const char *name,
             double tolerance, const arg *args, size_t count);
#define MEASURE(b, d, module, kernel, name, tolerance, ...)                                    \
    do {                                                                                       \
        const arg args_[] = {__VA_ARGS__};                                                     \
        measure(b, d, module, kernel, name, tolerance, args_, sizeof args_ / sizeof args_[0]); \
    } while (0)

/* operation_type */
const char *named(char name[64], const char *operation, const char *type);

enum { FLAT = 32768 };

/* Of one type each. */
void measure_rows(budgets *b, const real *r);
void measure_operands(budgets *b, const real *r);
void measure_split_rows(budgets *b, const real *r);
void measure_parts(budgets *b, const real *r);
void measure_caches(budgets *b, const real *r);

#endif /* PTX_BUDGETS_H_ */
