/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of layers as eager functions: convolutions of any dimensions and transposed ones, norms,
 * embeddings and indices, padding, interpolation, dropout, attention; against sums in double.
 */
#include "ops.h"

static conform_tolerance sums_of(dhow_dtype dtype, int64_t terms) {
    conform_tolerance t = conform_tolerance_of(dtype);
    t.absolute += (dtype == DHOW_F64 ? 0x1p-52 : 0x1p-23) * (double)terms * 8;
    return t;
}

/* A case's tensors in order, as most functions take them. */
static conform_result upload_all(conform_env *env, const conform_array *arrays, uint32_t count,
                                 dhow_tensor **out) {
    for (uint32_t i = 0; i < count; i++)
        TRY(conform_upload(env, &arrays[i], LAYOUT_PLAIN, &out[i]));
    return CONFORM_PASS;
}

/* ---- convolutions ---- */

/* Over three dimensions; of fewer, the first extents are 1. */
typedef struct convolution {
    const char *name;
    int dims;
    int64_t n, c, k, in[3], kernel[3], stride[3], padding[3], dilation[3], more[3], groups;
    bool transposed;
} convolution;

static const convolution k_convolutions[] = {
    {"conv1d", 1, 2, 3, 4, {1, 1, 9}, {1, 1, 3}, {1, 1, 2}, {0, 0, 1}, {1, 1, 1}, {0}, 1, false},
    {"conv1d", 1, 1, 4, 6, {1, 1, 13}, {1, 1, 2}, {1, 1, 1}, {0}, {1, 1, 3}, {0}, 2, false},
    {"conv3d", 3, 1, 2, 3, {4, 5, 3}, {2, 3, 1}, {2, 1, 1}, {1, 0, 0}, {1, 2, 1}, {0}, 1, false},
    {"conv3d", 3, 2, 4, 4, {3, 3, 3}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0}, 4, false},
    {"conv_transpose1d",
     1,
     2,
     3,
     4,
     {1, 1, 5},
     {1, 1, 3},
     {1, 1, 2},
     {0, 0, 1},
     {1, 1, 1},
     {0, 0, 1},
     1,
     true},
    {"conv_transpose2d",
     2,
     1,
     4,
     6,
     {1, 3, 4},
     {1, 3, 2},
     {1, 2, 1},
     {0, 1, 0},
     {1, 1, 2},
     {0},
     2,
     true},
    {"conv_transpose2d",
     2,
     2,
     3,
     2,
     {1, 5, 1},
     {1, 4, 4},
     {1, 2, 2},
     {0, 1, 1},
     {1, 1, 1},
     {0},
     1,
     true},
    {"conv_transpose3d",
     3,
     1,
     2,
     2,
     {2, 3, 2},
     {2, 2, 2},
     {2, 1, 2},
     {0},
     {1, 1, 1},
     {0, 0, 1},
     1,
     true}};

static void extents_out(const convolution *g, int64_t *out) {
    for (int d = 0; d < 3; d++) {
        const int64_t reach = g->dilation[d] * (g->kernel[d] - 1);
        out[d] = g->transposed
                     ? (g->in[d] - 1) * g->stride[d] + reach + g->more[d] + 1 - 2 * g->padding[d]
                     : (g->in[d] + 2 * g->padding[d] - reach - 1) / g->stride[d] + 1;
    }
}

static int64_t cell(const int64_t *extent, const int64_t *at) {
    return (at[0] * extent[1] + at[1]) * extent[2] + at[2];
}

/* Adds what one element of the kernel does everywhere: `wide` is the picture the windows lie in,
 * `narrow` has one element a window. */
