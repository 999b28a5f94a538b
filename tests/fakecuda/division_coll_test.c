/* SPDX-License-Identifier: Apache-2.0
 *
 * Training on several GPUs: gradients are added up by NCCL, which is used, switched off, missing,
 * and fails in the middle of a step.
 */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "dhow/dhow.h"
#include "dhow/model_steps.h"
#include "fakecuda.h"
#include "tests/trainer_parameters.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())
#define SAYS(wanted)                                                                  \
    cr_assert_not_null(strstr(dhow_last_error(), (wanted)), "'%s' does not say '%s'", \
                       dhow_last_error(), (wanted))

enum {
    MOST = 4,
    PROCESSES = 3,
    BUCKETS = 3,
    STEPS = 6,
    IN = 24,
    HIDDEN = 40,
    OUT = 8,
    ROWS = 12,
    PARAMETERS = 4096,
    WIDE = 4096
};

static dhow_context *g_context;
static dhow_device *g_devices[MOST];
static char g_log[4096];

TestSuite(division_coll, .timeout = 120);

/* The processes are threads here, which log at once. */
static void keep_log(void *user, dhow_log_level level, const char *message) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    (void)user;
    if (level > DHOW_LOG_INFO) return;
    (void)pthread_mutex_lock(&lock);
    const size_t used = strlen(g_log);
    (void)snprintf(g_log + used, sizeof g_log - used, "%s\n", message);
    (void)pthread_mutex_unlock(&lock);
}

static void begin(const char *settings, const char *faults) {
    static const char *const names[] = {"cuda:0", "cuda:1", "cuda:2", "cuda:3"};
    char why[256] = "", all[128];
    g_log[0] = '\0';
    (void)snprintf(all, sizeof all, "devices=4%s%s", settings[0] != '\0' ? "," : "", settings);
    (void)setenv("FAKECUDA", all, 1); /* of the process that asks the plugin how many there are */
    cr_assert(fakecuda_reset(all, faults, why, sizeof why), "%s", why);
    (void)setenv("DHOW_LOG", "info", 1);
    OK(dhow_context_create(&DHOW_INIT(dhow_context_options, .log = keep_log), &g_context));
    for (int i = 0; i < MOST; i++) OK(dhow_device_get(g_context, names[i], &g_devices[i]));
}

static void end(void) {
    dhow_context_release(g_context);
    cr_assert_eq(fakecuda_live_objects(NULL), 0);
    cr_assert_eq(fakecuda_complaints(), 0, "%s", fakecuda_first_complaint());
}

static void expect_log(const char *text) {
    cr_assert_not_null(strstr(g_log, text), "the log does not say '%s': %s", text, g_log);
}

/* ---- a training ---- */

static dhow_model *model_of(void) {
    dhow_model *m;
    dhow_model_value x;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, 2, (int64_t[]){-1, IN}, &x));
    OK(dhow_model_linear(m, "first", x, IN, HIDDEN, 1, &x));
    OK(dhow_model_tanh(m, x, &x));
    OK(dhow_model_linear(m, "second", x, HIDDEN, HIDDEN, 1, &x));
    OK(dhow_model_tanh(m, x, &x));
    OK(dhow_model_linear(m, "third", x, HIDDEN, OUT, 1, &x));
    OK(dhow_model_output(m, "y", x));
    OK(dhow_model_init_parameters(m, 5));
    OK(dhow_model_to(m, g_devices[0]));
    return m;
}

static void batch_of(int step, dhow_batch *out) {
    static float x[ROWS * IN], y[ROWS * OUT];
    dhow_device *cpu;
    OK(dhow_device_get(g_context, "cpu", &cpu));
    for (int i = 0; i < ROWS * IN; i++) x[i] = (float)((i * 37 + step * 11) % 64) / 32 - 1;
    for (int i = 0; i < ROWS * OUT; i++) y[i] = (float)((i * 13 + step * 5) % 32) / 16 - 1;
    *out = DHOW_INIT(dhow_batch, .tensor_count = 2);
    OK(dhow_tensor_from_data(cpu, DHOW_F32, 2, (int64_t[]){ROWS, IN}, x, &out->tensors[0]));
    OK(dhow_tensor_from_data(cpu, DHOW_F32, 2, (int64_t[]){ROWS, OUT}, y, &out->tensors[1]));
}

