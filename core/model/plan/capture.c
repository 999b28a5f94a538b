/* SPDX-License-Identifier: Apache-2.0
 *
 * Segments as graphs of the device: commands that keep coming with the same tensors are recorded
 * and replayed as one piece, where the device offers dhow.graph/1. A graph holds addresses, so
 * there is one for each set of tensors, up to a few: those that come again push out others.
 */
#include "base/memory/alloc.h"
#include "base/text/text.h"
#include "model/plan/plan.h"
#include "stream/stream.h"

enum {
    RUNS_BEFORE_RECORDING = 3,
    RUNS_UNTIL_STALE = 32 /* a graph of tensors that did not come for so long makes room */
};

int32_t dhowi_segment_stopped(dhow_status stopped, dhow_error *err) {
    (void)dhowi_copy_text(err->message, sizeof err->message, dhow_last_error());
    return (int32_t)stopped;
}

static int32_t run_commands(dhow_device *device, dhowi_segment *seg, uint32_t piece, void *stream,
                            uint32_t *at, dhow_error *err) {
    const dhowi_stop *stop = dhowi_stop_current();
    for (uint32_t i = dhowi_piece_begin(seg, piece); i < seg->cuts[piece]; i++) {
        int32_t code = dhowi_segment_command(device, seg, i, stream, stop, err);
        if (code == DHOW_OK) continue;
        *at = i;
        return code;
    }
    return DHOW_OK;
}

/* NULL where the device records nothing, or a command cannot be recorded. */
static const dhow_capture *capture_of(dhow_device *device, dhowi_segment *seg) {
    if (seg->capture_known) return seg->capture;
    seg->capture_known = true;
    for (uint32_t i = 0; i < seg->recorder.command_count; i++)
        if (seg->recorder.commands[i]->host != NULL) return NULL;
    if (seg->recorder.command_count < 2) return NULL; /* nothing to save */
    seg->capture = dhowi_capture_of(device);
    return seg->capture;
}

static bool is_bound(const dhowi_segment *seg, const dhowi_segment_graph *entry) {
    for (uint32_t i = 0; i < seg->relocation_count; i++) {
        if (entry->bound[2 * i] != *seg->relocations[i].handle ||
            entry->bound[2 * i + 1] != *seg->relocations[i].offset)
            return false;
    }
    return true;
}

static dhowi_segment_graph *new_entry(dhowi_segment *seg) {
    uint64_t *bound = dhowi_alloc_array((size_t)seg->relocation_count * 2 + 1, sizeof *bound);
    if (bound == NULL) return NULL;
    seg->graphs[seg->graph_count] = (dhowi_segment_graph){.bound = bound};
    return &seg->graphs[seg->graph_count++];
}

/* The entry that was not used for longest: one that was never recorded, else a stale one. */
static dhowi_segment_graph *oldest_entry(dhowi_segment *seg) {
    dhowi_segment_graph *oldest = NULL;
    for (uint32_t i = 0; i < seg->graph_count; i++) {
        dhowi_segment_graph *e = &seg->graphs[i];
        if (e->recorded && seg->graph_runs - e->used < RUNS_UNTIL_STALE) continue;
        const bool alike = oldest != NULL && e->recorded == oldest->recorded;
        if (alike ? e->used < oldest->used : oldest == NULL || !e->recorded) oldest = e;
    }
    return oldest;
}

static void destroy_natives(const dhow_capture *capture, dhowi_segment_graph *e) {
    for (uint32_t i = 0; i < DHOWI_SEGMENT_PIECES; i++) {
        if (e->native[i] != NULL) capture->destroy(e->native[i]);
        e->native[i] = NULL;
    }
    e->recorded = false;
}

/* Ends its graph. The stream has been made to wait for every run of the segment. */
static bool clear_entry(dhow_device *device, dhowi_segment *seg, dhowi_segment_graph *e,
                        void *stream) {
    dhow_error err;
    dhowi_error_init(&err);
    if (e->recorded) {
        if (device->api->stream_sync(stream, &err) != DHOW_OK) return false;
        destroy_natives(seg->capture, e);
    }
    *e = (dhowi_segment_graph){.bound = e->bound};
    return true;
}

