/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns kernel texts into OpenCL C, see source.h. A scanner that knows comments, strings and
 * preprocessor lines finds the kernels; the compiler does the rest.
 */
#include "source.h"

#include <string.h>

#include "opencl.h"

/* ---- the scanner ---------------------------------------------------------------------------- */

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

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

/* #line, with the characters that would end the name left out. */
static void add_line_mark(dhowi_cl_text *out, size_t line, const char *name) {
    dhowi_cl_text_print(out, "\n#line %zu \"", line);
    for (; *name != '\0'; name++)
        if (*name != '"' && *name != '\\' && *name != '\n') dhowi_cl_text_add(out, name, 1);
    dhowi_cl_text_add(out, "\"\n", 2);
}

typedef struct user_text {
    const char *begin, *end, *name;
    bool alone; /* kernels are left out that are not wanted */
} user_text;

/* A kernel's definition, from behind the word KERNEL: `(name, (list)) {`. */
typedef struct definition {
    const char *name;
    size_t name_bytes;
    const char *list;     /* the parenthesis that opens the argument list */
    const char *list_end; /* the parenthesis that closes the argument list */
    const char *body;     /* behind the brace that opens it */
} definition;

/* False when the text at `at` is no kernel's definition. */
static bool find_definition(const char *at, const char *end, definition *out) {
    at = skip_blank(at, end);
    if (at == end || *at != '(') return false;
    out->name = skip_blank(at + 1, end);
    at = skip_argument(out->name, end);
    if (at == end || *at != ',') return false;
    out->name_bytes = (size_t)(at - out->name);
    at = skip_blank(at + 1, end);
    if (at == end || *at != '(') return false;
    out->list = at;
    do at = skip_argument(at + 1, end);
    while (at < end && *at == ',');
    if (at == end) return false;
    out->list_end = at;
    at = skip_blank(at + 1, end);
    if (at == end || *at != ')') return false;
    at = skip_blank(at + 1, end);
    if (at == end || *at != '{') return false;
    out->body = at + 1;
    return true;
}

static bool begins_with(const char *at, const char *end, const char *word) {
    const size_t length = strlen(word);
    return (size_t)(end - at) >= length && memcmp(at, word, length) == 0;
}

/* Whether a directive may begin behind `c`. */
static bool stays_line_start(bool line_start, char c) {
    return c == '\n' || (line_start && (c == ' ' || c == '\t' || c == '\r'));
}

/* How many #if the text behind the directive at `at` lies in, counted from the outermost of which
 * the first branch is over; `uncounted` before it. */
static int uncounted_after(const char *at, const char *end, int uncounted) {
    at = skip_blank(at + 1, end); /* behind the # */
    if (begins_with(at, end, "if")) return uncounted > 0 ? uncounted + 1 : 0;
    if (begins_with(at, end, "el")) return uncounted > 0 ? uncounted : 1;
    if (begins_with(at, end, "endif")) return uncounted > 0 ? uncounted - 1 : 0;
    return uncounted;
}

/* Behind the brace that closes the block in which `at` lies. Of an #if, where each branch may open
 * the same brace, the first branch is counted. */
static const char *skip_block(const char *at, const char *end) {
    bool line_start = false;
    int depth = 1, uncounted = 0;
    while (at < end && depth > 0) {
        const char *behind = skip_opaque(at, end);
        if (behind == at && line_start && *at == '#') {
            behind = skip_directive(at, end);
            uncounted = uncounted_after(at, behind, uncounted);
        } else if (behind == at) {
            if (uncounted == 0) depth += *at == '{' ? 1 : *at == '}' ? -1 : 0;
            line_start = stays_line_start(line_start, *at);
            behind = at + 1;
        }
        at = behind;
    }
    return at;
}

/* What follows in the text keeps its line and column, which the compiler's messages tell. */
static void add_place(dhowi_cl_text *out, const user_text *text, const char *at) {
    size_t line = 1;
    const char *start = text->begin;
    for (const char *c = text->begin; c < at; c++) {
        if (*c != '\n') continue;
        line++;
        start = c + 1;
    }
    add_line_mark(out, line, text->name);
    for (; start < at; start++) dhowi_cl_text_add(out, *start == '\t' ? "\t" : " ", 1);
}

static void add_call(dhowi_cl_text *out, const char *macro, const definition *kernel) {
    dhowi_cl_text_add(out, " ", 1);
    dhowi_cl_text_add(out, macro, strlen(macro));
    dhowi_cl_text_add(out, "(", 1);
    dhowi_cl_text_add(out, kernel->name, kernel->name_bytes);
    dhowi_cl_text_add(out, ")", 1);
}

