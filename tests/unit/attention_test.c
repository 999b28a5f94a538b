/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention in one step gives what products with a softmax between give, for extents around those
 * of the kernel's tiles and with every mask, and takes no memory for scores.
 */
#include <math.h>

#include "dhow/model_steps.h"
#include "kernel/optimise.h"
#include "onnx_fixture.h"

TestSuite(attention, .init = set_up, .fini = tear_down, .timeout = 120);

enum { NONE, CAUSAL, ADDED, ADDED_TO_KEYS, KEPT, NEAR, FIRST_KEYS, MASKS };

typedef struct trial {
    int64_t batch, heads, shared, rows, keys, depth, features;
    int mask;
    bool beside; /* heads of a row lie side by side, as projections give them */
    dhow_dtype dtype;
} trial;

static uint32_t g_state = 1;
static uint32_t next_number(void) { return (g_state = g_state * 1664525u + 1013904223u) >> 8; }

static dhow_model_value heads_of(dhow_model *m, const trial *t, const char *name, int64_t heads,
                                 int64_t rows, int64_t width) {
    static const int32_t order[] = {0, 2, 1, 3};
    const int64_t apart[] = {t->batch, heads, rows, width},
                  beside[] = {t->batch, rows, heads, width};
    dhow_model_value x;
    OK(dhow_model_input(m, name, t->dtype, 4, t->beside ? beside : apart, &x));
    if (t->beside) OK(dhow_model_permute(m, x, order, 4, &x));
    return x;
}

static dhow_model *attending(const trial *t, uint32_t *inputs) {
    const int64_t full[] = {t->batch, 1, t->rows, t->keys}, keys[] = {t->batch, 1, 1, t->keys};
    dhow_model *m;
    dhow_model_value mask = -1, y;
    OK(dhow_model_create(g_context, &m));
    const dhow_model_value q = heads_of(m, t, "q", t->heads, t->rows, t->depth),
                           k = heads_of(m, t, "k", t->shared, t->keys, t->depth),
                           v = heads_of(m, t, "v", t->shared, t->keys, t->features);
    *inputs = t->mask >= ADDED ? 4 : 3;
    if (t->mask >= ADDED)
        OK(dhow_model_input(m, "mask", t->mask >= KEPT ? DHOW_BOOL : t->dtype, 4,
                            t->mask == ADDED_TO_KEYS || t->mask == FIRST_KEYS ? keys : full,
                            &mask));
    OK(dhow_model_scaled_dot_product_attention(m, q, k, v, mask, t->mask == CAUSAL, 0, &y));
    OK(dhow_model_output(m, "y", y));
    return m;
}

/* Whether a mask keeps a key: the first one, and three in four, those near the query or the first
 * third. */
static bool keeps(int mask, const int64_t *shape, int64_t at) {
    const int64_t key = at % shape[3], query = at / shape[3] % shape[2];
    if (key == 0) return true;
    if (mask == NEAR) return llabs(key - query) < 20;
    return mask == FIRST_KEYS ? key < shape[3] / 3 : next_number() % 4 != 0;
}

/* Numbers from -2 to 2, or bytes of a mask. */
static dhow_tensor *input_of(const dhow_model *m, int mask, uint32_t i) {
    dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
    dhow_tensor *wide, *x;
    OK(dhow_model_input_at(m, i, &info));
    OK(dhow_tensor_zeros(g_cpu, info.dtype == DHOW_BOOL ? DHOW_U8 : DHOW_F32, info.rank, info.shape,
                         &wide));
    void *data;
    OK(dhow_tensor_host_ptr(wide, &data));
    for (int64_t k = 0; k < dhow_tensor_count(wide); k++) {
        if (info.dtype == DHOW_BOOL)
            ((uint8_t *)data)[k] = keeps(mask, info.shape, k);
        else
            ((float *)data)[k] = (float)(next_number() % 4096) / 1024 - 2;
    }
    OK(dhow_tensor_to_dtype(NULL, wide, info.dtype, &x));
    dhow_tensor_release(wide);
    return x;
}

