/* SPDX-License-Identifier: Apache-2.0
 *
 * See buckets.h.
 */
#include "parallel/buckets.h"

#include "base/memory/size.h"

void dhowi_buckets_divide(const int64_t *firsts, uint32_t count, int64_t elements, int64_t wanted,
                          uint32_t *bucket_of, dhowi_buckets *out) {
    const int64_t least = elements / DHOWI_MAX_BUCKETS + 1;
    int64_t end = elements;
    wanted = DHOWI_MAX(wanted, least);
    out->count = 0;
    for (uint32_t i = count; i-- > 0;) {
        bucket_of[i] = out->count;
        if (end - firsts[i] < wanted && i > 0) continue;
        out->first[out->count] = firsts[i];
        out->elements[out->count] = end - firsts[i];
        out->count++;
        end = firsts[i];
    }
}
