/* SPDX-License-Identifier: Apache-2.0
 *
 * A model is a list of operations with named parameters. Build one in C, load its parameters, move
 * it to a device, run it:
 *
 *     dhow_model_create(context, &m);
 *     dhow_model_input(m, "x", DHOW_F32, DHOW_SHAPE(-1, 64), &x);
 *     dhow_model_linear(m, "fc1", x, 64, 32, 1, &h);
 *     dhow_model_relu(m, h, &h);
 *     dhow_model_linear(m, "fc2", h, 32, 10, 1, &y);
 *     dhow_model_output(m, "y", y);
 *     dhow_model_load_state(m, "weights.safetensors");
 *     dhow_model_to(m, device);
 *     dhow_model_run(m, NULL, &input, 1, &output, 1);
 *
 * Values (x, h, y) are numbers inside one model. Parameters are named "<layer>.weight" and
 * "<layer>.bias", as PyTorch does.
 */
#ifndef DHOW_MODEL_H_
#define DHOW_MODEL_H_

#include "dhow/datum.h"
#include "dhow/files.h"
#include "dhow/ops.h"
#include "dhow/reduce.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dhow_model dhow_model;

/** A value inside a model: an input, a parameter or a step's result. */
typedef int32_t dhow_model_value;

/**
 * Creates an empty model on the CPU.
 *
 * @param context  on whose CPU device it begins; retained
 * @param out      receives the model; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY
 *
 * Ownership: *out is owned, release with dhow_model_release(). Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_create(dhow_context *context, dhow_model **out);

/**
 * Loads a model from an ONNX file (opset 7 to 28) onto the CPU. The file is held open: large
 * weights are read when they are wanted, perhaps again for other shapes, so it must not change
 * while the model lives; what wants a weight of a file that was written to or cut short meanwhile
 * returns CORRUPT. Weights in further files are taken from beneath the model's folder only. The
 * model is complete: nothing is added.
 *
 * @param context  on whose CPU device it begins; retained
 * @param path     of the file
 * @param out      receives the model; NULL on errors
 * @return INVALID_ARGUMENT, NOT_FOUND, IO_ERROR, CORRUPT (the message names node or byte),
 * UNSUPPORTED (names the operator), OUT_OF_MEMORY
 *
 * Ownership: *out is owned, release with dhow_model_release(). Threads: any. Blocks: while it
 * reads.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_load(dhow_context *context, const char *path,
                                                    dhow_model **out);

/**
 * The same from memory, which must live and stay as it is as long as the model.
 *
 * @param context  on whose CPU device it begins; retained
 * @param data     the bytes of an ONNX file, not NULL
 * @param bytes    how many, 1 or more
 * @param out      receives the model; NULL on errors
 * @return as dhow_model_load()
 *
 * Ownership: *out is owned; data is borrowed until the model ends. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_load_memory(dhow_context *context, const void *data,
                                                           uint64_t bytes, dhow_model **out);

/**
 * Drops a reference.
 *
 * @param model  NULL is allowed
 *
 * Threads: any. Blocks: no.
 */
DHOW_API void dhow_model_release(dhow_model *model);

/* ---- building: one thread at a time; all return INVALID_ARGUMENT (a value or name that does not
 * fit), OUT_OF_MEMORY. Shapes are checked when they are known, at the latest when the model runs.
 * ---- */

