/* SPDX-License-Identifier: Apache-2.0
 *
 * The instructions of tensor cores, whose operands are spread over the lanes of a warp as the PTX
 * ISA says under "Matrix Fragments for mma.m16n8k16" and "ldmatrix".
 */
#include <string.h>

#include "../float_bits.h"
#include "machine.h"

enum { LANES = 32, M = 16, N = 8, K = 16 };

/* A register of two halves holds columns 2 (lane % 4) and the next of row lane / 4 of an 8 x 8. */
void ptx_load_matrices(ptx_machine *m, ptx_thread *warp, const ptx_instruction *i) {
    for (unsigned k = 0; k < i->out_count; k++) {
        uint16_t matrix[8][8] = {{0}};
        for (unsigned row = 0; row < 8; row++) {
            const ptx_thread *t = &warp[8 * k + row];
            const void *from =
                ptx_access(m, t, i, PTX_SHARED, ptx_read(m, t, &i->in[0]), sizeof matrix[0], false);
            if (from != NULL) memcpy(matrix[row], from, sizeof matrix[0]);
        }
        for (unsigned lane = 0; lane < LANES; lane++) {
            const unsigned row = lane / 4, column = lane % 4 * 2;
            const uint32_t first = i->code.turned ? matrix[column][row] : matrix[row][column];
            const uint32_t next =
                i->code.turned ? matrix[column + 1][row] : matrix[row][column + 1];
            ptx_write(&warp[lane], &i->out[k], first | next << 16);
        }
    }
}

static double factor(const ptx_instruction *i, uint64_t bits, unsigned half) {
    const uint16_t v = (uint16_t)(bits >> 16 * half);
    return i->code.from.kind == 'f' ? double_of_half(v) : (double)f32_of_bits((uint32_t)v << 16);
}

/* d = a b + c; sums are exact to a rounding, better than a GPU's. */
void ptx_multiply_matrices(const ptx_machine *m, ptx_thread *warp, const ptx_instruction *i) {
    double a[M][K], b[K][N];
    for (unsigned lane = 0; lane < LANES; lane++) {
        const unsigned row = lane / 4, column = lane % 4 * 2;
        for (unsigned e = 0; e < 2; e++) {
            for (unsigned r = 0; r < 4; r++) /* rows +8, then columns +8 */
                a[row + r % 2 * 8][column + r / 2 * 8 + e] =
                    factor(i, ptx_read(m, &warp[lane], &i->in[r]), e);
            for (unsigned r = 0; r < 2; r++)
                b[column + r * 8 + e][row] = factor(i, ptx_read(m, &warp[lane], &i->in[4 + r]), e);
        }
    }
    for (unsigned lane = 0; lane < LANES; lane++) {
        float d[4];
        for (unsigned r = 0; r < 4; r++) {
            const unsigned row = lane / 4 + r / 2 * 8, column = lane % 4 * 2 + r % 2;
            double sum = (double)f32_of_bits((uint32_t)ptx_read(m, &warp[lane], &i->in[6 + r]));
            for (unsigned k = 0; k < K; k++) sum += a[row][k] * b[k][column];
            d[r] = (float)sum;
        }
        for (unsigned r = 0; r < 4; r++) ptx_write(&warp[lane], &i->out[r], bits_of_f32(d[r]));
    }
}
