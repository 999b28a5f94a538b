/* SPDX-License-Identifier: Apache-2.0
 *
 * What threads, streams and lost devices must not do to each other, one story after the other.
 * Where two threads have to meet at one place, a slot of the backend that the test has put its own
 * function into makes them.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dhow/dhow.h"
#include "kernel/kernel.h"
#include "memory/sink.h"
#include "stream/host_queue.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())
#define FAILS(status, call) \
    cr_assert_eq((call), (status), "%s: %s, not %s", #call, dhow_last_error(), #status)

enum { COUNT = 50000 };

static dhow_context *g_context;
static dhow_device *g_cpu, *g_sim[2];
static dhow_plugin g_patched; /* sim:0's functions, some of them the test's */
static const dhow_plugin *g_real;

static void open_machine(const char *settings, const char *faults) {
    (void)setenv("DHOW_PLUGIN_PATH", DHOW_TEST_SIM_DIR ":" DHOW_TEST_PLUGIN_DIR, 1);
    (void)setenv("DHOW_BACKENDS", "cpu,sim", 1);
    (void)setenv("DHOW_SIM", settings, 1);
    (void)setenv("DHOW_SIM_FAULTS", faults, 1);
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, "cpu", &g_cpu));
    OK(dhow_device_get(g_context, "sim:0", &g_sim[0]));
    OK(dhow_device_get(g_context, "sim:1", &g_sim[1]));
    for (int i = 0; i < 2; i++) OK(dhow_device_open(g_sim[i]));
    g_real = g_sim[0]->api;
    g_patched = *g_real;
}

static void close_machine(void) {
    if (g_real != NULL) g_sim[0]->api = g_real;
    dhow_context_release(g_context);
}

TestSuite(async, .fini = close_machine, .timeout = 60);

static dhow_tensor *full(dhow_device *device, int64_t count, double value) {
    dhow_tensor *t;
    OK(dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(count), value, &t));
    return t;
}

static dhow_tensor *part_of(dhow_tensor *whole, int64_t begin, int64_t end) {
    dhow_tensor *part;
    OK(dhow_tensor_slice(whole, 0, begin, end, 1, &part));
    return part;
}

static float first_of(dhow_tensor *t) {
    static float got[2 * COUNT];
    OK(dhow_tensor_read(t, got, dhowi_tensor_bytes(t)));
    return got[0];
}

/* Work of a stream that comes after this waits for open_gate(). */
static void *close_gate(dhow_stream *stream) {
    dhow_error err = {.struct_size = sizeof err};
    dhow_device *device = stream->device;
    void *gate;
    cr_assert_eq(
        device->api->event_create(dhowi_device_native(device), DHOW_EVENT_HOST, &gate, &err),
        DHOW_OK);
    cr_assert_eq(device->api->stream_wait(stream->native, gate, &err), DHOW_OK);
    return gate;
}

static void open_gate(dhow_device *device, void *gate) {
    dhow_error err = {.struct_size = sizeof err};
    cr_assert_eq(device->api->event_signal(gate, &err), DHOW_OK);
    device->api->event_destroy(gate);
}

