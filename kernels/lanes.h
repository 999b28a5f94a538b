/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a matrix on GPUs, each shared by `lanes` items side by side: a power of two, so that a group has K_WG / lanes rows at
 * once. An item takes shares of memory, of which those at either end of a row may lie in it in part. How many lanes a row gets
 * is core's to say, by extents alone. */

/* Sums of rows, where reading an element is cheap. */
#if IS_F32(T)
#define REDUCE_ROW REDUCE_LONG
#else
#define REDUCE_ROW REDUCE
#endif
#ifndef K_LOOPS
#define R REAL(T)
SHARE_ACCESS(T)
/* Of the memory before p, the elements that belong to its share. */
#define SHIFT_OF(p) ((idx)((u64)(p) / sizeof(T) % SHARE(T)))
/* One comparison each: what is negative is large. */
#ifdef K_IDX64
#define UNSIGNED u64
#else
#define UNSIGNED u32
#endif
#define IS_IN(at, cols) ((UNSIGNED)(at) < (UNSIGNED)(cols))

/* Divisions by powers of two are shifts, which compilers cannot know. */
#define LOG2(n) (31 - K_LEADING_ZEROS((u32)(n)))
#define LANE(lanes) (LID & ((lanes)-1))
#define IS_ON_SHARES(p, cols) ((cols) % SHARE(T) == 0 && SHIFT_OF(p) == 0)
#define IS_POSSIBLE(lanes) ((lanes) > 0 && (lanes) <= K_WG)

/* Groups of rows; `own` is that of an item, which has `width` elements: 0 behind the last row. */
#define ROWS_FOR(own, width, rows, cols, lanes)                                                         \
    const int k_lanes_log2 = LOG2(lanes), k_rows_log2 = LOG2(K_WG) - k_lanes_log2;                      \
    GROUP_FOR(k_block, ((idx)(rows) + (1 << k_rows_log2) - 1) >> k_rows_log2)                           \
    for (idx own = (k_block << k_rows_log2) + (LID >> k_lanes_log2), width = own < (idx)(rows) ? (idx)(cols) : 0, k_v = 1; k_v; k_v = 0)

/* The share from `at` on of a row. Where rows are ragged, it may lie on no share of memory, or in part outside of the row:
 * elements there are `none`, and nothing may be added to them. */
#define IS_FULL(at, cols) IS_IN(at, MAXOF((idx)(cols) - SHARE(T) + 1, 0))
#ifdef K_CUDA
#define KEEP_WIDE() asm("" ::: "memory") /* else accesses that two branches have in common are moved behind them, singly */
#define SETTLE(v) asm("" : "+r"(v))      /* else it is worked out again wherever it is asked for */
#else
#define KEEP_WIDE()
#define SETTLE(v)
#endif
FN void load_piece(GLOBAL const T *row, const idx at, const idx cols, const bool ragged, const bool whole, const R none, R *x)
{
    if (!ragged || (whole && IS_FULL(at, cols))) {
        load_share(row + at, x);
    } else if (IS_FULL(at, cols)) {
        GLOBAL const T *from = row + at;
        EACH_OF_SHARE(T, i) x[i] = LOAD(T, from, i);
    } else {
        EACH_OF_SHARE(T, i) x[i] = IS_IN(at + i, cols) ? LOAD(T, row, at + i) : none;
    }
}
FN void store_piece(GLOBAL T *row, const idx at, const idx cols, const bool ragged, const bool whole, const R *v)
{
    if (!ragged) {
        store_share(row + at, v);
    } else if (whole && IS_FULL(at, cols)) {
        store_share(row + at, v);
        KEEP_WIDE();
    } else {
        EACH_OF_SHARE(T, i) if (IS_IN(at + i, cols)) STORE(T, row, at + i, v[i]);
    }
}

/* All of it is in the row, but may lie on no share of memory. */
FN void load_full(GLOBAL const T *from, const bool whole, R *x)
{
    if (whole) {
        load_share(from, x);
    } else {
        EACH_OF_SHARE(T, i) x[i] = LOAD(T, from, i);
    }
}
FN void store_full(GLOBAL T *to, const bool whole, const R *v)
{
    if (whole) {
        store_share(to, v);
        KEEP_WIDE();
    } else {
        EACH_OF_SHARE(T, i) STORE(T, to, i, v[i]);
    }
}

/* As REDUCE_ITEMS, of the items of a row. */
#ifdef K_CUDA
#define DEFINE_REDUCE_LANES_(op, T)                                                                     \
    FN T reduce_lanes_##op##_##T(T *red, T v, const int lanes)                                                \
    {                                                                                                   \
        for (int s = 1; s < 32 && s < lanes; s *= 2) {                                                  \
            const T o = __shfl_xor_sync(0xffffffffu, v, s);                                             \
            v = K_OP_##op(v, o);                                                                        \
        }                                                                                               \
        if (lanes > 32) {                                                                               \
            const int first = (LID & -lanes) / 32;                                                      \
            if (LID % 32 == 0) red[LID / 32] = v;                                                       \
            __syncthreads();                                                                            \
            v = red[first];                                                                             \
            for (int w = 1; w < lanes / 32; w++) v = K_OP_##op(v, red[first + w]);                      \
            __syncthreads();                                                                            \
        }                                                                                               \
        return v;                                                                                       \
    }
