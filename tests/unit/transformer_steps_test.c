/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of transformers that are spelt in several and done in fewer: the number of steps of a run
 * and its values, also where something else reads what lies in between.
 */
#include "steps_fixture.h"

TestSuite(transformer_steps, .init = set_up, .fini = tear_down, .timeout = 120);

/* Gives the model its outputs, compares its values and counts the steps of its plan. */
static uint32_t steps_of(built *b, array *const *in, array *const *want, uint32_t results,
                         const char *what) {
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    check_model(b, in, want, results, what);
    OK(dhow_model_get_summary(b->m, &summary));
    dhow_model_release(b->m);
    return summary.step_count;
}

/* ---- rotary embeddings, x cos + (-right half, left half) sin ---- */

enum { HEADS = 3, FEATURES = 8, HALF = FEATURES / 2 };
enum { ALONE, ALSO_AN_OUTPUT, READ_TWICE };

static void rotate(built *b, int also) {
    dhow_model_value half[2], turned, s, c, x = b->in[0];
    OK(dhow_model_chunk(b->m, x, -1, 2, half));
    OK(dhow_model_neg(b->m, half[1], &half[1]));
    OK(dhow_model_cat(b->m, (dhow_model_value[]){half[1], half[0]}, 2, -1, &turned));
    OK(dhow_model_mul(b->m, turned, b->in[2], &s));
    OK(dhow_model_mul(b->m, x, b->in[1], &c));
    OK(dhow_model_add(b->m, c, s, &b->out[0]));
    b->out[1] = turned;
    if (also == READ_TWICE) OK(dhow_model_relu(b->m, turned, &b->out[1]));
}

static uint32_t rotary_steps(dhow_dtype dtype, int also) {
    array *x = FILLED(1, dtype, 2, HEADS, 5, FEATURES), *c = FILLED(2, dtype, 5, FEATURES),
          *s = FILLED(3, dtype, 5, FEATURES), *y = NEW(dtype, 2, HEADS, 5, FEATURES),
          *turned = NEW(dtype, 2, HEADS, 5, FEATURES);
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t at = i % FEATURES, row = i % (5 * FEATURES);
        const double t = at < HALF ? -x->v[i + HALF] : x->v[i - HALF];
        y->v[i] = x->v[i] * c->v[row] + t * s->v[row];
        turned->v[i] = also == READ_TWICE ? fmax(t, 0) : t;
    }
    array *in[] = {x, c, s}, *want[] = {y, turned};
    built b = begin_model(in, 3, 0);
    rotate(&b, also);
    return steps_of(&b, in, want, also == ALONE ? 1 : 2, "rotary");
}

Test(transformer_steps, rotary_embeddings_are_a_map_for_each_half) {
    static const dhow_dtype dtypes[] = {DHOW_F32, DHOW_F16, DHOW_F64, DHOW_BF16};
    for (int i = 0; i < 4; i++)
        cr_assert_eq(rotary_steps(dtypes[i], ALONE), 2, "%s", dhow_dtype_name(dtypes[i]));
}

Test(transformer_steps, halves_that_something_else_reads_are_put_together) {
    cr_assert_gt(rotary_steps(DHOW_F32, ALSO_AN_OUTPUT), 3);
    cr_assert_gt(rotary_steps(DHOW_F32, READ_TWICE), 3);
}

Test(transformer_steps, a_padded_value_keeps_its_padding) {
    array *x = FILLED(4, DHOW_F32, 2, 3), *y = NEW(DHOW_F32, 2, 5);
    for (int64_t i = 0; i < y->count; i++)
        y->v[i] = i % 5 < 1 || i % 5 > 3 ? exp(0.5) : exp(x->v[i / 5 * 3 + i % 5 - 1]);
    array *in[] = {x}, *want[] = {y};
    built b = begin_model(in, 1, 0);
    OK(dhow_model_pad(b.m, b.in[0], (const int64_t[]){1, 1}, 2, DHOW_PAD_CONSTANT, 0.5, &b.out[0]));
    OK(dhow_model_exp(b.m, b.out[0], &b.out[0]));
    cr_assert_eq(steps_of(&b, in, want, 1, "pad"), 4, "two fills, a copy, a map");
}

/* ---- products of one value ---- */

enum { IN = 8, WIDE = 16 };
enum { PLAIN, WITH_BIAS, ROWS, AN_OUTPUT, OTHER_END, SET_AGAIN };

static const char *const k_names[] = {"q", "k", "v"};

static void set_parameter(dhow_model *m, const char *name, const array *a) {
    dhow_tensor *t = tensor_of(a, 0);
    OK(dhow_model_set_parameter(m, name, t));
    dhow_tensor_release(t);
}

static void expect_parameter(const dhow_model *m, const char *name, const array *want) {
    dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
    for (uint32_t i = 0; i < dhow_model_parameter_count(m); i++) {
        OK(dhow_model_parameter_at(m, i, &info));
        if (strcmp(info.name, name) == 0) expect(info.tensor, want, name);
    }
}