static void sleep_ms(long ms) {
    (void)nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* ---- hazards ---- */

/* One half of a tensor is read by a stream that is held up; the other is the target of a copy that
 * waits for nobody. Who then writes the first half still waits for its reader. */
Test(async, an_unordered_peer_copy_leaves_others_to_be_waited_for) {
    open_machine("devices=2", "");
    dhow_stream *reader, *copier;
    OK(dhow_stream_create(g_sim[0], &reader));
    OK(dhow_stream_create(g_sim[0], &copier));
    dhow_tensor *whole = full(g_sim[0], 2 * COUNT, 1), *there = full(g_sim[1], COUNT, 5),
                *copy = full(g_sim[0], COUNT, 0);
    dhow_tensor *first = part_of(whole, 0, COUNT), *second = part_of(whole, COUNT, 2 * COUNT);
    for (int i = 0; i < 2; i++) OK(dhow_device_sync(g_sim[i]));
    dhow_copy_plan_info plan = DHOW_INIT(dhow_copy_plan_info);
    OK(dhow_copy_plan(there, second, &plan));
    cr_assert_eq(plan.path, DHOW_COPY_PEER);
    void *gate = close_gate(reader);
    OK(dhow_copy_async(reader, first, copy, 0));
    OK(dhow_copy_async(copier, there, second, DHOW_COPY_UNORDERED));
    OK(dhow_fill(NULL, first, 9));
    sleep_ms(50); /* for a fill that does not wait */
    open_gate(g_sim[0], gate);
    cr_assert_eq(first_of(copy), 1);
    cr_assert_eq(first_of(first), 9);
    cr_assert_eq(first_of(second), 5);
    dhow_tensor *all[] = {whole, there, copy, first, second};
    for (int i = 0; i < 5; i++) dhow_tensor_release(all[i]);
    dhow_stream_release(reader);
    dhow_stream_release(copier);
}

/* The gather before such a copy is dhow's own work: the copy comes after it. */
Test(async, an_unordered_copy_waits_for_what_it_packs_itself) {
    open_machine("devices=2,delay_us=3000", "");
    enum { SIDE = 60 };
    dhow_stream *stream;
    static float values[SIDE * SIDE], got[SIDE * SIDE];
    dhow_tensor *x, *across, *there, *used = full(g_sim[0], SIDE * SIDE, -1);
    for (int i = 0; i < SIDE * SIDE; i++) values[i] = (float)i;
    OK(dhow_tensor_from_data(g_sim[0], DHOW_F32, DHOW_SHAPE(SIDE, SIDE), values, &x));
    OK(dhow_tensor_transpose(x, 0, 1, &across));
    OK(dhow_tensor_create(g_sim[1], DHOW_F32, DHOW_SHAPE(SIDE, SIDE), &there));
    OK(dhow_stream_create(g_sim[1], &stream));
    dhow_tensor_release(used); /* a block that holds something else */
    for (int i = 0; i < 2; i++) OK(dhow_device_sync(g_sim[i]));
    OK(dhow_copy_async(stream, across, there, DHOW_COPY_UNORDERED));
    OK(dhow_tensor_read(there, got, sizeof got));
    for (int i = 0; i < SIDE; i++) cr_assert_eq(got[i], (float)(i * SIDE), "%g", (double)got[i]);
    dhow_tensor_release(x);
    dhow_tensor_release(across);
    dhow_tensor_release(there);
    dhow_stream_release(stream);
}

/* Two threads write the halves of a tensor, each on its own stream, and have looked for others
 * before either was noted. */
static dhow_tensor *g_halves[2];
static dhow_stream *g_streams[2];
static pthread_barrier_t g_meeting;

static int32_t meet_and_fill(void *stream, uint64_t handle, uint64_t offset, uint64_t bytes,
                             uint64_t pattern, uint32_t pattern_bytes, dhow_error *err) {
    (void)pthread_barrier_wait(&g_meeting);
    return g_real->fill(stream, handle, offset, bytes, pattern, pattern_bytes, err);
}

static void *fill_half(void *argument) {
    const int half = *(int *)argument;
    OK(dhow_fill(g_streams[half], g_halves[half], 7));
    return NULL;
}

Test(async, writers_of_two_threads_are_both_waited_for) {
    open_machine("devices=2", "");
    dhow_tensor *whole = full(g_sim[0], 2 * COUNT, 1);
    pthread_t thread;
    void *gates[2];
    int numbers[] = {0, 1};
    OK(dhow_device_sync(g_sim[0]));
    for (int i = 0; i < 2; i++) {
        OK(dhow_stream_create(g_sim[0], &g_streams[i]));
        g_halves[i] = part_of(whole, i * COUNT, (i + 1) * COUNT);
        gates[i] = close_gate(g_streams[i]);
    }
    (void)pthread_barrier_init(&g_meeting, NULL, 2);
    g_patched.fill = meet_and_fill;
    g_sim[0]->api = &g_patched;
    cr_assert_eq(pthread_create(&thread, NULL, fill_half, &numbers[0]), 0);
    (void)fill_half(&numbers[1]);
    (void)pthread_join(thread, NULL);
    g_sim[0]->api = g_real;
    dhowi_timepoint pending[DHOWI_MAX_PENDING];
    cr_assert_eq(dhowi_hazard_pending(&whole->storage->hazard, DHOW_ACCESS_READ, NULL, pending), 2);
    for (int i = 0; i < 2; i++) open_gate(g_sim[0], gates[i]);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(first_of(g_halves[i]), 7);
        dhow_tensor_release(g_halves[i]);
        dhow_stream_release(g_streams[i]);
    }
    dhow_tensor_release(whole);
}

