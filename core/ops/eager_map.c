/* SPDX-License-Identifier: Apache-2.0
 *
 * Eager functions that are elementwise programs, see kernels/map.k.
 */
#include <stdio.h>
#include <string.h>

#include "base/memory/size.h"
#include "ops/run/map.h"

typedef struct map_call {
    const char *name;
    dhow_stream *stream;
    dhow_tensor *in[DHOWI_MAP_OPERANDS];
    uint32_t count;
    dhow_tensor *y;
    dhowi_attrs attrs;
} map_call;

/* ---- checks ---- */

/* Reads fit and are on y's device; y has their broadcast shape. */
static dhow_status check_shapes(map_call *c) {
    int64_t shape[DHOW_MAX_RANK];
    int32_t rank = 0;
    DHOWI_TRY(dhowi_tensor_check_write(c->y, c->name, "y"));
    for (uint32_t i = 0; i < c->count; i++) {
        char what[24];
        (void)snprintf(what, sizeof what, "input %u", i + 1);
        DHOWI_TRY(dhowi_tensor_check_read(c->in[i], c->name, what));
        const dhow_tensor *t = c->in[i];
        char a[192], b[192];
        if (dhowi_tensor_device(t) != dhowi_tensor_device(c->y)) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: input %u is on %s, y on %s; move one with dhow_tensor_to",
                              c->name, i + 1, dhowi_tensor_device(t)->name,
                              dhowi_tensor_device(c->y)->name);
        }
        if (dhowi_tensor_overlap(t, c->y) && !dhowi_tensor_same(t, c->y))
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: y overlaps input %u; exactly the same tensor would be allowed",
                              c->name, i + 1);
        if (dhowi_shape_broadcast(rank, shape, t->rank, t->shape, &rank, shape)) continue;
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s and %s do not broadcast", c->name,
                          dhowi_tensor_text(c->in[0], a, sizeof a),
                          dhowi_tensor_text(t, b, sizeof b));
    }
    if (dhowi_shape_equal(rank, shape, c->y->rank, c->y->shape)) return DHOW_OK;
    char text[192], want[128];
    const dhowi_tensor_desc desc = {.dtype = c->y->dtype, .rank = rank};
    dhowi_tensor_desc full = desc;
    memcpy(full.shape, shape, (size_t)rank * sizeof *shape);
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: y is %s, the result is %s", c->name,
                      dhowi_tensor_text(c->y, text, sizeof text),
                      dhowi_desc_text(&full, want, sizeof want));
}

static dhow_status check_types(const map_call *c, dhow_dtype dtype, uint64_t allowed) {
    for (uint32_t i = 0; i < c->count; i++) {
        dhow_dtype own = c->in[i]->dtype;
        if (own == dtype && (allowed & DHOW_DTYPE_BIT(own)) != 0) continue;
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: input %u is %s, %s", c->name, i + 1,
                          dhow_dtype_name(own),
                          own == dtype ? "which it does not take" : "the others are not");
    }
    return DHOW_OK;
}

/* ---- running ---- */

static dhow_status run_into(map_call *c, dhow_tensor *y) {
    dhowi_call call = {.op = dhowi_op_of(DHOWI_OP_map), .out = y, .attrs = &c->attrs};
    DHOWI_TRY(dhowi_stream_resolve(c->stream, dhowi_tensor_device(y), c->name, &call.stream));
    for (uint32_t i = 0; i < c->count; i++) call.in[i] = c->in[i];
    return y->count > 0 ? call.op->run(&call) : DHOW_OK;
}

static map_call new_call(const char *name, dhow_stream *stream, dhow_tensor *y) {
    map_call c = {.name = name, .stream = stream, .y = y};
    (void)dhowi_program_add(&c.attrs.program, DHOWI_MAP_LOAD, 0);
    return c;
}

static dhow_status run_one(const char *name, dhow_stream *stream, dhow_tensor *x, dhowi_map_op op,
                           double p, double q, uint64_t allowed, dhow_tensor *y) {
    map_call c = new_call(name, stream, y);
    c.in[c.count++] = x;
    (void)dhowi_program_constants(&c.attrs.program, op, dhowi_map_constants(op), p, q);
    DHOWI_TRY(check_shapes(&c));
    DHOWI_TRY(check_types(&c, y->dtype, allowed));
    return run_into(&c, y);
}

static dhow_status run_two(const char *name, dhow_stream *stream, dhow_tensor *a, dhow_tensor *b,
                           dhowi_map_op op, dhow_tensor *y) {
    map_call c = new_call(name, stream, y);
    c.in[c.count++] = a;
    c.in[c.count++] = b;
    (void)dhowi_program_add(&c.attrs.program, op, 1);
    DHOWI_TRY(check_shapes(&c));
    DHOWI_TRY(check_types(&c, y->dtype, DHOWI_ANY & ~DHOW_DTYPE_BIT(DHOW_BOOL)));
    return run_into(&c, y);
}

