/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow-conform --expect: a file of cases that are known to fail, each with its reason.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform.h"

static bool is_a_case(const char *name) {
    if (strcmp(name, "load") == 0) return true;
    for (uint32_t g = 0; g < conform_group_count; g++) {
        for (uint32_t i = 0; i < *conform_groups[g].count; i++) {
            if (strcmp(conform_groups[g].cases[i].name, name) == 0) return true;
        }
    }
    return false;
}

static bool complain(const char *file, unsigned line, const char *what, const char *name) {
    (void)fprintf(stderr, "dhow-conform: %s:%u: %s '%s'\n", file, line, what, name);
    return false;
}

/* "copy/planes  # the vendor's driver drops the last plane" */
static bool take_line(conform_options *o, const char *file, unsigned number, char *line) {
    char *name = line + strspn(line, " \t");
    name[strcspn(name, "\r\n")] = '\0';
    if (name[0] == '\0' || name[0] == '#') return true;
    char *end = name + strcspn(name, " \t#"), *comment = end + strspn(end, " \t");
    const bool explained = comment[0] == '#' && comment[1 + strspn(comment + 1, " \t")] != '\0';
    if (explained) comment += 1 + strspn(comment + 1, " \t");
    *end = '\0';
    if (!is_a_case(name)) return complain(file, number, "no case is called", name);
    if (!explained) return complain(file, number, "write '# why' behind", name);
    if (conform_expect_find(o, name) != NULL)
        return complain(file, number, "this case is listed twice:", name);
    conform_expected *grown = realloc(o->expected, (o->expected_count + 1) * sizeof *o->expected);
    if (grown == NULL) return complain(file, number, "no memory for", name);
    o->expected = grown;
    conform_expected *e = &grown[o->expected_count++];
    memset(e, 0, sizeof *e);
    (void)snprintf(e->name, sizeof e->name, "%s", name);
    (void)snprintf(e->comment, sizeof e->comment, "%s", comment);
    return true;
}

bool conform_expect_read(conform_options *o, const char *file) {
    char line[1024];
    bool good = true;
    FILE *in = fopen(file, "re");
    if (in == NULL) {
        (void)fprintf(stderr, "dhow-conform: %s: %s\n", file, strerror(errno));
        return false;
    }
    for (unsigned number = 1; good && fgets(line, sizeof line, in) != NULL; number++)
        good = take_line(o, file, number, line);
    if (ferror(in) != 0) good = complain(file, 0, "it cannot be read:", strerror(errno));
    (void)fclose(in);
    return good;
}

conform_expected *conform_expect_find(conform_options *o, const char *name) {
    for (uint32_t i = 0; i < o->expected_count; i++) {
        if (strcmp(o->expected[i].name, name) == 0) return &o->expected[i];
    }
    return NULL;
}