/**
 * An input; extents of -1 are open until the model runs.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param name   by which runs name it, copied; unique among inputs and parameters
 * @param dtype  of its elements
 * @param rank   0 to 8
 * @param shape  `rank` extents, -1 where any will do; NULL for rank 0
 * @param out    receives the value; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_input(dhow_model *model, const char *name,
                                                     dhow_dtype dtype, int32_t rank,
                                                     const int64_t *shape, dhow_model_value *out);

/**
 * Names a value as an output.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param name   by which runs name it, copied; unique among the outputs
 * @param value  the result of a step, neither an input nor a parameter
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_output(dhow_model *model, const char *name,
                                                      dhow_model_value value);

/**
 * A parameter of zeros, to be loaded or set.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param name   behind the open scopes, copied; unique among inputs and parameters
 * @param dtype  of its elements
 * @param rank   0 to 8
 * @param shape  `rank` extents; NULL for rank 0
 * @param out    receives the value; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_parameter(dhow_model *model, const char *name,
                                                         dhow_dtype dtype, int32_t rank,
                                                         const int64_t *shape,
                                                         dhow_model_value *out);

/**
 * dhow_linear() with parameters <name>.weight[out, in] and, with bias != 0, <name>.bias[out].
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param name   of the layer, 1 to 128 bytes, before its parameters' names
 * @param x      [..., in_features]
 * @param in_features, out_features  1 to 2^31 - 1
 * @param bias   1 for one, 0 for none
 * @param out    [..., out_features]; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_linear(dhow_model *model, const char *name,
                                                      dhow_model_value x, int64_t in_features,
                                                      int64_t out_features, int32_t bias,
                                                      dhow_model_value *out);

/**
 * dhow_conv2d() with parameters <name>.weight[k, c/groups, kh, kw] (window->kernel) and, with bias
 * != 0, <name>.bias[k].
 *
 * @param model   made by dhow_model_create(), which no thread runs
 * @param name    of the layer, 1 to 128 bytes, before its parameters' names
 * @param x       [n, in_channels, h, w]
 * @param in_channels, out_channels  1 to 2^31 - 1, multiples of the groups
 * @param window  its kernel, stride, pad, dilation and groups; not NULL
 * @param bias    1 for one, 0 for none
 * @param out     [n, out_channels, h, w] with the window's extents; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_conv2d(dhow_model *model, const char *name,
                                                      dhow_model_value x, int64_t in_channels,
                                                      int64_t out_channels,
                                                      const dhow_window *window, int32_t bias,
                                                      dhow_model_value *out);

/**
 * dhow_layernorm() with parameters <name>.weight[features], which begins as 1, and
 * <name>.bias[features].
 *
 * @param model     made by dhow_model_create(), which no thread runs
 * @param name      of the layer, 1 to 128 bytes, before its parameters' names
 * @param x         [..., features]
 * @param features  1 to 2^31 - 1
 * @param eps       added to the variance
 * @param out       the shape of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_layernorm(dhow_model *model, const char *name,
                                                         dhow_model_value x, int64_t features,
                                                         float eps, dhow_model_value *out);

/**
 * Rows of a table by index, as PyTorch's Embedding, with parameter <name>.weight[count, features].
 *
 * @param model     made by dhow_model_create(), which no thread runs
 * @param name      of the layer, 1 to 128 bytes, before its parameters' names
 * @param index     i64 of rank 0 to 7; one outside the table gives zeros
 * @param count     rows of the table, 1 to 2^31 - 1
 * @param features  1 to 2^31 - 1
 * @param dtype     of the table and of y, a float
 * @param out       the shape of index, and features; -1 on errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_embedding(dhow_model *model, const char *name,
                                                         dhow_model_value index, int64_t count,
                                                         int64_t features, dhow_dtype dtype,
                                                         dhow_model_value *out);

/**
 * (x - running_mean) / sqrt(running_var + eps) weight + bias by channel, Ioffe and Szegedy 2015; it
 * goes into a convolution or linear layer just before it. A dhow_trainer takes the batch's own mean
 * and variance, and the running ones follow. Parameters <name>.weight, .bias, .running_mean and
 * .running_var[features], and .num_batches_tracked (i64), which PyTorch saves too. Weights and
 * variances begin as 1.
 *
 * @param model     made by dhow_model_create(), which no thread runs
 * @param name      of the layer, 1 to 128 bytes, before its parameters' names
 * @param x         [n, features, ...], a float
 * @param features  1 to 2^31 - 1
 * @param eps       added to the variance
 * @param out       the shape of x; -1 on errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_batchnorm(dhow_model *model, const char *name,
                                                         dhow_model_value x, int64_t features,
                                                         float eps, dhow_model_value *out);

/**
 * Multi-head attention, Vaswani et al. 2017, as PyTorch's MultiheadAttention with batch_first.
 * Parameters <name>.in_proj_weight[3 features, features], <name>.out_proj.weight[features,
 * features] and, with a bias, <name>.in_proj_bias and <name>.out_proj.bias.
 *
 * @param model       made by dhow_model_create(), which no thread runs
 * @param name        of the layer, 1 to 128 bytes, before its parameters' names
 * @param query       [batch, steps, features], a float
 * @param key, value  [batch, other steps, features]; all three may be one value
 * @param mask        added to the scores [batch, heads, steps, other steps], to which it
 * broadcasts; -1: none
 * @param features    a multiple of heads, at most (2^31 - 1) / 3
 * @param heads       1 or more
 * @param bias        1 for them, 0 for none
 * @param out         [batch, steps, features]; -1 on errors
 * @return INVALID_ARGUMENT (heads does not divide features), OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_multihead_attention(
    dhow_model *model, const char *name, dhow_model_value query, dhow_model_value key,
    dhow_model_value value, dhow_model_value mask, int64_t features, int32_t heads, int32_t bias,
    dhow_model_value *out);

/**
 * LSTM layers on top of each other, Hochreiter and Schmidhuber 1997, as PyTorch's LSTM with
 * batch_first and a state that begins with zeros. Parameters <name>.weight_ih_l0[4 hidden, in],
 * .weight_hh_l0[4 hidden, hidden], with a bias .bias_ih_l0 and .bias_hh_l0[4 hidden], the backward
 * ones with _reverse, those of further layers with _l1, ...
 *
 * @param model          made by dhow_model_create(), which no thread runs
 * @param name           of the layer, 1 to 128 bytes, before its parameters' names
 * @param x              [batch, steps, in_features], a float
 * @param in_features    1 to 2^31 - 1
 * @param hidden         1 to (2^31 - 1) / 8
 * @param layers         1 to 1000
 * @param bidirectional  1: both ways, 0: forward alone
 * @param bias           1 for them, 0 for none
 * @param out            [batch, steps, hidden], bidirectional [batch, steps, 2 hidden]; -1 on
 * errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_lstm(dhow_model *model, const char *name,
                                                    dhow_model_value x, int64_t in_features,
                                                    int64_t hidden, int32_t layers,
                                                    int32_t bidirectional, int32_t bias,
                                                    dhow_model_value *out);

/**
 * Names of layers and parameters built from here on begin with "<name>.", within the scopes that
 * are open: "encoder.layers.0.linear1.weight".
 *
 * @param model  made by dhow_model_create()
 * @param name   without the dot, copied; at most 16 scopes and 255 bytes with those that are open
 * @return INVALID_ARGUMENT (no name, or scopes are too deep or too long together)
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_begin_scope(dhow_model *model, const char *name);

/**
 * Ends the scope begun last.
 *
 * @param model  with an open scope
 * @return INVALID_ARGUMENT (no scope is open)
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_end_scope(dhow_model *model);

/** What a row of a sequential network is. */
typedef enum dhow_layer_kind {
    DHOW_LAYER_LINEAR = 1,      /**< in, out */
    DHOW_LAYER_CONV2D = 2,      /**< in, out, window */
    DHOW_LAYER_BATCHNORM = 3,   /**< in, eps */
    DHOW_LAYER_LAYERNORM = 4,   /**< in, eps */
    DHOW_LAYER_EMBEDDING = 5,   /**< in rows of out features of dtype */
    DHOW_LAYER_MAXPOOL2D = 6,   /**< window */
    DHOW_LAYER_AVGPOOL2D = 7,   /**< window */
    DHOW_LAYER_FLATTEN = 8,     /**< all dimensions after the first become one */
    DHOW_LAYER_SOFTMAX = 9,     /**< over the last dimension */
    DHOW_LAYER_ACTIVATION = 10, /**< activation */
    DHOW_LAYER_DROPOUT = 11,    /**< p; with 0 nothing, but it has a number */
    DHOW_LAYER_SEQUENTIAL = 12, /**< layers */
    DHOW_LAYER_CONV1D = 13,     /**< in, out, conv */
    DHOW_LAYER_CONV3D = 14,
    DHOW_LAYER_CONV_TRANSPOSE1D = 15, /**< in, out, conv, as the next two */
    DHOW_LAYER_CONV_TRANSPOSE2D = 16,
    DHOW_LAYER_CONV_TRANSPOSE3D = 17,
    DHOW_LAYER_GROUPNORM = 18,   /**< groups, in, eps */
    DHOW_LAYER_RMSNORM = 19,     /**< in, eps */
    DHOW_LAYER_LOG_SOFTMAX = 20, /**< over the last dimension */
    DHOW_LAYER_LEAKY_RELU = 21,  /**< alpha */
    DHOW_LAYER_ELU = 22,         /**< alpha */
    DHOW_LAYER_UPSAMPLE = 23,    /**< scale, mode */
    DHOW_LAYER_LSTM = 24         /**< in, out hidden features */
} dhow_layer_kind;

