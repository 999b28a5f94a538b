/* SPDX-License-Identifier: Apache-2.0
 *
 * Training: every derivative against central differences, optimisers against their formulas, and
 * models that learn, on the device that DHOW_DEVICE names.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"
#include "dhow/model_steps.h"
#include "train_fixture.h"

/* ---- models whose derivatives are checked ---- */

typedef struct net {
    const char *name;
    int32_t rank;
    int64_t shape[4];
    void (*build)(dhow_model *m, dhow_model_value x, dhow_model_value *y);
    dhow_loss loss;
} net;

static void parameter(dhow_model *m, const char *name, int32_t rank, const int64_t *shape,
                      dhow_model_value *out) {
    OK(dhow_model_parameter(m, name, DHOW_F64, rank, shape, out));
}
#define SHAPE(...) \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]) { __VA_ARGS__ }

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
static void net_linear(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    OK(dhow_model_linear(m, "first", x, 4, 5, 1, y));
    OK(dhow_model_tanh(m, *y, y));
    OK(dhow_model_linear(m, "second", *y, 5, 3, 0, y));
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

/* ---- running them ---- */

static dhow_device *g_cpu;

static void set_up(void) {
    open_device();
    OK(dhow_device_get(g_context, "cpu", &g_cpu));
}

TestSuite(train, .init = set_up, .fini = close_device, .timeout = 300);

/* -1 .. 1, none of them near what a function has corners at */
static double number(int64_t i) {
    const double x = (double)((uint64_t)(i + 7) * UINT64_C(2654435761) >> 9 & 1023) / 512 - 1;
    return fabs(x) < 0.05 ? x + 0.1 : x;
}

static dhow_tensor *filled(dhow_device *device, int32_t rank, const int64_t *shape, int64_t seed) {
    double data[MOST];
    int64_t count = 1;
    dhow_tensor *t;
    for (int32_t i = 0; i < rank; i++) count *= shape[i];
    cr_assert_leq(count, MOST);
    for (int64_t i = 0; i < count; i++) data[i] = number(i + seed);
    OK(dhow_tensor_from_data(device, DHOW_F64, rank, shape, data, &t));
    return t;
}

static trial begin(const net *n, dhow_optimizer optimizer) {
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

static void end(trial *t) {
    dhow_trainer_release(t->trainer);
    dhow_model_release(t->model);
    dhow_tensor_release(t->x);
    dhow_tensor_release(t->target);
}

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

/* ---- optimisers ---- */

enum { WEIGHTS = 5, STEPS = 6 };

static void net_squares(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    dhow_model_value w;
    parameter(m, "w", SHAPE(WEIGHTS), &w);
    OK(dhow_model_mul(m, w, w, y));
    OK(dhow_model_mul(m, *y, x, y));
    OK(dhow_model_reduce(m, DHOW_REDUCE_SUM, *y, NULL, 0, 0, y));
}

/* torch.optim's pages, one number at a time. */
static void step_of(const dhow_trainer_options *o, int n, double g, double *w, double s[2]) {
    const double lr = o->learning_rate, decay = fmax(0, o->weight_decay);
    switch (o->optimizer) {
        case DHOW_OPTIMIZER_SGD:
            g += decay * *w;
            s[0] = n == 1 ? g : o->momentum * s[0] + (1 - o->dampening) * g;
            *w -= lr * (o->nesterov ? g + o->momentum * s[0] : s[0]);
            break;
        case DHOW_OPTIMIZER_ADAM:
        case DHOW_OPTIMIZER_ADAMW:
            if (o->optimizer == DHOW_OPTIMIZER_ADAM)
                g += decay * *w;
            else
                *w -= lr * decay * *w;
            s[0] = 0.9 * s[0] + 0.1 * g;
            s[1] = 0.999 * s[1] + 0.001 * g * g;
            *w -= lr * (s[0] / (1 - pow(0.9, n))) / (sqrt(s[1] / (1 - pow(0.999, n))) + 1e-8);
            break;
        case DHOW_OPTIMIZER_RMSPROP:
            g += decay * *w;
            s[0] = 0.99 * s[0] + 0.01 * g * g;
            s[1] = o->momentum * s[1] + g / (sqrt(s[0]) + 1e-8);
            *w -= lr * s[1];
            break;
        default:
            *w *= 1 - lr * decay;
            const double u = 0.9 * s[0] + 0.1 * g;
            *w -= lr * (u > 0 ? 1 : u < 0 ? -1 : 0);
            s[0] = 0.99 * s[0] + 0.01 * g;
            break;
    }
}

static void check_optimizer(const dhow_trainer_options *options) {
    double want[WEIGHTS], got[WEIGHTS], x[WEIGHTS], state[WEIGHTS][2] = {{0}};
    const net n = {"squares", 1, {WEIGHTS}, net_squares, DHOW_LOSS_OUTPUT};
    trial t = begin(&n, options->optimizer);
    dhow_trainer_release(t.trainer);
    OK(dhow_trainer_create(t.model, options, &t.trainer));
    dhow_batch batch = DHOW_INIT(dhow_batch, .tensor_count = 1, .tensors = {t.x});
    dhow_tensor *w;
    OK(dhow_trainer_parameter_at(t.trainer, 0, NULL, &w, NULL));
    OK(dhow_tensor_read(w, want, sizeof want));
    OK(dhow_tensor_read(t.x, x, sizeof x));
    for (int i = 1; i <= STEPS; i++) {
        double loss, sum = 0, norm = 0, scale = 1;
        for (int k = 0; k < WEIGHTS; k++) {
            sum += want[k] * want[k] * x[k];
            norm += 4 * want[k] * want[k] * x[k] * x[k];
        }
        if (options->clip_norm > 0) scale = fmin(1, options->clip_norm / (sqrt(norm) + 1e-6));
        OK(dhow_trainer_step(t.trainer, &batch, &loss));
        cr_expect_float_eq(loss, sum, 1e-12);
        for (int k = 0; k < WEIGHTS; k++)
            step_of(options, i, scale * 2 * want[k] * x[k], &want[k], state[k]);
    }
    OK(dhow_trainer_update_model(t.trainer));
    dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
    OK(dhow_model_parameter_at(t.model, 0, &info));
    OK(dhow_tensor_read(info.tensor, got, sizeof got));
    for (int k = 0; k < WEIGHTS; k++)
        cr_expect_float_eq(got[k], want[k], 1e-12, "optimizer %d, weight %d: %.15g, not %.15g",
                           (int)options->optimizer, k, got[k], want[k]);
    dhow_tensor_release(w);
    end(&t);
}

Test(train, optimisers_step_as_their_formulas_say) {
    check_optimizer(&DHOW_INIT(dhow_trainer_options, .learning_rate = 0.1));
    check_optimizer(&DHOW_INIT(dhow_trainer_options, .learning_rate = 0.1, .momentum = 0.9,
                               .dampening = 0.2, .weight_decay = 0.01));
    check_optimizer(&DHOW_INIT(dhow_trainer_options, .learning_rate = 0.1, .momentum = 0.9,
                               .nesterov = 1, .clip_norm = 0.5));
    for (int kind = DHOW_OPTIMIZER_ADAM; kind <= DHOW_OPTIMIZER_LION; kind++) {
        check_optimizer(&DHOW_INIT(dhow_trainer_options, .optimizer = (dhow_optimizer)kind,
                                   .learning_rate = 0.05, .weight_decay = 0.1));
        check_optimizer(&DHOW_INIT(dhow_trainer_options, .optimizer = (dhow_optimizer)kind,
                                   .learning_rate = 0.05, .weight_decay = -1, .clip_norm = 0.3,
                                   .momentum = kind == DHOW_OPTIMIZER_RMSPROP ? 0.9 : 0));
    }
}

/* ---- dropout ---- */

enum { DROPPED = 3000, SHARE = 4 }; /* elements; one in four becomes 0 */

/* SplitMix64 as include/dhow/model_steps.h and kernels/dropout.k have it. */
static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}
static int is_dropped(uint64_t seed, uint64_t step, uint64_t layer, uint64_t element) {
    const uint64_t each = UINT64_C(0x9e3779b97f4a7c15),
                   key = mixed(mixed(seed + each) + step * each),
                   state = mixed(key + (layer + 1) * each);
    return mixed(state + (element + 1) * each) >> 32 < (UINT64_C(1) << 32) / SHARE;
}

/* The sum of dropout(dropout(x w)) as a model and its loss. */
static dhow_model *dropping(dhow_dtype dtype) {
    dhow_model *m;
    dhow_model_value x, w, y;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", dtype, SHAPE(2, DROPPED / 2), &x));
    OK(dhow_model_parameter(m, "w", dtype, SHAPE(2, DROPPED / 2), &w));
    OK(dhow_model_mul(m, x, w, &y));
    static const dhow_layer layers[] = {
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_DROPOUT, .p = 1.0 / SHARE),
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_DROPOUT),
        DHOW_FIELDS(dhow_layer, .kind = DHOW_LAYER_DROPOUT, .p = 1.0 / SHARE)};
    OK(dhow_model_sequential(m, NULL, y, layers, 3, &y));
    OK(dhow_model_reduce(m, DHOW_REDUCE_SUM, y, NULL, 0, 0, &y));
    OK(dhow_model_output(m, "y", y));
    dhow_tensor *ones;
    OK(dhow_tensor_full(g_cpu, dtype, SHAPE(2, DROPPED / 2), 1, &ones));
    OK(dhow_model_set_parameter(m, "w", ones));
    dhow_tensor_release(ones);
    OK(dhow_model_to(m, g_device));
    return m;
}

