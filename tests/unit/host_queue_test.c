/* SPDX-License-Identifier: Apache-2.0
 *
 * The lanes of the host queue, over two simulated devices that do not copy to each other.
 */
#include "stream/host_queue.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "dhow/dhow.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

enum { COUNT = 100000 };

static dhow_context *g_context;
static dhow_device *g_sim[2];

static void open_context(void) {
    (void)setenv("DHOW_PLUGIN_PATH", DHOW_TEST_SIM_DIR ":" DHOW_TEST_PLUGIN_DIR, 1);
    (void)setenv("DHOW_BACKENDS", "cpu,sim", 1);
    (void)setenv("DHOW_SIM", "devices=2,peer=0", 1);
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, "sim:0", &g_sim[0]));
    OK(dhow_device_get(g_context, "sim:1", &g_sim[1]));
}

static void close_context(void) { dhow_context_release(g_context); }

TestSuite(host_queue, .init = open_context, .fini = close_context, .timeout = 30);

static dhow_tensor *tensor_of(dhow_device *device, double value) {
    dhow_tensor *t;
    OK(dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(COUNT), value, &t));
    return t;
}

static void expect(dhow_tensor *t, float value) {
    static float got[COUNT];
    OK(dhow_tensor_read(t, got, sizeof got));
    for (int i = 0; i < COUNT; i++)
        cr_assert(got[i] == value, "element %d is %g", i, (double)got[i]);
    dhow_tensor_release(t);
}

/* Copies on streams of their own, each behind work that waits for the test. */
static void hold_up(int count, dhow_stream **streams, void *gate, dhow_tensor **from,
                    dhow_tensor **to) {
    dhow_error err = {.struct_size = sizeof err};
    for (int i = 0; i < count; i++) {
        OK(dhow_stream_create(g_sim[0], &streams[i]));
        from[i] = tensor_of(g_sim[0], 0);
        to[i] = tensor_of(g_sim[1], -1);
    }
    OK(dhow_device_sync(g_sim[0]));
    for (int i = 0; i < count; i++) {
        cr_assert_eq(g_sim[0]->api->stream_wait(streams[i]->native, gate, &err), DHOW_OK);
        OK(dhow_fill(streams[i], from[i], i));
        OK(dhow_copy_async(streams[i], from[i], to[i], 0));
    }
}

static void run(int held) {
    enum { MOST = 2 * DHOWI_HOST_LANES };
    dhow_error err = {.struct_size = sizeof err};
    dhow_stream *streams[MOST], *free_stream;
    dhow_tensor *from[MOST], *to[MOST];
    dhow_tensor *mine = tensor_of(g_sim[0], 7), *there = tensor_of(g_sim[1], -1);
    void *gate;
    cr_assert_eq(
        g_sim[0]->api->event_create(dhowi_device_native(g_sim[0]), DHOW_EVENT_HOST, &gate, &err),
        DHOW_OK);
    hold_up(held, streams, gate, from, to);
    OK(dhow_stream_create(g_sim[0], &free_stream));
    OK(dhow_copy_async(free_stream, mine, there, 0));
    if (held < DHOWI_HOST_LANES) OK(dhow_stream_sync(free_stream)); /* though the others wait */
    cr_assert_eq(g_sim[0]->api->event_signal(gate, &err), DHOW_OK);
    for (int i = 0; i < held; i++) {
        expect(to[i], (float)i);
        dhow_tensor_release(from[i]);
        dhow_stream_release(streams[i]);
    }
    expect(there, 7);
    dhow_tensor_release(mine);
    dhow_stream_release(free_stream);
    g_sim[0]->api->event_destroy(gate);
}

Test(host_queue, a_copy_behind_long_work_keeps_no_other_stream_waiting) { run(1); }

Test(host_queue, every_lane_but_one_may_be_held_up) { run(DHOWI_HOST_LANES - 1); }

Test(host_queue, more_streams_than_lanes_share_them) { run(2 * DHOWI_HOST_LANES); }

/* Each copy takes what another stream's copy has brought. */
Test(host_queue, lanes_wait_for_each_other) {
    enum { HOPS = 40 };
    dhow_stream *streams[HOPS];
    dhow_tensor *t[HOPS + 1];
    t[0] = tensor_of(g_sim[0], 3);
    for (int i = 0; i < HOPS; i++) {
        OK(dhow_stream_create(g_sim[i % 2], &streams[i]));
        t[i + 1] = tensor_of(g_sim[(i + 1) % 2], -1);
        OK(dhow_copy_async(streams[i], t[i], t[i + 1], 0));
        OK(dhow_fill(streams[i], t[i], -2)); /* after it was read */
    }
    expect(t[HOPS], 3);
    for (int i = 0; i < HOPS; i++) {
        dhow_tensor_release(t[i]);
        dhow_stream_release(streams[i]);
    }
}
