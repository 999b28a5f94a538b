/* SPDX-License-Identifier: Apache-2.0
 *
 * Making and reading values, see dhow/datum.h.
 */
#include "model/graph/datum.h"

#include <inttypes.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "base/objects/struct_size.h"
#include "tensor/tensor.h"

const char *dhowi_datum_kind_text(dhow_datum_kind kind) {
    static const char *const texts[] = {"a tensor", "an array of texts", "a sequence",
                                        "an optional value that is not there"};
    return (size_t)kind < DHOWI_COUNT(texts) ? texts[kind] : "unknown kind";
}

static dhow_status new_datum(const char *function, dhow_datum_kind kind, dhow_datum **out) {
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = dhowi_handle_new(DHOWI_DATUM, sizeof **out);
    if (*out == NULL) return dhowi_fail_memory(function);
    (*out)->kind = kind;
    return DHOW_OK;
}

dhow_status dhow_datum_of_tensor(dhow_tensor *tensor, dhow_datum **out) {
    static const char function[] = "dhow_datum_of_tensor";
    if (out != NULL) *out = NULL;
    DHOWI_TRY(dhowi_tensor_check(tensor, function, "tensor"));
    DHOWI_TRY(new_datum(function, DHOW_DATUM_TENSOR, out));
    dhowi_handle_retain(&tensor->handle);
    (*out)->tensor = tensor;
    (*out)->count = 1;
    return DHOW_OK;
}

dhow_status dhow_datum_of_nothing(dhow_datum **out) {
    return new_datum("dhow_datum_of_nothing", DHOW_DATUM_NONE, out);
}

/* ---- texts ---- */

static dhow_status count_texts(const char *function, int32_t rank, const int64_t *shape,
                               int64_t *count) {
    *count = 1;
    if (rank < 0 || rank > DHOW_MAX_RANK || (rank > 0 && shape == NULL))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: a rank of %d", function, rank);
    for (int32_t i = 0; i < rank; i++) {
        if (shape[i] < 0 || !dhowi_mul_i64(*count, shape[i], count))
            return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: extent %" PRId64 " of dimension %d", function,
                              shape[i], i);
    }
    return DHOW_OK;
}

/* Pointers and what they point to, in one piece. */
static char **copy_texts(const char *const *texts, size_t count) {
    size_t bytes;
    if (!dhowi_mul(count + 1, sizeof(char *), &bytes)) return NULL;
    size_t at = bytes;
    for (size_t i = 0; i < count; i++) {
        if (!dhowi_add(bytes, strlen(texts[i]) + 1, &bytes)) return NULL;
    }
    char **copy = dhowi_alloc(bytes);
    if (copy == NULL) return NULL;
    char *to = (char *)copy + at;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(texts[i]) + 1;
        memcpy(to, texts[i], length);
        copy[i] = to;
        to += length;
    }
    return copy;
}

dhow_status dhow_datum_of_texts(int32_t rank, const int64_t *shape, const char *const *texts,
                                dhow_datum **out) {
    static const char function[] = "dhow_datum_of_texts";
    int64_t count;
    if (out != NULL) *out = NULL;
    DHOWI_TRY(count_texts(function, rank, shape, &count));
    for (int64_t i = 0; i < count; i++) {
        if (texts == NULL || texts[i] == NULL)
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: text %" PRId64 " of %" PRId64 " is NULL",
                              function, i, count);
    }
    DHOWI_TRY(new_datum(function, DHOW_DATUM_TEXTS, out));
    (*out)->texts = copy_texts(texts, (size_t)count);
    if ((*out)->texts == NULL) {
        dhow_datum_release(*out);
        *out = NULL;
        return dhowi_fail_memory(function);
    }
    (*out)->rank = rank;
    (*out)->count = count;
    if (rank > 0) memcpy((*out)->shape, shape, (size_t)rank * sizeof *shape);
    return DHOW_OK;
}

/* ---- sequences ---- */

