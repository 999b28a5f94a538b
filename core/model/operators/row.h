/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes that the builder makes, see row.c.
 */
#ifndef DHOWI_MODEL_OPERATORS_ROW_H_
#define DHOWI_MODEL_OPERATORS_ROW_H_

#include "model/lower/lower.h"

dhowi_lower_fn dhowi_lower_row;
/* The row of nodes that the builder makes. */
const dhowi_operator *dhowi_operator_of_row(void);

#endif /* DHOWI_MODEL_OPERATORS_ROW_H_ */
