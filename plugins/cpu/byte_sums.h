/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of products of bytes with AVX2, exact ones: of bytes by bytes where two products, or four,
 * fit 16 bits whatever the inputs are, and of pairs of 16 bits elsewhere.
 */
#ifndef DHOW_PLUGINS_CPU_BYTE_SUMS_H_
#define DHOW_PLUGINS_CPU_BYTE_SUMS_H_

#include "dhow/plugin.h"

/* Results whose weights lie beside each other, and rows that are computed at once. */
enum { BYTE_SUMS_COLUMNS = 16, BYTE_SUMS_ROWS = 6 };

/* y[r][k] of sums[r][k], which are those of rows[r][terms] by the packed weights of k; see
 * dhow_conv_desc for what is made of the sums. Elements of y and of the residual lie `stride`
 * apart from row to row. */
typedef struct byte_sums_job {
    int64_t count;
    int64_t pairs, quads; /* of terms of a row: it has 2 pairs or 4 quads of them */
    const void *rows;
    const void *packed;
    int32_t zero;  /* taken off bytes */
    int is_signed; /* bytes by channel */
    int32_t dst_dtype, residual_dtype;
    char *y;
    const char *residual; /* NULL: none */
    int64_t stride;
    const float *bias; /* [2 or more][table]; NULL where the sums are wanted */
    int64_t table;
    uint32_t tail_count;
    const dhow_conv_tail *tail;
} byte_sums_job;

/* Of i16 rows by i16 weights. Results first .. end-1, of which `first` is a multiple of
 * BYTE_SUMS_COLUMNS. */
void byte_sums_v3(const byte_sums_job *job, int64_t first, int64_t end);

/* The same where a result k is the sum of rows[r][2 pairs][k], which are pointers to u8 or i8 by
 * channel, times i16 that are packed for it. */
void byte_sums_by_channel_v3(const byte_sums_job *job, int64_t first, int64_t end);

/* Where the weight of channel k of a panel and place `tap` lies in the packed panel. */
static inline int64_t byte_sums_place(int64_t k, int64_t tap) {
    return tap / 2 * 2 * BYTE_SUMS_COLUMNS + k % 8 / 4 * BYTE_SUMS_COLUMNS + k / 8 * 8 + k % 4 * 2 +
           tap % 2;
}

/* to = from - zero */
void widen_bytes_v3(const uint8_t *from, int is_signed, int32_t zero, int64_t count, int16_t *to);

/* i8 as u8: to = from + 128 */
void move_up_bytes_v3(const uint8_t *from, int64_t count, uint8_t *to);

static inline int64_t byte_sums_packed(int64_t results, int64_t pairs) {
    return (results + BYTE_SUMS_COLUMNS - 1) / BYTE_SUMS_COLUMNS * BYTE_SUMS_COLUMNS * 2 * pairs;
}

#endif
