/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of convolutions of one image, added up.
 */
#include <string.h>

#include "base/memory/array.h"
#include "model/lower/products/products.h"

/* The last three extents, and how many such windows there are. */
static int64_t windows_of(const dhowi_tensor_desc *weight, int64_t kernel[3]) {
    for (int i = 0; i < 3; i++)
        kernel[i] = weight->rank < 5 - i ? 1 : weight->shape[weight->rank - 3 + i];
    return weight->shape[0] * weight->shape[1];
}

/* A number by channel is a window of one pixel for that channel alone. */
static dhow_status add_weight(dhowi_lowering *b, const dhowi_branch *r,
                              const dhowi_tensor_desc *sum, float *to) {
    int64_t all[3], own[3] = {1, 1, 1};
    const int64_t count = windows_of(sum, all), channels = sum->shape[1];
    const bool by_channel = r->weight < 0;
    const int32_t source = by_channel ? r->scale : r->weight;
    const float sign = r->minus ? -1 : 1;
    void *data;
    DHOWI_TRY(dhowi_known_data(b, source, &data));
    const float *from = data;
    if (!by_channel) (void)windows_of(dhowi_desc_at(b, source), own);
    for (int64_t i = 0; i < count; i++, to += all[0] * all[1] * all[2]) {
        if (by_channel && i / channels % channels != i % channels) continue;
        for (int64_t z = 0; z < own[0]; z++) {
            for (int64_t y = 0; y < own[1]; y++) {
                float *row = to + ((r->at[0] + z) * all[1] + r->at[1] + y) * all[2] + r->at[2];
                for (int64_t x = 0; x < own[2]; x++) row[x] += sign * *from++;
            }
        }
    }
    dhowi_shed_known(b, source);
    return DHOW_OK;
}

static dhow_status add_bias(dhowi_lowering *b, const dhowi_branch *r, int64_t count, float *to) {
    const int32_t source = r->weight < 0 ? r->shift : r->bias;
    void *data;
    if (source < 0) return DHOW_OK;
    DHOWI_TRY(dhowi_known_data(b, source, &data));
    for (int64_t i = 0; i < count; i++)
        to[i] += r->minus ? -((const float *)data)[i] : ((const float *)data)[i];
    dhowi_shed_known(b, source);
    return DHOW_OK;
}

static dhow_status fill_sum(dhowi_lowering *b, const dhowi_late_values *late) {
    const dhowi_tensor_desc sum = *dhowi_desc_at(b, late->summed);
    dhow_tensor *made = b->items[late->summed].tensor;
    const uint32_t first = late->first, end = first + late->count;
    void *to;
    dhowi_storage_written(made->storage);
    DHOWI_TRY(dhow_tensor_host_ptr(made, &to));
    memset(to, 0, (size_t)dhowi_count_of(&sum) * sizeof(float));
    for (uint32_t i = first; i < end; i++) {
        const dhowi_branch r = b->branches[i];
        DHOWI_TRY(sum.rank == 1 ? add_bias(b, &r, sum.shape[0], to) : add_weight(b, &r, &sum, to));
    }
    return DHOW_OK;
}

static dhow_status sum_later(dhowi_lowering *b, const dhowi_tensor_desc *desc, uint32_t first,
                             uint32_t count, int32_t *out) {
    DHOWI_TRY(dhowi_item_known(b, desc, out));
    dhowi_storage_expect(b->items[*out].tensor->storage);
    return dhowi_make_later(b, *out,
                            &(dhowi_late_values){.parameter = -1,
                                                 .value = -1,
                                                 .make = fill_sum,
                                                 .summed = *out,
                                                 .first = first,
                                                 .count = count});
}

dhow_status dhowi_sum_branches(dhowi_lowering *b, const dhowi_branch *of, uint32_t count,
                               int32_t *weight, int32_t *bias) {
    const dhowi_tensor_desc w = *dhowi_desc_at(b, of[0].weight),
                            row = {.dtype = w.dtype, .rank = 1, .shape = {w.shape[0]}};
    const uint32_t first = b->branch_count;
    bool biased = false;
    *bias = -1;
    for (uint32_t i = 0; i < count; i++) {
        if (!dhowi_room((void **)&b->branches, b->branch_count, &b->branch_capacity,
                        sizeof *b->branches))
            return dhowi_fail_memory("plan");
        b->branches[b->branch_count++] = of[i];
        biased = biased || of[i].bias >= 0 || of[i].shift >= 0;
    }
    DHOWI_TRY(sum_later(b, &w, first, count, weight));
    return biased ? sum_later(b, &row, first, count, bias) : DHOW_OK;
}
