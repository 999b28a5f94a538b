/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin of simulated devices, driven through its slots as the host would: memory, late reads,
 * streams and events, which other tests rely on to find missing waits.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim_fixture.h"

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- the plugin and its settings ---- */

Test(sim_plugin, two_simulated_devices_are_described_without_opening_them) {
    dhow_probe answer;
    uint32_t count = 0;
    OK(probe("", "", &answer));
    cr_assert_eq(answer.state, DHOW_PLUGIN_READY);
    OK(sim->open(&host, &backend, &err));
    OK(sim->device_count(backend, &count, &err));
    cr_assert_eq(count, 2);
    dhow_device_desc desc = {.struct_size = sizeof desc};
    OK(sim->device_describe(backend, 1, &desc, &err));
    cr_assert_eq(desc.kind, DHOW_DEVICE_SIMULATED);
    cr_assert_eq(desc.flags, DHOW_DEVICE_RUNS_KERNELS);
    cr_assert_str_eq(desc.name, "simulated device 1");
    FAILS(DHOW_OUT_OF_RANGE, sim->device_describe(backend, 2, &desc, &err));
    sim->close(backend);
}

Test(sim_plugin, a_bad_setting_fails_the_probe_and_is_named) {
    dhow_probe answer;
    static const char *const settings[] = {"devices=17", "colour=3",       "memory=1Q", "devices",
                                           "pageable=1", "offset_align=3", "memory=-1", "peer=2"};
    static const char *const faults[] = {"copy",
                                         "copy@0=INTERNAL",
                                         "copy@1=OK",
                                         "copy@1=WRONG",
                                         "@1=INTERNAL",
                                         "copy#x@1=INTERNAL",
                                         "mem_alloc@1=async:INTERNAL",
                                         "copy@1=INTERNAL!!"};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        FAILS(DHOW_INVALID_ARGUMENT, probe(settings[i], "", &answer));
        SAYS(settings[i]);
    }
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        FAILS(DHOW_INVALID_ARGUMENT, probe("", faults[i], &answer));
        SAYS(faults[i]);
    }
    OK(probe("devices=0", "", &answer));
    cr_assert_eq(answer.state, DHOW_PLUGIN_NO_DEVICE);
    cr_assert_gt(strlen(answer.reason) * strlen(answer.hint), 0);
}

/* ---- memory ---- */

Test(sim_plugin, host_access_to_device_memory_kills_the_process) {
    open_sim("", "");
    uint64_t handle = allocate(device, 64);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile char *)(uintptr_t)handle = 1;
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    sim->mem_free(device, handle);
    close_sim();
}

Test(sim_plugin, fresh_memory_is_poisoned_and_what_is_written_comes_back) {
    unsigned char out[100];
    open_sim("", "");
    uint64_t handle = allocate(device, sizeof out);
    OK(download(out, handle, sizeof out, 0));
    for (size_t i = 0; i < sizeof out; i++) cr_assert_eq(out[i], 0xCD);
    OK(sim->fill(stream, handle, 3, 10, 0x04030201, 4, &err));
    OK(download(out, handle, sizeof out, 0));
    const unsigned char expected[] = {0xCD, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 0xCD};
    cr_assert_arr_eq(out + 2, expected, sizeof expected);
    sim->mem_free(device, handle);
    close_sim();
}

Test(sim_plugin, boxes_are_copied_with_their_pitches) {
    unsigned char in[4 * 16], out[2 * 3 * 5];
    open_sim("", "");
    for (size_t i = 0; i < sizeof in; i++) in[i] = (unsigned char)i;
    uint64_t handle = allocate(device, sizeof in);
    OK(upload(handle, in, sizeof in, 0));
    dhow_copy_rect box =
        rect_of(NULL, handle, out, 5, 0); /* 2 planes of 3 rows of 5 bytes, from byte 1 */
    box.extent[1] = 3;
    box.extent[2] = 2;
    box.src.offset = 1;
    box.src.pitch[0] = 8;
    box.src.pitch[1] = 32;
    box.dst.pitch[0] = 5;
    box.dst.pitch[1] = 15;
    OK(sim->copy(stream, &box, &err));
    OK(sim->stream_sync(stream, &err));
    for (unsigned i = 0; i < sizeof out; i++)
        cr_assert_eq(out[i], 1 + i / 15 * 32 + i % 15 / 5 * 8 + i % 5, "byte %u is %u", i, out[i]);
    sim->mem_free(device, handle);
    close_sim();
}

