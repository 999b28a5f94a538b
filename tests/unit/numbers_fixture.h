/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers from -1 to below 1, the same in every run. Included by tests, each of which is a program
 * of its own.
 */
#ifndef TESTS_UNIT_NUMBERS_FIXTURE_H_
#define TESTS_UNIT_NUMBERS_FIXTURE_H_

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>

static inline float number(void) {
    static uint64_t dice = 1;
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)((double)(dice >> 11) / 0x1p53 * 2 - 1);
}

/* To be freed. */
static inline float *numbers(int64_t count) {
    float *p = malloc((size_t)count * sizeof *p);
    cr_assert_not_null(p);
    for (int64_t i = 0; i < count; i++) p[i] = number();
    return p;
}

#endif /* TESTS_UNIT_NUMBERS_FIXTURE_H_ */
