/* SPDX-License-Identifier: Apache-2.0
 *
 * Running a segment of a plan: the run's tensors are put into its commands, which are submitted as
 * one unit of work, or timed or traced one by one.
 */
#include <stdio.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "base/threads/clock.h"
#include "model/plan/plan.h"
#include "stream/span.h"

static void bind(dhowi_segment *seg, const dhowi_run_io *io) {
    for (uint32_t i = 0; i < seg->relocation_count; i++) {
        dhowi_relocation *r = &seg->relocations[i];
        const dhow_tensor *t = r->slot < io->input_count ? io->inputs[r->slot]
                                                         : io->outputs[r->slot - io->input_count];
        *r->handle = t->storage->native;
        *r->offset = r->base + dhowi_tensor_offset_bytes(t);
    }
}

static dhow_status failed(dhow_model *m, dhowi_model_plan *plan, const dhowi_segment *seg,
                          uint32_t step, dhow_error *err, int32_t code) {
    const dhowi_node *node = plan->lowering.steps[seg->first_step + step].node;
    char text[160] = "a copy";
    if (node != NULL) (void)dhowi_node_text(node, text, sizeof text);
    return dhowi_device_failed(m->device, err, code, text);
}

/* With a look at the clock after each command. */
static int32_t run_timed(dhow_model *m, dhowi_segment *seg, uint32_t piece, void *stream,
                         uint32_t *at, dhow_error *err) {
    int32_t code = DHOW_OK;
    if (seg->nanoseconds == NULL)
        seg->nanoseconds = dhowi_alloc_array((size_t)seg->step_count + 1, sizeof(int64_t));
    const dhowi_stop *stop = dhowi_stop_current();
    for (uint32_t i = dhowi_piece_begin(seg, piece); i < seg->cuts[piece] && code == DHOW_OK; i++) {
        const dhowi_command *c = seg->recorder.commands[i];
        const int64_t begin = dhowi_nanoseconds();
        code = dhowi_segment_command(m->device, seg, i, stream, stop, err);
        if (code == DHOW_OK) code = m->device->api->stream_sync(stream, err);
        const int64_t end = dhowi_nanoseconds();
        *at = i;
        if (seg->nanoseconds == NULL) continue;
        seg->nanoseconds[c->step] += end - begin;
    }
    return code;
}

/* What stands before a node's name: its operands may be brought into another layout by a step or a
 * command of their own, which would look like the operation itself. */
static const char *role_of(const dhowi_model_plan *plan, const dhowi_step *step,
                           const dhowi_command *c) {
    const dhowi_step *end = plan->lowering.steps + plan->lowering.step_count;
    const bool first = step + 1 < end && step[1].node == step->node;
    if (step->node == NULL) return "";
    if (step->op == DHOWI_OP_copy && first) return "reorder for ";
    return c->work.kind == DHOWI_WORK_COPY && step->op != DHOWI_OP_copy ? "copy for " : "";
}

static void trace_command(const dhowi_model_plan *plan, const dhowi_segment *seg,
                          dhow_stream *stream, const dhowi_command *c) {
    const dhowi_step *step = &plan->lowering.steps[seg->first_step + c->step];
    dhowi_trace *trace = atomic_load(&stream->device->context->trace);
    char name[160] = "a copy", text[200], result[160];
    const char *shape =
        dhowi_desc_text(&plan->lowering.items[step->out].desc, result, sizeof result);
    if (step->node != NULL) (void)dhowi_node_text(step->node, name, sizeof name);
    (void)snprintf(text, sizeof text, "%s%s", role_of(plan, step, c), name);
    dhowi_span_begin(stream, DHOWI_TRACE_STEP, text, 0, dhowi_trace_keep(trace, shape));
}

/* With a span for each command. */
static int32_t run_traced(dhowi_model_plan *plan, dhowi_segment *seg, uint32_t piece,
                          dhow_stream *stream, uint32_t *at, dhow_error *err) {
    int32_t code = DHOW_OK;
    const dhowi_stop *stop = dhowi_stop_current();
    for (uint32_t i = dhowi_piece_begin(seg, piece); i < seg->cuts[piece] && code == DHOW_OK; i++) {
        trace_command(plan, seg, stream, seg->recorder.commands[i]);
        code = dhowi_segment_command(stream->device, seg, i, stream->native, stop, err);
        *at = i;
    }
    return code;
}

