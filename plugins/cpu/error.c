/* SPDX-License-Identifier: Apache-2.0
 *
 * Failures, as core reads them.
 */
#include <stdarg.h>
#include <stdio.h>

#include "cpu.h"

int32_t cpu_fail(dhow_error *err, dhow_status status, int64_t native, const char *format, ...) {
    va_list list;
    va_start(list, format);
    (void)vsnprintf(err->message, sizeof err->message, format, list);
    va_end(list);
    err->code = (int32_t)status;
    err->native_code = native;
    return (int32_t)status;
}