/* ---- events ---- */

static dhow_event *g_event;

/* As another thread may do between our look at the event and the driver's. */
static int32_t record_again_and_query(void *event, dhow_error *err) {
    g_sim[0]->api = g_real;
    OK(dhow_event_record(g_event, g_streams[1]));
    OK(dhow_stream_sync(g_streams[1]));
    return g_real->event_query(event, err);
}
static int32_t record_again_and_sync(void *event, dhow_error *err) {
    g_sim[0]->api = g_real;
    OK(dhow_event_record(g_event, g_streams[1]));
    return g_real->event_sync(event, err);
}

static void record_anew(bool sync) {
    open_machine("devices=2", "");
    dhow_tensor *x = full(g_sim[0], COUNT, 1);
    OK(dhow_device_sync(g_sim[0]));
    for (int i = 0; i < 2; i++) OK(dhow_stream_create(g_sim[0], &g_streams[i]));
    OK(dhow_event_create(g_sim[0], 0, &g_event));
    void *gate = close_gate(g_streams[0]);
    OK(dhow_fill(g_streams[0], x, 2));
    OK(dhow_event_record(g_event, g_streams[0]));
    g_patched.event_query = record_again_and_query;
    g_patched.event_sync = record_again_and_sync;
    g_sim[0]->api = &g_patched;
    OK(sync ? dhow_event_sync(g_event) : dhow_event_query(g_event));
    cr_assert_not(dhowi_timepoint_done(dhowi_stream_tail(g_streams[0])),
                  "work that waits for the gate counts as done");
    open_gate(g_sim[0], gate);
    cr_assert_eq(first_of(x), 2);
    dhow_tensor_release(x);
    dhow_event_release(g_event);
    for (int i = 0; i < 2; i++) dhow_stream_release(g_streams[i]);
}

Test(async, an_event_recorded_anew_while_it_is_awaited_ends_no_other_work) { record_anew(true); }
Test(async, an_event_recorded_anew_while_it_is_asked_for_ends_no_other_work) { record_anew(false); }

/* ---- what a lost device leaves behind ---- */

static void lose(dhow_device *device) {
    dhow_tensor *t;
    FAILS(DHOW_DEVICE_LOST, dhow_tensor_full(device, DHOW_U8, DHOW_SHAPE(3), 1, &t));
}

Test(async, what_a_lost_device_was_to_read_is_written_by_others) {
    open_machine("devices=2,delay_us=2000", "fill#1@1=DEVICE_LOST!");
    dhow_tensor *x, *y[2];
    float values[1000] = {3};
    OK(dhow_tensor_create_pinned(g_sim[1], DHOW_F32, DHOW_SHAPE(1000), &x));
    OK(dhow_tensor_write(x, values, sizeof values));
    for (int i = 0; i < 2; i++) OK(dhow_tensor_create(g_sim[1], DHOW_F32, DHOW_SHAPE(1000), &y[i]));
    for (int i = 0; i < 2; i++) OK(dhow_copy_async(NULL, x, y[i], 0));
    lose(g_sim[1]);
    for (int i = 0; i < 3; i++) {
        OK(dhow_tensor_write(x, values, sizeof values));
        OK(dhow_tensor_read(x, values, sizeof values));
        cr_assert_eq(values[0], 3);
    }
    dhow_tensor *there; /* other devices take it as well, and may write it */
    OK(dhow_tensor_to(x, g_sim[0], &there));
    OK(dhow_fill(NULL, there, 8));
    OK(dhow_copy(there, x));
    cr_assert_eq(first_of(x), 8);
    dhow_tensor_release(there);
    dhow_tensor_release(x);
    for (int i = 0; i < 2; i++) dhow_tensor_release(y[i]);
}

