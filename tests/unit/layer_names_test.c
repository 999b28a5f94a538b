/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of layers' parameters against PyTorch's state_dict, and what loading says of files that
 * do not fit.
 */
#include <stdio.h>

#include "layers_fixture.h"

/* ---- names ---- */

static void expect_names(dhow_model *m, const char *const *names, uint32_t count) {
    dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
    cr_assert_eq(dhow_model_parameter_count(m), count);
    for (uint32_t i = 0; i < count; i++) {
        OK(dhow_model_parameter_at(m, i, &info));
        cr_assert_str_eq(info.name, names[i]);
    }
}

/* Who asked for the second by its name got the first. */
Test(layers, outputs_have_names_of_their_own) {
    const int64_t shape[] = {2, 3};
    dhow_model_value v, y;
    dhow_model *m = model_of(2, shape, &v);
    OK(dhow_model_relu(m, v, &y));
    OK(dhow_model_output(m, "y", y));
    cr_assert_eq(dhow_model_output(m, "y", y), DHOW_INVALID_ARGUMENT);
    cr_assert_str_eq(dhow_last_error(), "dhow_model_output: there is an output 'y' already");
    OK(dhow_model_output(m, "z", y));
    cr_assert_eq(dhow_model_output_count(m), 2);
    dhow_model_release(m);
}

Test(layers, a_table_is_named_and_computed_as_pytorch_s_sequential) {
    static const char *const names[] = {"0.weight", "0.bias", "2.0.weight", "2.2.weight",
                                        "2.2.bias"};
    static const dhow_layer inner[] = {
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_LINEAR, .in = 4, .out = 3, .no_bias = 1),
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_DROPOUT),
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_LAYERNORM, .in = 3)};
    static const dhow_layer layers[] = {
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_LINEAR, .in = 3, .out = 4),
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_ACTIVATION, .activation = dhow_model_relu),
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_SEQUENTIAL, .layers = inner, .layer_count = 3),
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_SOFTMAX)};
    const int64_t shape[] = {2, 3};
    dhow_model_value v, y;
    dhow_model *m = model_of(2, shape, &v);
    OK(dhow_model_sequential(m, NULL, v, layers, 4, &v));
    OK(dhow_model_output(m, "y", v));
    expect_names(m, names, 5);
    fill(m);
    double x[6], want[6];
    dhow_tensor *t = input(2, shape, x);
    const double *w0 = values_of(m, "0.weight"), *b0 = values_of(m, "0.bias"),
                 *w1 = values_of(m, "2.0.weight"), *g = values_of(m, "2.2.weight"),
                 *b = values_of(m, "2.2.bias");
    for (int r = 0; r < 2; r++) {
        double h[4], z[3], mean = 0, variance = 0, sum = 0;
        for (int i = 0; i < 4; i++) {
            h[i] = b0[i];
            for (int k = 0; k < 3; k++) h[i] += x[r * 3 + k] * w0[i * 3 + k];
            h[i] = fmax(0, h[i]);
        }
        for (int i = 0; i < 3; i++) {
            z[i] = 0;
            for (int k = 0; k < 4; k++) z[i] += h[k] * w1[i * 4 + k];
            mean += z[i] / 3;
        }
        for (int i = 0; i < 3; i++) variance += (z[i] - mean) * (z[i] - mean) / 3;
        for (int i = 0; i < 3; i++) {
            z[i] = exp((z[i] - mean) / sqrt(variance + 1e-5) * g[i] + b[i]);
            sum += z[i];
        }
        for (int i = 0; i < 3; i++) want[r * 3 + i] = z[i] / sum;
    }
    expect(m, t, want, 6);
    /* A layer that does not fit leaves nothing behind, and is named. */
    static const dhow_layer wrong[] = {
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_LINEAR, .in = 3, .out = 4),
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_LINEAR, .in = 5, .out = 4)};
    cr_assert_eq(dhow_model_sequential(m, "head", v, wrong, 2, &y), DHOW_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(dhow_last_error(), "layer head.1"), "%s", dhow_last_error());
    expect_names(m, names, 5);
    dhow_tensor_release(t);
    dhow_model_release(m);
}

