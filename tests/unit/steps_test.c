/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of models built in C that arrange, choose, place and order elements, against plain loops;
 * with extents of 0 and 1 and open ones, strided inputs, and bad arguments.
 */
#include "steps_fixture.h"

TestSuite(steps, .init = set_up, .fini = tear_down, .timeout = 120);

/* Builds a step of one input with `call`, where b.in[0] is x and &b.out[0] the result. */
#define STEP(x_, want_, ...)                                                         \
    for (int open = 0; open < 2; open++) {                                           \
        array *in_[] = {x_}, *results_[] = {want_};                                  \
        built b = begin_model(in_, 1, open);                                         \
        OK(__VA_ARGS__);                                                             \
        end_model(&b, in_, results_, 1, open ? #__VA_ARGS__ " open" : #__VA_ARGS__); \
    }

static const int64_t k_shapes[][3] = {{3, 4, 5}, {1, 4, 1}, {3, 1, 5}, {0, 4, 5}, {2, 0, 3}};
enum { SHAPES = sizeof k_shapes / sizeof *k_shapes };

Test(steps, permute_and_the_dimensions_of_extent_1) {
    static const int32_t order[] = {2, 0, -2};
    for (int k = 0; k < SHAPES; k++) {
        const int64_t *s = k_shapes[k];
        array *x = array_filled(1, array_new(DHOW_F32, 3, s));
        array *y = NEW(DHOW_F32, s[2], s[0], s[1]), *z = NEW(DHOW_F32, s[0], s[1], 1, s[2]);
        for (int64_t i = 0; i < x->count; i++) {
            int64_t at[3];
            places(x, i, at);
            y->v[place(y, (int64_t[]){at[2], at[0], at[1]})] = x->v[i];
            z->v[i] = x->v[i];
        }
        STEP(x, y, dhow_model_permute(b.m, b.in[0], order, 3, &b.out[0]));
        STEP(x, z, dhow_model_unsqueeze(b.m, b.in[0], -2, &b.out[0]));
        STEP(z, x, dhow_model_squeeze(b.m, b.in[0], 2, &b.out[0]));
    }
    array *x = FILLED(2, DHOW_I64, 1, 3, 1), *y = NEW(DHOW_I64, 3);
    memcpy(y->v, x->v, sizeof y->v);
    array *in[] = {x}, *want[] = {y};
    built b = begin_model(in, 1, 0);
    OK(dhow_model_squeeze(b.m, b.in[0], 1, &b.out[0]));
    cr_assert_eq(b.out[0], b.in[0], "an extent of 3 stays");
    OK(dhow_model_squeeze(b.m, b.in[0], DHOW_ALL_DIMS, &b.out[0]));
    end_model(&b, in, want, 1, "all");
}

Test(steps, expand_slice_narrow_select) {
    array *x = FILLED(3, DHOW_F64, 3, 1, 6), *y = NEW(DHOW_F64, 2, 3, 4, 6);
    array *sliced = NEW(DHOW_F64, 3, 1, 2), *some = NEW(DHOW_F64, 2, 1, 6),
          *one = NEW(DHOW_F64, 1, 6);
    array *none = NEW(DHOW_F64, 3, 1, 0);
    for (int64_t i = 0; i < y->count; i++) {
        int64_t at[4];
        places(y, i, at);
        y->v[i] = x->v[at[1] * 6 + at[3]];
    }
    for (int64_t i = 0; i < sliced->count; i++) sliced->v[i] = x->v[i / 2 * 6 + 2 + i % 2 * 2];
    for (int64_t i = 0; i < some->count; i++) some->v[i] = x->v[6 + i];
    for (int64_t i = 0; i < one->count; i++) one->v[i] = x->v[12 + i];
    STEP(x, y, dhow_model_expand(b.m, b.in[0], DHOW_SHAPE(2, -1, 4, 6), &b.out[0]));
    STEP(x, sliced, dhow_model_slice(b.m, b.in[0], -1, 2, -1, 2, &b.out[0]));
    STEP(x, none, dhow_model_slice(b.m, b.in[0], 2, 4, 2, 1, &b.out[0]));
    STEP(x, some, dhow_model_slice(b.m, b.in[0], 0, 1, 99, 1, &b.out[0]));
    STEP(x, some, dhow_model_narrow(b.m, b.in[0], 0, 1, 2, &b.out[0]));
    STEP(x, one, dhow_model_select(b.m, b.in[0], 0, -1, &b.out[0]));
}

Test(steps, stack) {
    array *p = FILLED(4, DHOW_F16, 2, 3), *q = FILLED(5, DHOW_F16, 2, 3),
          *y = NEW(DHOW_F16, 2, 3, 2);
    for (int64_t i = 0; i < 6; i++) {
        y->v[2 * i] = p->v[i];
        y->v[2 * i + 1] = q->v[i];
    }
    for (int open = 0; open < 2; open++) {
        array *in[] = {p, q}, *want[] = {y};
        built b = begin_model(in, 2, open);
        OK(dhow_model_stack(b.m, b.in, 2, -1, &b.out[0]));
        end_model(&b, in, want, 1, "stack");
    }
}

/* Where element i of a padded dimension comes from; -1 for the value. */
static int64_t source(int64_t i, int64_t n, dhow_pad_mode mode) {
    if (i >= 0 && i < n) return i;
    if (mode == DHOW_PAD_REPLICATE) return i < 0 ? 0 : n - 1;
    if (mode == DHOW_PAD_CIRCULAR) return (i + n) % n;
    if (mode == DHOW_PAD_REFLECT) return i < 0 ? -i : 2 * (n - 1) - i;
    return -1;
}

static array *padded(const array *x, const int64_t *pads, uint32_t count, dhow_pad_mode mode,
                     double value) {
    int64_t shape[DHOW_MAX_RANK], before[DHOW_MAX_RANK] = {0};
    memcpy(shape, x->shape, sizeof shape);
    for (uint32_t i = 0; i < count / 2; i++) {
        before[x->rank - 1 - (int32_t)i] = pads[2 * i];
        shape[x->rank - 1 - (int32_t)i] += pads[2 * i] + pads[2 * i + 1];
    }
    array *y = array_new(x->dtype, x->rank, shape);
    for (int64_t i = 0; i < y->count; i++) {
        int64_t at[DHOW_MAX_RANK];
        int outside = 0;
        places(y, i, at);
        for (int32_t k = 0; k < y->rank; k++) {
            at[k] = source(at[k] - before[k], x->shape[k], mode);
            outside |= at[k] < 0;
        }
        y->v[i] = outside ? value : x->v[place(x, at)];
    }
    return y;
}

Test(steps, pad_has_pytorchs_order_and_modes) {
    static const dhow_dtype dtypes[] = {DHOW_F32, DHOW_F64, DHOW_BF16,
                                        DHOW_I32, DHOW_I64, DHOW_BOOL};
    static const int64_t pads[] = {2, 1, 0, 3}, cut[] = {-1, 2}, all[] = {1, 1, 1, 1, 2, 0};
    for (int d = 0; d < 6; d++) {
        array *x = FILLED(6, dtypes[d], 2, 4, 3);
        const double value = dtypes[d] == DHOW_BOOL ? 1 : dtypes[d] == DHOW_F64 ? 0.1 : 7;
        for (dhow_pad_mode mode = DHOW_PAD_CONSTANT; mode <= DHOW_PAD_CIRCULAR; mode++) {
            array *y = padded(x, pads, 4, mode, value), *z = padded(x, cut, 2, mode, value);
            STEP(x, y, dhow_model_pad(b.m, b.in[0], pads, 4, mode, value, &b.out[0]));
            STEP(x, z, dhow_model_pad(b.m, b.in[0], cut, 2, mode, value, &b.out[0]));
            EAGER(&x, 1, y, dhow_pad(NULL, t[0], pads, 4, mode, value, into));
            EAGER(&x, 1, z, dhow_pad(NULL, t[0], cut, 2, mode, value, into));
        }
    }
    array *x = NEW(DHOW_F32, 2, 0, 1), *y = padded(x, all, 6, DHOW_PAD_CONSTANT, -3);
    STEP(x, y, dhow_model_pad(b.m, b.in[0], all, 6, DHOW_PAD_CONSTANT, -3, &b.out[0]));
    STEP(x, x, dhow_model_pad(b.m, b.in[0], NULL, 0, DHOW_PAD_CONSTANT, 0, &b.out[0]));
}

/* An index of x's shape but for `dim`, all within extent n. */
static array *indices(const array *x, int32_t dim, int64_t extent, int distinct) {
    int64_t shape[DHOW_MAX_RANK];
    memcpy(shape, x->shape, sizeof shape);
    shape[dim] = extent;
    array *a = array_new(DHOW_I64, x->rank, shape);
    for (int64_t i = 0; i < a->count; i++) {
        int64_t at[DHOW_MAX_RANK];
        places(a, i, at);
        a->v[i] = (double)((distinct ? at[dim] + i / 7 : i * 5 + 3) %
                           (x->shape[dim] > 0 ? x->shape[dim] : 1));
        if (distinct) a->v[i] = (double)((at[dim] * 2 + 1) % x->shape[dim]);
    }
    return a;
}

Test(steps, gather_index_select_take_along_dim) {
    for (int k = 0; k < 3; k++) {
        array *x = array_filled(7, array_new(DHOW_F32, 3, k_shapes[k])), *index = NEW(DHOW_I64, 4);
        for (int64_t i = 0; i < 4; i++) index->v[i] = (double)(i * 2 % x->shape[1]);
        array *y = NEW(DHOW_F32, x->shape[0], 4, x->shape[2]);
        for (int64_t i = 0; i < y->count; i++) {
            int64_t at[3];
            places(y, i, at);
            at[1] = (int64_t)index->v[at[1]];
            y->v[i] = x->v[place(x, at)];
        }
        array *each = indices(x, 1, 3, 0), *taken = array_new(DHOW_F32, 3, each->shape);
        for (int64_t i = 0; i < taken->count; i++) {
            int64_t at[3];
            places(taken, i, at);
            at[1] = (int64_t)each->v[i];
            taken->v[i] = x->v[place(x, at)];
        }
        for (int open = 0; open < 2; open++) {
            array *in[] = {x, index}, *both[] = {x, each}, *want[] = {y}, *wanted[] = {taken};
            built b = begin_model(in, 2, open), c = begin_model(both, 2, open);
            OK(dhow_model_index_select(b.m, b.in[0], 1, b.in[1], &b.out[0]));
            end_model(&b, in, want, 1, "index_select");
            OK(dhow_model_take_along_dim(c.m, c.in[0], c.in[1], -2, &c.out[0]));
            end_model(&c, both, wanted, 1, "take_along_dim");
            EAGER(in, 2, y, dhow_index_select(NULL, t[0], 1, t[1], into));
            EAGER(both, 2, taken, dhow_take_along_dim(NULL, t[0], t[1], 1, into));
        }
    }
    array *x = FILLED(8, DHOW_I32, 3, 2), *index = NEW(DHOW_I64, 2), *y = NEW(DHOW_I32, 2, 2);
    index->v[0] = 2;
    for (int i = 0; i < 4; i++) y->v[i] = x->v[i < 2 ? 4 + i : i - 2];
    array *in[] = {x, index}, *want[] = {y};
    built b = begin_model(in, 2, 0);
    OK(dhow_model_gather(b.m, b.in[0], b.in[1], &b.out[0]));
    end_model(&b, in, want, 1, "gather");
}

static double joined(double a, double b, dhow_scatter_mode mode) {
    switch (mode) {
        case DHOW_SCATTER_SUM:
            return a + b;
        case DHOW_SCATTER_PROD:
            return a * b;
        case DHOW_SCATTER_MAX:
            return fmax(a, b);
        case DHOW_SCATTER_MIN:
            return fmin(a, b);
        default:
            return b;
    }
}

Test(steps, scatter_replaces_and_reduces) {
    for (dhow_scatter_mode mode = DHOW_SCATTER_REPLACE; mode <= DHOW_SCATTER_MIN; mode++) {
        for (int k = 0; k < 3; k++) {
            const int64_t shape[] = {2, 5, k == 1 ? 1 : 3};
            array *x = array_filled(9, array_new(DHOW_F32, 3, shape));
            array *index = indices(x, 1, k == 2 ? 0 : mode == 0 ? 5 : 4, mode == 0);
            array *from = array_filled(10, array_new(DHOW_F32, 3, index->shape));
            array *y = array_new(DHOW_F32, 3, shape);
            memcpy(y->v, x->v, sizeof y->v);
            for (int64_t i = 0; i < index->count; i++) {
                int64_t at[3];
                places(index, i, at);
                at[1] = (int64_t)index->v[i];
                double *to = &y->v[place(y, at)];
                *to = joined(*to, from->v[i], mode);
            }
            for (int open = 0; open < 2; open++) {
                array *in[] = {x, index, from}, *want[] = {y};
                built b = begin_model(in, 3, open);
                OK(dhow_model_scatter(b.m, b.in[0], 1, b.in[1], b.in[2], mode, &b.out[0]));
                end_model(&b, in, want, 1, "scatter");
                EAGER(in, 3, y, dhow_scatter(NULL, t[0], 1, t[1], t[2], mode, into));
            }
        }
    }
}

/* The place of the r-th element of row x[0], x[step], ... in order. */
static int64_t ranked(const double *x, int64_t n, int64_t step, int64_t r, int falling) {
    for (int64_t i = 0; i < n; i++) {
        int64_t before = 0;
        for (int64_t k = 0; k < n; k++) {
            const double a = x[k * step], b = x[i * step];
            before += (falling ? a > b : a < b) || (a == b && k < i);
        }
        if (before == r) return i;
    }
    return -1;
}

Test(steps, sort_topk_cumsum_argmin) {
    for (int k = 0; k < SHAPES; k++) {
        array *x = array_filled(11, array_new(DHOW_F32, 3, k_shapes[k]));
        const int64_t n = x->shape[1], inner = x->shape[2];
        array *sum = array_new(DHOW_F32, 3, k_shapes[k]),
              *sorted = array_new(DHOW_F32, 3, k_shapes[k]);
        array *index = array_new(DHOW_I64, 3, k_shapes[k]),
              *least = NEW(DHOW_I64, x->shape[0], inner);
        for (int falling = 0; falling < 2; falling++) {
            for (int64_t i = 0; i < x->count; i++) {
                int64_t at[3];
                places(x, i, at);
                const double *row = x->v + at[0] * n * inner + at[2];
                index->v[i] = (double)ranked(row, n, inner, at[1], falling);
                sorted->v[i] = row[(int64_t)index->v[i] * inner];
                sum->v[i] = x->v[i] + (at[1] > 0 ? sum->v[i - inner] : 0);
                if (!falling && at[1] == 0) least->v[at[0] * inner + at[2]] = index->v[i];
            }
            array *in[] = {x}, *want[] = {sorted, index};
            built b = begin_model(in, 1, 1), c = begin_model(in, 1, 0);
            OK(dhow_model_sort(b.m, b.in[0], -2, falling, &b.out[0], &b.out[1]));
            end_model(&b, in, want, 2, "sort");
            OK(dhow_model_topk(c.m, c.in[0], n, 1, falling, &c.out[0], &c.out[1]));
            end_model(&c, in, want, 2, "topk");
            dhow_tensor *places = tensor_of(index, 0);
            EAGER(in, 1, sorted, dhow_sort(NULL, t[0], 1, falling, into, places));
            expect(places, index, "places of sort");
            dhow_tensor_release(places);
        }
        STEP(x, sum, dhow_model_cumsum(b.m, b.in[0], 1, &b.out[0]));
        if (n > 0) STEP(x, least, dhow_model_argmin(b.m, b.in[0], 1, &b.out[0]));
    }
}

/* ---- sorting ---- */

/* Few different values, so that many are equal; of floats NaN, both zeros and infinities too. */
static array *with_ties(array *a) {
    const dhow_dtype d = a->dtype;
    const int is_float = d == DHOW_F32 || d == DHOW_F64 || d == DHOW_F16 || d == DHOW_BF16;
    const int is_signed =
        is_float || d == DHOW_I8 || d == DHOW_I16 || d == DHOW_I32 || d == DHOW_I64;
    static const double odd[] = {NAN, -0.0, 0.0, INFINITY, -INFINITY};
    for (int64_t i = 0; i < a->count; i++) {
        const unsigned n = ((unsigned)i * 2654435761u) >> 7;
        a->v[i] = d == DHOW_BOOL ? n % 2 : is_signed ? (double)(n % 251) - 125 : n % 251;
        if (is_float && n % 17 < 5) a->v[i] = odd[n % 17];
    }
    return a;
}

/* Whether a comes before b, at places i and k. */
static int precedes(double a, double b, int64_t i, int64_t k, int falling) {
    const int level = a == b || (isnan(a) && isnan(b));
    const int above = a > b || (isnan(a) && !isnan(b));
    return level ? i < k : falling ? above : !above;
}

/* The first k of x[o][n][i] in order, and where they were. */
static void ordered(const array *x, int64_t k, int falling, array *values, array *where) {
    const int64_t n = x->shape[1], inner = x->shape[2];
    for (int64_t r = 0; r < x->shape[0] * inner; r++) {
        const double *row = x->v + r / inner * n * inner + r % inner;
        for (int64_t i = 0; i < n; i++) {
            int64_t rank = 0;
            for (int64_t q = 0; q < n; q++)
                rank += precedes(row[q * inner], row[i * inner], q, i, falling);
            if (rank >= k) continue;
            const int64_t to = (r / inner * k + rank) * inner + r % inner;
            values->v[to] = row[i * inner];
            where->v[to] = (double)i;
        }
    }
}

Test(steps, sort_and_topk_of_all_types_and_lengths_are_stable_with_nan_last) {
    static const int64_t shapes[][3] = {{2, 31, 1},   {1, 33, 3},   {3, 64, 1},
                                        {1, 1000, 2}, {1, 4500, 1}, {1, 1, 4}};
    for (dhow_dtype dtype = DHOW_F32; dtype <= DHOW_BOOL; dtype++) {
        if (dhow_dtype_bytes(dtype) == 0) continue;
        for (int c = 0; c < 6; c++) {
            const int falling = c % 2;
            array *x = with_ties(array_new(dtype, 3, shapes[c]));
            const int64_t n = shapes[c][1], k = n / 3;
            const int64_t some[] = {shapes[c][0], k, shapes[c][2]};
            array *values = array_new(dtype, 3, shapes[c]),
                  *where = array_new(DHOW_I64, 3, shapes[c]);
            array *first = array_new(dtype, 3, some), *at = array_new(DHOW_I64, 3, some);
            ordered(x, n, falling, values, where);
            ordered(x, k, falling, first, at);
            dhow_tensor *t = tensor_of(x, c == 3), *y = tensor_of(values, 0),
                        *i = tensor_of(where, 0);
            dhow_tensor *z = tensor_of(first, c == 1), *j = tensor_of(at, 0);
            OK(dhow_fill(NULL, i, 99));
            OK(dhow_sort(NULL, t, 1, falling, y, i));
            expect(y, values, dhow_dtype_name(dtype));
            expect(i, where, dhow_dtype_name(dtype));
            OK(dhow_fill(NULL, j, 99));
            OK(dhow_topk(NULL, t, k, 1, falling, z, j));
            expect(z, first, "topk");
            expect(j, at, "places of topk");
            dhow_tensor_release(t), dhow_tensor_release(y), dhow_tensor_release(i);
            dhow_tensor_release(z), dhow_tensor_release(j);
            array *in[] = {x}, *want[] = {first, at};
            built b = begin_model(in, 1, 0);
            OK(dhow_model_topk(b.m, b.in[0], k, 1, falling, &b.out[0], &b.out[1]));
            end_model(&b, in, want, 2, "topk of a model");
        }
    }
}

Test(steps, integers_of_64_bits_are_sorted_exactly) {
    static const int64_t x[] = {INT64_MAX, 0, INT64_MIN, -1, INT64_MAX - 1, INT64_MIN + 1};
    static const int64_t places_rising[] = {2, 5, 3, 1, 4, 0}, places_as_u64[] = {1, 4, 0, 2, 5, 3};
    for (int k = 0; k < 2; k++) {
        const dhow_dtype dtype = k == 0 ? DHOW_I64 : DHOW_U64;
        dhow_tensor *home, *t, *y, *i;
        int64_t is[6];
        OK(dhow_tensor_from_data(g_cpu, dtype, DHOW_SHAPE(6), x, &home));
        OK(dhow_tensor_to(home, g_device, &t));
        OK(dhow_tensor_create(g_device, dtype, DHOW_SHAPE(6), &y));
        OK(dhow_tensor_create(g_device, DHOW_I64, DHOW_SHAPE(6), &i));
        OK(dhow_sort(NULL, t, 0, 0, y, i));
        OK(dhow_tensor_read(i, is, sizeof is));
        cr_assert_arr_eq(is, k == 0 ? places_rising : places_as_u64, sizeof is);
        OK(dhow_tensor_read(y, is, sizeof is));
        for (int n = 0; n < 6; n++)
            cr_assert_eq(is[n], x[(k == 0 ? places_rising : places_as_u64)[n]]);
        dhow_tensor_release(home), dhow_tensor_release(t);
        dhow_tensor_release(y), dhow_tensor_release(i);
    }
}

/* ---- reduced, divided ---- */

/* The variance over the dimensions that are marked, with extents of 1 for them. */
static array *variance(const array *x, const int *marked, double correction, int root) {
    int64_t shape[DHOW_MAX_RANK], n = 1;
    for (int32_t i = 0; i < x->rank; i++) {
        shape[i] = marked[i] ? 1 : x->shape[i];
        n *= marked[i] ? x->shape[i] : 1;
    }
    array *mean = array_new(x->dtype, x->rank, shape), *y = array_new(x->dtype, x->rank, shape);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < x->count; i++) {
            int64_t at[DHOW_MAX_RANK];
            places(x, i, at);
            for (int32_t k = 0; k < x->rank; k++) at[k] = marked[k] ? 0 : at[k];
            const int64_t to = place(y, at);
            if (pass == 0) mean->v[to] += x->v[i] / (double)n;
            if (pass == 1) y->v[to] += (x->v[i] - mean->v[to]) * (x->v[i] - mean->v[to]);
        }
    }
    for (int64_t i = 0; i < y->count; i++) {
        y->v[i] /= fmax(0, (double)n - correction);
        if (root) y->v[i] = sqrt(y->v[i]);
    }
    return y;
}

