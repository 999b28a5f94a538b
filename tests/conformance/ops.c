/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of products, images, rows, reductions and gather: each with every dtype it takes, against a
 * reference in double, with odd sizes, views in every layout.
 */
#include "ops.h"

/* ---- matrix products ---- */

/* Sums in a reference of double; the device adds `k` products in f32 in an order of its own. */
static conform_tolerance sum_tolerance(dhow_dtype dtype, int64_t k) {
    conform_tolerance t = conform_tolerance_of(dtype);
    double epsilon = dtype == DHOW_F64 ? 0x1p-52 : 0x1p-23;
    t.absolute += epsilon * (double)k * 4;
    return t;
}

static conform_result matmul_case(conform_env *env, dhow_dtype dtype, int64_t batch, int64_t m,
                                  int64_t n, int64_t k, bool shared_b, int variant) {
    const int64_t a_shape[] = {batch, m, k}, b_shape[] = {batch, k, n}, c_shape[] = {batch, m, n};
    conform_array a = conform_array_random(env, dtype, 3, a_shape, -1, 1, 21);
    conform_array b = shared_b ? conform_array_random(env, dtype, 2, b_shape + 1, -1, 1, 22)
                               : conform_array_random(env, dtype, 3, b_shape, -1, 1, 22);
    conform_array c = conform_array_new(env, dtype, 3, c_shape);
    for (int64_t i = 0; i < c.count; i++) {
        int64_t at = i / (m * n), row = i / n % m, col = i % n;
        for (int64_t p = 0; p < k; p++) {
            c.value[i] +=
                a.value[(at * m + row) * k + p] * b.value[((shared_b ? 0 : at) * k + p) * n + col];
        }
    }
    dhow_tensor *ta, *tb, *tc;
    char what[96];
    (void)snprintf(what, sizeof what,
                   "%" PRId64 " of %" PRId64 "x%" PRId64 "x%" PRId64 " variant %d", batch, m, n, k,
                   variant);
    TRY(conform_upload(env, &a, (conform_layout)(variant % LAYOUT_COUNT), &ta));
    TRY(conform_upload(env, &b, (conform_layout)(variant / 4 % LAYOUT_COUNT), &tb));
    TRY(conform_blank(env, &c, (conform_layout)((variant + variant / 4) % LAYOUT_COUNT), &tc));
    OK(dhow_matmul(NULL, ta, tb, tc));
    return conform_expect(env, tc, &c, sum_tolerance(dtype, k), what);
}

static conform_result matmul(conform_env *env, dhow_dtype dtype) {
    NEEDS_DTYPE(dtype);
    for (int variant = 0; variant < 16; variant++) {
        TRY(matmul_case(env, dtype, 1, 5, 7, 3, true, variant));
        TRY(matmul_case(env, dtype, 3, 5, 1, 9, false, variant));
        conform_release_all(env);
    }
    TRY(matmul_case(env, dtype, 1, 1, 1, 1, true, 0));
    TRY(matmul_case(env, dtype, 1, 1, 130, 67, true, 0));
    TRY(matmul_case(env, dtype, 2, 33, 65, 129, true, 0));
    TRY(matmul_case(env, dtype, 2, 33, 65, 129, false, 5));
    TRY(matmul_case(env, dtype, 2, 3, 4, 0, false, 0));
    return matmul_case(env, dtype, 1, 70, 90, 300, true, 3);
}

