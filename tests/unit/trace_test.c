/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace is a file that viewers read: valid JSON, slices of every device on one clock, inside the
 * time that the program measured itself, and a count of what there was no room for.
 */
#include <jansson.h>
#include <sys/wait.h>

#include "data_fixture.h"

TestSuite(trace, .timeout = 60);

static json_t *load_trace(const char *path) {
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    cr_assert_not_null(root, "%s:%d: %s", path, error.line, error.text);
    return root;
}

/* Slices of a process with a name and, unless NULL, a category; and their time in microseconds. */
static int count_slices(json_t *root, const char *process, const char *category, const char *name,
                        double *out_time) {
    json_t *events = json_object_get(root, "traceEvents"), *e;
    size_t i;
    json_int_t pid = -1;
    int count = 0;
    *out_time = 0;
    json_array_foreach(events, i, e) {
        const char *given;
        if (strcmp(json_string_value(json_object_get(e, "ph")), "M") != 0) continue;
        given = json_string_value(json_object_get(json_object_get(e, "args"), "name"));
        if (strcmp(given, process) == 0) pid = json_integer_value(json_object_get(e, "pid"));
    }
    cr_assert(pid >= 0, "no process %s", process);
    json_array_foreach(events, i, e) {
        if (strcmp(json_string_value(json_object_get(e, "ph")), "X") != 0) continue;
        cr_assert(json_number_value(json_object_get(e, "ts")) >= 0);
        cr_assert(json_number_value(json_object_get(e, "dur")) >= 0);
        if (json_integer_value(json_object_get(e, "pid")) != pid) continue;
        if (category != NULL && strcmp(json_string_value(json_object_get(e, "cat")), category) != 0)
            continue;
        if (name != NULL && strcmp(json_string_value(json_object_get(e, "name")), name) != 0)
            continue;
        count++;
        *out_time += json_number_value(json_object_get(e, "dur"));
    }
    return count;
}

static json_int_t other(json_t *root, const char *key) {
    return json_integer_value(json_object_get(json_object_get(root, "otherData"), key));
}

Test(trace, kernels_copies_steps_and_waits_of_all_devices_are_there) {
    open_context("launch_us=2000", "");
    dhow_device *sim = device_of("sim:0");
    dhow_tensor *columns[2], *x, *y = NULL, *host;
    const char *path = path_of("trace.json");
    double time;
    make_columns(50, columns);
    dhow_model *model = make_sums(sim, 0), *here = make_sums(g_cpu, 0);
    OK(dhow_trace_start(g_context, 0));
    int64_t begin = dhow_trace_now();
    OK(dhow_tensor_to(columns[0], sim, &x));
    for (int i = 0; i < 3; i++) {
        dhow_tensor_release(y);
        OK(dhow_model_run(model, NULL, &x, 1, &y, 1));
        OK(dhow_add(NULL, x, x, x));
    }
    OK(dhow_tensor_to(y, g_cpu, &host));
    dhow_tensor_release(y);
    OK(dhow_model_run(here, NULL, columns, 1, &y, 1));
    int64_t end = dhow_trace_now();
    OK(dhow_trace_region(g_context, "the \"whole\"\n\xc3\xbc", begin, end));
    OK(dhow_trace_save(g_context, path));
    OK(dhow_trace_stop(g_context));
    OK(dhow_add(NULL, x, x, x)); /* not in it */
    json_t *root = load_trace(path);
    cr_assert_eq(count_slices(root, "sim:0", "kernel", "add_f32", &time), 3);
    /* Device times: each kernel takes 2 ms there, its submission next to nothing. */
    cr_assert(time >= 3 * 2000 && time < (double)(end - begin) / 1e3, "%.1f us", time);
    cr_assert_eq(count_slices(root, "sim:0", "step", NULL, &time), 3);
    cr_assert(time >= 3 * 2000);
    cr_assert_geq(count_slices(root, "sim:0", "copy", NULL, &time), 2);
    cr_assert_geq(count_slices(root, "host", "submit", "add_f32", &time), 3);
    cr_assert_eq(count_slices(root, "host", "kernel", NULL, &time), 0); /* each is counted once */
    cr_assert_geq(count_slices(root, "cpu:0", "step", NULL, &time), 1);
    cr_assert_geq(count_slices(root, "host", "wait", NULL, &time), 1);
    cr_assert_eq(count_slices(root, "host", "region", "the \"whole\"\n\xc3\xbc", &time), 1);
    cr_assert_float_eq(time, (double)(end - begin) / 1e3, 1e-2);
    cr_assert_eq(other(root, "dropped"), 0);
    cr_assert_eq(other(root, "untimed"), 0);
    json_decref(root);
    dhow_tensor *all[] = {columns[0], columns[1], x, y, host};
    for (int i = 0; i < 5; i++) dhow_tensor_release(all[i]);
    dhow_model_release(model);
    dhow_model_release(here);
    close_context();
}

