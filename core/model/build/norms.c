/* SPDX-License-Identifier: Apache-2.0
 *
 * Group and RMS norm, dropout, and attention without parameters, in models.
 */
#include <inttypes.h>
#include <math.h>

#include "base/memory/size.h"
#include "model/build/build.h"

/* ---- norms ---- */

/* weight and perhaps bias have an element for each of x's extent at dim. */
static dhow_status check_rows(const dhow_model *m, const dhowi_build_step *s, int32_t dim,
                              uint32_t needed) {
    const dhowi_tensor_desc *x = &s->result[0];
    static const char *const names[] = {"x", "weight", "bias", "running_mean", "running_var"};
    char a[160], b[160];
    if (!dhowi_is_float(x->dtype) || x->rank <= dim || x->rank < 1)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: x is %s; it takes floats of rank %d or more",
                          s->function, dhowi_desc_text(x, a, sizeof a), dim < 0 ? 1 : dim + 1);
    const int64_t extent = x->shape[dim < 0 ? dim + x->rank : dim];
    for (uint32_t i = 1; i <= needed; i++) {
        DHOWI_TRY(dhowi_build_value(m, s->function, s->in[i]));
        const dhowi_tensor_desc *row = &m->values[s->in[i]].desc;
        if (row->rank == 1 && row->dtype == x->dtype && (extent < 0 || row->shape[0] == extent))
            continue;
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: x is %s, %s %s; it takes %s[%" PRId64
                          "], one for each of dimension "
                          "%d",
                          s->function, dhowi_desc_text(x, a, sizeof a), names[i],
                          dhowi_desc_text(row, b, sizeof b), dhow_dtype_name(x->dtype), extent,
                          dim);
    }
    return DHOW_OK;
}

dhow_status dhowi_build_batchnorm(dhow_model *m, const char *function, const int32_t in[5],
                                  float eps, dhow_model_value *out) {
    dhowi_build_step s;
    DHOWI_TRY(dhowi_step_begin(m, &s, function, "BatchNormalization", in, 5, out));
    DHOWI_TRY(check_rows(m, &s, 1, 4));
    dhowi_step_float(&s, "epsilon", eps);
    return dhowi_step_end(m, &s, out);
}

dhow_status dhowi_build_groupnorm(dhow_model *m, const char *function, const char *layer,
                                  const int32_t in[3], int64_t groups, float eps,
                                  dhow_model_value *out) {
    dhowi_build_step s;
    DHOWI_TRY(dhowi_step_begin(m, &s, function, "GroupNormalization", in, 3, out));
    DHOWI_TRY(check_rows(m, &s, 1, 2));
    const int64_t channels = m->values[in[1]].desc.shape[0];
    if (groups < 1 || channels % groups != 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: groups is %" PRId64 ", which does not divide %" PRId64 " channels",
                          function, groups, channels);
    s.layer = layer;
    dhowi_step_int(&s, "num_groups", groups);
    dhowi_step_float(&s, "epsilon", eps);
    return dhowi_step_end(m, &s, out);
}

dhow_status dhowi_build_rmsnorm(dhow_model *m, const char *function, const char *layer,
                                const int32_t in[2], float eps, dhow_model_value *out) {
    dhowi_build_step s;
    DHOWI_TRY(dhowi_step_begin(m, &s, function, "RMSNormalization", in, 2, out));
    DHOWI_TRY(check_rows(m, &s, -1, 1));
    s.layer = layer;
    dhowi_step_float(&s, "epsilon", eps);
    return dhowi_step_end(m, &s, out);
}

dhow_status dhow_model_groupnorm(dhow_model *m, const char *name, dhow_model_value x,
                                 int64_t groups, int64_t channels, float eps,
                                 dhow_model_value *out) {
    static const char function[] = "dhow_model_groupnorm";
    int32_t in[] = {x, -1, -1};
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    DHOWI_TRY(dhowi_build_value(m, function, x));
    DHOWI_TRY(dhowi_build_extent(function, "groups", groups));
    DHOWI_TRY(dhowi_build_extent(function, "channels", channels));
    const dhowi_tensor_desc row = {m->values[x].desc.dtype, 1, {channels}, 0};
    const dhowi_build_mark mark = dhowi_build_here(m);
    dhow_status status = dhowi_build_parameter(m, function, name, "weight", &row, 1, &in[1]);
    if (status == DHOW_OK)
        status = dhowi_build_parameter(m, function, name, "bias", &row, 0, &in[2]);
    if (status == DHOW_OK) status = dhowi_build_groupnorm(m, function, name, in, groups, eps, out);
    return status == DHOW_OK ? DHOW_OK : dhowi_build_undo(m, mark, status);
}

dhow_status dhow_model_rmsnorm(dhow_model *m, const char *name, dhow_model_value x,
                               int64_t features, float eps, dhow_model_value *out) {
    static const char function[] = "dhow_model_rmsnorm";
    int32_t in[] = {x, -1};
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    DHOWI_TRY(dhowi_build_value(m, function, x));
    DHOWI_TRY(dhowi_build_extent(function, "features", features));
    const dhowi_tensor_desc row = {m->values[x].desc.dtype, 1, {features}, 0};
    const dhowi_build_mark mark = dhowi_build_here(m);
    dhow_status status = dhowi_build_parameter(m, function, name, "weight", &row, 1, &in[1]);
    if (status == DHOW_OK) status = dhowi_build_rmsnorm(m, function, name, in, eps, out);
    return status == DHOW_OK ? DHOW_OK : dhowi_build_undo(m, mark, status);
}