static dhow_status step_of(dhow_trainer *t, int step, double *loss) {
    dhow_batch batch;
    batch_of(step, &batch);
    const dhow_status status = dhow_trainer_step(t, &batch, loss);
    dhow_tensor_release(batch.tensors[0]);
    dhow_tensor_release(batch.tensors[1]);
    return status;
}

static dhow_trainer *trainer_of(dhow_model *m, uint32_t devices, uint64_t bucket_bytes, int skip) {
    dhow_trainer *t;
    OK(dhow_trainer_create(
        m,
        &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .learning_rate = 0.05,
                   .devices = g_devices, .device_count = devices, .fixed_shares = 1,
                   .bucket_bytes = bucket_bytes, .skip_failed_devices = skip),
        &t));
    return t;
}

static size_t train(uint32_t devices, uint64_t bucket_bytes, float *out) {
    dhow_model *m = model_of();
    dhow_trainer *t = trainer_of(m, devices, bucket_bytes, 0);
    double loss;
    for (int step = 0; step < STEPS; step++) OK(step_of(t, step, &loss));
    const size_t count = read_parameters(t, PARAMETERS, out);
    dhow_trainer_release(t);
    dhow_model_release(m);
    return count;
}

/* ---- used, and switched off ---- */

Test(division_coll, nccl_adds_up_and_switched_off_copies_do) {
    static float by_nccl[2][PARAMETERS], by_copies[2][PARAMETERS];
    size_t count = 0;
    for (uint32_t devices = 2; devices <= 3; devices++) {
        begin("jitter_us=200", NULL);
        count = train(devices, 0, by_nccl[devices - 2]);
        cr_assert_eq(fakecuda_call_count("ncclCommInitAll"), 1);
        cr_assert_eq(fakecuda_call_count("ncclReduce"), STEPS * devices);
        cr_assert_eq(fakecuda_call_count("ncclBroadcast"), STEPS * devices);
        end();
        (void)setenv("DHOW_COLLECTIVES", "off", 1);
        begin("jitter_us=200", NULL);
        cr_assert_eq(train(devices, 0, by_copies[devices - 2]), count);
        cr_assert_eq(fakecuda_call_count("ncclCommInitAll"), 0);
        end();
        (void)unsetenv("DHOW_COLLECTIVES");
    }
    /* Two numbers add up to the same in either order; three do to some units in the last place. */
    cr_assert_arr_eq(by_nccl[0], by_copies[0], count * sizeof(float));
    for (size_t i = 0; i < count; i++)
        cr_assert(fabsf(by_nccl[1][i] - by_copies[1][i]) <= 1e-6f, "[%zu]: %.9g by NCCL, %.9g", i,
                  (double)by_nccl[1][i], (double)by_copies[1][i]);
}

Test(division_coll, a_word_that_is_no_switch_is_told) {
    dhow_context *context;
    (void)setenv("DHOW_COLLECTIVES", "nccl", 1);
    cr_assert_eq(dhow_context_create(NULL, &context), DHOW_INVALID_ARGUMENT);
    SAYS("DHOW_COLLECTIVES: 'nccl' is none of 0, 1, on, off");
}

Test(division_coll, buckets_are_reduced_one_by_one_to_the_same_bits) {
    static float whole[PARAMETERS], parts[PARAMETERS];
    begin("jitter_us=200", NULL);
    const size_t count = train(2, UINT64_MAX, whole);
    cr_assert_eq(fakecuda_call_count("ncclReduce"), STEPS * 2);
    end();
    begin("jitter_us=200", NULL);
    cr_assert_eq(train(2, 1, parts), count);
    cr_assert_eq(fakecuda_call_count("ncclReduce"), STEPS * 2 * 3); /* of a layer each */
    end();
    cr_assert_arr_eq(whole, parts, count * sizeof(float));
}