/** A row of a sequential network; fields that its kind does not name are zero. */
typedef struct dhow_layer {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    dhow_layer_kind kind;
    int64_t in, out;           /**< features or channels */
    float eps;                 /**< 0: 1e-5, of an RMS norm 1e-6 */
    int32_t no_bias;           /**< linear, convolutions and LSTM */
    const dhow_window *window; /**< conv2d and pools, with its kernel */
    dhow_status (*activation)(dhow_model *model, dhow_model_value x,
                              dhow_model_value *out); /**< dhow_model_relu, ... */
    const struct dhow_layer *layers;
    uint32_t layer_count;
    dhow_dtype dtype;              /**< of an embedding; 0: f32 */
    const dhow_conv_options *conv; /**< with its kernel */
    int64_t groups;                /**< of a group norm */
    double alpha;                  /**< of leaky_relu, 0: 0.01; of elu, 0: 1 */
    double scale;                  /**< by which all dimensions from the third on grow */
    dhow_interpolation mode;
    double p; /**< of a dropout: the share of zeros while it is trained */
} dhow_layer;

/**
 * Layers one after the other, all or none. They are named by their place as in PyTorch's
 * Sequential: "<name>.0.weight".
 *
 * @param model   made by dhow_model_create(), which no thread runs
 * @param name    NULL or "" for a network whose parameters begin with the number
 * @param x       what the first layer takes
 * @param layers  `count` rows, read during the call; begin each with DHOW_INIT()
 * @param count   of layers; 0 gives x
 * @param out     receives the last layer's result; -1 on errors
 * @return INVALID_ARGUMENT (the message names the layer), OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_sequential(dhow_model *model, const char *name,
                                                          dhow_model_value x,
                                                          const dhow_layer *layers, uint32_t count,
                                                          dhow_model_value *out);

/**
 * The same elements in another shape; one extent may be -1 and is worked out, with open extents
 * when the model runs.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      of any shape and dtype
 * @param rank   0 to 8, of the result
 * @param shape  `rank` extents, one of which may be -1
 * @param out    receives the value; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes do not fit),
 * OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_reshape(dhow_model *model, dhow_model_value x,
                                                       int32_t rank, const int64_t *shape,
                                                       dhow_model_value *out);

/**
 * Swaps two dimensions.
 *
 * @param model       made by dhow_model_create(), which no thread runs
 * @param x           of any shape and dtype
 * @param dim0, dim1  the two that change places; -1 is the last
 * @param out         receives the value; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes do not fit),
 * OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_transpose(dhow_model *model, dhow_model_value x,
                                                         int32_t dim0, int32_t dim1,
                                                         dhow_model_value *out);

/**
 * Joins values along a dimension.
 *
 * @param model   made by dhow_model_create(), which no thread runs
 * @param values  `count` of them, of one dtype and, but for `dim`, one shape
 * @param count   of values, 1 or more
 * @param dim     along which they are joined; -1 is the last
 * @param out     receives the value; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes do not fit),
 * OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_cat(dhow_model *model,
                                                   const dhow_model_value *values, uint32_t count,
                                                   int32_t dim, dhow_model_value *out);

/**
 * dhow_where(): a where the condition (bool) is true, else b; all three broadcast.
 *
 * @param model      made by dhow_model_create(), which no thread runs
 * @param condition  bool
 * @param a, b       of one dtype; all three broadcast as in NumPy
 * @param out        receives the value; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes do not fit),
 * OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_where(dhow_model *model, dhow_model_value condition,
                                                     dhow_model_value a, dhow_model_value b,
                                                     dhow_model_value *out);

/**
 * dhow_clip(): x held between low and high; any dtype but bool.
 *
 * @param model      made by dhow_model_create(), which no thread runs
 * @param x          any shape, any dtype but bool
 * @param low, high  the least and the largest value of the result
 * @param out        receives the value; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes do not fit),
 * OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_clip(dhow_model *model, dhow_model_value x,
                                                    double low, double high, dhow_model_value *out);

/**
 * dhow_reduce().
 *
 * @param model      made by dhow_model_create(), which no thread runs
 * @param kind       which DHOW_REDUCE_...; a mean of floats only
 * @param x          any shape; floats, i32 or i64
 * @param dims       `count` different ones, negative ones from the end; NULL only with count 0
 * @param count      of dims; 0: all of x's
 * @param keep_dims  1: they stay as extents of 1, 0: they disappear
 * @param out        receives the value; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or shapes or dtypes do not fit),
 * OUT_OF_RANGE (no such dimension), OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_reduce(dhow_model *model, dhow_reduction kind,
                                                      dhow_model_value x, const int32_t *dims,
                                                      uint32_t count, int32_t keep_dims,
                                                      dhow_model_value *out);

/**
 * A step *out = dhow_affine(x, a, b): a x + b.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape, any dtype but bool
 * @param a, b   DHOW_SCALAR(...)
 * @param out    the shape and dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, or a number is not whole that must be),
 * OUT_OF_RANGE (a number that x's dtype has not, see dhow/scalar.h), OUT_OF_MEMORY
 *
 * Ownership: the value belongs to the model. Threads: externally synchronized per model. Blocks:
 * no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_affine(dhow_model *model, dhow_model_value x,
                                                      dhow_scalar a, dhow_scalar b,
                                                      dhow_model_value *out);

/**
 * dhow_matmul().
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param a      [..., m, k]; f32, f64, f16 or bf16
 * @param b      [..., k, n] of a's dtype
 * @param out    [..., m, n]; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_matmul(dhow_model *model, dhow_model_value a,
                                                      dhow_model_value b, dhow_model_value *out);
/**
 * dhow_softmax().
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; f32, f64, f16 or bf16
 * @param dim    along which sums are 1; -1 is the last
 * @param out    the shape and dtype of x; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_softmax(dhow_model *model, dhow_model_value x,
                                                       int32_t dim, dhow_model_value *out);
/**
 * dhow_argmax().
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      any shape; floats, i32 or i64
 * @param dim    that is reduced; -1 is the last
 * @param out    i64, without that dimension; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_argmax(dhow_model *model, dhow_model_value x,
                                                      int32_t dim, dhow_model_value *out);
/**
 * dhow_maxpool2d().
 *
 * @param model   made by dhow_model_create(), which no thread runs
 * @param x       [n, c, h, w]; f32, f64, f16 or bf16
 * @param window  its kernel, stride and pad
 * @param out     receives the value; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_maxpool2d(dhow_model *model, dhow_model_value x,
                                                         const dhow_window *window,
                                                         dhow_model_value *out);
/**
 * dhow_avgpool2d().
 *
 * @param model   made by dhow_model_create(), which no thread runs
 * @param x       [n, c, h, w]; f32, f64, f16 or bf16
 * @param window  its kernel, stride and pad
 * @param out     receives the value; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_avgpool2d(dhow_model *model, dhow_model_value x,
                                                         const dhow_window *window,
                                                         dhow_model_value *out);
/**
 * Joins all dimensions from `dim` on into one.
 *
 * @param model  made by dhow_model_create(), which no thread runs
 * @param x      of any shape and dtype
 * @param dim    the first of those that become one
 * @param out    receives the value; -1 on errors
 * @return INVALID_ARGUMENT (a value is none of this model, a name is taken, or shapes or dtypes
 * that are known do not fit), OUT_OF_MEMORY
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_flatten(dhow_model *model, dhow_model_value x,
                                                       int32_t dim, dhow_model_value *out);

/* ---- inputs and outputs ---- */

