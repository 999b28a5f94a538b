/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of the domain com.microsoft, into which ONNX Runtime's tools join those of
 * transformers.
 */
#ifndef DHOWI_MODEL_OPERATORS_MICROSOFT_H_
#define DHOWI_MODEL_OPERATORS_MICROSOFT_H_

#include "model/lower/lower.h"

#define DHOWI_MICROSOFT "com.microsoft"

/* activated.c */
dhowi_lower_fn dhowi_lower_ms_fused_gemm, dhowi_lower_ms_fused_conv;
/* attention.c */
dhowi_lower_fn dhowi_lower_ms_attention, dhowi_lower_ms_quantised_attention,
    dhowi_lower_ms_multi_head;
/* experts.c */
dhowi_lower_fn dhowi_lower_ms_experts, dhowi_lower_ms_coded_experts;
/* group_query.c */
dhowi_lower_fn dhowi_lower_ms_group_query;
/* nbits.c */
dhowi_lower_fn dhowi_lower_ms_matmul_nbits, dhowi_lower_ms_gather_nbits;
/* Refuses codes of a width that dhow has not. */
dhow_status dhowi_ms_check_bits(int64_t bits);
/* Rows of bytes as numbers: `count` of each row, where two codes are in a byte the first one low.
 */
dhow_status dhowi_ms_unpack(dhowi_lowering *b, int32_t x, bool packed, int64_t count, int32_t *out);
/* norm.c */
dhowi_lower_fn dhowi_lower_ms_skip_norm, dhowi_lower_ms_embed_norm,
    dhowi_lower_ms_quantised_embed_norm;
/* product.c */
dhowi_lower_fn dhowi_lower_ms_matmul, dhowi_lower_ms_gelu, dhowi_lower_ms_distances;
/* quantized.c */
dhowi_lower_fn dhowi_lower_ms_qlinear_binary, dhowi_lower_ms_qlinear_unary,
    dhowi_lower_ms_qlinear_concat, dhowi_lower_ms_qlinear_pool, dhowi_lower_ms_qlinear_global_pool,
    dhowi_lower_ms_nhwc_pool, dhowi_lower_ms_qlinear_where, dhowi_lower_ms_qlinear_softmax,
    dhowi_lower_ms_matmul_integer_to_float, dhowi_lower_ms_dynamic_matmul, dhowi_lower_ms_qgemm;
/* Inputs that are a matrix of codes, its scale, and its zero point, which may be missing. */
typedef struct dhowi_ms_factor {
    uint32_t codes, scale, zero;
} dhowi_ms_factor;
/* The product of what they stand for, as f32: a sum of integers, scaled. */
dhow_status dhowi_ms_scaled_product(dhowi_lowering *b, const dhowi_ms_factor *left,
                                    const dhowi_ms_factor *right, int32_t *out);
/* rotary.c */
dhowi_lower_fn dhowi_lower_ms_rotary, dhowi_lower_ms_rotary_3;
/* state.c */
dhowi_lower_fn dhowi_lower_ms_gated_delta, dhowi_lower_ms_linear_gate, dhowi_lower_ms_gated_norm,
    dhowi_lower_ms_gated_add, dhowi_lower_ms_scaled_silu;

#endif /* DHOWI_MODEL_OPERATORS_MICROSOFT_H_ */
