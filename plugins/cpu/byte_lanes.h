/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of sums of bytes share. LANES is given by the build.
 */
#ifndef DHOW_PLUGINS_CPU_BYTE_LANES_H_
#define DHOW_PLUGINS_CPU_BYTE_LANES_H_

#include <string.h>

#include "byte_sums.h"
#include "vectors.h"

enum { COLUMNS = BYTE_SUMS_COLUMNS, ROWS = BYTE_SUMS_ROWS };

INLINE __m256i words_at(const void *p) { return _mm256_loadu_si256(p); }

/* The same in all lanes. */
INLINE __m256i four_bytes(const void *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm256_set1_epi32(four);
}

/* Sums and the pairs of 16 bits of `words`. */
INLINE __m256i add_pairs(__m256i sums, __m256i words) {
    return _mm256_add_epi32(sums, _mm256_madd_epi16(words, _mm256_set1_epi16(1)));
}

/* Sums stay in registers until then, as no other function has their address. */
INLINE void copy_sums(__m256i from[ROWS][2], const int rows, __m256i to[ROWS][2]) {
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int h = 0; h < 2; h++) to[r][h] = from[r][h];
    }
}

/* byte_ends.c: what sums of columns k.. of some rows become. */
void byte_sums_end(const byte_sums_job *job, __m256i sums[ROWS][2], int64_t row, int rows,
                   int64_t k, int64_t count);

#endif
