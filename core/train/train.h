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

enum { DHOWI_TRAIN_STATES = 2 }; /* arrays that an optimiser keeps */

/* A parameter that is trained: an extent of the flat arrays. */
typedef struct dhowi_trained {
    int32_t value;                            /* of the model */
    int64_t first;                            /* element */
    dhow_tensor *parameter, *gradient, *more; /* views; `more` of what is to be added */
} dhowi_trained;

struct dhow_trainer {
    dhowi_handle handle;
    dhowi_single single;
    dhow_model *model;
    dhow_model *graph; /* a copy of the model with loss and derivatives: its inputs are the model's,
                          the parameters to train, the target and the key of dropouts, where there
                          are such; its outputs loss and gradients */
    dhow_model *clip;  /* gradients to scaled gradients; NULL: not wanted */
    dhow_trainer_options options; /* defaults filled in */
    dhow_dtype dtype;
    int64_t count; /* elements of each flat array, gaps between parameters included */
    uint32_t trained_count, input_count; /* the latter of the model */
    dhowi_trained *trained;
    dhow_tensor *parameters, *gradients, *more, *clipped, *state[DHOWI_TRAIN_STATES];
    dhow_tensor *loss, *key; /* key: of dropouts, NULL where there are none */
    bool has_target, has_gradients;
    uint64_t steps, backwards;               /* the latter begun */
    dhow_tensor **run_inputs, **run_outputs; /* of `graph`, filled for each run */
};

/* trainer.c: one call at a time, between this and dhowi_single_end(). */
dhow_status dhowi_trainer_enter(const dhow_trainer *t, const char *function);
/* A parameter's part of a flat array, in its own shape. */
dhow_status dhowi_trained_part(const dhow_trainer *t, const dhowi_trained *p, dhow_tensor *whole,
                               dhow_tensor **out);
/* graph.c: the training graph. `values` are the parameters to train. */
dhow_status dhowi_train_graph(dhow_model *model, dhow_loss loss, const int32_t *values,
                              uint32_t count, dhow_model **out);
/* optimizer.c */
dhow_status dhowi_optimizer_options(const dhow_trainer_options *given, dhow_trainer_options *own);
uint32_t dhowi_optimizer_states(const dhow_trainer_options *options);
/* Words of files: PyTorch's. */
const char *dhowi_optimizer_name(const dhow_trainer_options *options);
const char *dhowi_optimizer_state_name(const dhow_trainer_options *options, uint32_t index);
dhow_status dhowi_optimizer_run(dhow_trainer *t, dhow_stream *stream, dhow_tensor *gradients);
/* A model that scales gradients down to a norm. */
dhow_status dhowi_clip_graph(const dhow_trainer *t, dhow_model **out);

#endif /* DHOWI_TRAIN_H_ */
