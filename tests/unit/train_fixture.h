/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of a trainer's parameters beside central differences of its loss. Included by tests,
 * each of which is a program of its own.
 */
#ifndef TESTS_UNIT_TRAIN_FIXTURE_H_
#define TESTS_UNIT_TRAIN_FIXTURE_H_

#include <criterion/criterion.h>
#include <math.h>

#include "device_fixture.h"
#include "dhow/dhow.h"

enum { MOST = 4096 }; /* elements of a tensor */

typedef struct trial {
    dhow_model *model;
    dhow_trainer *trainer;
    dhow_tensor *x, *target;
} trial;

static inline double loss_of(const trial *t) {
    double loss;
    OK(dhow_trainer_zero_gradients(t->trainer));
    OK(dhow_trainer_backward(t->trainer, NULL, &t->x, 1, t->target, &loss));
    return loss;
}

/* f64: central differences of the loss are good to some 1e-9. */
static inline void check_parameter(const trial *t, const char *what, uint32_t index) {
    static const double step = 1e-5;
    double values[MOST], gradients[MOST];
    dhow_tensor *w, *g;
    const char *name;
    (void)loss_of(t);
    OK(dhow_trainer_parameter_at(t->trainer, index, &name, &w, &g));
    const int64_t count = dhow_tensor_count(w);
    const uint64_t data_bytes = (uint64_t)count * sizeof(double);
    cr_assert_leq(count, MOST);
    OK(dhow_tensor_read(w, values, data_bytes));
    OK(dhow_tensor_read(g, gradients, data_bytes));
    for (int64_t i = 0; i < count; i += 1 + count / 12) {
        const double kept = values[i];
        double losses[2];
        for (int k = 0; k < 2; k++) {
            values[i] = kept + (k == 0 ? -step : step);
            OK(dhow_tensor_write(w, values, data_bytes));
            losses[k] = loss_of(t);
        }
        values[i] = kept;
        const double slope = (losses[1] - losses[0]) / (2 * step);
        cr_expect(fabs(slope - gradients[i]) <= 1e-6 * fmax(fabs(slope), 1e-2),
                  "%s: %s[%lld]: derivative %.12g, central difference %.12g", what, name,
                  (long long)i, gradients[i], slope);
    }
    OK(dhow_tensor_write(w, values, data_bytes));
    dhow_tensor_release(w);
    dhow_tensor_release(g);
}

#endif /* TESTS_UNIT_TRAIN_FIXTURE_H_ */
