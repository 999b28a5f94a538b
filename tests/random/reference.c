/* SPDX-License-Identifier: Apache-2.0
 *
 * What the operations mean, on the host and one after the other.
 */
#include <stdlib.h>
#include <string.h>

#include "program.h"

enum { BLOCK_ELEMENTS = MAX_EXTENT * MAX_EXTENT * 4 };

int64_t view_count(const view *v) { return v->shape[0] * v->shape[1]; }

float *view_at(const view *v, int64_t position) {
    int64_t row = position / v->shape[1], column = position % v->shape[1];
    return &v->block->values[v->offset + row * v->strides[0] + column * v->strides[1]];
}

static bool same_shape(const view *a, const view *b) {
    return a->shape[0] == b->shape[0] && a->shape[1] == b->shape[1];
}

static bool same_view(const view *a, const view *b) {
    return a->block == b->block && a->offset == b->offset && same_shape(a, b) &&
           memcmp(a->strides, b->strides, sizeof a->strides) == 0;
}

/* Kernels may write where they read only if it is exactly the same elements. */
static bool may_write(const view *to, const view *from) {
    return to->block != from->block || same_view(to, from);
}

/* ---- what fits ---- */

static bool makes(op_kind kind) {
    return kind == OP_CREATE || kind == OP_UPLOAD || kind == OP_PINNED || kind == OP_SLICE ||
           kind == OP_COLUMNS || kind == OP_TRANSPOSE || kind == OP_TO || kind == OP_SUM ||
           kind == OP_RELU || kind == OP_JOIN;
}

static bool uses_b(op_kind kind) {
    return kind == OP_SLICE || kind == OP_COLUMNS || kind == OP_TRANSPOSE || kind == OP_TO ||
           kind == OP_COPY || kind == OP_UNORDERED || kind == OP_ADD || kind == OP_SUM ||
           kind == OP_RELU || kind == OP_JOIN || kind == OP_READ;
}

static bool uses_c(op_kind kind) { return kind == OP_ADD || kind == OP_SUM || kind == OP_JOIN; }

static bool uses_a(op_kind kind) {
    return kind == OP_COPY || kind == OP_UNORDERED || kind == OP_ADD || kind == OP_FILL ||
           kind == OP_WRITE || kind == OP_RELEASE;
}

bool op_fits(const reference *r, const op *o, int device_count) {
    const view *a = &r->views[o->a], *b = &r->views[o->b], *c = &r->views[o->c];
    if (o->device >= device_count) return false;
    if (makes(o->kind) && a->block != NULL) return false;
    if (uses_a(o->kind) && a->block == NULL) return false;
    if (uses_b(o->kind) && b->block == NULL) return false;
    if (uses_c(o->kind) && c->block == NULL) return false;
    switch (o->kind) {
        case OP_SLICE:
            return o->m > o->n && o->m <= b->shape[0];
        case OP_COLUMNS:
            return o->n < b->shape[1];
        case OP_COPY:
            return same_shape(a, b);
        case OP_UNORDERED: /* a kernel orders itself, and a detour has a tensor of its own */
            return same_shape(a, b) && a->block != b->block;
        case OP_RECORD:
            return o->n % device_count == o->device;
        case OP_ADD:
            return same_shape(a, b) && same_shape(a, c) && a->block->device == b->block->device &&
                   a->block->device == c->block->device && may_write(a, b) && may_write(a, c);
        case OP_SUM:
            return same_shape(b, c) && b->block->device == c->block->device;
        case OP_JOIN:
            return b->shape[1] == c->shape[1] && b->shape[0] + c->shape[0] <= 2 * MAX_EXTENT;
        case OP_PINNED:
            return o->device > 0;
        case OP_SIGNAL:
            return o->n < device_count;
        default:
            return true;
    }
}

/* ---- what happens ---- */

