/* SPDX-License-Identifier: Apache-2.0
 *
 * Feeding data: datasets of samples, loaders that make batches of them ahead of the work and bring
 * them to a device, and predictions over more data than fits a device or the machine.
 *
 *     dhow_dataset *rows;
 *     dhow_loader *loader;
 *     dhow_batch batch = DHOW_INIT(dhow_batch);
 *     dhow_dataset_open_npy(context, (const char *[]){"x.npy", "y.npy"}, 2, &rows);
 *     dhow_loader_create(
 *         rows, &DHOW_INIT(dhow_loader_options, .batch_size = 32, .device = device), &loader);
 *     dhow_status status;
 *     while ((status = dhow_loader_next(loader, &batch)) == DHOW_OK && batch.sample_count > 0) {
 *         dhow_tensor *y; // of its own for each batch: the last one may be shorter
 *         status = dhow_model_run(model, NULL, batch.tensors, 1, &y, 1);
 *         dhow_tensor_release(y);
 *         if (status != DHOW_OK) break;
 *     }
 *     if (status != DHOW_OK) puts(dhow_last_error()); // an epoch that ended early
 */
#ifndef DHOW_DATA_H_
#define DHOW_DATA_H_

#include "dhow/dataset.h"
#include "dhow/files.h"
#include "dhow/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- loaders ---- */

/** Makes batches of a dataset, in the background if asked to. */
typedef struct dhow_loader dhow_loader;

/** What a loader's collate works on. */
typedef struct dhow_collation {
    uint32_t struct_size;  /**< of the library */
    uint32_t column_count; /**< of the dataset */
    int64_t epoch, index;  /**< of the batch */
    int64_t sample_count;
    uint64_t seed;        /**< a random number of this batch in this epoch */
    void *const *columns; /**< the samples of each, row-major and one after the other */
    int64_t (*extents)[DHOW_MAX_RANK]; /**< of one sample, by column; may be lowered: what lies
                                          beyond is left out */
} dhow_collation;

typedef struct dhow_loader_options {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    int64_t batch_size;   /**< samples; 0 stands for 1 */
    int32_t shuffle;      /**< 1: another order in each epoch, the same on every machine */
    int32_t drop_last;    /**< 1: a last batch that is short is left out */
    uint64_t seed;        /**< of the order */
    dhow_device *device;  /**< where batches are wanted; NULL: the CPU */
    uint32_t workers;     /**< threads that make batches, at most 64; 0: dhow_loader_next() does */
    uint32_t prefetch;    /**< batches that are made ahead, at most 64; 0: 2 where there is a worker
                             or another device than the CPU, else none */
    const double
        *weights;  /**< one per sample, copied: an epoch's samples are drawn with replacement
                      and with these odds, instead of `shuffle`; NULL: each comes once */
    int64_t draws; /**< samples of an epoch with weights; 0: as many as the dataset has */
    /**
     * Looks at a batch that was read, before it goes to the device: pads or changes samples in
     * place, and lowers extents, to the longest text of the batch for instance; the batch's tensors
     * have those. NULL: batches stay as they are.
     *
     * Threads: called by several workers at once, each with its own batch. Anything but DHOW_OK
     * comes out of dhow_loader_next(), with what dhow_set_error() was told.
     */
    dhow_status (*collate)(void *user, const dhow_collation *batch);
    void *collate_user;
} dhow_loader_options;

/** A batch. */
typedef struct dhow_batch {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    int64_t epoch;        /**< 0, 1, ... */
    int64_t index;        /**< within the epoch */
    int64_t first_sample; /**< position of its first sample in the epoch's order */
    int64_t sample_count; /**< 0: the epoch is over */
    uint32_t tensor_count;
    dhow_tensor *tensors[DHOW_MAX_COLUMNS]; /**< [sample_count, ...] on the loader's device */
} dhow_batch;

/**
 * Creates a loader. With a device that is not the CPU, batches travel through pinned memory on a
 * stream of the loader's own while earlier ones are computed with.
 *
 * @param dataset  whose samples it reads, on the threads of options->workers
 * @param options  NULL for defaults: one sample per batch, in order, on the CPU
 * @param out      receives the loader; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY, or what the device says
 *
 * Ownership: *out is owned; the dataset is retained. Threads: any. Blocks: while the device opens.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_loader_create(dhow_dataset *dataset,
                                                       const dhow_loader_options *options,
                                                       dhow_loader **out);

/**
 * Stops the workers and releases the loader, at any time.
 *
 * @param loader  NULL is allowed
 *
 * Threads: one, once. Blocks: until a worker that reads samples is done with its batch.
 */
DHOW_API void dhow_loader_release(dhow_loader *loader);

