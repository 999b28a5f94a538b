/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of several devices travel in buckets while a backward runs. How they are divided
 * changes no bit; that they travel early is seen in a trace, and in the time of a step, on
 * simulated devices whose speed and links are known.
 */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dhow/dhow.h"
#include "dhow/model_steps.h"
#include "tests/trainer_parameters.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

enum { MOST_LAYERS = 8, MOST_WIDTH = 512, MOST_PARAMETERS = 1 << 21, DEVICES = 4 };
static const uint64_t k_at_the_end = UINT64_MAX; /* one bucket, when the backward is over */

TestSuite(buckets, .timeout = 300);

static dhow_context *g_context;
static dhow_device *g_devices[DEVICES];
static uint32_t g_count = 2; /* that train together */

static void open_devices(const char *settings) {
    static const char *const names[] = {"sim:0", "sim:1", "sim:2", "sim:3"};
    char all[96];
    (void)snprintf(all, sizeof all, "devices=%d,%s", DEVICES, settings);
    (void)setenv("DHOW_PLUGIN_PATH", DHOW_TEST_SIM_DIR, 0);
    (void)setenv("DHOW_SIM", all, 1);
    OK(dhow_context_create(NULL, &g_context));
    for (int i = 0; i < DEVICES; i++) OK(dhow_device_get(g_context, names[i], &g_devices[i]));
}

/* ---- networks of random widths ---- */

typedef struct network {
    int layers;
    int64_t width[MOST_LAYERS + 1]; /* of the input, then of each layer */
    bool shared;                    /* the middle layer serves twice: its gradient is a sum */
} network;

static uint64_t next(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static network random_network(uint64_t seed) {
    uint64_t state = seed;
    network n = {.layers = 1 + (int)(next(&state) % MOST_LAYERS), .shared = next(&state) % 2 == 0};
    for (int i = 0; i <= n.layers; i++) n.width[i] = 1 + (int64_t)(next(&state) % 40);
    return n;
}

static dhow_model *model_of(const network *n) {
    dhow_model *m;
    dhow_model_value x, y;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, 2, (int64_t[]){-1, n->width[0]}, &x));
    y = x;
    for (int i = 0; i < n->layers; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "layer%d", i);
        OK(dhow_model_linear(m, name, y, n->width[i], n->width[i + 1], 1, &y));
        OK(dhow_model_tanh(m, y, &y));
        if (n->shared && i == 0) OK(dhow_model_mul(m, y, y, &y));
    }
    OK(dhow_model_output(m, "y", y));
    OK(dhow_model_init_parameters(m, 3));
    OK(dhow_model_to(m, g_devices[0]));
    return m;
}

static void batch_of(const network *n, int64_t rows, int step, dhow_batch *out) {
    const int64_t columns[] = {n->width[0], n->width[n->layers]};
    dhow_device *cpu;
    OK(dhow_device_get(g_context, "cpu", &cpu));
    *out = DHOW_INIT(dhow_batch, .tensor_count = 2);
    for (int k = 0; k < 2; k++) {
        const int64_t count = rows * columns[k];
        float *values = malloc((size_t)count * sizeof *values);
        cr_assert_not_null(values);
        for (int64_t i = 0; i < count; i++)
            values[i] =
                (float)((uint64_t)(i + step * 7919 + 1) * UINT64_C(2654435761) >> 7 & 1023) / 512 -
                1;
        OK(dhow_tensor_from_data(cpu, DHOW_F32, 2, (int64_t[]){rows, columns[k]}, values,
                                 &out->tensors[k]));
        free(values);
    }
}

static dhow_trainer *trainer_of(dhow_model *m, uint64_t bucket_bytes) {
    dhow_trainer *t;
    OK(dhow_trainer_create(
        m,
        &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .optimizer = DHOW_OPTIMIZER_ADAMW,
                   .learning_rate = 0.01, .devices = g_devices, .device_count = g_count,
                   .fixed_shares = 1, .bucket_bytes = bucket_bytes),
        &t));
    return t;
}

