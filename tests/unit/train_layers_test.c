/* SPDX-License-Identifier: Apache-2.0
 *
 * Derivatives of norms and attention against central differences, in f64 on the device that
 * DHOW_DEVICE names. x is [2, 4, 6] and has a parameter before the layer, so that its derivative
 * passes on.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"
#include "dhow/model_steps.h"
#include "train_fixture.h"

static dhow_device *g_cpu;

static void set_up(void) {
    open_device();
    OK(dhow_device_get(g_context, "cpu", &g_cpu));
}

TestSuite(train_layers, .init = set_up, .fini = close_device, .timeout = 300);

/* ---- layers ---- */

typedef void layer(dhow_model *m, dhow_model_value x, dhow_model_value *y);

static dhow_model_value parameter(dhow_model *m, const char *name, int32_t rank,
                                  const int64_t *shape) {
    dhow_model_value w;
    OK(dhow_model_parameter(m, name, DHOW_F64, rank, shape, &w));
    return w;
}

static void group_norm(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    OK(dhow_model_groupnorm(m, "norm", x, 2, 4, 1e-2f, y));
}
static void norm_of_each(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    OK(dhow_model_groupnorm(m, "norm", x, 4, 4, 1e-2f, y));
}
static void rms_norm(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    OK(dhow_model_rmsnorm(m, "norm", x, 6, 1e-2f, y));
}

/* As 4 heads of 6 rows and 1 column, then 2 heads of 2 rows and 6 columns, and so on. */
static void attend(dhow_model *m, dhow_model_value x, const int64_t *q, const int64_t *k,
                   dhow_model_value mask, int32_t causal, double scale, dhow_model_value *y) {
    dhow_model_value query, key = parameter(m, "k", 4, k), value = parameter(m, "v", 4, k);
    OK(dhow_model_reshape(m, x, 4, q, &query));
    OK(dhow_model_scaled_dot_product_attention(m, query, key, value, mask, causal, scale, y));
}
static void dot_product(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    attend(m, x, (int64_t[]){2, 2, 4, 3}, (int64_t[]){2, 2, 5, 3}, -1, 0, 0, y);
}
static void causal(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    attend(m, x, (int64_t[]){2, 2, 4, 3}, (int64_t[]){2, 2, 4, 3}, -1, 1, 0.7, y);
}
static void shared_heads(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    const dhow_model_value mask = parameter(m, "mask", 3, (int64_t[]){4, 1, 5});
    attend(m, x, (int64_t[]){2, 4, 2, 3}, (int64_t[]){2, 2, 5, 3}, mask, 0, 0, y);
}
static void chosen(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    const dhow_model_value p = parameter(m, "p", 2, (int64_t[]){4, 5});
    dhow_model_value least, mask;
    OK(dhow_model_add_scalar(m, p, dhow_scalar_f64(0.4), &least));
    OK(dhow_model_abs(m, p, &mask));
    OK(dhow_model_less(m, mask, least, &mask));
    attend(m, x, (int64_t[]){2, 2, 4, 3}, (int64_t[]){2, 2, 5, 3}, mask, 0, 0, y);
}

static void self_attention(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    OK(dhow_model_multihead_attention(m, "attention", x, x, x, -1, 6, 2, 1, y));
}
static void cross_attention(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    const dhow_model_value k = parameter(m, "k", 3, (int64_t[]){2, 5, 6}),
                           v = parameter(m, "v", 3, (int64_t[]){2, 5, 6}),
                           mask = parameter(m, "mask", 2, (int64_t[]){4, 5});
    OK(dhow_model_multihead_attention(m, "attention", x, k, v, mask, 6, 3, 1, y));
}
static void without_bias(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    const dhow_model_value k = parameter(m, "k", 3, (int64_t[]){2, 5, 6});
    OK(dhow_model_multihead_attention(m, "attention", x, k, k, -1, 6, 2, 0, y));
}

