/* SPDX-License-Identifier: Apache-2.0
 *
 * Training: every derivative against central differences, and losses of classes, on the device that
 * DHOW_DEVICE names.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"
#include "dhow/model_steps.h"
#include "trial_fixture.h"

/* ---- models whose derivatives are checked ---- */

#define ONE(name)                                                                    \
    static void net_##name(dhow_model *m, dhow_model_value x, dhow_model_value *y) { \
        dhow_model_value w;                                                          \
        parameter(m, "w", SHAPE(3, 4), &w);                                          \
        OK(dhow_model_mul(m, x, w, y));                                              \
        OK(dhow_model_##name(m, *y, y));                                             \
    }
ONE(relu)
ONE(gelu)
ONE(gelu_tanh)
ONE(silu)
ONE(sigmoid)
ONE(tanh)
ONE(exp)
ONE(neg)
ONE(abs)
#define TWO(name, before)                                                            \
    static void net_##name(dhow_model *m, dhow_model_value x, dhow_model_value *y) { \
        dhow_model_value v, w;                                                       \
        parameter(m, "v", SHAPE(4), &v);                                             \
        parameter(m, "w", SHAPE(2, 1, 4), &w);                                       \
        OK(dhow_model_mul(m, x, v, y));                                              \
        OK(dhow_model_##before(m, w, &w));                                           \
        OK(dhow_model_##name(m, *y, w, y));                                          \
    }
TWO(add, neg)
TWO(sub, tanh)
TWO(mul, tanh)
TWO(div, exp)
TWO(max, neg)
TWO(min, neg)

static void net_numbers(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    parameter(m, "w", SHAPE(3, 4), y);
    OK(dhow_model_mul(m, x, *y, y));
    OK(dhow_model_mul_scalar(m, *y, dhow_scalar_f64(1.5), y));
    OK(dhow_model_add_scalar(m, *y, dhow_scalar_f64(0.25), y));
    OK(dhow_model_max_scalar(m, *y, dhow_scalar_f64(-0.5), y));
    OK(dhow_model_min_scalar(m, *y, dhow_scalar_f64(0.9), y));
    OK(dhow_model_pow_scalar(m, *y, dhow_scalar_f64(3), y));
    OK(dhow_model_div_scalar(m, *y, dhow_scalar_f64(0.7), y));
    OK(dhow_model_affine(m, *y, dhow_scalar_f64(2), dhow_scalar_f64(3), y));
    OK(dhow_model_clip(m, *y, -1, 6, y));
    OK(dhow_model_permute(m, *y, (int32_t[]){1, 0}, 2, y));
}
static void net_roots(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    parameter(m, "w", SHAPE(3, 4), y);
    OK(dhow_model_mul(m, x, *y, y));
    OK(dhow_model_mul(m, *y, *y, y));
    OK(dhow_model_add_scalar(m, *y, dhow_scalar_f64(0.5), y));
    OK(dhow_model_sqrt(m, *y, y));
    OK(dhow_model_log(m, *y, y));
}
/* Within -0.8 .. 0.8, and from 1.2 on for the inverse of cosh. */
static void net_circular(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    static dhow_status (*const inside[])(dhow_model *, dhow_model_value, dhow_model_value *) = {
        dhow_model_tan,   dhow_model_asin, dhow_model_acos,  dhow_model_atan,
        dhow_model_asinh, dhow_model_sinh, dhow_model_atanh, dhow_model_cosh};
    dhow_model_value part, w;
    parameter(m, "w", SHAPE(3, 4), &w);
    OK(dhow_model_mul(m, x, w, &w));
    OK(dhow_model_mul_scalar(m, w, dhow_scalar_f64(0.8), &w));
    OK(dhow_model_affine(m, w, dhow_scalar_f64(0.5), dhow_scalar_f64(1.6), y));
    OK(dhow_model_acosh(m, *y, y));
    for (int i = 0; i < 8; i++) { /* weighed, lest a fault of one stays small beside the others */
        OK(inside[i](m, w, &part));
        OK(dhow_model_mul_scalar(m, part, dhow_scalar_f64(0.7 + 0.1 * i), &part));
        OK(dhow_model_add(m, *y, part, y));
    }
}
/* Powers and remainders between tensors, and an order that follows the values. */
static void net_two(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    dhow_model_value v, w, part;
    parameter(m, "v", SHAPE(3, 1), &v);
    parameter(m, "w", SHAPE(3, 4), &w);
    OK(dhow_model_mul(m, x, w, y));
    OK(dhow_model_exp(m, *y, &part));
    OK(dhow_model_pow(m, part, v, &part));
    OK(dhow_model_fmod(m, *y, v, &v));
    OK(dhow_model_add(m, part, v, &part));
    OK(dhow_model_mod(m, *y, part, &w));
    OK(dhow_model_sort(m, *y, 1, 0, y, &v));
    OK(dhow_model_add(m, *y, w, y));
}
/* x^0 where x is 0: random graphs found its derivative to be NaN. */
static void net_zero_power(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    dhow_model_value w, zero;
    parameter(m, "w", SHAPE(3, 4), &w);
    OK(dhow_model_sub(m, w, w, &zero));
    OK(dhow_model_pow_scalar(m, zero, dhow_scalar_f64(0), &zero));
    OK(dhow_model_mul(m, x, w, y));
    OK(dhow_model_mul(m, *y, zero, y));
}
/* Conditions depend on parameters too, and have no derivative. */
static void net_where(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    dhow_model_value w, other, condition;
    parameter(m, "w", SHAPE(3, 4), &w);
    OK(dhow_model_mul(m, x, w, y));
    OK(dhow_model_softplus(m, w, &other));
    OK(dhow_model_greater(m, *y, other, &condition));
    OK(dhow_model_leaky_relu(m, *y, 0.2, y));
    OK(dhow_model_where(m, condition, *y, other, y));
}
static void net_layernorm(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    OK(dhow_model_linear(m, "first", x, 4, 5, 1, y));
    OK(dhow_model_layernorm(m, "norm", *y, 5, 1e-5f, y));
}
static void net_matmul(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    dhow_model_value v, w;
    parameter(m, "v", SHAPE(2, 3, 4), &v);
    parameter(m, "w", SHAPE(4, 5), &w);
    OK(dhow_model_mul(m, x, v, y));
    OK(dhow_model_matmul(m, *y, w, y));
}
static void net_softmax(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    parameter(m, "w", SHAPE(3, 4), y);
    OK(dhow_model_mul(m, x, *y, y));
    OK(dhow_model_softmax(m, *y, -1, y));
}
static void net_log_softmax(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    parameter(m, "w", SHAPE(3, 4), y);
    OK(dhow_model_mul(m, x, *y, y));
    OK(dhow_model_log_softmax(m, *y, 1, y));
}
static void net_shapes(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    dhow_model_value w, part[2];
    parameter(m, "w", SHAPE(3, 4), &w);
    OK(dhow_model_mul(m, x, w, y));
    OK(dhow_model_transpose(m, *y, 0, 1, &part[0]));
    OK(dhow_model_narrow(m, part[0], 0, 1, 2, &part[0]));
    OK(dhow_model_reshape(m, w, SHAPE(4, 3), &part[1]));
    OK(dhow_model_cat(m, part, 2, 0, y));
    OK(dhow_model_reduce(m, DHOW_REDUCE_SUM, *y, (int32_t[]){1}, 1, 1, &w));
    OK(dhow_model_mul(m, *y, w, y));
    OK(dhow_model_reduce(m, DHOW_REDUCE_MEAN, *y, (int32_t[]){0}, 1, 0, y));
    OK(dhow_model_flatten(m, *y, 0, y));
}
#define WINDOW(...) \
    { .struct_size = sizeof(dhow_window), __VA_ARGS__ }
static const dhow_window k_plain = WINDOW(.kernel = {3, 2}, .pad = {1, 0, 1, 1}),
                         k_strided = WINDOW(.kernel = {3, 3}, .stride = {2, 3}, .pad = {2, 1, 0, 1},
                                            .dilation = {1, 2}),
                         k_outside =
                             WINDOW(.kernel = {1, 1}, .stride = {9, 1}, .pad = {2, 0, 2, 0}),
                         k_groups = WINDOW(.kernel = {2, 2}, .groups = 2),
                         k_pool = WINDOW(.kernel = {2, 2}, .stride = {2, 2}),
                         k_overlap =
                             WINDOW(.kernel = {3, 3}, .stride = {2, 1}, .pad = {1, 1, 1, 1});
#define CONV(name, window, in, out, bias)                                            \
    static void net_##name(dhow_model *m, dhow_model_value x, dhow_model_value *y) { \
        OK(dhow_model_conv2d(m, "first", x, 2, 4, &k_plain, 1, y));                  \
        OK(dhow_model_tanh(m, *y, y));                                               \
        OK(dhow_model_conv2d(m, "second", *y, in, out, &window, bias, y));           \
    }
