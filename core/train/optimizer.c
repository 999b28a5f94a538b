/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimisers: defaults, and one launch over all parameters a step (kernels/optimizer.k).
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/memory/size.h"
#include "base/objects/struct_size.h"
#include "dhow/model_elementwise.h"
#include "ops/run/op.h"
#include "train/train.h"

static const char k_create[] = "dhow_trainer_create";

/* ---- options ---- */

static const struct {
    const char *kernel;
    double learning_rate, weight_decay, beta2;
    const char *name, *states[DHOWI_TRAIN_STATES];
} k_optimizers[] = {
    [DHOW_OPTIMIZER_SGD] = {"sgd", 1e-3, 0, 0, "sgd", {"momentum_buffer"}},
    [DHOW_OPTIMIZER_ADAM] = {"adam", 1e-3, 0, 0.999, "adam", {"exp_avg", "exp_avg_sq"}},
    [DHOW_OPTIMIZER_ADAMW] = {"adam", 1e-3, 0.01, 0.999, "adamw", {"exp_avg", "exp_avg_sq"}},
    [DHOW_OPTIMIZER_RMSPROP] =
        {"rmsprop", 1e-2, 0, 0, "rmsprop", {"square_avg", "momentum_buffer"}},
    [DHOW_OPTIMIZER_LION] = {"lion", 1e-4, 0, 0.99, "lion", {"exp_avg"}}};

static dhow_status check_number(const char *name, double value, double least, double below) {
    if (isfinite(value) && value >= least && value < below) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s is %g; it is %g or more, and below %g",
                      k_create, name, value, least, below);
}

static void fill(double *number, double otherwise) {
    if (*number == 0) *number = otherwise;
}

dhow_status dhowi_optimizer_options(const dhow_trainer_options *given, dhow_precision precision,
                                    dhow_trainer_options *own) {
    DHOWI_TRY(DHOWI_STRUCT_IN(dhow_trainer_options, given, own, k_create, "options"));
    DHOWI_TRY(dhowi_loss_options(own));
    if ((size_t)own->optimizer >= DHOWI_COUNT(k_optimizers))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %d is no optimizer", k_create,
                          (int)own->optimizer);
    fill(&own->learning_rate, k_optimizers[own->optimizer].learning_rate);
    fill(&own->weight_decay, k_optimizers[own->optimizer].weight_decay);
    if (own->weight_decay < 0) own->weight_decay = 0;
    fill(&own->beta1, 0.9);
    fill(&own->beta2, k_optimizers[own->optimizer].beta2);
    fill(&own->alpha, 0.99);
    fill(&own->eps, 1e-8);
    if (precision == DHOW_PRECISION_F16) fill(&own->loss_scale, 65536);
    if (own->loss_scale_interval == 0) own->loss_scale_interval = 2000;
    if (own->nesterov != 0 && (own->momentum <= 0 || own->dampening != 0))
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: nesterov wants a momentum above 0 and no dampening", k_create);
    DHOWI_TRY(check_number("learning_rate", own->learning_rate, 0, INFINITY));
    DHOWI_TRY(check_number("momentum", own->momentum, 0, INFINITY));
    DHOWI_TRY(check_number("dampening", own->dampening, -INFINITY, INFINITY));
    DHOWI_TRY(check_number("weight_decay", own->weight_decay, 0, INFINITY));
    DHOWI_TRY(check_number("beta1", own->beta1, 0, 1));
    DHOWI_TRY(check_number("beta2", own->beta2, 0, 1));
    DHOWI_TRY(check_number("alpha", own->alpha, 0, 1));
    DHOWI_TRY(check_number("batchnorm_momentum", own->batchnorm_momentum, 0, 1));
    DHOWI_TRY(check_number("clip_norm", own->clip_norm, 0, INFINITY));
    DHOWI_TRY(check_number("clip_value", own->clip_value, 0, INFINITY));
    if (own->clip_norm > 0 && own->clip_value > 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: clip_norm and clip_value are both given; choose one", k_create);
    return check_number("eps", own->eps, 0, INFINITY);
}

uint32_t dhowi_optimizer_states(const dhow_trainer_options *options) {
    uint32_t count = 0;
    while (count < DHOWI_TRAIN_STATES && k_optimizers[options->optimizer].states[count] != NULL)
        count++;
    return count;
}

const char *dhowi_optimizer_name(const dhow_trainer_options *options) {
    return k_optimizers[options->optimizer].name;
}

const char *dhowi_optimizer_state_name(const dhow_trainer_options *options, uint32_t index) {
    return k_optimizers[options->optimizer].states[index];
}

/* ---- steps ---- */