/* How many tracks have the name. */
static int count_tracks(json_t *root, const char *name) {
    json_t *e;
    size_t i;
    int count = 0;
    json_array_foreach(json_object_get(root, "traceEvents"), i, e) {
        if (strcmp(json_string_value(json_object_get(e, "name")), "thread_name") != 0) continue;
        const char *given = json_string_value(json_object_get(json_object_get(e, "args"), "name"));
        count += strcmp(given, name) == 0;
    }
    return count;
}

/* 300 ms of reads were to be seen nowhere, and tracks were numbers. */
Test(trace, reads_and_waits_of_loaders_are_there_and_tracks_and_results_have_names) {
    open_context("launch_us=200", "");
    dhow_device *sim = device_of("sim:0");
    dhow_tensor *columns[2], *y = NULL;
    dhow_dataset *dataset;
    dhow_loader *loader;
    dhow_batch batch = DHOW_INIT(dhow_batch);
    const char *path = path_of("trace.json");
    double time;
    make_columns(50, columns);
    dhow_model *model = make_sums(sim, 0);
    OK(dhow_trace_start(g_context, 0));
    OK(dhow_dataset_from_tensors(columns, 2, &dataset));
    OK(dhow_loader_create(
        dataset, &DHOW_INIT(dhow_loader_options, .batch_size = 25, .workers = 1, .device = sim),
        &loader));
    for (int i = 0; i < 2; i++) {
        OK(dhow_loader_next(loader, &batch));
        dhow_tensor_release(y);
        OK(dhow_model_run(model, NULL, &batch.tensors[0], 1, &y, 1));
    }
    dhow_loader_release(loader);
    OK(dhow_trace_save(g_context, path));
    json_t *root = load_trace(path), *e;
    cr_assert_geq(count_slices(root, "host", "data", "read", &time), 2);
    cr_assert_eq(count_slices(root, "host", "data", "dhow_loader_next", &time), 2);
    cr_assert_geq(count_tracks(root, "dhow loader"), 1);
    cr_assert_geq(count_tracks(root, "stream 0"), 1);
    size_t i;
    int results = 0;
    json_array_foreach(json_object_get(root, "traceEvents"), i, e) {
        const char *result =
            json_string_value(json_object_get(json_object_get(e, "args"), "result"));
        if (result == NULL) continue;
        cr_assert_str_eq(result, "f32[25, 1]");
        results++;
    }
    cr_assert_eq(results, 2);
    json_decref(root);
    dhow_tensor *all[] = {columns[0], columns[1], y};
    for (int k = 0; k < 3; k++) dhow_tensor_release(all[k]);
    dhow_dataset_release(dataset);
    dhow_model_release(model);
    close_context();
}

/* When the first step of a device ran, in microseconds. */
static void step_time(json_t *root, const char *process, double *begin, double *end) {
    json_t *e;
    size_t i;
    json_int_t pid = -1;
    *begin = *end = -1;
    json_array_foreach(json_object_get(root, "traceEvents"), i, e) {
        const char *name = json_string_value(json_object_get(json_object_get(e, "args"), "name"));
        if (name != NULL && strcmp(name, process) == 0)
            pid = json_integer_value(json_object_get(e, "pid"));
        if (json_integer_value(json_object_get(e, "pid")) != pid ||
            json_string_value(json_object_get(e, "cat")) == NULL ||
            strcmp(json_string_value(json_object_get(e, "cat")), "step") != 0)
            continue;
        *begin = json_number_value(json_object_get(e, "ts"));
        *end = *begin + json_number_value(json_object_get(e, "dur"));
        return;
    }
}

/* Results of one device once waited in the queue of copies before the inputs of the other, which
 * come there later, since more rows are gathered first. */