/** An input or output by position. */
typedef struct dhow_model_value_info {
    uint32_t struct_size;         /**< DHOW_INIT() sets it */
    const char *name;             /**< borrowed from the model */
    dhow_dtype dtype;             /**< 0: not declared; runs tell what an output is */
    int32_t rank;                 /**< -1: not declared */
    int64_t shape[DHOW_MAX_RANK]; /**< -1: open */
    dhow_datum_kind kind;         /**< of a sequence, dtype, rank and shape are its tensors' */
    int32_t optional;             /**< 1: DHOW_DATUM_NONE may be given instead */
    /** NULL, or the small type of ONNX that the elements stand for, "float8e4m3fn": dtype is what
     * they are held as. Floats of 8 or 4 bits are u8 that are their bits; integers of 4 or 2 bits,
     * "int4", are i8 or u8 within their range, one in each byte. */
    const char *encoding;
} dhow_model_value_info;

/**
 * How many inputs there are.
 *
 * @param model  NULL or what is no model gives 0
 *
 * Threads: any. Blocks: no.
 */
DHOW_API uint32_t dhow_model_input_count(const dhow_model *model);
/**
 * How many outputs there are.
 *
 * @param model  NULL or what is no model gives 0
 *
 * Threads: any. Blocks: no.
 */