Test(steps, var_and_std_over_any_dimensions) {
    static const dhow_dtype dtypes[] = {DHOW_F32, DHOW_F64, DHOW_F16, DHOW_BF16};
    static const int32_t dims[][3] = {{1}, {0, -1}, {2, 1, 0}, {-2, 2}};
    static const uint32_t counts[] = {1, 2, 3, 2};
    static const int marks[][3] = {{0, 1, 0}, {1, 0, 1}, {1, 1, 1}, {0, 1, 1}};
    for (int k = 0; k < SHAPES; k++) {
        for (int d = 0; d < 4; d++) {
            array *x = array_filled(17, array_new(dtypes[d], 3, k_shapes[k]));
            const double correction = d == 3 ? 0.5 : d;
            array *var = variance(x, marks[d], correction, 0),
                  *root = variance(x, marks[d], correction, 1);
            STEP(x, var,
                 dhow_model_var(b.m, b.in[0], dims[d], counts[d], correction, 1, &b.out[0]));
            STEP(x, root,
                 dhow_model_std(b.m, b.in[0], dims[d], counts[d], correction, 1, &b.out[0]));
            if (k > 2) continue;
            EAGER(&x, 1, var, dhow_var(NULL, t[0], dims[d], counts[d], correction, into));
            EAGER(&x, 1, root, dhow_std(NULL, t[0], dims[d], counts[d], correction, into));
        }
    }
    array *x = FILLED(18, DHOW_F32, 4, 6), *all = NEW(DHOW_F32, 1), *one = NEW(DHOW_F32, 4);
    all->rank = 0;
    all->v[0] = variance(x, (const int[]){1, 1}, 1, 1)->v[0];
    memcpy(one->v, variance(x, (const int[]){0, 1}, 1, 0)->v, 4 * sizeof *one->v);
    STEP(x, all, dhow_model_std(b.m, b.in[0], NULL, 0, 1, 0, &b.out[0]));
    STEP(x, one, dhow_model_var(b.m, b.in[0], (const int32_t[]){-1}, 1, 1, 0, &b.out[0]));
}

