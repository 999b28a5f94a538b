/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention on CPUs: tiles of scores and of sums, the softmax between them, and masks. Scores are made and used as keys by
 * queries, so that a softmax goes down columns: lanes are TILE_N queries, a strip. */
#ifdef K_LOOPS

#define KEYS 128 /* of a block at most */

/* Any number of rows but UNIT is made up of tiles of TILE_M rows and of SMALL ones. */
#define UNIT (TILE_M / 3)
#define SMALL (2 * UNIT)
#if TILE_M == 12
#define EACH_SMALL(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#else
#define EACH_SMALL(X) X(0) X(1) X(2) X(3)
#endif
#define IN_UNITS(rows) (CDIV(rows, UNIT) * UNIT)
#define IN_FOURS(rows) (CDIV(rows, 4) * 4)
#define TILE_OF(left) ((left) > SMALL && (left) != TILE_M + UNIT ? TILE_M : SMALL)

/* scores[rows][TILE_N] = keys[rows][depth] queries[depth][TILE_N] */
#define SCORE_ZERO(r) V s##r##_0 = VLOAD(R, zero), s##r##_1 = s##r##_0;
#define SCORE_STEP(r)                  \
    {                                  \
        const R key = keys[r * depth]; \
        s##r##_0 += key * b0;          \
        s##r##_1 += key * b1;          \
    }
#define SCORE_TILE(EACH)                                                       \
    {                                                                          \
        LOCAL(R, zero, LANES(R)) = {0};                                        \
        const idx apart = TILE_N;                                              \
        EACH(SCORE_ZERO)                                                       \
        for (idx d = 0; d < depth; d++, keys++, queries += TILE_N) {           \
            const V b0 = VLOAD(R, queries), b1 = VLOAD(R, queries + LANES(R)); \
            EACH(SCORE_STEP)                                                   \
        }                                                                      \
        EACH(ROW_STORE)                                                        \
    }
FN_SHARED void score_tile(LOCALPTR const R *keys, LOCALPTR const R *queries, LOCALPTR R *sums, idx depth)
SCORE_TILE(EACH_ROW)
FN_SHARED void score_small_tile(LOCALPTR const R *keys, LOCALPTR const R *queries, LOCALPTR R *sums, idx depth)
SCORE_TILE(EACH_SMALL)

/* sums[columns][TILE_N] += a[keys][width], of which the first columns, weights[keys][TILE_N] */
#define VALUE_TILE(EACH)                                                       \
    {                                                                          \
        const idx apart = TILE_N;                                              \
        EACH(ROW_LOAD)                                                         \
        for (idx j = 0; j < keys; j++, a += width, weights += TILE_N) {        \
            const V b0 = VLOAD(R, weights), b1 = VLOAD(R, weights + LANES(R)); \
            EACH(ROW_STEP)                                                     \
        }                                                                      \
        EACH(ROW_STORE)                                                        \
    }
FN_SHARED void value_tile(LOCALPTR const R *a, LOCALPTR const R *weights, LOCALPTR R *sums, idx keys, idx width)
VALUE_TILE(EACH_ROW)
FN_SHARED void value_small_tile(LOCALPTR const R *a, LOCALPTR const R *weights, LOCALPTR R *sums, idx keys, idx width)
VALUE_TILE(EACH_SMALL)

/* Both of `units` rows, in tiles. */
FN void make_scores(LOCALPTR const R *keys, LOCALPTR const R *queries, LOCALPTR R *scores, idx units, idx depth)
{
    for (idx p = 0, tile; p < units; p += tile) {
        tile = TILE_OF(units - p);
        if (tile == TILE_M) {
            score_tile(keys + p * depth, queries, scores + p * TILE_N, depth);
        } else {
            score_small_tile(keys + p * depth, queries, scores + p * TILE_N, depth);
        }
    }
}
FN void add_values(LOCALPTR const R *values, LOCALPTR const R *weights, LOCALPTR R *sums, idx units, idx keys, idx width)
{
    for (idx p = 0, tile; p < units; p += tile) {
        tile = TILE_OF(units - p);
        if (tile == TILE_M) {
            value_tile(values + p, weights, sums + p * TILE_N, keys, width);
        } else {
            value_small_tile(values + p, weights, sums + p * TILE_N, keys, width);
        }
    }
}

/* e^x of x <= 0. Its relative error is 1.5 units of the last place at 0 and grows with -x: where it is large, e^x weighs
 * nothing. */
FN R power_of(R x)
{
    const R t = x * 1.44269504f + 12583039.0f; /* the last bits are the exponent of the result */
    const R r = x * 1.44269504f - (t - 12583039.0f);
    R p = 1.3264728e-3f;
    p = p * r + 9.671513e-3f;
    p = p * r + 5.5507336e-2f;
    p = p * r + 2.4022242e-1f;
    p = p * r + 6.93147e-1f;
    p = (p * r + 1.0f) * K_U2F(K_F2U(t) << 23);
    return x < -87.3f ? 0.0f : p;
}

/* Makes scores [keys][TILE_N] weights of a softmax over all keys so far; sums [height][TILE_N] of earlier ones shrink. Four
 * keys at once read and write what is kept of a lane once. */
