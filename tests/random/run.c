/* SPDX-License-Identifier: Apache-2.0
 *
 * Running programs with dhow, without a wait that they do not ask for.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

typedef struct run {
    const machine *m;
    reference expected;
    dhow_tensor *tensors[SLOTS];
    char *story;
    size_t capacity;
} run;

static bool say(run *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(r->story, r->capacity, format, args);
    va_end(args);
    return false;
}

/* ---- values ---- */

static void numbers(float *values, int64_t count, int64_t from) {
    for (int64_t i = 0; i < count; i++) values[i] = (float)((from + i * 3) % 31 - 15);
}

static _Thread_local float got[MAX_EXTENT * MAX_EXTENT * 4];

static dhow_status read_back(const run *r, int slot) {
    const uint64_t count = (uint64_t)view_count(&r->expected.views[slot]);
    return dhow_tensor_read(r->tensors[slot], got, count * sizeof *got);
}

static bool compare(run *r, int slot, const char *when, dhow_status status) {
    const view *v = &r->expected.views[slot];
    int64_t count = view_count(v);
    if (status != DHOW_OK) return say(r, "%s: reading t%d: %s", when, slot, dhow_last_error());
    for (int64_t i = 0; i < count; i++) {
        if (memcmp(&got[i], view_at(v, i), sizeof *got) == 0 || got[i] == *view_at(v, i)) continue;
        return say(r, "%s: element %d of t%d is %g, expected %g", when, (int)i, slot,
                   (double)got[i], (double)*view_at(v, i));
    }
    return true;
}

/* ---- operations ---- */

static dhow_stream *stream_on(const run *r, const op *o, int device) {
    return r->m->streams[device][o->stream];
}

/* A copy may be given a stream of either device. */
static dhow_stream *stream_of_copy(const run *r, const op *o, int from, int to) {
    return stream_on(r, o, o->n % 2 == 0 ? from : to);
}

static dhow_status create(run *r, const op *o, dhow_tensor **out) {
    static _Thread_local float values[MAX_EXTENT * MAX_EXTENT];
    dhow_device *device = r->m->devices[o->device];
    if (o->kind == OP_CREATE) {
        return dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(o->rows, o->columns), (double)o->n,
                                out);
    }
    numbers(values, o->rows * o->columns, o->n);
    if (o->kind == OP_UPLOAD)
        return dhow_tensor_from_data(device, DHOW_F32, DHOW_SHAPE(o->rows, o->columns), values,
                                     out);
    dhow_status status =
        dhow_tensor_create_pinned(device, DHOW_F32, DHOW_SHAPE(o->rows, o->columns), out);
    if (status != DHOW_OK) return status;
    return dhow_tensor_write(*out, values, (uint64_t)(o->rows * o->columns) * sizeof *values);
}

static dhow_status make_like(run *r, const view *v, int64_t rows, int device, dhow_tensor **out) {
    return dhow_tensor_create(r->m->devices[device], DHOW_F32, DHOW_SHAPE(rows, v->shape[1]), out);
}

static dhow_status join(run *r, const op *o, dhow_tensor *b, dhow_tensor *c, dhow_tensor **out) {
    const view *first = &r->expected.views[o->b], *second = &r->expected.views[o->c];
    dhow_tensor *parts[2] = {b, c};
    dhow_status status = make_like(r, first, first->shape[0] + second->shape[0], o->device, out);
    if (status != DHOW_OK) return status;
    return dhow_cat(stream_on(r, o, o->device), parts, 2, 0, *out);
}

static dhow_status signal_event(run *r, const op *o) {
    dhow_event *event;
    dhow_status status = dhow_event_create(r->m->devices[o->device], 0, &event);
    if (status != DHOW_OK) return status;
    status = dhow_event_record(event, stream_on(r, o, o->device));
    dhow_stream *waits = r->m->streams[o->n][o->m];
    if (waits == NULL && status == DHOW_OK)
        status = dhow_stream_default(r->m->devices[o->n], &waits);
    if (status == DHOW_OK) status = dhow_stream_wait(waits, event);
    dhow_event_release(event);
    return status;
}

