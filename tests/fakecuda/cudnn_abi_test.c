/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin's own declarations of cuDNN against NVIDIA's headers, where those are installed: every
 * number at compile time, every function by its arguments.
 */
#include "plugins/cuda/cudnn_abi.h"

#include <cudnn.h>
#include <stdio.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* cuDNN prefers its graphs */

_Static_assert(CUDNN_MAJOR == 9, "these are headers of another cuDNN");
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(DNN_NOT_INITIALIZED, CUDNN_STATUS_NOT_INITIALIZED);
SAME(DNN_BAD_PARAM, CUDNN_STATUS_BAD_PARAM);
SAME(DNN_NOT_SUPPORTED, CUDNN_STATUS_NOT_SUPPORTED);
SAME(DNN_INTERNAL_ERROR, CUDNN_STATUS_INTERNAL_ERROR);
SAME(DNN_EXECUTION_FAILED, CUDNN_STATUS_EXECUTION_FAILED);
SAME(DNN_FLOAT, CUDNN_DATA_FLOAT);
SAME(DNN_HALF, CUDNN_DATA_HALF);
SAME(DNN_BFLOAT16, CUDNN_DATA_BFLOAT16);
SAME(DNN_NCHW, CUDNN_TENSOR_NCHW);
SAME(DNN_NHWC, CUDNN_TENSOR_NHWC);
SAME(DNN_DEFAULT_MATH, CUDNN_DEFAULT_MATH);
SAME(DNN_TENSOR_OP_MATH, CUDNN_TENSOR_OP_MATH);
SAME(DNN_FMA_MATH, CUDNN_FMA_MATH);
SAME(DNN_CROSS_CORRELATION, CUDNN_CROSS_CORRELATION);
SAME(DNN_PROPAGATE_NAN, CUDNN_PROPAGATE_NAN);
SAME(DNN_RELU, CUDNN_ACTIVATION_RELU);
SAME(DNN_IDENTITY, CUDNN_ACTIVATION_IDENTITY);
SAME(DNN_DETERMINISTIC, CUDNN_DETERMINISTIC);
SAME(DNN_FWD_IMPLICIT_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM);
SAME(DNN_FWD_IMPLICIT_PRECOMP_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
SAME(DNN_FWD_GEMM, CUDNN_CONVOLUTION_FWD_ALGO_GEMM);
SAME(DNN_FWD_DIRECT, CUDNN_CONVOLUTION_FWD_ALGO_DIRECT);
SAME(DNN_FWD_FFT, CUDNN_CONVOLUTION_FWD_ALGO_FFT);
SAME(DNN_FWD_WINOGRAD, CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD);
SAME(DNN_FWD_COUNT, CUDNN_CONVOLUTION_FWD_ALGO_COUNT);

SAME(DNN_BACKWARD_0, CUDNN_CONVOLUTION_BWD_DATA_ALGO_0);
SAME(DNN_BACKWARD_1, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1);
SAME(DNN_BACKWARD_FFT, CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT);

#define AT_SAME(ours, theirs)                                                                     \
    _Static_assert(                                                                               \
        offsetof(dnn_algorithm, ours) == offsetof(cudnnConvolutionFwdAlgoPerf_t, theirs) &&       \
            offsetof(dnn_algorithm, ours) == offsetof(cudnnConvolutionBwdDataAlgoPerf_t, theirs), \
        #ours)
_Static_assert(sizeof(dnn_algorithm) == sizeof(cudnnConvolutionFwdAlgoPerf_t), "an algorithm");
_Static_assert(sizeof(dnn_algorithm) == sizeof(cudnnConvolutionBwdDataAlgoPerf_t), "backward");
AT_SAME(algorithm, algo);
AT_SAME(status, status);
AT_SAME(time, time);
AT_SAME(workspace_bytes, memory);
AT_SAME(determinism, determinism);
AT_SAME(math, mathType);

/* Never called: the compiler compares the arguments with the prototype. */
#define TAKES(function, ...)                                    \
    static void check_##function(void) {                        \
        __typeof__(function(__VA_ARGS__)) (*take)(void) = NULL; \
        (void)take;                                             \
    }
#define HANDLE ((cudnnHandle_t)0)
#define TENSOR ((cudnnTensorDescriptor_t)0)
#define FILTER ((cudnnFilterDescriptor_t)0)
#define CONV ((cudnnConvolutionDescriptor_t)0)
#define ACTIVATION ((cudnnActivationDescriptor_t)0)
#define INTS ((const int *)0)
#define FROM ((const void *)0)
#define TO ((void *)0)
TAKES(cudnnCreate, (cudnnHandle_t *)0)
TAKES(cudnnSetStream, HANDLE, (cudaStream_t)0)
TAKES(cudnnSetTensorNdDescriptor, TENSOR, CUDNN_DATA_FLOAT, 0, INTS, INTS)
TAKES(cudnnSetFilterNdDescriptor, FILTER, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 0, INTS)
TAKES(cudnnSetConvolutionNdDescriptor, CONV, 0, INTS, INTS, INTS, CUDNN_CROSS_CORRELATION,
      CUDNN_DATA_FLOAT)
TAKES(cudnnSetConvolutionMathType, CONV, CUDNN_FMA_MATH)
TAKES(cudnnSetConvolutionGroupCount, CONV, 0)
TAKES(cudnnSetActivationDescriptor, ACTIVATION, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0.0)
TAKES(cudnnGetConvolutionForwardAlgorithm_v7, HANDLE, TENSOR, FILTER, CONV, TENSOR, 0, (int *)0,
      (cudnnConvolutionFwdAlgoPerf_t *)0)
TAKES(cudnnConvolutionForward, HANDLE, FROM, TENSOR, FROM, FILTER, FROM, CONV,
      CUDNN_CONVOLUTION_FWD_ALGO_GEMM, TO, (size_t)0, FROM, TENSOR, TO)
TAKES(cudnnGetConvolutionBackwardDataAlgorithm_v7, HANDLE, FILTER, TENSOR, CONV, TENSOR, 0,
      (int *)0, (cudnnConvolutionBwdDataAlgoPerf_t *)0)
TAKES(cudnnConvolutionBackwardData, HANDLE, FROM, FILTER, FROM, TENSOR, FROM, CONV,
      CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, TO, (size_t)0, FROM, TENSOR, TO)
TAKES(cudnnConvolutionBiasActivationForward, HANDLE, FROM, TENSOR, FROM, FILTER, FROM, CONV,
      CUDNN_CONVOLUTION_FWD_ALGO_GEMM, TO, (size_t)0, FROM, TENSOR, FROM, TENSOR, FROM, ACTIVATION,
      TENSOR, TO)
TAKES(cudnnAddTensor, HANDLE, FROM, TENSOR, FROM, FROM, TENSOR, TO)
TAKES(cudnnActivationForward, HANDLE, ACTIVATION, FROM, TENSOR, FROM, FROM, TENSOR, TO)

int main(void) {
    check_cudnnCreate();
    check_cudnnSetStream();
    check_cudnnSetTensorNdDescriptor();
    check_cudnnSetFilterNdDescriptor();
    check_cudnnSetConvolutionNdDescriptor();
    check_cudnnSetConvolutionMathType();
    check_cudnnSetConvolutionGroupCount();
    check_cudnnSetActivationDescriptor();
    check_cudnnGetConvolutionForwardAlgorithm_v7();
    check_cudnnConvolutionForward();
    check_cudnnGetConvolutionBackwardDataAlgorithm_v7();
    check_cudnnConvolutionBackwardData();
    check_cudnnConvolutionBiasActivationForward();
    check_cudnnAddTensor();
    check_cudnnActivationForward();
    (void)printf("%zu bytes of an algorithm, cuDNN %d.%d\n", sizeof(dnn_algorithm), CUDNN_MAJOR,
                 CUDNN_MINOR);
    return 0;
}
