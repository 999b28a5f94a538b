/* SPDX-License-Identifier: Apache-2.0
 *
 * Small text helpers: bounded appending, number and switch parsing, environment.
 */
#ifndef DHOWI_BASE_TEXT_H_
#define DHOWI_BASE_TEXT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/errors/error.h"

/* A bounded, always terminated text in memory of the caller; what does not fit is cut. */
typedef struct dhowi_text {
    char *data;
    size_t capacity, length;
} dhowi_text;

#define DHOWI_TEXT(array) ((dhowi_text){(array), sizeof(array), 0})
void dhowi_text_add(dhowi_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Copies with a cut; false when it was cut. */
bool dhowi_copy_text(char *to, size_t capacity, const char *from);

/* The whole text as a decimal number within [low, high]. */
bool dhowi_parse_i64(const char *text, size_t length, int64_t low, int64_t high, int64_t *out);
/* 0, 1, on, off. */
bool dhowi_parse_switch(const char *text, bool *out);
/* [a-z][a-z0-9]{0,14} */
bool dhowi_is_backend_name(const char *text, size_t length);

/* Whether the text is UTF-8: no overlong forms, surrogates or numbers past U+10FFFF. */
bool dhowi_is_utf8(const char *text);

/* An environment variable; NULL when unset, empty, or in a setuid program. */
const char *dhowi_env(const char *name);

/* "[2, 3]" */
const char *dhowi_shape_text(int32_t rank, const int64_t *shape, char *buffer, size_t capacity);

/* Prints bytes for people: "1.5 GiB". */
const char *dhowi_bytes_text(uint64_t bytes, char *buffer, size_t capacity);

/* 64-bit FNV-1a, for tables and cache keys. */
uint64_t dhowi_hash(uint64_t seed, const void *data, size_t bytes);
#define DHOWI_HASH_SEED UINT64_C(14695981039346656037)

#endif /* DHOWI_BASE_TEXT_H_ */
