/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of ai.onnx.ml that name classes: LabelEncoder, CategoryMapper, OneHotEncoder, ZipMap.
 * Numbers are looked up on the device; texts, of which devices have none, on the host.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "model/operators/ml/ml.h"
#include "model/operators/shape/shape.h"

/* A list of an attribute: integers, floats, texts, or a tensor. */
typedef struct list {
    const int64_t *integers;
    const float *floats;
    const dhowi_slice *texts;
    const dhowi_onnx_tensor *tensor;
    dhowi_slice *read; /* texts of a tensor: free_list() */
    uint32_t count;
} list;

static void free_list(list *l) { dhowi_free(l->read); }

static dhow_status list_of_texts(const dhowi_onnx_tensor *t, uint32_t count, list *out) {
    dhowi_slice *texts = dhowi_alloc_array((size_t)count + 1, sizeof *texts);
    if (texts == NULL) return dhowi_fail_memory("plan");
    const dhow_status status = dhowi_onnx_tensor_texts(t, count, texts);
    if (status == DHOW_OK)
        *out = (list){.texts = texts, .read = texts, .count = count};
    else
        dhowi_free(texts);
    return status;
}

static dhow_status list_of(dhowi_lowering *b, const char *integers, const char *floats,
                           const char *texts, const char *tensor, list *out) {
    const dhowi_onnx_attribute *t =
        texts != NULL ? dhowi_attr(b, texts, DHOWI_ATTRIBUTE_STRINGS) : NULL;
    const dhowi_onnx_attribute *a =
        tensor != NULL ? dhowi_attr(b, tensor, DHOWI_ATTRIBUTE_TENSOR) : NULL;
    *out = (list){0};
    if (t != NULL && t->string_count > 0) {
        *out = (list){.texts = t->strings, .count = t->string_count};
    } else if (a != NULL && a->tensor != NULL) {
        int64_t count = 1;
        for (int32_t i = 0; i < a->tensor->rank; i++)
            if (a->tensor->shape[i] < 0 || !dhowi_mul_i64(count, a->tensor->shape[i], &count) ||
                count > INT32_MAX)
                DHOWI_REFUSE("%s has an extent of %" PRId64, tensor, a->tensor->shape[i]);
        if (a->tensor->type == DHOWI_ONNX_STRING) {
            if ((uint64_t)count > a->tensor->message.length)
                DHOWI_REFUSE("%s has %" PRId64 " texts, which it has not", tensor, count);
            return list_of_texts(a->tensor, (uint32_t)count, out);
        }
        dhow_dtype dtype;
        uint64_t bytes;
        DHOWI_TRY(dhowi_onnx_tensor_check(a->tensor, &dtype, &count, &bytes));
        *out = (list){.tensor = a->tensor, .count = (uint32_t)count};
    } else {
        out->integers = dhowi_attr_ints(b, integers, &out->count);
        if (out->count == 0 && floats != NULL)
            out->floats = dhowi_ml_floats(b, floats, &out->count);
    }
    return DHOW_OK;
}

/* Numbers of a list, as a row. */
static dhow_status row_of(dhowi_lowering *b, const list *l, int32_t *out) {
    const int64_t count = l->count;
    if (l->integers != NULL) return dhowi_constant(b, DHOW_I64, 1, &count, l->integers, out);
    if (l->floats != NULL) return dhowi_constant(b, DHOW_F32, 1, &count, l->floats, out);
    DHOWI_TRY(dhowi_constant_of(b, l->tensor, out));
    return dhowi_reshape(b, *out, 1, &count, out);
}

/* ---- numbers: where each lies in a list, i64 in the shape of x; the list's length: nowhere ----
 */