Test(sim_plugin, memory_has_a_limit_and_is_given_back) {
    uint64_t handle = 0, left = 0, total = 0;
    open_sim("memory=1M", "");
    uint64_t first = allocate(device, 700 << 10);
    FAILS(DHOW_OUT_OF_MEMORY, sim->mem_alloc(device, 700 << 10, &handle, &err));
    cr_assert_eq(handle, 0);
    SAYS("asked for 716800");
    FAILS(DHOW_OUT_OF_MEMORY, sim->mem_alloc(device, UINT64_MAX, &handle, &err));
    sim->mem_free(other, allocate(other, 700 << 10)); /* the other device has its own */
    OK(sim->mem_info(device, &left, &total, &err));
    cr_assert_eq(total, 1 << 20);
    cr_assert_eq(left, (1 << 20) - (700 << 10));
    sim->mem_free(device, first);
    sim->mem_free(device, allocate(device, 1 << 20));
    close_sim();
    cr_assert_eq(complaints, 0);
}

Test(sim_plugin, work_on_freed_short_or_foreign_memory_fails_with_the_reason) {
    open_sim("", "");
    uint64_t handle = allocate(device, 100), foreign = allocate(other, 100);
    OK(sim->fill(stream, handle, 50, 51, 0, 1, &err));
    FAILS(DHOW_OUT_OF_RANGE, sim->stream_sync(stream, &err));
    OK(sim->stream_sync(stream, &err)); /* told once */
    OK(fill_byte(stream, foreign, 1, 0));
    FAILS(DHOW_INVALID_ARGUMENT, sim->stream_sync(stream, &err));
    SAYS("is device 1's");
    sim->mem_free(device, handle);
    OK(fill_byte(stream, handle, 1, 0));
    FAILS(DHOW_INVALID_ARGUMENT, sim->stream_sync(stream, &err));
    SAYS("freed");
    OK(fill_byte(stream, 4096, 1, 0));
    FAILS(DHOW_INVALID_ARGUMENT, sim->stream_sync(stream, &err));
    sim->mem_free(other, foreign);
    close_sim();
    cr_assert_eq(complaints, 0);
}

Test(sim_plugin, memory_freed_under_queued_work_is_found) {
    open_sim("delay_us=100000", "");
    uint64_t handle = allocate(device, 100);
    OK(fill_byte(stream, handle, 100, 1));
    sim->mem_free(device, handle);
    FAILS(DHOW_INVALID_ARGUMENT, sim->stream_sync(stream, &err));
    SAYS("freed before the work ran");
    close_sim();
}

Test(sim_plugin, leaks_and_double_frees_are_logged) {
    open_sim("", "");
    uint64_t handle = allocate(device, 100);
    sim->mem_free(device, handle);
    sim->mem_free(device, handle);
    cr_assert_eq(complaints, 1);
    (void)allocate(device, 100);
    close_sim();
    cr_assert_eq(complaints, 2);
}

/* ---- host memory ---- */

Test(sim_plugin, pinned_sources_are_read_late) {
    unsigned char out = 0;
    open_sim("delay_us=200000", "");
    uint64_t handle = allocate(device, 1);
    unsigned char *source = pin(1);
    *source = 1;
    OK(upload(handle, source, 1, 1));
    *source = 2; /* a mistake that luck would hide */
    OK(download(&out, handle, 1, 0));
    cr_assert_eq(out, 2);
    sim->host_free(device, source);
    sim->mem_free(device, handle);
    close_sim();
    cr_assert_eq(complaints, 0);
}

