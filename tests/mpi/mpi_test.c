/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi_test MODE, started by mpirun on some ranks. Rank 0 checks results; a rank that meets what it
 * should not says so and aborts the job. The modes `killed` and `root_killed` end without
 * MPI_Finalize(), as a program must that has lost a rank.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ranks.h"

enum { ROWS = 301, IN = 6, HIDDEN = 5, RUNS = 8 };

/* Parameters differ from rank to rank until they are shared. */
static dhow_model *network(int64_t hidden) {
    dhow_model *m;
    dhow_model_value x;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(-1, IN), &x));
    OK(dhow_model_linear(m, "fc1", x, IN, hidden, 1, &x));
    OK(dhow_model_relu(m, x, &x));
    OK(dhow_model_linear(m, "fc2", x, hidden, 2, 1, &x));
    OK(dhow_model_output(m, "y", x));
    for (uint32_t p = 0; p < dhow_model_parameter_count(m); p++) {
        dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
        dhow_tensor_info t = DHOW_INIT(dhow_tensor_info);
        dhow_tensor *value;
        float values[64];
        OK(dhow_model_parameter_at(m, p, &info));
        OK(dhow_tensor_get_info(info.tensor, &t));
        for (int i = 0; i < 64; i++)
            values[i] = (float)((i * 7 + (int)p * 3 + g_rank) % 11) / 11 - 0.4f;
        OK(dhow_tensor_from_data(device_of("cpu"), DHOW_F32, t.rank, t.shape, values, &value));
        OK(dhow_model_set_parameter(m, info.name, value));
        dhow_tensor_release(value);
    }
    return m;
}

static dhow_tensor *batch(int64_t rows) {
    static float values[ROWS * IN];
    dhow_tensor *x;
    for (int i = 0; i < ROWS * IN; i++) values[i] = (float)((i * 13) % 29) / 29 - 0.5f;
    OK(dhow_tensor_from_data(device_of("cpu"), DHOW_F32, DHOW_SHAPE(rows, IN), values, &x));
    return x;
}

/* The largest difference to one device on this rank. */
static double difference(dhow_model *m, dhow_tensor *x, dhow_tensor *y) {
    static float got[ROWS * 2], expected[ROWS * 2];
    dhow_tensor *single = NULL;
    int64_t rows = dhow_tensor_extent(x, 0);
    uint64_t bytes = (uint64_t)rows * 2 * sizeof(float);
    double worst = 0;
    OK(dhow_model_run(m, NULL, &x, 1, &single, 1));
    OK(dhow_tensor_read(single, expected, bytes));
    OK(dhow_tensor_read(y, got, bytes));
    for (int64_t i = 0; i < rows * 2; i++)
        worst = fmax(worst, fabs((double)got[i] - (double)expected[i]));
    dhow_tensor_release(single);
    return worst;
}

static dhow_mpi *create(dhow_model *m, const dhow_mpi_options *options) {
    dhow_mpi *mpi;
    OK(dhow_mpi_create(MPI_COMM_WORLD, m, options, &mpi));
    return mpi;
}

static void results(void) {
    dhow_device *devices[] = {device_of("cpu"), device_of("sim:0")};
    const dhow_mpi_options options =
        DHOW_INIT(dhow_mpi_options, .devices = devices, .device_count = g_rank % 2 == 0 ? 2 : 1);
    dhow_model *m = network(HIDDEN);
    dhow_mpi *mpi = create(m, &options);
    if (g_rank != 0) {
        dhow_tensor *none = NULL;
        FAILS(DHOW_INVALID_ARGUMENT, "rank 0 runs, others serve",
              dhow_mpi_run(mpi, &none, 1, &none, 1));
        OK(dhow_mpi_serve(mpi));
    } else {
        static const int64_t sizes[] = {ROWS, 1, 2, 3, 100};
        FAILS(DHOW_INVALID_ARGUMENT, "others serve", dhow_mpi_serve(mpi));
        for (int run = 0; run < RUNS; run++) {
            dhow_tensor *x = batch(sizes[run % 5]), *y = NULL;
            OK(dhow_mpi_run(mpi, &x, 1, &y, 1));
            CHECK(difference(m, x, y) < 1e-4, "results differ");
            OK(dhow_mpi_run_into(mpi, &x, 1, &y, 1));
            CHECK(difference(m, x, y) < 1e-4, "results differ");
            dhow_tensor_release(x);
            dhow_tensor_release(y);
        }
        dhow_tensor *x = batch(5), *both[2] = {x, x}, *y = NULL;
        FAILS(DHOW_INVALID_ARGUMENT, "2 inputs given, the model has 1",
              dhow_mpi_run(mpi, both, 2, &y, 1));
        dhow_tensor_release(x);
        dhow_mpi_member member = DHOW_INIT(dhow_mpi_member);
        CHECK(dhow_mpi_member_count(mpi) == (uint32_t)g_size, "members");
        OK(dhow_mpi_member_at(mpi, (uint32_t)g_size - 1, &member));
        CHECK(member.status == DHOW_OK && member.rows_per_second > 0 && member.host[0] != '\0',
              "member");
        printf("results: %d ranks agree\n", g_size);
    }
    dhow_mpi_release(mpi);
    dhow_model_release(m);
}

