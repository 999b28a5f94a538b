/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels: the built-in ones, and your own in the portable dialect of dhow/kernel/k.h or in a
 * backend's own language.
 *
 *     static const char text[] =
 *         "KERNEL(axpy, (IN(f32,x), INOUT(f32,y), VAL(f32,a), VAL(i64,n)))\n"
 *         "{ GRID_FOR(i, n) y[i] += a * x[i]; }\n";
 *     dhow_module_build(device, &DHOW_INIT(dhow_module_source, .text = text), &module);
 *     dhow_module_kernel(module, "axpy", &axpy);
 *     dhow_launch(NULL, axpy, n, x, y, 2.0f, n);
 *
 * The argument list in the text is the only description of a kernel; a launch is checked against
 * it.
 *
 * Machines without a compiler: the CMake function dhow_add_kernels(program axpy.k) compiles the
 * kernels of a file with the program - for the processor's instruction sets, and for CUDA where
 * nvcc is - and makes axpy_kernels.h with a dhow_module_source `axpy_kernels` that holds text and
 * binaries:
 *
 *     dhow_module_build(device, &axpy_kernels, &module);
 */
#ifndef DHOW_KERNEL_H_
#define DHOW_KERNEL_H_

#include "dhow/tensor.h"
#include "dhow/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dhow_module dhow_module;
typedef struct dhow_kernel dhow_kernel;

/** What to build. Unset fields are zero. */
typedef struct dhow_module_source {
    uint32_t struct_size; /**< DHOW_INIT() sets it */
    const char *name;     /**< for messages; NULL: "kernel text" */
    const char *text;     /**< source text, zero-terminated */
    const void *image;    /**< or a binary (PTX, cubin) */
    uint64_t image_bytes;
    uint32_t format;        /**< DHOW_MODULE_...; 0 is DHOW_MODULE_PORTABLE */
    const char *options;    /**< for the compiler, "-DT=f16" */
    const char *signatures; /**< native formats: "axpy(IN(f32,x), INOUT(f32,y), VAL(f32,a));
                               other(...)"; without it every tensor argument counts as read and
                               written and no type is checked */
    const dhow_module_image *images; /**< portable text: forms compiled with the program, see
                                        dhow_add_kernels(); static data */
    uint64_t image_count;
} dhow_module_source;

/**
 * Builds a module for a device, or takes it from the disk cache.
 *
 * @param device  that its kernels run on
 * @param source  not NULL, with either text or image; begin with DHOW_INIT()
 * @param out     receives the module; NULL on errors
 * @return INVALID_ARGUMENT (no kernel in the text, or a portable one with a name that OpenCL C or
 * CUDA has for itself, as step or min), COMPILE_ERROR (the compiler's log is in dhow_module_log()
 * of this thread and its first lines are in the message), UNSUPPORTED (no compiler here: the
 * message says what to install)
 *
 * Ownership: *out is owned, release with dhow_module_release(). Threads: any. Blocks: while it
 * compiles.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_module_build(dhow_device *device,
                                                      const dhow_module_source *source,
                                                      dhow_module **out);

/**
 * The compiler's messages of this thread's last dhow_module_build(), "" if there were none.
 *
 * Ownership: borrowed until this thread's next build. Threads: any. Blocks: no.
 */
DHOW_API const char *dhow_module_log(void);

/**
 * Drops a reference. Kernels of the module keep it alive.
 *
 * @param module  NULL is allowed
 *
 * Threads: any. Blocks: no.
 */
DHOW_API void dhow_module_release(dhow_module *module);

/**
 * A kernel of a module.
 *
 * @param module  retained by the kernel
 * @param name    as the text has it, "axpy"
 * @param out     receives the kernel; NULL on errors
 * @return INVALID_ARGUMENT, NOT_FOUND (the message lists the kernels there are)
 *
 * Ownership: *out is owned, release with dhow_kernel_release(). Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_module_kernel(dhow_module *module, const char *name,
                                                       dhow_kernel **out);

/**
 * A built-in kernel. It is compiled on first use where the backend has no ready-made one.
 *
 * @param device  that the kernel runs on
 * @param name    with its dtype: "softmax_f16"
 * @param out     receives the kernel; NULL on errors
 * @return INVALID_ARGUMENT, NOT_FOUND, UNSUPPORTED (names kernel and device)
 *
 * Ownership: *out is owned, release with dhow_kernel_release(). Threads: any. Blocks: while it
 * compiles.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_kernel_get(dhow_device *device, const char *name,
                                                    dhow_kernel **out);

/**
 * Drops a reference.
 *
 * @param kernel  NULL is allowed
 *
 * Threads: any. Blocks: no.
 */
