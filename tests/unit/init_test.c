/* SPDX-License-Identifier: Apache-2.0
 *
 * How the parameters of every layer begin, beside what PyTorch's layers document. Norms had weights
 * of 0, attention, LSTM and all convolutions but those of images stayed 0 altogether: a transformer
 * that began so never learnt.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"
#include "dhow/model_steps.h"

#define OK(expression) cr_assert_eq((expression), DHOW_OK, "%s: %s", #expression, dhow_last_error())

static dhow_context *g_context;
static dhow_model *g_model;

static dhow_model_value input(const char *name, int32_t rank, const int64_t *shape) {
    dhow_model_value x;
    OK(dhow_model_input(g_model, name, DHOW_F32, rank, shape, &x));
    return x;
}

static void build(void) {
    const dhow_window window = DHOW_INIT(dhow_window, .kernel = {3, 3}, .groups = 2);
    const dhow_conv_options conv = DHOW_INIT(dhow_conv_options, .kernel = {3, 3, 3});
    dhow_model_value y, index, row = input("row", DHOW_SHAPE(2, 5, 64)),
                               image = input("image", DHOW_SHAPE(2, 16, 9, 9)),
                               line = input("line", DHOW_SHAPE(2, 16, 9)),
                               volume = input("volume", DHOW_SHAPE(2, 16, 9, 9, 9));
    OK(dhow_model_input(g_model, "index", DHOW_I64, DHOW_SHAPE(2), &index));
    OK(dhow_model_linear(g_model, "linear", row, 64, 96, 1, &y));
    OK(dhow_model_layernorm(g_model, "layernorm", row, 64, 1e-5f, &y));
    OK(dhow_model_rmsnorm(g_model, "rmsnorm", row, 64, 1e-5f, &y));
    OK(dhow_model_multihead_attention(g_model, "attention", row, row, row, -1, 64, 4, 1, &y));
    OK(dhow_model_lstm(g_model, "lstm", row, 64, 25, 2, 1, 1, &y));
    OK(dhow_model_embedding(g_model, "embedding", index, 100, 64, DHOW_F32, &y));
    OK(dhow_model_conv2d(g_model, "conv2d", image, 16, 32, &window, 1, &y));
    OK(dhow_model_batchnorm(g_model, "batchnorm", image, 16, 1e-5f, &y));
    OK(dhow_model_groupnorm(g_model, "groupnorm", image, 4, 16, 1e-5f, &y));
    OK(dhow_model_conv1d(g_model, "conv1d", line, 16, 32, &conv, 1, &y));
    OK(dhow_model_conv3d(g_model, "conv3d", volume, 16, 32, &conv, 1, &y));
    OK(dhow_model_conv_transpose2d(g_model, "transposed", image, 16, 32, &conv, 1, &y));
    OK(dhow_model_output(g_model, "y", y));
}

static void set_up(void) {
    (void)setenv("DHOW_PLUGIN_PATH", DHOW_TEST_PLUGIN_DIR, 1);
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_model_create(g_context, &g_model));
    build();
}
static void tear_down(void) {
    dhow_model_release(g_model);
    dhow_context_release(g_context);
}

TestSuite(init, .init = set_up, .fini = tear_down);

/* Uniform within `bound`, or every element `value` where that is 0, or normal where it is below. */
typedef struct beginning {
    const char *name;
    double bound, value;
} beginning;

