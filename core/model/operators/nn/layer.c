/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers of the builder that are more than one step.
 */
#include "model/operators/nn/layer.h"

#include <math.h>

#include "base/memory/size.h"
#include "model/operators/attention/attention.h"
#include "model/operators/math/math.h"
#include "model/operators/nn/nn.h"

/* ---- embedding ---- */

static dhow_status lower_embedding(dhowi_lowering *b) {
    return dhowi_gather_along(b, b->in[0], 0, b->in[1], &b->out[0]);
}

/* ---- arranging, choosing, reducing ---- */

static dhow_status lower_reshape(dhowi_lowering *b) {
    const dhowi_axis_split *to = &b->node->attrs->split;
    const int64_t count = dhowi_count_of(dhowi_desc_at(b, b->in[0]));
    int64_t shape[DHOW_MAX_RANK], known = 1;
    int32_t open = -1;
    for (int32_t i = 0; i < to->rank; i++) {
        shape[i] = to->shape[i];
        if (shape[i] < 0) open = i;
        if (shape[i] >= 0 && !dhowi_mul_i64(known, shape[i], &known)) known = -1;
    }
    if (open >= 0 && known > 0 && count % known == 0) shape[open] = count / known;
    if (known < 0 || (open >= 0 ? shape[open] < 0 : known != count))
        DHOWI_REFUSE("%lld elements do not fit the shape", (long long)count);
    return dhowi_reshape(b, b->in[0], to->rank, shape, &b->out[0]);
}

static dhow_status lower_permute(dhowi_lowering *b) {
    int32_t order[DHOW_MAX_RANK];
    for (int32_t i = 0; i < DHOW_MAX_RANK; i++) order[i] = (int32_t)b->node->attrs->split.shape[i];
    return dhowi_permute(b, b->in[0], order, &b->out[0]);
}

static dhow_status lower_cat(dhowi_lowering *b) {
    return dhowi_concat(b, b->in, b->in_count, b->node->attrs->dim, &b->out[0]);
}

static dhow_status lower_where(dhowi_lowering *b) {
    return dhowi_select(b, b->in[0], b->in[1], b->in[2], &b->out[0]);
}

static dhow_status lower_clip(dhowi_lowering *b) {
    const dhow_scalar *ends = b->node->attrs->scalar;
    return dhowi_map_one(b, DHOWI_MAP_CLIP, ends[0].value.f64, ends[1].value.f64, b->in[0],
                         &b->out[0]);
}

/* The marked axes of a node's input, and its result. */
static dhowi_tensor_desc reduced(const dhowi_lowering *b, bool *axes) {
    const dhowi_axis_split *r = &b->node->attrs->split;
    const dhowi_tensor_desc *x = dhowi_desc_at(b, b->in[0]);
    dhowi_tensor_desc y = {.dtype = x->dtype};
    for (int32_t i = 0; i < x->rank; i++) {
        axes[i] = r->strides[i] != 0;
        if (!axes[i] || r->flag[0] != 0) y.shape[y.rank++] = axes[i] ? 1 : x->shape[i];
    }
    return y;
}

static dhow_status lower_reduce(dhowi_lowering *b) {
    bool axes[DHOW_MAX_RANK];
    const dhowi_tensor_desc y = reduced(b, axes);
    DHOWI_TRY(dhowi_reduce(b, (int)b->node->attrs->split.count, b->in[0], axes, &b->out[0]));
    return dhowi_reshape(b, b->out[0], y.rank, y.shape, &b->out[0]);
}

/* sum of (x - mean)^2 / max(0, n - correction), in two passes; f16 and bf16 in f32 */
static dhow_status lower_spread(dhowi_lowering *b) {
    const dhowi_attrs *a = b->node->attrs;
    const dhowi_tensor_desc x = *dhowi_desc_at(b, b->in[0]);
    bool axes[DHOW_MAX_RANK];
    const dhowi_tensor_desc y = reduced(b, axes);
    double n = 1;
    int32_t apart, mean;
    for (int32_t i = 0; i < x.rank; i++) n *= axes[i] ? (double)x.shape[i] : 1;
    if (n == 0) return dhowi_filled(b, &y, (double)NAN, &b->out[0]);
    const double divisor = fmax(0, n - a->number);
    DHOWI_TRY(dhowi_cast_to(b, b->in[0], x.dtype == DHOW_F64 ? DHOW_F64 : DHOW_F32, &apart));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_MEAN, apart, axes, &mean));
    DHOWI_TRY(dhowi_map_two(b, DHOWI_MAP_SUB, apart, mean, &apart));
    DHOWI_TRY(dhowi_reduce(b, DHOWI_SUM_SQUARE, apart, axes, &b->out[0]));
    DHOWI_TRY(dhowi_map_number(b, DHOWI_MAP_DIV, b->out[0], divisor, &b->out[0]));
    if (a->split.count != 0)
        DHOWI_TRY(dhowi_map_one(b, DHOWI_MAP_SQRT, 0, 0, b->out[0], &b->out[0]));
    DHOWI_TRY(dhowi_reshape(b, b->out[0], y.rank, y.shape, &b->out[0]));
    return dhowi_cast_to(b, b->out[0], x.dtype, &b->out[0]);
}

