/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets and loaders: which samples come, in which order, where, and what happens when something
 * fails.
 */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "data_fixture.h"

static const dhow_dataset_column k_numbers = DHOW_FIELDS(dhow_dataset_column, .dtype = DHOW_I16);

static void set_up(void) { open_context("jitter_us=200", ""); }
TestSuite(loader_data, .init = set_up, .fini = close_context, .timeout = 120);

static dhow_loader *loader_of(dhow_dataset *dataset, dhow_loader_options options) {
    dhow_loader *loader;
    OK(dhow_loader_create(dataset, &options, &loader));
    return loader;
}

/* ---- order ---- */

Test(loader_data, batches_come_in_order_and_the_last_is_short) {
    dhow_dataset *dataset = make_dataset(10);
    dhow_loader *loader = loader_of(dataset, DHOW_INIT(dhow_loader_options, .batch_size = 4));
    const int64_t sizes[] = {4, 4, 2};
    dhow_batch batch = DHOW_INIT(dhow_batch);
    cr_assert_eq(dhow_loader_batch_count(loader), 3);
    for (int epoch = 0; epoch < 2; epoch++) {
        for (int i = 0; i < 3; i++) {
            OK(dhow_loader_next(loader, &batch));
            cr_assert(batch.epoch == epoch && batch.index == i && batch.first_sample == 4 * i);
            cr_assert_eq(batch.sample_count, sizes[i]);
            cr_assert_eq(dhow_tensor_extent(batch.tensors[0], 0), sizes[i]);
            check_batch(loader, &batch);
        }
        OK(dhow_loader_next(loader, &batch));
        cr_assert(batch.sample_count == 0 && batch.tensors[0] == NULL && batch.epoch == epoch);
    }
    dhow_loader_release(loader);
    dhow_dataset_release(dataset);
}

Test(loader_data, a_short_batch_can_be_dropped) {
    dhow_dataset *dataset = make_dataset(10);
    dhow_loader *loader = loader_of(
        dataset, DHOW_INIT(dhow_loader_options, .batch_size = 4, .drop_last = 1, .workers = 1));
    dhow_batch batch = DHOW_INIT(dhow_batch);
    cr_assert_eq(dhow_loader_batch_count(loader), 2);
    for (int i = 0; i < 2; i++) {
        OK(dhow_loader_next(loader, &batch));
        cr_assert_eq(batch.sample_count, 4);
    }
    OK(dhow_loader_next(loader, &batch));
    cr_assert_eq(batch.sample_count, 0);
    dhow_loader_release(loader);
    dhow_dataset_release(dataset);
}

Test(loader_data, no_samples_and_a_batch_larger_than_all_are_no_special_cases) {
    dhow_batch batch = DHOW_INIT(dhow_batch);
    for (int64_t samples = 0; samples < 3; samples++) {
        dhow_dataset *dataset = make_dataset(samples);
        dhow_loader *loader =
            loader_of(dataset, DHOW_INIT(dhow_loader_options, .batch_size = INT64_MAX / 64,
                                         .device = device_of("sim")));
        if (samples > 0) {
            OK(dhow_loader_next(loader, &batch));
            cr_assert_eq(batch.sample_count, samples);
            check_batch(loader, &batch);
        }
        OK(dhow_loader_next(loader, &batch));
        cr_assert_eq(batch.sample_count, 0);
        dhow_loader_release(loader);
        dhow_dataset_release(dataset);
    }
}

/* There is no memory to read from then; sanitizers object to a copy of nothing from nowhere. */
Test(loader_data, samples_without_elements_are_batches_too) {
    dhow_tensor *t;
    dhow_dataset *dataset;
    dhow_loader *loader;
    dhow_batch batch = DHOW_INIT(dhow_batch);
    const char *path = path_of("empty.npy");
    OK(dhow_tensor_create(g_cpu, DHOW_F32, DHOW_SHAPE(5, 0), &t));
    OK(dhow_npy_save(t, path));
    for (int file = 0; file < 2; file++) {
        OK(file ? dhow_dataset_open_npy(g_context, &path, 1, &dataset)
                : dhow_dataset_from_tensors(&t, 1, &dataset));
        OK(dhow_loader_create(dataset, &DHOW_INIT(dhow_loader_options, .batch_size = 2), &loader));
        int64_t samples = 0;
        do {
            OK(dhow_loader_next(loader, &batch));
            samples += batch.sample_count;
        } while (batch.sample_count > 0);
        cr_assert_eq(samples, 5);
        dhow_loader_release(loader);
        dhow_dataset_release(dataset);
    }
    dhow_tensor_release(t);
}

