/* SPDX-License-Identifier: Apache-2.0
 *
 * Scenarios of training for alloc_test.c.
 */
#ifndef TESTS_FAULT_TRAINING_H_
#define TESTS_FAULT_TRAINING_H_

#include "dhow/dhow.h"

/* Trains a number on `count` devices of the context, by way of a checkpoint in `path`. What runs
 * out of memory is called once more. INTERNAL when the number is not the one that it should become.
 */
dhow_status fault_train(dhow_context *context, uint32_t count, const char *path);
/* Two steps in a cache in place, the same way. */
dhow_status fault_cache(dhow_context *context);

#endif /* TESTS_FAULT_TRAINING_H_ */
