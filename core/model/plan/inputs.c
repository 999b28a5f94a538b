/* SPDX-License-Identifier: Apache-2.0
 *
 * The inputs of a plan: buffers that the caller fills, or known values where they decide it.
 */
#include <string.h>

#include "base/memory/alloc.h"
#include "model/plan/maker.h"

dhow_status dhowi_host_copy(dhow_tensor *t, dhow_tensor **out) {
    dhow_device *cpu = t->storage->device->context->cpu;
    DHOWI_TRY(dhowi_tensor_new(cpu, t->dtype, t->rank, t->shape, out));
    dhow_status status = t->count > 0 ? dhow_copy(t, *out) : DHOW_OK;
    if (status != DHOW_OK) dhow_tensor_release(*out);
    return status;
}

/* An input is a buffer that the caller fills; one whose values decide the plan is known. */
static dhow_status begin_tensor(dhowi_maker *k, uint32_t slot, bool keyed,
                                const dhowi_tensor_desc *declared, int32_t *ref) {
    dhowi_tensor_desc desc = *declared;
    dhow_tensor *host;
    if (k->io != NULL) dhowi_desc_of(k->io->inputs[slot], &desc);
    desc.encoding = declared->encoding;
    if (keyed && k->io != NULL) {
        DHOWI_TRY(dhowi_host_copy(k->io->inputs[slot], &host));
        dhow_status status = dhowi_known(k->b, host, -1, ref);
        dhow_tensor_release(host);
        if (status == DHOW_OK) k->b->items[*ref].desc.encoding = desc.encoding;
        return status;
    }
    DHOWI_TRY(dhowi_blank(k->b, &desc, ref));
    k->b->buffers[k->b->items[*ref].buffer].external = 1 + (int32_t)slot;
    return DHOW_OK;
}

/* Texts are known, and part of the plan's key; a sequence is as long as the one given. */
static dhow_status begin_value(dhowi_maker *k, const dhowi_value *v, const dhow_datum *given,
                               uint32_t *slot, int32_t *ref) {
    dhowi_lowering *b = k->b;
    int32_t *elements;
    switch (given->kind) {
        case DHOW_DATUM_TEXTS:
            return dhowi_texts(b, (dhow_datum *)(uintptr_t)given, ref);
        case DHOW_DATUM_NONE:
            return dhowi_nothing(b, ref);
        case DHOW_DATUM_SEQUENCE:
            DHOWI_TRY(dhowi_sequence(b, (uint32_t)given->count, ref, &elements));
            for (int64_t i = 0; i < given->count; i++)
                DHOWI_TRY(begin_value(k, v, given->items[i], slot, &elements[i]));
            return DHOW_OK;
        default:
            return begin_tensor(k, (*slot)++, v->keyed, &v->desc, ref);
    }
}

dhow_status dhowi_plan_inputs(dhowi_maker *k) {
    dhow_model *m = k->m;
    k->b->model = m;
    k->b->device = m->device;
    k->b->half = dhowi_model_half_type(m);
    k->b->widens = dhowi_widens(m);
    if (k->io != NULL && k->io->shares != NULL) {
        k->b->shares = k->io->shares;
        k->b->share_count = k->io->output_count;
    }
    k->b->refs = dhowi_alloc_array((size_t)m->value_count + 1, sizeof *k->b->refs);
    if (k->b->refs == NULL) return dhowi_fail_memory("plan");
    memset(k->b->refs, 0xff, ((size_t)m->value_count + 1) * sizeof *k->b->refs);
    uint64_t bytes = 0; /* of what is there already: their sum fits an address */
    for (uint32_t i = 0; k->io != NULL && i < k->io->input_count; i++)
        bytes += dhowi_tensor_bytes(k->io->inputs[i]);
    dhowi_limit_host(k->b, bytes);
    for (uint32_t i = 0, slot = 0; i < m->input_count; i++) {
        const dhowi_value *v = &m->values[m->inputs[i]];
        int32_t *ref = &k->b->refs[m->inputs[i]];
        if (k->io != NULL && k->io->values != NULL) {
            DHOWI_TRY(begin_value(k, v, k->io->values[i], &slot, ref));
        } else {
            DHOWI_TRY(begin_tensor(k, i, v->keyed, &v->desc, ref));
        }
    }
    return DHOW_OK;
}
