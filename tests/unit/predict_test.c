/* SPDX-License-Identifier: Apache-2.0
 *
 * Predictions over data larger than the device: results are complete and in order, also when a
 * batch fails.
 */
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "data_fixture.h"

TestSuite(predict, .timeout = 120);

static dhow_loader *loader_on(dhow_dataset *dataset, dhow_device *device, uint32_t workers) {
    dhow_loader *loader;
    const dhow_loader_options options =
        DHOW_INIT(dhow_loader_options, .batch_size = 8, .device = device, .workers = workers);
    OK(dhow_loader_create(dataset, &options, &loader));
    return loader;
}

/* Row i of the results is 3 i + 0.75 + b. */
static void check_rows(dhow_tensor *rows, int64_t count, float b) {
    float values[512];
    cr_assert_eq(dhow_tensor_extent(rows, 0), count);
    OK(dhow_tensor_read(rows, values, (uint64_t)count * sizeof *values));
    for (int64_t i = 0; i < count; i++) cr_assert_eq(values[i], 3 * (float)i + 0.75f + b);
}

static void check_sink(dhow_sink *sink, int64_t count, float b) {
    dhow_tensor *rows;
    OK(dhow_sink_tensor(sink, 0, &rows));
    check_rows(rows, count, b);
    dhow_tensor_release(rows);
}

Test(predict, results_of_all_batches_come_in_order_on_every_device) {
    static const char *const devices[] = {"cpu", "sim:0"};
    open_context("jitter_us=300", "");
    dhow_dataset *dataset = make_dataset(205);
    for (int d = 0; d < 2; d++) {
        for (uint32_t workers = 0; workers < 3; workers++) {
            dhow_device *device = device_of(devices[d]);
            dhow_model *model = make_sums(device, 1);
            dhow_loader *loader = loader_on(dataset, device, workers);
            dhow_sink *sink;
            OK(dhow_sink_to_tensors(g_context, &sink));
            OK(dhow_predict(model, loader, sink));
            check_sink(sink, 205, 1);
            dhow_sink_release(sink);
            dhow_loader_release(loader);
            dhow_model_release(model);
        }
    }
    dhow_dataset_release(dataset);
    close_context();
}

Test(predict, data_and_results_may_be_larger_than_the_device) {
    open_context("memory=64K", "");
    enum { SAMPLES = 20000 }; /* 240 KB in, 80 KB out */
    dhow_tensor *columns[2], *rows;
    make_columns(SAMPLES, columns);
    OK(dhow_npy_save(columns[0], path_of("x.npy")));
    for (int i = 0; i < 2; i++) dhow_tensor_release(columns[i]);
    dhow_dataset *dataset;
    dhow_loader *loader;
    dhow_sink *sink;
    const char *in = path_of("x.npy"), *out = path_of("y.npy");
    dhow_model *model = make_sums(device_of("sim"), 0.5f);
    OK(dhow_dataset_open_npy(g_context, &in, 1, &dataset));
    OK(dhow_loader_create(dataset,
                          &DHOW_INIT(dhow_loader_options, .batch_size = 300,
                                     .device = device_of("sim"), .workers = 1),
                          &loader));
    OK(dhow_sink_to_npy(g_context, &out, 1, &sink));
    OK(dhow_predict(model, loader, sink));
    cr_assert_neq(access(out, F_OK), 0, "the file appears only when it is finished");
    OK(dhow_sink_finish(sink));
    dhow_sink_release(sink);
    OK(dhow_npy_load(g_cpu, out, &rows));
    float *values = malloc(SAMPLES * sizeof *values);
    OK(dhow_tensor_read(rows, values, SAMPLES * sizeof *values));
    for (int i = 0; i < SAMPLES; i++) cr_assert_eq(values[i], 3 * (float)i + 1.25f);
    free(values);
    dhow_tensor_release(rows);
    dhow_loader_release(loader);
    dhow_dataset_release(dataset);
    dhow_model_release(model);
    close_context();
}

Test(predict, a_sink_that_is_not_finished_leaves_no_file) {
    open_context("", "");
    dhow_dataset *dataset = make_dataset(30);
    dhow_model *model = make_sums(g_cpu, 0);
    dhow_loader *loader = loader_on(dataset, g_cpu, 0);
    dhow_sink *sink;
    const char *out = path_of("y.npy");
    char command[160];
    OK(dhow_sink_to_npy(g_context, &out, 1, &sink));
    OK(dhow_predict(model, loader, sink));
    dhow_sink_release(sink);
    (void)snprintf(command, sizeof command, "test -z \"$(ls -A '%s')\"", g_folder);
    cr_assert_eq(system(command), 0, "something was left in %s", g_folder);
    dhow_loader_release(loader);
    dhow_model_release(model);
    dhow_dataset_release(dataset);
    close_context();
}

