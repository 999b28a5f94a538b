/* SPDX-License-Identifier: Apache-2.0
 *
 * Training: what the files of this folder share.
 */
#ifndef DHOWI_TRAIN_H_
#define DHOWI_TRAIN_H_

#include "base/objects/handle.h"
#include "base/threads/single.h"
#include "dhow/train.h"
#include "model/lower/lower.h"
#include "model/plan/plan.h"
#include "train/log/log.h"

enum {
    DHOWI_TRAIN_STATES = 2,   /* arrays that an optimiser keeps */
    DHOWI_SCHEDULE_FIELDS = 9 /* besides the kind */
};

/* A parameter that is trained: an extent of the flat arrays. */
typedef struct dhowi_trained {
    int32_t value;                            /* of the model */
    int64_t first;                            /* element */
    dhow_tensor *parameter, *gradient, *more; /* views; `more` of what is to be added */
} dhowi_trained;

/* A running mean or variance that a batch norm changes: an extent of two arrays. */
typedef struct dhowi_statistic {
    int32_t value; /* of the model */
    int64_t first;
    dhow_tensor *running, *next; /* views */
} dhowi_statistic;

typedef struct dhowi_division dhowi_division;

struct dhow_trainer {
    dhowi_handle handle;
    dhowi_single single;
    dhow_model *model;
    dhow_model *graph; /* a copy of the model with loss and derivatives: its inputs are the model's,
                          the parameters to train, running statistics, the target and the key of
                          dropouts, where there are such; its outputs loss, gradients and the next
                          statistics */
    dhow_model *clip;  /* gradients to scaled gradients; NULL: not wanted */
    dhow_trainer_options options; /* defaults filled in, pointers NULL */
    dhow_schedule schedule;       /* of options.learning_rate */
    bool has_schedule;
    dhow_dtype dtype;
    int64_t count; /* elements of each flat array, gaps between parameters included */
    uint32_t trained_count, input_count; /* the latter of the model */
    dhowi_trained *trained;
    dhow_tensor *parameters, *gradients, *more, *clipped, *state[DHOWI_TRAIN_STATES];
    dhowi_statistic *statistics;
    uint32_t statistic_count;
    int64_t statistic_elements;
    dhow_tensor *running, *next; /* of all statistics; NULL without */
    dhow_tensor *loss, *key;     /* key: of dropouts, NULL where there are none */
    dhow_tensor *share;          /* what the loss is multiplied by; NULL: nothing */
    dhow_tensor *scale;   /* the same for derivatives alone; options.loss_scale is its number */
    dhow_model *finite;   /* gradients to a number that is NaN if one of them is not finite */
    uint32_t scale_steps; /* since the scale changed */
    bool left_out;        /* the last step, whose gradients were not finite */
    bool has_target, has_gradients;
    uint64_t steps, backwards;               /* the latter begun */
    double last_rate;                        /* the learning rate of the last step */
    dhow_tensor **run_inputs, **run_outputs; /* of `graph`, filled for each run */
    dhowi_division *division;                /* NULL: one device of one process */
    dhow_loader *loader;                     /* of checkpoints; NULL: none */
    dhow_process_group group;                /* of size 0: none */
    double *numbers;                         /* room for what its processes tell each other */
    dhow_tensor **buckets;                   /* on the host, for parts of arrays; NULL: in place */
    int64_t bucket_count;
    struct dhowi_comm *comm;        /* of the group's devices; NULL: sums go by way of the host */
    dhowi_training_log *log;        /* NULL: none */
    int64_t log_samples, log_epoch; /* since the last update; negative: not known */
    int64_t ignored;                /* of a divided loss by class, as the weights */
    double *class_weights;          /* NULL: ones */
    int64_t class_count;            /* that have weights */
};

/* What a run of the training graph is given beside tensors. */
typedef struct dhowi_piece {
    uint64_t key;        /* of dropouts */
    int64_t first, rows; /* of the whole batch; looked at when that is divided */
    double share;        /* the same: what the loss is multiplied by */
    double scale;        /* what the loss is multiplied by for derivatives, where that is wanted */
} dhowi_piece;

/* Samples of a process in the batch of all, and what divides the loss of that. */
typedef struct dhowi_place {
    double count;
    int64_t first, rows;
} dhowi_place;

