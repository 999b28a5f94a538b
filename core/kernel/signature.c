/* SPDX-License-Identifier: Apache-2.0
 *
 * See signature.h.
 */
#include "kernel/signature.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/array.h"
#include "base/memory/size.h"
#include "base/text/text.h"
#include "dhow/tensor.h"

static const struct {
    const char *name;
    uint32_t access;
} k_kinds[] = {
    [DHOW_PARAM_IN] = {"IN", DHOW_ACCESS_READ},
    [DHOW_PARAM_OUT] = {"OUT", DHOW_ACCESS_WRITE},
    [DHOW_PARAM_INOUT] = {"INOUT", DHOW_ACCESS_READ | DHOW_ACCESS_WRITE},
    [DHOW_PARAM_VALUE] = {"VAL", 0},
    [DHOW_PARAM_ALIAS] = {"ALIAS", DHOW_ACCESS_READ},
    [DHOW_PARAM_ALIAS_OUT] = {"ALIAS_OUT", DHOW_ACCESS_WRITE},
};

uint32_t dhowi_param_access(uint32_t kind) { return k_kinds[kind].access; }

const char *dhowi_type_name(int32_t type) {
    return type == DHOW_PARAM_DIMS ? "dims" : dhow_dtype_name((dhow_dtype)type);
}

/* ---- a cursor over text ---- */

static const char *skip_space(const char *p) {
    while (isspace((unsigned char)*p)) p++;
    return p;
}
static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Reads an identifier; NULL when there is none or it does not fit, and for NULL. */
static const char *read_word(const char *p, char *word, size_t capacity) {
    size_t n = 0;
    if (p == NULL) return NULL;
    p = skip_space(p);
    while (is_word(p[n])) n++;
    if (n == 0 || n >= capacity || isdigit((unsigned char)p[0])) return NULL;
    memcpy(word, p, n);
    word[n] = '\0';
    return p + n;
}
static const char *expect(const char *p, char c) {
    if (p == NULL) return NULL;
    p = skip_space(p);
    return *p == c ? p + 1 : NULL;
}

/* ---- one signature ---- */

static int32_t type_number(const char *name) {
    if (strcmp(name, "dims") == 0) return DHOW_PARAM_DIMS;
    for (int32_t t = DHOW_F32; t <= DHOW_BOOL; t++) {
        if (strcmp(name, dhow_dtype_name((dhow_dtype)t)) == 0) return t;
    }
    return 0;
}

static bool value_type_allowed(int32_t type) {
    return type == DHOW_I32 || type == DHOW_U32 || type == DHOW_I64 || type == DHOW_U64 ||
           type == DHOW_F32 || type == DHOW_F64 || type == DHOW_PARAM_DIMS;
}

static const char *read_param(const char *kernel, const char *p, dhowi_param *param) {
    char kind[12], type[12];
    const char *start = p;
    p = expect(read_word(p, kind, sizeof kind), '(');
    if (p != NULL) p = expect(read_word(p, type, sizeof type), ',');
    if (p != NULL) p = expect(read_word(p, param->name, sizeof param->name), ')');
    if (p == NULL) {
        (void)dhowi_fail(DHOW_INVALID_ARGUMENT,
                         "kernel %s: the argument list does not parse near '%.40s'", kernel, start);
        return NULL;
    }
    size_t k = DHOW_PARAM_IN;
    while (k < DHOWI_COUNT(k_kinds) && strcmp(kind, k_kinds[k].name) != 0) k++;
    param->kind = (uint32_t)k;
    param->type = type_number(type);
    if (k == DHOWI_COUNT(k_kinds)) {
        (void)dhowi_fail(
            DHOW_INVALID_ARGUMENT,
            "kernel %s: argument '%s' is %s; IN, OUT, INOUT, ALIAS, ALIAS_OUT and VAL exist",
            kernel, param->name, kind);
        return NULL;
    }
    if (param->type == DHOW_BOOL) {
        (void)dhowi_fail(DHOW_INVALID_ARGUMENT,
                         "kernel %s: argument '%s' cannot have the type bool; u8 takes bool "
                         "tensors, as bytes of 0 and 1",
                         kernel, param->name);
        return NULL;
    }
    if (param->type == 0 || (param->kind == DHOW_PARAM_VALUE ? !value_type_allowed(param->type)
                                                             : param->type == DHOW_PARAM_DIMS)) {
        (void)dhowi_fail(
            DHOW_INVALID_ARGUMENT, "kernel %s: argument '%s' cannot have the type %s; %s", kernel,
            param->name, type,
            param->kind == DHOW_PARAM_VALUE ? "values are i32, u32, i64, u64, f32, f64 or dims"
                                            : "buffers are f32, f64, f16, bf16, or i8 to u64");
        return NULL;
    }
    return p;
}

