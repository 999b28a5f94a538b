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
#include "train/schedule.h"

enum { DHOWI_TRAIN_STATES = 2 }; /* arrays that an optimiser keeps */

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
    bool has_target, has_gradients;
    uint64_t steps, backwards;               /* the latter begun */
    dhow_tensor **run_inputs, **run_outputs; /* of `graph`, filled for each run */
};

/* trainer.c: one call at a time, between this and dhowi_single_end(). */
dhow_status dhowi_trainer_enter(const dhow_trainer *t, const char *function);
/* choose.c: the parameters to train, by the options. */
dhow_status dhowi_choose(dhow_trainer *t);
/* flat.c: the place of a tensor in a flat array that has *count elements so far; an array of zeros;
 * a value's part of it, in its own shape; the value as the model has it, into that. */
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
/* graph.c: the training graph of what the trainer has chosen. */
dhow_status dhowi_train_graph(const dhow_trainer *t, dhow_model **out);
/* loss.c: checks what belongs to losses and fills in its defaults; adds the loss of an output. */
dhow_status dhowi_loss_options(dhow_trainer_options *o);
dhow_status dhowi_add_loss(dhow_model *m, const dhow_trainer_options *o, int32_t y,
                           dhow_model_value *out);
/* optimizer.c */
dhow_status dhowi_optimizer_options(const dhow_trainer_options *given, dhow_trainer_options *own);
uint32_t dhowi_optimizer_states(const dhow_trainer_options *options);
/* Words of files: PyTorch's. */
const char *dhowi_optimizer_name(const dhow_trainer_options *options);
const char *dhowi_optimizer_state_name(const dhow_trainer_options *options, uint32_t index);
dhow_status dhowi_optimizer_run(dhow_trainer *t, dhow_stream *stream, dhow_tensor *gradients);
/* The learning rate of the next step. */
double dhowi_trainer_rate(const dhow_trainer *t);
/* A model that scales gradients down to a norm, or cuts each; whether it is wanted. */
bool dhowi_clips(const dhow_trainer_options *options);
dhow_status dhowi_clip_graph(const dhow_trainer *t, dhow_model **out);

#endif /* DHOWI_TRAIN_H_ */