static double step(dhow_trainer *t, const network *n, int64_t rows, int number) {
    dhow_batch batch;
    double loss;
    batch_of(n, rows, number, &batch);
    OK(dhow_trainer_step(t, &batch, &loss));
    dhow_tensor_release(batch.tensors[0]);
    dhow_tensor_release(batch.tensors[1]);
    return loss;
}

/* ---- the same bits ---- */

static size_t train(const network *n, uint64_t bucket_bytes, int accumulate, float *out) {
    dhow_model *m = model_of(n);
    dhow_trainer *t = trainer_of(m, bucket_bytes);
    for (int i = 0; i < 6; i++) {
        dhow_batch batch;
        batch_of(n, 3 + i % 3, i, &batch);
        if (accumulate == 0) {
            OK(dhow_trainer_step(t, &batch, NULL));
        } else {
            OK(dhow_trainer_backward(t, NULL, batch.tensors, 1, batch.tensors[1], NULL));
            if (i % 2 == 1) {
                OK(dhow_trainer_update(t, NULL));
                OK(dhow_trainer_zero_gradients(t));
            }
        }
        dhow_tensor_release(batch.tensors[0]);
        dhow_tensor_release(batch.tensors[1]);
    }
    const size_t count = read_parameters(t, MOST_PARAMETERS, out);
    dhow_trainer_release(t);
    dhow_model_release(m);
    return count;
}

static void compare(const network *n, uint64_t seed) {
    static float whole[MOST_PARAMETERS], parts[MOST_PARAMETERS];
    static const uint64_t sizes[] = {1, 256, 4096, 0};
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        const size_t count = train(n, k_at_the_end, accumulate, whole);
        for (int k = 0; k < 4; k++) {
            cr_assert_eq(train(n, sizes[k], accumulate, parts), count);
            for (size_t i = 0; i < count; i++)
                cr_assert(memcmp(&whole[i], &parts[i], sizeof(float)) == 0,
                          "network %llu, buckets of %llu bytes: parameter %zu is %.9g, not %.9g",
                          (unsigned long long)seed, (unsigned long long)sizes[k], i,
                          (double)parts[i], (double)whole[i]);
        }
    }
}

Test(buckets, of_any_size_give_the_same_bits) {
    open_devices("jitter_us=100");
    for (uint64_t seed = 1; seed <= 12; seed++) {
        const network n = random_network(seed);
        compare(&n, seed);
    }
    dhow_context_release(g_context);
}

/* ---- early ---- */

/* Slices of a process: when the first and the last of a category, and of a path, begin, in
 * microseconds. */
typedef struct slices {
    int count;
    double first_begin, last_begin;
} slices;

static slices slices_of(json_t *root, const char *process, const char *category, const char *path) {
    json_t *events = json_object_get(root, "traceEvents"), *e;
    slices s = {0, INFINITY, 0};
    size_t i;
    json_int_t pid = -1;
    json_array_foreach(events, i, e) {
        if (strcmp(json_string_value(json_object_get(e, "ph")), "M") != 0) continue;
        const char *name = json_string_value(json_object_get(json_object_get(e, "args"), "name"));
        if (strcmp(name, process) == 0) pid = json_integer_value(json_object_get(e, "pid"));
    }
    cr_assert(pid >= 0, "no process %s", process);
    json_array_foreach(events, i, e) {
        if (strcmp(json_string_value(json_object_get(e, "ph")), "X") != 0 ||
            json_integer_value(json_object_get(e, "pid")) != pid ||
            strcmp(json_string_value(json_object_get(e, "cat")), category) != 0)
            continue;
        const double begin = json_number_value(json_object_get(e, "ts"));
        const char *own = json_string_value(json_object_get(json_object_get(e, "args"), "path"));
        if (path != NULL && (own == NULL || strcmp(own, path) != 0)) continue;
        s.count++;
        s.first_begin = fmin(s.first_begin, begin);
        s.last_begin = fmax(s.last_begin, begin);
    }
    return s;
}