double dhowi_trainer_rate(const dhow_trainer *t) {
    const double rate = t->options.learning_rate;
    return t->has_schedule ? dhowi_schedule_rate(&t->schedule, rate, t->steps) : rate;
}

typedef struct step {
    const dhow_trainer *t;
    dhow_arg args[16];
    dhowi_use uses[4];
    uint32_t arg_count, use_count;
} step;

static void add_tensor(step *s, dhow_tensor *t, uint32_t access) {
    s->args[s->arg_count++] = dhowi_arg_buffer(t, access);
    s->uses[s->use_count++] = dhowi_use_of(t, access);
}

static void add_number(step *s, double number) {
    s->args[s->arg_count++] =
        dhowi_arg_i64((int64_t)dhowi_dtype_encode(s->t->dtype, number)); /* its bits */
}

/* A weight of running means and what it leaves. */
static void add_weight(step *s, double weight) {
    add_number(s, weight);
    add_number(s, 1 - weight);
}

static void add_sgd(step *s, const dhow_trainer_options *o) {
    add_number(s, o->learning_rate);
    add_number(s, o->momentum);
    add_number(s, s->t->steps == 1 ? 1 : 1 - o->dampening); /* the first gradient as it is */
    add_number(s, o->weight_decay);
    s->args[s->arg_count++] = dhowi_arg_i32(o->nesterov);
}

static void add_adam(step *s, const dhow_trainer_options *o) {
    const double n = (double)s->t->steps;
    const bool apart = o->optimizer == DHOW_OPTIMIZER_ADAMW;
    add_number(s, o->learning_rate / (1 - pow(o->beta1, n)));
    add_weight(s, o->beta1);
    add_weight(s, o->beta2);
    add_number(s, o->eps);
    add_number(s, apart ? 0 : o->weight_decay);
    add_number(s, apart ? 1 - o->learning_rate * o->weight_decay : 1);
    add_number(s, 1 / sqrt(1 - pow(o->beta2, n)));
}

static void add_rmsprop(step *s, const dhow_trainer_options *o) {
    add_number(s, o->learning_rate);
    add_weight(s, o->alpha);
    add_number(s, o->eps);
    add_number(s, o->weight_decay);
    add_number(s, o->momentum);
}

static void add_lion(step *s, const dhow_trainer_options *o) {
    add_number(s, o->learning_rate);
    add_weight(s, o->beta1);
    add_weight(s, o->beta2);
    add_number(s, 1 - o->learning_rate * o->weight_decay);
}

dhow_status dhowi_optimizer_run(dhow_trainer *t, dhow_stream *stream, dhow_tensor *gradients) {
    static void (*const numbers[])(step *, const dhow_trainer_options *) = {
        [DHOW_OPTIMIZER_SGD] = add_sgd,
        [DHOW_OPTIMIZER_ADAM] = add_adam,
        [DHOW_OPTIMIZER_ADAMW] = add_adam,
        [DHOW_OPTIMIZER_RMSPROP] = add_rmsprop,
        [DHOW_OPTIMIZER_LION] = add_lion};
    dhow_trainer_options now = t->options;
    const dhow_trainer_options *o = &now;
    step s = {.t = t};
    dhow_kernel *kernel;
    DHOWI_TRY(
        dhowi_kernel_of(stream->device, k_optimizers[o->optimizer].kernel, t->dtype, &kernel));
    now.learning_rate = t->last_rate = dhowi_trainer_rate(t);
    t->steps++;
    add_tensor(&s, t->parameters, DHOW_ACCESS_READ | DHOW_ACCESS_WRITE);
    add_tensor(&s, gradients, DHOW_ACCESS_READ);
    for (uint32_t i = 0; i < dhowi_optimizer_states(o); i++)
        add_tensor(&s, t->state[i], DHOW_ACCESS_READ | DHOW_ACCESS_WRITE);
    s.args[s.arg_count++] = dhowi_arg_i64(t->count);
    numbers[o->optimizer](&s, o);
    dhow_status status =
        dhowi_launch(stream, kernel, t->count, t->count, s.args, s.arg_count, s.uses, s.use_count);
    if (status != DHOW_OK) t->steps--; /* it was not made */
    return status;
}

/* ---- models over all gradients ---- */

static dhow_status make_model(const dhow_trainer *t,
                              dhow_status (*build)(dhow_model *m, const dhow_trainer *t),
                              dhow_model **out) {
    DHOWI_TRY(dhow_model_create(t->model->context, out));
    DHOWI_TRY(build(*out, t));
    return dhow_model_to(*out, t->model->device);
}

/* ---- scaled losses ---- */