/* Less precision when it is allowed, and none of it left afterwards. */
static conform_result precision(conform_env *env) {
    const int64_t shape[] = {64, 64};
    conform_array a = conform_array_random(env, DHOW_F32, 2, shape, -1, 1, 25);
    conform_array c = conform_array_new(env, DHOW_F32, 2, shape);
    for (int64_t i = 0; i < 64 * 64; i++)
        for (int64_t p = 0; p < 64; p++)
            c.value[i] += a.value[i / 64 * 64 + p] * a.value[p * 64 + i % 64];
    dhow_tensor *ta, *tc;
    TRY(conform_upload(env, &a, LAYOUT_PLAIN, &ta));
    TRY(conform_blank(env, &c, LAYOUT_PLAIN, &tc));
    FAILS(DHOW_INVALID_ARGUMENT, "is no precision",
          dhow_device_set_precision(env->device, (dhow_precision)2));
    OK(dhow_device_set_precision(env->device, DHOW_PRECISION_REDUCED));
    dhow_status status = dhow_matmul(NULL, ta, ta, tc);
    CHECK(dhow_device_precision(env->device) == DHOW_PRECISION_REDUCED,
          "the precision is not kept");
    OK(dhow_device_set_precision(env->device, DHOW_PRECISION_F32));
    CHECK(status == DHOW_OK, "%s", dhow_last_error());
    TRY(conform_expect(env, tc, &c, (conform_tolerance){0.1, 0.01}, "in bf16"));
    OK(dhow_matmul(NULL, ta, ta, tc));
    return conform_expect(env, tc, &c, sum_tolerance(DHOW_F32, 64), "in f32 again");
}

static conform_result linear(conform_env *env, dhow_dtype dtype) {
    NEEDS_DTYPE(dtype);
    const int64_t x_shape[] = {3, 5, 37}, w_shape[] = {19, 37}, y_shape[] = {3, 5, 19};
    conform_array x = conform_array_random(env, dtype, 3, x_shape, -1, 1, 31);
    conform_array w = conform_array_random(env, dtype, 2, w_shape, -1, 1, 32);
    conform_array bias = conform_array_random(env, dtype, 1, w_shape, -1, 1, 33);
    for (int with_bias = 0; with_bias < 2; with_bias++) {
        conform_array y = conform_array_new(env, dtype, 3, y_shape);
        for (int64_t i = 0; i < y.count; i++) {
            int64_t row = i / 19, o = i % 19;
            y.value[i] = with_bias ? bias.value[o] : 0;
            for (int64_t p = 0; p < 37; p++)
                y.value[i] += x.value[row * 37 + p] * w.value[o * 37 + p];
        }
        for (int frozen = 0; frozen < 2; frozen++) {
            for (conform_layout at = LAYOUT_PLAIN; at < LAYOUT_COUNT; at++) {
                dhow_tensor *tx, *tw, *tb, *ty;
                TRY(conform_upload(env, &x, at, &tx));
                TRY(conform_upload(env, &w, at, &tw));
                TRY(conform_upload(env, &bias, at, &tb));
                TRY(conform_blank(env, &y, at, &ty));
                if (frozen) OK(dhow_tensor_freeze(tw));
                for (int twice = 0; twice < 2; twice++) {
                    OK(dhow_linear(NULL, tx, tw, with_bias ? tb : NULL, ty));
                    TRY(conform_expect(env, ty, &y, sum_tolerance(dtype, 37),
                                       frozen ? "frozen weight" : "weight"));
                }
            }
        }
    }
    return CONFORM_PASS;
}

#define PRODUCTS(TYPE, type)                                                                   \
    static conform_result matmul_##type(conform_env *env) { return matmul(env, DHOW_##TYPE); } \
    static conform_result linear_##type(conform_env *env) { return linear(env, DHOW_##TYPE); }
FLOATS(PRODUCTS)

/* ---- images ---- */

typedef struct image {
    int64_t n, c, h, w, k;
    dhow_window window; /* kernel given */
} image;

#define WINDOW(...) DHOW_FIELDS(dhow_window, __VA_ARGS__)
static const image k_images[] = {
    {1, 1, 5, 5, 1, WINDOW(.kernel = {3, 3})},
    {2, 3, 9, 11, 4, WINDOW(.kernel = {3, 2}, .stride = {2, 1}, .pad = {1, 0, 2, 1})},
    {1, 4, 8, 7, 6, WINDOW(.kernel = {3, 3}, .dilation = {2, 2}, .pad = {2, 2, 2, 2}, .groups = 2)},
    {2, 6, 6, 6, 6, WINDOW(.kernel = {1, 1}, .groups = 6)},
    {1, 8, 17, 13, 16, WINDOW(.kernel = {5, 5}, .stride = {3, 2}, .pad = {2, 2, 2, 2})},
    {1, 1, 4, 4, 17, WINDOW(.kernel = {1, 3}, .stride = {1, 2})},
    {3, 6, 7, 7, 70, WINDOW(.kernel = {3, 3}, .pad = {1, 1, 1, 1})},
    {2, 9, 5, 90, 27, WINDOW(.kernel = {3, 3}, .pad = {1, 1, 1, 1}, .groups = 3)},
    {3, 5, 6, 9, 7, WINDOW(.kernel = {6, 9})}, /* all of an image */
};