FN_SHARED void weigh(LOCALPTR R *scores, idx keys, LOCALPTR R *top, LOCALPTR R *total, LOCALPTR R *sums, idx height)
{
    LOCAL(R, base, TILE_N);
    LOCAL(R, factor, TILE_N);
    const idx all = IN_FOURS(keys);
    ITEM_FOR(l, (all - keys) * TILE_N) scores[keys * TILE_N + l] = -(R)K_INF;
    ITEM_FOR(l, TILE_N) base[l] = top[l];
    for (idx j = 0; j < all; j += 4) {
        LOCALPTR const R *s = scores + j * TILE_N;
        ITEM_FOR(l, TILE_N) {
            const R a = MAXOF(s[l], s[l + TILE_N]), b = MAXOF(s[l + 2 * TILE_N], s[l + 3 * TILE_N]);
            const R best = MAXOF(a, b);
            base[l] = MAXOF(base[l], best);
        }
    }
    ITEM_FOR(l, TILE_N) {
        const R least = -(R)K_INF, old = top[l];
        top[l] = base[l];
        base[l] = base[l] == least ? 0 : base[l]; /* nothing is seen so far */
        factor[l] = power_of(old - base[l]);
        total[l] *= factor[l];
    }
    for (idx j = 0; j < all; j += 4) {
        LOCALPTR R *s = scores + j * TILE_N;
        ITEM_FOR(l, TILE_N) {
            const R a = power_of(s[l] - base[l]), b = power_of(s[l + TILE_N] - base[l]);
            const R c = power_of(s[l + 2 * TILE_N] - base[l]), d = power_of(s[l + 3 * TILE_N] - base[l]);
            s[l] = a;
            s[l + TILE_N] = b;
            s[l + 2 * TILE_N] = c;
            s[l + 3 * TILE_N] = d;
            total[l] += (a + b) + (c + d);
        }
    }
    REDUCE(MIN, R, least_factor, l, TILE_N, factor[l]);
    if (least_factor == 1) return;
    for (idx f = 0; f < height; f++) {
        ITEM_FOR(l, TILE_N) sums[f * TILE_N + l] *= factor[l];
    }
}

/* Copies rows of `count` elements to [rows][width], zeros behind. */
ROW_ACCESS(T)
FN_SHARED void copy_rows(GLOBAL const T *from, idx row_stride, idx stride, idx rows, idx count, LOCALPTR R *to, idx width)
{
    for (idx j = 0; j < rows; j++, from += row_stride, to += width) {
        LOAD_ROW(T, to, from, stride, count);
        for (idx e = count; e < width; e++) to[e] = 0;
    }
}

/* to[columns][to_width] = from[rows][width], both multiples of 4 */
#if defined(K_C) && (defined(__clang__) || __GNUC__ >= 12)
typedef R four __attribute__((vector_size(16), aligned(4), may_alias));
#define FOUR(p) (*(four *)(p))
#define OF_TWO(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#endif
FN_SHARED void turn(LOCALPTR R *from, idx width, idx rows, idx columns, LOCALPTR R *to, idx to_width)
{
    for (idx i = 0; i < rows; i += 4) {
        for (idx j = 0; j < columns; j += 4) {
            LOCALPTR R *f = from + i * width + j, *t = to + j * to_width + i;
#ifdef FOUR
            const four a = FOUR(f), b = FOUR(f + width), c = FOUR(f + 2 * width), d = FOUR(f + 3 * width);
            const four ab = OF_TWO(a, b, 0, 4, 1, 5), cd = OF_TWO(c, d, 0, 4, 1, 5);
            const four ab_end = OF_TWO(a, b, 2, 6, 3, 7), cd_end = OF_TWO(c, d, 2, 6, 3, 7);
            FOUR(t) = OF_TWO(ab, cd, 0, 1, 4, 5);
            FOUR(t + to_width) = OF_TWO(ab, cd, 2, 3, 6, 7);
            FOUR(t + 2 * to_width) = OF_TWO(ab_end, cd_end, 0, 1, 4, 5);
            FOUR(t + 3 * to_width) = OF_TWO(ab_end, cd_end, 2, 3, 6, 7);
#else
            for (idx p = 0; p < 4; p++) {
                for (idx r = 0; r < 4; r++) t[r * to_width + p] = f[p * width + r];
            }
#endif
        }
    }
}

/* What a mask does to a block of scores. */
#define ADDS_NOTHING 0
#define ADDS 1
#define HIDES 2
FN_SHARED i32 effect_of(GLOBAL const T *mask, idx row_stride, idx stride, idx rows, idx keys)
{
    const R least = -(R)K_INF, other = 2 * KEYS;
    const idx different = row_stride == 0 ? 1 : rows;
    i32 effect = ADDS;
    for (idx i = 0; i < different; i++) {
        GLOBAL const T *row = mask + i * row_stride;
        REDUCE(SUM, R, sum, j, keys, LOAD(T, row, j * stride) == least ? 1 : LOAD(T, row, j * stride) == 0 ? 0 : other);
        const i32 own = sum == 0 ? ADDS_NOTHING : sum == (R)keys ? HIDES : ADDS;
        if (own == ADDS || (i > 0 && own != effect)) return ADDS;
        effect = own;
    }
    return effect;
}

/* scores[keys][TILE_N] += mask[rows][keys] */
FN_SHARED void add_mask(GLOBAL const T *mask, idx row_stride, idx stride, idx rows, idx keys, LOCALPTR R *scores)
{
    LOCAL(R, lines, TILE_N * KEYS);
    LOCAL(R, turned, TILE_N * KEYS);
    const idx width = IN_FOURS(keys);
    if (row_stride == 0) {
        for (idx j = 0; j < keys; j++) {
            const R add = LOAD(T, mask, j * stride);
            ITEM_FOR(l, TILE_N) scores[j * TILE_N + l] += add;
        }
    } else {
        copy_rows(mask, row_stride, stride, rows, keys, lines, width);
        ITEM_FOR(e, (TILE_N - rows) * width) lines[rows * width + e] = 0;
        turn(lines, width, TILE_N, width, turned, TILE_N);
        ITEM_FOR(e, keys * TILE_N) scores[e] += turned[e];
    }
}

#endif