#define LAYER(...) DHOW_FIELDS(dhow_layer, __VA_ARGS__)
static const dhow_conv_options k_three =
                                   DHOW_FIELDS(dhow_conv_options, .kernel = {3}, .padding = {1}),
                               k_twice =
                                   DHOW_FIELDS(dhow_conv_options, .kernel = {2}, .stride = {2}),
                               k_square = DHOW_FIELDS(dhow_conv_options, .kernel = {2, 2}),
                               k_cube = DHOW_FIELDS(dhow_conv_options, .kernel = {2, 1, 2});

/* Two models with the same parameters give the same. */
static void expect_same(dhow_model *a, dhow_model *b, dhow_tensor *x, int64_t count) {
    float *is[2];
    dhow_model *models[] = {a, b};
    for (int i = 0; i < 2; i++) {
        dhow_tensor *y, *home;
        is[i] = malloc((size_t)count * sizeof(float));
        fill(models[i]);
        OK(dhow_model_to(models[i], g_device));
        OK(dhow_model_run(models[i], NULL, &x, 1, &y, 1));
        OK(dhow_tensor_to_dtype(NULL, y, DHOW_F32, &home));
        OK(dhow_tensor_read(home, is[i], (uint64_t)count * sizeof(float)));
        dhow_tensor_release(y), dhow_tensor_release(home);
    }
    for (int64_t i = 0; i < count; i++) cr_assert_eq(is[0][i], is[1][i], "element %d", (int)i);
    free(is[0]), free(is[1]);
}

Test(layers, a_table_has_convolutions_norms_and_functions_of_one_dimension) {
    static const char *const names[] = {"0.weight", "0.bias",   "1.weight",
                                        "1.bias",   "3.weight", "6.weight"};
    const int64_t shape[] = {2, 3, 9};
    static const dhow_layer layers[] = {
        LAYER(.kind = DHOW_LAYER_CONV1D, .in = 3, .out = 4, .conv = &k_three),
        LAYER(.kind = DHOW_LAYER_GROUPNORM, .groups = 2, .in = 4, .eps = 0.5f),
        LAYER(.kind = DHOW_LAYER_LEAKY_RELU, .alpha = 0.3),
        LAYER(.kind = DHOW_LAYER_CONV_TRANSPOSE1D, .in = 4, .out = 2, .conv = &k_twice,
              .no_bias = 1),
        LAYER(.kind = DHOW_LAYER_ELU, .alpha = 0.7),
        LAYER(.kind = DHOW_LAYER_UPSAMPLE, .scale = 2, .mode = DHOW_INTERPOLATE_LINEAR),
        LAYER(.kind = DHOW_LAYER_RMSNORM, .in = 36, .eps = 0.25f),
        LAYER(.kind = DHOW_LAYER_LOG_SOFTMAX)};
    const double twice = 2;
    double x[54];
    dhow_model_value v, u;
    dhow_model *m = model_of(3, shape, &v), *by_hand = model_of(3, shape, &u);
    dhow_tensor *t = input(3, shape, x);
    OK(dhow_model_sequential(m, NULL, v, layers, 8, &v));
    OK(dhow_model_output(m, "y", v));
    OK(dhow_model_conv1d(by_hand, "0", u, 3, 4, &k_three, 1, &u));
    OK(dhow_model_groupnorm(by_hand, "1", u, 2, 4, 0.5f, &u));
    OK(dhow_model_leaky_relu(by_hand, u, 0.3, &u));
    OK(dhow_model_conv_transpose1d(by_hand, "3", u, 4, 2, &k_twice, 0, &u));
    OK(dhow_model_elu(by_hand, u, 0.7, &u));
    OK(dhow_model_interpolate(by_hand, u, NULL, &twice, DHOW_INTERPOLATE_LINEAR, 0, &u));
    OK(dhow_model_rmsnorm(by_hand, "6", u, 36, 0.25f, &u));
    OK(dhow_model_log_softmax(by_hand, u, -1, &u));
    OK(dhow_model_output(by_hand, "y", u));
    expect_names(m, names, 6);
    expect_same(m, by_hand, t, 2 * 2 * 36);
    dhow_tensor_release(t);
    dhow_model_release(m), dhow_model_release(by_hand);
}

