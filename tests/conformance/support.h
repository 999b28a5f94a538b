/* SPDX-License-Identifier: Apache-2.0
 *
 * Short words for cases: checks that leave with a message, objects that are released after the
 * case, and arrays of doubles that stand beside tensors as their reference.
 */
#ifndef TESTS_CONFORMANCE_SUPPORT_H_
#define TESTS_CONFORMANCE_SUPPORT_H_

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"

/* ---- checks ---- */

conform_result conform_fail(conform_env *env, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
conform_result conform_unsupported(conform_env *env, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define FAIL(...) return conform_fail(env, __FILE__, __LINE__, __VA_ARGS__)
#define CHECK(condition, ...)                \
    do {                                     \
        if (!(condition)) FAIL(__VA_ARGS__); \
    } while (0)
#define OK(call)                                                                     \
    do {                                                                             \
        dhow_status status_ = (call);                                                \
        if (status_ != DHOW_OK)                                                      \
            FAIL("%s: %s: %s", #call, dhow_status_name(status_), dhow_last_error()); \
    } while (0)
/* The call fails with this status and a message that holds `text`. */
#define FAILS(expected, text, call)                                                       \
    do {                                                                                  \
        dhow_status status_ = (call);                                                     \
        if (status_ != (expected))                                                        \
            FAIL("%s: %s instead of %s: %s", #call, dhow_status_name(status_), #expected, \
                 status_ == DHOW_OK ? "" : dhow_last_error());                            \
        if (strstr(dhow_last_error(), (text)) == NULL)                                    \
            FAIL("%s: '%s' does not say '%s'", #call, dhow_last_error(), (text));         \
    } while (0)
#define TRY(call)                                    \
    do {                                             \
        conform_result result_ = (call);             \
        if (result_ != CONFORM_PASS) return result_; \
    } while (0)
/* Leaves the case as unsupported when the device does not compute a type. */
#define NEEDS_DTYPE(dtype)                                                    \
    do {                                                                      \
        if (!conform_computes(env, (dtype)))                                  \
            return conform_unsupported(env, "the device does not compute %s", \
                                       dhow_dtype_name(dtype));               \
    } while (0)

bool conform_computes(conform_env *env, dhow_dtype dtype);

/* ---- owned objects ---- */

typedef enum conform_kind {
    CONFORM_TENSOR,
    CONFORM_STREAM,
    CONFORM_EVENT,
    CONFORM_GRAPH,
    CONFORM_KERNEL,
    CONFORM_MODULE,
    CONFORM_MODEL,
    CONFORM_MEMORY
} conform_kind;

/* Hands an object to the case's end; a NULL is a failure that was already reported. */
void conform_own(conform_env *env, conform_kind kind, void *object);
/* Takes it back, to release it earlier. */
void conform_disown(conform_env *env, void *object);
void conform_release_all(conform_env *env);
void *conform_memory(conform_env *env, size_t bytes);

/* OWN(TENSOR, &t, dhow_tensor_create(..., &t)): the call, checked, and its result owned. */
#define OWN(kind, out, call)                      \
    do {                                          \
        OK(call);                                 \
        conform_own(env, CONFORM_##kind, *(out)); \
    } while (0)

/* ---- arrays ---- */

/* Values with a shape; row-major. */
typedef struct conform_array {
    dhow_dtype dtype;
    int32_t rank;
    int64_t shape[DHOW_MAX_RANK];
    int64_t count;
    double *value;
} conform_array;

void conform_encode(dhow_dtype dtype, double value, void *out);
double conform_decode(dhow_dtype dtype, const void *in);
/* The nearest value that the type has. */
double conform_round(dhow_dtype dtype, double value);
bool conform_is_float(dhow_dtype dtype);
/* Repeatable numbers. */
uint64_t conform_random(uint64_t *state);

conform_array conform_array_new(conform_env *env, dhow_dtype dtype, int32_t rank,
                                const int64_t *shape);
/* Values between low and high (integers: whole numbers), all representable. */
conform_array conform_array_random(conform_env *env, dhow_dtype dtype, int32_t rank,
                                   const int64_t *shape, double low, double high, uint64_t seed);

/* How a tensor lies in memory. */
typedef enum conform_layout {
    LAYOUT_PLAIN,
    LAYOUT_OFFSET,     /* contiguous, at an odd offset of a larger storage */
    LAYOUT_STEPPED,    /* every second element of the last dimension */
    LAYOUT_TRANSPOSED, /* dimensions in memory in reverse order */
    LAYOUT_COUNT
} conform_layout;
const char *conform_layout_name(conform_layout layout);

/* A tensor without values, and one with the array's. */
conform_result conform_blank(conform_env *env, const conform_array *like, conform_layout layout,
                             dhow_tensor **out);
conform_result conform_upload(conform_env *env, const conform_array *array, conform_layout layout,
                              dhow_tensor **out);

/* How far a result may lie from its reference: |got - want| <= absolute + relative |want|. */
typedef struct conform_tolerance {
    double absolute, relative;
} conform_tolerance;
conform_tolerance conform_tolerance_of(dhow_dtype dtype);
conform_result conform_expect(conform_env *env, dhow_tensor *tensor, const conform_array *want,
                              conform_tolerance tolerance, const char *what);

/* Where an index of `shape` lies in an operand that broadcasts to it. */
int64_t conform_broadcast_at(const conform_array *operand, int32_t rank, const int64_t *shape,
                             int64_t index);

/* Bytes with a pattern, and a tensor's bytes compared with them. */
void conform_pattern(void *memory, uint64_t bytes, uint64_t seed);
conform_result conform_expect_bytes(conform_env *env, dhow_tensor *tensor, const void *want,
                                    uint64_t bytes, const char *what);

#define CASE(name, function, tags) \
    { name, function, tags }
#define CASES_END(prefix) \
    const uint32_t prefix##_count = (uint32_t)(sizeof prefix##_cases / sizeof prefix##_cases[0])

#endif /* TESTS_CONFORMANCE_SUPPORT_H_ */