/* Graphs of the pieces between buckets: as many launches, and the same numbers as without. */
Test(division_coll, steps_are_replayed_as_graphs_between_buckets) {
    begin("", NULL);
    dhow_model *m = model_of();
    dhow_trainer *t = trainer_of(m, 2, 1, 0);
    double loss;
    for (int step = 0; step < 12; step++) OK(step_of(t, step % 2, &loss));
    cr_assert_gt(fakecuda_call_count("cudaGraphLaunch"), 12);
    dhow_trainer_release(t);
    dhow_model_release(m);
    end();
}

/* ---- missing ---- */

static void expect_copies(const char *settings, const char *faults, const char *text) {
    static float parameters[PARAMETERS];
    begin(settings, faults);
    (void)train(2, 0, parameters);
    cr_assert_eq(fakecuda_call_count("ncclReduce"), 0);
    expect_log("gradients are added up by copies to cuda:0");
    expect_log(text);
    end();
}

Test(division_coll, without_nccl_the_log_says_why_and_copies_serve) {
    expect_copies("oldnccl=1", NULL, "install NCCL 2.14 or later");
    expect_copies("nonccl=1", NULL, "has to be for the CUDA version");
    expect_copies("", "ncclCommInitAll@1=2", "unhandled system error");
}

Test(division_coll, a_device_that_is_named_twice_needs_copies) {
    static float parameters[PARAMETERS];
    begin("", NULL);
    g_devices[1] = g_devices[0];
    (void)train(2, 0, parameters);
    cr_assert_eq(fakecuda_call_count("ncclReduce"), 0);
    expect_log("cuda:0 is named twice");
    end();
}

/* ---- weights of copies ---- */

/* Copies of a model on several GPUs: the first one's weights come from the host, those of others
 * from a GPU, where these reach each other. */
static void compare_with_cpu(dhow_model *m, dhow_parallel *parallel, int64_t wide) {
    static float results[2][ROWS * WIDE];
    dhow_tensor *x, *y[2];
    dhow_device *cpu;
    OK(dhow_device_get(g_context, "cpu", &cpu));
    OK(dhow_tensor_uniform(cpu, DHOW_F32, 2, (int64_t[]){ROWS, wide}, -1, 1, 3, &x));
    OK(dhow_parallel_run(parallel, &x, 1, &y[0], 1));
    OK(dhow_model_to(m, cpu));
    OK(dhow_model_run(m, NULL, &x, 1, &y[1], 1));
    for (int k = 0; k < 2; k++)
        OK(dhow_tensor_read(y[k], results[k], (size_t)(ROWS * wide) * sizeof(float)));
    for (int i = 0; i < ROWS * wide; i++)
        cr_assert(fabsf(results[0][i] - results[1][i]) <= 1e-4f, "[%d]: %.9g, on the CPU %.9g", i,
                  (double)results[0][i], (double)results[1][i]);
    for (int k = 0; k < 2; k++) dhow_tensor_release(y[k]);
    dhow_tensor_release(x);
}

/* Few weights are read from the host for each, 1 MiB is worth a look whether GPUs reach each other,
 * 64 MiB are worth a communicator. */
static void expect_weights(int64_t wide, const char *settings, const char *faults,
                           const char *wanted, unsigned long long broadcasts) {
    dhow_model *m;
    dhow_model_value x;
    dhow_parallel *parallel;
    begin(settings, faults);
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, 2, (int64_t[]){-1, wide}, &x));
    OK(dhow_model_linear(m, "wide", x, wide, wide, 1, &x));
    OK(dhow_model_output(m, "y", x));
    OK(dhow_model_init_parameters(m, 5));
    OK(dhow_parallel_create(m, g_devices, 3, NULL, &parallel));
    cr_assert_eq(fakecuda_call_count("ncclBroadcast"), broadcasts);
    expect_log("weights on cuda:0 are copied from the host");
    expect_log(wanted);
    compare_with_cpu(m, parallel, wide);
    dhow_parallel_release(parallel);
    dhow_model_release(m);
    end();
}

