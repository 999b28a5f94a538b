/* SPDX-License-Identifier: Apache-2.0
 *
 * The message of dhow-run, which is printed when it ends with a failure.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "run.h"

static char g_message[1024];

bool run_fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    (void)vsnprintf(g_message, sizeof g_message, format, list);
    va_end(list);
    return false;
}
const char *run_message(void) { return g_message; }

bool run_fail_prefix(const char *what, const char *name) {
    char reason[900];
    (void)snprintf(reason, sizeof reason, "%.880s", g_message);
    return run_fail("%s%.100s: %s", what, name, reason);
}

/* Messages of the API begin with the function that was called, which users did not call. */
bool run_fail_last(void) {
    const char *text = dhow_last_error();
    size_t name = strspn(text, "abcdefghijklmnopqrstuvwxyz_0123456789");
    if (strncmp(text, "dhow_", 5) == 0 && strncmp(text + name, ": ", 2) == 0) text += name + 2;
    return run_fail("%s", text);
}
