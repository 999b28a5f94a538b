/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens of PTX text: words (names, opcodes, numbers, registers), and single signs.
 */
#ifndef PTX_SCAN_H_
#define PTX_SCAN_H_

#include "ptx.h"

typedef struct ptx_token {
    const char *text;
    size_t length; /* 0 at the end of the text */
    int line;
} ptx_token;

typedef struct ptx_scanner {
    const char *at;
    int line;
    ptx_token token; /* the one that is looked at */
} ptx_scanner;

void ptx_scan(ptx_scanner *scanner, const char *text);
void ptx_next(ptx_scanner *scanner);
bool ptx_is(const ptx_token *token, const char *text);
/* An integer, 0f or 0d number; false for anything else. */
bool ptx_number(const ptx_token *token, uint64_t *value);

#endif /* PTX_SCAN_H_ */
