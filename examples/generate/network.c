/* SPDX-License-Identifier: Apache-2.0 */
#include "network.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "generate.h"

/* ---- blocks ---- */

/* What is built: for training, over whole pieces, or for writing, with caches of what was read. */
typedef struct builder {
    dhow_model *m;
    const generate_size *size;
    int64_t batch, steps; /* extents of tokens; one of them is -1 */
    bool cached;
    dhow_model_value places, start, length; /* of what is read: i64[1, steps], i64[1], i64[1] */
} builder;

/* x[batch, steps, width] as [batch, heads, steps, features of a head] */
static dhow_status by_heads(const builder *b, dhow_model_value x, dhow_model_value *out) {
    const int64_t heads = b->size->width / GENERATE_HEAD_FEATURES;
    dhow_status status = dhow_model_reshape(
        b->m, x, DHOW_SHAPE(b->batch, b->steps, heads, GENERATE_HEAD_FEATURES), out);
    return status == DHOW_OK ? dhow_model_transpose(b->m, *out, 1, 2, out) : status;
}

/* x behind what the cache has; both are one tensor when the model runs. */
static dhow_status keep(const builder *b, int64_t layer, const char *what, dhow_model_value *x) {
    const int64_t heads = b->size->width / GENERATE_HEAD_FEATURES;
    dhow_model_value cache;
    char name[48];
    dhow_status status;
    (void)snprintf(name, sizeof name, "%s.%lld", what, (long long)layer);
    TRY(dhow_model_input(b->m, name, DHOW_F32,
                         DHOW_SHAPE(1, heads, b->size->context, GENERATE_HEAD_FEATURES), &cache));
    TRY(dhow_model_update_cache(b->m, cache, *x, b->start, x));
    (void)snprintf(name, sizeof name, "new_%s.%lld", what, (long long)layer);
    TRY(dhow_model_output(b->m, name, *x));
cleanup:
    return status;
}

/* Each byte looks at those up to itself. */
static dhow_status attend(const builder *b, int64_t layer, dhow_model_value x,
                          dhow_model_value *out) {
    const int64_t width = b->size->width;
    dhow_model_value q, k, v, y;
    dhow_status status;
    TRY(dhow_model_linear(b->m, "query", x, width, width, 1, &q));
    TRY(dhow_model_linear(b->m, "key", x, width, width, 1, &k));
    TRY(dhow_model_linear(b->m, "value", x, width, width, 1, &v));
    TRY(by_heads(b, q, &q));
    TRY(by_heads(b, k, &k));
    TRY(by_heads(b, v, &v));
    if (b->cached) {
        TRY(keep(b, layer, "keys", &k));
        TRY(keep(b, layer, "values", &v));
        TRY(dhow_model_cached_attention(b->m, q, k, v, b->length, 1, 0, 0, &y));
    } else {
        TRY(dhow_model_scaled_dot_product_attention(b->m, q, k, v, -1, 1, 0, &y));
    }
    TRY(dhow_model_transpose(b->m, y, 1, 2, &y));
    TRY(dhow_model_reshape(b->m, y, DHOW_SHAPE(b->batch, b->steps, width), &y));
    TRY(dhow_model_linear(b->m, "out", y, width, width, 1, out));
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

static dhow_status block(const builder *b, int64_t layer, dhow_model_value x,
                         dhow_model_value *out) {
    const int64_t width = b->size->width;
    dhow_model_value h;
    dhow_status status;
    TRY(dhow_model_layernorm(b->m, "norm1", x, width, 1e-5F, &h));
    TRY(attend(b, layer, h, &h));
    TRY(dhow_model_add(b->m, x, h, &x));
    TRY(dhow_model_layernorm(b->m, "norm2", x, width, 1e-5F, &h));
    TRY(think(b->m, h, width, &h));
    TRY(dhow_model_add(b->m, x, h, out));
cleanup:
    return status;
}

/* Rows of the table of places: all of them in order, or those that are read. */
static dhow_status places_of(const builder *b, dhow_model_value *out) {
    const generate_size *size = b->size;
    if (b->cached)
        return dhow_model_embedding(b->m, "position", b->places, size->context, size->width,
                                    DHOW_F32, out);
    return dhow_model_parameter(b->m, "position.weight", DHOW_F32,
                                DHOW_SHAPE(size->context, size->width), out);
}

/* From tokens to the norm before the last layer. */
static dhow_status body(const builder *b, dhow_model_value tokens, dhow_model_value *out) {
    const int64_t width = b->size->width;
    dhow_model *m = b->m;
    dhow_model_value x, place;
    char name[32];
    dhow_status status;
    TRY(dhow_model_embedding(m, "token", tokens, GENERATE_BYTES, width, DHOW_F32, &x));
    TRY(places_of(b, &place));
    TRY(dhow_model_add(m, x, place, &x));
    for (int64_t i = 0; i < b->size->layers; i++) {
        (void)snprintf(name, sizeof name, "layers.%lld", (long long)i);
        TRY(dhow_model_begin_scope(m, name));
        TRY(block(b, i, x, &x));
        TRY(dhow_model_end_scope(m));
    }
    TRY(dhow_model_layernorm(m, "norm", x, width, 1e-5F, out));
cleanup:
    return status;
}

/* ---- networks ---- */

dhow_status generate_network_to_train(dhow_context *context, const generate_size *size,
                                      dhow_model **out) {
    builder b = {.size = size, .batch = -1, .steps = size->context};
    dhow_model_value x;
    dhow_status status;
    TRY(dhow_model_create(context, &b.m));
    TRY(dhow_model_input(b.m, "tokens", DHOW_I64, DHOW_SHAPE(b.batch, b.steps), &x));
    TRY(body(&b, x, &x));
    TRY(dhow_model_linear(b.m, "head", x, size->width, GENERATE_BYTES, 1, &x));
    TRY(dhow_model_transpose(b.m, x, 1, 2, &x));
    TRY(dhow_model_output(b.m, "logits", x));
    *out = b.m;
    return DHOW_OK;
cleanup:
    dhow_model_release(b.m);
    return status;
}

dhow_status generate_network_to_run(dhow_context *context, const generate_size *size,
                                    dhow_model **out) {
    builder b = {.size = size, .batch = 1, .steps = -1, .cached = true};
    dhow_model_value x;
    dhow_status status;
    TRY(dhow_model_create(context, &b.m));
    TRY(dhow_model_input(b.m, "tokens", DHOW_I64, DHOW_SHAPE(b.batch, b.steps), &x));
    TRY(dhow_model_input(b.m, "places", DHOW_I64, DHOW_SHAPE(b.batch, b.steps), &b.places));
    TRY(dhow_model_input(b.m, "start", DHOW_I64, DHOW_SHAPE(1), &b.start));
    TRY(dhow_model_input(b.m, "length", DHOW_I64, DHOW_SHAPE(1), &b.length));
    TRY(body(&b, x, &x));
    TRY(dhow_model_select(b.m, x, 1, -1, &x));
    TRY(dhow_model_linear(b.m, "head", x, size->width, GENERATE_BYTES, 1, &x));
    TRY(dhow_model_output(b.m, "logits", x));
    *out = b.m;
    return DHOW_OK;
cleanup:
    dhow_model_release(b.m);
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
    if (bytes == GENERATE_BYTES && out->layers > 0 && out->layers <= GENERATE_MAX_LAYERS &&
        out->width > 0 && out->width % GENERATE_HEAD_FEATURES == 0 && out->context > 1)
        return DHOW_OK;
    return dhow_set_error(DHOW_INVALID_ARGUMENT,
                          "%s: these are no weights that generate --train has written", path);
}
