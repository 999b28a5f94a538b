/* SPDX-License-Identifier: Apache-2.0
 *
 * What dhow-run tells: lists, the summary per operator, and the words for both.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

/* ---- lists ---- */

static json_t *describe(const dhow_model_value_info *info) {
    static const char *const kinds[] = {"tensor", "texts", "sequence", "nothing"};
    const char *name = info->name;
    const dhow_dtype dtype = info->dtype;
    const int32_t rank = info->rank;
    const int64_t *shape = info->shape;
    json_t *entry = json_object(), *extents = json_array();
    for (int32_t i = 0; i < rank; i++) (void)json_array_append_new(extents, json_integer(shape[i]));
    (void)json_object_set_new(entry, "name", json_string(name));
    (void)json_object_set_new(entry, "dtype",
                              dtype != 0 ? json_string(dhow_dtype_name(dtype)) : json_null());
    (void)json_object_set_new(entry, "shape", rank >= 0 ? extents : json_null());
    if (rank < 0) json_decref(extents);
    if (info->kind != DHOW_DATUM_TENSOR)
        (void)json_object_set_new(entry, "kind", json_string(kinds[info->kind]));
    if (info->encoding != NULL)
        (void)json_object_set_new(entry, "encoding", json_string(info->encoding));
    if (info->optional) (void)json_object_set_new(entry, "optional", json_true());
    return entry;
}

bool run_list(dhow_model *model, json_t *to) {
    json_t *inputs = json_array(), *outputs = json_array(), *parameters = json_array();
    dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
    for (uint32_t i = 0; i < dhow_model_input_count(model); i++) {
        if (dhow_model_input_at(model, i, &info) == DHOW_OK)
            (void)json_array_append_new(inputs, describe(&info));
    }
    for (uint32_t i = 0; i < dhow_model_output_count(model); i++) {
        if (dhow_model_output_at(model, i, &info) == DHOW_OK)
            (void)json_array_append_new(outputs, describe(&info));
    }
    for (uint32_t i = 0; i < dhow_model_parameter_count(model); i++) {
        if (dhow_model_parameter_describe(model, i, &info) == DHOW_OK)
            (void)json_array_append_new(parameters, describe(&info));
    }
    (void)json_object_set_new(to, "inputs", inputs);
    (void)json_object_set_new(to, "outputs", outputs);
    (void)json_object_set_new(to, "parameters", parameters);
    return true;
}

/* ---- the summary ---- */

enum { MAX_OPERATORS = 256 };
typedef struct operator_share {
    const char *name;
    int64_t nanoseconds;
    int count;
} operator_share;

static int by_time(const void *a, const void *b) {
    int64_t x = ((const operator_share *)a)->nanoseconds,
            y = ((const operator_share *)b)->nanoseconds;
    return x < y ? 1 : x > y ? -1 : 0;
}

static double milliseconds(int64_t nanoseconds, int runs) {
    return (double)nanoseconds / runs * 1e-6;
}

static json_t *describe_step(const dhow_model_step_info *step, int runs) {
    json_t *shape = json_array();
    for (int32_t i = 0; i < step->rank; i++)
        (void)json_array_append_new(shape, json_integer(step->shape[i]));
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:s, s:f}", "operator", step->operation, "node",
                     step->node, "kernel", step->kernel, "dtype", dhow_dtype_name(step->dtype),
                     "shape", shape, "device", dhow_device_name(step->device), "ms",
                     milliseconds(step->nanoseconds, runs));
}