static dhow_status lower_narrow(dhowi_lowering *b) {
    const dhowi_attrs *a = b->node->attrs;
    const int64_t extent = dhowi_desc_at(b, b->in[0])->shape[a->dim];
    if (a->split.count > extent - a->split.n)
        DHOWI_REFUSE("%lld indices from %lld on, of an extent of %lld", (long long)a->split.count,
                     (long long)a->split.n, (long long)extent);
    return dhowi_narrow(b, b->in[0], a->dim, a->split.n, a->split.count, 1, &b->out[0]);
}

static dhow_status lower_map(dhowi_lowering *b) {
    DHOWI_TRY(dhowi_map(b, &b->node->attrs->program, b->in, b->in_count, &b->out[0]));
    if (b->items[b->in[0]].half && b->node->attrs->dim == DHOW_F32) return DHOW_OK;
    return dhowi_cast_to(b, b->out[0], (dhow_dtype)b->node->attrs->dim, &b->out[0]);
}

static dhow_status lower_cast(dhowi_lowering *b) {
    return dhowi_cast_to(b, b->in[0], (dhow_dtype)b->node->attrs->dim, &b->out[0]);
}

static dhow_status lower_dropout(dhowi_lowering *b) {
    b->out[0] = b->in[0];
    if (!dhowi_given(b, 1)) return DHOW_OK;
    return dhowi_dropout(b, b->in[0], b->in[1], b->node->attrs, &b->out[0]);
}

/* ---- batch norm ---- */

static dhow_status lower_batchnorm(dhowi_lowering *b) {
    return dhowi_batch_norm(b, dhowi_norm_eps(b), &b->out[0]);
}

/* ---- attention ---- */

/* y = x w^T + bias */
static dhow_status linear(dhowi_lowering *b, int32_t x, int32_t w, int32_t bias, int32_t *out) {
    dhowi_tensor_desc desc = *dhowi_desc_at(b, x);
    const int32_t in[] = {x, w, bias};
    static const dhowi_attrs none;
    desc.shape[desc.rank - 1] = dhowi_desc_at(b, w)->shape[0];
    return dhowi_emit(b, DHOWI_OP_linear, in, 3, &none, &desc, out);
}

/* Columns first .. first + width - 1 of rows x[batch, steps, ...], as [batch, head, step, depth].
 */
static dhow_status heads_of(dhowi_lowering *b, int32_t x, int64_t first, int64_t width,
                            int64_t heads, int32_t *out) {
    const dhowi_item item = b->items[x];
    const int64_t *e = item.desc.shape, row = e[2], depth = width / heads;
    const int64_t shape[] = {e[0], heads, e[1], depth};
    const int64_t strides[] = {e[1] * row, depth, row, 1};
    return dhowi_view(b, x, 4, shape, strides, item.offset + first, out);
}

/* One of the three projections by its rows of in_proj_weight. */
static dhow_status project(dhowi_lowering *b, const int32_t *in, int part, int64_t width,
                           int32_t *out) {
    int32_t w, bias = in[5];
    DHOWI_TRY(dhowi_narrow(b, in[4], 0, part * width, width, 1, &w));
    if (bias >= 0) DHOWI_TRY(dhowi_narrow(b, bias, 0, part * width, width, 1, &bias));
    return linear(b, in[part], w, bias, out);
}

static dhow_status projections(dhowi_lowering *b, const int32_t *in, int64_t width,
                               int32_t parts[3], int64_t first[3]) {
    bool same = in[0] == in[1] && in[0] == in[2];
    if (same) DHOWI_TRY(linear(b, in[0], in[4], in[5], &parts[0]));
    for (int i = 0; i < 3; i++) {
        first[i] = same ? i * width : 0;
        if (same) parts[i] = parts[0];
        if (!same) DHOWI_TRY(project(b, in, i, width, &parts[i]));
    }
    return DHOW_OK;
}

