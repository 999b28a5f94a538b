/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of a trainer one after another, for suites that compare trainings bit for bit.
 */
#ifndef TESTS_TRAINER_PARAMETERS_H_
#define TESTS_TRAINER_PARAMETERS_H_

#include <criterion/criterion.h>

#include "dhow/dhow.h"

/* Reads at most `most` floats; returns how many there are. */
static inline size_t read_parameters(const dhow_trainer *t, size_t most, float *out) {
    size_t count = 0;
    for (uint32_t i = 0; i < dhow_trainer_parameter_count(t); i++) {
        dhow_tensor *w;
        cr_assert_eq(dhow_trainer_parameter_at(t, i, NULL, &w, NULL), DHOW_OK, "%s",
                     dhow_last_error());
        const size_t elements = (size_t)dhow_tensor_count(w);
        cr_assert_leq(count + elements, most);
        cr_assert_eq(dhow_tensor_read(w, out + count, elements * sizeof *out), DHOW_OK, "%s",
                     dhow_last_error());
        count += elements;
        dhow_tensor_release(w);
    }
    return count;
}

#endif /* TESTS_TRAINER_PARAMETERS_H_ */
