/* SPDX-License-Identifier: Apache-2.0
 *
 * train_test MODE [CHECKPOINT], started by mpirun on some ranks, which train one model together:
 * losses and parameters are those of one process. In modes that begin with "ring_" gradients go
 * round a ring, in those that begin with "two_" each rank has two simulated devices. A rank that
 * meets what it should not says so and aborts the job.
 */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dhow/model_steps.h"
#include "ranks.h"

static uint64_t g_ring_bytes; /* of dhow_mpi_options */

enum { IN = 12, HIDDEN = 16, CLASSES = 4, MOST = 14, STEPS = 12, DIES = 5 };

/* ---- a network and its batches ---- */

static dhow_model *network(uint64_t seed) {
    dhow_model *m;
    dhow_model_value x;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(-1, IN), &x));
    OK(dhow_model_linear(m, "first", x, IN, HIDDEN, 1, &x));
    OK(dhow_model_gelu(m, x, &x));
    OK(dhow_model_dropout(m, x, 0.2, &x));
    OK(dhow_model_linear(m, "second", x, HIDDEN, CLASSES, 1, &x));
    OK(dhow_model_output(m, "y", x));
    OK(dhow_model_init_parameters(m, seed));
    OK(dhow_model_to(m, device_of("cpu")));
    return m;
}

/* Samples `begin` to `end` of a step's batch; each fourth is a short one, with no samples for some
 * ranks. */
static int64_t rows_of(int step) { return step % 4 == 3 ? 2 : 11 + step % 3; }

static void batch_of(int step, int64_t begin, int64_t end, dhow_batch *out) {
    float x[MOST * IN];
    int64_t classes[MOST];
    for (int64_t i = 0; i < (end - begin) * IN; i++) {
        const uint64_t at = (uint64_t)(i + begin * IN + step * 1009 + 1);
        x[i] = (float)(at * UINT64_C(2654435761) >> 7 & 1023) / 512 - 1;
    }
    for (int64_t i = begin; i < end; i++) classes[i - begin] = (i * i + step) % (CLASSES + 1);
    *out = DHOW_INIT(dhow_batch, .tensor_count = 2);
    OK(dhow_tensor_from_data(device_of("cpu"), DHOW_F32, DHOW_SHAPE(end - begin, IN), x,
                             &out->tensors[0]));
    OK(dhow_tensor_from_data(device_of("cpu"), DHOW_I64, DHOW_SHAPE(end - begin), classes,
                             &out->tensors[1]));
}

/* Class 4 is ignored, so that targets of ranks count differently. */
static dhow_trainer *trainer_of(dhow_model *m, const dhow_process_group *group) {
    const int64_t ignored = CLASSES;
    dhow_device *devices[] = {device_of("cpu"), device_of("sim:0")};
    dhow_trainer *t;
    OK(dhow_trainer_create(
        m,
        &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY,
                   .optimizer = DHOW_OPTIMIZER_ADAMW, .learning_rate = 0.01, .seed = 3,
                   .clip_norm = 1, .ignore_index = &ignored, .process_group = group,
                   .devices = devices, .device_count = group != NULL && g_rank % 2 == 1 ? 2 : 1),
        &t));
    return t;
}

static dhow_status step_of(dhow_trainer *t, int step, int rank, int size, double *loss) {
    const int64_t rows = rows_of(step), begin = rows * rank / size, end = rows * (rank + 1) / size;
    dhow_batch batch = DHOW_INIT(dhow_batch, .tensor_count = 2); /* as a loader's last */
    if (begin < end || step < STEPS / 2) batch_of(step, begin, end, &batch);
    const dhow_status status = dhow_trainer_step(t, &batch, loss);
    dhow_tensor_release(batch.tensors[0]);
    dhow_tensor_release(batch.tensors[1]);
    return status;
}

/* What one process has, trained from the beginning. */
static void train_alone(double losses[STEPS]) {
    dhow_model *m = network(1);
    dhow_trainer *t = trainer_of(m, NULL);
    for (int step = 0; step < STEPS; step++) OK(step_of(t, step, 0, 1, &losses[step]));
    dhow_trainer_release(t);
    dhow_model_release(m);
}