/* Only what is idle may be copied without waiting; what comes later waits for the copy. */
static dhow_status copy_unordered(const run *r, const op *o, const view *from, const view *to) {
    const int devices[] = {from->block->device, to->block->device};
    for (int i = 0; i < 2; i++) {
        dhow_status status = dhow_device_sync(r->m->devices[devices[i]]);
        if (status != DHOW_OK) return status;
    }
    /* Host memory is copied by other devices, whose streams are no device's that was waited for. */
    for (int d = 0; d < r->m->device_count; d++) {
        dhow_status status = dhow_device_sync(r->m->devices[d]);
        if (status != DHOW_OK && d != r->m->lost) return status;
    }
    return dhow_copy_async(stream_of_copy(r, o, devices[0], devices[1]), r->tensors[o->b],
                           r->tensors[o->a], DHOW_COPY_UNORDERED);
}

/* Of other threads, too: it may be recorded anew meanwhile. */
static dhow_status ask(const run *r, const op *o) {
    dhow_event *event = r->m->events[o->n];
    if (o->stream == 0) return dhow_event_sync(event);
    dhow_status status = dhow_event_query(event);
    return status == DHOW_NOT_READY ? DHOW_OK : status;
}

static dhow_status await(const run *r, const op *o) {
    dhow_stream *stream = stream_on(r, o, o->device);
    if (stream == NULL) {
        dhow_status status = dhow_stream_default(r->m->devices[o->device], &stream);
        if (status != DHOW_OK) return status;
    }
    return dhow_stream_wait(stream, r->m->events[o->n]);
}

static dhow_status perform(run *r, const op *o) {
    static _Thread_local float values[MAX_EXTENT * MAX_EXTENT * 4];
    dhow_tensor **a = &r->tensors[o->a], *b = r->tensors[o->b], *c = r->tensors[o->c];
    const view *va = &r->expected.views[o->a], *vb = &r->expected.views[o->b];
    dhow_status status;
    switch (o->kind) {
        case OP_CREATE:
        case OP_UPLOAD:
        case OP_PINNED:
            return create(r, o, a);
        case OP_SLICE:
            return dhow_tensor_slice(b, 0, o->n, o->m, 1, a);
        case OP_COLUMNS:
            return dhow_tensor_slice(b, 1, o->n, vb->shape[1], 2, a);
        case OP_TRANSPOSE:
            return dhow_tensor_transpose(b, 0, 1, a);
        case OP_TO:
            return dhow_tensor_to_async(stream_of_copy(r, o, vb->block->device, o->device), b,
                                        r->m->devices[o->device], a);
        case OP_COPY:
            return dhow_copy_async(stream_of_copy(r, o, vb->block->device, va->block->device), b,
                                   *a, 0);
        case OP_UNORDERED:
            return copy_unordered(r, o, vb, va);
        case OP_RECORD:
            return dhow_event_record(r->m->events[o->n], stream_on(r, o, o->device));
        case OP_AWAIT:
            return await(r, o);
        case OP_ASK:
            return ask(r, o);
        case OP_ADD:
            return dhow_add(stream_on(r, o, va->block->device), b, c, *a);
        case OP_SUM:
        case OP_RELU:
            status = make_like(r, vb, vb->shape[0], vb->block->device, a);
            if (status != DHOW_OK) return status;
            if (o->kind == OP_SUM) return dhow_add(stream_on(r, o, vb->block->device), b, c, *a);
            return dhow_relu(stream_on(r, o, vb->block->device), b, *a);
        case OP_FILL:
            return dhow_fill(stream_on(r, o, va->block->device), *a, (double)o->n);
        case OP_WRITE:
            numbers(values, view_count(va), o->n);
            return dhow_tensor_write(*a, values, (uint64_t)view_count(va) * sizeof *values);
        case OP_JOIN:
            return join(r, o, b, c, a);
        case OP_SIGNAL:
            return signal_event(r, o);
        case OP_SYNC: {
            dhow_stream *stream = stream_on(r, o, o->device);
            return stream != NULL ? dhow_stream_sync(stream)
                                  : dhow_device_sync(r->m->devices[o->device]);
        }
        case OP_RELEASE:
            dhow_tensor_release(*a);
            *a = NULL;
            return DHOW_OK;
        case OP_READ:
        case OP_KINDS:
            break;
    }
    return DHOW_OK;
}

/* ---- a device that is lost ---- */

