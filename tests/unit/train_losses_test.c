/* SPDX-License-Identifier: Apache-2.0
 *
 * Training beside PyTorch: 200 steps of five networks from the same weights on the same batches
 * give the same losses, on the device that DHOW_DEVICE names. PyTorch's are those of
 * train_losses.py, which has these networks and formulas in Python.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dhow/dhow.h"
#include "dhow/model_steps.h"
#include "hash_fixture.h"

#define OK(expression) cr_assert_eq((expression), DHOW_OK, "%s: %s", #expression, dhow_last_error())

enum { STEPS = 200, SIZE_MOST = 64, TOKENS = 40, WORDS = 6, PIXELS = 64, MOST = 8192 };

static const double k_losses[][STEPS] = {
#include "train_losses.inc"
};

static dhow_context *g_context;
static dhow_device *g_device, *g_cpu;
static dhow_tensor *g_images, *g_labels; /* of examples/digits */

static void set_up(void) {
    const char *device = getenv("DHOW_DEVICE");
    const int sim = device != NULL && strcmp(device, "sim") == 0;
    (void)setenv("DHOW_PLUGIN_PATH", sim ? DHOW_TEST_SIM_DIR : DHOW_TEST_PLUGIN_DIR, 0);
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, device, &g_device));
    OK(dhow_device_get(g_context, "cpu", &g_cpu));
    OK(dhow_npy_load(g_cpu, DHOW_TEST_DIGITS_DIR "/train_images.npy", &g_images));
    OK(dhow_npy_load(g_cpu, DHOW_TEST_DIGITS_DIR "/train_labels.npy", &g_labels));
}
static void tear_down(void) {
    dhow_tensor_release(g_images);
    dhow_tensor_release(g_labels);
    dhow_context_release(g_context);
}

TestSuite(train_losses, .init = set_up, .fini = tear_down, .timeout = 300);

/* ---- numbers ---- */

static float is_scale(const char *name) {
    const char *last = strrchr(name, '.');
    return strstr(name, "norm") != NULL && strcmp(last, ".weight") == 0 ? 1 : 0;
}

/* Matrices uniform within 1 / sqrt(inputs), scales 1, biases 0 */
static void begin(dhow_model *m) {
    for (uint32_t k = 0; k < dhow_model_parameter_count(m); k++) {
        static float data[MOST];
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        dhow_tensor *w;
        OK(dhow_model_parameter_describe(m, k, &info));
        int64_t inputs = 1;
        for (int32_t i = 1; i < info.rank; i++) inputs *= info.shape[i];
        const int64_t count = inputs * info.shape[0];
        const double bound = 1 / sqrt((double)inputs);
        cr_assert_leq(count, MOST);
        for (int64_t i = 0; i < count; i++)
            data[i] = info.rank > 1 ? (float)(bound * number(k, (uint32_t)i)) : is_scale(info.name);
        OK(dhow_tensor_from_data(g_cpu, DHOW_F32, info.rank, info.shape, data, &w));
        OK(dhow_model_set_parameter(m, info.name, w));
        dhow_tensor_release(w);
    }
}

/* ---- networks ---- */

static void build_mlp(dhow_model *m, dhow_model_value *y) {
    OK(dhow_model_input(m, "image", DHOW_F32, DHOW_SHAPE(-1, 1, 8, 8), y));
    OK(dhow_model_flatten(m, *y, 1, y));
    OK(dhow_model_linear(m, "fc1", *y, PIXELS, 48, 1, y));
    OK(dhow_model_relu(m, *y, y));
    OK(dhow_model_linear(m, "fc2", *y, 48, 10, 1, y));
}

