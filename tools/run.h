/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow-run's parts: what is asked for, and what is told.
 */
#ifndef DHOW_TOOLS_RUN_H_
#define DHOW_TOOLS_RUN_H_

#include <jansson.h>
#include <stdbool.h>

#include "dhow/dhow.h"

enum { RUN_MAX_PAIRS = 64 };

/* NAME=WORD of an option. */
typedef struct run_pair {
    const char *name, *word;
    size_t name_length;
    bool used;
} run_pair;

typedef struct run_request {
    const char *path, *device, *compare, *trace;
    run_pair inputs[RUN_MAX_PAIRS], outputs[RUN_MAX_PAIRS], shapes[RUN_MAX_PAIRS];
    int input_count, output_count, shape_count, bench;
    uint64_t memory;   /* 0: the default */
    double time_limit; /* seconds; 0: none */
    bool random, report, list, json, fallback;
    dhow_precision precision; /* of the run, not of what it is compared with */
} run_request;

/* Tensors and texts; all zero: none. */
typedef struct run_values {
    dhow_datum **item;
    uint32_t count;
} run_values;

/* Puts a message for stderr together with the library's own and returns false. */
bool run_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *run_message(void);
/* Puts "<what><name>: " before the message. */
bool run_fail_prefix(const char *what, const char *name);
/* The library's message, without the name of the function that was called. */
bool run_fail_last(void);

/* Whether what is named on the command line is there, and the model takes and gives no sequences.
 */
bool run_check_names(const run_request *request, dhow_model *model);
/* Whether "1x3x48x320" is a shape. */
bool run_parse_shape(const char *text, int32_t *rank, int64_t *shape);
/* A value for every input: from files, or random tensors. */
bool run_make_inputs(const run_request *request, dhow_model *model, dhow_device *device,
                     run_values *out);
/* Sets the shapes of a list to those that the inputs have. */
bool run_show_inputs(const run_values *in, json_t *list);
/* Room for `count` values, of which there are none yet; run_release() gives it back. */
bool run_room(run_values *values, uint32_t count);
void run_release(run_values *values);
/* Takes the tensor over. */
bool run_of_tensor(dhow_tensor *tensor, dhow_datum **out);
/* The tensors on another device, texts as they are. */
bool run_move(const run_values *from, dhow_device *device, run_values *out);
bool run_save(const dhow_datum *datum, const char *path);

/* Texts, a line each: all of an input, the first ones of a result, how many differ, a file. */
bool run_load_texts(const dhow_model_value_info *info, const char *path, dhow_datum **out);
bool run_show_texts(const dhow_datum *datum, const dhow_datum_info *info, json_t *to);
bool run_compare_texts(const dhow_datum *a, const dhow_datum *b, json_t *to);
bool run_save_texts(const dhow_datum *datum, const dhow_datum_info *info, const char *path);

/* Everything that is printed goes through one JSON object; as words where JSON is not asked for. */
bool run_list(dhow_model *model, json_t *to);
/* Of `runs` runs that were measured step by step. */
bool run_summary(dhow_model *model, int runs, json_t *to);
/* Of a tensor the smallest, largest and mean value. */
bool run_describe(dhow_device *cpu, const dhow_datum *datum, json_t *to);
bool run_difference(dhow_device *cpu, const dhow_datum *one, const dhow_datum *other, json_t *to);
void run_print(const run_request *request, const json_t *all);

/* A bar on stderr, for what takes longer than a second on a terminal. */
void run_progress(const char *what, double share);
double run_seconds(void);

#endif /* DHOW_TOOLS_RUN_H_ */
