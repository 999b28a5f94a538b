/* SPDX-License-Identifier: Apache-2.0
 *
 * A training step that several devices share, beside one device. Simulated ones take as long as
 * they are told: 180 ms for all samples, of which processors compute one or two.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

void bench_several(bench *b);

enum { BATCH = 256, WIDTH = 64, CLASSES = 10, SETTLE = 8 };

typedef struct several {
    dhow_context *context;
    dhow_device *devices[2];
    dhow_trainer *one, *two;
    dhow_batch batch;
    double losses[2]; /* of the step before */
} several;

static dhow_model *make_model(const several *s) {
    dhow_model *m;
    dhow_model_value x;
    BENCH_OK(dhow_model_create(s->context, &m));
    BENCH_OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(-1, WIDTH), &x));
    BENCH_OK(dhow_model_linear(m, "0", x, WIDTH, WIDTH, 1, &x));
    BENCH_OK(dhow_model_relu(m, x, &x));
    BENCH_OK(dhow_model_linear(m, "2", x, WIDTH, WIDTH, 1, &x));
    BENCH_OK(dhow_model_relu(m, x, &x));
    BENCH_OK(dhow_model_linear(m, "4", x, WIDTH, CLASSES, 1, &x));
    BENCH_OK(dhow_model_output(m, "y", x));
    BENCH_OK(dhow_model_init_parameters(m, 3));
    BENCH_OK(dhow_model_to(m, s->devices[0]));
    return m;
}

static dhow_trainer *make_trainer(const several *s, uint32_t devices) {
    dhow_model *m = make_model(s);
    dhow_trainer *t;
    BENCH_OK(dhow_trainer_create(m,
                                 &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY,
                                            .optimizer = DHOW_OPTIMIZER_ADAMW,
                                            .devices = s->devices, .device_count = devices),
                                 &t));
    dhow_model_release(m);
    return t;
}

static void make_batch(several *s) {
    int64_t classes[BATCH];
    for (int i = 0; i < BATCH; i++) classes[i] = i * 7 % CLASSES;
    s->batch = DHOW_INIT(dhow_batch, .tensor_count = 2, .sample_count = BATCH);
    BENCH_OK(dhow_tensor_uniform(s->devices[0], DHOW_F32, DHOW_SHAPE(BATCH, WIDTH), -1, 1, 1,
                                 &s->batch.tensors[0]));
    BENCH_OK(dhow_tensor_from_data(s->devices[0], DHOW_I64, DHOW_SHAPE(BATCH), classes,
                                   &s->batch.tensors[1]));
}

static void step_of_one(void *data) {
    several *s = data;
    BENCH_OK(dhow_trainer_step(s->one, &s->batch, &s->losses[0]));
}

static void step_of_two(void *data) {
    several *s = data;
    BENCH_OK(dhow_trainer_step(s->two, &s->batch, &s->losses[1]));
}

/* Twice the speed would be 2: the bar is 0.95 of that. */
void bench_several(bench *b) {
    static const char *const names[] = {"sim:0", "sim:1"};
    several s = {0};
    (void)setenv("DHOW_SIM", "devices=2,work_rate=32M", 1);
    BENCH_OK(dhow_context_create(
        &DHOW_INIT(dhow_context_options, .plugin_path = BENCH_SIM, .backends = "cpu,sim"),
        &s.context));
    for (int i = 0; i < 2; i++) BENCH_OK(dhow_device_get(s.context, names[i], &s.devices[i]));
    s.one = make_trainer(&s, 1);
    s.two = make_trainer(&s, 2);
    make_batch(&s);
    for (int i = 0; i < SETTLE; i++) {
        step_of_one(&s);
        step_of_two(&s);
        if (!(fabs(s.losses[0] - s.losses[1]) < 1e-4)) bench_ok(DHOW_INTERNAL, "other losses");
    }
    bench_compare_pairs(b, "training step, batch of 256 on two devices", "one device", 1.9, 1,
                        step_of_two, step_of_one, &s);
    dhow_tensor_release(s.batch.tensors[0]);
    dhow_tensor_release(s.batch.tensors[1]);
    dhow_trainer_release(s.one);
    dhow_trainer_release(s.two);
    dhow_context_release(s.context);
}
