/* SPDX-License-Identifier: Apache-2.0
 *
 * Data: what a model takes and gives where that may be more than a tensor. Some models from files
 * take texts, or sequences of tensors of different shapes; dhow_model_run_data() runs them:
 *
 *     dhow_datum_of_texts(DHOW_SHAPE(2), (const char *[]){"monday", "tuesday"}, &in);
 *     dhow_model_run_data(model, NULL, &in, 1, &out, 1);
 *     dhow_datum_text(out, 0, &text);
 *
 * Texts stay on the host. A datum never changes.
 */
#ifndef DHOW_DATUM_H_
#define DHOW_DATUM_H_

#include "dhow/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dhow_datum dhow_datum;

typedef enum dhow_datum_kind {
    DHOW_DATUM_TENSOR = 0,
    DHOW_DATUM_TEXTS = 1,    /**< an array of UTF-8 texts */
    DHOW_DATUM_SEQUENCE = 2, /**< tensors, or arrays of texts, in order */
    DHOW_DATUM_NONE = 3      /**< an optional value that is not there */
} dhow_datum_kind;

/** What dhow_datum_get_info() tells. */
typedef struct dhow_datum_info {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    dhow_datum_kind kind;
    int32_t rank;                 /**< of texts; 0 otherwise */
    int64_t shape[DHOW_MAX_RANK]; /**< of texts */
    int64_t count;                /**< texts, or data of a sequence; 1 for a tensor */
} dhow_datum_info;

/**
 * A tensor as a datum.
 *
 * @param tensor  of any device
 * @param out     receives the datum; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY
 *
 * Ownership: the tensor is retained; *out is owned, release with dhow_datum_release(). Threads:
 * any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_datum_of_tensor(dhow_tensor *tensor, dhow_datum **out);

/**
 * An array of texts, which are copied.
 *
 * @param rank   0 to DHOW_MAX_RANK
 * @param shape  [rank]; NULL for rank 0
 * @param texts  UTF-8, terminated, as many as the shape says, row-major
 * @param out    receives the datum; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_RANGE, OUT_OF_MEMORY
 *
 * Ownership: *out is owned, release with dhow_datum_release(). Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_datum_of_texts(int32_t rank, const int64_t *shape,
                                                        const char *const *texts, dhow_datum **out);

/**
 * A sequence.
 *
 * @param items  tensors or arrays of texts, all of one kind
 * @param count  of items, 0 or more
 * @param out    receives the datum; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY
 *
 * Ownership: the items are retained; *out is owned, release with dhow_datum_release(). Threads:
 * any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_datum_of_sequence(dhow_datum *const *items, uint32_t count,
                                                           dhow_datum **out);

/**
 * An optional value that is not there.
 *
 * @param out  receives the datum; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY
 *
 * Ownership: *out is owned, release with dhow_datum_release(). Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_datum_of_nothing(dhow_datum **out);

/**
 * Drops a reference.
 *
 * @param datum  NULL is allowed
 *
 * Threads: any. Blocks: no.
 */
DHOW_API void dhow_datum_release(dhow_datum *datum);

/**
 * What a datum is.
 *
 * @param datum  of any kind
 * @param out    filled in, cleared on errors; begin with DHOW_INIT()
 * @return INVALID_ARGUMENT
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_datum_get_info(const dhow_datum *datum,
                                                        dhow_datum_info *out);

/**
 * The tensor of a datum.
 *
 * @param datum  of kind DHOW_DATUM_TENSOR
 * @param out    receives the tensor; NULL on errors
 * @return INVALID_ARGUMENT (the datum is no tensor)
 *
 * Ownership: *out is borrowed until the datum ends. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_datum_tensor(const dhow_datum *datum, dhow_tensor **out);

/**
 * One text of an array, row-major.
 *
 * @param datum  of kind DHOW_DATUM_TEXTS
 * @param index  from 0, below the count of dhow_datum_get_info()
 * @param out    receives the text; NULL on errors
 * @return INVALID_ARGUMENT (the datum is no array of texts), OUT_OF_RANGE
 *
 * Ownership: *out is borrowed until the datum ends. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_datum_text(const dhow_datum *datum, int64_t index,
                                                    const char **out);

/**
 * One datum of a sequence.
 *
 * @param datum  of kind DHOW_DATUM_SEQUENCE
 * @param index  below the count of dhow_datum_get_info()
 * @param out    receives the datum; NULL on errors
 * @return INVALID_ARGUMENT (the datum is no sequence), OUT_OF_RANGE
 *
 * Ownership: *out is borrowed until the sequence ends. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_datum_item(const dhow_datum *datum, uint32_t index,
                                                    dhow_datum **out);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_DATUM_H_ */