/**
 * The next batch. After the last one of an epoch comes a batch of no samples, once, and then the
 * next epoch. Work may be submitted with the tensors at once: it waits for them by itself.
 *
 * @param loader  of one thread at a time
 * @param out     filled in, without samples on errors; begin with DHOW_INIT()
 * @return what kept the batch from being made: the status of the dataset's `read`, OUT_OF_MEMORY,
 * DEVICE_LOST, ...; the message names the batch and the device. The same comes again until
 * dhow_loader_restart()
 *
 * Ownership: the tensors are borrowed until the next call; one that is retained stays as it is, and
 * the loader takes other memory. With DHOW_VALIDATE=1 the use of one that was kept without is told.
 * Threads: externally synchronized; INVALID_ARGUMENT says that another call is in the loader.
 * Blocks: while the batch is not ready to be used.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_loader_next(dhow_loader *loader, dhow_batch *out);

/**
 * Goes to a batch of an epoch, at any time: to begin again, to stop an epoch early, or to go on
 * after an error.
 *
 * @param loader  in whatever state
 * @param epoch   0 to INT64_MAX / 2
 * @param batch   of that epoch, from 0; dhow_loader_batch_count() is its end
 * @return INVALID_ARGUMENT, OUT_OF_RANGE (no such epoch or batch)
 *
 * Threads: externally synchronized. Blocks: until workers are done with what they read now.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_loader_restart(dhow_loader *loader, int64_t epoch,
                                                        int64_t batch);

/**
 * Batches in an epoch.
 *
 * @param loader  NULL or what is no loader gives -1
 *
 * Threads: any. Blocks: no.
 */
DHOW_API int64_t dhow_loader_batch_count(const dhow_loader *loader);

/**
 * The dataset index at a position of an epoch's order.
 *
 * @param loader    NULL or what is no loader gives -1
 * @param epoch     0 or more, else -1
 * @param position  in the epoch's order, from 0; one that is not there gives -1
 *
 * Threads: any. Blocks: no.
 */
DHOW_API int64_t dhow_loader_sample_at(const dhow_loader *loader, int64_t epoch, int64_t position);

/* ---- predictions ---- */

/** Takes the results of dhow_predict(), batch by batch and in order. */
typedef struct dhow_sink dhow_sink;

/**
 * Results go to tensors in host memory, one per output.
 *
 * @param context  on whose CPU device they lie; retained
 * @param out      receives the sink; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_sink_to_tensors(dhow_context *context, dhow_sink **out);

/**
 * One output of a sink made by dhow_sink_to_tensors(): [rows so far, ...].
 *
 * @param sink    of dhow_sink_to_tensors()
 * @param output  of the model, from 0
 * @param out     receives a view of the rows so far; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_RANGE, NOT_READY (nothing has come yet)
 *
 * Ownership: *out is owned. Threads: not while dhow_predict() runs. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_sink_tensor(dhow_sink *sink, uint32_t output,
                                                     dhow_tensor **out);

/**
 * Results go to .npy files, one per output, row after row: they may be larger than memory. The
 * files appear when dhow_sink_finish() returns OK; after that the sink takes nothing more.
 *
 * @param context  of the model that will run; retained
 * @param paths    `count` different ones, copied; files there are replaced
 * @param count    1 .. DHOW_MAX_COLUMNS, as many as the model has outputs
 * @param out      receives the sink; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_sink_to_npy(dhow_context *context,
                                                     const char *const *paths, uint32_t count,
                                                     dhow_sink **out);

/**
 * Results go to a function, as CPU tensors that are borrowed for the call. Anything but DHOW_OK
 * ends the prediction and is its status.
 *
 * @param context  of the model that will run; retained
 * @param take     called with each batch of results, in order; not NULL
 * @param user     handed to it
 * @param out      receives the sink; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_sink_to_function(
    dhow_context *context, dhow_status (*take)(void *user, const dhow_batch *results), void *user,
    dhow_sink **out);

/**
 * Ends a sink's work: files get their names. Without it, dhow_sink_release() leaves no file.
 *
 * @param sink  of any kind; only those of files have something to do
 * @return INVALID_ARGUMENT, IO_ERROR, NOT_READY (no results have come, so there are no files)
 *
 * Threads: not while dhow_predict() runs. Blocks: while files are written.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_sink_finish(dhow_sink *sink);

/**
 * Drops a reference.
 *
 * @param sink  NULL is allowed
 *
 * Threads: any. Blocks: no.
 */
DHOW_API void dhow_sink_release(dhow_sink *sink);

/**
 * Runs a model over the rest of the loader's epoch. Batches arrive, are computed and go back at the
 * same time; on the device there are never more than a few of them.
 *
 * @param model   on the loader's device; its inputs are the first columns, in order, and further
 * columns, labels for instance, are passed over
 * @param loader  drop_last leaves its last samples without results
 * @param sink    that takes as many outputs as the model has
 * @return as dhow_loader_next(), dhow_model_run() and the sink say; the message names the batch.
 * Results of earlier batches have reached the sink, and dhow_loader_restart() can go on from the
 * batch that failed
 *
 * Threads: externally synchronized per model, loader and sink. Blocks: until the last result is in
 * the sink.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_predict(dhow_model *model, dhow_loader *loader,
                                                 dhow_sink *sink);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_DATA_H_ */