static void read_numbers(dhow_tensor *t, double *values, uint64_t count) {
    dhow_tensor *home, *wide;
    OK(dhow_tensor_to(t, g_cpu, &home));
    OK(dhow_tensor_to_dtype(NULL, home, DHOW_F64, &wide));
    OK(dhow_tensor_read(wide, values, count * sizeof *values));
    dhow_tensor_release(home), dhow_tensor_release(wide);
}

/* The gradient by w is x where nothing fell to either layer's mask, which is known beforehand: the
 * same on all devices. */
static void check_masks(dhow_dtype dtype, uint64_t seed) {
    static double gradients[DROPPED];
    dhow_model *m = dropping(dtype);
    dhow_tensor *x, *g, *y;
    dhow_trainer *trainer;
    OK(dhow_tensor_full(g_device, dtype, SHAPE(2, DROPPED / 2), 2, &x));
    OK(dhow_trainer_create(m, &DHOW_INIT(dhow_trainer_options, .seed = seed), &trainer));
    OK(dhow_trainer_parameter_at(trainer, 0, NULL, NULL, &g));
    for (uint64_t step = 1; step <= 6; step++) { /* the later ones are replayed */
        const double kept = 1.0 / (1 - 1.0 / SHARE);
        double loss, sum = 0;
        int zeros = 0;
        OK(dhow_trainer_zero_gradients(trainer));
        OK(dhow_trainer_backward(trainer, NULL, &x, 1, NULL, &loss));
        read_numbers(g, gradients, DROPPED);
        for (uint64_t i = 0; i < DROPPED; i++) {
            const int gone = is_dropped(seed, step, 0, i) || is_dropped(seed, step, 1, i);
            const double want = gone ? 0 : 2 * kept * kept;
            zeros += gone;
            sum += want;
            cr_assert_float_eq(gradients[i], want, 1e-5 * want, "step %d, element %d: %g, not %g",
                               (int)step, (int)i, gradients[i], want);
        }
        cr_assert_float_eq(loss, sum, 1e-4 * sum, "%g is the loss, %g the sum", loss, sum);
        /* 7/16 with a standard deviation of 27 */
        cr_assert(abs(zeros - DROPPED * 7 / 16) < 110, "%d zeros of %d", zeros, DROPPED);
    }
    OK(dhow_model_run(m, NULL, &x, 1, &y, 1)); /* evaluated, nothing is dropped */
    read_numbers(y, gradients, 1);
    cr_assert_eq(gradients[0], 2.0 * DROPPED);
    dhow_tensor_release(x), dhow_tensor_release(y), dhow_tensor_release(g);
    dhow_trainer_release(trainer);
    dhow_model_release(m);
}