DHOW_API uint32_t dhow_model_output_count(const dhow_model *model);

/**
 * One input.
 *
 * @param model  built or loaded
 * @param index  below dhow_model_input_count()
 * @param out    filled in, cleared on errors; begin with DHOW_INIT()
 * @return INVALID_ARGUMENT, OUT_OF_RANGE
 *
 * Ownership: the name is borrowed. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_input_at(const dhow_model *model, uint32_t index,
                                                        dhow_model_value_info *out);

/**
 * One output.
 *
 * @param model  built or loaded
 * @param index  below dhow_model_output_count()
 * @param out    filled in, cleared on errors; begin with DHOW_INIT()
 * @return INVALID_ARGUMENT, OUT_OF_RANGE
 *
 * Ownership: the name is borrowed. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_output_at(const dhow_model *model, uint32_t index,
                                                         dhow_model_value_info *out);

/* ---- parameters ---- */

/** A parameter by position. */
typedef struct dhow_model_parameter_info {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    const char *name;
    dhow_tensor *tensor; /**< borrowed; perhaps strided, a part of what several share */
} dhow_model_parameter_info;

/**
 * How many parameters there are.
 *
 * @param model  NULL or what is no model gives 0
 *
 * Threads: any. Blocks: no.
 */
DHOW_API uint32_t dhow_model_parameter_count(const dhow_model *model);

/**
 * One parameter.
 *
 * @param model  built or loaded
 * @param index  below dhow_model_parameter_count()
 * @param out    filled in, without a tensor on errors; begin with DHOW_INIT()
 * @return INVALID_ARGUMENT, OUT_OF_RANGE, or what reading a weight of a file says
 *
 * Ownership: borrowed until the model moves or ends. Threads: any. Blocks: while a weight that is
 * in a file is read.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_parameter_at(const dhow_model *model, uint32_t index,
                                                            dhow_model_parameter_info *out);

/**
 * Name, dtype and shape of a parameter, without reading its values.
 *
 * @param model  built or loaded
 * @param index  below dhow_model_parameter_count()
 * @param out    filled in, cleared on errors; begin with DHOW_INIT()
 * @return INVALID_ARGUMENT, OUT_OF_RANGE
 *
 * Ownership: the name is borrowed. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_parameter_describe(const dhow_model *model,
                                                                  uint32_t index,
                                                                  dhow_model_value_info *out);

/**
 * Sets a parameter's values.
 *
 * @param model  that no thread runs
 * @param name   with its scopes: "encoder.fc1.weight"
 * @param value  copied; of the parameter's shape and dtype, on any device
 * @return INVALID_ARGUMENT, NOT_FOUND, or what a device says
 *
 * Threads: externally synchronized per model. Blocks: until copied.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_set_parameter(dhow_model *model, const char *name,
                                                             dhow_tensor *value);

/**
 * Loads all parameters, all or none. A num_batches_tracked that the file lacks is not missed: no
 * run reads it.
 *
 * @param model  that no thread runs
 * @param path   of a safetensors file
 * @return INVALID_ARGUMENT (names are missing, unexpected or of another shape or dtype: the message
 * lists them), or as dhow_safetensors_open()
 *
 * Threads: externally synchronized per model. Blocks: while it reads.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_load_state(dhow_model *model, const char *path);

/** How a file of parameters differs from a model. */
typedef enum dhow_state_difference {
    DHOW_STATE_MISSING = 1,    /**< the model has it, the file does not */
    DHOW_STATE_UNEXPECTED = 2, /**< the file has it, the model does not */
    DHOW_STATE_MISMATCHED = 3  /**< another shape or dtype */
} dhow_state_difference;