Test(loader_data, a_shuffle_visits_every_sample_once_and_differs_by_epoch_and_seed) {
    static const int64_t counts[] = {1, 2, 3, 7, 64, 65, 1000};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        int64_t n = counts[c];
        dhow_dataset *dataset = make_dataset(n);
        dhow_loader *a =
            loader_of(dataset, DHOW_INIT(dhow_loader_options, .shuffle = 1, .seed = 5));
        dhow_loader *b =
            loader_of(dataset, DHOW_INIT(dhow_loader_options, .shuffle = 1, .seed = 6));
        int64_t same_epoch = 0, same_seed = 0;
        char seen[1000] = {0};
        for (int64_t i = 0; i < n; i++) {
            int64_t at = dhow_loader_sample_at(a, 0, i);
            cr_assert(at >= 0 && at < n && !seen[at]);
            seen[at] = 1;
            same_epoch += at == dhow_loader_sample_at(a, 1, i);
            same_seed += at == dhow_loader_sample_at(b, 0, i);
        }
        cr_assert(n < 64 || (same_epoch < n / 4 && same_seed < n / 4));
        cr_assert_eq(dhow_loader_sample_at(a, 0, n), -1);
        dhow_loader_release(a);
        dhow_loader_release(b);
        dhow_dataset_release(dataset);
    }
}

Test(loader_data, a_shuffle_is_the_same_on_every_machine) {
    static const int64_t expected[8] = {942, 795, 36, 337, 445, 426, 541, 278};
    dhow_dataset *dataset = make_dataset(1000);
    dhow_loader *loader =
        loader_of(dataset, DHOW_INIT(dhow_loader_options, .shuffle = 1, .seed = 2026));
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(dhow_loader_sample_at(loader, 3, i), expected[i], "position %d is %ld", i,
                     (long)dhow_loader_sample_at(loader, 3, i));
    }
    dhow_loader_release(loader);
    dhow_dataset_release(dataset);
}

/* All orders of a few samples are about as likely: chi-square over 6, 24 and 120 of them, at the
 * 0.001 quantile (table values for 5, 23 and 119 degrees of freedom). */
Test(loader_data, shuffles_of_few_samples_are_uniform) {
    static const double limits[] = {20.52, 49.73, 172.7};
    static const int orders[] = {6, 24, 120};
    for (int n = 3; n <= 5; n++) {
        int count = orders[n - 3], seen[120] = {0}, draws = 200 * count;
        dhow_dataset *dataset = make_dataset(n);
        dhow_loader *loader =
            loader_of(dataset, DHOW_INIT(dhow_loader_options, .shuffle = 1, .seed = 1));
        for (int draw = 0; draw < draws; draw++) {
            int64_t p[5];
            int rank = 0;
            for (int i = 0; i < n; i++) p[i] = dhow_loader_sample_at(loader, draw, i);
            for (int i = 0; i < n; i++) {
                int smaller = 0;
                for (int k = i + 1; k < n; k++) smaller += p[k] < p[i];
                rank = rank * (n - i) + smaller;
            }
            seen[rank]++;
        }
        double chi = 0;
        for (int i = 0; i < count; i++) chi += (seen[i] - 200.0) * (seen[i] - 200.0) / 200.0;
        cr_assert(chi < limits[n - 3], "%d samples: chi-square %.1f, at most %.1f", n, chi,
                  limits[n - 3]);
        dhow_loader_release(loader);
        dhow_dataset_release(dataset);
    }
}

Test(loader_data, restart_goes_to_any_batch) {
    dhow_dataset *dataset = make_dataset(100);
    for (uint32_t workers = 0; workers < 4; workers += 3) {
        dhow_loader *loader = loader_of(dataset, DHOW_INIT(dhow_loader_options, .batch_size = 9,
                                                           .shuffle = 1, .workers = workers));
        dhow_batch batch = DHOW_INIT(dhow_batch);
        for (int i = 0; i < 4; i++) OK(dhow_loader_next(loader, &batch));
        OK(dhow_loader_restart(loader, 7, 11));
        OK(dhow_loader_next(loader, &batch));
        cr_assert(batch.epoch == 7 && batch.index == 11 && batch.sample_count == 1);
        check_batch(loader, &batch);
        OK(dhow_loader_next(loader, &batch));
        cr_assert_eq(batch.sample_count, 0);
        FAILS(DHOW_OUT_OF_RANGE, dhow_loader_restart(loader, 0, 13));
        FAILS(DHOW_OUT_OF_RANGE, dhow_loader_restart(loader, INT64_MAX, 0)); /* none comes after */
        FAILS(DHOW_OUT_OF_RANGE, dhow_loader_restart(loader, INT64_MAX - 1, 0)); /* one does */
        SAYS("an epoch has 12 batches");
        dhow_loader_release(loader);
    }
    dhow_dataset_release(dataset);
}