Test(trace, devices_that_share_a_batch_compute_at_the_same_time) {
    static const double shares[] = {1, 50};
    dhow_model *model;
    dhow_model_value v;
    dhow_parallel *parallel;
    dhow_tensor *x, *turned, *y = NULL;
    double from[2], to[2];
    open_context("launch_us=300000", "");
    dhow_device *devices[] = {device_of("sim:0"), device_of("sim:1")};
    const char *path = path_of("trace.json");
    OK(dhow_model_create(g_context, &model));
    OK(dhow_model_input(model, "x", DHOW_F32, DHOW_SHAPE(-1, 256), &v));
    OK(dhow_model_relu(model, v, &v));
    OK(dhow_model_output(model, "y", v));
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(256, 8192), 1, &x));
    OK(dhow_tensor_transpose(x, 0, 1, &turned));
    OK(dhow_parallel_create(model, devices, 2, &DHOW_INIT(dhow_parallel_options, .shares = shares),
                            &parallel));
    OK(dhow_trace_start(g_context, 0));
    OK(dhow_parallel_run(parallel, &turned, 1, &y, 1));
    OK(dhow_trace_save(g_context, path));
    json_t *root = load_trace(path);
    step_time(root, "sim:0", &from[0], &to[0]);
    step_time(root, "sim:1", &from[1], &to[1]);
    cr_assert(from[0] >= 0 && from[1] >= 0, "a device has no step");
    cr_assert(from[0] < to[1] && from[1] < to[0], "%.0f to %.0f and %.0f to %.0f", from[0], to[0],
              from[1], to[1]);
    json_decref(root);
    dhow_parallel_release(parallel);
    dhow_tensor_release(x);
    dhow_tensor_release(turned);
    dhow_tensor_release(y);
    dhow_model_release(model);
    close_context();
}

/* All work of one stream comes one after the other on its track. */
Test(trace, slices_of_a_stream_do_not_overlap) {
    open_context("jitter_us=300", "");
    dhow_device *sim = device_of("sim:1");
    dhow_tensor *x;
    const char *path = path_of("trace.json");
    OK(dhow_trace_start(g_context, 0));
    OK(dhow_tensor_full(sim, DHOW_F32, DHOW_SHAPE(100), 1, &x));
    for (int i = 0; i < 50; i++) OK(dhow_add(NULL, x, x, x));
    OK(dhow_trace_save(g_context, path));
    json_t *root = load_trace(path), *e;
    size_t i;
    double last = -1;
    int seen = 0;
    json_array_foreach(json_object_get(root, "traceEvents"), i, e) {
        const char *name = json_string_value(json_object_get(e, "name"));
        if (strcmp(name, "add_f32") != 0 || json_integer_value(json_object_get(e, "pid")) == 1)
            continue;
        double ts = json_number_value(json_object_get(e, "ts"));
        cr_assert(ts >= last - 1e-3, "%f begins before %f", ts, last);
        last = ts + json_number_value(json_object_get(e, "dur"));
        seen++;
    }
    cr_assert_eq(seen, 50);
    json_decref(root);
    dhow_tensor_release(x);
    close_context();
}

Test(trace, what_there_is_no_room_for_is_counted) {
    open_context("", "");
    dhow_tensor *x;
    dhow_trace_stats stats = DHOW_INIT(dhow_trace_stats);
    const char *path = path_of("trace.json");
    OK(dhow_trace_start(g_context, 10));
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(4), 1, &x));
    for (int i = 0; i < 30; i++) OK(dhow_add(NULL, x, x, x));
    OK(dhow_trace_get_stats(g_context, &stats));
    cr_assert(stats.recorded == 10 && stats.dropped >= 20 && stats.untimed == 0);
    OK(dhow_trace_save(g_context, path));
    json_t *root = load_trace(path);
    cr_assert_eq((uint64_t)other(root, "dropped"), stats.dropped);
    json_decref(root);
    dhow_tensor_release(x);
    close_context();
}

/* More under way than there are events for: the host's times are there, and the rest is counted. */
Test(trace, work_without_device_times_is_counted) {
    open_context("delay_us=100", "");
    dhow_device *sim = device_of("sim");
    dhow_tensor *x;
    dhow_trace_stats stats = DHOW_INIT(dhow_trace_stats);
    OK(dhow_trace_start(g_context, 0));
    OK(dhow_tensor_full(sim, DHOW_F32, DHOW_SHAPE(4), 1, &x));
    for (int i = 0; i < 1500; i++) OK(dhow_add(NULL, x, x, x));
    OK(dhow_trace_get_stats(g_context, &stats));
    cr_assert(stats.untimed > 0 && stats.untimed < 600, "%lu", (unsigned long)stats.untimed);
    OK(dhow_device_sync(sim));
    dhow_tensor_release(x);
    close_context();
}

