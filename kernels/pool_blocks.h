/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of channels are pooled a row of results at a time. Included by nhwc.k.
 */
#define POOL_WIDE 64 /* channels at once, where there are as many or more */

/* `some` vectors at once, as each waits for the comparison before. */
#define POOL_SOME(some)                                                                                              \
    for (; i + some <= count; i += some) {                                                                           \
        pool_vector sum[some];                                                                                       \
        UNROLL for (int k = 0; k < some; k++) sum[k] = POOL_START(largest);                                          \
        for (idx t = 0; t < taps; t++) {                                                                             \
            UNROLL for (int k = 0; k < some; k++)                                                                    \
            {                                                                                                        \
                const pool_vector v = POOL_LOAD(x + (i + k) * step + t * pitch);                                     \
                POOL_JOIN(largest, v, sum[k]);                                                                       \
            }                                                                                                        \
        }                                                                                                            \
        UNROLL for (int k = 0; k < some; k++) POOL_STORE(to + (i + k) * to_step, sum[k]);                            \
    }
/* to[i * to_step] = what `taps` vectors hold that are `pitch` elements apart, from x[i * step] on. */
#define POOL_VECTORS(name, SPACE)                                                                                    \
    FN void name(SPACE const f32 *x, idx step, idx taps, idx pitch, idx count, int largest, f32 *to, idx to_step)    \
    {                                                                                                                \
        idx i = 0;                                                                                                   \
        POOL_SOME(4)                                                                                                 \
        POOL_SOME(1)                                                                                                 \
    }
POOL_VECTORS(pool_down, GLOBAL)
POOL_VECTORS(pool_along, )

/* An item has a row of a plane, or a part of it, of as many channels as follow each other; the sum of a window that sees so many
 * pixels is divided by `divisor`. */
#define POOL_ROWS(largest, divisor)                                                                                  \
    {                                                                                                                \
        LOCAL(f32, column, POOL_HELD);                                                                               \
        const idx step = (idx)stride_w, high = (idx)h, wide = (idx)w;                                                \
        idx own = MINOF((idx)block, POOL_WIDE);                                                                      \
        while ((idx)block % own != 0) own /= 2; /* a multiple of POOL_LANES, as block is one */                      \
        const idx most = MINOF((POOL_HELD / own - (idx)kw) / step, (idx)ow), parts = CDIV((idx)ow, most);            \
        GROUP_FOR2(row, planes * oh, part, parts * ((idx)block / own))                                               \
        {                                                                                                            \
            const idx plane = row / (idx)oh, slice = part / parts, first = (part - slice * parts) * most;            \
            const idx left = first * step - (idx)pad_left, count = MINOF(most, (idx)ow - first);                     \
            const idx right = left + (count - 1) * step + (idx)kw, x0 = MAXOF(left, 0), x1 = MAXOF(MINOF(right, wide), x0); \
            const idx top = (row - plane * (idx)oh) * (idx)stride_h - (idx)pad_top, rows = POOL_SEEN(top, (idx)kh, high); \
            GLOBAL const f32 *from = x + ((plane * high + MAXOF(top, 0)) * wide + x0) * (idx)block + slice * own;    \
            const idx run = own == (idx)block ? x1 - x0 : 1; /* pixels that follow each other */                     \
            for (idx i = x0; i < x1; i += run, from += run * (idx)block)                                             \
                pool_down(from, POOL_LANES, rows, wide * (idx)block, run * own / POOL_LANES, largest,                \
                          column + (i - left) * own, POOL_LANES);                                                    \
            for (idx i = 0; i < (x0 - left) * own; i += POOL_LANES) POOL_STORE(column + i, POOL_START(largest));     \
            for (idx i = (x1 - left) * own; i < (right - left) * own; i += POOL_LANES) POOL_STORE(column + i, POOL_START(largest)); \
            for (idx q = 0; q < own; q += POOL_LANES)                                                                \
                pool_along(column + q, step * own, (idx)kw, own, count, largest, column + q, own);                   \
            for (idx i = 0; i < count; i++) {                                                                        \
                const idx pixels = rows * POOL_SEEN(left + i * step, (idx)kw, wide);                                 \
                const f32 by = (f32)(divisor);                                                                       \
                GLOBAL f32 *to = y + (row * (idx)ow + first + i) * (idx)block + slice * own;                         \
                for (idx q = 0; q < own; q += POOL_LANES) {                                                          \
                    pool_vector v = POOL_LOAD(column + i * own + q);                                                 \
                    if (!(largest)) v /= by;                                                                         \
                    if (pixels == 0) v = POOL_SPREAD(0.0f);                                                          \
                    POOL_STORE(to + q, v);                                                                           \
                }                                                                                                    \
            }                                                                                                        \
        }                                                                                                            \
    }