static dhow_status find_numbers(dhowi_lowering *b, int32_t x, const list *keys, int32_t *out) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    const int64_t count = dhowi_count_of(&own), lines[] = {count, 1};
    const int64_t shape[] = {count, (int64_t)keys->count + 1};
    dhowi_tensor_desc last = {.rank = 2, .shape = {count, 1}};
    int32_t row, nan[2], both[2];
    DHOWI_TRY(row_of(b, keys, &row));
    DHOWI_TRY(dhowi_cast_to(b, row, own.dtype, &row));
    DHOWI_TRY(dhowi_reshape(b, x, 2, lines, &x));
    DHOWI_TRY(dhowi_along(b, row, 2, 1, &row));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_EQ, x, row, &both[0]));
    if (dhowi_is_float(own.dtype)) { /* NaN is a key like others */
        DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_IS_NAN, 0, 0, x, &nan[0]));
        DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_IS_NAN, 0, 0, row, &nan[1]));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_AND, nan[0], nan[1], &nan[0]));
        DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_OR, both[0], nan[0], &both[0]));
    }
    last.dtype = dhowi_desc_at(b, both[0])->dtype;
    DHOWI_TRY(dhowi_filled(b, &last, 1, &both[1]));
    DHOWI_TRY(dhowi_concat(b, both, 2, 1, out));
    DHOWI_TRY(dhowi_cast_to(b, *out, DHOW_I32, out));
    DHOWI_TRY(dhowi_reshape(b, *out, 2, shape, out));
    DHOWI_TRY(dhowi_ml_best(b, *out, out));
    return dhowi_reshape(b, *out, own.rank, own.shape, out);
}

/* ---- texts ---- */

static int64_t place_of(const list *keys, const char *text) {
    for (uint32_t i = 0; i < keys->count; i++)
        if (dhowi_slice_is(keys->texts[i], text)) return i;
    return keys->count;
}

static dhow_status find_texts(dhowi_lowering *b, int32_t x, const list *keys, int32_t *out) {
    const dhow_datum *t = b->items[x].texts;
    DHOWI_TRY(dhowi_host_room(b, t->count, sizeof(int64_t)));
    int64_t *places = dhowi_alloc_array((size_t)t->count + 1, sizeof *places);
    if (places == NULL) return dhowi_fail_memory("plan");
    for (int64_t i = 0; i < t->count; i++) places[i] = place_of(keys, t->texts[i]);
    const dhow_status status = dhowi_constant(b, DHOW_I64, t->rank, t->shape, places, out);
    dhowi_free(places);
    return status;
}

/* Keys that are texts are for texts, others for numbers. */
static dhow_status find(dhowi_lowering *b, int32_t x, const list *keys, int32_t *out) {
    const bool texts = dhowi_kind_of(b, x) == DHOW_DATUM_TEXTS;
    if (keys->count == 0) DHOWI_REFUSE("it has no keys");
    if (texts != (keys->texts != NULL))
        DHOWI_REFUSE("x is %s, its keys are %s", texts ? "texts" : "numbers",
                     texts ? "numbers" : "texts");
    return texts ? find_texts(b, x, keys, out) : find_numbers(b, x, keys, out);
}

/* ---- values at places, the last of which is for what has no key ---- */

static dhow_status give_numbers(dhowi_lowering *b, const list *values, int32_t otherwise,
                                int32_t places, int32_t *out) {
    int32_t both[] = {-1, otherwise}, all;
    const int64_t one = 1;
    DHOWI_TRY(row_of(b, values, &both[0]));
    DHOWI_TRY(dhowi_cast_to(b, both[1], dhowi_desc_at(b, both[0])->dtype, &both[1]));
    DHOWI_TRY(dhowi_reshape(b, both[1], 1, &one, &both[1]));
    DHOWI_TRY(dhowi_concat(b, both, 2, 0, &all));
    return dhowi_gather_along(b, all, 0, places, out);
}

static dhow_status give_texts(dhowi_lowering *b, const list *values, dhowi_slice otherwise,
                              int32_t places, int32_t *out) {
    dhowi_slice *all = dhowi_alloc_array((size_t)values->count + 1, sizeof *all);
    if (all == NULL) return dhowi_fail_memory("plan");
    memcpy(all, values->texts, values->count * sizeof *all);
    all[values->count] = otherwise;
    const dhowi_ml_labels labels = {.texts = all, .count = values->count + 1};
    const dhow_status status = dhowi_ml_name(b, &labels, places, out);
    dhowi_free(all);
    return status;
}

