/* SPDX-License-Identifier: Apache-2.0
 *
 * The helpers that every other file uses: failures, and memory of the host.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim.h"

int32_t sim_fail(dhow_error *err, int32_t status, const char *format, ...) {
    va_list list;
    va_start(list, format);
    (void)vsnprintf(err->message, sizeof err->message, format, list);
    va_end(list);
    err->code = status;
    err->native_code = 0;
    return status;
}

void *sim_new(const dhow_host *host, uint64_t bytes) {
    void *memory = host->alloc(host->user, bytes, 64);
    if (memory != NULL) memset(memory, 0, bytes);
    return memory;
}

void sim_delete(const dhow_host *host, void *memory) {
    if (memory != NULL) host->free(host->user, memory);
}
