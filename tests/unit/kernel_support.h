/* SPDX-License-Identifier: Apache-2.0
 *
 * For the tests of the portable kernels: typed arrays that read and write as doubles, the builds a
 * kernel exists in, and runs in several geometries.
 */
#ifndef DHOW_TESTS_UNIT_KERNEL_SUPPORT_H_
#define DHOW_TESTS_UNIT_KERNEL_SUPPORT_H_

#include <stddef.h>
#include <stdint.h>

#include "dhow/plugin.h"
#include "kernels/cpu_table.h"

typedef enum element {
    E_F32,
    E_F64,
    E_F16,
    E_BF16,
    E_I8,
    E_U8,
    E_I32,
    E_I64,
    E_COUNT,
    E_FLOATS = E_I8
} element;
extern const char *const element_names[E_COUNT];
/* E_FLOATS: the first four are floats. */

size_t element_bytes(element type);
double element_get(element type, const void *array, size_t index);
/* Rounds to nearest for floats; the value must fit for integers. */
void element_set(element type, void *array, size_t index, double value);
/* The value that the type would hold. */
double element_round(element type, double value);

/* Fails the test unless got is what a correctly computed `want` becomes in this type: half an ulp
 * of a narrow type and `relative` (of f32 arithmetic; a millionth of it for f64) beside a floor of
 * the same size. */
void expect_near(element type, double got, double want, double relative, const char *what,
                 size_t index);

/* Builds of a kernel: one per instruction set that this processor has, then the one with its phases
 * backwards. */
int build_count(void);
const k_info *build_of(const char *name, int build);
const char *build_name(int build);

/* Runs a kernel as `groups` groups, the last one first. */
void run_kernel(const k_info *kernel, int groups, void *const *argv);

/* Runs a kernel in all builds with one and three groups and compares its output. argv[out] points
 * to the output's pointer. */
void expect_all_builds(const char *name, element type, void **argv, int out, const double *want,
                       size_t count, double tolerance);

/* Zeroed memory that the next release_all gives back. */
void *scratch(size_t bytes);
void *scratch_values(element type, size_t count, double low, double high);
void release_all(void);

double activate(double x, int activation);

#endif