CONV(conv, k_plain, 4, 3, 1)
CONV(conv_strided, k_strided, 4, 3, 0)
CONV(conv_groups, k_groups, 4, 6, 1)
CONV(conv_outside, k_outside, 4, 3, 1) /* sees nothing but padding; found by random graphs */
static void weighed(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    dhow_model_value w;
    parameter(m, "w", SHAPE(2, 5, 6), &w);
    OK(dhow_model_mul(m, x, w, y));
}
static void net_maxpool(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    weighed(m, x, y);
    OK(dhow_model_maxpool2d(m, *y, &k_pool, y));
}
static void net_maxpool_overlap(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    weighed(m, x, y);
    OK(dhow_model_maxpool2d(m, *y, &k_overlap, y));
}
static void net_avgpool(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    weighed(m, x, y);
    OK(dhow_model_avgpool2d(m, *y, &k_overlap, y));
}
#undef ONE
#define ONE(name) \
    { #name, 2, {3, 4 }, net_##name, DHOW_LOSS_MSE }
#define LOSS(name, loss) \
    { #name " " #loss, 2, {3, 4 }, net_##name, DHOW_LOSS_##loss }
static const net k_nets[] = {
    ONE(relu),
    ONE(gelu),
    ONE(gelu_tanh),
    ONE(silu),
    ONE(sigmoid),
    ONE(tanh),
    ONE(exp),
    ONE(neg),
    ONE(abs),
    ONE(add),
    ONE(sub),
    ONE(mul),
    ONE(div),
    ONE(max),
    ONE(min),
    ONE(numbers),
    ONE(roots),
    ONE(circular),
    ONE(two),
    ONE(zero_power),
    ONE(where),
    ONE(linear),
    ONE(layernorm),
    ONE(matmul),
    ONE(softmax),
    ONE(log_softmax),
    ONE(shapes),
    LOSS(tanh, L1),
    LOSS(neg, SMOOTH_L1),
    LOSS(neg, BCE_WITH_LOGITS),
    {"conv", 4, {3, 2, 5, 6}, net_conv, DHOW_LOSS_MSE},
    {"conv_strided", 4, {3, 2, 5, 6}, net_conv_strided, DHOW_LOSS_MSE},
    {"conv_groups", 4, {3, 2, 5, 6}, net_conv_groups, DHOW_LOSS_MSE},
    {"conv_outside", 4, {3, 2, 5, 6}, net_conv_outside, DHOW_LOSS_MSE},
    {"maxpool", 4, {3, 2, 5, 6}, net_maxpool, DHOW_LOSS_MSE},
    {"maxpool_overlap", 4, {3, 2, 5, 6}, net_maxpool_overlap, DHOW_LOSS_MSE},
    {"avgpool", 4, {3, 2, 5, 6}, net_avgpool, DHOW_LOSS_MSE},
};

TestSuite(train, .init = set_up, .fini = close_device, .timeout = 300);

Test(train, every_derivative_is_what_central_differences_say) {
    for (size_t i = 0; i < sizeof k_nets / sizeof *k_nets; i++) {
        trial t = begin(&k_nets[i], DHOW_OPTIMIZER_SGD);
        cr_assert_gt(dhow_trainer_parameter_count(t.trainer), 0);
        for (uint32_t k = 0; k < dhow_trainer_parameter_count(t.trainer); k++)
            check_parameter(&t, k_nets[i].name, k);
        end(&t);
    }
}

/* ---- classes ---- */

/* Pairs of words, classified: a word that comes often, and a class that is ignored. */
static void build_words(dhow_model *m) {
    dhow_model_value x, y;
    OK(dhow_model_input(m, "pairs", DHOW_I64, SHAPE(-1, 2), &x));
    OK(dhow_model_embedding(m, "words", x, 4, 3, DHOW_F64, &y));
    OK(dhow_model_flatten(m, y, 1, &y));
    OK(dhow_model_linear(m, "out", y, 6, 3, 1, &y));
    OK(dhow_model_output(m, "scores", y));
    OK(dhow_model_init_parameters(m, 5));
}

Test(train, classes_and_embeddings) {
    static const int64_t words[] = {0, 3, 3, 1, 2, 3}, classes[] = {2, -100, 1};
    trial t;
    OK(dhow_model_create(g_context, &t.model));
    build_words(t.model);
    OK(dhow_model_to(t.model, g_device));
    OK(dhow_tensor_from_data(g_device, DHOW_I64, SHAPE(3, 2), words, &t.x));
    OK(dhow_tensor_from_data(g_device, DHOW_I64, SHAPE(3), classes, &t.target));
    OK(dhow_trainer_create(
        t.model, &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY), &t.trainer));
    for (uint32_t k = 0; k < 3; k++) check_parameter(&t, "words", k);
    const int64_t wrong[] = {3, -1, -99, -101};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        OK(dhow_tensor_write(t.target, (int64_t[]){2, wrong[i], 1}, sizeof classes));
        cr_expect(isnan(loss_of(&t)), "class %lld of 3", (long long)wrong[i]);
    }
    OK(dhow_tensor_write(t.target, classes, sizeof classes));
    cr_expect(isfinite(loss_of(&t)));
    end(&t);
}