Test(async, what_a_lost_device_was_to_write_is_missing_until_it_is_written) {
    open_machine("devices=2,delay_us=2000", "fill#1@2=DEVICE_LOST!");
    dhow_tensor *x, *source = full(g_sim[1], 1000, 4);
    float values[1000] = {3};
    OK(dhow_tensor_create_pinned(g_sim[1], DHOW_F32, DHOW_SHAPE(1000), &x));
    OK(dhow_tensor_write(x, values, sizeof values));
    OK(dhow_copy_async(NULL, source, x, 0));
    lose(g_sim[1]);
    for (int i = 0; i < 3; i++) FAILS(DHOW_DEVICE_LOST, dhow_tensor_read(x, values, sizeof values));
    OK(dhow_tensor_write(x, values, sizeof values));
    OK(dhow_tensor_read(x, values, sizeof values));
    cr_assert_eq(values[0], 3);
    dhow_tensor_release(source);
    dhow_tensor_release(x);
}

/* What comes to one part of a tensor from a device that is being lost stays missing, though other
 * parts are written after it; written as a whole, the tensor is what was written. */
static void lose_a_part(bool stacked) {
    open_machine("devices=2,delay_us=20000", "launch#0@1=async:DEVICE_LOST!");
    dhow_tensor *x = full(g_sim[0], 8, 1), *g = full(g_sim[1], 8, 5), *y, *part[2];
    dhow_tensor *const parts[] = {x, g};
    float values[16];
    OK(dhow_tensor_full(g_sim[1], DHOW_F32, DHOW_SHAPE(2, 8), 7, &y));
    for (int i = 0; i < 2; i++) OK(dhow_tensor_select(y, 0, i, &part[i]));
    OK(dhow_copy(x, part[0])); /* the first copy between two devices tries the way */
    OK(dhow_relu(NULL, x, x));
    if (stacked) {
        OK(dhow_stack(NULL, parts, 2, 0, y));
    } else {
        OK(dhow_copy_async(NULL, x, part[0], 0));
        OK(dhow_copy_async(NULL, g, part[1], 0));
    }
    for (int i = 0; i < 2; i++) FAILS(DHOW_DEVICE_LOST, dhow_tensor_read(y, values, sizeof values));
    OK(dhow_fill(NULL, y, 3));
    OK(dhow_tensor_read(y, values, sizeof values));
    cr_assert_eq(values[0], 3);
    for (int i = 0; i < 2; i++) dhow_tensor_release(part[i]);
    dhow_tensor_release(x);
    dhow_tensor_release(g);
    dhow_tensor_release(y);
}

Test(async, a_part_that_a_lost_device_was_to_write_is_missing) { lose_a_part(false); }
Test(async, a_part_of_a_stack_that_a_lost_device_was_to_make_is_missing) { lose_a_part(true); }

/* The same block serves again: a loss of before is none of its business. */
Test(async, memory_that_a_lost_device_was_to_write_is_used_again) {
    open_machine("devices=2,delay_us=2000", "fill#1@2=DEVICE_LOST!");
    dhow_tensor *x, *source = full(g_sim[1], 1000, 4);
    void *memory;
    OK(dhow_tensor_create_pinned(g_sim[0], DHOW_F32, DHOW_SHAPE(1000), &x));
    OK(dhow_copy_async(NULL, source, x, 0));
    lose(g_sim[1]);
    dhow_tensor_release(x);
    OK(dhow_tensor_create_pinned(g_sim[0], DHOW_F32, DHOW_SHAPE(1000), &x));
    OK(dhow_tensor_host_ptr(x, &memory));
    dhow_tensor_release(source);
    dhow_tensor_release(x);
}