/* The graph of the tensors bound now, or an entry to count them; NULL when there is no room. */
static dhowi_segment_graph *entry_of(dhow_device *device, dhowi_segment *seg, void *stream) {
    dhowi_segment_graph *e = NULL;
    seg->graph_runs++;
    for (uint32_t i = 0; i < seg->graph_count && e == NULL; i++)
        if (is_bound(seg, &seg->graphs[i])) e = &seg->graphs[i];
    if (e == NULL) {
        const bool room = seg->graph_count < DHOWI_SEGMENT_GRAPHS;
        e = room ? new_entry(seg) : oldest_entry(seg);
        if (e == NULL || (!room && !clear_entry(device, seg, e, stream))) return NULL;
        for (uint32_t i = 0; i < seg->relocation_count; i++) {
            e->bound[2 * i] = *seg->relocations[i].handle;
            e->bound[2 * i + 1] = *seg->relocations[i].offset;
        }
    }
    e->used = seg->graph_runs;
    return e;
}

static int32_t record_piece(dhow_device *device, dhowi_segment *seg, uint32_t piece, void *stream,
                            void **out, dhow_error *err) {
    uint32_t at;
    dhow_error ending;
    dhowi_error_init(&ending);
    int32_t code = seg->capture->begin(stream, err);
    if (code != DHOW_OK) return code;
    code = run_commands(device, seg, piece, stream, &at, err);
    const int32_t ended = seg->capture->end(stream, code == DHOW_OK ? out : NULL, &ending);
    if (code != DHOW_OK || ended == DHOW_OK) return code;
    *err = ending;
    *out = NULL;
    return ended;
}

/* Nothing runs. What cannot be recorded is submitted each time from now on, and the log says why.
 */
static void record(dhow_device *device, dhowi_segment *seg, dhowi_segment_graph *entry,
                   void *stream) {
    dhow_error err;
    int32_t code = DHOW_OK;
    dhowi_error_init(&err);
    for (uint32_t i = 0; i < seg->piece_count && code == DHOW_OK; i++)
        if (dhowi_piece_begin(seg, i) < seg->cuts[i])
            code = record_piece(device, seg, i, stream, &entry->native[i], &err);
    entry->recorded = code == DHOW_OK;
    if (code == DHOW_OK) return;
    destroy_natives(seg->capture, entry);
    seg->capture = NULL;
    (void)dhowi_error_take(&err, code);
    dhowi_log_line(&device->context->log, DHOW_LOG_INFO,
                   "%s: a model's steps are submitted one by one: %s", device->name, err.message);
}

bool dhowi_segment_replays(dhow_device *device, dhowi_segment *seg) {
    return capture_of(device, seg) != NULL;
}

/* With the first piece that is submitted: the graph that all are launched from. */
static void find_graph(dhow_device *device, dhowi_segment *seg, dhow_stream *stream) {
    seg->graph = NULL;
    if (stream->recording != NULL || capture_of(device, seg) == NULL) return;
    seg->graph = entry_of(device, seg, stream->native);
    if (seg->graph != NULL && !seg->graph->recorded && seg->graph->runs++ == RUNS_BEFORE_RECORDING)
        record(device, seg, seg->graph, stream->native);
}

int32_t dhowi_segment_submit(dhow_device *device, dhowi_segment *seg, uint32_t piece,
                             dhow_stream *stream, uint32_t *at, dhow_error *err) {
    if (dhowi_piece_begin(seg, piece) == 0) find_graph(device, seg, stream);
    if (seg->graph != NULL && seg->graph->recorded) {
        *at = dhowi_piece_begin(seg, piece);
        return seg->capture->launch(seg->graph->native[piece], stream->native, err);
    }
    return run_commands(device, seg, piece, stream->native, at, err);
}

void dhowi_segment_end_graphs(dhow_device *device, dhowi_segment *seg) {
    const dhow_capture *capture = seg->graph_count > 0 ? dhowi_capture_of(device) : NULL;
    for (uint32_t i = 0; i < seg->graph_count; i++) {
        destroy_natives(capture, &seg->graphs[i]);
        dhowi_free(seg->graphs[i].bound);
    }
    seg->graph_count = 0;
    seg->graph = NULL;
}
