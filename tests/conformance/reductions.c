/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of reductions over any dimensions, and of what goes along one.
 */
#include "support.h"

enum { RANK = 3 };
static const int64_t k_shape[RANK] = {4, 5, 6};

/* Which elements of y an element of x belongs to: dimensions of `mask` become one. */
static int64_t place(int64_t at, uint32_t mask) {
    int64_t index[RANK], to = 0;
    for (int i = RANK - 1; i >= 0; i--) {
        index[i] = at % k_shape[i];
        at /= k_shape[i];
    }
    for (int i = 0; i < RANK; i++) {
        if ((mask >> i & 1) == 0) to = to * k_shape[i] + index[i];
    }
    return to;
}

static void reduce_ref(dhow_reduction kind, const conform_array *x, uint32_t mask,
                       conform_array *y) {
    const double n = (double)x->count / (double)y->count;
    for (int64_t i = 0; i < y->count; i++)
        y->value[i] = kind == DHOW_REDUCE_MAX   ? -(double)INFINITY
                      : kind == DHOW_REDUCE_MIN ? (double)INFINITY
                                                : kind == DHOW_REDUCE_PROD;
    for (int64_t i = 0; i < x->count; i++) {
        double *v = &y->value[place(i, mask)], e = x->value[i];
        *v = kind == DHOW_REDUCE_MAX    ? fmax(*v, e)
             : kind == DHOW_REDUCE_MIN  ? fmin(*v, e)
             : kind == DHOW_REDUCE_PROD ? *v * e
             : kind == DHOW_REDUCE_MEAN ? *v + e / n
                                        : *v + e;
    }
}

static void var_ref(const conform_array *x, uint32_t mask, double correction, bool root,
                    conform_array *y) {
    double mean[4 * 5 * 6];
    const double n = (double)x->count / (double)y->count;
    reduce_ref(DHOW_REDUCE_MEAN, x, mask, y);
    memcpy(mean, y->value, (size_t)y->count * sizeof *mean);
    for (int64_t i = 0; i < y->count; i++) y->value[i] = 0;
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t at = place(i, mask);
        y->value[at] += (x->value[i] - mean[at]) * (x->value[i] - mean[at]) / (n - correction);
    }
    for (int64_t i = 0; root && i < y->count; i++) y->value[i] = sqrt(y->value[i]);
}

/* The result's shape, with extents of 1 or without; dims from the last to the first, by turns
 * negative. */
static conform_array result_of(conform_env *env, dhow_dtype dtype, uint32_t mask, bool keep,
                               int32_t dims[RANK], uint32_t *count) {
    int64_t shape[RANK];
    int32_t rank = 0;
    *count = 0;
    for (int32_t i = RANK - 1; i >= 0; i--) {
        if ((mask >> i & 1) != 0) dims[(*count)++] = i % 2 == 0 ? i : i - RANK;
    }
    for (int32_t i = 0; i < RANK; i++) {
        if ((mask >> i & 1) == 0) shape[rank++] = k_shape[i];
        if ((mask >> i & 1) != 0 && keep) shape[rank++] = 1;
    }
    return conform_array_new(env, dtype, rank, shape);
}