Test(train, dropout_has_the_same_masks_everywhere_and_none_in_evaluation) {
    check_masks(DHOW_F32, 0);
    check_masks(DHOW_F64, UINT64_C(0xfedcba9876543210));
}

Test(train, dropout_of_everything_and_of_no_probability) {
    dhow_model *m;
    dhow_model_value x, y, i;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, SHAPE(4), &x));
    OK(dhow_model_input(m, "i", DHOW_I64, SHAPE(4), &i));
    static const struct {
        double p;
        const char *says;
    } wrong[] = {{-0.5, "p is -0.5"}, {1.5, "p is 1.5"}, {NAN, "p is nan"}};
    for (int k = 0; k < 3; k++) {
        cr_assert_eq(dhow_model_dropout(m, x, wrong[k].p, &y), DHOW_INVALID_ARGUMENT);
        cr_assert_not_null(strstr(dhow_last_error(), wrong[k].says), "%s", dhow_last_error());
    }
    cr_assert_eq(dhow_model_dropout(m, i, 0.5, &y), DHOW_INVALID_ARGUMENT);
    dhow_model_value w;
    dhow_tensor *t, *g;
    dhow_trainer *trainer;
    double loss, slopes[4];
    OK(dhow_model_parameter(m, "w", DHOW_F32, SHAPE(4), &w));
    OK(dhow_model_add(m, x, w, &y));
    OK(dhow_model_dropout(m, y, 1, &y));
    OK(dhow_model_reduce(m, DHOW_REDUCE_SUM, y, NULL, 0, 0, &y));
    OK(dhow_model_output(m, "y", y));
    OK(dhow_model_to(m, g_device));
    OK(dhow_trainer_create(m, NULL, &trainer));
    OK(dhow_tensor_full(g_device, DHOW_F32, SHAPE(4), INFINITY, &t));
    OK(dhow_tensor_to_dtype(NULL, t, DHOW_I64, &g));
    OK(dhow_trainer_backward(trainer, NULL, (dhow_tensor *[]){t, g}, 2, NULL, &loss));
    cr_assert_eq(loss, 0, "not infinity times 0: %g", loss);
    dhow_tensor_release(g);
    OK(dhow_trainer_parameter_at(trainer, 0, NULL, NULL, &g));
    read_numbers(g, slopes, 4);
    for (int k = 0; k < 4; k++) cr_assert_eq(slopes[k], 0);
    dhow_tensor_release(t), dhow_tensor_release(g);
    dhow_trainer_release(trainer);
    dhow_model_release(m);
}