/* Layers that begin with zeros give logits of 0, where relu and |y| have corners: s(0) - 1. */
Test(train, the_binary_entropy_has_no_corner_at_0) {
    const double ones[] = {1, 1};
    double slope;
    trial t;
    dhow_model_value x, y;
    dhow_tensor *g;
    OK(dhow_model_create(g_context, &t.model));
    OK(dhow_model_input(t.model, "x", DHOW_F64, SHAPE(2, 1), &x));
    OK(dhow_model_linear(t.model, "fc", x, 1, 1, 1, &y));
    OK(dhow_model_output(t.model, "y", y));
    OK(dhow_model_to(t.model, g_device));
    OK(dhow_tensor_from_data(g_device, DHOW_F64, SHAPE(2, 1), ones, &t.x));
    OK(dhow_tensor_from_data(g_device, DHOW_F64, SHAPE(2, 1), ones, &t.target));
    OK(dhow_trainer_create(
        t.model, &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_BCE_WITH_LOGITS), &t.trainer));
    cr_expect_float_eq(loss_of(&t), log(2), 1e-12);
    OK(dhow_trainer_parameter_at(t.trainer, 1, NULL, NULL, &g));
    OK(dhow_tensor_read(g, &slope, sizeof slope));
    cr_expect_float_eq(slope, -0.5, 1e-12, "%g", slope);
    dhow_tensor_release(g);
    end(&t);
}
