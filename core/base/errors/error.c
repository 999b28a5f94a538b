/* SPDX-License-Identifier: Apache-2.0
 *
 * See error.h and dhow/status.h.
 */
#include "base/errors/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dhow/tensor.h"

typedef struct thread_error {
    int64_t native_code;
    char message[1024];
} thread_error;

/* The thread's error, and the one that stands in for it while it is set aside. */
static _Thread_local thread_error t_errors[2];
static _Thread_local uint32_t t_aside;
#define t_error t_errors[t_aside > 0]

static dhow_status set(dhow_status status, int64_t native_code, const char *format, va_list args) {
    /* The arguments may point into the old message. */
    char text[sizeof t_error.message];
    (void)vsnprintf(text, sizeof text, format, args);
    memcpy(t_error.message, text, sizeof text);
    t_error.native_code = native_code;
    return status;
}

dhow_status dhowi_fail(dhow_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)set(status, 0, format, args);
    va_end(args);
    return status;
}

dhow_status dhow_set_error(dhow_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)set(status, 0, format, args);
    va_end(args);
    return status;
}

dhow_status dhowi_fail_native(dhow_status status, int64_t native_code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)set(status, native_code, format, args);
    va_end(args);
    return status;
}

dhow_status dhowi_fail_prefix(dhow_status status, const char *format, ...) {
    char words[256], text[sizeof t_error.message];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(words, sizeof words, format, args);
    va_end(args);
    memcpy(text, t_error.message, sizeof text);
    (void)snprintf(t_error.message, sizeof t_error.message, "%s: %.740s", words, text);
    return status;
}

dhow_status dhowi_fail_memory(const char *what) {
    return dhowi_fail(DHOW_OUT_OF_MEMORY, "%s: host memory is exhausted", what);
}

bool dhowi_error_set_aside(void) {
    t_aside++;
    return true;
}
void dhowi_error_back(const bool *aside) {
    if (*aside) t_aside--;
}

void dhowi_error_clear(void) {
    t_error.native_code = 0;
    t_error.message[0] = '\0';
}

void dhowi_error_init(dhow_error *err) {
    err->struct_size = (uint32_t)sizeof *err;
    err->code = 0;
    err->native_code = 0;
    err->message[0] = '\0';
}

dhow_status dhowi_error_take(dhow_error *err, int32_t code) {
    err->message[sizeof err->message - 1] = '\0';
    for (char *c = err->message; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' && *c != '\n' && *c != '\t') *c = '?';
    }
    if (code >= 0 && code <= DHOW_INTERNAL) return (dhow_status)code;
    return DHOW_INTERNAL;
}

void dhowi_error_save(dhowi_saved_error *saved, dhow_status status) {
    saved->status = status;
    saved->native_code = t_error.native_code;
    (void)snprintf(saved->message, sizeof saved->message, "%.511s", t_error.message);
}

dhow_status dhowi_error_raise(const dhowi_saved_error *saved) {
    return dhowi_fail_native(saved->status, saved->native_code, "%s", saved->message);
}

const char *dhow_last_error(void) { return t_error.message; }

int64_t dhow_last_native_code(void) { return t_error.native_code; }

const char *dhow_status_name(dhow_status status) {
    switch (status) {
#define CASE(name, number, meaning) \
    case DHOW_##name:               \
        return #name;
        DHOW_STATUS_MAP(CASE)
#undef CASE
    }
    return "UNKNOWN";
}

const char *dhow_status_text(dhow_status status) {
    switch (status) {
#define CASE(name, number, meaning) \
    case DHOW_##name:               \
        return meaning;
        DHOW_STATUS_MAP(CASE)
#undef CASE
    }
    return "not a status";
}

const char *dhow_version(void) { return DHOWI_VERSION; }

const char *dhow_dtype_name(dhow_dtype dtype) {
    switch (dtype) {
#define CASE(name, number, text, bytes) \
    case DHOW_##name:                   \
        return text;
        DHOW_DTYPE_MAP(CASE)
#undef CASE
    }
    return "?";
}

uint32_t dhow_dtype_bytes(dhow_dtype dtype) {
    switch (dtype) {
#define CASE(name, number, text, bytes) \
    case DHOW_##name:                   \
        return bytes;
        DHOW_DTYPE_MAP(CASE)
#undef CASE
    }
    return 0;
}
