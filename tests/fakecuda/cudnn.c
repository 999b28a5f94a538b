/* SPDX-License-Identifier: Apache-2.0
 *
 * A fake cuDNN 9: descriptions, the checks that it makes at a call, heuristic answers, and
 * convolutions by plain loops (conv.c) on the fake runtime's streams.
 */
#include <library_types.h>
#include <limits.h>
#include <string.h>

#include "conv.h"
#include "plugins/cuda/cudnn_abi.h"

enum { HANDLE = 1, TENSOR, FILTER, CONV, ACTIVATION };
enum { LATEST = 5, WORKSPACE_BYTES = 4096, TOO_MUCH = 1 << 30 };

struct dnn_context {
    int kind;
    cudaStream_t stream;
};
struct dnn_tensor {
    int kind, type, rank, shape[LATEST], strides[LATEST];
};
struct dnn_filter {
    int kind, type, format, rank, shape[LATEST];
};
struct dnn_conv {
    int kind, spatial, pad[3], stride[3], dilation[3], compute, math, groups;
};
struct dnn_activation {
    int kind, mode, nan;
};

/* ---- objects ---- */

static int create(const char *name, void **out, int kind, size_t bytes) {
    const int code = fakecuda_library_call(name);
    if (code != 0) return code;
    *out = fakecuda_object_new(FAKECUDA_CUDNN, bytes);
    if (*out == NULL) return DNN_INTERNAL_ERROR;
    *(int *)*out = kind;
    return 0;
}

static bool is(const void *object, int kind) {
    return fakecuda_object_is(object, FAKECUDA_CUDNN) && *(const int *)object == kind;
}

static int destroy(const char *name, void *object, int kind) {
    const int code = fakecuda_library_call(name);
    if (!is(object, kind)) return DNN_BAD_PARAM;
    fakecuda_object_delete(object);
    return code;
}

#define OBJECT_(type, Name, KIND)                                                  \
    int cudnnCreate##Name(type *out);                                              \
    int cudnnCreate##Name(type *out) {                                             \
        void *object = NULL;                                                       \
        const int code = create("cudnnCreate" #Name, &object, KIND, sizeof **out); \
        if (code == 0) *out = object;                                              \
        return code;                                                               \
    }                                                                              \
    int cudnnDestroy##Name(type object);                                           \
    int cudnnDestroy##Name(type object) { return destroy("cudnnDestroy" #Name, object, KIND); }
OBJECT_(dnn_tensor, TensorDescriptor, TENSOR)
OBJECT_(dnn_filter, FilterDescriptor, FILTER)
OBJECT_(dnn_conv, ConvolutionDescriptor, CONV)
OBJECT_(dnn_activation, ActivationDescriptor, ACTIVATION)

int cudnnCreate(dnn_handle *out);
int cudnnCreate(dnn_handle *out) {
    void *object = NULL;
    if (fakecuda_setting("nocudnn")) return DNN_NOT_INITIALIZED;
    if (fakecuda_current_device() < 0) {
        fakecuda_complain("cudnnCreate without a context");
        return DNN_NOT_INITIALIZED;
    }
    const int code = create("cudnnCreate", &object, HANDLE, sizeof **out);
    if (code == 0) *out = object;
    return code;
}

int cudnnDestroy(dnn_handle handle);
int cudnnDestroy(dnn_handle handle) { return destroy("cudnnDestroy", handle, HANDLE); }

const char *cudnnGetErrorString(int status);
const char *cudnnGetErrorString(int status) {
    switch (status) {
        case 0:
            return "CUDNN_STATUS_SUCCESS";
        case DNN_NOT_INITIALIZED:
            return "CUDNN_STATUS_NOT_INITIALIZED";
        case DNN_BAD_PARAM:
            return "CUDNN_STATUS_BAD_PARAM";
        case DNN_NOT_SUPPORTED:
            return "CUDNN_STATUS_NOT_SUPPORTED";
        case DNN_EXECUTION_FAILED:
            return "CUDNN_STATUS_EXECUTION_FAILED";
        default:
            return "unknown status";
    }
}

int cudnnSetStream(dnn_handle handle, cudaStream_t stream);
int cudnnSetStream(dnn_handle handle, cudaStream_t stream) {
    const int code = fakecuda_library_call("cudnnSetStream");
    if (code != 0 || !is(handle, HANDLE)) return code != 0 ? code : DNN_BAD_PARAM;
    handle->stream = stream;
    return 0;
}