static bool by_way_of_lost(const run *r, const op *o) {
    const block *blocks[] = {r->expected.views[o->a].block, r->expected.views[o->b].block,
                             r->expected.views[o->c].block};
    bool lost = o->device == r->m->lost;
    for (int i = 0; i < 3; i++)
        lost =
            lost || (blocks[i] != NULL && (blocks[i]->device == r->m->lost || blocks[i]->tainted));
    return lost;
}

static bool any_unknown(const run *r, const op *o) {
    const block *b = r->expected.views[o->b].block, *c = r->expected.views[o->c].block;
    return (b != NULL && b->unknown) || (c != NULL && c->unknown);
}

/* Carries on after a failure that the loss explains: what would have been written is unknown. */
static void give_up(run *r, const op *o) {
    block *a = r->expected.views[o->a].block;
    if (a == NULL) { /* it was not made */
        dhow_tensor_release(r->tensors[o->a]);
        r->tensors[o->a] = NULL;
    } else {
        a->unknown = true;
    }
}

static bool step(run *r, const op *o, const char *when) {
    const bool losing = r->m->lost > 0;
    const bool tainted = losing && by_way_of_lost(r, o), unknown = losing && any_unknown(r, o);
    dhow_status status = perform(r, o);
    /* A stream tells of a loss that it has to do with once; then it works. */
    const bool writes = o->kind == OP_WRITE || o->kind == OP_FILL;
    if (losing && writes && status == DHOW_DEVICE_LOST && !tainted && !unknown) {
        status = perform(r, o);
        if (status != DHOW_OK) return say(r, "%s, again: %s", when, dhow_last_error());
    }
    const bool lost = status == DHOW_DEVICE_LOST || status == DHOW_CANCELLED;
    if (status != DHOW_OK && !(losing && lost)) return say(r, "%s: %s", when, dhow_last_error());
    if (status != DHOW_OK) {
        give_up(r, o);
        return true;
    }
    op_apply(&r->expected, o);
    block *a = r->expected.views[o->a].block;
    if (a != NULL) a->tainted = a->tainted || tainted;
    if (a != NULL) a->unknown = a->unknown || unknown;
    return true;
}

/* All that has nothing to do with the lost device is there. The rest is there or is said to be
 * missing. A stream tells of a loss that it has to do with once, whoever asks. */
static bool is_right(run *r, int slot, const char *when) {
    const block *b = r->expected.views[slot].block;
    if (b->unknown) return true;
    dhow_status status = read_back(r, slot);
    if (status != DHOW_OK && (b->tainted || b->device == r->m->lost)) return true;
    if (r->m->lost > 0 && status != DHOW_OK) status = read_back(r, slot);
    return compare(r, slot, when, status);
}

static bool run_all(run *r, const program *p) {
    char when[32];
    for (int i = 0; i < p->count; i++) {
        const op *o = &p->ops[i];
        if (!op_fits(&r->expected, o, r->m->device_count)) continue; /* while minimising */
        (void)snprintf(when, sizeof when, "operation %d", i);
        if (!step(r, o, when)) return false;
        if (o->kind == OP_READ && !is_right(r, o->b, when)) return false;
    }
    for (int slot = 0; slot < SLOTS; slot++) {
        if (r->expected.views[slot].block != NULL && !is_right(r, slot, "at the end")) return false;
    }
    return true;
}

bool program_run(const program *p, const machine *m, char *story, size_t capacity) {
    run r = {.m = m, .story = story, .capacity = capacity};
    bool right = run_all(&r, p);
    for (int slot = 0; slot < SLOTS; slot++) dhow_tensor_release(r.tensors[slot]);
    reference_end(&r.expected);
    return right;
}

/* ---- minimising ---- */

enum { TRIALS = 5 }; /* a race does not show each time */

static bool still_fails(const program *p, const machine *m) {
    char story[256];
    for (int i = 0; i < TRIALS; i++)
        if (!program_run(p, m, story, sizeof story)) return true;
    return false;
}

void program_minimise(program *p, const machine *m) {
    for (int size = p->count / 2; size > 0; size /= 2) {
        for (int at = 0; at + size <= p->count;) {
            program shorter = *p;
            memmove(&shorter.ops[at], &shorter.ops[at + size],
                    (size_t)(shorter.count - at - size) * sizeof(op));
            shorter.count -= size;
            if (still_fails(&shorter, m)) {
                *p = shorter;
            } else {
                at += size;
            }
        }
    }
}
