/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolutions of one to three dimensions, transposed ones, norms, attention and interpolation
 * against PyTorch's formulas in double: as layers of models and as eager functions.
 */
#include "steps_fixture.h"

TestSuite(network, .init = set_up, .fini = tear_down, .timeout = 200);

static const dhow_dtype k_floats[] = {DHOW_F32, DHOW_F64, DHOW_F16, DHOW_BF16};

/* The parameter "layer.<name>" of a model becomes an array's. */
static void give(dhow_model *m, const char *name, const array *a) {
    dhow_tensor *t, *home;
    char full[64];
    (void)snprintf(full, sizeof full, "layer.%s", name);
    t = tensor_of(a, 0);
    OK(dhow_tensor_to(t, g_cpu, &home));
    OK(dhow_model_set_parameter(m, full, home));
    dhow_tensor_release(home);
    dhow_tensor_release(t);
}

/* Rounded as the dtype has it. */
static array *rounded(array *a) {
    dhow_tensor *t = tensor_of(a, 0), *home, *wide;
    OK(dhow_tensor_to(t, g_cpu, &home));
    OK(dhow_tensor_to_dtype(NULL, home, DHOW_F64, &wide));
    OK(dhow_tensor_read(wide, a->v, (uint64_t)a->count * sizeof *a->v));
    dhow_tensor_release(t), dhow_tensor_release(home), dhow_tensor_release(wide);
    return a;
}
static array *scaled(array *a, double by) {
    for (int64_t i = 0; i < a->count; i++) a->v[i] *= by;
    return rounded(a);
}

/* ---- convolutions ---- */

typedef struct conv_case {
    int spatial, transposed;
    int64_t x[5], channels; /* of the result */
    dhow_conv_options o;
} conv_case;
#define OPTIONS(...) DHOW_FIELDS(dhow_conv_options, __VA_ARGS__)

static const conv_case k_convs[] = {
    {1, 0, {2, 3, 9}, 4, OPTIONS(.kernel = {3}, .padding = {1})},
    {1, 0, {1, 4, 10}, 6, OPTIONS(.kernel = {2}, .stride = {3}, .dilation = {2}, .groups = 2)},
    {1, 0, {2, 1, 1}, 1, OPTIONS(.kernel = {1})},
    {1, 0, {0, 3, 9}, 4, OPTIONS(.kernel = {3})},
    {3,
     0,
     {2, 2, 4, 5, 3},
     3,
     OPTIONS(.kernel = {2, 3, 1}, .padding = {0, 1, 2}, .stride = {2, 1, 1})},
    {3, 0, {1, 4, 3, 3, 3}, 4, OPTIONS(.kernel = {3, 3, 3}, .padding = {1, 1, 1}, .groups = 4)},
    {1,
     1,
     {2, 3, 5},
     4,
     OPTIONS(.kernel = {3}, .stride = {2}, .padding = {1}, .output_padding = {1})},
    {2,
     1,
     {2, 4, 3, 4},
     6,
     OPTIONS(.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2},
             .groups = 2)},
    {3, 1, {1, 2, 2, 3, 1}, 3, OPTIONS(.kernel = {2, 1, 3}, .stride = {2, 2, 1})}};
enum { CONVS = sizeof k_convs / sizeof *k_convs };

static int64_t number_or(int64_t n, int64_t otherwise) { return n == 0 ? otherwise : n; }

static array *weight_of(const conv_case *c, dhow_dtype dtype) {
    const int64_t groups = number_or(c->o.groups, 1), in = c->x[1];
    int64_t shape[5] = {c->transposed ? in : c->channels,
                        c->transposed ? c->channels / groups : in / groups};
    for (int i = 0; i < c->spatial; i++) shape[2 + i] = c->o.kernel[i];
    return scaled(array_filled(21, array_new(dtype, 2 + c->spatial, shape)), 0.25);
}

/* Every pair of an element of x and one of the kernel adds to one element of the result, whichever
 * way: `at` of x and `to` of y are the ends of the same line. */
