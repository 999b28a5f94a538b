/* SPDX-License-Identifier: Apache-2.0
 *
 * The lanes of the host queue, over two simulated devices that do not copy to each other.
 */
#include "stream/host_queue.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>

#include "dhow/dhow.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

enum { COUNT = 100000 };

static dhow_context *g_context;
static dhow_device *g_sim[2];

static void open_machine(const char *settings, const char *faults) {
    (void)setenv("DHOW_PLUGIN_PATH", DHOW_TEST_SIM_DIR ":" DHOW_TEST_PLUGIN_DIR, 1);
    (void)setenv("DHOW_BACKENDS", "cpu,sim", 1);
    (void)setenv("DHOW_SIM", settings, 1);
    (void)setenv("DHOW_SIM_FAULTS", faults, 1);
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, "sim:0", &g_sim[0]));
    OK(dhow_device_get(g_context, "sim:1", &g_sim[1]));
}

static void open_context(void) { open_machine("devices=2,peer=0", ""); }

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

/* ---- copies that wait for nobody ---- */

TestSuite(unordered, .fini = close_context, .timeout = 60);

static dhow_tensor *part_of(dhow_tensor *whole, int64_t begin, int64_t end) {
    dhow_tensor *part;
    OK(dhow_tensor_slice(whole, 0, begin, end, 1, &part));
    return part;
}

/* Two of them fill the halves of a host tensor; whoever looks at it then waits for both. */
Test(unordered, who_comes_later_waits_for_all_of_them) {
    open_machine("devices=2,peer=0,delay_us=100,jitter_us=300", "");
    dhow_tensor *host, *big = tensor_of(g_sim[0], 0), *small = tensor_of(g_sim[1], 0), *halves[2];
    dhow_stream *streams[2];
    dhow_device *cpu;
    OK(dhow_device_get(g_context, "cpu", &cpu));
    OK(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(2 * COUNT), 0, &host));
    for (int i = 0; i < 2; i++) {
        OK(dhow_stream_create(g_sim[i], &streams[i]));
        halves[i] = part_of(host, i * COUNT, (i + 1) * COUNT);
    }
    for (int round = 1; round <= 20; round++) {
        void *memory;
        OK(dhow_fill(NULL, big, round));
        OK(dhow_fill(NULL, small, round));
        OK(dhow_device_sync(g_sim[0]));
        OK(dhow_device_sync(g_sim[1]));
        OK(dhow_copy_async(streams[0], big, halves[0], DHOW_COPY_UNORDERED));
        OK(dhow_copy_async(streams[1], small, halves[1], DHOW_COPY_UNORDERED));
        OK(dhow_tensor_host_ptr(host, &memory));
        const float *values = memory;
        cr_assert(values[0] == (float)round && values[COUNT - 1] == (float)round &&
                      values[COUNT] == (float)round,
                  "round %d", round);
    }
    for (int i = 0; i < 2; i++) {
        dhow_stream_release(streams[i]);
        dhow_tensor_release(halves[i]);
    }
    dhow_tensor_release(host);
    dhow_tensor_release(big);
    dhow_tensor_release(small);
}

/* Few bytes of what the stream itself has sent to host memory before. */
Test(unordered, a_small_source_is_what_the_stream_has_left_there) {
    open_machine("devices=2,peer=0,delay_us=2000", "");
    dhow_device *cpu;
    dhow_stream *stream;
    dhow_tensor *host, *there;
    OK(dhow_device_get(g_context, "cpu", &cpu));
    OK(dhow_stream_create(g_sim[0], &stream));
    OK(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(COUNT), 0, &host));
    OK(dhow_tensor_full(g_sim[0], DHOW_F32, DHOW_SHAPE(16), 0, &there));
    dhow_tensor *source = tensor_of(g_sim[0], 0), *last = part_of(host, COUNT - 16, COUNT);
    for (int round = 1; round <= 5; round++) {
        float got[16];
        OK(dhow_fill(stream, source, round));
        OK(dhow_copy_async(stream, source, host, 0));
        OK(dhow_copy_async(stream, last, there, DHOW_COPY_UNORDERED));
        OK(dhow_tensor_read(there, got, sizeof got));
        cr_assert(got[0] == (float)round && got[15] == (float)round, "%g in round %d",
                  (double)got[0], round);
    }
    dhow_tensor_release(source);
    dhow_tensor_release(last);
    dhow_tensor_release(host);
    dhow_tensor_release(there);
    dhow_stream_release(stream);
}