static int32_t run_commands(dhow_model *m, dhowi_model_plan *plan, dhowi_segment *seg,
                            uint32_t piece, dhow_stream *stream, uint32_t *at, dhow_error *err) {
    if (m->profiling) return run_timed(m, seg, piece, stream->native, at, err);
    if (!dhowi_tracing(m->context))
        return dhowi_segment_submit(m->device, seg, piece, stream, at, err);
    if (!dhowi_segment_replays(m->device, seg))
        return run_traced(plan, seg, piece, stream, at, err);
    dhowi_span_begin(stream, DHOWI_TRACE_GRAPH, m->name, 0, NULL);
    return dhowi_segment_submit(m->device, seg, piece, stream, at, err);
}

/* Constants are written before the plan is made; the arenas, inputs and outputs change. Outputs
 * come last; *others are those before them. */
static dhowi_use *uses_of(dhowi_model_plan *plan, uint32_t index, const dhowi_run_io *io,
                          uint32_t *others, uint32_t *count) {
    dhowi_segment *seg = &plan->segments[index];
    const uint32_t outputs = DHOWI_MAX(io->output_count, plan->lowering.result_count);
    const uint32_t room = io->input_count + outputs + index + 1;
    if (seg->uses == NULL) seg->uses = dhowi_alloc_array((size_t)room, sizeof *seg->uses);
    if (seg->uses == NULL) return NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < io->input_count; i++)
        seg->uses[n++] = (dhowi_use){io->inputs[i]->storage, DHOW_ACCESS_READ};
    for (uint32_t i = 0; i <= index; i++) {
        if (plan->segments[i].arena != NULL)
            seg->uses[n++] =
                (dhowi_use){plan->segments[i].arena, DHOW_ACCESS_READ | DHOW_ACCESS_WRITE};
    }
    *others = n;
    for (uint32_t i = 0; i < io->output_count; i++) {
        if (io->outputs[i] != NULL)
            seg->uses[n++] = (dhowi_use){io->outputs[i]->storage, DHOW_ACCESS_WRITE};
    }
    *count = n;
    return seg->uses;
}

static dhow_status run_piece(dhow_model *m, dhowi_model_plan *plan, dhowi_segment *seg,
                             uint32_t piece, dhow_stream *stream, const dhowi_use *uses,
                             uint32_t awaited, uint32_t count) {
    uint32_t at = 0;
    dhow_error err;
    dhowi_error_init(&err);
    DHOWI_TRY(dhowi_stream_begin(stream, uses, awaited));
    const int32_t code = run_commands(m, plan, seg, piece, stream, &at, &err);
    (void)dhowi_stream_end(stream, uses, count, DHOW_OK);
    if (code == DHOW_OK) return DHOW_OK;
    return failed(m, plan, seg, seg->recorder.commands[at]->step, &err, code);
}

dhow_status dhowi_segment_run(dhow_model *m, dhowi_model_plan *plan, uint32_t index,
                              dhowi_run_io *io) {
    dhowi_segment *seg = &plan->segments[index];
    const bool tells = io->groups != NULL && index + 1 == plan->segment_count;
    uint32_t others, count;
    if (seg->recorder.command_count == 0) return DHOW_OK;
    bind(seg, io);
    const dhowi_use *uses = uses_of(plan, index, io, &others, &count);
    if (uses == NULL) return dhowi_fail_memory("dhow_model_run");
    if (tells) DHOWI_TRY(dhowi_segment_cut(m->device, seg, io));
    for (uint32_t i = 0; i < seg->piece_count; i++) {
        /* Who reads the outputs of a piece does not hold up the next. */
        const uint32_t begin = dhowi_piece_begin(seg, i), awaited = begin == 0 ? count : others;
        if (begin < seg->cuts[i])
            DHOWI_TRY(run_piece(m, plan, seg, i, io->stream, uses, awaited, count));
        if (tells && i < io->groups->count)
            DHOWI_TRY(dhowi_groups_tell(io->groups, io->stream, i + 1));
    }
    return DHOW_OK;
}
