/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files that make a plan share.
 */
#ifndef DHOWI_MODEL_PLAN_MAKER_H_
#define DHOWI_MODEL_PLAN_MAKER_H_

#include "model/plan/plan.h"

typedef struct dhowi_maker {
    dhow_model *m;
    dhowi_run_io *io;
    dhowi_model_plan *plan;
    dhowi_lowering *b;
    dhowi_storage **storages; /* of buffers: a placeholder, or the arena of an earlier segment */
    int64_t *offsets;         /* bytes in it */
    uint32_t storage_count, storage_capacity, offset_capacity;
} dhowi_maker;

/* Always a copy: the plan keeps it, while the tensor's values change from run to run. */
dhow_status dhowi_host_copy(dhow_tensor *t, dhow_tensor **out);
/* Makes items of the inputs. */
dhow_status dhowi_plan_inputs(dhowi_maker *k);

/* Where a whole buffer is copied into another one and both stay so, one does for both. */
void dhowi_drop_copies(dhowi_lowering *b, uint32_t first_step);
void dhowi_find_lifetimes(dhowi_lowering *b, uint32_t first_step);
/* Elementwise steps write over an input that nobody reads afterwards. */
dhow_status dhowi_reuse_inputs(dhowi_lowering *b, uint32_t first_step);

/* Steps that the device has no kernel for are refused, or marked where the caller allows the CPU.
 */
dhow_status dhowi_check_steps(dhowi_lowering *b, uint32_t first_step);
/* Makes a segment of the steps that are in none yet. */
dhow_status dhowi_close_segment(dhowi_maker *k, uint32_t first_step, dhowi_segment **out);
/* A tensor for an item; release it. */
dhow_status dhowi_plan_tensor(dhowi_maker *k, dhowi_segment *seg, int32_t ref, dhow_tensor **out);

/* Writes outputs in place that share an input's memory, where that is right; once steps stand. */
void dhowi_write_caches(dhowi_maker *k, uint32_t first_step);
/* Refuses lengths of caches and places in them that lead out, as far as the host has them. */
dhow_status dhowi_check_lengths(const dhowi_maker *k);

/* The items of all outputs, in order. */
dhow_status dhowi_find_results(dhowi_maker *k);
/* In their place what is read when a segment has ended: by nodes from this one on, and the wanted
 * item. */
dhow_status dhowi_find_read(dhowi_maker *k, uint32_t first_node);
/* The buffer of an output becomes the caller's tensor where it is that and nothing else. */
dhow_status dhowi_bind_output(dhowi_maker *k, uint32_t i, uint32_t first_step);
/* The caller's tensors for the results, made where there are none. */
dhow_status dhowi_new_outputs(dhowi_maker *k);

#endif /* DHOWI_MODEL_PLAN_MAKER_H_ */
