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

static const char *const k_device_types[] = {
    [1] = "CPU",        [2] = "CUDA",          [3] = "CUDA pinned host",
    [4] = "OpenCL",     [7] = "Vulkan",        [8] = "Metal",
    [9] = "VPI",        [10] = "ROCm",         [11] = "ROCm pinned host",
    [12] = "extension", [13] = "CUDA managed", [14] = "oneAPI",
    [15] = "WebGPU",    [16] = "Hexagon",      [17] = "MAIA"};

dhow_status dhowi_dlpack_device(const char *function, const dhow_tensor *tensor, DLDevice *out) {
    const dhowi_storage *s = tensor->storage;
    *out = (DLDevice){kDLCPU, 0};
    if (s->host != NULL) {
        const dhow_device *d = s->pinned_by;
        if (d != NULL && d->desc.dlpack_host_type != 0)
            *out = (DLDevice){(DLDeviceType)d->desc.dlpack_host_type, (int32_t)d->index};
        return DHOW_OK;
    }
    const dhow_device *d = s->device;
    if (d->desc.dlpack_type == 0) {
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "%s: DLPack has no device type for %s; copy the tensor to the CPU with "
                          "dhow_tensor_to()",
                          function, d->name);
    }
    *out = (DLDevice){(DLDeviceType)d->desc.dlpack_type, (int32_t)d->index};
    return DHOW_OK;
}

/* The device whose memory, or whose pinned host memory, is of a DLPack type; NULL for none. */
static dhow_device *find_device(const dhow_context *context, DLDevice place, bool pinned) {
    for (uint32_t i = 0; i < context->device_count; i++) {
        dhow_device *d = context->devices[i];
        const unsigned type = pinned ? d->desc.dlpack_host_type : d->desc.dlpack_type;
        if (type == (unsigned)place.device_type && d->index == (uint32_t)place.device_id) return d;
    }
    return NULL;
}

dhow_status dhowi_dlpack_device_of(const char *function, dhow_context *context, DLDevice place,
                                   dhow_device **out, dhow_device **out_pinned_by) {
    const int type = (int)place.device_type;
    *out = *out_pinned_by = NULL;
    if (place.device_id < 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: device_id is %d", function, place.device_id);
    *out = find_device(context, place, false);
    if (*out != NULL) return DHOW_OK;
    *out_pinned_by = find_device(context, place, true);
    /* Pinned memory of a device that is not here is host memory like any other. */
    if (type == kDLCPU || type == kDLCUDAHost || type == kDLROCMHost || *out_pinned_by != NULL) {
        *out = context->cpu;
        return DHOW_OK;
    }
    const bool known = type > 0 && type < (int)DHOWI_COUNT(k_device_types);
    return dhowi_fail(DHOW_NOT_FOUND,
                      "%s: no device of DLPack's type %d (%s) with device_id %d is here; devinfo "
                      "lists devices and why others are missing",
                      function, type,
                      known && k_device_types[type] != NULL ? k_device_types[type] : "unknown",
                      place.device_id);
}
