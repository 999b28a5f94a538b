/* SPDX-License-Identifier: Apache-2.0
 *
 * See training.h.
 */
#include "training.h"

#include <string.h>

#include "dhow/model_steps.h"

#define TRY(call)                               \
    do {                                        \
        if (status == DHOW_OK) status = (call); \
    } while (0)
/* What failed can be called again, and has changed nothing. */
#define TRY_AGAIN(call)                                                \
    do {                                                               \
        for (int tries = 0; status == DHOW_OK && tries < 2; tries++) { \
            status = (call);                                           \
            if (status != DHOW_OUT_OF_MEMORY || tries > 0) break;      \
            status = DHOW_OK;                                          \
        }                                                              \
    } while (0)
#define EXPECT(condition)                                              \
    do {                                                               \
        if (status == DHOW_OK && !(condition)) status = DHOW_INTERNAL; \
    } while (0)

/* ---- training ---- */

/* y = w x */
static dhow_status build(dhow_context *context, dhow_model **out) {
    static const float w = 2;
    const int64_t one[] = {1, 1};
    dhow_tensor *weight = NULL;
    dhow_device *cpu = NULL;
    dhow_model_value x = 0;
    dhow_status status = dhow_model_create(context, out);
    TRY(dhow_device_get(context, "cpu", &cpu));
    TRY(dhow_model_input(*out, "x", DHOW_F32, DHOW_SHAPE(-1, 1), &x));
    TRY(dhow_model_linear(*out, "l", x, 1, 1, 0, &x));
    TRY(dhow_model_output(*out, "y", x));
    TRY(dhow_tensor_from_data(cpu, DHOW_F32, 2, one, &w, &weight));
    TRY(dhow_model_set_parameter(*out, "l.weight", weight));
    TRY(dhow_model_to(*out, cpu));
    dhow_tensor_release(weight);
    return status;
}

/* A group of one process. */
static dhow_status all_reduce(void *user, dhow_dtype dtype, void *data, int64_t count) {
    (void)user, (void)dtype, (void)data, (void)count;
    return DHOW_OK;
}

static dhow_status make(dhow_model *model, uint32_t count, dhow_trainer **out) {
    const dhow_process_group group =
        DHOW_INIT(dhow_process_group, .size = 1, .all_reduce = all_reduce);
    dhow_context *context = dhow_device_context(dhow_model_device(model));
    dhow_device *devices[2] = {NULL};
    dhow_status status = dhow_device_get(context, "cpu", &devices[0]);
    if (count > 1) TRY(dhow_device_get(context, "sim", &devices[1]));
    TRY(dhow_trainer_create(
        model,
        &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .learning_rate = 0.125,
                   .clip_norm = 1e6, .devices = devices, .device_count = count,
                   .process_group = count > 1 ? &group : NULL),
        out));
    return status;
}

/* The loss is w^2, its derivative 2 w. */
static dhow_status learn(dhow_trainer *t, dhow_batch *batch) {
    double loss = 0;
    dhow_status status = DHOW_OK;
    TRY_AGAIN(dhow_trainer_step(t, batch, &loss));
    EXPECT(loss == 4);
    TRY_AGAIN(dhow_trainer_step(t, batch, &loss));
    EXPECT(loss == 2.25);
    TRY(dhow_trainer_zero_gradients(t));
    for (int i = 0; i < 2; i++)
        TRY_AGAIN(dhow_trainer_backward(t, NULL, batch->tensors, 1, batch->tensors[1], &loss));
    EXPECT(loss == 1.265625);
    TRY_AGAIN(dhow_trainer_update(t, NULL));
    return status;
}