static array *convolved(const conv_case *c, const array *x, const array *w, const array *bias) {
    const int64_t groups = number_or(c->o.groups, 1);
    int64_t shape[5] = {c->x[0], c->channels};
    for (int i = 0; i < c->spatial; i++) {
        const int64_t s = number_or(c->o.stride[i], 1), d = number_or(c->o.dilation[i], 1);
        const int64_t reach = d * (c->o.kernel[i] - 1) + 1, p = c->o.padding[i], n = c->x[2 + i];
        shape[2 + i] = c->transposed ? (n - 1) * s + reach + c->o.output_padding[i] - 2 * p
                                     : (n + 2 * p - reach) / s + 1;
    }
    array *y = array_new(x->dtype, x->rank, shape);
    for (int64_t i = 0; i < y->count && bias != NULL; i++) {
        int64_t at[5] = {0};
        places(y, i, at);
        y->v[i] = bias->v[at[1]];
    }
    const array *from = c->transposed ? x : y, *to = c->transposed ? y : x;
    const int64_t out = c->channels / groups, in = c->x[1] / groups;
    for (int64_t i = 0; i < from->count; i++) {
        int64_t a[5], k[5], t[5];
        places(from, i, a);
        for (int64_t j = 0; j < w->count; j++) {
            places(w, j, k);
            if (k[0] != a[1]) continue;
            int inside = 1;
            t[0] = a[0];
            t[1] = a[1] / (c->transposed ? in : out) * (c->transposed ? out : in) + k[1];
            for (int q = 0; q < c->spatial; q++) {
                t[2 + q] = a[2 + q] * number_or(c->o.stride[q], 1) +
                           k[2 + q] * number_or(c->o.dilation[q], 1) - c->o.padding[q];
                inside &= t[2 + q] >= 0 && t[2 + q] < to->shape[2 + q];
            }
            if (!inside) continue;
            if (c->transposed) y->v[place(y, t)] += x->v[i] * w->v[j];
            if (!c->transposed) y->v[i] += x->v[place(x, t)] * w->v[j];
        }
    }
    return y;
}

static dhow_status add_conv(const conv_case *c, built *b, int bias) {
    dhow_status (*const kinds[2][3])(dhow_model *, const char *, dhow_model_value, int64_t, int64_t,
                                     const dhow_conv_options *, int32_t, dhow_model_value *) = {
        {dhow_model_conv1d, NULL, dhow_model_conv3d},
        {dhow_model_conv_transpose1d, dhow_model_conv_transpose2d, dhow_model_conv_transpose3d}};
    return kinds[c->transposed][c->spatial - 1](b->m, "layer", b->in[0], c->x[1], c->channels,
                                                &c->o, bias, &b->out[0]);
}

static dhow_status run_conv(const conv_case *c, dhow_tensor **t, dhow_tensor *y) {
    dhow_status (*const kinds[2][3])(dhow_stream *, dhow_tensor *, dhow_tensor *, dhow_tensor *,
                                     const dhow_conv_options *, dhow_tensor *) = {
        {dhow_conv1d, NULL, dhow_conv3d},
        {dhow_conv_transpose1d, dhow_conv_transpose2d, dhow_conv_transpose3d}};
    return kinds[c->transposed][c->spatial - 1](NULL, t[0], t[1], t[2], &c->o, y);
}

Test(network, convolutions) {
    for (int n = 0; n < CONVS * 4; n++) {
        const conv_case *c = &k_convs[n % CONVS];
        const dhow_dtype dtype = k_floats[n / CONVS];
        array *x = array_filled(20, array_new(dtype, 2 + c->spatial, c->x));
        array *w = weight_of(c, dtype), *bias = n % 3 != 0 ? FILLED(22, dtype, c->channels) : NULL;
        array *y = convolved(c, x, w, bias), *in[] = {x}, *want[] = {y};
        char what[64];
        (void)snprintf(what, sizeof what, "convolution %d of %s", n % CONVS,
                       dhow_dtype_name(dtype));
        built b = begin_model(in, 1, n % 2);
        OK(add_conv(c, &b, bias != NULL));
        give(b.m, "weight", w);
        if (bias != NULL) give(b.m, "bias", bias);
        end_model(&b, in, want, 1, what);
        array *all[] = {x, w, bias};
        EAGER(all, 3, y, run_conv(c, t, into));
    }
}

/* ---- norms ---- */