Test(sim_plugin, pageable_sources_are_read_at_once_and_targets_block) {
    unsigned char value = 1, out = 0;
    open_sim("delay_us=200000", "");
    uint64_t handle = allocate(device, 1);
    double start = seconds();
    OK(upload(handle, &value, 1, 0));
    cr_assert_lt(seconds() - start, 0.2);
    value = 2;
    OK(download(&out, handle, 1, 0));
    cr_assert_geq(seconds() - start, 0.4);
    cr_assert_eq(out, 1);
    sim->mem_free(device, handle);
    close_sim();
}

Test(sim_plugin, pageable_memory_can_be_treated_as_pinned_or_block_always) {
    unsigned char value = 1;
    open_sim("delay_us=200000,pageable=late", "");
    uint64_t handle = allocate(device, 1);
    double start = seconds();
    OK(upload(handle, &value, 1, 0));
    OK(download(&value, handle, 1, 0));
    cr_assert_lt(seconds() - start, 0.4);
    OK(sim->stream_sync(stream, &err));
    sim->mem_free(device, handle);
    close_sim();
    open_sim("delay_us=200000,pageable=block", "");
    handle = allocate(device, 1);
    start = seconds();
    OK(upload(handle, &value, 1, 0));
    cr_assert_geq(seconds() - start, 0.2);
    sim->mem_free(device, handle);
    close_sim();
}

Test(sim_plugin, registration_pins_and_a_false_claim_of_it_is_refused) {
    static unsigned char value;
    open_sim("delay_us=100000", "");
    uint64_t handle = allocate(device, 1);
    FAILS(DHOW_INVALID_ARGUMENT, upload(handle, &value, 1, 1));
    SAYS("is said to be pinned");
    OK(sim->host_register(device, &value, 1, &err));
    FAILS(DHOW_INVALID_ARGUMENT, sim->host_register(device, &value, 1, &err));
    OK(upload(handle, &value, 1, 1));
    OK(sim->host_unregister(device, &value, &err)); /* too early */
    FAILS(DHOW_INVALID_ARGUMENT, sim->stream_sync(stream, &err));
    FAILS(DHOW_INVALID_ARGUMENT, sim->host_unregister(device, &value, &err));
    sim->mem_free(device, handle);
    close_sim();
}

/* ---- streams and events ---- */

Test(sim_plugin, streams_run_beside_each_other_and_events_order_them) {
    void *second = NULL, *event = NULL;
    unsigned char *out = NULL;
    open_sim("delay_us=50000,jitter_us=1000", "");
    OK(sim->stream_create(device, 0, &second, &err));
    OK(sim->event_create(device, 0, &event, &err));
    uint64_t handle = allocate(device, 1);
    out = pin(1);
    OK(sim->event_query(event, &err)); /* never recorded: reached */
    OK(sim->stream_wait(second, event, &err));
    for (int i = 0; i < 3; i++) OK(fill_byte(stream, handle, 1, (unsigned char)i));
    OK(sim->event_record(event, stream, &err));
    FAILS(DHOW_NOT_READY, sim->event_query(event, &err));
    FAILS(DHOW_NOT_READY, sim->stream_query(stream, &err));
    OK(sim->stream_query(second, &err));
    OK(sim->stream_wait(second, event, &err));
    const dhow_copy_rect rect = rect_of(NULL, handle, out, 1, 1);
    OK(sim->copy(second, &rect, &err));
    sim->event_destroy(event); /* the wait outlives it */
    OK(sim->stream_sync(second, &err));
    cr_assert_eq(*out, 2);
    OK(sim->stream_query(stream, &err));
    sim->host_free(device, out);
    sim->mem_free(device, handle);
    sim->stream_destroy(second);
    close_sim();
    cr_assert_eq(complaints, 0);
}

Test(sim_plugin, a_wait_stands_for_the_record_before_it) {
    void *second = NULL, *event = NULL, *gate = NULL;
    open_sim("", "");
    OK(sim->stream_create(device, 0, &second, &err));
    OK(sim->event_create(device, 0, &event, &err));
    OK(sim->event_create(device, DHOW_EVENT_HOST, &gate, &err));
    OK(sim->event_record(event, stream, &err));
    OK(sim->stream_wait(second, event, &err));
    OK(sim->stream_wait(stream, gate,
                        &err)); /* the next record is not reached before the gate opens */
    OK(sim->event_record(event, stream, &err));
    OK(sim->stream_sync(second, &err));
    FAILS(DHOW_NOT_READY, sim->event_query(event, &err));
    OK(sim->event_signal(gate, &err));
    OK(sim->event_sync(event, &err));
    sim->event_destroy(event);
    sim->event_destroy(gate);
    sim->stream_destroy(second);
    close_sim();
}

