/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs, see dhow/graph.h. While a stream records, its submissions leave no timepoints and wait
 * for nothing; what they use is noted, and counts as used by every replay.
 */
#include "dhow/graph.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/text.h"
#include "stream/span.h"

struct dhow_graph {
    dhowi_handle handle;
    dhow_stream *stream; /* retained */
    const dhow_capture *api;
    void *native; /* NULL: `work` is called instead */
    dhow_graph_work *work;
    void *user;
    dhowi_recorded_uses used;
    pthread_mutex_t mutex; /* last */
    dhowi_timepoint last;  /* the latest replay */
    char reason[256];
};

/* ---- while recording ---- */

static void forget_uses(dhowi_recorded_uses *r) {
    for (uint32_t i = 0; i < r->count; i++) dhowi_storage_release(r->uses[i].storage);
    dhowi_free(r->uses);
    *r = (dhowi_recorded_uses){0};
}

/* ---- recording ---- */

const dhow_capture *dhowi_capture_of(dhow_device *device) {
    const dhow_capture *api =
        device->api->get_extension(dhowi_device_native(device), "dhow.graph/1");
    return api != NULL && api->struct_size >= sizeof *api ? api : NULL;
}

static dhow_status run_recorded(dhow_graph *g) {
    dhow_stream *stream = g->stream;
    dhow_error err;
    dhowi_error_init(&err);
    pthread_mutex_lock(&stream->mutex);
    int32_t code = g->api->begin(stream->native, &err);
    if (code == DHOW_OK) stream->recording = &g->used;
    pthread_mutex_unlock(&stream->mutex);
    if (code != DHOW_OK) return dhowi_device_failed(stream->device, &err, code, "recording");
    dhow_status status = g->work(g->user, stream);
    dhowi_saved_error first;
    if (status != DHOW_OK) dhowi_error_save(&first, status);
    dhowi_error_init(&err);
    pthread_mutex_lock(&stream->mutex);
    stream->recording = NULL;
    code = g->api->end(stream->native, status == DHOW_OK ? &g->native : NULL, &err);
    pthread_mutex_unlock(&stream->mutex);
    if (status != DHOW_OK) return dhowi_error_raise(&first);
    if (code != DHOW_OK) return dhowi_device_failed(stream->device, &err, code, "recording");
    return g->used.short_of_memory ? dhowi_fail_memory("graph") : DHOW_OK;
}

/* Capture is best effort: if it fails, each launch resubmits the work, and dhow_graph_reason() says
 * why. */
static dhow_status make_native(dhow_graph *g) {
    dhow_device *device = g->stream->device;
    g->api = dhowi_capture_of(device);
    if (g->api == NULL) {
        (void)snprintf(g->reason, sizeof g->reason, "%s records no graphs", device->name);
        return DHOW_OK;
    }
    DHOWI_TRY(dhowi_stream_sync(g->stream)); /* nothing may be pending that it would wait for */
    dhow_status status = run_recorded(g);
    if (status == DHOW_OK) return DHOW_OK;
    if (g->native != NULL) g->api->destroy(g->native);
    g->native = NULL;
    forget_uses(&g->used);
    if (status == DHOW_DEVICE_LOST || status == DHOW_OUT_OF_MEMORY) return status;
    (void)dhowi_copy_text(g->reason, sizeof g->reason, dhow_last_error());
    dhowi_log_line(&device->context->log, DHOW_LOG_INFO,
                   "a graph is submitted anew at each replay: %s", g->reason);
    return DHOW_OK;
}

static void end_graph(dhow_graph *g) {
    if (g->last.timeline != NULL) (void)g->last.timeline->wait(g->last.timeline, g->last.number);
    if (g->native != NULL) g->api->destroy(g->native);
    forget_uses(&g->used);
    pthread_mutex_destroy(&g->mutex);
    dhowi_handle_free(DHOWI_GRAPH, g);
}

dhow_status dhow_graph_record(dhow_stream *stream, dhow_graph_work *work, void *user,
                              dhow_graph **out) {
    static const char function[] = "dhow_graph_record";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_handle_check(stream, DHOWI_STREAM, function, "stream"));
    if (work == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: work is NULL", function);
    DHOWI_TRY(dhowi_device_usable(stream->device));
    DHOWI_TRY(dhowi_stream_refuse_recording(stream, "a graph in a graph"));
    DHOWI_TRY(work(user, stream));
    dhow_graph *g = dhowi_handle_new(DHOWI_GRAPH, sizeof *g);
    if (g == NULL) return dhowi_fail_memory("graph");
    g->stream = stream;
    g->work = work;
    g->user = user;
    pthread_mutex_init(&g->mutex, NULL);
    dhow_status status = make_native(g);
    if (status != DHOW_OK) {
        dhowi_saved_error first;
        dhowi_error_save(&first, status);
        end_graph(g);
        return dhowi_error_raise(&first);
    }
    dhowi_handle_retain(&stream->handle);
    *out = g;
    return DHOW_OK;
}

/* ---- replaying ---- */

static dhow_status launch(dhow_graph *g, dhow_stream *stream) {
    dhow_error err;
    dhowi_error_init(&err);
    DHOWI_TRY(dhowi_stream_begin(stream, g->used.uses, g->used.count));
    dhowi_span_begin(stream, DHOWI_TRACE_GRAPH, "graph", 0, NULL);
    int32_t code = g->api->launch(g->native, stream->native, &err);
    (void)dhowi_stream_end(stream, g->used.uses, g->used.count, (dhow_status)code);
    if (code != DHOW_OK) return dhowi_device_failed(stream->device, &err, code, "a graph");
    pthread_mutex_lock(&g->mutex);
    g->last = dhowi_stream_tail(stream);
    pthread_mutex_unlock(&g->mutex);
    return DHOW_OK;
}

dhow_status dhow_graph_replay(dhow_graph *graph, dhow_stream *stream) {
    static const char function[] = "dhow_graph_replay";
    DHOWI_TRY(dhowi_handle_check(graph, DHOWI_GRAPH, function, "graph"));
    if (stream == NULL) stream = graph->stream;
    DHOWI_TRY(dhowi_stream_resolve(stream, graph->stream->device, function, &stream));
    DHOWI_TRY(dhowi_device_usable(stream->device));
    DHOWI_TRY(dhowi_stream_refuse_recording(stream, "a graph in a graph"));
    return graph->native != NULL ? launch(graph, stream) : graph->work(graph->user, stream);
}

const char *dhow_graph_reason(const dhow_graph *graph) {
    return dhowi_handle_is(graph, DHOWI_GRAPH) ? graph->reason : "";
}

void dhow_graph_release(dhow_graph *graph) {
    DHOWI_KEEP_ERROR;
    if (!dhowi_handle_is(graph, DHOWI_GRAPH) || !dhowi_handle_drop(&graph->handle)) return;
    dhow_stream *stream = graph->stream;
    if (stream->device->fork_generation == dhowi_fork_generation()) {
        end_graph(graph);
    } else { /* the parent's objects are left alone */
        dhowi_handle_free(DHOWI_GRAPH, graph);
    }
    dhow_stream_release(stream);
}
