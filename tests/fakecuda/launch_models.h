/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of the field, of the sizes that they have there, whose commands tests look at.
 */
#ifndef TESTS_FAKECUDA_LAUNCH_MODELS_H_
#define TESTS_FAKECUDA_LAUNCH_MODELS_H_

#include "dhow/dhow.h"

#define TRY(expression)                       \
    do {                                      \
        status = (expression);                \
        if (status != DHOW_OK) return status; \
    } while (0)

typedef struct launch_model {
    const char *name, *title;
    dhow_dtype dtype;
    dhow_precision precision;
    int64_t batch;
    int layers; /* that are as the one that is built */
    dhow_status (*build)(dhow_model *m, dhow_dtype dtype, int64_t batch);
    int half;   /* as well from f32; the decode step has a norm before its first product */
    int listed; /* its commands are kept in tests/fakecuda/launches */
} launch_model;

enum { LAUNCH_MODELS = 9 };
extern const launch_model launch_models[LAUNCH_MODELS];

#endif /* TESTS_FAKECUDA_LAUNCH_MODELS_H_ */
