/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of streams and events: order within and between streams, what waits say, time.
 */
#include "support.h"

enum { COUNT = 100000 };

static conform_result full(conform_env *env, double value, dhow_tensor **out) {
    OWN(TENSOR, out, dhow_tensor_full(env->device, DHOW_F32, DHOW_SHAPE(COUNT), value, out));
    return CONFORM_PASS;
}

static conform_result expect_all(conform_env *env, dhow_tensor *t, float want, const char *what) {
    float *got = conform_memory(env, COUNT * sizeof *got);
    OK(dhow_tensor_read(t, got, COUNT * sizeof *got));
    for (int i = 0; i < COUNT; i++) {
        CHECK(got[i] == want, "%s: element %d is %g, not %g", what, i, (double)got[i],
              (double)want);
    }
    return CONFORM_PASS;
}

static conform_result runs_in_order(conform_env *env) {
    dhow_stream *s;
    dhow_tensor *t, *one;
    OWN(STREAM, &s, dhow_stream_create(env->device, &s));
    TRY(full(env, 0, &t));
    TRY(full(env, 1, &one));
    for (int i = 0; i < 50; i++) OK(dhow_add(s, t, one, t));
    OK(dhow_stream_sync(s));
    OK(dhow_stream_query(s));
    return expect_all(env, t, 50, "sum");
}

static conform_result default_stream(conform_env *env) {
    dhow_stream *s, *again;
    dhow_tensor *t, *one;
    OK(dhow_stream_default(env->device, &s));
    OK(dhow_stream_default(env->device, &again));
    CHECK(s == again && dhow_stream_device(s) == env->device, "two default streams");
    TRY(full(env, 3, &t));
    TRY(full(env, 1, &one));
    OK(dhow_add(s, t, one, t));
    OK(dhow_add(NULL, t, one, t));
    return expect_all(env, t, 5, "sum");
}

/* Tensors alone order the work of two streams: no event, no sync. */
static conform_result two_streams_without_events(conform_env *env) {
    dhow_stream *s[2];
    dhow_tensor *t, *u, *one;
    OWN(STREAM, &s[0], dhow_stream_create(env->device, &s[0]));
    OWN(STREAM, &s[1], dhow_stream_create(env->device, &s[1]));
    TRY(full(env, 0, &t));
    TRY(full(env, 0, &u));
    TRY(full(env, 1, &one));
    for (int i = 0; i < 20; i++) {
        OK(dhow_add(s[i % 2], t, one, u));
        OK(dhow_add(s[(i + 1) % 2], u, one, t));
    }
    return expect_all(env, t, 40, "ping-pong");
}

static conform_result events_order_streams(conform_env *env) {
    dhow_stream *a, *b;
    dhow_event *e;
    dhow_tensor *t, *u;
    OWN(STREAM, &a, dhow_stream_create(env->device, &a));
    OWN(STREAM, &b, dhow_stream_create(env->device, &b));
    OWN(EVENT, &e, dhow_event_create(env->device, 0, &e));
    OK(dhow_event_query(e)); /* never recorded counts as reached */
    OK(dhow_event_sync(e));
    OK(dhow_stream_wait(b, e));
    TRY(full(env, 1, &t));
    TRY(full(env, 0, &u));
    for (int i = 0; i < 10; i++) {
        OK(dhow_fill(a, t, i));
        OK(dhow_event_record(e, a));
        OK(dhow_stream_wait(b, e));
        OK(dhow_copy_async(b, t, u, DHOW_COPY_UNORDERED)); /* only the event orders it */
        OK(dhow_event_record(e, b));
        OK(dhow_stream_wait(a, e));
    }
    OK(dhow_event_sync(e));
    OK(dhow_event_query(e));
    OK(dhow_stream_sync(b));
    return expect_all(env, u, 9, "copied behind the event");
}

static conform_result measures_time(conform_env *env) {
    dhow_event *start, *end, *plain;
    dhow_tensor *t;
    double ms = -1;
    dhow_status status = dhow_event_create(env->device, 1, &start);
    if (status == DHOW_UNSUPPORTED) return conform_unsupported(env, "%s", dhow_last_error());
    OWN(EVENT, &start, status);
    OWN(EVENT, &end, dhow_event_create(env->device, 1, &end));
    OWN(EVENT, &plain, dhow_event_create(env->device, 0, &plain));
    TRY(full(env, 1, &t));
    OK(dhow_event_record(start, NULL));
    for (int i = 0; i < 20; i++) OK(dhow_add(NULL, t, t, t));
    OK(dhow_event_record(end, NULL));
    OK(dhow_event_sync(end));
    OK(dhow_event_elapsed_ms(start, end, &ms));
    CHECK(ms > 0 && ms < 60000, "%g ms", ms);
    FAILS(DHOW_INVALID_ARGUMENT, "created with timing", dhow_event_elapsed_ms(plain, end, &ms));
    return CONFORM_PASS;
}

