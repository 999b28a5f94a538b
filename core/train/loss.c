/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses, as nodes behind a model's first output, and the options that belong to some of them.
 */
#include <math.h>

#include "base/memory/alloc.h"
#include "dhow/copy.h"
#include "dhow/create.h"
#include "dhow/model_elementwise.h"
#include "dhow/model_steps.h"
#include "model/build/build.h"
#include "tensor/tensor.h"
#include "train/train.h"

static const char k_function[] = "dhow_trainer_create";
enum { IGNORED_CLASS = -100 };

/* ---- options ---- */

static bool is_entropy(dhow_loss loss) {
    return loss == DHOW_LOSS_CROSS_ENTROPY || loss == DHOW_LOSS_CROSS_ENTROPY_PROBABILITIES;
}

static bool is_by_class(dhow_loss loss) {
    return loss == DHOW_LOSS_CROSS_ENTROPY || loss == DHOW_LOSS_NLL;
}

static dhow_status check_belongs(const char *option, bool given, bool fits, const char *losses) {
    if (!given || fits) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: %s is of %s; leave it out, or choose that as the loss", k_function,
                      option, losses);
}

static dhow_status check_width(const char *option, double *width) {
    if (*width == 0) *width = 1;
    if (isfinite(*width) && *width > 0) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: %s is %g; it is above 0, and DHOW_LOSS_L1 is the loss without one",
                      k_function, option, *width);
}

dhow_status dhowi_loss_options(dhow_trainer_options *o) {
    const dhow_loss l = o->loss;
    if (l < DHOW_LOSS_OUTPUT || l > DHOW_LOSS_CTC)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %d is no loss", k_function, (int)l);
    DHOWI_TRY(check_belongs("label_smoothing", o->label_smoothing != 0, is_entropy(l),
                            "DHOW_LOSS_CROSS_ENTROPY and DHOW_LOSS_CROSS_ENTROPY_PROBABILITIES"));
    DHOWI_TRY(check_belongs("ignore_index", o->ignore_index != NULL, is_by_class(l),
                            "DHOW_LOSS_CROSS_ENTROPY and DHOW_LOSS_NLL"));
    DHOWI_TRY(check_belongs("weight", o->weight != NULL, is_by_class(l) || is_entropy(l),
                            "DHOW_LOSS_CROSS_ENTROPY, DHOW_LOSS_CROSS_ENTROPY_PROBABILITIES and "
                            "DHOW_LOSS_NLL"));
    DHOWI_TRY(check_belongs("pos_weight", o->pos_weight != NULL, l == DHOW_LOSS_BCE_WITH_LOGITS,
                            "DHOW_LOSS_BCE_WITH_LOGITS"));
    DHOWI_TRY(check_belongs("smooth_l1_beta", o->smooth_l1_beta != 0, l == DHOW_LOSS_SMOOTH_L1,
                            "DHOW_LOSS_SMOOTH_L1"));
    DHOWI_TRY(
        check_belongs("huber_delta", o->huber_delta != 0, l == DHOW_LOSS_HUBER, "DHOW_LOSS_HUBER"));
    DHOWI_TRY(check_belongs("ctc_zero_infinity", o->ctc_zero_infinity != 0, l == DHOW_LOSS_CTC,
                            "DHOW_LOSS_CTC"));
    if (o->ctc_zero_infinity != 0 && o->ctc_zero_infinity != 1)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: ctc_zero_infinity is %d; it is 0 or 1",
                          k_function, o->ctc_zero_infinity);
    DHOWI_TRY(check_width("smooth_l1_beta", &o->smooth_l1_beta));
    DHOWI_TRY(check_width("huber_delta", &o->huber_delta));
    if (o->label_smoothing >= 0 && o->label_smoothing <= 1) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: label_smoothing is %g; it is 0 to 1", k_function,
                      o->label_smoothing);
}

