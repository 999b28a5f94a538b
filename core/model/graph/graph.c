/* SPDX-License-Identifier: Apache-2.0
 *
 * Growing graphs - a count rises only when its element is complete - and how messages name nodes.
 */
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/array.h"
#include "model/graph/model.h"

bool dhowi_model_append(int32_t **array, uint32_t count, int32_t value) {
    int32_t *grown = dhowi_realloc_array(*array, (size_t)count + 1, sizeof **array);
    if (grown == NULL) return false;
    grown[count] = value;
    *array = grown;
    return true;
}

/* `name` lives as long as the model. */
dhow_status dhowi_model_new_value(dhow_model *m, dhowi_value_kind kind, const char *name,
                                  const dhowi_tensor_desc *desc, int32_t *out) {
    if (!dhowi_room((void **)&m->values, m->value_count, &m->value_capacity, sizeof *m->values))
        return dhowi_fail_memory("model");
    m->values[m->value_count] =
        (dhowi_value){.kind = kind, .desc = *desc, .name = (char *)(uintptr_t)name};
    *out = (int32_t)m->value_count++;
    return DHOW_OK;
}

dhow_status dhowi_model_add_output(dhow_model *m, const char *name, int32_t value) {
    char **names = dhowi_realloc_array(m->output_names, (size_t)m->output_count + 1, sizeof *names);
    if (names == NULL) return dhowi_fail_memory("model");
    m->output_names = names;
    if (!dhowi_model_append(&m->outputs, m->output_count, value)) return dhowi_fail_memory("model");
    m->output_names[m->output_count++] = (char *)(uintptr_t)name;
    dhowi_model_forget(m); /* a plan knows how many outputs there are */
    return DHOW_OK;
}

dhowi_value *dhowi_model_find_parameter(const dhow_model *m, const char *name) {
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        dhowi_value *v = &m->values[m->parameters[i]];
        if (strcmp(v->name, name) == 0) return v;
    }
    return NULL;
}

const char *dhowi_node_text(const dhowi_node *node, char *buffer, size_t capacity) {
    if (node->source == NULL || node->source->op.length == 0) { /* made by the builder */
        (void)snprintf(buffer, capacity, "%s%s%s%s", node->operation,
                       node->name != NULL ? " (layer '" : "", node->name != NULL ? node->name : "",
                       node->name != NULL ? "')" : "");
    } else {
        (void)snprintf(buffer, capacity, "%s (node '%.64s', opset %d)", node->operation,
                       node->name != NULL ? node->name : "", node->opset);
    }
    return buffer;
}
