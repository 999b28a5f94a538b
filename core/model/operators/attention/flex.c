/* SPDX-License-Identifier: Apache-2.0
 *
 * FlexAttention, a preview of ONNX: attention whose scores and weights go through graphs of the
 * node.
 */
#include <inttypes.h>
#include <math.h>

#include "base/memory/size.h"
#include "model/lower/products/products.h"
#include "model/operators/attention/attention.h"
#include "model/operators/shape/shape.h"

enum { QUERY, KEY, VALUE };
enum { OF_SCORES, OF_WEIGHTS }; /* the graphs; a frame's iteration is the next one */

static dhow_status read_inputs(dhowi_lowering *b, dhowi_attention *a) {
    static const char *const names[] = {"query", "key", "value"};
    int32_t *to[] = {&a->q, &a->k, &a->v};
    int64_t heads, shared;
    for (uint32_t i = QUERY; i <= VALUE; i++) {
        DHOWI_TRY(dhowi_expect_floats(b, i, names[i], 4));
        *to[i] = b->in[i];
    }
    DHOWI_TRY(dhowi_check_heads(b, a));
    DHOWI_TRY(dhowi_heads_of(b, a, &heads, &shared));
    const dhow_dtype own = dhowi_desc_at(b, a->q)->dtype;
    const int64_t depth = dhowi_desc_at(b, a->q)->shape[3],
                  type = dhowi_attr_int(b, "softmax_precision", 0);
    const double scale = (double)dhowi_attr_float(b, "scale", 0);
    a->scale = scale != 0 ? scale : 1 / sqrt((double)DHOWI_MAX(depth, (int64_t)1));
    a->precision = type != 0         ? dhowi_onnx_dtype((int32_t)type)
                   : own == DHOW_F64 ? DHOW_F64
                                     : DHOW_F32;
    if (a->precision == 0 || !dhowi_is_float(a->precision))
        return dhowi_fail(DHOW_UNSUPPORTED, "softmax_precision %" PRId64, type);
    return DHOW_OK;
}

/* x as the node's graph makes it anew, or as it is where there is none. */
static dhow_status modified(dhowi_lowering *b, dhowi_frame *f, int32_t *x) {
    const dhowi_node *node = b->node;
    const dhowi_subgraph *body = node->branch[f->iteration];
    if (body == NULL) return DHOW_OK;
    const dhowi_tensor_desc before = *dhowi_desc_at(b, *x);
    char s[160], t[160];
    int32_t out;
    if (body->input_count != 1 || body->output_count != 1)
        DHOWI_REFUSE("its graph has %u inputs and %u outputs, one of each is wanted",
                     body->input_count, body->output_count);
    if (!f->inside) {
        DHOWI_TRY(dhowi_enter_body(b, body));
        b->refs[body->inputs[0]] = *x;
        f->inside = true;
    }
    DHOWI_TRY(dhowi_lower_branch(b, body));
    b->node = node;
    f->inside = false;
    DHOWI_TRY(dhowi_ref_of(b, body->outputs[0], &out));
    const dhowi_tensor_desc after = *dhowi_desc_at(b, out);
    if (after.dtype != before.dtype ||
        !dhowi_shape_equal(after.rank, after.shape, before.rank, before.shape))
        DHOWI_REFUSE("its graph makes %s of %s", dhowi_desc_text(&after, s, sizeof s),
                     dhowi_desc_text(&before, t, sizeof t));
    *x = out;
    return DHOW_OK;
}

/* Scores before their softmax, in the precision of it. */
static dhow_status begin(dhowi_lowering *b, const dhowi_attention *a, dhowi_frame **f) {
    int32_t scores;
    DHOWI_TRY(dhowi_scaled_scores(b, a, &scores));
    DHOWI_TRY(dhowi_cast_to(b, scores, a->precision, &scores));
    DHOWI_TRY(dhowi_open_frame(b, f));
    (*f)->in[0] = scores;
    return DHOW_OK;
}

dhow_status dhowi_lower_flex_attention(dhowi_lowering *b) {
    const dhowi_node *node = b->node;
    dhowi_frame *f = dhowi_find_frame(b, node);
    dhowi_attention a = {0};
    int64_t heads, shared;
    int32_t p, v;
    DHOWI_TRY(read_inputs(b, &a));
    const dhow_dtype own = dhowi_desc_at(b, a.v)->dtype;
    if (node->branch[OF_SCORES] == NULL && node->branch[OF_WEIGHTS] == NULL)
        return dhowi_attend(b, &a, &b->out[0]);
    const int32_t value = b->in[VALUE];
    DHOWI_TRY(dhowi_heads_of(b, &a, &heads, &shared));
    if (f == NULL) DHOWI_TRY(begin(b, &a, &f));
    if (f->iteration == OF_SCORES) {
        DHOWI_TRY(modified(b, f, &f->in[0]));
        const dhowi_tensor_desc square = *dhowi_desc_at(b, f->in[0]);
        const dhowi_attrs last = {.dim = 3};
        DHOWI_TRY(dhowi_emit(b, DHOWI_OP_softmax, f->in, 1, &last, &square, &f->in[0]));
        f->iteration = OF_WEIGHTS;
    }
    DHOWI_TRY(modified(b, f, &f->in[0]));
    DHOWI_TRY(dhowi_with_heads(b, f->in[0], shared, &p));
    dhowi_close_frame(b);
    DHOWI_TRY(dhowi_cast_to(b, value, a.precision, &v));
    DHOWI_TRY(dhowi_product(b, p, v, -1, &p));
    DHOWI_TRY(dhowi_with_heads(b, p, heads, &p));
    b->out_count = 1;
    return dhowi_cast_to(b, p, own, &b->out[0]);
}