Test(trace, the_environment_traces_a_whole_program) {
    char folder[] = "/tmp/dhow-trace-XXXXXX", path[64], second[64], command[128];
    cr_assert_not_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/out.json", folder);
    (void)snprintf(second, sizeof second, "%s/out.2.json", folder);
    (void)setenv("DHOW_TRACE", path, 1);
    for (int run = 0; run < 2; run++) {
        double time;
        dhow_tensor *x;
        open_context("", "");
        OK(dhow_tensor_full(device_of("sim"), DHOW_F32, DHOW_SHAPE(4), 1, &x));
        OK(dhow_add(NULL, x, x, x));
        dhow_tensor_release(x);
        close_context();
        json_t *root = load_trace(run == 0 ? path : second);
        cr_assert_eq(count_slices(root, "sim:0", "kernel", "add_f32", &time), 1);
        json_decref(root);
    }
    (void)setenv("DHOW_TRACE", "/nowhere/out.json", 1);
    dhow_context *context;
    static const dhow_context_options options =
        DHOW_FIELDS(dhow_context_options, .backends = "cpu");
    FAILS(DHOW_IO_ERROR, dhow_context_create(&options, &context));
    SAYS("DHOW_TRACE: ");
    SAYS("/nowhere/out.3.json: cannot write");
    (void)unsetenv("DHOW_TRACE");
    (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
    cr_assert_eq(system(command), 0);
}

/* A program that forgets a tensor, and one that releases nothing at all: both leave their trace. */
static void leave_things_behind(const char *path, bool release_context) {
    pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0) {
        static const dhow_context_options options =
            DHOW_FIELDS(dhow_context_options, .backends = "cpu,sim",
                        .plugin_path = DHOW_TEST_SIM_DIR, .cache_dir = "off");
        dhow_context *context;
        dhow_device *device;
        dhow_tensor *x;
        (void)setenv("DHOW_TRACE", path, 1);
        (void)setenv("DHOW_SIM", "delay_us=20000", 1);
        OK(dhow_context_create(&options, &context));
        OK(dhow_device_get(context, "sim", &device));
        OK(dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(4), 1, &x));
        OK(dhow_add(NULL, x, x, x));
        if (release_context) {
            dhow_context_release(context);
            _exit(0);
        }
        exit(0);
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void is_traced_though(bool release_context) {
    char folder[] = "/tmp/dhow-trace-XXXXXX", path[64], command[128];
    double time;
    cr_assert_not_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/out.json", folder);
    leave_things_behind(path, release_context);
    json_t *root = load_trace(path);
    cr_assert_eq(count_slices(root, "sim:0", "kernel", "add_f32", &time), 1);
    cr_assert(time > 0, "the time on the device is missing");
    json_decref(root);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
    cr_assert_eq(system(command), 0);
}

Test(trace, a_program_that_forgets_a_tensor_is_traced) { is_traced_though(true); }
Test(trace, a_program_that_releases_nothing_is_traced) { is_traced_though(false); }

/* The lost device's work is in the trace, with the host's times. */
Test(trace, a_device_that_is_lost_does_not_stop_it) {
    open_context("", "launch@2=async:DEVICE_LOST!");
    dhow_tensor *x;
    double time;
    const char *path = path_of("trace.json");
    OK(dhow_trace_start(g_context, 0));
    OK(dhow_tensor_full(device_of("sim"), DHOW_F32, DHOW_SHAPE(4), 1, &x));
    for (int i = 0; i < 2; i++) OK(dhow_add(NULL, x, x, x));
    FAILS(DHOW_DEVICE_LOST, dhow_device_sync(device_of("sim")));
    OK(dhow_trace_save(g_context, path));
    json_t *root = load_trace(path);
    cr_assert_eq(count_slices(root, "sim:0", "kernel", "add_f32", &time), 2);
    json_decref(root);
    dhow_tensor_release(x);
    close_context();
}

Test(trace, mistakes_are_told) {
    open_context("", "");
    FAILS(DHOW_INVALID_ARGUMENT, dhow_trace_save(g_context, "x.json"));
    SAYS("call dhow_trace_start() before");
    FAILS(DHOW_INVALID_ARGUMENT, dhow_trace_region(g_context, "x", 2, 1));
    SAYS("'x' ends before it begins");
    FAILS(DHOW_INVALID_ARGUMENT, dhow_trace_region(g_context, "x", INT64_MIN, 1));
    SAYS("'x' begins at no time of dhow_trace_now()");
    OK(dhow_trace_region(g_context, "x", 1, 2)); /* nothing is traced: nothing happens */
    OK(dhow_trace_start(g_context, 0));
    FAILS(DHOW_IO_ERROR, dhow_trace_save(g_context, "/nowhere/x.json"));
    close_context();
}
