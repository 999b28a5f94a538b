/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams and events of devices and of the host, and threads that launch.
 */
#include <inttypes.h>
#include <pthread.h>
#include <unistd.h>

#include "fixture.h"

/* ---- events ---- */

static int32_t wait_for_not(int32_t status, int32_t (*question)(void *, dhow_error *),
                            void *object) {
    int32_t answer = status;
    for (int i = 0; i < 5000 && answer == status; i++) {
        answer = question(object, &err);
        if (answer == status) usleep(1000);
    }
    return answer;
}

Test(opencl_plugin, a_stream_waits_for_the_host_and_another_stream_for_it) {
    void *second = NULL, *gate = NULL, *done = NULL;
    uint64_t a = alloc_bytes(1024), b = alloc_bytes(1024);
    unsigned char bytes[1024];
    OK(plugin->stream_create(device, 0, &second, &err));
    OK(plugin->event_create(device, DHOW_EVENT_HOST, &gate, &err));
    OK(plugin->event_create(device, 0, &done, &err));
    OK(plugin->event_query(done, &err)); /* never recorded */
    OK(plugin->stream_wait(second, done, &err));
    OK(plugin->fill(stream, a, 0, 1024, 0, 1, &err));
    OK(plugin->stream_wait(stream, gate, &err));
    OK(plugin->fill(stream, a, 0, 1024, 5, 1, &err));
    OK(plugin->event_record(done, stream, &err));
    OK(plugin->stream_wait(second, done, &err));
    dhow_copy_rect rect = {.extent = {1024, 1, 1}, .src = on_device(a, 0), .dst = on_device(b, 0)};
    OK(plugin->copy(second, &rect, &err));
    usleep(20000);
    FAILS(DHOW_NOT_READY, plugin->event_query(gate, &err));
    FAILS(DHOW_NOT_READY, plugin->event_query(done, &err));
    FAILS(DHOW_NOT_READY, plugin->stream_query(second, &err));
    OK(plugin->event_signal(gate, &err));
    OK(plugin->event_query(gate, &err));
    OK(plugin->event_sync(gate, &err));
    OK(plugin->event_sync(done, &err));
    OK(wait_for_not(DHOW_NOT_READY, plugin->stream_query, second));
    OK(plugin->stream_sync(second, &err));
    OK(plugin->stream_wait(stream, gate, &err)); /* reached: no wait */
    download(bytes, b, 0, 1024);
    for (int i = 0; i < 1024; i++) cr_assert_eq(bytes[i], 5);
    FAILS(DHOW_INVALID_ARGUMENT, plugin->event_signal(done, &err));
    plugin->event_destroy(gate);
    plugin->event_destroy(done);
    plugin->stream_destroy(second);
    plugin->mem_free(device, a);
    plugin->mem_free(device, b);
}

static void *signal_later(void *event) {
    dhow_error own = {.struct_size = sizeof own};
    usleep(30000);
    plugin->event_signal(event, &own);
    return NULL;
}

/* PoCL's synchronous device has no host events; there the wait for another device's blocks. */
Test(opencl_plugin, devices_wait_for_each_other_and_for_one_host_event) {
    if (device_count < 2) cr_skip_test("one device only");
    void *other = NULL, *other_stream = NULL, *gate = NULL, *done = NULL, *own_gate = NULL;
    uint64_t a = alloc_bytes(64), b = 0;
    unsigned char byte = 0;
    pthread_t thread;
    OK(plugin->device_open(backend, 0, &other, &err));
    OK(plugin->stream_create(other, 0, &other_stream, &err));
    OK(plugin->mem_alloc(other, 64, &b, &err));
    OK(plugin->event_create(device, DHOW_EVENT_HOST, &gate, &err));
    OK(plugin->event_create(device, 0, &done, &err));
    if (plugin->event_create(other, DHOW_EVENT_HOST, &own_gate, &err) == DHOW_OK)
        plugin->event_destroy(own_gate);
    else
        SAYS("its streams cannot wait for the host");
    OK(plugin->stream_wait(stream, gate, &err));
    OK(plugin->fill(stream, a, 0, 64, 3, 1, &err));
    OK(plugin->event_record(done, stream, &err));
    cr_assert_eq(pthread_create(&thread, NULL, signal_later, gate), 0);
    OK(plugin->stream_wait(other_stream, gate, &err));
    OK(plugin->fill(other_stream, b, 0, 64, 4, 1, &err));
    OK(plugin->stream_wait(other_stream, done,
                           &err)); /* another context's marker: the host waits */
    OK(plugin->event_query(done, &err));
    dhow_copy_rect rect = {.extent = {1, 1, 1}, .src = on_device(b, 9), .dst = on_host(&byte)};
    OK(plugin->copy(other_stream, &rect, &err));
    OK(plugin->stream_sync(other_stream, &err));
    cr_assert_eq(byte, 4);
    pthread_join(thread, NULL);
    plugin->event_destroy(gate);
    plugin->event_destroy(done);
    plugin->mem_free(other, b);
    plugin->mem_free(device, a);
    plugin->stream_destroy(other_stream);
    plugin->device_close(other);
}