Test(steps, split_and_chunk) {
    static const int64_t sizes[] = {2, 0, 3};
    array *x = FILLED(19, DHOW_I32, 3, 5), *p = NEW(DHOW_I32, 3, 2), *q = NEW(DHOW_I32, 3, 3);
    array *r = NEW(DHOW_I32, 3, 1), *none = NEW(DHOW_I32, 3, 0);
    for (int64_t i = 0; i < 15; i++) {
        if (i % 5 < 2) p->v[i / 5 * 2 + i % 5] = x->v[i];
        if (i % 5 > 1) q->v[i / 5 * 3 + i % 5 - 2] = x->v[i];
        if (i % 5 == 4) r->v[i / 5] = x->v[i];
    }
    for (int open = 0; open < 2; open++) {
        array *in[] = {x}, *both[] = {p, q}, *ends[] = {p, r}, *left[] = {r, none};
        dhow_model_value part[4];
        built b = begin_model(in, 1, open), c = begin_model(in, 1, open),
              d = begin_model(in, 1, open);
        OK(dhow_model_split(b.m, b.in[0], -1, sizes, 3, part));
        b.out[0] = part[0], b.out[1] = part[2];
        end_model(&b, in, both, 2, "split");
        OK(dhow_model_chunk(c.m, c.in[0], 1, 3, part));
        c.out[0] = part[0], c.out[1] = part[2];
        end_model(&c, in, ends, 2, "chunk");
        OK(dhow_model_chunk(d.m, d.in[0], 1, 4, part)); /* 2, 2, 1 and none */
        d.out[0] = part[2], d.out[1] = part[3];
        end_model(&d, in, left, 2, "chunk that comes out short");
    }
}

