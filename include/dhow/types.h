/* SPDX-License-Identifier: Apache-2.0
 *
 * The vocabulary that applications and plugins share: status codes, element types, what kernels
 * take and modules are made of. Everything here is part of the plugin ABI: numbers never change,
 * new ones are appended.
 */
#ifndef DHOW_TYPES_H_
#define DHOW_TYPES_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number, meaning) */
#define DHOW_STATUS_MAP(X)                                                              \
    X(OK, 0, "success")                                                                 \
    X(INVALID_ARGUMENT, 1, "an argument is wrong in itself or does not fit the others") \
    X(OUT_OF_RANGE, 2, "an index, size or offset lies outside what exists or fits")     \
    X(OUT_OF_MEMORY, 3, "host or device memory is exhausted")                           \
    X(NOT_FOUND, 4, "a file, device, kernel or name does not exist")                    \
    X(UNSUPPORTED, 5, "this device or build cannot do it")                              \
    X(UNAVAILABLE, 6, "a driver, device or library is missing on this machine")         \
    X(NOT_READY, 7, "the work is still running")                                        \
    X(DEVICE_LOST, 8, "the device failed for good; other devices go on")                \
    X(FORKED, 9, "the device was opened before fork(); only the parent may use it")     \
    X(COMPILE_ERROR, 10, "kernel source does not compile")                              \
    X(CORRUPT, 11, "a file or plugin contradicts itself")                               \
    X(IO_ERROR, 12, "the operating system refused to read or write")                    \
    X(INCOMPATIBLE, 13, "made for another version")                                     \
    X(CANCELLED, 14, "given up: something before it failed, or it was asked to stop")   \
    X(TIMED_OUT, 15, "no answer in time")                                               \
    X(INTERNAL, 16, "a mistake inside dhow or a plugin; please report it")

typedef enum dhow_status {
#define DHOW_STATUS_ENUM_(name, number, meaning) DHOW_##name = number,
    DHOW_STATUS_MAP(DHOW_STATUS_ENUM_)
#undef DHOW_STATUS_ENUM_
} dhow_status;

/* X(NAME, number, text, bytes). f16 is IEEE binary16, bf16 the upper half of an f32, bool one byte
 * that is 0 or 1. */
#define DHOW_DTYPE_MAP(X) \
    X(F32, 1, "f32", 4)   \
    X(F64, 2, "f64", 8)   \
    X(F16, 3, "f16", 2)   \
    X(BF16, 4, "bf16", 2) \
    X(I8, 5, "i8", 1)     \
    X(U8, 6, "u8", 1)     \
    X(I16, 7, "i16", 2)   \
    X(U16, 8, "u16", 2)   \
    X(I32, 9, "i32", 4)   \
    X(U32, 10, "u32", 4)  \
    X(I64, 11, "i64", 8)  \
    X(U64, 12, "u64", 8)  \
    X(BOOL, 13, "bool", 1)

typedef enum dhow_dtype {
#define DHOW_DTYPE_ENUM_(name, number, text, bytes) DHOW_##name = number,
    DHOW_DTYPE_MAP(DHOW_DTYPE_ENUM_)
#undef DHOW_DTYPE_ENUM_
} dhow_dtype;

#define DHOW_DTYPE_BIT(dtype) (UINT64_C(1) << (dtype))

enum {
    DHOW_MAX_RANK = 8,        /* dimensions of a tensor */
    DHOW_MAX_KERNEL_ARGS = 32 /* arguments of one kernel */
};

/* ---- launches and modules ---- */

/* Shape and strides of up to three operands, in elements: the one struct a kernel takes by value
 * (`VAL(dims,d)`). */
typedef struct dhow_dims {
    int64_t rank;
    int64_t shape[DHOW_MAX_RANK];
    int64_t stride[3][DHOW_MAX_RANK];
    int64_t offset[3];
} dhow_dims;

enum {                           /* what a module is made of */
       DHOW_MODULE_PORTABLE = 1, /* text in the dialect of kernel/k.h */
       DHOW_MODULE_CUDA_C = 2,
       DHOW_MODULE_OPENCL_C = 3,
       DHOW_MODULE_PTX = 4,
       DHOW_MODULE_CUBIN = 5
};

enum {                     /* dhow_module_image.kind */
       DHOW_IMAGE_CPU = 1, /* data: dhow_ready_kernel[], functions in the process */
       DHOW_IMAGE_CUDA = 2 /* data: a fat binary */
};

/* A ready-made form of a portable text, compiled with the program. A plugin that cannot use it
 * takes the text. */
typedef struct dhow_module_image {
    uint32_t kind;
    uint32_t index_bits; /* CUDA: 32 or 64; CPU: 64 */
    const void *data;    /* lives as long as the process */
    uint64_t bytes;
} dhow_module_image;

/* A kernel compiled for the CPU: the k_info that KERNEL of kernel/k.h makes, for x86-64 v2, v3 and
 * v4; on other processors three times the same. */
typedef struct dhow_ready_kernel {
    const char *name;
    const void *forms[3];
} dhow_ready_kernel;

/* Log levels, most severe first. */
typedef enum dhow_log_level {
    DHOW_LOG_ERROR = 0,
    DHOW_LOG_WARN = 1,
    DHOW_LOG_INFO = 2,
    DHOW_LOG_DEBUG = 3
} dhow_log_level;

/* What a device is. */
typedef enum dhow_device_kind {
    DHOW_DEVICE_CPU = 1,
    DHOW_DEVICE_GPU = 2,
    DHOW_DEVICE_ACCELERATOR = 3,
    DHOW_DEVICE_SIMULATED = 4
} dhow_device_kind;

/* What became of a plugin file. The first six are a plugin's own answer, the rest is found by the
 * loader. X(name, number, meaning) */
#define DHOW_PLUGIN_STATE_MAP(X)                                            \
    X(READY, 0, "has at least one device")                                  \
    X(NO_DRIVER, 1, "the vendor's driver or runtime library is missing")    \
    X(DRIVER_TOO_OLD, 2, "the driver is older than the plugin needs")       \
    X(NO_DEVICE, 3, "the driver works and shows no device")                 \
    X(NO_PERMISSION, 4, "a device is there and may not be opened")          \
    X(INIT_FAILED, 5, "the driver or the plugin failed to start")           \
    X(NOT_ELF, 6, "not a shared library")                                   \
    X(WRONG_ARCH, 7, "built for another processor or word size")            \
    X(TRUNCATED, 8, "the file is shorter than its own headers say")         \
    X(MISSING_DEPENDENCY, 9, "a library it is linked to is missing")        \
    X(MISSING_SYMBOL, 10, "a symbol is missing, or it is no dhow plugin")   \
    X(ABI_MISMATCH, 11, "made for another plugin ABI, or breaks its rules") \
    X(DISABLED, 12, "switched off by DHOW_BACKENDS")                        \
    X(DUPLICATE, 13, "the same file or backend was found before")           \
    X(CRASHED, 14, "died while it was probed")                              \
    X(TIMED_OUT, 15, "gave no answer while it was probed")

typedef enum dhow_plugin_state {
#define DHOW_PLUGIN_STATE_ENUM_(name, number, meaning) DHOW_PLUGIN_##name = number,
    DHOW_PLUGIN_STATE_MAP(DHOW_PLUGIN_STATE_ENUM_)
#undef DHOW_PLUGIN_STATE_ENUM_
} dhow_plugin_state;

#ifdef __cplusplus
}
#endif

#endif /* DHOW_TYPES_H_ */
