/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations: a table of rows, each with a rule for its result's shape and a function that submits
 * it. The eager functions of dhow/ops.h and models use the same rows.
 */
#ifndef DHOWI_OPS_OP_H_
#define DHOWI_OPS_OP_H_

#include "dhow/ops.h"
#include "kernel/kernel.h"
#include "kernel/optimise.h"

enum { DHOWI_OP_MAX_INPUTS = 6, DHOWI_OP_MAX_OUTPUTS = 2 };

/* What a tensor will look like. */
typedef struct dhowi_tensor_desc {
    dhow_dtype dtype;
    int32_t rank;
    int64_t shape[DHOW_MAX_RANK];
    int32_t encoding; /* in models: a small type that dtype holds, see lower/types/codes.c; 0 */
} dhowi_tensor_desc;

/* An elementwise program, see kernels/map.k and map.h. */
enum { DHOWI_MAP_OPERANDS = 4, DHOWI_MAP_WORDS = 8, DHOWI_MAP_CONSTANTS = 7 };
typedef struct dhowi_program {
    uint32_t words, constants;
    uint32_t word[DHOWI_MAP_WORDS];
    double constant[DHOWI_MAP_CONSTANTS];
} dhowi_program;

/* A window over up to three dimensions, outermost first; missing ones have extent 1. */
typedef struct dhowi_window3d {
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], before[3], after[3];
    int64_t groups;
    int32_t mode; /* of a pooling: 0 maximum, 1 mean, 2 mean with padding, 3 p-norm */
    float p;
} dhowi_window3d;

/* Extents around an axis: x[outer][n][inner]. */
typedef struct dhowi_axis_split {
    int64_t outer, n, inner, count, taps, stride;
    float value, alpha, beta;
    int32_t flag[2];
    int64_t shape[DHOW_MAX_RANK], strides[DHOW_MAX_RANK];
    int32_t rank;
} dhowi_axis_split;

/* What ends a product or a convolution, as dhow_blas_desc has it. */
typedef struct dhowi_activation {
    uint32_t kind; /* DHOW_ACTIVATION_... */
    float alpha, beta;
} dhowi_activation;

/* The functions of recurrent layers, in the order of kernels/recurrent.k. */
typedef enum dhowi_gate_function {
    DHOWI_GATE_SIGMOID,
    DHOWI_GATE_TANH,
    DHOWI_GATE_RELU,
    DHOWI_GATE_AFFINE,
    DHOWI_GATE_LEAKY_RELU,
    DHOWI_GATE_THRESHOLDED_RELU,
    DHOWI_GATE_SCALED_TANH,
    DHOWI_GATE_HARD_SIGMOID,
    DHOWI_GATE_ELU,
    DHOWI_GATE_SOFTSIGN,
    DHOWI_GATE_SOFTPLUS
} dhowi_gate_function;

/* All time steps of a recurrent layer: see kernels/recurrent.k. */
enum {
    DHOWI_RECURRENT_REVERSE = 1, /* the first direction; a second one always is */
    DHOWI_RECURRENT_RESET_AFTER = 32,
    DHOWI_RECURRENT_COUPLED = 64
};
enum { DHOWI_RECURRENT_UNITS = 16, DHOWI_RECURRENT_FUNCTIONS = 3 };
typedef struct dhowi_recurrent {
    int32_t gates, flags;
    float clip;                                              /* 0: none */
    dhowi_gate_function function[DHOWI_RECURRENT_FUNCTIONS]; /* f, g and h of ONNX */
    float alpha[DHOWI_RECURRENT_FUNCTIONS], beta[DHOWI_RECURRENT_FUNCTIONS];
} dhowi_recurrent;

/* A program whose operands and result are f32, or codes of 8 bits that stand for (code - zero)
 * scale, as sums of i32 do; the result's is the last. */
typedef struct dhowi_coded {
    dhowi_program program;
    float scale[DHOWI_MAP_OPERANDS + 1];
    int32_t zero[DHOWI_MAP_OPERANDS + 1];
} dhowi_coded;

/* A convolution of codes with zero point src_zero, or a product, which is a convolution of an image
 * of one row with as many pixels as x has rows: see dhow_conv_desc.dst_dtype. Behind x and the
 * weight it has f32[2, k], what is added to sums and what they are multiplied by, with further rows
 * that the tail has, and a residual. A zero point that is computed, i32[1], is in the residual's
 * place, of sums that are not scaled in that of f32[2, k]. */
