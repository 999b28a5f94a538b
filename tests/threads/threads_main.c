/* SPDX-License-Identifier: Apache-2.0
 *
 * Many threads at once, as a plain program for ThreadSanitizer:
 *   threads_main contexts|discovery|shared|readers|staged|streams|feeding [threads [rounds]]
 * Devices come from the environment: the CPU, and simulated ones where DHOW_PLUGIN_PATH shows them.
 */
#include <dhow/dhow.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 32, COUNT = 20000, LARGE = 30000 };

static int g_threads = 8, g_rounds = 6;
static atomic_int g_failed;
static dhow_context *g_context; /* of all threads, except in "contexts" */
static pthread_barrier_t g_barrier;

#define OK(call)                                                                    \
    do {                                                                            \
        dhow_status status_ = (call);                                               \
        if (status_ != DHOW_OK) {                                                   \
            (void)fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, \
                          dhow_status_name(status_), dhow_last_error());            \
            exit(2);                                                                \
        }                                                                           \
    } while (0)

static void expect(dhow_tensor *t, int64_t count, float value, const char *what) {
    float *got = malloc((size_t)count * sizeof *got);
    OK(dhow_tensor_read(t, got, (uint64_t)count * sizeof *got));
    for (int64_t i = 0; i < count; i++) {
        if (got[i] == value) continue;
        (void)fprintf(stderr, "%s: element %lld is %g, not %g\n", what, (long long)i,
                      (double)got[i], (double)value);
        atomic_fetch_add(&g_failed, 1);
        break;
    }
    free(got);
}

static dhow_device *device_of(dhow_context *context, int number) {
    dhow_device *device;
    OK(dhow_device_at(context, (uint32_t)number % dhow_device_count(context), &device));
    return device;
}

static dhow_tensor *full(dhow_device *device, int64_t count, double value) {
    dhow_tensor *t;
    OK(dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(count), value, &t));
    return t;
}

/* One thread's own objects on one device: made, used, given up at work. */
static void use_device(dhow_context *context, int index, int number) {
    dhow_stream *s;
    dhow_event *e;
    dhow_tensor *there, *sum;
    dhow_device *device = device_of(context, index), *next = device_of(context, index + 1);
    OK(dhow_stream_create(device, &s));
    OK(dhow_event_create(device, 0, &e));
    dhow_tensor *t = full(device, COUNT, number), *one = full(device, COUNT, 1);
    for (int i = 0; i < 3; i++) OK(dhow_add(i == 1 ? NULL : s, t, one, t));
    OK(dhow_event_record(e, s));
    OK(dhow_stream_wait(s, e));
    OK(dhow_tensor_to_async(NULL, t, next, &there));
    OK(dhow_fill(s, t, -1));
    dhow_tensor_release(t);
    OK(dhow_tensor_create(next, DHOW_F32, DHOW_SHAPE(1), &sum));
    OK(dhow_reduce_sum(NULL, there, 0, sum));
    dhow_tensor_release(one);
    dhow_event_release(e);
    dhow_stream_release(s);
    expect(there, COUNT, (float)(number + 3), "own");
    dhow_tensor_release(there);
    expect(sum, 1, (float)((number + 3) * COUNT), "sum");
    dhow_tensor_release(sum);
}

static void contexts(int number) {
    dhow_context *context;
    OK(dhow_context_create(NULL, &context));
    for (uint32_t d = 0; d < dhow_device_count(context); d++) {
        use_device(context, (int)d + number, number);
    }
    dhow_context_release(context);
}

/* Some take the CPU, which is there from the beginning, while others let the list grow. */
static void discovery(int number) {
    static dhow_context *context;
    dhow_device *cpu;
    if (number == 0) OK(dhow_context_create(NULL, &context));
    (void)pthread_barrier_wait(&g_barrier);
    for (int i = 0; i < 1000; i++) {
        OK(dhow_device_get(context, "cpu", &cpu));
        if (number % 2 == 1 && i == 50 * number) (void)device_of(context, number);
    }
    (void)pthread_barrier_wait(&g_barrier);
    if (number == 0) dhow_context_release(context);
}

static void shared(int number) {
    OK(dhow_context_retain(g_context));
    use_device(g_context, number, number);
    OK(dhow_memory_trim(device_of(g_context, number)));
    dhow_context_release(g_context);
}

