/* SPDX-License-Identifier: Apache-2.0
 *
 * Feeding data: datasets of samples, loaders that make batches of them ahead of the work and bring
 * them to a device, and predictions over more data than fits a device or the machine.
 *
 *     dhow_dataset *rows;
 *     dhow_loader *loader;
 *     dhow_batch batch;
 *     dhow_dataset_open_npy(ctx, (const char *[]){"x.npy", "y.npy"}, 2, &rows);
 *     dhow_loader_create(rows, &(dhow_loader_options){.batch_size = 32, .device = gpu}, &loader);
 *     dhow_status status;
 *     while ((status = dhow_loader_next(loader, &batch)) == DHOW_OK && batch.sample_count > 0) {
 *         dhow_tensor *y = NULL; // of its own for each batch: the last one may be shorter
 *         status = dhow_model_run(model, NULL, batch.tensors, 1, &y, 1);
 *         dhow_tensor_release(y);
 *         if (status != DHOW_OK) break;
 *     }
 *     if (status != DHOW_OK) puts(dhow_last_error()); // an epoch that ended early
 */
#ifndef DHOW_DATA_H_
#define DHOW_DATA_H_

#include "dhow/files.h"
#include "dhow/model.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DHOW_MAX_COLUMNS = 16 };

/* ---- datasets ---- */

/** Samples by index. A sample has one value per column, an image and its label for instance; all
 * values of a column have one dtype and shape. */
typedef struct dhow_dataset dhow_dataset;

/** One column: dtype and shape of a single sample. */
typedef struct dhow_dataset_column {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    dhow_dtype dtype;
    int32_t rank; /**< 0 for a scalar per sample; less than DHOW_MAX_RANK */
    int64_t shape[DHOW_MAX_RANK];
} dhow_dataset_column;

/**
 * Samples of tensors in host memory: sample i is index i of the first dimension of each tensor.
 *
 * @param columns  CPU tensors [samples, ...] with equal first extents; they must not be written
 * while a loader reads them
 * @param count    1 .. DHOW_MAX_COLUMNS
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY
 *
 * Ownership: *out is owned, the tensors are retained. Threads: any. Blocks: no, unless a tensor has
 * to be made contiguous.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_dataset_from_tensors(dhow_tensor *const *columns,
                                                              uint32_t count, dhow_dataset **out);

/**
 * Samples of .npy files, one per column, [samples, ...] each. The files are mapped and read as
 * samples are asked for, so they may be larger than memory; they must stay as they are meanwhile,
 * and are held open.
 *
 * @param paths  `count` files in C order and native byte order with equal first extents
 * @return INVALID_ARGUMENT, NOT_FOUND, IO_ERROR, CORRUPT, UNSUPPORTED (Fortran or foreign byte
 * order, an element type that dhow has not), OUT_OF_MEMORY
 *
 * Ownership: *out is owned. Threads: any. Blocks: while headers are read.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_dataset_open_npy(dhow_context *context,
                                                          const char *const *paths, uint32_t count,
                                                          dhow_dataset **out);

/** A dataset of one's own. */
typedef struct dhow_dataset_source {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    int64_t sample_count;
    uint32_t column_count;
    const dhow_dataset_column *columns; /**< `column_count` of them */
    /**
     * Writes samples: those of column c go to columns[c], row-major and one after the other.
     *
     * Threads: called by several workers at once, each with its own memory. Anything but DHOW_OK
     * comes out of dhow_loader_next(), with what dhow_set_error() was told.
     */
    dhow_status (*read)(void *user, const int64_t *indices, int64_t count, void *const *columns);
    void (*release)(void *user); /**< called once, when the dataset ends; NULL is allowed */
    void *user;
} dhow_dataset_source;

/**
 * Samples that the caller's function produces.
 *
 * @return INVALID_ARGUMENT, OUT_OF_RANGE (a shape), OUT_OF_MEMORY; then `release` is not called
 *
 * Ownership: *out is owned, source is copied. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_dataset_create(dhow_context *context,
                                                        const dhow_dataset_source *source,
                                                        dhow_dataset **out);

/** Drops a reference. NULL is allowed. Threads: any. Blocks: no. */
DHOW_API void dhow_dataset_release(dhow_dataset *dataset);

/** How many samples there are; -1 for no dataset. Threads: any. Blocks: no. */
DHOW_API int64_t dhow_dataset_sample_count(const dhow_dataset *dataset);

/** How many columns there are. Threads: any. Blocks: no. */
DHOW_API uint32_t dhow_dataset_column_count(const dhow_dataset *dataset);

/**
 * One column.
 *
 * @return INVALID_ARGUMENT, OUT_OF_RANGE
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_dataset_column_at(const dhow_dataset *dataset,
                                                           uint32_t index,
                                                           dhow_dataset_column *out);

/* ---- loaders ---- */

/** Makes batches of a dataset, in the background if asked to. */
typedef struct dhow_loader dhow_loader;

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
 * @param options  NULL for defaults: one sample per batch, in order, on the CPU
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY, or what the device says
 *
 * Ownership: *out is owned; the dataset is retained. Threads: any. Blocks: while the device opens.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_loader_create(dhow_dataset *dataset,
                                                       const dhow_loader_options *options,
                                                       dhow_loader **out);

/**
 * Stops the workers and releases the loader, at any time. NULL is allowed.
 *
 * Threads: one, once. Blocks: until a worker that reads samples is done with its batch.
 */
DHOW_API void dhow_loader_release(dhow_loader *loader);

/**
 * The next batch. After the last one of an epoch comes a batch of no samples, once, and then the
 * next epoch. Work may be submitted with the tensors at once: it waits for them by itself.
 *
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
 * @return INVALID_ARGUMENT, OUT_OF_RANGE (no such batch)
 *
 * Threads: externally synchronized. Blocks: until workers are done with what they read now.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_loader_restart(dhow_loader *loader, int64_t epoch,
                                                        int64_t batch);

/** Batches in an epoch; -1 for no loader. Threads: any. Blocks: no. */
DHOW_API int64_t dhow_loader_batch_count(const dhow_loader *loader);

/** The dataset index at a position of an epoch's order; -1 for a position that is not there.
 * Threads: any. Blocks: no. */
DHOW_API int64_t dhow_loader_sample_at(const dhow_loader *loader, int64_t epoch, int64_t position);

/* ---- predictions ---- */

/** Takes the results of dhow_predict(), batch by batch and in order. */
typedef struct dhow_sink dhow_sink;

/**
 * Results go to tensors in host memory, one per output.
 *
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY
 *
 * Ownership: *out is owned. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_sink_to_tensors(dhow_context *context, dhow_sink **out);

/**
 * One output of a sink made by dhow_sink_to_tensors(): [rows so far, ...].
 *
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
 * @param paths  `count` different ones
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
 * @return INVALID_ARGUMENT, IO_ERROR, NOT_READY (no results have come, so there are no files)
 *
 * Threads: not while dhow_predict() runs. Blocks: while files are written.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_sink_finish(dhow_sink *sink);

/** Drops a reference. NULL is allowed. Threads: any. Blocks: no. */
DHOW_API void dhow_sink_release(dhow_sink *sink);

/**
 * Runs a model over the rest of the loader's epoch. Batches arrive, are computed and go back at the
 * same time; on the device there are never more than a few of them.
 *
 * @param model   on the loader's device; its inputs are the first columns, in order, and further
 * columns, labels for instance, are passed over
 * @param loader  drop_last leaves its last samples without results
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
