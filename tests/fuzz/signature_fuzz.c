/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: kernel text, and the declarations of native modules. What is found must parse.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "kernel/signature.h"

static void check(dhowi_found_kernel *found, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        dhowi_signature signature;
        if (memchr(found[i].name, '\0', sizeof found[i].name) == NULL) abort();
        if (dhowi_signature_parse(found[i].name, found[i].signature, &signature) != DHOW_OK)
            abort();
        if (signature.count > DHOW_MAX_KERNEL_ARGS) abort();
    }
    dhowi_free(found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const options[] = {"", "-DT=f16", "-DK=1 -DT=i32 -DK_IDX64", "-DT="};
    dhowi_found_kernel *found;
    uint32_t count;
    char *text = malloc(size + 1);
    if (text == NULL) return 0;
    if (size > 0) memcpy(text, data, size);
    text[size] = '\0';
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (dhowi_find_kernels("fuzz.k", text, options[i], &found, &count) == DHOW_OK)
            check(found, count);
    }
    if (dhowi_parse_declarations("fuzz", text, &found, &count) == DHOW_OK) check(found, count);
    free(text);
    return 0;
}
