/* SPDX-License-Identifier: Apache-2.0
 *
 * The operator table: names of ONNX, the opsets a row holds for, how it is lowered, what it means
 * and its derivative. Rows of one function differ in `arg`. Shapes follow from lowering: an
 * operator knows its result when its inputs are known.
 */
#include <string.h>

#include "base/memory/size.h"
#include "model/operators/attention/attention.h"
#include "model/operators/backward/backward.h"
#include "model/operators/math/math.h"
#include "model/operators/microsoft/microsoft.h"
#include "model/operators/ml/ml.h"
#include "model/operators/nn/nn.h"
#include "model/operators/operators.h"
#include "model/operators/row.h"
#include "model/operators/shape/shape.h"

enum { LATEST = DHOWI_LATEST_OPSET, MANY = DHOWI_MAX_OUTPUTS_OF_NODE };

/* The rest of each row is what it does, in words that list_operators alone is compiled with, for
 * docs/operators.md, and its derivative where it has one. */
#ifdef DHOWI_OPERATORS_IN_WORDS
#define WORDS
#else
#define WORDS 1 ? NULL:
#endif
#define FIELDS(name_, since_, until_, lower_, arg_, least_, most_, takes_, ...)        \
    {                                                                                  \
        .name = name_, .since = since_, .until = until_, .lower = lower_, .arg = arg_, \
        .least = least_, .most = most_, .takes = takes_, .meaning = WORDS __VA_ARGS__  \
    }
