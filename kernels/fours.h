/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of a few rows with four columns that lie each by itself, in kernels of loops of f32: as many rows at a time,
 * AT_ONCE, as registers hold sums of. Behind sixteen.h. */
#ifdef K_LOOPS
#define TOGETHER 4
#define EACH_COLUMN_OF_FOURS(X) X(0) X(1) X(2) X(3)
#if K_LANES_f32 == 16 /* 32 vector registers */
#define AT_ONCE 4
#define EACH_ROW_OF_FOURS(X, c) X(c, 0) X(c, 1) X(c, 2) X(c, 3)
#define READ_ROWS READ_ROW(0) READ_ROW(1) READ_ROW(2) READ_ROW(3)
#define SIDE 16
#define LANES_OF_FOURS LANES16
#define LOAD_LANES(p) LOAD16(p)
#define STORE_LANES(p, v) STORE16(p, v)
#define NO_LANES NONE16
#else
#define AT_ONCE 2
#define EACH_ROW_OF_FOURS(X, c) X(c, 0) X(c, 1)
#define READ_ROWS READ_ROW(0) READ_ROW(1)
#define SIDE 8
#ifdef K_OPENCL
#define LANES_OF_FOURS float8
#define LOAD_LANES(p) vload8(0, p)
#define STORE_LANES(p, v) vstore8(v, 0, p)
#define NO_LANES ((float8)(0))
#else
typedef f32 lanes8 __attribute__((vector_size(32), may_alias, aligned(4)));
#define LANES_OF_FOURS lanes8
#define LOAD_LANES(p) (*(const lanes8 *)(p))
#define STORE_LANES(p, v) (*(lanes8 *)(p) = (v))
#define NO_LANES ((lanes8){0})
#endif
#endif
#if defined(K_C) && K_LANES_f32 == 16
#define KEEP_FOURS                                                                                                   \
    {                                                                                                                \
        EIGHT_SUMS16(low, s00, s10, s20, s30, s01, s11, s21, s31)                                                    \
        EIGHT_SUMS16(high, s02, s12, s22, s32, s03, s13, s23, s33)                                                   \
        SIXTEENTHS16(all, low, high)                                                                                 \
        STORE16(sums, all);                                                                                          \
    }
#else
FN_SHARED f32 sum_of_side(LOCALPTR f32 *lane)
{
    UNROLL for (int n = SIDE / 2; n > 0; n /= 2)
    {
        UNROLL for (int l = 0; l < n; l++) lane[l] += lane[l + n];
    }
    return lane[0];
}
#define KEEP_FOURS                                                                                                   \
    {                                                                                                                \
        LOCAL(f32, lane, SIDE);                                                                                      \
        EACH_COLUMN_OF_FOURS(KEEP_COLUMN)                                                                            \
    }
#define KEEP_COLUMN(c) EACH_ROW_OF_FOURS(KEEP_SUM, c)
#define KEEP_SUM(c, q)                                                                                               \
    STORE_LANES(lane, s##c##q);                                                                                      \
    sums[(q) * TOGETHER + (c)] = sum_of_side(lane);
#endif
#define READ_ROW(q) const LANES_OF_FOURS u##q = LOAD_LANES(x[q] + i);
#define BEGIN_SUM(c, q) LANES_OF_FOURS s##c##q = NO_LANES;
#define BEGIN_COLUMN(c)                                                                                              \
    const idx at##c = MINOF(c, columns - 1) * pitch;                                                                 \
    EACH_ROW_OF_FOURS(BEGIN_SUM, c)
#define ADD_TWO_TURNS(c)                                                                                             \
    s##c##0 += LOAD_LANES(w + at##c + i) * u0;                                                                       \
    s##c##1 += LOAD_LANES(w + at##c + i + SIDE) * u1;
#define END_TWO_TURNS(c) s##c##0 += s##c##1;
#define ADD_ROW(c, q) s##c##q += v * u##q;
#define ADD_ROWS(c)                                                                                                  \
    {                                                                                                                \
        const LANES_OF_FOURS v = LOAD_LANES(w + at##c + i);                                                          \
        EACH_ROW_OF_FOURS(ADD_ROW, c)                                                                                \
    }

/* sums[row][TOGETHER] of `rows` rows x, of k elements, and `columns` columns, `pitch` elements from one to the next in
 * `space`; x is AT_ONCE, whatever there are. */
#define FOURS(name, space)                                                                                           \
    FN_SHARED void name(space const f32 *w, const idx pitch, GLOBAL const f32 *const x[AT_ONCE], const idx k,        \
                        const idx columns, const idx rows, LOCALPTR f32 *sums)                                       \
    {                                                                                                                \
        idx i = 0;                                                                                                   \
        EACH_COLUMN_OF_FOURS(BEGIN_COLUMN)                                                                           \
        if (rows == 1) { /* each column in two turns */                                                              \
            for (; i + 2 * SIDE <= k; i += 2 * SIDE) {                                                               \
                const LANES_OF_FOURS u0 = LOAD_LANES(x[0] + i), u1 = LOAD_LANES(x[0] + i + SIDE);                    \
                EACH_COLUMN_OF_FOURS(ADD_TWO_TURNS)                                                                  \
            }                                                                                                        \
            EACH_COLUMN_OF_FOURS(END_TWO_TURNS)                                                                      \
        } else {                                                                                                     \
            for (; i + SIDE <= k; i += SIDE) {                                                                       \
                READ_ROWS                                                                                            \
                EACH_COLUMN_OF_FOURS(ADD_ROWS)                                                                       \
            }                                                                                                        \
        }                                                                                                            \
        KEEP_FOURS                                                                                                   \
        for (idx q = 0; q < rows && i < k; q++) {                                                                    \
            for (idx c = 0; c < columns; c++) {                                                                      \
                for (idx j = i; j < k; j++) sums[q * TOGETHER + c] += w[c * pitch + j] * x[q][j];                    \
            }                                                                                                        \
        }                                                                                                            \
    }
#endif
