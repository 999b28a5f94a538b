/* SPDX-License-Identifier: Apache-2.0 */
#include "network.h"

#include <stdio.h>
#include <string.h>

#include "generate.h"

/* ---- blocks ---- */

/* x[n, context, width] as [n, heads, context, features of a head] */
static dhow_status by_heads(dhow_model *m, dhow_model_value x, const generate_size *size,
                            dhow_model_value *out) {
    const int64_t heads = size->width / GENERATE_HEAD_FEATURES;
    dhow_status status =
        dhow_model_reshape(m, x, DHOW_SHAPE(-1, size->context, heads, GENERATE_HEAD_FEATURES), out);
    return status == DHOW_OK ? dhow_model_transpose(m, *out, 1, 2, out) : status;
}

/* Each byte looks at those up to itself. */
static dhow_status attend(dhow_model *m, dhow_model_value x, const generate_size *size,
                          dhow_model_value *out) {
    const int64_t width = size->width;
    dhow_model_value q, k, v, y;
    dhow_status status;
    TRY(dhow_model_linear(m, "query", x, width, width, 1, &q));
    TRY(dhow_model_linear(m, "key", x, width, width, 1, &k));
    TRY(dhow_model_linear(m, "value", x, width, width, 1, &v));
    TRY(by_heads(m, q, size, &q));
    TRY(by_heads(m, k, size, &k));
    TRY(by_heads(m, v, size, &v));
    TRY(dhow_model_scaled_dot_product_attention(m, q, k, v, -1, 1, 0, &y));
    TRY(dhow_model_transpose(m, y, 1, 2, &y));
    TRY(dhow_model_reshape(m, y, DHOW_SHAPE(-1, size->context, width), &y));
    TRY(dhow_model_linear(m, "out", y, width, width, 1, out));
cleanup:
    return status;
}

static dhow_status think(dhow_model *m, dhow_model_value x, int64_t width, dhow_model_value *out) {
    dhow_model_value h;
    dhow_status status;
    TRY(dhow_model_linear(m, "up", x, width, 4 * width, 1, &h));
    TRY(dhow_model_gelu(m, h, &h));
    TRY(dhow_model_linear(m, "down", h, 4 * width, width, 1, out));
cleanup:
    return status;
}

static dhow_status block(dhow_model *m, dhow_model_value x, const generate_size *size,
                         dhow_model_value *out) {
    const int64_t width = size->width;
    dhow_model_value h;
    dhow_status status;
    TRY(dhow_model_layernorm(m, "norm1", x, width, 1e-5F, &h));
    TRY(attend(m, h, size, &h));
    TRY(dhow_model_add(m, x, h, &x));
    TRY(dhow_model_layernorm(m, "norm2", x, width, 1e-5F, &h));
    TRY(think(m, h, width, &h));
    TRY(dhow_model_add(m, x, h, out));
cleanup:
    return status;
}

/* From tokens to the norm before the last layer. */
static dhow_status body(dhow_model *m, dhow_model_value tokens, const generate_size *size,
                        dhow_model_value *out) {
    dhow_model_value x, place;
    char name[32];
    dhow_status status;
    TRY(dhow_model_embedding(m, "token", tokens, GENERATE_BYTES, size->width, DHOW_F32, &x));
    TRY(dhow_model_parameter(m, "position.weight", DHOW_F32, DHOW_SHAPE(size->context, size->width),
                             &place));
    TRY(dhow_model_add(m, x, place, &x));
    for (int64_t i = 0; i < size->layers; i++) {
        (void)snprintf(name, sizeof name, "layers.%lld", (long long)i);
        TRY(dhow_model_begin_scope(m, name));
        TRY(block(m, x, size, &x));
        TRY(dhow_model_end_scope(m));
    }
    TRY(dhow_model_layernorm(m, "norm", x, size->width, 1e-5F, out));
cleanup:
    return status;
}

/* ---- networks ---- */

dhow_status generate_network_to_train(dhow_context *context, const generate_size *size,
                                      dhow_model **out) {
    dhow_model *m = NULL;
    dhow_model_value x;
    dhow_status status;
    TRY(dhow_model_create(context, &m));
    TRY(dhow_model_input(m, "tokens", DHOW_I64, DHOW_SHAPE(-1, size->context), &x));
    TRY(body(m, x, size, &x));
    TRY(dhow_model_linear(m, "head", x, size->width, GENERATE_BYTES, 1, &x));
    TRY(dhow_model_transpose(m, x, 1, 2, &x));
    TRY(dhow_model_output(m, "logits", x));
    *out = m;
    return DHOW_OK;
cleanup:
    dhow_model_release(m);
    return status;
}

dhow_status generate_network_to_run(dhow_context *context, const generate_size *size,
                                    dhow_model **out) {
    dhow_model *m = NULL;
    dhow_model_value x, last;
    dhow_status status;
    TRY(dhow_model_create(context, &m));
    TRY(dhow_model_input(m, "tokens", DHOW_I64, DHOW_SHAPE(1, size->context), &x));
    TRY(dhow_model_input(m, "last", DHOW_I64, DHOW_SHAPE(1), &last));
    TRY(body(m, x, size, &x));
    TRY(dhow_model_index_select(m, x, 1, last, &x));
    TRY(dhow_model_reshape(m, x, DHOW_SHAPE(1, size->width), &x));
    TRY(dhow_model_linear(m, "head", x, size->width, GENERATE_BYTES, 1, &x));
    TRY(dhow_model_output(m, "logits", x));
    *out = m;
    return DHOW_OK;
cleanup:
    dhow_model_release(m);
    return status;
}

/* ---- sizes ---- */

static int64_t extent_of(const dhow_safetensors_entry *e, const char *name, int32_t dim) {
    return strcmp(e->name, name) == 0 && e->rank == 2 ? e->shape[dim] : 0;
}

dhow_status generate_size_of(dhow_context *context, const char *path, generate_size *out) {
    dhow_safetensors *file;
    dhow_safetensors_entry e = DHOW_INIT(dhow_safetensors_entry);
    int64_t bytes = 0;
    *out = (generate_size){.layers = 0};
    dhow_status status = dhow_safetensors_open(context, path, &file);
    for (uint32_t i = 0; status == DHOW_OK && i < dhow_safetensors_count(file); i++) {
        status = dhow_safetensors_at(file, i, &e);
        if (status != DHOW_OK) break;
        bytes += extent_of(&e, "token.weight", 0);
        out->width += extent_of(&e, "token.weight", 1);
        out->context += extent_of(&e, "position.weight", 0);
        long long layer;
        if (sscanf(e.name, "layers.%4lld.", &layer) == 1 && layer >= out->layers)
            out->layers = layer + 1;
    }
    dhow_safetensors_close(file);
    if (status != DHOW_OK) return status;
    if (bytes == GENERATE_BYTES && out->layers > 0 && out->width > 0 &&
        out->width % GENERATE_HEAD_FEATURES == 0 && out->context > 1)
        return DHOW_OK;
    return dhow_set_error(DHOW_INVALID_ARGUMENT,
                          "%s: these are no weights that generate --train has written", path);
}