Test(steps, functions_compare_cast) {
    array *x = FILLED(12, DHOW_F32, 3, 4), *q = FILLED(13, DHOW_F32, 1, 4);
    array *sine = NEW(DHOW_F32, 3, 4), *leaky = NEW(DHOW_F32, 3, 4), *below = NEW(DHOW_BOOL, 3, 4);
    array *rest = NEW(DHOW_F32, 3, 4), *whole = NEW(DHOW_I64, 3, 4), *soft = NEW(DHOW_F32, 3, 4);
    array *elu = NEW(DHOW_F32, 3, 4);
    for (int64_t i = 0; i < 12; i++) {
        const double a = x->v[i], c = q->v[i % 4];
        double sum = 0;
        for (int k = 0; k < 4; k++) sum += exp(x->v[i / 4 * 4 + k]);
        sine->v[i] = sin(a);
        leaky->v[i] = a < 0 ? 0.1 * a : a;
        elu->v[i] = a < 0 ? 0.5 * expm1(a) : a;
        below->v[i] = a < c;
        rest->v[i] = fmod(a, c == 0 ? 1 : c);
        whole->v[i] = trunc(a);
        soft->v[i] = a - log(sum);
    }
    STEP(x, sine, dhow_model_sin(b.m, b.in[0], &b.out[0]));
    STEP(x, leaky, dhow_model_leaky_relu(b.m, b.in[0], 0.1, &b.out[0]));
    STEP(x, elu, dhow_model_elu(b.m, b.in[0], 0.5, &b.out[0]));
    STEP(x, whole, dhow_model_cast(b.m, b.in[0], DHOW_I64, &b.out[0]));
    array *flags = FILLED(15, DHOW_BOOL, 3, 4), *ones = NEW(DHOW_BF16, 3, 4);
    for (int64_t i = 0; i < 12; i++) ones->v[i] = flags->v[i];
    STEP(flags, ones, dhow_model_cast(b.m, b.in[0], DHOW_BF16, &b.out[0]));
    STEP(x, soft, dhow_model_log_softmax(b.m, b.in[0], -1, &b.out[0]));
    for (int64_t i = 0; i < 4; i++) q->v[i] = q->v[i] == 0 ? 1 : q->v[i];
    for (int64_t i = 0; i < 12; i++) {
        below->v[i] = x->v[i] < q->v[i % 4];
        rest->v[i] = fmod(x->v[i], q->v[i % 4]);
    }
    array *in[] = {x, q}, *less[] = {below}, *left[] = {rest};
    built b = begin_model(in, 2, 0), c = begin_model(in, 2, 0);
    OK(dhow_model_less(b.m, b.in[0], b.in[1], &b.out[0]));
    end_model(&b, in, less, 1, "less");
    OK(dhow_model_fmod(c.m, c.in[0], c.in[1], &c.out[0]));
    end_model(&c, in, left, 1, "fmod");
}

