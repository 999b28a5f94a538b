/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow.coll/1 of the CUDA plugin: sums between devices by NCCL, found, started, refused, missing,
 * and ended when a rank fails.
 */
#include <pthread.h>
#include <unistd.h>

#include "plugin_fixture.h"
#include "tests/float_bits.h"

enum { RANKS = 2, COUNT = 10 };

static const dhow_coll *coll;
static void *comms[RANKS], *streams[RANKS];
static uint64_t memory[RANKS];
static uint32_t g_at, g_timeout_ms = 5000;

static void open_devices(const char *settings, const char *faults) {
    begin(settings, faults);
    coll = cuda->get_extension(device[0], "dhow.coll/1");
    cr_assert_not_null(coll);
    for (int i = 0; i < RANKS; i++) {
        OK(cuda->stream_create(device[i], 0, &streams[i], &err));
        OK(cuda->mem_alloc(device[i], 2 * RANKS * COUNT * 8, &memory[i], &err));
    }
}

static void close_devices(void) {
    for (int i = 0; i < RANKS; i++) {
        (void)cuda->stream_sync(streams[i], &err);
        if (comms[i] != NULL) coll->destroy(comms[i]);
        comms[i] = NULL;
        cuda->mem_free(device[i], memory[i]);
        cuda->stream_destroy(streams[i]);
    }
    end();
}

static void begin_all(const char *settings, const char *faults) {
    open_devices(settings, faults);
    OK(coll->create_all(device, RANKS, comms, &err));
}

static void copy(int rank, void *host, uint64_t bytes, bool to_host) {
    dhow_copy_rect rect = {.extent = {bytes, 1, 1}};
    dhow_copy_end *own = to_host ? &rect.src : &rect.dst, *other = to_host ? &rect.dst : &rect.src;
    own->handle = memory[rank];
    other->space = DHOW_SPACE_HOST;
    other->handle = (uint64_t)(uintptr_t)host;
    OK(cuda->copy(streams[rank], &rect, &err));
    OK(cuda->stream_sync(streams[rank], &err));
}

static dhow_coll_call call_of(int rank, uint32_t op, dhow_dtype dtype, uint64_t count) {
    return (dhow_coll_call){.struct_size = sizeof(dhow_coll_call),
                            .op = op,
                            .dtype = (int32_t)dtype,
                            .count = count,
                            .comm = comms[rank],
                            .stream = streams[rank],
                            .in = {memory[rank], 0},
                            .out = {memory[rank], 0}};
}

/* The same of all ranks, in place. */
static int32_t together(uint32_t op, dhow_dtype dtype, uint64_t count, uint32_t root) {
    dhow_coll_call calls[RANKS];
    const dhow_coll_call *list[RANKS];
    for (int i = 0; i < RANKS; i++) {
        calls[i] = call_of(i, op, dtype, count);
        calls[i].root = root;
        list[i] = &calls[i];
    }
    return coll->run(list, RANKS, &g_at, &err);
}

static double number(int rank, int i) { return (rank + 1) * 8 + i; }

/* Small whole numbers are exact in every type. */
static void write_numbers(dhow_dtype dtype, int rank, int count) {
    unsigned char bytes[2 * RANKS * COUNT * 8];
    for (int i = 0; i < count; i++) {
        const double x = number(rank, i);
        const float narrow = (float)x;
        const uint16_t half = half_of_double(x), brain = (uint16_t)(bits_of_f32(narrow) >> 16);
        const int32_t whole = (int32_t)x;
        const int64_t wide = (int64_t)x;
        const void *from = dtype == DHOW_F32    ? (const void *)&narrow
                           : dtype == DHOW_F64  ? (const void *)&x
                           : dtype == DHOW_F16  ? (const void *)&half
                           : dtype == DHOW_BF16 ? (const void *)&brain
                           : dtype == DHOW_I32  ? (const void *)&whole
                                                : (const void *)&wide;
        const size_t each = dtype == DHOW_F16 || dtype == DHOW_BF16  ? 2
                            : dtype == DHOW_F32 || dtype == DHOW_I32 ? 4
                                                                     : 8;
        memcpy(bytes + (size_t)i * each, from, each);
    }
    copy(rank, bytes, sizeof bytes, false);
}

