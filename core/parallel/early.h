/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over processes, bucket by bucket while a backward makes them, on a thread of their own. All
 * processes hand in all buckets in the same order, also one that has failed, so that none waits for
 * it.
 */
#ifndef DHOWI_PARALLEL_EARLY_H_
#define DHOWI_PARALLEL_EARLY_H_

#include "base/errors/error.h"
#include "parallel/buckets.h"
#include "tensor/tensor.h"

typedef struct dhowi_early dhowi_early;

/* Adds up numbers in host memory over all processes, on the thread. */
typedef dhow_status dhowi_early_sum(void *user, dhow_dtype dtype, void *data, int64_t count);

/* Of flat arrays of one type on `device`, all of the buckets' elements. After a failure
 * dhowi_early_end() must follow as well. */
dhow_status dhowi_early_make(dhow_device *device, dhow_dtype dtype, const dhowi_buckets *buckets,
                             dhowi_early_sum *sum, void *user, dhowi_early **out);
void dhowi_early_end(dhowi_early *early); /* NULL is allowed */

/* Before a backward, whose gradients go to `array`; dhowi_early_finish() must follow. */
void dhowi_early_begin(dhowi_early *early, dhow_tensor *array);
/* `stream` has been given all that writes the bucket, and nothing behind it. They come in their
 * order. */
dhow_status dhowi_early_ready(dhowi_early *early, uint32_t bucket, dhow_stream *stream);
/* Blocks until all buckets are summed, those of a process that has failed, *own, too: the sums are
 * in the array once `stream` comes to it, and are of use once all have agreed. Returns the failure
 * of a sum, after which no process can go on; what else fails is left in *own. */
dhow_status dhowi_early_finish(dhowi_early *early, dhow_stream *stream, dhowi_saved_error *own);

#endif /* DHOWI_PARALLEL_EARLY_H_ */