/* All read what one of them wrote; barriers order them, streams and tensors do the rest. */
static dhow_tensor *g_tensor;
static void readers(int number) {
    dhow_stream *s;
    dhow_device *device = dhow_tensor_device(g_tensor);
    dhow_tensor *copy;
    OK(dhow_stream_create(device, &s));
    for (int i = 0; i < 4; i++) {
        if (number == i) OK(dhow_fill(s, g_tensor, i + 1));
        (void)pthread_barrier_wait(&g_barrier);
        OK(dhow_tensor_create(device_of(g_context, number), DHOW_F32, DHOW_SHAPE(COUNT), &copy));
        OK(dhow_copy_async(dhow_tensor_device(copy) == device ? s : NULL, g_tensor, copy, 0));
        expect(copy, COUNT, (float)(i + 1), "copy");
        dhow_tensor_release(copy);
        (void)pthread_barrier_wait(&g_barrier);
    }
    dhow_stream_release(s);
}

/* Copies through the ring, from all threads, between all devices. */
static void staged(int number) {
    dhow_device *from = device_of(g_context, number), *to = device_of(g_context, number + 1);
    for (int i = 0; i < 3; i++) {
        dhow_tensor *t = full(from, LARGE, number * 10 + i), *there, *back;
        OK(dhow_tensor_to_async(NULL, t, to, &there));
        OK(dhow_fill(NULL, t, -1));
        OK(dhow_tensor_to_async(NULL, there, from, &back));
        OK(dhow_fill(NULL, there, -1));
        dhow_tensor_release(t);
        dhow_tensor_release(there);
        expect(back, LARGE, (float)(number * 10 + i), "back");
        dhow_tensor_release(back);
    }
}

/* Streams end in the threads that made them while others wait for the work they left. */
static dhow_tensor *g_left[MOST_THREADS];
static void streams(int number) {
    for (int i = 0; i < 4; i++) {
        dhow_stream *s;
        dhow_device *device = device_of(g_context, number);
        OK(dhow_stream_create(device, &s));
        OK(dhow_fill(s, g_left[number], number + i));
        (void)pthread_barrier_wait(&g_barrier);
        dhow_stream_release(s);
        int other = (number + 1) % g_threads;
        expect(g_left[other], COUNT, (float)(other + i), "left");
        (void)pthread_barrier_wait(&g_barrier);
    }
}

/* A thread's tensors keep notes of streams that have ended, whose memory the streams of other
 * threads on other devices take meanwhile. */
static void recycled(int number) {
    enum { DEVICES = 3 };
    dhow_tensor *mine[DEVICES];
    for (int d = 0; d < DEVICES; d++) mine[d] = full(device_of(g_context, d), COUNT, 0);
    for (int i = 0; i < 64; i++) {
        dhow_stream *s;
        const int d = (number + i) % DEVICES;
        OK(dhow_stream_create(device_of(g_context, d), &s));
        OK(dhow_fill(s, mine[d], i));
        dhow_stream_release(s);
    }
    for (int d = 0; d < DEVICES; d++) dhow_tensor_release(mine[d]);
}

/* ---- feeding: a loader with workers on one device, and a model on several ---- */

enum { SAMPLES = 500, BATCH = 48 };

/* y = x + x, and one row per sample. */
static dhow_model *doubling(dhow_device *device) {
    dhow_model *m;
    dhow_model_value x, y;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(-1, 4), &x));
    OK(dhow_model_add(m, x, x, &y));
    OK(dhow_model_output(m, "y", y));
    OK(dhow_model_to(m, device));
    return m;
}

static void check_sink(dhow_sink *sink, const char *what) {
    float got[SAMPLES * 4];
    dhow_tensor *rows;
    OK(dhow_sink_tensor(sink, 0, &rows));
    OK(dhow_tensor_read(rows, got, sizeof got));
    for (int i = 0; i < SAMPLES * 4; i++) {
        if (got[i] == 2 * (float)i) continue;
        (void)fprintf(stderr, "%s: element %d is %g\n", what, i, (double)got[i]);
        atomic_fetch_add(&g_failed, 1);
        break;
    }
    dhow_tensor_release(rows);
    dhow_sink_release(sink);
}

