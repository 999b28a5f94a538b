/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of streams and events as slots. Where the device can wait for the host, a gate holds a
 * stream back, so that what must not have happened yet can be told from what was merely slow.
 */
#include <sched.h>
#include <time.h>

#include "slots.h"

enum { BYTES = 4 << 20 };

typedef struct scene {
    void *a, *b, *gate, *event;
    uint64_t x, y;
    unsigned char *out;
    uint32_t pinned;
    bool gated;
} scene;

/* Two streams, the first of them held back if that can be done. */
static conform_result set_scene(conform_env *env, scene *s) {
    memset(s, 0, sizeof *s);
    TRY(slot_stream(env, &s->a));
    TRY(slot_stream(env, &s->b));
    TRY(slot_event(env, 0, &s->event));
    TRY(slot_memory(env, BYTES, &s->x));
    TRY(slot_memory(env, BYTES, &s->y));
    TRY(slot_pinned(env, BYTES, (void **)&s->out, &s->pinned));
    memset(s->out, 0, BYTES);
    SLOT(API->fill(s->a, s->x, 0, BYTES, 1, 1, ERR));
    TRY(slot_sync(env, s->a));
    conform_result gate = slot_gate(env, &s->gate);
    if (gate == CONFORM_FAIL) return gate;
    s->gated = gate == CONFORM_PASS;
    env->message[0] = '\0';
    if (s->gated) SLOT(API->stream_wait(s->a, s->gate, ERR));
    return CONFORM_PASS;
}

static conform_result let_go(conform_env *env, scene *s) {
    return s->gated ? slot_gate_open(env, s->gate) : CONFORM_PASS;
}

