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
void ptx_load_matrices(ptx_machine *m, const ptx_warp *w, const ptx_instruction *i) {
    uint64_t room[LANES], address[LANES], values[LANES];
    memcpy(address, ptx_lanes(m, w, &i->in[0], room), sizeof address);
    for (unsigned k = 0; k < i->out_count; k++) {
        uint16_t matrix[8][8] = {{0}};
        for (unsigned row = 0; row < 8; row++) {
            const unsigned lane = 8 * k + row;
            const void *from =
                ptx_access(m, w, lane, i, PTX_SHARED, address[lane], sizeof matrix[0], false);
            if (from != NULL) memcpy(matrix[row], from, sizeof matrix[0]);
        }
        for (unsigned lane = 0; lane < LANES; lane++) {
            const unsigned row = lane / 4, column = lane % 4 * 2;
            const uint32_t first = i->code.turned ? matrix[column][row] : matrix[row][column];
            const uint32_t next =
                i->code.turned ? matrix[column + 1][row] : matrix[row][column + 1];
            values[lane] = first | next << 16;
        }
        ptx_write(w, &i->out[k], 0xffffffff, values);
    }
}

static double factor(const ptx_instruction *i, uint64_t bits, unsigned half) {
    const uint16_t v = (uint16_t)(bits >> 16 * half);
    return i->code.from.kind == 'f' ? double_of_half(v) : (double)f32_of_bits((uint32_t)v << 16);
}

/* d = a b + c; sums are exact to a rounding, better than a GPU's. */
void ptx_multiply_matrices(const ptx_machine *m, const ptx_warp *w, const ptx_instruction *i) {
    double a[M][K], b[K][N], d[M][N];
    uint64_t room[LANES], values[4][LANES];
    for (unsigned r = 0; r < 6; r++) { /* four of a: rows +8, then columns +8; two of b */
        const uint64_t *in = ptx_lanes(m, w, &i->in[r], room);
        for (unsigned lane = 0; lane < LANES; lane++) {
            const unsigned row = lane / 4, column = lane % 4 * 2;
            for (unsigned e = 0; e < 2; e++) {
                const double v = factor(i, in[lane], e);
                if (r < 4)
                    a[row + r % 2 * 8][column + r / 2 * 8 + e] = v;
                else
                    b[column + r % 2 * 8 + e][row] = v;
            }
        }
    }
    for (unsigned r = 0; r < 4; r++) {
        const uint64_t *in = ptx_lanes(m, w, &i->in[6 + r], room);
        for (unsigned lane = 0; lane < LANES; lane++)
            d[lane / 4 + r / 2 * 8][lane % 4 * 2 + r % 2] = (double)f32_of_bits((uint32_t)in[lane]);
    }
    for (unsigned row = 0; row < M; row++)
        for (unsigned k = 0; k < K; k++)
            for (unsigned column = 0; column < N; column++)
                d[row][column] += a[row][k] * b[k][column];
    for (unsigned r = 0; r < 4; r++) {
        for (unsigned lane = 0; lane < LANES; lane++)
            values[r][lane] = bits_of_f32((float)d[lane / 4 + r / 2 * 8][lane % 4 * 2 + r % 2]);
        ptx_write(w, &i->out[r], 0xffffffff, values[r]);
    }
}