static array *softmax_of(const array *x) {
    array *y = array_new(x->dtype, x->rank, x->shape);
    double sum = 0;
    for (int64_t i = 0; i < x->count; i++) sum += exp(x->v[i]);
    for (int64_t i = 0; i < x->count; i++) y->v[i] = exp(x->v[i]) / sum;
    return y;
}

/* relu(q k) + v, where q, k and v are products of x. */
static uint32_t product_steps(dhow_dtype dtype, int how) {
    const int64_t rows = how == ROWS ? 3 : 1;
    array *x = FILLED(7, dtype, 1, rows, IN), *y = NEW(dtype, 1, rows, WIDE), *parts[3], *w[3],
          *bias[3];
    dhow_model_value p[3];
    array *in[] = {x}, *want[2] = {y, NULL};
    built b = begin_model(in, 1, 0);
    for (int i = 0; i < 3; i++) {
        w[i] = FILLED(10u + (unsigned)i, dtype, WIDE, IN);
        bias[i] = FILLED(20u + (unsigned)i, dtype, WIDE);
        parts[i] = NEW(dtype, 1, rows, WIDE);
        for (int64_t k = 0; k < parts[i]->count; k++) {
            double *sum = &parts[i]->v[k];
            *sum = how == WITH_BIAS ? bias[i]->v[k % WIDE] : 0;
            for (int64_t j = 0; j < IN; j++)
                *sum += x->v[k / WIDE * IN + j] * w[i]->v[k % WIDE * IN + j];
            if (how == OTHER_END && i == 1) *sum = fmax(*sum, 0);
        }
        OK(dhow_model_linear(b.m, k_names[i], b.in[0], IN, WIDE, how == WITH_BIAS, &p[i]));
    }
    if (how == OTHER_END) OK(dhow_model_relu(b.m, p[1], &p[1]));
    for (int64_t k = 0; k < y->count; k++)
        y->v[k] = fmax(parts[0]->v[k] * parts[1]->v[k], 0) + parts[2]->v[k];
    b.out[1] = p[1];
    want[1] = parts[1];
    if (how == OTHER_END) { /* who reads it besides keeps it out of the map */
        OK(dhow_model_softmax(b.m, p[1], -1, &b.out[1]));
        want[1] = softmax_of(parts[1]);
    }
    OK(dhow_model_mul(b.m, p[0], p[1], &p[0]));
    OK(dhow_model_relu(b.m, p[0], &p[0]));
    OK(dhow_model_add(b.m, p[0], p[2], &b.out[0]));
    for (int i = 0; i < 3; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "%s.weight", k_names[i]);
        if (how != SET_AGAIN) set_parameter(b.m, name, w[i]);
        (void)snprintf(name, sizeof name, "%s.bias", k_names[i]);
        if (how == WITH_BIAS) set_parameter(b.m, name, bias[i]);
    }
    if (how == SET_AGAIN) {
        OK(dhow_model_to(b.m, g_device));
        for (int i = 0; i < 3; i++) {
            char name[16];
            (void)snprintf(name, sizeof name, "%s.weight", k_names[i]);
            set_parameter(b.m, name, w[i]);
        }
    }
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    check_model(&b, in, want, how == AN_OUTPUT || how == OTHER_END ? 2 : 1, "products");
    for (int i = 0; i < 3; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "%s.weight", k_names[i]);
        expect_parameter(b.m, name, w[i]);
    }
    OK(dhow_model_get_summary(b.m, &summary));
    dhow_model_release(b.m);
    return summary.step_count;
}

Test(transformer_steps, products_of_one_row_with_one_value_are_one_on_devices) {
    const uint32_t joined = g_device == g_cpu ? 4 : 2; /* and the map behind them */
    cr_assert_eq(product_steps(DHOW_F32, PLAIN), joined);
    cr_assert_eq(product_steps(DHOW_F16, PLAIN), joined);
    cr_assert_eq(product_steps(DHOW_F32, WITH_BIAS), joined);
}

Test(transformer_steps, products_that_differ_or_are_looked_at_stay_apart) {
    cr_assert_eq(product_steps(DHOW_F32, ROWS), 4);
    cr_assert_eq(product_steps(DHOW_F32, AN_OUTPUT), 4);
    cr_assert_eq(product_steps(DHOW_F32, OTHER_END), 5);
}

Test(transformer_steps, weights_that_are_set_later_are_those_of_the_products) {
    cr_assert_eq(product_steps(DHOW_F32, SET_AGAIN), 4);
}

/* ---- attention, softmax(q kt / 2 + mask) v with heads turned before and after ---- */

enum { BATCH = 2, ROWS_OF_HEAD = 16, DEPTH = 4 };

typedef enum spelling { AS_EXPORTED, MASK_SCALED, SCORES_READ, SCALE_OF_INPUT } spelling;