Test(division_coll, weights_go_from_gpu_to_gpu_where_these_reach_each_other) {
    expect_weights(64, "", NULL, "weights on cuda:2 are copied from the host", 0);
    cr_assert_eq(fakecuda_call_count("cudaMemcpyPeerAsync"), 0);
    expect_weights(512, "jitter_us=100", NULL, "weights on cuda:2 are copied from cuda:1", 0);
    cr_assert_geq(fakecuda_call_count("cudaMemcpyPeerAsync"), 2 * 2); /* weight and bias */
    expect_weights(512, "peer=0", NULL, "weights on cuda:2 are copied from the host", 0);
}

Test(division_coll, many_weights_are_broadcast_and_where_that_fails_copied) {
    expect_weights(WIDE, "", NULL, "weights on cuda:0 go to 2 others by their backend", 2 * 3);
    expect_weights(WIDE, "oldnccl=1", NULL, "weights on cuda:2 are copied from cuda:1", 0);
    expect_weights(WIDE, "", "ncclBroadcast@4=3", "weights are copied to each device by itself", 4);
    expect_weights(WIDE, "", "ncclWork@5=6", "another rank failed", 2 * 3);
}

/* ---- failing ---- */

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* A sum that never ends is told, what waits for it let go, and the step can be made again. */
static void expect_told(const char *faults, dhow_status wanted, const char *text) {
    static float before[PARAMETERS], after[PARAMETERS], alike[PARAMETERS];
    double loss;
    begin("", faults);
    dhow_model *m = model_of();
    dhow_trainer *t = trainer_of(m, 3, 256, 0);
    OK(step_of(t, 0, &loss));
    const size_t count = read_parameters(t, PARAMETERS, before);
    const double start = now();
    cr_assert_eq(step_of(t, 1, &loss), wanted, "%s", dhow_last_error());
    SAYS(text);
    cr_assert_lt(now() - start, 5.0);
    (void)read_parameters(t, PARAMETERS, after);
    cr_assert_arr_eq(before, after, count * sizeof(float));
    OK(step_of(t, 1, &loss));
    cr_assert_eq(fakecuda_call_count("ncclCommInitAll"), 2);
    (void)read_parameters(t, PARAMETERS, after);
    dhow_trainer_release(t);
    dhow_model_release(m);
    end();
    begin("", NULL);
    m = model_of();
    t = trainer_of(m, 3, 256, 0);
    for (int step = 0; step < 2; step++) OK(step_of(t, step, &loss));
    (void)read_parameters(t, PARAMETERS, alike);
    cr_assert_arr_eq(alike, after, count * sizeof(float));
    dhow_trainer_release(t);
    dhow_model_release(m);
    end();
}

Test(division_coll, a_sum_that_fails_is_told_and_the_step_made_again) {
    begin("", NULL); /* how many operations a step has */
    dhow_model *m = model_of();
    dhow_trainer *t = trainer_of(m, 3, 256, 0);
    double loss;
    OK(step_of(t, 0, &loss));
    const unsigned long long works = fakecuda_call_count("ncclWork"),
                             reduces = fakecuda_call_count("ncclReduce");
    dhow_trainer_release(t);
    dhow_model_release(m);
    end();
    char faults[64];
    for (unsigned long long at = works + 1; at <= works + 9; at += 4) {
        (void)snprintf(faults, sizeof faults, "ncclWork@%llu=6", at);
        expect_told(faults, DHOW_UNAVAILABLE, "another rank failed");
    }
    (void)snprintf(faults, sizeof faults, "ncclReduce@%llu=3", reduces + 5);
    expect_told(faults, DHOW_INTERNAL, "internal error (3)");
    (void)snprintf(faults, sizeof faults, "ncclBroadcast@4=3");
    expect_told(faults, DHOW_INTERNAL, "internal error (3)");
}

