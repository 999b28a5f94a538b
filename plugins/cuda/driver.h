/* SPDX-License-Identifier: Apache-2.0
 *
 * The few functions of the CUDA driver that the runtime does not offer: contexts that are pushed
 * and popped, launches without a look-up, fills of wide words, waits for the host. Their pointers
 * come from libcuda.so.1 at run time, so nothing links it. Calls read
 * `dhowi_cu.CtxGetCurrent(&context)`.
 */
#ifndef DHOW_CUDA_DRIVER_H_
#define DHOW_CUDA_DRIVER_H_

#include <cuda.h>
#include <stddef.h>

/* X(name without "cu", symbol, CUDA version whose form of it is used) */
#define DHOWI_CU_REQUIRED(X)                                       \
    X(DeviceGet, "cuDeviceGet", 2000)                              \
    X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000)    \
    X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 11000) \
    X(CtxGetCurrent, "cuCtxGetCurrent", 4000)                      \
    X(CtxPushCurrent, "cuCtxPushCurrent", 4000)                    \
    X(CtxPopCurrent, "cuCtxPopCurrent", 4000)                      \
    X(KernelGetFunction, "cuKernelGetFunction", 12000)             \
    X(LibraryGetModule, "cuLibraryGetModule", 12000)               \
    X(FuncGetAttribute, "cuFuncGetAttribute", 2020)                \
    X(FuncSetAttribute, "cuFuncSetAttribute", 9000)                \
    X(LaunchKernel, "cuLaunchKernel", 4000)                        \
    X(MemsetD16Async, "cuMemsetD16Async", 3020)                    \
    X(MemsetD32Async, "cuMemsetD32Async", 3020)                    \
    X(MemsetD2D32Async, "cuMemsetD2D32Async", 3020)                \
    X(OccupancyMaxActiveBlocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050)

/* Without these, a feature is missing: host-signalled events, the check of argument layouts,
 * checks of the program's streams and memory. */
#define DHOWI_CU_OPTIONAL(X)                            \
    X(StreamGetCtx, "cuStreamGetCtx", 9020)             \
    X(MemGetAddressRange, "cuMemGetAddressRange", 3020) \
    X(StreamWaitValue32, "cuStreamWaitValue32", 11070)  \
    X(FuncGetParamInfo, "cuFuncGetParamInfo", 12040)

/* The forms named above have versioned names in cuda.h, which its macros hide. */
typedef struct dhowi_cu_driver {
    CUresult (*DeviceGet)(CUdevice *device, int ordinal);
    CUresult (*DevicePrimaryCtxRetain)(CUcontext *context, CUdevice device);
    CUresult (*DevicePrimaryCtxRelease)(CUdevice device);
    CUresult (*CtxGetCurrent)(CUcontext *context);
    CUresult (*CtxPushCurrent)(CUcontext context);
    CUresult (*CtxPopCurrent)(CUcontext *context);
    CUresult (*KernelGetFunction)(CUfunction *function, CUkernel kernel);
    CUresult (*LibraryGetModule)(CUmodule *module, CUlibrary library);
    CUresult (*FuncGetAttribute)(int *value, CUfunction_attribute attribute, CUfunction function);
    CUresult (*FuncSetAttribute)(CUfunction function, CUfunction_attribute attribute, int value);
    CUresult (*LaunchKernel)(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z,
                             unsigned shared_bytes, CUstream stream, void **args, void **extra);
    CUresult (*MemsetD16Async)(CUdeviceptr to, unsigned short value, size_t count, CUstream stream);
    CUresult (*MemsetD32Async)(CUdeviceptr to, unsigned value, size_t count, CUstream stream);
    CUresult (*MemsetD2D32Async)(CUdeviceptr to, size_t pitch, unsigned value, size_t width,
                                 size_t height, CUstream stream);
    CUresult (*OccupancyMaxActiveBlocks)(int *count, CUfunction function, int block,
                                         size_t shared_bytes);
    CUresult (*StreamWaitValue32)(CUstream stream, CUdeviceptr address, cuuint32_t value,
                                  unsigned flags);
    CUresult (*StreamGetCtx)(CUstream stream, CUcontext *context);
    CUresult (*MemGetAddressRange)(CUdeviceptr *base, size_t *bytes, CUdeviceptr address);
    CUresult (*FuncGetParamInfo)(CUfunction function, size_t index, size_t *offset, size_t *bytes);
} dhowi_cu_driver;

/* Filled by dhowi_cu_driver_load(); never changes afterwards. */
extern dhowi_cu_driver dhowi_cu;

/* Finds the functions unless that has succeeded before. After a failure `why` says what is missing
 * (CUDA_ERROR_NOT_FOUND) or was asked when the driver answered another code. Any thread. */
CUresult dhowi_cu_driver_load(char *why, size_t why_bytes);

#endif /* DHOW_CUDA_DRIVER_H_ */
