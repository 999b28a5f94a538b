/* SPDX-License-Identifier: Apache-2.0
 *
 * cuDNN 9 as the plugin has it: opened on first use, one handle for each device.
 */
#ifndef DHOW_CUDA_CUDNN_H_
#define DHOW_CUDA_CUDNN_H_

#include "cuda_plugin.h"
#include "cudnn_abi.h"

/* X(type, member, symbol) in the order of the symbols */
#define DHOWI_CUDNN_FUNCTIONS(X)                                                         \
    X(dnn_create_fn, create, "cudnnCreate")                                              \
    X(dnn_destroy_fn, destroy, "cudnnDestroy")                                           \
    X(dnn_status_name_fn, status_name, "cudnnGetErrorString")                            \
    X(dnn_set_stream_fn, set_stream, "cudnnSetStream")                                   \
    X(dnn_tensor_create_fn, tensor_create, "cudnnCreateTensorDescriptor")                \
    X(dnn_tensor_destroy_fn, tensor_destroy, "cudnnDestroyTensorDescriptor")             \
    X(dnn_tensor_set_fn, tensor_set, "cudnnSetTensorNdDescriptor")                       \
    X(dnn_filter_create_fn, filter_create, "cudnnCreateFilterDescriptor")                \
    X(dnn_filter_destroy_fn, filter_destroy, "cudnnDestroyFilterDescriptor")             \
    X(dnn_filter_set_fn, filter_set, "cudnnSetFilterNdDescriptor")                       \
    X(dnn_conv_create_fn, conv_create, "cudnnCreateConvolutionDescriptor")               \
    X(dnn_conv_destroy_fn, conv_destroy, "cudnnDestroyConvolutionDescriptor")            \
    X(dnn_conv_set_fn, conv_set, "cudnnSetConvolutionNdDescriptor")                      \
    X(dnn_conv_set_math_fn, conv_set_math, "cudnnSetConvolutionMathType")                \
    X(dnn_conv_set_groups_fn, conv_set_groups, "cudnnSetConvolutionGroupCount")          \
    X(dnn_activation_create_fn, activation_create, "cudnnCreateActivationDescriptor")    \
    X(dnn_activation_destroy_fn, activation_destroy, "cudnnDestroyActivationDescriptor") \
    X(dnn_activation_set_fn, activation_set, "cudnnSetActivationDescriptor")             \
    X(dnn_algorithms_fn, algorithms, "cudnnGetConvolutionForwardAlgorithm_v7")           \
    X(dnn_backward_algorithms_fn, backward_algorithms,                                   \
      "cudnnGetConvolutionBackwardDataAlgorithm_v7")                                     \
    X(dnn_backward_fn, backward, "cudnnConvolutionBackwardData")                         \
    X(dnn_forward_fn, forward, "cudnnConvolutionForward")                                \
    X(dnn_fused_fn, fused, "cudnnConvolutionBiasActivationForward")                      \
    X(dnn_add_fn, add, "cudnnAddTensor")                                                 \
    X(dnn_activate_fn, activate, "cudnnActivationForward")

typedef struct dhowi_cuda_cudnn {
#define DHOWI_CUDNN_MEMBER_(type, member, symbol) type *member;
    DHOWI_CUDNN_FUNCTIONS(DHOWI_CUDNN_MEMBER_)
#undef DHOWI_CUDNN_MEMBER_
    dnn_handle handle;
    pthread_mutex_t lock; /* of the handle, which holds one stream */
} dhowi_cuda_cudnn;

/* The device's cuDNN, started with the first call. UNSUPPORTED where there is none, which is logged
 * once; UNAVAILABLE where it may start another time. The device's context is current, and
 * allocations disturb no recording. */
int32_t dhowi_cuda_cudnn_of(dhowi_cuda_device *device, dhowi_cuda_cudnn **out, dhow_error *err);

#endif /* DHOW_CUDA_CUDNN_H_ */