/* What waits for the gate goes on waiting: work that was not held back has the time to show it. */
static conform_result stays_held(conform_env *env, const scene *s, void *stream, const char *what) {
    for (int i = 0; s->gated && i < 50; i++) {
        SLOT_IS(DHOW_NOT_READY, API->stream_query(stream, ERR), "%s", what);
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return CONFORM_PASS;
}

static conform_result to_host(conform_env *env, const scene *s, void *stream, uint64_t handle) {
    const dhow_copy_rect rect =
        slot_flat(slot_device_end(handle, 0, 0, 0), slot_host_end(s->out, s->pinned, 0, 0), BYTES);
    SLOT(API->copy(stream, &rect, ERR));
    return CONFORM_PASS;
}

static conform_result expect_out(conform_env *env, const scene *s, int want, const char *what) {
    for (uint32_t i = 0; i < BYTES; i++)
        CHECK(s->out[i] == want, "%s: byte %u is %d, not %d", what, i, s->out[i], want);
    return CONFORM_PASS;
}

/* ---- one stream ---- */

static conform_result runs_in_order(conform_env *env) {
    scene s;
    TRY(set_scene(env, &s));
    const dhow_copy_rect within =
        slot_flat(slot_device_end(s.x, 0, 0, 0), slot_device_end(s.y, 0, 0, 0), BYTES);
    for (unsigned i = 1; i <= 20; i++) {
        SLOT(API->fill(s.a, s.x, 0, BYTES, i, 1, ERR));
        if (i == 10) SLOT(API->copy(s.a, &within, ERR));
    }
    TRY(let_go(env, &s));
    TRY(to_host(env, &s, s.a, s.y));
    TRY(slot_sync(env, s.a));
    TRY(expect_out(env, &s, 10, "what the copy between the fills saw"));
    TRY(to_host(env, &s, s.a, s.x));
    TRY(slot_sync(env, s.a));
    return expect_out(env, &s, 20, "the last fill");
}

static conform_result sync_waits(conform_env *env) {
    scene s;
    TRY(set_scene(env, &s));
    TRY(let_go(env, &s));
    for (unsigned i = 1; i <= 10; i++) {
        SLOT(API->fill(s.a, s.x, 0, BYTES, i, 1, ERR));
        TRY(to_host(env, &s, s.a, s.x));
        TRY(slot_sync(env, s.a));
        TRY(expect_out(env, &s, (int)i, "after stream_sync"));
        SLOT_IS(DHOW_OK, API->stream_query(s.a, ERR), "an idle stream");
    }
    return CONFORM_PASS;
}

static conform_result queries_streams(conform_env *env) {
    scene s;
    TRY(set_scene(env, &s));
    SLOT_IS(DHOW_OK, API->stream_query(s.b, ERR), "a stream without work");
    if (!s.gated) return conform_unsupported(env, "nothing can hold a stream back");
    SLOT(API->fill(s.a, s.x, 0, BYTES, 2, 1, ERR));
    SLOT_IS(DHOW_NOT_READY, API->stream_query(s.a, ERR), "a stream that is held back");
    TRY(let_go(env, &s));
    TRY(slot_sync(env, s.a));
    SLOT_IS(DHOW_OK, API->stream_query(s.a, ERR), "a stream after stream_sync");
    return CONFORM_PASS;
}

/* A copy reads its source when it runs: from pinned memory, and from any where the device says so.
 */
static conform_result reads_sources_late(conform_env *env) {
    scene s;
    TRY(set_scene(env, &s));
    const bool any = (env->slots->desc.flags & DHOW_DEVICE_PAGEABLE_ASYNC) != 0;
    unsigned char *plain = conform_memory(env, BYTES);
    if (!s.gated) return conform_unsupported(env, "a stream of the device cannot be held back");
    if (s.pinned == 0 && !any) return conform_unsupported(env, "no memory can be pinned");
    for (int pinned = any ? 0 : 1; pinned <= (int)s.pinned; pinned++) {
        unsigned char *from = pinned != 0 ? s.out : plain;
        uint64_t to = pinned != 0 ? s.x : s.y;
        const dhow_copy_rect rect = slot_flat(slot_host_end(from, (uint32_t)pinned, 0, 0),
                                              slot_device_end(to, 0, 0, 0), BYTES);
        memset(from, 3, BYTES);
        SLOT(API->copy(s.a, &rect, ERR));
        memset(from, 4, BYTES);
    }
    TRY(let_go(env, &s));
    TRY(slot_sync(env, s.a));
    for (int pinned = any ? 0 : 1; pinned <= (int)s.pinned; pinned++) {
        TRY(to_host(env, &s, s.a, pinned != 0 ? s.x : s.y));
        TRY(slot_sync(env, s.a));
        TRY(expect_out(env, &s, 4, pinned != 0 ? "from pinned memory" : "from memory"));
    }
    return CONFORM_PASS;
}

/* ---- events ---- */

static conform_result new_events_are_reached(conform_env *env) {
    scene s;
    TRY(set_scene(env, &s));
    SLOT_IS(DHOW_OK, API->event_query(s.event, ERR), "an event never recorded");
    SLOT(API->event_sync(s.event, ERR));
    SLOT(API->stream_wait(s.b, s.event, ERR));
    TRY(let_go(env, &s));
    return slot_sync(env, s.b);
}

static conform_result queries_events(conform_env *env) {
    scene s;
    TRY(set_scene(env, &s));
    SLOT(API->fill(s.a, s.x, 0, BYTES, 2, 1, ERR));
    SLOT(API->event_record(s.event, s.a, ERR));
    if (s.gated)
        SLOT_IS(DHOW_NOT_READY, API->event_query(s.event, ERR),
                "an event recorded behind work that has not begun");
    TRY(let_go(env, &s));
    SLOT(API->event_sync(s.event, ERR));
    SLOT_IS(DHOW_OK, API->event_query(s.event, ERR), "an event after event_sync");
    TRY(to_host(env, &s, s.b, s.x));
    TRY(slot_sync(env, s.b));
    return expect_out(env, &s, 2, "behind a reached event");
}

/* A query that says OK too early shows in what the host then reads. */
static conform_result reached_means_done(conform_env *env) {
    scene s;
    TRY(set_scene(env, &s));
    TRY(let_go(env, &s));
    for (unsigned i = 1; i <= 10; i++) {
        int32_t code;
        for (int k = 0; k < 4; k++) SLOT(API->fill(s.a, s.y, 0, BYTES, i, 1, ERR));
        SLOT(API->fill(s.a, s.x, 0, BYTES, i, 1, ERR));
        TRY(to_host(env, &s, s.a, s.x));
        SLOT(API->event_record(s.event, s.a, ERR));
        while ((code = API->event_query(s.event, ERR)) == DHOW_NOT_READY) (void)sched_yield();
        SLOT(code);
        CHECK(s.out[BYTES - 1] == i, "event_query is OK before the copy has run");
    }
    return CONFORM_PASS;
}

static conform_result records_again(conform_env *env) {
    scene s;
    TRY(set_scene(env, &s));
    SLOT(API->event_record(s.event, s.b, ERR));
    SLOT(API->event_sync(s.event, ERR));
    SLOT(API->fill(s.a, s.x, 0, BYTES, 3, 1, ERR));
    SLOT(API->event_record(s.event, s.a, ERR));
    if (s.gated)
        SLOT_IS(DHOW_NOT_READY, API->event_query(s.event, ERR),
                "an event recorded again, behind work that has not begun");
    TRY(let_go(env, &s));
    SLOT(API->event_sync(s.event, ERR));
    TRY(to_host(env, &s, s.b, s.x));
    TRY(slot_sync(env, s.b));
    return expect_out(env, &s, 3, "behind the second record");
}

static conform_result waits_for_events(conform_env *env) {
    scene s;
    TRY(set_scene(env, &s));
    for (unsigned k = 0; k < 8; k++) SLOT(API->fill(s.a, s.y, 0, BYTES, k, 1, ERR));
    SLOT(API->fill(s.a, s.x, 0, BYTES, 5, 1, ERR));
    SLOT(API->event_record(s.event, s.a, ERR));
    SLOT(API->stream_wait(s.b, s.event, ERR));
    TRY(to_host(env, &s, s.b, s.x));
    TRY(stays_held(env, &s, s.b, "a stream that waits for an event that is not reached"));
    TRY(let_go(env, &s));
    TRY(slot_sync(env, s.b));
    return expect_out(env, &s, 5, "behind the wait");
}

/* The wait stands for the record that was the latest when it was submitted, and needs the event no
 * more. */
static conform_result waits_outlive_events(conform_env *env) {
    scene s;
    void *idle;
    TRY(set_scene(env, &s));
    TRY(slot_stream(env, &idle));
    SLOT(API->fill(s.a, s.x, 0, BYTES, 6, 1, ERR));
    SLOT(API->event_record(s.event, s.a, ERR));
    SLOT(API->stream_wait(s.b, s.event, ERR));
    TRY(to_host(env, &s, s.b, s.x));
    SLOT(API->event_record(s.event, idle, ERR));
    TRY(slot_sync(env, idle));
    TRY(stays_held(env, &s, s.b, "a stream whose event was recorded again after the wait"));
    API->event_destroy(s.event);
    slot_disown(env, s.event, 0);
    TRY(stays_held(env, &s, s.b, "a stream whose event was destroyed after the wait"));
    TRY(let_go(env, &s));
    TRY(slot_sync(env, s.b));
    return expect_out(env, &s, 6, "behind the wait for the first record");
}

/* ---- the host's events ---- */

static conform_result lets_waiters_go(conform_env *env) {
    void *stream, *gate;
    TRY(slot_stream(env, &stream));
    TRY(slot_gate(env, &gate));
    SLOT_IS(DHOW_NOT_READY, API->event_query(gate, ERR), "a host event that nobody signalled");
    SLOT(API->stream_wait(stream, gate, ERR));
    API->event_destroy(gate);
    slot_disown(env, gate, 0);
    return slot_sync(env, stream);
}

static conform_result signals_before_waits(conform_env *env) {
    void *stream, *gate;
    TRY(slot_stream(env, &stream));
    TRY(slot_gate(env, &gate));
    TRY(slot_gate_open(env, gate));
    SLOT_IS(DHOW_OK, API->event_query(gate, ERR), "a host event after event_signal");
    SLOT(API->event_sync(gate, ERR));
    SLOT(API->stream_wait(stream, gate, ERR));
    return slot_sync(env, stream);
}

/* ---- time ---- */

static conform_result measures_time(conform_env *env) {
    scene s;
    void *event[3];
    int64_t first = -1, second = -1, whole = -1;
    NEEDS_SLOT(event_elapsed);
    TRY(set_scene(env, &s));
    TRY(let_go(env, &s));
    for (int i = 0; i < 3; i++) {
        void *made = NULL;
        int32_t code = API->event_create(DEVICE, DHOW_EVENT_TIMING, &made, ERR);
        if (code == DHOW_UNSUPPORTED)
            return conform_unsupported(env, "%.480s", env->slots->err.message);
        SLOT(code);
        API->event_destroy(made);
        TRY(slot_event(env, DHOW_EVENT_TIMING, &event[i]));
    }
    for (int i = 0; i < 3; i++) {
        SLOT(API->event_record(event[i], s.a, ERR));
        for (unsigned k = 0; k < 4; k++) SLOT(API->fill(s.a, s.x, 0, BYTES, k, 1, ERR));
    }
    SLOT(API->event_sync(event[2], ERR));
    SLOT(API->event_elapsed(event[0], event[1], &first, ERR));
    SLOT(API->event_elapsed(event[1], event[2], &second, ERR));
    SLOT(API->event_elapsed(event[0], event[2], &whole, ERR));
    CHECK(first > 0 && second > 0, "%" PRId64 " ns and %" PRId64 " ns around real work", first,
          second);
    CHECK(whole >= first && whole >= second,
          "%" PRId64 " ns in all, of which %" PRId64 " and %" PRId64 " ns", whole, first, second);
    return CONFORM_PASS;
}

static int64_t now_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A known delay, held by a gate: the times of events are nanoseconds, and recording one with a time
 * stamp waits for nobody. */
static conform_result measures_a_known_delay(conform_env *env) {
    enum { DELAY = 60000000 };
    scene s;
    void *event[2];
    int64_t took = -1;
    NEEDS_SLOT(event_elapsed);
    TRY(set_scene(env, &s));
    if (!s.gated) return conform_unsupported(env, "the device cannot wait for the host");
    for (int i = 0; i < 2; i++) {
        int32_t code = API->event_create(DEVICE, DHOW_EVENT_TIMING, &event[i], ERR);
        if (code == DHOW_UNSUPPORTED) return conform_unsupported(env, "no events with time stamps");
        SLOT(code);
        API->event_destroy(event[i]);
        TRY(slot_event(env, DHOW_EVENT_TIMING, &event[i]));
    }
    const int64_t begin = now_ns();
    SLOT(API->fill(s.b, s.x, 0, BYTES, 1, 1, ERR));
    SLOT(API->event_record(event[0], s.b, ERR));
    SLOT(API->event_sync(event[0], ERR));
    SLOT(API->fill(s.a, s.y, 0, BYTES, 1, 1, ERR));
    SLOT(API->event_record(event[1], s.a, ERR)); /* behind the gate */
    (void)nanosleep(&(struct timespec){.tv_nsec = DELAY}, NULL);
    TRY(let_go(env, &s));
    SLOT(API->event_sync(event[1], ERR));
    const int64_t whole = now_ns() - begin;
    SLOT(API->event_elapsed(event[0], event[1], &took, ERR));
    CHECK(took >= DELAY / 2 && took <= 2 * whole,
          "event_elapsed says %" PRId64 " ns where the host waited for %d of %" PRId64
          " ns: are they nanoseconds?",
          took, DELAY, whole);
    return CONFORM_PASS;
}

/* ---- what goes wrong later ---- */

static conform_result reports_failed_work(conform_env *env) {
    unsigned char data[4096] = {1};
    void *stream;
    uint64_t handle;
    TRY(slot_stream(env, &stream));
    TRY(slot_memory(env, sizeof data, &handle));
    const dhow_copy_rect up =
        slot_flat(slot_host_end(data, 0, 0, 0), slot_device_end(handle, 0, 0, 0), sizeof data);
    int32_t now = API->copy(stream, &up, ERR);
    CHECK(now == DHOW_OK, "the copy fails at once with %s; the fault is to be one of its work",
          slot_status(now));
    int32_t later = API->stream_sync(stream, ERR);
    CHECK(later != DHOW_OK, "stream_sync is OK although the copy before it failed");
    CHECK(env->slots->err.message[0] != '\0', "stream_sync: %s without a message",
          slot_status(later));
    if (later == DHOW_DEVICE_LOST) return CONFORM_PASS;
    SLOT_IS(DHOW_OK, API->stream_sync(stream, ERR), "a failure that was reported before");
    return slot_write(env, stream, handle, 0, data, sizeof data); /* and works on */
}

/* The failure of a stream ends with it, and is not one of the next stream in its place. */
static conform_result forgets_streams(conform_env *env) {
    unsigned char data[4096] = {1};
    void *stream;
    uint64_t handle;
    int32_t code = API->mem_alloc(DEVICE, sizeof data, &handle, ERR);
    if (code == DHOW_DEVICE_LOST)
        return conform_unsupported(env, "the device does not outlive a failure");
    SLOT(code);
    SLOT(API->stream_create(DEVICE, 0, &stream, ERR));
    const dhow_copy_rect up =
        slot_flat(slot_host_end(data, 0, 0, 0), slot_device_end(handle, 0, 0, 0), sizeof data);
    code = API->copy(stream, &up, ERR);
    API->stream_destroy(stream);
    API->mem_free(DEVICE, handle);
    CHECK(code == DHOW_OK, "the copy fails at once with %s; the fault is to be one of its work",
          slot_status(code));
    for (int i = 0; i < 4; i++) {
        code = API->stream_create(DEVICE, 0, &stream, ERR);
        if (code == DHOW_OK) {
            code = API->stream_sync(stream, ERR);
            API->stream_destroy(stream);
        }
        if (code == DHOW_DEVICE_LOST) return CONFORM_PASS;
        CHECK(code == DHOW_OK, "a stream made after another had failed begins with %s: %.300s",
              slot_status(code), env->slots->err.message);
    }
    return CONFORM_PASS;
}

const conform_case conform_order_cases[] = {
    CASE("order/stream", runs_in_order, "stream"),
    CASE("order/sync", sync_waits, "stream"),
    CASE("order/stream_query", queries_streams, "stream"),
    CASE("order/late_source", reads_sources_late, "stream"),
    CASE("order/new_event", new_events_are_reached, "event"),
    CASE("order/event_query", queries_events, "event"),
    CASE("order/reached", reached_means_done, "event"),
    CASE("order/record_again", records_again, "event"),
    CASE("order/wait", waits_for_events, "stream,event"),
    CASE("order/wait_outlives", waits_outlive_events, "stream,event"),
    CASE("order/host_event", signals_before_waits, "event"),
    CASE("order/host_event_gone", lets_waiters_go, "event"),
    CASE("order/time", measures_time, "event"),
    CASE("order/delay", measures_a_known_delay, "event"),
};
CASES_END(conform_order);

const conform_case conform_fault_cases[] = {
    CASE("fault/async", reports_failed_work, "stream,error"),
    CASE("fault/next_stream", forgets_streams, "stream,error"),
};
CASES_END(conform_fault);