/* A device of another rank fails: its message comes to rank 0, which goes on if it was told to. */
static void device_fails(void) {
    dhow_device *cpu = device_of("cpu");
    for (int keep = 0; keep < 2; keep++) {
        dhow_device *sim = device_of(keep ? "sim:1" : "sim:0"); /* each is lost once */
        const dhow_mpi_options options =
            DHOW_INIT(dhow_mpi_options, .devices = g_rank == 1 ? &sim : &cpu, .device_count = 1,
                      .skip_failed_devices = g_rank == 0 ? keep : 0);
        dhow_model *m = network(HIDDEN);
        dhow_mpi *mpi = create(m, &options);
        if (g_rank != 0) {
            OK(dhow_mpi_serve(mpi));
        } else {
            dhow_tensor *x = batch(ROWS), *y = NULL;
            dhow_status status = dhow_mpi_run(mpi, &x, 1, &y, 1);
            if (keep) {
                dhow_mpi_member member = DHOW_INIT(dhow_mpi_member);
                CHECK(status == DHOW_OK, dhow_last_error());
                CHECK(difference(m, x, y) < 1e-4, "results differ");
                OK(dhow_mpi_member_at(mpi, 1, &member));
                CHECK(member.status == DHOW_DEVICE_LOST && member.share == 0, member.reason);
            } else {
                CHECK(status == DHOW_DEVICE_LOST && y == NULL, dhow_last_error());
                CHECK(strstr(dhow_last_error(), "dhow_mpi_run: rank 1 (") != NULL,
                      dhow_last_error());
                CHECK(strstr(dhow_last_error(), "scripted fault") != NULL, dhow_last_error());
            }
            dhow_tensor_release(x);
            dhow_tensor_release(y);
        }
        dhow_mpi_release(mpi);
        dhow_model_release(m);
    }
    if (g_rank == 0) printf("device_fails: told and survived\n");
}

static void mismatch(void) {
    dhow_model *m = network(g_rank == g_size - 1 ? HIDDEN + 1 : HIDDEN);
    dhow_mpi *mpi;
    FAILS(DHOW_INVALID_ARGUMENT, "all ranks need the same model",
          dhow_mpi_create(MPI_COMM_WORLD, m, NULL, &mpi));
    CHECK(mpi == NULL, "a handle");
    if (g_rank == 0) printf("mismatch: told everywhere\n");
    dhow_model_release(m);
}

/* One rank's mistake comes out of all calls; nobody waits for it. */
static void one_mistake(void) {
    const dhow_mpi_options strange = DHOW_INIT(dhow_mpi_options, .timeout_s = 1e9), *none = NULL;
    dhow_model *m = network(HIDDEN);
    dhow_mpi *mpi;
    FAILS(DHOW_INVALID_ARGUMENT, "rank 1 (",
          dhow_mpi_create(MPI_COMM_WORLD, g_rank == 1 ? NULL : m, NULL, &mpi));
    FAILS(DHOW_INVALID_ARGUMENT, "timeout_s is 1e+09",
          dhow_mpi_create(MPI_COMM_WORLD, m, g_rank == 1 ? &strange : none, &mpi));
    CHECK(mpi == NULL, "a handle");
    if (g_rank == 0) printf("one_mistake: told everywhere\n");
    dhow_model_release(m);
}

/* The last rank dies in the middle of a run: nobody waits longer than five seconds. */
static void killed(int skip_failed_devices) {
    dhow_model *m = network(HIDDEN);
    const dhow_mpi_options options =
        DHOW_INIT(dhow_mpi_options, .skip_failed_devices = skip_failed_devices);
    dhow_mpi *mpi = create(m, &options);
    if (g_rank == g_size - 1) {
        (void)signal(SIGALRM, SIG_DFL);
        (void)usleep(200000);
        (void)kill(getpid(), SIGKILL);
    }
    if (g_rank != 0) {
        dhow_status status = dhow_mpi_serve(mpi); /* rank 0 goes on, and ends it */
        CHECK(status == DHOW_OK, dhow_last_error());
        _exit(0);
    }
    (void)usleep(400000);
    dhow_tensor *x = batch(ROWS), *y = NULL;
    double start = now();
    dhow_status status = dhow_mpi_run(mpi, &x, 1, &y, 1);
    double took = now() - start;
    CHECK(took < 5, "it took too long");
    if (skip_failed_devices) {
        CHECK(status == DHOW_OK, dhow_last_error());
        CHECK(difference(m, x, y) < 1e-4, "results differ");
    } else {
        CHECK(status == DHOW_TIMED_OUT, dhow_last_error());
        CHECK(strstr(dhow_last_error(), "is lost") != NULL, dhow_last_error());
    }
    start = now();
    dhow_mpi_release(mpi);
    CHECK(now() - start < 5, "releasing took too long");
    printf("killed: noticed after %.1f s\n", took);
    (void)fflush(stdout);
    _exit(0);
}