/* ---- devices ---- */

Test(loader_data, every_setting_gives_the_same_batches) {
    static const char *const devices[] = {"cpu", "sim:0", "sim:1"};
    dhow_dataset *dataset = make_dataset(203);
    for (int d = 0; d < 3; d++) {
        for (uint32_t workers = 0; workers <= 3; workers++) {
            dhow_loader *loader =
                loader_of(dataset, DHOW_INIT(dhow_loader_options, .batch_size = 16, .shuffle = 1,
                                             .seed = 9, .device = device_of(devices[d]),
                                             .workers = workers, .prefetch = workers == 2 ? 7 : 0));
            dhow_batch batch = DHOW_INIT(dhow_batch);
            int64_t samples = 0;
            for (;;) {
                OK(dhow_loader_next(loader, &batch));
                if (batch.sample_count == 0) break;
                cr_assert_eq(dhow_tensor_device(batch.tensors[0]), device_of(devices[d]));
                check_batch(loader, &batch);
                samples += batch.sample_count;
            }
            cr_assert_eq(samples, 203);
            dhow_loader_release(loader);
        }
    }
    dhow_dataset_release(dataset);
}

/* The program reads a batch late, on a slow stream, while its memory is wanted for later ones. */
Test(loader_data, a_batch_in_use_is_not_written_over) {
    dhow_device *sim = device_of("sim");
    dhow_dataset *dataset = make_dataset(64);
    dhow_loader *loader = loader_of(
        dataset, DHOW_INIT(dhow_loader_options, .batch_size = 2, .device = sim, .workers = 2));
    dhow_tensor *sums[32];
    dhow_batch batch = DHOW_INIT(dhow_batch);
    for (int i = 0; i < 32; i++) {
        OK(dhow_loader_next(loader, &batch));
        OK(dhow_tensor_create(sim, DHOW_F32, DHOW_SHAPE(2, FEATURES), &sums[i]));
        OK(dhow_add(NULL, batch.tensors[0], batch.tensors[0], sums[i]));
    }
    dhow_loader_release(loader);
    for (int i = 0; i < 32; i++) {
        float values[2 * FEATURES];
        OK(dhow_tensor_read(sums[i], values, sizeof values));
        cr_assert_eq(values[0], (float)(4 * i));
        cr_assert_eq(values[FEATURES], (float)(4 * i + 2));
        dhow_tensor_release(sums[i]);
    }
    dhow_dataset_release(dataset);
}

Test(loader_data, a_batch_that_is_retained_stays) {
    static const char *const devices[] = {"cpu", "sim"};
    dhow_dataset *dataset = make_dataset(20);
    for (int d = 0; d < 2; d++) {
        dhow_loader *loader = loader_of(dataset, DHOW_INIT(dhow_loader_options, .batch_size = 2,
                                                           .device = device_of(devices[d])));
        dhow_tensor *kept[10];
        dhow_batch batch = DHOW_INIT(dhow_batch);
        for (int i = 0; i < 10; i++) {
            OK(dhow_loader_next(loader, &batch));
            if (i % 2 == 0) {
                OK(dhow_tensor_retain(kept[i] = batch.tensors[1]));
            } else { /* a view holds the memory, too */
                OK(dhow_tensor_slice(batch.tensors[1], 0, 0, 2, 1, &kept[i]));
            }
        }
        dhow_loader_release(loader);
        for (int i = 0; i < 10; i++) {
            int64_t y[2];
            OK(dhow_tensor_read(kept[i], y, sizeof y));
            cr_assert(y[0] == 20 * i && y[1] == 20 * i + 10);
            dhow_tensor_release(kept[i]);
        }
    }
    dhow_dataset_release(dataset);
}

/* Two threads that meet in one loader would take each other's batches back. The one that reads
 * stays inside until the other has been refused. */
static atomic_int g_inside, g_answered;
static bool g_refused;