static void add_tap(const convolution *g, const int64_t *wide, const int64_t *narrow,
                    const int64_t *tap, double w, const double *from, double *to) {
    int64_t at[3], other[3];
    for (int64_t i = 0; i < narrow[0] * narrow[1] * narrow[2]; i++) {
        bool inside = true;
        at[0] = i / (narrow[1] * narrow[2]);
        at[1] = i / narrow[2] % narrow[1];
        at[2] = i % narrow[2];
        for (int d = 0; d < 3; d++) {
            other[d] = at[d] * g->stride[d] + tap[d] * g->dilation[d] - g->padding[d];
            inside = inside && other[d] >= 0 && other[d] < wide[d];
        }
        if (!inside) continue;
        if (g->transposed) {
            to[cell(wide, other)] += w * from[i];
        } else {
            to[i] += w * from[cell(wide, other)];
        }
    }
}

static void convolve(const convolution *g, const int64_t *out, const conform_array *x,
                     const conform_array *weight, const conform_array *bias, conform_array *y) {
    const int64_t taps = g->kernel[0] * g->kernel[1] * g->kernel[2];
    const int64_t in_cells = g->in[0] * g->in[1] * g->in[2], out_cells = out[0] * out[1] * out[2];
    const int64_t c_part = g->c / g->groups, k_part = g->k / g->groups;
    for (int64_t i = 0; i < y->count; i++) y->value[i] = bias->value[i / out_cells % g->k];
    for (int64_t i = 0; i < g->n * g->k * c_part * taps; i++) {
        const int64_t t = i % taps, c = i / taps % c_part, k = i / taps / c_part % g->k;
        const int64_t n = i / taps / c_part / g->k, group = k / k_part, from = group * c_part + c;
        const int64_t tap[] = {t / (g->kernel[1] * g->kernel[2]), t / g->kernel[2] % g->kernel[1],
                               t % g->kernel[2]};
        const int64_t at =
            g->transposed ? (from * k_part + k % k_part) * taps + t : (k * c_part + c) * taps + t;
        add_tap(g, g->transposed ? out : g->in, g->transposed ? g->in : out, tap, weight->value[at],
                &x->value[(n * g->c + from) * in_cells], &y->value[(n * g->k + k) * out_cells]);
    }
}

static dhow_status call(const convolution *g, dhow_tensor **t, const dhow_conv_options *o) {
    switch (g->dims) {
        case 1:
            return g->transposed ? dhow_conv_transpose1d(NULL, t[0], t[1], t[2], o, t[3])
                                 : dhow_conv1d(NULL, t[0], t[1], t[2], o, t[3]);
        case 2:
            return dhow_conv_transpose2d(NULL, t[0], t[1], t[2], o, t[3]);
        default:
            return g->transposed ? dhow_conv_transpose3d(NULL, t[0], t[1], t[2], o, t[3])
                                 : dhow_conv3d(NULL, t[0], t[1], t[2], o, t[3]);
    }
}

/* [a, b, the last `dims` of three extents] */
static conform_array picture(conform_env *env, dhow_dtype dtype, int dims, int64_t a, int64_t b,
                             const int64_t *extent, uint64_t seed) {
    int64_t shape[5] = {a, b};
    memcpy(&shape[2], &extent[3 - dims], (size_t)dims * sizeof *shape);
    return conform_array_random(env, dtype, 2 + dims, shape, -1, 1, seed);
}

static conform_result convolution_case(conform_env *env, dhow_dtype dtype, const convolution *g) {
    dhow_conv_options o = DHOW_INIT(dhow_conv_options, .groups = g->groups);
    int64_t out[3];
    dhow_tensor *t[4];
    extents_out(g, out);
    for (int d = 0; d < g->dims; d++) {
        o.stride[d] = g->stride[3 - g->dims + d];
        o.padding[d] = g->padding[3 - g->dims + d];
        o.dilation[d] = g->dilation[3 - g->dims + d];
        o.output_padding[d] = g->more[3 - g->dims + d];
    }
    const int64_t first = g->transposed ? g->c : g->k, second = g->transposed ? g->k : g->c;
    conform_array arrays[] = {picture(env, dtype, g->dims, g->n, g->c, g->in, 1),
                              picture(env, dtype, g->dims, first, second / g->groups, g->kernel, 2),
                              conform_array_random(env, dtype, 1, &g->k, -1, 1, 3)};
    conform_array want = picture(env, dtype, g->dims, g->n, g->k, out, 4);
    convolve(g, out, &arrays[0], &arrays[1], &arrays[2], &want);
    TRY(upload_all(env, arrays, 3, t));
    TRY(conform_blank(env, &want, LAYOUT_PLAIN, &t[3]));
    OK(call(g, t, &o));
    return conform_expect(env, t[3], &want, sums_of(dtype, arrays[1].count), g->name);
}