/* ---- descriptions ---- */

static bool is_shape(int rank, const int *shape) {
    double count = 1;
    if (rank < 4 || rank > LATEST) return false;
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 1) return false;
        count *= shape[i];
    }
    return count < INT_MAX;
}

int cudnnSetTensorNdDescriptor(dnn_tensor tensor, int type, int rank, const int *shape,
                               const int *strides);
int cudnnSetTensorNdDescriptor(dnn_tensor tensor, int type, int rank, const int *shape,
                               const int *strides) {
    const int code = fakecuda_library_call("cudnnSetTensorNdDescriptor");
    if (code != 0) return code;
    if (!is(tensor, TENSOR) || !is_shape(rank, shape)) return DNN_BAD_PARAM;
    tensor->type = type;
    tensor->rank = rank;
    memcpy(tensor->shape, shape, (size_t)rank * sizeof *shape);
    memcpy(tensor->strides, strides, (size_t)rank * sizeof *strides);
    return 0;
}

int cudnnSetFilterNdDescriptor(dnn_filter filter, int type, int format, int rank, const int *shape);
int cudnnSetFilterNdDescriptor(dnn_filter filter, int type, int format, int rank,
                               const int *shape) {
    const int code = fakecuda_library_call("cudnnSetFilterNdDescriptor");
    if (code != 0) return code;
    if (!is(filter, FILTER) || !is_shape(rank, shape)) return DNN_BAD_PARAM;
    filter->type = type;
    filter->format = format;
    filter->rank = rank;
    memcpy(filter->shape, shape, (size_t)rank * sizeof *shape);
    return 0;
}

int cudnnSetConvolutionNdDescriptor(dnn_conv conv, int spatial, const int *pad, const int *stride,
                                    const int *dilation, int mode, int compute);
int cudnnSetConvolutionNdDescriptor(dnn_conv conv, int spatial, const int *pad, const int *stride,
                                    const int *dilation, int mode, int compute) {
    const int code = fakecuda_library_call("cudnnSetConvolutionNdDescriptor");
    if (code != 0) return code;
    if (!is(conv, CONV) || spatial < 2 || spatial > 3 || mode != DNN_CROSS_CORRELATION)
        return DNN_BAD_PARAM;
    for (int i = 0; i < spatial; i++) {
        if (pad[i] < 0 || stride[i] < 1 || dilation[i] < 1) return DNN_BAD_PARAM;
        conv->pad[i] = pad[i];
        conv->stride[i] = stride[i];
        conv->dilation[i] = dilation[i];
    }
    conv->spatial = spatial;
    conv->compute = compute;
    conv->groups = 1;
    return 0;
}

static int set(const char *name, dnn_conv conv, int *member, int value) {
    const int code = fakecuda_library_call(name);
    if (code != 0 || !is(conv, CONV)) return code != 0 ? code : DNN_BAD_PARAM;
    *member = value;
    return 0;
}

int cudnnSetConvolutionMathType(dnn_conv conv, int math);
int cudnnSetConvolutionMathType(dnn_conv conv, int math) {
    return set("cudnnSetConvolutionMathType", conv, &conv->math, math);
}

int cudnnSetConvolutionGroupCount(dnn_conv conv, int groups);
int cudnnSetConvolutionGroupCount(dnn_conv conv, int groups) {
    return set("cudnnSetConvolutionGroupCount", conv, &conv->groups, groups);
}

int cudnnSetActivationDescriptor(dnn_activation activation, int mode, int nan, double limit);
int cudnnSetActivationDescriptor(dnn_activation activation, int mode, int nan, double limit) {
    const int code = fakecuda_library_call("cudnnSetActivationDescriptor");
    (void)limit;
    if (code != 0 || !is(activation, ACTIVATION)) return code != 0 ? code : DNN_BAD_PARAM;
    activation->mode = mode;
    activation->nan = nan;
    return 0;
}

/* ---- what is asked for ---- */

static int32_t cuda_type(int type) {
    return type == DNN_FLOAT ? CUDA_R_32F : type == DNN_HALF ? CUDA_R_16F : CUDA_R_16BF;
}