static dhow_status check_attention(dhowi_lowering *b, int64_t width) {
    const dhowi_tensor_desc *q = dhowi_desc_at(b, b->in[0]), *k = dhowi_desc_at(b, b->in[1]),
                            *v = dhowi_desc_at(b, b->in[2]);
    if (q->rank != 3 || k->rank != 3 || v->rank != 3 || q->shape[2] != width ||
        k->shape[2] != width || v->shape[2] != width || q->shape[0] != k->shape[0] ||
        q->shape[0] != v->shape[0] || k->shape[1] != v->shape[1])
        DHOWI_REFUSE("query, key and value do not fit one another");
    return DHOW_OK;
}

dhow_status dhowi_dot_attention_of(dhowi_lowering *b, const int32_t in[4], dhowi_attention *a) {
    const dhowi_attrs *n = b->node->attrs;
    const dhowi_tensor_desc q = *dhowi_desc_at(b, in[0]), k = *dhowi_desc_at(b, in[1]);
    const double given = n->scalar[0].value.f64, depth = (double)q.shape[q.rank - 1];
    *a = (dhowi_attention){
        .q = in[0], .k = in[1], .v = in[2], .scale = given != 0 ? given : 1 / sqrt(fmax(depth, 1))};
    if (n->dim != 0) {
        DHOWI_TRY(dhowi_rows(b, 0, q.shape[q.rank - 2], &a->masks[0]));
        DHOWI_TRY(dhowi_window(b, a->masks[0], k.shape[k.rank - 2], -1, 0, &a->masks[0]));
        a->mask_count = 1;
    }
    if (in[3] >= 0) a->masks[a->mask_count++] = in[3];
    return DHOW_OK;
}

static dhow_status lower_dot_attention(dhowi_lowering *b) {
    const int32_t in[] = {b->in[0], b->in[1], b->in[2], dhowi_given(b, 3) ? b->in[3] : -1};
    dhowi_attention a;
    DHOWI_TRY(dhowi_dot_attention_of(b, in, &a));
    return dhowi_attend(b, &a, &b->out[0]);
}

dhow_status dhowi_attention_of(dhowi_lowering *b, const int32_t in[8], dhowi_attention *a) {
    const int64_t width = dhowi_desc_at(b, in[6])->shape[1], heads = b->node->attrs->dim;
    int32_t parts[3];
    int64_t first[3];
    *a = (dhowi_attention){.scale = 1 / sqrt((double)(width / heads))};
    DHOWI_TRY(projections(b, in, width, parts, first));
    DHOWI_TRY(heads_of(b, parts[0], first[0], width, heads, &a->q));
    DHOWI_TRY(heads_of(b, parts[1], first[1], width, heads, &a->k));
    DHOWI_TRY(heads_of(b, parts[2], first[2], width, heads, &a->v));
    if (in[3] >= 0) a->masks[a->mask_count++] = in[3];
    return DHOW_OK;
}

static dhow_status lower_attention(dhowi_lowering *b) {
    dhowi_attention a;
    int32_t v;
    DHOWI_TRY(check_attention(b, dhowi_desc_at(b, b->in[6])->shape[1]));
    DHOWI_TRY(dhowi_attention_of(b, b->in, &a));
    DHOWI_TRY(dhowi_attend(b, &a, &v));
    DHOWI_TRY(dhowi_heads_together(b, v, &v));
    return linear(b, v, b->in[6], b->in[7], &b->out[0]);
}

/* ---- LSTM ---- */

/* PyTorch's gates are i f g o, ONNX's are i o f c; rows of [4 hidden, ...] change places. */
static dhow_status reordered(dhowi_lowering *b, int32_t x, int32_t *out) {
    static const int from[] = {0, 3, 1, 2};
    const int64_t hidden = dhowi_desc_at(b, x)->shape[0] / 4;
    int32_t parts[4];
    for (int i = 0; i < 4; i++)
        DHOWI_TRY(dhowi_narrow(b, x, 0, from[i] * hidden, hidden, 1, &parts[i]));
    return dhowi_concat(b, parts, 4, 0, out);
}

