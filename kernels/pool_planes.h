/* SPDX-License-Identifier: Apache-2.0
 *
 * Planes are pooled many rows at a time, as then short rows take whole vectors too. Included by conv.k.
 */
#define POOL_WIDEST 512 /* window, and stride */

typedef struct k_pool {
    idx planes, h, w, oh, ow, kh, kw, stride_h, step, pad_top, pad_left;
} k_pool;

/* column[] = what `rows` rows of `count` elements hold, which are `pitch` apart; writes whole vectors, and reads them as far as
 * `readable` elements go. */
FN void pool_columns(GLOBAL const f32 *x, idx rows, idx pitch, idx count, idx readable, int largest, f32 *column)
{
    idx i = 0;
    for (; i < count && i + POOL_LANES + (rows - 1) * pitch <= readable; i += POOL_LANES) {
        pool_vector sum = POOL_START(largest);
        for (idx r = 0; r < rows; r++) {
            const pool_vector v = POOL_LOAD(x + r * pitch + i);
            POOL_JOIN(largest, v, sum);
        }
        POOL_STORE(column + i, sum);
    }
    for (; i < count; i++) {
        f32 sum = largest ? K_ID_MAX_f32 : 0;
        for (idx r = 0; r < rows; r++) {
            const f32 v = x[r * pitch + i];
            sum = largest ? K_OP_MAX(v, sum) : sum + v;
        }
        column[i] = sum;
    }
}

/* phases[q * phase + i] = column[i * step + q] */
FN void pool_phases(const f32 *column, idx step, idx kw, idx count, idx phase, f32 *phases)
{
    idx first = 0;
#if defined(__clang__) && defined(K_C)
#define EVEN_8 0, 2, 4, 6, 8, 10, 12, 14
#define EVEN_16 EVEN_8, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD_8 1, 3, 5, 7, 9, 11, 13, 15
#define ODD_16 ODD_8, 17, 19, 21, 23, 25, 27, 29, 31
    for (; step == 2 && first < count; first += POOL_LANES) {
        const pool_vector a = POOL_LOAD(column + 2 * first), b = POOL_LOAD(column + 2 * first + POOL_LANES);
        POOL_STORE(phases + first, __builtin_shufflevector(a, b, K_CAT(EVEN_, POOL_LANES)));
        POOL_STORE(phases + phase + first, __builtin_shufflevector(a, b, K_CAT(ODD_, POOL_LANES)));
    }
#endif
    for (idx q = 0; q < MINOF(step, kw); q++)
        for (idx i = first; i < count; i++) phases[q * phase + i] = column[i * step + q];
}

/* sums[i] = what `kw` columns from number i * step on hold, whose phases are given. `sums` may be phases. */
FN void pool_windows(const f32 *phases, idx phase, idx step, idx kw, idx count, int largest, f32 *sums)
{
    for (idx i = 0; i < count; i += POOL_LANES) {
        pool_vector sum = POOL_START(largest);
        for (idx q = 0; q < MINOF(step, kw); q++) {
            const f32 *from = phases + q * phase + i;
            for (idx t = q; t < kw; t += step, from++) {
                const pool_vector v = POOL_LOAD(from);
                POOL_JOIN(largest, v, sum);
            }
        }
        POOL_STORE(sums + i, sum);
    }
}

/* `rows` rows of results of a plane, from row oy on, and of these `count` from number `first` on: all, or those of one row.
 * `steps` times the step columns of a row are held. */
