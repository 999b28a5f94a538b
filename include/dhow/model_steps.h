/* SPDX-License-Identifier: Apache-2.0
 *
 * Further steps of models that are built: those that arrange, choose and order elements, and
 * further layers. Where there is an eager function of a step's name (dhow/ops.h, dhow/tensor.h) it
 * does the same; extents of -1 are open until the model runs.
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
 * @param model         made by dhow_model_create(), which no thread runs
 * @param x             of any shape and dtype
 * @param order, count  each dimension of x once, from the end when negative; count is the rank of x
 * @param out           receives the value; -1 on errors
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
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      of any shape and dtype
 * @param dim    DHOW_ALL_DIMS: without any dimension of extent 1, for which all extents are known
 * @param out    receives the value; -1 on errors
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
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      of any shape and dtype
 * @param dim    where it will be, -1 for the last of the result
 * @param out    receives the value; -1 on errors
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
 * @param model        made by dhow_model_create(), which no thread runs
 * @param x            of any dtype
 * @param rank, shape  of the result, at least the rank of x; -1 keeps the extent that x has there,
 * also an open one
 * @param out          receives the value; -1 on errors
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
 * Elements start, start + step, ... below stop along a dimension, as dhow_tensor_slice().
 * Out-of-range start and stop are clamped, as in Python.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      of any shape and dtype
 * @param dim    that is cut; -1 is the last
 * @param start  the first index, from the end when negative
 * @param stop   behind the last index, from the end when negative
 * @param step   at least 1
 * @param out    receives the value; -1 on errors
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
 * @param model   made by dhow_model_create(), which no thread runs
 * @param x       of any shape and dtype
 * @param dim     that is cut; -1 is the last
 * @param start   the first index that stays
 * @param length  how many stay
 * @param out     receives the value; -1 on errors
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
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      of any shape and dtype
 * @param dim    that the result lacks; -1 is the last
 * @param index  counted from the end when negative
 * @param out    receives the value; -1 on errors
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
 * Joins values along a new dimension, as dhow_stack().
 *
 * @param model   made by dhow_model_create(), which no thread runs
 * @param values  `count` of them, of one shape and dtype
 * @param count   of values, 1 or more
 * @param dim     where it will be, -1 for the last of the result
 * @param out     receives the value; -1 on errors
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
 * Parts of a dimension of given extents, as dhow_tensor_split().
 *
 * @param model         made by dhow_model_create(), which no thread runs
 * @param x             of any dtype, the divided extent known
 * @param dim           that is divided; -1 is the last
 * @param sizes, count  1 or more extents that come to that of the dimension
 * @param out           receives `count` values; all -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or the sizes do not come to the extent),
 * OUT_OF_RANGE (no such dimension), UNSUPPORTED (the extent is open), OUT_OF_MEMORY
 *
 * Ownership: the values belong to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_split(dhow_model *model, dhow_model_value x,
                                                     int32_t dim, const int64_t *sizes,
                                                     uint32_t count, dhow_model_value *out);

/**
 * Parts of a dimension of equal extents, the last ones shorter or of extent 0 where it does not
 * come out even, as dhow_tensor_chunk().
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      of any dtype, the divided extent known
 * @param dim    that is divided; -1 is the last
 * @param count  of parts, 1 or more
 * @param out    receives `count` values; all -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or count is 0), OUT_OF_RANGE (no such
 * dimension), UNSUPPORTED (the extent is open), OUT_OF_MEMORY
 *
 * Ownership: the values belong to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_chunk(dhow_model *model, dhow_model_value x,
                                                     int32_t dim, uint32_t count,
                                                     dhow_model_value *out);

/**
 * x with elements around it, as PyTorch's F.pad().
 *
 * @param model        made by dhow_model_create(), which no thread runs
 * @param x            any dtype
 * @param pads, count  how many before and after the last dimension, then the one before it, and so
 * on; negative ones cut
 * @param mode         which DHOW_PAD_...: what stands around x
 * @param value        of DHOW_PAD_CONSTANT
 * @param out          receives the value; -1 on errors
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
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any dtype
 * @param index  i64[count]; negative ones count from the end, others outside x give zeros
 * @param out    receives the value; -1 on errors
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
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any dtype
 * @param dim    of x that the index is of; -1 is the last
 * @param index  i64[count]; negative ones count from the end, others outside x give zeros
 * @param out    receives the value; -1 on errors
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
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any dtype
 * @param index  i64 of x's rank, no larger than x but along dim; the result has its shape
 * @param dim    of x that the index is of; -1 is the last
 * @param out    receives the value; -1 on errors
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
 * @param model   made by dhow_model_create(), which no thread runs
 * @param x       any dtype; bool is only replaced
 * @param dim     of x that the index is of; -1 is the last
 * @param index   i64 of x's rank, no larger than x but along dim
 * @param source  the shape of index, the dtype of x
 * @param reduce  what becomes of the elements of x; DHOW_SCATTER_REPLACE: they are replaced
 * @param out     receives the value; -1 on errors
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
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      f32, f64, f16, bf16, i32 or i64
 * @param dim    along which it sums; -1 is the last
 * @param out    the shape and dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_cumsum(dhow_model *model, dhow_model_value x,
                                                      int32_t dim, dhow_model_value *out);

/**
 * dhow_argmin().
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      f32, f64, f16, bf16, i32 or i64
 * @param dim    that is reduced; -1 is the last
 * @param out    i64, without that dimension; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_argmin(dhow_model *model, dhow_model_value x,
                                                      int32_t dim, dhow_model_value *out);

/**
 * dhow_topk(): the k largest or smallest elements along a dimension; equal ones as they come.
 *
 * @param model    made by dhow_model_create(), which no thread runs
 * @param x        any dtype
 * @param k        0 to the extent of `dim`
 * @param dim      along which it chooses; -1 is the last
 * @param largest  1: the largest in falling order, 0: the smallest in rising order
 * @param values, indices  receive the values: of x's dtype, and i64; -1 on errors; neither may be
 * NULL
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
 * All elements along a dimension in order; equal ones as they come.
 *
 * @param model       made by dhow_model_create(), which no thread runs
 * @param x           any dtype
 * @param dim         along which it sorts; its extent is known, -1 is the last
 * @param descending  0: in rising order, 1: in falling order
 * @param values, indices  receive the values: of x's dtype, and i64; -1 on errors; neither may be
 * NULL
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

/* ---- reduced, besides dhow_model_reduce() ---- */