static conform_result convolutions(conform_env *env, dhow_dtype dtype) {
    NEEDS_DTYPE(dtype);
    for (size_t i = 0; i < sizeof k_convolutions / sizeof k_convolutions[0]; i++)
        TRY(convolution_case(env, dtype, &k_convolutions[i]));
    return CONFORM_PASS;
}

/* ---- norms ---- */

/* (x - mean) / sqrt(var + eps) weight + bias of `cells` elements. */
static void normalise(const double *x, int64_t cells, double mean, double var, double eps,
                      double *y) {
    for (int64_t i = 0; i < cells; i++) y[i] = (x[i] - mean) / sqrt(var + eps);
}

static void moments(const double *x, int64_t cells, double *mean, double *var) {
    *mean = *var = 0;
    for (int64_t i = 0; i < cells; i++) *mean += x[i] / (double)cells;
    for (int64_t i = 0; i < cells; i++) *var += (x[i] - *mean) * (x[i] - *mean) / (double)cells;
}

/* Values of 16 bits far from 0: what channels are scaled and shifted by keeps its digits, as in
 * PyTorch. Also of rows, where a channel is one element. */
static conform_result far_channels(conform_env *env, dhow_dtype dtype) {
    enum { N = 70, C = 6, CELLS = 301 };
    static const int64_t shapes[2][3] = {{2, C, CELLS}, {N, C, 1}}, channels[] = {C};
    for (int k = 0; k < 2; k++) {
        const int32_t rank = k == 0 ? 3 : 2;
        conform_array arrays[] = {conform_array_random(env, dtype, rank, shapes[k], 96, 104, 1),
                                  conform_array_random(env, dtype, 1, channels, 99, 101, 2),
                                  conform_array_random(env, dtype, 1, channels, 3, 5, 3),
                                  conform_array_random(env, dtype, 1, channels, -2, 2, 4),
                                  conform_array_random(env, dtype, 1, channels, -1, 1, 5)};
        const double *const p[] = {arrays[1].value, arrays[2].value, arrays[3].value,
                                   arrays[4].value};
        conform_array want = conform_array_new(env, dtype, rank, shapes[k]);
        conform_tolerance t = conform_tolerance_of(dtype);
        dhow_tensor *in[5], *y;
        for (int64_t i = 0; i < want.count; i++) {
            const int64_t c = i / shapes[k][2] % C;
            want.value[i] =
                (arrays[0].value[i] - p[0][c]) / sqrt(p[1][c] + (double)1e-3f) * p[2][c] + p[3][c];
        }
        t.absolute += dtype == DHOW_F64 ? 1e-12 : 1e-4;
        TRY(upload_all(env, arrays, 5, in));
        TRY(conform_blank(env, &want, LAYOUT_PLAIN, &y));
        OK(dhow_batchnorm(NULL, in[0], in[1], in[2], in[3], in[4], 1e-3f, y));
        TRY(conform_expect(env, y, &want, t, "batchnorm far from 0"));
        OK(dhow_batchnorm(NULL, in[0], in[1], in[2], in[3], in[4], 1e-3f, in[0]));
        TRY(conform_expect(env, in[0], &want, t, "batchnorm in place"));
    }
    return CONFORM_PASS;
}