/* ---- failures ---- */

TestSuite(copy_failures, .fini = close_context, .timeout = 60);

/* What another copy failed to bring is overwritten as a whole: nothing of the failure is left. */
Test(copy_failures, an_overwrite_does_not_hear_of_what_it_overwrites) {
    open_machine("devices=2,peer=0,delay_us=3000", "copy#0@1=INTERNAL");
    dhow_stream *streams[2];
    for (int i = 0; i < 2; i++) OK(dhow_stream_create(g_sim[i], &streams[i]));
    dhow_device *cpu;
    dhow_tensor *host;
    OK(dhow_device_get(g_context, "cpu", &cpu));
    OK(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(COUNT), 0, &host));
    dhow_tensor *bad = tensor_of(g_sim[0], 1), *good = tensor_of(g_sim[1], 2);
    OK(dhow_copy_async(streams[0], bad, host, 0));
    OK(dhow_copy_async(streams[1], good, host, 0));
    OK(dhow_stream_sync(streams[1]));
    cr_assert_eq(dhow_stream_sync(streams[0]), DHOW_INTERNAL);
    expect(host, 2);
    dhow_tensor_release(bad);
    dhow_tensor_release(good);
    for (int i = 0; i < 2; i++) dhow_stream_release(streams[i]);
}

/* What it has not waited for is no matter of an unordered copy, also where devices wait by the
 * host.
 */
Test(copy_failures, an_unordered_copy_does_not_hear_of_others) {
    enum { FEW = 16 };
    open_machine("devices=2,peer=0,host_events=0,delay_us=3000", "copy#0@1=INTERNAL");
    dhow_device *cpu;
    dhow_stream *streams[2];
    dhow_tensor *host, *few;
    OK(dhow_device_get(g_context, "cpu", &cpu));
    for (int i = 0; i < 2; i++) OK(dhow_stream_create(g_sim[i], &streams[i]));
    OK(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(COUNT + FEW), 0, &host));
    OK(dhow_tensor_full(g_sim[1], DHOW_F32, DHOW_SHAPE(FEW), 4, &few));
    dhow_tensor *bad = tensor_of(g_sim[0], 1);
    dhow_tensor *first = part_of(host, 0, COUNT), *last = part_of(host, COUNT, COUNT + FEW);
    OK(dhow_copy_async(streams[0], bad, first, 0));
    OK(dhow_copy_async(streams[1], few, last, DHOW_COPY_UNORDERED));
    OK(dhow_stream_sync(streams[1]));
    cr_assert_eq(dhow_stream_sync(streams[0]), DHOW_INTERNAL);
    dhow_tensor_release(bad);
    dhow_tensor_release(few);
    dhow_tensor_release(first);
    dhow_tensor_release(last);
    dhow_tensor_release(host);
    for (int i = 0; i < 2; i++) dhow_stream_release(streams[i]);
}

/* More failures than are kept with their reasons. */
Test(copy_failures, an_early_one_among_many_is_not_forgotten) {
    enum { MANY = 40 };
    open_machine("devices=3,peer=0,delay_us=2000", "copy#0@1+=INTERNAL");
    dhow_stream *failing, *other;
    dhow_device *third;
    dhow_tensor *x = tensor_of(g_sim[0], 1), *y[MANY];
    OK(dhow_device_get(g_context, "sim:2", &third));
    OK(dhow_stream_create(g_sim[0], &failing));
    OK(dhow_stream_create(g_sim[1], &other));
    dhow_tensor *z = tensor_of(third, -9), *slow = tensor_of(g_sim[1], 3),
                *sink = tensor_of(third, 0);
    OK(dhow_device_sync(g_sim[1]));
    for (int i = 0; i < MANY; i++) y[i] = tensor_of(g_sim[1], -1);
    for (int i = 0; i < 4; i++) OK(dhow_copy_async(other, slow, sink, 0));
    for (int i = 0; i < MANY; i++) OK(dhow_copy_async(failing, x, y[i], 0));
    dhow_status submitted = dhow_copy_async(other, y[0], z, 0);
    cr_assert_neq(dhow_stream_sync(failing), DHOW_OK);
    dhow_status synced = submitted == DHOW_OK ? dhow_stream_sync(other) : submitted;
    cr_assert_neq(synced, DHOW_OK, "what y[0] has not got went on to z");
    for (int i = 0; i < MANY; i++) dhow_tensor_release(y[i]);
    dhow_tensor_release(x);
    dhow_tensor_release(z);
    dhow_tensor_release(slow);
    dhow_tensor_release(sink);
    dhow_stream_release(failing);
    dhow_stream_release(other);
}

