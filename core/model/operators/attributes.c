/* SPDX-License-Identifier: Apache-2.0
 *
 * The attributes that ONNX gives the operators of the table, in all opsets that a row holds for;
 * the test onnx_attributes compares them with ONNX's own schemas. An operator that is not here has
 * none.
 */
#include <string.h>

#include "base/memory/size.h"
#include "model/operators/microsoft/microsoft.h"
#include "model/operators/operators.h"

/* clang-format off */
static const struct {
    const char *operation, *attributes;
} k_attributes[] = {
    {"Add", "axis broadcast"},
    {"AffineGrid", "align_corners"},
    {"And", "axis broadcast"},
    {"ArgMax", "axis keepdims select_last_index"},
    {"ArgMin", "axis keepdims select_last_index"},
    {"Attention", "is_causal kv_num_heads left_window_size q_num_heads qk_matmul_output_mode right_window_size scale softcap softmax_precision"},
    {"AveragePool", "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides"},
    {"BatchNormalization", "epsilon is_test momentum spatial training_mode"},
    {"Bernoulli", "dtype seed"},
    {"BitShift", "direction"},
    {"BlackmanWindow", "output_datatype periodic"},
    {"Cast", "round_mode saturate to"},
    {"CastLike", "round_mode saturate"},
    {"Celu", "alpha"},
    {"CenterCropPad", "axes"},
    {"Clip", "max min"},
    {"Col2Im", "dilations pads strides"},
    {"Compress", "axis"},
    {"Concat", "axis"},
    {"ConcatFromSequence", "axis new_axis"},
    {"Constant", "sparse_value value value_float value_floats value_int value_ints value_string value_strings"},
    {"ConstantOfShape", "value"},
    {"Conv", "auto_pad dilations group kernel_shape pads strides"},
    {"ConvInteger", "auto_pad dilations group kernel_shape pads strides"},
    {"ConvTranspose", "auto_pad dilations group kernel_shape output_padding output_shape pads strides"},
    {"CumSum", "exclusive reverse"},
    {"DFT", "axis inverse onesided"},
    {"DeformConv", "dilations group kernel_shape offset_group pads strides"},
    {"DepthToSpace", "blocksize mode"},
    {"DequantizeLinear", "axis block_size output_dtype"},
    {"Div", "axis broadcast"},
    {"Dropout", "is_test ratio seed"},
    {"Einsum", "equation"},
    {"Elu", "alpha"},
    {"Equal", "axis broadcast"},
    {"EyeLike", "dtype k"},
    {"Flatten", "axis"},
    {"GRU", "activation_alpha activation_beta activations clip direction hidden_size layout linear_before_reset output_sequence"},
    {"Gather", "axis"},
    {"GatherElements", "axis"},
    {"GatherND", "batch_dims"},
    {"Gelu", "approximate"},
    {"Gemm", "alpha beta broadcast transA transB"},
    {"GlobalLpPool", "p"},
    {"Greater", "axis broadcast"},
    {"GridSample", "align_corners mode padding_mode"},
    {"GroupNormalization", "epsilon num_groups stash_type"},
    {"HammingWindow", "output_datatype periodic"},
    {"HannWindow", "output_datatype periodic"},
    {"HardSigmoid", "alpha beta"},
    {"Hardmax", "axis"},
    {"If", "else_branch then_branch"},
    {"InstanceNormalization", "epsilon"},
    {"IsInf", "detect_negative detect_positive"},
    {"LRN", "alpha beta bias size"},
    {"LSTM", "activation_alpha activation_beta activations clip direction hidden_size input_forget layout output_sequence"},
    {"LayerNormalization", "axis epsilon stash_type"},
    {"LeakyRelu", "alpha"},
    {"Less", "axis broadcast"},
    {"LogSoftmax", "axis"},
    {"Loop", "body"},
    {"LpNormalization", "axis p"},
    {"LpPool", "auto_pad ceil_mode dilations kernel_shape p pads strides"},
    {"MaxPool", "auto_pad ceil_mode dilations kernel_shape pads storage_order strides"},
    {"MaxUnpool", "kernel_shape pads strides"},
    {"MeanVarianceNormalization", "axes"},
    {"MelWeightMatrix", "output_datatype"},
    {"Mod", "fmod"},
    {"Mul", "axis broadcast"},
    {"Multinomial", "dtype sample_size seed"},
    {"NegativeLogLikelihoodLoss", "ignore_index reduction"},
    {"NonMaxSuppression", "center_point_box"},
    {"OneHot", "axis"},
    {"Optional", "type"},
    {"Or", "axis broadcast"},
    {"Pad", "mode pads value"},
    {"Pow", "axis broadcast"},
    {"QLinearConv", "auto_pad dilations group kernel_shape pads strides"},
    {"QuantizeLinear", "axis block_size output_dtype precision saturate"},
    {"RMSNormalization", "axis epsilon stash_type"},
    {"RNN", "activation_alpha activation_beta activations clip direction hidden_size layout output_sequence"},
    {"RandomNormal", "dtype mean scale seed shape"},
    {"RandomNormalLike", "dtype mean scale seed"},
    {"RandomUniform", "dtype high low seed shape"},
    {"RandomUniformLike", "dtype high low seed"},
    {"ReduceL1", "axes keepdims noop_with_empty_axes"},
    {"ReduceL2", "axes keepdims noop_with_empty_axes"},
    {"ReduceLogSum", "axes keepdims noop_with_empty_axes"},
    {"ReduceLogSumExp", "axes keepdims noop_with_empty_axes"},
    {"ReduceMax", "axes keepdims noop_with_empty_axes"},
    {"ReduceMean", "axes keepdims noop_with_empty_axes"},
    {"ReduceMin", "axes keepdims noop_with_empty_axes"},
    {"ReduceProd", "axes keepdims noop_with_empty_axes"},
    {"ReduceSum", "axes keepdims noop_with_empty_axes"},
    {"ReduceSumSquare", "axes keepdims noop_with_empty_axes"},
    {"Reshape", "allowzero"},
    {"Resize", "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value keep_aspect_ratio_policy mode nearest_mode"},
    {"ReverseSequence", "batch_axis time_axis"},
    {"RoiAlign", "coordinate_transformation_mode mode output_height output_width sampling_ratio spatial_scale"},
    {"RotaryEmbedding", "interleaved num_heads rotary_embedding_dim"},
    {"STFT", "onesided"},
    {"Scatter", "axis"},
    {"ScatterElements", "axis reduction"},
    {"ScatterND", "reduction"},
    {"Selu", "alpha gamma"},
    {"SequenceEmpty", "dtype"},
    {"SequenceMap", "body"},
    {"Shape", "end start"},
    {"Shrink", "bias lambd"},
    {"SimplifiedLayerNormalization", "axis epsilon stash_type"},
    {"Slice", "axes ends starts"},
    {"Softmax", "axis"},
    {"SoftmaxCrossEntropyLoss", "ignore_index reduction"},
    {"SpaceToDepth", "blocksize"},
    {"Split", "axis num_outputs split"},
    {"SplitToSequence", "axis keepdims"},
    {"Squeeze", "axes"},
    {"StringNormalizer", "case_change_action is_case_sensitive locale stopwords"},
    {"StringSplit", "delimiter maxsplit"},
    {"Sub", "axis broadcast"},
    {"Swish", "alpha"},
    {"TensorScatter", "axis mode"},
    {"ThresholdedRelu", "alpha"},
    {"TopK", "axis k largest sorted"},
    {"Transpose", "perm"},
    {"Trilu", "upper"},
    {"Unique", "axis sorted"},
    {"Unsqueeze", "axes"},
    {"Upsample", "mode scales"},
    {"Xor", "axis broadcast"},
    {DHOWI_TRAINING "::Gradient", "xs y zs"},
    {DHOWI_MICROSOFT "::Attention", "do_rotary mask_filter_value num_heads past_present_share_buffer qkv_hidden_sizes rotary_embedding_dim scale unidirectional"},
    {DHOWI_MICROSOFT "::DequantizeLinear", "axis"},
    {DHOWI_MICROSOFT "::DynamicQuantizeLSTM", "activation_alpha activation_beta activations clip direction hidden_size input_forget"},
    {DHOWI_MICROSOFT "::EmbedLayerNormalization", "epsilon mask_index_type"},
    {DHOWI_MICROSOFT "::FusedConv", "activation activation_params auto_pad dilations group kernel_shape pads strides"},
    {DHOWI_MICROSOFT "::FusedGemm", "activation activation_alpha activation_beta activation_gamma alpha beta transA transB"},
    {DHOWI_MICROSOFT "::FusedMatMul", "alpha transA transB transBatchA transBatchB"},
    {DHOWI_MICROSOFT "::GroupQueryAttention", "causal do_rotary k_norm_epsilon k_quant_type kv_cache_bit_width kv_num_heads local_window_size num_heads q_norm_epsilon qk_norm_epsilon qk_output rotary_interleaved scale sliding_window_cache smooth_softmax softcap v_quant_type"},
    {DHOWI_MICROSOFT "::MatMulNBits", "K N accuracy_level bits block_size weight_prepacked"},
    {DHOWI_MICROSOFT "::MultiHeadAttention", "mask_filter_value num_heads scale unidirectional"},
    {DHOWI_MICROSOFT "::NhwcMaxPool", "auto_pad ceil_mode dilations kernel_shape pads strides"},
    {DHOWI_MICROSOFT "::QGemm", "alpha transA transB"},
    {DHOWI_MICROSOFT "::QLinearAveragePool", "auto_pad ceil_mode channels_last count_include_pad kernel_shape pads strides"},
    {DHOWI_MICROSOFT "::QLinearConcat", "axis"},
    {DHOWI_MICROSOFT "::QLinearGlobalAveragePool", "channels_last"},
    {DHOWI_MICROSOFT "::QLinearLeakyRelu", "alpha"},
    {DHOWI_MICROSOFT "::QLinearSoftmax", "axis opset"},
    {DHOWI_MICROSOFT "::QuantizeLinear", "axis"},
    {DHOWI_MICROSOFT "::QuickGelu", "alpha"},
    {DHOWI_MICROSOFT "::RotaryEmbedding", "interleaved is_packed_batching num_heads rotary_embedding_dim scale"},
    {DHOWI_MICROSOFT "::SkipLayerNormalization", "epsilon"},
    {DHOWI_MICROSOFT "::SkipSimplifiedLayerNormalization", "epsilon"},
    {DHOWI_MICROSOFT "::TransposeMatMul", "alpha transA transB"},
    {DHOWI_MICROSOFT "::Trilu", "upper"},
};
/* clang-format on */

static bool has_word(const char *words, dhowi_slice word) {
    while (*words != 0) {
        const size_t length = strcspn(words, " ");
        if (length == word.length && memcmp(words, word.data, length) == 0) return true;
        words += length + (words[length] == ' ');
    }
    return false;
}

const char *dhowi_operator_attributes(const dhowi_operator *op) {
    for (size_t i = 0; i < DHOWI_COUNT(k_attributes); i++)
        if (strcmp(op->name, k_attributes[i].operation) == 0) return k_attributes[i].attributes;
    return "";
}

/* All take what opsets before 6 say of who may use an input's memory. */
bool dhowi_operator_takes_attribute(const dhowi_operator *op, dhowi_slice name) {
    return dhowi_slice_is(name, "consumed_inputs") || has_word(dhowi_operator_attributes(op), name);
}
