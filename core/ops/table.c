/* SPDX-License-Identifier: Apache-2.0
 *
 * The operation table.
 */
#include "ops/rows.h"

static _Atomic int32_t g_kernel_index[DHOWI_OP_COUNT][DHOW_BOOL + 1];

#define ROW(id) [DHOWI_OP_##id] = {.name = #id, .kernel_index = g_kernel_index[DHOWI_OP_##id]
#define UNARY(id)                                                                                 \
    ROW(id), .kernel = #id, .inputs = {"x"}, .required = 1, .allowed = 1, .dtypes = DHOWI_FLOATS, \
             .flags = DHOWI_OP_ELEMENTWISE, .infer = dhowi_infer_same, .run = dhowi_run_unary     \
    }
#define BINARY(id)                                                                      \
    ROW(id), .kernel = #id, .inputs = {"a", "b"}, .required = 2, .allowed = 2,          \
             .dtypes = DHOWI_NUMBERS, .flags = DHOWI_OP_ELEMENTWISE | DHOWI_OP_STRIDED, \
             .infer = dhowi_infer_broadcast, .run = dhowi_run_binary                    \
    }
#define SOFTMAX(id)                                                                               \
    ROW(id), .kernel = #id, .inputs = {"x"}, .required = 1, .allowed = 1, .dtypes = DHOWI_FLOATS, \
             .infer = dhowi_infer_rows, .run = dhowi_run_softmax                                  \
    }
#define POOL(id)                                                                                  \
    ROW(id), .kernel = #id, .inputs = {"x"}, .required = 1, .allowed = 1, .dtypes = DHOWI_FLOATS, \
             .infer = dhowi_infer_pool2d, .run = dhowi_run_pool2d                                 \
    }
#define REDUCE(id, base, types)                                                              \
    ROW(id), .kernel = base, .inputs = {"x"}, .required = 1, .allowed = 1, .dtypes = types,  \
             .flags = DHOWI_OP_REDUCES, .infer = dhowi_infer_reduce, .run = dhowi_run_reduce \
    }

static const dhowi_op k_ops[] = {UNARY(relu),
                                 UNARY(gelu),
                                 UNARY(gelu_tanh),
                                 UNARY(silu),
                                 UNARY(sigmoid),
                                 UNARY(tanh),
                                 UNARY(exp),
                                 UNARY(log),
                                 UNARY(sqrt),
                                 UNARY(neg),
                                 UNARY(abs),
                                 BINARY(add),
                                 BINARY(sub),
                                 BINARY(mul),
                                 BINARY(div),
                                 BINARY(max),
                                 BINARY(min),
                                 ROW(matmul),
                                 .kernel = "matmul",
                                 .inputs = {"a", "b"},
                                 .required = 2,
                                 .allowed = 2,
                                 .dtypes = DHOWI_FLOATS,
                                 .flags = DHOWI_OP_STRIDED,
                                 .infer = dhowi_infer_matmul,
                                 .run = dhowi_run_matmul},
                      ROW(linear), .kernel = "matmul", .inputs = {"x", "weight", "bias"},
                      .required = 2, .allowed = 3, .dtypes = DHOWI_FLOATS,
                      .infer = dhowi_infer_linear, .run = dhowi_run_linear
}
, ROW(conv2d), .kernel = "conv2d", .inputs = {"x", "weight", "bias"}, .required = 2, .allowed = 3,
               .dtypes = DHOWI_FLOATS, .infer = dhowi_infer_conv2d, .run = dhowi_run_conv2d
}
, POOL(maxpool2d), POOL(avgpool2d), SOFTMAX(softmax), SOFTMAX(log_softmax), ROW(layernorm),
    .kernel = "layernorm", .inputs = {"x", "gamma", "beta"}, .required = 3, .allowed = 3,
    .dtypes = DHOWI_FLOATS, .infer = dhowi_infer_layernorm, .run = dhowi_run_layernorm
}
, REDUCE(reduce_sum, "reduce_sum", DHOWI_REDUCIBLE),
    REDUCE(reduce_mean, "reduce_sum", DHOWI_FLOATS),
    REDUCE(reduce_max, "reduce_max", DHOWI_REDUCIBLE),
    REDUCE(reduce_min, "reduce_min", DHOWI_REDUCIBLE), ROW(argmax),
    .kernel = "argmax", .inputs = {"x"}, .required = 1, .allowed = 1, .dtypes = DHOWI_REDUCIBLE,
    .flags = DHOWI_OP_REDUCES, .infer = dhowi_infer_argmax, .run = dhowi_run_argmax
}
, ROW(gather), .kernel = NULL, .inputs = {"x", "index"}, .required = 2, .allowed = 2,
               .dtypes = DHOWI_ANY, .infer = dhowi_infer_gather, .run = dhowi_run_gather
}
, ROW(flatten), .kernel = NULL, .inputs = {"x"}, .required = 1, .allowed = 1, .dtypes = DHOWI_ANY,
                .flags = DHOWI_OP_STRIDED, .infer = dhowi_infer_flatten, .run = dhowi_run_flatten
}
,
}
;

const dhowi_op *dhowi_op_of(dhowi_op_id id) { return &k_ops[id]; }
