/* SPDX-License-Identifier: Apache-2.0
 *
 * Training: every derivative against central differences, optimisers against their formulas, and
 * models that learn, on the device that DHOW_DEVICE names.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "dhow/dhow.h"
#include "dhow/model_steps.h"

#define OK(expression) cr_assert_eq((expression), DHOW_OK, "%s: %s", #expression, dhow_last_error())

/* ---- models whose derivatives are checked ---- */

enum { MOST = 4096 };
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
ONE(gelu_tanh) ONE(silu) ONE(sigmoid) ONE(tanh) ONE(exp) ONE(neg) ONE(abs)
#define TWO(name, before)                                                            \
    static void net_##name(dhow_model *m, dhow_model_value x, dhow_model_value *y) { \
        dhow_model_value v, w;                                                       \
        parameter(m, "v", SHAPE(4), &v);                                             \
        parameter(m, "w", SHAPE(2, 1, 4), &w);                                       \
        OK(dhow_model_mul(m, x, v, y));                                              \
        OK(dhow_model_##before(m, w, &w));                                           \
        OK(dhow_model_##name(m, *y, w, y));                                          \
    }
    TWO(add, neg) TWO(sub, tanh) TWO(mul, tanh) TWO(div, exp) TWO(max, neg) TWO(min, neg)

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
    {"maxpool", 4, {3, 2, 5, 6}, net_maxpool, DHOW_LOSS_MSE},
    {"maxpool_overlap", 4, {3, 2, 5, 6}, net_maxpool_overlap, DHOW_LOSS_MSE},
    {"avgpool", 4, {3, 2, 5, 6}, net_avgpool, DHOW_LOSS_MSE},
};

/* ---- running them ---- */

static dhow_context *g_context;
static dhow_device *g_device, *g_cpu;

static void set_up(void) {
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, NULL, &g_device));
    OK(dhow_device_get(g_context, "cpu", &g_cpu));
}
static void tear_down(void) { dhow_context_release(g_context); }

TestSuite(train, .init = set_up, .fini = tear_down, .timeout = 300);

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

typedef struct trial {
    dhow_model *model;
    dhow_trainer *trainer;
    dhow_tensor *x, *target;
} trial;

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

static double loss_of(const trial *t) {
    double loss;
    OK(dhow_trainer_zero_gradients(t->trainer));
    OK(dhow_trainer_backward(t->trainer, NULL, &t->x, 1, t->target, &loss));
    return loss;
}

/* f64: central differences of the loss are good to some 1e-9. */
static void check_parameter(const trial *t, const net *n, uint32_t index) {
    static const double step = 1e-5;
    double values[MOST], gradients[MOST];
    dhow_tensor *w, *g;
    const char *name;
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    (void)loss_of(t);
    OK(dhow_trainer_parameter_at(t->trainer, index, &name, &w, &g));
    OK(dhow_tensor_get_info(w, &info));
    const uint64_t bytes = (uint64_t)info.count * sizeof(double);
    OK(dhow_tensor_read(w, values, bytes));
    OK(dhow_tensor_read(g, gradients, bytes));
    for (int64_t i = 0; i < info.count; i += 1 + info.count / 12) {
        const double kept = values[i];
        double losses[2];
        for (int k = 0; k < 2; k++) {
            values[i] = kept + (k == 0 ? -step : step);
            OK(dhow_tensor_write(w, values, bytes));
            losses[k] = loss_of(t);
        }
        values[i] = kept;
        const double slope = (losses[1] - losses[0]) / (2 * step);
        cr_expect(fabs(slope - gradients[i]) <= 1e-6 * fmax(fabs(slope), 1e-2),
                  "%s: %s[%lld]: derivative %.12g, central difference %.12g", n->name, name,
                  (long long)i, gradients[i], slope);
    }
    OK(dhow_tensor_write(w, values, bytes));
    dhow_tensor_release(w);
    dhow_tensor_release(g);
}

Test(train, every_derivative_is_what_central_differences_say) {
    for (size_t i = 0; i < sizeof k_nets / sizeof *k_nets; i++) {
        trial t = begin(&k_nets[i], DHOW_OPTIMIZER_SGD);
        cr_assert_gt(dhow_trainer_parameter_count(t.trainer), 0);
        for (uint32_t k = 0; k < dhow_trainer_parameter_count(t.trainer); k++)
            check_parameter(&t, &k_nets[i], k);
        end(&t);
    }
}
