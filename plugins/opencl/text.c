/* SPDX-License-Identifier: Apache-2.0
 *
 * Text that grows, see source.h.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "opencl.h"
#include "source.h"

void dhowi_cl_text_free(dhowi_cl_text *text) {
    dhowi_cl_delete(text->host, text->data);
    text->data = NULL;
    text->bytes = text->capacity = 0;
}

void dhowi_cl_text_add(dhowi_cl_text *text, const char *data, size_t bytes) {
    if (text->failed) return;
    if (bytes >= SIZE_MAX / 2 - text->bytes) {
        text->failed = 1;
        return;
    }
    if (text->bytes + bytes + 1 > text->capacity) {
        size_t capacity = (text->bytes + bytes + 1) * 2;
        char *grown = dhowi_cl_new(text->host, capacity);
        if (grown == NULL) {
            text->failed = 1;
            return;
        }
        if (text->bytes > 0) memcpy(grown, text->data, text->bytes);
        dhowi_cl_delete(text->host, text->data);
        text->data = grown;
        text->capacity = capacity;
    }
    if (bytes > 0) memcpy(text->data + text->bytes, data, bytes);
    text->bytes += bytes;
    text->data[text->bytes] = '\0';
}

void dhowi_cl_text_print(dhowi_cl_text *text, const char *format, ...) {
    char line[1024];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (length < 0 || (size_t)length >= sizeof line)
        text->failed = 1; /* callers bound what they print */
    else
        dhowi_cl_text_add(text, line, (size_t)length);
}
