/* SPDX-License-Identifier: Apache-2.0
 *
 * One model on several devices, of any backends: each batch is split by what the devices were
 * measured to do, computed by all at once, and its results are gathered in order.
 *
 *     dhow_parallel *p;
 *     dhow_device *devices[] = {gpu, cpu};
 *     dhow_parallel_create(model, devices, 2, NULL, &p);
 *     dhow_parallel_run(p, &x, 1, &y, 1);
 */
#ifndef DHOW_PARALLEL_H_
#define DHOW_PARALLEL_H_

#include "dhow/data.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dhow_parallel dhow_parallel;

typedef struct dhow_parallel_options {
    uint32_t struct_size;        /**< DHOW_INIT() sets it */
    int32_t skip_failed_devices; /**< 1: a device that fails is left out from then on, and the
                           others take over its rows; 0: its failure is the run's */
    const double *shares;        /**< of each device, of any sum; NULL: equal ones to begin with */
    int32_t fixed_shares;        /**< 1: shares stay as they are; 0: they follow what is measured */
} dhow_parallel_options;

/** One of the devices. */
typedef struct dhow_parallel_member {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    dhow_device *device;
    double share;           /**< of the next batch, 0 .. 1 */
    double rows_per_second; /**< as measured, copies included; 0: not measured yet */
    dhow_status status;     /**< OK, or why the device is left out */
    char reason[192];       /**< the message of that failure, "" */
} dhow_parallel_member;

/**
 * Puts a copy of the model on each device and starts a thread for each.
 *
 * @param model    with 1 .. DHOW_MAX_COLUMNS inputs and no more outputs than that; stays as it is;
 * later changes of its parameters do not reach the copies
 * @param devices  `count` of them, 1 .. 64, of the model's context; one may be named twice
 * @param count    of devices
 * @param options  NULL for defaults
 * @param out      receives the handle; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY, or as dhow_model_replicate()
 *
 * Ownership: *out is owned. Threads: externally synchronized per model. Blocks: until parameters
 * are copied.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_parallel_create(dhow_model *model,
                                                         dhow_device *const *devices,
                                                         uint32_t count,
                                                         const dhow_parallel_options *options,
                                                         dhow_parallel **out);

/**
 * Stops the threads and releases the copies.
 *
 * @param parallel  NULL is allowed
 *
 * Threads: one, once. Blocks: no.
 */
DHOW_API void dhow_parallel_release(dhow_parallel *parallel);

/**
 * Runs the model on one batch and makes its results.
 *
 * @param parallel      one call at a time
 * @param inputs        in the model's order, [rows, ...] each with the same number of rows; fastest
 * from the CPU, others are brought there
 * @param input_count   of inputs: as many as the model has
 * @param outputs       filled with new CPU tensors [rows, ...] in the model's order, with NULL
 * where it fails; what is in it before is not read. An output whose first extent is not the number
 * of rows cannot be gathered: INVALID_ARGUMENT
 * @param output_count  of outputs: as many as the model has
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY, or the first failure of a device; the message names the
 * device and the rows. With skip_failed_devices only when no device is left
 *
 * Ownership: the outputs are owned, release each. Threads: externally synchronized. Blocks: until
 * all results are there.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_parallel_run(dhow_parallel *parallel,
                                                      dhow_tensor *const *inputs,
                                                      uint32_t input_count, dhow_tensor **outputs,
                                                      uint32_t output_count);

/**
 * dhow_parallel_run() that writes its results to tensors of the caller.
 *
 * @param parallel      one call at a time
 * @param inputs        as for dhow_parallel_run()
 * @param input_count   of inputs: as many as the model has
 * @param outputs       in the model's order: CPU tensors of the results' shapes and dtypes;
 * undefined on errors
 * @param output_count  of outputs: as many as the model has
 * @return as dhow_parallel_run()
 *
 * Threads: externally synchronized. Blocks: until all results are there.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_parallel_run_into(dhow_parallel *parallel,
                                                           dhow_tensor *const *inputs,
                                                           uint32_t input_count,
                                                           dhow_tensor *const *outputs,
                                                           uint32_t output_count);

/**
 * dhow_predict() on all the devices: runs over the rest of the loader's epoch.
 *
 * @param parallel  one call at a time
 * @param loader    on the CPU, with a worker so that batches are there in time
 * @param sink      that takes as many outputs as the model has
 * @return as dhow_predict() and dhow_parallel_run()
 *
 * Threads: externally synchronized per parallel, loader and sink. Blocks: until the last result is
 * in the sink.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_parallel_predict(dhow_parallel *parallel,
                                                          dhow_loader *loader, dhow_sink *sink);

/**
 * How many devices there are, failed ones included.
 *
 * @param parallel  NULL or what is no handle gives 0
 *
 * Threads: any. Blocks: no.
 */
DHOW_API uint32_t dhow_parallel_member_count(const dhow_parallel *parallel);

/**
 * One of the devices.
 *
 * @param parallel  between its runs
 * @param index     below dhow_parallel_member_count(), in the order of its devices
 * @param out       filled in, cleared on errors; begin with DHOW_INIT()
 * @return INVALID_ARGUMENT, OUT_OF_RANGE
 *
 * Threads: not while a run is under way. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_parallel_member_at(const dhow_parallel *parallel,
                                                            uint32_t index,
                                                            dhow_parallel_member *out);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_PARALLEL_H_ */