static void check_loss(int step, double got, double wanted) {
    char text[128];
    (void)snprintf(text, sizeof text, "loss %d is %.9g, alone %.9g", step, got, wanted);
    CHECK(fabs(got - wanted) <= 5e-6 * fabs(wanted), text);
}

/* ---- together ---- */

typedef struct ranks {
    dhow_model *model;
    dhow_mpi *mpi;
    dhow_trainer *trainer;
} ranks;

/* Only rank 0's parameters count. */
static ranks begin(void) {
    ranks r = {.model = network(g_rank == 0 ? 1 : 50)};
    dhow_process_group group = DHOW_INIT(dhow_process_group);
    OK(dhow_mpi_create(MPI_COMM_WORLD, r.model,
                       &DHOW_INIT(dhow_mpi_options, .ring_bytes = g_ring_bytes), &r.mpi));
    OK(dhow_mpi_process_group(r.mpi, &group));
    CHECK(group.rank == (uint32_t)g_rank && group.size == (uint32_t)g_size, "the group");
    r.trainer = trainer_of(r.model, &group);
    return r;
}

static void end(ranks *r) {
    dhow_trainer_release(r->trainer);
    dhow_mpi_release(r->mpi);
    dhow_model_release(r->model);
}

static void learns(void) {
    double alone[STEPS], together;
    train_alone(alone);
    ranks r = begin();
    for (int step = 0; step < STEPS; step++) {
        OK(step_of(r.trainer, step, g_rank, g_size, &together));
        check_loss(step, together, alone[step]);
    }
    CHECK(dhow_trainer_step(r.trainer, &DHOW_INIT(dhow_batch, .tensor_count = 2), NULL) ==
                  DHOW_INVALID_ARGUMENT &&
              (g_size == 1 || strstr(dhow_last_error(), "no process has samples") != NULL),
          dhow_last_error());
    if (g_rank == 0) {
        dhow_tensor *none = NULL;
        CHECK(dhow_mpi_run(r.mpi, &none, 1, &none, 1) == DHOW_INVALID_ARGUMENT &&
                  strstr(dhow_last_error(), "the ranks train") != NULL,
              dhow_last_error());
    }
    end(&r);
    if (g_rank == 0) printf("learns: %d ranks as one\n", g_size);
}

/* A rank whose trainer is another one's tells all, and nobody waits. */
static void mistake(void) {
    dhow_process_group group = DHOW_INIT(dhow_process_group);
    dhow_model *m = network(1);
    dhow_mpi *mpi;
    dhow_trainer *t;
    OK(dhow_mpi_create(MPI_COMM_WORLD, m, NULL, &mpi));
    OK(dhow_mpi_process_group(mpi, &group));
    const dhow_status status = dhow_trainer_create(
        m,
        &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY, .process_group = &group,
                   .trainable = g_rank == 1 ? "third*" : NULL),
        &t);
    CHECK(status == (g_rank == 1 ? DHOW_INVALID_ARGUMENT : DHOW_UNAVAILABLE), dhow_last_error());
    CHECK(strstr(dhow_last_error(), g_rank == 1 ? "is named 'third*'" : "of the others failed") !=
              NULL,
          dhow_last_error());
    const dhow_status again = dhow_trainer_create(
        m,
        &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY, .process_group = &group,
                   .trainable = g_rank == 1 ? "second*" : NULL),
        &t);
    CHECK(again == DHOW_INVALID_ARGUMENT, dhow_last_error());
    CHECK(strstr(dhow_last_error(), "all ranks need the same model") != NULL, dhow_last_error());
    dhow_mpi_release(mpi);
    dhow_model_release(m);
    if (g_rank == 0) printf("mistake: told everywhere\n");
}

