/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types and devices of DLPack and of dhow.
 */
#ifndef DHOWI_DLPACK_TYPES_H_
#define DHOWI_DLPACK_TYPES_H_

#include "dhow/dlpack.h"
#include "tensor/tensor.h"

DLDataType dhowi_dlpack_dtype(dhow_dtype dtype);
/* INVALID_ARGUMENT names what dhow has not. */
dhow_status dhowi_dlpack_dtype_of(const char *function, DLDataType type, dhow_dtype *out);

/* Where a tensor lies; UNSUPPORTED when DLPack has no name for it. */
dhow_status dhowi_dlpack_device(const char *function, const dhow_tensor *tensor, DLDevice *out);
/* The device of a tensor that lies there: the CPU for host memory, which *out_pinned_by pinned,
 * unless it is NULL. */
dhow_status dhowi_dlpack_device_of(const char *function, dhow_context *context, DLDevice place,
                                   dhow_device **out, dhow_device **out_pinned_by);

#endif /* DHOWI_DLPACK_TYPES_H_ */
