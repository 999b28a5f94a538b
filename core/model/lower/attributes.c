/* SPDX-License-Identifier: Apache-2.0
 *
 * The attributes of the node being lowered.
 */
#include <inttypes.h>
#include <string.h>

#include "base/memory/size.h"
#include "model/lower/lower.h"

/* A file may leave the type out. Another one is noted: the values that are asked for would be those
 * of an attribute that is not there. */
static void check_type(const dhowi_lowering *b, const dhowi_onnx_attribute *a,
                       dhowi_attribute_type wanted) {
    if (wanted == DHOWI_ATTRIBUTE_ANY || a->type == 0 || a->type == (int32_t)wanted) return;
    if (b->misread == NULL || b->misread->attribute != NULL) return;
    *b->misread = (dhowi_misread){a, wanted};
}

const dhowi_onnx_attribute *dhowi_attr(const dhowi_lowering *b, const char *name,
                                       dhowi_attribute_type type) {
    const dhowi_onnx_node *node = b->node->source;
    for (uint32_t i = 0; node != NULL && i < node->attribute_count; i++) {
        if (!dhowi_slice_is(node->attributes[i].name, name)) continue;
        check_type(b, &node->attributes[i], type);
        return &node->attributes[i];
    }
    return NULL;
}

dhow_status dhowi_refuse_misread(const dhowi_misread *m) {
    static const char *const names[] = {"ANY",   "FLOAT",  "INT",  "STRING", "TENSOR",
                                        "GRAPH", "FLOATS", "INTS", "STRINGS"};
    const dhowi_slice name = m->attribute->name;
    const int32_t type = m->attribute->type;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "its attribute %.*s is of type %s, not %s",
                      (int)DHOWI_MIN(name.length, (size_t)64), name.data,
                      type > 0 && (size_t)type < DHOWI_COUNT(names) ? names[type] : "unknown",
                      names[m->wanted]);
}

int64_t dhowi_attr_int(const dhowi_lowering *b, const char *name, int64_t otherwise) {
    const dhowi_onnx_attribute *a = dhowi_attr(b, name, DHOWI_ATTRIBUTE_INT);
    return a != NULL ? a->i : otherwise;
}

dhow_status dhowi_attr_needed(const dhowi_lowering *b, const char *name, int64_t *out) {
    const dhowi_onnx_attribute *a = dhowi_attr(b, name, DHOWI_ATTRIBUTE_INT);
    if (a == NULL) DHOWI_REFUSE("its attribute %s is missing", name);
    *out = a->i;
    return DHOW_OK;
}

dhow_status dhowi_attr_only(const dhowi_lowering *b, const char *name, int64_t value) {
    const int64_t given = dhowi_attr_int(b, name, value);
    if (given == value) return DHOW_OK;
    return dhowi_fail(DHOW_UNSUPPORTED, "%s is %" PRId64 ", dhow has %" PRId64, name, given, value);
}

dhow_status dhowi_attr_flag(const dhowi_lowering *b, const char *name, bool otherwise, bool *out) {
    const int64_t value = dhowi_attr_int(b, name, otherwise);
    *out = value != 0;
    if (value != 0 && value != 1) DHOWI_REFUSE("%s is %" PRId64 ", not 0 or 1", name, value);
    return DHOW_OK;
}

dhow_status dhowi_refuse_text(const dhowi_lowering *b, const char *name) {
    const dhowi_onnx_attribute *a = dhowi_attr(b, name, DHOWI_ATTRIBUTE_STRING);
    const dhowi_slice s = a != NULL ? a->s : (dhowi_slice){NULL, 0};
    return dhowi_fail(DHOW_UNSUPPORTED, "unsupported %s '%.*s'", name,
                      (int)DHOWI_MIN(s.length, (size_t)32), s.data != NULL ? s.data : "");
}

dhow_status dhowi_refuse_input(const dhowi_lowering *b, uint32_t input, const char *name) {
    char s[160];
    DHOWI_REFUSE("%s is %s", name, dhowi_desc_text(dhowi_desc_at(b, b->in[input]), s, sizeof s));
}

dhow_status dhowi_expect_floats(const dhowi_lowering *b, uint32_t input, const char *name,
                                int32_t rank) {
    const dhowi_tensor_desc *own = dhowi_desc_at(b, b->in[input]);
    char s[160];
    if (own->rank == rank && dhowi_is_float(own->dtype)) return DHOW_OK;
    DHOWI_REFUSE("%s is %s, %d dimensions of floats are wanted", name,
                 dhowi_desc_text(own, s, sizeof s), rank);
}

float dhowi_attr_float(const dhowi_lowering *b, const char *name, float otherwise) {
    const dhowi_onnx_attribute *a = dhowi_attr(b, name, DHOWI_ATTRIBUTE_FLOAT);
    return a != NULL ? a->f : otherwise;
}

const int64_t *dhowi_attr_ints(const dhowi_lowering *b, const char *name, uint32_t *count) {
    const dhowi_onnx_attribute *a = dhowi_attr(b, name, DHOWI_ATTRIBUTE_INTS);
    *count = a != NULL ? a->int_count : 0;
    return a != NULL ? a->ints : NULL;
}

bool dhowi_attr_is(const dhowi_lowering *b, const char *name, const char *text,
                   const char *otherwise) {
    const dhowi_onnx_attribute *a = dhowi_attr(b, name, DHOWI_ATTRIBUTE_STRING);
    return a != NULL ? dhowi_slice_is(a->s, text) : strcmp(text, otherwise) == 0;
}

dhow_status dhowi_axes(dhowi_lowering *b, uint32_t from, int64_t *out, uint32_t *count) {
    const int64_t *axes = dhowi_attr_ints(b, "axes", count);
    if (*count > DHOW_MAX_RANK) DHOWI_REFUSE("%u axes", *count);
    if (axes != NULL) memcpy(out, axes, *count * sizeof *out);
    if (axes != NULL || !dhowi_given(b, from)) return DHOW_OK;
    return dhowi_ints(b, b->in[from], out, DHOW_MAX_RANK, count);
}

dhow_status dhowi_shape_values(dhowi_lowering *b, int32_t ref, const char *name,
                               int64_t out[DHOW_MAX_RANK], uint32_t *count) {
    const int64_t given = dhowi_count_of(dhowi_desc_at(b, ref));
    if (given > DHOW_MAX_RANK)
        return dhowi_fail(DHOW_UNSUPPORTED, "%s has %" PRId64 " dimensions, dhow takes %d", name,
                          given, DHOW_MAX_RANK);
    return dhowi_ints(b, ref, out, DHOW_MAX_RANK, count);
}