static int64_t extent_of(const dhow_window *w, int i, int64_t size) {
    int64_t stride = w->stride[i] > 0 ? w->stride[i] : 1;
    int64_t dilation = w->dilation[i] > 0 ? w->dilation[i] : 1;
    return (size + w->pad[i] + w->pad[i + 2] - dilation * (w->kernel[i] - 1) - 1) / stride + 1;
}

/* The position in the input of a tap, or -1 in the padding. */
static int64_t tap(const dhow_window *w, int i, int64_t out, int64_t t, int64_t size) {
    int64_t stride = w->stride[i] > 0 ? w->stride[i] : 1;
    int64_t dilation = w->dilation[i] > 0 ? w->dilation[i] : 1;
    int64_t at = out * stride - w->pad[i] + t * dilation;
    return at >= 0 && at < size ? at : -1;
}

static double conv_at(const image *g, const conform_array *x, const conform_array *w, int64_t n,
                      int64_t k, int64_t oh, int64_t ow) {
    int64_t groups = g->window.groups > 0 ? g->window.groups : 1;
    int64_t per_group = g->c / groups, first = k / (g->k / groups) * per_group;
    double sum = 0;
    for (int64_t c = 0; c < per_group; c++) {
        for (int64_t i = 0; i < g->window.kernel[0]; i++) {
            for (int64_t j = 0; j < g->window.kernel[1]; j++) {
                int64_t y = tap(&g->window, 0, oh, i, g->h), z = tap(&g->window, 1, ow, j, g->w);
                if (y < 0 || z < 0) continue;
                sum +=
                    x->value[((n * g->c + first + c) * g->h + y) * g->w + z] *
                    w->value[((k * per_group + c) * g->window.kernel[0] + i) * g->window.kernel[1] +
                             j];
            }
        }
    }
    return sum;
}

static conform_result conv_case(conform_env *env, dhow_dtype dtype, const image *g, int variant) {
    int64_t groups = g->window.groups > 0 ? g->window.groups : 1;
    int64_t oh = extent_of(&g->window, 0, g->h), ow = extent_of(&g->window, 1, g->w);
    const int64_t x_shape[] = {g->n, g->c, g->h, g->w}, y_shape[] = {g->n, g->k, oh, ow};
    const int64_t w_shape[] = {g->k, g->c / groups, g->window.kernel[0], g->window.kernel[1]};
    conform_array x = conform_array_random(env, dtype, 4, x_shape, -1, 1, 41);
    conform_array w = conform_array_random(env, dtype, 4, w_shape, -1, 1, 42);
    conform_array bias = conform_array_random(env, dtype, 1, w_shape, -1, 1, 43);
    conform_array y = conform_array_new(env, dtype, 4, y_shape);
    bool with_bias = variant % 2 == 1;
    for (int64_t i = 0; i < y.count; i++) {
        int64_t k = i / (oh * ow) % g->k;
        y.value[i] = conv_at(g, &x, &w, i / (g->k * oh * ow), k, i / ow % oh, i % ow) +
                     (with_bias ? bias.value[k] : 0);
    }
    dhow_tensor *tx, *tw, *tb, *ty;
    conform_layout at = (conform_layout)(variant % LAYOUT_COUNT);
    TRY(conform_upload(env, &x, at, &tx));
    TRY(conform_upload(env, &w, at, &tw));
    TRY(conform_upload(env, &bias, at, &tb));
    TRY(conform_blank(env, &y, at, &ty));
    if (variant >= 2) OK(dhow_tensor_freeze(tw));
    OK(dhow_conv2d(NULL, tx, tw, with_bias ? tb : NULL, &g->window, ty));
    char what[64];
    (void)snprintf(what, sizeof what, "image %d variant %d", (int)(g - k_images), variant);
    return conform_expect(env, ty, &y, sum_tolerance(dtype, w.count / g->k + 1), what);
}

