/* SPDX-License-Identifier: Apache-2.0
 *
 * The conformance table: what every device must do, as data. A case gets a context and a device
 * and says passed, failed or unsupported, with a message. Plain C over the public API, so that a
 * test framework and a command-line tool can drive the same cases.
 */
#ifndef TESTS_CONFORMANCE_CONFORMANCE_H_
#define TESTS_CONFORMANCE_CONFORMANCE_H_

#include <stdbool.h>
#include <stddef.h>

#include "dhow/dhow.h"

typedef enum conform_result {
    CONFORM_PASS = 0,
    CONFORM_FAIL = 1,
    CONFORM_UNSUPPORTED = 2 /* the device may lack this; the message says what */
} conform_result;

/* What a case works with. Tensors, streams and so on that a case makes through the helpers of
 * support.h are released after it. */
typedef struct conform_env {
    dhow_context *context;
    dhow_device *device;
    const char *folder; /* for files; exists */
    char message[1400]; /* why a case did not pass */
    struct conform_owned *owned;
    uint32_t owned_count, owned_capacity;
} conform_env;

typedef struct conform_case {
    const char *name; /* "binary/add_f32" */
    conform_result (*fn)(conform_env *env);
    const char *tags; /* comma-separated: "copy,strided,large" */
} conform_case;

/* The cases of one file. */
typedef struct conform_group {
    const char *name;
    const conform_case *cases;
    const uint32_t *count;
} conform_group;

extern const conform_group conform_groups[];
extern const uint32_t conform_group_count;

/* Runs one case and releases what it made; memory that is still live afterwards is a failure. */
conform_result conform_run(conform_env *env, const conform_case *c);

/* The files' tables, gathered by cases.c. */
extern const conform_case conform_memory_cases[], conform_copy_cases[], conform_stream_cases[],
    conform_graph_cases[], conform_kernel_cases[], conform_op_cases[], conform_function_cases[],
    conform_error_cases[];
extern const uint32_t conform_memory_count, conform_copy_count, conform_stream_count,
    conform_graph_count, conform_kernel_count, conform_op_count, conform_function_count,
    conform_error_count;

#endif /* TESTS_CONFORMANCE_CONFORMANCE_H_ */
