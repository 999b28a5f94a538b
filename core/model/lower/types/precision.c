/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of f32 that compute in 16-bit floats, see dhow_model_set_precision(). Each operator says
 * in its row what becomes of it (dhowi_half): products and convolutions take their inputs as 16
 * bits, what lies between them follows, everything else gets f32. An item of 16 bits that stands
 * for f32 is marked, so that each reader gets what it wants, by a cast that all readers share, and
 * what leaves the model is f32 again. Weights are cast once for all plans, see dhowi_model_half().
 * What is computed from constants alone, shapes above all, stays f32, and so does an operator with
 * constants that 16 bits cannot hold: the -1e30 of a mask, the 1e-12 of a division.
 */
#include <math.h>

#include "model/lower/lower.h"

/* ---- what becomes of a node ---- */

static bool number_fits(dhow_dtype half, double x) {
    const double size = fabs(x);
    const double most = half == DHOW_F16 ? 65504 : 0x1.fep127;
    return !isfinite(x) || (size <= most && (size == 0 || half != DHOW_F16 || size >= 0x1p-14));
}

/* Of the builder's nodes, by their rows. */
static dhowi_half half_of_row(dhow_dtype half, const dhowi_node *node) {
    switch (node->row) {
        case DHOWI_OP_linear:
        case DHOWI_OP_matmul:
        case DHOWI_OP_conv2d:
            return DHOWI_HALF_COMPUTES;
        case DHOWI_OP_add_scalar:
        case DHOWI_OP_sub_scalar:
        case DHOWI_OP_mul_scalar:
        case DHOWI_OP_div_scalar:
        case DHOWI_OP_max_scalar:
        case DHOWI_OP_min_scalar:
            return number_fits(half, dhowi_scalar_float(node->attrs->scalar[0]))
                       ? DHOWI_HALF_FOLLOWS
                       : DHOWI_HALF_NOT;
        case DHOWI_OP_affine:
            return number_fits(half, dhowi_scalar_float(node->attrs->scalar[0])) &&
                           number_fits(half, dhowi_scalar_float(node->attrs->scalar[1]))
                       ? DHOWI_HALF_FOLLOWS
                       : DHOWI_HALF_NOT;
        case DHOWI_OP_relu:
        case DHOWI_OP_gelu:
        case DHOWI_OP_gelu_tanh:
        case DHOWI_OP_silu:
        case DHOWI_OP_sigmoid:
        case DHOWI_OP_tanh:
        case DHOWI_OP_neg:
        case DHOWI_OP_abs:
        case DHOWI_OP_add:
        case DHOWI_OP_sub:
        case DHOWI_OP_mul:
        case DHOWI_OP_div:
        case DHOWI_OP_max:
        case DHOWI_OP_min:
        case DHOWI_OP_softmax:
        case DHOWI_OP_layernorm:
        case DHOWI_OP_maxpool2d:
        case DHOWI_OP_avgpool2d:
        case DHOWI_OP_flatten:
            return DHOWI_HALF_FOLLOWS;
        default:
            return DHOWI_HALF_NOT;
    }
}

static bool is_row(const dhowi_node *node) {
    return node->source == NULL && node->row != DHOWI_OP_COUNT;
}

static bool is_f32(const dhowi_item *item) {
    return item->kind == DHOW_DATUM_TENSOR && item->desc.dtype == DHOW_F32 &&
           item->desc.encoding == 0;
}

/* ---- forms of an item ---- */

/* A constant without its repetitions: one of a huge shape may be a single number. */
static dhow_status once_of(dhowi_lowering *b, int32_t ref, int32_t *out) {
    const dhowi_tensor_desc desc = b->items[ref].desc;
    *out = ref;
    for (int32_t i = 0; i < desc.rank; i++) {
        if (desc.shape[i] > 1 && b->items[*out].strides[i] == 0)
            DHOWI_TRY(dhowi_narrow(b, *out, i, 0, 1, 1, out));
    }
    return DHOW_OK;
}