static dhow_status default_text(const dhowi_lowering *b, dhowi_slice *out) {
    static const char none[] = "_Unused";
    const dhowi_onnx_attribute *a = dhowi_attr(b, "default_string", DHOWI_ATTRIBUTE_STRING),
                               *t = dhowi_attr(b, "default_tensor", DHOWI_ATTRIBUTE_TENSOR);
    *out = a != NULL ? a->s : (dhowi_slice){none, sizeof none - 1};
    if (t == NULL || t->tensor == NULL || t->tensor->type != DHOWI_ONNX_STRING) return DHOW_OK;
    return dhowi_onnx_tensor_texts(t->tensor, 1, out);
}

/* What stands for numbers without a key, by the type of the values. */
static dhow_status default_number(dhowi_lowering *b, const list *values, int32_t *out) {
    const dhowi_onnx_attribute *a = dhowi_attr(b, "default_tensor", DHOWI_ATTRIBUTE_TENSOR);
    const int64_t integer = dhowi_attr_int(b, "default_int64", -1);
    const float number = dhowi_attr_float(b, "default_float", -0.0f);
    if (a != NULL && a->tensor != NULL && values->tensor != NULL) {
        const list one = {.tensor = a->tensor, .count = 1};
        if (dhowi_onnx_held(a->tensor->type) == 0 || a->tensor->rank > 1 ||
            (a->tensor->rank == 1 && a->tensor->shape[0] != 1))
            DHOWI_REFUSE("default_tensor is no number");
        return row_of(b, &one, out);
    }
    if (values->integers != NULL ||
        (values->tensor != NULL && !dhowi_is_float(dhowi_onnx_held(values->tensor->type))))
        return dhowi_constant(b, DHOW_I64, 0, NULL, &integer, out);
    return dhowi_constant(b, DHOW_F32, 0, NULL, &number, out);
}

/* ---- LabelEncoder and CategoryMapper: a place for each key, then its value ---- */

typedef struct pairing {
    list keys, values;
    int64_t *numbers; /* made for one of them, or NULL */
} pairing;

static void free_pairing(pairing *p) {
    free_list(&p->keys);
    free_list(&p->values);
    dhowi_free(p->numbers);
}

/* Version 1 numbers texts, in either direction. */
static dhow_status number_classes(bool from_texts, const list *classes, pairing *out) {
    out->numbers = dhowi_alloc_array((size_t)classes->count + 1, sizeof *out->numbers);
    if (out->numbers == NULL) return dhowi_fail_memory("plan");
    for (uint32_t i = 0; i < classes->count; i++) out->numbers[i] = i;
    const list numbers = {.integers = out->numbers, .count = classes->count};
    out->keys = from_texts ? *classes : numbers;
    out->values = from_texts ? numbers : *classes;
    return DHOW_OK;
}

static dhow_status read_pairing(dhowi_lowering *b, pairing *out) {
    const bool from_texts = dhowi_kind_of(b, b->in[0]) == DHOW_DATUM_TEXTS;
    list numbers, classes;
    *out = (pairing){0};
    if (b->node->op->arg == DHOWI_ML_CATEGORIES) {
        DHOWI_TRY(list_of(b, "cats_int64s", NULL, NULL, NULL, &numbers));
        DHOWI_TRY(list_of(b, "cats_int64s", NULL, "cats_strings", NULL, &classes));
        if (classes.texts == NULL) DHOWI_REFUSE("it has no cats_strings");
        out->keys = from_texts ? classes : numbers;
        out->values = from_texts ? numbers : classes;
    } else {
        const dhowi_onnx_attribute *a = dhowi_attr(b, "classes_strings", DHOWI_ATTRIBUTE_STRINGS);
        if (a != NULL && a->string_count > 0) {
            classes = (list){.texts = a->strings, .count = a->string_count};
            return number_classes(from_texts, &classes, out);
        }
        DHOWI_TRY(
            list_of(b, "keys_int64s", "keys_floats", "keys_strings", "keys_tensor", &out->keys));
        DHOWI_TRY(list_of(b, "values_int64s", "values_floats", "values_strings", "values_tensor",
                          &out->values));
    }
    if (out->keys.count == out->values.count) return DHOW_OK;
    DHOWI_REFUSE("it has %u keys and %u values", out->keys.count, out->values.count);
}

