/* SPDX-License-Identifier: Apache-2.0
 *
 * The arena of a segment: where placeholders lie, such that those that matter at the same time do
 * not overlap.
 */
#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "model/plan/record.h"

static void sort_by_size(const dhowi_recorder *r, uint32_t *order, uint32_t count) {
    /* Shell sort: the arrays are short and qsort takes no context. */
    for (uint32_t gap = count / 2; gap > 0; gap /= 2) {
        for (uint32_t i = gap; i < count; i++) {
            uint32_t moved = order[i], k = i;
            for (; k >= gap && r->places[order[k - gap]].bytes < r->places[moved].bytes; k -= gap)
                order[k] = order[k - gap];
            order[k] = moved;
        }
    }
}

/* The lowest offset at which `p` meets none of those placed before; `placed` is sorted by offset.
 */
static uint64_t lowest_offset(const dhowi_recorder *r, const dhowi_recorded_buffer *p,
                              const uint32_t *placed, uint32_t count) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        const dhowi_recorded_buffer *q = &r->places[placed[i]];
        if (q->last < p->first || p->last < q->first) continue;
        if (q->offset >= at + p->bytes) break;
        at = DHOWI_MAX(at, q->offset + q->bytes);
    }
    return at;
}

dhow_status dhowi_record_lay_out(dhowi_recorder *r, uint64_t align, uint64_t *out_bytes) {
    uint32_t count = 0, done = 0;
    *out_bytes = 0;
    uint32_t *order = dhowi_alloc_array((size_t)r->place_count * 2 + 1, sizeof *order);
    if (order == NULL) return dhowi_fail_memory("plan");
    uint32_t *placed = order + r->place_count;
    for (uint32_t i = 0; i < r->place_count; i++) {
        dhowi_recorded_buffer *p = &r->places[i];
        if (p->external) continue;
        p->bytes = (p->bytes + align - 1) / align * align;
        order[count++] = i;
    }
    sort_by_size(r, order, count);
    for (uint32_t i = 0; i < count; i++) {
        dhowi_recorded_buffer *p = &r->places[order[i]];
        p->offset = lowest_offset(r, p, placed, done);
        *out_bytes = DHOWI_MAX(*out_bytes, p->offset + p->bytes);
        uint32_t k = done++;
        for (; k > 0 && r->places[placed[k - 1]].offset > p->offset; k--) placed[k] = placed[k - 1];
        placed[k] = order[i];
    }
    dhowi_free(order);
    return DHOW_OK;
}