DHOW_API void dhow_kernel_release(dhow_kernel *kernel);

/**
 * The argument list of a kernel, "(IN(f32,x), OUT(f32,y), VAL(i64,n))".
 *
 * @param kernel  NULL or what is no kernel gives ""
 *
 * Ownership: borrowed from the kernel. Threads: any. Blocks: no.
 */
DHOW_API const char *dhow_kernel_signature(const dhow_kernel *kernel);

/** The C type of a launch argument, see DHOW_ARG(). */
typedef enum dhow_value_kind {
    DHOW_VALUE_TENSOR,
    DHOW_VALUE_CONST_TENSOR,
    DHOW_VALUE_I32,
    DHOW_VALUE_U32,
    DHOW_VALUE_I64,
    DHOW_VALUE_U64,
    DHOW_VALUE_F32,
    DHOW_VALUE_F64,
    DHOW_VALUE_DIMS
} dhow_value_kind;

/** A launch argument with its C type. */
typedef struct dhow_value {
    dhow_value_kind kind;
    union {
        dhow_tensor *tensor;
        int64_t i;
        uint64_t u;
        float f32;
        double f64;
        const dhow_dims *dims;
    } u;
} dhow_value;

/**
 * Submits a kernel. Integers fit wider integer parameters and `double` fits f32 ones; nothing else
 * converts. Tensors must be contiguous, of the kernel's device and of the parameter's dtype; an
 * output that overlaps another argument is refused except where it is exactly the same ALIAS
 * argument.
 *
 * @param stream  of the kernel's device, or NULL for its default stream
 * @param kernel  portable; dhow_launch_grid_values() takes native ones
 * @param work    elements handled in all, 0 or more: sizes the launch, never changes the result
 * @param count   of values, those of the kernel's signature
 * @param values  `count` arguments in the signature's order, see DHOW_ARGS()
 * @return INVALID_ARGUMENT (the message names the argument), OUT_OF_RANGE, DEVICE_LOST, or what the
 * device says
 *
 * Ownership: tensors live until the kernel has run. Threads: any. Blocks: a CPU stream computes at
 * once, others do not.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_launch_values(dhow_stream *stream, dhow_kernel *kernel,
                                                       int64_t work, uint32_t count,
                                                       const dhow_value *values);

/**
 * Submits a kernel of a native module (CUDA or OpenCL source, PTX, cubin).
 *
 * @param stream        of the kernel's device, or NULL for its default stream
 * @param kernel        of a native module
 * @param grid, block   groups, and items of a group, in x, y and z, each 1 or more
 * @param shared_bytes  dynamic shared memory
 * @param count         of values: those of the signature, without one at most DHOW_MAX_KERNEL_ARGS
 * @param values        `count` arguments in the kernel's order, see DHOW_ARGS()
 * @return as dhow_launch_values(); INVALID_ARGUMENT for a portable kernel
 *
 * Ownership: tensors live until the kernel has run. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_launch_grid_values(
    dhow_stream *stream, dhow_kernel *kernel, const uint32_t grid[3], const uint32_t block[3],
    uint32_t shared_bytes, uint32_t count, const dhow_value *values);

#ifndef __cplusplus
static inline dhow_value dhow_value_tensor_(dhow_tensor *v) {
    return (dhow_value){DHOW_VALUE_TENSOR, {.tensor = v}};
}
static inline dhow_value dhow_value_const_tensor_(const dhow_tensor *v) {
    dhow_value value = {DHOW_VALUE_CONST_TENSOR, {.u = 0}};
    value.u.tensor = (dhow_tensor *)(uintptr_t)v;
    return value;
}
static inline dhow_value dhow_value_i32_(int v) { return (dhow_value){DHOW_VALUE_I32, {.i = v}}; }
static inline dhow_value dhow_value_u32_(unsigned v) {
    return (dhow_value){DHOW_VALUE_U32, {.u = v}};
}
static inline dhow_value dhow_value_i64_(long long v) {
    return (dhow_value){DHOW_VALUE_I64, {.i = v}};
}
static inline dhow_value dhow_value_u64_(unsigned long long v) {
    return (dhow_value){DHOW_VALUE_U64, {.u = v}};
}
static inline dhow_value dhow_value_f32_(float v) {
    return (dhow_value){DHOW_VALUE_F32, {.f32 = v}};
}
static inline dhow_value dhow_value_f64_(double v) {
    return (dhow_value){DHOW_VALUE_F64, {.f64 = v}};
}
static inline dhow_value dhow_value_dims_(const dhow_dims *v) {
    return (dhow_value){DHOW_VALUE_DIMS, {.dims = v}};
}

/** A launch argument from a tensor, a number or a pointer to dims. */
#define DHOW_ARG(a) \
    _Generic((a), dhow_tensor *: dhow_value_tensor_, const dhow_tensor *: dhow_value_const_tensor_, \
        int: dhow_value_i32_, unsigned: dhow_value_u32_, long: dhow_value_i64_,                \
        long long: dhow_value_i64_, unsigned long: dhow_value_u64_,                            \
        unsigned long long: dhow_value_u64_, float: dhow_value_f32_, double: dhow_value_f64_,  \
        dhow_dims *: dhow_value_dims_, const dhow_dims *: dhow_value_dims_)(a)