static conform_result reduce_case(conform_env *env, dhow_dtype dtype, uint32_t mask, bool keep) {
    const bool real = conform_is_float(dtype);
    int32_t dims[RANK];
    uint32_t count;
    conform_array x =
        conform_array_random(env, dtype, RANK, k_shape, real ? 0.75 : -2, real ? 1.25 : 3, mask);
    conform_array want = result_of(env, dtype, mask, keep, dims, &count);
    conform_tolerance t = conform_tolerance_of(dtype);
    dhow_tensor *tx, *ty;
    t.absolute += real ? (dtype == DHOW_F64 ? 1e-12 : 1e-4) : 0;
    for (dhow_reduction kind = DHOW_REDUCE_SUM; kind <= DHOW_REDUCE_PROD; kind++) {
        const conform_layout at = (conform_layout)((mask + kind) % LAYOUT_COUNT);
        if (kind == DHOW_REDUCE_MEAN && !real) continue;
        if (kind == DHOW_REDUCE_PROD && !real && x.count / want.count > 6)
            continue; /* the reference does not wrap */
        reduce_ref(kind, &x, mask, &want);
        TRY(conform_upload(env, &x, at, &tx));
        TRY(conform_blank(env, &want, (conform_layout)(LAYOUT_COUNT - 1 - at), &ty));
        OK(dhow_reduce(NULL, kind, tx, dims, count, ty));
        TRY(conform_expect(env, ty, &want, t, "reduce"));
        if (mask != 7) continue;
        OK(dhow_reduce(NULL, kind, tx, NULL, 0, ty));
        TRY(conform_expect(env, ty, &want, t, "reduce over all"));
    }
    for (int root = 0; root < 2 && real; root++) {
        var_ref(&x, mask, 1 - root, root != 0, &want);
        TRY(conform_upload(env, &x, LAYOUT_STEPPED, &tx));
        TRY(conform_blank(env, &want, LAYOUT_PLAIN, &ty));
        OK(root != 0 ? dhow_std(NULL, tx, dims, count, 0, ty)
                     : dhow_var(NULL, tx, dims, count, 1, ty));
        TRY(conform_expect(env, ty, &want, t, root != 0 ? "std" : "var"));
    }
    return CONFORM_PASS;
}

static conform_result reduce(conform_env *env, dhow_dtype dtype) {
    NEEDS_DTYPE(dtype);
    for (uint32_t mask = 1; mask < 8; mask++) {
        TRY(reduce_case(env, dtype, mask, false));
        TRY(reduce_case(env, dtype, mask, true));
    }
    return CONFORM_PASS;
}

#define TYPES(X) X(F32, f32) X(F64, f64) X(F16, f16) X(BF16, bf16) X(I32, i32) X(I64, i64)
#define REDUCE(TYPE, type) \
    static conform_result reduce_##type(conform_env *env) { return reduce(env, DHOW_##TYPE); }
TYPES(REDUCE)

static conform_result refusals(conform_env *env) {
    static const int32_t twice[] = {0, -2}, none[] = {2};
    dhow_tensor *x, *y, *bytes;
    OWN(TENSOR, &x, dhow_tensor_ones(env->device, DHOW_F32, DHOW_SHAPE(2, 3), &x));
    OWN(TENSOR, &y, dhow_tensor_ones(env->device, DHOW_F32, DHOW_SHAPE(3), &y));
    OWN(TENSOR, &bytes, dhow_tensor_ones(env->device, DHOW_U8, DHOW_SHAPE(3), &bytes));
    FAILS(DHOW_INVALID_ARGUMENT, "twice", dhow_reduce(NULL, DHOW_REDUCE_SUM, x, twice, 2, y));
    FAILS(DHOW_OUT_OF_RANGE, "dhow_reduce", dhow_reduce(NULL, DHOW_REDUCE_SUM, x, none, 1, y));
    FAILS(DHOW_INVALID_ARGUMENT, "y needs", dhow_reduce(NULL, DHOW_REDUCE_SUM, x, NULL, 0, y));
    FAILS(DHOW_INVALID_ARGUMENT, "no reduction",
          dhow_reduce(NULL, (dhow_reduction)9, x, twice, 1, y));
    FAILS(DHOW_INVALID_ARGUMENT, "u8", dhow_var(NULL, bytes, NULL, 0, 1, bytes));
    FAILS(DHOW_OUT_OF_RANGE, "k is 4", dhow_topk(NULL, x, 4, 1, 1, y, y));
    FAILS(DHOW_INVALID_ARGUMENT, "overlaps", dhow_cumsum(NULL, x, 0, x));
    return CONFORM_PASS;
}

/* ---- along one dimension ---- */