static void build_cnn(dhow_model *m, dhow_model_value *y) {
    const dhow_window three = DHOW_INIT(dhow_window, .kernel = {3, 3}, .pad = {1, 1, 1, 1}),
                      two = DHOW_INIT(dhow_window, .kernel = {2, 2}, .stride = {2, 2});
    OK(dhow_model_input(m, "image", DHOW_F32, DHOW_SHAPE(-1, 1, 8, 8), y));
    OK(dhow_model_conv2d(m, "conv1", *y, 1, 16, &three, 1, y));
    OK(dhow_model_relu(m, *y, y));
    OK(dhow_model_maxpool2d(m, *y, &two, y));
    OK(dhow_model_conv2d(m, "conv2", *y, 16, 32, &three, 1, y));
    OK(dhow_model_relu(m, *y, y));
    OK(dhow_model_maxpool2d(m, *y, &two, y));
    OK(dhow_model_flatten(m, *y, 1, y));
    OK(dhow_model_linear(m, "fc1", *y, 128, 64, 1, y));
    OK(dhow_model_relu(m, *y, y));
    OK(dhow_model_linear(m, "fc2", *y, 64, 10, 1, y));
}

static void build_words(dhow_model *m, dhow_model_value *y) {
    OK(dhow_model_input(m, "words", DHOW_I64, DHOW_SHAPE(-1, WORDS), y));
    OK(dhow_model_embedding(m, "words", *y, TOKENS, 16, DHOW_F32, y));
    OK(dhow_model_layernorm(m, "norm", *y, 16, 1e-5f, y));
    OK(dhow_model_flatten(m, *y, 1, y));
    OK(dhow_model_linear(m, "fc1", *y, 16 * WORDS, 32, 1, y));
    OK(dhow_model_gelu(m, *y, y));
    OK(dhow_model_linear(m, "fc2", *y, 32, 1, 1, y));
}

/* A layer of a transformer, with its norms first. */
static void add_layer(dhow_model *m, const char *name, dhow_model_value *x) {
    dhow_model_value y;
    OK(dhow_model_begin_scope(m, name));
    OK(dhow_model_layernorm(m, "norm1", *x, 32, 1e-5f, &y));
    OK(dhow_model_multihead_attention(m, "attention", y, y, y, -1, 32, 4, 1, &y));
    OK(dhow_model_add(m, *x, y, x));
    OK(dhow_model_layernorm(m, "norm2", *x, 32, 1e-5f, &y));
    OK(dhow_model_linear(m, "fc1", y, 32, 64, 1, &y));
    OK(dhow_model_gelu(m, y, &y));
    OK(dhow_model_linear(m, "fc2", y, 64, 32, 1, &y));
    OK(dhow_model_add(m, *x, y, x));
    OK(dhow_model_end_scope(m));
}

static void build_transformer(dhow_model *m, dhow_model_value *y) {
    OK(dhow_model_input(m, "words", DHOW_I64, DHOW_SHAPE(-1, WORDS), y));
    OK(dhow_model_embedding(m, "words", *y, TOKENS, 32, DHOW_F32, y));
    add_layer(m, "layer0", y);
    add_layer(m, "layer1", y);
    OK(dhow_model_layernorm(m, "norm", *y, 32, 1e-5f, y));
    OK(dhow_model_flatten(m, *y, 1, y));
    OK(dhow_model_linear(m, "fc", *y, 32 * WORDS, 1, 1, y));
}

static void build_lstm(dhow_model *m, dhow_model_value *y) {
    OK(dhow_model_input(m, "words", DHOW_I64, DHOW_SHAPE(-1, WORDS), y));
    OK(dhow_model_embedding(m, "words", *y, TOKENS, 16, DHOW_F32, y));
    OK(dhow_model_lstm(m, "lstm", *y, 16, 24, 2, 0, 1, y));
    OK(dhow_model_flatten(m, *y, 1, y));
    OK(dhow_model_linear(m, "fc", *y, 24 * WORDS, 1, 1, y));
}

/* ---- batches ---- */