/* ---- failures ---- */

/* What a copy failed to bring is not there because a fill was refused. */
Test(async, a_refused_fill_leaves_the_failure_of_an_earlier_copy) {
    open_machine("devices=2,peer=0", "copy#0@1=INTERNAL;fill#1@2=INTERNAL");
    dhow_stream *stream;
    float got[4];
    dhow_tensor *from = full(g_sim[0], COUNT, 1), *to = full(g_sim[1], COUNT, 2);
    dhow_tensor *some = part_of(to, 0, 4);
    OK(dhow_stream_create(g_sim[0], &stream));
    OK(dhow_copy_async(stream, from, to, 0));
    FAILS(DHOW_INTERNAL, dhow_stream_sync(stream));
    FAILS(DHOW_INTERNAL, dhow_fill(NULL, to, 3));
    cr_assert_neq(dhow_tensor_read(some, got, sizeof got), DHOW_OK, "%g", (double)got[0]);
    OK(dhow_fill(NULL, to, 3));
    OK(dhow_tensor_read(some, got, sizeof got));
    cr_assert_eq(got[0], 3);
    dhow_tensor_release(from);
    dhow_tensor_release(to);
    dhow_tensor_release(some);
    dhow_stream_release(stream);
}

/* Releasing what is left after a failure, which is when its message is shown. */
Test(async, releases_leave_the_last_error_alone) {
    static const char reason[] = "what went wrong before";
    open_machine("devices=2,delay_us=3000", "fill#0@2=async:INTERNAL;fill#0@4=async:INTERNAL");
    dhow_stream *stream;
    dhow_event *event;
    dhow_tensor *x = full(g_sim[0], COUNT, 1);
    OK(dhow_stream_create(g_sim[0], &stream));
    OK(dhow_event_create(g_sim[0], 0, &event));
    OK(dhow_fill(stream, x, 2));
    FAILS(DHOW_CANCELLED, dhow_set_error(DHOW_CANCELLED, "%s", reason));
    dhow_stream_release(stream); /* waits, and meets the failure */
    cr_assert_str_eq(dhow_last_error(), reason);
    OK(dhow_fill(NULL, x, 2));
    dhow_tensor *wrapped;
    static float memory[COUNT];
    OK(dhow_tensor_wrap(g_context, DHOW_F32, DHOW_SHAPE(COUNT), memory, NULL, NULL, &wrapped));
    OK(dhow_fill(NULL, x, 2));
    OK(dhow_copy_async(NULL, x, wrapped, 0));
    FAILS(DHOW_CANCELLED, dhow_set_error(DHOW_CANCELLED, "%s", reason));
    dhow_tensor_release(wrapped);
    cr_assert_str_eq(dhow_last_error(), reason);
    dhow_event_release(event);
    dhow_tensor_release(x);
    cr_assert_str_eq(dhow_last_error(), reason);
}

/* ---- logs ---- */

static void work_inside(void *user, dhow_log_level level, const char *message) {
    (void)level, (void)message;
    dhow_tensor *t = full(user, 10, 6);
    cr_assert_eq(first_of(t), 6);
    dhow_tensor_release(t);
}

Test(async, a_log_function_s_work_is_no_part_of_a_plan) {
    open_machine("devices=2", "");
    dhowi_sink sink = {.device = g_sim[0]}; /* without functions: a call would crash */
    const dhowi_log log = {.level = DHOW_LOG_WARN, .fn = work_inside, .user = g_sim[0]};
    dhowi_thread_sink = &sink;
    dhowi_log_line(&log, DHOW_LOG_WARN, "a line");
    cr_assert_eq(dhowi_thread_sink, &sink);
    dhowi_thread_sink = NULL;
}

