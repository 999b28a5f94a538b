/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow-run: runs a model from a file on any device.
 */
#include "run.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char k_usage[] =
    "usage: dhow-run MODEL [options]\n"
    "\n"
    "Runs an ONNX model.\n"
    "  --device SPEC           where to run it (\"cuda:1\", \"cuda,cpu\"; default: DHOW_DEVICE, "
    "else auto)\n"
    "  --input NAME=FILE.npy   an input; NAME may be left out for the first ones in order; of "
    "texts\n"
    "                          a file with one in each line\n"
    "  --output NAME=FILE.npy  writes an output\n"
    "  --random                random values for inputs that are not given\n"
    "  --shape NAME=1x3x48x320 shape of a random input; open extents are 1 otherwise, which is "
    "told\n"
    "  --compare SPEC          runs on a second device too, with no --precision, and tells the "
    "largest\n"
    "                          differences\n"
    "  --precision WORD        what a model of f32 computes in: f32, tf32 (where products are "
    "faster "
    "so),\n"
    "                          bf16 or f16; default: what the device is set to, f32\n"
    "  --fallback              lets the CPU compute what a device has no kernel for; --report "
    "tells what\n"
    "  --memory 8G             what a run of these shapes may take on the device\n"
    "  --time-limit SECONDS    gives a run up that takes longer\n"
    "  --bench N               after the first run one more untimed and N timed ones\n"
    "  --trace FILE            writes what all devices do meanwhile, for Perfetto and "
    "chrome://tracing\n"
    "  --report                memory, and the time of every operator and every step\n"
    "  --list                  inputs, outputs and parameters, without running\n"
    "  --json                  the same as JSON\n"
    "  --version               print the version\n"
    "Exit status 1 with the reason for any failure, 2 for a command line that is none.\n";

double run_seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void run_progress(const char *what, double share) {
    static double begun, drawn;
    double now = run_seconds();
    if (!isatty(STDERR_FILENO)) return;
    if (share <= 0) begun = now;
    if (share >= 1 && drawn > begun) {
        (void)fprintf(stderr, "\r%*s\r", 60, "");
    } else if (share > 0 && share < 1 && now - begun > 1 && now - drawn > 0.1) {
        int full = (int)(share * 30);
        (void)fprintf(stderr, "\r%-12s [%.*s%*s] %3.0f%%", what, full,
                      "##############################", 30 - full, "", share * 100);
        drawn = now;
    }
}

/* ---- the command line ---- */

/* `value` says what stands behind the name, where a name is needed. */
static bool add_pair(const char *option, run_pair *pairs, int *count, const char *text,
                     const char *value) {
    const char *equals = strchr(text, '=');
    if (*count == RUN_MAX_PAIRS) return run_fail("%s is given too often", option);
    if (value != NULL && (equals == NULL || equals == text || equals[1] == '\0'))
        return run_fail("%s %s: write it as %s NAME=%s; --list tells the names", option, text,
                        option, value);
    pairs[*count] = (run_pair){.name = text,
                               .word = equals != NULL ? equals + 1 : text,
                               .name_length = equals != NULL ? (size_t)(equals - text) : 0};
    (*count)++;
    return true;
}

static bool add_shape(run_request *r, const char *text) {
    int64_t shape[DHOW_MAX_RANK];
    int32_t rank;
    if (!add_pair("--shape", r->shapes, &r->shape_count, text, "1x3x224x224")) return false;
    return run_parse_shape(r->shapes[r->shape_count - 1].word, &rank, shape) ||
           run_fail("--shape %s: write it as --shape NAME=1x3x224x224", text);
}

/* "8G", "512M", "1000000" */
static bool take_memory(run_request *r, const char *text) {
    char *end;
    const unsigned long long number = strtoull(text, &end, 10);
    const int shift = *end == 'G' ? 30 : *end == 'M' ? 20 : *end == 'K' ? 10 : 0;
    const bool good = text[0] >= '1' && text[0] <= '9' && end[shift > 0] == '\0' &&
                      number <= (UINT64_MAX >> 1) >> shift;
    r->memory = (uint64_t)number << shift;
    return good || run_fail("--memory %s: write it as --memory 8G, 512M or a count of bytes", text);
}

