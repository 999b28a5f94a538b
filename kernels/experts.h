/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that experts are chosen for: by processors all rows of an expert together, by others each for itself. */
#ifdef K_LOOPS
#define MOST_ROWS 1024 /* at once, and experts */

/* Rows `begin` to before `end` in the order of their experts: those of expert e are order[first[e]] and on. */
FN_SHARED void sort_rows(GLOBAL const i64 *index, const idx begin, const idx end, const idx experts, LOCALPTR i32 *first,
                         LOCALPTR i32 *order)
{
    for (idx e = 0; e <= experts; e++) first[e] = 0;
    for (idx r = begin; r < end; r++) first[index[r]]++;
    for (idx e = 0, all = 0; e <= experts; e++) {
        all += first[e];
        first[e] = (i32)all;
    }
    for (idx r = end; r > begin; r--) order[--first[index[r - 1]]] = (i32)(r - 1);
}

/* For each expert e that has some of the rows: `count` of them, `own`. */
#define EACH_EXPERT(e, count, own)                                                                                 \
    for (idx r0 = 0; r0 < (idx)rows; r0 += MOST_ROWS)                                                              \
        for (idx e = (sort_rows(index, r0, MINOF((idx)rows, r0 + MOST_ROWS), (idx)experts, first, order), 0),      \
                 count = first[1] - first[0];                                                                      \
             e < (idx)experts; e++, count = e < (idx)experts ? first[e + 1] - first[e] : 0)                        \
            for (LOCALPTR const i32 *own = order + first[e], *k_once = own; k_once != 0 && count > 0; k_once = 0)
#else
#define LANES_OF_ROW (K_WG < 32 ? K_WG : 32)
#define ROWS_OF_GROUP (K_WG / LANES_OF_ROW)
/* y of one row and as many columns as a group has; `weight` is that of element i of row `row` of all matrices. */
#define EACH_COLUMN(weight)                                                                                        \
    LOCAL(REAL(T), sums, K_WG);                                                                                    \
    GROUP_FOR2(r, rows, tile, CDIV(n, ROWS_OF_GROUP)) {                                                            \
        GLOBAL const T *own = x + r / (idx)share * (idx)k;                                                         \
        const idx matrix = (idx)index[r] * (idx)n;                                                                 \
        ITEMS2(l, column, ROWS_OF_GROUP, lane, LANES_OF_ROW)                                                       \
        {                                                                                                          \
            const idx j = tile * ROWS_OF_GROUP + column, row = matrix + j, end = j < (idx)n ? (idx)k : 0;          \
            REAL(T) sum = 0;                                                                                       \
            ROLLED for (idx i = lane; i < end; i += LANES_OF_ROW) sum += own[i] * (weight);                        \
            sums[l] = sum;                                                                                         \
        }                                                                                                          \
        ITEM_FOR(column, ROWS_OF_GROUP)                                                                            \
        {                                                                                                          \
            const idx j = tile * ROWS_OF_GROUP + column;                                                           \
            REAL(T) sum = 0;                                                                                       \
            for (int i = 0; i < LANES_OF_ROW; i++) sum += sums[column * LANES_OF_ROW + i];                         \
            if (j < (idx)n) y[r * (idx)n + j] = sum + (biased != 0 ? bias[matrix + j] : 0);                        \
        }                                                                                                          \
    }
#endif