static conform_result norms(conform_env *env, dhow_dtype dtype) {
    enum { N = 2, C = 6, CELLS = 15, GROUPS = 3, PART = C / GROUPS * CELLS };
    static const int64_t shape[] = {N, C, 3, 5}, channels[] = {C}, rows[] = {N * C, CELLS};
    static const int64_t last[] = {CELLS};
    const double eps = (double)1e-3f;
    NEEDS_DTYPE(dtype);
    conform_array arrays[] = {conform_array_random(env, dtype, 4, shape, -2, 2, 1),
                              conform_array_random(env, dtype, 1, channels, -1, 1, 2),
                              conform_array_random(env, dtype, 1, channels, 0.5, 2, 3),
                              conform_array_random(env, dtype, 1, channels, -1, 1, 4),
                              conform_array_random(env, dtype, 1, channels, -1, 1, 5),
                              conform_array_random(env, dtype, 2, rows, -2, 2, 6),
                              conform_array_random(env, dtype, 1, last, -2, 2, 7)};
    const double *x = arrays[0].value, *weight = arrays[3].value, *bias = arrays[4].value;
    conform_array want = conform_array_new(env, dtype, 4, shape);
    conform_array want_rows = conform_array_new(env, dtype, 2, rows);
    conform_tolerance t = sums_of(dtype, PART);
    t.absolute += t.relative; /* scales and shifts of channels are rounded */
    dhow_tensor *in[7], *y, *y_rows;
    TRY(upload_all(env, arrays, 7, in));
    TRY(conform_blank(env, &want, LAYOUT_PLAIN, &y));
    TRY(conform_blank(env, &want_rows, LAYOUT_PLAIN, &y_rows));

    for (int64_t i = 0; i < N * C; i++)
        normalise(&x[i * CELLS], CELLS, arrays[1].value[i % C], arrays[2].value[i % C], eps,
                  &want.value[i * CELLS]);
    for (int64_t i = 0; i < want.count; i++)
        want.value[i] = want.value[i] * weight[i / CELLS % C] + bias[i / CELLS % C];
    OK(dhow_batchnorm(NULL, in[0], in[1], in[2], in[3], in[4], 1e-3f, y));
    TRY(conform_expect(env, y, &want, t, "batchnorm"));
    TRY(far_channels(env, dtype));

    for (int64_t i = 0; i < N * GROUPS; i++) {
        double mean, var;
        moments(&x[i * PART], PART, &mean, &var);
        normalise(&x[i * PART], PART, mean, var, eps, &want.value[i * PART]);
    }
    for (int64_t i = 0; i < want.count; i++)
        want.value[i] = want.value[i] * weight[i / CELLS % C] + bias[i / CELLS % C];
    OK(dhow_groupnorm(NULL, in[0], GROUPS, in[3], in[4], 1e-3f, y));
    TRY(conform_expect(env, y, &want, t, "groupnorm"));

    for (int64_t i = 0; i < N * C; i++) {
        const double *row = &arrays[5].value[i * CELLS];
        double squares = 0;
        for (int64_t k = 0; k < CELLS; k++) squares += row[k] * row[k] / CELLS;
        for (int64_t k = 0; k < CELLS; k++)
            want_rows.value[i * CELLS + k] = row[k] / sqrt(squares + eps) * arrays[6].value[k];
    }
    OK(dhow_rmsnorm(NULL, in[5], in[6], 1e-3f, y_rows));
    return conform_expect(env, y_rows, &want_rows, t, "rmsnorm");
}

/* ---- indices ---- */

/* Negative ones count from the end; -1 for one outside, which gives zeros. */
static int64_t place(double index, int64_t extent) {
    const int64_t i = (int64_t)index < 0 ? (int64_t)index + extent : (int64_t)index;
    return i < extent ? i : -1;
}

