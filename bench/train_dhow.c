/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow as one of the processes that the group "training" compares, see serve.h: one run is a step
 * of AdamW on a batch, whose loss is read. The output is the loss of the first step.
 *
 *     dhow-bench-train NETWORK DEVICE
 *
 * train_torch.py has the same networks, weights and batches.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"
#include "serve.h"

static void ok(dhow_status status, const char *what) {
    if (status != DHOW_OK) serve_fail(what, dhow_last_error());
}
#define OK(call) ok((call), #call)

typedef struct network {
    const char *name;
    void (*build)(dhow_model *m, dhow_model_value *x);
    dhow_loss loss;
    int32_t rank;
    int64_t shape[4]; /* of a batch */
} network;

/* ---- networks: *x is the input, then the output ---- */

static void mlp(dhow_model *m, dhow_model_value *x) {
    OK(dhow_model_linear(m, "0", *x, 784, 512, 1, x));
    OK(dhow_model_relu(m, *x, x));
    OK(dhow_model_linear(m, "2", *x, 512, 256, 1, x));
    OK(dhow_model_relu(m, *x, x));
    OK(dhow_model_linear(m, "4", *x, 256, 10, 1, x));
}

/* The one of examples/digits. */
static void cnn(dhow_model *m, dhow_model_value *x) {
    const dhow_window three = DHOW_INIT(dhow_window, .kernel = {3, 3}, .pad = {1, 1, 1, 1}),
                      two = DHOW_INIT(dhow_window, .kernel = {2, 2}, .stride = {2, 2});
    OK(dhow_model_conv2d(m, "0", *x, 1, 16, &three, 1, x));
    OK(dhow_model_relu(m, *x, x));
    OK(dhow_model_maxpool2d(m, *x, &two, x));
    OK(dhow_model_conv2d(m, "3", *x, 16, 32, &three, 1, x));
    OK(dhow_model_relu(m, *x, x));
    OK(dhow_model_maxpool2d(m, *x, &two, x));
    OK(dhow_model_flatten(m, *x, 1, x));
    OK(dhow_model_linear(m, "7", *x, 128, 64, 1, x));
    OK(dhow_model_relu(m, *x, x));
    OK(dhow_model_linear(m, "9", *x, 64, 10, 1, x));
}

static void conv_norm(dhow_model *m, const char *name, dhow_model_value x, int64_t in, int64_t out,
                      int64_t kernel, int64_t stride, dhow_model_value *y) {
    const int64_t pad = kernel / 2;
    const dhow_window window = DHOW_INIT(dhow_window, .kernel = {kernel, kernel},
                                         .stride = {stride, stride}, .pad = {pad, pad, pad, pad});
    char norm[32];
    (void)snprintf(norm, sizeof norm, "%.20s.norm", name);
    OK(dhow_model_conv2d(m, name, x, in, out, &window, 0, y));
    OK(dhow_model_batchnorm(m, norm, *y, out, 1e-5f, y));
}

static void residual_block(dhow_model *m, const char *name, int64_t in, int64_t out, int64_t stride,
                           dhow_model_value *x) {
    dhow_model_value y, beside = *x;
    OK(dhow_model_begin_scope(m, name));
    conv_norm(m, "conv1", *x, in, out, 3, stride, &y);
    OK(dhow_model_relu(m, y, &y));
    conv_norm(m, "conv2", y, out, out, 3, 1, &y);
    if (in != out) conv_norm(m, "down", *x, in, out, 1, stride, &beside);
    OK(dhow_model_add(m, y, beside, &y));
    OK(dhow_model_relu(m, y, x));
    OK(dhow_model_end_scope(m));
}

/* He et al., 2016, with 18 layers. */
static void resnet18(dhow_model *m, dhow_model_value *x) {
    const dhow_window pool =
        DHOW_INIT(dhow_window, .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1});
    const dhow_window whole = DHOW_INIT(dhow_window, .kernel = {2, 2});
    char name[16];
    conv_norm(m, "conv1", *x, 3, 64, 7, 2, x);
    OK(dhow_model_relu(m, *x, x));
    OK(dhow_model_maxpool2d(m, *x, &pool, x));
    for (int64_t layer = 0, in = 64; layer < 4; layer++) {
        const int64_t out = 64 << layer;
        for (int block = 0; block < 2; block++, in = out) {
            (void)snprintf(name, sizeof name, "layer%d.%d", (int)layer + 1, block);
            residual_block(m, name, in, out, layer > 0 && block == 0 ? 2 : 1, x);
        }
    }
    OK(dhow_model_avgpool2d(m, *x, &whole, x));
    OK(dhow_model_flatten(m, *x, 1, x));
    OK(dhow_model_linear(m, "fc", *x, 512, 10, 1, x));
}

/* A layer of a transformer's encoder, norms last, Vaswani et al. 2017. */
static void encoder(dhow_model *m, dhow_model_value *x) {
    dhow_model_value y;
    OK(dhow_model_multihead_attention(m, "self_attn", *x, *x, *x, -1, 384, 12, 1, &y));
    OK(dhow_model_add(m, *x, y, &y));
    OK(dhow_model_layernorm(m, "norm1", y, 384, 1e-5f, x));
    OK(dhow_model_linear(m, "linear1", *x, 384, 1536, 1, &y));
    OK(dhow_model_gelu(m, y, &y));
    OK(dhow_model_linear(m, "linear2", y, 1536, 384, 1, &y));
    OK(dhow_model_add(m, *x, y, &y));
    OK(dhow_model_layernorm(m, "norm2", y, 384, 1e-5f, x));
}