Test(predict, a_file_that_cannot_be_written_is_told_at_once) {
    open_context("", "");
    dhow_sink *sink;
    const char *nowhere = "/nonexistent/y.npy";
    FAILS(DHOW_IO_ERROR, dhow_sink_to_npy(g_context, &nowhere, 1, &sink));
    SAYS("/nonexistent/y.npy: cannot write: No such file or directory");
    cr_assert_null(sink);
    close_context();
}

/* Two outputs of each row: its sum, and something of `width`. */
static dhow_model *make_two(int64_t width) {
    dhow_model *m;
    dhow_model_value x, sum, wide;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(-1, FEATURES), &x));
    OK(dhow_model_linear(m, "sum", x, FEATURES, 1, 0, &sum));
    OK(dhow_model_linear(m, "wide", x, FEATURES, width, 0, &wide));
    OK(dhow_model_output(m, "sum", sum));
    OK(dhow_model_output(m, "wide", wide));
    return m;
}

/* Once the second file had no room, the first one kept the rows, and got them again. */
Test(predict, a_batch_goes_to_all_files_or_to_none) {
    enum { ROWS = 400 };
    const rlim_t limits[] = {100, 320 + 8 * 8 * sizeof(float) + 12}; /* no header; two batches */
    open_context("", "");
    (void)signal(SIGXFSZ, SIG_IGN);
    dhow_dataset *dataset = make_dataset(ROWS);
    dhow_model *model = make_two(8);
    dhow_loader *loader = loader_on(dataset, g_cpu, 0);
    for (int l = 0; l < 2; l++) {
        struct rlimit room = {limits[l], RLIM_INFINITY};
        dhow_sink *sink;
        const char *paths[] = {path_of("sum.npy"), path_of("wide.npy")};
        OK(dhow_sink_to_npy(g_context, paths, 2, &sink));
        OK(dhow_loader_restart(loader, 0, 0));
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &room), 0);
        dhow_status status = dhow_predict(model, loader, sink);
        room.rlim_cur = RLIM_INFINITY;
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &room), 0);
        cr_assert_eq(status, DHOW_IO_ERROR);
        SAYS(l == 0 ? "sum.npy: cannot write: File too large"
                    : "wide.npy: cannot write: File too large");
        const char *batch = strstr(dhow_last_error(), "batch ");
        cr_assert_not_null(batch);
        OK(dhow_loader_restart(loader, 0, strtol(batch + 6, NULL, 10)));
        OK(dhow_predict(model, loader, sink));
        OK(dhow_sink_finish(sink));
        for (int i = 0; i < 2; i++) {
            dhow_tensor *rows;
            OK(dhow_npy_load(g_cpu, paths[i], &rows));
            cr_assert_eq(dhow_tensor_extent(rows, 0), ROWS, "%s", paths[i]);
            dhow_tensor_release(rows);
        }
        dhow_sink_release(sink);
    }
    dhow_loader_release(loader);
    dhow_model_release(model);
    dhow_dataset_release(dataset);
    close_context();
}

Test(predict, a_batch_goes_to_all_tensors_or_to_none) {
    open_context("", "");
    dhow_dataset *dataset = make_dataset(30);
    dhow_model *model = make_two(4), *other = make_two(5);
    dhow_loader *loader = loader_on(dataset, g_cpu, 0);
    dhow_sink *sink;
    OK(dhow_sink_to_tensors(g_context, &sink));
    OK(dhow_predict(model, loader, sink));
    FAILS(DHOW_INVALID_ARGUMENT, dhow_predict(other, loader, sink));
    SAYS("output 1 is ");
    for (uint32_t i = 0; i < 2; i++) {
        dhow_tensor *rows;
        OK(dhow_sink_tensor(sink, i, &rows));
        cr_assert_eq(dhow_tensor_extent(rows, 0), 30);
        dhow_tensor_release(rows);
    }
    dhow_sink_release(sink);
    dhow_loader_release(loader);
    dhow_model_release(model);
    dhow_model_release(other);
    dhow_dataset_release(dataset);
    close_context();
}