static conform_result indices(conform_env *env) {
    enum { ROWS = 5, COLS = 7, TAKEN = 4 };
    static const dhow_dtype types[] = {DHOW_F32, DHOW_F64, DHOW_F16, DHOW_I64, DHOW_U8, DHOW_BOOL};
    static const int64_t shape[] = {ROWS, COLS}, taken[] = {ROWS, TAKEN}, some[] = {TAKEN};
    static const int64_t pairs[] = {2, 2, COLS};
    static const double chosen[TAKEN] = {3, -1, 99, 0};
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        if (!conform_computes(env, types[k])) continue;
        conform_array x = conform_array_random(env, types[k], 2, shape, 0, 9, k + 1);
        conform_array index = conform_array_new(env, DHOW_I64, 1, some);
        conform_array each = conform_array_random(env, DHOW_I64, 2, taken, -COLS, COLS, k + 7);
        conform_array want = conform_array_new(env, types[k], 2, taken);
        conform_array want_pairs = conform_array_new(env, types[k], 3, pairs);
        dhow_tensor *tx, *ti, *te, *ty, *tp, *square;
        memcpy(index.value, chosen, sizeof chosen);
        TRY(conform_upload(env, &x, LAYOUT_PLAIN, &tx));
        TRY(conform_upload(env, &index, LAYOUT_PLAIN, &ti));
        TRY(conform_upload(env, &each, LAYOUT_PLAIN, &te));
        TRY(conform_blank(env, &want, LAYOUT_PLAIN, &ty));
        TRY(conform_blank(env, &want_pairs, LAYOUT_PLAIN, &tp));

        for (int64_t i = 0; i < want.count; i++) {
            const int64_t at = place(chosen[i % TAKEN], COLS);
            want.value[i] = at < 0 ? 0 : x.value[i / TAKEN * COLS + at];
        }
        OK(dhow_index_select(NULL, tx, 1, ti, ty));
        TRY(conform_expect(env, ty, &want, conform_tolerance_of(types[k]), "index_select"));

        for (int64_t i = 0; i < want.count; i++) {
            const int64_t at = place(each.value[i], COLS);
            want.value[i] = at < 0 ? 0 : x.value[i / TAKEN * COLS + at];
        }
        OK(dhow_take_along_dim(NULL, tx, te, 1, ty));
        TRY(conform_expect(env, ty, &want, conform_tolerance_of(types[k]), "take_along_dim"));

        for (int64_t i = 0; i < want_pairs.count; i++) {
            const int64_t at = place(chosen[i / COLS], ROWS);
            want_pairs.value[i] = at < 0 ? 0 : x.value[at * COLS + i % COLS];
        }
        OWN(TENSOR, &square, dhow_tensor_reshape(ti, DHOW_SHAPE(2, 2), &square));
        OK(dhow_embedding(NULL, square, tx, tp));
        TRY(conform_expect(env, tp, &want_pairs, conform_tolerance_of(types[k]), "embedding"));
    }
    return CONFORM_PASS;
}

static double scattered(dhow_scatter_mode mode, double there, double comes) {
    switch (mode) {
        case DHOW_SCATTER_SUM:
            return there + comes;
        case DHOW_SCATTER_PROD:
            return there * comes;
        case DHOW_SCATTER_MAX:
            return fmax(there, comes);
        case DHOW_SCATTER_MIN:
            return fmin(there, comes);
        default:
            return comes;
    }
}