typedef struct dhowi_sums {
    dhow_window window;
    int32_t src_zero;
    bool zero_given;
    uint32_t tail_count;
    dhow_conv_tail tail[DHOW_CONV_TAIL];
} dhowi_sums;

/* Attributes; each operation reads those it has. */
typedef struct dhowi_attrs {
    int32_t dim;
    float eps;
    dhowi_activation activation;     /* of matmul, linear and conv2d */
    dhowi_activation src_activation; /* of conv2d's x, which nobody else reads; RELU or CLIP */
    double number;   /* of a dropout the share of zeros, of a variance the correction */
    uint32_t layout; /* DHOW_LAYOUT_... of images of rank 5, of conv2d */
    bool exact_sums; /* of conv2d: of integers or their multiples, which f32 has exactly */
    union {
        dhow_window window;
        dhowi_program program;
        dhowi_window3d space;
        dhowi_axis_split split;
        dhowi_coded coded; /* begins with a program */
        dhowi_sums sums;   /* begins with a window */
        dhowi_recurrent recurrent;
        dhow_scalar scalar[2]; /* of arithmetic with numbers */
    };
} dhowi_attrs;

typedef struct dhowi_op dhowi_op;

/* What products and convolutions of f32 compute in. */
typedef enum dhowi_inside {
    DHOWI_AS_DEVICE, /* as it is set */
    DHOWI_EXACT,     /* f32: the result outlives the setting, or a model wants it */
    DHOWI_REDUCED    /* DHOW_PRECISION_REDUCED, for a model */
} dhowi_inside;

/* A call whose tensors are checked; strided ones are already made contiguous for operations without
 * STRIDED. */
typedef struct dhowi_call {
    const dhowi_op *op;
    dhow_stream *stream;
    dhow_tensor *in[DHOWI_OP_MAX_INPUTS]; /* NULL for an optional input that is not given */
    dhow_tensor *out;
    dhow_tensor *second; /* a further result, of operations that have one */
    const dhowi_attrs *attrs;
    dhowi_inside inside;
} dhowi_call;

/* The type that a call's products and convolutions of a dtype compute in. */
static inline dhow_dtype dhowi_compute_in(dhowi_inside inside, const dhow_device *device,
                                          dhow_dtype dtype) {
    if (inside == DHOWI_AS_DEVICE || dtype == DHOW_F64) return dhowi_device_compute(device, dtype);
    return inside == DHOWI_REDUCED && dtype == DHOW_F32 ? DHOW_BF16 : DHOW_F32;
}

enum {
    DHOWI_OP_STRIDED = 1u << 0,     /* run() takes strided tensors */
    DHOWI_OP_ELEMENTWISE = 1u << 1, /* the result may be exactly one of the inputs */
    DHOWI_OP_REDUCES = 1u << 2,     /* the result may keep its dimension as an extent of 1 */
    DHOWI_OP_MEAN = 1u << 3,        /* divides a sum by how many it is of */
    /* STRIDED, but kernels' buffers begin where the device allows it */
    DHOWI_OP_ALIGNED = 1u << 4
};

/* dtypes an operation takes: bits as in DHOW_DTYPE_BIT. */
#define DHOWI_FLOATS                                                                  \
    (DHOW_DTYPE_BIT(DHOW_F32) | DHOW_DTYPE_BIT(DHOW_F64) | DHOW_DTYPE_BIT(DHOW_F16) | \
     DHOW_DTYPE_BIT(DHOW_BF16))
#define DHOWI_REDUCIBLE (DHOWI_FLOATS | DHOW_DTYPE_BIT(DHOW_I32) | DHOW_DTYPE_BIT(DHOW_I64))
#define DHOWI_NUMBERS (DHOWI_REDUCIBLE | DHOW_DTYPE_BIT(DHOW_I8) | DHOW_DTYPE_BIT(DHOW_U8))
#define DHOWI_ANY (~UINT64_C(0))
/* Of kernels that other types reach through a cast. */
#define DHOWI_WIDE_FLOATS (DHOW_DTYPE_BIT(DHOW_F32) | DHOW_DTYPE_BIT(DHOW_F64))
#define DHOWI_WIDE (DHOWI_WIDE_FLOATS | DHOW_DTYPE_BIT(DHOW_I32) | DHOW_DTYPE_BIT(DHOW_I64))

