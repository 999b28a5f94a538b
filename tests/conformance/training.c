/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of optimisers: steps of a trainer beside their formulas in double.
 */
#include "dhow/train.h"
#include "ops.h"

enum { N = 301, UPDATES = 3 };

/* What an optimiser keeps of one element. */
typedef struct element {
    double w, first, second;
} element;

static void sgd(element *e, double g, const dhow_trainer_options *o, int step) {
    const double slope = g + o->weight_decay * e->w;
    e->first = step == 1 ? slope : o->momentum * e->first + slope;
    e->w -= o->learning_rate * (o->nesterov ? slope + o->momentum * e->first : e->first);
}

static void plain(element *e, double g, const dhow_trainer_options *o, int step) {
    (void)step;
    e->w -= o->learning_rate * g;
}

static void adam(element *e, double g, const dhow_trainer_options *o, int step) {
    const bool apart = o->optimizer == DHOW_OPTIMIZER_ADAMW;
    if (apart) e->w -= o->learning_rate * o->weight_decay * e->w;
    const double slope = g + (apart ? 0 : o->weight_decay * e->w);
    e->first = 0.9 * e->first + 0.1 * slope;
    e->second = 0.999 * e->second + 0.001 * slope * slope;
    e->w -= o->learning_rate * e->first / (1 - pow(0.9, step)) /
            (sqrt(e->second / (1 - pow(0.999, step))) + 1e-8);
}

static void rmsprop(element *e, double g, const dhow_trainer_options *o, int step) {
    (void)step;
    e->first = 0.99 * e->first + 0.01 * g * g;
    e->second = o->momentum * e->second + g / (sqrt(e->first) + 1e-8);
    e->w -= o->learning_rate * e->second;
}

static void lion(element *e, double g, const dhow_trainer_options *o, int step) {
    const double to = 0.9 * e->first + 0.1 * g;
    (void)step;
    e->w -= o->learning_rate * (o->weight_decay * e->w + (to > 0) - (to < 0));
    e->first = 0.99 * e->first + 0.01 * g;
}

typedef struct optimizer {
    const char *name;
    void (*update)(element *e, double g, const dhow_trainer_options *o, int step);
    dhow_trainer_options options;
} optimizer;

#define WITH(...) DHOW_FIELDS(dhow_trainer_options, .learning_rate = 0.125, __VA_ARGS__)
static const optimizer k_optimizers[] = {
    {"SGD", plain, WITH(.optimizer = DHOW_OPTIMIZER_SGD)},
    {"SGD with Nesterov's momentum", sgd,
     WITH(.optimizer = DHOW_OPTIMIZER_SGD, .momentum = 0.5, .nesterov = 1, .weight_decay = 0.25)},
    {"Adam", adam, WITH(.optimizer = DHOW_OPTIMIZER_ADAM, .weight_decay = 0.25)},
    {"AdamW", adam, WITH(.optimizer = DHOW_OPTIMIZER_ADAMW, .weight_decay = 0.25)},
    {"RMSprop", rmsprop, WITH(.optimizer = DHOW_OPTIMIZER_RMSPROP, .momentum = 0.5)},
    {"Lion", lion, WITH(.optimizer = DHOW_OPTIMIZER_LION, .weight_decay = 0.25)}};

/* The loss is the sum of w x, so the gradient is x. */
static conform_result new_model(conform_env *env, dhow_dtype dtype, dhow_tensor *w,
                                dhow_model **out) {
    static const int64_t shape[] = {N};
    dhow_model_value x, v;
    OWN(MODEL, out, dhow_model_create(env->context, out));
    OK(dhow_model_input(*out, "x", dtype, 1, shape, &x));
    OK(dhow_model_parameter(*out, "w", dtype, 1, shape, &v));
    OK(dhow_model_mul(*out, v, x, &v));
    OK(dhow_model_reduce(*out, DHOW_REDUCE_SUM, v, NULL, 0, 0, &v));
    OK(dhow_model_output(*out, "loss", v));
    OK(dhow_model_to(*out, env->device));
    OK(dhow_model_set_parameter(*out, "w", w));
    return CONFORM_PASS;
}

static conform_result updates(conform_env *env, dhow_trainer *t, const optimizer *o,
                              conform_array *w, dhow_dtype dtype) {
    static const int64_t shape[] = {N};
    conform_tolerance near = conform_tolerance_of(dtype);
    element e[N];
    double loss;
    const char *name;
    dhow_tensor *x, *now, *gradient;
    near.absolute += dtype == DHOW_F64 ? 1e-9 : 4e-5;
    for (int i = 0; i < N; i++) e[i] = (element){.w = w->value[i]};
    OK(dhow_trainer_parameter_at(t, 0, &name, &now, &gradient));
    conform_own(env, CONFORM_TENSOR, now);
    conform_own(env, CONFORM_TENSOR, gradient);
    for (int step = 1; step <= UPDATES; step++) {
        conform_array g = conform_array_random(env, dtype, 1, shape, 0.5, 2, (uint64_t)step);
        for (int i = 0; i < N; i += 2) g.value[i] = -g.value[i];
        TRY(conform_upload(env, &g, LAYOUT_PLAIN, &x));
        OK(dhow_trainer_zero_gradients(t));
        OK(dhow_trainer_backward(t, NULL, &x, 1, NULL, &loss));
        OK(dhow_trainer_update(t, NULL));
        for (int i = 0; i < N; i++) {
            o->update(&e[i], g.value[i], &o->options, step);
            w->value[i] = e[i].w;
        }
        TRY(conform_expect(env, now, w, near, o->name));
    }
    return CONFORM_PASS;
}

static conform_result optimizers(conform_env *env, dhow_dtype dtype) {
    static const int64_t shape[] = {N};
    NEEDS_DTYPE(dtype);
    for (size_t k = 0; k < sizeof k_optimizers / sizeof k_optimizers[0]; k++) {
        conform_array w = conform_array_random(env, dtype, 1, shape, -2, 2, 17);
        dhow_tensor *tw;
        dhow_model *m;
        dhow_trainer *t;
        TRY(conform_upload(env, &w, LAYOUT_PLAIN, &tw));
        TRY(new_model(env, dtype, tw, &m));
        OK(dhow_trainer_create(m, &k_optimizers[k].options, &t));
        const conform_result r = updates(env, t, &k_optimizers[k], &w, dtype);
        dhow_trainer_release(t);
        TRY(r);
    }
    return CONFORM_PASS;
}

static conform_result optimizers_f32(conform_env *env) { return optimizers(env, DHOW_F32); }
static conform_result optimizers_f64(conform_env *env) { return optimizers(env, DHOW_F64); }

const conform_case conform_training_cases[] = {
    CASE("training/optimizers_f32", optimizers_f32, "ops,f32"),
    CASE("training/optimizers_f64", optimizers_f64, "ops,f64"),
};
CASES_END(conform_training);
