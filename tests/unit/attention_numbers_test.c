/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention compared with a sum in double, for extents that end between blocks and tiles, under
 * masks that hide nothing, something or all of a block.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "dhow/dhow.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

static dhow_context *g_context;
static dhow_device *g_device;

static void set_up(void) {
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, NULL, &g_device));
}
static void tear_down(void) { dhow_context_release(g_context); }
TestSuite(attention_numbers, .init = set_up, .fini = tear_down, .timeout = 200);

/* What is added to the score of a query and a key. */
typedef float mask_of(int64_t query, int64_t key);
static float hide(bool hidden) { return hidden ? -INFINITY : 0; }
static float after(int64_t query, int64_t key) { return hide(key > query); }
static float afar(int64_t query, int64_t key) { return hide(key != 0 && llabs(key - query) > 40); }
static float padding(int64_t query, int64_t key) { return (void)query, hide(key >= 10); }
static float bias(int64_t query, int64_t key) {
    return (float)((query * 7 + key * 13) % 17) / 8 - 1;
}
static float rarely(int64_t query, int64_t key) { return hide(key == 150 && query % 32 == 5); }
/* Rows of nothing but the lowest number are means. */
static float lowest(int64_t query, int64_t key) {
    return query % 3 == 0 || key >= 20 ? -3.402823466e38f : 0;
}
/* Of rows that are the last ones of a cache. */
static int64_t g_earlier;
static float in_cache(int64_t query, int64_t key) { return hide(key > g_earlier + query); }

static float number(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / (1 << 23) - 1;
}

/* [heads][rows][width] on the device. */
static dhow_tensor *random_tensor(int64_t heads, int64_t rows, int64_t width, uint32_t seed,
                                  float **data) {
    const int64_t count = heads * rows * width;
    dhow_tensor *t;
    *data = malloc((size_t)count * sizeof **data);
    cr_assert_not_null(*data);
    for (int64_t i = 0; i < count; i++) (*data)[i] = 2 * number(&seed);
    OK(dhow_tensor_from_data(g_device, DHOW_F32, DHOW_SHAPE(1, heads, rows, width), *data, &t));
    return t;
}

typedef struct extents {
    int64_t rows, keys, depth, features;
} extents;

static double want_of(const extents *e, const float *q, const float *k, const float *v,
                      mask_of *mask, int64_t row, int64_t column) {
    double most = -INFINITY, total = 0, sum = 0;
    double *score = malloc((size_t)e->keys * sizeof *score);
    cr_assert_not_null(score);
    for (int64_t j = 0; j < e->keys; j++) {
        double dot = 0;
        for (int64_t d = 0; d < e->depth; d++)
            dot += (double)q[row * e->depth + d] * (double)k[j * e->depth + d];
        score[j] = dot / sqrt((double)e->depth);
        if (mask != NULL) score[j] = (double)(float)(score[j] + (double)mask(row, j));
        most = fmax(most, score[j]);
    }
    for (int64_t j = 0; j < e->keys; j++) {
        const double weight = exp(score[j] - most);
        total += weight;
        if (weight != 0) sum += weight * (double)v[j * e->features + column];
    }
    free(score);
    return sum / total;
}

enum { HEADS = 2 };

static dhow_tensor *mask_tensor(const extents *e, mask_of *mask) {
    dhow_tensor *t;
    float *data = malloc((size_t)(e->rows * e->keys) * sizeof *data);
    cr_assert_not_null(data);
    const int64_t rows = mask == padding ? 1 : e->rows;
    for (int64_t i = 0; i < rows * e->keys; i++) data[i] = mask(i / e->keys, i % e->keys);
    OK(dhow_tensor_from_data(g_device, DHOW_F32, DHOW_SHAPE(1, 1, rows, e->keys), data, &t));
    free(data);
    return t;
}

/* The keys are all that is in a cache, whose rows see no later ones. */
static void attend_to_cache(const extents *e, dhow_tensor *const qkv[3], dhow_tensor *y) {
    static const char *const names[] = {"q", "k", "v"};
    const int64_t length = e->keys;
    dhow_model *m;
    dhow_model_value v[4];
    dhow_tensor *in[] = {qkv[0], qkv[1], qkv[2], NULL};
    OK(dhow_model_create(g_context, &m));
    for (int i = 0; i < 3; i++) {
        dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
        OK(dhow_tensor_get_info(in[i], &info));
        OK(dhow_model_input(m, names[i], DHOW_F32, info.rank, info.shape, &v[i]));
    }
    OK(dhow_model_input(m, "n", DHOW_I64, DHOW_SHAPE(1), &v[3]));
    OK(dhow_model_cached_attention(m, v[0], v[1], v[2], v[3], 1, 0, 0, &v[0]));
    OK(dhow_model_output(m, "y", v[0]));
    OK(dhow_model_to(m, g_device));
    OK(dhow_tensor_from_data(g_device, DHOW_I64, DHOW_SHAPE(1), &length, &in[3]));
    OK(dhow_model_run_into(m, NULL, in, 4, &y, 1));
    dhow_tensor_release(in[3]);
    dhow_model_release(m);
}