struct dhowi_op {
    const char *name;
    const char *kernel;                      /* its portable kernel is <kernel>_<dtype> */
    const char *inputs[DHOWI_OP_MAX_INPUTS]; /* their names, for messages */
    uint32_t required, allowed;              /* number of inputs */
    uint32_t flags;
    uint64_t dtypes; /* of the first input */
    /* The result of these inputs; INVALID_ARGUMENT says what does not fit. `in[i]` is NULL for an
     * input not given. */
    dhow_status (*infer)(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                         const dhowi_attrs *attrs, dhowi_tensor_desc *out);
    dhow_status (*run)(const dhowi_call *call);
    _Atomic int32_t
        *kernel_index; /* by dtype: position in the built-in table + 1, 0 when not looked up */
};

/* X(id) of every row */
/* clang-format off */
#define DHOWI_OP_MAP(X)                                                                          \
    X(relu) X(gelu) X(gelu_tanh) X(silu) X(sigmoid) X(tanh) X(exp) X(log) X(sqrt) X(neg) X(abs)  \
    X(add) X(sub) X(mul) X(div) X(max) X(min)                                                    \
    X(matmul) X(linear) X(conv2d) X(maxpool2d) X(avgpool2d)                                      \
    X(softmax) X(log_softmax) X(layernorm)                                                       \
    X(reduce_sum) X(reduce_mean) X(reduce_max) X(reduce_min) X(argmax) X(gather) X(flatten)      \
    X(map) X(cast) X(copy) X(fill) X(reduce_prod)                                                \
    X(conv3d) X(conv_transpose) X(pool) X(pool_blocks) X(pool_index) X(resample)                 \
    X(gather_axis) X(gather_elements) X(scatter_elements) X(scatter_rows)                        \
    X(normalize) X(lrn) X(lstm_cell) X(cumsum) X(topk)                                           \
    X(affine) X(add_scalar) X(sub_scalar) X(mul_scalar) X(div_scalar) X(pow_scalar)              \
    X(max_scalar) X(min_scalar) X(dropout) X(decode) X(encode) X(quantize) X(range) X(scale_of_range)                    \
    X(roi_align) X(determinant) X(matmul_nbits) X(attention) X(conv_data_gradient) X(conv_weight_gradient)         \
    X(scale_channels) X(matmul_integer) X(attention_cache) X(write_steps)                        \
    X(map_codes) X(conv2d_integer) X(matmul_codes) X(recurrent) X(softmax_scores) X(norm_sum) X(trees) \
    X(bitcast) X(cumprod) X(linear_attention) X(causal_conv) X(experts) X(mean_codes)
/* clang-format on */

typedef enum dhowi_op_id {
#define DHOWI_OP_ENUM_(name) DHOWI_OP_##name,
    DHOWI_OP_MAP(DHOWI_OP_ENUM_) DHOWI_OP_COUNT
#undef DHOWI_OP_ENUM_
} dhowi_op_id;

const dhowi_op *dhowi_op_of(dhowi_op_id id);

/* Checks tensors against the row and submits it: what every eager function does. */
dhow_status dhowi_op_call(dhowi_op_id id, dhow_stream *stream, dhow_tensor *const *in,
                          uint32_t count, const dhowi_attrs *attrs, dhow_tensor *out);
/* Runs a call that a planner made: INTERNAL where it breaks what dhowi_call promises, which would
 * be wrong numbers. */
dhow_status dhowi_op_run(const dhowi_call *call);
/* The result's dtype and shape. */
dhow_status dhowi_op_infer(const dhowi_op *op, const dhowi_tensor_desc *const *in,
                           const dhowi_attrs *attrs, dhowi_tensor_desc *out);
/* Whether a device can run a row at all for a dtype: UNSUPPORTED names operation, dtype and device.
 */
dhow_status dhowi_op_supported(const dhowi_op *op, dhow_dtype dtype, dhow_device *device);

/* ---- for run() functions ---- */