/* In the third step or so, by a kernel of the second device. */
static void lose(int skip, const char *settings) {
    double loss;
    begin(settings, "kernel:tanh_f32#1@5=719");
    dhow_model *m = model_of();
    dhow_trainer *t = trainer_of(m, 3, 256, skip);
    dhow_status status = DHOW_OK;
    const double start = now();
    for (int step = 0; step < STEPS && status == DHOW_OK; step++) status = step_of(t, step, &loss);
    cr_assert_lt(now() - start, 20.0);
    if (skip) {
        dhow_parallel_member member = DHOW_INIT(dhow_parallel_member);
        OK(status);
        OK(dhow_trainer_member_at(t, 1, &member));
        cr_assert_eq(member.status, DHOW_DEVICE_LOST, "%s", member.reason);
        cr_assert_not_null(strstr(member.reason, "cuda:1"), "%s", member.reason);
        OK(dhow_trainer_member_at(t, 2, &member));
        cr_assert_eq(member.status, DHOW_OK, "%s", member.reason);
        if (strstr(settings, "oldnccl") == NULL)
            cr_assert_eq(fakecuda_call_count("ncclCommInitAll"), 2); /* of the other two then */
    } else {
        cr_assert_eq(status, DHOW_DEVICE_LOST, "%s", dhow_last_error());
        SAYS("cuda:1");
    }
    dhow_trainer_release(t);
    dhow_model_release(m);
    dhow_context_release(g_context);
    cr_assert_eq(fakecuda_complaints(), 0, "%s", fakecuda_first_complaint());
}

Test(division_coll, a_device_that_is_lost_is_told) {
    lose(0, "jitter_us=100");
    lose(0, "jitter_us=100,oldnccl=1"); /* sums go from device to device */
}
Test(division_coll, without_a_device_that_is_lost_the_others_go_on) {
    lose(1, "jitter_us=100");
    lose(1, "jitter_us=100,oldnccl=1");
}

/* ---- processes, played by threads, with a GPU or two each ---- */

/* Of all processes; with any_thread their sums begin early, in buckets of a layer each. */
typedef struct processes {
    uint32_t count, gpus; /* gpus: of each */
    int any_thread;
    uint64_t bucket_bytes;
    const char *trace; /* a file, of rank 0's last step; NULL: none */
} processes;
static processes g_all = {PROCESSES, 1, 0, 0, NULL};

typedef struct meeting {
    pthread_barrier_t barrier;
    double sums[PARAMETERS];
} meeting;

typedef struct process {
    meeting *all;
    uint32_t rank;
    int fails_at; /* the step of all that fails; -1: none does */
    dhow_status status;
    char says[512];
    float parameters[PARAMETERS];
    size_t count;
    double loss;
} process;

static dhow_status sum_over_threads(void *user, dhow_dtype dtype, void *data, int64_t count) {
    const process *p = user;
    meeting *m = p->all;
    cr_assert_leq(count, (int64_t)PARAMETERS);
    for (uint32_t rank = 0; rank < g_all.count; rank++) {
        (void)pthread_barrier_wait(&m->barrier);
        for (int64_t i = 0; i < count && rank == p->rank; i++)
            m->sums[i] = (rank == 0 ? 0 : m->sums[i]) +
                         (dtype == DHOW_F64 ? ((double *)data)[i] : (double)((float *)data)[i]);
    }
    (void)pthread_barrier_wait(&m->barrier);
    for (int64_t i = 0; i < count; i++) {
        if (dtype == DHOW_F64)
            ((double *)data)[i] = m->sums[i];
        else
            ((float *)data)[i] = (float)m->sums[i];
    }
    (void)pthread_barrier_wait(&m->barrier);
    return DHOW_OK;
}

static dhow_status step_of_part(dhow_trainer *t, const process *p, int step, double *loss) {
    dhow_batch batch, part = DHOW_INIT(dhow_batch, .tensor_count = 2);
    const int64_t begin = ROWS * p->rank / g_all.count,
                  end_row = ROWS * (p->rank + 1) / g_all.count;
    batch_of(step, &batch);
    for (int k = 0; k < 2; k++)
        OK(dhow_tensor_slice(batch.tensors[k], 0, begin, end_row, 1, &part.tensors[k]));
    const dhow_status status = dhow_trainer_step(t, &part, loss);
    for (int k = 0; k < 2; k++) {
        dhow_tensor_release(batch.tensors[k]);
        dhow_tensor_release(part.tensors[k]);
    }
    return status;
}

