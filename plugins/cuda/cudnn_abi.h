/* SPDX-License-Identifier: Apache-2.0
 *
 * What is used of cuDNN 9, declared here as vendor_abi.h declares cuBLASLt. Handles and descriptors
 * are pointers, enumerations ints. tests/fakecuda/cudnn_abi_test.c compares all of it with NVIDIA's
 * headers where they are installed.
 */
#ifndef DHOW_CUDA_CUDNN_ABI_H_
#define DHOW_CUDA_CUDNN_ABI_H_

#include <cuda_runtime_api.h>
#include <stddef.h>

enum { /* cudnnStatus_t: thousands are categories */
       DNN_NOT_INITIALIZED = 1001,
       DNN_SUBLIBRARY_LOADING_FAILED = 1008,
       DNN_BAD_PARAM = 2000,
       DNN_NOT_SUPPORTED = 3000,
       DNN_INTERNAL_ERROR = 4000,
       DNN_EXECUTION_FAILED = 5000
};
enum { DNN_FLOAT = 0, DNN_HALF = 2, DNN_BFLOAT16 = 9 };                  /* cudnnDataType_t */
enum { DNN_NCHW = 0, DNN_NHWC = 1 };                                     /* cudnnTensorFormat_t */
enum { DNN_DEFAULT_MATH = 0, DNN_TENSOR_OP_MATH = 1, DNN_FMA_MATH = 3 }; /* cudnnMathType_t */
enum { DNN_CROSS_CORRELATION = 1 };      /* cudnnConvolutionMode_t */
enum { DNN_PROPAGATE_NAN = 1 };          /* cudnnNanPropagation_t */
enum { DNN_RELU = 1, DNN_IDENTITY = 5 }; /* cudnnActivationMode_t */
enum { DNN_DETERMINISTIC = 1 };          /* cudnnDeterminism_t */
enum {                                   /* cudnnConvolutionFwdAlgo_t */
       DNN_FWD_IMPLICIT_GEMM = 0,
       DNN_FWD_IMPLICIT_PRECOMP_GEMM = 1,
       DNN_FWD_GEMM = 2,
       DNN_FWD_DIRECT = 3,
       DNN_FWD_FFT = 4,
       DNN_FWD_WINOGRAD = 6,
       DNN_FWD_COUNT = 8
};

enum { DNN_BACKWARD_0 = 0, DNN_BACKWARD_1 = 1, DNN_BACKWARD_FFT = 2 }; /* ..BwdDataAlgo_t */

typedef struct dnn_algorithm { /* cudnnConvolutionFwdAlgoPerf_t and ..BwdDataAlgoPerf_t */
    int algorithm, status;
    float time;
    size_t workspace_bytes;
    int determinism, math;
    int reserved[3];
} dnn_algorithm;

typedef struct dnn_context *dnn_handle;
typedef struct dnn_tensor *dnn_tensor;
typedef struct dnn_filter *dnn_filter;
typedef struct dnn_conv *dnn_conv;
typedef struct dnn_activation *dnn_activation;

typedef const char *dnn_status_name_fn(int status);
typedef int dnn_create_fn(dnn_handle *out);
typedef int dnn_destroy_fn(dnn_handle handle);
typedef int dnn_set_stream_fn(dnn_handle handle, cudaStream_t stream);
typedef int dnn_tensor_create_fn(dnn_tensor *out);
typedef int dnn_tensor_destroy_fn(dnn_tensor tensor);
typedef int dnn_tensor_set_fn(dnn_tensor tensor, int type, int rank, const int *shape,
                              const int *strides);
typedef int dnn_filter_create_fn(dnn_filter *out);
typedef int dnn_filter_destroy_fn(dnn_filter filter);
typedef int dnn_filter_set_fn(dnn_filter filter, int type, int format, int rank, const int *shape);
typedef int dnn_conv_create_fn(dnn_conv *out);
typedef int dnn_conv_destroy_fn(dnn_conv conv);
typedef int dnn_conv_set_fn(dnn_conv conv, int spatial, const int *pad, const int *stride,
                            const int *dilation, int mode, int compute);
typedef int dnn_conv_set_math_fn(dnn_conv conv, int math);
typedef int dnn_conv_set_groups_fn(dnn_conv conv, int groups);
typedef int dnn_activation_create_fn(dnn_activation *out);
typedef int dnn_activation_destroy_fn(dnn_activation activation);
typedef int dnn_activation_set_fn(dnn_activation activation, int mode, int nan, double limit);
typedef int dnn_algorithms_fn(dnn_handle handle, dnn_tensor x, dnn_filter w, dnn_conv conv,
                              dnn_tensor y, int asked, int *found, dnn_algorithm *results);
typedef int dnn_forward_fn(dnn_handle handle, const void *alpha, dnn_tensor x_desc, const void *x,
                           dnn_filter w_desc, const void *w, dnn_conv conv, int algorithm,
                           void *workspace, size_t workspace_bytes, const void *beta,
                           dnn_tensor y_desc, void *y);
typedef int dnn_backward_algorithms_fn(dnn_handle handle, dnn_filter w, dnn_tensor dy,
                                       dnn_conv conv, dnn_tensor dx, int asked, int *found,
                                       dnn_algorithm *results);
typedef int dnn_backward_fn(dnn_handle handle, const void *alpha, dnn_filter w_desc, const void *w,
                            dnn_tensor dy_desc, const void *dy, dnn_conv conv, int algorithm,
                            void *workspace, size_t workspace_bytes, const void *beta,
                            dnn_tensor dx_desc, void *dx);
typedef int dnn_fused_fn(dnn_handle handle, const void *alpha1, dnn_tensor x_desc, const void *x,
                         dnn_filter w_desc, const void *w, dnn_conv conv, int algorithm,
                         void *workspace, size_t workspace_bytes, const void *alpha2,
                         dnn_tensor z_desc, const void *z, dnn_tensor bias_desc, const void *bias,
                         dnn_activation activation, dnn_tensor y_desc, void *y);
typedef int dnn_add_fn(dnn_handle handle, const void *alpha, dnn_tensor a_desc, const void *a,
                       const void *beta, dnn_tensor c_desc, void *c);
typedef int dnn_activate_fn(dnn_handle handle, dnn_activation activation, const void *alpha,
                            dnn_tensor x_desc, const void *x, const void *beta, dnn_tensor y_desc,
                            void *y);

#endif /* DHOW_CUDA_CUDNN_ABI_H_ */