Test(layers, a_table_has_convolutions_of_two_and_three_dimensions) {
    static const char *const names[] = {"0.weight", "0.bias", "1.weight", "1.bias"};
    const int64_t volume[] = {1, 2, 3, 4, 3}, image[] = {1, 2, 3, 4};
    static const dhow_layer three[] = {
        LAYER(.kind = DHOW_LAYER_CONV3D, .in = 2, .out = 3, .conv = &k_cube),
        LAYER(.kind = DHOW_LAYER_CONV_TRANSPOSE3D, .in = 3, .out = 2, .conv = &k_cube)};
    static const dhow_layer two[] = {
        LAYER(.kind = DHOW_LAYER_CONV_TRANSPOSE2D, .in = 2, .out = 3, .conv = &k_square)};
    double x[72];
    dhow_model_value v, u;
    dhow_model *m = model_of(5, volume, &v), *by_hand = model_of(5, volume, &u);
    dhow_tensor *t = input(5, volume, x);
    OK(dhow_model_sequential(m, "", v, three, 2, &v));
    OK(dhow_model_output(m, "y", v));
    OK(dhow_model_conv3d(by_hand, "0", u, 2, 3, &k_cube, 1, &u));
    OK(dhow_model_conv_transpose3d(by_hand, "1", u, 3, 2, &k_cube, 1, &u));
    OK(dhow_model_output(by_hand, "y", u));
    expect_names(m, names, 4);
    expect_same(m, by_hand, t, 72);
    dhow_tensor_release(t);
    dhow_model_release(m), dhow_model_release(by_hand);
    m = model_of(4, image, &v), by_hand = model_of(4, image, &u);
    t = input(4, image, x);
    OK(dhow_model_sequential(m, "", v, two, 1, &v));
    OK(dhow_model_output(m, "y", v));
    OK(dhow_model_conv_transpose2d(by_hand, "0", u, 2, 3, &k_square, 1, &u));
    OK(dhow_model_output(by_hand, "y", u));
    expect_names(m, names, 2);
    expect_same(m, by_hand, t, 3 * 4 * 5);
    dhow_tensor_release(t);
    dhow_model_release(m), dhow_model_release(by_hand);
}

Test(layers, a_table_has_embeddings_of_a_type_and_lstm) {
    static const char *const names[] = {"rnn.0.weight", "rnn.1.weight_ih_l0", "rnn.1.weight_hh_l0",
                                        "rnn.1.bias_ih_l0", "rnn.1.bias_hh_l0"};
    static const dhow_layer layers[] = {
        LAYER(.kind = DHOW_LAYER_EMBEDDING, .in = 7, .out = 4, .dtype = DHOW_F64),
        LAYER(.kind = DHOW_LAYER_LSTM, .in = 4, .out = 3)};
    dhow_model_value v;
    dhow_model *m;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_I64, DHOW_SHAPE(-1, 5), &v));
    OK(dhow_model_sequential(m, "rnn", v, layers, 2, &v));
    OK(dhow_model_output(m, "y", v));
    expect_names(m, names, 5);
    dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
    OK(dhow_model_output_at(m, 0, &info));
    cr_assert(info.dtype == DHOW_F64 && info.rank == 3 && info.shape[2] == 3);
    dhow_model_release(m);
    /* A convolution without its kernel, a scale that makes nothing, and what is no layer. */
    static const dhow_layer wrong[] = {LAYER(.kind = DHOW_LAYER_CONV1D, .in = 3, .out = 4),
                                       LAYER(.kind = DHOW_LAYER_UPSAMPLE),
                                       LAYER(.kind = (dhow_layer_kind)99)};
    static const char *const said[] = {"its kernel is needed", "scale factor 0 is 0",
                                       "99 is no kind of layer"};
    const int64_t shape[] = {2, 3, 9};
    m = model_of(3, shape, &v);
    for (int i = 0; i < 3; i++) {
        dhow_model_value y;
        cr_assert_eq(dhow_model_sequential(m, NULL, v, &wrong[i], 1, &y), DHOW_INVALID_ARGUMENT);
        cr_assert_not_null(strstr(dhow_last_error(), said[i]), "%s", dhow_last_error());
    }
    dhow_model_release(m);
}