/* A rank dies in the middle of the training. */
static void killed(const char *checkpoint, int dies) {
    double alone[STEPS], loss, start = now();
    train_alone(alone);
    ranks r = begin();
    dhow_status status = DHOW_OK;
    for (int step = 0; step < STEPS && status == DHOW_OK; step++) {
        if (g_rank == 0) OK(dhow_trainer_save(r.trainer, checkpoint));
        if (step == DIES && g_rank == dies) (void)kill(getpid(), SIGKILL);
        start = now();
        status = step_of(r.trainer, step, g_rank, g_size, &loss);
        if (status == DHOW_OK) check_loss(step, loss, alone[step]);
        CHECK(status == DHOW_OK || step == DIES, dhow_last_error());
    }
    char lost[32];
    (void)snprintf(lost, sizeof lost, "rank %d (", dies);
    CHECK(status == DHOW_TIMED_OUT, dhow_last_error());
    CHECK(strstr(dhow_last_error(), lost) != NULL && strstr(dhow_last_error(), "is lost") != NULL,
          dhow_last_error());
    const double took = now() - start;
    CHECK(took < 5, "it took too long");
    CHECK(step_of(r.trainer, DIES, g_rank, g_size, &loss) == DHOW_TIMED_OUT, dhow_last_error());
    start = now();
    end(&r);
    CHECK(now() - start < 5, "releasing took too long");
    printf("killed: rank %d told after %.1f s\n", g_rank, took);
    (void)fflush(stdout);
    _exit(0);
}

/* ---- sums by themselves ---- */

enum { MANY = 6 << 20 }; /* numbers of a large sum: 24 MiB */

static void *die_later(void *argument) {
    (void)argument;
    (void)usleep(60000);
    (void)kill(getpid(), SIGKILL);
    return NULL;
}