static dhow_status read_until_answered(void *user, const int64_t *indices, int64_t count,
                                       void *const *columns) {
    (void)user;
    atomic_store(&g_inside, 1);
    while (atomic_load(&g_answered) == 0) sched_yield();
    for (int64_t i = 0; i < count; i++) ((int16_t *)columns[0])[i] = (int16_t)indices[i];
    return DHOW_OK;
}

static void *call_while_another_is_in(void *argument) {
    dhow_loader *loader = argument;
    dhow_batch batch = DHOW_INIT(dhow_batch);
    while (atomic_load(&g_inside) == 0) sched_yield();
    g_refused = dhow_loader_next(loader, &batch) == DHOW_INVALID_ARGUMENT &&
                strstr(dhow_last_error(), "in use by another call") != NULL &&
                dhow_loader_restart(loader, 0, 0) == DHOW_INVALID_ARGUMENT &&
                batch.sample_count == 0;
    atomic_store(&g_answered, 1);
    return NULL;
}

Test(loader_data, two_threads_that_meet_in_a_loader_are_told) {
    const dhow_dataset_source source =
        DHOW_INIT(dhow_dataset_source, .sample_count = 4, .column_count = 1, .columns = &k_numbers,
                  .read = read_until_answered);
    dhow_dataset *dataset;
    OK(dhow_dataset_create(g_context, &source, &dataset));
    dhow_loader *loader = loader_of(dataset, DHOW_INIT(dhow_loader_options, .batch_size = 1));
    dhow_batch batch = DHOW_INIT(dhow_batch);
    pthread_t other;
    cr_assert_eq(pthread_create(&other, NULL, call_while_another_is_in, loader), 0);
    for (int16_t i = 0; i < 4; i++) { /* who was refused took nothing */
        int16_t value = -1;
        OK(dhow_loader_next(loader, &batch));
        OK(dhow_tensor_read(batch.tensors[0], &value, sizeof value));
        cr_assert_eq(value, i);
    }
    cr_assert_eq(pthread_join(other, NULL), 0);
    cr_assert(g_refused);
    dhow_loader_release(loader);
    dhow_dataset_release(dataset);
}

Test(loader_data, memory_is_used_again) {
    dhow_device *sim = device_of("sim");
    dhow_dataset *dataset = make_dataset(1000);
    dhow_loader *loader =
        loader_of(dataset, DHOW_INIT(dhow_loader_options, .batch_size = 10, .device = sim));
    dhow_memory_stats before = DHOW_INIT(dhow_memory_stats), after = DHOW_INIT(dhow_memory_stats);
    dhow_batch batch = DHOW_INIT(dhow_batch);
    for (int i = 0; i < 5; i++) OK(dhow_loader_next(loader, &batch));
    OK(dhow_memory_get_stats(sim, &before));
    for (int i = 0; i < 90; i++) OK(dhow_loader_next(loader, &batch));
    OK(dhow_memory_get_stats(sim, &after));
    cr_assert_eq(after.allocations, before.allocations);
    cr_assert_eq(after.pinned, before.pinned);
    cr_assert(after.pinned > 0);
    dhow_loader_release(loader);
    dhow_dataset_release(dataset);
}

/* ---- own datasets, and what fails in them ---- */

typedef struct own {
    int64_t fails_at; /* sample, or -1 */
    int32_t by_dhow;  /* fails in a call of dhow */
    int32_t slow_us;
    atomic_int calls, released;
} own;

static dhow_status read_own(void *user, const int64_t *indices, int64_t count,
                            void *const *columns) {
    own *o = user;
    atomic_fetch_add(&o->calls, 1);
    if (o->slow_us > 0) {
        const struct timespec time = {0, o->slow_us * 1000L};
        (void)nanosleep(&time, NULL);
    }
    for (int64_t i = 0; i < count; i++) {
        if (indices[i] == o->fails_at) {
            dhow_tensor *t;
            if (o->by_dhow) return dhow_npy_load(g_cpu, "/nowhere/x.npy", &t);
            return DHOW_IO_ERROR;
        }
        ((int16_t *)columns[0])[i] = (int16_t)indices[i];
    }
    return DHOW_OK;
}

static void release_own(void *user) { atomic_fetch_add(&((own *)user)->released, 1); }

static dhow_dataset *own_dataset(own *o, int64_t samples) {
    dhow_dataset *dataset;
    const dhow_dataset_source source =
        DHOW_INIT(dhow_dataset_source, .sample_count = samples, .column_count = 1,
                  .columns = &k_numbers, .read = read_own, .release = release_own, .user = o);
    OK(dhow_dataset_create(g_context, &source, &dataset));
    return dataset;
}

