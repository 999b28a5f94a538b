/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans: what a model does for inputs of certain shapes, as a list of commands for the plugin. The
 * first run with new shapes makes one; later runs replay it. A plan has several segments where
 * shapes depend on values that the device computes: each ends with values to be looked at.
 */
#ifndef DHOWI_MODEL_PLAN_H_
#define DHOWI_MODEL_PLAN_H_

#include "model/graph/stop.h"
#include "model/lower/lower.h"
#include "model/plan/record.h"

/* A buffer of a command that stands for an input or output of the run. */
typedef struct dhowi_relocation {
    uint64_t *handle, *offset;
    uint64_t base;
    uint32_t slot; /* input, or input_count + output, of the run */
    uint32_t command;
} dhowi_relocation;

enum { DHOWI_SEGMENT_GRAPHS = 4, DHOWI_SEGMENT_PIECES = 16 };

/* A segment recorded for certain tensors, see capture.c. */
typedef struct dhowi_segment_graph {
    uint64_t *bound; /* handle and offset of each relocation */
    uint32_t runs;   /* before it was recorded */
    uint64_t used;   /* the segment's run that bound it last */
    bool recorded;
    void *native[DHOWI_SEGMENT_PIECES]; /* NULL of a piece without commands */
} dhowi_segment_graph;

/* Outputs of a run in groups, whose memory others may read as soon as the stream comes there: told
 * of in their order, each once. See cuts.c. */
typedef struct dhowi_output_groups {
    uint32_t count;        /* below DHOWI_SEGMENT_PIECES */
    const uint32_t *group; /* of each output; `count`: none. It stays the same while plans live */
    dhow_status (*written)(void *user, uint32_t group, dhow_stream *stream);
    void *user;
    uint32_t told; /* so far, by the run */
} dhowi_output_groups;

typedef struct dhowi_segment {
    dhowi_recorder recorder;
    dhowi_storage *arena; /* NULL when nothing needs one */
    uint64_t arena_bytes;
    dhowi_relocation *relocations;
    uint32_t relocation_count, relocation_capacity;
    uint32_t first_step, step_count;
    /* Submitted one after the other, so that groups of outputs are told of between: where each
     * piece ends, the last with the segment. */
    uint32_t cuts[DHOWI_SEGMENT_PIECES], piece_count;
    const uint32_t *cut_for;     /* the groups; NULL: it is in one piece */
    dhow_tensor *guard;          /* what the next segment depends on; NULL for the last one */
    dhow_tensor *guard_host;     /* its values when the plan was made */
    int64_t *nanoseconds;        /* by step, while profiling */
    dhowi_use *uses;             /* room for what a run uses: a replay allocates nothing */
    const dhow_capture *capture; /* NULL: commands are submitted one by one */
    bool capture_known;
    dhowi_segment_graph graphs[DHOWI_SEGMENT_GRAPHS];
    uint32_t graph_count;
    uint64_t graph_runs;
    dhowi_segment_graph *graph; /* of the tensors bound now; NULL: there is no room for one */
} dhowi_segment;

struct dhowi_model_plan {
    struct dhowi_model_plan *next;
    int64_t *key;
    uint32_t key_length;
    dhowi_lowering lowering; /* items, steps; keeps the constants */
    dhowi_segment *segments;
    uint32_t segment_count, segment_capacity;
    dhowi_tensor_desc *outputs; /* of the lowering's results */
    bool *in_place;             /* of each: it is written where the input is that it shares */
    uint64_t runs, copied_bytes;
    bool taken; /* by a run; under the model's mutex */
};

/* One run's tensors. Where a model takes or gives more than tensors, those of sequences stand one
 * after another. */
typedef struct dhowi_run_io {
    dhow_stream *stream;
    dhow_tensor **inputs;  /* contiguous, aligned, on the model's device */
    dhow_tensor **outputs; /* the same; NULL until the plan tells their shapes */
    uint32_t input_count, output_count;
    dhow_datum *const *values;   /* the inputs as they are given; NULL when all are tensors */
    uint32_t *owners;            /* with values: the model's input of each tensor */
    dhow_datum **results;        /* made of the outputs, whose number the plan tells; or NULL */
    dhowi_output_groups *groups; /* NULL: nobody waits for outputs before the run is handed in */
    uint32_t *shares; /* of each output: 1 + the input whose very memory it is, 0; NULL: none is */
} dhowi_run_io;

/* Makes a plan and runs it while doing so. */
dhow_status dhowi_plan_make(dhow_model *m, dhowi_run_io *io, const int64_t *key,
                            uint32_t key_length, dhowi_model_plan **out);
/* Replays; *stale says that values differ from those the plan was made for. */
dhow_status dhowi_plan_replay(dhow_model *m, dhowi_model_plan *plan, dhowi_run_io *io, bool *stale);
/* Runs a segment with the tensors of a run, see segment.c. */
dhow_status dhowi_segment_run(dhow_model *m, dhowi_model_plan *plan, uint32_t index,
                              dhowi_run_io *io);
/* Submits a piece of a bound segment, as a graph of the device where that is possible; under the
 * stream's mutex. *at is the command that failed. */
int32_t dhowi_segment_submit(dhow_device *device, dhowi_segment *seg, uint32_t piece,
                             dhow_stream *stream, uint32_t *at, dhow_error *err);
/* Cuts the plan's last segment where groups of outputs have been written; see cuts.c. */
dhow_status dhowi_segment_cut(dhow_device *device, dhowi_segment *seg, const dhowi_run_io *io);
/* Tells of the groups up to `count`, unless they have been told of. */
dhow_status dhowi_groups_tell(dhowi_output_groups *groups, dhow_stream *stream, uint32_t count);
static inline uint32_t dhowi_piece_begin(const dhowi_segment *seg, uint32_t piece) {
    return piece == 0 ? 0 : seg->cuts[piece - 1];
}
/* The failure of a run that is to stop, in a plugin's words. */
int32_t dhowi_segment_stopped(dhow_status stopped, dhow_error *err);
/* Runs the command `at`, unless the run is to stop before it. */
static inline int32_t dhowi_segment_command(dhow_device *device, const dhowi_segment *seg,
                                            uint32_t at, void *stream, const dhowi_stop *stop,
                                            dhow_error *err) {
    const dhow_status stopped = dhowi_stop_check_run(stop);
    if (stopped != DHOW_OK) return dhowi_segment_stopped(stopped, err);
    return dhowi_work_run(&seg->recorder.commands[at]->work, device, stream, err);
}
/* Whether it runs as a graph, sooner or later. */
bool dhowi_segment_replays(dhow_device *device, dhowi_segment *seg);
/* When its runs have ended. */
void dhowi_segment_end_graphs(dhow_device *device, dhowi_segment *seg);
/* Lowers the model for the shapes it declares, to find out early what the device lacks. What it
 * cannot know without inputs it lets pass. */
dhow_status dhowi_plan_trial(dhow_model *m);
void dhowi_plan_end(dhowi_model_plan *plan);
void dhowi_plans_end(dhow_model *m);

/* Records a step that the CPU computes for the device, see host_fallback.c. `in`, out and second
 * are the step's tensors on the device; known inputs are those of the CPU. */
dhow_status dhowi_record_on_host(dhowi_segment *seg, dhow_stream *stream, dhowi_lowering *b,
                                 dhowi_step *s, dhowi_call *call, uint64_t *copied);

#endif /* DHOWI_MODEL_PLAN_H_ */