dhow_status dhowi_signature_parse(const char *kernel, const char *text, dhowi_signature *out) {
    out->count = 0;
    const char *p = expect(text, '(');
    if (p == NULL)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "kernel %s: the argument list lacks its '('",
                          kernel);
    if (expect(p, ')') != NULL) return DHOW_OK;
    for (;;) {
        if (out->count == DHOW_MAX_KERNEL_ARGS) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "kernel %s: more than %d arguments", kernel,
                              DHOW_MAX_KERNEL_ARGS);
        }
        p = read_param(kernel, p, &out->params[out->count]);
        if (p == NULL) return DHOW_INVALID_ARGUMENT;
        out->count++;
        p = skip_space(p);
        if (*p == ')') return DHOW_OK;
        if (*p++ != ',') {
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "kernel %s: ',' or ')' expected near '%.40s'",
                              kernel, p - 1);
        }
    }
}

/* ---- kernels in text ---- */

typedef struct finder {
    const char *module;
    char type[12]; /* what T stands for, or "" */
    dhowi_found_kernel *found;
    uint32_t count, capacity;
} finder;

/* Past a comment, string or preprocessor line that starts at p; p itself when none does. */
static const char *skip_opaque(const char *p, bool line_start) {
    if (p[0] == '/' && p[1] == '/') return p + strcspn(p, "\n");
    if (p[0] == '/' && p[1] == '*') {
        const char *end = strstr(p + 2, "*/");
        return end != NULL ? end + 2 : p + strlen(p);
    }
    if (*p == '#' && line_start) {
        while (*p != '\0' && *p != '\n') p += p[0] == '\\' && p[1] == '\n' ? 2 : 1;
        return p;
    }
    if (*p == '"' || *p == '\'') {
        char quote = *p++;
        while (*p != '\0' && *p != quote && *p != '\n') p += p[0] == '\\' && p[1] != '\0' ? 2 : 1;
        return *p == quote ? p + 1 : p;
    }
    return p;
}

static dhow_status add_found(finder *f, dhowi_found_kernel **out) {
    if (!dhowi_room((void **)&f->found, f->count, &f->capacity, sizeof *f->found))
        return dhowi_fail_memory("kernel list");
    *out = &f->found[f->count];
    memset(*out, 0, sizeof **out);
    return DHOW_OK;
}

/* Reads `name` or `K_T(name)`. */
static const char *read_kernel_name(finder *f, const char *p, char *name, size_t capacity) {
    char word[64];
    p = read_word(p, word, sizeof word);
    if (p == NULL) return NULL;
    if (strcmp(word, "K_T") != 0) {
        (void)dhowi_copy_text(name, capacity, word);
        return p;
    }
    p = expect(read_word(expect(p, '('), word, sizeof word), ')');
    if (p == NULL || f->type[0] == '\0') return NULL;
    (void)snprintf(name, capacity, "%.48s_%s", word, f->type);
    return p;
}

/* Copies the argument list with T filled in; p is at its '('. Returns the end of the list. */
static const char *copy_signature(const finder *f, const char *p, char *to, size_t capacity) {
    int depth = 0;
    dhowi_text text = {to, capacity, 0};
    while (*p != '\0') {
        char word[32];
        const char *rest = is_word(*p) ? read_word(p, word, sizeof word) : NULL;
        if (rest != NULL) {
            bool parameter = f->type[0] != '\0' && strcmp(word, "T") == 0;
            dhowi_text_add(&text, "%s", parameter ? f->type : word);
            p = rest;
            continue;
        }
        depth += *p == '(' ? 1 : *p == ')' ? -1 : 0;
        if (*p == ',' && depth == 1) {
            dhowi_text_add(&text, ", ");
        } else if (!isspace((unsigned char)*p)) {
            dhowi_text_add(&text, "%c", *p);
        }
        p++;
        if (depth == 0) break;
    }
    return text.length + 1 < capacity ? p : NULL;
}

/* A text may hold a kernel in several forms, of which the preprocessor takes one: they share their
 * arguments. */
static dhow_status keep_found(finder *f, const dhowi_found_kernel *kernel) {
    for (uint32_t i = 0; i < f->count; i++) {
        if (strcmp(f->found[i].name, kernel->name) != 0) continue;
        if (strcmp(f->found[i].signature, kernel->signature) == 0) return DHOW_OK;
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: kernel %s has two argument lists: %s and %s",
                          f->module, kernel->name, f->found[i].signature, kernel->signature);
    }
    f->count++;
    return DHOW_OK;
}