/* Whether rows of few results are cut into parts, so that they fill the device. */
static inline bool dhowi_splits_rows(const dhow_device *device) {
    return device->context->splits && dhowi_optimises(DHOWI_OPTIMISE_SPLITS);
}

/* The portable kernel of the call, for a dtype. */
dhow_status dhowi_op_kernel(const dhowi_op *op, dhow_dtype dtype, dhow_device *device,
                            dhow_kernel **out);
/* A kernel by base name and dtype, for those that are not the row's own. */
dhow_status dhowi_kernel_of(dhow_device *device, const char *base, dhow_dtype dtype,
                            dhow_kernel **out);
void dhowi_desc_of(const dhow_tensor *t, dhowi_tensor_desc *desc);
/* Shape and strides of up to three operands over `shape`, broadcast, with dimensions merged. */
void dhowi_dims_of(int32_t rank, const int64_t *shape, dhow_tensor *const *operands, uint32_t count,
                   dhow_dims *dims);
/* One more than the largest element index of a tensor. */
int64_t dhowi_span_of(const dhow_tensor *t);
const char *dhowi_desc_text(const dhowi_tensor_desc *desc, char *buffer, size_t capacity);

/* y = activation(a b + bias): matrices of a batch, given by element strides; c is contiguous
 * [batch][m][n]. */
typedef struct dhowi_gemm {
    const dhowi_op *op; /* whose portable kernel is the product */
    int64_t m, n, k, batch;
    int64_t a_row, a_col, a_batch, b_row, b_col, b_batch;
    dhow_tensor *a, *b, *bias, *residual, *c;
    dhowi_activation activation;
    dhowi_inside inside;
} dhowi_gemm;
/* The layouts a convolution's plan settles on when asked for *src and *dst (DHOW_LAYOUT_ANY: for
 * the best); NCHW for both where there is no such plan. */
dhow_status dhowi_conv_layouts(dhow_device *device, const dhowi_tensor_desc *x,
                               const dhowi_tensor_desc *weight, const dhowi_attrs *attrs, bool bias,
                               bool residual, dhowi_inside inside, uint32_t *src, uint32_t *dst);
/* Whether a vendor's library has the convolution with its src_activation in any layout, and with
 * its activation where `ends` says so: else that may be a step behind it. */
dhow_status dhowi_conv_takes(dhow_device *device, const dhowi_tensor_desc *x,
                             const dhowi_tensor_desc *weight, const dhowi_attrs *attrs, bool bias,
                             bool residual, dhowi_inside inside, bool ends, bool *out);
dhow_status dhowi_gemm_run(dhow_stream *stream, const dhowi_gemm *gemm);
/* Whether a vendor's library adds up products of bytes: x[m, k] of u8 or i8 with constant weights
 * i8[k, n], to i32. */
dhow_status dhowi_takes_integers(dhow_device *device, dhow_dtype dtype, int64_t m, int64_t k,
                                 int64_t n, bool *out);
/* x[..., m, terms] of `count` elements as an image of one row, whose pixels are the rows of x: what
 * convolutions of integers take for a product. */
dhowi_tensor_desc dhowi_image_of_rows(dhow_dtype dtype, int64_t count, int64_t terms);
/* Whether it adds up products of bytes in a convolution of x[n, c, h, w], to a dtype and with a
 * residual of one, NULL for none. */
dhow_status dhowi_convolves_integers(dhow_device *device, const dhowi_tensor_desc *x,
                                     const dhowi_tensor_desc *weight, const dhowi_sums *sums,
                                     dhow_dtype dtype, const dhow_dtype *residual, bool *out);
/* Whether a vendor's library has the transposed convolution of x[n, channels, ...] to `results`
 * channels, and the derivative by its weight of the convolution from `channels` to `results`. */
dhow_status dhowi_conv_takes_transposed(dhow_device *device, const dhowi_window3d *space, int64_t n,
                                        int64_t channels, int64_t results, dhow_dtype dtype,
                                        dhowi_inside inside, bool *out);
dhow_status dhowi_conv_takes_weight_gradient(dhow_device *device, const dhowi_window3d *space,
                                             int64_t n, int64_t channels, int64_t results,
                                             dhow_dtype dtype, dhowi_inside inside, bool *out);

#endif /* DHOWI_OPS_OP_H_ */
