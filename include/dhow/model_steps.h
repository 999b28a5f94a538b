/* SPDX-License-Identifier: Apache-2.0
 *
 * Further steps of models that are built: those that arrange, choose and order elements. Where
 * there is an eager function of a step's name (dhow/ops.h, dhow/tensor.h) it does the same; extents
 * of -1 are open until the model runs.
 */
#ifndef DHOW_MODEL_STEPS_H_
#define DHOW_MODEL_STEPS_H_

#include "dhow/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the same elements in another shape, or some of them ---- */

/**
 * Reorders dimensions, as dhow_tensor_permute(): dimension i of the result is dimension order[i] of
 * x.
 *
 * @param order, count  each dimension of x once, counted from the end when negative
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_permute(dhow_model *model, dhow_model_value x,
                                                       const int32_t *order, uint32_t count,
                                                       dhow_model_value *out);

/**
 * Without a dimension of extent 1, as dhow_tensor_squeeze(); another known extent stays. One that
 * is open has to be 1 when the model runs.
 *
 * @param dim  DHOW_ALL_DIMS: without any dimension of extent 1, for which all extents are known
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_squeeze(dhow_model *model, dhow_model_value x,
                                                       int32_t dim, dhow_model_value *out);

/**
 * With a further dimension of extent 1, as dhow_tensor_unsqueeze().
 *
 * @param dim  where it will be, -1 for the last of the result
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_RANGE (dim is not between -rank - 1 and rank, or the rank is DHOW_MAX_RANK),
 * OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_unsqueeze(dhow_model *model, dhow_model_value x,
                                                         int32_t dim, dhow_model_value *out);

/**
 * Repeats extents of 1, and missing outer dimensions, as dhow_tensor_expand().
 *
 * @param rank, shape  of the result; -1 keeps the extent that x has there, also an open one
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_expand(dhow_model *model, dhow_model_value x,
                                                      int32_t rank, const int64_t *shape,
                                                      dhow_model_value *out);

/**
 * Elements start, start + step, ... below stop along a dimension, as dhow_tensor_slice(). Negative
 * start and stop count from the end and out-of-range ones are clamped, as in Python.
 *
 * @param step  at least 1
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_slice(dhow_model *model, dhow_model_value x,
                                                     int32_t dim, int64_t start, int64_t stop,
                                                     int64_t step, dhow_model_value *out);

/**
 * `length` indices of a dimension from `start` on, as dhow_tensor_narrow(). Of an open extent they
 * have to be there when the model runs.
 *
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_RANGE (no such dimension, or indices that are not there), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_narrow(dhow_model *model, dhow_model_value x,
                                                      int32_t dim, int64_t start, int64_t length,
                                                      dhow_model_value *out);

/**
 * One index of a dimension, which disappears, as dhow_tensor_select().
 *
 * @param index  counted from the end when negative
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_RANGE (no such dimension or index), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_select(dhow_model *model, dhow_model_value x,
                                                      int32_t dim, int64_t index,
                                                      dhow_model_value *out);

/**
 * Joins values of one shape and dtype along a new dimension, as dhow_stack().
 *
 * @param dim  where it will be, -1 for the last of the result
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_stack(dhow_model *model,
                                                     const dhow_model_value *values, uint32_t count,
                                                     int32_t dim, dhow_model_value *out);

/**
 * x with elements around it, as PyTorch's F.pad().
 *
 * @param pads, count  how many before and after the last dimension, then the one before it, and so
 * on; negative ones cut
 * @param value  of DHOW_PAD_CONSTANT
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_pad(dhow_model *model, dhow_model_value x,
                                                   const int64_t *pads, uint32_t count,
                                                   dhow_pad_mode mode, double value,
                                                   dhow_model_value *out);

/* ---- chosen, placed, ordered ---- */

