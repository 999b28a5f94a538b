/* SPDX-License-Identifier: Apache-2.0
 *
 * One batch on several devices: results are those of one device, shares follow the measured speed,
 * and the others finish the work of a device that fails, if the caller wants it so.
 */
#include <pthread.h>

#include "data_fixture.h"
#include "parallel/shares.h"

TestSuite(parallel, .timeout = 120);

enum { ROWS = 203 };

static dhow_parallel *parallel_on(dhow_model *model, uint32_t count, const char *const *names,
                                  const dhow_parallel_options *options) {
    dhow_device *devices[8];
    dhow_parallel *p;
    for (uint32_t i = 0; i < count; i++) devices[i] = device_of(names[i]);
    OK(dhow_parallel_create(model, devices, count, options, &p));
    return p;
}

static void check_sums(dhow_tensor *y, int64_t rows, float b) {
    float values[512];
    cr_assert_eq(dhow_tensor_extent(y, 0), rows);
    OK(dhow_tensor_read(y, values, (uint64_t)rows * sizeof *values));
    for (int64_t i = 0; i < rows; i++)
        cr_assert_float_eq(values[i], 3 * (float)i + 0.75f + b, 1e-3f, "row %ld", (long)i);
}

Test(parallel, results_are_those_of_one_device) {
    static const char *const names[] = {"cpu", "sim:0", "sim:1", "cpu", "sim:0"};
    open_context("jitter_us=300", "");
    dhow_tensor *columns[2];
    make_columns(ROWS, columns);
    dhow_model *model = make_sums(g_cpu, 2);
    for (uint32_t count = 1; count <= 5; count++) {
        dhow_parallel *p = parallel_on(model, count, names, NULL);
        cr_assert_eq(dhow_parallel_member_count(p), count);
        for (int run = 0; run < 4; run++) {
            dhow_tensor *y, *part;
            OK(dhow_parallel_run(p, columns, 1, &y, 1));
            check_sums(y, ROWS, 2);
            /* Into the same memory, and with fewer rows than devices. */
            OK(dhow_parallel_run_into(p, columns, 1, &y, 1));
            check_sums(y, ROWS, 2);
            dhow_tensor_release(y);
            OK(dhow_tensor_slice(columns[0], 0, 0, 1 + run, 1, &part));
            OK(dhow_parallel_run(p, &part, 1, &y, 1));
            check_sums(y, 1 + run, 2);
            dhow_tensor_release(part);
            dhow_tensor_release(y);
        }
        dhow_parallel_release(p);
    }
    dhow_model_release(model);
    for (int i = 0; i < 2; i++) dhow_tensor_release(columns[i]);
    close_context();
}

/* While results are taken, another thread calls everything that is in use. */
typedef struct meeting {
    dhow_parallel *parallel;
    dhow_loader *loader;
    dhow_sink *sink;
    int told, takes;
} meeting;

static int is_told(dhow_status status) {
    return status == DHOW_INVALID_ARGUMENT &&
           strstr(dhow_last_error(), "is in use by another call") != NULL;
}

static void *meet(void *argument) {
    meeting *m = argument;
    dhow_batch batch = DHOW_INIT(dhow_batch);
    dhow_tensor *x, *y = NULL;
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(2, FEATURES), 1, &x));
    m->told += is_told(dhow_loader_next(m->loader, &batch));
    m->told += is_told(dhow_loader_restart(m->loader, 0, 0));
    m->told += is_told(dhow_sink_finish(m->sink));
    if (m->parallel != NULL) m->told += is_told(dhow_parallel_run(m->parallel, &x, 1, &y, 1));
    dhow_tensor_release(x);
    return NULL;
}

static dhow_status take_and_meet(void *user, const dhow_batch *results) {
    meeting *m = user;
    pthread_t other;
    (void)results;
    m->takes++;
    cr_assert_eq(pthread_create(&other, NULL, meet, m), 0);
    cr_assert_eq(pthread_join(other, NULL), 0);
    return DHOW_OK;
}

Test(parallel, threads_that_meet_in_a_prediction_are_told) {
    static const char *const names[] = {"cpu", "sim:0"};
    open_context("", "");
    dhow_dataset *dataset = make_dataset(30);
    dhow_model *model = make_sums(g_cpu, 0);
    meeting m = {.told = 0};
    OK(dhow_loader_create(dataset, &DHOW_INIT(dhow_loader_options, .batch_size = 10), &m.loader));
    OK(dhow_sink_to_function(g_context, take_and_meet, &m, &m.sink));
    OK(dhow_predict(model, m.loader, m.sink));
    cr_assert(m.takes == 3 && m.told == 9, "%d takes, %d told", m.takes, m.told);
    m.parallel = parallel_on(model, 2, names, NULL);
    OK(dhow_parallel_predict(m.parallel, m.loader, m.sink));
    cr_assert(m.takes == 6 && m.told == 21, "%d takes, %d told", m.takes, m.told);
    OK(dhow_sink_finish(m.sink)); /* nobody is in any more */
    dhow_parallel_release(m.parallel);
    dhow_sink_release(m.sink);
    dhow_loader_release(m.loader);
    dhow_model_release(model);
    dhow_dataset_release(dataset);
    close_context();
}