static array *normalized(const array *x, int64_t rows, int centred, double eps, const array *w,
                         const array *bias, int along) {
    array *y = array_new(x->dtype, x->rank, x->shape);
    const int64_t n = rows > 0 ? x->count / rows : 0;
    for (int64_t r = 0; r < rows; r++) {
        double mean = 0, var = 0;
        for (int64_t i = r * n; i < r * n + n; i++) mean += centred ? x->v[i] / (double)n : 0;
        for (int64_t i = r * n; i < r * n + n; i++)
            var += (x->v[i] - mean) * (x->v[i] - mean) / (double)n;
        for (int64_t i = r * n; i < r * n + n; i++) {
            int64_t at[DHOW_MAX_RANK];
            places(x, i, at);
            y->v[i] = (x->v[i] - mean) / sqrt(var + eps) * w->v[at[along]] +
                      (bias != NULL ? bias->v[at[along]] : 0);
        }
    }
    return y;
}

static void batchnorm(array *x, array *w, array *bias) {
    array *mean = FILLED(33, x->dtype, 6), *var = FILLED(34, x->dtype, 6);
    array *want = array_new(x->dtype, x->rank, x->shape), *all[] = {x, mean, var, w, bias};
    for (int i = 0; i < 6; i++) var->v[i] = 0.5 + fabs(var->v[i]);
    for (int64_t i = 0; i < x->count; i++) {
        int64_t at[DHOW_MAX_RANK];
        places(x, i, at);
        const int64_t c = at[1];
        want->v[i] =
            (x->v[i] - mean->v[c]) / sqrt(var->v[c] + (double)1e-3f) * w->v[c] + bias->v[c];
    }
    if (x->dtype != DHOW_F32 && x->dtype != DHOW_F64) return; /* rounded on the way */
    EAGER(all, 5, want, dhow_batchnorm(NULL, t[0], t[1], t[2], t[3], t[4], 1e-3f, into));
}

Test(network, norms) {
    static const int64_t shapes[][4] = {{2, 6, 3, 5}, {1, 6, 1, 1}, {0, 6, 2, 2}, {3, 6, 4, 1}};
    for (int n = 0; n < 16; n++) {
        const dhow_dtype dtype = k_floats[n / 4];
        const int64_t *s = shapes[n % 4], groups = n % 4 == 3 ? 6 : 3;
        array *x = rounded(array_filled(23, array_new(dtype, 4, s))), *in[] = {x};
        array *w = FILLED(24, dtype, 6), *bias = FILLED(25, dtype, 6),
              *row = FILLED(26, dtype, s[3]);
        array *group[] = {normalized(x, s[0] * groups, 1, (double)1e-3f, w, bias, 1)};
        array *rms[] = {normalized(x, s[0] * s[1] * s[2], 0, (double)1e-3f, row, NULL, 3)};
        built b = begin_model(in, 1, n % 2), c = begin_model(in, 1, n % 2);
        OK(dhow_model_groupnorm(b.m, "layer", b.in[0], groups, 6, 1e-3f, &b.out[0]));
        give(b.m, "weight", w);
        give(b.m, "bias", bias);
        end_model(&b, in, group, 1, "groupnorm");
        OK(dhow_model_rmsnorm(c.m, "layer", c.in[0], s[3], 1e-3f, &c.out[0]));
        give(c.m, "weight", row);
        end_model(&c, in, rms, 1, "rmsnorm");
        array *all[] = {x, w, bias}, *scaled_by[] = {x, row};
        EAGER(all, 3, group[0], dhow_groupnorm(NULL, t[0], groups, t[1], t[2], 1e-3f, into));
        EAGER(scaled_by, 2, rms[0], dhow_rmsnorm(NULL, t[0], t[1], 1e-3f, into));
        batchnorm(x, w, bias);
    }
}

/* ---- attention ---- */