static void expect_numbers(dhow_dtype dtype, int rank, int count, const double *wanted) {
    unsigned char bytes[2 * RANKS * COUNT * 8];
    copy(rank, bytes, sizeof bytes, true);
    for (int i = 0; i < count; i++) {
        float narrow;
        double x = 0;
        uint16_t half;
        int32_t whole;
        int64_t wide;
        memcpy(&half, bytes + 2 * i, 2);
        memcpy(&narrow, bytes + 4 * i, 4);
        memcpy(&whole, bytes + 4 * i, 4);
        memcpy(&wide, bytes + 8 * i, 8);
        memcpy(&x, bytes + 8 * i, 8);
        const double got = dtype == DHOW_F32    ? (double)narrow
                           : dtype == DHOW_F64  ? x
                           : dtype == DHOW_F16  ? double_of_half(half)
                           : dtype == DHOW_BF16 ? (double)f32_of_bits((uint32_t)half << 16)
                           : dtype == DHOW_I32  ? (double)whole
                                                : (double)wide;
        cr_assert_eq(got, wanted[i], "dtype %d, rank %d: [%d] is %g, not %g", (int)dtype, rank, i,
                     got, wanted[i]);
    }
}

Test(cuda_coll, all_types_are_summed) {
    const dhow_dtype dtypes[] = {DHOW_F32, DHOW_F64, DHOW_F16, DHOW_BF16, DHOW_I32, DHOW_I64};
    double wanted[COUNT];
    begin_all("strict=1", NULL);
    for (int i = 0; i < COUNT; i++) wanted[i] = number(0, i) + number(1, i);
    for (size_t k = 0; k < 6; k++) {
        for (int rank = 0; rank < RANKS; rank++) write_numbers(dtypes[k], rank, COUNT);
        OK(together(DHOW_COLL_ALL_REDUCE, dtypes[k], COUNT, 0));
        for (int rank = 0; rank < RANKS; rank++) expect_numbers(dtypes[k], rank, COUNT, wanted);
    }
    FAILS(DHOW_UNSUPPORTED, together(DHOW_COLL_ALL_REDUCE, DHOW_U16, COUNT, 0));
    SAYS("dtype");
    FAILS(DHOW_UNSUPPORTED, together(77, DHOW_F32, COUNT, 0));
    SAYS("unknown operation 77");
    close_devices();
}

Test(cuda_coll, each_operation_does_what_its_name_says) {
    double first[RANKS * COUNT], second[RANKS * COUNT];
    begin_all("strict=1", NULL);
    for (int rank = 0; rank < RANKS; rank++) write_numbers(DHOW_F32, rank, RANKS * COUNT);
    OK(together(DHOW_COLL_REDUCE, DHOW_F32, COUNT, 1));
    for (int i = 0; i < COUNT; i++) {
        first[i] = number(0, i);
        second[i] = number(0, i) + number(1, i);
    }
    expect_numbers(DHOW_F32, 0, COUNT, first);
    expect_numbers(DHOW_F32, 1, COUNT, second);

    for (int rank = 0; rank < RANKS; rank++) write_numbers(DHOW_F32, rank, RANKS * COUNT);
    OK(together(DHOW_COLL_BROADCAST, DHOW_F32, COUNT, 1));
    for (int i = 0; i < COUNT; i++) first[i] = number(1, i);
    for (int rank = 0; rank < RANKS; rank++) expect_numbers(DHOW_F32, rank, COUNT, first);

    for (int rank = 0; rank < RANKS; rank++) write_numbers(DHOW_F32, rank, RANKS * COUNT);
    dhow_coll_call calls[RANKS];
    const dhow_coll_call *list[] = {&calls[0], &calls[1]};
    for (int rank = 0; rank < RANKS; rank++) {
        calls[rank] = call_of(rank, DHOW_COLL_REDUCE_SCATTER, DHOW_F32, COUNT);
        calls[rank].out.offset = (uint64_t)rank * COUNT * sizeof(float); /* its own part */
    }
    OK(coll->run(list, RANKS, &g_at, &err));
    for (int i = 0; i < RANKS * COUNT; i++) {
        const double sum = number(0, i) + number(1, i);
        first[i] = i < COUNT ? sum : number(0, i);
        second[i] = i >= COUNT ? sum : number(1, i);
    }
    expect_numbers(DHOW_F32, 0, RANKS * COUNT, first);
    expect_numbers(DHOW_F32, 1, RANKS * COUNT, second);
    for (int rank = 0; rank < RANKS; rank++) {
        calls[rank].op = DHOW_COLL_ALL_GATHER;
        calls[rank].in.offset = calls[rank].out.offset;
        calls[rank].out.offset = 0;
    }
    OK(coll->run(list, RANKS, &g_at, &err));
    for (int i = 0; i < RANKS * COUNT; i++) first[i] = number(0, i) + number(1, i);
    for (int rank = 0; rank < RANKS; rank++) expect_numbers(DHOW_F32, rank, RANKS * COUNT, first);
    close_devices();
}