/* A tensor of the options as a constant of the graph. */
static dhow_status constant_of(dhow_model *m, const char *option, dhow_tensor *t,
                               const dhowi_tensor_desc *like, dhow_model_value *out) {
    char text[160];
    DHOWI_TRY(dhowi_handle_check(t, DHOWI_TENSOR, k_function, option));
    if (t->dtype != like->dtype)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: %s is %s, the output %s; they are of one type", k_function, option,
                          dhow_dtype_name(t->dtype), dhowi_desc_text(like, text, sizeof text));
    const uint64_t bytes = (uint64_t)t->count * dhow_dtype_bytes(t->dtype);
    void *data = dhowi_alloc(bytes + 1);
    if (data == NULL) return dhowi_fail_memory(k_function);
    dhow_status status = dhow_tensor_read(t, data, bytes);
    if (status == DHOW_OK) status = dhowi_build_constant(m, t->dtype, 1, t->count, data, out);
    dhowi_free(data);
    if (status != DHOW_OK || t->rank == 1) return status;
    return dhow_model_reshape(m, *out, t->rank, t->shape, out);
}

/* One number for each class. */
static dhow_status class_weights(dhow_model *m, const dhow_trainer_options *o,
                                 const dhowi_tensor_desc *y, dhow_model_value *out) {
    char text[160];
    *out = -1;
    if (o->weight == NULL) return DHOW_OK;
    DHOWI_TRY(constant_of(m, "weight", o->weight, y, out));
    if (o->weight->rank == 1 && (y->shape[1] < 0 || o->weight->count == y->shape[1]))
        return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: weight has %lld numbers in %d dimensions, the output is %s; it has one "
                      "for each class",
                      k_function, (long long)o->weight->count, o->weight->rank,
                      dhowi_desc_text(y, text, sizeof text));
}

/* ---- by class ---- */

static int64_t ignored_of(const dhow_trainer_options *o) {
    return o->ignore_index != NULL ? *o->ignore_index : IGNORED_CLASS;
}

/* The loss becomes NaN where a class is none: only (t - clip(t)) (t - ignored) = 0 is right. */
static dhow_status tell_classes(dhow_model *m, dhow_model_value t, int64_t count, int64_t ignored,
                                dhow_dtype dtype, dhow_model_value *loss) {
    dhow_model_value inside, apart;
    if (count < 1) return DHOW_OK; /* not known */
    DHOWI_TRY(dhow_model_cast(m, t, dtype, &t));
    DHOWI_TRY(dhow_model_clip(m, t, 0, (double)(count - 1), &inside));
    DHOWI_TRY(dhow_model_sub_scalar(m, t, dhow_scalar_f64((double)ignored), &apart));
    DHOWI_TRY(dhow_model_sub(m, t, inside, &t));
    DHOWI_TRY(dhow_model_mul(m, t, apart, &t));
    DHOWI_TRY(dhow_model_abs(m, t, &t));
    DHOWI_TRY(dhow_model_reduce(m, DHOW_REDUCE_SUM, t, NULL, 0, 0, &t));
    DHOWI_TRY(dhow_model_neg(m, t, &t));
    DHOWI_TRY(dhow_model_sqrt(m, t, &t));
    return dhow_model_add(m, *loss, t, loss);
}

/* As the operators of ONNX: their lowering picks one score for each target. */
static dhow_status picked(dhow_model *m, const dhow_trainer_options *o, const int32_t in[3],
                          dhow_model_value *out) {
    dhowi_build_step s;
    DHOWI_TRY(dhowi_step_begin(
        m, &s, k_function,
        o->loss == DHOW_LOSS_NLL ? "NegativeLogLikelihoodLoss" : "SoftmaxCrossEntropyLoss", in,
        in[2] >= 0 ? 3 : 2, out));
    dhowi_step_text(&s, "reduction", dhowi_divides(o) ? "sum" : "mean");
    dhowi_step_int(&s, "ignore_index", ignored_of(o));
    s.result[0].rank = 0;
    return dhowi_step_end(m, &s, out);
}

/* Numbers of the classes as [c, 1, ...], so that they lie along dimension 1 of the scores. */
static dhow_status along_classes(dhow_model *m, int32_t rank, int64_t classes, dhow_model_value v,
                                 dhow_model_value *out) {
    int64_t shape[DHOW_MAX_RANK] = {classes};
    for (int32_t i = 1; i < rank - 1; i++) shape[i] = 1;
    return dhow_model_reshape(m, v, rank - 1, shape, out);
}

