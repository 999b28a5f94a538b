/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: the header of an .npy file. What the parser accepts must describe bytes that
 * the file has.
 */
#include <stdlib.h>

#include "formats/files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dhowi_npy npy;
    if (dhowi_npy_parse("fuzz.npy", data, size, size, &npy) != DHOW_OK) {
        if (dhow_last_error()[0] == '\0') abort();
        return 0;
    }
    if (npy.data_offset > size || npy.data_bytes > size - npy.data_offset) abort();
    uint64_t count = 1;
    for (int32_t i = 0; i < npy.rank; i++) count *= (uint64_t)npy.shape[i];
    if (count * dhow_dtype_bytes(npy.dtype) != npy.data_bytes) abort();
    return 0;
}