/* Weights of all directions as ONNX has them: [directions, 4 hidden, ...]. */
static dhow_status stacked(dhowi_lowering *b, int first, int directions, int32_t *out) {
    int32_t parts[2];
    for (int d = 0; d < directions; d++) {
        DHOWI_TRY(reordered(b, b->in[first + 4 * d], &parts[d]));
        const dhowi_tensor_desc w = *dhowi_desc_at(b, parts[d]);
        const int64_t shape[] = {1, w.shape[0], w.rank > 1 ? w.shape[1] : 0};
        DHOWI_TRY(dhowi_reshape(b, parts[d], w.rank + 1, shape, &parts[d]));
    }
    return dhowi_concat(b, parts, (uint32_t)directions, 0, out);
}

dhow_status dhowi_lstm_of_layer(dhowi_lowering *b, int32_t out[4]) {
    static const int32_t steps_first[] = {1, 0, 2};
    const int directions = b->in_count > 5 ? 2 : 1;
    int32_t bias[2];
    out[3] = -1;
    if (dhowi_desc_at(b, b->in[0])->rank != 3) DHOWI_REFUSE("x does not have three dimensions");
    DHOWI_TRY(dhowi_permute(b, b->in[0], steps_first, &out[0]));
    DHOWI_TRY(stacked(b, 1, directions, &out[1]));
    DHOWI_TRY(stacked(b, 2, directions, &out[2]));
    if (b->in[3] < 0) return DHOW_OK;
    DHOWI_TRY(stacked(b, 3, directions, &bias[0]));
    DHOWI_TRY(stacked(b, 4, directions, &bias[1]));
    return dhowi_concat(b, bias, 2, 1, &out[3]);
}

static dhow_status lower_lstm(dhowi_lowering *b) {
    static const int32_t batch_first[] = {2, 0, 1, 3};
    int32_t in[4], *own = b->in, y;
    DHOWI_TRY(dhowi_lstm_of_layer(b, in));
    b->in = in;
    b->in_count = 4;
    dhow_status status = dhowi_lower_lstm(b); /* y[steps, directions, batch, hidden] */
    b->in = own;
    DHOWI_TRY(status);
    DHOWI_TRY(dhowi_permute(b, b->out[0], batch_first, &y));
    const dhowi_tensor_desc s = *dhowi_desc_at(b, y);
    const int64_t shape[] = {s.shape[0], s.shape[1], s.shape[2] * s.shape[3]};
    return dhowi_reshape(b, y, 3, shape, &b->out[0]);
}

/* ---- the layers ---- */

