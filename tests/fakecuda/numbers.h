/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as the fake cuBLAS and cuDNN read and write them; types are those of cudaDataType_t.
 */
#ifndef TESTS_FAKECUDA_NUMBERS_H_
#define TESTS_FAKECUDA_NUMBERS_H_

#include <stdint.h>

int64_t fake_type_bytes(int32_t type); /* 0: no type of matrices */
const char *fake_type_name(int32_t type);
double fake_load(const unsigned char *p, int32_t type);
void fake_store(unsigned char *p, int32_t type, double value); /* rounded to the nearest */
double fake_tf32(double value);                                /* as tensor cores read an f32 */

#endif /* TESTS_FAKECUDA_NUMBERS_H_ */