static const network k_deep = {
    .layers = 6, .width = {MOST_WIDTH, MOST_WIDTH, MOST_WIDTH, MOST_WIDTH, MOST_WIDTH, 256, 64}};

/* Whether gradients come to the first device while the second still computes its backward: a copy
 * on sim:0 that begins before the last step of sim:1. When that step ends is not asked: a thread that
 * is held up notes it late. */
static bool travels_early(uint64_t bucket_bytes) {
    char path[] = "/tmp/dhow_buckets_XXXXXX";
    json_error_t error;
    const int fd = mkstemp(path);
    cr_assert(fd >= 0);
    (void)close(fd);
    open_devices("launch_us=2000,bandwidth=1G");
    dhow_model *m = model_of(&k_deep);
    dhow_trainer *t = trainer_of(m, bucket_bytes);
    for (int i = 0; i < 2; i++) (void)step(t, &k_deep, 8, i);
    OK(dhow_trace_start(g_context, 0));
    (void)step(t, &k_deep, 8, 2);
    OK(dhow_trace_stop(g_context));
    OK(dhow_trace_save(g_context, path));
    json_t *root = json_load_file(path, 0, &error);
    cr_assert_not_null(root, "%s", error.text);
    const slices steps = slices_of(root, "sim:1", "step", NULL);
    cr_assert_gt(steps.count, 10);
    const slices copies = slices_of(root, "sim:0", "copy", "peer to peer");
    cr_assert_gt(copies.count, 0);
    const bool early = copies.first_begin < steps.last_begin;
    json_decref(root);
    (void)unlink(path);
    dhow_trainer_release(t);
    dhow_model_release(m);
    dhow_context_release(g_context);
    return early;
}

Test(buckets, a_trace_shows_them_travel_while_the_backward_runs) {
    cr_assert(travels_early(1 << 18), "no bucket is on its way before the backward is over");
    cr_assert(!travels_early(k_at_the_end), "gradients are on their way before they are made");
}

/* ---- faster ---- */

static double seconds_of(uint64_t bucket_bytes, double *loss) {
    dhow_model *m = model_of(&k_deep);
    dhow_trainer *t = trainer_of(m, bucket_bytes);
    double best = INFINITY;
    for (int i = 0; i < 8; i++) {
        const int64_t begin = dhow_trace_now();
        *loss = step(t, &k_deep, 8, i);
        const double took = (double)(dhow_trace_now() - begin) * 1e-9;
        if (i >= 3) best = fmin(best, took);
    }
    dhow_trainer_release(t);
    dhow_model_release(m);
    return best;
}

/* Kernels of 2 ms, and links that take 37 ms for the gradients: long beside what a busy machine
 * adds. */
Test(buckets, a_step_of_two_devices_takes_less_time) {
    double whole_loss, parts_loss, whole = INFINITY, parts = INFINITY;
    open_devices("launch_us=2000,bandwidth=128M");
    for (int i = 0; i < 3 && !(parts < 0.95 * whole); i++) { /* a busy machine gets three tries */
        whole = fmin(whole, seconds_of(k_at_the_end, &whole_loss));
        parts = fmin(parts, seconds_of(1 << 18, &parts_loss));
        cr_assert_eq(whole_loss, parts_loss);
    }
    (void)fprintf(stderr, "a step takes %.1f ms in one piece, %.1f ms in buckets: %.3f of it\n",
                  whole * 1e3, parts * 1e3, parts / whole);
    cr_assert_lt(parts, 0.95 * whole, "%g s in buckets, %g s in one piece", parts, whole);
    dhow_context_release(g_context);
}

/* ---- from device to device ---- */

static void open_four(const char *settings, const char *collectives) {
    (void)setenv("DHOW_COLLECTIVES", collectives, 1);
    open_devices(settings);
}