static conform_result scatter(conform_env *env) {
    enum { ROWS = 3, COLS = 5, COMING = 4 };
    static const dhow_dtype types[] = {DHOW_F32, DHOW_F64, DHOW_BF16, DHOW_I32, DHOW_I8};
    static const int64_t shape[] = {ROWS, COLS}, coming[] = {ROWS, COMING};
    /* No place twice where elements are replaced. */
    static const double apart[] = {4, 0, 1, -2}, together[] = {2, 2, -3, 0};
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        if (!conform_computes(env, types[k])) continue;
        conform_array x = conform_array_random(env, types[k], 2, shape, -3, 3, k + 1);
        conform_array source = conform_array_random(env, types[k], 2, coming, -3, 3, k + 2);
        conform_array index = conform_array_new(env, DHOW_I64, 2, coming);
        conform_array want = conform_array_new(env, types[k], 2, shape);
        for (int mode = DHOW_SCATTER_REPLACE; mode <= DHOW_SCATTER_MIN; mode++) {
            const double *chosen = mode == DHOW_SCATTER_REPLACE ? apart : together;
            dhow_tensor *tx, *ti, *ts, *ty;
            memcpy(want.value, x.value, (size_t)x.count * sizeof *x.value);
            for (int64_t i = 0; i < index.count; i++) {
                double *at = &want.value[i / COMING * COLS + place(chosen[i % COMING], COLS)];
                index.value[i] = chosen[i % COMING];
                *at = scattered((dhow_scatter_mode)mode, *at, source.value[i]);
            }
            TRY(conform_upload(env, &x, LAYOUT_PLAIN, &tx));
            TRY(conform_upload(env, &index, LAYOUT_PLAIN, &ti));
            TRY(conform_upload(env, &source, LAYOUT_PLAIN, &ts));
            TRY(conform_blank(env, &want, LAYOUT_PLAIN, &ty));
            OK(dhow_scatter(NULL, tx, 1, ti, ts, (dhow_scatter_mode)mode, ty));
            conform_tolerance t = conform_tolerance_of(types[k]);
            if (types[k] == DHOW_BF16) t = (conform_tolerance){0.1, 0.02}; /* rounds each time */
            TRY(conform_expect(env, ty, &want, t, "scatter"));
        }
    }
    return CONFORM_PASS;
}

/* ---- padding and interpolation ---- */

static int64_t padded(dhow_pad_mode mode, int64_t at, int64_t extent) {
    switch (mode) {
        case DHOW_PAD_REFLECT:
            at = at < 0 ? -at : at;
            return at < extent ? at : 2 * (extent - 1) - at;
        case DHOW_PAD_REPLICATE:
            return at < 0 ? 0 : at < extent ? at : extent - 1;
        case DHOW_PAD_CIRCULAR:
            return (at + extent) % extent;
        default:
            return at >= 0 && at < extent ? at : -1;
    }
}

static conform_result pad(conform_env *env) {
    enum { ROWS = 3, COLS = 4, LEFT = 2, RIGHT = 1, ABOVE = 1, BELOW = 2 };
    enum { WIDE = LEFT + COLS + RIGHT };
    static const dhow_dtype types[] = {DHOW_F32, DHOW_F16, DHOW_I64, DHOW_U8};
    static const int64_t shape[] = {ROWS, COLS}, pads[] = {LEFT, RIGHT, ABOVE, BELOW};
    static const int64_t larger[] = {ABOVE + ROWS + BELOW, WIDE};
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        if (!conform_computes(env, types[k])) continue;
        conform_array x = conform_array_random(env, types[k], 2, shape, 0, 9, k + 1);
        conform_array want = conform_array_new(env, types[k], 2, larger);
        for (int mode = DHOW_PAD_CONSTANT; mode <= DHOW_PAD_CIRCULAR; mode++) {
            dhow_tensor *tx, *ty;
            for (int64_t i = 0; i < want.count; i++) {
                const int64_t row = padded((dhow_pad_mode)mode, i / WIDE - ABOVE, ROWS);
                const int64_t col = padded((dhow_pad_mode)mode, i % WIDE - LEFT, COLS);
                want.value[i] = row < 0 || col < 0 ? 5 : x.value[row * COLS + col];
            }
            TRY(conform_upload(env, &x, LAYOUT_PLAIN, &tx));
            TRY(conform_blank(env, &want, LAYOUT_PLAIN, &ty));
            OK(dhow_pad(NULL, tx, pads, 4, (dhow_pad_mode)mode, 5, ty));
            TRY(conform_expect(env, ty, &want, conform_tolerance_of(types[k]), "pad"));
        }
    }
    return CONFORM_PASS;
}

