/* SPDX-License-Identifier: Apache-2.0
 *
 * Training by several processes, with threads in their place.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "division.h"

TestSuite(division_processes, .init = set_up, .fini = tear_down, .timeout = 300);

enum { PROCESSES = 3 };

/* Of all processes: their sums may begin early, in buckets of so many bytes. */
static struct {
    bool any_thread, lost;  /* lost: reading parameters may fail as well */
    bool all_devices, skip; /* each process has all devices, its own first; and does without */
    uint64_t bucket_bytes;
} g_sums;

typedef struct meeting {
    pthread_barrier_t barrier;
    double sums[4096];
} meeting;

/* What rank 1 does wrong: in its third step, or when it makes its trainer. */
typedef enum mistake {
    NO_MISTAKE,
    SHORT_TARGET,
    NO_TARGET,
    NO_BATCH,
    NO_MODEL,
    BAD_RATE,
    BAD_LOSS,
    NO_NUMBER /* in its fourth, where rank 0 has no samples */
} mistake;

typedef struct process {
    meeting *all;
    uint32_t rank;
    mistake makes;
    dhow_device *device; /* of its own; NULL: the first, and rank 1 has two */
    pthread_t thread;
    int elsewhere; /* sums on other threads */
    bool without;  /* it has lost its second device */
    curve out;
    dhow_status status;
    char says[512];
} process;

