/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints docs/operators.md: the operator table in words. `-` gives none of a column. With
 * --attributes: of each row the operator, its first and last opset and the attributes, a line each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/size.h"
#include "model/operators/operators.h"

static int by_name(const void *a, const void *b) {
    const dhowi_operator *const *p = a, *const *q = b;
    return strcmp((*p)->name, (*q)->name);
}

static void print_attributes(const dhowi_operator *const *rows, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        printf("%s %d %d %s\n", rows[i]->name, rows[i]->since, rows[i]->until,
               dhowi_operator_attributes(rows[i]));
}

int main(int argc, char **argv) {
    static const char *const halves[] = {[DHOWI_HALF_NOT] = "-",
                                         [DHOWI_HALF_FOLLOWS] = "follows",
                                         [DHOWI_HALF_COMPUTES] = "computes"};
    const dhowi_operator *rows[1024];
    const uint32_t count = dhowi_operator_count();
    if (count > DHOWI_COUNT(rows)) return 1;
    for (uint32_t i = 0; i < count; i++) rows[i] = dhowi_operator_at(i);
    qsort(rows, count, sizeof *rows, by_name);
    if (argc > 1 && strcmp(argv[1], "--attributes") == 0) {
        print_attributes(rows, count);
        return 0;
    }
    printf(
        "# Operators\n\n"
        "The %u operators of ONNX that models may hold, from `core/model/operators/table.c`; the "
        "test `operators_documented` compares\n"
        "this page with it, and `list_operators` prints it anew.\n\n"
        "What an operator of f32 does in a model that computes in 16-bit floats stands under "
        "*16 bits*: it computes in them,\n"
        "it follows what it is given, or, with `-`, it computes in f32; see "
        "[models.md](models.md#in-16-bits).\n\n"
        "| operator | opsets | derivative | 16 bits | what it gives |\n|---|---|---|---|---|\n",
        count);
    for (uint32_t i = 0; i < count; i++)
        printf("| %s | %d to %d | %s | %s | %s |\n", rows[i]->name, rows[i]->since, rows[i]->until,
               rows[i]->back != NULL ? "yes" : "-", halves[rows[i]->half], rows[i]->meaning);
    return 0;
}