/* Strides of an image without gaps; an extent of 1 may have any. */
static bool has_format(dnn_tensor t, int format) {
    int64_t step = format == DNN_NHWC ? t->shape[1] : 1;
    bool fits = true;
    for (int i = t->rank - 1; i >= 2; i--) {
        fits &= t->shape[i] == 1 || t->strides[i] == step;
        step *= t->shape[i];
    }
    fits &= t->shape[1] == 1 || t->strides[1] == (format == DNN_NHWC ? 1 : step);
    if (format != DNN_NHWC) step *= t->shape[1];
    return fits && (t->shape[0] == 1 || t->strides[0] == step);
}

/* Leaves 1 for the dimensions that an image of rank 4 lacks. */
static void widen(int rank, const int *values, int64_t lacking, int64_t *out) {
    for (int i = 0; i < 3; i++) out[i] = i < 5 - rank ? lacking : values[i - (5 - rank)];
}

static void take_strides(dnn_tensor t, int64_t *out) {
    out[0] = t->strides[0];
    out[1] = t->strides[1];
    widen(t->rank, t->strides + 2, 0, out + 2);
}

static void weight_strides(dnn_filter w, const fake_conv *c, int64_t *out) {
    const int64_t inner = w->shape[1], taps = c->kernel[0] * c->kernel[1] * c->kernel[2];
    const int64_t step = w->format == DNN_NHWC ? inner : 1;
    out[0] = inner * taps;
    out[1] = w->format == DNN_NHWC ? 1 : taps;
    out[2] = step * c->kernel[1] * c->kernel[2];
    out[3] = step * c->kernel[2];
    out[4] = step;
}

static int describe(dnn_tensor x, dnn_filter w, dnn_conv conv, dnn_tensor y, fake_conv *c) {
    if (!is(x, TENSOR) || !is(w, FILTER) || !is(conv, CONV) || !is(y, TENSOR)) return DNN_BAD_PARAM;
    const int rank = x->rank;
    if (w->rank != rank || y->rank != rank || conv->spatial != rank - 2 || conv->groups < 1 ||
        x->shape[0] != y->shape[0] || x->shape[1] != w->shape[1] * conv->groups ||
        y->shape[1] != w->shape[0] || w->shape[0] % conv->groups != 0)
        return DNN_BAD_PARAM;
    memset(c, 0, sizeof *c);
    c->type = cuda_type(x->type);
    c->tf32 = x->type == DNN_FLOAT && conv->math != DNN_FMA_MATH;
    c->n = x->shape[0];
    c->c = x->shape[1];
    c->k = w->shape[0];
    c->groups = conv->groups;
    widen(rank, x->shape + 2, 1, c->in);
    widen(rank, y->shape + 2, 1, c->out);
    widen(rank, w->shape + 2, 1, c->kernel);
    widen(rank, conv->pad, 0, c->pad);
    widen(rank, conv->stride, 1, c->stride);
    widen(rank, conv->dilation, 1, c->dilation);
    take_strides(x, c->x_strides);
    take_strides(y, c->y_strides);
    weight_strides(w, c, c->w_strides);
    for (int i = 0; i < 3; i++) {
        const int64_t reach = (c->kernel[i] - 1) * c->dilation[i] + 1;
        if (c->in[i] + 2 * c->pad[i] < reach ||
            c->out[i] != (c->in[i] + 2 * c->pad[i] - reach) / c->stride[i] + 1)
            return DNN_BAD_PARAM;
    }
    if (x->type != w->type || x->type != y->type || conv->compute != DNN_FLOAT ||
        (conv->math == DNN_FMA_MATH && x->type != DNN_FLOAT) || !has_format(x, w->format) ||
        !has_format(y, w->format))
        return DNN_NOT_SUPPORTED;
    return 0;
}

/* What an algorithm needs; the transforms need nothing, which makes them tempting. */
static size_t workspace_of(int algorithm) {
    return algorithm == DNN_FWD_IMPLICIT_PRECOMP_GEMM ? WORKSPACE_BYTES
           : algorithm == DNN_FWD_GEMM                ? TOO_MUCH
                                                      : 0;
}