/* What came after would have replaced the file by one with the later rows alone. */
Test(predict, a_finished_sink_takes_nothing_more) {
    open_context("", "");
    dhow_dataset *dataset = make_dataset(30);
    dhow_model *model = make_sums(g_cpu, 0);
    dhow_loader *loader = loader_on(dataset, g_cpu, 0);
    dhow_sink *sink;
    const char *out = path_of("y.npy"), *twice[] = {out, out};
    dhow_tensor *rows;
    FAILS(DHOW_INVALID_ARGUMENT, dhow_sink_to_npy(g_context, twice, 2, &sink));
    SAYS("paths 0 and 1 are both ");
    cr_assert_null(sink);
    OK(dhow_sink_to_npy(g_context, &out, 1, &sink));
    FAILS(DHOW_NOT_READY, dhow_sink_finish(sink));
    OK(dhow_predict(model, loader, sink));
    OK(dhow_sink_finish(sink));
    OK(dhow_sink_finish(sink));
    OK(dhow_loader_restart(loader, 1, 2));
    FAILS(DHOW_INVALID_ARGUMENT, dhow_predict(model, loader, sink));
    SAYS("it is finished");
    OK(dhow_sink_finish(sink));
    OK(dhow_npy_load(g_cpu, out, &rows));
    cr_assert_eq(dhow_tensor_extent(rows, 0), 30);
    dhow_tensor_release(rows);
    dhow_sink_release(sink);
    dhow_loader_release(loader);
    dhow_model_release(model);
    dhow_dataset_release(dataset);
    close_context();
}