/* The result as f32; release it. *steps is how many it took. */
static dhow_tensor *values_of(const trial *t, dhow_tensor **in, uint32_t optimisations,
                              uint32_t *steps) {
    uint32_t inputs;
    dhow_tensor *y = NULL, *wide;
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    dhow_model *m = attending(t, &inputs);
    dhowi_optimisations = optimisations;
    OK(dhow_model_run(m, NULL, in, inputs, &y, 1));
    dhowi_optimisations = DHOWI_OPTIMISE_ALL;
    OK(dhow_model_get_summary(m, &summary));
    *steps = summary.step_count;
    OK(dhow_tensor_to_dtype(NULL, y, DHOW_F32, &wide));
    dhow_tensor_release(y);
    dhow_model_release(m);
    return wide;
}

static void compare(const trial *t) {
    /* scores are sums of up to 256 products, in another order with another tile */
    const float most = t->dtype == DHOW_F32 ? 4e-6f : t->dtype == DHOW_F16 ? 4e-3f : 4e-2f;
    uint32_t inputs, steps, more;
    dhow_model *m = attending(t, &inputs);
    dhow_tensor *in[4];
    void *a, *b;
    for (uint32_t i = 0; i < inputs; i++) in[i] = input_of(m, t->mask, i);
    dhow_tensor *one = values_of(t, in, DHOWI_OPTIMISE_ALL, &steps),
                *several = values_of(
                    t, in, DHOWI_OPTIMISE_ALL & ~(uint32_t)DHOWI_OPTIMISE_ATTENTION, &more);
    cr_expect_lt(steps, more, "%u steps, %u without it", steps, more);
    OK(dhow_tensor_host_ptr(one, &a));
    OK(dhow_tensor_host_ptr(several, &b));
    cr_assert_eq(dhow_tensor_count(one), dhow_tensor_count(several));
    for (int64_t i = 0; i < dhow_tensor_count(one); i++)
        cr_assert(fabsf(((float *)a)[i] - ((float *)b)[i]) <= most,
                  "[%d, %d of %d, %d by %d, %d and %d], mask %d, dtype %d: %g, not %g at %d",
                  (int)t->batch, (int)t->heads, (int)t->shared, (int)t->rows, (int)t->keys,
                  (int)t->depth, (int)t->features, t->mask, (int)t->dtype, (double)((float *)a)[i],
                  (double)((float *)b)[i], (int)i);
    dhow_tensor_release(one);
    dhow_tensor_release(several);
    for (uint32_t i = 0; i < inputs; i++) dhow_tensor_release(in[i]);
    dhow_model_release(m);
}

Test(attention, in_one_step_it_is_what_it_is_in_several) {
    static const int64_t rows[] = {8, 15, 16, 31, 32, 33, 100, 520, 1030},
                         keys[] = {1, 11, 12, 13, 29, 30, 31, 59, 60, 61, 130, 300},
                         widths[] = {1, 5, 6, 7, 12, 13, 64, 80, 128, 200, 256};
    static const dhow_dtype dtypes[] = {DHOW_F32, DHOW_F32, DHOW_F16, DHOW_BF16};
    for (int i = 0; i < 150; i++) {
        const int64_t shared = 1 + next_number() % 2;
        const trial t = {.batch = 1 + next_number() % 2,
                         .heads = shared * (1 + next_number() % 3),
                         .shared = shared,
                         .rows = rows[next_number() % 9],
                         .keys = keys[next_number() % 12],
                         .depth = widths[next_number() % 11],
                         .features = widths[next_number() % 11],
                         .mask = (int)(next_number() % MASKS),
                         .beside = next_number() % 2 == 0,
                         .dtype = dtypes[next_number() % 4]};
        compare(&t);
    }
}

/* Scores of 2 heads by 3000 rows by 3000 keys would be 69 MiB. */
Test(attention, it_takes_no_memory_for_scores) {
    const trial t = {1, 2, 2, 3000, 3000, 16, 16, NONE, true, DHOW_F32};
    uint32_t inputs;
    dhow_model *m = attending(&t, &inputs);
    dhow_tensor *in[3], *y = NULL;
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    for (uint32_t i = 0; i < inputs; i++) in[i] = input_of(m, NONE, i);
    OK(dhow_model_run(m, NULL, in, inputs, &y, 1));
    OK(dhow_model_get_summary(m, &summary));
    cr_expect_lt(summary.arena_bytes, (uint64_t)1 << 20, "%llu bytes",
                 (unsigned long long)summary.arena_bytes);
    for (uint32_t i = 0; i < inputs; i++) dhow_tensor_release(in[i]);
    dhow_tensor_release(y);
    dhow_model_release(m);
}
