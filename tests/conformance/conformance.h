/* SPDX-License-Identifier: Apache-2.0
 *
 * The conformance table: what every device must do, as data. A case gets a context and a device,
 * or the bare slots of a plugin (slots.h), and says passed, failed or unsupported, with a message.
 * Plain C over the public API and the plugin ABI, so that a test framework and a command-line tool
 * can drive the same cases.
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

struct conform_slots;

/* What a case works with. Tensors, streams and so on that a case makes through the helpers of
 * support.h are released after it. */
typedef struct conform_env {
    dhow_context *context;
    dhow_device *device;
    struct conform_slots *slots; /* for groups of slots: the plugin itself; context is NULL then */
    const char *folder;          /* for files; exists */
    char message[1400];          /* why a case did not pass; of one that did, what it found */
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
    enum conform_kind_of_group {
        CONFORM_API = 0,   /* cases of a context and a device */
        CONFORM_SLOTS = 1, /* cases of slots, with the backend and one of its devices open */
        CONFORM_FILE = 2,  /* cases of the file itself; the backend is not open */
        CONFORM_HUGE = 3,  /* as CONFORM_API, with several GiB of memory: only where asked for */
        CONFORM_FAULT = 4  /* as CONFORM_SLOTS, with a fault that the driver has arranged */
    } kind;
} conform_group;

extern const conform_group conform_groups[];
extern const uint32_t conform_group_count;

/* Runs one case and releases what it made; memory that is still live afterwards is a failure. */
conform_result conform_run(conform_env *env, const conform_case *c);

/* The files' tables, gathered by cases.c. */
#define CONFORM_TABLE(group)                             \
    extern const conform_case conform_##group##_cases[]; \
    extern const uint32_t conform_##group##_count
CONFORM_TABLE(abi);
CONFORM_TABLE(devices);
CONFORM_TABLE(alloc);
CONFORM_TABLE(transfer);
CONFORM_TABLE(order);
CONFORM_TABLE(launch);
CONFORM_TABLE(blas);
CONFORM_TABLE(conv);
CONFORM_TABLE(coll);
CONFORM_TABLE(threads);
CONFORM_TABLE(shutdown);
CONFORM_TABLE(fault);
CONFORM_TABLE(memory);
CONFORM_TABLE(copy);
CONFORM_TABLE(stream);
CONFORM_TABLE(graph);
CONFORM_TABLE(kernel);
CONFORM_TABLE(elementwise);
CONFORM_TABLE(op);
CONFORM_TABLE(function);
CONFORM_TABLE(scalar);
CONFORM_TABLE(arrange);
CONFORM_TABLE(reduction);
CONFORM_TABLE(create);
CONFORM_TABLE(layer);
CONFORM_TABLE(model);
CONFORM_TABLE(rows);
CONFORM_TABLE(training);
CONFORM_TABLE(error);
CONFORM_TABLE(huge);

#endif /* TESTS_CONFORMANCE_CONFORMANCE_H_ */
