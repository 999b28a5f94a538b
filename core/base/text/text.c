/* SPDX-License-Identifier: Apache-2.0
 *
 * See text.h.
 */
#include "base/text/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dhowi_text_add(dhowi_text *text, const char *format, ...) {
    if (text->length + 1 >= text->capacity) return;
    va_list args;
    va_start(args, format);
    size_t room = text->capacity - text->length;
    int n = vsnprintf(text->data + text->length, room, format, args);
    va_end(args);
    if (n > 0) text->length += (size_t)n < room ? (size_t)n : room - 1;
}

bool dhowi_copy_text(char *to, size_t capacity, const char *from) {
    size_t length = strnlen(from, capacity);
    bool fits = length < capacity;
    if (!fits) length = capacity - 1;
    memcpy(to, from, length);
    to[length] = '\0';
    return fits;
}

bool dhowi_parse_i64(const char *text, size_t length, int64_t low, int64_t high, int64_t *out) {
    bool negative = length > 0 && text[0] == '-';
    size_t i = negative ? 1 : 0;
    if (i == length) return false;
    int64_t value = 0;
    for (; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        if (__builtin_mul_overflow(value, 10, &value)) return false;
        if (__builtin_add_overflow(value, text[i] - '0', &value)) return false;
    }
    if (negative) value = -value;
    if (value < low || value > high) return false;
    *out = value;
    return true;
}

bool dhowi_parse_switch(const char *text, bool *out) {
    if (strcmp(text, "1") == 0 || strcmp(text, "on") == 0) {
        *out = true;
    } else if (strcmp(text, "0") == 0 || strcmp(text, "off") == 0) {
        *out = false;
    } else {
        return false;
    }
    return true;
}

bool dhowi_is_backend_name(const char *text, size_t length) {
    if (length == 0 || length > 15 || text[0] < 'a' || text[0] > 'z') return false;
    for (size_t i = 1; i < length; i++) {
        bool letter = text[i] >= 'a' && text[i] <= 'z', digit = text[i] >= '0' && text[i] <= '9';
        if (!letter && !digit) return false;
    }
    return true;
}

bool dhowi_is_utf8(const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0';) {
        int more = *p < 0x80 ? 0 : *p >= 0xf0 ? 3 : *p >= 0xe0 ? 2 : 1;
        if (*p >= 0x80 && (*p < 0xc2 || *p > 0xf4)) return false;
        uint32_t code = more == 0 ? *p : *p & (0x3fu >> more);
        for (int i = 1; i <= more; i++) {
            if ((p[i] & 0xc0) != 0x80) return false; /* also at the end of the text */
            code = code << 6 | (p[i] & 0x3fu);
        }
        if (more == 2 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) return false;
        if (more == 3 && (code < 0x10000 || code > 0x10ffff)) return false;
        p += more + 1;
    }
    return true;
}

const char *dhowi_env(const char *name) {
    const char *value = secure_getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

const char *dhowi_shape_text(int32_t rank, const int64_t *shape, char *buffer, size_t capacity) {
    dhowi_text text = {buffer, capacity, 0};
    dhowi_text_add(&text, "[");
    for (int32_t i = 0; i < rank; i++) {
        dhowi_text_add(&text, "%s%" PRId64, i > 0 ? ", " : "", shape[i]);
    }
    dhowi_text_add(&text, "]");
    return buffer;
}

const char *dhowi_bytes_text(uint64_t bytes, char *buffer, size_t capacity) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(buffer, capacity, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return buffer;
}

uint64_t dhowi_hash(uint64_t seed, const void *data, size_t bytes) {
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++) seed = (seed ^ byte[i]) * UINT64_C(1099511628211);
    return seed;
}
