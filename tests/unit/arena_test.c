/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas of plans: random values with random lifetimes, against the plainest way to find the same
 * places.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/memory/size.h"
#include "model/plan/record.h"

enum { PLACES = 300, ALIGN = 64 };

static uint32_t below(uint64_t *state, uint32_t end) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % end);
}

static bool meet(const dhowi_recorded_buffer *p, const dhowi_recorded_buffer *q) {
    return p->last >= q->first && q->last >= p->first;
}

static bool collides(const dhowi_recorded_buffer *p, uint64_t at, const dhowi_recorded_buffer *q) {
    return meet(p, q) && at < q->offset + q->bytes && q->offset < at + p->bytes;
}

/* The lowest multiple of ALIGN at which p meets none of those before it. */
static uint64_t lowest(const dhowi_recorded_buffer *const *order, uint32_t index) {
    uint64_t at = 0;
    for (uint32_t k = 0; k < index; k++) {
        if (!collides(order[index], at, order[k])) continue;
        at += ALIGN;
        k = UINT32_MAX;
    }
    return at;
}

static int by_size(const void *a, const void *b) {
    const dhowi_recorded_buffer *p = *(const dhowi_recorded_buffer *const *)a,
                                *q = *(const dhowi_recorded_buffer *const *)b;
    return p->bytes != q->bytes ? (p->bytes < q->bytes ? 1 : -1) : 0;
}

static void fill(dhowi_recorder *r, dhowi_recorded_buffer *places, uint64_t *state) {
    const uint32_t steps = 1 + below(state, 60), longest = 1 + below(state, steps);
    *r = (dhowi_recorder){.places = places, .place_count = 1 + below(state, PLACES)};
    for (uint32_t i = 0; i < r->place_count; i++) {
        const uint32_t first = below(state, steps);
        uint32_t last = DHOWI_MIN(first + below(state, longest), steps - 1);
        if (below(state, 20) == 0) last = UINT32_MAX; /* kept */
        places[i] = (dhowi_recorded_buffer){.bytes = 1 + below(state, 2000),
                                            .first = first,
                                            .last = last,
                                            .external = below(state, 10) == 0};
    }
}

/* Where sizes are equal any order is right, so these are compared by sum alone: no two that meet
 * overlap, nothing lies past the end, and each lies as low as those before it allow. */
Test(arena, places_lie_low_and_apart) {
    static dhowi_recorded_buffer places[PLACES];
    const dhowi_recorded_buffer *order[PLACES];
    uint64_t state = 7;
    for (int round = 0; round < 300; round++) {
        dhowi_recorder r;
        uint64_t bytes, end = 0;
        uint32_t count = 0;
        fill(&r, places, &state);
        cr_assert_eq(dhowi_record_lay_out(&r, ALIGN, &bytes), DHOW_OK);
        for (uint32_t i = 0; i < r.place_count; i++)
            if (!places[i].external) order[count++] = &places[i];
        for (uint32_t i = 0; i < count; i++) {
            end = DHOWI_MAX(end, order[i]->offset + order[i]->bytes);
            for (uint32_t k = 0; k < i; k++)
                cr_assert(!collides(order[i], order[i]->offset, order[k]),
                          "round %d: two places of %u overlap", round, count);
        }
        cr_assert_eq(bytes, end, "round %d", round);
        qsort(order, count, sizeof *order, by_size);
        for (uint32_t i = 0; i < count; i++) {
            const bool alone = (i == 0 || order[i - 1]->bytes != order[i]->bytes) &&
                               (i + 1 == count || order[i + 1]->bytes != order[i]->bytes);
            if (alone) cr_assert_eq(order[i]->offset, lowest(order, i), "round %d", round);
        }
    }
}

/* The arena of a chain holds two values, however long it is. */
Test(arena, a_chain_takes_two_values) {
    enum { LENGTH = 100000 };
    dhowi_recorded_buffer *places = calloc(LENGTH, sizeof *places);
    dhowi_recorder r = {.places = places, .place_count = LENGTH};
    uint64_t bytes;
    for (uint32_t i = 0; i < LENGTH; i++)
        places[i] = (dhowi_recorded_buffer){.bytes = 100, .first = i, .last = i + 1};
    cr_assert_eq(dhowi_record_lay_out(&r, ALIGN, &bytes), DHOW_OK);
    cr_assert_eq(bytes, 2 * 128);
    free(places);
}