/* Answers with the algorithms of `order`, the first of which cannot do it. */
static int answer(const int *order, int count, dnn_conv conv, int asked, int *found,
                  dnn_algorithm *results) {
    memset(results, 0, (size_t)asked * sizeof *results);
    for (; *found < count && *found < asked; ++*found) {
        dnn_algorithm *a = &results[*found];
        a->algorithm = order[*found];
        a->status = *found == 0 ? DNN_NOT_SUPPORTED : 0;
        a->determinism = DNN_DETERMINISTIC;
        a->math = conv->math == DNN_TENSOR_OP_MATH ? DNN_TENSOR_OP_MATH : DNN_DEFAULT_MATH;
    }
    return 0;
}

int cudnnGetConvolutionForwardAlgorithm_v7(dnn_handle handle, dnn_tensor x, dnn_filter w,
                                           dnn_conv conv, dnn_tensor y, int asked, int *found,
                                           dnn_algorithm *results);
int cudnnGetConvolutionForwardAlgorithm_v7(dnn_handle handle, dnn_tensor x, dnn_filter w,
                                           dnn_conv conv, dnn_tensor y, int asked, int *found,
                                           dnn_algorithm *results) {
    static const int order[] = {DNN_FWD_DIRECT, DNN_FWD_WINOGRAD,
                                DNN_FWD_GEMM,   DNN_FWD_IMPLICIT_GEMM,
                                DNN_FWD_FFT,    DNN_FWD_IMPLICIT_PRECOMP_GEMM};
    fake_conv c;
    int code = fakecuda_library_call("cudnnGetConvolutionForwardAlgorithm_v7");
    *found = 0;
    if (code == 0)
        code = is(handle, HANDLE) && asked > 0 ? describe(x, w, conv, y, &c) : DNN_BAD_PARAM;
    if (code == 0) code = answer(order, 6, conv, asked, found, results);
    for (int i = 0; i < *found; i++)
        results[i].workspace_bytes = workspace_of(results[i].algorithm);
    return code;
}

/* Its first algorithm adds up by atomics, in another order each time. */
int cudnnGetConvolutionBackwardDataAlgorithm_v7(dnn_handle handle, dnn_filter w, dnn_tensor dy,
                                                dnn_conv conv, dnn_tensor dx, int asked, int *found,
                                                dnn_algorithm *results);
int cudnnGetConvolutionBackwardDataAlgorithm_v7(dnn_handle handle, dnn_filter w, dnn_tensor dy,
                                                dnn_conv conv, dnn_tensor dx, int asked, int *found,
                                                dnn_algorithm *results) {
    static const int order[] = {DNN_BACKWARD_FFT, DNN_BACKWARD_FFT, DNN_BACKWARD_0, DNN_BACKWARD_1};
    fake_conv c;
    int code = fakecuda_library_call("cudnnGetConvolutionBackwardDataAlgorithm_v7");
    *found = 0;
    if (code == 0)
        code = is(handle, HANDLE) && asked > 0 ? describe(dx, w, conv, dy, &c) : DNN_BAD_PARAM;
    if (code == 0) code = answer(order, 4, conv, asked, found, results);
    for (int i = 0; i < *found; i++) {
        if (results[i].algorithm == DNN_BACKWARD_0) results[i].determinism = 0;
        if (results[i].algorithm == DNN_BACKWARD_1) results[i].workspace_bytes = WORKSPACE_BYTES;
    }
    return code;
}

/* ---- convolutions ---- */

static bool is_aligned(const void *address) { return (uintptr_t)address % 16 == 0; }

static int check_call(dnn_handle handle, fake_conv *c, const void *x, const void *w, const void *y,
                      size_t needed, void *workspace, size_t workspace_bytes) {
    if (!is(handle, HANDLE) || x == NULL || w == NULL || y == NULL || x == y) return DNN_BAD_PARAM;
    if (!is_aligned(x) || !is_aligned(w) || !is_aligned(y)) {
        fakecuda_complain("cuDNN is given less alignment than its algorithms were found for");
        return DNN_BAD_PARAM;
    }
    if (workspace_bytes < needed ||
        (needed > 0 && (workspace == NULL || (uintptr_t)workspace % 256 != 0)))
        return DNN_BAD_PARAM;
    c->x = x;
    c->w = w;
    c->y = y;
    c->workspace = needed > 0 ? workspace : NULL;
    c->workspace_bytes = needed;
    return 0;
}

