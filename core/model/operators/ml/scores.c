/* SPDX-License-Identifier: Apache-2.0
 *
 * What operators of ai.onnx.ml have in common: attributes, scores, and classes by them. The scores
 * of two classes follow ONNX Runtime, which says more about them than ONNX does.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "model/operators/ml/ml.h"
#include "model/operators/nn/nn.h"
#include "model/operators/shape/shape.h"

/* ---- attributes ---- */

const float *dhowi_ml_floats(const dhowi_lowering *b, const char *name, uint32_t *count) {
    const dhowi_onnx_attribute *a = dhowi_attr(b, name, DHOWI_ATTRIBUTE_FLOATS);
    *count = a != NULL ? a->float_count : 0;
    return *count > 0 ? a->floats : NULL;
}

dhow_status dhowi_ml_constant(dhowi_lowering *b, dhow_dtype dtype, int32_t rank,
                              const int64_t *shape, const float *values, int32_t *out) {
    DHOWI_TRY(dhowi_constant(b, DHOW_F32, rank, shape, values, out));
    return dhowi_cast_to(b, *out, dtype, out);
}

dhow_status dhowi_ml_numbers_of(dhowi_lowering *b, int32_t x, int32_t *out) {
    const dhow_dtype dtype = dhowi_desc_at(b, x)->dtype;
    return dhowi_cast_to(b, x, dtype == DHOW_F64 ? DHOW_F64 : DHOW_F32, out);
}

dhow_status dhowi_ml_rows(dhowi_lowering *b, int32_t x, int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    char text[160];
    *out = x;
    if (own.rank == 1) return dhowi_along(b, x, 2, 1, out);
    if (own.rank == 2) return DHOW_OK;
    DHOWI_REFUSE("x is %s, no rows of features", dhowi_desc_text(&own, text, sizeof text));
}

/* ---- scores ---- */

static const char *const k_posts[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};

dhow_status dhowi_ml_post_of(const dhowi_lowering *b, dhowi_ml_post *out) {
    const dhowi_onnx_attribute *a = dhowi_attr(b, "post_transform", DHOWI_ATTRIBUTE_ANY);
    *out = DHOWI_POST_NONE;
    if (a == NULL) return DHOW_OK;
    for (size_t i = 0; i < DHOWI_COUNT(k_posts); i++) {
        *out = (dhowi_ml_post)i;
        if (a->s.data == NULL ? a->i == (int64_t)i : dhowi_slice_is(a->s, k_posts[i]))
            return DHOW_OK;
    }
    if (a->s.data == NULL) DHOWI_REFUSE("post_transform is %" PRId64 ", not 0 to 4", a->i);
    return dhowi_refuse_text(b, "post_transform");
}

/* Of numbers that are nearly 0, 0; exp(x - most) / sum of the others. */
static dhow_status softmax_but_zeros(dhowi_lowering *b, int32_t x, int32_t *out) {
    const bool along[] = {false, true};
    int32_t most, scaled, power, size, counts, sum, left, one, some;
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MAX_OF, x, along, &most));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, x, most, &power));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_EXP, 0, 0, power, &power));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_NEG, 0, 0, most, &scaled));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_EXP, 0, 0, scaled, &scaled));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, x, scaled, &left));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_ABS, 0, 0, x, &size));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_GT, size, 1e-7, &counts));
    DHOWI_TRY(dhowi_cast_to(b, counts, dhowi_desc_at(b, x)->dtype, &size));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, size, power, &sum));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM, sum, along, &sum));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_GT, sum, 0, &some));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_LINEAR, 0, 1, sum, &one));
    DHOWI_TRY(dhowi_select(b, some, sum, one, &sum));
    DHOWI_TRY(dhowi_select(b, counts, power, left, &power));
    return dhowi_map_two(b, DHOWI_MAP_DIV, power, sum, out);
}

/* sqrt(2) times the inverse error function of 2 x - 1, by Winitzki's approximation of 2008. */
static dhow_status probit(dhowi_lowering *b, int32_t x, int32_t *out) {
    const double a = 0.147, c = 2 / (3.14159 * a);
    int32_t y, sign, log, v, w, square;
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_LINEAR, 2, -1, x, &y));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SIGN, 0, 0, y, &sign));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, y, y, &log));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_LINEAR, -1, 1, log, &log));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_LOG, 0, 0, log, &log));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_LINEAR, 0.5, c, log, &v));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_MUL, log, 1 / a, &w));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, v, v, &square));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, square, w, &square));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SQRT, 0, 0, square, &square));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, square, v, &square));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SQRT, 0, 0, square, &square));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_MUL, square, sign, &square));
    return dhowi_map_number(b, DHOWI_MAP_MUL, square, sqrt(2), out);
}

dhow_status dhowi_ml_transform(dhowi_lowering *b, dhowi_ml_post post, int32_t scores,
                               int32_t *out) {
    switch (post) {
        case DHOWI_POST_SOFTMAX:
            return dhowi_softmax_along(b, DHOWI_OP_softmax, scores, 1, false, out);
        case DHOWI_POST_LOGISTIC:
            return dhowi_map_one(b, DHOWI_MAP_SIGMOID, 0, 0, scores, out);
        case DHOWI_POST_SOFTMAX_ZERO:
            return softmax_but_zeros(b, scores, out);
        case DHOWI_POST_PROBIT:
            return probit(b, scores, out);
        case DHOWI_POST_NONE:
            break;
    }
    *out = scores;
    return DHOW_OK;
}