static dhow_status find_places(dhowi_lowering *b) {
    pairing p;
    dhow_status status = read_pairing(b, &p);
    if (status == DHOW_OK) status = find(b, b->in[0], &p.keys, &b->out[0]);
    free_pairing(&p);
    return status;
}

static dhow_status give_values(dhowi_lowering *b, const list *values, int32_t *out) {
    int32_t otherwise;
    dhowi_slice text;
    if (values->texts != NULL) {
        DHOWI_TRY(default_text(b, &text));
        return give_texts(b, values, text, *out, out);
    }
    DHOWI_TRY(default_number(b, values, &otherwise));
    return give_numbers(b, values, otherwise, *out, out);
}

static dhow_status give_pairing(dhowi_lowering *b) {
    pairing p;
    dhow_status status = read_pairing(b, &p);
    if (status == DHOW_OK) status = give_values(b, &p.values, &b->out[0]);
    free_pairing(&p);
    return status;
}

dhow_status dhowi_lower_ml_label_encoder(dhowi_lowering *b) {
    return dhowi_ml_in_two(b, find_places, give_pairing);
}

/* ---- OneHotEncoder and ZipMap ---- */

dhow_status dhowi_lower_ml_one_hot(dhowi_lowering *b) {
    list cats;
    int32_t x = b->in[0], places, classes;
    bool zeros;
    DHOWI_TRY(list_of(b, "cats_int64s", NULL, "cats_strings", NULL, &cats));
    DHOWI_TRY(dhowi_attr_flag(b, "zeros", true, &zeros));
    if (dhowi_kind_of(b, x) == DHOW_DATUM_TENSOR)
        DHOWI_TRY(dhowi_cast_to(b, x, DHOW_I64, &x)); /* as ONNX Runtime does of floats */
    DHOWI_TRY(find(b, x, &cats, &places));
    const int64_t count = cats.count;
    /* A value that is no category is an error then. */
    if (!zeros) DHOWI_TRY(dhowi_keep_within(b, places, "the category", 0, count - 1));
    dhowi_tensor_desc wide = *dhowi_desc_at(b, places);
    if (wide.rank == DHOW_MAX_RANK) DHOWI_REFUSE("x has %d dimensions", wide.rank);
    wide.shape[wide.rank++] = 1;
    DHOWI_TRY(dhowi_reshape(b, places, wide.rank, wide.shape, &places));
    DHOWI_TRY(dhowi_numbers(b, DHOW_I64, 0, 1, count, &classes));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_EQ, places, classes, &places));
    return dhowi_cast_to(b, places, DHOW_F32, &b->out[0]);
}

/* A list of dictionaries in ONNX: dhow gives what they are made of, a column for each class in the
 * order of the labels. */
dhow_status dhowi_lower_ml_zip_map(dhowi_lowering *b) {
    dhowi_ml_labels labels;
    int32_t x;
    DHOWI_TRY(dhowi_ml_labels_of(b, &labels));
    DHOWI_TRY(dhowi_ml_rows(b, b->in[0], &x));
    if (dhowi_desc_at(b, x)->shape[1] != labels.count)
        DHOWI_REFUSE("x has %" PRId64 " columns for %u labels", dhowi_desc_at(b, x)->shape[1],
                     labels.count);
    b->out[0] = x;
    return DHOW_OK;
}