#else
#define DEFINE_REDUCE_LANES_(op, T)                                                                     \
    FN T reduce_lanes_##op##_##T(LOCALPTR T *red, T v, const int lanes)                                       \
    {                                                                                                   \
        const int lane = LID & (lanes - 1);                                                             \
        red[LID] = v;                                                                                   \
        K_BARRIER();                                                                                    \
        for (int s = lanes / 2; s; s >>= 1) {                                                           \
            if (lane < s) red[LID] = K_OP_##op(red[LID], red[LID + s]);                                 \
            K_BARRIER();                                                                                \
        }                                                                                               \
        v = red[LID - lane];                                                                            \
        K_BARRIER();                                                                                    \
        return v;                                                                                       \
    }
#endif
#define DEFINE_REDUCE_LANES(op, T) DEFINE_REDUCE_LANES_(op, T)
#define REDUCE_LANES(op, T, red, v, lanes) REDUCE_LANES_(op, T, red, v, lanes)
#define REDUCE_LANES_(op, T, red, v, lanes) reduce_lanes_##op##_##T((LOCALPTR T *)(red), v, lanes)

/* e^(v - top). What is rounded to 16 bits may have an error of 2^-17. */
#if IS_WIDE(T)
#define POWER(v, top) MATH(T, exp)((v) - (top))
#else
#define LOG2_E 1.44269504f
#define POWER(v, top) K_CAT(POWER_, T)(v, top)
#define POWER_f16(v, top) power_of_two((v) * LOG2_E - (top) * LOG2_E)
#define POWER_bf16(v, top) power_of_two(((v) - (top)) * LOG2_E) /* masks of the least number: its product is none */
FN f32 power_of_two(f32 x)
{
#ifdef K_CUDA
    asm("ex2.approx.ftz.f32 %0,%0;" : "+f"(x));
    return x;
#else
    return exp2(x);
#endif
}
#endif

/* Reductions. */
#define K_OP_PROD(a, b) ((a) * (b))
#if defined(K_CUDA) && __CUDA_ARCH__ >= 800 && IS_F32(REAL(T))
FN f32 largest(f32 a, const f32 b) /* an instruction that keeps a NaN, where comparing takes four */
{
    asm("max.NaN.f32 %0,%0,%1;" : "+f"(a) : "f"(b));
    return a;
}
FN f32 smallest(f32 a, const f32 b)
{
    asm("min.NaN.f32 %0,%0,%1;" : "+f"(a) : "f"(b));
    return a;
}
#else
#define largest(a, b) K_OP_MAX(a, b)
#define smallest(a, b) K_OP_MIN(a, b)
#endif
#define K_OP_LARGEST(a, b) largest(a, b)
#define K_OP_SMALLEST(a, b) smallest(a, b)
#define K_OP_LATER(a, b) MATH(T, fmax)(a, b) /* the largest of what a NaN shows in later */
/* What an item has of a row, each element as `value` makes it of v[i]; of sums each part has few terms. */
#define STEPS 64
#define DEFINE_ROW_OF(name, op, none, about_none, value)                                                \
    FN R name(GLOBAL const T *x, const idx n, const int lanes, const R about)                           \
    {                                                                                                   \
        const idx step = (idx)lanes * SHARE(T);                                                         \
        idx at = LANE(lanes) * SHARE(T) - SHIFT_OF(x);                                                  \
        R v[SHARE(T)], all = none;                                                                      \
        if (at < 0) {                                                                                   \
            load_piece(x, at, n, true, false, about_none, v);                                           \
            EACH_OF_SHARE(T, i) all = K_OP_##op(value, all);                                            \
            at += step;                                                                                 \
        }                                                                                               \
        while (at + SHARE(T) <= n) {                                                                    \
            const idx end = MINOF(n - SHARE(T) + 1, at + STEPS * step);                                 \
            R part = none;                                                                              \
            for (; at < end; at += step) {                                                              \
                load_share(x + at, v);                                                                  \
                EACH_OF_SHARE(T, i) part = K_OP_##op(value, part);                                      \
            }                                                                                           \
            all = K_OP_##op(part, all);                                                                 \
        }                                                                                               \
        if (at < n) {                                                                                   \
            load_piece(x, at, n, true, false, about_none, v);                                           \
            EACH_OF_SHARE(T, i) all = K_OP_##op(value, all);                                            \
        }                                                                                               \
        (void)about;                                                                                    \
        return all;                                                                                     \
    }
#define DEFINE_ROW(op, none) DEFINE_ROW_OF(row_##op, op, none, none, v[i])
#endif