static view new_view(int device, int64_t rows, int64_t columns) {
    view v = {.shape = {rows, columns}, .strides = {columns, 1}};
    v.block = calloc(1, sizeof *v.block);
    if (v.block == NULL || rows * columns > BLOCK_ELEMENTS) abort();
    v.block->users = 1;
    v.block->device = device;
    return v;
}

static void drop(view *v) {
    if (v->block != NULL && --v->block->users == 0) free(v->block);
    *v = (view){0};
}

static void number(view *v, int64_t from) {
    for (int64_t i = 0; i < view_count(v); i++) *view_at(v, i) = (float)((from + i * 3) % 31 - 15);
}

static void assign(view *to, const view *from) {
    static _Thread_local float values[BLOCK_ELEMENTS]; /* parts of one block may overlap */
    for (int64_t i = 0; i < view_count(to); i++) values[i] = *view_at(from, i);
    for (int64_t i = 0; i < view_count(to); i++) *view_at(to, i) = values[i];
}

static view part_of(const view *whole) {
    view v = *whole;
    v.block->users++;
    return v;
}

void op_apply(reference *r, const op *o) {
    view *a = &r->views[o->a];
    const view *b = &r->views[o->b], *c = &r->views[o->c];
    switch (o->kind) {
        case OP_CREATE:
            *a = new_view(o->device, o->rows, o->columns);
            for (int64_t i = 0; i < view_count(a); i++) *view_at(a, i) = (float)o->n;
            break;
        case OP_UPLOAD:
        case OP_PINNED:
            *a = new_view(o->kind == OP_PINNED ? 0 : o->device, o->rows, o->columns);
            number(a, o->n);
            break;
        case OP_SLICE:
            *a = part_of(b);
            a->offset += o->n * a->strides[0];
            a->shape[0] = o->m - o->n;
            break;
        case OP_COLUMNS:
            *a = part_of(b);
            a->offset += o->n * a->strides[1];
            a->shape[1] = (a->shape[1] - o->n + 1) / 2;
            a->strides[1] *= 2;
            break;
        case OP_TRANSPOSE:
            *a = part_of(b);
            for (int i = 0; i < RANK; i++) {
                a->shape[i] = b->shape[1 - i];
                a->strides[i] = b->strides[1 - i];
            }
            break;
        case OP_TO: /* the same tensor when it is there already */
            if (b->block->device == o->device) {
                *a = part_of(b);
            } else {
                *a = new_view(o->device, b->shape[0], b->shape[1]);
                assign(a, b);
            }
            break;
        case OP_COPY:
        case OP_UNORDERED:
            assign(a, b);
            break;
        case OP_SUM:
        case OP_RELU:
            *a = new_view(b->block->device, b->shape[0], b->shape[1]);
            for (int64_t i = 0; i < view_count(a); i++) {
                float x = *view_at(b, i);
                *view_at(a, i) = o->kind == OP_SUM ? x + *view_at(c, i) : x > 0 ? x : 0;
            }
            break;
        case OP_ADD:
            for (int64_t i = 0; i < view_count(a); i++)
                *view_at(a, i) = *view_at(b, i) + *view_at(c, i);
            break;
        case OP_FILL:
            for (int64_t i = 0; i < view_count(a); i++) *view_at(a, i) = (float)o->n;
            break;
        case OP_WRITE:
            number(a, o->n);
            break;
        case OP_JOIN: {
            view whole = new_view(o->device, b->shape[0] + c->shape[0], b->shape[1]), part = whole;
            part.shape[0] = b->shape[0];
            assign(&part, b);
            part.offset = b->shape[0] * b->shape[1];
            part.shape[0] = c->shape[0];
            assign(&part, c);
            *a = whole;
            break;
        }
        case OP_RELEASE:
            drop(a);
            break;
        default:
            break;
    }
}

void reference_end(reference *r) {
    for (int i = 0; i < SLOTS; i++) drop(&r->views[i]);
}