static conform_result pool_case(conform_env *env, dhow_dtype dtype, const image *g, bool max,
                                conform_layout at) {
    dhow_window window = g->window;
    window.dilation[0] = window.dilation[1] = window.groups = 0;
    for (int i = 0; i < 4; i++)
        window.pad[i] = window.pad[i] < window.kernel[i % 2] ? window.pad[i] : 0;
    int64_t oh = extent_of(&window, 0, g->h), ow = extent_of(&window, 1, g->w);
    const int64_t x_shape[] = {g->n, g->c, g->h, g->w}, y_shape[] = {g->n, g->c, oh, ow};
    conform_array x = conform_array_random(env, dtype, 4, x_shape, -3, 3, 51);
    conform_array y = conform_array_new(env, dtype, 4, y_shape);
    for (int64_t o = 0; o < y.count; o++) {
        double sum = 0, largest = -INFINITY;
        int64_t inside = 0, plane = o / (oh * ow);
        for (int64_t t = 0; t < window.kernel[0] * window.kernel[1]; t++) {
            int64_t r = tap(&window, 0, o / ow % oh, t / window.kernel[1], g->h);
            int64_t c = tap(&window, 1, o % ow, t % window.kernel[1], g->w);
            if (r < 0 || c < 0) continue;
            double v = x.value[(plane * g->h + r) * g->w + c];
            sum += v;
            largest = fmax(largest, v);
            inside++;
        }
        y.value[o] = max ? largest : sum / (double)inside;
    }
    dhow_tensor *tx, *ty;
    TRY(conform_upload(env, &x, at, &tx));
    TRY(conform_blank(env, &y, at, &ty));
    OK(max ? dhow_maxpool2d(NULL, tx, &window, ty) : dhow_avgpool2d(NULL, tx, &window, ty));
    return conform_expect(env, ty, &y, sum_tolerance(dtype, 25), max ? "maxpool" : "avgpool");
}

static conform_result images(conform_env *env, dhow_dtype dtype, bool pool) {
    NEEDS_DTYPE(dtype);
    for (size_t i = 0; i < sizeof k_images / sizeof k_images[0]; i++) {
        for (int v = 0; v < 4; v++) {
            if (!pool) TRY(conv_case(env, dtype, &k_images[i], v));
            if (pool) TRY(pool_case(env, dtype, &k_images[i], true, (conform_layout)v));
            if (pool) TRY(pool_case(env, dtype, &k_images[i], false, (conform_layout)v));
        }
    }
    return CONFORM_PASS;
}

#define IMAGES(TYPE, type)                                \
    static conform_result conv_##type(conform_env *env) { \
        return images(env, DHOW_##TYPE, false);           \
    }                                                     \
    static conform_result pool_##type(conform_env *env) { return images(env, DHOW_##TYPE, true); }
FLOATS(IMAGES)

/* ---- rows and reductions ---- */

typedef struct split {
    int64_t outer, n, inner;
} split;

static split split_at(const conform_array *a, int32_t dim) {
    split s = {1, a->shape[dim], 1};
    for (int32_t i = 0; i < dim; i++) s.outer *= a->shape[i];
    for (int32_t i = dim + 1; i < a->rank; i++) s.inner *= a->shape[i];
    return s;
}

/* Of the last two, reductions alone cut the first into parts, and what works on rows the second. */
static const int64_t k_row_shapes[][3] = {{1, 1, 1},    {3, 5, 7},   {2, 65, 33},
                                          {4, 3, 1030}, {1, 900, 9}, {1, 2, 8200}};