static void images(int64_t step, int64_t size, dhow_batch *out) {
    float x[SIZE_MOST * PIXELS];
    int64_t y[SIZE_MOST];
    void *grey, *classes;
    const int64_t count = dhow_tensor_extent(g_images, 0);
    OK(dhow_tensor_host_ptr(g_images, &grey));
    OK(dhow_tensor_host_ptr(g_labels, &classes));
    for (int64_t i = 0; i < size; i++) {
        const int64_t at = (step * size + i) % count;
        y[i] = ((const int64_t *)classes)[at];
        for (int64_t k = 0; k < PIXELS; k++)
            x[i * PIXELS + k] = (float)((const uint8_t *)grey)[at * PIXELS + k] / 16;
    }
    OK(dhow_tensor_from_data(g_device, DHOW_F32, DHOW_SHAPE(size, 1, 8, 8), x, &out->tensors[0]));
    OK(dhow_tensor_from_data(g_device, DHOW_I64, DHOW_SHAPE(size), y, &out->tensors[1]));
}

/* Each word is worth a number; the target is their sum. */
static void words(int64_t step, int64_t size, dhow_batch *out) {
    int64_t x[SIZE_MOST * WORDS];
    float y[SIZE_MOST];
    for (int64_t i = 0; i < size; i++) {
        double sum = 0;
        for (int64_t k = i * WORDS; k < (i + 1) * WORDS; k++) {
            x[k] = mix((uint32_t)(step * size * WORDS + k) + (UINT32_C(100) << 20)) % TOKENS;
            sum += number(101, (uint32_t)x[k]);
        }
        y[i] = (float)sum;
    }
    OK(dhow_tensor_from_data(g_device, DHOW_I64, DHOW_SHAPE(size, WORDS), x, &out->tensors[0]));
    OK(dhow_tensor_from_data(g_device, DHOW_F32, DHOW_SHAPE(size, 1), y, &out->tensors[1]));
}

/* ---- training ---- */

typedef struct network {
    const char *name;
    void (*build)(dhow_model *m, dhow_model_value *y);
    void (*batch)(int64_t step, int64_t size, dhow_batch *out);
    int64_t size;
    dhow_loss loss;
    int64_t steps; /* that are compared closely */
    double rate;   /* of SGD */
} network;

static const dhow_trainer_options k_optimizers[] = {
    DHOW_FIELDS(dhow_trainer_options, .optimizer = DHOW_OPTIMIZER_SGD, .momentum = 0.9),
    DHOW_FIELDS(dhow_trainer_options, .optimizer = DHOW_OPTIMIZER_ADAMW, .learning_rate = 1e-3)};

static dhow_trainer *trainer_of(const network *n, const dhow_trainer_options *optimizer) {
    dhow_trainer_options options = *optimizer;
    dhow_model *m;
    dhow_model_value y;
    dhow_trainer *t;
    OK(dhow_model_create(g_context, &m));
    n->build(m, &y);
    OK(dhow_model_output(m, "y", y));
    begin(m);
    OK(dhow_model_to(m, g_device));
    options.loss = n->loss;
    if (options.optimizer == DHOW_OPTIMIZER_SGD) options.learning_rate = n->rate;
    OK(dhow_trainer_create(m, &options, &t));
    dhow_model_release(m);
    return t;
}

static double loss_of_step(dhow_trainer *t, const network *n, int64_t step) {
    dhow_batch batch = DHOW_INIT(dhow_batch, .tensor_count = 2, .sample_count = n->size);
    double loss;
    n->batch(step, n->size, &batch);
    OK(dhow_trainer_step(t, &batch, &loss));
    dhow_tensor_release(batch.tensors[0]);
    dhow_tensor_release(batch.tensors[1]);
    return loss;
}

/* One part in 10,000: f32 sums in another order, and steps that pass differences on. The CNN passes
 * them on most, by the corners of its ReLUs and pools: PyTorch's own losses in f32 and in f64 agree
 * to 2e-6 for 70 steps, and are 4 % apart in the end. From there on a loss may be a quarter off,
 * but not their sum. */
