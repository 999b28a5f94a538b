/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes that the builder makes: rows of the operation table.
 */
#include "model/operators/row.h"

#include <string.h>

#include "base/memory/size.h"

/* Elementwise rows as instructions, which join what is around them. 0: another row. */
static dhowi_map_op instruction_of(dhowi_op_id id) {
    static const struct {
        dhowi_op_id id;
        dhowi_map_op op;
    } names[] = {{DHOWI_OP_relu, DHOWI_MAP_RELU},
                 {DHOWI_OP_gelu, DHOWI_MAP_GELU},
                 {DHOWI_OP_gelu_tanh, DHOWI_MAP_GELU_TANH},
                 {DHOWI_OP_silu, DHOWI_MAP_SILU},
                 {DHOWI_OP_sigmoid, DHOWI_MAP_SIGMOID},
                 {DHOWI_OP_tanh, DHOWI_MAP_TANH},
                 {DHOWI_OP_exp, DHOWI_MAP_EXP},
                 {DHOWI_OP_log, DHOWI_MAP_LOG},
                 {DHOWI_OP_sqrt, DHOWI_MAP_SQRT},
                 {DHOWI_OP_neg, DHOWI_MAP_NEG},
                 {DHOWI_OP_abs, DHOWI_MAP_ABS},
                 {DHOWI_OP_add, DHOWI_MAP_ADD},
                 {DHOWI_OP_sub, DHOWI_MAP_SUB},
                 {DHOWI_OP_mul, DHOWI_MAP_MUL},
                 {DHOWI_OP_div, DHOWI_MAP_DIV},
                 {DHOWI_OP_max, DHOWI_MAP_MAX},
                 {DHOWI_OP_min, DHOWI_MAP_MIN}};
    for (size_t i = 0; i < DHOWI_COUNT(names); i++) {
        if (names[i].id == id) return names[i].op;
    }
    return (dhowi_map_op)0;
}

/* A node of the builder: a row of the operation table with its attributes at hand. */
dhow_status dhowi_lower_row(dhowi_lowering *b) {
    const dhowi_node *node = b->node;
    const dhowi_op *op = dhowi_op_of(node->row);
    const dhowi_spec *specs[DHOWI_OP_MAX_INPUTS] = {NULL};
    dhowi_spec spec;
    for (uint32_t i = 0; i < b->in_count; i++)
        specs[i] = b->in[i] >= 0 ? dhowi_spec_at(b, b->in[i]) : NULL;
    DHOWI_TRY(dhowi_op_infer(op, specs, node->attrs, &spec));
    if (node->row == DHOWI_OP_flatten)
        return dhowi_reshape(b, b->in[0], spec.rank, spec.shape, &b->out[0]);
    const dhowi_map_op instruction = instruction_of(node->row);
    if (instruction != 0 && b->in_count == 1)
        return dhowi_map_one(b, instruction, 0, 0, b->in[0], &b->out[0]);
    if (instruction != 0) return dhowi_map_two(b, instruction, b->in[0], b->in[1], &b->out[0]);
    return dhowi_emit(b, node->row, b->in, b->in_count, node->attrs, &spec, &b->out[0]);
}

const dhowi_operator *dhowi_operator_of_row(void) {
    static const dhowi_operator row = {.name = "row",
                                       .since = 1,
                                       .until = INT32_MAX,
                                       .lower = dhowi_lower_row,
                                       .least = 1,
                                       .most = DHOWI_OP_MAX_INPUTS};
    return &row;
}
