/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of 16-bit floats on the CPU, whose units compute in f32: so does each operator whose
 * inputs are not all constants, and what lies between operators stays f32. An item of f32 that
 * stands for 16 bits is marked with their type, so that what leaves the model, a Cast, a branch or
 * a cache gets 16 bits again, by a cast that all readers share. Weights are cast once for all
 * plans. Operators that only pass on what nobody has computed, as the rows of an embedding, stay as
 * they are written.
 */
#include <string.h>

#include "kernel/optimise.h"
#include "model/lower/lower.h"

static bool is_narrow(const dhowi_item *item) {
    return item->kind == DHOW_DATUM_TENSOR && item->desc.encoding == 0 &&
           (item->desc.dtype == DHOW_F16 || item->desc.dtype == DHOW_BF16);
}

/* Derivatives have the types of what they are of. */
bool dhowi_widens(const dhow_model *m) {
    if (m->device != m->context->cpu || dhowi_model_half_type(m) != 0 ||
        !dhowi_optimises(DHOWI_OPTIMISE_WIDE))
        return false;
    for (uint32_t i = 0; i < m->graph.node_count; i++) {
        const dhowi_node *node = &m->graph.nodes[i];
        if (node->source == NULL || strcmp(node->operation, "Gradient") == 0) return false;
    }
    return true;
}

/* ---- forms of an item ---- */

static dhow_status make_wide(dhowi_lowering *b, int32_t ref, int32_t *out) {
    const dhowi_item *item = &b->items[ref];
    const int32_t value = item->value;
    dhow_tensor *wide;
    bool later;
    if (item->tensor == NULL || value < 0) return dhowi_cast_constant(b, ref, DHOW_F32, out);
    DHOWI_TRY(dhowi_model_wide(b->model, &b->model->values[value], &wide, &later));
    DHOWI_TRY(dhowi_known(b, wide, value, out));
    b->items[*out].half = true; /* the value's other form */
    if (!later) return DHOW_OK;
    const dhowi_step cast = {
        .op = DHOWI_OP_cast, .in = {ref, -1, -1, -1, -1, -1}, .out = *out, .second = -1};
    return dhowi_make_later(b, *out,
                            &(dhowi_late_values){.parameter = -1, .step = cast, .value = -1});
}

/* f32 of 16 bits, or these of f32 that stands for them; one for all readers. */
static dhow_status twin_of(dhowi_lowering *b, int32_t *ref) {
    const int32_t own = *ref;
    int32_t twin = b->items[own].twin - 1;
    if (twin < 0) {
        const dhow_dtype wide = b->items[own].wide;
        if (wide != 0)
            DHOWI_TRY(dhowi_cast_constant(b, own, wide, &twin));
        else
            DHOWI_TRY(make_wide(b, own, &twin));
        if (wide == 0) b->items[twin].wide = b->items[own].desc.dtype;
        b->items[twin].twin = own + 1;
        b->items[own].twin = twin + 1;
    }
    *ref = twin;
    return DHOW_OK;
}

/* ---- the inputs of a node ---- */

/* The 16 bits that a node would compute in, if f32 is better; else 0. */
static dhow_dtype decide(const dhowi_lowering *b, const dhowi_node *node, const int32_t *refs) {
    dhow_dtype found = 0;
    bool any_wide = false;
    if (node->op->typed || node->branch[0] != NULL) return 0;
    for (uint32_t i = 0; i < node->in_count; i++) {
        if (refs[i] < 0) continue;
        const dhowi_item *item = &b->items[refs[i]];
        if (item->kind != DHOW_DATUM_TENSOR) return 0;
        const dhow_dtype narrow = item->wide != 0 ? item->wide : item->desc.dtype;
        if (item->tensor != NULL || (item->wide == 0 && !is_narrow(item))) continue;
        if ((found != 0 && found != narrow) || (item->wide == 0 && dhowi_is_cache(b, refs[i])))
            return 0;
        found = narrow;
        any_wide = any_wide || item->wide != 0;
    }
    return node->op->half == DHOWI_HALF_FOLLOWS && !any_wide ? 0 : found;
}

dhow_status dhowi_take_wide(dhowi_lowering *b, const dhowi_node *node, int32_t *refs,
                            dhow_dtype *wide) {
    *wide = 0;
    if (!b->widens) return DHOW_OK;
    *wide = decide(b, node, refs);
    b->node = node;
    for (uint32_t i = 0; i < node->in_count; i++) {
        const dhowi_item *item = refs[i] >= 0 ? &b->items[refs[i]] : NULL;
        if (item != NULL && (*wide != 0 ? is_narrow(item) : item->wide != 0))
            DHOWI_TRY(twin_of(b, &refs[i]));
    }
    return DHOW_OK;
}

/* Means and deviations of rows are f32 whatever the rows are of; a fourth result is a sum. */
static bool is_statistic(const dhowi_node *node, uint32_t output) {
    return output > 0 && strstr(node->operation, "Normalization") != NULL &&
           !(output == 3 && strstr(node->operation, "Skip") != NULL);
}

void dhowi_mark_wide(dhowi_lowering *b, const dhowi_node *node, uint32_t output, dhow_dtype wide) {
    dhowi_item *item = &b->items[b->out[output]];
    if (item->kind == DHOW_DATUM_TENSOR && item->desc.dtype == DHOW_F32 &&
        !is_statistic(node, output))
        item->wide = wide;
}

dhowi_inside dhowi_inside_of(const dhowi_lowering *b, const dhowi_step *s) {
    const dhowi_inside inside = dhowi_model_inside(b->model);
    const bool multiplies = s->op == DHOWI_OP_matmul || s->op == DHOWI_OP_linear;
    if (!multiplies || inside != DHOWI_AS_DEVICE || b->items[s->out].wide != DHOW_BF16)
        return inside;
    return DHOWI_REDUCED;
}

dhow_status dhowi_end_wide(dhowi_lowering *b, int32_t value) {
    int32_t ref;
    if (!b->widens) return DHOW_OK;
    DHOWI_TRY(dhowi_ref_of(b, value, &ref));
    if (ref < 0 || b->items[ref].wide == 0) return DHOW_OK;
    return twin_of(b, &b->refs[value]);
}
