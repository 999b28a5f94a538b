/* SPDX-License-Identifier: Apache-2.0
 *
 * Looking at values: as text, and one at a time.
 */
#ifndef DHOW_PRINT_H_
#define DHOW_PRINT_H_

#include "dhow/copy.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Takes a piece of text, which ends with a 0 after `bytes` bytes. */
typedef void (*dhow_text_writer)(void *user, const char *text, uint64_t bytes);

/**
 * Writes a tensor's values with dtype, shape and device, as PyTorch prints them:
 *
 *     tensor([[ 0.5000, -1.2500],
 *             [ 3.0000,  4.0000]], f32[2, 2] on cpu:0)
 *
 * Of more than 1000 elements, the first and last three of each dimension; only those travel from a
 * device.
 *
 * @param tensor  of any device and strides
 * @param write   called with the text, in pieces; NULL writes to stdout
 * @param user    handed to it
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY, or what the work on the tensor reports (then nothing was
 * written)
 *
 * Threads: any. Blocks: until the values are there.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_print(dhow_tensor *tensor, dhow_text_writer write,
                                                      void *user);

/**
 * The value. Integers of 64 bits beyond 2^53 are rounded; bool is 0 or 1.
 *
 * @param tensor  of any device, rank and dtype, with one element
 * @param out     receives the value; 0 on errors
 * @return INVALID_ARGUMENT (not exactly one element), or what the work on the tensor reports
 *
 * Threads: any. Blocks: until the value is there.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_item(dhow_tensor *tensor, double *out);

/**
 * The same, exact for integers.
 *
 * @param tensor  of any device and rank, of integers or bool, with one element
 * @param out     receives the value; 0 on errors
 * @return INVALID_ARGUMENT (not exactly one element, or a float), OUT_OF_RANGE (a u64 beyond 2^63 -
 * 1), or what the work on the tensor reports
 *
 * Threads: any. Blocks: until the value is there.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_item_i64(dhow_tensor *tensor, int64_t *out);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_PRINT_H_ */
