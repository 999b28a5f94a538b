/* SPDX-License-Identifier: Apache-2.0
 *
 * See nbits.h.
 */
#include "nbits.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

static int code_at(const double *bytes, int i, int bits) {
    if (bits == 8) return (int)bytes[i];
    return (int)bytes[i / 2] >> (i % 2 * 4) & 15;
}

exact *nbits_exact(const nbits_shape *s) {
    const int blocks = ((s->k - 1) >> s->shift) + 1, zero_bytes = (blocks * s->bits + 7) / 8;
    const int row_bytes = (blocks << s->shift) * s->bits / 8;
    double *a = made_values(s->type, (size_t)(s->m * s->k), 0);
    double *w = made_values(U8, (size_t)(s->n * row_bytes), 1);
    double *scales = made_values(s->type, (size_t)(s->n * blocks), 2);
    double *zeros = made_values(U8, (size_t)(s->n * zero_bytes), 3);
    double *zero_numbers = made_values(s->type, (size_t)(s->n * blocks), 4);
    double *bias = made_values(s->type, (size_t)s->n, 5);
    exact *c = calloc((size_t)(s->m * s->n), sizeof *c);
    cr_assert_not_null(c);
    for (int y = 0; y < s->m * s->n; y++) {
        const int i = y / s->n, j = y % s->n;
        c[y].value = s->bias_mode != 0 ? bias[j] : 0;
        c[y].size = fabs(c[y].value);
        for (int p = 0; p < s->k; p++) {
            const int block = p >> s->shift, of_scales = j * blocks + block;
            const double zero = s->zero_mode == 0 ? 1 << (s->bits - 1)
                                : s->zero_mode == 1
                                    ? code_at(zeros + j * zero_bytes, block, s->bits)
                                    : zero_numbers[of_scales];
            const double term = a[i * s->k + p] * scales[of_scales] *
                                (code_at(w + j * row_bytes, p, s->bits) - zero);
            c[y].value += term;
            c[y].size += fabs(term);
        }
    }
    free(a);
    free(w);
    free(scales);
    free(zeros);
    free(zero_numbers);
    free(bias);
    return c;
}
