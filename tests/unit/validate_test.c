/* SPDX-License-Identifier: Apache-2.0
 *
 * DHOW_VALIDATE=1: mistakes are told with the places in the program where objects were made and
 * released.
 */
#include "data_fixture.h"

static char g_log[4096];

static void keep_log(void *user, dhow_log_level level, const char *message) {
    (void)user;
    (void)level;
    size_t length = strlen(g_log);
    (void)snprintf(g_log + length, sizeof g_log - length, "%s\n", message);
}

static dhow_context *open_checking(void) {
    static const dhow_context_options options =
        DHOW_FIELDS(dhow_context_options, .backends = "cpu", .cache_dir = "off", .log = keep_log);
    dhow_context *context;
    (void)setenv("DHOW_VALIDATE", "1", 1);
    OK(dhow_context_create(&options, &context));
    OK(dhow_device_get(context, "cpu", &g_cpu));
    return context;
}

/* Criterion runs tests in a program of this name; what matters is that it is not libdhow.so. */
#define WORKER "boxfort-worker"
#define LOG_SAYS(text) cr_assert_not_null(strstr(g_log, (text)), "the log says:\n%s", g_log)

Test(validate, leaks_are_told_with_the_place_where_they_were_made) {
    dhow_context *context = open_checking();
    dhow_tensor *kept;
    dhow_stream *stream;
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(3), 1, &kept));
    OK(dhow_stream_create(g_cpu, &stream));
    OK(dhow_fill(NULL, kept, 2)); /* on a stream that is no program's */
    dhow_context_release(context);
    LOG_SAYS("1 of kind stream, 1 of kind tensor");
    LOG_SAYS("a tensor lives (made at " WORKER);
    LOG_SAYS("a stream lives (made at " WORKER);
    dhow_tensor_release(kept);
    dhow_stream_release(stream);
}

/* A program's log function uses dhow itself, to send lines to a window for instance. */
static dhow_device *g_device_of_log;
static void keep_log_in_a_tensor(void *user, dhow_log_level level, const char *message) {
    dhow_tensor *t;
    dhow_stream *stream;
    OK(dhow_tensor_full(g_device_of_log, DHOW_F32, DHOW_SHAPE(3), 1, &t));
    OK(dhow_stream_create(g_device_of_log, &stream));
    dhow_tensor_release(t);
    dhow_stream_release(stream);
    keep_log(user, level, message);
}

Test(validate, a_log_function_that_is_told_of_leaks_may_make_objects, .timeout = 20) {
    static const dhow_context_options options = DHOW_FIELDS(
        dhow_context_options, .backends = "cpu", .cache_dir = "off", .log = keep_log_in_a_tensor);
    enum { KEPT = 20 };
    dhow_context *context, *other = open_checking();
    dhow_tensor *kept[KEPT];
    OK(dhow_device_get(other, "cpu", &g_device_of_log));
    OK(dhow_context_create(&options, &context));
    OK(dhow_device_get(context, "cpu", &g_cpu));
    for (int i = 0; i < KEPT; i++)
        OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(3), 1, &kept[i]));
    dhow_context_release(context);
    LOG_SAYS("20 of kind tensor");
    LOG_SAYS("and 4 more of kind tensor");
    for (int i = 0; i < KEPT; i++) dhow_tensor_release(kept[i]);
    dhow_context_release(other);
}

Test(validate, a_program_that_releases_everything_is_quiet) {
    dhow_context *context = open_checking();
    dhow_tensor *t;
    dhow_event *event;
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(3), 1, &t));
    OK(dhow_event_create(g_cpu, 0, &event));
    OK(dhow_event_record(event, NULL));
    OK(dhow_event_sync(event));
    OK(dhow_stream_wait(NULL, event));
    dhow_event_release(event);
    dhow_tensor_release(t);
    dhow_context_release(context);
    cr_assert_str_empty(g_log, "%s", g_log);
}

/* Models that eager calls keep for later ones hold the context. */
Test(validate, calls_that_keep_models_end_with_the_context) {
    dhow_context *context = open_checking();
    dhow_tensor *x, *row, *y;
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(2, 3), 1, &x));
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(3), 1, &row));
    OK(dhow_tensor_empty_like(x, &y));
    for (int i = 0; i < 2; i++) OK(dhow_rmsnorm(NULL, x, row, 0, y));
    dhow_tensor_release(row);
    dhow_context_release(context);
    LOG_SAYS("2 of kind tensor"); /* and no model */
    cr_assert_null(strstr(g_log, "of kind model"), "%s", g_log);
    OK(dhow_pad(NULL, x, NULL, 0, DHOW_PAD_CONSTANT, 0, y)); /* what is left keeps nothing more */
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    cr_assert_eq(dhow_device_count(context), 0, "the context has ended");
}