/* All ranks get the same bits, whatever the count: also fewer numbers than there are ranks. */
static void sums(void) {
    static const int64_t counts[] = {1, 2, 3, 5, 1000, 100003};
    dhow_process_group group = DHOW_INIT(dhow_process_group);
    dhow_model *m = network(1);
    dhow_mpi *mpi;
    OK(dhow_mpi_create(MPI_COMM_WORLD, m, &DHOW_INIT(dhow_mpi_options, .ring_bytes = 1), &mpi));
    OK(dhow_mpi_process_group(mpi, &group));
    for (int k = 0; k < 6; k++) {
        const int64_t n = counts[k];
        float *x = malloc((size_t)n * sizeof *x);
        double *y = malloc((size_t)n * sizeof *y);
        uint64_t bits = 0, others = 0;
        for (int64_t i = 0; i < n; i++) {
            x[i] = (float)(i % 97) / 7 + 0.1f * (float)g_rank;
            y[i] = (double)(i % 89) - g_rank;
        }
        OK(group.all_reduce(group.user, DHOW_F32, x, n));
        OK(group.all_reduce(group.user, DHOW_F64, y, n));
        for (int64_t i = 0; i < n; i++) {
            uint32_t one;
            const double sum = g_size * (double)(i % 89) - g_size * (g_size - 1) / 2.0;
            const float about =
                (float)g_size * (float)(i % 97) / 7 + 0.1f * (float)(g_size * (g_size - 1) / 2);
            CHECK(y[i] == sum && fabsf(x[i] - about) <= 1e-5f * about + 1e-6f, "a wrong sum");
            memcpy(&one, &x[i], sizeof one);
            bits = bits * 31 + one;
        }
        (void)MPI_Allreduce(&bits, &others, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
        CHECK(bits == others, "ranks have different bits");
        free(x);
        free(y);
    }
    dhow_mpi_release(mpi);
    dhow_model_release(m);
    if (g_rank == 0) printf("sums: %d ranks agree\n", g_size);
}

/* A rank dies while pieces go round, or with few numbers on their way to rank 0 and back. */
static void dies_inside(int dies, int64_t count) {
    dhow_process_group group = DHOW_INIT(dhow_process_group);
    dhow_model *m = network(1);
    dhow_mpi *mpi;
    pthread_t thread;
    double begin = now();
    float *x = calloc(MANY, sizeof *x);
    OK(dhow_mpi_create(MPI_COMM_WORLD, m, NULL, &mpi));
    OK(dhow_mpi_process_group(mpi, &group));
    OK(group.all_reduce(group.user, DHOW_F32, x, count));
    if (g_rank == dies) CHECK(pthread_create(&thread, NULL, die_later, NULL) == 0, "no thread");
    dhow_status status = DHOW_OK;
    while (status == DHOW_OK) {
        begin = now();
        status = group.all_reduce(group.user, DHOW_F32, x, count);
    }
    const double took = now() - begin;
    char lost[32];
    (void)snprintf(lost, sizeof lost, "rank %d (", dies);
    CHECK(status == DHOW_TIMED_OUT && strstr(dhow_last_error(), lost) != NULL, dhow_last_error());
    CHECK(took < 5, "it took too long");
    CHECK(group.all_reduce(group.user, DHOW_F32, x, 2) == DHOW_TIMED_OUT, dhow_last_error());
    printf("killed: rank %d told after %.1f s\n", g_rank, took);
    (void)fflush(stdout);
    _exit(0);
}

/* How long a sum of 24 MiB takes round the ring, and by way of rank 0. */
static void speed(void) {
    static const uint64_t ways[] = {0, UINT64_MAX};
    double best[2] = {1e9, 1e9};
    dhow_model *m = network(1);
    float *x = calloc(MANY, sizeof *x);
    for (int round = 0; round < 6; round++) {
        dhow_process_group group = DHOW_INIT(dhow_process_group);
        dhow_mpi *mpi;
        OK(dhow_mpi_create(MPI_COMM_WORLD, m,
                           &DHOW_INIT(dhow_mpi_options, .ring_bytes = ways[round % 2]), &mpi));
        OK(dhow_mpi_process_group(mpi, &group));
        for (int i = 0; i < 3; i++) {
            (void)MPI_Barrier(MPI_COMM_WORLD);
            const double begin = now();
            OK(group.all_reduce(group.user, DHOW_F32, x, MANY));
            (void)MPI_Barrier(MPI_COMM_WORLD);
            best[round % 2] = fmin(best[round % 2], now() - begin);
        }
        dhow_mpi_release(mpi);
    }
    free(x);
    dhow_model_release(m);
    if (g_rank == 0)
        printf("speed: %d ranks, 24 MiB: ring %.1f ms, by rank 0 %.1f ms, ratio %.2f\n", g_size,
               best[0] * 1e3, best[1] * 1e3, best[0] / best[1]);
}

/* ---- sums while the backward runs ---- */

/* On simulated devices, kernels of 2 ms, and links that are slow enough to be told from the rest of
 * a busy machine: all gradients take 33 ms. */
enum { DEEP = 8, WIDE = 128, ROWS = 8, LINK = 16 << 20, LAST = 6, MOST_STEPS = 40 };

static dhow_process_group g_inner;
static uint32_t g_devices = 1; /* of each rank */

static dhow_status over_a_link(void *user, dhow_dtype dtype, void *data, int64_t count) {
    const dhow_status status = g_inner.all_reduce(user, dtype, data, count);
    const double seconds = (double)count * (double)dhow_dtype_bytes(dtype) / LINK;
    const struct timespec pause = {.tv_nsec = (long)(seconds * 1e9)};
    if (status == DHOW_OK && count > WIDE) (void)nanosleep(&pause, NULL);
    return status;
}

typedef struct deep {
    dhow_model *model;
    dhow_trainer *trainer;
} deep;

static deep deep_of(const dhow_process_group *group, uint64_t bucket_bytes) {
    dhow_device *devices[] = {device_of("sim:0"), device_of(g_devices > 1 ? "sim:1" : "sim:0")};
    deep d;
    dhow_model_value x;
    OK(dhow_model_create(g_context, &d.model));
    OK(dhow_model_input(d.model, "x", DHOW_F32, DHOW_SHAPE(-1, WIDE), &x));
    for (int i = 0; i < DEEP; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "layer%d", i);
        OK(dhow_model_linear(d.model, name, x, WIDE, WIDE, 1, &x));
        OK(dhow_model_tanh(d.model, x, &x));
    }
    OK(dhow_model_output(d.model, "y", x));
    OK(dhow_model_init_parameters(d.model, 1));
    OK(dhow_model_to(d.model, device_of("sim:0")));
    OK(dhow_trainer_create(
        d.model,
        &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .optimizer = DHOW_OPTIMIZER_ADAMW,
                   .devices = devices, .device_count = g_devices, .fixed_shares = 1,
                   .process_group = group, .bucket_bytes = bucket_bytes),
        &d.trainer));
    return d;
}