static conform_result softmax_case(conform_env *env, dhow_dtype dtype, bool logarithm, size_t k,
                                   int32_t dim) {
    conform_array x = conform_array_random(env, dtype, 3, k_row_shapes[k], -9, 9, 61);
    conform_array y = conform_array_new(env, dtype, 3, k_row_shapes[k]);
    split s = split_at(&x, dim);
    for (int64_t r = 0; r < s.outer * s.inner; r++) {
        const double *from = x.value + r / s.inner * s.n * s.inner + r % s.inner;
        double *to = y.value + (from - x.value), sum = 0, top = -INFINITY;
        for (int64_t j = 0; j < s.n; j++) top = fmax(top, from[j * s.inner]);
        for (int64_t j = 0; j < s.n; j++) sum += exp(from[j * s.inner] - top);
        for (int64_t j = 0; j < s.n; j++) {
            double v = from[j * s.inner] - top;
            to[j * s.inner] = logarithm ? v - log(sum) : exp(v) / sum;
        }
    }
    conform_layout at = (conform_layout)((k + (size_t)dim) % LAYOUT_COUNT);
    dhow_tensor *tx, *ty;
    TRY(conform_upload(env, &x, at, &tx));
    TRY(conform_blank(env, &y, (conform_layout)(dim % LAYOUT_COUNT), &ty));
    OK(logarithm ? dhow_log_softmax(NULL, tx, dim, ty) : dhow_softmax(NULL, tx, dim - 3, ty));
    return conform_expect(env, ty, &y, sum_tolerance(dtype, 8),
                          logarithm ? "log_softmax" : "softmax");
}

static conform_result softmax(conform_env *env, dhow_dtype dtype, bool logarithm) {
    NEEDS_DTYPE(dtype);
    for (size_t k = 0; k < 4; k++)
        for (int32_t dim = 0; dim < 3; dim++) TRY(softmax_case(env, dtype, logarithm, k, dim));
    return softmax_case(env, dtype, logarithm, 5, 2);
}

static conform_result layernorm(conform_env *env, dhow_dtype dtype) {
    NEEDS_DTYPE(dtype);
    static const int64_t shapes[][2] = {{1, 2}, {3, 7}, {65, 33}, {4, 1030}, {2, 8200}};
    for (size_t k = 0; k < 5; k++) {
        int64_t rows = shapes[k][0], cols = shapes[k][1];
        conform_array x = conform_array_random(env, dtype, 2, shapes[k], -3, 5, 71);
        conform_array gamma = conform_array_random(env, dtype, 1, &cols, 0.5, 2, 72);
        conform_array beta = conform_array_random(env, dtype, 1, &cols, -1, 1, 73);
        conform_array y = conform_array_new(env, dtype, 2, shapes[k]);
        for (int64_t r = 0; r < rows; r++) {
            const double *row = x.value + r * cols;
            double mean = 0, square = 0;
            for (int64_t j = 0; j < cols; j++) mean += row[j] / (double)cols;
            for (int64_t j = 0; j < cols; j++)
                square += (row[j] - mean) * (row[j] - mean) / (double)cols;
            for (int64_t j = 0; j < cols; j++) {
                y.value[r * cols + j] =
                    (row[j] - mean) / sqrt(square + (double)1e-5f) * gamma.value[j] + beta.value[j];
            }
        }
        dhow_tensor *tx, *tg, *tb, *ty;
        conform_layout at = (conform_layout)(k % LAYOUT_COUNT);
        TRY(conform_upload(env, &x, at, &tx));
        TRY(conform_upload(env, &gamma, at, &tg));
        TRY(conform_upload(env, &beta, at, &tb));
        TRY(conform_blank(env, &y, at, &ty));
        OK(dhow_layernorm(NULL, tx, tg, tb, 1e-5f, ty));
        conform_tolerance t = sum_tolerance(dtype, 16);
        if (dtype == DHOW_F16 || dtype == DHOW_BF16) t.absolute += 5e-3;
        TRY(conform_expect(env, ty, &y, t, "layernorm"));
    }
    return CONFORM_PASS;
}