dhow_status dhowi_cast_constant(dhowi_lowering *b, int32_t ref, dhow_dtype dtype, int32_t *out) {
    const dhowi_tensor_desc desc = b->items[ref].desc;
    const bool before = b->free_of_limit;
    if (b->items[ref].tensor == NULL) return dhowi_cast_to(b, ref, dtype, out);
    DHOWI_TRY(once_of(b, ref, out));
    b->free_of_limit = true;
    dhow_status status = dhowi_cast_to(b, *out, dtype, out);
    b->free_of_limit = before;
    return status == DHOW_OK ? dhowi_expand(b, *out, desc.rank, desc.shape, out) : status;
}

static dhow_status make_twin(dhowi_lowering *b, int32_t ref, int32_t *out) {
    const dhowi_item *item = &b->items[ref];
    const bool known = item->tensor != NULL, widens = item->half;
    if (known && !widens && item->value >= 0) {
        dhow_tensor *half;
        const int32_t value = item->value;
        DHOWI_TRY(dhowi_model_half(b->model, &b->model->values[value], &half));
        if (half != NULL) return dhowi_known(b, half, value, out);
    }
    return dhowi_cast_constant(b, ref, widens ? DHOW_F32 : b->half, out);
}

/* f32 of 16 bits, or the other way round; one for all readers. */
static dhow_status twin_of(dhowi_lowering *b, int32_t *ref) {
    const int32_t own = *ref;
    int32_t twin = b->items[own].twin - 1;
    if (twin < 0) {
        DHOWI_TRY(make_twin(b, own, &twin));
        b->items[twin].half = !b->items[own].half;
        b->items[twin].twin = own + 1;
        b->items[own].twin = twin + 1;
    }
    *ref = twin;
    return DHOW_OK;
}

static dhow_status constant_fits(dhowi_lowering *b, int32_t ref, bool added, bool *fits) {
    const int32_t value = b->items[ref].value;
    dhow_tensor *known;
    if (value >= 0) {
        DHOWI_TRY(dhowi_model_half(b->model, &b->model->values[value], &known));
        *fits = known != NULL;
        if (*fits || !added) return DHOW_OK;
    }
    DHOWI_TRY(dhowi_known_values(b, ref, &known));
    return dhowi_fits_half(known, b->half, added, fits);
}

/* ---- the inputs of a node ---- */

/* f32 that lies beside 16 bits as if it were such: an input of the model, and what a product has
 * taken as 16 bits already. Other f32 was computed so with reason, and what it meets is f32, too.
 */
static bool is_as_good(const dhowi_lowering *b, const dhowi_item *item) {
    return item->twin != 0 || (item->buffer >= 0 && b->buffers[item->buffer].external > 0);
}

/* What is added to scores as minus infinity, as -1e9, is no number of f16: a mask of attention, or
 * an input of the model that is added to a larger tensor. */
static bool may_mask(const dhowi_lowering *b, const dhowi_node *node, const int32_t *refs,
                     uint32_t i) {
    const bool adds =
        is_row(node) ? node->row == DHOWI_OP_add : node->op->half == DHOWI_HALF_FOLLOWS;
    if (b->half != DHOW_F16 || b->items[refs[i]].twin != 0) return false;
    if (!is_row(node) && (node->op->masks >> (i & 31) & 1) == 0) return false;
    if (!adds) return !is_row(node);
    const int64_t own = dhowi_count_of(&b->items[refs[i]].desc);
    for (uint32_t k = 0; k < node->in_count; k++)
        if (refs[k] >= 0 && dhowi_count_of(&b->items[refs[k]].desc) > own) return true;
    return false;
}

/* A value times itself is a power, which f32 computes: the squares of a normalisation that is
 * written out leave f16 from 256 on. */
static bool is_square(const dhowi_node *node, const int32_t *refs) {
    const bool multiplies = is_row(node) ? node->row == DHOWI_OP_mul : node->op->squares;
    return multiplies && node->in_count == 2 && refs[0] == refs[1];
}

/* What a step writes into, or the run's own memory for an output too. A cast to 16 bits would go
 * over all the room of it in each run, and the few rows that are read are read once. */
bool dhowi_is_cache(const dhowi_lowering *b, int32_t ref) {
    const int32_t buffer = b->items[ref].buffer;
    if (b->items[ref].tensor != NULL || buffer < 0) return false;
    if (dhowi_is_shared(b, ref)) return true;
    for (uint32_t i = b->step_count; i-- > 0;)
        if (b->items[b->steps[i].out].buffer == buffer)
            return b->steps[i].op == DHOWI_OP_write_steps;
    return false;
}

