/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns kernel texts into OpenCL C, see source.h. A scanner that knows comments, strings and
 * preprocessor lines finds the kernels; the compiler does the rest.
 */
#include "source.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "opencl.h"

/* ---- text that grows ------------------------------------------------------------------------ */

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

/* ---- heads from signatures ------------------------------------------------------------------ */

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Reads a word of at most 63 characters. Returns what follows it and its blanks, NULL when there is
 * none. */
static const char *read_word(const char *at, char out[64]) {
    at += strspn(at, " \t\n");
    size_t length = 0;
    while (is_word(at[length])) length++;
    if (length == 0 || length > 63) return NULL;
    memcpy(out, at, length);
    out[length] = '\0';
    at += length;
    return at + strspn(at, " \t\n");
}

/* What stands before and after the type in a pointer's declaration; NULL for values. */
static const struct {
    const char *kind, *before, *after;
} kinds[] = {
    {"IN", "GLOBAL const ", " *RESTRICT "},
    {"OUT", "GLOBAL ", " *RESTRICT "},
    {"INOUT", "GLOBAL ", " *"},
    {"ALIAS", "GLOBAL const ", " *"},
    {"ALIAS_OUT", "GLOBAL ", " *"},
    {"VAL", NULL, NULL},
};

/* Appends one argument's declaration, "IN(f32,x)" at `at`. Returns what follows it, NULL when it is
 * no argument. */
static const char *add_declaration(dhowi_cl_text *out, const char *at) {
    char kind[64], type[64], name[64];
    at = read_word(at, kind);
    if (at == NULL || *at++ != '(') return NULL;
    at = read_word(at, type);
    if (at == NULL || *at++ != ',') return NULL;
    at = read_word(at, name);
    if (at == NULL || *at++ != ')') return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kind, kinds[i].kind) != 0) continue;
        if (kinds[i].before != NULL)
            dhowi_cl_text_print(out, " %s%s%s%s = (%s%s *)(%s_p + %s_o);", kinds[i].before, type,
                                kinds[i].after, name, kinds[i].before, type, name, name);
        return at + strspn(at, " \t\n");
    }
    return NULL;
}

static int32_t add_head(dhowi_cl_text *out, const dhow_kernel_decl *kernel, dhow_error *err) {
    const char *at = kernel->signature;
    bool good = at != NULL && *at == '(' && strlen(kernel->name) < 256;
    if (good) {
        dhowi_cl_text_print(out, "#define K_HEAD_%s", kernel->name);
        at += 1 + strspn(at + 1, " \t\n");
    }
    while (good && *at != ')') {
        at = add_declaration(out, at);
        good = at != NULL && (*at == ',' || *at == ')');
        if (good && *at == ',') at++;
    }
    if (!good)
        return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT,
                               "kernel '%.100s': '%.200s' is no argument list", kernel->name,
                               kernel->signature != NULL ? kernel->signature : "");
    dhowi_cl_text_add(out, "\n", 1);
    return DHOW_OK;
}

/* ---- the scanner ---------------------------------------------------------------------------- */

/* Behind the comment, string or character literal at `at`; `at` itself when there is none. */
static const char *skip_opaque(const char *at, const char *end) {
    if (end - at >= 2 && at[0] == '/' && at[1] == '/') {
        while (at < end && *at != '\n') at += (*at == '\\' && end - at >= 2) ? 2 : 1;
    } else if (end - at >= 2 && at[0] == '/' && at[1] == '*') {
        at += 2;
        while (at < end && !(end - at >= 2 && at[0] == '*' && at[1] == '/')) at++;
        at = end - at >= 2 ? at + 2 : end;
    } else if (at < end && (*at == '"' || *at == '\'')) {
        const char quote = *at++;
        while (at < end && *at != quote && *at != '\n')
            at += (*at == '\\' && end - at >= 2) ? 2 : 1;
        if (at < end) at++;
    }
    return at;
}

static const char *skip_blank(const char *at, const char *end) {
    while (at < end) {
        if (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r') {
            at++;
        } else if (*at == '/') {
            const char *behind = skip_opaque(at, end);
            if (behind == at) break;
            at = behind;
        } else {
            break;
        }
    }
    return at;
}

/* The end of a preprocessor line: its newline, those behind a backslash and in comments not
 * counted. */
static const char *skip_directive(const char *at, const char *end) {
    while (at < end && *at != '\n') {
        const char *behind = skip_opaque(at, end);
        if (behind != at)
            at = behind[-1] == '\n' && *at != '/' ? behind - 1
                                                  : behind; /* an apostrophe in #error text */
        else
            at += (*at == '\\' && end - at >= 2) ? 2 : 1;
    }
    return at;
}

/* The comma or closing parenthesis that ends the argument at `at`, `end` if there is none. */
static const char *skip_argument(const char *at, const char *end) {
    int depth = 0;
    while (at < end) {
        const char *behind = skip_opaque(at, end);
        if (behind != at) {
            at = behind;
            continue;
        }
        if (depth == 0 && (*at == ',' || *at == ')')) return at;
        depth += *at == '(' ? 1 : *at == ')' ? -1 : 0;
        at++;
    }
    return end;
}