/* Strides of what has no elements are 0. */
Test(steps, maps_over_empty_values_side_by_side) {
    dhow_model *m;
    dhow_model_value x, a, b, y;
    dhow_tensor *in, *out;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, 2, (const int64_t[]){2, -1}, &x));
    OK(dhow_model_relu(m, x, &a));
    OK(dhow_model_exp(m, a, &a)); /* maps are of two operations and more */
    OK(dhow_model_neg(m, x, &b));
    OK(dhow_model_exp(m, b, &b));
    OK(dhow_model_cat(m, (const dhow_model_value[]){a, b}, 2, 0, &y));
    OK(dhow_model_exp(m, y, &y));
    OK(dhow_model_mul(m, y, y, &y));
    OK(dhow_model_output(m, "y", y));
    OK(dhow_model_to(m, g_device));
    for (int64_t columns = 0; columns < 3; columns++) {
        OK(dhow_tensor_zeros(g_device, DHOW_F32, 2, (const int64_t[]){2, columns}, &in));
        OK(dhow_model_run(m, NULL, &in, 1, &out, 1));
        cr_assert(dhow_tensor_extent(out, 0) == 4 && dhow_tensor_extent(out, 1) == columns);
        dhow_tensor_release(out);
        dhow_tensor_release(in);
    }
    dhow_model_release(m);
}