static void check(const extents *e, mask_of *mask) {
    float *q, *k, *v, *y = malloc((size_t)(HEADS * e->rows * e->features) * sizeof *y);
    dhow_tensor *tq = random_tensor(HEADS, e->rows, e->depth, 1, &q),
                *tk = random_tensor(HEADS, e->keys, e->depth, 2, &k),
                *tv = random_tensor(HEADS, e->keys, e->features, 3, &v), *ty, *tm = NULL;
    OK(dhow_tensor_create(g_device, DHOW_F32, DHOW_SHAPE(1, HEADS, e->rows, e->features), &ty));
    if (mask == in_cache) {
        g_earlier = e->keys - e->rows;
        attend_to_cache(e, (dhow_tensor *[]){tq, tk, tv}, ty);
    } else {
        if (mask != NULL) tm = mask_tensor(e, mask);
        OK(dhow_scaled_dot_product_attention(NULL, tq, tk, tv, tm, 0, 0, ty));
    }
    cr_assert_not_null(y);
    OK(dhow_tensor_read(ty, y, (size_t)(HEADS * e->rows * e->features) * sizeof *y));
    for (int64_t i = 0; i < HEADS * e->rows * e->features; i++) {
        const int64_t head = i / (e->rows * e->features), row = i / e->features % e->rows;
        const double want = want_of(e, q + head * e->rows * e->depth, k + head * e->keys * e->depth,
                                    v + head * e->keys * e->features, mask, row, i % e->features);
        cr_assert(fabs((double)y[i] - want) < 3e-6, "%d x %d keys, %d and %d: %g, not %g at %d",
                  (int)e->rows, (int)e->keys, (int)e->depth, (int)e->features, (double)y[i], want,
                  (int)i);
    }
    dhow_tensor *const all[] = {tq, tk, tv, ty, tm};
    for (int i = 0; i < 5; i++) dhow_tensor_release(all[i]);
    free(q), free(k), free(v), free(y);
}

Test(attention_numbers, with_each_mask_they_are_those_of_double) {
    static mask_of *const masks[] = {NULL, after, afar, padding, bias, rarely, lowest};
    static const extents many[] = {{70, 300, 8, 4},  {33, 129, 5, 3},  {8, 4, 4, 2},
                                   {40, 270, 6, 16}, {64, 260, 7, 10}, {31, 131, 9, 1}};
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        for (size_t m = 0; m < sizeof masks / sizeof *masks; m++) check(&many[i], masks[m]);
    }
}

Test(attention_numbers, heads_of_all_sizes_that_models_have_are_right) {
    static const int64_t sizes[] = {32, 48, 64, 80, 96, 128, 256};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check(&(extents){20, 140, sizes[i], sizes[i]}, after);
}

/* One row has other blocks of keys than several. */
Test(attention_numbers, behind_a_cache_they_are_those_of_double) {
    static const int64_t sizes[] = {1, 7, 16, 20, 32, 37, 64, 80, 96, 128, 200, 256};
    static const int64_t keys[] = {5, 8, 67, 300, 523};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            check(&(extents){1, keys[k], sizes[i], sizes[i]}, in_cache);
            check(&(extents){5, keys[k], sizes[i], sizes[i]}, in_cache);
        }
    }
}

/* A block whose keys are all hidden is not read: half the work of a causal mask. */
Test(attention_numbers, keys_that_are_hidden_from_a_whole_block_of_queries_are_not_read) {
    enum { ROWS = 16, KEYS = 512, WIDTH = 8 };
    float *q, *k, *v, y[ROWS * WIDTH];
    dhow_tensor *tq = random_tensor(1, ROWS, WIDTH, 1, &q), *tk, *tv, *ty;
    const extents e = {ROWS, KEYS, WIDTH, WIDTH};
    dhow_tensor_release(random_tensor(1, KEYS, WIDTH, 2, &k));
    dhow_tensor_release(random_tensor(1, KEYS, WIDTH, 3, &v));
    for (int i = 256 * WIDTH; i < KEYS * WIDTH; i++) k[i] = v[i] = NAN;
    OK(dhow_tensor_from_data(g_device, DHOW_F32, DHOW_SHAPE(1, 1, KEYS, WIDTH), k, &tk));
    OK(dhow_tensor_from_data(g_device, DHOW_F32, DHOW_SHAPE(1, 1, KEYS, WIDTH), v, &tv));
    OK(dhow_tensor_create(g_device, DHOW_F32, DHOW_SHAPE(1, 1, ROWS, WIDTH), &ty));
    for (int causal = 0; causal < 2; causal++) {
        dhow_tensor *tm = causal ? NULL : mask_tensor(&e, padding);
        OK(dhow_scaled_dot_product_attention(NULL, tq, tk, tv, tm, causal, 0, ty));
        OK(dhow_tensor_read(ty, y, sizeof y));
        for (int i = 0; i < ROWS * WIDTH; i++)
            cr_assert(isfinite(y[i]), "%g at %d", (double)y[i], i);
        dhow_tensor_release(tm);
    }
    dhow_tensor *const all[] = {tq, tk, tv, ty};
    for (int i = 0; i < 4; i++) dhow_tensor_release(all[i]);
    free(q), free(k), free(v);
}