/* Its values have gone on over two other devices before the device that makes them is lost. */
Test(copy_failures, values_of_a_lost_device_are_missing_two_devices_on) {
    open_machine("devices=3", "launch#0@1=async:DEVICE_LOST!");
    dhow_error err = {.struct_size = sizeof err};
    dhow_stream *first, *second;
    dhow_device *third;
    dhow_tensor *x = tensor_of(g_sim[0], 3), *y = tensor_of(g_sim[0], 1);
    dhow_tensor *there = tensor_of(g_sim[1], 1), *on = tensor_of(g_sim[1], 1), *last;
    static float got[COUNT];
    void *gate;
    OK(dhow_stream_create(g_sim[0], &first));
    OK(dhow_stream_create(g_sim[1], &second));
    OK(dhow_device_get(g_context, "sim:2", &third));
    OK(dhow_device_sync(g_sim[0]));
    OK(g_sim[0]->api->event_create(dhowi_device_native(g_sim[0]), DHOW_EVENT_HOST, &gate, &err));
    OK(g_sim[0]->api->stream_wait(first->native, gate, &err));
    OK(dhow_relu(first, x, y));
    OK(dhow_copy_async(second, y, there, 0));
    OK(dhow_relu(second, there, on));
    OK(dhow_tensor_to_async(second, on, third, &last));
    OK(g_sim[0]->api->event_signal(gate, &err));
    cr_assert_eq(dhow_tensor_read(last, got, sizeof got), DHOW_DEVICE_LOST, "%g", (double)got[0]);
    dhow_tensor *all[] = {x, y, there, on, last};
    for (int i = 0; i < 5; i++) dhow_tensor_release(all[i]);
    dhow_stream_release(first);
    dhow_stream_release(second);
    g_sim[0]->api->event_destroy(gate);
}

/* More of its streams read the source than are told apart, and none of them will ever be done. */
Test(copy_failures, readers_on_a_lost_device_keep_nobody_waiting) {
    enum { READERS = 6, FEW = 1000 };
    open_machine("devices=2,peer=0,delay_us=2000", "copy#0@6=async:DEVICE_LOST!");
    dhow_stream *streams[READERS], *other;
    dhow_tensor *source, *to[READERS], *more, *there;
    float got[FEW];
    void *memory;
    OK(dhow_tensor_create_pinned(g_sim[0], DHOW_F32, DHOW_SHAPE(FEW), &source));
    OK(dhow_tensor_host_ptr(source, &memory));
    for (int i = 0; i < FEW; i++) ((float *)memory)[i] = 5;
    for (int i = 0; i < READERS; i++) {
        OK(dhow_stream_create(g_sim[0], &streams[i]));
        OK(dhow_tensor_full(g_sim[0], DHOW_F32, DHOW_SHAPE(FEW), 0, &to[i]));
    }
    OK(dhow_tensor_full(g_sim[0], DHOW_F32, DHOW_SHAPE(FEW), 0, &more));
    for (int i = 0; i < READERS; i++) OK(dhow_copy_async(streams[i], source, to[i], 0));
    OK(dhow_stream_create(g_sim[0], &other));
    dhow_status status = DHOW_OK; /* the loss comes to be known on a stream of its own */
    for (int tries = 0; tries < 5000 && status == DHOW_OK; tries++) {
        status = dhow_fill(other, more, 1);
        if (status == DHOW_OK) status = dhow_stream_sync(other);
    }
    cr_assert_eq(status, DHOW_DEVICE_LOST, "%s", dhow_last_error());
    OK(dhow_tensor_to(source, g_sim[1], &there));
    OK(dhow_tensor_read(there, got, sizeof got));
    cr_assert(got[0] == 5 && got[FEW - 1] == 5);
    for (int i = 0; i < READERS; i++) {
        dhow_tensor_release(to[i]);
        dhow_stream_release(streams[i]);
    }
    dhow_tensor_release(source);
    dhow_tensor_release(more);
    dhow_tensor_release(there);
    dhow_stream_release(other);
}

