/* SPDX-License-Identifier: Apache-2.0
 *
 * How a flat array of gradients is divided into buckets that are added up on their own, in the
 * order in which a backward makes them: from the last parameter to the first, as PyTorch's
 * DistributedDataParallel.
 */
#ifndef DHOWI_PARALLEL_BUCKETS_H_
#define DHOWI_PARALLEL_BUCKETS_H_

#include <stdint.h>

enum { DHOWI_MAX_BUCKETS = 15 };

typedef struct dhowi_buckets {
    uint32_t count;
    int64_t first[DHOWI_MAX_BUCKETS], elements[DHOWI_MAX_BUCKETS];
} dhowi_buckets;

/* Parameter i begins at firsts[i], in their order, the first at 0; the array has `elements`. A
 * bucket has `wanted` elements at least, or more, that there are not too many; but for the last,
 * which has the rest. bucket_of[i] is that of parameter i. */
void dhowi_buckets_divide(const int64_t *firsts, uint32_t count, int64_t elements, int64_t wanted,
                          uint32_t *bucket_of, dhowi_buckets *out);

#endif /* DHOWI_PARALLEL_BUCKETS_H_ */
