/* SPDX-License-Identifier: Apache-2.0
 *
 * Products on CPUs: operands packed into panels, and a register tile of vectors that adds up what two of them give.
 */
#ifdef K_LOOPS

#define R REAL(T)
#define V VEC(R)
#if K_LANES_f32 == 16 /* 32 vector registers */
#define TILE_M 12
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#else
#define TILE_M 6
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5)
#endif
#define TILE_N (2 * LANES(R))

/* One register tile: sums[TILE_M][TILE_N] += a[depth][TILE_M] b[depth][TILE_N], rows of sums `apart` elements apart. */
#define ROW_LOAD(r) V s##r##_0 = VLOAD(R, sums + r * apart), s##r##_1 = VLOAD(R, sums + r * apart + LANES(R));
#define ROW_STEP(r)    \
    s##r##_0 += a[r] * b0; \
    s##r##_1 += a[r] * b1;
#define ROW_STORE(r)                       \
    VSTORE(R, sums + r * apart, s##r##_0); \
    VSTORE(R, sums + r * apart + LANES(R), s##r##_1);
#define ROW_STEPS                                              \
    for (idx k = 0; k < depth; k++, a += TILE_M, b += TILE_N) { \
        const V b0 = VLOAD(R, b), b1 = VLOAD(R, b + LANES(R)); \
        EACH_ROW(ROW_STEP)                                     \
    }
FN_SHARED void multiply_tile(LOCALPTR const R *a, LOCALPTR const R *b, LOCALPTR R *sums, idx depth, idx apart)
{
    EACH_ROW(ROW_LOAD)
    ROW_STEPS
    EACH_ROW(ROW_STORE)
}
#ifdef K_C
#define FETCH(p) __builtin_prefetch(p)
#else
#define FETCH(p)
#endif
#define PACK_DEPTH 16
/* Lines that are far apart in memory are asked for before they are needed. */
FN void fetch_lines(GLOBAL const T *from, idx line_stride, idx lines, idx depth)
{
    const idx step = 64 / (idx)sizeof(T);
    for (idx j = 0; j < lines; j++) {
        for (idx k = 0; k < depth; k += step) FETCH(from + j * line_stride + k);
    }
}

/* One strip of lines: panel[depth][width], those from `lines` on are 0. */
FN void pack_strip(GLOBAL const T *from, idx line_stride, idx depth_stride, idx lines, idx depth, LOCALPTR R *panel,
                   const idx width)
{
    if (lines < width) {
        for (idx k = 0; k < depth; k++) {
            for (idx j = 0; j < width; j++) {
                panel[k * width + j] = j < lines ? LOAD(T, from, j * line_stride + k * depth_stride) : 0;
            }
        }
    } else if (line_stride == 1) {
        for (idx k = 0; k < depth; k++) {
            ITEM_FOR(j, width) panel[k * width + j] = LOAD(T, from, k * depth_stride + j);
        }
    } else { /* a line of the cache is read at once: those of many lines may share their place in it */
        for (idx k0 = 0; k0 < depth; k0 += PACK_DEPTH) {
            const idx end = MINOF(depth, k0 + PACK_DEPTH);
            for (idx j = 0; j < width; j++) {
                for (idx k = k0; k < end; k++) panel[k * width + j] = LOAD(T, from, j * line_stride + k * depth_stride);
            }
        }
    }
}

/* Packs `lines` lines of `depth` elements into strips of TILE_M or TILE_N lines: panel[strip][depth][width], the last one
 * padded. */
FN_SHARED void pack(GLOBAL const T *from, idx line_stride, idx depth_stride, idx lines, idx depth, LOCALPTR R *panel,
                    const idx width)
{
    for (idx strip = 0; strip < lines; strip += width) {
        GLOBAL const T *p = from + strip * line_stride;
        LOCALPTR R *to = panel + strip * depth;
        const idx next = MINOF(width, lines - strip - width);
        if (depth_stride == 1) fetch_lines(p + width * line_stride, line_stride, next, depth);
        if (width == TILE_N) {
            pack_strip(p, line_stride, depth_stride, MINOF(TILE_N, lines - strip), depth, to, TILE_N);
        } else {
            pack_strip(p, line_stride, depth_stride, MINOF(TILE_M, lines - strip), depth, to, TILE_M);
        }
    }
}

/* Extent of the parts that `extent` is cut into: at most `limit`, less to give `parts` of them, a multiple of `unit`. */
FN idx part_size(idx extent, idx limit, idx parts, idx unit)
{
    const idx least = CDIV(extent, limit), count = MAXOF(least, parts);
    return CDIV(CDIV(extent, count), unit) * unit;
}

#endif