#define UNARY(name, since, op, ...) \
    FIELDS(name, since, LATEST, dhowi_lower_unary, DHOWI_MAP_##op, 1, 1, 0, __VA_ARGS__)
#define BINARY(name, since, op, ...) \
    FIELDS(name, since, LATEST, dhowi_lower_binary, DHOWI_MAP_##op, 2, 2, 0, __VA_ARGS__)
#define COMPARE(name, since, op, ...)                                                      \
    FIELDS(name, since, LATEST, dhowi_lower_compare, DHOWI_MAP_##op, 2, 2, 0, __VA_ARGS__, \
           BACK(none))
#define LOGIC(name, count, op, ...) \
    FIELDS(name, 1, LATEST, dhowi_lower_logic, DHOWI_MAP_##op, count, count, 0, __VA_ARGS__)
#define VARIADIC(name, op, ...) \
    FIELDS(name, 1, LATEST, dhowi_lower_variadic, DHOWI_MAP_##op, 1, MANY, 0, __VA_ARGS__)
#define REDUCE(name, kind, ...) \
    FIELDS(name, 1, LATEST, dhowi_lower_reduce, DHOWI_##kind, 1, 2, 0, __VA_ARGS__)
#define ROW(name, since, until, function, arg, least, most, ...) \
    FIELDS(name, since, until, dhowi_lower_##function, arg, least, most, 0, __VA_ARGS__)
/* It takes more than tensors. */
#define WIDE(name, since, function, arg, least, most, takes, ...) \
    FIELDS(name, since, LATEST, dhowi_lower_##function, arg, least, most, takes, __VA_ARGS__)
#define BACK(rule) .back = dhowi_back_##rule
#define BACK_ALL(rule) BACK(rule), .back_all = true
/* What it does in a model of f32 that computes in 16-bit floats: without it, f32. */
#define HALF(kind) .half = DHOWI_HALF_##kind
#define TYPED .typed = true
#define INPUT(i) (UINT32_C(1) << (i))
enum {
    TEXTS = DHOWI_TAKES_TEXTS,
    LISTS = DHOWI_TAKES_SEQUENCES,
    SMALL = DHOWI_TAKES_SMALL,
    ANY = DHOWI_TAKES_TEXTS | DHOWI_TAKES_SEQUENCES | DHOWI_TAKES_NOTHING
};

/* clang-format off */
static const dhowi_operator k_operators[] = {
    /* one input */
    UNARY("Abs", 1, ABS, "the absolute value", BACK(abs), HALF(FOLLOWS)),
    UNARY("Acos", 7, ACOS, "the arc cosine", BACK(acos)),
    UNARY("Acosh", 9, ACOSH, "the inverse hyperbolic cosine", BACK(acosh)),
    UNARY("Asin", 7, ASIN, "the arc sine", BACK(asin)),
    UNARY("Asinh", 9, ASINH, "the inverse hyperbolic sine", BACK(asinh)),
    UNARY("Atan", 7, ATAN, "the arc tangent", BACK(atan)),
    UNARY("Atanh", 9, ATANH, "the inverse hyperbolic tangent", BACK(atanh)),
    UNARY("BitwiseNot", 18, BIT_NOT, "all bits of an integer inverted", BACK(none)),
    UNARY("Ceil", 1, CEIL, "rounded up", BACK(none)),
    UNARY("Celu", 12, CELU, "max(0, x) + min(0, alpha (exp(x / alpha) - 1))", BACK(celu), HALF(FOLLOWS)),
    UNARY("Cos", 7, COS, "the cosine", BACK(cos)),
    UNARY("Cosh", 9, COSH, "the hyperbolic cosine", BACK(cosh)),
    UNARY("Elu", 1, ELU, "x, or alpha (exp(x) - 1) where x is negative", BACK(elu), HALF(FOLLOWS)),
    UNARY("Erf", 9, ERF, "the error function", BACK(erf), HALF(FOLLOWS)),
    UNARY("Exp", 1, EXP, "e to the power of x", BACK(exp)),
    UNARY("Floor", 1, FLOOR, "rounded down", BACK(none)),
    UNARY("Gelu", 20, GELU, "x times the normal distribution's integral up to x, or its approximation by tanh", BACK(gelu_of_mode), HALF(FOLLOWS)),
    UNARY("HardSigmoid", 1, HARD_SIGMOID, "alpha x + beta, clipped to 0 and 1", BACK(hard_sigmoid), HALF(FOLLOWS)),
    UNARY("HardSwish", 14, HARD_SWISH, "x times a hard sigmoid", BACK(hard_swish), HALF(FOLLOWS)),
    UNARY("IsInf", 10, IS_INF, "whether x is infinite, of one sign or both", BACK(none)),
    UNARY("IsNaN", 9, IS_NAN, "whether x is NaN", BACK(none)),
    UNARY("LeakyRelu", 1, LEAKY, "x, or alpha x where x is negative", BACK(leaky), HALF(FOLLOWS)),
    UNARY("Log", 1, LOG, "the natural logarithm", BACK(log)),
    UNARY("Mish", 18, MISH, "x tanh(log(1 + exp(x)))", BACK(mish), HALF(FOLLOWS)),
    UNARY("Neg", 1, NEG, "the sign changed", BACK(neg), HALF(FOLLOWS)),
    UNARY("Reciprocal", 1, RECIPROCAL, "1 / x", BACK(reciprocal)),
    UNARY("Relu", 1, RELU, "x, or 0 where x is negative", BACK(relu), HALF(FOLLOWS)),
    UNARY("Round", 11, ROUND, "rounded to the nearest integer, halves to the even one", BACK(none)),
    UNARY("Selu", 1, SELU, "Elu with two constants that keep mean and variance", BACK(selu), HALF(FOLLOWS)),
    UNARY("Shrink", 9, SHRINK, "0 near 0, and x shifted by a bias elsewhere", BACK(shrink)),
    UNARY("Sigmoid", 1, SIGMOID, "1 / (1 + exp(-x))", BACK(sigmoid), HALF(FOLLOWS)),
    UNARY("Sign", 9, SIGN, "-1, 0 or 1", BACK(none)),
    UNARY("Sin", 7, SIN, "the sine", BACK(sin)),
    UNARY("Sinh", 9, SINH, "the hyperbolic sine", BACK(sinh)),
    UNARY("Softplus", 1, SOFTPLUS, "log(1 + exp(x))", BACK(softplus)),
    UNARY("Softsign", 1, SOFTSIGN, "x / (1 + abs(x))", BACK(softsign), HALF(FOLLOWS)),
    UNARY("Sqrt", 1, SQRT, "the square root", BACK(sqrt)),
    ROW("SwiGLU", 28, LATEST, swiglu, 0, 2, 2, "a sigmoid(alpha a) b", BACK(swiglu), HALF(FOLLOWS)),
    UNARY("Swish", 22, SILU, "x sigmoid(alpha x)", BACK(silu), HALF(FOLLOWS)),
    UNARY("Tan", 7, TAN, "the tangent", BACK(tan)),
    UNARY("Tanh", 1, TANH, "the hyperbolic tangent", BACK(tanh), HALF(FOLLOWS)),
    UNARY("ThresholdedRelu", 10, THRESHOLD, "x, or 0 up to alpha", BACK(threshold), HALF(FOLLOWS)),
    ROW("BitCast", 26, LATEST, bitcast, 0, 1, 1, "the bits of the elements as another type of their width", BACK(none), TYPED),
    WIDE("Cast", 1, cast, 0, 1, 1, SMALL, "the elements as another type", BACK(cast), TYPED),
    WIDE("CastLike", 15, cast, 1, 2, 2, SMALL, "the elements as another tensor's type", BACK(cast), .flat = INPUT(1), TYPED),
    ROW("Clip", 1, LATEST, clip, 0, 1, 3, "x limited from below and above", BACK(clip), .constants = INPUT(1) | INPUT(2), HALF(FOLLOWS)),
    ROW("Dropout", 1, LATEST, dropout, 0, 1, 3, "x itself; in training mode numbers of its seed become 0", BACK(dropout), .flat = INPUT(1), HALF(FOLLOWS), .whole = INPUT(1)),
    WIDE("Identity", 1, identity, 0, 1, 1, ANY | SMALL, "its input", BACK(identity), HALF(FOLLOWS)),

    /* several inputs, element by element */
    BINARY("Add", 1, ADD, "a + b with broadcasting", BACK(sum), HALF(FOLLOWS), .masks = INPUT(0) | INPUT(1)),
    BINARY("Sub", 1, SUB, "a - b with broadcasting", BACK(sub), HALF(FOLLOWS)),
    BINARY("Mul", 1, MUL, "a b with broadcasting", BACK(mul), HALF(FOLLOWS),
           .squares = true),
    BINARY("Div", 1, DIV, "a / b with broadcasting", BACK(div), HALF(FOLLOWS)),
    BINARY("BitwiseAnd", 18, BIT_AND, "the bits that both integers have", BACK(none)),
    BINARY("BitwiseOr", 18, BIT_OR, "the bits that either integer has", BACK(none)),
    BINARY("BitwiseXor", 18, BIT_XOR, "the bits in which two integers differ", BACK(none)),
    WIDE("Equal", 1, compare, DHOWI_MAP_EQ, 2, 2, TEXTS, "a = b", BACK(none)),
    COMPARE("Greater", 1, GT, "a > b"),
    COMPARE("GreaterOrEqual", 12, GE, "a >= b"),
    COMPARE("Less", 1, LT, "a < b"),
    COMPARE("LessOrEqual", 12, LE, "a <= b"),
    LOGIC("And", 2, AND, "whether both are true", BACK(none)),
    LOGIC("Or", 2, OR, "whether one is true", BACK(none)),
    LOGIC("Xor", 2, XOR, "whether just one is true", BACK(none)),
    LOGIC("Not", 1, NOT, "whether it is false", BACK(none)),
    VARIADIC("Max", MAX, "the largest of several tensors, element by element", BACK(extreme), HALF(FOLLOWS)),
    VARIADIC("Min", MIN, "the least of several tensors, element by element", BACK(extreme), HALF(FOLLOWS)),
    VARIADIC("Sum", ADD, "the sum of several tensors, element by element", BACK(sum), HALF(FOLLOWS)),
    VARIADIC("Mean", LINEAR, "the mean of several tensors, element by element", BACK(mean), HALF(FOLLOWS)),
    ROW("BitShift", 11, LATEST, shift, 0, 2, 2, "integers shifted by bits to the left or right", BACK(none)),
    ROW("Mod", 10, LATEST, mod, 0, 2, 2, "the remainder, with the sign of the divisor or of the dividend", BACK(mod)),
    ROW("Pow", 1, LATEST, pow, 0, 2, 2, "a to the power of b", BACK(pow)),
    ROW("PRelu", 1, LATEST, prelu, 0, 2, 2, "x, or slope x where x is negative", BACK(prelu), HALF(FOLLOWS)),
    ROW("Where", 9, LATEST, where, 0, 3, 3, "elements of x where a condition holds, else of y", BACK(where), HALF(FOLLOWS)),

    /* shapes */
    WIDE("Concat", 1, concat, 0, 1, MANY, TEXTS, "tensors joined along an axis", BACK(concat), HALF(FOLLOWS)),
    ROW("DepthToSpace", 1, LATEST, depth_to_space, 0, 1, 1, "blocks of channels as blocks of pixels", BACK(depth_to_space), HALF(FOLLOWS)),
    ROW("Expand", 8, LATEST, expand, 0, 2, 2, "x repeated to a shape", BACK(identity), HALF(FOLLOWS)),
    WIDE("Flatten", 1, flatten, 0, 1, 1, SMALL | TEXTS, "a matrix of all dimensions before an axis and all others", BACK(reshape), HALF(FOLLOWS)),
    ROW("If", 1, LATEST, if, 0, 1, 1, "one of two graphs, chosen while the plan is made", TYPED),
    WIDE("Reshape", 5, reshape, 0, 2, 2, SMALL | TEXTS, "the same elements in another shape", BACK(reshape), HALF(FOLLOWS)),
    WIDE("Shape", 1, shape, 0, 1, 1, SMALL, "the extents of x", BACK(none), HALF(FOLLOWS)),
    WIDE("Size", 1, size, 0, 1, 1, SMALL, "the number of elements of x", BACK(none), HALF(FOLLOWS)),
    ROW("Slice", 1, LATEST, slice, 0, 1, 5, "every so many elements of some axes", BACK(slice), HALF(FOLLOWS)),
    ROW("SpaceToDepth", 1, LATEST, space_to_depth, 0, 1, 1, "blocks of pixels as blocks of channels", BACK(space_to_depth), HALF(FOLLOWS)),
    ROW("Split", 1, LATEST, split, 0, 1, 2, "parts of x along an axis", BACK_ALL(split), HALF(FOLLOWS)),
    WIDE("Squeeze", 1, squeeze, 0, 1, 2, SMALL | TEXTS, "x without dimensions of extent 1", BACK(reshape), HALF(FOLLOWS)),
    ROW("Tile", 6, LATEST, tile, 0, 2, 2, "x repeated along each axis", BACK(tile), HALF(FOLLOWS)),
    WIDE("Transpose", 1, transpose, 0, 1, 1, SMALL, "the dimensions in another order", BACK(transpose), HALF(FOLLOWS)),
    WIDE("Unsqueeze", 1, unsqueeze, 0, 1, 2, SMALL | TEXTS, "x with further dimensions of extent 1", BACK(reshape), HALF(FOLLOWS)),

    /* index and numbers */
    ROW("Constant", 1, LATEST, constant, 0, 0, 0, "a value of the file"),
    ROW("ConstantOfShape", 9, LATEST, constant_of_shape, 0, 1, 1, "a tensor of one value", BACK(none), TYPED),
    ROW("RandomNormal", 1, LATEST, random, 1, 0, 0, "normally distributed numbers, the same in every run", BACK(none), TYPED),
    ROW("RandomNormalLike", 1, LATEST, random_like, 1, 1, 1, "the same in the shape of x", BACK(none), TYPED),
    ROW("RandomUniform", 1, LATEST, random, 0, 0, 0, "evenly distributed numbers, the same in every run", BACK(none), TYPED),
    ROW("RandomUniformLike", 1, LATEST, random_like, 0, 1, 1, "the same in the shape of x", BACK(none), TYPED),
    ROW("Bernoulli", 15, LATEST, bernoulli, 0, 1, 1, "1 with a probability for each element, else 0", BACK(none), TYPED),
    ROW("Multinomial", 7, LATEST, multinomial, 0, 1, 1, "classes drawn by the logarithms of their probabilities", BACK(none), TYPED),
    ROW("CumProd", 26, LATEST, cumprod, 0, 2, 2, "running products along an axis"),
    ROW("CumSum", 11, LATEST, cumsum, 0, 2, 2, "running sums along an axis", BACK(cumsum)),
    ROW("EyeLike", 9, LATEST, eye_like, 0, 1, 1, "a matrix with ones along a diagonal", BACK(none), TYPED),
    ROW("Gather", 1, LATEST, gather, 0, 2, 2, "slices of an axis by index", BACK(gather), HALF(FOLLOWS)),
    ROW("GatherElements", 11, LATEST, gather_elements, 0, 2, 2, "elements by an index for each", BACK(gather_elements), HALF(FOLLOWS)),
    ROW("GatherND", 11, LATEST, gather_nd, 0, 2, 2, "slices by tuples of indices", BACK(gather_nd), HALF(FOLLOWS)),
    ROW("OneHot", 9, LATEST, one_hot, 0, 3, 3, "rows with one value at an index and another elsewhere", BACK(one_hot), .constants = INPUT(2), .flat = INPUT(0) | INPUT(1), TYPED),
    ROW("Range", 11, LATEST, range, 0, 3, 3, "numbers from a start in steps up to a limit", BACK(range), .flat = INPUT(1), TYPED),
    ROW("Scatter", 9, LATEST, scatter_elements, 0, 3, 3, "ScatterElements by its older name", BACK(scatter_elements)),
    ROW("ScatterElements", 11, LATEST, scatter_elements, 0, 3, 3, "x with some elements replaced, or reduced into, by index", BACK(scatter_elements)),
    ROW("ScatterND", 11, LATEST, scatter_nd, 0, 3, 3, "x with some slices replaced, or reduced into, by tuples of indices", BACK(scatter_nd)),
    ROW("TensorScatter", 24, LATEST, tensor_scatter, 0, 2, 3, "x with elements of an axis replaced, for each sequence from a place of its own on"),
    ROW("TopK", 1, LATEST, topk, 0, 1, 2, "the largest or least k elements along an axis, and where they were", BACK(topk)),
    ROW("Trilu", 14, LATEST, trilu, 0, 1, 2, "the upper or lower triangle of matrices", BACK(trilu), HALF(FOLLOWS)),

    /* as many elements as the values say */
    ROW("Compress", 9, LATEST, compress, 0, 2, 2, "the slices whose condition holds"),
    ROW("NonMaxSuppression", 10, LATEST, non_max_suppression, 0, 2, 5, "boxes of high scores that overlap no better one by much"),
    ROW("Unique", 11, LATEST, unique, 0, 1, 1, "the slices that differ, where they are, and how many of each"),
    ROW("NonZero", 9, LATEST, non_zero, 0, 1, 1, "the indices of all elements that are not 0", BACK(none)),

    /* reductions */
    REDUCE("ReduceL1", L1, "sums of absolute values", BACK(reduce)),
    REDUCE("ReduceL2", L2, "square roots of sums of squares", BACK(reduce)),
    REDUCE("ReduceLogSum", LOG_SUM, "logarithms of sums", BACK(reduce)),
    REDUCE("ReduceLogSumExp", LOG_SUM_EXP, "logarithms of sums of exponentials, without overflow", BACK(reduce)),
    REDUCE("ReduceMax", MAX_OF, "the largest elements along axes", BACK(reduce)),
    REDUCE("ReduceMean", MEAN, "means along axes", BACK(reduce)),
    REDUCE("ReduceMin", MIN_OF, "the least elements along axes", BACK(reduce)),
    REDUCE("ReduceProd", PROD, "products along axes", BACK(reduce)),
    REDUCE("ReduceSum", SUM, "sums along axes", BACK(reduce)),
    REDUCE("ReduceSumSquare", SUM_SQUARE, "sums of squares", BACK(reduce)),
    ROW("ArgMax", 1, LATEST, arg, 0, 1, 1, "where the largest element of an axis is", BACK(none)),
    ROW("ArgMin", 1, LATEST, arg, 1, 1, 1, "where the least element of an axis is", BACK(none)),
    ROW("Hardmax", 1, LATEST, hardmax, 0, 1, 1, "1 at the first largest element of a row, 0 elsewhere", BACK(none)),
    ROW("LogSoftmax", 1, LATEST, softmax, DHOWI_OP_log_softmax, 1, 1, "the logarithm of Softmax", BACK(log_softmax)),
    ROW("Softmax", 1, LATEST, softmax, DHOWI_OP_softmax, 1, 1, "exponentials of rows, scaled to a sum of 1", BACK(softmax), HALF(FOLLOWS)),

    /* normalisation */
    ROW("BatchNormalization", 1, LATEST, batch_norm, 0, 5, 5, "channels scaled and shifted by given statistics, or by the batch's own", BACK(batch_norm), HALF(FOLLOWS), .whole = INPUT(1) | INPUT(2) | INPUT(3) | INPUT(4)),
    ROW("GroupNormalization", 18, LATEST, group_norm, 0, 3, 3, "groups of channels brought to mean 0 and variance 1, scaled and shifted", BACK(group_norm), HALF(FOLLOWS)),
    ROW("InstanceNormalization", 1, LATEST, instance_norm, 0, 3, 3, "each channel brought to mean 0 and variance 1, scaled and shifted", BACK(instance_norm), HALF(FOLLOWS)),
    ROW("LayerNormalization", 1, LATEST, layer_norm, 0, 2, 3, "rows brought to mean 0 and variance 1, scaled and shifted", BACK(layer_norm), HALF(FOLLOWS)),
    ROW("LpNormalization", 1, LATEST, lp_norm, 0, 1, 1, "rows divided by their p-norm", BACK(lp_norm)),
    ROW("LRN", 1, LATEST, lrn, 0, 1, 1, "elements divided by what nearby channels hold", BACK(lrn)),
    ROW("MeanVarianceNormalization", 9, LATEST, mvn, 0, 1, 1, "mean 0 and variance 1 over some axes", BACK(mvn)),
    ROW("RMSNormalization", 23, LATEST, rms_norm, 0, 2, 2, "rows divided by their root mean square, scaled", BACK(rms_norm), HALF(FOLLOWS)),
    ROW("SimplifiedLayerNormalization", 1, LATEST, rms_norm, 0, 2, 2, "RMSNormalization as ONNX Runtime calls it", BACK(rms_norm), HALF(FOLLOWS)),

    /* windows */
    ROW("AveragePool", 1, LATEST, pool, 1, 1, 1, "means of windows", BACK(avgpool), HALF(FOLLOWS)),
    ROW("Conv", 1, LATEST, conv, 0, 2, 3, "convolution of one to three dimensions", BACK(conv), HALF(COMPUTES), .half_rank = 4),
    ROW("ConvTranspose", 1, LATEST, conv_transpose, 0, 2, 3, "transposed convolution of one to three dimensions", BACK(conv_transpose)),
    ROW("GlobalAveragePool", 1, LATEST, global_pool, DHOWI_MEAN, 1, 1, "the mean of each channel", BACK(global_pool), HALF(FOLLOWS)),
    ROW("GlobalLpPool", 2, LATEST, global_pool, DHOWI_L2, 1, 1, "the p-norm of each channel", BACK(global_pool)),
    ROW("GlobalMaxPool", 1, LATEST, global_pool, DHOWI_MAX_OF, 1, 1, "the largest element of each channel", BACK(global_pool), HALF(FOLLOWS)),
    ROW("DeformConv", 19, LATEST, deform_conv, 0, 3, 5, "convolution whose taps lie where an input says"),
    ROW("GridSample", 16, LATEST, grid_sample, 0, 2, 2, "images and volumes sampled at given places"),
    ROW("LpPool", 2, LATEST, pool, 3, 1, 1, "p-norms of windows", BACK(lp_pool)),
    ROW("MaxPool", 1, LATEST, pool, 0, 1, 1, "the largest elements of windows, and where they were", BACK(maxpool), HALF(FOLLOWS)),
    ROW("MaxUnpool", 9, LATEST, max_unpool, 0, 2, 3, "elements put back where MaxPool took them, among zeros"),
    ROW("Pad", 1, LATEST, pad, 0, 1, 4, "x with a constant, its edge or a mirror image around it", BACK(pad), .constants = INPUT(2), HALF(FOLLOWS)),
    ROW("Resize", 10, LATEST, resize, 0, 1, 4, "images of another size, by the nearest pixel, linear or cubic, with antialiasing", BACK(resize), .constants = INPUT(1) | INPUT(2), HALF(FOLLOWS), .whole = INPUT(1) | INPUT(2)),
    ROW("RoiAlign", 10, LATEST, roi_align, 0, 3, 3, "bins of regions of images, sampled between pixels; NaN for a region that is not finite"),
    ROW("Upsample", 7, 9, resize, 0, 1, 2, "Resize by its older name", BACK(resize), .constants = INPUT(1), HALF(FOLLOWS), .whole = INPUT(1)),

    ROW("CenterCropPad", 18, LATEST, center_crop_pad, 0, 2, 2, "cut or padded to a shape around the middle", BACK(center_crop_pad)),
    ROW("Col2Im", 18, LATEST, col2im, 0, 3, 3, "an image as the sum of its windows"),
    ROW("AffineGrid", 20, LATEST, affine_grid, 0, 2, 2, "the places that an affine map of an image asks for"),
    ROW("ReverseSequence", 10, LATEST, reverse_sequence, 0, 2, 2, "the first elements of rows in reverse", BACK(reverse_sequence)),
    ROW("HannWindow", 17, LATEST, window, 0, 1, 1, "the Hann window of a length"),
    ROW("HammingWindow", 17, LATEST, window, 1, 1, 1, "the Hamming window of a length"),
    ROW("MelWeightMatrix", 17, LATEST, mel_weights, 0, 5, 5, "triangles over the frequencies of a spectrum, evenly spaced in mel"),
    ROW("BlackmanWindow", 17, LATEST, window, 2, 1, 1, "the Blackman window of a length"),

    /* losses */
    ROW("NegativeLogLikelihoodLoss", 12, LATEST, likelihood_loss, 0, 2, 3, "the loss of log-probabilities against classes", BACK(likelihood_loss), .constants = INPUT(2)),
    ROW("SoftmaxCrossEntropyLoss", 12, LATEST, entropy_loss, 0, 2, 3, "the loss of scores against classes", BACK(entropy_loss), .constants = INPUT(2)),

    /* matrices */
    ROW("Attention", 23, LATEST, attention, 0, 3, 7, "values weighed by the softmax of scaled products of queries and keys", HALF(COMPUTES), .masks = INPUT(3), .caches = INPUT(1) | INPUT(2)),
    ROW("CausalConvWithState", 27, LATEST, causal_conv, 0, 2, 4, "windows over steps and those before them, each channel by its own, perhaps SiLU; the last steps"),
    ROW("LinearAttention", 27, LATEST, linear_attention, 0, 3, 6, "what queries read of a state that keys and values change step by step, and the state"),
    ROW("RotaryEmbedding", 23, LATEST, rotary, 0, 3, 4, "pairs of elements rotated by their position", BACK(rotary), .constants = INPUT(1) | INPUT(2), HALF(FOLLOWS)),
    ROW("DFT", 17, LATEST, dft, 0, 1, 3, "the discrete Fourier transform along an axis, of any length, and its inverse"),
    ROW("STFT", 17, LATEST, stft, 0, 2, 4, "the Fourier transforms of a signal's overlapping frames"),
    ROW("Det", 11, LATEST, det, 0, 1, 1, "determinants"),
    ROW("Einsum", 12, LATEST, einsum, 0, 1, MANY, "products and sums by an equation of letters", HALF(COMPUTES)),
    ROW("Gemm", 1, LATEST, gemm, 0, 2, 3, "alpha a b + beta c for matrices, each perhaps transposed", BACK(gemm), HALF(COMPUTES)),
    ROW("MatMul", 1, LATEST, matmul, 0, 2, 2, "matrix products with outer dimensions that broadcast", BACK(matmul), HALF(COMPUTES)),

    /* quantised */
    ROW("ConvInteger", 10, LATEST, conv_integer, 0, 2, 4, "convolution of 8-bit integers"),
    WIDE("DequantizeLinear", 10, dequantize, 0, 2, 3, SMALL, "integers as numbers, by scale and zero point", TYPED),
    ROW("DynamicQuantizeLinear", 11, LATEST, dynamic_quantize, 0, 1, 1, "numbers as bytes, with the scale and zero point that fit them"),
    ROW("MatMulInteger", 10, LATEST, matmul_integer, 0, 2, 4, "matrix products of 8-bit integers"),
    ROW("QLinearConv", 10, LATEST, qlinear_conv, 0, 8, 9, "convolution of quantised images"),
    ROW("QLinearMatMul", 10, LATEST, qlinear_matmul, 0, 8, 8, "matrix products of quantised matrices"),
    WIDE("QuantizeLinear", 10, quantize, 0, 2, 3, SMALL, "numbers as integers, by scale and zero point", TYPED),

    /* loops, sequences, optional values, texts */
    WIDE("ConcatFromSequence", 11, concat_from_sequence, 0, 1, 1, LISTS, "the tensors of a sequence, joined or stacked", TYPED),
    WIDE("Loop", 1, loop, 0, 0, MANY, ANY, "a graph run again and again, laid out iteration after iteration", TYPED),
    WIDE("Optional", 15, optional, 0, 0, 1, ANY, "a value that may be missing", TYPED),
    WIDE("OptionalGetElement", 15, optional_get, 0, 1, 1, ANY, "the value of an optional one", TYPED),
    WIDE("OptionalHasElement", 15, optional_has, 0, 0, 1, ANY, "whether an optional value is there", TYPED),
    ROW("Scan", 9, LATEST, scan, 0, 1, MANY, "a graph run for each part of its inputs, laid out iteration after iteration", TYPED),
    WIDE("SequenceAt", 11, sequence_at, 0, 2, 2, LISTS, "one value of a sequence", TYPED),
    WIDE("SequenceConstruct", 11, sequence_construct, 0, 1, MANY, TEXTS, "a sequence of the inputs", TYPED),
    WIDE("SequenceEmpty", 11, sequence_empty, 0, 0, 0, 0, "a sequence without values", TYPED),
    WIDE("SequenceErase", 11, sequence_erase, 0, 1, 2, LISTS, "a sequence without one of its values", TYPED),
    WIDE("SequenceInsert", 11, sequence_insert, 0, 2, 3, LISTS | TEXTS, "a sequence with one value more", TYPED),
    WIDE("SequenceLength", 11, sequence_length, 0, 1, 1, LISTS, "the number of values of a sequence", TYPED),
    WIDE("SequenceMap", 17, sequence_map, 0, 1, MANY, LISTS | TEXTS, "a graph run for each value of a sequence", TYPED),
    WIDE("SplitToSequence", 11, split_to_sequence, 0, 1, 2, 0, "the parts of a tensor as a sequence", TYPED),
    WIDE("RegexFullMatch", 20, regex_full_match, 0, 1, 1, TEXTS, "whether a pattern is all of a text"),
    WIDE("StringConcat", 20, string_concat, 0, 2, 2, TEXTS, "texts joined in pairs, with broadcasting"),
    WIDE("StringNormalizer", 10, string_normalizer, 0, 1, 1, TEXTS, "texts in one case, without stop words"),
    WIDE("StringSplit", 20, string_split, 0, 1, 1, TEXTS, "the parts of texts between delimiters, and how many there are"),

    WIDE("TfIdfVectorizer", 9, tf_idf, 0, 1, 1, TEXTS, "how often n-grams are there, perhaps weighed"),

    /* of other domains */
    ROW(DHOWI_PREVIEW "::FlexAttention", 1, LATEST, flex_attention, 0, 3, 3, "attention whose scores and weights go through graphs of the node"),
    ROW(DHOWI_TRAINING "::Gradient", 1, LATEST, gradient, 0, 2, MANY, "derivatives of one value by others"),

    ROW(DHOWI_MICROSOFT "::Attention", 1, LATEST, ms_attention, 0, 2, 7, "attention with the projections before it", HALF(COMPUTES), .masks = INPUT(5)),
    ROW(DHOWI_MICROSOFT "::BiasGelu", 1, LATEST, ms_gelu, DHOWI_MAP_GELU, 2, 2, "Gelu of a sum", HALF(FOLLOWS)),
    ROW(DHOWI_MICROSOFT "::CDist", 1, LATEST, ms_distances, 0, 2, 2, "distances of the rows of two matrices"),
    ROW(DHOWI_MICROSOFT "::CausalConvWithState", 1, LATEST, causal_conv, 0, 2, 4, "windows over steps and those before them, each channel by its own, perhaps SiLU; the last steps"),
    WIDE(DHOWI_MICROSOFT "::DequantizeLinear", 1, dequantize, 0, 2, 3, SMALL, "integers as numbers, by scale and zero point", TYPED),
    ROW(DHOWI_MICROSOFT "::DynamicQuantizeLSTM", 1, LATEST, ms_dynamic_lstm, 0, 3, 12, "LSTM with quantised weights; what they are multiplied with is quantised by its range"),
    ROW(DHOWI_MICROSOFT "::DynamicQuantizeMatMul", 1, LATEST, ms_dynamic_matmul, 0, 3, 5, "products of numbers, quantised by their range, with quantised weights"),
    ROW(DHOWI_MICROSOFT "::EmbedLayerNormalization", 1, LATEST, ms_embed_norm, 0, 1, 9, "LayerNormalization of embedded words, positions and segments"),
    ROW(DHOWI_MICROSOFT "::FastGelu", 1, LATEST, ms_gelu, DHOWI_MAP_GELU_TANH, 1, 2, "Gelu by tanh, perhaps of a sum", HALF(FOLLOWS)),
    ROW(DHOWI_MICROSOFT "::FusedConv", 1, LATEST, ms_fused_conv, 0, 2, 4, "convolution, a sum and an activation", HALF(COMPUTES)),
    ROW(DHOWI_MICROSOFT "::FusedGemm", 1, LATEST, ms_fused_gemm, 0, 2, 3, "Gemm and an activation", HALF(COMPUTES)),
    ROW(DHOWI_MICROSOFT "::FusedMatMul", 1, LATEST, ms_matmul, 0, 2, 2, "alpha a b for matrices, each perhaps transposed", HALF(COMPUTES)),
    ROW(DHOWI_MICROSOFT "::GatedAdd", 1, LATEST, ms_gated_add, 0, 3, 4, "a sum whose second part is weighed row by row", HALF(FOLLOWS)),
    ROW(DHOWI_MICROSOFT "::GatedDeltaNet", 1, LATEST, ms_gated_delta, 0, 1, 11, "what queries read of a state that keys and values change step by step, and the state"),
    ROW(DHOWI_MICROSOFT "::GatedRMSNorm", 1, LATEST, ms_gated_norm, 0, 3, 3, "RMSNormalization times the SiLU or the sigmoid of a gate"),
    WIDE(DHOWI_MICROSOFT "::GatherBlockQuantized", 1, ms_gather_nbits, 0, 3, 4, SMALL, "rows of a table of 4 or 8 bits in blocks, as numbers"),
    ROW(DHOWI_MICROSOFT "::GatherND", 1, LATEST, gather_nd, 0, 2, 2, "slices by tuples of indices", BACK(gather_nd), HALF(FOLLOWS)),
    ROW(DHOWI_MICROSOFT "::Gelu", 1, LATEST, ms_gelu, DHOWI_MAP_GELU, 1, 1, "Gelu", BACK(gelu), HALF(FOLLOWS)),
    ROW(DHOWI_MICROSOFT "::GridSample", 1, LATEST, grid_sample, 0, 2, 2, "images sampled at given places"),
    ROW(DHOWI_MICROSOFT "::GroupQueryAttention", 1, LATEST, ms_group_query, 0, 1, 17, "attention whose queries share keys, kept in caches, turned by their position", HALF(COMPUTES), .masks = INPUT(10), .caches = INPUT(3) | INPUT(4)),
    ROW(DHOWI_MICROSOFT "::LinearAttention", 1, LATEST, linear_attention, 0, 3, 6, "what queries read of a state that keys and values change step by step, and the state"),
    ROW(DHOWI_MICROSOFT "::LinearAttentionGate", 1, LATEST, ms_linear_gate, 0, 3, 4, "the decays and the rates that LinearAttention takes"),
    ROW(DHOWI_MICROSOFT "::MRotaryEmbedding", 1, LATEST, ms_rotary_3, 0, 4, 4, "pairs of elements rotated by their position in time, height and width", HALF(FOLLOWS)),
    ROW(DHOWI_MICROSOFT "::MatMulIntegerToFloat", 1, LATEST, ms_matmul_integer_to_float, 0, 4, 7, "matrix products of 8-bit integers, scaled to numbers"),
    ROW(DHOWI_MICROSOFT "::MatMulNBits", 1, LATEST, ms_matmul_nbits, 0, 3, 6, "matrix products with weights of 4 or 8 bits in blocks, each with a scale and a zero point"),
    ROW(DHOWI_MICROSOFT "::MoE", 1, LATEST, ms_experts, 0, 3, 8, "layers of those experts that a router chooses for each token, by their shares"),
    ROW(DHOWI_MICROSOFT "::MultiHeadAttention", 1, LATEST, ms_multi_head, 0, 1, 10, "attention with biases, masks and a past", HALF(COMPUTES), .masks = INPUT(5)),
    ROW(DHOWI_MICROSOFT "::NhwcMaxPool", 1, LATEST, ms_nhwc_pool, 0, 1, 1, "the largest elements of windows, channels last", HALF(FOLLOWS)),
    ROW(DHOWI_MICROSOFT "::QAttention", 1, LATEST, ms_quantised_attention, 0, 5, 9, "attention with a projection of quantised matrices before it", .masks = INPUT(5)),
    ROW(DHOWI_MICROSOFT "::QEmbedLayerNormalization", 1, LATEST, ms_quantised_embed_norm, 0, 1, 18, "EmbedLayerNormalization of quantised tables"),
    ROW(DHOWI_MICROSOFT "::QGemm", 1, LATEST, ms_qgemm, 0, 6, 9, "Gemm of quantised matrices"),
    ROW(DHOWI_MICROSOFT "::QLinearAdd", 1, LATEST, ms_qlinear_binary, DHOWI_MAP_ADD, 7, 8, "sums of quantised values"),
    ROW(DHOWI_MICROSOFT "::QLinearAveragePool", 1, LATEST, ms_qlinear_pool, 1, 2, 5, "means of windows of quantised images"),
    ROW(DHOWI_MICROSOFT "::QLinearConcat", 1, LATEST, ms_qlinear_concat, 0, 5, MANY, "quantised values joined, each with its own scale"),
    ROW(DHOWI_MICROSOFT "::QLinearGlobalAveragePool", 1, LATEST, ms_qlinear_global_pool, DHOWI_MEAN, 5, 5, "the mean of each channel of quantised images"),
    ROW(DHOWI_MICROSOFT "::QLinearLeakyRelu", 1, LATEST, ms_qlinear_unary, DHOWI_MAP_LEAKY, 2, 5, "LeakyRelu of quantised values"),
    ROW(DHOWI_MICROSOFT "::QLinearMul", 1, LATEST, ms_qlinear_binary, DHOWI_MAP_MUL, 7, 8, "products of quantised values"),
    ROW(DHOWI_MICROSOFT "::QLinearSigmoid", 1, LATEST, ms_qlinear_unary, DHOWI_MAP_SIGMOID, 2, 5, "Sigmoid of quantised values"),
    ROW(DHOWI_MICROSOFT "::QLinearSoftmax", 1, LATEST, ms_qlinear_softmax, 0, 2, 5, "Softmax of quantised values"),
    ROW(DHOWI_MICROSOFT "::QLinearWhere", 1, LATEST, ms_qlinear_where, 0, 9, 9, "quantised values of one of two tensors, by a condition"),
    ROW(DHOWI_MICROSOFT "::QMoE", 1, LATEST, ms_coded_experts, 0, 3, 21, "MoE with weights of 4 or 8 bits, each with a scale and a zero point"),
    WIDE(DHOWI_MICROSOFT "::QuantizeLinear", 1, quantize, 0, 2, 3, SMALL, "numbers as integers, by scale and zero point", TYPED),
    ROW(DHOWI_MICROSOFT "::QuickGelu", 1, LATEST, ms_gelu, DHOWI_MAP_SILU, 1, 1, "x sigmoid(alpha x)", HALF(FOLLOWS)),
    ROW(DHOWI_MICROSOFT "::RotaryEmbedding", 1, LATEST, ms_rotary, 0, 4, 4, "pairs of elements rotated by their position", HALF(FOLLOWS)),
    ROW(DHOWI_MICROSOFT "::ScaledSiLU", 1, LATEST, ms_scaled_silu, 0, 1, 2, "SiLU of x times a number", HALF(FOLLOWS)),
    ROW(DHOWI_MICROSOFT "::SkipLayerNormalization", 1, LATEST, ms_skip_norm, 1, 3, 5, "LayerNormalization of a sum, and the sum", HALF(FOLLOWS)),
    ROW(DHOWI_MICROSOFT "::SkipSimplifiedLayerNormalization", 1, LATEST, ms_skip_norm, 0, 3, 4, "RMSNormalization of a sum, and the sum", HALF(FOLLOWS)),
    WIDE(DHOWI_MICROSOFT "::Tokenizer", 1, ms_tokenizer, 0, 1, 1, TEXTS, "the parts of texts that a pattern is, or that are between them"),
    ROW(DHOWI_MICROSOFT "::TransposeMatMul", 1, LATEST, ms_matmul, 0, 2, 2, "alpha a b for matrices, each perhaps transposed", HALF(COMPUTES)),
    ROW(DHOWI_MICROSOFT "::Trilu", 1, LATEST, trilu, 0, 1, 2, "the upper or lower triangle of matrices", BACK(trilu), HALF(FOLLOWS)),

    WIDE(DHOWI_ML "::ArrayFeatureExtractor", 1, ml_pick_features, 0, 2, 2, TEXTS, "features by their places"),
    ROW(DHOWI_ML "::Binarizer", 1, LATEST, ml_binarizer, 0, 1, 1, "1 above a threshold, else 0"),
    WIDE(DHOWI_ML "::CategoryMapper", 1, ml_label_encoder, DHOWI_ML_CATEGORIES, 1, 1, TEXTS, "texts for integers, or integers for texts"),
    ROW(DHOWI_ML "::FeatureVectorizer", 1, LATEST, ml_join_features, 0, 1, MANY, "features side by side"),
    ROW(DHOWI_ML "::Imputer", 1, LATEST, ml_imputer, 0, 1, 1, "features with others in place of missing ones"),
    WIDE(DHOWI_ML "::LabelEncoder", 1, ml_label_encoder, DHOWI_ML_KEYS, 1, 1, TEXTS, "values for keys"),
    ROW(DHOWI_ML "::LinearClassifier", 1, LATEST, ml_linear_classifier, 0, 1, 1, "classes by weighted sums of features, and the sums"),
    ROW(DHOWI_ML "::LinearRegressor", 1, LATEST, ml_linear_regressor, 0, 1, 1, "weighted sums of features"),
    ROW(DHOWI_ML "::Normalizer", 1, LATEST, ml_normalizer, 0, 1, 1, "rows of features divided by their norm"),
    WIDE(DHOWI_ML "::OneHotEncoder", 1, ml_one_hot, 0, 1, 1, TEXTS, "1 in the place of a category, else 0"),
    ROW(DHOWI_ML "::SVMClassifier", 1, LATEST, ml_svm_classifier, 0, 1, 1, "classes by support vectors, and scores of pairs of them"),
    ROW(DHOWI_ML "::SVMRegressor", 1, LATEST, ml_svm_regressor, 0, 1, 1, "numbers by support vectors"),
    ROW(DHOWI_ML "::Scaler", 1, LATEST, ml_scaler, 0, 1, 1, "features shifted and scaled"),
    ROW(DHOWI_ML "::TreeEnsemble", 1, LATEST, ml_tree_ensemble, 0, 1, 1 + DHOWI_FOREST_RESULTS, "what decision trees say, joined", .prepared = &dhowi_ml_forest),
    ROW(DHOWI_ML "::TreeEnsembleClassifier", 1, LATEST, ml_tree_classifier, 0, 1, 1 + DHOWI_FOREST_RESULTS, "classes by decision trees, and their scores", .prepared = &dhowi_ml_forest),
    ROW(DHOWI_ML "::TreeEnsembleRegressor", 1, LATEST, ml_tree_regressor, 0, 1, 1 + DHOWI_FOREST_RESULTS, "what decision trees say, joined", .prepared = &dhowi_ml_forest),
    ROW(DHOWI_ML "::ZipMap", 1, LATEST, ml_zip_map, 0, 1, 1, "its input: a column for each class, in place of dictionaries"),

    /* recurrent */
    ROW("GRU", 3, LATEST, gru, 0, 3, 6, "gated recurrent units", BACK_ALL(gru)),
    ROW("LSTM", 1, LATEST, lstm, 0, 3, 8, "long short-term memory", BACK_ALL(lstm)),
    ROW("RNN", 1, LATEST, rnn, 0, 3, 6, "the simple recurrent network", BACK_ALL(rnn)),
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
