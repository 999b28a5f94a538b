/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs that others wait for while the run goes on: a segment is cut behind the last command that
 * touches each group of them, and submitted piece by piece. What writes a group that comes later in
 * the order may come earlier in the segment; it is told of when its turn has come.
 */
#include "base/memory/size.h"
#include "model/plan/plan.h"

/* The end of each group: the whole segment's where an output is written in no command of it. */
static void find_ends(const dhowi_segment *seg, const dhowi_run_io *io, uint32_t *ends) {
    const dhowi_output_groups *g = io->groups;
    for (uint32_t i = 0; i < g->count; i++) ends[i] = 0;
    for (uint32_t i = 0; i < io->output_count; i++) {
        if (g->group[i] >= g->count) continue;
        uint32_t end = 0;
        for (uint32_t r = 0; r < seg->relocation_count; r++)
            if (seg->relocations[r].slot == io->input_count + i)
                end = DHOWI_MAX(end, seg->relocations[r].command + 1);
        if (end == 0) end = seg->recorder.command_count;
        ends[g->group[i]] = DHOWI_MAX(ends[g->group[i]], end);
    }
    for (uint32_t i = 1; i < g->count; i++) ends[i] = DHOWI_MAX(ends[i], ends[i - 1]);
}

/* Graphs of other pieces have ended when the stream has done what it was given. */
static dhow_status drop_graphs(dhow_device *device, dhowi_segment *seg, dhow_stream *stream) {
    if (seg->graph_count == 0) return DHOW_OK;
    DHOWI_TRY(dhow_stream_sync(stream));
    if (seg->arena != NULL) DHOWI_TRY(dhowi_hazard_wait(&seg->arena->hazard, DHOW_ACCESS_WRITE));
    dhowi_segment_end_graphs(device, seg);
    return DHOW_OK;
}

dhow_status dhowi_segment_cut(dhow_device *device, dhowi_segment *seg, const dhowi_run_io *io) {
    if (seg->cut_for == io->groups->group) return DHOW_OK;
    DHOWI_TRY(drop_graphs(device, seg, io->stream));
    find_ends(seg, io, seg->cuts);
    seg->cuts[io->groups->count] = seg->recorder.command_count;
    seg->piece_count = io->groups->count + 1;
    seg->cut_for = io->groups->group;
    return DHOW_OK;
}

dhow_status dhowi_groups_tell(dhowi_output_groups *groups, dhow_stream *stream, uint32_t count) {
    while (groups->told < count) {
        const uint32_t group = groups->told++;
        DHOWI_TRY(groups->written(groups->user, group, stream));
    }
    return DHOW_OK;
}
