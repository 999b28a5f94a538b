/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of the builder that are operators of ONNX, see build.h.
 */
#include <string.h>

#include "base/memory/size.h"
#include "model/build/build.h"
#include "model/operators/operators.h"

static void note(dhowi_build_step *s, dhow_status status) {
    if (s->status == DHOW_OK) s->status = status;
}

dhow_status dhowi_step_begin(dhow_model *m, dhowi_build_step *s, const char *function,
                             const char *op, const int32_t *in, uint32_t count,
                             dhow_model_value *out) {
    *s = (dhowi_build_step){.function = function, .op = op, .in_count = count, .result_count = 1};
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    for (uint32_t i = 0; i < count; i++) {
        s->in[i] = in[i];
        if (i > 0 && in[i] < 0) continue;
        DHOWI_TRY(dhowi_build_value(m, function, in[i]));
        if (m->values[in[i]].desc.rank < 0)
            return dhowi_fail(DHOW_UNSUPPORTED, "%s: the shape of its input is not known",
                              function);
    }
    s->mark = dhowi_build_here(m);
    s->result[0] = m->values[in[0]].desc;
    return DHOW_OK;
}

static dhowi_onnx_attribute *attribute(dhowi_build_step *s, const char *name) {
    dhowi_onnx_attribute *a = &s->attributes[s->attribute_count++];
    *a = (dhowi_onnx_attribute){.name = {name, strlen(name)}};
    return a;
}

void dhowi_step_int(dhowi_build_step *s, const char *name, int64_t value) {
    attribute(s, name)->i = value;
}

void dhowi_step_float(dhowi_build_step *s, const char *name, float value) {
    attribute(s, name)->f = value;
}

void dhowi_step_text(dhowi_build_step *s, const char *name, const char *value) {
    attribute(s, name)->s = (dhowi_slice){value, strlen(value)};
}

void dhowi_step_ints(dhow_model *m, dhowi_build_step *s, const char *name, const int64_t *values,
                     uint32_t count) {
    int64_t *kept = dhowi_arena_array(&m->arena, (size_t)count + 1, sizeof *kept);
    if (kept == NULL) {
        note(s, dhowi_fail_memory(s->function));
        return;
    }
    if (count > 0) memcpy(kept, values, count * sizeof *kept);
    dhowi_onnx_attribute *a = attribute(s, name);
    a->ints = kept;
    a->int_count = count;
}

void dhowi_step_constant(dhow_model *m, dhowi_build_step *s, dhow_dtype dtype, int32_t rank,
                         int64_t count, const void *data) {
    int32_t value = -1;
    if (s->status == DHOW_OK) s->status = dhowi_build_constant(m, dtype, rank, count, data, &value);
    s->in[s->in_count++] = value;
}

/* The attributes as a node of a file would have them; it has no name of an operator. */
static const dhowi_onnx_node *source_of(dhow_model *m, const dhowi_build_step *s) {
    const uint32_t count = s->attribute_count;
    dhowi_onnx_node *node = dhowi_arena_array(&m->arena, 1, sizeof *node);
    dhowi_onnx_attribute *kept = dhowi_arena_array(&m->arena, (size_t)count + 1, sizeof *kept);
    if (node == NULL || kept == NULL) return NULL;
    memcpy(kept, s->attributes, count * sizeof *kept);
    node->attributes = kept;
    node->attribute_count = count;
    return node;
}

dhow_status dhowi_step_end(dhow_model *m, dhowi_build_step *s, dhow_model_value *out) {
    const dhowi_operator *other;
    const dhowi_operator *op =
        dhowi_operator_find(s->op, strlen(s->op), DHOWI_LATEST_OPSET, &other);
    const dhowi_onnx_node *source = source_of(m, s);
    if (source == NULL) note(s, dhowi_fail_memory(s->function));
    if (s->status == DHOW_OK) s->status = dhowi_build_operator(m, s, op, source, out);
    return s->status == DHOW_OK ? DHOW_OK : dhowi_build_undo(m, s->mark, s->status);
}
