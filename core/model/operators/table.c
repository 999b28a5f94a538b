/* SPDX-License-Identifier: Apache-2.0
 *
 * The operator table: names of ONNX, the opsets a row holds for, and how it is lowered. Rows of one
 * function differ in `arg`.
 */
#include <string.h>

#include "base/memory/size.h"
#include "model/operators/math/math.h"
#include "model/operators/nn/nn.h"
#include "model/operators/operators.h"
#include "model/operators/row.h"
#include "model/operators/shape/shape.h"

enum { LATEST = 25, MANY = DHOWI_MAX_OUTPUTS_OF_NODE };

#define UNARY(name, since, op) \
    { name, since, LATEST, dhowi_lower_unary, DHOWI_MAP_##op, 1, 1, 0 }
#define BINARY(name, since, op) \
    { name, since, LATEST, dhowi_lower_binary, DHOWI_MAP_##op, 2, 2, 0 }
#define COMPARE(name, since, op) \
    { name, since, LATEST, dhowi_lower_compare, DHOWI_MAP_##op, 2, 2, 0 }
#define LOGIC(name, count, op) \
    { name, 1, LATEST, dhowi_lower_logic, DHOWI_MAP_##op, count, count, 0 }
#define VARIADIC(name, op) \
    { name, 1, LATEST, dhowi_lower_variadic, DHOWI_MAP_##op, 1, MANY, 0 }
#define REDUCE(name, kind) \
    { name, 1, LATEST, dhowi_lower_reduce, DHOWI_##kind, 1, 2, 0 }
#define ROW(name, since, until, function, arg, least, most) \
    { name, since, until, dhowi_lower_##function, arg, least, most, 0 }
/* It takes more than tensors. */
#define WIDE(name, since, function, arg, least, most, takes) \
    { name, since, LATEST, dhowi_lower_##function, arg, least, most, takes }
enum {
    TEXTS = DHOWI_TAKES_TEXTS,
    LISTS = DHOWI_TAKES_SEQUENCES,
    ANY = DHOWI_TAKES_TEXTS | DHOWI_TAKES_SEQUENCES | DHOWI_TAKES_NOTHING
};

/* clang-format off */
static const dhowi_operator k_operators[] = {
    /* one input */
    UNARY("Abs", 1, ABS),            UNARY("Acos", 7, ACOS),          UNARY("Acosh", 9, ACOSH),
    UNARY("Asin", 7, ASIN),          UNARY("Asinh", 9, ASINH),        UNARY("Atan", 7, ATAN),
    UNARY("Atanh", 9, ATANH),        UNARY("BitwiseNot", 18, BIT_NOT), UNARY("Ceil", 1, CEIL),
    UNARY("Celu", 12, CELU),         UNARY("Cos", 7, COS),            UNARY("Cosh", 9, COSH),
    UNARY("Elu", 1, ELU),            UNARY("Erf", 9, ERF),            UNARY("Exp", 1, EXP),
    UNARY("Floor", 1, FLOOR),        UNARY("Gelu", 20, GELU),         UNARY("HardSigmoid", 1, HARD_SIGMOID),
    UNARY("HardSwish", 14, HARD_SWISH), UNARY("IsInf", 10, IS_INF),   UNARY("IsNaN", 9, IS_NAN),
    UNARY("LeakyRelu", 1, LEAKY),    UNARY("Log", 1, LOG),            UNARY("Mish", 18, MISH),
    UNARY("Neg", 1, NEG),            UNARY("Reciprocal", 1, RECIPROCAL), UNARY("Relu", 1, RELU),
    UNARY("Round", 11, ROUND),       UNARY("Selu", 1, SELU),          UNARY("Shrink", 9, SHRINK),
    UNARY("Sigmoid", 1, SIGMOID),    UNARY("Sign", 9, SIGN),          UNARY("Sin", 7, SIN),
    UNARY("Sinh", 9, SINH),          UNARY("Softplus", 1, SOFTPLUS),  UNARY("Softsign", 1, SOFTSIGN),
    UNARY("Sqrt", 1, SQRT),          UNARY("Swish", 22, SILU),        UNARY("Tan", 7, TAN),
    UNARY("Tanh", 1, TANH),          UNARY("ThresholdedRelu", 10, THRESHOLD),
    ROW("Cast", 1, LATEST, cast, 0, 1, 1),
    ROW("CastLike", 15, LATEST, cast, 1, 2, 2),
    ROW("Clip", 1, LATEST, clip, 0, 1, 3),
    ROW("Dropout", 1, LATEST, dropout, 0, 1, 3),
    WIDE("Identity", 1, identity, 0, 1, 1, ANY),

    /* several inputs, element by element */
    BINARY("Add", 1, ADD),           BINARY("Sub", 1, SUB),           BINARY("Mul", 1, MUL),
    BINARY("Div", 1, DIV),           BINARY("BitwiseAnd", 18, BIT_AND), BINARY("BitwiseOr", 18, BIT_OR),
    BINARY("BitwiseXor", 18, BIT_XOR),
    COMPARE("Equal", 1, EQ),         COMPARE("Greater", 1, GT),       COMPARE("GreaterOrEqual", 12, GE),
    COMPARE("Less", 1, LT),          COMPARE("LessOrEqual", 12, LE),
    LOGIC("And", 2, AND),            LOGIC("Or", 2, OR),              LOGIC("Xor", 2, XOR),
    LOGIC("Not", 1, NOT),
    VARIADIC("Max", MAX),            VARIADIC("Min", MIN),            VARIADIC("Sum", ADD),
    VARIADIC("Mean", LINEAR),
    ROW("BitShift", 11, LATEST, shift, 0, 2, 2),
    ROW("Mod", 10, LATEST, mod, 0, 2, 2),
    ROW("Pow", 1, LATEST, pow, 0, 2, 2),
    ROW("PRelu", 1, LATEST, prelu, 0, 2, 2),
    ROW("Where", 9, LATEST, where, 0, 3, 3),

    /* shapes */
    ROW("Concat", 1, LATEST, concat, 0, 1, MANY),
    ROW("DepthToSpace", 1, LATEST, depth_to_space, 0, 1, 1),
    ROW("Expand", 8, LATEST, expand, 0, 2, 2),
    ROW("Flatten", 1, LATEST, flatten, 0, 1, 1),
    ROW("If", 1, LATEST, if, 0, 1, 1),
    ROW("Reshape", 5, LATEST, reshape, 0, 2, 2),
    ROW("Shape", 1, LATEST, shape, 0, 1, 1),
    ROW("Size", 1, LATEST, size, 0, 1, 1),
    ROW("Slice", 1, LATEST, slice, 0, 1, 5),
    ROW("SpaceToDepth", 1, LATEST, space_to_depth, 0, 1, 1),
    ROW("Split", 1, LATEST, split, 0, 1, 2),
    ROW("Squeeze", 1, LATEST, squeeze, 0, 1, 2),
    ROW("Tile", 6, LATEST, tile, 0, 2, 2),
    ROW("Transpose", 1, LATEST, transpose, 0, 1, 1),
    ROW("Unsqueeze", 1, LATEST, unsqueeze, 0, 1, 2),

    /* index and numbers */
    ROW("Constant", 1, LATEST, constant, 0, 0, 0),
    ROW("ConstantOfShape", 9, LATEST, constant_of_shape, 0, 1, 1),
    ROW("CumSum", 11, LATEST, cumsum, 0, 2, 2),
    ROW("EyeLike", 9, LATEST, eye_like, 0, 1, 1),
    ROW("Gather", 1, LATEST, gather, 0, 2, 2),
    ROW("GatherElements", 11, LATEST, gather_elements, 0, 2, 2),
    ROW("GatherND", 11, LATEST, gather_nd, 0, 2, 2),
    ROW("OneHot", 9, LATEST, one_hot, 0, 3, 3),
    ROW("Range", 11, LATEST, range, 0, 3, 3),
    ROW("Scatter", 9, LATEST, scatter_elements, 0, 3, 3),
    ROW("ScatterElements", 11, LATEST, scatter_elements, 0, 3, 3),
    ROW("ScatterND", 11, LATEST, scatter_nd, 0, 3, 3),
    ROW("TopK", 1, LATEST, topk, 0, 1, 2),
    ROW("Trilu", 14, LATEST, trilu, 0, 1, 2),

    /* as many elements as the values say */
    ROW("Compress", 9, LATEST, compress, 0, 2, 2),
    ROW("NonMaxSuppression", 10, LATEST, non_max_suppression, 0, 2, 5),
    ROW("NonZero", 9, LATEST, non_zero, 0, 1, 1),

    /* reductions */
    REDUCE("ReduceL1", L1),          REDUCE("ReduceL2", L2),          REDUCE("ReduceLogSum", LOG_SUM),
    REDUCE("ReduceLogSumExp", LOG_SUM_EXP), REDUCE("ReduceMax", MAX_OF), REDUCE("ReduceMean", MEAN),
    REDUCE("ReduceMin", MIN_OF),     REDUCE("ReduceProd", PROD),      REDUCE("ReduceSum", SUM),
    REDUCE("ReduceSumSquare", SUM_SQUARE),
    ROW("ArgMax", 1, LATEST, arg, 0, 1, 1),
    ROW("ArgMin", 1, LATEST, arg, 1, 1, 1),
    ROW("Hardmax", 1, LATEST, hardmax, 0, 1, 1),
    ROW("LogSoftmax", 1, LATEST, softmax, DHOWI_OP_log_softmax, 1, 1),
    ROW("Softmax", 1, LATEST, softmax, DHOWI_OP_softmax, 1, 1),

    /* normalisation */
    ROW("BatchNormalization", 1, LATEST, batch_norm, 0, 5, 5),
    ROW("GroupNormalization", 18, LATEST, group_norm, 0, 3, 3),
    ROW("InstanceNormalization", 1, LATEST, instance_norm, 0, 3, 3),
    ROW("LayerNormalization", 1, LATEST, layer_norm, 0, 2, 3),
    ROW("LpNormalization", 1, LATEST, lp_norm, 0, 1, 1),
    ROW("LRN", 1, LATEST, lrn, 0, 1, 1),
    ROW("MeanVarianceNormalization", 9, LATEST, mvn, 0, 1, 1),
    ROW("RMSNormalization", 23, LATEST, rms_norm, 0, 2, 2),

    /* windows */
    ROW("AveragePool", 1, LATEST, pool, 1, 1, 1),
    ROW("Conv", 1, LATEST, conv, 0, 2, 3),
    ROW("ConvTranspose", 1, LATEST, conv_transpose, 0, 2, 3),
    ROW("GlobalAveragePool", 1, LATEST, global_pool, DHOWI_MEAN, 1, 1),
    ROW("GlobalLpPool", 2, LATEST, global_pool, DHOWI_L2, 1, 1),
    ROW("GlobalMaxPool", 1, LATEST, global_pool, DHOWI_MAX_OF, 1, 1),
    ROW("GridSample", 16, LATEST, grid_sample, 0, 2, 2),
    ROW("LpPool", 2, LATEST, pool, 3, 1, 1),
    ROW("MaxPool", 1, LATEST, pool, 0, 1, 1),
    ROW("Pad", 1, LATEST, pad, 0, 1, 4),
    ROW("Resize", 10, LATEST, resize, 0, 1, 4),
    ROW("Upsample", 7, 9, resize, 0, 1, 2),

    ROW("CenterCropPad", 18, LATEST, center_crop_pad, 0, 2, 2),
    ROW("Col2Im", 18, LATEST, col2im, 0, 3, 3),
    ROW("AffineGrid", 20, LATEST, affine_grid, 0, 2, 2),
    ROW("ReverseSequence", 10, LATEST, reverse_sequence, 0, 2, 2),
    ROW("HannWindow", 17, LATEST, window, 0, 1, 1),
    ROW("HammingWindow", 17, LATEST, window, 1, 1, 1),
    ROW("BlackmanWindow", 17, LATEST, window, 2, 1, 1),

    /* losses */
    ROW("NegativeLogLikelihoodLoss", 12, LATEST, likelihood_loss, 0, 2, 3),
    ROW("SoftmaxCrossEntropyLoss", 12, LATEST, entropy_loss, 0, 2, 3),

    /* matrices */
    ROW("RotaryEmbedding", 23, LATEST, rotary, 0, 3, 4),
    ROW("Einsum", 12, LATEST, einsum, 0, 1, MANY),
    ROW("Gemm", 1, LATEST, gemm, 0, 2, 3),
    ROW("MatMul", 1, LATEST, matmul, 0, 2, 2),

    /* quantised */
    ROW("ConvInteger", 10, LATEST, conv_integer, 0, 2, 4),
    ROW("DequantizeLinear", 10, LATEST, dequantize, 0, 2, 3),
    ROW("DynamicQuantizeLinear", 11, LATEST, dynamic_quantize, 0, 1, 1),
    ROW("MatMulInteger", 10, LATEST, matmul_integer, 0, 2, 4),
    ROW("QLinearConv", 10, LATEST, qlinear_conv, 0, 8, 9),
    ROW("QLinearMatMul", 10, LATEST, qlinear_matmul, 0, 8, 8),
    ROW("QuantizeLinear", 10, LATEST, quantize, 0, 2, 3),

    /* loops, sequences, optional values, texts */
    WIDE("ConcatFromSequence", 11, concat_from_sequence, 0, 1, 1, LISTS),
    WIDE("Loop", 1, loop, 0, 0, MANY, ANY),
    WIDE("Optional", 15, optional, 0, 0, 1, ANY),
    WIDE("OptionalGetElement", 15, optional_get, 0, 1, 1, ANY),
    WIDE("OptionalHasElement", 15, optional_has, 0, 0, 1, ANY),
    WIDE("SequenceAt", 11, sequence_at, 0, 2, 2, LISTS),
    WIDE("SequenceConstruct", 11, sequence_construct, 0, 1, MANY, TEXTS),
    WIDE("SequenceEmpty", 11, sequence_empty, 0, 0, 0, 0),
    WIDE("SequenceErase", 11, sequence_erase, 0, 1, 2, LISTS),
    WIDE("SequenceInsert", 11, sequence_insert, 0, 2, 3, LISTS | TEXTS),
    WIDE("SequenceLength", 11, sequence_length, 0, 1, 1, LISTS),
    WIDE("SequenceMap", 17, sequence_map, 0, 1, MANY, LISTS | TEXTS),
    WIDE("SplitToSequence", 11, split_to_sequence, 0, 1, 2, 0),
    WIDE("StringNormalizer", 10, string_normalizer, 0, 1, 1, TEXTS),

    /* of other domains */
    ROW(DHOWI_TRAINING "::Gradient", 1, LATEST, gradient, 0, 2, MANY),

    /* recurrent */
    ROW("GRU", 3, LATEST, gru, 0, 3, 6),
    ROW("LSTM", 1, LATEST, lstm, 0, 3, 8),
    ROW("RNN", 1, LATEST, rnn, 0, 3, 6),
};
/* clang-format on */

const dhowi_operator *dhowi_operator_find(const char *name, size_t length, int64_t opset,
                                          const dhowi_operator **out_other) {
    *out_other = NULL;
    for (size_t i = 0; i < DHOWI_COUNT(k_operators); i++) {
        const dhowi_operator *o = &k_operators[i];
        if (strlen(o->name) != length || memcmp(o->name, name, length) != 0) continue;
        if (opset >= o->since && opset <= o->until) return o;
        *out_other = o;
    }
    return NULL;
}

uint32_t dhowi_operator_count(void) { return (uint32_t)DHOWI_COUNT(k_operators); }

const dhowi_operator *dhowi_operator_at(uint32_t index) {
    return index < DHOWI_COUNT(k_operators) ? &k_operators[index] : NULL;
}