Test(parallel, a_whole_epoch_goes_through) {
    static const char *const names[] = {"sim:0", "cpu", "sim:1"};
    open_context("jitter_us=100", "");
    dhow_dataset *dataset = make_dataset(ROWS);
    dhow_model *model = make_sums(g_cpu, 0);
    dhow_parallel *p = parallel_on(model, 3, names, NULL);
    dhow_loader *loader;
    dhow_sink *sink;
    dhow_tensor *rows;
    OK(dhow_loader_create(dataset, &DHOW_INIT(dhow_loader_options, .batch_size = 20, .workers = 1),
                          &loader));
    OK(dhow_sink_to_tensors(g_context, &sink));
    OK(dhow_parallel_predict(p, loader, sink));
    OK(dhow_sink_tensor(sink, 0, &rows));
    check_sums(rows, ROWS, 0);
    dhow_tensor_release(rows);
    dhow_sink_release(sink);
    dhow_loader_release(loader);
    dhow_parallel_release(p);
    dhow_model_release(model);
    dhow_dataset_release(dataset);
    close_context();
}

/* ---- shares ---- */

Test(parallel, shares_follow_speeds_and_stay_when_nothing_is_gained) {
    dhowi_shares s = {.count = 3, .live = {true, true, true}, .share = {1, 1, 1}};
    static const double speeds[] = {100, 300, 600};
    int64_t rows[DHOWI_MAX_MEMBERS];
    for (int run = 0; run < 6; run++) {
        dhowi_shares_split(&s, 1000, rows);
        cr_assert_eq(rows[0] + rows[1] + rows[2], 1000);
        for (uint32_t i = 0; i < 3; i++)
            dhowi_shares_note(&s, i, rows[i], (double)rows[i] / speeds[i]);
        dhowi_shares_adapt(&s);
    }
    cr_assert(rows[0] == 100 && rows[1] == 300 && rows[2] == 600);
    for (int run = 0; run < 20; run++) { /* 3 % are not worth new plans */
        dhowi_shares_split(&s, 1000, rows);
        for (uint32_t i = 0; i < 3; i++)
            dhowi_shares_note(&s, i, rows[i], (double)rows[i] / (speeds[i] * (i == 0 ? 1.03 : 1)));
        dhowi_shares_adapt(&s);
    }
    cr_assert(rows[0] == 100 && rows[1] == 300 && rows[2] == 600);
    for (int run = 0; run < 20; run++) { /* the fastest becomes as slow as the first */
        dhowi_shares_split(&s, 1000, rows);
        for (uint32_t i = 0; i < 3; i++)
            dhowi_shares_note(&s, i, rows[i], (double)rows[i] / (i == 2 ? 100 : speeds[i]));
        dhowi_shares_adapt(&s);
    }
    cr_assert(rows[0] > 190 && rows[0] < 210 && rows[1] > 585 && rows[2] < 215);
}

Test(parallel, the_time_of_a_first_run_does_not_count) {
    dhowi_shares s = {.count = 2, .live = {true, true}, .share = {1, 1}};
    int64_t rows[DHOWI_MAX_MEMBERS];
    for (int run = 0; run < 3; run++) {
        dhowi_shares_split(&s, 100, rows);
        cr_assert(rows[0] == 50 && rows[1] == 50);
        dhowi_shares_note(&s, 0, 50, run == 0 ? 10 : 1); /* compiles its kernels */
        dhowi_shares_note(&s, 1, 50, 1);
        dhowi_shares_adapt(&s);
    }
}

/* On a busy machine shares of equal devices moved to 0.55 and back, each time with new plans. */
Test(parallel, runs_that_were_held_up_move_no_shares) {
    dhowi_shares s = {.count = 2, .live = {true, true}, .share = {1, 1}};
    int64_t rows[DHOWI_MAX_MEMBERS];
    for (int run = 0; run < 40; run++) {
        dhowi_shares_split(&s, 100, rows);
        cr_assert(rows[0] == 50 && rows[1] == 50, "run %d: %d and %d", run, (int)rows[0],
                  (int)rows[1]);
        dhowi_shares_note(&s, 0, 50, 1);
        dhowi_shares_note(&s, 1, 50, run > 1 && run % 4 != 1 ? 3 : 1);
        dhowi_shares_adapt(&s);
    }
}