/* Of a batch that was checked; 0: none for this process. */
static inline int64_t dhowi_samples_of(const dhow_trainer *t, dhow_tensor *const *inputs) {
    if (t->input_count == 0) return 1;
    return inputs[0] == NULL ? 0 : inputs[0]->rank > 0 ? inputs[0]->shape[0] : 1;
}
/* access.c: one call at a time, between this and dhowi_single_end(). */
dhow_status dhowi_trainer_enter(const dhow_trainer *t, const char *function);
/* Of the last backward; waits for it. */
dhow_status dhowi_trainer_loss(const dhow_trainer *t, double *loss);
/* Of a step that has been made, or left out, for the trainer's log. */
void dhowi_trainer_tell(dhow_trainer *t);
/* Whether batches are divided among devices or processes. */
bool dhowi_divides(const dhow_trainer_options *options);
/* replica.c: what one device has of a trainer: arrays, views of them, what its graph runs with. */
dhow_status dhowi_replica_make(dhow_trainer *t);
/* One on another device, with a copy of the graph that becomes its own; the optimiser's state stays
 * with `t`. */
dhow_status dhowi_replica_of(const dhow_trainer *t, dhow_device *device, dhow_trainer **out);
void dhowi_replica_end(dhow_trainer *t);
/* Gradients go to their array, or to the one of `more`, which is made when it is needed. */
dhow_status dhowi_replica_more(dhow_trainer *t);
/* What a run is given: in run_inputs and run_outputs. */
dhow_status dhowi_replica_bind(dhow_trainer *t, dhow_stream *stream, dhow_tensor *const *inputs,
                               dhow_tensor *target, bool more, const dhowi_piece *piece);
dhow_status dhowi_replica_run(dhow_trainer *t, dhow_stream *stream, dhow_tensor *const *inputs,
                              dhow_tensor *target, bool more, const dhowi_piece *piece,
                              dhowi_output_groups *groups);
dhow_status dhowi_replica_loss(const dhow_trainer *t, double *loss);
/* division.c: several devices and processes. One backward of all, whose gradients end in the
 * trainer's array, or in that of `more`. */
dhow_status dhowi_division_check(const dhow_trainer *t, const dhow_trainer_options *options);
dhow_status dhowi_division_make(dhow_trainer *t, const dhow_trainer_options *options);
void dhowi_division_end(dhowi_division *division);
/* `checked`: what the trainer found of its arguments, which other processes hear of. */
dhow_status dhowi_division_run(dhowi_division *division, dhow_status checked, dhow_stream *stream,
                               dhow_tensor *const *inputs, dhow_tensor *target, bool more,
                               uint64_t key);
/* All processes together, before the first backward: whether sums begin early. */
dhow_status dhowi_division_join(dhowi_division *division, dhowi_saved_error *own);
double dhowi_division_loss(const dhowi_division *division);
uint32_t dhowi_division_count(const dhowi_division *division);
void dhowi_division_at(const dhowi_division *division, uint32_t index, dhow_parallel_member *out);
/* anomaly.c: fails, with the first value that is not finite, where the loss is not. */
dhow_status dhowi_anomaly_tell(dhow_trainer *t, dhow_tensor *const *inputs, dhow_tensor *target,
                               uint64_t key, double loss);
/* process_group.c. A group that a program gave. */
dhow_status dhowi_group_take(const dhow_process_group *given, const char *function,
                             dhow_process_group *out);
/* Room for what is exchanged, made before any process waits for another. */
dhow_status dhowi_group_make(dhow_trainer *t);
void dhowi_group_end(dhow_trainer *t);
/* Lets the devices of all processes sum by themselves, where each has one that can. */
dhow_status dhowi_group_connect(dhow_trainer *t);
/* all_reduce, whose failure names this process. */
dhow_status dhowi_group_add_up(const dhow_process_group *g, dhow_dtype dtype, void *data,
                               int64_t count);
/* Whether sums can begin before the backward is over: in all processes or in none. The first one's
 * *bucket_bytes becomes that of all. */
dhow_status dhowi_group_agree_early(const dhow_trainer *t, bool able, uint64_t *bucket_bytes,
                                    bool *out);
/* Keeps this process's first failure, with its words, until all agree. */
void dhowi_group_note(dhowi_saved_error *own, dhow_status status);
/* Where the samples of this process are among those of all; fails everywhere if `own` does. */
dhow_status dhowi_group_place(const dhow_trainer *t, dhow_status own, double count, int64_t rows,
                              dhowi_place *out);
/* The samples of this process, 0 for none, and where they are in the batch of all; it is that of
 * groups that fails everywhere if `own` does. */
dhow_status dhowi_find_place(const dhow_trainer *t, dhow_status own, dhow_tensor *const *inputs,
                             dhow_tensor *target, int64_t *rows, dhowi_place *out);
/* Whether all are well, and the sum of losses; whether one of them wants to begin *again. */
dhow_status dhowi_group_agree(const dhow_process_group *g, const dhowi_saved_error *own,
                              double *loss, bool *again);
/* The sum of all processes' arrays, or the first process's array, in each. A process that has
 * failed takes part with whatever it has; they are of use once all have agreed. */
