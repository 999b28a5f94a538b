/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: an ONNX file, read and made into a graph. What is accepted has nodes whose
 * values exist, each after those it waits for, and takes memory in proportion to the file.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "model/lower/lower.h"

static void end_model(dhow_model *m) {
    if (m->graph.node_capacity > 0) dhowi_free(m->graph.nodes);
    dhowi_free(m->values);
    dhowi_free(m->inputs);
    dhowi_free(m->outputs);
    dhowi_free(m->parameters);
    dhowi_free(m->output_names);
    dhowi_arena_end(&m->arena);
}

static void check_nodes(const dhow_model *m, const dhowi_subgraph *g, uint8_t *made) {
    for (uint32_t i = 0; i < g->input_count; i++) {
        if (g->inputs[i] < 0 || g->inputs[i] >= (int32_t)m->value_count) abort();
        made[g->inputs[i]] = 1; /* a loop binds them */
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        const dhowi_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->in_count; k++) {
            if (n->in[k] >= (int32_t)m->value_count) abort();
            if (n->in[k] >= 0 && !made[n->in[k]]) abort();
        }
        for (int b = 0; b < 2; b++) {
            if (n->branch[b] != NULL) check_nodes(m, n->branch[b], made);
        }
        for (uint32_t k = 0; k < n->out_count; k++) {
            if (n->out[k] >= (int32_t)m->value_count) abort();
            if (n->out[k] >= 0) made[n->out[k]] = 1;
        }
    }
}

static void check_model(const dhow_model *m) {
    uint8_t *made = dhowi_alloc((size_t)m->value_count + 1);
    if (made == NULL) return;
    for (uint32_t i = 0; i < m->value_count; i++) made[i] = m->values[i].kind != DHOWI_VALUE_RESULT;
    check_nodes(m, &m->graph, made);
    for (uint32_t i = 0; i < m->output_count; i++) {
        if (m->outputs[i] < 0 || m->outputs[i] >= (int32_t)m->value_count) abort();
    }
    dhowi_free(made);
}

static void read_initializers(const dhowi_onnx_file *file) {
    for (uint32_t i = 0; i < file->graph->initializer_count; i++) {
        const dhowi_onnx_tensor *t = &file->graph->initializers[i];
        dhow_dtype dtype;
        int64_t count;
        uint64_t bytes;
        if (dhowi_onnx_tensor_check(t, &dtype, &count, &bytes) != DHOW_OK) continue;
        if (t->external || bytes > (uint64_t)file->bytes * 8) continue;
        void *to = dhowi_alloc(bytes + 1);
        if (to != NULL && dhowi_onnx_tensor_read(file, t, NULL, to) != DHOW_OK &&
            dhow_last_error()[0] == '\0')
            abort();
        dhowi_free(to);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dhowi_onnx_file *file;
    dhow_model model;
    if (dhowi_onnx_parse("fuzz.onnx", data, size, &file) != DHOW_OK) {
        if (file != NULL || dhow_last_error()[0] == '\0') abort();
        return 0;
    }
    if (file->arena.taken > size * 32 + (2u << 20)) abort();
    read_initializers(file);
    memset(&model, 0, sizeof model);
    dhow_status status = dhowi_model_import(&model, file);
    if (status == DHOW_OK) check_model(&model);
    if (status != DHOW_OK && dhow_last_error()[0] == '\0') abort();
    end_model(&model);
    dhowi_onnx_close(file);
    return 0;
}