/* ---- what a caller does ---- */

Test(train, gradients_add_up_until_they_are_zeroed) {
    const net n = {"linear", 2, {3, 4}, net_linear, DHOW_LOSS_MSE};
    trial t = begin(&n, DHOW_OPTIMIZER_SGD);
    dhow_tensor *g;
    double once[20], twice[20];
    OK(dhow_trainer_parameter_at(t.trainer, 0, NULL, NULL, &g));
    (void)loss_of(&t);
    OK(dhow_tensor_read(g, once, sizeof once));
    OK(dhow_trainer_backward(t.trainer, NULL, &t.x, 1, t.target, NULL));
    OK(dhow_tensor_read(g, twice, sizeof twice));
    for (int i = 0; i < 20; i++) cr_expect_eq(twice[i], 2 * once[i]);
    dhow_tensor_release(g);
    end(&t);
}

/* What is built on later, or moved, is not what the trainer was made of. */
Test(train, a_model_that_changes_leaves_its_trainer_alone) {
    const net n = {"linear", 2, {3, 4}, net_linear, DHOW_LOSS_MSE};
    trial t = begin(&n, DHOW_OPTIMIZER_SGD);
    dhow_model_value more;
    const double before = loss_of(&t);
    for (int i = 0; i < 40; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "x%d", i);
        OK(dhow_model_input(t.model, name, DHOW_F64, SHAPE(1), &more));
    }
    OK(dhow_model_to(t.model, g_cpu));
    cr_expect_eq(loss_of(&t), before);
    OK(dhow_trainer_backward(t.trainer, NULL, &t.x, 1, t.target, NULL));
    OK(dhow_trainer_update(t.trainer, NULL));
    OK(dhow_trainer_update_model(t.trainer));
    cr_expect_lt(loss_of(&t), before);
    end(&t);
}

