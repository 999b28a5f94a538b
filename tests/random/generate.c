/* SPDX-License-Identifier: Apache-2.0
 *
 * Making programs: operations are drawn until enough of them make sense for the reference.
 */
#include <string.h>

#include "program.h"

static uint64_t next(uint64_t *state) { /* splitmix64 */
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static int below(uint64_t *state, int limit) { return (int)(next(state) % (uint64_t)limit); }

static op draw(uint64_t *state, int device_count) {
    /* How often each is drawn: those that fit seldom, more often. */
    static const op_kind kinds[] = {
        OP_CREATE,    OP_UPLOAD,    OP_UPLOAD, OP_PINNED, OP_SLICE,  OP_COLUMNS, OP_TRANSPOSE,
        OP_TO,        OP_TO,        OP_TO,     OP_COPY,   OP_COPY,   OP_COPY,    OP_COPY,
        OP_ADD,       OP_ADD,       OP_ADD,    OP_SUM,    OP_SUM,    OP_RELU,    OP_FILL,
        OP_WRITE,     OP_JOIN,      OP_READ,   OP_SIGNAL, OP_SYNC,   OP_RELEASE, OP_RELEASE,
        OP_UNORDERED, OP_UNORDERED, OP_RECORD, OP_RECORD, OP_RECORD, OP_AWAIT,   OP_ASK};
    /* Few shapes, so that tensors meet their like. */
    static const int64_t extents[] = {1, 7, 16, MAX_EXTENT};
    op o = {.kind = kinds[below(state, (int)(sizeof kinds / sizeof kinds[0]))]};
    o.a = below(state, SLOTS);
    o.b = below(state, SLOTS);
    o.c = below(state, SLOTS);
    o.device = below(state, device_count);
    o.stream = below(state, STREAMS);
    o.rows = extents[below(state, 4)];
    o.columns = extents[below(state, 4)];
    o.n = o.kind == OP_SIGNAL ? below(state, device_count) : below(state, 16);
    o.m = o.kind == OP_SIGNAL ? below(state, STREAMS) : o.n + below(state, 16);
    return o;
}

void program_generate(program *p, uint64_t seed, int count, int device_count) {
    uint64_t state = seed * UINT64_C(0x2545f4914f6cdd1d) + 1;
    reference r = {0};
    p->seed = seed;
    p->count = 0;
    for (int tries = 0; p->count < count && p->count < MAX_OPS && tries < 100 * count; tries++) {
        op o = draw(&state, device_count);
        if (!op_fits(&r, &o, device_count)) continue;
        op_apply(&r, &o);
        p->ops[p->count++] = o;
    }
    reference_end(&r);
}

/* ---- listing ---- */

static void print_op(const op *o, FILE *to) {
    static const char *const texts[] = {
#define TEXT(name, text) text,
        OP_MAP(TEXT)
#undef TEXT
    };
    for (const char *t = texts[o->kind]; *t != '\0'; t++) {
        if (*t != '%') {
            (void)fputc(*t, to);
            continue;
        }
        switch (*++t) {
            case 'a':
                (void)fprintf(to, "%d", o->a);
                break;
            case 'b':
                (void)fprintf(to, "%d", o->b);
                break;
            case 'c':
                (void)fprintf(to, "%d", o->c);
                break;
            case 'd':
                (void)fprintf(to, "%d", o->device);
                break;
            case 's':
                (void)fprintf(to, "%d", o->stream);
                break;
            case 'n':
                (void)fprintf(to, "%d", (int)o->n);
                break;
            default:
                (void)fprintf(to, "%d", (int)o->m);
                break;
        }
    }
    if (o->kind == OP_CREATE || o->kind == OP_UPLOAD || o->kind == OP_PINNED)
        (void)fprintf(to, ", %d x %d", (int)o->rows, (int)o->columns);
    (void)fputc('\n', to);
}

void program_print(const program *p, FILE *to) {
    for (int i = 0; i < p->count; i++) {
        (void)fprintf(to, "  %3d  ", i);
        print_op(&p->ops[i], to);
    }
}
