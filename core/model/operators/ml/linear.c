/* SPDX-License-Identifier: Apache-2.0
 *
 * LinearRegressor and LinearClassifier.
 */
#include <inttypes.h>

#include "base/memory/size.h"
#include "model/lower/products/products.h"
#include "model/operators/ml/ml.h"

/* x [rows, features] times coefficients [targets, features], and intercepts. */
static dhow_status multiply(dhowi_lowering *b, int64_t targets, int32_t *out) {
    static const int32_t swapped[] = {1, 0};
    uint32_t count, added;
    int32_t x, weight, bias = -1;
    const float *coefficients = dhowi_ml_floats(b, "coefficients", &count);
    const float *intercepts = dhowi_ml_floats(b, "intercepts", &added);
    DHOWI_TRY(dhowi_ml_numbers_of(b, b->in[0], &x));
    DHOWI_TRY(dhowi_ml_rows(b, x, &x));
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    const int64_t shape[] = {targets, own.shape[1]};
    if (targets < 1 || own.shape[1] > INT32_MAX || targets > INT32_MAX ||
        shape[0] * shape[1] != count)
        DHOWI_REFUSE("coefficients has %u numbers for %" PRId64 " targets of %" PRId64 " features",
                     count, targets, own.shape[1]);
    if (added > 0 && added != targets)
        DHOWI_REFUSE("intercepts has %u numbers for %" PRId64 " targets", added, targets);
    DHOWI_TRY(dhowi_ml_constant(b, own.dtype, 2, shape, coefficients, &weight));
    DHOWI_TRY(dhowi_permute(b, weight, swapped, &weight));
    if (added > 0) DHOWI_TRY(dhowi_ml_constant(b, own.dtype, 1, shape, intercepts, &bias));
    return dhowi_product(b, x, weight, bias, out);
}

dhow_status dhowi_lower_ml_linear_regressor(dhowi_lowering *b) {
    dhowi_ml_post post;
    DHOWI_TRY(dhowi_ml_post_of(b, &post));
    DHOWI_TRY(multiply(b, dhowi_attr_int(b, "targets", 1), &b->out[0]));
    if (dhowi_desc_at(b, b->out[0])->shape[1] == 1 && post != DHOWI_POST_PROBIT)
        post = DHOWI_POST_NONE;
    DHOWI_TRY(dhowi_ml_transform(b, post, b->out[0], &b->out[0]));
    return dhowi_cast_to(b, b->out[0], DHOW_F32, &b->out[0]);
}

static dhow_status compute_classes(dhowi_lowering *b) {
    dhowi_ml_labels labels;
    dhowi_ml_post post;
    uint32_t targets;
    int32_t scores, classes;
    (void)dhowi_ml_floats(b, "intercepts", &targets);
    DHOWI_TRY(dhowi_ml_post_of(b, &post));
    DHOWI_TRY(dhowi_ml_labels_of(b, &labels));
    if (targets == 0) targets = labels.count;
    const bool pair = targets == 1 && labels.count == 2;
    if (!pair && targets != labels.count)
        DHOWI_REFUSE("intercepts has %u numbers for %u classes", targets, labels.count);
    DHOWI_TRY(multiply(b, targets, &scores));
    if (pair) {
        DHOWI_TRY(dhowi_ml_exceeds(b, scores, 0, &classes));
        DHOWI_TRY(dhowi_ml_pair(b, post, true, scores, &b->out[1]));
    } else {
        DHOWI_TRY(dhowi_ml_best(b, scores, &classes));
        DHOWI_TRY(dhowi_ml_transform(b, post, scores, &b->out[1]));
    }
    b->out[0] = classes;
    return dhowi_cast_to(b, b->out[1], DHOW_F32, &b->out[1]);
}

dhow_status dhowi_lower_ml_linear_classifier(dhowi_lowering *b) {
    return dhowi_ml_in_two(b, compute_classes, dhowi_ml_name_classes);
}