Test(cuda_coll, work_of_a_rank_waits_for_the_stream_and_the_others) {
    double wanted[COUNT];
    begin_all("strict=1,delay_us=2000,jitter_us=2000", NULL);
    for (int rank = 0; rank < RANKS; rank++) write_numbers(DHOW_F32, rank, COUNT);
    for (int k = 0; k < 3; k++) OK(together(DHOW_COLL_ALL_REDUCE, DHOW_F32, COUNT, 0));
    for (int i = 0; i < COUNT; i++) wanted[i] = 4 * (number(0, i) + number(1, i));
    for (int rank = 0; rank < RANKS; rank++) {
        OK(coll->query(comms[rank], &err));
        expect_numbers(DHOW_F32, rank, COUNT, wanted);
    }
    cr_assert_eq(fakecuda_call_count("ncclGroupStart"), 3);
    cr_assert_eq(fakecuda_call_count("ncclGroupEnd"), 3);
    close_devices();
}

/* ---- what is missing ---- */

static void expect_no_comms(int32_t status, const char *settings, const char *faults,
                            const char *text) {
    open_devices(settings, faults);
    FAILS(status, coll->create_all(device, RANKS, comms, &err));
    SAYS(text);
    SAYS("cuda:0");
    for (int i = 0; i < RANKS; i++) cr_assert_null(comms[i]);
    close_devices();
}

Test(cuda_coll, what_does_not_start_says_why) {
    expect_no_comms(DHOW_INTERNAL, "nonccl=1", NULL, "has to be for the CUDA version");
    expect_no_comms(DHOW_UNSUPPORTED, "oldnccl=1", NULL, "install NCCL 2.14 or later");
    expect_no_comms(DHOW_UNAVAILABLE, NULL, "ncclCommInitAll@1=2", "unhandled system error");
    expect_no_comms(DHOW_INTERNAL, NULL, "ncclGetUniqueId@1=3", "internal error (3)");
}

Test(cuda_coll, one_device_cannot_be_two_ranks) {
    open_devices("strict=1", NULL);
    void *twice[] = {device[1], device[1]};
    FAILS(DHOW_INVALID_ARGUMENT, coll->create_all(twice, RANKS, comms, &err));
    SAYS("invalid usage");
    close_devices();
}

/* ---- what fails ---- */

Test(cuda_coll, a_call_that_fails_leaves_its_group) {
    begin_all("strict=1", "ncclAllReduce@2=4");
    FAILS(DHOW_INVALID_ARGUMENT, together(DHOW_COLL_ALL_REDUCE, DHOW_F32, COUNT, 0));
    SAYS("invalid argument (4)");
    cr_assert_eq(fakecuda_call_count("ncclGroupEnd"), 1);
    for (int i = 0; i < RANKS; i++) coll->abort(comms[i]);
    for (int i = 0; i < RANKS; i++) OK(cuda->stream_sync(streams[i], &err));
    close_devices();
}