/* The comparison gives 0 or 1 in the inputs' type, which a cast makes bool. */
static dhow_status run_compare(const char *name, dhow_stream *stream, dhow_tensor *a,
                               dhow_tensor *b, dhowi_map_op op, dhow_tensor *y) {
    map_call c = new_call(name, stream, y);
    dhow_tensor *result;
    c.in[c.count++] = a;
    c.in[c.count++] = b;
    (void)dhowi_program_add(&c.attrs.program, op, 1);
    DHOWI_TRY(check_shapes(&c));
    DHOWI_TRY(check_types(&c, a->dtype, DHOWI_ANY));
    if (y->dtype != DHOW_BOOL)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: y is %s, the result is bool", name,
                          dhow_dtype_name(y->dtype));
    DHOWI_TRY(dhowi_tensor_new(dhowi_tensor_device(y), a->dtype, y->rank, y->shape, &result));
    dhow_status status = run_into(&c, result);
    if (status == DHOW_OK) status = dhow_cast(stream, result, y);
    dhow_tensor_release(result);
    return status;
}

#define FUNCTION(name, op, formula)                                                \
    dhow_status dhow_##name(dhow_stream *stream, dhow_tensor *x, dhow_tensor *y) { \
        return run_one(#name, stream, x, DHOWI_MAP_##op, 0, 0, DHOWI_FLOATS, y);   \
    }
DHOW_FUNCTION_MAP(FUNCTION)

#define FURTHER(name, op, formula)                                                                 \
    dhow_status dhow_##name(dhow_stream *stream, dhow_tensor *a, dhow_tensor *b, dhow_tensor *y) { \
        return run_two(#name, stream, a, b, DHOWI_MAP_##op, y);                                    \
    }
DHOW_FURTHER_BINARY_MAP(FURTHER)

#define COMPARE(name, op, formula)                                                                 \
    dhow_status dhow_##name(dhow_stream *stream, dhow_tensor *a, dhow_tensor *b, dhow_tensor *y) { \
        return run_compare(#name, stream, a, b, DHOWI_MAP_##op, y);                                \
    }
DHOW_COMPARE_MAP(COMPARE)

dhow_status dhow_clip(dhow_stream *stream, dhow_tensor *x, double low, double high,
                      dhow_tensor *y) {
    return run_one("clip", stream, x, DHOWI_MAP_CLIP, low, high,
                   DHOWI_ANY & ~DHOW_DTYPE_BIT(DHOW_BOOL), y);
}

dhow_status dhow_leaky_relu(dhow_stream *stream, dhow_tensor *x, double alpha, dhow_tensor *y) {
    return run_one("leaky_relu", stream, x, DHOWI_MAP_LEAKY, alpha, 0, DHOWI_FLOATS, y);
}

dhow_status dhow_elu(dhow_stream *stream, dhow_tensor *x, double alpha, dhow_tensor *y) {
    return run_one("elu", stream, x, DHOWI_MAP_ELU, alpha, 0, DHOWI_FLOATS, y);
}

/* ---- where ---- */

dhow_status dhow_where(dhow_stream *stream, dhow_tensor *condition, dhow_tensor *a, dhow_tensor *b,
                       dhow_tensor *y) {
    map_call c = new_call("where", stream, y);
    dhow_tensor *chosen = NULL;
    c.in[c.count++] = condition;
    c.in[c.count++] = a;
    c.in[c.count++] = b;
    (void)dhowi_program_add(&c.attrs.program, DHOWI_MAP_SAVE, 0);
    (void)dhowi_program_add(&c.attrs.program, DHOWI_MAP_LOAD, 1);
    (void)dhowi_program_add(&c.attrs.program, DHOWI_MAP_SELECT, 2);
    DHOWI_TRY(check_shapes(&c));
    if (condition->dtype != DHOW_BOOL || a->dtype != y->dtype || b->dtype != y->dtype)
        return dhowi_fail(
            DHOW_INVALID_ARGUMENT,
            "where: the condition is %s, a %s, b %s, y %s; it takes bool and three of "
            "one dtype",
            dhow_dtype_name(condition->dtype), dhow_dtype_name(a->dtype), dhow_dtype_name(b->dtype),
            dhow_dtype_name(y->dtype));
    DHOWI_TRY(dhowi_tensor_new(dhowi_tensor_device(y), y->dtype, condition->rank, condition->shape,
                               &chosen));
    dhow_status status = dhow_cast(stream, condition, chosen);
    c.in[0] = chosen;
    if (status == DHOW_OK) status = run_into(&c, y);
    dhow_tensor_release(chosen);
    return status;
}
