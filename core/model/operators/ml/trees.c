/* SPDX-License-Identifier: Apache-2.0
 *
 * TreeEnsembleRegressor, TreeEnsembleClassifier and TreeEnsemble.
 */
#include <inttypes.h>
#include <math.h>

#include "base/memory/size.h"
#include "model/operators/ml/ml.h"
#include "model/operators/shape/shape.h"

/* The node's x, and the forest behind it. */
enum { X, FOREST };

typedef struct forest_scores {
    int64_t facts[DHOWI_FOREST_FACT_COUNT];
    int32_t scores; /* [rows, targets]; 0 where no leaf had a weight for a target */
    int32_t met;    /* [rows, targets], true where one had; -1: everywhere, or nowhere for all */
} forest_scores;

/* Rows that are walked with at once on the host, and walks that keep a GPU busy. */
enum { HOST_WALKS = 256, DEVICE_WALKS = 1 << 16 };

/* Trees are shared out among threads, or items of a GPU, where rows are few. */
static int64_t parts_of(const dhowi_lowering *b, int64_t rows, int64_t trees) {
    const dhow_device *device = b->device;
    const int64_t walks = rows * trees;
    const int64_t wanted =
        dhowi_device_is_host(device)
            ? DHOWI_MIN((int64_t)device->desc.compute_units, walks / HOST_WALKS / 16)
            : DEVICE_WALKS / DHOWI_MAX(rows, (int64_t)1);
    return DHOWI_MAX(DHOWI_MIN(wanted, trees), (int64_t)1);
}

/* [parts, rows, columns] */
static dhow_status walk(dhowi_lowering *b, const int64_t *facts, int32_t *out) {
    int32_t in[5] = {b->in[X], b->in[FOREST + DHOWI_FOREST_NODES],
                     b->in[FOREST + DHOWI_FOREST_THRESHOLDS], b->in[FOREST + DHOWI_FOREST_LEAVES],
                     b->in[FOREST + DHOWI_FOREST_WEIGHTS]};
    DHOWI_TRY(dhowi_ml_rows(b, in[X], &in[X]));
    const bool f64 =
        dhowi_desc_at(b, in[X])->dtype == DHOW_F64 || dhowi_desc_at(b, in[2])->dtype == DHOW_F64;
    const dhow_dtype dtype = f64 ? DHOW_F64 : DHOW_F32;
    DHOWI_TRY(dhowi_cast_to(b, in[X], dtype, &in[X]));
    DHOWI_TRY(dhowi_dense(b, in[X], &in[X]));
    DHOWI_TRY(dhowi_cast_to(b, in[2], dtype, &in[2]));
    DHOWI_TRY(dhowi_cast_to(b, in[4], dtype, &in[4]));
    const dhowi_tensor_desc x = *dhowi_desc_at(b, in[X]);
    /* A walk reads one at each leaf, too. */
    if (x.shape[1] < DHOWI_MAX(facts[DHOWI_FOREST_FEATURES], (int64_t)1))
        DHOWI_REFUSE("x has %" PRId64 " features, its nodes ask for %" PRId64, x.shape[1],
                     facts[DHOWI_FOREST_FEATURES]);
    if (dhowi_count_of(dhowi_desc_at(b, in[4])) == 0) in[4] = -1;
    const int64_t trees = facts[DHOWI_FOREST_TREES];
    const dhowi_tensor_desc y = {
        .dtype = dtype,
        .rank = 3,
        .shape = {parts_of(b, x.shape[0], trees), x.shape[0], facts[DHOWI_FOREST_COLUMNS]}};
    const dhowi_attrs attrs = {
        .split = {.n = trees,
                  .count = y.shape[2],
                  .taps = y.shape[0],
                  .flag = {(int32_t)facts[DHOWI_FOREST_HOW], (int32_t)facts[DHOWI_FOREST_ASKS]}}};
    return dhowi_emit(b, DHOWI_OP_trees, in, 5, &attrs, &y, out);
}

