/* SPDX-License-Identifier: Apache-2.0
 *
 * A map over values that were put side by side is done part by part, from where they were: rotary
 * embeddings that turn halves, x cos + (-right half, left half) sin, become a map for each half.
 */
#include <string.h>

#include "base/errors/planted.h"
#include "base/memory/alloc.h"
#include "model/passes/fuse.h"

enum { MOST_PARTS = 8, MOST_KNOWN = 4096 };

/* Values side by side in one buffer, and the map that alone reads them; its writers are counted
 * before, so that long chains of maps are not looked through for each of them. */
typedef struct joint {
    uint32_t reader, operand;
    uint32_t count, writer[MOST_PARTS];
    int64_t start[MOST_PARTS][DHOW_MAX_RANK]; /* of each part */
} joint;

/* Where a part of the whole begins; false where it is a view of another kind, and where there are
 * no elements, whose strides are 0. */
static bool find_start(const dhowi_item *whole, const dhowi_item *part, int64_t *start) {
    int64_t left = part->offset;
    if (part->desc.rank != whole->desc.rank) return false;
    for (int32_t d = 0; d < whole->desc.rank; d++) {
        const int64_t extent = part->desc.shape[d];
        if (whole->strides[d] == 0 || extent == 0) return false;
        if (extent > 1 && part->strides[d] != whole->strides[d]) return false;
        start[d] = left / whole->strides[d];
        left -= start[d] * whole->strides[d];
        if (start[d] + extent > whole->desc.shape[d]) return false;
    }
    return left == 0;
}

static bool makes_part(const dhowi_lowering *b, const dhowi_step *s) {
    return s->op == DHOWI_OP_map ||
           (s->op == DHOWI_OP_copy && dhowi_same_shape(b, s->in[0], s->out));
}

/* The parts must fill the whole: what fills the rest of it, as padding does, is none of them. */
static bool find_parts(const dhowi_fuser *f, uint32_t writers, joint *j) {
    const dhowi_lowering *b = f->b;
    const dhowi_item *whole = &b->items[b->steps[j->reader].in[j->operand]];
    int64_t elements = 0;
    j->count = 0;
    for (uint32_t i = j->reader; i-- > f->first && writers > 0;) {
        const dhowi_step *s = &b->steps[i];
        if (dhowi_is_removed(s) || b->items[s->out].buffer != whole->buffer) continue;
        writers--;
        if (!makes_part(b, s)) continue;
        if (j->count == MOST_PARTS || !find_start(whole, &b->items[s->out], j->start[j->count]))
            return false;
        elements += dhowi_count_of(&b->items[s->out].desc);
        j->writer[j->count++] = i;
    }
    return j->count > 0 &&
           DHOWI_GUARD(parts_of_padding, j->count > 1 && elements == dhowi_count_of(&whole->desc));
}

static bool find_joint(const dhowi_fuser *f, const uint32_t *writers, uint32_t reader, joint *j) {
    const dhowi_lowering *b = f->b;
    const dhowi_step *q = &b->steps[reader];
    if (q->op != DHOWI_OP_map || !dhowi_is_whole(b, q->out)) return false;
    for (uint32_t k = 0; k < dhowi_operands_of(q); k++) {
        const int32_t ref = q->in[k];
        if (!dhowi_is_whole(b, ref) || !dhowi_same_shape(b, ref, q->out)) continue;
        const int32_t buffer = b->items[ref].buffer;
        const dhowi_readers *r = &f->readers[buffer];
        if (writers[buffer] < 2) continue;
        *j = (joint){.reader = reader, .operand = k};
        if (DHOWI_GUARD(joint_read_again, r->step == (int32_t)reader && r->count == 1) &&
            find_parts(f, writers[buffer], j))
            return true;
    }
    return false;
}

/* What else the reader adds or multiplies, where a map makes it for the reader alone: x cos. */
static void join_other_operands(dhowi_fuser *f, const joint *j) {
    dhowi_lowering *b = f->b;
    dhowi_step *q = &b->steps[j->reader];
    const int32_t buffer = b->items[q->in[j->operand]].buffer;
    for (uint32_t i = f->first; i < j->reader; i++) {
        dhowi_step *p = &b->steps[i], joined;
        if (p->op != DHOWI_OP_map || b->items[p->out].buffer == buffer ||
            !dhowi_is_whole(b, p->out) || !dhowi_same_shape(b, p->out, q->out))
            continue;
        const dhowi_readers *r = &f->readers[b->items[p->out].buffer];
        if (r->step != (int32_t)j->reader || r->count != 1 || !dhowi_join_within(b, p, q, &joined))
            continue;
        *q = joined;
        dhowi_remove_step(p);
    }
}

/* ---- one part ---- */