/* 1 where the class is the target's, else 0, [n, c, ...]; and 1 where a target counts, [n, 1, ...].
 */
static dhow_status one_hot(dhow_model *m, const dhowi_tensor_desc *y, dhow_model_value t,
                           int64_t ignored, dhow_model_value *hot, dhow_model_value *kept) {
    const int64_t classes = y->shape[1];
    dhow_model_value number, numbers;
    int64_t *all = dhowi_alloc_array((size_t)classes, sizeof *all);
    if (all == NULL) return dhowi_fail_memory(k_function);
    for (int64_t i = 0; i < classes; i++) all[i] = i;
    dhow_status status = dhowi_build_constant(m, DHOW_I64, 1, classes, all, &numbers);
    dhowi_free(all);
    DHOWI_TRY(status);
    DHOWI_TRY(dhowi_build_constant(m, DHOW_I64, 0, 1, &ignored, &number));
    DHOWI_TRY(along_classes(m, y->rank, classes, numbers, &numbers));
    DHOWI_TRY(dhow_model_unsqueeze(m, t, 1, &t));
    DHOWI_TRY(dhow_model_equal(m, t, numbers, hot));
    DHOWI_TRY(dhow_model_cast(m, *hot, y->dtype, hot));
    DHOWI_TRY(dhow_model_not_equal(m, t, number, kept));
    return dhow_model_cast(m, *kept, y->dtype, kept);
}

/* t (1 - e) + e / c, with e = label_smoothing */
static dhow_status smoothed(dhow_model *m, const dhow_trainer_options *o, int64_t classes,
                            dhow_model_value t, dhow_model_value *out) {
    const double e = o->label_smoothing;
    *out = t;
    if (e == 0) return DHOW_OK;
    if (classes < 1)
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "%s: label_smoothing wants an output whose number of classes is known",
                          k_function);
    DHOWI_TRY(dhow_model_mul_scalar(m, t, dhow_scalar_f64(1 - e), out));
    return dhow_model_add_scalar(m, *out, dhow_scalar_f64(e / (double)classes), out);
}

/* The sum over classes of -log softmax(y) t w, [n, 1, ...]; `w` -1 for ones. */
static dhow_status entropies(dhow_model *m, dhow_model_value y, dhow_model_value t,
                             dhow_model_value w, dhow_model_value *out) {
    static const int32_t classes = 1;
    DHOWI_TRY(dhow_model_log_softmax(m, y, 1, &y));
    if (w >= 0) DHOWI_TRY(dhow_model_mul(m, t, w, &t));
    DHOWI_TRY(dhow_model_mul(m, y, t, &y));
    DHOWI_TRY(dhow_model_reduce(m, DHOW_REDUCE_SUM, y, &classes, 1, 1, &y));
    return dhow_model_neg(m, y, out);
}

/* With targets that all classes share, divided by the weights of the targets' own classes. */
static dhow_status smooth_by_class(dhow_model *m, const dhow_trainer_options *o,
                                   const int32_t in[3], dhow_model_value *out) {
    static const int32_t classes = 1;
    const dhowi_tensor_desc own = m->values[in[0]].desc;
    dhow_model_value hot, kept, t, w = in[2], counts;
    if (own.shape[1] < 1) return smoothed(m, o, own.shape[1], in[1], out);
    DHOWI_TRY(one_hot(m, &own, in[1], ignored_of(o), &hot, &kept));
    counts = kept;
    if (w >= 0) {
        DHOWI_TRY(along_classes(m, own.rank, own.shape[1], w, &w));
        DHOWI_TRY(dhow_model_mul(m, hot, w, &counts));
        DHOWI_TRY(dhow_model_reduce(m, DHOW_REDUCE_SUM, counts, &classes, 1, 1, &counts));
        DHOWI_TRY(dhow_model_mul(m, counts, kept, &counts));
    }
    DHOWI_TRY(smoothed(m, o, own.shape[1], hot, &t));
    DHOWI_TRY(entropies(m, in[0], t, w, out));
    DHOWI_TRY(dhow_model_mul(m, *out, kept, out));
    DHOWI_TRY(dhow_model_reduce(m, DHOW_REDUCE_SUM, *out, NULL, 0, 0, out));
    if (dhowi_divides(o)) return DHOW_OK;
    DHOWI_TRY(dhow_model_reduce(m, DHOW_REDUCE_SUM, counts, NULL, 0, 0, &counts));
    return dhow_model_div(m, *out, counts, out);
}

