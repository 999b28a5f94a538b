/* SPDX-License-Identifier: Apache-2.0
 *
 * train_main MODE BACKEND [STEPS]: trainings in which threads of the library and of the program
 * meet, as a plain program for ThreadSanitizer. In "devices" one trainer has four devices; in
 * "ones" and "twos" three processes, played by threads, train together, whose sums begin while the
 * backward runs, with one device each or two. All end with the same parameters.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"
#include "dhow/model_steps.h"

enum { MOST_PROCESSES = 3, MOST_DEVICES = 6, WIDTH = 32, LAYERS = 4, ROWS = 5, NUMBERS = 8192 };

static void fail(const char *what, int line) {
    (void)fprintf(stderr, "line %d: %s: %s\n", line, what, dhow_last_error());
    exit(1);
}
#define CHECK(condition) ((condition) ? (void)0 : fail(#condition, __LINE__))
#define OK(call) CHECK((call) == DHOW_OK)

static dhow_context *g_context;
static dhow_device *g_devices[MOST_DEVICES];
static uint32_t g_processes, g_each; /* devices of each */
static int g_steps = 4;

/* ---- the group ---- */

static pthread_barrier_t g_barrier;
static double g_sums[NUMBERS];

static double number_at(dhow_dtype dtype, const void *data, int64_t i) {
    return dtype == DHOW_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static dhow_status sum_over_threads(void *user, dhow_dtype dtype, void *data, int64_t count) {
    const uint32_t own = *(const uint32_t *)user;
    CHECK(count <= NUMBERS);
    for (uint32_t rank = 0; rank < g_processes; rank++) {
        (void)pthread_barrier_wait(&g_barrier);
        for (int64_t i = 0; i < count && rank == own; i++)
            g_sums[i] = (rank == 0 ? 0 : g_sums[i]) + number_at(dtype, data, i);
    }
    (void)pthread_barrier_wait(&g_barrier);
    for (int64_t i = 0; i < count; i++) {
        if (dtype == DHOW_F64)
            ((double *)data)[i] = g_sums[i];
        else
            ((float *)data)[i] = (float)g_sums[i];
    }
    (void)pthread_barrier_wait(&g_barrier);
    return DHOW_OK;
}

/* ---- a process ---- */

typedef struct process {
    uint32_t rank;
    float weights[WIDTH * WIDTH]; /* of the first layer */
} process;

static dhow_model *model_on(dhow_device *device) {
    dhow_model *m;
    dhow_model_value x;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(-1, WIDTH), &x));
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "layer%d", i);
        OK(dhow_model_linear(m, name, x, WIDTH, WIDTH, 1, &x));
        OK(dhow_model_tanh(m, x, &x));
    }
    OK(dhow_model_output(m, "y", x));
    OK(dhow_model_init_parameters(m, 3));
    OK(dhow_model_to(m, device));
    return m;
}

static void step(dhow_trainer *t, uint64_t seed) {
    dhow_batch batch = DHOW_INIT(dhow_batch, .tensor_count = 2);
    dhow_device *cpu;
    OK(dhow_device_get(g_context, "cpu", &cpu));
    for (int k = 0; k < 2; k++)
        OK(dhow_tensor_uniform(cpu, DHOW_F32, DHOW_SHAPE(ROWS, WIDTH), -1, 1, seed + (uint64_t)k,
                               &batch.tensors[k]));
    OK(dhow_trainer_step(t, &batch, NULL));
    for (int k = 0; k < 2; k++) dhow_tensor_release(batch.tensors[k]);
}

static void *be_a_process(void *argument) {
    process *p = argument;
    dhow_device **devices = &g_devices[p->rank * g_each];
    const dhow_process_group group =
        DHOW_INIT(dhow_process_group, .rank = p->rank, .size = g_processes,
                  .all_reduce = sum_over_threads, .user = &p->rank, .any_thread = 1);
    dhow_model *m = model_on(devices[0]);
    dhow_trainer *t;
    dhow_tensor *w;
    OK(dhow_trainer_create(
        m,
        &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .optimizer = DHOW_OPTIMIZER_ADAMW,
                   .devices = devices, .device_count = g_each, .bucket_bytes = 1,
                   .process_group = g_processes > 1 ? &group : NULL),
        &t));
    for (int i = 0; i < g_steps; i++) step(t, (uint64_t)(i * 16 + (int)p->rank * 2));
    OK(dhow_trainer_parameter_at(t, 0, NULL, &w, NULL));
    OK(dhow_tensor_read(w, p->weights, sizeof p->weights));
    dhow_tensor_release(w);
    dhow_trainer_release(t);
    dhow_model_release(m);
    return NULL;
}

int main(int argc, char **argv) {
    static process all[MOST_PROCESSES];
    pthread_t threads[MOST_PROCESSES];
    const char *mode = argc > 2 ? argv[1] : "";
    if (argc > 3) g_steps = (int)strtol(argv[3], NULL, 10);
    g_processes = strcmp(mode, "devices") == 0 ? 1 : MOST_PROCESSES;
    g_each = g_processes == 1 ? 4 : strcmp(mode, "twos") == 0 ? 2 : strcmp(mode, "ones") == 0;
    if (g_each == 0) {
        (void)fprintf(stderr, "usage: %s devices|ones|twos BACKEND [STEPS]\n", argv[0]);
        return 2;
    }
    OK(dhow_context_create(NULL, &g_context));
    for (uint32_t i = 0; i < g_processes * g_each; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%s:%u", argv[2], i);
        OK(dhow_device_get(g_context, name, &g_devices[i]));
    }
    (void)pthread_barrier_init(&g_barrier, NULL, g_processes);
    for (uint32_t i = 0; i < g_processes; i++) {
        all[i].rank = i;
        CHECK(pthread_create(&threads[i], NULL, be_a_process, &all[i]) == 0);
    }
    for (uint32_t i = 0; i < g_processes; i++) (void)pthread_join(threads[i], NULL);
    for (uint32_t i = 1; i < g_processes; i++)
        CHECK(memcmp(all[i].weights, all[0].weights, sizeof all[0].weights) == 0);
    (void)pthread_barrier_destroy(&g_barrier);
    dhow_context_release(g_context);
    return 0;
}