dhow_status fault_train(dhow_context *context, uint32_t count, const char *path) {
    dhow_batch batch = DHOW_INIT(dhow_batch, .tensor_count = 2);
    dhow_model *model = NULL;
    dhow_trainer *first = NULL, *second = NULL;
    dhow_tensor *w = NULL;
    dhow_device *cpu = NULL;
    float got = 0;
    dhow_status status = dhow_device_get(context, "cpu", &cpu);
    TRY(build(context, &model));
    TRY_AGAIN(make(model, count, &first));
    TRY(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(4, 1), 1, &batch.tensors[0]));
    TRY(dhow_tensor_zeros(cpu, DHOW_F32, DHOW_SHAPE(4, 1), &batch.tensors[1]));
    TRY(learn(first, &batch));
    TRY_AGAIN(dhow_trainer_save(first, path));
    TRY_AGAIN(make(model, count, &second));
    TRY_AGAIN(dhow_trainer_load(second, path));
    TRY(dhow_trainer_parameter_at(second, 0, NULL, &w, NULL));
    TRY_AGAIN(dhow_tensor_read(w, &got, sizeof got));
    EXPECT(got == 0.5625F);
    TRY_AGAIN(dhow_trainer_update_model(second));
    dhow_tensor_release(w);
    dhow_tensor_release(batch.tensors[0]);
    dhow_tensor_release(batch.tensors[1]);
    dhow_trainer_release(second);
    dhow_trainer_release(first);
    dhow_model_release(model);
    return status;
}

/* ---- a cache ---- */

static dhow_status build_cached(dhow_context *context, dhow_device *device, dhow_model **out) {
    dhow_model_value cache = 0, x = 0, at = 0, lengths = 0, y = 0;
    dhow_status status = dhow_model_create(context, out);
    TRY(dhow_model_input(*out, "cache", DHOW_F32, DHOW_SHAPE(1, 1, 4, 2), &cache));
    TRY(dhow_model_input(*out, "x", DHOW_F32, DHOW_SHAPE(1, 1, 1, 2), &x));
    TRY(dhow_model_input(*out, "at", DHOW_I64, DHOW_SHAPE(1), &at));
    TRY(dhow_model_input(*out, "lengths", DHOW_I64, DHOW_SHAPE(1), &lengths));
    TRY(dhow_model_update_cache(*out, cache, x, at, &cache));
    TRY(dhow_model_cached_attention(*out, x, cache, cache, lengths, 1, 0, 0, &y));
    TRY(dhow_model_output(*out, "new", cache));
    TRY(dhow_model_output(*out, "y", y));
    TRY(dhow_model_to(*out, device));
    return status;
}

dhow_status fault_cache(dhow_context *context) {
    static const float want[] = {1, 1, 2, 2, 0, 0, 0, 0};
    dhow_tensor *in[4] = {NULL}, *out[2] = {NULL};
    dhow_model *model = NULL;
    dhow_device *cpu = NULL;
    float got[8];
    dhow_status status = dhow_device_get(context, "cpu", &cpu);
    TRY(build_cached(context, cpu, &model));
    TRY(dhow_tensor_zeros(cpu, DHOW_F32, DHOW_SHAPE(1, 1, 4, 2), &in[0]));
    TRY(dhow_tensor_create(cpu, DHOW_F32, DHOW_SHAPE(1, 1, 1, 2), &in[1]));
    TRY(dhow_tensor_create(cpu, DHOW_I64, DHOW_SHAPE(1), &in[2]));
    TRY(dhow_tensor_create(cpu, DHOW_I64, DHOW_SHAPE(1), &in[3]));
    TRY(dhow_tensor_create(cpu, DHOW_F32, DHOW_SHAPE(1, 1, 1, 2), &out[1]));
    out[0] = in[0];
    for (int64_t i = 0; i < 2; i++) {
        const float x[] = {(float)i + 1, (float)i + 1};
        const int64_t length = i + 1;
        TRY(dhow_tensor_write(in[1], x, sizeof x));
        TRY(dhow_tensor_write(in[2], &i, sizeof i));
        TRY(dhow_tensor_write(in[3], &length, sizeof length));
        TRY_AGAIN(dhow_model_run_into(model, NULL, in, 4, out, 2));
    }
    TRY(dhow_tensor_read(in[0], got, sizeof got));
    EXPECT(memcmp(got, want, sizeof want) == 0);
    for (int i = 0; i < 4; i++) dhow_tensor_release(in[i]);
    dhow_tensor_release(out[1]);
    dhow_model_release(model);
    return status;
}
