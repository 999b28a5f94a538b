/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ways of running a model share.
 */
#ifndef DHOWI_MODEL_RUN_H_
#define DHOWI_MODEL_RUN_H_

#include "model/graph/access.h"
#include "model/plan/plan.h"

/* Makes the results of a run by a plan, see results.c. */
dhow_status dhowi_give_results(const dhow_model *m, const dhowi_model_plan *plan,
                               const dhowi_run_io *io);
/* A copy of a model on the CPU that shares its parameters, see replicate.c. */
dhow_status dhowi_model_copy(dhow_model *from, dhow_model **out);
/* Brings the value of tensors[0] to the others, one on the device of each copy; finish() blocks
 * until all is there. */
typedef struct dhowi_spread {
    dhow_status (*run)(void *user, dhow_tensor *const *tensors);
    dhow_status (*finish)(void *user);
    void *user;
} dhowi_spread;
/* Of all parameters. */
uint64_t dhowi_model_weight_bytes(const dhow_model *m);
/* dhow_model_replicate() of a model that was checked. Weights are spread from the first copy to the
 * others; without, NULL, each gets its own from a device that it reaches, or the host. */
dhow_status dhowi_model_replicate(dhow_model *model, dhow_device *const *devices, uint32_t count,
                                  const dhowi_spread *spread, dhow_model **out);
/* Puts weights of products that read one value side by side on the model's device, while none is
 * there yet, see join_weights.c. */
dhow_status dhowi_join_weights(dhow_model *m);
/* Parameters to the model's device, and away from it; see place.c. */
dhow_status dhowi_place_parameters(dhow_model *m);
void dhowi_model_drop_residents(dhow_model *m);
/* UNSUPPORTED where a device does not compute in what a model is set to. */
dhow_status dhowi_check_precision(dhow_device *device, dhow_precision precision);
/* Finds or makes a plan for the inputs that no other run uses, and runs it, see cache.c. */
dhow_status dhowi_run_planned(dhow_model *m, dhowi_run_io *io);
/* Whether a tensor is what the model wants as an input. */
dhow_status dhowi_check_input(const dhow_model *m, const char *function, uint32_t i,
                              dhow_tensor *t);
/* The tensor itself, retained, or a dense copy of it. */
dhow_status dhowi_plain_input(dhow_stream *stream, dhow_tensor *t, dhow_tensor **out);

/* A run with tensors: results are written to the tensors given, and made where none is. */
typedef struct dhowi_tensor_run {
    const char *function; /* for messages */
    dhow_tensor *const *inputs;
    dhow_tensor *const *given; /* NULL: all results are made */
    dhow_tensor **made;        /* NULL: all are given; written when nothing can fail any more */
    uint32_t input_count, output_count;
    dhowi_output_groups *groups; /* of given tensors that are told of as soon as they are written,
                                    at the latest when the run is handed in; NULL: none */
} dhowi_tensor_run;
dhow_status dhowi_model_run_tensors(dhow_model *m, dhow_stream *stream,
                                    const dhowi_tensor_run *run);

enum { DHOWI_KEY_ROOM = 64 };

/* What a plan depends on: the shapes of inputs, and the values of those that decide it. */
typedef struct dhowi_run_key {
    int64_t room[DHOWI_KEY_ROOM], *words;
    uint32_t length, capacity;
} dhowi_run_key;
dhow_status dhowi_run_key_make(const dhow_model *m, const dhowi_run_io *io, dhowi_run_key *key);

#endif /* DHOWI_MODEL_RUN_H_ */