static dhow_status take_kernel(finder *f, const char *p, const char **out_end) {
    dhowi_found_kernel *kernel = NULL;
    dhowi_signature signature;
    const char *start = p;
    DHOWI_TRY(add_found(f, &kernel));
    p = expect(p, '(');
    if (p != NULL) p = expect(read_kernel_name(f, p, kernel->name, sizeof kernel->name), ',');
    if (p != NULL) p = skip_space(p);
    if (p != NULL && *p == '(') {
        p = copy_signature(f, p, kernel->signature, sizeof kernel->signature);
    } else {
        p = NULL;
    }
    if (p == NULL) {
        return dhowi_fail(
            DHOW_INVALID_ARGUMENT,
            "%s: KERNEL near '%.40s' does not parse; write KERNEL(name, (IN(f32,x), OUT(f32,y), "
            "VAL(i64,n))) { ... }, and give -DT=<dtype> where the text uses K_T",
            f->module, start);
    }
    DHOWI_TRY(dhowi_signature_parse(kernel->name, kernel->signature, &signature));
    *out_end = p;
    return keep_found(f, kernel);
}

/* The word after "-DT=". */
static void find_type_option(const char *options, char *type, size_t capacity) {
    const char *p = strstr(options, "-DT=");
    type[0] = '\0';
    if (p != NULL && read_word(p + 4, type, capacity) == NULL) type[0] = '\0';
}

static dhow_status scan(finder *f, const char *text) {
    bool line_start = true;
    for (const char *p = text; *p != '\0';) {
        const char *past = skip_opaque(p, line_start);
        if (past != p) {
            p = past;
            continue;
        }
        if (*p == '\n') line_start = true;
        if (isspace((unsigned char)*p)) {
            p++;
            continue;
        }
        line_start = false;
        if (!is_word(*p)) {
            p++;
            continue;
        }
        size_t n = 0;
        while (is_word(p[n])) n++;
        bool kernel = n == 6 && memcmp(p, "KERNEL", 6) == 0;
        p += n;
        if (kernel) DHOWI_TRY(take_kernel(f, p, &p));
    }
    return DHOW_OK;
}

dhow_status dhowi_find_kernels(const char *module, const char *text, const char *options,
                               dhowi_found_kernel **out, uint32_t *out_count) {
    finder f = {.module = module};
    *out = NULL;
    *out_count = 0;
    find_type_option(options, f.type, sizeof f.type);
    dhow_status status = scan(&f, text);
    if (status == DHOW_OK && f.count == 0) {
        status = dhowi_fail(DHOW_INVALID_ARGUMENT,
                            "%s: there is no KERNEL(name, (...)) in the text", module);
    }
    if (status != DHOW_OK) {
        dhowi_free(f.found);
        return status;
    }
    *out = f.found;
    *out_count = f.count;
    return DHOW_OK;
}

static dhow_status read_declaration(finder *f, const char *p, const char **out_end) {
    dhowi_found_kernel *kernel = NULL;
    dhowi_signature signature;
    DHOWI_TRY(add_found(f, &kernel));
    const char *after = read_word(p, kernel->name, sizeof kernel->name);
    if (after != NULL) after = skip_space(after);
    if (after != NULL && *after == '(') {
        after = copy_signature(f, after, kernel->signature, sizeof kernel->signature);
    } else {
        after = NULL;
    }
    if (after == NULL) {
        return dhowi_fail(
            DHOW_INVALID_ARGUMENT,
            "%s: signatures do not parse near '%.40s'; write \"name(IN(f32,x), OUT(f32,y)); ...\"",
            f->module, p);
    }
    DHOWI_TRY(dhowi_signature_parse(kernel->name, kernel->signature, &signature));
    *out_end = skip_space(after);
    return keep_found(f, kernel);
}

dhow_status dhowi_parse_declarations(const char *module, const char *text, dhowi_found_kernel **out,
                                     uint32_t *out_count) {
    finder f = {.module = module};
    dhow_status status = DHOW_OK;
    *out = NULL;
    *out_count = 0;
    for (const char *p = skip_space(text); *p != '\0' && status == DHOW_OK;) {
        status = read_declaration(&f, p, &p);
        if (status == DHOW_OK && *p == ';') p = skip_space(p + 1);
    }
    if (status != DHOW_OK) {
        dhowi_free(f.found);
        return status;
    }
    *out = f.found;
    *out_count = f.count;
    return DHOW_OK;
}
