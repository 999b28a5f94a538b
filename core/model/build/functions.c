/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of the builder that are elementwise programs, as the eager functions of
 * core/ops/eager_map.c are, and casts.
 */
#include "model/build/build.h"
#include "ops/run/map.h"

#define NUMBERS (DHOWI_ANY & ~DHOW_DTYPE_BIT(DHOW_BOOL))

static dhow_status check_dtype(const char *name, dhow_dtype dtype, uint64_t taken) {
    if ((taken & DHOW_DTYPE_BIT(dtype)) != 0) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: x is %s, which it does not take", name,
                      dhow_dtype_name(dtype));
}

/* in[0] and what follows, which broadcast and are of one dtype. `attrs` has a program. */
static dhow_status add_map(dhow_model *m, const char *name, const int32_t *in, uint32_t count,
                           dhowi_attrs *attrs, uint64_t taken, dhow_dtype dtype,
                           dhow_model_value *out) {
    dhowi_tensor_desc y = {.rank = 0};
    DHOWI_TRY(dhowi_build_begin(m, name, out));
    for (uint32_t i = 0; i < count; i++) {
        DHOWI_TRY(dhowi_build_value(m, name, in[i]));
        const dhowi_tensor_desc before = y, *own = &m->values[in[i]].desc;
        char a[160], b[160];
        DHOWI_TRY(check_dtype(name, own->dtype, taken));
        if (i == 0) y.dtype = own->dtype;
        if (own->dtype == y.dtype && own->rank >= 0 &&
            dhowi_shape_broadcast(before.rank, before.shape, own->rank, own->shape, &y.rank,
                                  y.shape))
            continue;
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s and %s do not broadcast", name,
                          dhowi_desc_text(&m->values[in[0]].desc, a, sizeof a),
                          dhowi_desc_text(own, b, sizeof b));
    }
    if (dtype != 0) y.dtype = dtype;
    attrs->dim = (int32_t)y.dtype;
    DHOWI_TRY(dhowi_build_node(m, dhowi_layer_operator(DHOWI_LAYER_MAP), NULL, in, count, attrs, &y,
                               out));
    m->graph.nodes[m->graph.node_count - 1].operation = name; /* for messages */
    return DHOW_OK;
}

static dhow_status add_one(dhow_model *m, const char *name, dhow_model_value x, dhowi_map_op op,
                           double c, dhow_model_value *out) {
    dhowi_attrs attrs = {0};
    (void)dhowi_program_add(&attrs.program, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_constants(&attrs.program, op, dhowi_map_constants(op), c, 0);
    return add_map(m, name, &x, 1, &attrs, DHOWI_FLOATS, 0, out);
}

static dhow_status add_two(dhow_model *m, const char *name, dhow_model_value a, dhow_model_value b,
                           dhowi_map_op op, uint64_t taken, dhow_dtype dtype,
                           dhow_model_value *out) {
    const int32_t in[] = {a, b};
    dhowi_attrs attrs = {0};
    (void)dhowi_program_add(&attrs.program, DHOWI_MAP_LOAD, 0);
    (void)dhowi_program_add(&attrs.program, op, 1);
    return add_map(m, name, in, 2, &attrs, taken, dtype, out);
}

#define FUNCTION(name, op, formula)                                                               \
    dhow_status dhow_model_##name(dhow_model *model, dhow_model_value x, dhow_model_value *out) { \
        return add_one(model, #name, x, DHOWI_MAP_##op, 0, out);                                  \
    }
DHOW_FUNCTION_MAP(FUNCTION)

#define FURTHER(name, op, formula)                                                           \
    dhow_status dhow_model_##name(dhow_model *model, dhow_model_value a, dhow_model_value b, \
                                  dhow_model_value *out) {                                   \
        return add_two(model, #name, a, b, DHOWI_MAP_##op, NUMBERS, 0, out);                 \
    }
DHOW_FURTHER_BINARY_MAP(FURTHER)

#define COMPARE(name, op, formula)                                                           \
    dhow_status dhow_model_##name(dhow_model *model, dhow_model_value a, dhow_model_value b, \
                                  dhow_model_value *out) {                                   \
        return add_two(model, #name, a, b, DHOWI_MAP_##op, NUMBERS, DHOW_BOOL, out);         \
    }
DHOW_COMPARE_MAP(COMPARE)

dhow_status dhow_model_leaky_relu(dhow_model *model, dhow_model_value x, double alpha,
                                  dhow_model_value *out) {
    return add_one(model, "leaky_relu", x, DHOWI_MAP_LEAKY, alpha, out);
}

dhow_status dhow_model_elu(dhow_model *model, dhow_model_value x, double alpha,
                           dhow_model_value *out) {
    return add_one(model, "elu", x, DHOWI_MAP_ELU, alpha, out);
}

dhow_status dhow_model_cast(dhow_model *m, dhow_model_value x, dhow_dtype dtype,
                            dhow_model_value *out) {
    const dhowi_attrs attrs = {.dim = (int32_t)dtype};
    DHOWI_TRY(dhowi_build_begin(m, "cast", out));
    DHOWI_TRY(dhowi_build_value(m, "cast", x));
    if (dhow_dtype_bytes(dtype) == 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "cast: %d is no dtype", (int)dtype);
    dhowi_tensor_desc y = m->values[x].desc;
    y.dtype = dtype;
    return dhowi_build_node(m, dhowi_layer_operator(DHOWI_LAYER_CAST), NULL, &x, 1, &attrs, &y,
                            out);
}