/* How much element `from` of a dimension counts in element `to` of the result. */
static double interpolated(dhow_interpolation mode, bool corners, int64_t extent, int64_t size,
                           int64_t from, int64_t to) {
    const double ratio = (double)extent / (double)size;
    const double middle = corners ? (double)to * (double)(extent - 1) / (double)(size - 1)
                                  : ((double)to + 0.5) * ratio - 0.5;
    double sum = 0;
    if (mode == DHOW_INTERPOLATE_NEAREST) return floor((double)to * ratio) == (double)from;
    if (mode == DHOW_INTERPOLATE_NEAREST_EXACT)
        return floor(((double)to + 0.5) * ratio) == (double)from;
    if (mode == DHOW_INTERPOLATE_AREA) {
        const double begin = floor((double)to * ratio), end = ceil((double)(to + 1) * ratio);
        return (double)from >= begin && (double)from < end ? 1 / (end - begin) : 0;
    }
    /* Elements outside stand for the first and the last. */
    for (int64_t i = (int64_t)floor(middle) - 1; i <= (int64_t)floor(middle) + 2; i++) {
        const double d = fabs((double)i - middle), a = -0.75;
        if ((i < 0 ? 0 : i >= extent ? extent - 1 : i) != from) continue;
        if (mode == DHOW_INTERPOLATE_LINEAR) {
            sum += fmax(0, 1 - d);
        } else if (d <= 1) {
            sum += ((a + 2) * d - (a + 3)) * d * d + 1;
        } else if (d < 2) {
            sum += ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
        }
    }
    return sum;
}

static conform_result interpolate(conform_env *env, dhow_dtype dtype) {
    static const int64_t shape[] = {2, 3, 4, 6}, sizes[][2] = {{7, 9}, {3, 4}, {8, 12}};
    NEEDS_DTYPE(dtype);
    conform_array x = conform_array_random(env, dtype, 4, shape, -1, 1, 1);
    dhow_tensor *tx, *ty;
    TRY(conform_upload(env, &x, LAYOUT_PLAIN, &tx));
    for (int i = 0; i < 3 * 2 * (DHOW_INTERPOLATE_AREA + 1); i++) {
        const dhow_interpolation mode = (dhow_interpolation)(i / 6);
        const int64_t *size = sizes[i % 3], all[] = {2, 3, size[0], size[1]};
        const bool corners = i / 3 % 2 == 1;
        conform_array want = conform_array_new(env, dtype, 4, all);
        if (corners && mode != DHOW_INTERPOLATE_LINEAR && mode != DHOW_INTERPOLATE_CUBIC) continue;
        for (int64_t k = 0; k < want.count; k++) {
            const double *image = &x.value[k / (size[0] * size[1]) * 24];
            for (int64_t j = 0; j < 24; j++)
                want.value[k] +=
                    image[j] *
                    interpolated(mode, corners, 4, size[0], j / 6, k / size[1] % size[0]) *
                    interpolated(mode, corners, 6, size[1], j % 6, k % size[1]);
        }
        TRY(conform_blank(env, &want, LAYOUT_PLAIN, &ty));
        OK(dhow_interpolate(NULL, tx, size, NULL, mode, corners, ty));
        TRY(conform_expect(env, ty, &want, sums_of(dtype, 32), "interpolate"));
    }
    return CONFORM_PASS;
}

/* ---- dropout and attention ---- */

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

static conform_result dropout(conform_env *env, dhow_dtype dtype) {
    static const int64_t shape[] = {3, 101};
    const uint64_t seed = 42, golden = 0x9e3779b97f4a7c15U, start = mix(seed + golden);
    NEEDS_DTYPE(dtype);
    conform_array x = conform_array_random(env, dtype, 2, shape, -4, 4, 1);
    conform_array want = conform_array_new(env, dtype, 2, shape);
    dhow_tensor *tx, *ty;
    for (int64_t i = 0; i < x.count; i++) {
        const uint64_t drawn = mix(start + ((uint64_t)i + 1) * golden) >> 32;
        want.value[i] = drawn < (uint64_t)1 << 30 ? 0 : x.value[i] / 0.75;
    }
    TRY(conform_upload(env, &x, LAYOUT_PLAIN, &tx));
    TRY(conform_blank(env, &want, LAYOUT_PLAIN, &ty));
    OK(dhow_dropout(NULL, tx, 0.25, seed, ty));
    return conform_expect(env, ty, &want, conform_tolerance_of(dtype), "dropout");
}