/** Is told one difference; `detail` is "" or the two shapes. Both texts end with the call. */
typedef void dhow_state_fn(void *user, dhow_state_difference difference, const char *name,
                           const char *detail);

enum {                         /* flags of dhow_model_load_state_with() */
       DHOW_STATE_PARTIAL = 1, /**< takes what fits and leaves the rest as it is */
       DHOW_STATE_CONVERT = 2  /**< casts what the file has in another dtype, as dhow_cast() does */
};

/**
 * dhow_model_load_state() that tells every difference, however many there are, before anything is
 * read.
 *
 * @param model  that no thread runs
 * @param path   of a safetensors file
 * @param flags  0, or DHOW_STATE_PARTIAL and DHOW_STATE_CONVERT
 * @param told   called for each difference, in the order of the model, then of the file; NULL: none
 * @param user   handed to told
 * @return INVALID_ARGUMENT (there are differences, without DHOW_STATE_PARTIAL: nothing is loaded),
 * or as dhow_safetensors_open()
 *
 * Threads: externally synchronized per model; told runs on the caller's. Blocks: while it reads.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_load_state_with(dhow_model *model, const char *path,
                                                               uint32_t flags, dhow_state_fn *told,
                                                               void *user);

/**
 * Writes all parameters as a safetensors file.
 *
 * @param model  on any device
 * @param path   of the file, which is replaced
 * @return as dhow_safetensors_save()
 *
 * Threads: externally synchronized per model. Blocks: while it writes.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_save_state(dhow_model *model, const char *path);

/* ---- running ---- */

/**
 * Moves every parameter to a device, all or none. Refuses, before anything moves, a device that
 * lacks a kernel the model needs, naming operation, layer and dtype.
 *
 * @param model   that no thread runs
 * @param device  of the model's context
 * @return INVALID_ARGUMENT, UNSUPPORTED, OUT_OF_MEMORY, or what a device says
 *
 * Threads: externally synchronized per model. Blocks: until copied.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_to(dhow_model *model, dhow_device *device);

/**
 * Chooses what a model of f32 computes in. With DHOW_PRECISION_BF16 or _F16 products, convolutions
 * and what lies between them compute on 16-bit floats with sums in f32, everything else in f32;
 * docs/models.md lists which. Weights are cast once and held on the device as 16 bits alone;
 * inputs, outputs and parameters stay what they are, as do models of other types. With
 * DHOW_PRECISION_F32 and _REDUCED the model's products and convolutions compute so whatever its
 * device is set to; DHOW_PRECISION_DEVICE, the default, follows the device. Plans are made anew.
 * Copies by dhow_model_replicate() and trainers that are created later compute in the same.
 *
 * @param model      that no thread runs
 * @param precision  any DHOW_PRECISION_...
 * @return INVALID_ARGUMENT (no precision; the model runs on another thread), UNSUPPORTED (the
 * device does not compute in the type), OUT_OF_MEMORY, or what a device says; on failure the model
 * computes as before
 *
 * Threads: externally synchronized per model. Blocks: while weights are cast.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_set_precision(dhow_model *model,
                                                             dhow_precision precision);

/**
 * What dhow_model_set_precision() has set.
 *
 * @param model  NULL or what is no model gives DHOW_PRECISION_DEVICE
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API dhow_precision dhow_model_precision(const dhow_model *model);

/** Where the steps of a model may run. */
typedef enum dhow_placement {
    DHOW_PLACEMENT_STRICT = 0, /**< on the model's device alone */
    DHOW_PLACEMENT_FALLBACK =
        1 /**< on the CPU where the device lacks a kernel; dhow_model_get_summary()
             and dhow_model_step_at() tell which, and the bytes copied */
} dhow_placement;