dhow_status dhowi_ml_pair(dhowi_lowering *b, dhowi_ml_post post, bool positive, int32_t score,
                          int32_t *out) {
    int32_t both[] = {-1, score};
    if (post == DHOWI_POST_PROBIT)
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "unsupported post_transform 'PROBIT' of one score for "
                          "two classes, which ONNX says nothing about");
    const bool logistic = post == DHOWI_POST_LOGISTIC;
    DHOWI_TRY(
        dhowi_map_one(b, DHOWI_MAP_LINEAR, -1, positive && !logistic ? 1 : 0, score, &both[0]));
    DHOWI_TRY(dhowi_concat(b, both, 2, 1, out));
    return logistic ? dhowi_ml_transform(b, post, *out, out) : DHOW_OK;
}

/* ---- classes ---- */

dhow_status dhowi_ml_best(dhowi_lowering *b, int32_t scores, int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, scores);
    const dhowi_tensor_desc flat = {.dtype = DHOW_I64, .rank = 2, .shape = {own.shape[0], 1}};
    const dhowi_attrs attrs = {.dim = 1};
    int64_t parts[3];
    const bool along[] = {false, true};
    DHOWI_TRY(dhowi_group_axes(b, along, &scores, parts));
    DHOWI_TRY(dhowi_emit(b, DHOWI_OP_argmax, &scores, 1, &attrs, &flat, out));
    return dhowi_reshape(b, *out, 1, own.shape, out);
}

dhow_status dhowi_ml_exceeds(dhowi_lowering *b, int32_t score, double limit, int32_t *out) {
    const int64_t rows = dhowi_desc_at(b, score)->shape[0];
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_GT, score, limit, out));
    DHOWI_TRY(dhowi_cast_to(b, *out, DHOW_I64, out));
    return dhowi_reshape(b, *out, 1, &rows, out);
}

/* ---- labels ---- */

dhow_status dhowi_ml_labels_of(dhowi_lowering *b, dhowi_ml_labels *out) {
    const dhowi_onnx_attribute *t = dhowi_attr(b, "classlabels_strings", DHOWI_ATTRIBUTE_STRINGS);
    *out = (dhowi_ml_labels){0};
    out->numbers = dhowi_attr_ints(b, "classlabels_int64s", &out->count);
    if (out->count == 0) out->numbers = dhowi_attr_ints(b, "classlabels_ints", &out->count);
    const bool has_texts = t != NULL && t->string_count > 0;
    if (has_texts && out->count > 0) DHOWI_REFUSE("its class labels are both integers and texts");
    if (!has_texts && out->count == 0) DHOWI_REFUSE("it has no class labels");
    if (!has_texts) return DHOW_OK;
    *out = (dhowi_ml_labels){.texts = t->strings, .count = t->string_count};
    return DHOW_OK;
}

static dhow_status name_texts(dhowi_lowering *b, const dhowi_ml_labels *labels, int32_t classes,
                              int32_t *out) {
    const dhowi_tensor_desc shape = *dhowi_desc_at(b, classes);
    const int64_t count = dhowi_count_of(&shape);
    uint32_t got;
    DHOWI_TRY(dhowi_host_room(b, count, sizeof(int64_t)));
    int64_t *chosen = dhowi_alloc_array((size_t)count + 1, sizeof *chosen);
    const dhowi_slice **texts = dhowi_alloc_array((size_t)count + 1, sizeof *texts);
    dhow_status status = chosen != NULL && texts != NULL ? DHOW_OK : dhowi_fail_memory("plan");
    if (status == DHOW_OK) status = dhowi_ints(b, classes, chosen, (uint32_t)count, &got);
    for (int64_t i = 0; i < count && status == DHOW_OK; i++) {
        const bool known = chosen[i] >= 0 && chosen[i] < labels->count;
        if (!known) status = dhowi_fail(DHOW_INTERNAL, "class %" PRId64, chosen[i]);
        texts[i] = known ? &labels->texts[chosen[i]] : NULL;
    }
    if (status == DHOW_OK) status = dhowi_texts_of(b, &shape, texts, out);
    dhowi_free(texts);
    dhowi_free(chosen);
    return status;
}

dhow_status dhowi_ml_name(dhowi_lowering *b, const dhowi_ml_labels *labels, int32_t classes,
                          int32_t *out) {
    const int64_t count = labels->count;
    int32_t numbers;
    bool same = true;
    if (labels->texts != NULL) return name_texts(b, labels, classes, out);
    *out = classes;
    for (int64_t i = 0; i < count; i++) same = same && labels->numbers[i] == i;
    if (same) return DHOW_OK;
    DHOWI_TRY(dhowi_constant(b, DHOW_I64, 1, &count, labels->numbers, &numbers));
    return dhowi_gather_along(b, numbers, 0, classes, out);
}

/* ---- in two steps ---- */

dhow_status dhowi_ml_in_two(dhowi_lowering *b, dhowi_lower_fn *compute, dhowi_lower_fn *finish) {
    dhowi_frame *f = dhowi_find_frame(b, b->node);
    if (f == NULL) {
        DHOWI_TRY(compute(b));
        DHOWI_TRY(dhowi_open_frame(b, &f));
        memcpy(f->in, b->out, b->out_count * sizeof *f->in);
    }
    memcpy(b->out, f->in, b->out_count * sizeof *f->in);
    DHOWI_TRY(finish(b));
    dhowi_close_frame(b);
    return DHOW_OK;
}

dhow_status dhowi_ml_name_classes(dhowi_lowering *b) {
    dhowi_ml_labels labels;
    if (b->node->out[0] < 0) return DHOW_OK; /* nobody asks */
    DHOWI_TRY(dhowi_ml_labels_of(b, &labels));
    return dhowi_ml_name(b, &labels, b->out[0], &b->out[0]);
}
