/* SPDX-License-Identifier: Apache-2.0
 *
 * The fake driver's library: all it has is the look-up of its functions.
 */
#include "fakecuda.h"

#undef cuGetProcAddress_v2
CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *result);
CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *result) {
    (void)flags;
    if (result == NULL) return CUDA_ERROR_NOT_FOUND; /* a real runtime in the process: no driver */
    return fakecuda_look_up(symbol, function, version, result);
}