/* For the text behind the word KERNEL: `(name, (arguments)) {`. Returns what follows the brace and
 * sets the name's text, or returns NULL when this is no kernel's definition. */
static const char *find_body(const char *at, const char *end, const char **out_name,
                             size_t *out_bytes) {
    at = skip_blank(at, end);
    if (at == end || *at != '(') return NULL;
    const char *name = skip_blank(at + 1, end);
    at = skip_argument(name, end);
    if (at == end || *at != ',') return NULL;
    *out_name = name;
    *out_bytes = (size_t)(at - name);
    at = skip_blank(at + 1, end);
    if (at == end || *at != '(') return NULL;
    at = skip_argument(at, end);
    if (at == end || *at != ')') return NULL;
    at = skip_blank(at + 1, end);
    return at < end && *at == '{' ? at + 1 : NULL;
}

static bool names_kernel_header(const char *at, const char *end) {
    at = skip_blank(at + 1, end); /* behind the # */
    const char *word = "include";
    size_t length = strlen(word);
    if ((size_t)(end - at) <= length || memcmp(at, word, length) != 0) return false;
    for (at += length; end - at >= 4; at++)
        if ((at[0] == '/' || at[0] == '"' || at[0] == '<') && at[1] == 'k' && at[2] == '.' &&
            at[3] == 'h')
            return true;
    return false;
}

static void add_directive(dhowi_cl_text *out, const char *at, const char *behind) {
    if (names_kernel_header(at, behind)) return;
    dhowi_cl_text_add(out, at, (size_t)(behind - at));
}

static void add_with_heads(dhowi_cl_text *out, const char *at, const char *end) {
    bool line_start = true;
    while (at < end && !out->failed) {
        const char *behind = skip_opaque(at, end), *name = NULL;
        size_t name_bytes = 0;
        if (behind != at) {
            line_start = line_start && *at == '/';
            dhowi_cl_text_add(out, at, (size_t)(behind - at));
        } else if (line_start && *at == '#') {
            behind = skip_directive(at, end);
            add_directive(out, at, behind);
        } else if (is_word(*at)) {
            while (behind < end && is_word(*behind)) behind++;
            const bool is_kernel = behind - at == 6 && memcmp(at, "KERNEL", 6) == 0;
            const char *body = is_kernel ? find_body(behind, end, &name, &name_bytes) : NULL;
            if (body != NULL) behind = body;
            dhowi_cl_text_add(out, at, (size_t)(behind - at));
            if (body != NULL) {
                dhowi_cl_text_add(out, " K_HEAD(", 8);
                dhowi_cl_text_add(out, name, name_bytes);
                dhowi_cl_text_add(out, ") ", 2);
            }
            line_start = false;
        } else {
            if (*at == '\n')
                line_start = true;
            else if (*at != ' ' && *at != '\t' && *at != '\r')
                line_start = false;
            behind = at + 1;
            dhowi_cl_text_add(out, at, 1);
        }
        at = behind;
    }
}

/* ---- whole texts ---------------------------------------------------------------------------- */

/* #line, with the characters that would end the name left out. */
static void add_line_mark(dhowi_cl_text *out, const char *name) {
    dhowi_cl_text_add(out, "\n#line 1 \"", 10);
    for (; *name != '\0'; name++)
        if (*name != '"' && *name != '\\' && *name != '\n') dhowi_cl_text_add(out, name, 1);
    dhowi_cl_text_add(out, "\"\n", 2);
}

static int32_t finish(dhowi_cl_text *out, const dhow_module_desc *desc, dhow_error *err) {
    dhowi_cl_text_add(out, "\n", 1);
    if (out->failed)
        return dhowi_cl_refuse(err, DHOW_OUT_OF_MEMORY, "no host memory for the text of '%.200s'",
                               desc->name);
    return DHOW_OK;
}

int32_t dhowi_cl_source_portable(dhowi_cl_text *out, const dhow_module_desc *desc,
                                 dhow_error *err) {
    const char *text = desc->text;
    if (desc->header == NULL)
        return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT,
                               "'%.200s' comes without the kernel header", desc->name);
    add_line_mark(out, "k.h");
    dhowi_cl_text_add(out, desc->header, strlen(desc->header));
    dhowi_cl_text_add(out, "\n", 1);
    for (uint32_t i = 0; i < desc->kernel_count; i++) {
        int32_t status = add_head(out, &desc->kernels[i], err);
        if (status != DHOW_OK) return status;
    }
    add_line_mark(out, desc->name);
    add_with_heads(out, text, text + desc->text_bytes);
    return finish(out, desc, err);
}

int32_t dhowi_cl_source_native(dhowi_cl_text *out, const dhow_module_desc *desc, dhow_error *err) {
    add_line_mark(out, desc->name);
    dhowi_cl_text_add(out, desc->text, (size_t)desc->text_bytes);
    return finish(out, desc, err);
}