/* What an operand has for a part; extents of 1 are for all of them. */
static dhow_status narrow_to(dhowi_lowering *b, int32_t ref, const dhowi_tensor_desc *part,
                             const int64_t *start, int32_t *out) {
    *out = ref;
    const int32_t own = b->items[ref].desc.rank;
    for (int32_t d = 0; d < own; d++) {
        const int32_t at = d + part->rank - own;
        const int64_t extent = b->items[*out].desc.shape[d];
        if (extent == 1 || extent == part->shape[at]) continue;
        DHOWI_TRY(dhowi_narrow(b, *out, d, start[at], part->shape[at], 1, out));
    }
    return DHOW_OK;
}

/* The reader for one part, which reads what was written there; op COUNT where that is no program.
 */
static dhow_status read_part(dhowi_lowering *b, const joint *j, uint32_t i, dhowi_step *out) {
    const dhowi_step w = b->steps[j->writer[i]], *q = &b->steps[j->reader];
    const dhowi_tensor_desc part = b->items[w.out].desc;
    dhowi_step own = *q;
    for (uint32_t k = 0; k < dhowi_operands_of(q); k++) {
        if (k == j->operand) continue;
        DHOWI_TRY(narrow_to(b, own.in[k], &part, j->start[i], &own.in[k]));
    }
    DHOWI_TRY(narrow_to(b, own.out, &part, j->start[i], &own.out));
    own.in[j->operand] = w.op == DHOWI_OP_copy ? w.in[0] : w.out;
    *out = own;
    if (w.op == DHOWI_OP_copy) {
        dhowi_merge_operands(b, out);
    } else if (!dhowi_join_programs(b, &w, &own, out) && !dhowi_join_within(b, &w, &own, out)) {
        dhowi_remove_step(out);
    }
    return DHOW_OK;
}

/* Known rows of parts are copied to the device by themselves: they are to be small. */
static bool has_large_rows(const dhowi_lowering *b, const dhowi_step *q) {
    for (uint32_t k = 0; k < dhowi_operands_of(q); k++) {
        const dhowi_item *item = &b->items[q->in[k]];
        if (item->tensor != NULL && dhowi_count_of(&item->desc) > MOST_KNOWN) return true;
    }
    return false;
}

/* The writers go, of which the last comes first; the parts stand where the reader was, when all
 * operands are there. */
static void put_parts(dhowi_lowering *b, const joint *j, const dhowi_step *parts) {
    uint32_t kept = j->writer[j->count - 1], next = j->count;
    for (uint32_t i = kept; i < j->reader; i++) {
        if (next > 0 && j->writer[next - 1] == i) {
            next--;
        } else {
            b->steps[kept++] = b->steps[i];
        }
    }
    memcpy(&b->steps[kept], parts, j->count * sizeof *parts);
    dhowi_remove_step(&b->steps[kept + j->count]);
}

static dhow_status map_parts_at(dhowi_fuser *f, uint32_t *writers, uint32_t reader) {
    dhowi_lowering *b = f->b;
    dhowi_step parts[MOST_PARTS];
    joint j;
    if (!find_joint(f, writers, reader, &j) || has_large_rows(b, &b->steps[reader])) return DHOW_OK;
    join_other_operands(f, &j);
    dhowi_count_readers(f);
    if (!find_joint(f, writers, reader, &j)) return DHOW_OK;
    const int32_t buffer = b->items[b->steps[reader].out].buffer;
    for (uint32_t k = 0; k < j.count; k++) {
        DHOWI_TRY(read_part(b, &j, k, &parts[k]));
        if (dhowi_is_removed(&parts[k])) return DHOW_OK;
    }
    put_parts(b, &j, parts);
    writers[buffer] = j.count;
    dhowi_count_readers(f);
    return DHOW_OK;
}

dhow_status dhowi_map_parts(dhowi_fuser *f) {
    dhowi_lowering *b = f->b;
    dhow_status status = DHOW_OK;
    for (uint32_t i = f->first; i < b->step_count; i++) /* images: see channel_layout.c */
        if (b->steps[i].op == DHOWI_OP_conv2d) return DHOW_OK;
    uint32_t *writers = dhowi_alloc_array((size_t)b->buffer_count + 1, sizeof *writers);
    if (writers == NULL) return dhowi_fail_memory("plan");
    for (uint32_t i = f->first; i < b->step_count; i++)
        if (!dhowi_is_removed(&b->steps[i])) writers[b->items[b->steps[i].out].buffer]++;
    dhowi_count_readers(f);
    for (uint32_t i = f->first; i < b->step_count && status == DHOW_OK; i++)
        status = map_parts_at(f, writers, i);
    dhowi_free(writers);
    return status;
}