static dhow_status check_scores(const dhowi_tensor_desc *y) {
    char text[160];
    if (y->rank >= 2 && dhowi_is_float(y->dtype)) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: the output is %s; a loss by class takes floats [n, classes, ...]",
                      k_function, dhowi_desc_text(y, text, sizeof text));
}

static dhow_status loss_by_class(dhow_model *m, const dhow_trainer_options *o, int32_t y,
                                 dhow_model_value *out) {
    const dhowi_tensor_desc own = m->values[y].desc;
    dhowi_tensor_desc target = {.dtype = DHOW_I64, .rank = own.rank - 1};
    int32_t in[3] = {y, -1, -1};
    DHOWI_TRY(check_scores(&own));
    target.shape[0] = own.shape[0];
    for (int32_t i = 2; i < own.rank; i++) target.shape[i - 1] = own.shape[i];
    DHOWI_TRY(dhow_model_input(m, "dhow.target", target.dtype, target.rank, target.shape, &in[1]));
    DHOWI_TRY(class_weights(m, o, &own, &in[2]));
    DHOWI_TRY((o->label_smoothing > 0 ? smooth_by_class : picked)(m, o, in, out));
    return tell_classes(m, in[1], own.shape[1], ignored_of(o), own.dtype, out);
}

/* Probabilities as targets: the mean over samples, whatever their weights. */
static dhow_status loss_by_probability(dhow_model *m, const dhow_trainer_options *o, int32_t y,
                                       dhow_model_value t, dhow_model_value *out) {
    const dhowi_tensor_desc own = m->values[y].desc;
    dhow_model_value w;
    DHOWI_TRY(check_scores(&own));
    DHOWI_TRY(class_weights(m, o, &own, &w));
    if (w >= 0) DHOWI_TRY(along_classes(m, own.rank, o->weight->count, w, &w));
    DHOWI_TRY(smoothed(m, o, own.shape[1], t, &t));
    return entropies(m, y, t, w, out);
}

/* ---- by element ---- */

/* c (d - c / 2) with d = |y - t| and c = min(d, width) */
static dhow_status smooth(dhow_model *m, dhow_model_value d, double width, dhow_model_value *out) {
    dhow_model_value c, half;
    DHOWI_TRY(dhow_model_min_scalar(m, d, dhow_scalar_f64(width), &c));
    DHOWI_TRY(dhow_model_mul_scalar(m, c, dhow_scalar_f64(0.5), &half));
    DHOWI_TRY(dhow_model_sub(m, d, half, &d));
    return dhow_model_mul(m, c, d, out);
}

/* softplus(y) - y t; with p = pos_weight: (1 - t) y + (1 + (p - 1) t) softplus(-y) */
static dhow_status binary_entropy(dhow_model *m, const dhow_trainer_options *o, dhow_model_value y,
                                  dhow_model_value t, dhow_model_value *out) {
    const dhowi_tensor_desc own = m->values[y].desc;
    dhow_model_value part, p;
    if (o->pos_weight == NULL) {
        DHOWI_TRY(dhow_model_softplus(m, y, out));
        DHOWI_TRY(dhow_model_mul(m, y, t, &part));
        return dhow_model_sub(m, *out, part, out);
    }
    DHOWI_TRY(constant_of(m, "pos_weight", o->pos_weight, &own, &p));
    DHOWI_TRY(dhow_model_sub_scalar(m, p, dhow_scalar_f64(1), &p));
    if (dhow_model_mul(m, p, t, &p) != DHOW_OK ||
        !dhowi_shape_equal(m->values[p].desc.rank, m->values[p].desc.shape, own.rank, own.shape))
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: pos_weight of %lld numbers does not broadcast to the output; it has "
                          "one for each class, the output's last dimension",
                          k_function, (long long)o->pos_weight->count);
    DHOWI_TRY(dhow_model_add_scalar(m, p, dhow_scalar_f64(1), &p));
    DHOWI_TRY(dhow_model_neg(m, y, &part));
    DHOWI_TRY(dhow_model_softplus(m, part, &part));
    DHOWI_TRY(dhow_model_mul(m, p, part, out));
    DHOWI_TRY(dhow_model_mul(m, y, t, &part));
    DHOWI_TRY(dhow_model_sub(m, y, part, &part));
    return dhow_model_add(m, *out, part, out);
}