/**
 * dhow_var(): the sum of (x - mean)^2 / max(0, n - correction) over dimensions of n elements.
 *
 * @param model        made by dhow_model_create(), which no thread runs
 * @param x            f32, f64, f16 or bf16
 * @param dims, count  as for dhow_model_reduce()
 * @param correction   1 for a sample (PyTorch's default), 0 for a population
 * @param keep_dims    as for dhow_model_reduce()
 * @param out          receives the value; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_var(dhow_model *model, dhow_model_value x,
                                                   const int32_t *dims, uint32_t count,
                                                   double correction, int32_t keep_dims,
                                                   dhow_model_value *out);

/**
 * dhow_std(): the square root of dhow_model_var().
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      f32, f64, f16 or bf16
 * @param dims, count, correction, keep_dims  as for dhow_model_var()
 * @param out    receives the value; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_std(dhow_model *model, dhow_model_value x,
                                                   const int32_t *dims, uint32_t count,
                                                   double correction, int32_t keep_dims,
                                                   dhow_model_value *out);

/* ---- element by element, besides dhow/model_elementwise.h ---- */

/**
 * dhow_leaky_relu(): x, alpha x below 0; floats.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param alpha  the slope below 0
 * @param out    the shape of x; -1 on errors
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
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param alpha  the bound below 0, with its sign turned
 * @param out    the shape of x; -1 on errors
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
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape and dtype
 * @param dtype  of the result
 * @param out    the shape of x; -1 on errors
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
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param dim    along which it goes; -1 is the last
 * @param out    the shape of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_log_softmax(dhow_model *model, dhow_model_value x,
                                                           int32_t dim, dhow_model_value *out);

/* ---- layers and what they are made of ---- */