/* mask of [l, s] or NULL; all extents before are one, and those of k and v may divide them */
static array *attended(const array *q, const array *k, const array *v, const array *mask,
                       int causal, double scale) {
    int64_t shape[DHOW_MAX_RANK];
    const int64_t l = q->shape[q->rank - 2], e = q->shape[q->rank - 1], s = k->shape[q->rank - 2];
    const int64_t d = v->shape[q->rank - 1], heads = l * e > 0 ? q->count / (l * e) : 0,
                  each = heads > 0 ? heads / (k->count / (s * e)) : 1;
    memcpy(shape, q->shape, sizeof shape);
    shape[q->rank - 1] = d;
    array *y = array_new(q->dtype, q->rank, shape);
    for (int64_t i = 0; i < heads * l; i++) {
        const int64_t h = i / l / each;
        double score[64], sum = 0, most = -INFINITY;
        for (int64_t j = 0; j < s; j++) {
            const double *m = mask != NULL ? &mask->v[i % l * s + j] : NULL;
            score[j] = 0;
            for (int64_t p = 0; p < e; p++)
                score[j] += scale * q->v[i * e + p] * k->v[(h * s + j) * e + p];
            if (m != NULL && mask->dtype != DHOW_BOOL) score[j] += *m;
            if ((m != NULL && mask->dtype == DHOW_BOOL && *m == 0) || (causal && j > i % l))
                score[j] = -INFINITY;
            most = fmax(most, score[j]);
        }
        for (int64_t j = 0; j < s; j++) sum += score[j] = exp(score[j] - most);
        for (int64_t j = 0; j < s; j++)
            for (int64_t p = 0; p < d; p++)
                y->v[i * d + p] += score[j] / sum * v->v[(h * s + j) * d + p];
    }
    return y;
}

Test(network, attention) {
    static const int64_t qs[][5] = {
        {2, 3, 4, 8, 3}, {1, 2, 1, 4, 2}, {0, 2, 3, 4, 2}, {2, 6, 4, 8, 2}, {1, 4, 3, 4, 1}};
    for (int n = 0; n < 4 * 5 * 4; n++) {
        const dhow_dtype dtype = k_floats[n / 20];
        const int64_t *qshape = qs[n % 5], s = 5, shared = qs[n % 5][4]; /* heads of k and v */
        const int kind = n / 5 % 4; /* nothing, bool, floats, causal */
        const int64_t kshape[] = {qshape[0], shared, s, qshape[3]};
        const int64_t vshape[] = {qshape[0], shared, s, 3};
        array *q = scaled(array_filled(27, array_new(dtype, 4, qshape)), 0.25);
        array *k = scaled(array_filled(28, array_new(dtype, 4, kshape)), 0.25);
        array *v = array_filled(29, array_new(dtype, 4, vshape));
        array *mask = kind == 1   ? FILLED(30, DHOW_BOOL, qshape[2], s)
                      : kind == 2 ? FILLED(31, dtype, qshape[2], s)
                                  : NULL;
        for (int64_t i = 0; kind == 1 && i < mask->count; i += s) mask->v[i] = 1;
        const double scale = n % 2 ? 0.5 : 0;
        array *want[] = {
            attended(q, k, v, mask, kind == 3, scale != 0 ? scale : 1 / sqrt((double)qshape[3]))};
        array *in[] = {q, k, v, mask};
        built b = begin_model(in, mask != NULL ? 4 : 3, kind != 1 && kind != 2);
        OK(dhow_model_scaled_dot_product_attention(b.m, b.in[0], b.in[1], b.in[2],
                                                   mask != NULL ? b.in[3] : -1, kind == 3, scale,
                                                   &b.out[0]));
        end_model(&b, in, want, 1, "attention");
        EAGER(in, 4, want[0],
              dhow_scaled_dot_product_attention(NULL, t[0], t[1], t[2], t[3], kind == 3, scale,
                                                into));
    }
}

/* ---- interpolation ---- */

static double cubic(double d) {
    const double a = -0.75;
    d = fabs(d);
    return d <= 1  ? ((a + 2) * d - (a + 3)) * d * d + 1
           : d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
                   : 0;
}

/* Weight of element j of n for element i of m. */
static double weight(int64_t i, int64_t j, int64_t n, int64_t m, double scale,
                     dhow_interpolation mode, int corners) {
    double x = ((double)i + 0.5) / scale - 0.5, sum = 0;
    if (corners) x = m == 1 ? 0 : (double)i * (double)(n - 1) / (double)(m - 1);
    if (mode == DHOW_INTERPOLATE_NEAREST_EXACT)
        return j == (int64_t)fmin(floor(((double)i + 0.5) / scale), (double)n - 1);
    if (mode == DHOW_INTERPOLATE_AREA) { /* as adaptive_avg_pool's windows */
        const int64_t first = i * n / m, end = ((i + 1) * n + m - 1) / m;
        return j >= first && j < end ? 1 / (double)(end - first) : 0;
    }
    if (mode == DHOW_INTERPOLATE_NEAREST)
        return j == (int64_t)fmin(floor((double)i / scale), (double)n - 1);
    for (int64_t tap = (int64_t)floor(x) - 1; tap <= (int64_t)floor(x) + 2; tap++) {
        const int64_t at = tap < 0 ? 0 : tap >= n ? n - 1 : tap;
        const double d = fabs(x - (double)tap);
        if (at == j) sum += mode == DHOW_INTERPOLATE_CUBIC ? cubic(d) : fmax(0, 1 - d);
    }
    return sum;
}