static void root_killed(void) {
    dhow_model *m = network(HIDDEN);
    dhow_mpi *mpi = create(m, NULL);
    if (g_rank == 0) {
        (void)usleep(300000);
        (void)kill(getpid(), SIGKILL);
    }
    double start = now();
    FAILS(DHOW_TIMED_OUT, "rank 0 (", dhow_mpi_serve(mpi));
    double took = now() - start;
    CHECK(took < 5.5, "it took too long"); /* 0.3 s before, then the timeout of 4 s */
    printf("root_killed: rank %d noticed after %.1f s\n", g_rank, took);
    (void)fflush(stdout);
    _exit(0);
}

static void threads(void) {
    dhow_model *m = network(HIDDEN);
    dhow_mpi *mpi;
    FAILS(DHOW_UNAVAILABLE, "MPI_THREAD_SERIALIZED",
          dhow_mpi_create(MPI_COMM_WORLD, m, NULL, &mpi));
    if (g_rank == 0) printf("threads: told\n");
    dhow_model_release(m);
}

/* MPI ended the program. */
static void communicators(void) {
    dhow_model *m = network(HIDDEN);
    dhow_mpi *mpi;
    MPI_Comm half, between;
    FAILS(DHOW_INVALID_ARGUMENT, "MPI_COMM_NULL", dhow_mpi_create(MPI_COMM_NULL, m, NULL, &mpi));
    CHECK(mpi == NULL, "a handle");
    (void)MPI_Comm_split(MPI_COMM_WORLD, g_rank % 2, g_rank, &half);
    (void)MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - g_rank % 2, 1, &between);
    FAILS(DHOW_INVALID_ARGUMENT, "between two groups", dhow_mpi_create(between, m, NULL, &mpi));
    (void)MPI_Comm_free(&between);
    OK(dhow_mpi_create(half, m, NULL, &mpi));
    dhow_mpi_release(mpi);
    (void)MPI_Comm_free(&half);
    if (g_rank == 0) printf("communicators: told\n");
    dhow_model_release(m);
}

/* Two handles have two threads, whose calls of MPI nobody kept apart. */
static void second(int provided) {
    dhow_model *m = network(HIDDEN);
    dhow_mpi *mpi, *other;
    OK(dhow_mpi_create(MPI_COMM_WORLD, m, NULL, &mpi));
    if (provided < MPI_THREAD_MULTIPLE) {
        FAILS(DHOW_UNAVAILABLE, "MPI_THREAD_MULTIPLE",
              dhow_mpi_create(MPI_COMM_WORLD, m, NULL, &other));
    } else {
        OK(dhow_mpi_create(MPI_COMM_WORLD, m, NULL, &other));
        dhow_mpi_release(other);
    }
    dhow_mpi_release(mpi);
    OK(dhow_mpi_create(MPI_COMM_WORLD, m, NULL, &mpi));
    dhow_mpi_release(mpi);
    if (g_rank == 0) printf("second: told\n");
    dhow_model_release(m);
}

static int finalized(void) {
    dhow_model *m = network(HIDDEN);
    dhow_mpi *mpi;
    (void)MPI_Finalize();
    if (dhow_mpi_create(MPI_COMM_WORLD, m, NULL, &mpi) == DHOW_UNAVAILABLE &&
        strstr(dhow_last_error(), "ended by MPI_Finalize()") != NULL && g_rank == 0)
        printf("finalized: told\n");
    dhow_model_release(m);
    dhow_context_release(g_context);
    return 0;
}

int main(int argc, char **argv) {
    int provided;
    const char *mode = argc > 1 ? argv[1] : "results";
    int wanted = strcmp(mode, "threads") == 0 ? MPI_THREAD_SINGLE : MPI_THREAD_SERIALIZED;
    (void)MPI_Init_thread(&argc, &argv, wanted, &provided);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &g_rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &g_size);
    OK(dhow_context_create(NULL, &g_context));
    if (strcmp(mode, "finalized") == 0) return finalized();
    if (strcmp(mode, "results") == 0) results();
    if (strcmp(mode, "device_fails") == 0) device_fails();
    if (strcmp(mode, "mismatch") == 0) mismatch();
    if (strcmp(mode, "one_mistake") == 0) one_mistake();
    if (strcmp(mode, "threads") == 0) threads();
    if (strcmp(mode, "communicators") == 0) communicators();
    if (strcmp(mode, "second") == 0) second(provided);
    if (strcmp(mode, "killed") == 0) killed(0);
    if (strcmp(mode, "killed_going_on") == 0) killed(1);
    if (strcmp(mode, "root_killed") == 0) root_killed();
    dhow_context_release(g_context);
    (void)MPI_Finalize();
    return 0;
}