static dhow_status sum_over_threads(void *user, dhow_dtype dtype, void *data, int64_t count) {
    process *p = user;
    meeting *m = p->all;
    cr_assert_leq(count, 4096);
    if (!pthread_equal(pthread_self(), p->thread)) p->elsewhere++;
    for (uint32_t rank = 0; rank < PROCESSES; rank++) {
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

/* Its own comes first, of several rank 1 has two, or all have all. */
static uint32_t devices_of(const process *p, dhow_device **out) {
    const uint32_t first = p->device == NULL ? 0 : p->rank;
    for (uint32_t i = 0; i < g_count; i++) out[i] = g_devices[(first + i) % g_count];
    return g_sums.all_devices ? g_count : p->device == NULL && p->rank == 1 ? 2 : 1;
}

static dhow_status train_a_part(process *p) {
    dhow_device *devices[MOST];
    const uint32_t device_count = devices_of(p, devices);
    const dhow_process_group group =
        DHOW_INIT(dhow_process_group, .rank = p->rank, .size = PROCESSES,
                  .all_reduce = sum_over_threads, .user = p, .any_thread = g_sums.any_thread);
    const mistake makes = p->rank == 1 ? p->makes : NO_MISTAKE;
    const dhow_trainer_options options = DHOW_INIT(
        dhow_trainer_options, .loss = makes == BAD_LOSS ? (dhow_loss)99 : DHOW_LOSS_CROSS_ENTROPY,
        .learning_rate = makes == BAD_RATE ? -1 : 0.1, .seed = 5, .devices = devices,
        .device_count = device_count, .fixed_shares = 1, .skip_failed_devices = g_sums.skip,
        .process_group = &group, .detect_anomaly = p->makes == NO_NUMBER,
        .bucket_bytes = p->rank == 0 ? g_sums.bucket_bytes : 77);
    dhow_model *m = model_of(net_dropout, -1);
    dhow_trainer *t;
    if (p->rank > 0) OK(dhow_model_init_parameters(m, 99)); /* they begin as rank 0's */
    if (p->device != NULL) OK(dhow_model_to(m, p->device));
    dhow_status status = dhow_trainer_create(makes == NO_MODEL ? NULL : m, &options, &t);
    if (status != DHOW_OK) {
        (void)snprintf(p->says, sizeof p->says, "%s", dhow_last_error());
        dhow_model_release(m);
        return status;
    }
    for (int step = 0; step < STEPS && status == DHOW_OK; step++) {
        const int64_t rows = rows_of(step), begin = rows * p->rank / PROCESSES,
                      end = rows * (p->rank + 1) / PROCESSES; /* of 2 samples the first has none */
        const mistake now = step == 2 ? makes : NO_MISTAKE;
        const int64_t cut = now == SHORT_TARGET ? end - 1 : end;
        dhow_batch batch, part = DHOW_INIT(dhow_batch, .tensor_count = 2);
        batch_of(step, true, g_devices[0], &batch);
        OK(dhow_tensor_slice(batch.tensors[0], 0, begin, end, 1, &part.tensors[0]));
        OK(dhow_tensor_slice(batch.tensors[1], 0, begin, cut, 1, &part.tensors[1]));
        if (now == NO_TARGET) part.tensor_count = 1;
        if (makes == NO_NUMBER && step == 3) OK(dhow_fill(NULL, batch.tensors[0], NAN));
        /* Only some ask for the loss. */
        double *loss = p->rank < 2 ? &p->out.losses[step] : NULL;
        status = dhow_trainer_step(t, now == NO_BATCH ? NULL : &part, loss);
        release(&batch);
        release(&part);
    }
    (void)snprintf(p->says, sizeof p->says, "%s", status != DHOW_OK ? dhow_last_error() : "");
    if (status == DHOW_OK && !g_sums.lost) read_parameters(t, &p->out);
    if (device_count > 1) {
        dhow_parallel_member second = DHOW_INIT(dhow_parallel_member);
        OK(dhow_trainer_member_at(t, 1, &second));
        p->without = second.status != DHOW_OK;
    }
    dhow_trainer_release(t);
    dhow_model_release(m);
    return status;
}

static void *be_a_process(void *argument) {
    process *p = argument;
    p->thread = pthread_self();
    p->status = train_a_part(p);
    return NULL;
}

static void run_processes(mistake makes, bool apart, process *all) {
    pthread_t threads[PROCESSES];
    static meeting m;
    cr_assert_eq(pthread_barrier_init(&m.barrier, NULL, PROCESSES), 0);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        all[i] = (process){.all = &m, .rank = i, .makes = makes};
        if (apart) all[i].device = g_devices[i];
        cr_assert_eq(pthread_create(&threads[i], NULL, be_a_process, &all[i]), 0);
    }
    for (int i = 0; i < PROCESSES; i++) cr_assert_eq(pthread_join(threads[i], NULL), 0);
    (void)pthread_barrier_destroy(&m.barrier);
}

Test(division_processes, processes_learn_as_one) {
    static process all[PROCESSES];
    static curve one;
    const dhow_trainer_options options = DHOW_INIT(
        dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY, .learning_rate = 0.1, .seed = 5);
    train(net_dropout, &options, 1, g_devices[0], &one);
    run_processes(NO_MISTAKE, false, all);
    for (int i = 0; i < PROCESSES; i++) {
        OK(all[i].status);
        if (i == 2) memcpy(all[i].out.losses, one.losses, sizeof one.losses);
        check_alike("process", &one, &all[i].out);
        cr_assert_arr_eq(all[i].out.parameters, all[0].out.parameters,
                         one.count * sizeof(float)); /* the same bits */
    }
}

static void same_bits(const process *whole, const process *parts) {
    for (int i = 0; i < PROCESSES; i++) {
        OK(whole[i].status);
        OK(parts[i].status);
        cr_assert_eq(whole[i].elsewhere, 0);
        cr_assert_geq(parts[i].elsewhere, 2 * STEPS, "only %d sums", parts[i].elsewhere);
        cr_assert_gt(parts[i].out.count, 0);
        cr_assert_arr_eq(parts[i].out.parameters, whole[i].out.parameters,
                         whole[i].out.count * sizeof(float));
        if (i < 2)
            cr_assert_arr_eq(parts[i].out.losses, whole[i].out.losses, sizeof whole[i].out.losses);
    }
}

/* A third of the samples is too few for some, whose gradients are 0 then. With one device each, two
 * of rank 1, and all of each in another order. */
Test(division_processes, processes_that_sum_early_have_the_same_bits) {
    static process whole[PROCESSES], parts[PROCESSES];
    tear_down();
    cr_assert_eq(setenv("DHOW_COLLECTIVES", "off", 1), 0); /* NCCL adds in another order */
    set_up();
    g_sums.any_thread = true;
    for (int k = 0; k < 3; k++) {
        g_sums.all_devices = k == 2;
        g_sums.bucket_bytes = UINT64_MAX;
        run_processes(NO_MISTAKE, k != 1, whole);
        g_sums.bucket_bytes = 256;
        run_processes(NO_MISTAKE, k != 1, parts);
        same_bits(whole, parts);
    }
    g_sums.any_thread = false;
    run_processes(NO_MISTAKE, true, parts);
    for (int i = 0; i < PROCESSES; i++) cr_assert_eq(parts[i].elsewhere, 0);
}

/* A rank that failed before it looked at the group left the others waiting for it. */
Test(division_processes, a_process_that_fails_tells_the_others) {
    static const struct {
        mistake makes;
        const char *says;
    } all_mistakes[] = {{SHORT_TARGET, "dhow_trainer_step: target 0 is i64[3]"},
                        {NO_TARGET, "dhow_trainer_step: the batch has 1 columns"},
                        {NO_BATCH, "dhow_trainer_step: batch is NULL"},
                        {NO_MODEL, "dhow_trainer_create: model is NULL"},
                        {BAD_RATE, "dhow_trainer_create: learning_rate is -1"},
                        {BAD_LOSS, "dhow_trainer_create: 99 is no loss"}};
    static process all[PROCESSES];
    for (size_t k = 0; k < sizeof all_mistakes / sizeof *all_mistakes; k++) {
        run_processes(all_mistakes[k].makes, false, all);
        cr_assert_eq(all[1].status, DHOW_INVALID_ARGUMENT, "%s", all[1].says);
        cr_assert_eq(strncmp(all[1].says, all_mistakes[k].says, strlen(all_mistakes[k].says)), 0,
                     "'%s' is not '%s'", all[1].says, all_mistakes[k].says);
        for (int i = 0; i < PROCESSES; i += 2) {
            cr_assert_eq(all[i].status, DHOW_UNAVAILABLE, "%s", all[i].says);
            cr_assert_not_null(strstr(all[i].says, "1 of the others failed"), "%s", all[i].says);
        }
    }
}

/* The others searched values that they had not computed. */
Test(division_processes, a_loss_that_is_no_number_is_told_by_the_process_that_made_it) {
    static process all[PROCESSES];
    run_processes(NO_NUMBER, false, all);
    for (int i = 0; i < PROCESSES; i++) {
        const char *says = i == 1 ? "input 'x' of the batch: its element 0 is nan"
                                  : "all values before it are finite in this process";
        cr_assert_eq(all[i].status, DHOW_INVALID_ARGUMENT, "%s", all[i].says);
        cr_assert_not_null(strstr(all[i].says, "step 4: the loss is nan"), "%s", all[i].says);
        cr_assert_not_null(strstr(all[i].says, says), "process %d: %s", i, all[i].says);
    }
}

/* In each of its copies, those of gradients that are added up included: all that others wait for.
 */
static void lose_in_each_copy(void) {
    static process all[PROCESSES];
    bool lost = true;
    g_sums.lost = true;
    for (int at = 5; lost; at++) { /* behind those of the four parameters to the device */
        char faults[64];
        (void)snprintf(faults, sizeof faults, "copy#1@%d=DEVICE_LOST!", at);
        open_devices("", faults);
        run_processes(NO_MISTAKE, true, all);
        lost = all[2].status != DHOW_OK;
        for (int i = 0; i < PROCESSES && lost; i++)
            cr_assert_eq(all[i].status, i == 2 ? DHOW_DEVICE_LOST : DHOW_UNAVAILABLE,
                         "copy %d, process %d: %s", at, i, all[i].says);
        tear_down();
        cr_assert_lt(at, 1000);
    }
}

Test(division_lost_processes, a_process_whose_device_is_lost_tells_the_others, .timeout = 240) {
    if (getenv("DHOW_TEST_DEVICES") != NULL) cr_skip_test("simulated devices fail by a script");
    lose_in_each_copy();
}

Test(division_lost_processes, a_process_whose_device_is_lost_while_sums_go_on_tells_too,
     .timeout = 240) {
    if (getenv("DHOW_TEST_DEVICES") != NULL) cr_skip_test("simulated devices fail by a script");
    g_sums.any_thread = true;
    g_sums.bucket_bytes = 256;
    lose_in_each_copy();
}

/* Rank 1 loses its second device wherever that is, also when buckets have been summed with the
 * others: all begin the step again, and none fails. */
static void go_on_without(const char *slot, const char *kind) {
    static process all[PROCESSES];
    static curve one;
    const dhow_trainer_options options = DHOW_INIT(
        dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY, .learning_rate = 0.1, .seed = 5);
    bool lost = true;
    int at = 9; /* behind what makes the trainer */
    g_sums.skip = true;
    open_devices("", "");
    train(net_dropout, &options, 1, g_devices[0], &one);
    tear_down();
    for (; lost; at += at < 20 ? 3 : 17) {
        char faults[64];
        (void)snprintf(faults, sizeof faults, "%s#0@%d=%sDEVICE_LOST!", slot, at, kind);
        open_devices("", faults);
        run_processes(NO_MISTAKE, false, all);
        for (int i = 0; i < PROCESSES; i++) {
            cr_assert_eq(all[i].status, DHOW_OK, "%s: %s", faults, all[i].says);
            if (i == 2) memcpy(all[i].out.losses, one.losses, sizeof one.losses);
            check_alike("process", &one, &all[i].out);
        }
        lost = all[1].without;
        tear_down();
        cr_assert_lt(at, 2000);
    }
    cr_assert_gt(at, 20);
}

Test(division_lost_processes, processes_go_on_without_a_device_that_is_lost, .timeout = 240) {
    if (getenv("DHOW_TEST_DEVICES") != NULL) cr_skip_test("simulated devices fail by a script");
    g_sums.any_thread = true;
    g_sums.bucket_bytes = 256;
    go_on_without("launch", "");
    go_on_without("launch", "async:");
    go_on_without("copy", "");
    go_on_without("copy", "async:");
}

static dhow_status fail_to_sum(void *user, dhow_dtype dtype, void *data, int64_t count) {
    (void)dtype, (void)data, (void)count;
    return user != NULL ? dhow_set_error(DHOW_UNAVAILABLE, "%s", (const char *)user)
                        : DHOW_UNAVAILABLE;
}

/* The message ended behind its colon. */
Test(division_processes, a_group_that_fails_is_named_whether_it_says_why_or_not) {
    char why[] = "the wire is cut";
    dhow_model *m = model_of(net_mlp, -1);
    dhow_trainer *t;
    for (int k = 0; k < 2; k++) {
        const dhow_process_group group = DHOW_INIT(
            dhow_process_group, .size = 2, .all_reduce = fail_to_sum, .user = k == 0 ? NULL : why);
        cr_assert_eq(
            dhow_trainer_create(
                m, &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .process_group = &group),
                &t),
            DHOW_UNAVAILABLE);
        SAYS(k == 0 ? "process 0 of 2: the group's all_reduce failed with UNAVAILABLE"
                    : "process 0 of 2: the wire is cut");
    }
    dhow_model_release(m);
}

Test(division_processes, groups_that_are_none_are_refused) {
    dhow_process_group group = DHOW_INIT(dhow_process_group, .rank = 2, .size = 2);
    dhow_trainer_options o =
        DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .process_group = &group);
    dhow_model *m = model_of(net_mlp, -1);
    refused(m, &o, "process_group has no all_reduce");
    group.all_reduce = sum_over_threads;
    refused(m, &o, "rank 2 of 2 processes");
    dhow_model_release(m);
}