/* Appends the word at `at`, or the head of the kernel's definition that begins there, whose end
 * goes to `kernel_end`. Returns what follows. */
static const char *add_word(dhowi_cl_text *out, const user_text *text, const char *at,
                            const char **kernel_end) {
    const char *end = text->end;
    const char *behind = at;
    definition kernel;
    while (behind < end && is_word(*behind)) behind++;
    if (behind - at != 6 || memcmp(at, "KERNEL", 6) != 0 ||
        !find_definition(behind, end, &kernel)) {
        dhowi_cl_text_add(out, at, (size_t)(behind - at));
        return behind;
    }
    if (text->alone) {
        *kernel_end = skip_block(kernel.body, end);
        dhowi_cl_text_print(out, "\n#if");
        add_call(out, "K_WANTED", &kernel);
        add_place(out, text, at);
    }
    dhowi_cl_text_add(out, at, (size_t)(kernel.list - at));
    add_call(out, "K_LIST", &kernel);
    dhowi_cl_text_add(out, kernel.list, (size_t)(kernel.list_end - kernel.list));
    add_call(out, "K_TAIL", &kernel);
    dhowi_cl_text_add(out, kernel.list_end, (size_t)(kernel.body - kernel.list_end));
    add_call(out, "K_HEAD", &kernel);
    add_place(out, text, kernel.body);
    return kernel.body;
}

static bool names_kernel_header(const char *at, const char *end) {
    at = skip_blank(at + 1, end); /* behind the # */
    static const char word[] = "include";
    if (!begins_with(at, end, word)) return false;
    for (at += strlen(word); end - at >= 4; at++)
        if ((at[0] == '/' || at[0] == '"' || at[0] == '<') && at[1] == 'k' && at[2] == '.' &&
            at[3] == 'h')
            return true;
    return false;
}

static void add_directive(dhowi_cl_text *out, const char *at, const char *behind) {
    if (names_kernel_header(at, behind)) return;
    dhowi_cl_text_add(out, at, (size_t)(behind - at));
}

static void add_with_heads(dhowi_cl_text *out, const user_text *text) {
    const char *at = text->begin, *end = text->end, *kernel_end = NULL;
    bool line_start = true;
    while (at < end && !out->failed) {
        const char *behind = skip_opaque(at, end);
        if (behind != at) {
            line_start = line_start && *at == '/';
            dhowi_cl_text_add(out, at, (size_t)(behind - at));
        } else if (line_start && *at == '#') {
            behind = skip_directive(at, end);
            add_directive(out, at, behind);
        } else if (is_word(*at)) {
            behind = add_word(out, text, at, &kernel_end);
            line_start = false;
        } else {
            line_start = stays_line_start(line_start, *at);
            behind = at + 1;
            dhowi_cl_text_add(out, at, 1);
        }
        at = behind;
        if (at == kernel_end) {
            dhowi_cl_text_print(out, "\n#endif");
            add_place(out, text, at);
        }
    }
}

/* ---- whole texts ---------------------------------------------------------------------------- */

static int32_t finish(dhowi_cl_text *out, const dhow_module_desc *desc, dhow_error *err) {
    dhowi_cl_text_add(out, "\n", 1);
    if (out->failed)
        return dhowi_cl_refuse(err, DHOW_OUT_OF_MEMORY, "no host memory for the text of '%.200s'",
                               desc->name);
    return DHOW_OK;
}

int32_t dhowi_cl_source_portable(dhowi_cl_text *out, const dhow_module_desc *desc, bool alone,
                                 dhow_error *err) {
    const char *text = desc->text;
    if (desc->header == NULL)
        return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT,
                               "'%.200s' comes without the kernel header", desc->name);
    add_line_mark(out, 1, "k.h");
    dhowi_cl_text_add(out, desc->header, strlen(desc->header));
    dhowi_cl_text_add(out, "\n", 1);
    int32_t status = dhowi_cl_add_heads(out, desc, err);
    if (status != DHOW_OK) return status;
    const user_text whole = {text, text + desc->text_bytes, desc->name, alone};
    add_line_mark(out, 1, desc->name);
    add_with_heads(out, &whole);
    return finish(out, desc, err);
}

int32_t dhowi_cl_source_native(dhowi_cl_text *out, const dhow_module_desc *desc, dhow_error *err) {
    add_line_mark(out, 1, desc->name);
    dhowi_cl_text_add(out, desc->text, (size_t)desc->text_bytes);
    return finish(out, desc, err);
}
