/* SPDX-License-Identifier: Apache-2.0 */
#include "scan.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static void skip_blank(ptx_scanner *s) {
    for (;;) {
        if (s->at[0] == '/' && s->at[1] == '/') {
            s->at += strcspn(s->at, "\n");
        } else if (s->at[0] == '\n') {
            s->line++;
            s->at++;
        } else if (isspace((unsigned char)s->at[0])) {
            s->at++;
        } else {
            return;
        }
    }
}

static bool in_word(char c) { return isalnum((unsigned char)c) || strchr("_$.%", c) != NULL; }

void ptx_next(ptx_scanner *s) {
    skip_blank(s);
    const char *end = s->at;
    if (*end == '"') {
        end += 1 + strcspn(end + 1, "\"\n");
        end += *end == '"';
    } else if (*end != '\0' && (in_word(*end) || (*end == '-' && isdigit((unsigned char)end[1])))) {
        do end++;
        while (*end != '\0' && in_word(*end));
    } else if (*end != '\0') {
        end++;
    }
    s->token = (ptx_token){s->at, (size_t)(end - s->at), s->line};
    s->at = end;
}

void ptx_scan(ptx_scanner *s, const char *text) {
    *s = (ptx_scanner){.at = text, .line = 1};
    ptx_next(s);
}

bool ptx_is(const ptx_token *token, const char *text) {
    return strlen(text) == token->length && memcmp(text, token->text, token->length) == 0;
}

bool ptx_number(const ptx_token *token, uint64_t *value) {
    const char *digits = token->text + (token->text[0] == '-');
    char *end = NULL;
    if (token->length == 0 || !isdigit((unsigned char)*digits)) return false;
    if (digits[0] == '0' && token->length > 2 && strchr("fFdD", digits[1]) != NULL) {
        *value = strtoull(digits + 2, &end, 16);
    } else {
        *value = strtoull(digits, &end, 0);
        if (*end == 'U') end++;
    }
    if (digits != token->text) *value = 0 - *value;
    return end == token->text + token->length;
}
