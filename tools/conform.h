/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow-conform in parts: what is run, in processes of their own (conform_run.c), what is known to
 * fail (conform_expect.c), and what is printed (conform_report.c).
 */
#ifndef TOOLS_CONFORM_H_
#define TOOLS_CONFORM_H_

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "conformance.h"

/* ---- what is asked for ---- */

typedef struct conform_expected {
    char name[64];
    char comment[200];
} conform_expected;

typedef struct conform_options {
    char folder[PATH_MAX], path[PATH_MAX], backend[32]; /* of the plugin */
    const char *async_fault;                            /* VARIABLE=VALUE or NULL */
    bool json, huge;
    int timeout_s;
    char *const *patterns;
    int pattern_count;
    conform_expected *expected;
    uint32_t expected_count;
} conform_options;

/* ---- what came of it ---- */

typedef enum conform_outcome {
    OUTCOME_PASS,
    OUTCOME_FAIL,
    OUTCOME_UNSUPPORTED,
    OUTCOME_EXPECTED /* a failure that the file lists */
} conform_outcome;

/* Prints one line, or keeps it for the JSON text; applies the expectations. */
void conform_report(conform_options *o, const char *device, const char *name, conform_result result,
                    const char *reason);
/* A header above the cases of one device. */
void conform_report_device(const conform_options *o, const char *device);
/* The closing line or the JSON text; the program's exit status. */
int conform_report_end(const conform_options *o);

/* Reads a file of names and comments; false with a message on stderr. */
bool conform_expect_read(conform_options *o, const char *file);
/* The entry of a case, or NULL. */
conform_expected *conform_expect_find(conform_options *o, const char *name);

/* Loads the plugin through the library; the number of its devices, 0 when it does not load. */
uint32_t conform_run_load(conform_options *o);
/* All wanted cases on one device, or with index -1 those of the file. */
void conform_run_device(conform_options *o, int32_t index);

/* Whether a case is asked for: by its name, its group, its first word, or a pattern with * ? [. */
bool conform_is_wanted(const conform_options *o, const conform_group *group, const char *name);

#endif /* TOOLS_CONFORM_H_ */