static bool take_precision(run_request *r, const char *text) {
    static const struct {
        const char *word;
        dhow_precision precision;
    } words[] = {{"f32", DHOW_PRECISION_F32},
                 {"tf32", DHOW_PRECISION_REDUCED},
                 {"bf16", DHOW_PRECISION_BF16},
                 {"f16", DHOW_PRECISION_F16}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i].word, text) != 0) continue;
        r->precision = words[i].precision;
        return true;
    }
    return run_fail("--precision %s: it is f32, tf32, bf16 or f16", text);
}

static bool take_option(run_request *r, int option) {
    char *end;
    long runs;
    switch (option) {
        case 'd':
            r->device = optarg;
            return true;
        case 'i':
            return add_pair("--input", r->inputs, &r->input_count, optarg, NULL);
        case 'o':
            return add_pair("--output", r->outputs, &r->output_count, optarg, "FILE.npy");
        case 's':
            return add_shape(r, optarg);
        case 'c':
            r->compare = optarg;
            return true;
        case 'P':
            return take_precision(r, optarg);
        case 't':
            r->trace = optarg;
            return true;
        case 'b':
            runs = strtol(optarg, &end, 10);
            r->bench = runs >= 1 && runs <= 1000000 ? (int)runs : 0;
            if (*end != '\0' || r->bench == 0)
                return run_fail("--bench %s is no count from 1 to 1000000", optarg);
            return true;
        case 'm':
            return take_memory(r, optarg);
        case 'T':
            r->time_limit = strtod(optarg, &end);
            return (end > optarg && *end == '\0' && r->time_limit > 0 && r->time_limit <= 1e9) ||
                   run_fail("--time-limit %s: write it in seconds, as --time-limit 2.5", optarg);
        case 'r':
            r->random = true;
            return true;
        case 'p':
            r->report = true;
            return true;
        case 'f':
            r->fallback = true;
            return true;
        case 'l':
            r->list = true;
            return true;
        case 'j':
            r->json = true;
            return true;
        default:
            return run_fail("--help tells the options");
    }
}

/* 0: go on; else the exit status + 1. */
static int parse(int argc, char **argv, run_request *r) {
    static const struct option options[] = {{"device", required_argument, NULL, 'd'},
                                            {"input", required_argument, NULL, 'i'},
                                            {"output", required_argument, NULL, 'o'},
                                            {"shape", required_argument, NULL, 's'},
                                            {"compare", required_argument, NULL, 'c'},
                                            {"bench", required_argument, NULL, 'b'},
                                            {"precision", required_argument, NULL, 'P'},
                                            {"memory", required_argument, NULL, 'm'},
                                            {"time-limit", required_argument, NULL, 'T'},
                                            {"trace", required_argument, NULL, 't'},
                                            {"random", no_argument, NULL, 'r'},
                                            {"report", no_argument, NULL, 'p'},
                                            {"list", no_argument, NULL, 'l'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"fallback", no_argument, NULL, 'f'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'v'},
                                            {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'h') {
            (void)fputs(k_usage, stdout);
            return 1;
        }
        if (option == 'v') {
            printf("dhow-run %s\n", dhow_version());
            return 1;
        }
        if (!take_option(r, option)) return 3;
    }
    if (optind == argc) {
        (void)fputs(k_usage, stderr);
        (void)run_fail("no MODEL is given");
        return 3;
    }
    r->path = argv[optind];
    bool good = true;
    if (optind + 1 < argc)
        good = run_fail("one MODEL is expected, '%s' is too much", argv[optind + 1]);
    if (good && r->shape_count > 0 && !r->random)
        good = run_fail("--shape is for random inputs: give --random too");
    return good ? 0 : 3;
}

/* ---- running ---- */

static bool run_once(dhow_model *model, const run_values *in, run_values *out) {
    uint32_t count = dhow_model_output_count(model);
    if (!run_room(out, count)) return false;
    out->count = count;
    if (dhow_model_run_data(model, NULL, in->item, in->count, out->item, count) == DHOW_OK &&
        dhow_device_sync(dhow_model_device(model)) == DHOW_OK)
        return true;
    (void)run_fail_last();
    run_release(out);
    return false;
}

static bool bench(const run_request *r, dhow_model *model, const run_values *in, json_t *to) {
    double best = 1e30, sum = 0;
    run_values untimed;
    if (!run_once(model, in, &untimed)) return false;
    run_release(&untimed);
    run_progress("measuring", 0);
    for (int i = 0; i < r->bench; i++) {
        run_values out;
        double begun = run_seconds();
        if (!run_once(model, in, &out)) return false;
        double took = run_seconds() - begun;
        run_release(&out);
        sum += took;
        if (took < best) best = took;
        run_progress("measuring", (double)i / r->bench);
    }
    run_progress("measuring", 1);
    (void)json_object_set_new(to, "bench",
                              json_pack("{s:i, s:i, s:f, s:f}", "untimed_runs", 1, "runs", r->bench,
                                        "best_ms", best * 1e3, "mean_ms", sum / r->bench * 1e3));
    return true;
}