/**
 * A convolution over one dimension with parameters "<name>.weight" [out_channels, in_channels /
 * groups, ...] and, with a bias, "<name>.bias"; PyTorch's nn.Conv1d.
 *
 * @param model    made by dhow_model_create(), which no thread runs
 * @param name     of the layer, 1 to 128 bytes, before its parameters' names
 * @param x        [n, in_channels, l]; f32, f64, f16 or bf16
 * @param in_channels, out_channels  1 to 2^31 - 1, multiples of the groups
 * @param options  with its kernel, not NULL; begin with DHOW_INIT()
 * @param bias     1 for one, 0 for none
 * @param out      [n, out_channels, l'] of x's dtype; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_conv1d(dhow_model *model, const char *name,
                                                      dhow_model_value x, int64_t in_channels,
                                                      int64_t out_channels,
                                                      const dhow_conv_options *options,
                                                      int32_t bias, dhow_model_value *out);

/**
 * A convolution over three dimensions with parameters "<name>.weight" [out_channels, in_channels /
 * groups, ...] and, with a bias, "<name>.bias"; PyTorch's nn.Conv3d.
 *
 * @param model    made by dhow_model_create(), which no thread runs
 * @param name     of the layer, 1 to 128 bytes, before its parameters' names
 * @param x        [n, in_channels, d, h, w]; f32, f64, f16 or bf16
 * @param in_channels, out_channels  1 to 2^31 - 1, multiples of the groups
 * @param options  with its kernel, not NULL; begin with DHOW_INIT()
 * @param bias     1 for one, 0 for none
 * @param out      [n, out_channels, d', h', w'] of x's dtype; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_conv3d(dhow_model *model, const char *name,
                                                      dhow_model_value x, int64_t in_channels,
                                                      int64_t out_channels,
                                                      const dhow_conv_options *options,
                                                      int32_t bias, dhow_model_value *out);

/**
 * A transposed convolution over one dimension with parameters "<name>.weight" [in_channels,
 * out_channels / groups, ...] and, with a bias, "<name>.bias"; PyTorch's nn.ConvTranspose1d.
 *
 * @param model    made by dhow_model_create(), which no thread runs
 * @param name     of the layer, 1 to 128 bytes, before its parameters' names
 * @param x        [n, in_channels, l]; f32, f64, f16 or bf16
 * @param in_channels, out_channels  1 to 2^31 - 1, multiples of the groups
 * @param options  with its kernel, not NULL; begin with DHOW_INIT()
 * @param bias     1 for one, 0 for none
 * @param out      [n, out_channels, l'] of x's dtype; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_conv_transpose1d(
    dhow_model *model, const char *name, dhow_model_value x, int64_t in_channels,
    int64_t out_channels, const dhow_conv_options *options, int32_t bias, dhow_model_value *out);

/**
 * A transposed convolution over images with parameters "<name>.weight" [in_channels, out_channels /
 * groups, ...] and, with a bias, "<name>.bias"; PyTorch's nn.ConvTranspose2d.
 *
 * @param model    made by dhow_model_create(), which no thread runs
 * @param name     of the layer, 1 to 128 bytes, before its parameters' names
 * @param x        [n, in_channels, h, w]; f32, f64, f16 or bf16
 * @param in_channels, out_channels  1 to 2^31 - 1, multiples of the groups
 * @param options  with its kernel, not NULL; begin with DHOW_INIT()
 * @param bias     1 for one, 0 for none
 * @param out      [n, out_channels, h', w'] of x's dtype; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_conv_transpose2d(
    dhow_model *model, const char *name, dhow_model_value x, int64_t in_channels,
    int64_t out_channels, const dhow_conv_options *options, int32_t bias, dhow_model_value *out);

/**
 * A transposed convolution over three dimensions with parameters "<name>.weight" [in_channels,
 * out_channels / groups, ...] and, with a bias, "<name>.bias"; PyTorch's nn.ConvTranspose3d.
 *
 * @param model    made by dhow_model_create(), which no thread runs
 * @param name     of the layer, 1 to 128 bytes, before its parameters' names
 * @param x        [n, in_channels, d, h, w]; f32, f64, f16 or bf16
 * @param in_channels, out_channels  1 to 2^31 - 1, multiples of the groups
 * @param options  with its kernel, not NULL; begin with DHOW_INIT()
 * @param bias     1 for one, 0 for none
 * @param out      [n, out_channels, d', h', w'] of x's dtype; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_conv_transpose3d(
    dhow_model *model, const char *name, dhow_model_value x, int64_t in_channels,
    int64_t out_channels, const dhow_conv_options *options, int32_t bias, dhow_model_value *out);

/**
 * Groups of channels brought to mean 0 and variance 1, then scaled and shifted by "<name>.weight"
 * and "<name>.bias" of each channel; Wu and He 2018, PyTorch's nn.GroupNorm.
 *
 * @param model     made by dhow_model_create(), which no thread runs
 * @param name      of the layer, 1 to 128 bytes, before its parameters' names
 * @param x         [n, channels, ...]; f32, f64, f16 or bf16
 * @param groups    1 or more, divides channels
 * @param channels  1 to 2^31 - 1
 * @param eps       added to the variance
 * @param out       the shape and dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_groupnorm(dhow_model *model, const char *name,
                                                         dhow_model_value x, int64_t groups,
                                                         int64_t channels, float eps,
                                                         dhow_model_value *out);

/**
 * x / sqrt(mean(x^2) + eps) over the last dimension, scaled by "<name>.weight"; Zhang and Sennrich
 * 2019, PyTorch's nn.RMSNorm.
 *
 * @param model     made by dhow_model_create(), which no thread runs
 * @param name      of the layer, 1 to 128 bytes, before its parameters' names
 * @param x         [..., features]; f32, f64, f16 or bf16
 * @param features  1 to 2^31 - 1
 * @param eps       added to the mean of squares
 * @param out       the shape and dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_rmsnorm(dhow_model *model, const char *name,
                                                       dhow_model_value x, int64_t features,
                                                       float eps, dhow_model_value *out);

/**
 * x itself when the model runs; while a dhow_trainer trains it, x / (1 - p) with elements replaced
 * by 0 that are drawn with probability p, anew in each step; Srivastava et al. 2014, PyTorch's
 * nn.Dropout. Which elements these are follows from dhow_trainer_options.seed, the number of the
 * step, the layer and the element's position, and is the same on every device.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      f32, f64, f16 or bf16
 * @param p      0 to 1
 * @param out    the shape of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, x is no float, or p is not a
 * probability), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_dropout(dhow_model *model, dhow_model_value x,
                                                       double p, dhow_model_value *out);

/**
 * softmax(scale query key^T + mask) value, Vaswani et al. 2017; PyTorch's function of that name.
 *
 * @param model      made by dhow_model_create(), which no thread runs
 * @param query, key, value  [..., l, e], [..., s, e], [..., s, v] with the same extents before, but
 * that the heads of query, the extent before l, may be a multiple of the others': each of those
 * serves as many in a row; f32, f64, f16 or bf16
 * @param mask       -1 for none; of their dtype it is added, of bool it keeps what it is true for;
 * it broadcasts to [..., l, s]
 * @param is_causal  not 0: row i sees columns up to i; no mask besides
 * @param scale      0: 1 / sqrt(e)
 * @param out        [..., l, v]; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_scaled_dot_product_attention(
    dhow_model *model, dhow_model_value query, dhow_model_value key, dhow_model_value value,
    dhow_model_value mask, int32_t is_causal, double scale, dhow_model_value *out);

/* ---- caches: what a model keeps of earlier steps, as an input with room and an output ---- */