Test(loader_data, an_error_of_a_worker_comes_out_of_next) {
    for (uint32_t workers = 0; workers <= 2; workers++) {
        own o = {.fails_at = 17};
        dhow_dataset *dataset = own_dataset(&o, 40);
        dhow_loader *loader =
            loader_of(dataset, DHOW_INIT(dhow_loader_options, .batch_size = 4, .workers = workers,
                                         .device = device_of("sim")));
        dhow_batch batch = DHOW_INIT(dhow_batch);
        for (int i = 0; i < 4; i++) OK(dhow_loader_next(loader, &batch));
        for (int again = 0; again < 2; again++) {
            FAILS(DHOW_IO_ERROR, dhow_loader_next(loader, &batch));
            SAYS(
                "batch 4 of epoch 0 (samples 16 to 19) for sim:0: the dataset's read returned "
                "IO_ERROR");
            cr_assert_eq(batch.sample_count, 0);
        }
        OK(dhow_loader_restart(loader, 0, 5)); /* goes on behind it */
        OK(dhow_loader_next(loader, &batch));
        cr_assert_eq(batch.index, 5);
        dhow_loader_release(loader);
        dhow_dataset_release(dataset);
        cr_assert_eq(o.released, 1);
    }
}

Test(loader_data, the_message_of_a_failed_call_is_kept) {
    own o = {.fails_at = 0, .by_dhow = 1};
    dhow_dataset *dataset = own_dataset(&o, 4);
    dhow_loader *loader = loader_of(dataset, DHOW_INIT(dhow_loader_options, .workers = 1));
    dhow_batch batch = DHOW_INIT(dhow_batch);
    FAILS(DHOW_NOT_FOUND, dhow_loader_next(loader, &batch));
    SAYS("/nowhere/x.npy: cannot open");
    dhow_loader_release(loader);
    dhow_dataset_release(dataset);
}

Test(loader_data, a_loader_may_end_at_any_time) {
    for (int taken = 0; taken < 6; taken++) {
        own o = {.fails_at = -1, .slow_us = 300};
        dhow_dataset *dataset = own_dataset(&o, 1000);
        dhow_loader *loader =
            loader_of(dataset, DHOW_INIT(dhow_loader_options, .batch_size = 2, .workers = 3,
                                         .device = device_of("sim")));
        dhow_batch batch = DHOW_INIT(dhow_batch);
        for (int i = 0; i < taken; i++) OK(dhow_loader_next(loader, &batch));
        dhow_loader_release(loader);
        cr_assert(o.calls <= taken + 6, "%d batches were made for %d taken", o.calls, taken);
        dhow_dataset_release(dataset);
        cr_assert_eq(o.released, 1);
    }
}

Test(loader_data, what_does_not_fit_is_refused_with_its_name) {
    dhow_tensor *columns[2], *scalar, *there;
    dhow_dataset *dataset;
    dhow_loader *loader;
    make_columns(6, columns);
    OK(dhow_tensor_full(g_cpu, DHOW_F32, 0, NULL, 1, &scalar));
    OK(dhow_tensor_to(columns[0], device_of("sim"), &there));
    FAILS(DHOW_INVALID_ARGUMENT, dhow_dataset_from_tensors(&scalar, 1, &dataset));
    SAYS("its first dimension must be the samples");
    FAILS(DHOW_INVALID_ARGUMENT, dhow_dataset_from_tensors(&there, 1, &dataset));
    SAYS("f32[6, 3] on sim:0");
    SAYS("dhow_tensor_to()");
    dhow_tensor *few;
    OK(dhow_tensor_slice(columns[1], 0, 0, 5, 1, &few));
    dhow_tensor *uneven[2] = {columns[0], few};
    FAILS(DHOW_INVALID_ARGUMENT, dhow_dataset_from_tensors(uneven, 2, &dataset));
    SAYS("column 1 is i64[5] on cpu:0, but column 0 has 6 samples");
    FAILS(DHOW_INVALID_ARGUMENT, dhow_dataset_from_tensors(columns, 17, &dataset));
    OK(dhow_dataset_from_tensors(columns, 2, &dataset));
    FAILS(DHOW_INVALID_ARGUMENT,
          dhow_loader_create(dataset, &DHOW_INIT(dhow_loader_options, .batch_size = -1), &loader));
    FAILS(DHOW_INVALID_ARGUMENT,
          dhow_loader_create(dataset, &DHOW_INIT(dhow_loader_options, .workers = 65), &loader));
    SAYS("at most 64 and 64 are allowed");
    dhow_dataset_release(dataset);
    dhow_tensor *all[] = {columns[0], columns[1], scalar, there, few};
    for (int i = 0; i < 5; i++) dhow_tensor_release(all[i]);
}