Test(layers, scopes_nest_and_end) {
    static const char *const names[] = {"layers.0.self_attn.in_proj_weight",
                                        "layers.0.self_attn.out_proj.weight",
                                        "layers.0.norm1.weight", "layers.0.norm1.bias", "cls"};
    const int64_t shape[] = {1, 2, 4};
    dhow_model_value v, y;
    dhow_model *m = model_of(3, shape, &v);
    OK(dhow_model_begin_scope(m, "layers"));
    OK(dhow_model_begin_scope(m, "0"));
    OK(dhow_model_multihead_attention(m, "self_attn", v, v, v, -1, 4, 2, 0, &v));
    OK(dhow_model_layernorm(m, "norm1", v, 4, 1e-5f, &v));
    OK(dhow_model_end_scope(m));
    OK(dhow_model_end_scope(m));
    OK(dhow_model_parameter(m, "cls", DHOW_F32, DHOW_SHAPE(4), &y));
    expect_names(m, names, 5);
    cr_assert_eq(dhow_model_end_scope(m), DHOW_INVALID_ARGUMENT);
    for (int i = 0; i < 16; i++) OK(dhow_model_begin_scope(m, "deep"));
    cr_assert_eq(dhow_model_begin_scope(m, "deep"), DHOW_INVALID_ARGUMENT);
    dhow_model_release(m);
}

/* ---- files that do not fit ---- */

enum { LAYERS = 40 };

static dhow_model *deep(int first, int64_t features) {
    dhow_model_value v;
    dhow_model *m;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(1, 2), &v));
    for (int i = first; i < first + LAYERS; i++) {
        char name[32];
        dhow_model_value ignored;
        (void)snprintf(name, sizeof name, "a_rather_long_name_%d", i);
        OK(dhow_model_linear(m, name, v, 2, i == 30 ? features : 2, 1, &ignored));
    }
    OK(dhow_model_linear(m, "last", v, 2, 2, 0, &v));
    OK(dhow_model_output(m, "y", v));
    fill(m);
    return m;
}

/* load_state_dict() converts, and so does this where it is asked to. */
Test(layers, another_dtype_is_converted_where_that_is_asked_for) {
    static const char *const names[] = {"fc.weight", "fc.bias"};
    dhow_model_value v;
    dhow_model *m;
    dhow_tensor *tensors[2];
    OK(dhow_tensor_full(g_cpu, DHOW_F16, DHOW_SHAPE(2, 2), 0.375, &tensors[0]));
    OK(dhow_tensor_full(g_cpu, DHOW_F64, DHOW_SHAPE(2), -7, &tensors[1]));
    OK(dhow_safetensors_save(g_path, 2, names, tensors));
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(1, 2), &v));
    OK(dhow_model_linear(m, "fc", v, 2, 2, 1, &v));
    OK(dhow_model_output(m, "y", v));
    cr_assert_eq(dhow_model_load_state(m, g_path), DHOW_INVALID_ARGUMENT);
    OK(dhow_model_load_state_with(m, g_path, DHOW_STATE_CONVERT, NULL, NULL));
    cr_assert_eq(values_of(m, "fc.weight")[3], 0.375);
    cr_assert_eq(values_of(m, "fc.bias")[1], -7);
    for (int i = 0; i < 2; i++) dhow_tensor_release(tensors[i]);
    dhow_model_release(m);
}

/* PyTorch before 0.4.1 wrote none, and no run reads it. */
Test(layers, a_file_without_num_batches_tracked_loads) {
    dhow_model_value v;
    dhow_tensor *four;
    dhow_model *m;
    static const char *const names[] = {"bn.weight", "bn.bias", "bn.running_mean",
                                        "bn.running_var"};
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(1, 4), &v));
    OK(dhow_model_batchnorm(m, "bn", v, 4, 1e-5f, &v));
    OK(dhow_model_output(m, "y", v));
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(4), 3, &four));
    dhow_tensor *tensors[] = {four, four, four, four};
    OK(dhow_safetensors_save(g_path, 4, names, tensors));
    OK(dhow_model_load_state(m, g_path));
    cr_assert_eq(values_of(m, "bn.running_var")[3], 3);
    dhow_tensor_release(four);
    dhow_model_release(m);
}

Test(layers, a_parameter_that_is_not_there_is_told_with_those_that_are) {
    const int64_t shape[] = {1, 2};
    dhow_model_value v;
    dhow_model *m = model_of(2, shape, &v);
    dhow_tensor *t;
    OK(dhow_model_linear(m, "net.4.3", v, 2, 2, 1, &v));
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(2), 1, &t));
    cr_assert_eq(dhow_model_set_parameter(m, "net.4.3.bais", t), DHOW_NOT_FOUND);
    cr_assert_not_null(strstr(dhow_last_error(), "is 'net.4.3.bias' meant?"), "%s",
                       dhow_last_error());
    cr_assert_eq(dhow_model_set_parameter(m, "gamma", t), DHOW_NOT_FOUND);
    cr_assert_not_null(strstr(dhow_last_error(), "it has 'net.4.3.weight', 'net.4.3.bias'"), "%s",
                       dhow_last_error());
    dhow_tensor_release(t);
    dhow_model_release(m);
}