static bool reads_cache(const dhowi_lowering *b, const dhowi_node *node, const int32_t *refs) {
    for (uint32_t i = 0; i < node->in_count && !is_row(node); i++)
        if (refs[i] >= 0 && (node->op->caches >> (i & 31) & 1) != 0 && dhowi_is_cache(b, refs[i]))
            return true;
    return false;
}

/* Whether the node computes in 16 bits. One that has such floats of its own stays as it is written.
 */
static dhow_status decide(dhowi_lowering *b, const dhowi_node *node, const int32_t *refs,
                          bool *half) {
    const dhowi_half kind = is_row(node) ? half_of_row(b->half, node) : node->op->half;
    uint32_t halves = 0, floats = 0, wide = 0;
    bool fits = true;
    *half = false;
    if (kind == DHOWI_HALF_NOT || node->stays_wide || node->branch[0] != NULL ||
        is_square(node, refs) || reads_cache(b, node, refs))
        return DHOW_OK;
    if (node->op->half_rank > 0 && refs[0] >= 0 &&
        b->items[refs[0]].desc.rank > node->op->half_rank)
        return DHOW_OK;
    for (uint32_t i = 0; i < node->in_count; i++) {
        if (refs[i] < 0 || (node->op->whole >> (i & 31) & 1) != 0) continue;
        const dhowi_item *item = &b->items[refs[i]];
        if (item->kind != DHOW_DATUM_TENSOR) return DHOW_OK;
        if (!item->half && !is_f32(item) && dhowi_is_float(item->desc.dtype)) return DHOW_OK;
        if (item->half && item->tensor == NULL) halves++;
        if (!is_f32(item) || item->tensor != NULL) continue;
        floats++;
        wide += !is_as_good(b, item);
        if (may_mask(b, node, refs, i)) return DHOW_OK;
    }
    if (kind == DHOWI_HALF_COMPUTES ? halves + floats == 0 : halves == 0 || wide > 0)
        return DHOW_OK;
    for (uint32_t i = 0; i < node->in_count && fits; i++) {
        if (refs[i] < 0 || (node->op->whole >> (i & 31) & 1) != 0) continue;
        const dhowi_item *item = &b->items[refs[i]];
        const bool is_bias = kind == DHOWI_HALF_COMPUTES && i == 2 && item->desc.rank == 1;
        if (is_f32(item) && item->tensor != NULL)
            DHOWI_TRY(constant_fits(b, refs[i], is_bias, &fits));
    }
    *half = fits;
    return DHOW_OK;
}

dhow_status dhowi_in_half(dhowi_lowering *b, int32_t *ref, bool half) {
    const dhowi_item *item = &b->items[*ref];
    if (b->half == 0 || !(half ? is_f32(item) : item->half)) return DHOW_OK;
    return twin_of(b, ref);
}

dhow_status dhowi_take_half(dhowi_lowering *b, const dhowi_node *node, int32_t *refs, bool *half) {
    *half = false;
    if (b->half == 0) return DHOW_OK;
    *half = b->half_before > 0;
    if (b->half_before == 0) DHOWI_TRY(decide(b, node, refs, half));
    b->node = node;
    for (uint32_t i = 0; i < node->in_count; i++) {
        const bool wanted = *half && (node->op->whole >> (i & 31) & 1) == 0;
        if (refs[i] >= 0) DHOWI_TRY(dhowi_in_half(b, &refs[i], wanted));
    }
    return DHOW_OK;
}

void dhowi_mark_half(dhowi_lowering *b, int32_t ref) {
    dhowi_item *item = &b->items[ref];
    if (item->kind == DHOW_DATUM_TENSOR && item->desc.dtype == b->half) item->half = true;
}

dhow_status dhowi_end_half(dhowi_lowering *b, int32_t value) {
    int32_t ref;
    if (b->half == 0) return DHOW_OK;
    DHOWI_TRY(dhowi_ref_of(b, value, &ref));
    if (ref < 0 || !b->items[ref].half) return DHOW_OK;
    return twin_of(b, &b->refs[value]);
}
