/* SPDX-License-Identifier: Apache-2.0
 *
 * One model on several threads, each of which runs it on the CPU's default stream: the runs a
 * second against those of one thread. Where cores share their clock or their arithmetic units, as
 * those of virtual machines do, two processes do not reach twice the rate of one either; and one
 * row at a time would measure how fast weights come from memory.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "bench.h"

enum { LAYERS = 4, WIDTH = 512, ROWS = 16, ROUNDS = 7, MOST_THREADS = 4 };
static const int k_runs = 300;

void bench_threads(bench *b);

typedef struct shared_model {
    dhow_context *context;
    dhow_device *cpu;
    dhow_model *model;
} shared_model;

static void make(shared_model *s) {
    dhow_model_value h;
    char name[] = "a";
    BENCH_OK(dhow_context_create(&DHOW_INIT(dhow_context_options, .num_threads = 1), &s->context));
    BENCH_OK(dhow_device_get(s->context, "cpu", &s->cpu));
    BENCH_OK(dhow_model_create(s->context, &s->model));
    BENCH_OK(dhow_model_input(s->model, "x", DHOW_F32, DHOW_SHAPE(ROWS, WIDTH), &h));
    for (int i = 0; i < LAYERS; i++, name[0]++) {
        BENCH_OK(dhow_model_linear(s->model, name, h, WIDTH, WIDTH, 1, &h));
        BENCH_OK(dhow_model_relu(s->model, h, &h));
    }
    BENCH_OK(dhow_model_output(s->model, "y", h));
    BENCH_OK(dhow_model_init_parameters(s->model, 1));
}

static void *run(void *data) {
    shared_model *s = data;
    static const float zeros[ROWS * WIDTH];
    float y[ROWS * WIDTH];
    for (int i = 0; i < k_runs; i++) {
        dhow_tensor *in, *out;
        BENCH_OK(dhow_tensor_from_data(s->cpu, DHOW_F32, DHOW_SHAPE(ROWS, WIDTH), zeros, &in));
        BENCH_OK(dhow_model_run(s->model, NULL, &in, 1, &out, 1));
        BENCH_OK(dhow_tensor_read(out, y, sizeof y));
        dhow_tensor_release(in);
        dhow_tensor_release(out);
    }
    return NULL;
}

/* Seconds for each run when that many threads run at once. */
static double seconds_of(shared_model *s, int threads) {
    pthread_t thread[MOST_THREADS];
    struct timespec begin, end;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&thread[i], NULL, run, s) != 0) exit(1);
    }
    for (int i = 0; i < threads; i++) (void)pthread_join(thread[i], NULL);
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    return ((double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec)) /
           ((double)threads * k_runs);
}

void bench_threads(bench *b) {
    static const int k_threads[] = {1, 2, MOST_THREADS};
    double best[] = {1e9, 1e9, 1e9};
    shared_model s;
    make(&s);
    (void)run(&s);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 3; i++) {
            const double seconds = seconds_of(&s, k_threads[i]);
            if (seconds < best[i]) best[i] = seconds;
        }
    }
    bench_report(b, "a run of one model, 2 threads, cpu", "one thread", 1.7, best[1], best[0]);
    bench_report(b, "a run of one model, 4 threads, cpu", "one thread", 0, best[2], best[0]);
    dhow_model_release(s.model);
    dhow_context_release(s.context);
}