dhow_status dhowi_group_sum(const dhow_trainer *t, dhow_stream *stream, dhow_tensor *array,
                            dhowi_saved_error *own);
dhow_status dhowi_group_take_first(const dhow_trainer *t, dhow_stream *stream, dhow_tensor *array,
                                   dhowi_saved_error *own);
/* choose.c: the parameters to train, by the options. */
dhow_status dhowi_choose(dhow_trainer *t);
/* flat.c: the place of a tensor in a flat array that has *count elements so far; an array of
 * zeros; a value's part of it, in its own shape; the value as the model has it, into that. */
int64_t dhowi_flat_take(dhow_dtype dtype, const dhowi_tensor_desc *desc, int64_t *count);
dhow_status dhowi_flat(const dhow_trainer *t, int64_t count, dhow_tensor **out);
dhow_status dhowi_flat_part(const dhow_trainer *t, int32_t value, int64_t first, dhow_tensor *whole,
                            dhow_tensor **out);
dhow_status dhowi_flat_copy_in(const dhow_trainer *t, int32_t value, dhow_tensor *part);
/* statistics.c: of batch norms; none when they are frozen. A statistic is not trained. */
bool dhowi_is_batch_norm(const dhowi_node *n);
bool dhowi_is_statistic(const dhow_model *m, int32_t value);
dhow_status dhowi_statistics_choose(dhow_trainer *t);
dhow_status dhowi_statistics_allocate(dhow_trainer *t);
dhow_status dhowi_statistics_follow(const dhow_trainer *t, dhow_stream *stream);
void dhowi_statistics_end(dhow_trainer *t);
/* schedule.c: checks what a program gave, NULL for all zeros, and fills in defaults. */
dhow_status dhowi_schedule_take(const dhow_schedule *given, const char *function,
                                dhow_schedule *own);
/* Of a schedule that was taken. */
double dhowi_schedule_rate(const dhow_schedule *s, double rate, uint64_t step);
/* Names and numbers of a file. */
const char *dhowi_schedule_field(const dhow_schedule *s, int i, int64_t *number);
void dhowi_schedule_set_field(dhow_schedule *s, int i, int64_t number);
/* graph.c: the training graph of what the trainer has chosen. */
dhow_status dhowi_train_graph(const dhow_trainer *t, dhow_model **out);
/* loss.c: checks what belongs to losses and fills in its defaults; adds the loss of an output. */
dhow_status dhowi_loss_options(dhow_trainer_options *o);
dhow_status dhowi_add_loss(dhow_model *m, const dhow_trainer_options *o, int32_t y,
                           dhow_model_value *out);
/* A divided loss by class is a sum; what divides it, of the targets of a batch. Others are means,
 * of that many samples. */
bool dhowi_loss_sums(const dhow_trainer_options *o);
dhow_status dhowi_loss_keep(dhow_trainer *t);
/* The elements of a tensor on any device, in f64; free them. */
dhow_status dhowi_read_numbers(const char *function, dhow_tensor *x, double **out);
dhow_status dhowi_loss_count(const dhow_trainer *t, dhow_tensor *target, int64_t rows, double *out);
/* optimizer.c */
dhow_status dhowi_optimizer_options(const dhow_trainer_options *given, dhow_precision precision,
                                    dhow_trainer_options *own);
uint32_t dhowi_optimizer_states(const dhow_trainer_options *options);
/* Words of files: PyTorch's. */
const char *dhowi_optimizer_name(const dhow_trainer_options *options);
const char *dhowi_optimizer_state_name(const dhow_trainer_options *options, uint32_t index);
dhow_status dhowi_optimizer_run(dhow_trainer *t, dhow_stream *stream, dhow_tensor *gradients);
/* The learning rate of the next step. */
double dhowi_trainer_rate(const dhow_trainer *t);
/* Scaled losses: whether a scale is a number of that type that is not 0, or infinite; a model that
 * looks at gradients; whether they are finite; what follows for the scale of a step that was made,
 * or left out because they are not. */
bool dhowi_scale_fits(dhow_dtype dtype, double scale);
dhow_status dhowi_scale_check(const dhow_trainer *t);
dhow_status dhowi_scale_graph(const dhow_trainer *t, dhow_model **out);
dhow_status dhowi_scale_look(const dhow_trainer *t, dhow_stream *stream, dhow_tensor *gradients,
                             bool *finite);
dhow_status dhowi_scale_follow(dhow_trainer *t, bool finite);
/* A model that scales gradients down to a norm, or cuts each; whether it is wanted. */
bool dhowi_clips(const dhow_trainer_options *options);
dhow_status dhowi_clip_graph(const dhow_trainer *t, dhow_model **out);

#endif /* DHOWI_TRAIN_H_ */