static conform_result along(conform_env *env, dhow_dtype dtype, int32_t dim) {
    NEEDS_DTYPE(dtype);
    const int64_t k = 3, n = k_shape[dim], inner = dim == 0 ? 30 : dim == 1 ? 6 : 1;
    int64_t few[RANK] = {4, 5, 6}, one[RANK] = {4, 5, 6};
    few[dim] = k;
    one[dim] = 1;
    conform_array x = conform_array_random(env, dtype, RANK, k_shape, -9, 9, (uint64_t)dim + 1);
    conform_array sums = conform_array_new(env, dtype, RANK, k_shape);
    conform_array top = conform_array_new(env, dtype, RANK, few);
    conform_array where = conform_array_new(env, DHOW_I64, RANK, few);
    conform_array least = conform_array_new(env, DHOW_I64, RANK, one);
    for (int64_t o = 0; o < x.count / (n * inner); o++) {
        for (int64_t i = 0; i < inner; i++) {
            const double *v = x.value + o * n * inner + i;
            double sum = 0;
            for (int64_t j = 0; j < n; j++) {
                int64_t rank = 0;
                sums.value[(o * n + j) * inner + i] = sum += v[j * inner];
                for (int64_t q = 0; q < n; q++)
                    rank += v[q * inner] > v[j * inner] || (q < j && v[q * inner] == v[j * inner]);
                if (rank < k) top.value[(o * k + rank) * inner + i] = v[j * inner];
                if (rank < k) where.value[(o * k + rank) * inner + i] = (double)j;
                double *at = &least.value[o * inner + i];
                if (v[j * inner] < v[(int64_t)*at * inner]) *at = (double)j;
            }
        }
    }
    conform_tolerance t = conform_tolerance_of(dtype);
    dhow_tensor *tx, *ts, *tt, *tw, *tl;
    t.absolute += conform_is_float(dtype) ? 1e-5 : 0;
    TRY(conform_upload(env, &x, LAYOUT_TRANSPOSED, &tx));
    TRY(conform_blank(env, &sums, LAYOUT_STEPPED, &ts));
    TRY(conform_blank(env, &top, LAYOUT_STEPPED, &tt));
    TRY(conform_blank(env, &where, LAYOUT_PLAIN, &tw));
    TRY(conform_blank(env, &least, LAYOUT_PLAIN, &tl));
    OK(dhow_argmin(NULL, tx, dim, tl));
    TRY(conform_expect(env, tl, &least, (conform_tolerance){0, 0}, "argmin"));
    if (dtype == DHOW_F16 || dtype == DHOW_BF16) return CONFORM_PASS;
    OK(dhow_cumsum(NULL, tx, dim - RANK, ts));
    TRY(conform_expect(env, ts, &sums, t, "cumsum"));
    OK(dhow_topk(NULL, tx, k, dim, 1, tt, tw));
    TRY(conform_expect(env, tt, &top, (conform_tolerance){0, 0}, "topk"));
    return conform_expect(env, tw, &where, (conform_tolerance){0, 0}, "topk's indices");
}

