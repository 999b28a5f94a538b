/* SPDX-License-Identifier: Apache-2.0
 *
 * The operation table: one row per operation, in the order of DHOWI_OP_MAP.
 */
#include "ops/run/rows.h"
#include "ops/scalar.h"

static _Atomic int32_t g_kernel_index[DHOWI_OP_COUNT][DHOW_BOOL + 1];

#define IN(...) \
    { __VA_ARGS__ }
#define ROW(id, kernel_, inputs_, least, most, types, flags_, infer_, run_) \
    [DHOWI_OP_##id] = {.name = #id,                                         \
                       .kernel = kernel_,                                   \
                       .inputs = inputs_,                                   \
                       .required = least,                                   \
                       .allowed = most,                                     \
                       .dtypes = types,                                     \
                       .flags = flags_,                                     \
                       .infer = infer_,                                     \
                       .run = run_,                                         \
                       .kernel_index = g_kernel_index[DHOWI_OP_##id]}

#define UNARY(id, formula)                                                            \
    ROW(id, #id, IN("x"), 1, 1, DHOWI_FLOATS, DHOWI_OP_ELEMENTWISE, dhowi_infer_same, \
        dhowi_run_unary),
#define BINARY(id, formula)                                                                  \
    ROW(id, #id, IN("a", "b"), 2, 2, DHOWI_NUMBERS, DHOWI_OP_ELEMENTWISE | DHOWI_OP_STRIDED, \
        dhowi_infer_broadcast, dhowi_run_binary),
#define SCALAR(id, form)                                                     \
    ROW(id, "scalar", IN("x"), 1, 1, DHOWI_ANY & ~DHOW_DTYPE_BIT(DHOW_BOOL), \
        DHOWI_OP_ELEMENTWISE | form << DHOWI_FORM_SHIFT, dhowi_infer_scalar, dhowi_run_scalar),
#define WITH_SCALAR(id, formula) SCALAR(id##_scalar, DHOWI_FORM_##id)
/* Operations without shape inference: only models use them, and they supply the shape. */
#define INNER(id, kernel_, most, types, flags_) \
    ROW(id, kernel_, IN("x"), 1, most, types, flags_, NULL, dhowi_run_##id)

enum { F32 = DHOW_DTYPE_BIT(DHOW_F32) };

/* clang-format off */
static const dhowi_op k_ops[] = {
    DHOW_UNARY_MAP(UNARY)
    DHOW_BINARY_MAP(BINARY)
    DHOW_SCALAR_MAP(WITH_SCALAR)
    SCALAR(affine, DHOWI_FORM_affine)

    /*  name         kernel         inputs                        least, most, types     flags             rule for the result      function */
    ROW(matmul,      "matmul",      IN("a", "b"),                 2, 2, DHOWI_FLOATS,    DHOWI_OP_STRIDED, dhowi_infer_matmul,      dhowi_run_matmul),
    ROW(linear,      "matmul",      IN("x", "weight", "bias"),    2, 3, DHOWI_FLOATS,    0,                dhowi_infer_linear,      dhowi_run_linear),
    ROW(conv2d,      "conv2d",      IN("x", "weight", "bias"),    2, 3, DHOWI_FLOATS,    0,                dhowi_infer_conv2d,      dhowi_run_conv2d),
    ROW(maxpool2d,   "maxpool2d",   IN("x"),                      1, 1, DHOWI_FLOATS,    0,                dhowi_infer_pool2d,      dhowi_run_pool2d),
    ROW(avgpool2d,   "avgpool2d",   IN("x"),                      1, 1, DHOWI_FLOATS,    0,                dhowi_infer_pool2d,      dhowi_run_pool2d),
    ROW(softmax,     "softmax",     IN("x"),                      1, 1, DHOWI_FLOATS,    0,                dhowi_infer_rows,        dhowi_run_softmax),
    ROW(log_softmax, "log_softmax", IN("x"),                      1, 1, DHOWI_FLOATS,    0,                dhowi_infer_rows,        dhowi_run_softmax),
    ROW(layernorm,   "layernorm",   IN("x", "gamma", "beta"),     3, 3, DHOWI_FLOATS,    0,                dhowi_infer_layernorm,   dhowi_run_layernorm),
    ROW(reduce_sum,  "reduce_sum",  IN("x"),                      1, 1, DHOWI_REDUCIBLE, DHOWI_OP_REDUCES, dhowi_infer_reduce,      dhowi_run_reduce),
    ROW(reduce_mean, "reduce_sum",  IN("x"),                      1, 1, DHOWI_FLOATS,    DHOWI_OP_REDUCES | DHOWI_OP_MEAN, dhowi_infer_reduce, dhowi_run_reduce),
    ROW(reduce_max,  "reduce_max",  IN("x"),                      1, 1, DHOWI_REDUCIBLE, DHOWI_OP_REDUCES, dhowi_infer_reduce,      dhowi_run_reduce),
    ROW(reduce_min,  "reduce_min",  IN("x"),                      1, 1, DHOWI_REDUCIBLE, DHOWI_OP_REDUCES, dhowi_infer_reduce,      dhowi_run_reduce),
    ROW(reduce_prod, "reduce_prod", IN("x"),                      1, 1, DHOWI_REDUCIBLE, DHOWI_OP_REDUCES, dhowi_infer_reduce,      dhowi_run_reduce),
    ROW(argmax,      "argmax",      IN("x"),                      1, 1, DHOWI_REDUCIBLE, DHOWI_OP_REDUCES, dhowi_infer_argmax,      dhowi_run_argmax),
    ROW(gather,      NULL,          IN("x", "index"),             2, 2, DHOWI_ANY,       0,                dhowi_infer_gather,      dhowi_run_gather),
    ROW(flatten,     NULL,          IN("x"),                      1, 1, DHOWI_ANY,       DHOWI_OP_STRIDED, dhowi_infer_flatten,     dhowi_run_flatten),

    /*    name              kernel              most, types           flags */
    INNER(map,              "map",              4, DHOWI_ANY,         DHOWI_OP_ELEMENTWISE | DHOWI_OP_STRIDED),
    INNER(cast,             NULL,               1, DHOWI_ANY,         DHOWI_OP_ELEMENTWISE),
    INNER(copy,             NULL,               1, DHOWI_ANY,         DHOWI_OP_STRIDED),
    INNER(bitcast,          NULL,               1, DHOWI_ANY,         DHOWI_OP_STRIDED),
    INNER(fill,             NULL,               0, DHOWI_ANY,         DHOWI_OP_STRIDED),
    INNER(conv3d,           "conv3d",           3, DHOWI_WIDE_FLOATS, 0),
    INNER(conv_transpose,   "conv_transpose3d", 3, DHOWI_WIDE_FLOATS, 0),
    INNER(pool,             "pool3d",           1, DHOWI_WIDE_FLOATS, 0),
    INNER(pool_blocks,      "pool_blocks",      1, (DHOWI_FLOATS & ~DHOW_DTYPE_BIT(DHOW_F64)) | DHOW_DTYPE_BIT(DHOW_U8) | DHOW_DTYPE_BIT(DHOW_I8), 0),
    INNER(pool_index,       "maxpool3d_index",  1, DHOWI_WIDE_FLOATS, 0),
    INNER(resample,         "resample",         3, DHOWI_WIDE_FLOATS, 0),
    INNER(gather_axis,      NULL,               2, DHOWI_ANY,         0),
    INNER(gather_elements,  NULL,               2, DHOWI_ANY,         0),
    INNER(scatter_elements, NULL,               2, DHOWI_ANY,         0),
    INNER(scatter_rows,     NULL,               2, DHOWI_ANY,         0),
    INNER(normalize,        "normalize",        2, DHOWI_FLOATS,      0),
    INNER(lrn,              "lrn",              1, DHOWI_WIDE_FLOATS, 0),
    INNER(lstm_cell,        "lstm_cell",        4, DHOWI_WIDE_FLOATS, 0),
    INNER(recurrent,        "recurrent",        6, F32,               0),
    INNER(cumsum,           "cumsum",           1, DHOWI_WIDE,        0),
    INNER(cumprod,          "cumprod",          1, DHOWI_WIDE,        0),
    INNER(dropout,          "dropout",          2, DHOWI_FLOATS,      0),
    INNER(topk,             NULL,               1, DHOWI_ANY,         0),
    INNER(decode,           "decode",           2, F32,               0),
    INNER(encode,           "encode",           3, F32,               0),
    INNER(quantize,         "quantize",         3, F32,               0),
    INNER(range,            "range",            1, F32,               0),
    INNER(scale_of_range,   "scale_of_range",   1, F32,               0),
    INNER(mean_codes,       NULL,               1, DHOWI_ANY,         0),
    INNER(roi_align,        "roi_align",        3, DHOWI_WIDE_FLOATS, 0),
    INNER(determinant,      "determinant",      1, DHOWI_WIDE_FLOATS, 0),
    INNER(matmul_nbits,     "matmul",           6, DHOWI_FLOATS & ~DHOW_DTYPE_BIT(DHOW_F64), 0),
    INNER(attention,        "attention",        4, DHOWI_FLOATS & ~DHOW_DTYPE_BIT(DHOW_F64), DHOWI_OP_STRIDED | DHOWI_OP_ALIGNED),
    INNER(attention_cache,  "attention_cache",  5, DHOWI_FLOATS & ~DHOW_DTYPE_BIT(DHOW_F64), DHOWI_OP_STRIDED | DHOWI_OP_ALIGNED),
    INNER(write_steps,      NULL,               2, DHOWI_ANY,         DHOWI_OP_STRIDED | DHOWI_OP_ALIGNED),
    INNER(linear_attention, "linear_attention", 6, F32,               0),
    INNER(causal_conv,      "causal_conv",      4, F32,               0),
    INNER(experts,          "expert_product",   6, F32,               0),
    INNER(softmax_scores,   "softmax_scores",   2, DHOWI_FLOATS & ~DHOW_DTYPE_BIT(DHOW_F64), 0),
    INNER(norm_sum,         "norm_sum",         4, DHOWI_FLOATS & ~DHOW_DTYPE_BIT(DHOW_F64), 0),
    INNER(trees,            "trees",            5, DHOWI_WIDE_FLOATS, 0),
    /* of a vendor alone */
    INNER(conv_data_gradient, NULL,             2, DHOWI_FLOATS,      0),
    INNER(conv_weight_gradient, NULL,           2, DHOWI_FLOATS,      0),
    INNER(matmul_integer,   NULL,               2, DHOW_DTYPE_BIT(DHOW_U8) | DHOW_DTYPE_BIT(DHOW_I8), 0),
    INNER(conv2d_integer,   NULL,               4, DHOW_DTYPE_BIT(DHOW_U8) | DHOW_DTYPE_BIT(DHOW_I8), 0),
    INNER(matmul_codes,     NULL,               4, DHOW_DTYPE_BIT(DHOW_U8) | DHOW_DTYPE_BIT(DHOW_I8), 0),
    INNER(map_codes,        NULL,               4, DHOWI_ANY,         DHOWI_OP_STRIDED),
    INNER(scale_channels,   "scale_channels",   3, DHOW_DTYPE_BIT(DHOW_F16) | DHOW_DTYPE_BIT(DHOW_BF16), DHOWI_OP_ELEMENTWISE),
};
/* clang-format on */

const dhowi_op *dhowi_op_of(dhowi_op_id id) { return &k_ops[id]; }