typedef enum reduction { SUM, MEAN, MAX, MIN, ARGMAX } reduction;

static double reduce_ref(const double *from, split s, reduction kind) {
    double sum = 0, top = -INFINITY, low = INFINITY, at = 0;
    for (int64_t j = 0; j < s.n; j++) {
        double v = from[j * s.inner];
        sum += v;
        if (v > top) at = (double)j;
        top = fmax(top, v);
        low = fmin(low, v);
    }
    return kind == SUM    ? sum
           : kind == MEAN ? sum / (double)s.n
           : kind == MAX  ? top
           : kind == MIN  ? low
                          : at;
}

static dhow_status reduce(reduction kind, dhow_tensor *x, int32_t dim, dhow_tensor *y) {
    switch (kind) {
        case SUM:
            return dhow_reduce_sum(NULL, x, dim, y);
        case MEAN:
            return dhow_reduce_mean(NULL, x, dim, y);
        case MAX:
            return dhow_reduce_max(NULL, x, dim, y);
        case MIN:
            return dhow_reduce_min(NULL, x, dim, y);
        case ARGMAX:
            break;
    }
    return dhow_argmax(NULL, x, dim, y);
}

static conform_result reduction_case(conform_env *env, dhow_dtype dtype, reduction kind) {
    static const char *const names[] = {"sum", "mean", "max", "min", "argmax"};
    NEEDS_DTYPE(dtype);
    for (size_t k = 0; k < 5; k++) {
        conform_array x = conform_array_random(env, dtype, 3, k_row_shapes[k], -50, 50, 81);
        for (int32_t dim = 0; dim < 3; dim++) {
            int64_t kept[3], dropped[2];
            memcpy(kept, x.shape, sizeof kept);
            for (int32_t i = 0, to = 0; i < 3; i++) {
                if (i != dim) dropped[to++] = x.shape[i];
            }
            kept[dim] = 1;
            conform_array y = conform_array_new(env, kind == ARGMAX ? DHOW_I64 : dtype,
                                                k % 2 == 0 ? 3 : 2, k % 2 == 0 ? kept : dropped);
            split s = split_at(&x, dim);
            for (int64_t r = 0; r < s.outer * s.inner; r++) {
                y.value[r] =
                    reduce_ref(x.value + r / s.inner * s.n * s.inner + r % s.inner, s, kind);
            }
            dhow_tensor *tx, *ty;
            TRY(conform_upload(env, &x, (conform_layout)(k % LAYOUT_COUNT), &tx));
            TRY(conform_blank(env, &y, (conform_layout)(dim % LAYOUT_COUNT), &ty));
            OK(reduce(kind, tx, dim, ty));
            conform_tolerance t = {0, 0};
            if (conform_is_float(dtype) && (kind == SUM || kind == MEAN)) {
                t = sum_tolerance(dtype, s.n * 50);
            }
            TRY(conform_expect(env, ty, &y, t, names[kind]));
        }
    }
    return CONFORM_PASS;
}

#define ROWS(TYPE, type)                                         \
    static conform_result softmax_##type(conform_env *env) {     \
        return softmax(env, DHOW_##TYPE, false);                 \
    }                                                            \
    static conform_result log_softmax_##type(conform_env *env) { \
        return softmax(env, DHOW_##TYPE, true);                  \
    }                                                            \
    static conform_result layernorm_##type(conform_env *env) {   \
        return layernorm(env, DHOW_##TYPE);                      \
    }                                                            \
    static conform_result mean_##type(conform_env *env) {        \
        return reduction_case(env, DHOW_##TYPE, MEAN);           \
    }
FLOATS(ROWS)
#define REDUCTIONS(TYPE, type)                              \
    static conform_result sum_##type(conform_env *env) {    \
        return reduction_case(env, DHOW_##TYPE, SUM);       \
    }                                                       \
    static conform_result max_##type(conform_env *env) {    \
        return reduction_case(env, DHOW_##TYPE, MAX);       \
    }                                                       \
    static conform_result min_##type(conform_env *env) {    \
        return reduction_case(env, DHOW_##TYPE, MIN);       \
    }                                                       \
    static conform_result argmax_##type(conform_env *env) { \
        return reduction_case(env, DHOW_##TYPE, ARGMAX);    \
    }
