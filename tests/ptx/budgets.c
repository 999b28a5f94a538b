/* SPDX-License-Identifier: Apache-2.0
 *
 * See budgets.h.
 */
#include "budgets.h"

#include <criterion/criterion.h>
#include <string.h>

const double budget_limit = 7;
static const double k_growth = 1.05;

/* Instructions for a byte, bytes of a load and of a store, sectors of a request of global memory,
 * passes over the banks for one of shared memory (0: it has none). */
enum { FIGURES = 5 };

/* The bytes that somebody has to move: all of the inputs and outputs, once. */
static size_t bytes_of(const arg *args, size_t count) {
    static const size_t bytes[] = {4, 2, 2, 8, 1, 2, 4, 8, 4, 8};
    size_t sum = 0;
    for (size_t k = 0; k < count; k++)
        if (args[k].role != VALUE) sum += args[k].count * bytes[args[k].type];
    return sum;
}

static void complain(budgets *b, const char *line, const char *what) {
    (void)fprintf(stderr, "%.*s: %s\n", (int)strcspn(line, "\n"), line, what);
    b->wrong++;
}

/* A line is "kernel case" and the figures; the same kernel and case has it in both files.
 */
static void check_line(budgets *b, const char *line, const double figures[FIGURES]) {
    char key[128], what[128];
    double known[FIGURES];
    const int length = (int)(strchr(strchr(line, ' ') + 1, ' ') - line);
    (void)snprintf(key, sizeof key, "\n%.*s ", length, line);
    const char *at = strstr(b->known, key);
    if (at == NULL || sscanf(at + strlen(key), "%lf %lf %lf %lf %lf", &known[0], &known[1],
                             &known[2], &known[3], &known[4]) != FIGURES) {
        complain(b, line, "it is not in tests/kernels/budgets.txt");
        return;
    }
    if (!b->same_compiler) return;
    (void)snprintf(what, sizeof what, "instructions for a byte were %.2f", known[0]);
    if (figures[0] > known[0] * k_growth) complain(b, line, what);
    (void)snprintf(what, sizeof what, "loads had %.1f bytes, stores %.1f", known[1], known[2]);
    if (figures[1] * k_growth < known[1] || figures[2] * k_growth < known[2])
        complain(b, line, what);
    (void)snprintf(what, sizeof what, "a request had %.1f sectors, and %.2f passes over banks",
                   known[3], known[4]);
    if (figures[3] > known[3] * k_growth || figures[4] > known[4] * k_growth)
        complain(b, line, what);
}

void measure(budgets *b, demand d, const ptx_module *m, const char *kernel, const char *name,
             double tolerance, const arg *args, size_t count) {
    ptx_report r;
    char why[256] = "", line[128];
    const bool same = compare_with_cpu(m, kernel, 2, tolerance, args, count, &r, why, sizeof why);
    cr_assert_eq(r.count, 0, "%s", r.findings[0].text);
    cr_assert(same, "%s", why);
    const double f[FIGURES] = {
        r.machine_instructions / (double)bytes_of(args, count),
        (double)r.bytes[0] / (double)r.accesses[0], (double)r.bytes[1] / (double)r.accesses[1],
        (double)r.sectors / (double)r.requests,
        r.shared_requests == 0 ? 0 : (double)r.shared_passes / (double)r.shared_requests};
    (void)snprintf(line, sizeof line, "%s %s %.2f %.1f %.1f %.1f %.2f%s\n", kernel, name, f[0],
                   f[1], f[2], f[3], f[4], d == MUST ? " *" : "");
    cr_assert(fputs(line, b->file) >= 0);
    check_line(b, line, f);
    if (d == MUST && f[0] > budget_limit)
        complain(b, line, "more than 7 instructions for a byte: slower than the memory");
}

const char *named(char name[64], const char *operation, const char *type) {
    (void)snprintf(name, 64, "%s_%s", operation, type);
    return name;
}