static dhow_status deep_step(const deep *d, int step, double *loss) {
    dhow_batch batch = DHOW_INIT(dhow_batch, .tensor_count = 2);
    float x[ROWS * WIDE];
    for (int i = 0; i < ROWS * WIDE; i++) {
        const uint64_t at = (uint64_t)(i + (g_rank + step * g_size) * 1009 + 1);
        x[i] = (float)(at * UINT64_C(2654435761) >> 7 & 1023) / 512 - 1;
    }
    for (int i = 0; i < 2; i++)
        OK(dhow_tensor_from_data(device_of("sim:0"), DHOW_F32, DHOW_SHAPE(ROWS, WIDE), x,
                                 &batch.tensors[i]));
    const dhow_status status = dhow_trainer_step(d->trainer, &batch, loss);
    for (int i = 0; i < 2; i++) dhow_tensor_release(batch.tensors[i]);
    return status;
}

static void end_deep(deep *d) {
    dhow_trainer_release(d->trainer);
    dhow_model_release(d->model);
}

static void same_parameters(const deep *a, const deep *b) {
    static float x[2][WIDE * WIDE];
    for (uint32_t i = 0; i < dhow_trainer_parameter_count(a->trainer); i++) {
        const deep *both[] = {a, b};
        size_t bytes = 0;
        for (int k = 0; k < 2; k++) {
            dhow_tensor *w;
            OK(dhow_trainer_parameter_at(both[k]->trainer, i, NULL, &w, NULL));
            bytes = (size_t)dhow_tensor_count(w) * sizeof(float);
            OK(dhow_tensor_read(w, x[k], bytes));
            dhow_tensor_release(w);
        }
        CHECK(memcmp(x[0], x[1], bytes) == 0, "early sums have other bits");
    }
}