static dhow_status evaluate(dhowi_lowering *b, forest_scores *f) {
    static const int kinds[] = {DHOWI_SUM, DHOWI_MIN_OF, DHOWI_MAX_OF};
    const bool parts[] = {true, false, false};
    uint32_t count;
    int32_t zero;
    f->met = -1;
    DHOWI_TRY(dhowi_ints(b, b->in[FOREST + DHOWI_FOREST_FACTS], f->facts, DHOWI_FOREST_FACT_COUNT,
                         &count));
    const int64_t targets = f->facts[DHOWI_FOREST_TARGETS], how = f->facts[DHOWI_FOREST_HOW];
    DHOWI_TRY(walk(b, f->facts, &f->scores));
    if (dhowi_desc_at(b, f->scores)->shape[0] > 1)
        DHOWI_TRY(dhowi_reduce(b, kinds[how], f->scores, parts, &f->scores));
    const dhowi_tensor_desc all = *dhowi_desc_at(b, f->scores);
    DHOWI_TRY(dhowi_reshape(b, f->scores, 2, all.shape + 1, &f->scores));
    if (all.shape[2] > targets) {
        DHOWI_TRY(dhowi_narrow(b, f->scores, 1, targets, targets, 1, &f->met));
        DHOWI_TRY(dhowi_narrow(b, f->scores, 1, 0, targets, 1, &f->scores));
        DHOWI_TRY(dhowi_map_number(b, how == 1 ? DHOWI_MAP_LT : DHOWI_MAP_GT, f->met,
                                   how == 1 ? (double)INFINITY : 0, &f->met));
        const dhowi_tensor_desc one = {.dtype = all.dtype};
        if (how != 0) {
            DHOWI_TRY(dhowi_filled(b, &one, 0, &zero));
            DHOWI_TRY(dhowi_select(b, f->met, f->scores, zero, &f->scores));
        }
    }
    if (f->facts[DHOWI_FOREST_MEAN] != 0)
        DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_DIV, f->scores,
                                   (double)f->facts[DHOWI_FOREST_TREES], &f->scores));
    return DHOW_OK;
}

/* base_values, or those of base_values_as_tensor, as a row; *count is 0 where there are none. */
static dhow_status base_of(dhowi_lowering *b, int32_t *out, int64_t *count) {
    const dhowi_onnx_attribute *a = dhowi_attr(b, "base_values_as_tensor", DHOWI_ATTRIBUTE_TENSOR);
    uint32_t own;
    const float *floats = dhowi_ml_floats(b, "base_values", &own);
    *count = own;
    if (floats != NULL) return dhowi_constant(b, DHOW_F32, 1, count, floats, out);
    if (a == NULL || a->tensor == NULL) return DHOW_OK;
    DHOWI_TRY(dhowi_constant_of(b, a->tensor, out));
    if (!dhowi_is_float(dhowi_desc_at(b, *out)->dtype))
        DHOWI_REFUSE("base_values_as_tensor is no tensor of floats");
    *count = dhowi_count_of(dhowi_desc_at(b, *out));
    return dhowi_reshape(b, *out, 1, count, out);
}

static dhow_status add_base(dhowi_lowering *b, int32_t base, int32_t *scores) {
    DHOWI_TRY(dhowi_cast_to(b, base, dhowi_desc_at(b, *scores)->dtype, &base));
    return dhowi_map_two(b, DHOWI_MAP_ADD, *scores, base, scores);
}

/* ONNX Runtime transforms one score by PROBIT alone. */
static dhow_status finish(dhowi_lowering *b, int32_t scores, int32_t *out) {
    dhowi_ml_post post;
    DHOWI_TRY(dhowi_ml_post_of(b, &post));
    if (dhowi_desc_at(b, scores)->shape[1] == 1 && post != DHOWI_POST_PROBIT)
        post = DHOWI_POST_NONE;
    return dhowi_ml_transform(b, post, scores, out);
}

