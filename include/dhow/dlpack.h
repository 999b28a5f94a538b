/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors to and from other libraries without a copy, by DLPack 1.x: NumPy, PyTorch, JAX, CuPy, TVM
 * and others speak it. docs/interop.md has recipes.
 *
 * The types below are those of the DLPack specification, https://dmlc.github.io/dlpack. A program
 * that has <dlpack/dlpack.h> of its own includes that one first, in version 1.0 or later, and gets
 * its types; included after this header, it adds nothing.
 */
#ifndef DHOW_DLPACK_H_
#define DHOW_DLPACK_H_

#include "dhow/tensor.h"

#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

#ifdef __cplusplus
extern "C" {
#endif

#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 1

/** The version of the ABI: other majors have other structs behind `deleter`. */
typedef struct {
    uint32_t major;
    uint32_t minor;
} DLPackVersion;

#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
    kDLCPU = 1,
    kDLCUDA = 2,
    kDLCUDAHost = 3, /**< pinned host memory of CUDA */
    kDLOpenCL = 4,   /**< data is a cl_mem */
    kDLVulkan = 7,
    kDLMetal = 8,
    kDLVPI = 9,
    kDLROCM = 10,
    kDLROCMHost = 11,
    kDLExtDev = 12,
    kDLCUDAManaged = 13,
    kDLOneAPI = 14,
    kDLWebGPU = 15,
    kDLHexagon = 16,
    kDLMAIA = 17
} DLDeviceType;

typedef struct {
    DLDeviceType device_type;
    int32_t device_id;
} DLDevice;

typedef enum {
    kDLInt = 0U,
    kDLUInt = 1U,
    kDLFloat = 2U,
    kDLOpaqueHandle = 3U,
    kDLBfloat = 4U,
    kDLComplex = 5U,
    kDLBool = 6U,
    kDLFloat8_e3m4 = 7U,
    kDLFloat8_e4m3 = 8U,
    kDLFloat8_e4m3b11fnuz = 9U,
    kDLFloat8_e4m3fn = 10U,
    kDLFloat8_e4m3fnuz = 11U,
    kDLFloat8_e5m2 = 12U,
    kDLFloat8_e5m2fnuz = 13U,
    kDLFloat8_e8m0fnu = 14U,
    kDLFloat6_e2m3fn = 15U,
    kDLFloat6_e3m2fn = 16U,
    kDLFloat4_e2m1fn = 17U
} DLDataTypeCode;

/** An element type: a DLDataTypeCode, bits of a lane, and lanes of an element. */
typedef struct {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} DLDataType;

/** A tensor that is somebody else's. */
typedef struct {
    void *data; /**< an address of the device, or the handle of a buffer */
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides;     /**< elements; NULL: row-major without gaps */
    uint64_t byte_offset; /**< of the first element behind data */
} DLTensor;

/** A tensor and who keeps it alive, as before DLPack 1.0. */
typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self); /**< NULL: nothing is to be done */
} DLManagedTensor;

#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)
#define DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED (1UL << 2UL)

/** The same since DLPack 1.0, with flags. */
typedef struct DLManagedTensorVersioned {
    DLPackVersion version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self); /**< NULL: nothing is to be done */
    uint64_t flags;
    DLTensor dl_tensor;
} DLManagedTensorVersioned;

#ifdef __cplusplus
}
#endif

#elif !defined(DLPACK_MAJOR_VERSION) || DLPACK_MAJOR_VERSION < 1
#error "dhow/dlpack.h needs DLPack 1.0; the <dlpack/dlpack.h> that was included before is older"
#endif /* DLPACK_DLPACK_H_ */

