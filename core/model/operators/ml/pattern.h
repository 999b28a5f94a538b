/* SPDX-License-Identifier: Apache-2.0
 *
 * Regular expressions of files, in RE2's syntax, by those of the C library.
 */
#ifndef DHOWI_MODEL_OPERATORS_ML_PATTERN_H_
#define DHOWI_MODEL_OPERATORS_ML_PATTERN_H_

#include <locale.h>
#include <regex.h>

#include "formats/onnx.h"

typedef struct dhowi_pattern {
    regex_t compiled;
    locale_t c; /* texts are bytes, whatever locale the program has */
} dhowi_pattern;

/* UNSUPPORTED names what dhow has not of RE2: flags, classes of Unicode. Ends with
 * dhowi_pattern_end(). */
dhow_status dhowi_pattern_compile(dhowi_slice text, dhowi_pattern *out);
void dhowi_pattern_end(dhowi_pattern *p);
/* Whether it is all of a text. */
bool dhowi_pattern_fits(const dhowi_pattern *p, const char *text);
/* The first part of a text that it is, the longest of those that begin there, of one byte at least;
 * `begins`: the text is not the rest of another. */
bool dhowi_pattern_find(const dhowi_pattern *p, const char *text, bool begins, size_t *begin,
                        size_t *length);

#endif /* DHOWI_MODEL_OPERATORS_ML_PATTERN_H_ */