Test(train, patterns_choose_what_is_trained) {
    const net n = {"linear", 2, {3, 4}, net_linear, DHOW_LOSS_MSE};
    trial t = begin(&n, DHOW_OPTIMIZER_SGD);
    static const struct {
        const char *pattern;
        uint32_t count;
    } cases[] = {{"*", 3},        {"second*", 1}, {"*.bias", 1}, {"f?rst.*", 2},
                 {"*s*t*t**", 1}, {"**.b*s", 1},  {"*d.w?*", 1}, {"*.weight", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dhow_trainer *some;
        OK(dhow_trainer_create(
            t.model,
            &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .trainable = cases[i].pattern),
            &some));
        cr_expect_eq(dhow_trainer_parameter_count(some), cases[i].count, "%s", cases[i].pattern);
        dhow_trainer_release(some);
    }
    end(&t);
}

static void refused(dhow_status status, dhow_status wanted, const char *part) {
    cr_expect_eq(status, wanted, "%s", dhow_last_error());
    cr_expect_not_null(strstr(dhow_last_error(), part), "'%s' is not in '%s'", part,
                       dhow_last_error());
}

static void net_sorted(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    dhow_model_value w, order;
    parameter(m, "w", SHAPE(3, 4), &w);
    OK(dhow_model_mul(m, x, w, y));
    OK(dhow_model_sort(m, *y, 1, 0, y, &order));
}

static void net_long_name(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    OK(dhow_model_linear(m, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", x, 4, 3, 0, y));
}

/* Each star took as many tries as the name has letters, for every try of those before it. */
Test(train, a_pattern_of_many_stars_takes_no_longer, .timeout = 30) {
    const net n = {"long name", 2, {3, 4}, net_long_name, DHOW_LOSS_MSE};
    trial t = begin(&n, DHOW_OPTIMIZER_SGD);
    dhow_trainer *some;
    refused(dhow_trainer_create(t.model,
                                &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE,
                                           .trainable = "*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b"),
                                &some),
            DHOW_INVALID_ARGUMENT, "*b'");
    end(&t);
}

/* Each place of a window is some steps of the plan: a few bytes of a file could ask for millions.
 */
Test(train, a_window_with_too_many_places_is_refused) {
    const dhow_window wide = DHOW_INIT(dhow_window, .kernel = {70, 70}, .stride = {1, 1});
    const int64_t shape[] = {1, 1, 70, 70};
    dhow_model *m;
    dhow_model_value x, y;
    dhow_trainer *t;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F64, 4, shape, &x));
    parameter(m, "w", 4, shape, &y);
    OK(dhow_model_mul(m, x, y, &y));
    OK(dhow_model_avgpool2d(m, y, &wide, &y));
    OK(dhow_model_reduce(m, DHOW_REDUCE_SUM, y, NULL, 0, 0, &y));
    OK(dhow_model_output(m, "y", y));
    OK(dhow_model_to(m, g_device));
    dhow_status status = dhow_trainer_create(m, NULL, &t);
    if (status == DHOW_OK) { /* said when the shapes are known */
        dhow_tensor *image;
        OK(dhow_tensor_zeros(g_device, DHOW_F64, 4, shape, &image));
        status = dhow_trainer_backward(t, NULL, &image, 1, NULL, NULL);
        dhow_tensor_release(image);
        dhow_trainer_release(t);
    }
    refused(status, DHOW_INVALID_ARGUMENT, "70 x 70");
    dhow_model_release(m);
}