static bool write_outputs(run_request *r, dhow_model *model, const run_values *out) {
    for (int k = 0; k < r->output_count; k++) {
        run_pair *p = &r->outputs[k];
        for (uint32_t i = 0; i < out->count && !p->used; i++) {
            dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
            if (dhow_model_output_at(model, i, &info) != DHOW_OK ||
                strlen(info.name) != p->name_length ||
                strncmp(info.name, p->name, p->name_length) != 0)
                continue;
            if (!run_save(out->item[i], p->word)) return false;
            p->used = true;
        }
    }
    return true;
}

static dhow_placement placement_of(const run_request *r) {
    return r->fallback ? DHOW_PLACEMENT_FALLBACK : DHOW_PLACEMENT_STRICT;
}

static bool set_limits(const run_request *r, dhow_model *model) {
    return dhow_model_set_memory_limit(model, r->memory) == DHOW_OK &&
           dhow_model_set_time_limit(model, r->time_limit) == DHOW_OK;
}

/* The same inputs on a second device. */
static bool compare(const run_request *r, dhow_context *context, const run_values *in,
                    const run_values *out, json_t *to) {
    dhow_device *device, *cpu;
    dhow_model *model = NULL;
    run_values moved = {.count = 0}, other = {.count = 0};
    bool good = dhow_device_get(context, r->compare, &device) == DHOW_OK &&
                dhow_device_get(context, "cpu", &cpu) == DHOW_OK &&
                dhow_model_load(context, r->path, &model) == DHOW_OK && set_limits(r, model) &&
                dhow_model_place(model, device, placement_of(r)) == DHOW_OK;
    if (!good) (void)run_fail_last();
    if (good) good = run_move(in, device, &moved);
    if (good) good = run_once(model, &moved, &other);
    if (!good) (void)run_fail_prefix("--compare", "");
    json_t *list = json_array();
    for (uint32_t i = 0; i < out->count && good; i++) {
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        json_t *entry = json_object();
        good = dhow_model_output_at(model, i, &info) == DHOW_OK &&
               run_difference(cpu, out->item[i], other.item[i], entry);
        (void)json_object_set_new(entry, "name", json_string(info.name));
        (void)json_array_append_new(list, entry);
    }
    (void)json_object_set_new(to, "compare",
                              json_pack("{s:s, s:o}", "device", r->compare, "outputs", list));
    run_release(&moved);
    run_release(&other);
    dhow_model_release(model);
    return good;
}

static bool describe_outputs(dhow_context *context, dhow_model *model, const run_values *out,
                             json_t *to) {
    json_t *list = json_array();
    dhow_device *cpu;
    bool good = dhow_device_get(context, "cpu", &cpu) == DHOW_OK;
    for (uint32_t i = 0; i < out->count && good; i++) {
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        json_t *entry = json_object();
        good = dhow_model_output_at(model, i, &info) == DHOW_OK &&
               run_describe(cpu, out->item[i], entry);
        (void)json_object_set_new(entry, "name", json_string(info.name));
        (void)json_array_append_new(list, entry);
    }
    (void)json_object_set_new(to, "results", list);
    return good || run_fail_last();
}

static bool run_on(run_request *r, dhow_context *context, dhow_model *model, dhow_device *device,
                   json_t *all) {
    run_values in = {.count = 0}, out = {.count = 0};
    double begun = run_seconds();
    bool good = run_check_names(r, model) && run_make_inputs(r, model, device, &in);
    if (good)
        good = (set_limits(r, model) && dhow_model_set_precision(model, r->precision) == DHOW_OK &&
                dhow_model_place(model, device, placement_of(r)) == DHOW_OK) ||
               run_fail_last();
    if (good) good = run_show_inputs(&in, json_object_get(all, "inputs"));
    if (good) good = run_once(model, &in, &out);
    (void)json_object_set_new(all, "first_run_ms", json_real((run_seconds() - begun) * 1e3));
    if (good) good = describe_outputs(context, model, &out, all);
    if (good && r->bench > 0) good = bench(r, model, &in, all);
    if (good && r->report) { /* a few more runs, measured step by step */
        good = dhow_model_set_profiling(model, 1) == DHOW_OK;
        enum { MEASURED = 3 };
        for (int i = 0; i < MEASURED && good; i++) {
            run_values again;
            good = run_once(model, &in, &again);
            if (good) run_release(&again);
        }
        if (good) good = run_summary(model, MEASURED, all);
    }
    if (good && r->compare != NULL) good = compare(r, context, &in, &out, all);
    if (good) good = write_outputs(r, model, &out);
    run_release(&in);
    run_release(&out);
    return good;
}