/* ---- memory ---- */

static int32_t meet_and_alloc(void *device, uint64_t bytes, uint64_t *out, dhow_error *err) {
    sleep_ms(50);
    return g_real->mem_alloc(device, bytes, out, err);
}

static void *allocate(void *argument) {
    dhow_tensor **out = argument;
    dhow_status status = dhow_tensor_create(g_sim[0], DHOW_U8, DHOW_SHAPE(700000), out);
    cr_assert(status == DHOW_OK || status == DHOW_OUT_OF_MEMORY);
    return NULL;
}

Test(async, two_threads_do_not_exceed_a_limit_together) {
    open_machine("devices=2", "");
    pthread_t threads[4];
    dhow_tensor *tensors[4] = {0};
    dhow_memory_stats s = DHOW_INIT(dhow_memory_stats);
    g_patched.mem_alloc = meet_and_alloc;
    g_sim[0]->api = &g_patched;
    OK(dhow_memory_set_limit(g_sim[0], 1 << 20));
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, allocate, &tensors[i]), 0);
    int made = 0;
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
        made += tensors[i] != NULL;
    }
    OK(dhow_memory_get_stats(g_sim[0], &s));
    cr_assert(made == 1 && s.reserved_peak <= s.limit, "%d tensors, %llu bytes", made,
              (unsigned long long)s.reserved_peak);
    for (int i = 0; i < 4; i++) dhow_tensor_release(tensors[i]);
    OK(dhow_memory_trim(g_sim[0]));
    OK(dhow_memory_get_stats(g_sim[0], &s));
    cr_assert_eq(s.reserved, 0);
}

/* Of two cached blocks the one that the stream at hand need not wait for. */
Test(async, a_block_of_the_same_stream_is_preferred) {
    open_machine("devices=2", "");
    dhow_tensor *x[2], *again;
    void *gates[2];
    uint64_t native[2];
    for (int i = 0; i < 2; i++) {
        OK(dhow_stream_create(g_sim[0], &g_streams[i]));
        x[i] = full(g_sim[0], COUNT, 1);
        native[i] = x[i]->storage->native;
    }
    OK(dhow_device_sync(g_sim[0]));
    for (int i = 0; i < 2; i++) {
        gates[i] = close_gate(g_streams[i]);
        OK(dhow_fill(g_streams[i], x[i], 2));
    }
    dhow_tensor_release(x[1]); /* the other is the last that was given back */
    dhow_tensor_release(x[0]);
    OK(dhow_tensor_create(g_sim[0], DHOW_F32, DHOW_SHAPE(COUNT), &again));
    cr_assert_eq(again->storage->native, native[1]);
    for (int i = 0; i < 2; i++) open_gate(g_sim[0], gates[i]);
    dhow_tensor_release(again);
    for (int i = 0; i < 2; i++) dhow_stream_release(g_streams[i]);
}

/* ---- arguments ---- */

/* Two tensors over one memory, the second an element further: both begin at their offset 0. */
Test(async, an_alias_is_the_same_memory_not_the_same_offset) {
    open_machine("devices=2", "");
    static float memory[17];
    dhow_module *module;
    dhow_kernel *kernel;
    dhow_tensor *here, *same, *further;
    OK(dhow_module_build(
        g_cpu,
        &DHOW_INIT(dhow_module_source,
                   .text = "KERNEL(twice, (ALIAS(f32, x), ALIAS_OUT(f32, y), VAL(i64, n)))\n"
                           "{ GRID_FOR(i, n) y[i] = 2 * x[i]; }\n"),
        &module));
    OK(dhow_module_kernel(module, "twice", &kernel));
    OK(dhow_tensor_wrap(g_context, DHOW_F32, DHOW_SHAPE(16), memory, NULL, NULL, &here));
    OK(dhow_tensor_wrap(g_context, DHOW_F32, DHOW_SHAPE(16), memory, NULL, NULL, &same));
    OK(dhow_tensor_wrap(g_context, DHOW_F32, DHOW_SHAPE(16), memory + 1, NULL, NULL, &further));
    OK(dhow_launch(NULL, kernel, 16, here, here, 16));
    OK(dhow_launch(NULL, kernel, 16, here, same, 16));
    FAILS(DHOW_INVALID_ARGUMENT, dhow_launch(NULL, kernel, 16, here, further, 16));
    cr_assert_not_null(strstr(dhow_last_error(), "exactly the same tensor would be allowed"));
    dhow_kernel_release(kernel);
    dhow_module_release(module);
    dhow_tensor_release(here);
    dhow_tensor_release(same);
    dhow_tensor_release(further);
}

