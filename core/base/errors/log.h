/* SPDX-License-Identifier: Apache-2.0
 *
 * Log lines of one context.
 */
#ifndef DHOWI_BASE_LOG_H_
#define DHOWI_BASE_LOG_H_

#include <stdbool.h>

#include "dhow/context.h"

typedef struct dhowi_log {
    dhow_log_level level;
    dhow_log_fn fn; /* NULL: stderr */
    void *user;
} dhowi_log;

/* Where the submissions of the calling thread go, see memory/sink.h; NULL: to the device. A log
 * function is no part of it. */
extern _Thread_local struct dhowi_sink *dhowi_thread_sink;

/* Must not be called under a lock that other functions of the API take for their own objects. */
void dhowi_log_line(const dhowi_log *log, dhow_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* "error", "warn", "info", "debug" */
bool dhowi_parse_log_level(const char *text, dhow_log_level *out);

#endif /* DHOWI_BASE_LOG_H_ */