/* A file that cannot be written is told before the work, not after it. */
static bool check_writable(const char *option, const char *path) {
    char folder[4096];
    const char *slash = strrchr(path, '/');
    (void)snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - path + 1) : 1,
                   slash != NULL ? path : ".");
    return access(access(path, F_OK) == 0 ? path : folder, W_OK) == 0 ||
           run_fail("%s %s: %s", option, path, strerror(errno));
}

static bool check_files(const run_request *r) {
    for (int i = 0; i < r->output_count; i++) {
        if (!check_writable("--output", r->outputs[i].word)) return false;
    }
    return r->trace == NULL || check_writable("--trace", r->trace);
}

static bool begin_trace(const run_request *r, dhow_context *context) {
    return r->trace == NULL || dhow_trace_start(context, 0) == DHOW_OK || run_fail_last();
}

/* A list needs no device; who names one wants to know whether it is there. */
static bool load(const run_request *r, dhow_context *context, dhow_device **device,
                 dhow_model **model, json_t *to) {
    dhow_device_info info = DHOW_INIT(dhow_device_info);
    *device = NULL;
    if (!r->list || r->device != NULL) {
        if (dhow_device_get(context, r->device, device) != DHOW_OK ||
            dhow_device_get_info(*device, &info) != DHOW_OK)
            return run_fail_last();
        (void)json_object_set_new(to, "device", json_string(info.name));
    }
    double begun = run_seconds();
    bool good = dhow_model_load(context, r->path, model) == DHOW_OK || run_fail_last();
    (void)json_object_set_new(to, "load_ms", json_real((run_seconds() - begun) * 1e3));
    return good;
}

static bool end_trace(const run_request *r, dhow_context *context, json_t *all) {
    dhow_trace_stats stats = DHOW_INIT(dhow_trace_stats);
    if (r->trace == NULL) return true;
    if (dhow_trace_stop(context) != DHOW_OK || dhow_trace_save(context, r->trace) != DHOW_OK ||
        dhow_trace_get_stats(context, &stats) != DHOW_OK)
        return run_fail_last() || run_fail_prefix("--trace", "");
    (void)json_object_set_new(
        all, "trace",
        json_pack("{s:s, s:I, s:I}", "file", r->trace, "records", (json_int_t)stats.recorded,
                  "dropped", (json_int_t)stats.dropped));
    return true;
}

int main(int argc, char **argv) {
    run_request r = {.precision = DHOW_PRECISION_DEVICE};
    dhow_context *context = NULL;
    dhow_model *model = NULL;
    dhow_device *device = NULL;
    int parsed = parse(argc, argv, &r);
    if (parsed == 3) (void)fprintf(stderr, "dhow-run: %s\n", run_message());
    if (parsed != 0) return parsed - 1;
    json_t *all = json_object();
    (void)json_object_set_new(all, "model", json_string(r.path));
    bool good = check_files(&r);
    if (good) good = dhow_context_create(NULL, &context) == DHOW_OK || run_fail_last();
    if (good) good = begin_trace(&r, context);
    if (good) good = load(&r, context, &device, &model, all);
    if (good) good = run_list(model, all);
    if (good && !r.list) good = run_on(&r, context, model, device, all);
    if (good) {
        good = end_trace(&r, context, all);
    } else if (context != NULL && r.trace != NULL) { /* what led to the failure */
        if (dhow_trace_save(context, r.trace) != DHOW_OK)
            (void)fputs("dhow-run: no trace is written\n", stderr);
    }
    if (good) run_print(&r, all);
    if (good && (fflush(stdout) != 0 || ferror(stdout) != 0))
        good = run_fail("cannot write: %s", strerror(errno));
    if (!good) {
        (void)fprintf(stderr, "dhow-run: %s\n", run_message());
    }
    json_decref(all);
    dhow_model_release(model);
    dhow_context_release(context);
    return good ? 0 : 1;
}