dhow_status dhowi_lower_ml_tree_regressor(dhowi_lowering *b) {
    forest_scores f;
    int32_t base;
    int64_t count;
    DHOWI_TRY(base_of(b, &base, &count));
    DHOWI_TRY(evaluate(b, &f));
    const int64_t targets = f.facts[DHOWI_FOREST_TARGETS];
    if (count > 0 && count != targets)
        DHOWI_REFUSE("base_values has %" PRId64 " numbers for %" PRId64 " targets", count, targets);
    if (count > 0) DHOWI_TRY(add_base(b, base, &f.scores));
    DHOWI_TRY(finish(b, f.scores, &b->out[0]));
    return dhowi_cast_to(b, b->out[0], DHOW_F32, &b->out[0]);
}

dhow_status dhowi_lower_ml_tree_ensemble(dhowi_lowering *b) {
    const dhow_dtype own = dhowi_desc_at(b, b->in[X])->dtype;
    forest_scores f;
    DHOWI_TRY(evaluate(b, &f));
    DHOWI_TRY(finish(b, f.scores, &b->out[0]));
    return dhowi_cast_to(b, b->out[0], own, &b->out[0]);
}

/* ---- classes ---- */

/* Several scores: the largest of those that were met wins. */
static dhow_status choose(dhowi_lowering *b, const forest_scores *f, int32_t *out) {
    int32_t scores = f->scores, lowest;
    if (f->met >= 0) {
        const dhowi_tensor_desc one = {.dtype = dhowi_desc_at(b, scores)->dtype};
        DHOWI_TRY(dhowi_filled(b, &one, -(double)INFINITY, &lowest));
        DHOWI_TRY(dhowi_select(b, f->met, scores, lowest, &scores));
    }
    return dhowi_ml_best(b, scores, out);
}

/* One score for two classes. ONNX Runtime takes it for the second class's whichever it is said to
 * be of, and for a probability where no weight is negative. */
static dhow_status decide(dhowi_lowering *b, const forest_scores *f, int32_t base,
                          int64_t base_count, int32_t *classes) {
    const bool positive = f->facts[DHOWI_FOREST_POSITIVE] != 0;
    const bool second = f->facts[DHOWI_FOREST_USED] == 2;
    dhowi_ml_post post;
    int32_t both[] = {-1, f->scores}, all;
    DHOWI_TRY(dhowi_ml_post_of(b, &post));
    if (base_count > 1 || (base_count == 1 && second))
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "unsupported base_values: %" PRId64 ", where one class alone has weights",
                          base_count);
    if (base_count == 1) DHOWI_TRY(add_base(b, base, &both[1]));
    DHOWI_TRY(dhowi_ml_exceeds(b, both[1], positive ? 0.5 : 0, classes));
    if (!second) return dhowi_ml_pair(b, post, positive, both[1], &b->out[1]);
    const dhowi_tensor_desc own = *dhowi_desc_at(b, both[1]);
    DHOWI_TRY(dhowi_filled(b, &own, 0, &both[0]));
    DHOWI_TRY(dhowi_concat(b, both, 2, 1, &all));
    return dhowi_ml_transform(b, post, all, &b->out[1]);
}

static dhow_status compute_classes(dhowi_lowering *b) {
    dhowi_ml_labels labels;
    forest_scores f;
    int64_t count;
    int32_t classes, base;
    DHOWI_TRY(dhowi_ml_labels_of(b, &labels));
    DHOWI_TRY(base_of(b, &base, &count));
    DHOWI_TRY(evaluate(b, &f));
    if (labels.count == 2 && f.facts[DHOWI_FOREST_TARGETS] == 1) {
        DHOWI_TRY(decide(b, &f, base, count, &classes));
    } else {
        if (count > 0 && count != labels.count)
            DHOWI_REFUSE("base_values has %" PRId64 " numbers for %u classes", count, labels.count);
        if (count > 0) DHOWI_TRY(add_base(b, base, &f.scores));
        if (count > 0) f.met = -1;
        DHOWI_TRY(choose(b, &f, &classes));
        DHOWI_TRY(finish(b, f.scores, &b->out[1]));
    }
    b->out[0] = classes;
    return dhowi_cast_to(b, b->out[1], DHOW_F32, &b->out[1]);
}

dhow_status dhowi_lower_ml_tree_classifier(dhowi_lowering *b) {
    return dhowi_ml_in_two(b, compute_classes, dhowi_ml_name_classes);
}