/**
 * dhow_model_to() with a choice of placement.
 *
 * @param model      that no thread runs
 * @param device     of the model's context
 * @param placement  DHOW_PLACEMENT_STRICT, as dhow_model_to() has it, or DHOW_PLACEMENT_FALLBACK
 * @return as dhow_model_to()
 *
 * Threads: externally synchronized per model. Blocks: until copied.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_place(dhow_model *model, dhow_device *device,
                                                     dhow_placement placement);

/**
 * The device a model is on.
 *
 * @param model  NULL or what is no model gives NULL
 *
 * Ownership: borrowed. Threads: any. Blocks: no.
 */
DHOW_API dhow_device *dhow_model_device(const dhow_model *model);

/**
 * Runs the model and makes its results.
 *
 * @param model         that nobody changes meanwhile
 * @param stream        of the model's device, or NULL for its default stream
 * @param inputs        in the order they were declared, on the model's device
 * @param input_count   of inputs: as many as the model has
 * @param outputs       filled with new tensors in the order they were named, with NULL where it
 * fails; what is in it before is not read
 * @param output_count  of outputs: as many as the model has
 * @return INVALID_ARGUMENT (the message names the input, or the step whose shapes do not fit; or an
 * input or output is no tensor: see dhow_model_run_data()), OUT_OF_MEMORY, or what the device says
 *
 * Ownership: the outputs are owned, release each. Threads: any number at a time on one model:
 * weights are shared, each run has memory of its own; on the CPU runs with stream NULL do not wait
 * for each other. While one runs the model is neither moved nor changed: that is INVALID_ARGUMENT.
 * Blocks: a CPU stream computes at once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_run(dhow_model *model, dhow_stream *stream,
                                                   dhow_tensor *const *inputs, uint32_t input_count,
                                                   dhow_tensor **outputs, uint32_t output_count);

/**
 * dhow_model_run() that writes its results to tensors of the caller: what a loop needs that
 * allocates nothing.
 *
 * @param model           as for dhow_model_run()
 * @param stream, inputs  as for dhow_model_run()
 * @param input_count     of inputs: as many as the model has
 * @param outputs         in the order they were named: tensors of the results' shapes and dtypes on
 * the model's device, none sharing memory with another; views are written through. One that is the
 * very tensor of an input is written in place where the model changes parts of that input, as a
 * cache of keys and values, and reads it no more afterwards
 * @param output_count    of outputs: as many as the model has
 * @return as dhow_model_run(); INVALID_ARGUMENT (the message names the output and the result)
 *
 * Threads: as dhow_model_run(). Blocks: as dhow_model_run().
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_run_into(dhow_model *model, dhow_stream *stream,
                                                        dhow_tensor *const *inputs,
                                                        uint32_t input_count,
                                                        dhow_tensor *const *outputs,
                                                        uint32_t output_count);

/**
 * dhow_model_run() for models that take or give more than tensors: texts, sequences, optional
 * values (dhow_model_input_at() tells the kind). Tensors are on the model's device, those of
 * sequences as well.
 *
 * @param model, stream  as for dhow_model_run()
 * @param inputs         in the order they were declared
 * @param input_count    of inputs: as many as the model has
 * @param outputs        filled with new data in the order they were named, with NULL where it
 * fails; what is in it before is not read
 * @param output_count   of outputs: as many as the model has
 * @return as dhow_model_run()
 *
 * Ownership: the outputs are owned, release each with dhow_datum_release(). Threads: as
 * dhow_model_run(). Blocks: as dhow_model_run().
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_run_data(dhow_model *model, dhow_stream *stream,
                                                        dhow_datum *const *inputs,
                                                        uint32_t input_count, dhow_datum **outputs,
                                                        uint32_t output_count);

/** A tensor for an input or output by name. */
typedef struct dhow_named_tensor {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    const char *name;
    dhow_tensor *tensor;
} dhow_named_tensor;

/**
 * dhow_model_run() with names.
 *
 * @param model         as for dhow_model_run()
 * @param stream        of the model's device, or NULL for its default stream
 * @param inputs        in any order, each with name and tensor; begin each with DHOW_INIT()
 * @param input_count   of inputs: as many as the model has
 * @param outputs       in any order, each with a name, and a tensor to write to or NULL, which
 * becomes a new one and stays NULL on errors; begin each with DHOW_INIT()
 * @param output_count  of outputs: those that are wanted
 * @return as dhow_model_run(), NOT_FOUND (the model has no such name)
 *
 * Ownership: new outputs are owned. Threads: as dhow_model_run(). Blocks: as dhow_model_run().
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_run_named(dhow_model *model, dhow_stream *stream,
                                                         const dhow_named_tensor *inputs,
                                                         uint32_t input_count,
                                                         dhow_named_tensor *outputs,
                                                         uint32_t output_count);

/**
 * Copies of a model on other devices, all or none: for parts of a batch on several GPUs. Parameters
 * are read once and shared on the host; what is set or loaded into one afterwards does not reach
 * the others.
 *
 * @param model    built or loaded, on any device
 * @param devices  `count` of them, of the model's context; one may be named twice
 * @param count    of devices and copies, 0 or more
 * @param out      receives `count` models; all NULL on errors
 * @return as dhow_model_to()
 *
 * Ownership: the models are owned, release each with dhow_model_release(). Threads: as
 * dhow_model_run(). Blocks: until copied.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_replicate(dhow_model *model,
                                                         dhow_device *const *devices,
                                                         uint32_t count, dhow_model **out);

/* ---- looking at runs ---- */