Test(parallel, rows_go_to_live_members_whatever_their_shares) {
    dhowi_shares s = {.count = 3, .live = {true, false, true}, .share = {0, 5, 0}};
    int64_t rows[DHOWI_MAX_MEMBERS];
    dhowi_shares_split(&s, 7, rows);
    cr_assert(rows[1] == 0 && rows[0] + rows[2] == 7 && rows[0] >= 3 && rows[2] >= 3);
}

Test(parallel, shares_given_by_the_caller_are_kept) {
    static const char *const names[] = {"sim:0", "sim:1"};
    static const double shares[] = {1, 4};
    const dhow_parallel_options options =
        DHOW_INIT(dhow_parallel_options, .shares = shares, .fixed_shares = 1);
    open_context("", "");
    dhow_tensor *columns[2], *y = NULL;
    make_columns(ROWS, columns);
    dhow_model *model = make_sums(g_cpu, 0);
    dhow_parallel *p = parallel_on(model, 2, names, &options);
    for (int run = 0; run < 5; run++) {
        dhow_tensor_release(y);
        OK(dhow_parallel_run(p, columns, 1, &y, 1));
    }
    check_sums(y, ROWS, 0);
    dhow_parallel_member m = DHOW_INIT(dhow_parallel_member);
    OK(dhow_parallel_member_at(p, 1, &m));
    cr_assert(m.share == 0.8 && m.device == device_of("sim:1") && m.rows_per_second > 0);
    cr_assert(m.status == DHOW_OK && m.reason[0] == '\0');
    dhow_tensor_release(y);
    dhow_parallel_release(p);
    dhow_model_release(model);
    for (int i = 0; i < 2; i++) dhow_tensor_release(columns[i]);
    close_context();
}

/* ---- faults ---- */

static void lose_one(const char *fault, const char *says) {
    static const char *const names[] = {"sim:0", "sim:1", "cpu"};
    for (int going_on = 0; going_on < 2; going_on++) {
        open_context("jitter_us=100", fault);
        /* Measured ones may leave no rows to the device that is to fail. */
        const dhow_parallel_options options =
            DHOW_INIT(dhow_parallel_options, .skip_failed_devices = going_on, .fixed_shares = 1);
        dhow_tensor *columns[2], *y = NULL;
        make_columns(ROWS, columns);
        dhow_model *model = make_sums(g_cpu, 1);
        dhow_parallel *p = parallel_on(model, 3, names, &options);
        dhow_status status = DHOW_OK;
        int run = 0;
        for (; run < 12 && status == DHOW_OK; run++) {
            dhow_tensor_release(y);
            status = dhow_parallel_run(p, columns, 1, &y, 1);
            if (status == DHOW_OK) check_sums(y, ROWS, 1);
        }
        dhow_parallel_member m = DHOW_INIT(dhow_parallel_member);
        OK(dhow_parallel_member_at(p, 1, &m));
        if (going_on) {
            cr_assert_eq(status, DHOW_OK, "%s", dhow_last_error());
            cr_assert(m.status != DHOW_OK && m.share == 0);
            cr_assert_not_null(strstr(m.reason, says), "'%s' does not say '%s'", m.reason, says);
        } else {
            cr_assert(status != DHOW_OK && run < 12);
            SAYS("dhow_parallel_run: rows ");
            SAYS(" on sim:1: ");
            SAYS(says);
        }
        dhow_tensor_release(y);
        dhow_parallel_release(p);
        dhow_model_release(model);
        for (int i = 0; i < 2; i++) dhow_tensor_release(columns[i]);
        close_context();
    }
}

Test(parallel, others_finish_the_work_of_a_lost_device) {
    lose_one("launch#1@3=DEVICE_LOST!", "scripted fault");
    lose_one("copy#1@5=async:DEVICE_LOST!", "scripted fault");
}

/* Every form of failure, at each of the first calls, through a loader whose batches the lost device
 * has read. */
static void predict_through(const char *form, const char *status, int nth) {
    static const char *const names[] = {"cpu", "sim:0", "sim:1"};
    const dhow_parallel_options options =
        DHOW_INIT(dhow_parallel_options, .skip_failed_devices = 1, .fixed_shares = 1);
    char fault[64];
    (void)snprintf(fault, sizeof fault, "%s#1@%d=%s", form, nth, status);
    open_context("devices=2,jitter_us=100", fault);
    dhow_dataset *dataset = make_dataset(ROWS);
    dhow_model *model = make_sums(g_cpu, 2);
    dhow_parallel *p;
    dhow_loader *loader;
    dhow_sink *sink;
    dhow_tensor *rows;
    dhow_device *devices[3];
    for (int i = 0; i < 3; i++) devices[i] = device_of(names[i]);
    /* Making it may fail: nothing runs yet that others could go on with. */
    if (dhow_parallel_create(model, devices, 3, &options, &p) == DHOW_OK) {
        OK(dhow_loader_create(
            dataset, &DHOW_INIT(dhow_loader_options, .batch_size = 20, .workers = 1), &loader));
        OK(dhow_sink_to_tensors(g_context, &sink));
        dhow_status predicted = dhow_parallel_predict(p, loader, sink);
        cr_assert_eq(predicted, DHOW_OK, "%s: %s", fault, dhow_last_error());
        OK(dhow_sink_tensor(sink, 0, &rows));
        check_sums(rows, ROWS, 2);
        dhow_tensor_release(rows);
        dhow_sink_release(sink);
        dhow_loader_release(loader);
        dhow_parallel_release(p);
    }
    dhow_model_release(model);
    dhow_dataset_release(dataset);
    close_context();
}