Test(opencl_plugin, time_passes_between_timing_events) {
    void *start = NULL, *end = NULL, *plain = NULL;
    int64_t nanoseconds = -1;
    uint64_t a = alloc_bytes(1 << 24);
    OK(plugin->event_create(device, DHOW_EVENT_TIMING, &start, &err));
    OK(plugin->event_create(device, DHOW_EVENT_TIMING, &end, &err));
    OK(plugin->event_create(device, 0, &plain, &err));
    OK(plugin->fill(stream, a, 0, 1 << 24, 1, 1, &err));
    OK(plugin->event_record(start, stream, &err));
    OK(plugin->fill(stream, a, 0, 1 << 24, 2, 1, &err));
    OK(plugin->event_record(end, stream, &err));
    OK(plugin->event_sync(end, &err));
    OK(plugin->event_elapsed(start, end, &nanoseconds, &err));
    cr_assert(nanoseconds > 10000 && nanoseconds < INT64_C(10000000000), "%" PRId64, nanoseconds);
    unsigned char byte = 0;
    download(&byte, a, 77, 1);
    cr_assert_eq(byte, 2);
    FAILS(DHOW_INVALID_ARGUMENT, plugin->event_elapsed(start, plain, &nanoseconds, &err));
    plugin->event_destroy(start);
    plugin->event_destroy(end);
    plugin->event_destroy(plain);
    plugin->mem_free(device, a);
}

Test(opencl_plugin, a_host_event_destroyed_unsignalled_hangs_nobody) {
    void *gate = NULL, *second = NULL;
    uint64_t a = alloc_bytes(64);
    OK(plugin->stream_create(device, 0, &second, &err));
    OK(plugin->event_create(device, DHOW_EVENT_HOST, &gate, &err));
    OK(plugin->stream_wait(second, gate, &err));
    OK(plugin->fill(second, a, 0, 64, 1, 1, &err));
    plugin->event_destroy(gate);
    plugin->stream_sync(second, &err); /* whatever it says, it comes back */
    plugin->stream_destroy(second);
    plugin->mem_free(device, a);
}

/* ---- threads ---- */

static void *shared_kernel;

/* One kernel, one stream per thread: arguments must not mix. */
static void *launch_many(void *failed) {
    dhow_error own = {.struct_size = sizeof own};
    void *own_stream = NULL;
    uint64_t handle = 0;
    unsigned char byte = 0;
    int32_t status = plugin->stream_create(device, 0, &own_stream, &own);
    status += plugin->mem_alloc(device, 64, &handle, &own);
    status += plugin->fill(own_stream, handle, 0, 64, 0, 1, &own);
    dhow_arg args[] = {buffer_arg(handle, 5), buffer_arg(handle, 5), i64_arg(1)};
    dhow_geometry work = work_of(1);
    for (int i = 0; i < 200; i++)
        status += plugin->launch(own_stream, shared_kernel, &work, args, 3, &own);
    dhow_copy_rect rect = {.extent = {1, 1, 1}, .src = on_device(handle, 5), .dst = on_host(&byte)};
    status += plugin->copy(own_stream, &rect, &own);
    status += plugin->stream_sync(own_stream, &own);
    plugin->mem_free(device, handle);
    plugin->stream_destroy(own_stream);
    if (status != 0 || byte != 200) *(int *)failed = 1;
    return NULL;
}

Test(opencl_plugin, threads_launch_one_kernel_on_streams_of_their_own) {
    void *module = NULL;
    dhow_module_desc desc = portable_module();
    shared_kernel = build_kernel(&desc, "next", &module);
    pthread_t threads[4];
    int failed[4] = {0, 0, 0, 0};
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, launch_many, &failed[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) cr_assert_eq(failed[i], 0);
    plugin->module_free(module);
}