#ifdef __cplusplus
extern "C" {
#endif

/** For `stream` of dhow_tensor_to_dlpack(): nothing is waited for, the consumer sees to that. */
#define DHOW_DLPACK_NO_SYNC ((void *)(intptr_t)-1)

/**
 * Shows a tensor to another library, without a copy. CPU tensors become kDLCPU, or kDLCUDAHost
 * where CUDA pinned them; CUDA and OpenCL tensors kDLCUDA and kDLOpenCL, with the number of dhow's
 * device: "cuda:1" is 1. The read-only flag is set for tensors that are frozen or expanded.
 *
 * Dhow knows nothing of what the consumer does: its work has to be over, or to be ordered before
 * later work on the same memory, when the deleter is called, and before dhow uses the tensor
 * meanwhile.
 *
 * @param tensor  of any strides, on the CPU, CUDA or OpenCL
 * @param stream  where the consumer will work, as the number that the array API's __dlpack__()
 * gets: a cudaStream_t, which 1 for the legacy and 2 for the calling thread's default stream are,
 * or a cl_command_queue; it waits on the device for the tensor's pending work. NULL: the call
 * itself waits, as it does for host memory, whatever the stream. DHOW_DLPACK_NO_SYNC: nobody waits
 * @param out     receives the DLPack tensor; NULL on errors
 * @return INVALID_ARGUMENT (also: a stream for host memory; a stream that is not the device's),
 * UNSUPPORTED (DLPack has no such device), OUT_OF_MEMORY, DEVICE_LOST, or what the pending work
 * reports
 *
 * Ownership: *out is owned: whoever has it calls its deleter once, in any thread; it keeps the
 * tensor's storage alive. Threads: any. Blocks: for host memory, and where stream is NULL.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_to_dlpack(dhow_tensor *tensor, void *stream,
                                                          DLManagedTensorVersioned **out);

/**
 * The same in the form before DLPack 1.0, which cannot say that a tensor is read-only.
 *
 * @param tensor  as for dhow_tensor_to_dlpack(), neither frozen nor expanded
 * @param stream  as for dhow_tensor_to_dlpack()
 * @param out     receives the DLPack tensor; NULL on errors
 * @return as dhow_tensor_to_dlpack(); INVALID_ARGUMENT also for a frozen or expanded tensor
 *
 * Ownership: *out is owned: whoever has it calls its deleter once, in any thread; it keeps the
 * tensor's storage alive. Threads: any. Blocks: as dhow_tensor_to_dlpack().
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_to_dlpack_unversioned(dhow_tensor *tensor,
                                                                      void *stream,
                                                                      DLManagedTensor **out);

/**
 * Makes a tensor over another library's memory, without a copy. With the read-only flag it is
 * frozen: nobody may change the values, the producer included. kDLCPU and kDLCUDAHost become CPU
 * tensors, kDLCUDA and kDLOpenCL such of "cuda:<device_id>" and "opencl:<device_id>", where a
 * cl_mem must be of the context that dhow_stream_native() shows.
 *
 * On a device, what the device's default stream was given or made to wait for before this call
 * comes before all use of the tensor: ask the producer for that stream, __dlpack__(stream=...) with
 * the number that dhow_stream_native() of dhow_stream_default() tells, or wait first.
 *
 * @param context  in which the memory's device is looked for
 * @param managed  of DLPack 1.x, whose deleter may be NULL
 * @param out      receives the tensor; NULL on errors
 * @return INVALID_ARGUMENT (what dhow has not: the message names the value - lanes, a type, a
 * negative stride, strides that overlap, memory that is not aligned for its type, memory of another
 * device), INCOMPATIBLE (another major version), NOT_FOUND (no device of the context has that
 * device type and device_id), OUT_OF_RANGE, OUT_OF_MEMORY, DEVICE_LOST. Then `managed` stays the
 * caller's, whose deleter is not called
 *
 * Ownership: on success managed is transferred: its deleter is called once, after all work of dhow
 * that uses it, when the last tensor over it is released, by the thread that does so; *out is
 * owned. Threads: any. Blocks: while the device opens.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_from_dlpack(dhow_context *context,
                                                            DLManagedTensorVersioned *managed,
                                                            dhow_tensor **out);

/**
 * The same for the form before DLPack 1.0, which is never read-only.
 *
 * @param context  in which the memory's device is looked for
 * @param managed  whose deleter may be NULL
 * @param out      receives the tensor; NULL on errors
 * @return as dhow_tensor_from_dlpack(), except INCOMPATIBLE
 *
 * Ownership: on success managed is transferred: its deleter is called once, after all work of dhow
 * that uses it, when the last tensor over it is released, by the thread that does so; *out is
 * owned. Threads: any. Blocks: while the device opens.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_tensor_from_dlpack_unversioned(dhow_context *context,
                                                                        DLManagedTensor *managed,
                                                                        dhow_tensor **out);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_DLPACK_H_ */