static const beginning k_beginnings[] = {
    {"linear.weight", 1 / 8.0, 0},
    {"linear.bias", 1 / 8.0, 0},
    {"layernorm.weight", 0, 1},
    {"layernorm.bias", 0, 0},
    {"rmsnorm.weight", 0, 1},
    {"attention.in_proj_weight", 0.15309310892394862, 0}, /* Xavier: sqrt(6 / (64 + 192)) */
    {"attention.in_proj_bias", 0, 0},
    {"attention.out_proj.weight", 1 / 8.0, 0},
    {"attention.out_proj.bias", 0, 0},
    {"lstm.weight_ih_l0", 1 / 5.0, 0},
    {"lstm.weight_hh_l0_reverse", 1 / 5.0, 0},
    {"lstm.bias_ih_l1", 1 / 5.0, 0},
    {"lstm.bias_hh_l1_reverse", 1 / 5.0, 0},
    {"embedding.weight", -1, 0},
    {"conv2d.weight", 1 / 8.48528137423857, 0}, /* 8 channels of a group, 9 taps */
    {"conv2d.bias", 1 / 8.48528137423857, 0},
    {"batchnorm.weight", 0, 1},
    {"batchnorm.bias", 0, 0},
    {"batchnorm.running_var", 0, 1},
    {"groupnorm.weight", 0, 1},
    {"groupnorm.bias", 0, 0},
    {"conv1d.weight", 1 / 6.928203230275509, 0},
    {"conv1d.bias", 1 / 6.928203230275509, 0},
    {"conv3d.weight", 1 / 20.784609690826528, 0},
    {"transposed.weight", 1 / 16.97056274847714, 0}, /* by its second extent, as PyTorch has it */
    {"transposed.bias", 1 / 16.97056274847714, 0}};

static float *values_of(const char *name, int64_t *count) {
    for (uint32_t k = 0; k < dhow_model_parameter_count(g_model); k++) {
        dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
        OK(dhow_model_parameter_at(g_model, k, &info));
        if (strcmp(info.name, name) != 0) continue;
        *count = dhow_tensor_count(info.tensor);
        float *data = malloc((size_t)*count * sizeof *data);
        OK(dhow_tensor_read(info.tensor, data, (uint64_t)*count * sizeof *data));
        return data;
    }
    cr_assert_fail("no parameter %s", name);
    return NULL;
}

static void check(const beginning *b) {
    int64_t count;
    double most = 0, sum = 0, squares = 0;
    float *w = values_of(b->name, &count);
    for (int64_t i = 0; i < count; i++) {
        most = fmax(most, fabs((double)w[i]));
        sum += (double)w[i];
        squares += (double)w[i] * (double)w[i];
        if (b->bound == 0) cr_assert_eq((double)w[i], b->value, "%s[%d]", b->name, (int)i);
    }
    free(w);
    if (b->bound == 0) return;
    const double variance = b->bound < 0 ? 1 : b->bound * b->bound / 3, n = (double)count;
    if (b->bound > 0) cr_expect(most <= b->bound * 1.000001, "%s: %g", b->name, most);
    cr_expect(fabs(sum / n) < 5 * sqrt(variance / n), "%s: a mean of %g", b->name, sum / n);
    cr_expect(fabs(squares / n / variance - 1) < 10 / sqrt(n), "%s: a variance of %g, not %g",
              b->name, squares / n, variance);
}

Test(init, every_layer_begins_as_pytorchs_does) {
    OK(dhow_model_init_parameters(g_model, 7));
    for (size_t i = 0; i < sizeof k_beginnings / sizeof *k_beginnings; i++) check(&k_beginnings[i]);
}

Test(init, a_seed_gives_its_numbers_and_no_two_parameters_the_same) {
    int64_t count, other;
    OK(dhow_model_init_parameters(g_model, 7));
    float *a = values_of("lstm.weight_hh_l0", &count), *b = values_of("lstm.weight_hh_l1", &other);
    cr_assert_eq(count, other);
    cr_expect_neq(memcmp(a, b, (size_t)count * sizeof *a), 0);
    free(b);
    OK(dhow_model_init_parameters(g_model, 8));
    b = values_of("lstm.weight_hh_l0", &other);
    cr_expect_neq(memcmp(a, b, (size_t)count * sizeof *a), 0);
    free(b);
    OK(dhow_model_init_parameters(g_model, 7));
    b = values_of("lstm.weight_hh_l0", &other);
    cr_expect_eq(memcmp(a, b, (size_t)count * sizeof *a), 0);
    free(a);
    free(b);
}