static array *interpolated(const array *x, const int64_t *size, const double *scales,
                           dhow_interpolation mode, int corners) {
    const array *last = x;
    array *y = NULL;
    for (int32_t dim = 2; dim < x->rank; dim++) {
        int64_t shape[DHOW_MAX_RANK];
        memcpy(shape, last->shape, sizeof shape);
        const int64_t n = shape[dim];
        shape[dim] = size != NULL ? size[dim - 2] : (int64_t)floor((double)n * scales[dim - 2]);
        y = array_new(x->dtype, x->rank, shape);
        const double scale = scales != NULL ? scales[dim - 2] : (double)shape[dim] / (double)n;
        for (int64_t i = 0; i < y->count; i++) {
            int64_t at[DHOW_MAX_RANK] = {0};
            places(y, i, at);
            const int64_t own = at[dim];
            for (int64_t j = 0; j < n; j++) {
                at[dim] = j;
                y->v[i] +=
                    weight(own, j, n, shape[dim], scale, mode, corners) * last->v[place(last, at)];
            }
        }
        last = y;
    }
    return y;
}

Test(network, interpolation) {
    static const int64_t shapes[][5] = {{2, 3, 7}, {1, 2, 4, 6}, {2, 1, 3, 2, 4}, {1, 1, 1, 5}};
    static const int64_t sizes[][3] = {{11}, {7, 3}, {4, 4, 4}, {3, 1}};
    static const double scales[][3] = {{1.7}, {2, 0.5}, {1, 2, 1.5}, {2, 0.6}};
    static const dhow_interpolation modes[] = {
        DHOW_INTERPOLATE_NEAREST, DHOW_INTERPOLATE_LINEAR,        DHOW_INTERPOLATE_CUBIC,
        DHOW_INTERPOLATE_AREA,    DHOW_INTERPOLATE_NEAREST_EXACT, DHOW_INTERPOLATE_LINEAR,
        DHOW_INTERPOLATE_CUBIC};
    for (int n = 0; n < 4 * 7 * 2; n++) {
        const int k = n % 4, by_scale = n / 28, how = n / 4 % 7;
        const int32_t rank = k == 0 ? 3 : k == 2 ? 5 : 4;
        const dhow_interpolation mode = modes[how];
        const int corners = how > 4;
        array *x = array_filled(32, array_new(n % 3 ? DHOW_F32 : DHOW_F64, rank, shapes[k])),
              *in[] = {x};
        const int64_t *size = by_scale ? NULL : sizes[k];
        const double *factors = by_scale ? scales[k] : NULL;
        array *want[] = {interpolated(x, size, factors, mode, corners)};
        built b = begin_model(in, 1, n % 2);
        OK(dhow_model_interpolate(b.m, b.in[0], size, factors, mode, corners, &b.out[0]));
        end_model(&b, in, want, 1, "interpolate");
        EAGER(in, 1, want[0], dhow_interpolate(NULL, t[0], size, factors, mode, corners, into));
    }
}

/* ---- what is refused ---- */