bool run_summary(dhow_model *model, int runs, json_t *to) {
    dhow_model_summary s = DHOW_INIT(dhow_model_summary);
    operator_share shares[MAX_OPERATORS];
    int count = 0;
    int64_t total = 1;
    json_t *operators = json_array(), *on_host = json_array(), *steps = json_array();
    dhow_memory_stats memory = DHOW_INIT(dhow_memory_stats);
    if (dhow_model_get_summary(model, &s) != DHOW_OK ||
        dhow_memory_get_stats(dhow_model_device(model), &memory) != DHOW_OK)
        return run_fail_last();
    for (uint32_t i = 0; i < s.step_count; i++) {
        dhow_model_step_info step = DHOW_INIT(dhow_model_step_info);
        int k = 0;
        if (dhow_model_step_at(model, i, &step) != DHOW_OK) continue;
        (void)json_array_append_new(steps, describe_step(&step, runs));
        while (k < count && strcmp(shares[k].name, step.operation) != 0) k++;
        if (k == MAX_OPERATORS) continue;
        if (k == count) shares[count++] = (operator_share){.name = step.operation};
        shares[k].nanoseconds += step.nanoseconds;
        shares[k].count++;
        total += step.nanoseconds;
        if (step.device != dhow_model_device(model))
            (void)json_array_append_new(on_host,
                                        json_sprintf("%s '%s'", step.operation, step.node));
    }
    qsort(shares, (size_t)count, sizeof shares[0], by_time);
    for (int i = 0; i < count; i++) {
        (void)json_array_append_new(
            operators, json_pack("{s:s, s:i, s:f, s:f}", "name", shares[i].name, "steps",
                                 shares[i].count, "ms", milliseconds(shares[i].nanoseconds, runs),
                                 "share", (double)shares[i].nanoseconds / (double)total));
    }
    (void)json_object_set_new(
        to, "report",
        json_pack("{s:I, s:I, s:I, s:I, s:i, s:i, s:i, s:i, s:o, s:o, s:o}", "parameter_bytes",
                  (json_int_t)s.parameter_bytes, "arena_bytes", (json_int_t)s.arena_bytes,
                  "live_bytes", (json_int_t)memory.live, "copied_bytes", (json_int_t)s.copied_bytes,
                  "nodes", (int)s.node_count, "steps", (int)s.step_count, "segments",
                  (int)s.segment_count, "measured_runs", runs, "operators", operators, "by_step",
                  steps, "on_host", on_host));
    return true;
}

/* ---- words ---- */

static void print_shape(const json_t *entry) {
    const json_t *shape = json_object_get(entry, "shape");
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    const char *kind = json_string_value(json_object_get(entry, "kind"));
    const char *encoding = json_string_value(json_object_get(entry, "encoding"));
    bool texts = kind != NULL && strcmp(kind, "texts") == 0;
    printf("%s%s", json_is_true(json_object_get(entry, "optional")) ? "optional " : "",
           kind != NULL && !texts ? "sequence of " : "");
    printf("%s", texts ? "texts" : dtype != NULL ? dtype : "?");
    if (encoding != NULL) printf(" (%s)", encoding);
    if (!json_is_array(shape)) {
        printf("[?]");
        return;
    }
    printf("[");
    for (size_t i = 0; i < json_array_size(shape); i++) {
        json_int_t extent = json_integer_value(json_array_get(shape, i));
        if (extent < 0) {
            printf("%s?", i > 0 ? ", " : "");
        } else {
            printf("%s%" JSON_INTEGER_FORMAT, i > 0 ? ", " : "", extent);
        }
    }
    printf("]");
}

static void print_number(const char *label, const json_t *value) {
    if (json_is_string(value)) {
        printf("  %s %s", label, json_string_value(value));
    } else if (value != NULL) {
        printf("  %s %.6g", label, json_number_value(value));
    }
}

/* The first ones: texts[100] "no" "yes" ... */
static void print_texts(const json_t *entry) {
    const json_t *texts = json_object_get(entry, "texts"), *shape = json_object_get(entry, "shape");
    json_int_t count = 1;
    for (size_t i = 0; i < json_array_size(shape); i++)
        count *= json_integer_value(json_array_get(shape, i));
    for (size_t i = 0; i < json_array_size(texts); i++)
        printf("  \"%.60s\"", json_string_value(json_array_get(texts, i)));
    if ((json_int_t)json_array_size(texts) < count && texts != NULL) printf("  ...");
}

static void print_entries(const char *title, const json_t *list) {
    printf("%s\n", title);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        printf("  %-24s ", json_string_value(json_object_get(entry, "name")));
        print_shape(entry);
        print_number("min", json_object_get(entry, "min"));
        print_number("max", json_object_get(entry, "max"));
        print_number("mean", json_object_get(entry, "mean"));
        print_texts(entry);
        printf("\n");
    }
}

static double mebibytes(const json_t *report, const char *key) {
    return json_number_value(json_object_get(report, key)) / (1 << 20);
}

/* "1 step", "2 steps" */
static const char *plural(int count) { return count == 1 ? "" : "s"; }