static const struct {
    dhowi_operator op;
    dhowi_op_id rows[4];
    uint32_t count;
} k_layers[] = {
    [DHOWI_LAYER_EMBEDDING] = {{.name = "Embedding",
                                .since = 1,
                                .until = 1,
                                .lower = lower_embedding,
                                .least = 2,
                                .most = 2},
                               {DHOWI_OP_gather_axis},
                               1},
    [DHOWI_LAYER_BATCHNORM] = {{.name = "BatchNorm",
                                .since = 1,
                                .until = 1,
                                .lower = lower_batchnorm,
                                .least = 5,
                                .most = 5,
                                .half = DHOWI_HALF_FOLLOWS,
                                .whole = 0x1e},
                               {DHOWI_OP_map},
                               1},
    [DHOWI_LAYER_BATCHNORM_TRAINING] = {{.name = "BatchNorm",
                                         .since = 1,
                                         .until = 1,
                                         .lower = dhowi_lower_batch_norm_training,
                                         .least = 5,
                                         .most = 5},
                                        {DHOWI_OP_reduce_mean, DHOWI_OP_map},
                                        2},
    [DHOWI_LAYER_ATTENTION] = {{.name = "MultiheadAttention",
                                .since = 1,
                                .until = 1,
                                .lower = lower_attention,
                                .least = 3,
                                .most = 8,
                                .half = DHOWI_HALF_COMPUTES,
                                .masks = 1u << 3},
                               {DHOWI_OP_linear, DHOWI_OP_matmul, DHOWI_OP_map, DHOWI_OP_softmax},
                               4},
    [DHOWI_LAYER_RESHAPE] = {{.name = "Reshape",
                              .since = 1,
                              .until = 1,
                              .lower = lower_reshape,
                              .least = 1,
                              .most = 1,
                              .half = DHOWI_HALF_FOLLOWS},
                             {DHOWI_OP_copy},
                             1},
    [DHOWI_LAYER_PERMUTE] = {{.name = "Permute",
                              .since = 1,
                              .until = 1,
                              .lower = lower_permute,
                              .least = 1,
                              .most = 1,
                              .half = DHOWI_HALF_FOLLOWS},
                             {DHOWI_OP_copy},
                             1},
    [DHOWI_LAYER_CAT] = {{.name = "Cat",
                          .since = 1,
                          .until = 1,
                          .lower = lower_cat,
                          .least = 1,
                          .most = INT32_MAX,
                          .half = DHOWI_HALF_FOLLOWS},
                         {DHOWI_OP_copy},
                         1},
    [DHOWI_LAYER_WHERE] = {{.name = "Where",
                            .since = 1,
                            .until = 1,
                            .lower = lower_where,
                            .least = 3,
                            .most = 3,
                            .half = DHOWI_HALF_FOLLOWS},
                           {DHOWI_OP_copy},
                           1},
    [DHOWI_LAYER_CLIP] = {{.name = "Clip",
                           .since = 1,
                           .until = 1,
                           .lower = lower_clip,
                           .least = 1,
                           .most = 1,
                           .half = DHOWI_HALF_FOLLOWS},
                          {DHOWI_OP_map},
                          1},
    [DHOWI_LAYER_REDUCE] =
        {{.name = "Reduce", .since = 1, .until = 1, .lower = lower_reduce, .least = 1, .most = 1},
         {DHOWI_OP_reduce_sum},
         1},
    [DHOWI_LAYER_SPREAD] =
        {{.name = "Variance", .since = 1, .until = 1, .lower = lower_spread, .least = 1, .most = 1},
         {DHOWI_OP_reduce_mean, DHOWI_OP_reduce_sum, DHOWI_OP_map},
         3},
    [DHOWI_LAYER_NARROW] = {{.name = "Narrow",
                             .since = 1,
                             .until = 1,
                             .lower = lower_narrow,
                             .least = 1,
                             .most = 1,
                             .half = DHOWI_HALF_FOLLOWS},
                            {DHOWI_OP_copy},
                            1},
    [DHOWI_LAYER_MAP] = {{.name = "Map",
                          .since = 1,
                          .until = 1,
                          .lower = lower_map,
                          .least = 1,
                          .most = DHOWI_MAP_OPERANDS,
                          .half = DHOWI_HALF_FOLLOWS},
                         {DHOWI_OP_map},
                         1},
    [DHOWI_LAYER_DOT_ATTENTION] = {{.name = "ScaledDotProductAttention",
                                    .since = 1,
                                    .until = 1,
                                    .lower = lower_dot_attention,
                                    .least = 3,
                                    .most = 4,
                                    .half = DHOWI_HALF_COMPUTES,
                                    .masks = 1u << 3},
                                   {DHOWI_OP_matmul, DHOWI_OP_map, DHOWI_OP_softmax},
                                   3},
    [DHOWI_LAYER_CAST] =
        {{.name = "Cast", .since = 1, .until = 1, .lower = lower_cast, .least = 1, .most = 1},
         {DHOWI_OP_copy},
         1},
    [DHOWI_LAYER_DROPOUT] = {{.name = "Dropout",
                              .since = 1,
                              .until = 1,
                              .lower = lower_dropout,
                              .least = 1,
                              .most = 2,
                              .half = DHOWI_HALF_FOLLOWS},
                             {DHOWI_OP_dropout},
                             1},
    [DHOWI_LAYER_LSTM] =
        {{.name = "LSTM", .since = 1, .until = 1, .lower = lower_lstm, .least = 3, .most = 9},
         {DHOWI_OP_matmul, DHOWI_OP_copy, DHOWI_OP_lstm_cell},
         3},
    [DHOWI_LAYER_CTC] = {{.name = "CTCLoss",
                          .since = 1,
                          .until = 1,
                          .lower = dhowi_lower_ctc,
                          .least = 2,
                          .most = 2},
                         {DHOWI_OP_map, DHOWI_OP_copy, DHOWI_OP_gather_elements},
                         3}};

const dhowi_operator *dhowi_layer_operator(dhowi_layer_kind kind) { return &k_layers[kind].op; }

const dhowi_op_id *dhowi_node_rows(const dhowi_node *node, uint32_t *count) {
    for (size_t i = 0; i < DHOWI_COUNT(k_layers); i++) {
        if (node->op != &k_layers[i].op) continue;
        *count = k_layers[i].count;
        return k_layers[i].rows;
    }
    *count = 1;
    return &node->row;
}