/**
 * dhow_gather(): y[i, ...] = x[index[i], ...].
 *
 * @param x  any dtype
 * @param index  i64[count]; negative ones count from the end, others outside x give zeros
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_gather(dhow_model *model, dhow_model_value x,
                                                      dhow_model_value index,
                                                      dhow_model_value *out);

/**
 * The indices of a dimension that `index` names, in its order.
 *
 * @param x  any dtype
 * @param index  i64[count]; negative ones count from the end, others outside x give zeros
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_index_select(dhow_model *model, dhow_model_value x,
                                                            int32_t dim, dhow_model_value index,
                                                            dhow_model_value *out);

/**
 * For each index the element of x there along dim, and at the index's own place elsewhere;
 * PyTorch's gather().
 *
 * @param x  any dtype
 * @param index  i64 of x's rank, no larger than x but along dim; the result has its shape
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_take_along_dim(dhow_model *model, dhow_model_value x,
                                                              dhow_model_value index, int32_t dim,
                                                              dhow_model_value *out);

/**
 * x with elements of source at the places that the index names along dim.
 *
 * @param x  any dtype; bool is only replaced
 * @param index  i64 of x's rank, no larger than x but along dim
 * @param source  the shape of index, the dtype of x
 * @param reduce  what becomes of the elements of x; DHOW_SCATTER_REPLACE: they are replaced
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_scatter(dhow_model *model, dhow_model_value x,
                                                       int32_t dim, dhow_model_value index,
                                                       dhow_model_value source,
                                                       dhow_scatter_mode reduce,
                                                       dhow_model_value *out);

/**
 * dhow_cumsum(): running sums along a dimension.
 *
 * @param x  f32, f64, f16, bf16, i32 or i64
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_cumsum(dhow_model *model, dhow_model_value x,
                                                      int32_t dim, dhow_model_value *out);

/**
 * dhow_argmin(); the result is i64 and lacks that dimension.
 *
 * @param x  f32, f64, f16, bf16, i32 or i64
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_argmin(dhow_model *model, dhow_model_value x,
                                                      int32_t dim, dhow_model_value *out);

/**
 * dhow_topk(): the k largest elements along a dimension in falling order, or the smallest in rising
 * order with largest = 0; equal ones as they come.
 *
 * @param x  f32, f64, f16, bf16, i32 or i64
 * @param values, indices  written by it: of x's dtype, and i64
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_RANGE (no such dimension, or k is more than its extent), OUT_OF_MEMORY
 *
 * Ownership: the values belong to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_topk(dhow_model *model, dhow_model_value x,
                                                    int64_t k, int32_t dim, int32_t largest,
                                                    dhow_model_value *values,
                                                    dhow_model_value *indices);

/**
 * All elements along a dimension in rising order, or in falling order with descending != 0; equal
 * ones as they come. The extent there has to be known.
 *
 * @param x  f32, f64, f16, bf16, i32 or i64
 * @param values, indices  written by it: of x's dtype, and i64
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_RANGE (no such dimension), UNSUPPORTED (the extent is open), OUT_OF_MEMORY
 *
 * Ownership: the values belong to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_sort(dhow_model *model, dhow_model_value x,
                                                    int32_t dim, int32_t descending,
                                                    dhow_model_value *values,
                                                    dhow_model_value *indices);

/* ---- element by element, besides dhow/model_elementwise.h ---- */

/**
 * dhow_leaky_relu(): x, alpha x below 0; floats.
 *
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_leaky_relu(dhow_model *model, dhow_model_value x,
                                                          double alpha, dhow_model_value *out);

/**
 * dhow_elu(): x, alpha (e^x - 1) below 0; floats.
 *
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_elu(dhow_model *model, dhow_model_value x,
                                                   double alpha, dhow_model_value *out);

/**
 * dhow_cast(): x as another dtype.
 *
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_cast(dhow_model *model, dhow_model_value x,
                                                    dhow_dtype dtype, dhow_model_value *out);

/**
 * dhow_log_softmax().
 *
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_log_softmax(dhow_model *model, dhow_model_value x,
                                                           int32_t dim, dhow_model_value *out);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_MODEL_STEPS_H_ */