static void *be_a_process(void *argument) {
    process *p = argument;
    const dhow_process_group group =
        DHOW_INIT(dhow_process_group, .rank = p->rank, .size = g_all.count,
                  .all_reduce = sum_over_threads, .user = p, .any_thread = g_all.any_thread);
    dhow_device **devices = &g_devices[p->rank * g_all.gpus];
    dhow_model *m = model_of();
    dhow_trainer *t;
    OK(dhow_model_to(m, devices[0]));
    if (p->rank > 0) OK(dhow_model_init_parameters(m, 77)); /* they begin as rank 0's */
    OK(dhow_trainer_create(
        m,
        &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .learning_rate = 0.05,
                   .process_group = &group, .devices = devices, .device_count = g_all.gpus,
                   .fixed_shares = 1, .bucket_bytes = g_all.bucket_bytes),
        &t));
    for (int step = 0; step < STEPS; step++) {
        const bool traced = g_all.trace != NULL && p->rank == 0 && step == STEPS - 1;
        if (traced) OK(dhow_trace_start(g_context, 0));
        dhow_status status = step_of_part(t, p, step, &p->loss);
        if (traced) OK(dhow_trace_stop(g_context));
        if (step == p->fails_at) {
            p->status = status;
            (void)snprintf(p->says, sizeof p->says, "%s", dhow_last_error());
            status = step_of_part(t, p, step, &p->loss); /* by way of the host then */
        }
        OK(status);
    }
    p->count = read_parameters(t, PARAMETERS, p->parameters);
    dhow_trainer_release(t);
    dhow_model_release(m);
    return NULL;
}

static void run_processes(int fails_at, process *all) {
    pthread_t threads[PROCESSES];
    static meeting m;
    cr_assert_eq(pthread_barrier_init(&m.barrier, NULL, g_all.count), 0);
    for (uint32_t i = 0; i < g_all.count; i++) {
        all[i] = (process){.all = &m, .rank = i, .fails_at = fails_at};
        cr_assert_eq(pthread_create(&threads[i], NULL, be_a_process, &all[i]), 0);
    }
    for (uint32_t i = 0; i < g_all.count; i++) cr_assert_eq(pthread_join(threads[i], NULL), 0);
    (void)pthread_barrier_destroy(&m.barrier);
}

/* As one process with all samples, and the same bits in each. */
static void check_processes(const process *all) {
    static float one[PARAMETERS];
    (void)train(2, 0, one);
    for (uint32_t i = 0; i < g_all.count; i++) {
        cr_assert_arr_eq(all[i].parameters, all[0].parameters, all[0].count * sizeof(float));
        for (size_t k = 0; k < all[i].count; k++)
            cr_assert(fabsf(all[i].parameters[k] - one[k]) <= 1e-5f, "process %u: [%zu]", i, k);
    }
}

Test(division_coll, processes_sum_on_their_gpus) {
    static process all[PROCESSES];
    begin("jitter_us=100", NULL);
    run_processes(-1, all);
    /* Parameters at the beginning, gradients of each step. */
    cr_assert_eq(fakecuda_call_count("ncclAllReduce"), PROCESSES * (1 + STEPS));
    check_processes(all);
    end();
    (void)setenv("DHOW_COLLECTIVES", "off", 1);
    begin("", NULL);
    run_processes(-1, all);
    cr_assert_eq(fakecuda_call_count("ncclAllReduce"), 0);
    expect_log(
        "gradients go by way of the host: its device is the CPU, or DHOW_COLLECTIVES is off");
    check_processes(all);
    end();
}