int cudnnConvolutionForward(dnn_handle handle, const void *alpha, dnn_tensor x_desc, const void *x,
                            dnn_filter w_desc, const void *w, dnn_conv conv, int algorithm,
                            void *workspace, size_t workspace_bytes, const void *beta,
                            dnn_tensor y_desc, void *y);
int cudnnConvolutionForward(dnn_handle handle, const void *alpha, dnn_tensor x_desc, const void *x,
                            dnn_filter w_desc, const void *w, dnn_conv conv, int algorithm,
                            void *workspace, size_t workspace_bytes, const void *beta,
                            dnn_tensor y_desc, void *y) {
    fake_conv c;
    int code = fakecuda_library_call("cudnnConvolutionForward");
    if (code == 0) code = describe(x_desc, w_desc, conv, y_desc, &c);
    if (code == 0)
        code = check_call(handle, &c, x, w, y, workspace_of(algorithm), workspace, workspace_bytes);
    if (code != 0) return code;
    c.transforms = algorithm >= DNN_FWD_FFT;
    c.alpha = (double)*(const float *)alpha;
    c.beta = (double)*(const float *)beta;
    c.z = y;
    return fake_conv_submit(handle->stream, &c) ? 0 : DNN_EXECUTION_FAILED;
}

int cudnnConvolutionBackwardData(dnn_handle handle, const void *alpha, dnn_filter w_desc,
                                 const void *w, dnn_tensor dy_desc, const void *dy, dnn_conv conv,
                                 int algorithm, void *workspace, size_t workspace_bytes,
                                 const void *beta, dnn_tensor dx_desc, void *dx);
int cudnnConvolutionBackwardData(dnn_handle handle, const void *alpha, dnn_filter w_desc,
                                 const void *w, dnn_tensor dy_desc, const void *dy, dnn_conv conv,
                                 int algorithm, void *workspace, size_t workspace_bytes,
                                 const void *beta, dnn_tensor dx_desc, void *dx) {
    const size_t needed = algorithm == DNN_BACKWARD_1 ? WORKSPACE_BYTES : 0;
    fake_conv forward;
    int code = fakecuda_library_call("cudnnConvolutionBackwardData");
    if (code == 0) code = describe(dx_desc, w_desc, conv, dy_desc, &forward);
    if (code != 0) return code;
    fake_conv c = forward; /* from the place of y to that of x */
    c.transposed = true;
    c.c = forward.k;
    c.k = forward.c;
    memcpy(c.in, forward.out, sizeof c.in);
    memcpy(c.out, forward.in, sizeof c.out);
    memcpy(c.x_strides, forward.y_strides, sizeof c.x_strides);
    memcpy(c.y_strides, forward.x_strides, sizeof c.y_strides);
    code = check_call(handle, &c, dy, w, dx, needed, workspace, workspace_bytes);
    if (code != 0) return code;
    if (algorithm == DNN_BACKWARD_0) fakecuda_complain("cuDNN adds up in another order each time");
    c.transforms = algorithm >= DNN_BACKWARD_FFT;
    c.alpha = (double)*(const float *)alpha;
    c.beta = (double)*(const float *)beta;
    c.z = dx;
    return fake_conv_submit(handle->stream, &c) ? 0 : DNN_EXECUTION_FAILED;
}

static bool is_bias_of(dnn_tensor bias, dnn_tensor y) {
    bool fits = bias->rank == y->rank && bias->type == y->type && bias->shape[1] == y->shape[1];
    for (int i = 0; i < bias->rank; i++) fits &= i == 1 || bias->shape[i] == 1;
    return fits && bias->strides[1] == 1;
}

static bool are_same(dnn_tensor a, dnn_tensor b) { return memcmp(a, b, sizeof *a) == 0; }

int cudnnConvolutionBiasActivationForward(dnn_handle handle, const void *alpha1, dnn_tensor x_desc,
                                          const void *x, dnn_filter w_desc, const void *w,
                                          dnn_conv conv, int algorithm, void *workspace,
                                          size_t workspace_bytes, const void *alpha2,
                                          dnn_tensor z_desc, const void *z, dnn_tensor bias_desc,
                                          const void *bias, dnn_activation activation,
                                          dnn_tensor y_desc, void *y);