/** What the latest plan of a model is made of. */
typedef struct dhow_model_summary {
    uint32_t struct_size;     /**< DHOW_INIT() sets it */
    uint64_t parameter_bytes; /**< all parameters */
    uint64_t arena_bytes;     /**< intermediate results, kept between runs */
    uint64_t copied_bytes;    /**< between devices, in each run */
    uint32_t node_count;      /**< of the graph */
    uint32_t step_count;      /**< of the plan */
    uint32_t segment_count;   /**< more than one where shapes depend on computed values */
    uint32_t fallback_count;  /**< steps on another device than the model's */
    uint32_t plan_count;      /**< plans kept, one per set of input shapes */
} dhow_model_summary;

/** A step of the latest plan. */
typedef struct dhow_model_step_info {
    uint32_t struct_size;  /**< DHOW_INIT() sets it */
    const char *operation; /**< of the graph: "Conv" */
    const char *node;      /**< its name, "" when it has none */
    const char *kernel;    /**< the operation that computes it: "conv2d" */
    dhow_dtype dtype;      /**< of its result */
    dhow_device *device;   /**< borrowed */
    int64_t nanoseconds;   /**< since dhow_model_set_profiling() */
    int32_t rank;          /**< of its result */
    int64_t shape[DHOW_MAX_RANK];
} dhow_model_step_info;

/**
 * Sizes and counts of a model and its latest plan; all of a plan is 0 before the first run.
 *
 * @param model  built or loaded
 * @param out    filled in, cleared on errors; begin with DHOW_INIT()
 * @return INVALID_ARGUMENT
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_get_summary(const dhow_model *model,
                                                           dhow_model_summary *out);

/**
 * One step of the latest plan.
 *
 * @param model  that has run
 * @param index  below the step_count of dhow_model_get_summary()
 * @param out    filled in, cleared on errors; begin with DHOW_INIT()
 * @return INVALID_ARGUMENT, OUT_OF_RANGE
 *
 * Ownership: names are borrowed until the next run. Threads: externally synchronized per model.
 * Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_step_at(const dhow_model *model, uint32_t index,
                                                       dhow_model_step_info *out);

/**
 * Measures each step of later runs, which then wait after every step.
 *
 * @param model  that no thread runs
 * @param on     1: begins at zero, 0: ends it
 * @return INVALID_ARGUMENT
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_set_profiling(dhow_model *model, int32_t on);

/**
 * Says how many bytes a plan may take on the device: the memory that its steps share, outputs that
 * the run makes, and copies of values it was made for. A run that needs more is refused by the
 * node's name (UNSUPPORTED). Results that are never written down, as attention's scores, do not
 * count, up to 64 times as much each. It holds for shapes that have not run before. Constants that
 * the host makes while it plans have a limit of their own (1 GiB, 16 times the file or 64 times the
 * inputs), which this raises but does not lower.
 *
 * @param model  that no thread runs
 * @param bytes  0, the default: 1 GiB, 64 times the file with its weights or 64 times the run's
 * inputs, whichever is most, for a model from a file, and no limit for one built in C
 * @return INVALID_ARGUMENT: it runs or is changed by another thread
 *
 * Threads: externally synchronized per model. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_set_memory_limit(dhow_model *model, uint64_t bytes);

/**
 * Ends later runs that take longer with TIMED_OUT: files of unknown origin may hold loops and
 * shapes that take any time. It counts from the call, the making of a plan included. A run stops
 * between two nodes or steps, never inside of one; what an asynchronous device was given before
 * still runs there. What the outputs hold then is undefined, and the model can run again.
 *
 * @param model    also one that runs, whose runs under way keep their limit
 * @param seconds  0 to 1e9; 0, the default, for no limit
 * @return INVALID_ARGUMENT
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_set_time_limit(dhow_model *model, double seconds);

/**
 * Ends the runs of a model that other threads are in with CANCELLED, where a time limit would end
 * them; runs that begin later are not touched, nor are the model's replicas. It does not wait for
 * their end.
 *
 * @param model  that runs or not
 * @return INVALID_ARGUMENT
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_model_cancel(dhow_model *model);

#ifdef __cplusplus
}
#endif

#include "dhow/model_elementwise.h"
#include "dhow/model_steps.h"

#endif /* DHOW_MODEL_H_ */
