/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin of simulated devices, driven through its slots as the host would: kernels, copies
 * between devices, and calls that fail because the script says so.
 */
#include "sim_fixture.h"

/* ---- kernels, peers ---- */

Test(sim_plugin, kernels_run_late_on_copied_arguments) {
    float in[1000], out[1000];
    open_sim("delay_us=1000", "");
    for (int i = 0; i < 1000; i++) in[i] = (float)(i - 500);
    uint64_t x = allocate(device, sizeof in), y = allocate(device, sizeof out);
    OK(upload(x, in, sizeof in, 0));
    OK(relu(x, y, 1000));
    OK(download(out, y, sizeof out, 0));
    OK(sim->stream_sync(stream, &err));
    for (int i = 0; i < 1000; i++) cr_assert_eq(out[i], i < 500 ? 0.0f : (float)(i - 500));
    sim->mem_free(device, x);
    sim->mem_free(device, y);
    close_sim();
}

Test(sim_plugin, dims_are_copied_at_launch) {
    const uint32_t in[6] = {1, 2, 3, 4, 5, 6}, expected[6] = {1, 4, 2, 5, 3, 6};
    uint32_t out[6];
    open_sim("delay_us=10000", "");
    uint64_t x = allocate(device, sizeof in), y = allocate(device, sizeof out);
    dhow_dims dims = {.rank = 2, .shape = {3, 2}, .stride = {{1, 3}, {2, 1}}};
    const dhow_geometry geometry = {.work = 6};
    const dhow_arg args[3] = {
        {DHOW_ARG_BUFFER, DHOW_ACCESS_READ, {.buffer = {x, 0}}},
        {DHOW_ARG_BUFFER, DHOW_ACCESS_WRITE, {.buffer = {y, 0}}},
        {DHOW_ARG_DIMS, 0, {.dims = &dims}},
    };
    OK(upload(x, in, sizeof in, 0));
    OK(sim->launch(stream, kernel_named("copy_dims_u32"), &geometry, args, 3, &err));
    memset(&dims, 0xFF, sizeof dims);
    OK(download(out, y, sizeof out, 0));
    OK(sim->stream_sync(stream, &err));
    cr_assert_arr_eq(out, expected, sizeof out);
    sim->mem_free(device, x);
    sim->mem_free(device, y);
    close_sim();
}

Test(sim_plugin, a_kernel_that_writes_past_its_buffer_is_found) {
    open_sim("", "");
    uint64_t x = allocate(device, 400), y = allocate(device, 396);
    OK(fill_byte(stream, x, 400, 0));
    OK(relu(x, y, 100));
    FAILS(DHOW_OUT_OF_RANGE, sim->stream_sync(stream, &err));
    SAYS("past the end");
    sim->mem_free(device, x);
    sim->mem_free(device, y);
    close_sim();
}

Test(sim_plugin, launches_that_do_not_fit_the_kernel_are_refused) {
    void *kernel = NULL, *copies = NULL, *module = NULL;
    open_sim("", "");
    uint64_t x = allocate(device, 64);
    const dhow_geometry geometry = {.work = 4},
                        native = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .native = 1};
    const dhow_module_desc text = {.struct_size = sizeof text,
                                   .format = DHOW_MODULE_PORTABLE,
                                   .name = "own.k",
                                   .text = "",
                                   .options = ""};
    dhow_arg args[3] = {
        {DHOW_ARG_BUFFER, DHOW_ACCESS_READ, {.buffer = {x, 2}}},
        {DHOW_ARG_BUFFER, DHOW_ACCESS_WRITE, {.buffer = {x, 0}}},
        {DHOW_ARG_VALUE, 8, {.value = 4}},
    };
    FAILS(DHOW_NOT_FOUND, sim->builtin_kernel(device, "relu_f33", 64, &kernel, &err));
    FAILS(DHOW_UNSUPPORTED, sim->module_build(device, &text, &module, &err));
    SAYS("own.k");
    kernel = kernel_named("relu_f32");
    cr_assert_eq(kernel, kernel_named("relu_f32"));
    FAILS(DHOW_INVALID_ARGUMENT, sim->launch(stream, kernel, &geometry, args, 3, &err));
    SAYS("offset 2");
    args[0].u.buffer.offset = 0;
    FAILS(DHOW_INVALID_ARGUMENT, sim->launch(stream, kernel, &geometry, args, 2, &err));
    FAILS(DHOW_UNSUPPORTED, sim->launch(stream, kernel, &native, args, 3, &err));
    args[2].bytes = 4;
    FAILS(DHOW_INVALID_ARGUMENT, sim->launch(stream, kernel, &geometry, args, 3, &err));
    args[2].bytes = 8;
    args[1].bytes = DHOW_ACCESS_READ;
    FAILS(DHOW_INVALID_ARGUMENT, sim->launch(stream, kernel, &geometry, args, 3, &err));
    args[1].bytes = DHOW_ACCESS_WRITE;
    OK(sim->stream_create(device, DHOW_STREAM_COPIES_ONLY, &copies, &err));
    FAILS(DHOW_INVALID_ARGUMENT, sim->launch(copies, kernel, &geometry, args, 3, &err));
    OK(sim->launch(stream, kernel, &geometry, args, 3, &err));
    OK(sim->stream_sync(stream, &err));
    sim->stream_destroy(copies);
    sim->mem_free(device, x);
    close_sim();
}

