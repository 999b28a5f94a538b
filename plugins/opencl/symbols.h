/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenCL entry points, found at run time. Nothing links libOpenCL: the loader is opened by its
 * soname, so that a machine without OpenCL gets a reason instead of a library that does not load.
 * Calls read `dhowi_cl.Finish(queue)`.
 */
#ifndef DHOW_OPENCL_SYMBOLS_H_
#define DHOW_OPENCL_SYMBOLS_H_

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <stddef.h>

/* Every function used, without its "cl"; all are part of OpenCL 1.2. */
#define DHOWI_CL_SYMBOLS(X)       \
    X(GetPlatformIDs)             \
    X(GetPlatformInfo)            \
    X(GetDeviceIDs)               \
    X(GetDeviceInfo)              \
    X(CreateContext)              \
    X(ReleaseContext)             \
    X(CreateCommandQueue)         \
    X(GetCommandQueueInfo)        \
    X(RetainCommandQueue)         \
    X(ReleaseCommandQueue)        \
    X(CreateBuffer)               \
    X(CreateSubBuffer)            \
    X(RetainMemObject)            \
    X(ReleaseMemObject)           \
    X(GetMemObjectInfo)           \
    X(EnqueueMapBuffer)           \
    X(EnqueueUnmapMemObject)      \
    X(EnqueueMigrateMemObjects)   \
    X(EnqueueReadBuffer)          \
    X(EnqueueReadBufferRect)      \
    X(EnqueueWriteBuffer)         \
    X(EnqueueWriteBufferRect)     \
    X(EnqueueCopyBuffer)          \
    X(EnqueueCopyBufferRect)      \
    X(EnqueueFillBuffer)          \
    X(EnqueueMarkerWithWaitList)  \
    X(EnqueueBarrierWithWaitList) \
    X(EnqueueNDRangeKernel)       \
    X(Flush)                      \
    X(Finish)                     \
    X(WaitForEvents)              \
    X(CreateUserEvent)            \
    X(SetUserEventStatus)         \
    X(GetEventInfo)               \
    X(GetEventProfilingInfo)      \
    X(ReleaseEvent)               \
    X(RetainEvent)                \
    X(CreateProgramWithSource)    \
    X(CreateProgramWithBinary)    \
    X(BuildProgram)               \
    X(GetProgramInfo)             \
    X(GetProgramBuildInfo)        \
    X(RetainProgram)              \
    X(ReleaseProgram)             \
    X(CreateKernel)               \
    X(ReleaseKernel)              \
    X(GetKernelInfo)              \
    X(GetKernelWorkGroupInfo)     \
    X(SetKernelArg)

typedef struct dhowi_cl_symbols {
#define DHOWI_CL_MEMBER_(name) __typeof__(cl##name) *name;
    DHOWI_CL_SYMBOLS(DHOWI_CL_MEMBER_)
#undef DHOWI_CL_MEMBER_
} dhowi_cl_symbols;

/* Filled by dhowi_cl_load(); never changes afterwards. */
extern dhowi_cl_symbols dhowi_cl;

typedef enum dhowi_cl_load_result {
    DHOWI_CL_LOADED,
    DHOWI_CL_NO_LIBRARY, /* why: the loader's text */
    DHOWI_CL_NO_SYMBOL   /* why: the missing function; the library is older than OpenCL 1.2 */
} dhowi_cl_load_result;

/* Opens `soname` unless that has succeeded before. The library stays open to the end of the
 * process: drivers keep threads of their own and do not survive dlclose(). Any thread. */
dhowi_cl_load_result dhowi_cl_load(const char *soname, char *why, size_t why_bytes);

#define DHOWI_CL_SONAME "libOpenCL.so.1"

#endif /* DHOW_OPENCL_SYMBOLS_H_ */
