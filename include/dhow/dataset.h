/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets: samples by index, from tensors, files or functions, and datasets made of others: parts
 * of them, several in a row, samples changed as they are read.
 *
 *     dhow_dataset *rows, *parts[2];
 *     dhow_dataset_from_tensors((dhow_tensor *[]){x, labels}, 2, &rows);
 *     dhow_dataset_split(rows, (const int64_t[]){90, -1}, 2, 1, 42, parts); // the rest is tested
 * with
 */
#ifndef DHOW_DATASET_H_
#define DHOW_DATASET_H_

#include "dhow/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DHOW_MAX_COLUMNS = 16 };

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
 * @param out      receives the dataset; NULL on errors
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
 * @param context  on whose CPU device samples are read; retained
 * @param paths    `count` files in C order and native byte order with equal first extents
 * @param count    of paths, 1 .. DHOW_MAX_COLUMNS
 * @param out      receives the dataset; NULL on errors
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
 * @param context  on whose CPU device samples are read; retained
 * @param source   not NULL, with columns and read; begin with DHOW_INIT()
 * @param out      receives the dataset; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_RANGE (a shape), OUT_OF_MEMORY; then `release` is not called
 *
 * Ownership: *out is owned, source is copied. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_dataset_create(dhow_context *context,
                                                        const dhow_dataset_source *source,
                                                        dhow_dataset **out);

/**
 * Drops a reference.
 *
 * @param dataset  NULL is allowed
 *
 * Threads: any. Blocks: no.
 */
DHOW_API void dhow_dataset_release(dhow_dataset *dataset);

/**
 * How many samples there are.
 *
 * @param dataset  NULL or what is no dataset gives -1
 *
 * Threads: any. Blocks: no.
 */
DHOW_API int64_t dhow_dataset_sample_count(const dhow_dataset *dataset);

/**
 * How many columns there are.
 *
 * @param dataset  NULL or what is no dataset gives 0
 *
 * Threads: any. Blocks: no.
 */
DHOW_API uint32_t dhow_dataset_column_count(const dhow_dataset *dataset);

/**
 * One column.
 *
 * @param dataset  no sample of it is read
 * @param index    below dhow_dataset_column_count()
 * @param out      filled in, cleared on errors; begin with DHOW_INIT()
 * @return INVALID_ARGUMENT, OUT_OF_RANGE
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_dataset_column_at(const dhow_dataset *dataset,
                                                           uint32_t index,
                                                           dhow_dataset_column *out);

/**
 * Reads samples, as a loader does for a batch.
 *
 * @param dataset  also one that loaders read at the same time
 * @param indices  0 <= index < samples, in any order, also several times
 * @param count    of indices, 0 or more
 * @param columns  filled with one new CPU tensor [count, ...] per column, with NULL where it fails
 * @return INVALID_ARGUMENT, OUT_OF_RANGE (the message names the index), OUT_OF_MEMORY, or what the
 * dataset's `read` returns
 *
 * Ownership: the tensors are owned. Threads: any. Blocks: while samples are read.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_dataset_read(dhow_dataset *dataset, const int64_t *indices,
                                                      int64_t count, dhow_tensor **columns);

/* ---- datasets made of others ---- */

/**
 * Some samples of a dataset, in the order of the indices: torch.utils.data.Subset.
 *
 * @param dataset  of which samples are taken
 * @param indices  copied; 0 <= index < samples, also several times
 * @param count    of indices, 0 or more
 * @param out      receives the dataset; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_RANGE (the message names the index), OUT_OF_MEMORY
 *
 * Ownership: *out is owned, the dataset is retained. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_dataset_subset(dhow_dataset *dataset,
                                                        const int64_t *indices, int64_t count,
                                                        dhow_dataset **out);

/**
 * Divides a dataset into parts that share no sample: torch.utils.data.random_split. Nothing is
 * stored per sample.
 *
 * @param dataset     that is divided
 * @param counts      samples of each part, together all of them; -1 in one place stands for the
 * rest
 * @param part_count  of counts and parts, 1 or more
 * @param shuffle     1: samples are dealt out in the order of the seed, the same on every machine;
 * 0: the parts follow one another
 * @param seed        of the order that shuffle deals in
 * @param out         receives `part_count` datasets; all NULL on errors
 * @return INVALID_ARGUMENT (the message names the sum), OUT_OF_MEMORY
 *
 * Ownership: the parts are owned, the dataset is retained by each. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_dataset_split(dhow_dataset *dataset, const int64_t *counts,
                                                       uint32_t part_count, int32_t shuffle,
                                                       uint64_t seed, dhow_dataset **out);

/**
 * Datasets in a row: torch.utils.data.ConcatDataset.
 *
 * @param parts  `count` datasets of one context, with columns of the same dtypes and shapes
 * @param count  of parts, 1 or more
 * @param out    receives the dataset; NULL on errors
 * @return INVALID_ARGUMENT (the message names part and column), OUT_OF_RANGE (too many samples),
 * OUT_OF_MEMORY
 *
 * Ownership: *out is owned, the parts are retained. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_dataset_concat(dhow_dataset *const *parts, uint32_t count,
                                                        dhow_dataset **out);

/** The sample that a mapping makes. */
typedef struct dhow_sample {
    uint32_t struct_size; /**< of the library */
    uint32_t worker;      /**< of the loader, 0, 1, ...; 0 where there is none */
    int64_t index;        /**< in the dataset */
    int64_t epoch;        /**< of the loader; 0 in dhow_dataset_read() */
    uint64_t seed; /**< a random number of this sample in this epoch, of the loader's seed: the
                      same whatever the number of workers and the batches */
} dhow_sample;

/** How samples are changed as they are read. */
typedef struct dhow_dataset_mapping {
    uint32_t struct_size;               /**< DHOW_INIT() sets it */
    uint32_t column_count;              /**< of the result; 0: columns stay what they are */
    const dhow_dataset_column *columns; /**< `column_count` of them */
    /**
     * Makes one sample out of another: in[c] and out[c] are column c of one sample each.
     *
     * Threads: called by several workers at once, each with its own memory. Anything but DHOW_OK
     * comes out of dhow_loader_next(), with what dhow_set_error() was told.
     */
    dhow_status (*map)(void *user, const dhow_sample *sample, const void *const *in,
                       void *const *out);
    void (*release)(void *user); /**< called once, when the dataset ends; NULL is allowed */
    void *user;
} dhow_dataset_mapping;

/**
 * A dataset whose samples are made of those of another one as they are read: decoded, scaled,
 * cropped at random.
 *
 * @param dataset  whose samples the mapping takes
 * @param mapping  not NULL, with map; begin with DHOW_INIT()
 * @param out      receives the dataset; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_RANGE (a shape), OUT_OF_MEMORY; then `release` is not called
 *
 * Ownership: *out is owned, the dataset is retained, the mapping is copied. Threads: any. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_dataset_map(dhow_dataset *dataset,
                                                     const dhow_dataset_mapping *mapping,
                                                     dhow_dataset **out);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_DATASET_H_ */