#define DHOW_ARGS_COUNT_(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, n, \
                         ...)                                                                      \
    n
#define DHOW_ARGS_COUNT(...) \
    DHOW_ARGS_COUNT_(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define DHOW_ARGS_1_(a) DHOW_ARG(a)
#define DHOW_ARGS_2_(a, ...) DHOW_ARG(a), DHOW_ARGS_1_(__VA_ARGS__)
#define DHOW_ARGS_3_(a, ...) DHOW_ARG(a), DHOW_ARGS_2_(__VA_ARGS__)
#define DHOW_ARGS_4_(a, ...) DHOW_ARG(a), DHOW_ARGS_3_(__VA_ARGS__)
#define DHOW_ARGS_5_(a, ...) DHOW_ARG(a), DHOW_ARGS_4_(__VA_ARGS__)
#define DHOW_ARGS_6_(a, ...) DHOW_ARG(a), DHOW_ARGS_5_(__VA_ARGS__)
#define DHOW_ARGS_7_(a, ...) DHOW_ARG(a), DHOW_ARGS_6_(__VA_ARGS__)
#define DHOW_ARGS_8_(a, ...) DHOW_ARG(a), DHOW_ARGS_7_(__VA_ARGS__)
#define DHOW_ARGS_9_(a, ...) DHOW_ARG(a), DHOW_ARGS_8_(__VA_ARGS__)
#define DHOW_ARGS_10_(a, ...) DHOW_ARG(a), DHOW_ARGS_9_(__VA_ARGS__)
#define DHOW_ARGS_11_(a, ...) DHOW_ARG(a), DHOW_ARGS_10_(__VA_ARGS__)
#define DHOW_ARGS_12_(a, ...) DHOW_ARG(a), DHOW_ARGS_11_(__VA_ARGS__)
#define DHOW_ARGS_13_(a, ...) DHOW_ARG(a), DHOW_ARGS_12_(__VA_ARGS__)
#define DHOW_ARGS_14_(a, ...) DHOW_ARG(a), DHOW_ARGS_13_(__VA_ARGS__)
#define DHOW_ARGS_15_(a, ...) DHOW_ARG(a), DHOW_ARGS_14_(__VA_ARGS__)
#define DHOW_ARGS_16_(a, ...) DHOW_ARG(a), DHOW_ARGS_15_(__VA_ARGS__)
#define DHOW_CAT_(a, b) a##b
#define DHOW_CAT(a, b) DHOW_CAT_(a, b)
#define DHOW_ARGS_N_(n) DHOW_CAT(DHOW_CAT(DHOW_ARGS_, n), _)
#define DHOW_ARGS(...)                                          \
    DHOW_ARGS_COUNT(__VA_ARGS__), (const dhow_value[]) {        \
        DHOW_ARGS_N_(DHOW_ARGS_COUNT(__VA_ARGS__))(__VA_ARGS__) \
    }

/** dhow_launch(stream, kernel, work, x, y, 2.0f, n): dhow_launch_values() with up to 16 arguments
 * as C values. */
#define dhow_launch(stream, kernel, work, ...) \
    dhow_launch_values(stream, kernel, work, DHOW_ARGS(__VA_ARGS__))

/** dhow_launch_grid(stream, kernel, grid, block, shared_bytes, x, y): the same for native kernels.
 */
#define dhow_launch_grid(stream, kernel, grid, block, shared_bytes, ...) \
    dhow_launch_grid_values(stream, kernel, grid, block, shared_bytes, DHOW_ARGS(__VA_ARGS__))
#endif /* !__cplusplus */

#ifdef __cplusplus
}
#endif

#endif /* DHOW_KERNEL_H_ */