static void print_steps(const json_t *steps) {
    printf("  by step%24s ms  %-10s result\n", "", "kernel");
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *s = json_array_get(steps, i);
        char name[128];
        (void)snprintf(name, sizeof name, "%.40s '%.60s'",
                       json_string_value(json_object_get(s, "operator")),
                       json_string_value(json_object_get(s, "node")));
        printf("  %-24s %9.3f  %-10s ", name, json_number_value(json_object_get(s, "ms")),
               json_string_value(json_object_get(s, "kernel")));
        print_shape(s);
        printf("\n");
    }
}

static void print_report(const json_t *report) {
    if (report == NULL) return;
    const int nodes = (int)json_integer_value(json_object_get(report, "nodes")),
              steps = (int)json_integer_value(json_object_get(report, "steps"));
    printf(
        "Report\n  %d node%s, %d step%s; memory: weights %.1f MiB, arena %.1f MiB, in use on the "
        "device %.1f MiB; %.1f MiB copied between devices\n",
        nodes, plural(nodes), steps, plural(steps), mebibytes(report, "parameter_bytes"),
        mebibytes(report, "arena_bytes"), mebibytes(report, "live_bytes"),
        mebibytes(report, "copied_bytes"));
    const json_t *operators = json_object_get(report, "operators");
    for (size_t i = 0; i < json_array_size(operators); i++) {
        const json_t *o = json_array_get(operators, i);
        const int count = (int)json_integer_value(json_object_get(o, "steps"));
        printf("  %-24s %4d step%-1s %9.3f ms %5.1f%%\n",
               json_string_value(json_object_get(o, "name")), count, plural(count),
               json_number_value(json_object_get(o, "ms")),
               json_number_value(json_object_get(o, "share")) * 100);
    }
    print_steps(json_object_get(report, "by_step"));
    const json_t *on_host = json_object_get(report, "on_host");
    for (size_t i = 0; i < json_array_size(on_host); i++)
        printf("  on the CPU: %s\n", json_string_value(json_array_get(on_host, i)));
}

static void print_compare(const json_t *compare) {
    const json_t *outputs = json_object_get(compare, "outputs");
    if (compare == NULL) return;
    printf("Compared with %s\n", json_string_value(json_object_get(compare, "device")));
    for (size_t i = 0; i < json_array_size(outputs); i++) {
        const json_t *o = json_array_get(outputs, i);
        printf("  %-24s", json_string_value(json_object_get(o, "name")));
        print_number("largest difference", json_object_get(o, "largest_absolute"));
        print_number("relative", json_object_get(o, "largest_relative"));
        if (json_object_get(o, "different_texts") != NULL)
            printf("  %" JSON_INTEGER_FORMAT " texts differ",
                   json_integer_value(json_object_get(o, "different_texts")));
        printf("\n");
    }
}

void run_print(const run_request *r, const json_t *all) {
    if (r->json) {
        (void)json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        printf("\n");
        return;
    }
    print_entries("Inputs", json_object_get(all, "inputs"));
    if (r->list) {
        print_entries("Outputs", json_object_get(all, "outputs"));
        print_entries("Parameters", json_object_get(all, "parameters"));
        return;
    }
    print_entries("Results", json_object_get(all, "results"));
    printf("On %s: loaded in %.2f ms, first run %.2f ms",
           json_string_value(json_object_get(all, "device")),
           json_number_value(json_object_get(all, "load_ms")),
           json_number_value(json_object_get(all, "first_run_ms")));
    const json_t *bench = json_object_get(all, "bench");
    if (bench != NULL)
        printf(", one more untimed, then %.3f ms (best of %d; mean %.3f)",
               json_number_value(json_object_get(bench, "best_ms")),
               (int)json_integer_value(json_object_get(bench, "runs")),
               json_number_value(json_object_get(bench, "mean_ms")));
    printf("\n");
    print_report(json_object_get(all, "report"));
    print_compare(json_object_get(all, "compare"));
    const json_t *trace = json_object_get(all, "trace");
    if (trace != NULL)
        printf("Trace: %d records in %s, %d more had no room\n",
               (int)json_integer_value(json_object_get(trace, "records")),
               json_string_value(json_object_get(trace, "file")),
               (int)json_integer_value(json_object_get(trace, "dropped")));
}