/* ---- dropout ---- */

dhow_status dhowi_build_dropout(dhow_model *m, const char *function, const int32_t in[2], double p,
                                dhow_model_value *out) {
    const dhow_model_value x = in[0];
    const dhowi_operator *op = dhowi_layer_operator(DHOWI_LAYER_DROPOUT);
    dhowi_attrs attrs = {.number = p};
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    DHOWI_TRY(dhowi_build_value(m, function, x));
    const dhowi_tensor_desc y = m->values[x].desc;
    if (!dhowi_is_float(y.dtype))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: x is %s, which it does not take", function,
                          dhow_dtype_name(y.dtype));
    if (!(p >= 0 && p <= 1))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: p is %g; 0 to 1 is allowed", function, p);
    for (uint32_t i = 0; i < m->graph.node_count; i++) attrs.split.n += m->graph.nodes[i].op == op;
    return dhowi_build_node(m, op, NULL, in, in[1] >= 0 ? 2 : 1, &attrs, &y, out);
}

dhow_status dhow_model_dropout(dhow_model *m, dhow_model_value x, double p, dhow_model_value *out) {
    const int32_t in[] = {x, -1};
    return dhowi_build_dropout(m, "dhow_model_dropout", in, p, out);
}

/* ---- attention ---- */

static bool same(int64_t a, int64_t b) { return a == b || a < 0 || b < 0; }

/* Whether each of b heads serves as many of a. */
static bool shares(int64_t a, int64_t b) { return same(a, b) || (b > 0 && a % b == 0); }

/* query[..., l, e], key[..., s, e], value[..., s, v], mask that broadcasts to [..., l, s] */
static dhow_status attention_shape(const dhow_model *m, const char *function, const int32_t in[4],
                                   dhowi_tensor_desc *y) {
    const dhowi_tensor_desc *q = &m->values[in[0]].desc, *k = &m->values[in[1]].desc,
                            *v = &m->values[in[2]].desc;
    const int32_t r = q->rank;
    char a[160], b[160], c[160];
    bool fits = r >= 2 && k->rank == r && v->rank == r && dhowi_is_float(q->dtype) &&
                k->dtype == q->dtype && v->dtype == q->dtype;
    for (int32_t i = 0; fits && i < r - 2; i++)
        fits = same(k->shape[i], v->shape[i]) &&
               (i < r - 3 ? same(q->shape[i], k->shape[i]) : shares(q->shape[i], k->shape[i]));
    if (!fits || !same(q->shape[r - 1], k->shape[r - 1]) || !same(k->shape[r - 2], v->shape[r - 2]))
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: query is %s, key %s, value %s; it takes floats [..., l, e], "
                          "[..., s, e] and [..., s, v] with the same extents before; heads of "
                          "query, the extent before l, may be a multiple of those of key and value",
                          function, dhowi_desc_text(q, a, sizeof a),
                          dhowi_desc_text(k, b, sizeof b), dhowi_desc_text(v, c, sizeof c));
    *y = *q;
    y->shape[r - 1] = v->shape[r - 1];
    if (in[3] < 0) return DHOW_OK;
    const dhowi_tensor_desc *mask = &m->values[in[3]].desc;
    fits = mask->rank <= r && (mask->dtype == q->dtype || mask->dtype == DHOW_BOOL);
    for (int32_t i = 0; fits && i < mask->rank; i++) {
        const int32_t at = r - mask->rank + i;
        fits = mask->shape[i] == 1 ||
               same(mask->shape[i], at == r - 1 ? k->shape[r - 2] : q->shape[at]);
    }
    if (fits) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: mask is %s, query %s, key %s; it takes bool or %s that broadcasts to "
                      "[..., l, s]",
                      function, dhowi_desc_text(mask, a, sizeof a), dhowi_desc_text(q, b, sizeof b),
                      dhowi_desc_text(k, c, sizeof c), dhow_dtype_name(q->dtype));
}

dhow_status dhowi_build_attention(dhow_model *m, const char *function, const int32_t in[4],
                                  int32_t is_causal, double scale, dhow_model_value *out) {
    dhowi_tensor_desc y;
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    for (int i = 0; i < 4; i++) {
        if (i < 3 || in[i] >= 0) DHOWI_TRY(dhowi_build_value(m, function, in[i]));
    }
    DHOWI_TRY(attention_shape(m, function, in, &y));
    if (is_causal != 0 && in[3] >= 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: is_causal is a mask of its own; give one",
                          function);
    if (!isfinite(scale))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: scale is %g; 0 is 1 / sqrt(e)", function,
                          scale);
    const dhowi_attrs attrs = {.dim = is_causal != 0, .scalar = {dhow_scalar_f64(scale)}};
    return dhowi_build_node(m, dhowi_layer_operator(DHOWI_LAYER_DOT_ATTENTION), NULL, in, 4, &attrs,
                            &y, out);
}

dhow_status dhow_model_scaled_dot_product_attention(dhow_model *m, dhow_model_value query,
                                                    dhow_model_value key, dhow_model_value value,
                                                    dhow_model_value mask, int32_t is_causal,
                                                    double scale, dhow_model_value *out) {
    const int32_t in[] = {query, key, value, mask < 0 ? -1 : mask};
    return dhowi_build_attention(m, "dhow_model_scaled_dot_product_attention", in, is_causal, scale,
                                 out);
}
