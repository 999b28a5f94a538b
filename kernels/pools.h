/* SPDX-License-Identifier: Apache-2.0
 *
 * Pooling of f32 on processors, a row of results at a time: the columns that the windows see first, then of these what each
 * column of the windows sees, as it passes along the row. Included by conv.k and nhwc.k, where `lanes` channels lie beside
 * each other for a pixel: 1, or a multiple of POOL_LANES.
 */
#define POOL_LANES 8
#define POOL_ROOM 512 /* values of a row that are held at once */

#define POOL_STEPS(distance) (step == 1 ? (distance) : step == 2 ? (distance) >> 1 : (distance) / step)

/* With column[] from number `at` on what column kx of the windows sees joins sums[] from number `first` on. */
#define POOL_ALONG(each, distance)                                                   \
    K_SIMD for (idx i = begin; i < end; i++) {                                       \
        const f32 v = column[i * (distance) + shift - at], sum = sums[i - first];    \
        sums[i - first] = each;                                                      \
    }
#define POOL_PIXELS(each)             \
    if (step == 1) {                  \
        POOL_ALONG(each, 1)           \
    } else if (step == 2) {           \
        POOL_ALONG(each, 2)           \
    } else {                          \
        POOL_ALONG(each, step)        \
    }
#define POOL_BLOCKS_ALONG(each)                                                                \
    for (idx ox = begin; ox < end; ox++) {                                                     \
        const f32 *seen = column + (ox * step + shift - at) * (idx)block;                      \
        f32 *own = sums + (ox - first) * (idx)block;                                           \
        for (idx q = 0; q < (idx)block; q += POOL_LANES) {                                     \
            K_SIMD for (int e = 0; e < POOL_LANES; e++) {                                      \
                const f32 v = seen[q + e], sum = own[q + e];                                   \
                own[q + e] = each;                                                             \
            }                                                                                  \
        }                                                                                      \
    }

/* each: of v and sum, which begins as `start`; divisor: what their result is divided by, of `pixels` */
#define POOL_ROWS(lanes, start, each, ALONG, divisor)                                                              \
    LOCAL(f32, sums, POOL_ROOM);                                                                                   \
    LOCAL(f32, column, POOL_ROOM);                                                                                 \
    const idx step = (idx)stride_w, width = (idx)w, most = POOL_ROOM / (idx)(lanes);                               \
    /* windows from number `whole` to `cut` - 1 have all of their columns within the image */                      \
    const idx whole = POOL_STEPS((idx)pad_left + step - 1), last_whole = width - (idx)kw + (idx)pad_left;          \
    const idx cut = last_whole < 0 ? 0 : POOL_STEPS(last_whole) + 1;                                               \
    GROUP_FOR2(row, planes * oh, part, CDIV(ow, most))                                                             \
    {                                                                                                              \
        const idx plane = row / (idx)oh, first = part * most, last = MINOF(first + most, (idx)ow);                 \
        const idx top = (row - plane * (idx)oh) * (idx)stride_h - (idx)pad_top;                                    \
        const idx y0 = MAXOF(top, 0), y1 = MINOF(top + (idx)kh, (idx)h);                                           \
        const idx right = MINOF((last - 1) * step - (idx)pad_left + (idx)kw, width);                               \
        for (idx i = 0; i < (last - first) * (idx)(lanes); i++) sums[i] = start;                                   \
        for (idx at = MAXOF(first * step - (idx)pad_left, 0); at < right && y0 < y1; at += most) {                 \
            const idx pixels = MINOF(right - at, most), count = pixels * (idx)(lanes);                             \
            GLOBAL const f32 *from = x + ((plane * (idx)h + y0) * width + at) * (idx)(lanes);                      \
            for (idx i = 0; i < count; i++) column[i] = from[i];                                                   \
            for (idx iy = y0 + 1; iy < y1; iy++) {                                                                 \
                from += width * (idx)(lanes);                                                                      \
                K_SIMD for (idx i = 0; i < count; i++) {                                                           \
                    const f32 v = from[i], sum = column[i];                                                        \
                    column[i] = each;                                                                              \
                }                                                                                                  \
            }                                                                                                      \
            for (idx kx = 0; kx < (idx)kw; kx++) {                                                                 \
                const idx shift = kx - (idx)pad_left, far = at + pixels - 1 - shift; /* ix = ox step + shift */    \
                const idx begin = MAXOF(first, at > shift ? POOL_STEPS(at - shift + step - 1) : 0);                \
                const idx end = MINOF(last, far >= 0 ? POOL_STEPS(far) + 1 : 0);                                   \
                ALONG(each)                                                                                        \
            }                                                                                                      \
        }                                                                                                          \
        /* of neighbours with as many pixels in their windows at once */                                           \
        const idx inner = MINOF(MAXOF(first, whole), last), outer = MINOF(last, cut);                              \
        for (idx ox = first, next; ox < last; ox = next) {                                                         \
            const idx left = ox * step - (idx)pad_left, in_row = MINOF(left + (idx)kw, width) - MAXOF(left, 0);    \
            const idx pixels = MAXOF(y1 - y0, 0) * MAXOF(in_row, 0);                                               \
            const f32 by = (f32)(divisor);                                                                         \
            next = ox == inner && outer > inner ? outer : ox + 1;                                                  \
            K_SIMD for (idx i = (ox - first) * (idx)(lanes); i < (next - first) * (idx)(lanes); i++)               \
                y[(row * (idx)ow + first) * (idx)(lanes) + i] = pixels > 0 ? sums[i] / by : 0;                     \
        }                                                                                                          \
    }
