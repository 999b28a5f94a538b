/* SPDX-License-Identifier: Apache-2.0
 *
 * The arena of a segment: where placeholders lie, such that those that matter at the same time do
 * not overlap.
 */
#include "base/memory/alloc.h"
#include "base/memory/array.h"
#include "base/memory/size.h"
#include "model/plan/record.h"

typedef bool before_fn(const dhowi_recorded_buffer *p, const dhowi_recorded_buffer *q);

static bool is_larger(const dhowi_recorded_buffer *p, const dhowi_recorded_buffer *q) {
    return p->bytes > q->bytes;
}
static bool lies_before(const dhowi_recorded_buffer *p, const dhowi_recorded_buffer *q) {
    return p->offset < q->offset;
}

static void sort(const dhowi_recorder *r, uint32_t *order, uint32_t count, before_fn *before) {
    /* Shell sort: the arrays are short and qsort takes no context. */
    for (uint32_t gap = count / 2; gap > 0; gap /= 2) {
        for (uint32_t i = gap; i < count; i++) {
            uint32_t moved = order[i], k = i;
            for (; k >= gap && before(&r->places[moved], &r->places[order[k - gap]]); k -= gap)
                order[k] = order[k - gap];
            order[k] = moved;
        }
    }
}

/* Placed placeholders by the steps in which they matter: a tree over the steps whose nodes list
 * those that matter in all steps below, and for each step those that begin there. What meets a
 * placeholder matters in its first step or begins later, so that a long chain is not looked through
 * for each of its values. Indices are one too high; 0 ends a list. */
typedef struct entry {
    uint32_t place, next;
} entry;

typedef struct lifetimes {
    uint32_t steps;
    uint32_t *tree;   /* of 2 steps nodes: entries */
    uint32_t *starts; /* of each step: places */
    uint32_t *next;   /* of each place: the next that begins in the same step */
    entry *entries;
    uint32_t entry_count, entry_capacity;
} lifetimes;

static void lifetimes_end(lifetimes *t) {
    dhowi_free(t->tree);
    dhowi_free(t->entries);
}

static bool lifetimes_begin(lifetimes *t, const dhowi_recorder *r) {
    *t = (lifetimes){.steps = 1};
    for (uint32_t i = 0; i < r->place_count; i++) {
        const dhowi_recorded_buffer *p = &r->places[i];
        t->steps = DHOWI_MAX(t->steps, (p->last == UINT32_MAX ? p->first : p->last) + 1);
    }
    t->tree = dhowi_alloc_array((size_t)t->steps * 3 + r->place_count, sizeof *t->tree);
    if (t->tree == NULL) return false;
    t->starts = t->tree + (size_t)t->steps * 2;
    t->next = t->starts + t->steps;
    return true;
}

/* UINT32_MAX is the end. */
static uint32_t last_of(const lifetimes *t, const dhowi_recorded_buffer *p) {
    return DHOWI_MIN(p->last, t->steps - 1);
}

static bool add_entry(lifetimes *t, uint32_t node, uint32_t place) {
    if (!dhowi_room((void **)&t->entries, t->entry_count, &t->entry_capacity, sizeof *t->entries))
        return false;
    t->entries[t->entry_count++] = (entry){place, t->tree[node]};
    t->tree[node] = t->entry_count;
    return true;
}

static bool lifetimes_add(lifetimes *t, const dhowi_recorder *r, uint32_t place) {
    const dhowi_recorded_buffer *p = &r->places[place];
    uint32_t low = p->first + t->steps, high = last_of(t, p) + 1 + t->steps;
    t->next[place] = t->starts[p->first];
    t->starts[p->first] = place + 1;
    for (; low < high; low /= 2, high /= 2) {
        if (low % 2 == 1 && !add_entry(t, low++, place)) return false;
        if (high % 2 == 1 && !add_entry(t, --high, place)) return false;
    }
    return true;
}

/* Those that meet p, into `met`. */
static uint32_t lifetimes_meeting(const lifetimes *t, const dhowi_recorded_buffer *p,
                                  uint32_t *met) {
    uint32_t count = 0;
    for (uint32_t node = p->first + t->steps; node > 0; node /= 2) {
        for (uint32_t e = t->tree[node]; e != 0; e = t->entries[e - 1].next)
            met[count++] = t->entries[e - 1].place;
    }
    for (uint32_t step = p->first + 1; step <= last_of(t, p); step++) {
        for (uint32_t i = t->starts[step]; i != 0; i = t->next[i - 1]) met[count++] = i - 1;
    }
    return count;
}

/* The lowest offset at which `p` meets none of these. */
static uint64_t lowest_offset(const dhowi_recorder *r, const dhowi_recorded_buffer *p,
                              uint32_t *met, uint32_t count) {
    uint64_t at = 0;
    sort(r, met, count, lies_before);
    for (uint32_t i = 0; i < count; i++) {
        const dhowi_recorded_buffer *q = &r->places[met[i]];
        if (q->offset >= at + p->bytes) break;
        at = DHOWI_MAX(at, q->offset + q->bytes);
    }
    return at;
}

static bool place_all(dhowi_recorder *r, lifetimes *t, const uint32_t *order, uint32_t count,
                      uint32_t *met, uint64_t *out_bytes) {
    for (uint32_t i = 0; i < count; i++) {
        dhowi_recorded_buffer *p = &r->places[order[i]];
        p->offset = lowest_offset(r, p, met, lifetimes_meeting(t, p, met));
        *out_bytes = DHOWI_MAX(*out_bytes, p->offset + p->bytes);
        if (!lifetimes_add(t, r, order[i])) return false;
    }
    return true;
}

dhow_status dhowi_record_lay_out(dhowi_recorder *r, uint64_t align, uint64_t *out_bytes) {
    uint32_t count = 0;
    lifetimes t;
    *out_bytes = 0;
    uint32_t *order = dhowi_alloc_array((size_t)r->place_count * 2 + 1, sizeof *order);
    if (order == NULL) return dhowi_fail_memory("plan");
    for (uint32_t i = 0; i < r->place_count; i++) {
        dhowi_recorded_buffer *p = &r->places[i];
        if (p->external) continue;
        p->bytes = (p->bytes + align - 1) / align * align;
        order[count++] = i;
    }
    sort(r, order, count, is_larger);
    const bool placed =
        lifetimes_begin(&t, r) && place_all(r, &t, order, count, order + r->place_count, out_bytes);
    lifetimes_end(&t);
    dhowi_free(order);
    return placed ? DHOW_OK : dhowi_fail_memory("plan");
}