static void feeding(int number) {
    float values[SAMPLES * 4];
    dhow_tensor *x;
    dhow_dataset *samples;
    dhow_loader *ahead, *plain;
    dhow_parallel *parallel;
    dhow_sink *first, *second;
    dhow_device *cpu, *mine = device_of(g_context, number);
    dhow_device *devices[] = {mine, device_of(g_context, number + 1)};
    for (int i = 0; i < SAMPLES * 4; i++) values[i] = (float)i;
    OK(dhow_device_get(g_context, "cpu", &cpu));
    OK(dhow_tensor_from_data(cpu, DHOW_F32, DHOW_SHAPE(SAMPLES, 4), values, &x));
    OK(dhow_dataset_from_tensors(&x, 1, &samples));
    dhow_loader_options options =
        DHOW_INIT(dhow_loader_options, .batch_size = BATCH, .workers = 2, .device = mine);
    OK(dhow_loader_create(samples, &options, &ahead));
    options.device = NULL;
    OK(dhow_loader_create(samples, &options, &plain));
    dhow_model *model = doubling(mine);
    OK(dhow_sink_to_tensors(g_context, &first));
    OK(dhow_predict(model, ahead, first));
    check_sink(first, "predict");
    OK(dhow_parallel_create(model, devices, 2, NULL, &parallel));
    OK(dhow_sink_to_tensors(g_context, &second));
    OK(dhow_parallel_predict(parallel, plain, second));
    check_sink(second, "parallel");
    dhow_parallel_release(parallel);
    dhow_model_release(model);
    dhow_loader_release(ahead);
    dhow_loader_release(plain);
    dhow_dataset_release(samples);
    dhow_tensor_release(x);
}

/* ---- one model on all threads, with as many shapes ---- */

static dhow_model *g_model;

static void one_model(int number) {
    enum { ROWS = 64 };
    const int64_t shape[] = {1 + number % 3, 4};
    float values[3 * 4], got[3 * 4];
    dhow_device *device = dhow_model_device(g_model);
    for (int i = 0; i < 3 * 4; i++) values[i] = (float)(number * 100 + i);
    for (int i = 0; i < ROWS; i++) {
        dhow_tensor *x, *y = NULL;
        OK(dhow_tensor_from_data(device, DHOW_F32, 2, shape, values, &x));
        OK(dhow_model_run(g_model, NULL, &x, 1, &y, 1));
        OK(dhow_tensor_read(y, got, (uint64_t)(shape[0] * 4) * sizeof *got));
        for (int64_t k = 0; k < shape[0] * 4; k++) {
            if (got[k] != 2 * values[k]) atomic_fetch_add(&g_failed, 1);
        }
        dhow_tensor_release(x);
        dhow_tensor_release(y);
    }
}

/* The same in f16, which has these numbers exactly. */
static void half_model(int number) { one_model(number); }

static const struct {
    const char *name;
    void (*run)(int number);
} k_modes[] = {{"contexts", contexts},    {"discovery", discovery}, {"shared", shared},
               {"readers", readers},      {"staged", staged},       {"streams", streams},
               {"recycled", recycled},    {"feeding", feeding},     {"one_model", one_model},
               {"half_model", half_model}};

static void (*g_run)(int number);

static void *run_thread(void *argument) {
    int number = *(int *)argument;
    for (int round = 0; round < g_rounds; round++) g_run(number);
    return NULL;
}

static void run_threads(void) {
    pthread_t threads[MOST_THREADS];
    int numbers[MOST_THREADS];
    (void)pthread_barrier_init(&g_barrier, NULL, (unsigned)g_threads);
    for (int i = 0; i < g_threads; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, run_thread, &numbers[i]) != 0) exit(2);
    }
    for (int i = 0; i < g_threads; i++) (void)pthread_join(threads[i], NULL);
    (void)pthread_barrier_destroy(&g_barrier);
}

int main(int argc, char **argv) {
    for (size_t i = 0; argc > 1 && i < sizeof k_modes / sizeof k_modes[0]; i++) {
        if (strcmp(argv[1], k_modes[i].name) == 0) g_run = k_modes[i].run;
    }
    if (argc > 2) g_threads = (int)strtol(argv[2], NULL, 10);
    if (argc > 3) g_rounds = (int)strtol(argv[3], NULL, 10);
    if (g_run == NULL || g_threads < 4 || g_threads > MOST_THREADS) {
        (void)fprintf(stderr,
                      "usage: %s contexts|discovery|shared|readers|staged|streams|recycled|feeding|"
                      "one_model|half_model [threads [rounds]]\n",
                      argv[0]);
        return 2;
    }
    if (g_run == contexts || g_run == discovery) {
        run_threads();
        return atomic_load(&g_failed) > 0;
    }
    OK(dhow_context_create(NULL, &g_context));
    g_tensor = full(device_of(g_context, 1), COUNT, 0);
    for (int i = 0; i < g_threads; i++) g_left[i] = full(device_of(g_context, i), COUNT, 0);
    g_model = doubling(device_of(g_context, 0));
    if (g_run == half_model) OK(dhow_model_set_precision(g_model, DHOW_PRECISION_F16));
    run_threads();
    dhow_model_release(g_model);
    for (int i = 0; i < g_threads; i++) dhow_tensor_release(g_left[i]);
    dhow_tensor_release(g_tensor);
    dhow_context_release(g_context);
    return atomic_load(&g_failed) > 0;
}
