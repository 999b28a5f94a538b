/* SPDX-License-Identifier: Apache-2.0
 *
 * Random programs: a list of operations on numbered tensors, made from a seed alone. The reference
 * runs them one after the other on the host; dhow runs them on all devices and streams at once, and
 * must come to the same values.
 */
#ifndef TESTS_RANDOM_PROGRAM_H_
#define TESTS_RANDOM_PROGRAM_H_

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "dhow/dhow.h"

enum {
    MAX_OPS = 400,
    SLOTS = 12,      /* tensors */
    RANK = 2,        /* of all tensors */
    MAX_EXTENT = 48, /* so that a tensor has up to 2304 elements */
    STREAMS = 3,     /* of each device; number 0 is the default one */
    EVENTS = 16, /* of all threads, recorded again and again; number i is of device i modulo all */
    MAX_DEVICES = 16
};

/* X(NAME, the words of a listing: a, b, c and n are the operation's numbers) */
#define OP_MAP(X)                                                                                 \
    X(CREATE, "t%a = full of %n on device %d")                                                    \
    X(UPLOAD, "t%a = numbers from %n on device %d")                                               \
    X(PINNED, "t%a = numbers from %n in memory pinned for device %d")                             \
    X(SLICE, "t%a = rows %n to %m of t%b")                                                        \
    X(COLUMNS, "t%a = every second column of t%b from %n on")                                     \
    X(TRANSPOSE, "t%a = t%b transposed")                                                          \
    X(TO, "t%a = t%b to device %d, stream %s")                                                    \
    X(COPY, "copy t%b into t%a, stream %s")                                                       \
    X(ADD, "t%a = t%b + t%c in place, stream %s")                                                 \
    X(SUM, "t%a = a new t%b + t%c, stream %s")                                                    \
    X(RELU, "t%a = relu of t%b into a new one, stream %s")                                        \
    X(FILL, "fill t%a with %n, stream %s")                                                        \
    X(WRITE, "write numbers from %n into t%a")                                                    \
    X(JOIN, "t%a = t%b above t%c on device %d, stream %s")                                        \
    X(READ, "read t%b")                                                                           \
    X(SIGNAL, "an event on stream %s of device %d, awaited by %m of device %n")                   \
    X(SYNC, "wait for stream %s of device %d")                                                    \
    X(UNORDERED, "copy t%b into t%a, waiting for nothing, when both devices are idle, stream %s") \
    X(RECORD, "event %n is recorded on stream %s of device %d")                                   \
    X(AWAIT, "stream %s of device %d waits for event %n")                                         \
    X(ASK, "event %n is asked for, or waited for")                                                \
    X(RELEASE, "release t%a")

typedef enum op_kind {
#define OP_ENUM(name, text) OP_##name,
    OP_MAP(OP_ENUM) OP_KINDS
#undef OP_ENUM
} op_kind;

typedef struct op {
    op_kind kind;
    int a, b, c; /* slots */
    int device, stream;
    int64_t n, m;
    int64_t rows, columns; /* of CREATE, UPLOAD, PINNED */
} op;

typedef struct program {
    uint64_t seed;
    int count;
    op ops[MAX_OPS];
} program;

/* ---- the reference: what the tensors hold ---- */

typedef struct block {
    int users, device;
    bool tainted; /* what it holds came by way of the device that is lost: it may be missing */
    bool unknown; /* work on it failed, so nobody knows what it holds */
    float values[MAX_EXTENT * MAX_EXTENT * 4];
} block;

typedef struct view {
    block *block; /* NULL: the slot is free */
    int64_t shape[RANK], strides[RANK], offset;
} view;

typedef struct reference {
    view views[SLOTS];
} reference;

int64_t view_count(const view *v);
/* The element at a position of the row-major order. */
float *view_at(const view *v, int64_t position);
/* Whether the operation makes sense now; only then it may be run. */
bool op_fits(const reference *r, const op *o, int device_count);
void op_apply(reference *r, const op *o);
void reference_end(reference *r);

/* ---- making, listing ---- */

/* `count` operations over `device_count` devices, of which number 0 is the CPU. */
void program_generate(program *p, uint64_t seed, int count, int device_count);
void program_print(const program *p, FILE *to);

/* ---- running with dhow ---- */

typedef struct machine {
    dhow_context *context;
    dhow_device *devices[MAX_DEVICES];
    dhow_stream *streams[MAX_DEVICES][STREAMS]; /* [][0] is NULL */
    dhow_event *events[EVENTS];
    int device_count;
    int lost; /* the device that a fault loses at some time, or 0 */
} machine;

/* Runs a program, leaving out operations that do not fit; false with a story when dhow fails or
 * comes to other values than the reference. */
bool program_run(const program *p, const machine *m, char *story, size_t capacity);

/* Leaves out what is not needed for the program to fail. */
void program_minimise(program *p, const machine *m);

#endif /* TESTS_RANDOM_PROGRAM_H_ */
