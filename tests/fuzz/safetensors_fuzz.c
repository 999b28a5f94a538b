/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: the header of a safetensors file, after one byte that tells how much data
 * follows. What the parser accepts must cover the data, each byte once.
 */
#include <stdlib.h>

#include "formats/files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dhowi_safetensors_item *items;
    uint32_t count;
    if (size == 0) return 0;
    uint64_t data_bytes = data[0], at = 0;
    if (dhowi_safetensors_parse("fuzz.safetensors", (const char *)data + 1, size - 1, data_bytes,
                                &items, &count) != DHOW_OK) {
        if (items != NULL || count != 0 || dhow_last_error()[0] == '\0') abort();
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t elements = 1;
        for (int32_t k = 0; k < items[i].rank; k++) elements *= (uint64_t)items[i].shape[k];
        if (items[i].begin != at || items[i].end < at) abort();
        if (items[i].end - at != elements * dhow_dtype_bytes(items[i].dtype)) abort();
        at = items[i].end;
    }
    if (at != data_bytes) abort();
    dhowi_safetensors_free(items, count);
    return 0;
}