REDUCIBLE(REDUCTIONS)

/* ---- gather ---- */

static conform_result gather(conform_env *env) {
    const int64_t index[] = {4, 0, -1, 5, 2, 2, INT64_MAX}, x_shape[] = {5, 3, 7},
                  y_shape[] = {7, 3, 7};
    dhow_tensor *ti, *tx, *ty;
    OWN(TENSOR, &ti, dhow_tensor_from_data(env->device, DHOW_I64, DHOW_SHAPE(7), index, &ti));
    for (dhow_dtype dtype = DHOW_F32; dtype <= DHOW_BOOL; dtype++) {
        conform_array x = conform_array_random(env, dtype, 3, x_shape, 0, 100, 91);
        conform_array y = conform_array_new(env, dtype, 3, y_shape);
        for (int64_t i = 0; i < y.count; i++) {
            int64_t row = index[i / 21];
            y.value[i] = row >= 0 && row < 5 ? x.value[row * 21 + i % 21] : 0;
        }
        for (conform_layout at = LAYOUT_PLAIN; at < LAYOUT_COUNT; at++) {
            TRY(conform_upload(env, &x, at, &tx));
            TRY(conform_blank(env, &y, (conform_layout)(LAYOUT_COUNT - 1 - at), &ty));
            OK(dhow_gather(NULL, tx, ti, ty));
            TRY(conform_expect(env, ty, &y, (conform_tolerance){0, 0}, dhow_dtype_name(dtype)));
        }
    }
    return CONFORM_PASS;
}

static conform_result nothing_to_do(conform_env *env) {
    dhow_tensor *x, *y, *sum;
    float got[3] = {9, 9, 9};
    OWN(TENSOR, &x, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(3, 0), &x));
    OWN(TENSOR, &y, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(3, 0), &y));
    OWN(TENSOR, &sum, dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(3), &sum));
    OK(dhow_relu(NULL, x, y));
    OK(dhow_add(NULL, x, y, y));
    OK(dhow_softmax(NULL, x, 1, y));
    OK(dhow_reduce_sum(NULL, x, 1, sum));
    OK(dhow_tensor_read(sum, got, sizeof got));
    CHECK(got[0] == 0 && got[2] == 0, "the sum of nothing is %g", (double)got[0]);
    FAILS(DHOW_INVALID_ARGUMENT, "has no elements", dhow_reduce_max(NULL, x, 1, sum));
    return CONFORM_PASS;
}
/* ---- the table ---- */

#define FLOAT_CASES(TYPE, type)                                       \
    CASE("matmul/" #type, matmul_##type, "ops,blas," #type),          \
        CASE("linear/" #type, linear_##type, "ops,blas," #type),      \
        CASE("conv2d/" #type, conv_##type, "ops,conv," #type),        \
        CASE("pool2d/" #type, pool_##type, "ops," #type),             \
        CASE("softmax/" #type, softmax_##type, "ops," #type),         \
        CASE("log_softmax/" #type, log_softmax_##type, "ops," #type), \
        CASE("layernorm/" #type, layernorm_##type, "ops," #type),     \
        CASE("reduce/mean_" #type, mean_##type, "ops," #type),
#define REDUCE_CASES(TYPE, type)                             \
    CASE("reduce/sum_" #type, sum_##type, "ops," #type),     \
        CASE("reduce/max_" #type, max_##type, "ops," #type), \
        CASE("reduce/min_" #type, min_##type, "ops," #type), \
        CASE("reduce/argmax_" #type, argmax_##type, "ops," #type),

const conform_case conform_op_cases[] = {
    FLOATS(FLOAT_CASES) REDUCIBLE(REDUCE_CASES) CASE("matmul/precision", precision, "ops,blas"),
    CASE("gather", gather, "ops"),
    CASE("empty", nothing_to_do, "ops"),
};
CASES_END(conform_op);