Test(train, mistakes_are_named) {
    const net n = {"linear", 2, {3, 4}, net_linear, DHOW_LOSS_MSE};
    trial t = begin(&n, DHOW_OPTIMIZER_SGD);
    dhow_trainer *none = t.trainer;
    refused(dhow_trainer_create(NULL, NULL, &none), DHOW_INVALID_ARGUMENT, "model is NULL");
    cr_expect_null(none);
    refused(dhow_trainer_create(t.model, NULL, &none), DHOW_INVALID_ARGUMENT, "one number");
    refused(dhow_trainer_create(t.model, &DHOW_INIT(dhow_trainer_options, .trainable = "third.*"),
                                &none),
            DHOW_INVALID_ARGUMENT, "'third.*'");
    refused(dhow_trainer_create(t.model, &DHOW_INIT(dhow_trainer_options, .beta1 = 1), &none),
            DHOW_INVALID_ARGUMENT, "beta1");
    refused(dhow_trainer_create(t.model, &DHOW_INIT(dhow_trainer_options, .nesterov = 1), &none),
            DHOW_INVALID_ARGUMENT, "momentum");
    refused(
        dhow_trainer_create(t.model, &DHOW_INIT(dhow_trainer_options, .learning_rate = NAN), &none),
        DHOW_INVALID_ARGUMENT, "learning_rate");
    refused(dhow_trainer_create(t.model, &DHOW_INIT(dhow_trainer_options, .dampening = NAN), &none),
            DHOW_INVALID_ARGUMENT, "dampening");
    refused(dhow_trainer_backward(t.trainer, NULL, NULL, 1, t.target, NULL), DHOW_INVALID_ARGUMENT,
            "inputs is NULL");
    dhow_tensor *empty;
    OK(dhow_tensor_create(g_device, DHOW_F64, SHAPE(0, 3), &empty));
    refused(dhow_trainer_backward(t.trainer, NULL, &t.x, 1, empty, NULL), DHOW_INVALID_ARGUMENT,
            "batches without samples");
    dhow_tensor_release(empty);
    refused(dhow_trainer_update(t.trainer, NULL), DHOW_INVALID_ARGUMENT, "dhow_trainer_backward");
    refused(dhow_trainer_backward(t.trainer, NULL, &t.x, 1, NULL, NULL), DHOW_INVALID_ARGUMENT,
            "target is NULL");
    refused(dhow_trainer_backward(t.trainer, NULL, &t.x, 1, t.x, NULL), DHOW_INVALID_ARGUMENT,
            "dhow.target");
    refused(dhow_trainer_step(t.trainer,
                              &DHOW_INIT(dhow_batch, .tensor_count = 1, .tensors = {t.x}), NULL),
            DHOW_INVALID_ARGUMENT, "1 columns");
    refused(dhow_trainer_set_learning_rate(t.trainer, -1), DHOW_INVALID_ARGUMENT, "-1");
    refused(dhow_trainer_parameter_at(t.trainer, 3, NULL, NULL, NULL), DHOW_OUT_OF_RANGE, "3 of 3");
    end(&t);
    dhow_model *m;
    dhow_model_value x, y;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F64, SHAPE(3, 4), &x));
    net_sorted(m, x, &y);
    OK(dhow_model_output(m, "y", y));
    refused(dhow_trainer_create(m, &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE), &none),
            DHOW_UNSUPPORTED, "no derivative of");
    dhow_model_release(m);
}
