/* SPDX-License-Identifier: Apache-2.0
 *
 * The calling thread's last error. A function that fails returns the result of dhowi_fail(), once;
 * its callers pass the status on and may put words in front.
 */
#ifndef DHOWI_BASE_ERROR_H_
#define DHOWI_BASE_ERROR_H_

#include <stdbool.h>
#include <stdint.h>

#include "dhow/plugin.h"
#include "dhow/status.h"

/* Sets this thread's message and returns `status`. */
dhow_status dhowi_fail(dhow_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same with a vendor's number. */
dhow_status dhowi_fail_native(dhow_status status, int64_t native_code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Puts words in front of this thread's message: "<words>: <message>". Returns `status`. */
dhow_status dhowi_fail_prefix(dhow_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
dhow_status dhowi_fail_memory(const char *what);
/* Forgets this thread's message, before a function that is not ours is called. */
void dhowi_error_clear(void);

/* To the end of the block, failures are no matter of this thread's message: for functions that
 * return no status, and so have nobody to tell. */
#define DHOWI_KEEP_ERROR                                                               \
    __attribute__((cleanup(dhowi_error_back), unused)) const bool dhowi_error_aside_ = \
        dhowi_error_set_aside()
bool dhowi_error_set_aside(void);
void dhowi_error_back(const bool *aside);

/* A plugin's error struct, ready to be passed down. */
void dhowi_error_init(dhow_error *err);
/* Makes a plugin's code a known status and terminates its message. */
dhow_status dhowi_error_take(dhow_error *err, int32_t code);

/* An error kept for later, for work that fails in the background. */
typedef struct dhowi_saved_error {
    dhow_status status;
    int64_t native_code;
    char message[512];
} dhowi_saved_error;
void dhowi_error_save(dhowi_saved_error *saved, dhow_status status);
dhow_status dhowi_error_raise(const dhowi_saved_error *saved);

/* Returns from the calling function with a failure. */
#define DHOWI_TRY(expression)                               \
    do {                                                    \
        dhow_status dhowi_status_ = (expression);           \
        if (dhowi_status_ != DHOW_OK) return dhowi_status_; \
    } while (0)

#endif /* DHOWI_BASE_ERROR_H_ */
