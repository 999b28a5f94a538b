/* SPDX-License-Identifier: Apache-2.0
 *
 * See codes.h.
 */
#include "base/memory/alloc.h"
#include "kernel/optimise.h"
#include "model/codes/codes.h"

static bool has_codes(const dhowi_lowering *b, uint32_t first_step) {
    for (uint32_t i = first_step; i < b->step_count; i++) {
        const dhowi_op_id op = b->steps[i].op;
        if (op == DHOWI_OP_map_codes || op == DHOWI_OP_conv2d_integer ||
            op == DHOWI_OP_matmul_codes || op == DHOWI_OP_matmul_integer)
            return true;
    }
    return false;
}

static dhow_status remove_unread(dhowi_lowering *b, uint32_t first_step) {
    dhowi_fuser f = {.b = b, .first = first_step};
    f.readers = dhowi_alloc_array((size_t)b->buffer_count + 1, sizeof *f.readers);
    if (f.readers == NULL) return dhowi_fail_memory("plan");
    dhowi_remove_unread(&f);
    dhowi_free(f.readers);
    dhowi_compact(b, first_step);
    return DHOW_OK;
}

dhow_status dhowi_join_codes(dhowi_lowering *b, uint32_t first_step) {
    enum { MOST_WALKS = 4 };
    if (!dhowi_optimises(DHOWI_OPTIMISE_INTEGERS) || !has_codes(b, first_step) ||
        !dhowi_maps_codes(b->device))
        return DHOW_OK;
    b->node = NULL;
    for (int i = 0; i < MOST_WALKS; i++) {
        bool changed = false;
        DHOWI_TRY(dhowi_pool_codes(b, first_step));
        DHOWI_TRY(dhowi_average_codes(b, first_step));
        DHOWI_TRY(dhowi_read_codes(b, first_step));
        DHOWI_TRY(remove_unread(b, first_step));
        DHOWI_TRY(dhowi_write_codes(b, first_step, &changed));
        DHOWI_TRY(dhowi_scale_products(b, first_step, &changed));
        DHOWI_TRY(dhowi_end_sums(b, first_step, &changed));
        DHOWI_TRY(dhowi_chain_codes(b, first_step, &changed));
        DHOWI_TRY(remove_unread(b, first_step));
        if (!changed) break;
    }
    return DHOW_OK;
}
