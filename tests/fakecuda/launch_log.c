/* SPDX-License-Identifier: Apache-2.0 */
#include "launch_log.h"

#include "fakecuda.h"

typedef struct feed {
    dhow_tensor *in[8];
    uint32_t count;
} feed;

static dhow_status feed_of(dhow_model *m, dhow_device *device, feed *out) {
    dhow_status status = DHOW_OK;
    dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
    for (; out->count < dhow_model_input_count(m); out->count++) {
        TRY(dhow_model_input_at(m, out->count, &info));
        TRY(dhow_tensor_full(device, info.dtype, info.rank, info.shape, 0, &out->in[out->count]));
    }
    return status;
}

/* The second run: nothing is planned or uploaded any more, and other tensors make it no replay. */
static dhow_status log_run(dhow_model *m, dhow_device *device, FILE *log) {
    dhow_status status = DHOW_OK;
    for (int run = 0; run < 2 && status == DHOW_OK; run++) {
        dhow_tensor *y[4];
        feed x = {.count = 0};
        const uint32_t count = dhow_model_output_count(m);
        status = feed_of(m, device, &x);
        if (status == DHOW_OK) status = dhow_device_sync(device);
        if (run == 1) fakecuda_log_to(log);
        if (status == DHOW_OK) status = dhow_model_run(m, NULL, x.in, x.count, y, count);
        if (status == DHOW_OK) {
            status = dhow_device_sync(device); /* costs are told when they are known */
            for (uint32_t i = 0; i < count; i++) dhow_tensor_release(y[i]);
        }
        fakecuda_log_to(NULL);
        for (uint32_t i = 0; i < x.count; i++) dhow_tensor_release(x.in[i]);
    }
    return status;
}

dhow_status launch_log(const launch_model *of, dhow_dtype dtype, int64_t batch, FILE *log) {
    const dhow_precision precision = dtype != of->dtype ? DHOW_PRECISION_F16 : of->precision;
    dhow_context *context = NULL;
    dhow_model *m = NULL;
    dhow_device *device;
    dhow_status status = dhow_context_create(NULL, &context);
    if (status == DHOW_OK) status = dhow_device_get(context, "cuda", &device);
    if (status == DHOW_OK) status = dhow_model_create(context, &m);
    if (status == DHOW_OK) status = of->build(m, dtype, batch);
    if (status == DHOW_OK) status = dhow_model_set_precision(m, precision);
    if (status == DHOW_OK) status = dhow_model_to(m, device);
    if (status == DHOW_OK) status = log_run(m, device, log);
    dhow_model_release(m);
    dhow_context_release(context);
    return status;
}