static double score_at(array *const *in, spelling how, int64_t b, int64_t h, int64_t i, int64_t j) {
    const double mask = in[3]->v[b * ROWS_OF_HEAD + j], scale = how == SCALE_OF_INPUT ? 0 : 0.5;
    double sum = 0;
    for (int64_t d = 0; d < DEPTH; d++)
        sum += in[0]->v[((b * ROWS_OF_HEAD + i) * HEADS + h) * DEPTH + d] *
               in[1]->v[((b * ROWS_OF_HEAD + j) * HEADS + h) * DEPTH + d];
    if (how == SCALE_OF_INPUT) return sum * in[4]->v[0] + mask;
    return how == MASK_SCALED ? (sum + mask) * scale : sum * scale + mask;
}

static void attend_row(array *const *in, spelling how, int64_t b, int64_t h, int64_t i, double *y) {
    double power[ROWS_OF_HEAD], total = 0;
    for (int64_t j = 0; j < ROWS_OF_HEAD; j++)
        total += power[j] = exp(score_at(in, how, b, h, i, j));
    for (int64_t d = 0; d < DEPTH; d++) {
        y[d] = 0;
        for (int64_t j = 0; j < ROWS_OF_HEAD; j++)
            y[d] += power[j] / total * in[2]->v[((b * ROWS_OF_HEAD + j) * HEADS + h) * DEPTH + d];
    }
}

static void write_attention(built *b, spelling how) {
    dhow_model_value q, k, v, s;
    OK(dhow_model_permute(b->m, b->in[0], (int32_t[]){0, 2, 1, 3}, 4, &q));
    OK(dhow_model_permute(b->m, b->in[1], (int32_t[]){0, 2, 3, 1}, 4, &k));
    OK(dhow_model_permute(b->m, b->in[2], (int32_t[]){0, 2, 1, 3}, 4, &v));
    OK(dhow_model_matmul(b->m, q, k, &s));
    b->out[1] = s;
    if (how == SCALE_OF_INPUT) OK(dhow_model_mul(b->m, s, b->in[4], &s));
    if (how == AS_EXPORTED || how == SCORES_READ)
        OK(dhow_model_mul_scalar(b->m, s, DHOW_SCALAR(0.5), &s));
    OK(dhow_model_add(b->m, s, b->in[3], &s));
    if (how == MASK_SCALED) OK(dhow_model_mul_scalar(b->m, s, DHOW_SCALAR(0.5), &s));
    OK(dhow_model_softmax(b->m, s, -1, &s));
    OK(dhow_model_matmul(b->m, s, v, &s));
    OK(dhow_model_permute(b->m, s, (int32_t[]){0, 2, 1, 3}, 4, &s));
    OK(dhow_model_reshape(b->m, s, DHOW_SHAPE(BATCH, ROWS_OF_HEAD, HEADS * DEPTH), &b->out[0]));
}

static uint32_t attention_steps(dhow_dtype dtype, spelling how) {
    array *in[5], *y = NEW(dtype, BATCH, ROWS_OF_HEAD, HEADS * DEPTH),
                  *scores = NEW(dtype, BATCH, HEADS, ROWS_OF_HEAD, ROWS_OF_HEAD),
                  *want[] = {y, scores};
    for (unsigned i = 0; i < 3; i++)
        in[i] = FILLED(30 + i, dtype, BATCH, ROWS_OF_HEAD, HEADS, DEPTH);
    in[3] = FILLED(33, dtype, BATCH, 1, 1, ROWS_OF_HEAD);
    in[4] = FILLED(34, dtype, 1);
    for (int64_t r = 0; r < BATCH * ROWS_OF_HEAD * HEADS; r++)
        attend_row(in, how, r / HEADS / ROWS_OF_HEAD, r % HEADS, r / HEADS % ROWS_OF_HEAD,
                   y->v + r * DEPTH);
    for (int64_t i = 0; i < scores->count; i++) {
        const int64_t head = i / ROWS_OF_HEAD / ROWS_OF_HEAD;
        scores->v[i] = (score_at(in, AS_EXPORTED, head / HEADS, head % HEADS,
                                 i / ROWS_OF_HEAD % ROWS_OF_HEAD, i % ROWS_OF_HEAD) -
                        in[3]->v[head / HEADS * ROWS_OF_HEAD + i % ROWS_OF_HEAD]) *
                       2;
    }
    built b = begin_model(in, how == SCALE_OF_INPUT ? 5 : 4, 0);
    write_attention(&b, how);
    return steps_of(&b, in, want, how == SCORES_READ ? 2 : 1, "attention");
}

Test(transformer_steps, attention_in_single_nodes_is_one_step_where_its_kernel_pays) {
    if (g_device != g_cpu) return;
    cr_assert_eq(attention_steps(DHOW_F32, AS_EXPORTED), 1);
    cr_assert_eq(attention_steps(DHOW_F16, AS_EXPORTED), 1);
    cr_assert_eq(attention_steps(DHOW_BF16, AS_EXPORTED), 1);
}

Test(transformer_steps, attention_that_is_something_else_stays_as_it_is_written) {
    cr_assert_gt(attention_steps(DHOW_F32, MASK_SCALED), 3);
    cr_assert_gt(attention_steps(DHOW_F32, SCORES_READ), 3);
    cr_assert_gt(attention_steps(DHOW_F32, SCALE_OF_INPUT), 3);
}
