/* SPDX-License-Identifier: Apache-2.0
 *
 * See types.h.
 */
#include "dlpack/types.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/size.h"

/* ---- element types ---- */

static const struct {
    dhow_dtype dtype;
    uint8_t code, bits;
} k_dtypes[] = {{DHOW_F32, kDLFloat, 32},   {DHOW_F64, kDLFloat, 64}, {DHOW_F16, kDLFloat, 16},
                {DHOW_BF16, kDLBfloat, 16}, {DHOW_I8, kDLInt, 8},     {DHOW_U8, kDLUInt, 8},
                {DHOW_I16, kDLInt, 16},     {DHOW_U16, kDLUInt, 16},  {DHOW_I32, kDLInt, 32},
                {DHOW_U32, kDLUInt, 32},    {DHOW_I64, kDLInt, 64},   {DHOW_U64, kDLUInt, 64},
                {DHOW_BOOL, kDLBool, 8}};

static const char *const k_codes[] = {"int",
                                      "uint",
                                      "float",
                                      "opaque handle",
                                      "bfloat",
                                      "complex",
                                      "bool",
                                      "float8_e3m4",
                                      "float8_e4m3",
                                      "float8_e4m3b11fnuz",
                                      "float8_e4m3fn",
                                      "float8_e4m3fnuz",
                                      "float8_e5m2",
                                      "float8_e5m2fnuz",
                                      "float8_e8m0fnu",
                                      "float6_e2m3fn",
                                      "float6_e3m2fn",
                                      "float4_e2m1fn"};

DLDataType dhowi_dlpack_dtype(dhow_dtype dtype) {
    DLDataType type = {0, 0, 1};
    for (size_t i = 0; i < DHOWI_COUNT(k_dtypes); i++) {
        if (k_dtypes[i].dtype != dtype) continue;
        type.code = k_dtypes[i].code;
        type.bits = k_dtypes[i].bits;
    }
    return type;
}

dhow_status dhowi_dlpack_dtype_of(const char *function, DLDataType type, dhow_dtype *out) {
    if (type.lanes != 1) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: elements of %u lanes; dhow has no vectors, show a dimension more",
                          function, type.lanes);
    }
    for (size_t i = 0; i < DHOWI_COUNT(k_dtypes); i++) {
        if (k_dtypes[i].code != type.code || k_dtypes[i].bits != type.bits) continue;
        *out = k_dtypes[i].dtype;
        return DHOW_OK;
    }
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: DLPack's type code %u (%s) with %u bits is none of dhow's dtypes",
                      function, type.code,
                      type.code < DHOWI_COUNT(k_codes) ? k_codes[type.code] : "unknown", type.bits);
}

/* ---- devices ---- */

static const struct {
    const char *backend;
    DLDeviceType device, host; /* host: memory that it pinned */
} k_backends[] = {{"cuda", kDLCUDA, kDLCUDAHost}, {"opencl", kDLOpenCL, kDLCPU}};

static const char *const k_device_types[] = {
    [1] = "CPU",        [2] = "CUDA",          [3] = "CUDA pinned host",
    [4] = "OpenCL",     [7] = "Vulkan",        [8] = "Metal",
    [9] = "VPI",        [10] = "ROCm",         [11] = "ROCm pinned host",
    [12] = "extension", [13] = "CUDA managed", [14] = "oneAPI",
    [15] = "WebGPU",    [16] = "Hexagon",      [17] = "MAIA"};

/* The row of a device's backend, or -1. */
static int row_of(const dhow_device *device) {
    for (size_t i = 0; i < DHOWI_COUNT(k_backends); i++)
        if (strcmp(device->api->name, k_backends[i].backend) == 0) return (int)i;
    return -1;
}

dhow_status dhowi_dlpack_device(const char *function, const dhow_tensor *tensor, DLDevice *out) {
    const dhowi_storage *s = tensor->storage;
    *out = (DLDevice){kDLCPU, 0};
    if (s->host != NULL) {
        const int row = s->pinned_by != NULL ? row_of(s->pinned_by) : -1;
        if (row >= 0 && k_backends[row].host != kDLCPU)
            *out = (DLDevice){k_backends[row].host, (int32_t)s->pinned_by->index};
        return DHOW_OK;
    }
    const int row = row_of(s->device);
    if (row < 0) {
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "%s: DLPack has no device type for %s; copy the tensor to the CPU with "
                          "dhow_tensor_to()",
                          function, s->device->name);
    }
    *out = (DLDevice){k_backends[row].device, (int32_t)s->device->index};
    return DHOW_OK;
}

static dhow_status find_device(dhow_context *context, const char *backend, int32_t index,
                               dhow_device **out) {
    char spec[48];
    (void)snprintf(spec, sizeof spec, "%s:%d", backend, index);
    return dhowi_device_select(context, spec, out);
}

dhow_status dhowi_dlpack_device_of(const char *function, dhow_context *context, DLDevice place,
                                   dhow_device **out, dhow_device **out_pinned_by) {
    const int type = (int)place.device_type;
    *out = *out_pinned_by = NULL;
    if (place.device_id < 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: device_id is %d", function, place.device_id);
    if (type == kDLCPU || type == kDLCUDAHost) *out = context->cpu;
    for (size_t i = 0; i < DHOWI_COUNT(k_backends); i++) {
        if (type == (int)k_backends[i].device)
            return find_device(context, k_backends[i].backend, place.device_id, out);
        /* Without that device it is host memory like any other. */
        if (type != kDLCPU && type == (int)k_backends[i].host)
            (void)find_device(context, k_backends[i].backend, place.device_id, out_pinned_by);
    }
    if (*out != NULL) return DHOW_OK;
    const bool known = type > 0 && type < (int)DHOWI_COUNT(k_device_types);
    return dhowi_fail(
        DHOW_UNSUPPORTED,
        "%s: device type %d (%s); dhow takes CPU, CUDA, CUDA pinned host and OpenCL memory",
        function, type, known && k_device_types[type] != NULL ? k_device_types[type] : "unknown");
}
