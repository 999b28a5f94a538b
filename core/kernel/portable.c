/* SPDX-License-Identifier: Apache-2.0
 *
 * What a portable text means by a name that its compiler refuses: functions of one language have
 * other names in the dialect, see the table in dhow/kernel/k.h.
 */
#include <stdio.h>
#include <string.h>

#include "base/memory/size.h"
#include "base/text/text.h"
#include "kernel/module.h"

static const char *const k_functions[] = {
    "exp",   "exp2", "expm1", "log",   "log2", "log10", "log1p",   "sqrt", "cbrt",  "sin",
    "cos",   "tan",  "asin",  "acos",  "atan", "sinh",  "cosh",    "tanh", "asinh", "acosh",
    "atanh", "erf",  "erfc",  "floor", "ceil", "round", "trunc",   "rint", "fabs",  "pow",
    "atan2", "fmod", "fmin",  "fmax",  "fma",  "hypot", "copysign"};

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Compilers quote names with ', or in UTF-8. */
static bool is_quote(char c) { return c == '\'' || c == '"' || (unsigned char)c == 0x98; }

static bool is(const char *word, size_t length, const char *name) {
    return strlen(name) == length && memcmp(word, name, length) == 0;
}

/* "sinf" or "sin" is MATH(f32,sin). */
static bool explain(const char *word, size_t length, char *out, size_t capacity) {
    if (is(word, length, "MAX") || is(word, length, "MIN")) {
        (void)snprintf(out, capacity, "%.3s exists inside of REDUCE only: write %.3sOF(a, b)", word,
                       word);
        return true;
    }
    for (size_t i = 0; i < DHOWI_COUNT(k_functions); i++) {
        const size_t own = strlen(k_functions[i]);
        if (memcmp(word, k_functions[i], DHOWI_MIN(own, length)) != 0) continue;
        if (length != own && !(length == own + 1 && word[own] == 'f')) continue;
        (void)snprintf(out, capacity, "not every compiler has %.*s(): write MATH(f32, %s)",
                       (int)length, word, k_functions[i]);
        return true;
    }
    return false;
}

dhow_status dhowi_portable_hint(dhow_status status) {
    char message[1024], hint[160];
    (void)dhowi_copy_text(message, sizeof message, dhow_last_error());
    for (const char *p = message; *p != '\0';) {
        size_t length = 0;
        while (is_word(p[length])) length++;
        if (length > 0 && p > message && is_quote(p[-1]) && explain(p, length, hint, sizeof hint))
            return dhowi_fail(status, "%.840s; %s", message, hint);
        p += length > 0 ? length : 1;
    }
    return status;
}