/* It would remove the files that the parent still writes. */
Test(predict, a_forked_child_leaves_its_parents_files_alone) {
    open_context("", "");
    dhow_dataset *dataset = make_dataset(30);
    dhow_model *model = make_sums(g_cpu, 0);
    dhow_loader *loader = loader_on(dataset, g_cpu, 0);
    dhow_sink *sink;
    dhow_tensor *rows;
    const char *out = path_of("y.npy");
    OK(dhow_sink_to_npy(g_context, &out, 1, &sink));
    OK(dhow_predict(model, loader, sink));
    pid_t child = fork();
    if (child == 0) {
        dhow_device *device;
        bool fine = dhow_sink_finish(sink) == DHOW_FORKED &&
                    dhow_device_get(g_context, "sim", &device) == DHOW_FORKED;
        dhow_sink_release(sink);
        _exit(fine ? 0 : 1);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    OK(dhow_sink_finish(sink));
    OK(dhow_npy_load(g_cpu, out, &rows));
    cr_assert_eq(dhow_tensor_extent(rows, 0), 30);
    dhow_tensor_release(rows);
    dhow_sink_release(sink);
    dhow_loader_release(loader);
    dhow_model_release(model);
    dhow_dataset_release(dataset);
    close_context();
}

typedef struct taker {
    int64_t rows, stops_at;
} taker;

static dhow_status take(void *user, const dhow_batch *results) {
    taker *t = user;
    float values[8];
    if (results->index == t->stops_at) return DHOW_CANCELLED;
    OK(dhow_tensor_read(results->tensors[0], values,
                        (uint64_t)results->sample_count * sizeof *values));
    for (int64_t i = 0; i < results->sample_count; i++)
        cr_assert_eq(values[i], 3 * (float)(t->rows + i) + 0.75f);
    t->rows += results->sample_count;
    return DHOW_OK;
}

Test(predict, a_function_takes_results_and_may_stop) {
    static const char *const devices[] = {"cpu", "sim"};
    open_context("jitter_us=100", "");
    dhow_dataset *dataset = make_dataset(100);
    for (int d = 0; d < 2; d++) {
        taker t = {.stops_at = 5};
        dhow_device *device = device_of(devices[d]);
        dhow_model *model = make_sums(device, 0);
        dhow_loader *loader = loader_on(dataset, device, 1);
        dhow_sink *sink;
        OK(dhow_sink_to_function(g_context, take, &t, &sink));
        FAILS(DHOW_CANCELLED, dhow_predict(model, loader, sink));
        SAYS("dhow_predict: batch 5 (samples 40 to 47) on ");
        SAYS("the sink's function returned CANCELLED");
        cr_assert_eq(t.rows, 40);
        t.stops_at = -1;
        OK(dhow_loader_restart(loader, 0, 5));
        OK(dhow_predict(model, loader, sink));
        cr_assert_eq(t.rows, 100);
        dhow_sink_release(sink);
        dhow_loader_release(loader);
        dhow_model_release(model);
    }
    dhow_dataset_release(dataset);
    close_context();
}

/* ---- faults ---- */

/* Predicts with a fault until it strikes; what came before is there, and the rest can follow on the
 * CPU. */
static void strike(const char *fault, dhow_status expected, const char *says, uint32_t workers) {
    open_context("jitter_us=100", fault);
    dhow_device *sim = device_of("sim:0");
    dhow_dataset *dataset = make_dataset(100);
    dhow_model *model = make_sums(sim, 0), *spare = make_sums(g_cpu, 0);
    dhow_loader *loader = loader_on(dataset, sim, workers), *rest = loader_on(dataset, g_cpu, 0);
    dhow_sink *sink;
    dhow_tensor *rows;
    OK(dhow_sink_to_tensors(g_context, &sink));
    FAILS(expected, dhow_predict(model, loader, sink));
    SAYS("batch ");
    SAYS("sim:0");
    SAYS(says);
    int64_t done = 0;
    if (dhow_sink_tensor(sink, 0, &rows) == DHOW_OK) {
        done = dhow_tensor_extent(rows, 0);
        check_rows(rows, done, 0);
        dhow_tensor_release(rows);
    }
    cr_assert(done < 100 && done % 8 == 0);
    OK(dhow_loader_restart(rest, 0, done / 8));
    OK(dhow_predict(spare, rest, sink));
    check_sink(sink, 100, 0);
    dhow_sink_release(sink);
    dhow_loader_release(loader);
    dhow_loader_release(rest);
    dhow_model_release(model);
    dhow_model_release(spare);
    dhow_dataset_release(dataset);
    close_context();
}

Test(predict, out_of_memory_in_a_batch_is_told_and_others_go_on) {
    strike("mem_alloc@6+=OUT_OF_MEMORY", DHOW_OUT_OF_MEMORY, "out of memory", 0);
    strike("host_alloc@3+=OUT_OF_MEMORY", DHOW_OUT_OF_MEMORY, "out of memory", 1);
}

Test(predict, a_copy_that_fails_later_is_told) {
    strike("copy@9=async:INTERNAL", DHOW_INTERNAL, "scripted fault: copy", 0);
    strike("copy@12=async:INTERNAL", DHOW_INTERNAL, "scripted fault: copy", 2);
}

/* Goes on from the batch that the message names, on the same device. Failures of the loader's
 * copies and of the model's kernels were not seen: wrong rows came with OK, or a later batch was
 * blamed again and again. */
static void go_on_after(const char *slot, int call, uint32_t workers) {
    char fault[64];
    (void)snprintf(fault, sizeof fault, "%s@%d=async:INTERNAL", slot, call);
    open_context("", fault);
    dhow_device *sim = device_of("sim:0");
    dhow_dataset *dataset = make_dataset(60);
    dhow_model *model = make_sums(sim, 0);
    OK(dhow_device_sync(sim)); /* before the loader, which begins at once */
    dhow_loader *loader = loader_on(dataset, sim, workers);
    dhow_sink *sink;
    OK(dhow_sink_to_tensors(g_context, &sink));
    int tries = 0;
    while (dhow_predict(model, loader, sink) != DHOW_OK) {
        const char *batch = strstr(dhow_last_error(), "batch ");
        cr_assert(batch != NULL && ++tries < 3, "%s: %s", fault, dhow_last_error());
        OK(dhow_loader_restart(loader, 0, strtol(batch + 6, NULL, 10)));
    }
    check_sink(sink, 60, 0);
    dhow_sink_release(sink);
    dhow_loader_release(loader);
    dhow_model_release(model);
    dhow_dataset_release(dataset);
    close_context();
}

Test(predict, goes_on_from_the_batch_that_failed_later_wherever_it_was) {
    for (uint32_t workers = 0; workers < 3; workers += 2) {
        for (int call = 6; call < 24; call++) go_on_after("copy", call, workers);
        for (int call = 2; call < 10; call++) go_on_after("launch", call, workers);
    }
}

Test(predict, a_lost_device_is_told_and_others_go_on) {
    strike("launch@4=DEVICE_LOST!", DHOW_DEVICE_LOST, "scripted fault: launch", 0);
    strike("launch@5=async:DEVICE_LOST!", DHOW_DEVICE_LOST, "scripted fault", 1);
    strike("copy@11=DEVICE_LOST!", DHOW_DEVICE_LOST, "scripted fault: copy", 2);
}