Test(division_coll, processes_without_nccl_sum_on_the_host) {
    static process all[PROCESSES];
    begin("oldnccl=1", NULL);
    run_processes(-1, all);
    expect_log("gradients go by way of the host");
    expect_log("install NCCL 2.14 or later");
    expect_log("a device of another process cannot");
    check_processes(all);
    end();
    begin("", "ncclGetUniqueId@1=2");
    run_processes(-1, all);
    expect_log("unhandled system error");
    end();
    begin("", NULL); /* NCCL takes no GPU for two ranks */
    g_devices[1] = g_devices[0];
    run_processes(-1, all);
    expect_log(
        "gradients go by way of the host: cuda:0: sums between devices: NCCL, making a rank");
    expect_log("invalid usage");
    end();
}

/* Two processes of two GPUs each, and three of one: buckets are summed one by one, with the bits of
 * one sum behind the backward. */
Test(division_coll, processes_sum_on_their_gpus_bucket_by_bucket) {
    static process whole[PROCESSES], parts[PROCESSES];
    g_all.any_thread = 1;
    for (uint32_t gpus = 1; gpus <= 2; gpus++) {
        g_all.gpus = gpus;
        g_all.count = gpus == 1 ? 3 : 2;
        const unsigned long long reduces = gpus == 1 ? 0 : STEPS * 4;
        begin("jitter_us=100", NULL);
        g_all.bucket_bytes = UINT64_MAX;
        run_processes(-1, whole);
        cr_assert_eq(fakecuda_call_count("ncclAllReduce"), g_all.count * (1 + STEPS));
        cr_assert_eq(fakecuda_call_count("ncclReduce"), reduces);
        end();
        begin("jitter_us=100", NULL);
        g_all.bucket_bytes = 1;
        run_processes(-1, parts);
        cr_assert_eq(fakecuda_call_count("ncclAllReduce"), g_all.count * (1 + STEPS * BUCKETS));
        cr_assert_eq(fakecuda_call_count("ncclReduce"), reduces * BUCKETS);
        cr_assert_null(strstr(g_log, "by way of the host"), "%s", g_log);
        check_processes(parts);
        for (uint32_t i = 0; i < g_all.count; i++)
            cr_assert_arr_eq(parts[i].parameters, whole[i].parameters,
                             whole[i].count * sizeof(float));
        end();
    }
}

/* When the first sum begins on a GPU, and the last piece of a backward ends on any. */
static void find_edges(json_t *root, double *begins, double *ends) {
    json_t *events = json_object_get(root, "traceEvents"), *e;
    size_t i;
    *begins = INFINITY;
    *ends = 0;
    json_array_foreach(events, i, e) {
        const char *category = json_string_value(json_object_get(e, "cat")),
                   *name = json_string_value(json_object_get(e, "name"));
        const double begin = json_number_value(json_object_get(e, "ts"));
        if (category == NULL || strcmp(json_string_value(json_object_get(e, "ph")), "X") != 0)
            continue;
        if (strcmp(category, "graph") == 0)
            *ends = fmax(*ends, begin + json_number_value(json_object_get(e, "dur")));
        if (strcmp(category, "copy") == 0 && strcmp(name, "all-reduce") == 0)
            *begins = fmin(*begins, begin);
    }
}

/* Whether GPUs of several processes sum a bucket while one still computes its backward. */
static bool sums_early(uint32_t gpus, uint64_t bucket_bytes) {
    static process all[PROCESSES];
    char path[] = "/tmp/dhow_early_XXXXXX";
    json_error_t error;
    const int fd = mkstemp(path);
    cr_assert(fd >= 0);
    (void)close(fd);
    g_all = (processes){2, gpus, 1, bucket_bytes, path};
    begin("launch_us=8000", NULL);
    run_processes(-1, all);
    OK(dhow_trace_save(g_context, path));
    json_t *root = json_load_file(path, 0, &error);
    cr_assert_not_null(root, "%s", error.text);
    double begins, ends;
    find_edges(root, &begins, &ends);
    cr_assert(isfinite(begins) && ends > 0);
    json_decref(root);
    (void)unlink(path);
    end();
    return begins < ends;
}

