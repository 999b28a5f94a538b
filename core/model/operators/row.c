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
                 {DHOWI_OP_min, DHOWI_MAP_MIN},
                 {DHOWI_OP_add_scalar, DHOWI_MAP_ADD},
                 {DHOWI_OP_sub_scalar, DHOWI_MAP_SUB},
                 {DHOWI_OP_mul_scalar, DHOWI_MAP_MUL},
                 {DHOWI_OP_div_scalar, DHOWI_MAP_DIV},
                 {DHOWI_OP_pow_scalar, DHOWI_MAP_POW},
                 {DHOWI_OP_max_scalar, DHOWI_MAP_MAX},
                 {DHOWI_OP_min_scalar, DHOWI_MAP_MIN}};
    for (size_t i = 0; i < DHOWI_COUNT(names); i++) {
        if (names[i].id == id) return names[i].op;
    }
    return (dhowi_map_op)0;
}

static bool takes_number(dhowi_op_id id) {
    return id >= DHOWI_OP_add_scalar && id <= DHOWI_OP_min_scalar;
}

/* An integer that became 2^53 may have been its neighbour. */
static bool is_exact(double number) { return number > -0x1p53 && number < 0x1p53; }

/* x op s. Programs hold numbers as doubles: what those do not have exactly is an operand. */
static dhow_status lower_number(dhowi_lowering *b, dhowi_map_op op, dhow_scalar s, int32_t x,
                                int32_t *out) {
    const dhow_dtype dtype = dhowi_desc_at(b, x)->dtype;
    const double number = dhowi_scalar_float(s);
    uint64_t bits;
    int32_t operand;
    if (op == DHOWI_MAP_POW && number == 2) return dhowi_map_one(b, DHOWI_MAP_SQUARE, 0, 0, x, out);
    if (op == DHOWI_MAP_POW && number == 0.5 && dhowi_is_float(dtype))
        return dhowi_map_one(b, DHOWI_MAP_SQRT, 0, 0, x, out);
    if (dhowi_is_float(dtype) || is_exact(number)) return dhowi_map_number(b, op, x, number, out);
    DHOWI_TRY(dhowi_scalar_bits("scalar", dtype, s, &bits));
    DHOWI_TRY(dhowi_constant(b, dtype, 0, NULL, &bits, &operand));
    return dhowi_map_two(b, op, x, operand, out);
}

static dhow_status lower_affine(dhowi_lowering *b, const dhow_scalar s[2], int32_t x,
                                int32_t *out) {
    const double a = dhowi_scalar_float(s[0]), q = dhowi_scalar_float(s[1]);
    if (dhowi_is_float(dhowi_desc_at(b, x)->dtype) || (is_exact(a) && is_exact(q)))
        return dhowi_map_one(b, DHOWI_MAP_LINEAR, a, q, x, out);
    DHOWI_TRY(lower_number(b, DHOWI_MAP_MUL, s[0], x, out));
    return lower_number(b, DHOWI_MAP_ADD, s[1], *out, out);
}

/* A node of the builder: a row of the operation table with its attributes at hand. */
dhow_status dhowi_lower_row(dhowi_lowering *b) {
    const dhowi_node *node = b->node;
    const dhowi_op *op = dhowi_op_of(node->row);
    const dhowi_tensor_desc *descs[DHOWI_OP_MAX_INPUTS] = {NULL};
    dhowi_tensor_desc desc;
    for (uint32_t i = 0; i < b->in_count; i++)
        descs[i] = b->in[i] >= 0 ? dhowi_desc_at(b, b->in[i]) : NULL;
    DHOWI_TRY(dhowi_op_infer(op, descs, node->attrs, &desc));
    if (node->row == DHOWI_OP_flatten)
        return dhowi_reshape(b, b->in[0], desc.rank, desc.shape, &b->out[0]);
    const dhowi_map_op instruction = instruction_of(node->row);
    if (node->row == DHOWI_OP_affine)
        return lower_affine(b, node->attrs->scalar, b->in[0], &b->out[0]);
    if (takes_number(node->row))
        return lower_number(b, instruction, node->attrs->scalar[0], b->in[0], &b->out[0]);
    if (instruction != 0 && b->in_count == 1)
        return dhowi_map_one(b, instruction, 0, 0, b->in[0], &b->out[0]);
    if (instruction != 0) return dhowi_map_two(b, instruction, b->in[0], b->in[1], &b->out[0]);
    return dhowi_emit(b, node->row, b->in, b->in_count, node->attrs, &desc, &b->out[0]);
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
