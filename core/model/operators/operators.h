/* SPDX-License-Identifier: Apache-2.0
 *
 * The operator table, see table.c.
 */
#ifndef DHOWI_MODEL_OPERATORS_H_
#define DHOWI_MODEL_OPERATORS_H_

#include "model/lower/lower.h"

enum { DHOWI_LATEST_OPSET = 28 }; /* of onnx 1.23 */

/* The row for an opset, or NULL; *out_other is one for another opset, where there is one. */
const dhowi_operator *dhowi_operator_find(const char *name, size_t length, int64_t opset,
                                          const dhowi_operator **out_other);
uint32_t dhowi_operator_count(void);
const dhowi_operator *dhowi_operator_at(uint32_t index);
/* The names of its attributes with blanks between them. */
const char *dhowi_operator_attributes(const dhowi_operator *op);
bool dhowi_operator_takes_attribute(const dhowi_operator *op, dhowi_slice name);
/* A domain whose operators have it in their names. */
#define DHOWI_PREVIEW "ai.onnx.preview"
#define DHOWI_TRAINING "ai.onnx.preview.training"
#endif /* DHOWI_MODEL_OPERATORS_H_ */
