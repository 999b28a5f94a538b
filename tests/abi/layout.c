/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the layout of dhow/plugin.h - structs, fields with offset, size and type, constants - for
 * comparison with plugin_v1.layout. Fails when a field of plugin_v1_fields.h has another type than
 * in the header, or when a field of the header is missing there.
 */
#include <stdio.h>

#include "dhow/plugin.h"

static const char *g_struct;
static size_t g_end;
static int g_failed;

static void begin(const char *name, size_t bytes) {
    g_struct = name;
    g_end = 0;
    (void)printf("struct %s: %zu bytes\n", name, bytes);
}

static void field(const char *name, size_t offset, size_t bytes, int same_type, const char *type) {
    if (!same_type) {
        (void)fprintf(stderr, "%s.%s is no %s any more\n", g_struct, name, type);
        g_failed = 1;
    }
    if (offset != g_end) {
        (void)fprintf(stderr, "%s: bytes %zu to %zu before %s belong to no field listed\n",
                      g_struct, g_end, offset, name);
        g_failed = 1;
    }
    g_end = offset + bytes;
    (void)printf("  %4zu %4zu %s: %s\n", offset, bytes, name, type);
}

static void end(size_t bytes) {
    if (bytes != g_end) {
        (void)fprintf(stderr, "%s: bytes %zu to %zu at the end belong to no field listed\n",
                      g_struct, g_end, bytes);
        g_failed = 1;
    }
}

#define STRUCT(s) begin(#s, sizeof(s));
#define FIELD(s, name, ...)                                 \
    field(#name, offsetof(s, name), sizeof(((s *)0)->name), \
          __builtin_types_compatible_p(__typeof__(((s *)0)->name), __VA_ARGS__), #__VA_ARGS__);
#define END(s) end(sizeof(s));
#define CONSTANT(name) (void)printf("constant %s = %llu\n", #name, (unsigned long long)(name));

int main(void) {
#include "plugin_v1_fields.h"
    (void)printf("symbol %s\n", DHOW_PLUGIN_SYMBOL);
    CONSTANT(DHOW_PLUGIN_MAGIC)
    CONSTANT(DHOW_PLUGIN_MIN_SIZE)
    CONSTANT(DHOW_MAX_RANK)
    CONSTANT(DHOW_MAX_KERNEL_ARGS)
    CONSTANT(DHOW_DEVICE_HOST_INLINE)
    CONSTANT(DHOW_DEVICE_HOST_VISIBLE)
    CONSTANT(DHOW_DEVICE_TENSOR_CORES)
    CONSTANT(DHOW_DEVICE_RUNS_KERNELS)
    CONSTANT(DHOW_DEVICE_PAGEABLE_ASYNC)
    CONSTANT(DHOW_PRIORITY_ACCELERATOR)
    CONSTANT(DHOW_PRIORITY_CPU)
    CONSTANT(DHOW_PRIORITY_GPU)
    CONSTANT(DHOW_SPACE_DEVICE)
    CONSTANT(DHOW_SPACE_HOST)
    CONSTANT(DHOW_ARG_BUFFER)
    CONSTANT(DHOW_ARG_VALUE)
    CONSTANT(DHOW_ARG_DIMS)
    CONSTANT(DHOW_ACCESS_READ)
    CONSTANT(DHOW_ACCESS_WRITE)
    CONSTANT(DHOW_MODULE_PORTABLE)
    CONSTANT(DHOW_MODULE_CUDA_C)
    CONSTANT(DHOW_MODULE_OPENCL_C)
    CONSTANT(DHOW_MODULE_PTX)
    CONSTANT(DHOW_MODULE_CUBIN)
    CONSTANT(DHOW_STREAM_COPIES_ONLY)
    CONSTANT(DHOW_STREAM_THIS_THREAD)
    CONSTANT(DHOW_EVENT_TIMING)
    CONSTANT(DHOW_EVENT_HOST)
    CONSTANT(DHOW_ACTIVATION_NONE)
    CONSTANT(DHOW_ACTIVATION_RELU)
    CONSTANT(DHOW_ACTIVATION_GELU)
    CONSTANT(DHOW_ACTIVATION_GELU_TANH)
    CONSTANT(DHOW_ACTIVATION_SIGMOID)
    CONSTANT(DHOW_ACTIVATION_TANH)
    CONSTANT(DHOW_ACTIVATION_SILU)
    CONSTANT(DHOW_ACTIVATION_HARD_SWISH)
    CONSTANT(DHOW_ACTIVATION_MISH)
    CONSTANT(DHOW_ACTIVATION_LEAKY_RELU)
    CONSTANT(DHOW_ACTIVATION_CLIP)
    CONSTANT(DHOW_BLAS_TRANSPOSE_A)
    CONSTANT(DHOW_BLAS_TRANSPOSE_B)
    CONSTANT(DHOW_BLAS_CONSTANT_B)
    CONSTANT(DHOW_EPILOGUE_BIAS)
    CONSTANT(DHOW_EPILOGUE_RESIDUAL)
    CONSTANT(DHOW_LAYOUT_NCHW)
    CONSTANT(DHOW_LAYOUT_NHWC)
    CONSTANT(DHOW_LAYOUT_ANY)
    CONSTANT(DHOW_LAYOUT_BLOCKS_4)
    CONSTANT(DHOW_LAYOUT_BLOCKS_8)
    CONSTANT(DHOW_LAYOUT_BLOCKS_16)
    CONSTANT(DHOW_COLL_ID_BYTES)
    CONSTANT(DHOW_COLL_ALL_REDUCE)
    CONSTANT(DHOW_COLL_REDUCE)
    CONSTANT(DHOW_COLL_BROADCAST)
    CONSTANT(DHOW_COLL_ALL_GATHER)
    CONSTANT(DHOW_COLL_REDUCE_SCATTER)
    CONSTANT(DHOW_LAYOUT_PRIVATE)
    CONSTANT(DHOW_LOG_ERROR)
    CONSTANT(DHOW_LOG_DEBUG)
    CONSTANT(DHOW_DEVICE_CPU)
    CONSTANT(DHOW_DEVICE_GPU)
    CONSTANT(DHOW_DEVICE_ACCELERATOR)
    CONSTANT(DHOW_DEVICE_SIMULATED)
#define STATUS(name, number, meaning) CONSTANT(DHOW_##name)
    DHOW_STATUS_MAP(STATUS)
#define STATE(name, number, meaning) CONSTANT(DHOW_PLUGIN_##name)
    DHOW_PLUGIN_STATE_MAP(STATE)
#define DTYPE(name, number, text, bytes) \
    CONSTANT(DHOW_##name)                \
    (void)printf("  %s of %d bytes\n", text, (bytes));
    DHOW_DTYPE_MAP(DTYPE)
    return g_failed;
}