static const network k_networks[] = {
    {"mlp-32", mlp, DHOW_LOSS_CROSS_ENTROPY, 2, {32, 784}},
    {"mlp-1024", mlp, DHOW_LOSS_CROSS_ENTROPY, 2, {1024, 784}},
    {"cnn-64", cnn, DHOW_LOSS_CROSS_ENTROPY, 4, {64, 1, 8, 8}},
    {"resnet18-8", resnet18, DHOW_LOSS_CROSS_ENTROPY, 4, {8, 3, 64, 64}},
    {"encoder-8", encoder, DHOW_LOSS_MSE, 3, {8, 128, 384}}};

/* ---- weights and batches ---- */

/* Between -bound and bound, the same numbers in both programs. */
static float *numbers(int64_t count, double bound) {
    float *out = malloc((size_t)count * sizeof *out);
    if (out == NULL) serve_fail("numbers", "out of memory");
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)(bound * ((double)(i * 7919 % 10007) / 5003.0 - 1));
    return out;
}

static dhow_tensor *numbered(dhow_device *device, int32_t rank, const int64_t *shape,
                             double bound) {
    int64_t count = 1;
    for (int32_t i = 0; i < rank; i++) count *= shape[i];
    float *data = numbers(count, bound);
    dhow_tensor *t;
    OK(dhow_tensor_from_data(device, DHOW_F32, rank, shape, data, &t));
    free(data);
    return t;
}

/* Matrices within 1 / sqrt(inputs); norms begin with weights of 1, biases are 0. */
static void set_weights(dhow_model *m, dhow_device *cpu) {
    for (uint32_t k = 0; k < dhow_model_parameter_count(m); k++) {
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        int64_t inputs = 1;
        OK(dhow_model_parameter_describe(m, k, &info));
        if (info.dtype != DHOW_F32 || info.rank < 2) continue;
        for (int32_t i = 1; i < info.rank; i++) inputs *= info.shape[i];
        dhow_tensor *w = numbered(cpu, info.rank, info.shape, 1 / sqrt((double)inputs));
        OK(dhow_model_set_parameter(m, info.name, w));
        dhow_tensor_release(w);
    }
}

static dhow_tensor *classes(dhow_device *device, int64_t count) {
    int64_t *data = malloc((size_t)count * sizeof *data);
    dhow_tensor *t;
    if (data == NULL) serve_fail("classes", "out of memory");
    for (int64_t i = 0; i < count; i++) data[i] = i * 7 % 10;
    OK(dhow_tensor_from_data(device, DHOW_I64, DHOW_SHAPE(count), data, &t));
    free(data);
    return t;
}

/* ---- training ---- */

typedef struct training {
    dhow_trainer *trainer;
    dhow_batch batch;
    float first, *shown;
} training;

static void step(void *data) {
    training *t = data;
    double loss;
    OK(dhow_trainer_step(t->trainer, &t->batch, &loss));
    if (!(fabs(loss) < 1e6)) serve_fail("training", "its loss is no number");
}

static const void *first_loss(void *data, uint32_t i, size_t *bytes) {
    training *t = data;
    *bytes = sizeof t->first;
    return i == 0 ? &t->first : NULL;
}

static const network *network_of(const char *name) {
    for (size_t i = 0; i < sizeof k_networks / sizeof *k_networks; i++)
        if (strcmp(k_networks[i].name, name) == 0) return &k_networks[i];
    serve_fail(name, "no such network");
}

int main(int argc, char **argv) {
    dhow_context *context;
    dhow_device *device, *cpu;
    dhow_model *m;
    dhow_model_value value;
    training t = {.batch = DHOW_INIT(dhow_batch, .tensor_count = 2)};
    double loss;
    if (argc != 3 && argc != 4) serve_fail(argv[0], "NETWORK DEVICE [bf16]");
    const network *n = network_of(argv[1]);
    OK(dhow_context_create(NULL, &context));
    OK(dhow_device_get(context, argv[2], &device));
    OK(dhow_device_get(context, "cpu", &cpu));
    OK(dhow_model_create(context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, n->rank, n->shape, &value));
    n->build(m, &value);
    OK(dhow_model_output(m, "y", value));
    set_weights(m, cpu);
    OK(dhow_model_to(m, device));
    if (argc == 4) OK(dhow_model_set_precision(m, DHOW_PRECISION_BF16));
    OK(dhow_trainer_create(m,
                           &DHOW_INIT(dhow_trainer_options, .loss = n->loss,
                                      .optimizer = DHOW_OPTIMIZER_ADAMW, .learning_rate = 1e-4),
                           &t.trainer));
    t.batch.sample_count = n->shape[0];
    t.batch.tensors[0] = numbered(device, n->rank, n->shape, 1);
    t.batch.tensors[1] = n->loss == DHOW_LOSS_MSE ? numbered(device, n->rank, n->shape, 0.5)
                                                  : classes(device, n->shape[0]);
    OK(dhow_trainer_step(t.trainer, &t.batch, &loss));
    t.first = (float)loss;
    const serve_work work = {step, first_loss, &t, dhow_version()};
    return serve(&work);
}