Test(cuda_coll, a_rank_that_fails_is_told_and_an_abort_ends_what_waits_for_it) {
    begin_all("strict=1", "ncclWork@4=6");
    OK(together(DHOW_COLL_ALL_REDUCE, DHOW_F32, COUNT, 0));
    for (int i = 0; i < RANKS; i++) OK(cuda->stream_sync(streams[i], &err));
    OK(together(DHOW_COLL_ALL_REDUCE, DHOW_F32, COUNT, 0));
    FAILS(DHOW_UNAVAILABLE, coll->query(comms[1], &err));
    SAYS("another rank failed");
    cr_assert_eq(cuda->stream_query(streams[0], &err), DHOW_NOT_READY);
    for (int i = 0; i < RANKS; i++) coll->abort(comms[i]);
    for (int i = 0; i < RANKS; i++) OK(cuda->stream_sync(streams[i], &err));
    FAILS(DHOW_UNAVAILABLE, coll->query(comms[0], &err));
    SAYS("rank 0 of 2 was aborted");
    FAILS(DHOW_UNAVAILABLE, together(DHOW_COLL_ALL_REDUCE, DHOW_F32, COUNT, 0));
    SAYS("was aborted");
    close_devices();
}

Test(cuda_coll, a_fault_of_earlier_work_is_the_devices) {
    begin_all(NULL, "kernel:relu_f32@1=719");
    void *kernel = NULL;
    OK(cuda->builtin_kernel(device[1], "relu_f32", 32, &kernel, &err));
    const dhow_geometry geometry = {.work = COUNT};
    const dhow_arg args[] = {{DHOW_ARG_BUFFER, DHOW_ACCESS_READ, {.buffer = {memory[1], 0}}},
                             {DHOW_ARG_BUFFER, DHOW_ACCESS_WRITE, {.buffer = {memory[1], 0}}},
                             {DHOW_ARG_VALUE, 8, {.value = COUNT}}};
    OK(cuda->launch(streams[1], kernel, &geometry, args, 3, &err));
    (void)usleep(50000);
    FAILS(DHOW_DEVICE_LOST, together(DHOW_COLL_ALL_REDUCE, DHOW_F32, COUNT, 0));
    SAYS("relu_f32");
    cr_assert_eq(g_at, 1, "the fault of device 1 is told as that of call %u", g_at);
    for (int i = 0; i < RANKS; i++) coll->abort(comms[i]);
    close_devices();
}

/* ---- ranks of several processes, played by threads ---- */

typedef struct rank_thread {
    pthread_t thread;
    dhow_coll_id id;
    int rank;
    int32_t status;
    dhow_error error;
} rank_thread;

static void *make_rank(void *argument) {
    rank_thread *r = argument;
    r->error.struct_size = sizeof r->error;
    r->status = coll->create_rank(device[r->rank], &r->id, (uint32_t)r->rank, RANKS, g_timeout_ms,
                                  &comms[r->rank], &r->error);
    return NULL;
}

