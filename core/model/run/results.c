/* SPDX-License-Identifier: Apache-2.0
 *
 * The results of a run as values: tensors, sequences of them, texts.
 */
#include "base/memory/alloc.h"
#include "model/run/run.h"

static dhow_status value_of(const dhowi_lowering *b, const dhowi_run_io *io, int32_t ref,
                            uint32_t *slot, dhow_datum **out);

static dhow_status sequence_of(const dhowi_lowering *b, const dhowi_run_io *io, int32_t ref,
                               uint32_t *slot, dhow_datum **out) {
    const uint32_t count = b->items[ref].count;
    dhow_datum **items = dhowi_alloc_array((size_t)count + 1, sizeof *items);
    if (items == NULL) return dhowi_fail_memory("dhow_model_run_data");
    dhow_status status = DHOW_OK;
    for (uint32_t i = 0; i < count && status == DHOW_OK; i++)
        status = value_of(b, io, dhowi_elements(b, ref)[i], slot, &items[i]);
    if (status == DHOW_OK) status = dhow_datum_of_sequence(items, count, out);
    for (uint32_t i = 0; i < count; i++) dhow_datum_release(items[i]);
    dhowi_free(items);
    return status;
}

/* The tensors of a run's results come in the order in which the plan found them. */
static dhow_status value_of(const dhowi_lowering *b, const dhowi_run_io *io, int32_t ref,
                            uint32_t *slot, dhow_datum **out) {
    const dhowi_item *item = &b->items[ref];
    switch (item->kind) {
        case DHOW_DATUM_TEXTS:
            dhowi_handle_retain(&item->texts->handle);
            *out = item->texts;
            return DHOW_OK;
        case DHOW_DATUM_NONE:
            return dhow_datum_of_nothing(out);
        case DHOW_DATUM_SEQUENCE:
            return sequence_of(b, io, ref, slot, out);
        default:
            return dhow_datum_of_tensor(io->outputs[(*slot)++], out);
    }
}

dhow_status dhowi_give_results(const dhow_model *m, const dhowi_model_plan *plan,
                               const dhowi_run_io *io) {
    const dhowi_lowering *b = &plan->lowering;
    uint32_t slot = 0;
    for (uint32_t i = 0; i < m->output_count && io->results != NULL; i++) {
        int32_t ref = b->refs[m->outputs[i]];
        DHOWI_TRY(value_of(b, io, ref, &slot, &io->results[i]));
    }
    return DHOW_OK;
}