FN_SHARED void pool_rows(GLOBAL const f32 *x, GLOBAL f32 *y, const k_pool *p, idx plane, idx oy, idx rows, idx first, idx count,
                         idx steps, int largest)
{
    LOCAL(f32, column, POOL_HELD + 3 * POOL_LANES);
    LOCAL(f32, phases, POOL_HELD + 3 * POOL_LANES);
    LOCAL(f32, seen, POOL_HELD + POOL_LANES);
    const idx step = p->step, pitch = steps * step, phase = CDIV(POOL_HELD, step), w = p->w;
    const idx left = first * step - p->pad_left, x0 = MAXOF(left, 0), x1 = MAXOF(MINOF(left + pitch, w), x0);
    const f32 *held = step > 1 ? phases : column;
    for (idx r = 0; r < rows; r++) {
        const idx top = (oy + r) * p->stride_h - p->pad_top, high = POOL_SEEN(top, p->kh, p->h);
        const idx at = (plane * p->h + MAXOF(top, 0)) * w + x0, readable = p->planes * p->h * w - at;
        f32 *own = column + r * pitch;
        for (idx i = 0; i < x0 - left; i += POOL_LANES) POOL_STORE(own + i, POOL_START(largest));
        if (largest) {
            pool_columns(x + at, high, w, x1 - x0, readable, 1, own + x0 - left);
        } else {
            pool_columns(x + at, high, w, x1 - x0, readable, 0, own + x0 - left);
        }
        for (idx i = x1 - left; i < pitch; i += POOL_LANES) POOL_STORE(own + i, POOL_START(largest));
    }
    if (step > 1) pool_phases(column, step, p->kw, rows * steps, phase, phases);
    if (largest) {
        pool_windows(held, phase, step, p->kw, (rows - 1) * steps + count, 1, column);
    } else {
        pool_windows(held, phase, step, p->kw, (rows - 1) * steps + count, 0, column);
    }
    for (idx i = 0; i < count + POOL_LANES; i++) seen[i] = (f32)POOL_SEEN(left + i * step, p->kw, w);
    for (idx r = 0; r < rows; r++) {
        const idx behind = (rows - r) * count; /* results of this piece: what is written behind a row is the next ones' */
        const f32 high = (f32)POOL_SEEN((oy + r) * p->stride_h - p->pad_top, p->kh, p->h);
        GLOBAL f32 *to = y + (plane * p->oh + oy + r) * p->ow + first;
        for (idx i = 0; i < count; i += POOL_LANES) {
            const pool_vector sum = POOL_LOAD(column + r * steps + i), pixels = high * POOL_LOAD(seen + i);
            pool_vector v = POOL_PICK(pixels > 0, sum, POOL_SPREAD(0.0f));
            if (!largest) v /= POOL_PICK(pixels > 0, pixels, POOL_SPREAD(1.0f));
            if (i + POOL_LANES <= behind) {
                POOL_STORE(to + i, v);
            } else {
                POOL_STORE(phases, v);
                for (idx k = 0; k < count - i; k++) to[i + k] = phases[k];
            }
        }
    }
}

/* An item has some rows of a plane of results, or a part of one. */
#define POOL_PLANES(largest, otherwise)                                                                              \
    const k_pool pool = {(idx)planes, (idx)h, (idx)w, (idx)oh, (idx)ow, (idx)kh, (idx)kw, (idx)stride_h,             \
                         (idx)stride_w, (idx)pad_top, (idx)pad_left};                                                \
    if (pool.kw > POOL_WIDEST || pool.step > POOL_WIDEST) {                                                          \
        otherwise                                                                                                    \
        return;                                                                                                      \
    }                                                                                                                \
    const idx most = MINOF((POOL_HELD - pool.kw) / pool.step, pool.ow), parts = CDIV(pool.ow, most);                 \
    const idx steps = most - 1 + CDIV(pool.kw, pool.step);                                                           \
    const idx high = parts > 1 ? 1 : MINOF(POOL_HELD / (steps * pool.step), pool.oh);                                \
    GROUP_FOR2(item, planes * parts, piece, CDIV(pool.oh, high))                                                     \
    {                                                                                                                \
        const idx plane = item / parts, first = (item - plane * parts) * most, oy = piece * high;                    \
        pool_rows(x, y, &pool, plane, oy, MINOF(high, pool.oh - oy), first, MINOF(most, pool.ow - first), steps, largest); \
    }