Test(division_coll, a_trace_shows_gpus_of_processes_sum_while_the_backward_runs) {
    for (uint32_t gpus = 1; gpus <= 2; gpus++) {
        bool early = false; /* a thread that is held up hands in late, or notes an end late */
        for (int i = 0; i < 3 && !early; i++) early = sums_early(gpus, 1);
        cr_assert(early, "no bucket is summed before the backward is over");
        for (int i = 0; i < 3 && early; i++) early = sums_early(gpus, UINT64_MAX);
        cr_assert(!early, "gradients are summed before they are made");
    }
}

/* GPUs that only the backend's copies join within a process are summed by the host, early: with
 * the bits of the same when the backward is over. */
Test(division_coll, processes_of_gpus_that_copy_sum_early_on_the_host) {
    static process whole[PROCESSES], parts[PROCESSES];
    g_all = (processes){2, 2, 1, UINT64_MAX, NULL};
    begin("jitter_us=100,oldnccl=1", NULL);
    run_processes(-1, whole);
    end();
    g_all.bucket_bytes = 1;
    begin("jitter_us=100,oldnccl=1", NULL);
    run_processes(-1, parts);
    check_processes(parts);
    for (uint32_t i = 0; i < g_all.count; i++)
        cr_assert_arr_eq(parts[i].parameters, whole[i].parameters, whole[i].count * sizeof(float));
    end();
}

/* Within a process GPUs are added up by NCCL, between processes the host sums: an id for these
 * is not to be had, behind those of each. */
Test(division_coll, buckets_that_nccl_has_reduced_are_summed_on_the_host) {
    static process whole[PROCESSES], parts[PROCESSES];
    g_all = (processes){2, 2, 1, UINT64_MAX, NULL};
    begin("jitter_us=100", "ncclGetUniqueId@3=2");
    run_processes(-1, whole);
    cr_assert_eq(fakecuda_call_count("ncclAllReduce"), 0);
    end();
    g_all.bucket_bytes = 1;
    begin("jitter_us=100", "ncclGetUniqueId@3=2");
    run_processes(-1, parts);
    cr_assert_eq(fakecuda_call_count("ncclAllReduce"), 0);
    cr_assert_eq(fakecuda_call_count("ncclReduce"), STEPS * 4 * BUCKETS);
    check_processes(parts);
    for (uint32_t i = 0; i < g_all.count; i++)
        cr_assert_arr_eq(parts[i].parameters, whole[i].parameters, whole[i].count * sizeof(float));
    end();
}

static void fail_a_sum(const char *faults) {
    static process all[PROCESSES];
    begin("", faults);
    const double start = now();
    run_processes(1, all);
    cr_assert_lt(now() - start, 8.0);
    int told = 0;
    for (int i = 0; i < PROCESSES; i++) {
        cr_assert_eq(all[i].status, DHOW_UNAVAILABLE, "%s", all[i].says);
        told += strstr(all[i].says, "another rank failed") != NULL;
    }
    cr_assert_geq(told, 1);
    expect_log("gradients go by way of the host");
    check_processes(all);
    end();
}

/* The second step's sum: parameters are those before in each, and the next one goes by the host. */
Test(division_coll, a_sum_of_processes_that_fails_is_told_to_all) { fail_a_sum("ncclWork@8=6"); }

/* Each of the second step's buckets, behind the parameters and those of the first step: by work
 * that fails, and by what is not taken. */
Test(division_coll, a_bucket_of_processes_that_fails_is_told_to_all) {
    enum { BEFORE = PROCESSES * (1 + BUCKETS) };
    g_all.any_thread = 1;
    g_all.bucket_bytes = 1;
    for (int at = 1; at <= PROCESSES * BUCKETS; at += 2) {
        char faults[64];
        (void)snprintf(faults, sizeof faults, "ncclWork@%d=6", BEFORE + at);
        fail_a_sum(faults);
        (void)snprintf(faults, sizeof faults, "ncclAllReduce@%d=6", BEFORE + at);
        fail_a_sum(faults);
    }
}