Test(steps, bad_arguments_are_refused_and_add_nothing) {
    static const int32_t twice[] = {0, 0};
    static const int64_t three[] = {1, 2, 3}, far[] = {-2, -2}, wide[] = {0, 3};
    dhow_model *m;
    dhow_model_value x, i, f, v, w, both[2];
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(-1, 3), &x));
    OK(dhow_model_input(m, "i", DHOW_I64, DHOW_SHAPE(4, 4), &i));
    OK(dhow_model_input(m, "flag", DHOW_BOOL, DHOW_SHAPE(2, 3), &f));
    FAILS(DHOW_INVALID_ARGUMENT, "names dimension 0 twice", dhow_model_permute(m, x, twice, 2, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "order has 1 dimensions, x has 2",
          dhow_model_permute(m, x, twice, 1, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "dimension 0 is open",
          dhow_model_squeeze(m, x, DHOW_ALL_DIMS, &v));
    FAILS(DHOW_OUT_OF_RANGE, "dimension 4", dhow_model_unsqueeze(m, x, 4, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "-1 keeps", dhow_model_expand(m, x, DHOW_SHAPE(-1, 4), &v));
    FAILS(DHOW_INVALID_ARGUMENT, "rank 1", dhow_model_expand(m, x, DHOW_SHAPE(3), &v));
    FAILS(DHOW_INVALID_ARGUMENT, "step 0", dhow_model_slice(m, x, 0, 0, 1, 0, &v));
    FAILS(DHOW_OUT_OF_RANGE, "2 indices from 2", dhow_model_narrow(m, x, 1, 2, 2, &v));
    FAILS(DHOW_OUT_OF_RANGE, "index 3", dhow_model_select(m, x, 1, 3, &v));
    both[0] = x, both[1] = i;
    FAILS(DHOW_INVALID_ARGUMENT, "does not join", dhow_model_stack(m, both, 2, 0, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "3 pads for rank 2", dhow_model_pad(m, x, three, 3, 0, 0, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "extent 3", dhow_model_pad(m, x, far, 2, 0, 0, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "below the extent 3",
          dhow_model_pad(m, x, wide, 2, DHOW_PAD_REFLECT, 0, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "mode is 9",
          dhow_model_pad(m, x, wide, 2, (dhow_pad_mode)9, 0, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "index is f32", dhow_model_take_along_dim(m, x, x, 0, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "extent 4 at dimension 1",
          dhow_model_take_along_dim(m, x, i, 0, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "source is bool", dhow_model_scatter(m, x, 1, i, f, 0, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "the sizes come to 1 of the extent 3",
          dhow_model_split(m, x, 1, three, 1, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "0 parts", dhow_model_chunk(m, x, 1, 0, &v));
    FAILS(DHOW_UNSUPPORTED, "is open", dhow_model_chunk(m, x, 0, 2, both));
    FAILS(DHOW_INVALID_ARGUMENT, "does not take", dhow_model_var(m, i, NULL, 0, 1, 0, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "named twice", dhow_model_std(m, x, twice, 2, 1, 0, &v));
    FAILS(DHOW_UNSUPPORTED, "is open", dhow_model_sort(m, x, 0, 0, &v, &w));
    FAILS(DHOW_OUT_OF_RANGE, "k is 4", dhow_model_topk(m, x, 4, 1, 1, &v, &w));
    FAILS(DHOW_INVALID_ARGUMENT, "bool", dhow_model_cumsum(m, f, 1, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "bool", dhow_model_argmin(m, f, 1, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "does not take", dhow_model_erf(m, i, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "does not take", dhow_model_equal(m, f, f, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "no dtype", dhow_model_cast(m, i, (dhow_dtype)99, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "no value", dhow_model_gather(m, x, 99, &v));
    cr_assert_eq(v, -1);
    OK(dhow_model_pad(m, x, wide, 2, DHOW_PAD_CIRCULAR, 0, &v)); /* the model is as it was */
    OK(dhow_model_output(m, "y", v));
    dhow_model_release(m);
}

Test(steps, a_copy_of_a_model_has_the_constants_of_its_steps) {
    static const int64_t pads[] = {1, 0};
    array *x = FILLED(14, DHOW_F32, 2, 3), *y = padded(x, pads, 2, DHOW_PAD_CONSTANT, 0.5);
    array *in[] = {x}, *want[] = {y};
    built b = begin_model(in, 1, 0), copy;
    OK(dhow_model_pad(b.m, b.in[0], pads, 2, DHOW_PAD_CONSTANT, 0.5, &b.out[0]));
    OK(dhow_model_output(b.m, "y", b.out[0]));
    copy = b;
    OK(dhow_model_replicate(b.m, &g_device, 1, &copy.m));
    dhow_model_release(b.m);
    dhow_tensor *t = tensor_of(x, 0), *r;
    OK(dhow_model_run(copy.m, NULL, &t, 1, &r, 1));
    expect(r, want[0], "copy");
    dhow_model_release(copy.m);
}
