/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments drawn by their types and names. Nothing is drawn that a caller must promise: arrays
 * hold 16 items and counts are at most 12, buffers hold 64 KiB, handles live. All else may come:
 * NULL, numbers out of every range, handles that do not fit together. Each thread has
 * its own, and some that all share.
 */
#ifndef DHOW_TESTS_CALLS_DRAW_H_
#define DHOW_TESTS_CALLS_DRAW_H_

#include <stddef.h>

#include "dhow/dhow.h"

typedef enum handle_kind {
    CONTEXT,
    DEVICE,
    STREAM,
    EVENT,
    GRAPH,
    TENSOR,
    MODULE,
    KERNEL,
    MODEL,
    SAFETENSORS,
    DATASET,
    LOADER,
    SINK,
    DATUM,
    PARALLEL,
    TRAINER,
    KINDS
} handle_kind;

/* ---- one call: what it was given is told when it fails ---- */

void draw_begin(uint64_t seed, const char *folder); /* once a thread: its seed decides all */
void draw_sharing(int on);   /* whether the next handles may be those that all threads have */
void draw_next(void);        /* a new call: its scratch memory is empty */
const char *draw_told(void); /* "dhow_pad(stream 0, tensor 3 f32 [2, 4], ..." */
void draw_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t draw_below(uint64_t end);
void *scratch(size_t bytes); /* zeroed, until the next call */

/* ---- handles ---- */

void keep(handle_kind of, void *handle); /* the oldest beyond the room for its kind is released */
void *taken(handle_kind of); /* out of the pool, to be released; NULL where few are left */
void *draw_handle(handle_kind of);
void *draw_tensor(const char *name); /* often the member of its family that has this place */
void **draw_handles(handle_kind of); /* 16, or NULL */
dhow_status restock(void);           /* replaces one of the tensors that fit each other */
dhow_device *draw_device(void);      /* the one that this call draws from mostly */
void share_all(void);                /* gives what this thread has to all */
void release_all(void);              /* what this thread has */
void release_shared(void);

/* ---- results ---- */

void **new_outputs(void); /* 16 marked words, or NULL */
void *draw_record(size_t bytes);
void check_outputs(handle_kind of, void **outputs, dhow_status status, int owned);
void check_null(void *const *outputs); /* the first, unless there is none */
void spoil(void *record, size_t bytes);
void check_cleared(const void *record, size_t bytes);
void broken(const char *promise); /* aborts */
void touch(const char *text);     /* reads all of it */

/* ---- numbers, texts, arrays ---- */

int absent(void); /* now and then */
int given(void);  /* often in some calls, hardly ever in others */
uint32_t draw_size(size_t bytes);
int32_t draw_i32(const char *name);
uint32_t draw_u32(const char *name);
int64_t draw_i64(const char *name);
uint64_t draw_u64(const char *name);
double draw_f64(const char *name);
float draw_f32(const char *name);
int draw_enumerator(void);
dhow_model_value draw_value(void);
dhow_scalar draw_scalar(void);
const char *draw_text(const char *name);
const char *const *draw_texts(const char *name);
int64_t *draw_i64s(int small);
int32_t *draw_i32s(void);
double *draw_f64s(void);
dhow_model_value *draw_values(void);
void *draw_bytes(void); /* 64 KiB */

#endif
