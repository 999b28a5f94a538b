/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenCL codes into statuses and messages. The native name stays in the message: it is what people
 * search for. The plugin's two allocation helpers live here too.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "opencl.h"

/* Codes that no header of version 1.2 has. */
enum { NVIDIA_ILLEGAL_ACCESS = -9999 };

/* X(code, status) */
#define CL_CODES(X)                                                 \
    X(CL_DEVICE_NOT_FOUND, DHOW_UNAVAILABLE)                        \
    X(CL_DEVICE_NOT_AVAILABLE, DHOW_UNAVAILABLE)                    \
    X(CL_COMPILER_NOT_AVAILABLE, DHOW_UNSUPPORTED)                  \
    X(CL_MEM_OBJECT_ALLOCATION_FAILURE, DHOW_OUT_OF_MEMORY)         \
    X(CL_OUT_OF_RESOURCES, DHOW_OUT_OF_MEMORY)                      \
    X(CL_OUT_OF_HOST_MEMORY, DHOW_OUT_OF_MEMORY)                    \
    X(CL_PROFILING_INFO_NOT_AVAILABLE, DHOW_UNSUPPORTED)            \
    X(CL_MEM_COPY_OVERLAP, DHOW_INVALID_ARGUMENT)                   \
    X(CL_BUILD_PROGRAM_FAILURE, DHOW_COMPILE_ERROR)                 \
    X(CL_MAP_FAILURE, DHOW_OUT_OF_MEMORY)                           \
    X(CL_MISALIGNED_SUB_BUFFER_OFFSET, DHOW_UNSUPPORTED)            \
    X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, DHOW_CANCELLED) \
    X(CL_COMPILE_PROGRAM_FAILURE, DHOW_COMPILE_ERROR)               \
    X(CL_INVALID_VALUE, DHOW_INVALID_ARGUMENT)                      \
    X(CL_INVALID_DEVICE, DHOW_DEVICE_LOST)                          \
    X(CL_INVALID_CONTEXT, DHOW_DEVICE_LOST)                         \
    X(CL_INVALID_QUEUE_PROPERTIES, DHOW_UNSUPPORTED)                \
    X(CL_INVALID_COMMAND_QUEUE, DHOW_DEVICE_LOST)                   \
    X(CL_INVALID_MEM_OBJECT, DHOW_INVALID_ARGUMENT)                 \
    X(CL_INVALID_BINARY, DHOW_CORRUPT)                              \
    X(CL_INVALID_BUILD_OPTIONS, DHOW_COMPILE_ERROR)                 \
    X(CL_INVALID_PROGRAM, DHOW_INTERNAL)                            \
    X(CL_INVALID_PROGRAM_EXECUTABLE, DHOW_INTERNAL)                 \
    X(CL_INVALID_KERNEL_NAME, DHOW_NOT_FOUND)                       \
    X(CL_INVALID_KERNEL_DEFINITION, DHOW_COMPILE_ERROR)             \
    X(CL_INVALID_KERNEL, DHOW_INTERNAL)                             \
    X(CL_INVALID_ARG_INDEX, DHOW_INVALID_ARGUMENT)                  \
    X(CL_INVALID_ARG_VALUE, DHOW_INVALID_ARGUMENT)                  \
    X(CL_INVALID_ARG_SIZE, DHOW_INVALID_ARGUMENT)                   \
    X(CL_INVALID_KERNEL_ARGS, DHOW_INVALID_ARGUMENT)                \
    X(CL_INVALID_WORK_DIMENSION, DHOW_INVALID_ARGUMENT)             \
    X(CL_INVALID_WORK_GROUP_SIZE, DHOW_INVALID_ARGUMENT)            \
    X(CL_INVALID_WORK_ITEM_SIZE, DHOW_INVALID_ARGUMENT)             \
    X(CL_INVALID_GLOBAL_OFFSET, DHOW_INVALID_ARGUMENT)              \
    X(CL_INVALID_EVENT_WAIT_LIST, DHOW_INTERNAL)                    \
    X(CL_INVALID_EVENT, DHOW_INTERNAL)                              \
    X(CL_INVALID_OPERATION, DHOW_UNSUPPORTED)                       \
    X(CL_INVALID_BUFFER_SIZE, DHOW_OUT_OF_MEMORY)                   \
    X(CL_INVALID_GLOBAL_WORK_SIZE, DHOW_INVALID_ARGUMENT)           \
    X(CL_PLATFORM_NOT_FOUND_KHR, DHOW_UNAVAILABLE)                  \
    X(NVIDIA_ILLEGAL_ACCESS, DHOW_DEVICE_LOST)

static const struct {
    cl_int code;
    dhow_status status;
    const char *name;
} code_table[] = {
#define CODE_ROW_(code, status) {code, status, #code},
    CL_CODES(CODE_ROW_)
#undef CODE_ROW_
};

const char *dhowi_cl_error_name(cl_int code) {
    for (size_t i = 0; i < sizeof code_table / sizeof code_table[0]; i++)
        if (code_table[i].code == code) return code_table[i].name;
    return "an unknown OpenCL error";
}

static dhow_status status_of(cl_int code) {
    for (size_t i = 0; i < sizeof code_table / sizeof code_table[0]; i++)
        if (code_table[i].code == code) return code_table[i].status;
    return DHOW_INTERNAL;
}

__attribute__((format(printf, 4, 0))) static int32_t fill_error(dhow_error *err, dhow_status status,
                                                                cl_int code, const char *format,
                                                                va_list list) {
    err->code = (int32_t)status;
    err->native_code = code;
    int length = vsnprintf(err->message, sizeof err->message, format, list);
    if (code != CL_SUCCESS && length >= 0 && (size_t)length < sizeof err->message)
        snprintf(err->message + length, sizeof err->message - (size_t)length, ": %s (%d)",
                 dhowi_cl_error_name(code), (int)code);
    return (int32_t)status;
}

int32_t dhowi_cl_fail(dhow_error *err, cl_int code, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int32_t status = fill_error(err, status_of(code), code, format, list);
    va_end(list);
    return status;
}

int32_t dhowi_cl_fail_late(dhow_error *err, cl_int code, const char *format, ...) {
    dhow_status status = status_of(code);
    /* NVIDIA answers a crashed kernel with CL_OUT_OF_RESOURCES at the next synchronisation. */
    if (code == CL_OUT_OF_RESOURCES || (status != DHOW_OUT_OF_MEMORY && status != DHOW_CANCELLED))
        status = DHOW_DEVICE_LOST;
    va_list list;
    va_start(list, format);
    int32_t result = fill_error(err, status, code, format, list);
    va_end(list);
    return result;
}

int32_t dhowi_cl_refuse(dhow_error *err, dhow_status status, const char *format, ...) {
    va_list list;
    va_start(list, format);
    int32_t result = fill_error(err, status, CL_SUCCESS, format, list);
    va_end(list);
    return result;
}

void *dhowi_cl_new(const dhow_host *host, size_t bytes) {
    void *memory = host->alloc(host->user, bytes, 16);
    if (memory != NULL) memset(memory, 0, bytes);
    return memory;
}

void dhowi_cl_delete(const dhow_host *host, void *memory) {
    if (memory != NULL) host->free(host->user, memory);
}