/* Of four devices gradients go from one to the next, or all to the first: the same sums in another
 * order. Batches have too few samples for some. */
Test(buckets, of_four_devices_give_the_same_sums_either_way) {
    static float first[MOST_PARAMETERS], next_one[MOST_PARAMETERS];
    g_count = 4;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        const network n = random_network(seed);
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            open_four("jitter_us=100", "off");
            const size_t count = train(&n, 256, accumulate, first);
            dhow_context_release(g_context);
            open_four("jitter_us=100", "on");
            cr_assert_eq(train(&n, 256, accumulate, next_one), count);
            compare(&n, seed); /* buckets of all sizes, bit for bit */
            dhow_context_release(g_context);
            for (size_t i = 0; i < count; i++)
                cr_assert(fabsf(first[i] - next_one[i]) <= 1e-3f, "network %d: [%zu] is %.9g, %.9g",
                          (int)seed, i, (double)next_one[i], (double)first[i]);
        }
    }
}

/* Each of the copies from one to the next fails once, when it is handed in or while it runs: the
 * step is told to have failed, and made again. */
static void fail_each(const char *kind) {
    static float right[MOST_PARAMETERS], again[MOST_PARAMETERS];
    const network n = {.layers = 3, .width = {8, 8, 8, 8}};
    size_t count = 0;
    bool failed = true;
    int at = 0;
    for (; failed; at += at == 0   ? 4
                         : at < 16 ? 1
                                   : 7) { /* 0: none; behind three trials of links */
        char faults[64];
        failed = at == 0;
        (void)snprintf(faults, sizeof faults, "peer_copy#1@%d=%sINTERNAL", at, kind);
        (void)setenv("DHOW_SIM_FAULTS", at > 0 ? faults : "", 1);
        open_four("", "on");
        dhow_model *m = model_of(&n);
        dhow_trainer *t = trainer_of(m, 1);
        for (int i = 0; i < 4; i++) {
            dhow_batch batch;
            batch_of(&n, 4, i, &batch);
            if (dhow_trainer_step(t, &batch, NULL) != DHOW_OK) {
                failed = true;
                cr_assert_not_null(strstr(dhow_last_error(), "sim:1"), "%s", dhow_last_error());
                OK(dhow_trainer_step(t, &batch, NULL));
            }
            dhow_tensor_release(batch.tensors[0]);
            dhow_tensor_release(batch.tensors[1]);
        }
        count = read_parameters(t, MOST_PARAMETERS, at == 0 ? right : again);
        if (at > 0) cr_assert_arr_eq(again, right, count * sizeof(float), "%s", faults);
        dhow_trainer_release(t);
        dhow_model_release(m);
        dhow_context_release(g_context);
    }
    (void)unsetenv("DHOW_SIM_FAULTS");
    cr_assert_gt(at, 16);
}

Test(buckets, of_four_devices_that_fail_to_travel_are_told_and_made_again) {
    g_count = 4;
    fail_each("");
    fail_each("async:");
}

/* Each device's link carries one array, where that of the first would carry three: 37 ms each. */
Test(buckets, of_four_devices_a_step_takes_less_time_from_one_to_the_next) {
    double loss, best[2] = {INFINITY, INFINITY};
    static const char *const ways[] = {"off", "on"};
    g_count = 4;
    for (int i = 0; i < 3 && !(best[1] < 0.9 * best[0]);
         i++) { /* a busy machine gets three tries */
        for (int k = 0; k < 2; k++) {
            open_four("launch_us=1000,bandwidth=128M", ways[k]);
            best[k] = fmin(best[k], seconds_of(1 << 18, &loss));
            dhow_context_release(g_context);
        }
    }
    (void)fprintf(stderr, "a step of four takes %.1f ms by the first's link, %.1f ms: %.3f of it\n",
                  best[0] * 1e3, best[1] * 1e3, best[1] / best[0]);
    cr_assert_lt(best[1], 0.9 * best[0]);
}
