/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu_table.h"

static const size_t k_bytes[] = {4, 2, 2, 8, 1, 2, 4, 8, 4, 8};

/* ---- texts ---- */

static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s: the build makes it with nvcc", path);
    (void)fseek(file, 0, SEEK_END);
    const size_t size = (size_t)ftell(file);
    rewind(file);
    char *text = calloc(1, size + 1);
    cr_assert_not_null(text);
    cr_assert_eq(fread(text, 1, size, file), size);
    (void)fclose(file);
    return text;
}

/* The next line of a kernel that has both words, from `line` on; NULL behind its end. */
static char *find_line(char *line, const plant *p) {
    for (; strncmp(line, "}\n", 2) != 0; line = strchr(line, '\n') + 1) {
        char text[512];
        (void)snprintf(text, sizeof text, "%.*s", (int)strcspn(line, "\n"), line);
        if (strstr(text, p->opcode) != NULL && strstr(text, p->from) != NULL) return line;
    }
    return NULL;
}

static char *planted(char *text, const plant *p) {
    char head[128];
    (void)snprintf(head, sizeof head, ".entry %s(", p->kernel);
    char *line = strstr(text, head);
    cr_assert_not_null(line, "there is no %s", p->kernel);
    line = find_line(line, p);
    for (int k = 0; k < p->nth && line != NULL; k++) line = find_line(strchr(line, '\n') + 1, p);
    cr_assert_not_null(line, "%s has no line %d with \"%s\" and \"%s\"", p->kernel, p->nth,
                       p->opcode, p->from);
    char *from = p->to != NULL ? strstr(line, p->from) : line;
    const char *rest = p->to != NULL ? from + strlen(p->from) : strchr(line, '\n');
    const char *to = p->to != NULL ? p->to : "";
    const size_t bytes = strlen(text) + strlen(to) + 1;
    char *copy = malloc(bytes);
    cr_assert_not_null(copy);
    (void)snprintf(copy, bytes, "%.*s%s%s", (int)(from - text), text, to, rest);
    free(text);
    return copy;
}

ptx_module *ptx_load(const char *unit, const char *type, int index_bits, const plant *mistake) {
    char error[256] = "", path[512];
    (void)snprintf(path, sizeof path, "%s/%s.%s.%d.ptx", PTX_FOLDER, unit, type, index_bits);
    char *text = read_file(path);
    if (mistake != NULL) text = planted(text, mistake);
    ptx_module *module = ptx_parse(text, error, sizeof error);
    free(text);
    cr_assert_not_null(module, "%s.%s: %s", unit, type, error);
    return module;
}

/* ---- memory ---- */

static double half(uint16_t v) {
    const int exponent = v >> 10 & 31, fraction = v & 1023;
    const double size = exponent == 31  ? (fraction != 0 ? (double)NAN : (double)INFINITY)
                        : exponent == 0 ? ldexp(fraction, -24)
                                        : ldexp(fraction + 1024, exponent - 25);
    return v & 0x8000 ? -size : size;
}

static double brain(uint16_t v) {
    const uint32_t bits = (uint32_t)v << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

static double element_at(element type, const void *base, size_t i) {
    switch (type) {
        case F32:
            return (double)((const float *)base)[i];
        case F16:
            return half(((const uint16_t *)base)[i]);
        case BF16:
            return brain(((const uint16_t *)base)[i]);
        case F64:
            return ((const double *)base)[i];
        case U8:
            return ((const uint8_t *)base)[i];
        case U16:
            return ((const uint16_t *)base)[i];
        case U32:
            return ((const uint32_t *)base)[i];
        case I32:
            return ((const int32_t *)base)[i];
        default:
            return (double)((const int64_t *)base)[i];
    }
}

/* Floats from 1/16 to 2, integers from 1 to 100: every function has a value. */
static void fill(element type, void *base, size_t count, uint32_t state) {
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        const uint32_t r = state >> 9;
        const float real = ldexpf(1 + (float)(r & 1023) / 1024, -(int)(r >> 10 & 3));
        switch (type) {
            case F32:
                ((float *)base)[i] = real;
                break;
            case F64:
                ((double *)base)[i] = (double)real;
                break;
            case F16:
                ((uint16_t *)base)[i] = (uint16_t)((15 - (r >> 10 & 3)) << 10 | (r & 1023));
                break;
            case BF16:
                ((uint16_t *)base)[i] = (uint16_t)((127 - (r >> 10 & 3)) << 7 | (r & 127));
                break;
            case U8:
                ((uint8_t *)base)[i] = (uint8_t)(1 + r % 100);
                break;
            case U16:
                ((uint16_t *)base)[i] = (uint16_t)(1 + r % 100);
                break;
            case U32:
            case I32:
                ((uint32_t *)base)[i] = 1 + r % 100;
                break;
            default:
                ((uint64_t *)base)[i] = 1 + r % 100;
        }
    }
}