static uint32_t g_told[DHOW_STATE_MISMATCHED + 1];
static void count_told(void *user, dhow_state_difference difference, const char *name,
                       const char *detail) {
    cr_assert_eq(user, g_told);
    cr_assert_eq(strncmp(name, "a_rather_long_name_", 19), 0, "%s", name);
    cr_assert_eq(difference == DHOW_STATE_MISMATCHED, strstr(detail, "in the model") != NULL);
    g_told[difference]++;
}

/* Layers 20 to 39 are common; the weight and bias of number 30 have other shapes. */
Test(layers, every_difference_is_told_and_nothing_is_loaded) {
    dhow_model *m = deep(0, 3), *other = deep(20, 2);
    double before[4];
    OK(dhow_model_save_state(other, g_path));
    memcpy(before, values_of(m, "a_rather_long_name_25.weight"), sizeof before);
    memset(g_told, 0, sizeof g_told);
    cr_assert_eq(dhow_model_load_state_with(m, g_path, 0, count_told, g_told),
                 DHOW_INVALID_ARGUMENT);
    cr_assert_eq(g_told[DHOW_STATE_MISSING], 40);
    cr_assert_eq(g_told[DHOW_STATE_UNEXPECTED], 40);
    cr_assert_eq(g_told[DHOW_STATE_MISMATCHED], 2);
    cr_assert_not_null(strstr(dhow_last_error(), "40 missing, 40 unexpected, 2 differ"), "%s",
                       dhow_last_error());
    /* The list ended in the middle of a name, and nothing said what can be done. */
    cr_assert_not_null(strstr(dhow_last_error(), "takes what fits with DHOW_STATE_PARTIAL"));
    cr_assert_not_null(strstr(dhow_last_error(), " more"), "%s", dhow_last_error());
    cr_assert_eq(strcmp(strrchr(dhow_last_error(), ' '), " more"), 0, "%s", dhow_last_error());
    cr_assert_eq(memcmp(before, values_of(m, "a_rather_long_name_25.weight"), sizeof before), 0);
    cr_assert_eq(dhow_model_load_state(m, g_path), DHOW_INVALID_ARGUMENT);
    cr_assert_eq(dhow_model_load_state_with(m, g_path, 8, NULL, NULL), DHOW_INVALID_ARGUMENT);
    dhow_model_release(m);
    dhow_model_release(other);
}

Test(layers, a_partial_load_takes_what_fits) {
    dhow_model *m = deep(0, 3), *other = deep(20, 2);
    double missing[4], mismatched[6];
    OK(dhow_model_save_state(other, g_path));
    memcpy(missing, values_of(m, "a_rather_long_name_3.weight"), sizeof missing);
    memcpy(mismatched, values_of(m, "a_rather_long_name_30.weight"), sizeof mismatched);
    OK(dhow_model_load_state_with(m, g_path, DHOW_STATE_PARTIAL, NULL, NULL));
    static const char *const both[] = {"a_rather_long_name_25.weight", "last.weight"};
    for (int i = 0; i < 2; i++)
        cr_assert_eq(memcmp(values_of(m, both[i]), values_of(other, both[i]), 4 * sizeof(double)),
                     0, "%s", both[i]);
    cr_assert_eq(memcmp(missing, values_of(m, "a_rather_long_name_3.weight"), sizeof missing), 0);
    cr_assert_eq(
        memcmp(mismatched, values_of(m, "a_rather_long_name_30.weight"), sizeof mismatched), 0);
    dhow_model_release(m);
    dhow_model_release(other);
}

Test(layers, a_truncated_file_loads_nothing_even_in_part) {
    dhow_model *m = deep(0, 2);
    double before[4];
    OK(dhow_model_save_state(m, g_path));
    memcpy(before, values_of(m, "a_rather_long_name_0.weight"), sizeof before);
    cr_assert_eq(truncate(g_path, 2000), 0);
    cr_assert_neq(dhow_model_load_state_with(m, g_path, DHOW_STATE_PARTIAL, NULL, NULL), DHOW_OK);
    cr_assert_eq(memcmp(before, values_of(m, "a_rather_long_name_0.weight"), sizeof before), 0);
    dhow_model_release(m);
}