static void make_ranks_of(const dhow_coll_id *id, rank_thread ranks[RANKS]) {
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (rank_thread){.id = *id, .rank = i};
        cr_assert_eq(pthread_create(&ranks[i].thread, NULL, make_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < RANKS; i++) cr_assert_eq(pthread_join(ranks[i].thread, NULL), 0);
}

static void make_ranks(rank_thread ranks[RANKS]) {
    dhow_coll_id id;
    OK(coll->unique_id(device[0], &id, &err));
    make_ranks_of(&id, ranks);
}

static void *sum_rank(void *argument) {
    rank_thread *r = argument;
    const dhow_coll_call call = call_of(r->rank, DHOW_COLL_ALL_REDUCE, DHOW_F32, COUNT);
    const dhow_coll_call *list[] = {&call};
    uint32_t at;
    r->status = coll->run(list, 1, &at, &r->error);
    return NULL;
}

Test(cuda_coll, ranks_find_each_other_by_an_id_and_sum) {
    rank_thread ranks[RANKS];
    double wanted[COUNT];
    open_devices("strict=1", NULL);
    make_ranks(ranks);
    for (int i = 0; i < RANKS; i++) cr_assert_eq(ranks[i].status, 0, "%s", ranks[i].error.message);
    for (int rank = 0; rank < RANKS; rank++) write_numbers(DHOW_F32, rank, COUNT);
    for (int i = 0; i < RANKS; i++)
        cr_assert_eq(pthread_create(&ranks[i].thread, NULL, sum_rank, &ranks[i]), 0);
    for (int i = 0; i < RANKS; i++) cr_assert_eq(pthread_join(ranks[i].thread, NULL), 0);
    for (int i = 0; i < RANKS; i++) cr_assert_eq(ranks[i].status, 0, "%s", ranks[i].error.message);
    for (int i = 0; i < COUNT; i++) wanted[i] = number(0, i) + number(1, i);
    for (int rank = 0; rank < RANKS; rank++) expect_numbers(DHOW_F32, rank, COUNT, wanted);
    close_devices();
}

Test(cuda_coll, a_rank_does_not_wait_forever_for_one_that_does_not_come) {
    dhow_coll_id id;
    open_devices("strict=1", NULL);
    OK(coll->unique_id(device[0], &id, &err));
    FAILS(DHOW_TIMED_OUT, coll->create_rank(device[0], &id, 0, RANKS, 100, &comms[0], &err));
    SAYS("rank 0 of 2 has waited 100 ms for the others");
    cr_assert_null(comms[0]);
    close_devices();
}

/* ---- every function, failing in every way ---- */

/* Of two ranks the one that met the failure says its number, the other that it was left alone. */
static bool names_result(int code) {
    char number[16];
    (void)snprintf(number, sizeof number, "(%d)", code);
    return strstr(err.message, number) != NULL || strstr(err.message, "has waited") != NULL ||
           strstr(err.message, "another rank failed") != NULL;
}

/* Operations of all kinds, until one fails or the work does; then nothing waits any more. */
static int32_t work_through(void) {
    int32_t status = DHOW_OK;
    for (uint32_t op = DHOW_COLL_ALL_REDUCE; op <= DHOW_COLL_REDUCE_SCATTER && status == 0; op++) {
        dhow_coll_call calls[RANKS];
        const dhow_coll_call *list[] = {&calls[0], &calls[1]};
        for (int i = 0; i < RANKS; i++) {
            calls[i] = call_of(i, op, DHOW_F32, COUNT);
            calls[i].out.offset = RANKS * COUNT * sizeof(float);
        }
        status = coll->run(list, RANKS, &g_at, &err);
    }
    for (int i = 0; i < RANKS && status == DHOW_OK; i++) status = coll->query(comms[i], &err);
    for (int i = 0; i < RANKS && status != DHOW_OK; i++) coll->abort(comms[i]);
    return status;
}

static void sweep(const char *function, int nth, int code, bool ranks) {
    char faults[64];
    int32_t status = DHOW_OK;
    (void)snprintf(faults, sizeof faults, "%s@%d=%d", function, nth, code);
    open_devices(NULL, faults);
    err.message[0] = '\0';
    if (ranks) {
        rank_thread threads[RANKS];
        dhow_coll_id id;
        status = coll->unique_id(device[0], &id, &err);
        if (status == DHOW_OK) make_ranks_of(&id, threads);
        for (int i = 0; i < RANKS && status == DHOW_OK; i++) {
            status = threads[i].status;
            if (status != DHOW_OK) err = threads[i].error;
        }
    } else {
        status = coll->create_all(device, RANKS, comms, &err);
    }
    if (status == DHOW_OK) status = work_through();
    if (status != DHOW_OK)
        cr_assert(names_result(code), "%s: '%s' names no result of NCCL", faults, err.message);
    close_devices(); /* nothing is left, nothing is complained of */
}

Test(cuda_coll, every_function_that_fails_is_told_and_leaves_nothing, .timeout = 300) {
    static const char *const functions[] = {
        "ncclAllGather",          "ncclAllReduce",    "ncclBroadcast",         "ncclCommAbort",
        "ncclCommDestroy",        "ncclCommFinalize", "ncclCommGetAsyncError", "ncclCommInitAll",
        "ncclCommInitRankConfig", "ncclGetUniqueId",  "ncclGetVersion",        "ncclGroupEnd",
        "ncclGroupStart",         "ncclReduce",       "ncclReduceScatter",     "ncclWork"};
    g_timeout_ms = 300;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        for (int nth = 1; nth <= 3; nth++)
            for (int code = 1; code <= 6; code += i % 2 == 0 ? 2 : 5) {
                sweep(functions[i], nth, code, false);
                if (nth == 1) sweep(functions[i], nth, code, true);
            }
}

/* ---- mistakes that NCCL would hang at, planted, and found by the fake ---- */

static void expect_complaint(const char *text) {
    cr_assert_not_null(strstr(fakecuda_first_complaint(), text), "'%s' does not say '%s'",
                       fakecuda_first_complaint(), text);
}

static void end_planted(void) {
    for (int i = 0; i < RANKS; i++) coll->abort(comms[i]); /* end() would find the complaint */
}

static void run_two(const dhow_coll_call *a, const dhow_coll_call *b) {
    const dhow_coll_call *list[] = {a, b};
    (void)coll->run(list, RANKS, &g_at, &err);
}

Test(cuda_coll, planted_other_count_is_found) {
    begin_all(NULL, NULL);
    const dhow_coll_call a = call_of(0, DHOW_COLL_ALL_REDUCE, DHOW_F32, COUNT),
                         b = call_of(1, DHOW_COLL_ALL_REDUCE, DHOW_F32, COUNT - 1);
    run_two(&a, &b);
    expect_complaint("operation 1 of rank 1 is ncclAllReduce of 9 elements of type 7");
    end_planted();
}

Test(cuda_coll, planted_other_type_is_found) {
    begin_all(NULL, NULL);
    const dhow_coll_call a = call_of(0, DHOW_COLL_ALL_REDUCE, DHOW_F32, COUNT),
                         b = call_of(1, DHOW_COLL_ALL_REDUCE, DHOW_I32, COUNT);
    run_two(&a, &b);
    expect_complaint("of 10 elements of type 2 from root 0, that of rank 0 is");
    end_planted();
}

Test(cuda_coll, planted_other_order_is_found) {
    begin_all(NULL, NULL);
    const dhow_coll_call a = call_of(0, DHOW_COLL_ALL_REDUCE, DHOW_F32, COUNT),
                         b = call_of(1, DHOW_COLL_BROADCAST, DHOW_F32, COUNT);
    run_two(&a, &b);
    expect_complaint("operation 1 of rank 1 is ncclBroadcast");
    end_planted();
}

Test(cuda_coll, planted_other_root_is_found) {
    begin_all(NULL, NULL);
    dhow_coll_call a = call_of(0, DHOW_COLL_REDUCE, DHOW_F32, COUNT),
                   b = call_of(1, DHOW_COLL_REDUCE, DHOW_F32, COUNT);
    b.root = 1;
    run_two(&a, &b);
    expect_complaint("from root 1, that of rank 0");
    end_planted();
}

Test(cuda_coll, planted_stream_of_another_device_is_found) {
    begin_all(NULL, NULL);
    dhow_coll_call a = call_of(0, DHOW_COLL_ALL_REDUCE, DHOW_F32, COUNT),
                   b = call_of(1, DHOW_COLL_ALL_REDUCE, DHOW_F32, COUNT);
    b.stream = streams[0];
    run_two(&a, &b);
    expect_complaint("rank 1, device 1, on a stream of device 0");
    end_planted();
}

Test(cuda_coll, planted_ranks_of_one_thread_in_no_group_are_found) {
    begin_all(NULL, NULL);
    for (int i = 0; i < RANKS; i++) {
        const dhow_coll_call call = call_of(i, DHOW_COLL_ALL_REDUCE, DHOW_F32, COUNT);
        const dhow_coll_call *list[] = {&call};
        (void)coll->run(list, 1, &g_at, &err);
    }
    expect_complaint("ncclAllReduce of ranks 0 and 1 by one thread, and in no group");
    end_planted();
}

Test(cuda_coll, planted_destroy_before_the_work_has_ended_is_found) {
    begin_all("delay_us=300000", NULL);
    OK(together(DHOW_COLL_ALL_REDUCE, DHOW_F32, COUNT, 0));
    coll->destroy(comms[1]);
    expect_complaint("rank 1, which still works");
    coll->abort(comms[0]);
}