#define ALONG(TYPE, type)                                  \
    static conform_result along_##type(conform_env *env) { \
        for (int32_t dim = 0; dim < RANK; dim++) {         \
            TRY(along(env, DHOW_##TYPE, dim));             \
        }                                                  \
        return CONFORM_PASS;                               \
    }
TYPES(ALONG)

/* The first k of two rows of n. */
static conform_result firsts(conform_env *env, dhow_dtype dtype, int64_t n, int64_t k) {
    enum { ROWS = 2 };
    const int64_t shape[] = {ROWS, n}, few[] = {ROWS, k};
    conform_array x = conform_array_random(env, dtype, 2, shape, -9, 9, 12);
    conform_array top = conform_array_new(env, dtype, 2, few),
                  where = conform_array_new(env, DHOW_I64, 2, few);
    for (int64_t r = 0; r < ROWS; r++) {
        const double *row = x.value + r * n;
        for (int64_t j = 0; j < n; j++) {
            int64_t rank = 0;
            for (int64_t q = 0; q < n && rank < k; q++)
                rank += row[q] > row[j] || (q < j && row[q] == row[j]);
            if (rank < k) top.value[r * k + rank] = row[j];
            if (rank < k) where.value[r * k + rank] = (double)j;
        }
    }
    dhow_tensor *tx, *tt, *tw;
    TRY(conform_upload(env, &x, LAYOUT_PLAIN, &tx));
    TRY(conform_blank(env, &top, LAYOUT_PLAIN, &tt));
    TRY(conform_blank(env, &where, LAYOUT_PLAIN, &tw));
    OK(dhow_topk(NULL, tx, k, 1, 1, tt, tw));
    TRY(conform_expect(env, tt, &top, (conform_tolerance){0, 0}, "topk"));
    return conform_expect(env, tw, &where, (conform_tolerance){0, 0}, "topk's indices");
}

/* Rows that GPUs cut into parts: running sums, and the first few; processors keep those in a heap,
 * of more than 65536 in several. */
static conform_result in_parts(conform_env *env, dhow_dtype dtype) {
    enum { ROWS = 2, N = 5000 };
    static const int64_t shape[] = {ROWS, N};
    NEEDS_DTYPE(dtype);
    conform_array x = conform_array_random(env, dtype, 2, shape, -9, 9, 12);
    conform_array sums = conform_array_new(env, dtype, 2, shape);
    for (int64_t i = 0; i < ROWS * N; i++)
        sums.value[i] = x.value[i] + (i % N > 0 ? sums.value[i - 1] : 0);
    conform_tolerance t = conform_tolerance_of(dtype);
    dhow_tensor *tx, *ts;
    t.absolute += dtype == DHOW_F32 ? 5e-3 : dtype == DHOW_F64 ? 1e-10 : 0;
    TRY(conform_upload(env, &x, LAYOUT_PLAIN, &tx));
    TRY(conform_blank(env, &sums, LAYOUT_PLAIN, &ts));
    OK(dhow_cumsum(NULL, tx, 1, ts));
    TRY(conform_expect(env, ts, &sums, t, "cumsum"));
    TRY(firsts(env, dtype, N, 5));
    TRY(firsts(env, dtype, N, 100));
    TRY(firsts(env, dtype, N, 600));
    return firsts(env, dtype, 66000, 70);
}

#define WIDE_TYPES(X) X(F32, f32) X(F64, f64) X(I32, i32) X(I64, i64)
#define IN_PARTS(TYPE, type) \
    static conform_result in_parts_##type(conform_env *env) { return in_parts(env, DHOW_##TYPE); }
WIDE_TYPES(IN_PARTS)

/* Rows beyond the runs that are sorted by counting, which are merged then, and beyond the tiles
 * that GPUs sort; equal elements stay in order. */
static conform_result sorted(conform_env *env, dhow_dtype dtype) {
    enum { ROWS = 2, MOST = 2100 };
    const int64_t N = dtype == DHOW_F32 || dtype == DHOW_I64 ? MOST : 300, shape[] = {ROWS, N};
    NEEDS_DTYPE(dtype);
    const double low =
        dtype == DHOW_U8 || dtype == DHOW_U16 || dtype == DHOW_U32 || dtype == DHOW_U64 ? 0 : -9;
    conform_array x = conform_array_random(env, dtype, 2, shape, low, 9, 11);
    conform_array y = conform_array_new(env, dtype, 2, shape),
                  where = conform_array_new(env, DHOW_I64, 2, shape);
    for (int64_t i = 0; i < ROWS * N; i++) {
        const double *row = x.value + i / N * N;
        int64_t rank = 0;
        for (int64_t q = 0; q < N; q++)
            rank += row[q] < row[i % N] || (q < i % N && row[q] == row[i % N]);
        y.value[i / N * N + rank] = row[i % N];
        where.value[i / N * N + rank] = (double)(i % N);
    }
    dhow_tensor *tx, *ty, *tw;
    TRY(conform_upload(env, &x, LAYOUT_STEPPED, &tx));
    TRY(conform_blank(env, &y, LAYOUT_PLAIN, &ty));
    TRY(conform_blank(env, &where, LAYOUT_PLAIN, &tw));
    OK(dhow_sort(NULL, tx, 1, 0, ty, tw));
    TRY(conform_expect(env, ty, &y, (conform_tolerance){0, 0}, "sort"));
    return conform_expect(env, tw, &where, (conform_tolerance){0, 0}, "sort's indices");
}

#define SORTED(TYPE, type) \
    static conform_result sorted_##type(conform_env *env) { return sorted(env, DHOW_##TYPE); }
#define SORTABLE(X) TYPES(X) X(I8, i8) X(I16, i16) X(U8, u8) X(U16, u16) X(U32, u32) X(U64, u64)
SORTABLE(SORTED)

static conform_result least_integer(conform_env *env) {
    const int32_t x[] = {3, INT32_MAX, INT32_MIN, -5};
    const int64_t want = 2;
    dhow_tensor *tx, *ty;
    OWN(TENSOR, &tx, dhow_tensor_from_data(env->device, DHOW_I32, DHOW_SHAPE(4), x, &tx));
    OWN(TENSOR, &ty, dhow_tensor_create(env->device, DHOW_I64, 0, NULL, &ty));
    OK(dhow_argmin(NULL, tx, 0, ty));
    return conform_expect_bytes(env, ty, &want, sizeof want, "argmin with the least i32");
}

/* Terms that are all alike are rounded the same way, time and again: the errors of a sum that is
 * one of 2^17 terms in a row come to 1e-3 of it. */
static conform_result long_sums(conform_env *env) {
    const int64_t many = INT64_C(1) << 17, n[] = {many, many, 32}, inner[] = {1, 3, many / 16};
    static const double each = 0.100000001490116119; /* 0.1 as f32 */
    for (int i = 0; i < 3; i++) {
        const int64_t shape[] = {2, n[i], inner[i]}, result[] = {2, inner[i]};
        const int32_t dim = 1;
        conform_array want = conform_array_new(env, DHOW_F32, 2, result);
        dhow_tensor *x, *y;
        OWN(TENSOR, &x, dhow_tensor_full(env->device, DHOW_F32, 3, shape, each, &x));
        OWN(TENSOR, &y, dhow_tensor_create(env->device, DHOW_F32, 2, result, &y));
        for (int mean = 0; mean < 2; mean++) {
            for (int64_t k = 0; k < want.count; k++)
                want.value[k] = mean != 0 ? each : each * (double)n[i];
            OK(dhow_reduce(NULL, mean != 0 ? DHOW_REDUCE_MEAN : DHOW_REDUCE_SUM, x, &dim, 1, y));
            TRY(conform_expect(env, y, &want, (conform_tolerance){0, 3e-5}, "a long sum"));
        }
    }
    return CONFORM_PASS;
}

const conform_case conform_reduction_cases[] = {
#define ROWS(TYPE, type)                                    \
    CASE("reductions/" #type, reduce_##type, "ops," #type), \
        CASE("reductions/along_" #type, along_##type, "ops," #type),
#define SORTS(TYPE, type) CASE("reductions/sort_" #type, sorted_##type, "ops," #type),
#define PARTS(TYPE, type) CASE("reductions/in_parts_" #type, in_parts_##type, "ops," #type),
    TYPES(ROWS) SORTABLE(SORTS) WIDE_TYPES(PARTS) CASE("reductions/refusals", refusals, "ops"),
    CASE("reductions/least_integer", least_integer, "ops,i32"),
    CASE("reductions/long_sums", long_sums, "ops,f32"),
};
CASES_END(conform_reduction);