/* ---- files ---- */

Test(loader_data, npy_files_are_read_in_place) {
    dhow_tensor *columns[2];
    dhow_dataset *dataset;
    make_columns(50, columns);
    OK(dhow_npy_save(columns[0], path_of("x.npy")));
    OK(dhow_npy_save(columns[1], path_of("y.npy")));
    const char *paths[2] = {path_of("x.npy"), path_of("y.npy")};
    OK(dhow_dataset_open_npy(g_context, paths, 2, &dataset));
    cr_assert_eq(dhow_dataset_sample_count(dataset), 50);
    cr_assert_eq(dhow_dataset_column_count(dataset), 2);
    dhow_dataset_column column = DHOW_INIT(dhow_dataset_column);
    OK(dhow_dataset_column_at(dataset, 0, &column));
    cr_assert(column.dtype == DHOW_F32 && column.rank == 1 && column.shape[0] == FEATURES);
    dhow_loader *loader = loader_of(dataset, DHOW_INIT(dhow_loader_options, .batch_size = 7,
                                                       .shuffle = 1, .device = device_of("sim")));
    dhow_batch batch = DHOW_INIT(dhow_batch);
    for (int i = 0; i < 8; i++) {
        OK(dhow_loader_next(loader, &batch));
        check_batch(loader, &batch);
    }
    dhow_loader_release(loader);
    dhow_dataset_release(dataset);
    for (int i = 0; i < 2; i++) dhow_tensor_release(columns[i]);
}

Test(loader_data, a_file_that_becomes_shorter_is_told_and_kills_nobody) {
    dhow_tensor *columns[2];
    dhow_dataset *dataset;
    dhow_batch batch = DHOW_INIT(dhow_batch);
    make_columns(5000, columns); /* some pages */
    const char *path = path_of("x.npy");
    OK(dhow_npy_save(columns[0], path));
    OK(dhow_dataset_open_npy(g_context, &path, 1, &dataset));
    dhow_loader *loader = loader_of(dataset, DHOW_INIT(dhow_loader_options, .batch_size = 1000));
    OK(dhow_loader_next(loader, &batch));
    cr_assert_eq(truncate(path, 20000), 0);
    FAILS(DHOW_CORRUPT, dhow_loader_next(loader, &batch));
    SAYS("x.npy has become shorter since it was opened");
    dhow_loader_release(loader);
    dhow_dataset_release(dataset);
    for (int i = 0; i < 2; i++) dhow_tensor_release(columns[i]);
}

Test(loader_data, npy_files_that_cannot_be_read_in_place_are_refused) {
    dhow_tensor *columns[2], *part;
    dhow_dataset *dataset;
    make_columns(4, columns);
    OK(dhow_tensor_slice(columns[1], 0, 0, 3, 1, &part));
    OK(dhow_npy_save(columns[0], path_of("x.npy")));
    OK(dhow_npy_save(part, path_of("y.npy")));
    const char *uneven[2] = {path_of("x.npy"), path_of("y.npy")};
    FAILS(DHOW_INVALID_ARGUMENT, dhow_dataset_open_npy(g_context, uneven, 2, &dataset));
    SAYS("y.npy: 3 samples, but the first file has 4");
    const char *missing = path_of("z.npy");
    FAILS(DHOW_NOT_FOUND, dhow_dataset_open_npy(g_context, &missing, 1, &dataset));
    const char *fortran = path_of("f.npy");
    FILE *f = fopen(fortran, "wb");
    char header[128];
    (void)memset(header, ' ', sizeof header);
    (void)memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10);
    static const char text[] = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }";
    (void)memcpy(header + 10, text, sizeof text - 1);
    header[127] = '\n';
    cr_assert_eq(fwrite(header, 1, 128, f) + fwrite(header, 1, 16, f), 144);
    cr_assert_eq(fclose(f), 0);
    FAILS(DHOW_UNSUPPORTED, dhow_dataset_open_npy(g_context, &fortran, 1, &dataset));
    SAYS("Fortran order cannot be read in place");
    cr_assert_null(dataset);
    dhow_tensor_release(part);
    for (int i = 0; i < 2; i++) dhow_tensor_release(columns[i]);
}