/* t (log t - y), 0 where t is; summed over all but the samples */
static dhow_status divergence(dhow_model *m, dhow_model_value y, dhow_model_value t,
                              dhow_model_value *out) {
    const dhowi_tensor_desc own = m->values[y].desc;
    const dhowi_tensor_desc one = {.dtype = own.dtype};
    static const uint64_t bits; /* 0 of every type */
    int32_t rest[DHOW_MAX_RANK];
    dhow_model_value zero, is_zero, part;
    DHOWI_TRY(dhowi_build_constant(m, one.dtype, 0, 1, &bits, &zero));
    DHOWI_TRY(dhow_model_equal(m, t, zero, &is_zero));
    DHOWI_TRY(dhow_model_log(m, t, &part));
    DHOWI_TRY(dhow_model_mul(m, part, t, &part));
    DHOWI_TRY(dhow_model_where(m, is_zero, zero, part, &part));
    DHOWI_TRY(dhow_model_mul(m, t, y, out));
    DHOWI_TRY(dhow_model_sub(m, part, *out, out));
    if (own.rank < 2) return DHOW_OK;
    for (int32_t i = 1; i < own.rank; i++) rest[i - 1] = i;
    return dhow_model_reduce(m, DHOW_REDUCE_SUM, *out, rest, (uint32_t)own.rank - 1, 0, out);
}

static dhow_status difference(dhow_model *m, const dhow_trainer_options *o, dhow_model_value y,
                              dhow_model_value t, dhow_model_value *d) {
    DHOWI_TRY(dhow_model_sub(m, y, t, d));
    if (o->loss == DHOW_LOSS_MSE) return dhow_model_mul(m, *d, *d, d);
    DHOWI_TRY(dhow_model_abs(m, *d, d));
    if (o->loss == DHOW_LOSS_HUBER) return smooth(m, *d, o->huber_delta, d);
    if (o->loss != DHOW_LOSS_SMOOTH_L1) return DHOW_OK;
    DHOWI_TRY(smooth(m, *d, o->smooth_l1_beta, d));
    if (o->smooth_l1_beta == 1) return DHOW_OK;
    return dhow_model_mul_scalar(m, *d, dhow_scalar_f64(1 / o->smooth_l1_beta), d);
}

static dhow_status loss_by_element(dhow_model *m, const dhow_trainer_options *o, int32_t y,
                                   dhow_model_value *out) {
    const dhowi_tensor_desc own = m->values[y].desc;
    dhow_model_value t, d;
    if (own.rank < 0)
        return dhowi_fail(DHOW_UNSUPPORTED, "%s: the shape of the output is not known", k_function);
    DHOWI_TRY(dhow_model_input(m, "dhow.target", own.dtype, own.rank, own.shape, &t));
    switch (o->loss) {
        case DHOW_LOSS_BCE_WITH_LOGITS:
            DHOWI_TRY(binary_entropy(m, o, y, t, &d));
            break;
        case DHOW_LOSS_KL_DIV:
            DHOWI_TRY(divergence(m, y, t, &d));
            break;
        case DHOW_LOSS_CROSS_ENTROPY_PROBABILITIES:
            DHOWI_TRY(loss_by_probability(m, o, y, t, &d));
            break;
        default:
            DHOWI_TRY(difference(m, o, y, t, &d));
    }
    return dhow_model_reduce(m, DHOW_REDUCE_MEAN, d, NULL, 0, 0, out);
}

/* ---- of sequences ---- */