static void lstm(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    OK(dhow_model_lstm(m, "lstm", x, 6, 3, 1, 0, 1, y));
}
static void lstm_both_ways(dhow_model *m, dhow_model_value x, dhow_model_value *y) {
    OK(dhow_model_lstm(m, "lstm", x, 6, 3, 2, 1, 0, y));
}

static const struct {
    const char *name;
    layer *build;
    uint32_t parameters; /* w included */
} k_layers[] = {{"group norm", group_norm, 3},
                {"a norm of each channel", norm_of_each, 3},
                {"rms norm", rms_norm, 2},
                {"dot product", dot_product, 3},
                {"causal", causal, 3},
                {"shared heads", shared_heads, 4},
                {"mask of bool", chosen, 3},
                {"lstm", lstm, 5},
                {"lstm both ways", lstm_both_ways, 9},
                {"self-attention", self_attention, 5},
                {"cross attention", cross_attention, 8},
                {"attention without bias", without_bias, 4}};

/* ---- differences ---- */

/* -1 .. 1, none of them near 0 */
static double number(int64_t i) {
    const double x = (double)((uint64_t)(i + 7) * UINT64_C(2654435761) >> 9 & 1023) / 512 - 1;
    return fabs(x) < 0.05 ? x + 0.1 : x;
}

static dhow_tensor *filled(dhow_device *device, int32_t rank, const int64_t *shape, int64_t first) {
    double data[MOST];
    int64_t count = 1;
    dhow_tensor *t;
    for (int32_t i = 0; i < rank; i++) count *= shape[i];
    for (int64_t i = 0; i < count; i++) data[i] = number(first + i);
    OK(dhow_tensor_from_data(device, DHOW_F64, rank, shape, data, &t));
    return t;
}

static void begin(trial *t, layer *build) {
    static const int64_t shape[] = {2, 4, 6};
    dhow_model_value x, y;
    OK(dhow_model_create(g_context, &t->model));
    OK(dhow_model_input(t->model, "x", DHOW_F64, 3, shape, &x));
    OK(dhow_model_mul(t->model, x, parameter(t->model, "w", 3, shape), &x));
    build(t->model, x, &y);
    OK(dhow_model_output(t->model, "y", y));
    for (uint32_t i = 0; i < dhow_model_parameter_count(t->model); i++) {
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        OK(dhow_model_parameter_describe(t->model, i, &info));
        dhow_tensor *w = filled(g_cpu, info.rank, info.shape, 100 * i + 3);
        OK(dhow_model_set_parameter(t->model, info.name, w));
        dhow_tensor_release(w);
    }
    OK(dhow_model_to(t->model, g_device));
    t->x = filled(g_device, 3, shape, 50);
    dhow_tensor_info like = DHOW_INIT(dhow_tensor_info);
    dhow_tensor *out;
    OK(dhow_model_run(t->model, NULL, &t->x, 1, &out, 1));
    OK(dhow_tensor_get_info(out, &like));
    t->target = filled(g_device, like.rank, like.shape, 77);
    dhow_tensor_release(out);
    OK(dhow_trainer_create(t->model, &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE),
                           &t->trainer));
}

Test(train_layers, derivatives_are_what_central_differences_say) {
    for (size_t i = 0; i < sizeof k_layers / sizeof *k_layers; i++) {
        trial t;
        begin(&t, k_layers[i].build);
        /* what a mask of bool is made of has no derivative, and is a parameter all the same */
        cr_expect_geq(dhow_trainer_parameter_count(t.trainer), k_layers[i].parameters, "%s",
                      k_layers[i].name);
        for (uint32_t k = 0; k < dhow_trainer_parameter_count(t.trainer); k++)
            check_parameter(&t, k_layers[i].name, k);
        dhow_trainer_release(t.trainer);
        dhow_model_release(t.model);
        dhow_tensor_release(t.x);
        dhow_tensor_release(t.target);
    }
}
