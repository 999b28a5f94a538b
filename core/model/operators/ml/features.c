/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of ai.onnx.ml that prepare features: Scaler, Normalizer, Imputer, Binarizer,
 * ArrayFeatureExtractor and FeatureVectorizer.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "model/operators/ml/ml.h"
#include "model/operators/shape/shape.h"

static int64_t features_of(const dhowi_tensor_desc *x) {
    return x->rank > 0 ? x->shape[x->rank - 1] : 1;
}

/* One number for all features of x, or one for each. */
static dhow_status check_count(const dhowi_tensor_desc *x, const char *name, uint32_t count) {
    if (count == 1 || count == features_of(x)) return DHOW_OK;
    DHOWI_REFUSE("%s has %u numbers for %" PRId64 " features", name, count, features_of(x));
}

static dhow_status combine(dhowi_lowering *b, dhowi_map_op op, const char *name, int32_t x,
                           int32_t *out) {
    uint32_t count;
    int32_t values;
    const float *floats = dhowi_ml_floats(b, name, &count);
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    *out = x;
    if (floats == NULL) return DHOW_OK;
    DHOWI_TRY(check_count(&own, name, count));
    const int64_t shape = count;
    DHOWI_TRY(dhowi_ml_constant(b, own.dtype, count > 1, &shape, floats, &values));
    return dhowi_map_two(b, op, x, values, out);
}

dhow_status dhowi_lower_ml_scaler(dhowi_lowering *b) {
    int32_t x;
    DHOWI_TRY(dhowi_ml_numbers_of(b, b->in[0], &x));
    DHOWI_TRY(combine(b, DHOWI_MAP_SUB, "offset", x, &x));
    DHOWI_TRY(combine(b, DHOWI_MAP_MUL, "scale", x, &x));
    return dhowi_cast_to(b, x, DHOW_F32, &b->out[0]);
}

/* Rows whose norm is 0 stay. */
dhow_status dhowi_lower_ml_normalizer(dhowi_lowering *b) {
    bool along[DHOW_MAX_RANK] = {false};
    int kind = -1;
    int32_t x, norm, one, some;
    if (dhowi_attr_is(b, "norm", "MAX", "MAX")) kind = DHOWI_MAX_OF;
    if (dhowi_attr_is(b, "norm", "L1", "MAX")) kind = DHOWI_L1;
    if (dhowi_attr_is(b, "norm", "L2", "MAX")) kind = DHOWI_L2;
    if (kind < 0) return dhowi_refuse_text(b, "norm");
    DHOWI_TRY(dhowi_ml_numbers_of(b, b->in[0], &x));
    const int32_t rank = dhowi_desc_at(b, x)->rank;
    if (rank < 1 || rank > 2) DHOWI_REFUSE("x has %d dimensions, not 1 or 2", rank);
    along[rank - 1] = true;
    DHOWI_TRY(dhowi_reduce(b, kind, x, along, &norm));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_NE, norm, 0, &some));
    DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_LINEAR, 0, 1, norm, &one));
    DHOWI_TRY(dhowi_select(b, some, norm, one, &norm));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_DIV, x, norm, &x));
    return dhowi_cast_to(b, x, DHOW_F32, &b->out[0]);
}

dhow_status dhowi_lower_ml_imputer(dhowi_lowering *b) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, b->in[0]);
    const float replaced = dhowi_attr_float(b, "replaced_value_float", 0);
    const bool floats = dhowi_is_float(own.dtype);
    uint32_t count;
    int32_t values, missing;
    const char *name = floats ? "imputed_value_floats" : "imputed_value_int64s";
    const float *numbers = floats ? dhowi_ml_floats(b, name, &count) : NULL;
    const int64_t *integers = floats ? NULL : dhowi_attr_ints(b, name, &count);
    DHOWI_TRY(check_count(&own, name, count));
    const int64_t shape = count;
    if (floats) {
        DHOWI_TRY(dhowi_ml_constant(b, own.dtype, count > 1, &shape, numbers, &values));
    } else {
        DHOWI_TRY(dhowi_constant(b, DHOW_I64, count > 1, &shape, integers, &values));
        DHOWI_TRY(dhowi_cast_to(b, values, own.dtype, &values));
    }
    if (floats && replaced != replaced) {
        DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_IS_NAN, 0, 0, b->in[0], &missing));
    } else {
        const int64_t integer = dhowi_attr_int(b, "replaced_value_int64", 0);
        DHOWI_TRY(floats ? dhowi_constant(b, DHOW_F32, 0, NULL, &replaced, &missing)
                         : dhowi_constant(b, DHOW_I64, 0, NULL, &integer, &missing));
        DHOWI_TRY(dhowi_cast_to(b, missing, own.dtype, &missing));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_EQ, b->in[0], missing, &missing));
    }
    return dhowi_select(b, missing, values, b->in[0], &b->out[0]);
}