Test(validate, use_after_release_is_told_with_both_places) {
    dhow_context *context = open_checking();
    dhow_tensor *t;
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(3), 1, &t));
    dhow_tensor_release(t);
    FAILS(DHOW_INVALID_ARGUMENT, dhow_tensor_retain(t));
    SAYS("tensor is no live tensor");
    SAYS("(made at " WORKER);
    SAYS(", released at " WORKER);
    dhow_context_release(context);
}

/* "list(loader)": what is kept without being retained held the data of later batches. */
Test(validate, tensors_of_a_batch_are_over_with_the_next_one) {
    enum { BATCHES = 8 };
    dhow_context *context = open_checking();
    float values[4 * BATCHES];
    dhow_tensor *x, *kept[BATCHES], *held = NULL;
    dhow_dataset *dataset;
    dhow_loader *loader;
    dhow_batch batch = DHOW_INIT(dhow_batch);
    for (int i = 0; i < 4 * BATCHES; i++) values[i] = (float)i;
    OK(dhow_tensor_from_data(g_cpu, DHOW_F32, DHOW_SHAPE(4 * BATCHES), values, &x));
    OK(dhow_dataset_from_tensors(&x, 1, &dataset));
    OK(dhow_loader_create(dataset, &DHOW_INIT(dhow_loader_options, .batch_size = 4), &loader));
    for (int i = 0; i < BATCHES; i++) {
        OK(dhow_loader_next(loader, &batch));
        kept[i] = batch.tensors[0];
        if (i == 3) OK(dhow_tensor_retain(held = kept[i]));
    }
    for (int i = 0; i < BATCHES; i++) {
        float got[4];
        if (i == 3 || i == BATCHES - 1) {
            OK(dhow_tensor_read(kept[i], got, sizeof got));
            cr_assert_eq(got[0], (float)(4 * i));
        } else {
            FAILS(DHOW_INVALID_ARGUMENT, dhow_tensor_read(kept[i], got, sizeof got));
            SAYS("is no live tensor");
        }
    }
    dhow_tensor_release(held);
    dhow_loader_release(loader);
    dhow_dataset_release(dataset);
    dhow_tensor_release(x);
    dhow_context_release(context);
}

Test(validate, an_event_that_was_never_recorded_is_told) {
    dhow_context *context = open_checking();
    dhow_event *event;
    OK(dhow_event_create(g_cpu, 0, &event));
    OK(dhow_stream_wait(NULL, event));
    LOG_SAYS(
        "dhow_stream_wait: the event was never recorded, so nothing is waited for (made "
        "at " WORKER);
    dhow_event_release(event);
    dhow_context_release(context);
}

Test(validate, without_it_nothing_is_kept_or_told) {
    static const dhow_context_options options =
        DHOW_FIELDS(dhow_context_options, .backends = "cpu", .cache_dir = "off", .log = keep_log);
    dhow_context *context;
    dhow_tensor *t;
    dhow_event *event;
    (void)setenv("DHOW_VALIDATE", "off", 1);
    OK(dhow_context_create(&options, &context));
    OK(dhow_device_get(context, "cpu", &g_cpu));
    OK(dhow_event_create(g_cpu, 0, &event));
    OK(dhow_stream_wait(NULL, event));
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(3), 1, &t));
    dhow_tensor_release(t);
    FAILS(DHOW_INVALID_ARGUMENT, dhow_tensor_retain(t));
    cr_assert_null(strstr(dhow_last_error(), "made at"));
    dhow_event_release(event);
    dhow_context_release(context);
    cr_assert_str_empty(g_log, "%s", g_log);
}

/* ---- kernels that write past the end of what they are given ---- */