/* ---- threads ---- */

TestSuite(copying_threads, .fini = close_context, .timeout = 120);

enum { THREADS = 4, ROUNDS = 150, SLICE = 20000 };

typedef struct copier {
    dhow_tensor *from, *to;
} copier;

static void *copy_on_default_stream(void *argument) {
    const copier *c = argument;
    OK(dhow_copy_async(NULL, c->from, c->to, 0));
    return NULL;
}

static void copy_at_once(copier *copiers) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, copy_on_default_stream, &copiers[i]), 0);
    for (int i = 0; i < THREADS; i++) (void)pthread_join(threads[i], NULL);
}

/* Each thread fills its rows of one host tensor; afterwards all of them are there. */
Test(copying_threads, all_rows_of_one_tensor_are_waited_for) {
    open_machine("devices=4,peer=0,delay_us=20,jitter_us=300", "");
    dhow_device *cpu;
    dhow_tensor *host;
    copier copiers[THREADS];
    OK(dhow_device_get(g_context, "cpu", &cpu));
    OK(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(THREADS * SLICE), 0, &host));
    for (int i = 0; i < THREADS; i++) {
        dhow_device *device;
        OK(dhow_device_at(g_context, (uint32_t)(1 + i), &device));
        OK(dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(SLICE), 0, &copiers[i].from));
        copiers[i].to = part_of(host, i * SLICE, (i + 1) * SLICE);
    }
    for (int round = 1; round <= ROUNDS; round++) {
        void *memory;
        for (int i = 0; i < THREADS; i++) OK(dhow_fill(NULL, copiers[i].from, round));
        copy_at_once(copiers);
        OK(dhow_tensor_host_ptr(host, &memory));
        for (int i = 0; i < THREADS; i++)
            cr_assert(((float *)memory)[(i + 1) * SLICE - 1] == (float)round, "thread %d, round %d",
                      i, round);
    }
    for (int i = 0; i < THREADS; i++) {
        dhow_tensor_release(copiers[i].from);
        dhow_tensor_release(copiers[i].to);
    }
    dhow_tensor_release(host);
}

/* Each thread copies the same source; who writes to it afterwards waits for all of them. */
Test(copying_threads, a_source_is_written_after_all_have_read_it) {
    open_machine("devices=2,peer=0,delay_us=20,jitter_us=300", "");
    dhow_tensor *source;
    copier copiers[THREADS];
    OK(dhow_tensor_full(g_sim[0], DHOW_F32, DHOW_SHAPE(SLICE), 0, &source));
    for (int i = 0; i < THREADS; i++) {
        copiers[i].from = source;
        OK(dhow_tensor_full(g_sim[1], DHOW_F32, DHOW_SHAPE(SLICE), 0, &copiers[i].to));
    }
    for (int round = 1; round <= ROUNDS; round++) {
        static float got[SLICE];
        OK(dhow_fill(NULL, source, round));
        copy_at_once(copiers);
        OK(dhow_fill(NULL, source, -5));
        for (int i = 0; i < THREADS; i++) {
            OK(dhow_tensor_read(copiers[i].to, got, sizeof got));
            cr_assert(got[0] == (float)round && got[SLICE - 1] == (float)round,
                      "thread %d got %g in round %d", i, (double)got[0], round);
        }
    }
    for (int i = 0; i < THREADS; i++) dhow_tensor_release(copiers[i].to);
    dhow_tensor_release(source);
}
