/* SPDX-License-Identifier: Apache-2.0
 *
 * A model of one input whose parameters are known numbers, and its trainer. Included by tests, each
 * of which is a program of its own.
 */
#ifndef TESTS_UNIT_TRIAL_FIXTURE_H_
#define TESTS_UNIT_TRIAL_FIXTURE_H_

#include "dhow/model_steps.h"
#include "train_fixture.h"

typedef struct net {
    const char *name;
    int32_t rank;
    int64_t shape[4];
    void (*build)(dhow_model *m, dhow_model_value x, dhow_model_value *y);
    dhow_loss loss;
} net;

static inline void parameter(dhow_model *m, const char *name, int32_t rank, const int64_t *shape,
                             dhow_model_value *out) {
    OK(dhow_model_parameter(m, name, DHOW_F64, rank, shape, out));
}
#define SHAPE(...) \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]) { __VA_ARGS__ }

static inline void net_linear(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    OK(dhow_model_linear(m, "first", x, 4, 5, 1, y));
    OK(dhow_model_tanh(m, *y, y));
    OK(dhow_model_linear(m, "second", *y, 5, 3, 0, y));
}

static dhow_device *g_cpu;

static inline void set_up(void) {
    open_device();
    OK(dhow_device_get(g_context, "cpu", &g_cpu));
}

/* -1 .. 1, none of them near what a function has corners at */
static inline double number(int64_t i) {
    const double x = (double)((uint64_t)(i + 7) * UINT64_C(2654435761) >> 9 & 1023) / 512 - 1;
    return fabs(x) < 0.05 ? x + 0.1 : x;
}

static inline dhow_tensor *filled(dhow_device *device, int32_t rank, const int64_t *shape,
                                  int64_t seed) {
    double data[MOST];
    int64_t count = 1;
    dhow_tensor *t;
    for (int32_t i = 0; i < rank; i++) count *= shape[i];
    cr_assert_leq(count, MOST);
    for (int64_t i = 0; i < count; i++) data[i] = number(i + seed);
    OK(dhow_tensor_from_data(device, DHOW_F64, rank, shape, data, &t));
    return t;
}

static inline trial begin(const net *n, dhow_optimizer optimizer) {
    trial t;
    dhow_model_value x, y;
    OK(dhow_model_create(g_context, &t.model));
    OK(dhow_model_input(t.model, "x", DHOW_F64, n->rank, n->shape, &x));
    n->build(t.model, x, &y);
    OK(dhow_model_output(t.model, "y", y));
    for (uint32_t i = 0; i < dhow_model_parameter_count(t.model); i++) {
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        OK(dhow_model_parameter_describe(t.model, i, &info));
        dhow_tensor *w = filled(g_cpu, info.rank, info.shape, 100 * i + 3);
        OK(dhow_model_set_parameter(t.model, info.name, w));
        dhow_tensor_release(w);
    }
    OK(dhow_model_to(t.model, g_device));
    t.x = filled(g_device, n->rank, n->shape, 50);
    dhow_tensor *out;
    OK(dhow_model_run(t.model, NULL, &t.x, 1, &out, 1));
    dhow_tensor_info like = DHOW_INIT(dhow_tensor_info);
    OK(dhow_tensor_get_info(out, &like));
    t.target = filled(g_device, like.rank, like.shape, 77);
    dhow_tensor_release(out);
    OK(dhow_trainer_create(
        t.model, &DHOW_INIT(dhow_trainer_options, .loss = n->loss, .optimizer = optimizer),
        &t.trainer));
    return t;
}

static inline void end(trial *t) {
    dhow_trainer_release(t->trainer);
    dhow_model_release(t->model);
    dhow_tensor_release(t->x);
    dhow_tensor_release(t->target);
}

#endif /* TESTS_UNIT_TRIAL_FIXTURE_H_ */