static void expect_guarded(dhow_context *context, const char *device_name) {
    static const dhow_module_source source =
        DHOW_FIELDS(dhow_module_source,
                    .text =
                        "KERNEL(ones, (OUT(u8,y), VAL(i64,n)))\n{ GRID_FOR(i, n) y[i] = 1; }\n"
                        "KERNEL(early, (ALIAS(u8,x), ALIAS_OUT(u8,y), VAL(i64,n)))\n"
                        "{ GRID_FOR(i, n) y[(idx)i - 2] = x[i]; }\n");
    dhow_device *device;
    dhow_module *module;
    dhow_kernel *kernel, *early;
    dhow_tensor *y, *before;
    unsigned char got[5];
    if (dhow_device_get(context, device_name, &device) != DHOW_OK) return;
    OK(dhow_module_build(device, &source, &module));
    OK(dhow_module_kernel(module, "ones", &kernel));
    OK(dhow_tensor_full(device, DHOW_U8, DHOW_SHAPE(5), 7, &y));
    OK(dhow_tensor_set_label(y, "mask"));
    OK(dhow_launch(NULL, kernel, 5, y, (int64_t)5));
    OK(dhow_tensor_read(y, got, sizeof got));
    cr_assert_eq(got[4], 1);
    cr_assert_eq(dhow_launch(NULL, kernel, 200, y, (int64_t)200), DHOW_OUT_OF_RANGE, "%s",
                 device_name);
    cr_assert_not_null(
        strstr(dhow_last_error(), "ones writes past the end of its argument 1 'mask'"), "%s",
        dhow_last_error());
    cr_assert_not_null(strstr(dhow_last_error(), "byte 8 of 5 changed"), "%s", dhow_last_error());
    OK(dhow_module_kernel(module, "early", &early));
    OK(dhow_tensor_full(device, DHOW_U8, DHOW_SHAPE(5), 9, &before));
    cr_assert_eq(dhow_launch(NULL, early, 5, before, before, (int64_t)5), DHOW_OUT_OF_RANGE, "%s",
                 device_name);
    cr_assert_not_null(
        strstr(dhow_last_error(), "early writes before the begin of its argument 2: byte -2 of 5"),
        "%s", dhow_last_error());
    OK(dhow_tensor_read(before, got, sizeof got)); /* what it did inside stays */
    cr_assert_eq(got[0], 9);
    dhow_kernel_release(early);
    dhow_tensor_release(before);
    dhow_tensor_release(y);
    dhow_kernel_release(kernel);
    dhow_module_release(module);
}

/* It was OK before, and the program ended in free() or computed with a neighbour's bytes. */
Test(validate, a_kernel_that_writes_past_the_end_is_told_with_tensor_and_byte) {
    static const dhow_context_options options =
        DHOW_FIELDS(dhow_context_options, .backends = "cpu,opencl", .log = keep_log);
    dhow_context *context;
    (void)setenv("DHOW_VALIDATE", "1", 1);
    OK(dhow_context_create(&options, &context));
    expect_guarded(context, "cpu");
    expect_guarded(context, "opencl");
    dhow_context_release(context);
}

/* ---- parameters that nobody loaded ---- */

Test(validate, a_model_whose_parameters_were_never_loaded_is_warned_of_once) {
    dhow_context *context = open_checking();
    dhow_model *m;
    dhow_model_value v;
    dhow_tensor *x, *y = NULL;
    OK(dhow_model_create(context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(1, 2), &v));
    OK(dhow_model_linear(m, "fc", v, 2, 3, 1, &v));
    OK(dhow_model_output(m, "y", v));
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(1, 2), 1, &x));
    OK(dhow_model_run(m, NULL, &x, 1, &y, 1));
    LOG_SAYS("2 parameters were never loaded or set, as 'fc.weight'");
    g_log[0] = '\0';
    OK(dhow_model_run_into(m, NULL, &x, 1, &y, 1));
    cr_assert_null(strstr(g_log, "never loaded"), "%s", g_log);
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    dhow_model_release(m);
    dhow_context_release(context);
}

/* All else is the trainer's, and a counter begins with 0. */
Test(validate, a_counter_of_batches_is_no_parameter_to_load) {
    dhow_context *context = open_checking();
    dhow_batch batch = DHOW_INIT(dhow_batch, .tensor_count = 1);
    dhow_trainer *t;
    dhow_model *m;
    dhow_model_value v;
    OK(dhow_model_create(context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(4, 2), &v));
    OK(dhow_model_linear(m, "fc", v, 2, 3, 1, &v));
    OK(dhow_model_batchnorm(m, "norm", v, 3, 1e-5F, &v));
    OK(dhow_model_reduce(m, DHOW_REDUCE_SUM, v, NULL, 0, 0, &v));
    OK(dhow_model_output(m, "y", v));
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(4, 2), 1, &batch.tensors[0]));
    OK(dhow_trainer_create(m, NULL, &t));
    g_log[0] = '\0';
    OK(dhow_trainer_step(t, &batch, NULL));
    cr_assert_null(strstr(g_log, "never loaded"), "%s", g_log);
    dhow_tensor_release(batch.tensors[0]);
    dhow_trainer_release(t);
    dhow_model_release(m);
    dhow_context_release(context);
}