static void *signal_later(void *event) {
    const struct timespec pause = {0, 30000000};
    dhow_error mine = {.struct_size = sizeof mine};
    nanosleep(&pause, NULL);
    sim->event_signal(event, &mine);
    return NULL;
}

Test(sim_plugin, streams_of_two_devices_wait_for_the_host) {
    void *second = NULL, *gate = NULL;
    pthread_t thread;
    open_sim("", "");
    OK(sim->stream_create(other, 0, &second, &err));
    OK(sim->event_create(device, DHOW_EVENT_HOST, &gate, &err));
    OK(sim->stream_wait(stream, gate, &err));
    OK(sim->stream_wait(second, gate, &err));
    FAILS(DHOW_NOT_READY, sim->stream_query(second, &err));
    FAILS(DHOW_INVALID_ARGUMENT, sim->event_record(gate, stream, &err));
    double start = seconds();
    pthread_create(&thread, NULL, signal_later, gate);
    OK(sim->stream_sync(second, &err));
    OK(sim->stream_sync(stream, &err));
    cr_assert_geq(seconds() - start, 0.03);
    pthread_join(thread, NULL);
    OK(sim->stream_wait(stream, gate, &err)); /* stays open */
    OK(sim->stream_sync(stream, &err));
    sim->event_destroy(gate);
    sim->stream_destroy(second);
    close_sim();
}

Test(sim_plugin, a_destroyed_host_event_and_a_destroyed_stream_leave_nobody_waiting) {
    void *second = NULL, *third = NULL, *gate = NULL, *event = NULL;
    open_sim("", "");
    OK(sim->stream_create(device, 0, &second, &err));
    OK(sim->stream_create(device, 0, &third, &err));
    OK(sim->event_create(device, 0, &event, &err));
    OK(sim->event_create(device, DHOW_EVENT_HOST, &gate, &err));
    OK(sim->stream_wait(stream, gate, &err));
    OK(sim->stream_wait(second, gate, &err));
    OK(sim->event_record(event, second, &err));
    OK(sim->stream_wait(third, event, &err));
    sim->stream_destroy(second); /* its record counts as reached */
    OK(sim->stream_sync(third, &err));
    sim->event_destroy(gate);
    OK(sim->stream_sync(stream, &err));
    sim->event_destroy(event);
    sim->stream_destroy(third);
    close_sim();
}

Test(sim_plugin, a_device_without_host_events_says_so) {
    void *gate = NULL;
    open_sim("host_events=0", "");
    FAILS(DHOW_UNSUPPORTED, sim->event_create(device, DHOW_EVENT_HOST, &gate, &err));
    cr_assert_null(gate);
    close_sim();
}

Test(sim_plugin, timing_events_measure_the_work_between_them) {
    void *start = NULL, *end = NULL;
    int64_t nanoseconds = 0;
    open_sim("bandwidth=1M", "");
    OK(sim->event_create(device, DHOW_EVENT_TIMING, &start, &err));
    OK(sim->event_create(device, DHOW_EVENT_TIMING, &end, &err));
    unsigned char *source = pin(51200);
    memset(source, 1, 51200);
    uint64_t handle = allocate(device, 51200);
    OK(sim->event_record(start, stream, &err));
    OK(upload(handle, source, 51200, 1)); /* 49 ms at 1 MiB/s */
    OK(sim->event_record(end, stream, &err));
    FAILS(DHOW_NOT_READY, sim->event_elapsed(start, end, &nanoseconds, &err));
    OK(sim->event_sync(end, &err));
    OK(sim->event_elapsed(start, end, &nanoseconds, &err));
    cr_assert_geq(nanoseconds, 48 * 1000000);
    sim->event_destroy(start);
    sim->event_destroy(end);
    sim->host_free(device, source);
    sim->mem_free(device, handle);
    close_sim();
}
