/* SPDX-License-Identifier: Apache-2.0
 *
 * Unique: computed on the host while the plan is made, as operators in data_dependent.c are. Rows
 * are sorted, and those that are alike lie side by side.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "model/operators/shape/shape.h"

/* Elements of one kind; those of row r are [o][r][i]. */
typedef struct unique_rows {
    double *reals;
    int64_t *whole; /* or these; u64 by their bits */
    bool is_unsigned;
    int64_t outer, n, inner;
} unique_rows;

/* What the host makes; all by row but first and counts, which are by group. */
typedef struct unique_groups {
    int64_t *order, *spare, *first, *group, *counts, *place;
    int64_t count;
} unique_groups;

/* NaN are all alike, and after all others. */
static int compare_elements(const unique_rows *u, int64_t p, int64_t q) {
    if (u->reals != NULL) {
        const double a = u->reals[p], b = u->reals[q];
        if (isnan(a) || isnan(b)) return isnan(a) - isnan(b);
        return (a > b) - (a < b);
    }
    const int64_t a = u->whole[p], b = u->whole[q];
    if (u->is_unsigned) return ((uint64_t)a > (uint64_t)b) - ((uint64_t)a < (uint64_t)b);
    return (a > b) - (a < b);
}

static int compare_rows(const unique_rows *u, int64_t p, int64_t q) {
    int differs = 0;
    for (int64_t o = 0; o < u->outer && differs == 0; o++) {
        for (int64_t i = 0; i < u->inner && differs == 0; i++)
            differs =
                compare_elements(u, (o * u->n + p) * u->inner + i, (o * u->n + q) * u->inner + i);
    }
    return differs;
}

/* Rows that are alike keep their order. */
static void merge_sort(const unique_rows *u, int64_t *order, int64_t *spare) {
    for (int64_t i = 0; i < u->n; i++) order[i] = i;
    for (int64_t run = 1; run < u->n; run *= 2) {
        for (int64_t begin = 0; begin < u->n; begin += 2 * run) {
            const int64_t middle = DHOWI_MIN(begin + run, u->n),
                          end = DHOWI_MIN(begin + 2 * run, u->n);
            int64_t p = begin, q = middle;
            for (int64_t k = begin; k < end; k++) {
                const bool left =
                    q == end || (p < middle && compare_rows(u, order[p], order[q]) <= 0);
                spare[k] = order[left ? p++ : q++];
            }
        }
        memcpy(order, spare, (size_t)u->n * sizeof *order);
    }
}

/* Groups in the order of their rows, or of where they begin. */
static void find_groups(const unique_rows *u, bool sorted, unique_groups *g) {
    merge_sort(u, g->order, g->spare);
    for (int64_t i = 0; i < u->n; i++) {
        const bool begins = i == 0 || compare_rows(u, g->order[i - 1], g->order[i]) != 0;
        if (begins) g->first[g->count++] = g->order[i];
        g->group[g->order[i]] = g->count - 1;
    }
    for (int64_t k = 0; k < g->count; k++) g->place[k] = k;
    for (int64_t i = 0, next = 0; i < u->n && !sorted; i++) {
        if (g->first[g->group[i]] == i) g->place[g->group[i]] = next++;
    }
    for (int64_t k = 0; k < g->count; k++) g->spare[g->place[k]] = g->first[k];
    memcpy(g->first, g->spare, (size_t)g->count * sizeof *g->first);
    memset(g->counts, 0, (size_t)g->count * sizeof *g->counts);
    for (int64_t i = 0; i < u->n; i++) {
        g->group[i] = g->place[g->group[i]];
        g->counts[g->group[i]]++;
    }
}

static dhow_status give(dhowi_lowering *b, int32_t x, int32_t axis, const unique_rows *u,
                        bool sorted) {
    unique_groups g = {.count = 0};
    int64_t *const room = dhowi_alloc_array((size_t)u->n + 1, 6 * sizeof *room);
    if (room == NULL) return dhowi_fail_memory("plan");
    int64_t **const parts[] = {&g.order, &g.spare, &g.first, &g.group, &g.counts, &g.place};
    for (int i = 0; i < 6; i++) *parts[i] = room + i * (u->n + 1);
    find_groups(u, sorted, &g);
    dhow_status status = dhowi_pick(b, x, axis, g.first, g.count, &b->out[0]);
    if (status == DHOW_OK) status = dhowi_constant(b, DHOW_I64, 1, &g.count, g.first, &b->out[1]);
    if (status == DHOW_OK) status = dhowi_constant(b, DHOW_I64, 1, &u->n, g.group, &b->out[2]);
    if (status == DHOW_OK) status = dhowi_constant(b, DHOW_I64, 1, &g.count, g.counts, &b->out[3]);
    dhowi_free(room);
    return status;
}

static dhow_status read_elements(dhowi_lowering *b, int32_t x, unique_rows *u) {
    const dhowi_tensor_desc own = *dhowi_desc_at(b, x);
    const int64_t count = dhowi_count_of(&own);
    uint32_t read;
    if (count > INT32_MAX) DHOWI_REFUSE("%" PRId64 " values on the host", count);
    DHOWI_TRY(dhowi_host_room(b, count, sizeof(int64_t)));
    u->is_unsigned = own.dtype == DHOW_U64;
    if (dhowi_is_float(own.dtype)) {
        u->reals = dhowi_alloc_array((size_t)count + 1, sizeof *u->reals);
        if (u->reals == NULL) return dhowi_fail_memory("plan");
        return dhowi_floats(b, x, u->reals, (uint32_t)count, &read);
    }
    u->whole = dhowi_alloc_array((size_t)count + 1, sizeof *u->whole);
    if (u->whole == NULL) return dhowi_fail_memory("plan");
    return dhowi_ints(b, x, u->whole, (uint32_t)count, &read);
}

dhow_status dhowi_lower_unique(dhowi_lowering *b) {
    unique_rows u = {0};
    int32_t x = b->in[0], axis = 0;
    bool sorted;
    DHOWI_TRY(dhowi_attr_flag(b, "sorted", true, &sorted));
    DHOWI_TRY(dhowi_need(b, x));
    const int64_t count = dhowi_count_of(dhowi_desc_at(b, x));
    if (dhowi_attr(b, "axis", DHOWI_ATTRIBUTE_INT) != NULL) {
        DHOWI_TRY(dhowi_axis(dhowi_desc_at(b, x), dhowi_attr_int(b, "axis", 0), &axis));
    } else {
        DHOWI_TRY(dhowi_reshape(b, x, 1, &count, &x));
    }
    const dhowi_axis_split split = dhowi_split_along(dhowi_desc_at(b, x), axis);
    u.outer = split.outer, u.n = split.n, u.inner = split.inner;
    DHOWI_TRY(dhowi_host_room(b, u.n, 6 * sizeof(int64_t)));
    dhow_status status = read_elements(b, x, &u);
    if (status == DHOW_OK) status = give(b, x, axis, &u, sorted);
    dhowi_free(u.reals);
    dhowi_free(u.whole);
    return status;
}