Test(network, bad_arguments_of_layers_are_refused_and_add_nothing) {
    const dhow_conv_options three = OPTIONS(.kernel = {3}), far = OPTIONS(.kernel = {9}),
                            pads = OPTIONS(.kernel = {3}, .padding = {-1}),
                            apart = OPTIONS(.kernel = {3}, .groups = 2),
                            more = OPTIONS(.kernel = {3}, .output_padding = {1});
    static const int64_t size[] = {0};
    static const double grow[] = {NAN};
    dhow_model *m;
    dhow_model_value x, q, v, mask;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(2, 3, 5), &x));
    OK(dhow_model_input(m, "q", DHOW_F32, DHOW_SHAPE(2, 3, 4), &q));
    OK(dhow_model_input(m, "mask", DHOW_I32, DHOW_SHAPE(3, 3), &mask));
    FAILS(DHOW_INVALID_ARGUMENT, "options is NULL",
          dhow_model_conv1d(m, "c", x, 3, 4, NULL, 1, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "nothing is left",
          dhow_model_conv1d(m, "c", x, 3, 4, &far, 1, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "padding[0] is -1",
          dhow_model_conv1d(m, "c", x, 3, 4, &pads, 1, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "do not divide",
          dhow_model_conv1d(m, "c", x, 3, 4, &apart, 1, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "output_padding[0]",
          dhow_model_conv1d(m, "c", x, 3, 4, &more, 1, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "rank 5",
          dhow_model_conv3d(m, "c", x, 3, 4, &(dhow_conv_options)OPTIONS(.kernel = {1, 1, 1}), 1,
                            &v));
    FAILS(DHOW_INVALID_ARGUMENT, "x[n, c", dhow_model_conv1d(m, "c", x, 4, 4, &three, 1, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "does not divide 3",
          dhow_model_groupnorm(m, "g", x, 2, 3, 1e-5f, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "weight", dhow_model_groupnorm(m, "g", x, 2, 4, 1e-5f, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "weight", dhow_model_rmsnorm(m, "r", x, 4, 1e-5f, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "key f32[2, 3, 5]",
          dhow_model_scaled_dot_product_attention(m, q, x, x, -1, 0, 0, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "mask is i32",
          dhow_model_scaled_dot_product_attention(m, q, q, x, mask, 0, 0, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "one of them", dhow_model_interpolate(m, x, NULL, NULL, 0, 0, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "size is 0", dhow_model_interpolate(m, x, size, NULL, 0, 0, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "scale factor 0",
          dhow_model_interpolate(m, x, NULL, grow, 0, 0, &v));
    FAILS(DHOW_INVALID_ARGUMENT, "align_corners",
          dhow_model_interpolate(m, x, (int64_t[]){4}, NULL, DHOW_INTERPOLATE_NEAREST, 1, &v));
    cr_assert_eq(dhow_model_parameter_count(m), 0);
    OK(dhow_model_conv1d(m, "c", x, 3, 4, &three, 1, &v));
    dhow_model_release(m);
}

Test(network, embedding) {
    array *index = NEW(DHOW_I64, 2, 3), *w = FILLED(35, DHOW_F16, 5, 4),
          *want = NEW(DHOW_F16, 2, 3, 4);
    array *in[] = {index, w};
    for (int64_t i = 0; i < 6; i++) index->v[i] = (double)(i * 3 % 5);
    for (int64_t i = 0; i < want->count; i++)
        want->v[i] = w->v[(int64_t)index->v[i / 4] * 4 + i % 4];
    EAGER(in, 2, want, dhow_embedding(NULL, t[0], t[1], into));
}

Test(network, bad_arguments_of_eager_calls_are_refused) {
    static const int64_t pads[] = {1, 1}, size[] = {4};
    const dhow_conv_options o = OPTIONS(.groups = 2);
    dhow_tensor *x = tensor_of(FILLED(36, DHOW_F32, 2, 3, 5), 0),
                *w = tensor_of(FILLED(37, DHOW_F32, 4, 3, 3), 0);
    dhow_tensor *y = tensor_of(NEW(DHOW_F32, 2, 4, 3), 0),
                *i = tensor_of(NEW(DHOW_I32, 2, 3, 1), 0), *far;
    FAILS(DHOW_INVALID_ARGUMENT, "dhow_pad: x is NULL", dhow_pad(NULL, NULL, pads, 2, 0, 0, y));
    FAILS(DHOW_INVALID_ARGUMENT, "y is f32[2, 4, 3]", dhow_pad(NULL, x, pads, 2, 0, 0, y));
    FAILS(DHOW_INVALID_ARGUMENT, "pads is NULL", dhow_pad(NULL, x, NULL, 2, 0, 0, y));
    FAILS(DHOW_INVALID_ARGUMENT, "at most", dhow_pad(NULL, x, pads, 99, 0, 0, y));
    FAILS(DHOW_INVALID_ARGUMENT, "dhow_conv1d: x is", dhow_conv1d(NULL, x, w, NULL, &o, y));
    FAILS(DHOW_INVALID_ARGUMENT, "weight is NULL", dhow_conv1d(NULL, x, NULL, NULL, NULL, y));
    FAILS(DHOW_INVALID_ARGUMENT, "bias is f32", dhow_conv1d(NULL, x, w, y, NULL, y));
    FAILS(DHOW_INVALID_ARGUMENT, "index is i32", dhow_take_along_dim(NULL, x, i, 2, y));
    FAILS(DHOW_OUT_OF_RANGE, "dimension 3", dhow_index_select(NULL, x, 3, i, y));
    FAILS(DHOW_INVALID_ARGUMENT, "index is i32", dhow_scatter(NULL, x, 0, i, x, 0, y));
    FAILS(DHOW_INVALID_ARGUMENT, "one of them", dhow_interpolate(NULL, x, NULL, NULL, 0, 0, y));
    FAILS(DHOW_INVALID_ARGUMENT, "y is f32[2, 4, 3]",
          dhow_interpolate(NULL, x, size, NULL, 0, 0, y));
    FAILS(DHOW_INVALID_ARGUMENT, "groups is 2",
          dhow_groupnorm(NULL, x, 2, tensor_of(NEW(DHOW_F32, 3), 0), tensor_of(NEW(DHOW_F32, 3), 0),
                         0, y));
    FAILS(DHOW_INVALID_ARGUMENT, "dhow_sort: ", dhow_sort(NULL, i, 0, 0, y, y));
    OK(dhow_conv1d(NULL, x, w, NULL, NULL, y));
    if (g_cpu == g_device) return;
    OK(dhow_tensor_to(w, g_cpu, &far));
    FAILS(DHOW_INVALID_ARGUMENT, "on cpu:0", dhow_conv1d(NULL, x, far, NULL, NULL, y));
}

static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* The elements that the formula of dhow/nn.h says, on every device. */
Test(network, dropout_draws_by_its_seed) {
    const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);
    for (uint64_t seed = 1; seed < 4; seed++) {
        array *x = FILLED(40, DHOW_F32, 10, 37), *want = NEW(DHOW_F32, 10, 37);
        const uint64_t state = mixed(seed + step);
        const double p = 0.25 * (double)(seed - 1);
        int zeros = 0;
        for (uint64_t i = 0; i < 370; i++) {
            const bool drop = (double)(mixed(state + (i + 1) * step) >> 32) < ldexp(p, 32);
            want->v[i] = drop ? 0 : (double)((float)x->v[i] * (float)(1 / (1 - p)));
            zeros += drop;
        }
        cr_assert(fabs(zeros - 370 * p) < 40, "%d zeros of 370, p %g", zeros, p);
        EAGER(&x, 1, want, dhow_dropout(NULL, t[0], p, seed, into));
    }
    array *x = FILLED(41, DHOW_F32, 5);
    dhow_tensor *t = tensor_of(x, 0);
    FAILS(DHOW_INVALID_ARGUMENT, "p is 1.5", dhow_dropout(NULL, t, 1.5, 1, t));
    FAILS(DHOW_INVALID_ARGUMENT, "x is NULL", dhow_dropout(NULL, NULL, 0.5, 1, t));
}

/* What is kept for later calls holds the context, and must not outlive what the program holds. */
Test(network, calls_keep_few_models_and_end_with_the_context) {
    dhow_memory_stats before = DHOW_INIT(dhow_memory_stats), after = before;
    for (int64_t n = 1; n < 100; n++) {
        array *x = array_new(DHOW_F32, 1, &n), *want = NEW(DHOW_F32, n + 2);
        const int64_t pads[] = {1, 1};
        for (int64_t i = 0; i < n; i++) want->v[i + 1] = x->v[i] = (double)i;
        EAGER(&x, 1, want, dhow_pad(NULL, t[0], pads, 2, DHOW_PAD_CONSTANT, 0, into));
        if (n == 50) OK(dhow_memory_get_stats(g_device, &before));
    }
    OK(dhow_memory_get_stats(g_device, &after));
    cr_assert_leq(after.live, before.live + 65536, "%u bytes, then %u", (unsigned)before.live,
                  (unsigned)after.live);
}

Test(network, a_result_may_be_an_input) {
    array *x = FILLED(38, DHOW_F32, 4, 6), *row = FILLED(39, DHOW_F32, 6);
    array *want = normalized(x, 4, 0, (double)1e-3f, row, NULL, 1);
    dhow_tensor *t = tensor_of(x, 0), *w = tensor_of(row, 0);
    OK(dhow_rmsnorm(NULL, t, w, 1e-3f, t));
    expect(t, want, "in place");
}