Test(sim_plugin, peers_copy_or_say_that_they_cannot) {
    unsigned char out[8];
    open_sim("", "");
    uint64_t from = allocate(other, 16), to = allocate(device, 16);
    void *second = NULL;
    OK(sim->stream_create(other, 0, &second, &err));
    OK(fill_byte(second, from, 16, 7));
    OK(sim->stream_sync(second, &err));
    OK(sim->can_copy(device, other, &err));
    OK(sim->peer_copy(stream, other, from, 4, to, 8, 8, &err));
    const dhow_copy_rect rect = rect_of(NULL, to + 8, out, 8, 0);
    OK(sim->copy(stream, &rect, &err));
    for (int i = 0; i < 8; i++) cr_assert_eq(out[i], 7);
    sim->mem_free(other, from);
    sim->mem_free(device, to);
    sim->stream_destroy(second);
    close_sim();
    open_sim("peer=0", "");
    FAILS(DHOW_UNSUPPORTED, sim->can_copy(device, other, &err));
    OK(sim->can_copy(device, device, &err));
    close_sim();
}

/* ---- faults ---- */

Test(sim_plugin, the_nth_call_fails_once_or_from_then_on) {
    uint64_t handle = 0;
    void *memory = NULL;
    open_sim("", "mem_alloc@2=OUT_OF_MEMORY;host_alloc@2+=INTERNAL");
    uint64_t first = allocate(device, 1);
    FAILS(DHOW_OUT_OF_MEMORY, sim->mem_alloc(device, 1, &handle, &err));
    SAYS("scripted fault: mem_alloc, call 2");
    cr_assert_eq(err.native_code, 9000 + DHOW_OUT_OF_MEMORY);
    uint64_t third = allocate(device, 1);
    void *pinned = pin(1);
    FAILS(DHOW_INTERNAL, sim->host_alloc(device, 1, &memory, &err));
    FAILS(DHOW_INTERNAL, sim->host_alloc(device, 1, &memory, &err));
    sim->mem_free(device, first);
    sim->mem_free(device, third);
    sim->host_free(device, pinned);
    close_sim();
    cr_assert_eq(complaints, 0);
}

Test(sim_plugin, a_fault_can_be_of_one_device) {
    uint64_t handle = 0;
    open_sim("", "mem_alloc#1@1=OUT_OF_MEMORY");
    sim->mem_free(device, allocate(device, 1));
    FAILS(DHOW_OUT_OF_MEMORY, sim->mem_alloc(other, 1, &handle, &err));
    close_sim();
}

Test(sim_plugin, asynchronous_faults_come_out_at_the_next_sync) {
    void *event = NULL;
    open_sim("", "kernel:relu_f32@2=async:INTERNAL;copy@2=async:IO_ERROR");
    uint64_t x = allocate(device, 64);
    unsigned char *memory = pin(64);
    OK(sim->event_create(device, 0, &event, &err));
    OK(fill_byte(stream, x, 64, 0));
    OK(relu(x, x, 16));
    OK(relu(x, x, 16)); /* fails later */
    OK(sim->event_record(event, stream, &err));
    FAILS(DHOW_INTERNAL, sim->event_sync(event, &err));
    FAILS(DHOW_INTERNAL, sim->stream_sync(stream, &err));
    SAYS("kernel:relu_f32");
    OK(sim->stream_sync(stream, &err));
    OK(download(memory, x, 64, 1));
    OK(download(memory, x, 64, 1));
    FAILS(DHOW_IO_ERROR, sim->stream_sync(stream, &err));
    sim->event_destroy(event);
    sim->host_free(device, memory);
    sim->mem_free(device, x);
    close_sim();
}

Test(sim_plugin, a_lost_device_stays_lost_and_the_other_goes_on) {
    void *second = NULL, *gate = NULL, *event = NULL, *again = NULL;
    uint64_t handle = 0;
    open_sim("", "fill#0@2=async:DEVICE_LOST!");
    OK(sim->stream_create(other, 0, &second, &err));
    OK(sim->event_create(device, DHOW_EVENT_HOST, &gate, &err));
    OK(sim->event_create(device, 0, &event, &err));
    uint64_t mine = allocate(device, 1), theirs = allocate(other, 1);
    OK(sim->stream_wait(second, gate, &err));
    OK(fill_byte(second, theirs, 1, 5));
    OK(fill_byte(stream, mine, 1, 1));
    OK(sim->stream_sync(stream, &err));
    (void)fill_byte(stream, mine, 1, 1); /* takes the device with it */
    (void)sim->stream_wait(stream, gate,
                           &err); /* still returns, for the gate is never waited for */
    (void)sim->event_record(event, stream, &err);
    FAILS(DHOW_DEVICE_LOST, sim->stream_sync(stream, &err));
    SAYS("simulated device 0 is lost: scripted fault: fill, call 2");
    FAILS(DHOW_DEVICE_LOST, sim->stream_sync(stream, &err));
    FAILS(DHOW_DEVICE_LOST, sim->event_sync(event, &err));
    FAILS(DHOW_DEVICE_LOST, sim->event_sync(gate, &err));
    FAILS(DHOW_DEVICE_LOST, sim->mem_alloc(device, 1, &handle, &err));
    FAILS(DHOW_DEVICE_LOST, sim->device_open(backend, 0, &again, &err));
    FAILS(DHOW_NOT_READY, sim->stream_query(second, &err));
    FAILS(DHOW_DEVICE_LOST, sim->event_signal(gate, &err)); /* opens it all the same */
    OK(sim->stream_sync(second, &err));
    sim->mem_free(device, mine);
    sim->mem_free(other, theirs);
    sim->event_destroy(event);
    sim->event_destroy(gate);
    sim->stream_destroy(second);
    close_sim();
    cr_assert_eq(complaints, 0);
}
