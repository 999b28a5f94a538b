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
    cr_assert_eq(steps_of(&b, in, want, 1, "pad"), 3, "a fill, a copy, a map");
}
