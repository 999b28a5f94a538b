/* SPDX-License-Identifier: Apache-2.0
 *
 * Caches of keys and values in models that are built, see core/model/plan/caches.c.
 */
#include <math.h>

#include "model/build/build.h"

static bool same(int64_t a, int64_t b) { return a == b || a < 0 || b < 0; }

/* One number for each sequence. */
static dhow_status check_numbers(const dhow_model *m, const char *function, const char *name,
                                 dhow_model_value numbers, int64_t batch) {
    char text[160];
    DHOWI_TRY(dhowi_build_value(m, function, numbers));
    const dhowi_tensor_desc *n = &m->values[numbers].desc;
    if (n->dtype == DHOW_I64 && n->rank == 1 && same(n->shape[0], batch)) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: %s is %s; it takes i64 with one number for each sequence", function,
                      name, dhowi_desc_text(n, text, sizeof text));
}

dhow_status dhow_model_update_cache(dhow_model *m, dhow_model_value cache, dhow_model_value update,
                                    dhow_model_value start, dhow_model_value *out) {
    static const char function[] = "dhow_model_update_cache";
    const int32_t in[] = {cache, update, start};
    dhowi_build_step s;
    char a[160], b[160];
    DHOWI_TRY(dhowi_step_begin(m, &s, function, "TensorScatter", in, 3, out));
    DHOWI_TRY(dhowi_build_value(m, function, update));
    const dhowi_tensor_desc *own = &s.result[0], *u = &m->values[update].desc;
    bool fits = own->rank >= 3 && u->rank == own->rank && u->dtype == own->dtype;
    for (int32_t i = 0; fits && i < own->rank; i++)
        fits = same(u->shape[i], own->shape[i]) ||
               (i == own->rank - 2 && u->shape[i] <= own->shape[i]);
    if (!fits)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: cache is %s, update %s; it takes [batch, ..., room, features] and "
                          "no more steps than there is room for",
                          function, dhowi_desc_text(own, a, sizeof a),
                          dhowi_desc_text(u, b, sizeof b));
    DHOWI_TRY(check_numbers(m, function, "start", start, own->shape[0]));
    dhowi_step_int(&s, "axis", -2);
    return dhowi_step_end(m, &s, out);
}

/* query[batch, heads, l, e], key[batch, shared, room, e], value[batch, shared, room, v] */
static dhow_status check_attention(const dhow_model *m, const char *function, const int32_t in[3]) {
    const dhowi_tensor_desc *q = &m->values[in[0]].desc, *k = &m->values[in[1]].desc,
                            *v = &m->values[in[2]].desc;
    char a[160], b[160], c[160];
    const bool types = dhowi_is_float(q->dtype) && k->dtype == q->dtype && v->dtype == q->dtype;
    if (types && q->rank == 4 && k->rank == 4 && v->rank == 4 && same(q->shape[0], k->shape[0]) &&
        same(k->shape[0], v->shape[0]) && same(k->shape[1], v->shape[1]) &&
        same(k->shape[2], v->shape[2]) && same(q->shape[3], k->shape[3]) &&
        (same(q->shape[1], k->shape[1]) || (k->shape[1] > 0 && q->shape[1] % k->shape[1] == 0)))
        return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: query is %s, key %s, value %s; it takes floats [batch, heads, l, e], "
                      "[batch, h, room, e] and [batch, h, room, v], heads being a multiple of h",
                      function, dhowi_desc_text(q, a, sizeof a), dhowi_desc_text(k, b, sizeof b),
                      dhowi_desc_text(v, c, sizeof c));
}

dhow_status dhow_model_cached_attention(dhow_model *m, dhow_model_value query, dhow_model_value key,
                                        dhow_model_value value, dhow_model_value lengths,
                                        int32_t is_causal, double scale, double softcap,
                                        dhow_model_value *out) {
    static const char function[] = "dhow_model_cached_attention";
    const int32_t in[] = {query, key, value, -1, -1, -1, lengths};
    dhowi_build_step s;
    DHOWI_TRY(dhowi_build_begin(m, function, out));
    for (int i = 0; i < 3; i++) DHOWI_TRY(dhowi_build_value(m, function, in[i]));
    DHOWI_TRY(check_attention(m, function, in));
    DHOWI_TRY(check_numbers(m, function, "lengths", lengths, m->values[query].desc.shape[0]));
    if (!isfinite(scale) || scale < 0 || !isfinite(softcap) || softcap < 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: scale is %g, softcap %g; 0 is 1 / sqrt(e), and no cap", function,
                          scale, softcap);
    DHOWI_TRY(dhowi_step_begin(m, &s, function, "Attention", in, 7, out));
    s.result[0].shape[3] = m->values[value].desc.shape[3];
    if (is_causal != 0) dhowi_step_int(&s, "is_causal", 1);
    if (scale > 0) dhowi_step_float(&s, "scale", (float)scale);
    if (softcap > 0) dhowi_step_float(&s, "softcap", (float)softcap);
    return dhowi_step_end(m, &s, out);
}