/* ---- plugins ---- */

static atomic_int g_inside, g_together;

static void enter(void) {
    if (atomic_fetch_add(&g_inside, 1) > 0) atomic_store(&g_together, 1);
    sleep_ms(2);
    (void)atomic_fetch_sub(&g_inside, 1);
}
static int32_t open_slowly(void *self, uint32_t index, void **out, dhow_error *err) {
    enter();
    return g_real->device_open(self, index, out, err);
}
static void close_slowly(void *device) {
    enter();
    g_real->device_close(device);
}

static void *open_devices(void *argument) {
    (void)argument;
    for (int round = 0; round < 5; round++) {
        dhow_context *context;
        OK(dhow_context_create(NULL, &context));
        for (uint32_t i = 0; i < dhow_device_count(context); i++) {
            dhow_device *device;
            OK(dhow_device_at(context, i, &device));
            if (strncmp(dhow_device_name(device), "sim", 3) != 0) continue;
            device->api = &g_patched;
            OK(dhow_device_open(device));
        }
        dhow_context_release(context);
    }
    return NULL;
}

Test(async, a_plugin_s_devices_are_opened_and_closed_by_one_thread_at_a_time) {
    open_machine("devices=2", "");
    pthread_t threads[4];
    g_patched.device_open = open_slowly;
    g_patched.device_close = close_slowly;
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, open_devices, NULL), 0);
    for (int i = 0; i < 4; i++) (void)pthread_join(threads[i], NULL);
    cr_assert_eq(atomic_load(&g_together), 0);
}

/* ---- two threads on the CPU's default stream ---- */

/* Lasts until another thread's launch has begun as well. */
static int32_t meet_in_launch(void *stream, void *kernel, const dhow_geometry *geometry,
                              const dhow_arg *args, uint32_t arg_count, dhow_error *err) {
    atomic_fetch_add(&g_inside, 1);
    for (int ms = 0; ms < 5000 && atomic_load(&g_inside) < 2; ms++)
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (atomic_load(&g_inside) == 2) atomic_fetch_add(&g_together, 1);
    return g_real->launch(stream, kernel, geometry, args, arg_count, err);
}

static void *double_it(void *tensor) {
    return dhow_add(NULL, tensor, tensor, tensor) == DHOW_OK ? NULL : tensor;
}

Test(async, threads_that_share_a_stream_of_the_cpu_do_not_wait_for_each_other) {
    pthread_t thread;
    void *failed;
    open_machine("", "");
    dhow_tensor *mine = full(g_cpu, 16, 1), *theirs = full(g_cpu, 16, 1);
    g_real = g_cpu->api;
    g_patched = *g_real;
    g_patched.launch = meet_in_launch;
    g_cpu->api = &g_patched;
    cr_assert_eq(pthread_create(&thread, NULL, double_it, theirs), 0);
    cr_assert_null(double_it(mine), "%s", dhow_last_error());
    cr_assert_eq(pthread_join(thread, &failed), 0);
    g_cpu->api = g_real;
    g_real = g_sim[0]->api;
    cr_assert_null(failed);
    cr_assert_eq(g_together, 2, "one launch waited for the other to end");
    dhow_tensor_release(mine);
    dhow_tensor_release(theirs);
}