static void compare(const network *n, const dhow_trainer_options *optimizer, const double *want) {
    dhow_trainer *t = trainer_of(n, optimizer);
    double worst = 0, sum = 0, wanted_sum = 0;
    for (int64_t step = 0; step < STEPS; step++) {
        const double tolerance = step < n->steps ? 1e-4 : 0.25, loss = loss_of_step(t, n, step);
        sum += loss;
        wanted_sum += want[step];
        worst = fmax(worst, fabs(loss - want[step]) / want[step]);
        cr_expect(fabs(loss - want[step]) <= tolerance * want[step],
                  "%s, optimizer %d, step %lld: loss %.9g, PyTorch's %.9g", n->name,
                  (int)optimizer->optimizer, (long long)step, loss, want[step]);
    }
    cr_expect(fabs(sum - wanted_sum) <= 0.02 * wanted_sum,
              "%s, optimizer %d: the losses add up to %.9g, PyTorch's to %.9g", n->name,
              (int)optimizer->optimizer, sum, wanted_sum);
    cr_log_info("%s, optimizer %d: losses differ by %.1e at most", n->name,
                (int)optimizer->optimizer, worst);
    dhow_trainer_release(t);
}

static const network k_networks[] = {
    {"mlp", build_mlp, images, 32, DHOW_LOSS_CROSS_ENTROPY, STEPS, 0.02},
    {"cnn", build_cnn, images, 64, DHOW_LOSS_CROSS_ENTROPY, 70, 0.02},
    {"words", build_words, words, 32, DHOW_LOSS_MSE, STEPS, 0.02},
    {"transformer", build_transformer, words, 32, DHOW_LOSS_MSE, STEPS, 0.002},
    {"lstm", build_lstm, words, 32, DHOW_LOSS_MSE, STEPS, 0.02},
};

Test(train_losses, of_200_steps_are_those_of_pytorch) {
    for (size_t i = 0; i < 10; i++) compare(&k_networks[i / 2], &k_optimizers[i % 2], k_losses[i]);
}

/* ---- beside others ---- */

typedef struct neighbour {
    pthread_t thread;
    atomic_int leaves;
} neighbour;

/* Takes the device's threads for some 100 microseconds each, with pauses as long. */
static void *work_beside(void *handle) {
    enum { COUNT = 1 << 19 };
    neighbour *n = handle;
    dhow_stream *stream;
    dhow_tensor *x, *y;
    OK(dhow_stream_create(g_device, &stream));
    OK(dhow_tensor_uniform(g_device, DHOW_F32, DHOW_SHAPE(COUNT), -1, 1, 1, &x));
    OK(dhow_tensor_create(g_device, DHOW_F32, DHOW_SHAPE(COUNT), &y));
    for (uint32_t i = 0; !atomic_load(&n->leaves); i++) {
        const struct timespec pause = {.tv_nsec = 20000 * (long)(i * 2654435761u >> 29)};
        OK(dhow_exp(stream, x, y));
        OK(dhow_stream_sync(stream));
        (void)nanosleep(&pause, NULL);
    }
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    dhow_stream_release(stream);
    return NULL;
}

static void losses_of(const network *n, double *losses, int count) {
    dhow_trainer *t = trainer_of(n, &k_optimizers[0]);
    for (int step = 0; step < count; step++) losses[step] = loss_of_step(t, n, step);
    dhow_trainer_release(t);
}

/* Whoever else uses the device, and so whatever threads are left. */
Test(train_losses, are_the_same_bits_beside_others) {
    enum { MOST_STEPS = 100 };
    const int count = g_device == g_cpu ? MOST_STEPS : 20;
    double alone[MOST_STEPS], beside[MOST_STEPS];
    for (size_t i = 0; i < sizeof k_networks / sizeof *k_networks; i++) {
        neighbour n = {.leaves = 0};
        losses_of(&k_networks[i], alone, count);
        cr_assert_eq(pthread_create(&n.thread, NULL, work_beside, &n), 0);
        losses_of(&k_networks[i], beside, count);
        atomic_store(&n.leaves, 1);
        (void)pthread_join(n.thread, NULL);
        for (int step = 0; step < count; step++)
            cr_assert_eq(alone[step], beside[step], "%s, step %d: %.17g alone, %.17g beside others",
                         k_networks[i].name, step, alone[step], beside[step]);
    }
}