/* A target has two lengths before its classes. */
static dhow_status loss_of_sequences(dhow_model *m, const dhow_trainer_options *o, int32_t y,
                                     dhow_model_value *out) {
    const dhowi_tensor_desc own = m->values[y].desc, one = {.dtype = own.dtype};
    const dhowi_attrs attrs = {.dim = o->ctc_zero_infinity};
    char text[160];
    int32_t in[2] = {y, -1};
    if (own.rank != 3 || (own.dtype != DHOW_F32 && own.dtype != DHOW_F64))
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: the output is %s; DHOW_LOSS_CTC takes log-probabilities f32 or f64 "
                          "[steps, n, classes]",
                          k_function, dhowi_desc_text(&own, text, sizeof text));
    const int64_t shape[] = {own.shape[1], -1};
    DHOWI_TRY(dhow_model_input(m, "dhow.target", DHOW_I64, 2, shape, &in[1]));
    return dhowi_build_node(m, dhowi_layer_operator(DHOWI_LAYER_CTC), "ctc", in, 2, &attrs, &one,
                            out);
}

dhow_status dhowi_add_loss(dhow_model *m, const dhow_trainer_options *o, int32_t y,
                           dhow_model_value *out) {
    *out = y;
    if (o->loss == DHOW_LOSS_OUTPUT) return DHOW_OK;
    if (o->loss == DHOW_LOSS_CTC) return loss_of_sequences(m, o, y, out);
    return (is_by_class(o->loss) ? loss_by_class : loss_by_element)(m, o, y, out);
}

/* ---- of divided batches ---- */

bool dhowi_divides(const dhow_trainer_options *o) {
    return o->device_count > 1 || o->process_group != NULL;
}

bool dhowi_loss_sums(const dhow_trainer_options *o) { return is_by_class(o->loss); }

dhow_status dhowi_read_numbers(const char *function, dhow_tensor *x, double **out) {
    dhow_tensor *home, *wide;
    *out = NULL;
    DHOWI_TRY(dhow_tensor_to(x, x->storage->device->context->cpu, &home));
    dhow_status status = dhow_tensor_to_dtype(NULL, home, DHOW_F64, &wide);
    dhow_tensor_release(home);
    DHOWI_TRY(status);
    double *numbers = dhowi_alloc_array((size_t)x->count + 1, sizeof *numbers);
    status = numbers == NULL
                 ? dhowi_fail_memory(function)
                 : dhow_tensor_read(wide, numbers, (uint64_t)x->count * sizeof *numbers);
    dhow_tensor_release(wide);
    if (status == DHOW_OK)
        *out = numbers;
    else
        dhowi_free(numbers);
    return status;
}

dhow_status dhowi_loss_keep(dhow_trainer *t) {
    const dhow_trainer_options *o = &t->options;
    t->ignored = ignored_of(o);
    if (!dhowi_loss_sums(o) || o->weight == NULL) return DHOW_OK;
    t->class_count = o->weight->count;
    return dhowi_read_numbers(k_function, o->weight, &t->class_weights);
}

static double sum_of_weights(const dhow_trainer *t, const int64_t *classes, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        if (classes[i] == t->ignored) continue;
        if (t->class_weights == NULL)
            sum += 1;
        else if (classes[i] >= 0 && classes[i] < t->class_count)
            sum += t->class_weights[classes[i]];
    }
    return sum;
}

dhow_status dhowi_loss_count(const dhow_trainer *t, dhow_tensor *target, int64_t rows,
                             double *out) {
    void *data;
    *out = (double)rows;
    if (!dhowi_loss_sums(&t->options) || rows == 0 || target->dtype != DHOW_I64) return DHOW_OK;
    if (target->storage->host != NULL && target->contiguous) {
        DHOWI_TRY(dhow_tensor_host_ptr(target, &data));
        *out = sum_of_weights(t, data, target->count);
        return DHOW_OK;
    }
    const uint64_t bytes = (uint64_t)target->count * sizeof(int64_t);
    int64_t *classes = dhowi_alloc(bytes + 1);
    if (classes == NULL) return dhowi_fail_memory(k_function);
    dhow_status status = dhow_tensor_read(target, classes, bytes);
    if (status == DHOW_OK) *out = sum_of_weights(t, classes, target->count);
    dhowi_free(classes);
    return status;
}
