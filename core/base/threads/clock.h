/* SPDX-License-Identifier: Apache-2.0
 *
 * The time since some moment, which never goes back.
 */
#ifndef DHOWI_BASE_CLOCK_H_
#define DHOWI_BASE_CLOCK_H_

#include <stdint.h>
#include <time.h>

static inline int64_t dhowi_nanoseconds(void) {
    struct timespec t = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static inline double dhowi_seconds(void) { return (double)dhowi_nanoseconds() * 1e-9; }

#endif /* DHOWI_BASE_CLOCK_H_ */