static conform_result attention_of(conform_env *env, dhow_dtype dtype, int32_t rank) {
    enum { HEADS = 3, L = 9, S = 11, E = 8, V = 5 };
    static const int64_t q_shape[] = {1, HEADS, L, E}, k_shape[] = {1, HEADS, S, E};
    static const int64_t v_shape[] = {1, HEADS, S, V}, y_shape[] = {1, HEADS, L, V};
    NEEDS_DTYPE(dtype);
    /* A batch of heads may have a kernel of its own. */
    const int32_t batched = rank == 4 ? 0 : 1;
    conform_array arrays[] = {conform_array_random(env, dtype, rank, q_shape + batched, -1, 1, 1),
                              conform_array_random(env, dtype, rank, k_shape + batched, -1, 1, 2),
                              conform_array_random(env, dtype, rank, v_shape + batched, -1, 1, 3)};
    dhow_tensor *in[3], *ty;
    TRY(upload_all(env, arrays, 3, in));
    for (int causal = 0; causal < 2; causal++) {
        conform_array want = conform_array_new(env, dtype, rank, y_shape + batched);
        for (int64_t row = 0; row < HEADS * L; row++) {
            const int64_t head = row / L, seen = causal ? row % L + 1 : S;
            double weight[S], sum = 0;
            for (int64_t s = 0; s < seen; s++) {
                double score = 0;
                for (int64_t e = 0; e < E; e++)
                    score += arrays[0].value[row * E + e] * arrays[1].value[(head * S + s) * E + e];
                sum += weight[s] = exp(score * 0.25);
            }
            for (int64_t i = 0; i < seen * V; i++)
                want.value[row * V + i % V] +=
                    weight[i / V] / sum * arrays[2].value[(head * S + i / V) * V + i % V];
        }
        TRY(conform_blank(env, &want, LAYOUT_PLAIN, &ty));
        OK(dhow_scaled_dot_product_attention(NULL, in[0], in[1], in[2], NULL, causal, 0.25, ty));
        conform_tolerance t = sums_of(dtype, 64);
        if (dtype == DHOW_F16 || dtype == DHOW_BF16) /* scores and weights are rounded between */
            t.absolute += 4 * t.relative;
        TRY(conform_expect(env, ty, &want, t, causal ? "causal attention" : "attention"));
    }
    return CONFORM_PASS;
}

static conform_result attention(conform_env *env, dhow_dtype dtype) {
    TRY(attention_of(env, dtype, 3));
    return attention_of(env, dtype, 4);
}

/* ---- the table ---- */

#define LAYERS(TYPE, type)                                                                       \
    static conform_result convolutions_##type(conform_env *env) {                                \
        return convolutions(env, DHOW_##TYPE);                                                   \
    }                                                                                            \
    static conform_result norms_##type(conform_env *env) { return norms(env, DHOW_##TYPE); }     \
    static conform_result interpolate_##type(conform_env *env) {                                 \
        return interpolate(env, DHOW_##TYPE);                                                    \
    }                                                                                            \
    static conform_result dropout_##type(conform_env *env) { return dropout(env, DHOW_##TYPE); } \
    static conform_result attention_##type(conform_env *env) { return attention(env, DHOW_##TYPE); }
FLOATS(LAYERS)

#define LAYER_CASES(TYPE, type)                                              \
    CASE("layers/convolutions_" #type, convolutions_##type, "ops," #type),   \
        CASE("layers/norms_" #type, norms_##type, "ops," #type),             \
        CASE("layers/interpolate_" #type, interpolate_##type, "ops," #type), \
        CASE("layers/dropout_" #type, dropout_##type, "ops," #type),         \
        CASE("layers/attention_" #type, attention_##type, "ops," #type),

const conform_case conform_layer_cases[] = {
    FLOATS(LAYER_CASES) CASE("layers/indices", indices, "ops"),
    CASE("layers/scatter", scatter, "ops"),
    CASE("layers/pad", pad, "ops"),
};
CASES_END(conform_layer);