Test(parallel, a_prediction_goes_on_whatever_fails_on_one_device, .timeout = 300) {
    static const char *const forms[] = {"copy",        "launch",     "mem_alloc",
                                        "stream_sync", "event_sync", "host_alloc"};
    static const char *const statuses[] = {"INTERNAL",        "INTERNAL!",
                                           "DEVICE_LOST!",    "async:INTERNAL",
                                           "async:INTERNAL!", "async:DEVICE_LOST!"};
    for (size_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
        for (size_t s = 0; s < sizeof statuses / sizeof statuses[0]; s++) {
            bool makes_work = f < 2;
            if (!makes_work && strncmp(statuses[s], "async:", 6) == 0) continue;
            for (int nth = 1; nth <= 12; nth++) predict_through(forms[f], statuses[s], nth);
        }
    }
}

Test(parallel, others_finish_the_work_of_a_device_without_memory) {
    lose_one("mem_alloc#1@4+=OUT_OF_MEMORY", "out of memory");
}

Test(parallel, when_every_device_has_failed_the_last_reason_is_told) {
    static const char *const names[] = {"sim:0", "sim:1"};
    const dhow_parallel_options keep = DHOW_INIT(dhow_parallel_options, .skip_failed_devices = 1);
    open_context("", "launch@3+=DEVICE_LOST!");
    dhow_tensor *columns[2], *y;
    make_columns(ROWS, columns);
    dhow_model *model = make_sums(g_cpu, 1);
    dhow_parallel *p = parallel_on(model, 2, names, &keep);
    OK(dhow_parallel_run(p, columns, 1, &y, 1));
    FAILS(DHOW_DEVICE_LOST, dhow_parallel_run_into(p, columns, 1, &y, 1));
    SAYS("scripted fault");
    dhow_tensor_release(y);
    FAILS(DHOW_DEVICE_LOST, dhow_parallel_run(p, columns, 1, &y, 1));
    SAYS("every device has failed");
    cr_assert_null(y);
    dhow_parallel_release(p);
    dhow_model_release(model);
    for (int i = 0; i < 2; i++) dhow_tensor_release(columns[i]);
    close_context();
}

Test(parallel, a_mistake_of_the_caller_is_no_failure_of_a_device) {
    static const char *const names[] = {"sim:0", "cpu"};
    const dhow_parallel_options keep = DHOW_INIT(dhow_parallel_options, .skip_failed_devices = 1);
    open_context("", "");
    dhow_tensor *columns[2], *y = NULL, *wrong;
    dhow_parallel *none;
    make_columns(ROWS, columns);
    OK(dhow_tensor_full(g_cpu, DHOW_F32, DHOW_SHAPE(ROWS, FEATURES + 1), 1, &wrong));
    dhow_model *model = make_sums(g_cpu, 1);
    dhow_parallel *p = parallel_on(model, 2, names, &keep);
    FAILS(DHOW_INVALID_ARGUMENT, dhow_parallel_run(p, &wrong, 1, &y, 1));
    SAYS("input 'x'");
    cr_assert_null(y);
    FAILS(DHOW_INVALID_ARGUMENT, dhow_parallel_run(p, columns, 2, &y, 1));
    SAYS("2 inputs given, the model has 1");
    FAILS(DHOW_INVALID_ARGUMENT, dhow_parallel_create(model, NULL, 0, NULL, &none));
    OK(dhow_parallel_run(p, columns, 1, &y, 1)); /* both are still there */
    check_sums(y, ROWS, 1);
    dhow_parallel_member m = DHOW_INIT(dhow_parallel_member);
    for (uint32_t i = 0; i < 2; i++) {
        OK(dhow_parallel_member_at(p, i, &m));
        cr_assert_eq(m.status, DHOW_OK);
    }
    FAILS(DHOW_OUT_OF_RANGE, dhow_parallel_member_at(p, 2, &m));
    dhow_tensor_release(y);
    dhow_tensor_release(wrong);
    dhow_parallel_release(p);
    dhow_model_release(model);
    for (int i = 0; i < 2; i++) dhow_tensor_release(columns[i]);
    close_context();
}
