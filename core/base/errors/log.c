/* SPDX-License-Identifier: Apache-2.0
 *
 * See log.h.
 */
#include "base/errors/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/errors/error.h"

_Thread_local struct dhowi_sink *dhowi_thread_sink;

static const char *const k_levels[] = {"error", "warn", "info", "debug"};

void dhowi_log_line(const dhowi_log *log, dhow_log_level level, const char *format, ...) {
    if (level > log->level) return;
    char line[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (log->fn != NULL) {
        /* It may call us back, and the failure being reported must still be this thread's. */
        char message[1024];
        const int64_t native_code = dhow_last_native_code();
        struct dhowi_sink *sink = dhowi_thread_sink;
        (void)snprintf(message, sizeof message, "%s", dhow_last_error());
        dhowi_thread_sink = NULL;
        log->fn(log->user, level, line);
        dhowi_thread_sink = sink;
        (void)dhowi_fail_native(DHOW_OK, native_code, "%s", message);
    } else {
        (void)fprintf(stderr, "dhow: %s: %s\n", k_levels[level], line);
    }
}

bool dhowi_parse_log_level(const char *text, dhow_log_level *out) {
    for (int i = 0; i <= DHOW_LOG_DEBUG; i++) {
        if (strcmp(text, k_levels[i]) == 0) {
            *out = (dhow_log_level)i;
            return true;
        }
    }
    return false;
}