/* Ten streams read one tensor; then one more writes it. */
static conform_result many_readers(conform_env *env) {
    dhow_stream *s[10];
    dhow_tensor *t, *u[10];
    TRY(full(env, 7, &t));
    for (int i = 0; i < 10; i++) {
        OWN(STREAM, &s[i], dhow_stream_create(env->device, &s[i]));
        TRY(full(env, 0, &u[i]));
    }
    for (int i = 0; i < 10; i++) OK(dhow_abs(s[i], t, u[i]));
    OK(dhow_fill(NULL, t, 8));
    for (int i = 0; i < 10; i++) TRY(expect_all(env, u[i], 7, "reader"));
    return expect_all(env, t, 8, "writer");
}

/* Work of one device that depends on another's, without a wait by the program. */
static conform_result chains_across_devices(conform_env *env) {
    dhow_tensor *t, *one, *there, *back;
    for (uint32_t i = 0; i < dhow_device_count(env->context); i++) {
        dhow_device *other;
        OK(dhow_device_at(env->context, i, &other));
        TRY(full(env, 1, &t));
        TRY(full(env, 1, &one));
        OK(dhow_add(NULL, t, one, t));
        OWN(TENSOR, &there, dhow_tensor_to_async(NULL, t, other, &there));
        OK(dhow_fill(NULL, t, 100)); /* must not reach the copy */
        if (other != env->device) OK(dhow_mul(NULL, there, there, there));
        if (other == env->device) OK(dhow_fill(NULL, there, 4));
        OWN(TENSOR, &back, dhow_tensor_to_async(NULL, there, env->device, &back));
        if (other != env->device) OK(dhow_fill(NULL, there, 100));
        OK(dhow_add(NULL, back, one, back));
        TRY(expect_all(env, back, 5, dhow_device_name(other)));
    }
    return CONFORM_PASS;
}

/* An event of one device holds back a stream of another. */
static conform_result events_cross_devices(conform_env *env) {
    dhow_event *e;
    dhow_tensor *t, *u;
    OWN(EVENT, &e, dhow_event_create(env->device, 0, &e));
    for (uint32_t i = 0; i < dhow_device_count(env->context); i++) {
        dhow_device *other;
        dhow_stream *s;
        OK(dhow_device_at(env->context, i, &other));
        OWN(STREAM, &s, dhow_stream_create(other, &s));
        TRY(full(env, 2, &t));
        OK(dhow_add(NULL, t, t, t));
        OK(dhow_event_record(e, NULL));
        OK(dhow_stream_wait(s, e));
        OWN(TENSOR, &u, dhow_tensor_create(other, DHOW_F32, DHOW_SHAPE(COUNT), &u));
        OK(dhow_copy_async(s, t, u, DHOW_COPY_UNORDERED));
        OK(dhow_stream_sync(s));
        TRY(expect_all(env, u, 4, dhow_device_name(other)));
    }
    return CONFORM_PASS;
}

static conform_result syncs_the_device(conform_env *env) {
    dhow_stream *s[3];
    dhow_tensor *t;
    TRY(full(env, 1, &t));
    for (int i = 0; i < 3; i++) {
        OWN(STREAM, &s[i], dhow_stream_create(env->device, &s[i]));
        OK(dhow_add(s[i], t, t, t));
    }
    OK(dhow_device_sync(env->device));
    for (int i = 0; i < 3; i++) OK(dhow_stream_query(s[i]));
    return expect_all(env, t, 8, "after the sync");
}

/* Everything is let go while it is at work; the values arrive all the same. */
static conform_result releases_while_running(conform_env *env) {
    dhow_tensor *result;
    TRY(full(env, 0, &result));
    for (int i = 0; i < 10; i++) {
        dhow_stream *s;
        dhow_tensor *a, *b;
        OK(dhow_stream_create(env->device, &s));
        OK(dhow_tensor_full(env->device, DHOW_F32, DHOW_SHAPE(COUNT), i, &a));
        OK(dhow_tensor_create(env->device, DHOW_F32, DHOW_SHAPE(COUNT), &b));
        OK(dhow_add(s, a, a, b));
        OK(dhow_add(s, result, b, result));
        dhow_tensor_release(a);
        dhow_tensor_release(b);
        dhow_stream_release(s);
    }
    return expect_all(env, result, 90, "sum");
}

const conform_case conform_stream_cases[] = {
    CASE("stream/order", runs_in_order, "stream"),
    CASE("stream/default", default_stream, "stream"),
    CASE("stream/hazards", two_streams_without_events, "stream"),
    CASE("stream/events", events_order_streams, "stream,event"),
    CASE("stream/time", measures_time, "event"),
    CASE("stream/readers", many_readers, "stream"),
    CASE("stream/devices", chains_across_devices, "stream,devices"),
    CASE("stream/events_devices", events_cross_devices, "stream,event,devices"),
    CASE("stream/device_sync", syncs_the_device, "stream"),
    CASE("stream/release", releases_while_running, "stream,memory"),
};
CASES_END(conform_stream);