int cudnnConvolutionBiasActivationForward(dnn_handle handle, const void *alpha1, dnn_tensor x_desc,
                                          const void *x, dnn_filter w_desc, const void *w,
                                          dnn_conv conv, int algorithm, void *workspace,
                                          size_t workspace_bytes, const void *alpha2,
                                          dnn_tensor z_desc, const void *z, dnn_tensor bias_desc,
                                          const void *bias, dnn_activation activation,
                                          dnn_tensor y_desc, void *y) {
    fake_conv c;
    int code = fakecuda_library_call("cudnnConvolutionBiasActivationForward");
    if (code == 0 && fakecuda_setting("nofused")) code = DNN_NOT_SUPPORTED;
    if (code == 0) code = describe(x_desc, w_desc, conv, y_desc, &c);
    if (code == 0)
        code = check_call(handle, &c, x, w, y, workspace_of(algorithm), workspace, workspace_bytes);
    if (code != 0) return code;
    c.transforms = algorithm >= DNN_FWD_FFT;
    if (!is(z_desc, TENSOR) || !is(bias_desc, TENSOR) || !is(activation, ACTIVATION) || z == NULL ||
        bias == NULL || !are_same(z_desc, y_desc) || !is_bias_of(bias_desc, y_desc))
        return DNN_BAD_PARAM;
    if (activation->mode != DNN_RELU &&
        (activation->mode != DNN_IDENTITY || algorithm != DNN_FWD_IMPLICIT_PRECOMP_GEMM))
        return DNN_NOT_SUPPORTED;
    c.alpha = (double)*(const float *)alpha1;
    c.beta = (double)*(const float *)alpha2;
    c.z = z;
    c.bias = bias;
    c.relu = activation->mode == DNN_RELU;
    c.keeps_nan = activation->nan == DNN_PROPAGATE_NAN;
    return fake_conv_submit(handle->stream, &c) ? 0 : DNN_EXECUTION_FAILED;
}

/* ---- what follows in calls of its own: a convolution of nothing, added to y ---- */

static int follow(dnn_handle handle, dnn_tensor y_desc, void *y, fake_conv *c) {
    if (!is(handle, HANDLE) || !is(y_desc, TENSOR) || y == NULL) return DNN_BAD_PARAM;
    c->type = cuda_type(y_desc->type);
    c->n = y_desc->shape[0];
    c->k = y_desc->shape[1];
    c->groups = 1;
    widen(y_desc->rank, y_desc->shape + 2, 1, c->out);
    take_strides(y_desc, c->y_strides);
    c->beta = 1;
    c->y = c->z = y;
    return fake_conv_submit(handle->stream, c) ? 0 : DNN_EXECUTION_FAILED;
}

int cudnnAddTensor(dnn_handle handle, const void *alpha, dnn_tensor a_desc, const void *a,
                   const void *beta, dnn_tensor c_desc, void *c);
int cudnnAddTensor(dnn_handle handle, const void *alpha, dnn_tensor a_desc, const void *a,
                   const void *beta, dnn_tensor c_desc, void *c) {
    fake_conv work = {.bias = a};
    const int code = fakecuda_library_call("cudnnAddTensor");
    if (code != 0) return code;
    if (!is(a_desc, TENSOR) || !is(c_desc, TENSOR) || !is_bias_of(a_desc, c_desc) || a == NULL ||
        *(const float *)alpha != 1 || *(const float *)beta != 1)
        return DNN_BAD_PARAM;
    return follow(handle, c_desc, c, &work);
}

int cudnnActivationForward(dnn_handle handle, dnn_activation activation, const void *alpha,
                           dnn_tensor x_desc, const void *x, const void *beta, dnn_tensor y_desc,
                           void *y);
int cudnnActivationForward(dnn_handle handle, dnn_activation activation, const void *alpha,
                           dnn_tensor x_desc, const void *x, const void *beta, dnn_tensor y_desc,
                           void *y) {
    fake_conv work = {.relu = true};
    const int code = fakecuda_library_call("cudnnActivationForward");
    if (code != 0) return code;
    if (!is(activation, ACTIVATION) || activation->mode != DNN_RELU || x != y ||
        !is(x_desc, TENSOR) || !is(y_desc, TENSOR) || !are_same(x_desc, y_desc) ||
        *(const float *)alpha != 1 || *(const float *)beta != 0)
        return DNN_BAD_PARAM;
    work.keeps_nan = activation->nan == DNN_PROPAGATE_NAN;
    return follow(handle, y_desc, y, &work);
}
