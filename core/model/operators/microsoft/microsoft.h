/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of the domain com.microsoft, into which ONNX Runtime's tools join those of
 * transformers.
 */
#ifndef DHOWI_MODEL_OPERATORS_MICROSOFT_H_
#define DHOWI_MODEL_OPERATORS_MICROSOFT_H_

#include "model/lower/lower.h"

#define DHOWI_MICROSOFT "com.microsoft"

/* attention.c */
dhowi_lower_fn dhowi_lower_ms_attention, dhowi_lower_ms_multi_head;
/* group_query.c */
dhowi_lower_fn dhowi_lower_ms_group_query;
/* nbits.c */
dhowi_lower_fn dhowi_lower_ms_matmul_nbits;
/* norm.c */
dhowi_lower_fn dhowi_lower_ms_skip_norm, dhowi_lower_ms_embed_norm;
/* product.c */
dhowi_lower_fn dhowi_lower_ms_matmul, dhowi_lower_ms_gelu;
/* rotary.c */
dhowi_lower_fn dhowi_lower_ms_rotary;

#endif /* DHOWI_MODEL_OPERATORS_MICROSOFT_H_ */
