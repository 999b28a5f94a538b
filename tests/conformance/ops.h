/* SPDX-License-Identifier: Apache-2.0
 *
 * Which dtypes the cases of operations come in: X(TYPE, type).
 */
#ifndef TESTS_CONFORMANCE_OPS_H_
#define TESTS_CONFORMANCE_OPS_H_

#include "support.h"

#define FLOATS(X) X(F32, f32) X(F64, f64) X(F16, f16) X(BF16, bf16)
#define REDUCIBLE(X) FLOATS(X) X(I32, i32) X(I64, i64)
#define NUMBERS(X) REDUCIBLE(X) X(I8, i8) X(U8, u8)

#endif /* TESTS_CONFORMANCE_OPS_H_ */