/**
 * A cache with new steps written into it: those of sequence b go to start[b], start[b] + 1, ... of
 * dimension -2. Make the cache an input and the result an output, and run the model with
 * dhow_model_run_into() and one tensor for both: then nothing but the new steps is written, and one
 * plan serves all lengths.
 *
 * @param model   made by dhow_model_create(), which no thread runs
 * @param cache   [batch, ..., room, features] of any dtype
 * @param update  the same with no more steps than there is room for
 * @param start   i64[batch]; a run with one below 0 or beyond room - steps is INVALID_ARGUMENT
 * where it is an input and the model is on the CPU, or DHOW_VALIDATE is set; else nothing is
 * written for that sequence
 * @param out     the shape and dtype of cache; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_update_cache(dhow_model *model,
                                                            dhow_model_value cache,
                                                            dhow_model_value update,
                                                            dhow_model_value start,
                                                            dhow_model_value *out);

/**
 * dhow_model_scaled_dot_product_attention() to keys and values in caches, of which the first
 * lengths[b] steps of sequence b are there; no others are read.
 *
 * @param model      made by dhow_model_create(), which no thread runs
 * @param query      [batch, heads, l, e], f32, f64, f16 or bf16
 * @param key        [batch, h, room, e]; heads is a multiple of h
 * @param value      [batch, h, room, v]
 * @param lengths    i64[batch], with the steps of the query; a run with one below 0 or beyond the
 * room is INVALID_ARGUMENT where it is an input and the model is on the CPU, or DHOW_VALIDATE is
 * set; else the results of that sequence are NaN
 * @param is_causal  not 0: the queries are the last steps, and see none behind their own
 * @param scale      0: 1 / sqrt(e)
 * @param softcap    scores become softcap tanh(score / softcap); 0: they stay
 * @param out        [batch, heads, l, v]; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes that are known do
 * not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status
dhow_model_cached_attention(dhow_model *model, dhow_model_value query, dhow_model_value key,
                            dhow_model_value value, dhow_model_value lengths, int32_t is_causal,
                            double scale, double softcap, dhow_model_value *out);

/**
 * Images, rows or volumes of another size; PyTorch's F.interpolate().
 *
 * @param model          made by dhow_model_create(), which no thread runs
 * @param x              [n, c] and one to three dimensions; f32, f64, f16 or bf16
 * @param size           the extent of each of these, or NULL
 * @param scale_factor   what each is multiplied by, where size is NULL; else NULL
 * @param mode           which DHOW_INTERPOLATE_...: how elements are found
 * @param align_corners  not 0: the first and last elements stay where they are; of
 * DHOW_INTERPOLATE_LINEAR and DHOW_INTERPOLATE_CUBIC
 * @param out            [n, c] and the size, or floor(extent scale_factor); -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_interpolate(
    dhow_model *model, dhow_model_value x, const int64_t *size, const double *scale_factor,
    dhow_interpolation mode, int32_t align_corners, dhow_model_value *out);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_MODEL_STEPS_H_ */