dhow_status dhowi_lower_ml_binarizer(dhowi_lowering *b) {
    const dhow_dtype dtype = dhowi_desc_at(b, b->in[0])->dtype;
    int32_t more;
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_GT, b->in[0],
                               (double)dhowi_attr_float(b, "threshold", 0), &more));
    return dhowi_cast_to(b, more, dtype, &b->out[0]);
}

/* Texts at places of the last dimension. */
static dhow_status pick_texts(dhowi_lowering *b, const int64_t *index, uint32_t count) {
    const dhow_datum *x = b->items[b->in[0]].texts;
    const int64_t n = x->rank > 0 ? x->shape[x->rank - 1] : 1;
    const int64_t rows = n > 0 ? x->count / n : 0;
    dhowi_tensor_desc shape = {.rank = DHOWI_MAX(x->rank, 2)};
    int64_t total;
    for (int32_t i = 0; i < shape.rank; i++)
        shape.shape[i] = x->rank == shape.rank ? x->shape[i] : 1;
    shape.shape[shape.rank - 1] = count;
    if (!dhowi_mul_i64(rows, count, &total)) DHOWI_REFUSE("too many texts");
    DHOWI_TRY(dhowi_host_room(b, total, 2 * sizeof(dhowi_slice)));
    dhowi_slice *slices = dhowi_alloc_array((size_t)total + 1, sizeof *slices);
    const dhowi_slice **texts = dhowi_alloc_array((size_t)total + 1, sizeof *texts);
    dhow_status status = slices != NULL && texts != NULL ? DHOW_OK : dhowi_fail_memory("plan");
    for (int64_t i = 0; i < total && status == DHOW_OK; i++) {
        const int64_t at = index[i % count];
        if (at < 0 || at >= n) {
            status = dhowi_fail(DHOW_INVALID_ARGUMENT,
                                "Y holds %" PRId64 ", x has %" PRId64 " features", at, n);
            break;
        }
        const char *text = x->texts[i / count * n + at];
        slices[i] = (dhowi_slice){text, strlen(text)};
        texts[i] = &slices[i];
    }
    if (status == DHOW_OK) status = dhowi_texts_of(b, &shape, texts, &b->out[0]);
    dhowi_free(texts);
    dhowi_free(slices);
    return status;
}

dhow_status dhowi_lower_ml_pick_features(dhowi_lowering *b) {
    int32_t x = b->in[0], index;
    if (dhowi_kind_of(b, b->in[1]) != DHOW_DATUM_TENSOR) DHOWI_REFUSE("Y is no tensor");
    const int64_t count = dhowi_count_of(dhowi_desc_at(b, b->in[1]));
    if (count < 1) DHOWI_REFUSE("Y has no elements");
    if (dhowi_kind_of(b, x) == DHOW_DATUM_TEXTS) {
        uint32_t got;
        DHOWI_TRY(dhowi_host_room(b, count, sizeof(int64_t)));
        int64_t *places = dhowi_alloc_array((size_t)count, sizeof *places);
        if (places == NULL) return dhowi_fail_memory("plan");
        dhow_status status = dhowi_ints(b, b->in[1], places, (uint32_t)count, &got);
        if (status == DHOW_OK) status = pick_texts(b, places, got);
        dhowi_free(places);
        return status;
    }
    if (dhowi_desc_at(b, x)->rank == 0) DHOWI_REFUSE("x has no dimensions");
    if (dhowi_desc_at(b, x)->rank == 1) DHOWI_TRY(dhowi_along(b, x, 2, 1, &x));
    DHOWI_TRY(dhowi_reshape(b, b->in[1], 1, &count, &index));
    return dhowi_gather_along(b, x, dhowi_desc_at(b, x)->rank - 1, index, &b->out[0]);
}

dhow_status dhowi_lower_ml_join_features(dhowi_lowering *b) {
    int32_t parts[DHOWI_MAX_OUTPUTS_OF_NODE];
    uint32_t count;
    const int64_t *widths = dhowi_attr_ints(b, "inputdimensions", &count);
    if (count != b->in_count)
        DHOWI_REFUSE("inputdimensions has %u numbers for %u inputs", count, b->in_count);
    for (uint32_t i = 0; i < count; i++) {
        DHOWI_TRY(dhowi_cast_to(b, b->in[i], DHOW_F32, &parts[i]));
        DHOWI_TRY(dhowi_ml_rows(b, parts[i], &parts[i]));
        const int64_t width = dhowi_desc_at(b, parts[i])->shape[1];
        if (width != widths[i])
            DHOWI_REFUSE("input %u has %" PRId64 " features, inputdimensions says %" PRId64, i,
                         width, widths[i]);
    }
    return dhowi_concat(b, parts, count, 1, &b->out[0]);
}