/* What is not finite is NaN, times 0, and so is the sum. */
static dhow_status build_finite(dhow_model *m, const dhow_trainer *t) {
    dhow_model_value g;
    DHOWI_TRY(dhow_model_input(m, "gradients", t->dtype, 1, &t->count, &g));
    DHOWI_TRY(dhow_model_mul_scalar(m, g, dhow_scalar_f64(0), &g));
    DHOWI_TRY(dhow_model_reduce(m, DHOW_REDUCE_SUM, g, NULL, 0, 0, &g));
    return dhow_model_output(m, "finite", g);
}

dhow_status dhowi_scale_graph(const dhow_trainer *t, dhow_model **out) {
    return make_model(t, build_finite, out);
}

bool dhowi_scale_fits(dhow_dtype dtype, double scale) {
    return dtype == DHOW_F64 ? scale >= DBL_MIN && scale <= DBL_MAX
                             : scale >= (double)FLT_MIN && scale <= (double)FLT_MAX;
}

dhow_status dhowi_scale_check(const dhow_trainer *t) {
    const double scale = t->options.loss_scale;
    if (scale == 0 || dhowi_scale_fits(t->dtype, scale)) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: loss_scale is %g, no number above 0 that %s holds, in which the loss is "
                      "computed; 65536 is usual",
                      k_create, scale, dhow_dtype_name(t->dtype));
}

dhow_status dhowi_scale_look(const dhow_trainer *t, dhow_stream *stream, dhow_tensor *gradients,
                             bool *finite) {
    dhow_tensor *sum = NULL;
    double value;
    DHOWI_TRY(dhow_model_run(t->finite, stream, &gradients, 1, &sum, 1));
    dhow_status status = dhow_tensor_item(sum, &value);
    dhow_tensor_release(sum);
    if (status == DHOW_OK) *finite = !isnan(value);
    return status;
}

/* Of torch.amp.GradScaler, but for the end: there it goes on halving in silence. */
dhow_status dhowi_scale_follow(dhow_trainer *t, bool finite) {
    static const double least = 0x1p-16;
    dhow_trainer_options *o = &t->options;
    if (!finite && o->loss_scale / 2 < least)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "gradients are not finite however little the loss is multiplied by (%g "
                          "now): what the model computes leaves the range of its floats; train "
                          "with DHOW_PRECISION_BF16, or let `detect_anomaly` name the first value",
                          o->loss_scale);
    t->scale_steps = finite ? t->scale_steps + 1 : 0;
    if (!finite) o->loss_scale /= 2;
    if (t->scale_steps < o->loss_scale_interval) return DHOW_OK;
    t->scale_steps = 0;
    if (dhowi_scale_fits(t->dtype, 2 * o->loss_scale)) o->loss_scale *= 2;
    return DHOW_OK;
}

/* ---- clipping ---- */

/* g min(1, norm / (|g| + 1e-6)), as torch.nn.utils.clip_grad_norm_ */
static dhow_status by_norm(dhow_model *m, double norm, dhow_model_value g, dhow_model_value *out) {
    dhow_model_value d;
    DHOWI_TRY(dhow_model_mul(m, g, g, &d));
    DHOWI_TRY(dhow_model_reduce(m, DHOW_REDUCE_SUM, d, NULL, 0, 1, &d));
    DHOWI_TRY(dhow_model_sqrt(m, d, &d));
    DHOWI_TRY(dhow_model_add_scalar(m, d, dhow_scalar_f64(1e-6), &d));
    DHOWI_TRY(dhow_model_pow_scalar(m, d, dhow_scalar_f64(-1), &d));
    DHOWI_TRY(dhow_model_mul_scalar(m, d, dhow_scalar_f64(norm), &d));
    DHOWI_TRY(dhow_model_min_scalar(m, d, dhow_scalar_f64(1), &d));
    return dhow_model_mul(m, g, d, out);
}

static dhow_status build_clip(dhow_model *m, const dhow_trainer *t) {
    const dhow_trainer_options *o = &t->options;
    dhow_model_value g;
    DHOWI_TRY(dhow_model_input(m, "gradients", t->dtype, 1, &t->count, &g));
    if (o->clip_norm > 0) DHOWI_TRY(by_norm(m, o->clip_norm, g, &g));
    if (o->clip_value > 0) DHOWI_TRY(dhow_model_clip(m, g, -o->clip_value, o->clip_value, &g));
    return dhow_model_output(m, "clipped", g);
}

bool dhowi_clips(const dhow_trainer_options *o) { return o->clip_norm > 0 || o->clip_value > 0; }

dhow_status dhowi_clip_graph(const dhow_trainer *t, dhow_model **out) {
    return make_model(t, build_clip, out);
}
