/* SPDX-License-Identifier: Apache-2.0
 *
 * core/stream/event.c over a driver that is made of two numbers: an event recorded anew while
 * others look at it never ends the work of its earlier stream.
 */
#include "hooks.h"
#include "scenarios.h"
#include "stream/stream.h"

/* Stream 0 never gets on, stream 1 is done with everything. */
static struct { const dhow_stream *stream; } g_native;
static dhow_plugin g_api;
static dhow_context g_context;
static dhow_device g_device;
static dhow_stream g_streams[2];
static dhow_event g_event;

static int32_t record(void *event, void *stream, dhow_error *err) {
    (void)event, (void)err;
    interleave_step(INTERLEAVE_WRITE, &g_native);
    g_native.stream = stream;
    return DHOW_OK;
}
static int32_t query(void *event, dhow_error *err) {
    (void)event, (void)err;
    interleave_step(INTERLEAVE_READ, &g_native);
    return g_native.stream == &g_streams[1] ? DHOW_OK : DHOW_NOT_READY;
}

static void begin(void) {
    g_api = (dhow_plugin){.event_record = record, .event_query = query};
    g_context = (dhow_context){.validate = false};
    g_device = (dhow_device){.api = &g_api, .context = &g_context};
    g_device.handle.magic = DHOWI_MAGIC(DHOWI_DEVICE);
    for (int i = 0; i < 2; i++) {
        g_streams[i] = (dhow_stream){.device = &g_device, .native = &g_streams[i]};
        g_streams[i].handle.magic = DHOWI_MAGIC(DHOWI_STREAM);
    }
    g_event = (dhow_event){.device = &g_device};
    g_event.handle.magic = DHOWI_MAGIC(DHOWI_EVENT);
    g_device.desc.kind = DHOW_DEVICE_SIMULATED;
    if (dhow_event_record(&g_event, &g_streams[0]) != DHOW_OK) interleave_fail("no record");
}

static void ask(void) {
    dhow_status status = dhow_event_query(&g_event);
    if (status != DHOW_OK && status != DHOW_NOT_READY) interleave_fail("%s", dhow_last_error());
}
static void record_on(int stream) {
    if (dhow_event_record(&g_event, &g_streams[stream]) != DHOW_OK)
        interleave_fail("%s", dhow_last_error());
}
static void record_anew(void) { record_on(1); }
static void record_back(void) {
    record_on(1);
    record_on(0);
}

static void end(void) {
    if (atomic_load(&g_streams[0].timeline.completed) > 0)
        interleave_fail("work that nobody has done counts as done");
}

const scenario interleave_events[] = {
    {"an event is recorded anew while somebody asks for it", begin, {ask, record_anew}, end},
    {"an event is recorded anew, and back, while somebody asks for it",
     begin,
     {ask, record_back},
     end},
    {NULL, NULL, {NULL}, NULL}};