/* Arguments differ by their places. */
static void fill_argument(element type, void *base, size_t count, size_t place) {
    fill(type, base, count, 12345 + (uint32_t)place);
}

double *made_values(element type, size_t count, size_t place) {
    double *values = malloc(count * sizeof *values);
    void *made = malloc(count * k_bytes[type]);
    cr_assert(values != NULL && made != NULL);
    fill_argument(type, made, count, place);
    for (size_t i = 0; i < count; i++) values[i] = element_at(type, made, i);
    free(made);
    return values;
}

typedef struct memory {
    void *blocks[MAX_ARGS]; /* what was allocated */
    void *at[MAX_ARGS];     /* what the kernel gets */
    const void *args[MAX_ARGS];
    ptx_allocation list[MAX_ARGS];
    size_t list_count, count;
} memory;

static void make_memory(memory *m, const arg *args, size_t count) {
    cr_assert_leq(count, MAX_ARGS);
    memset(m, 0, sizeof *m);
    m->count = count;
    for (size_t k = 0; k < count; k++) {
        const arg *a = &args[k];
        m->args[k] = a->role == VALUE ? a->value : &m->at[k];
        if (a->role == VALUE) continue;
        const size_t each = k_bytes[a->type], bytes = (a->count + a->shift) * each;
        m->blocks[k] = aligned_alloc(256, (bytes + 256) / 256 * 256);
        cr_assert_not_null(m->blocks[k]);
        memset(m->blocks[k], 0xff, bytes);
        m->at[k] = (char *)m->blocks[k] + a->shift * each;
        if (a->role == INPUT && a->value != NULL)
            memcpy(m->at[k], a->value, a->count * each);
        else if (a->role == INPUT)
            fill_argument(a->type, m->at[k], a->count, k);
        m->list[m->list_count++] =
            (ptx_allocation){a->name, m->at[k], a->count * each, a->role == INPUT, NULL};
    }
}

static void free_memory(memory *m) {
    for (size_t k = 0; k < m->count; k++) free(m->blocks[k]);
}

/* ---- runs ---- */

static void launch(const ptx_module *module, const char *name, unsigned groups, const memory *m,
                   ptx_report *report) {
    const ptx_kernel *kernel = ptx_find(module, name);
    cr_assert_not_null(kernel, "there is no %s", name);
    cr_assert_eq(ptx_param_count(kernel), m->count, "%s has %zu parameters", name,
                 ptx_param_count(kernel));
    const ptx_launch l = {groups, 256, m->args, m->list, m->list_count, true, 0};
    (void)ptx_run(kernel, &l, report);
}

static bool is_same(const char *kernel, const arg *a, const void *got, const void *want,
                    double tolerance, char *why, size_t why_bytes) {
    const exact *results = a->value;
    for (size_t i = 0; i < a->count; i++) {
        const double g = element_at(a->type, got, i);
        const double w = results != NULL ? results[i].value : element_at(a->type, want, i);
        const double most = results != NULL ? tolerance * fabs(w) + 1e-6 * results[i].size
                                            : tolerance * (0.01 + fabs(w));
        if ((isnan(g) && isnan(w)) || g == w || fabs(g - w) <= most) continue;
        (void)snprintf(why, why_bytes, "%s: %s[%zu] of %zu is %.9g, %s %.9g", kernel, a->name, i,
                       a->count, g, results != NULL ? "in f64" : "on the CPU", w);
        return false;
    }
    return true;
}

bool compare_with_cpu(const ptx_module *module, const char *kernel, unsigned groups,
                      double tolerance, const arg *args, size_t count, ptx_report *report,
                      char *why, size_t why_bytes) {
    memory gpu, cpu;
    bool same = true;
    make_memory(&gpu, args, count);
    make_memory(&cpu, args, count);
    launch(module, kernel, groups, &gpu, report);
    const k_info *reference = dhow_cpu_kernel(kernel, CPU_ISA_V2);
    const void *cpu_args[MAX_ARGS];
    void *const *pointers = (void *)cpu_args;
    cr_assert_not_null(reference, "%s", kernel);
    memcpy(cpu_args, cpu.args, sizeof cpu_args);
    reference->run(0, 1, pointers);
    for (size_t k = 0; k < count; k++)
        if (args[k].role == OUTPUT)
            same =
                same && is_same(kernel, &args[k], gpu.at[k], cpu.at[k], tolerance, why, why_bytes);
    free_memory(&gpu);
    free_memory(&cpu);
    return same;
}

void expect_as_cpu(const ptx_module *module, const char *kernel, unsigned groups, double tolerance,
                   const arg *args, size_t count) {
    ptx_report report;
    char why[256] = "";
    const bool same =
        compare_with_cpu(module, kernel, groups, tolerance, args, count, &report, why, sizeof why);
    cr_assert_eq(report.count, 0, "%s", report.findings[0].text);
    cr_assert(same, "%s", why);
}