/* Both ways in turns. Rank 0 adds in the order of ranks either way, so the bits are the same. */
static void early(void) {
    dhow_process_group group = DHOW_INIT(dhow_process_group);
    double loss[2], best[2] = {1e9, 1e9};
    dhow_model *m = network(1);
    dhow_mpi *mpi;
    OK(dhow_mpi_create(MPI_COMM_WORLD, m, &DHOW_INIT(dhow_mpi_options, .ring_bytes = UINT64_MAX),
                       &mpi));
    OK(dhow_mpi_process_group(mpi, &group));
    g_inner = group;
    group.all_reduce = over_a_link;
    deep ways[] = {deep_of(&group, UINT64_MAX), deep_of(&group, WIDE * WIDE * sizeof(float))};
    int faster = 0; /* on a machine that does other things it takes more steps to see it */
    for (int step = 0; step < LAST || (step < MOST_STEPS && !faster); step++) {
        for (int k = 0; k < 2; k++) {
            const double begin = now();
            OK(deep_step(&ways[k], step, &loss[k]));
            if (step > 1) best[k] = fmin(best[k], now() - begin);
        }
        CHECK(loss[0] == loss[1], "early sums give another loss");
        faster = best[1] < 0.95 * best[0];
        (void)MPI_Bcast(&faster, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    same_parameters(&ways[0], &ways[1]);
    for (int k = 0; k < 2; k++) end_deep(&ways[k]);
    dhow_mpi_release(mpi);
    dhow_model_release(m);
    if (g_rank > 0) return;
    CHECK(faster, "early sums take as long");
    printf("early: %d ranks of %u devices, %.1f ms a step, %.1f with early sums, ratio %.2f\n",
           g_size, g_devices, best[0] * 1e3, best[1] * 1e3, best[1] / best[0]);
}

/* A rank dies in a backward, when some buckets have been added up. */
static void dies_early(int dies) {
    dhow_process_group group = DHOW_INIT(dhow_process_group);
    dhow_model *m = network(1);
    dhow_mpi *mpi;
    pthread_t thread;
    double loss, start = now();
    OK(dhow_mpi_create(MPI_COMM_WORLD, m, NULL, &mpi));
    OK(dhow_mpi_process_group(mpi, &group));
    deep d = deep_of(&group, WIDE * WIDE * sizeof(float));
    dhow_status status = DHOW_OK;
    for (int step = 0; step < LAST && status == DHOW_OK; step++) {
        if (step == 2 && g_rank == dies)
            CHECK(pthread_create(&thread, NULL, die_later, NULL) == 0, "no thread");
        start = now();
        status = deep_step(&d, step, &loss);
    }
    char lost[32];
    (void)snprintf(lost, sizeof lost, "rank %d (", dies);
    CHECK(status == DHOW_TIMED_OUT && strstr(dhow_last_error(), lost) != NULL, dhow_last_error());
    const double took = now() - start;
    CHECK(took < 5, "it took too long");
    CHECK(deep_step(&d, 0, &loss) == DHOW_TIMED_OUT, dhow_last_error());
    printf("killed: rank %d told after %.1f s\n", g_rank, took);
    (void)fflush(stdout);
    _exit(0);
}

/* With fewer ranks from the last checkpoint: as if nothing had been. */
static void resumed(const char *checkpoint) {
    double alone[STEPS], loss;
    train_alone(alone);
    ranks r = begin();
    OK(dhow_trainer_load(r.trainer, checkpoint));
    for (int step = DIES; step < STEPS; step++) {
        OK(step_of(r.trainer, step, g_rank, g_size, &loss));
        check_loss(step, loss, alone[step]);
    }
    end(&r);
    if (g_rank == 0) printf("resumed: %d ranks go on\n", g_size);
}

/* Ranks that load different checkpoints are told. */
static void apart(const char *checkpoint) {
    double loss;
    ranks r = begin();
    OK(step_of(r.trainer, 0, g_rank, g_size, &loss));
    if (g_rank == 0) OK(dhow_trainer_load(r.trainer, checkpoint));
    CHECK(step_of(r.trainer, 1, g_rank, g_size, &loss) == DHOW_INVALID_ARGUMENT, dhow_last_error());
    CHECK(strstr(dhow_last_error(), "let all load the same checkpoint") != NULL, dhow_last_error());
    end(&r);
    if (g_rank == 0) printf("apart: told everywhere\n");
}

int main(int argc, char **argv) {
    int provided;
    (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &g_rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &g_size);
    const char *mode = argc > 1 ? argv[1] : "learns", *checkpoint = argc > 2 ? argv[2] : "";
    OK(dhow_context_create(NULL, &g_context));
    if (strncmp(mode, "ring_", 5) == 0) {
        g_ring_bytes = 128; /* what they tell each other beside gradients is smaller */
        mode += 5;
    }
    if (strncmp(mode, "two_", 4) == 0) {
        g_devices = 2;
        mode += 4;
    }
    if (strcmp(mode, "learns") == 0) learns();
    if (strcmp(mode, "mistake") == 0) mistake();
    if (strcmp(mode, "killed") == 0) killed(checkpoint, g_size - 1);
    if (strcmp(mode, "root_killed") == 0) killed(checkpoint, 0);
    if (strcmp(mode, "sums") == 0) sums();
    if (strcmp(mode, "dies_inside") == 0) dies_inside(g_size - 1, MANY);
    if (strcmp(mode, "dies_between") == 0) dies_inside(g_size - 1, 2);
    if (strcmp(mode, "root_dies_inside") == 0) dies_inside(0, MANY);
    if (strcmp(mode, "speed") == 0) speed();
    if (strcmp(mode, "early") == 0) early();
    if (strcmp(mode, "dies_early") == 0) dies_early(g_size - 1);
    if (strcmp(mode, "root_dies_early") == 0) dies_early(0);
    if (strcmp(mode, "resumed") == 0) resumed(checkpoint);
    if (strcmp(mode, "apart") == 0) apart(checkpoint);
    dhow_context_release(g_context);
    (void)MPI_Finalize();
    return 0;
}