dhow_status dhow_datum_of_sequence(dhow_datum *const *items, uint32_t count, dhow_datum **out) {
    static const char function[] = "dhow_datum_of_sequence";
    if (out != NULL) *out = NULL;
    if (items == NULL && count > 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: items is NULL", function);
    for (uint32_t i = 0; i < count; i++) {
        DHOWI_TRY(dhowi_handle_check(items[i], DHOWI_DATUM, function, "item"));
        if (items[i]->kind > DHOW_DATUM_TEXTS || items[i]->kind != items[0]->kind)
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: item %u is %s, the first %s", function, i,
                              dhowi_datum_kind_text(items[i]->kind),
                              dhowi_datum_kind_text(items[0]->kind));
    }
    DHOWI_TRY(new_datum(function, DHOW_DATUM_SEQUENCE, out));
    (*out)->items = dhowi_alloc_array((size_t)count + 1, sizeof(dhow_datum *));
    if ((*out)->items == NULL) {
        dhow_datum_release(*out);
        *out = NULL;
        return dhowi_fail_memory(function);
    }
    for (uint32_t i = 0; i < count; i++) {
        dhowi_handle_retain(&items[i]->handle);
        (*out)->items[i] = items[i];
    }
    (*out)->count = count;
    return DHOW_OK;
}

void dhow_datum_release(dhow_datum *v) {
    DHOWI_KEEP_ERROR;
    if (!dhowi_handle_is(v, DHOWI_DATUM) || !dhowi_handle_drop(&v->handle)) return;
    dhow_tensor_release(v->tensor);
    for (int64_t i = 0; v->items != NULL && i < v->count; i++) dhow_datum_release(v->items[i]);
    dhowi_free(v->items);
    dhowi_free(v->texts);
    dhowi_handle_free(DHOWI_DATUM, v);
}

/* ---- reading ---- */

dhow_status dhow_datum_get_info(const dhow_datum *v, dhow_datum_info *given) {
    dhow_datum_info own, *out = &own;
    static const char function[] = "dhow_datum_get_info";
    DHOWI_TRY(DHOWI_STRUCT_OUT(dhow_datum_info, given, &own, function));
    DHOWI_TRY(dhowi_handle_check(v, DHOWI_DATUM, function, "datum"));
    out->kind = v->kind;
    out->rank = v->rank;
    out->count = v->count;
    memcpy(out->shape, v->shape, sizeof out->shape);
    DHOWI_STRUCT_GIVE(given, out);
    return DHOW_OK;
}

static dhow_status check_kind(const dhow_datum *v, const char *function, dhow_datum_kind kind) {
    DHOWI_TRY(dhowi_handle_check(v, DHOWI_DATUM, function, "datum"));
    if (v->kind == kind) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the datum is %s, not %s", function,
                      dhowi_datum_kind_text(v->kind), dhowi_datum_kind_text(kind));
}

static dhow_status check_index(const dhow_datum *v, const char *function, int64_t index) {
    if (index >= 0 && index < v->count) return DHOW_OK;
    return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: index %" PRId64 ", there are %" PRId64, function,
                      index, v->count);
}

dhow_status dhow_datum_tensor(const dhow_datum *v, dhow_tensor **out) {
    static const char function[] = "dhow_datum_tensor";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(check_kind(v, function, DHOW_DATUM_TENSOR));
    *out = v->tensor;
    return DHOW_OK;
}

dhow_status dhow_datum_text(const dhow_datum *v, int64_t index, const char **out) {
    static const char function[] = "dhow_datum_text";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(check_kind(v, function, DHOW_DATUM_TEXTS));
    DHOWI_TRY(check_index(v, function, index));
    *out = v->texts[index];
    return DHOW_OK;
}

dhow_status dhow_datum_item(const dhow_datum *v, uint32_t index, dhow_datum **out) {
    static const char function[] = "dhow_datum_item";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(check_kind(v, function, DHOW_DATUM_SEQUENCE));
    DHOWI_TRY(check_index(v, function, index));
    *out = v->items[index];
    return DHOW_OK;
}
