/* SPDX-License-Identifier: Apache-2.0
 *
 * The programs of order.h as a plain program, for ThreadSanitizer. Arguments name programs; none
 * means all.
 */
#include "order.h"

static int run_all(const order_program *programs, uint32_t count, int argc, char **argv) {
    char message[2000];
    int failed = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool wanted = argc == 1;
        for (int a = 1; a < argc; a++) wanted |= strcmp(argv[a], programs[i].name) == 0;
        if (!wanted || order_run(&programs[i], 2, message, sizeof message)) continue;
        (void)fprintf(stderr, "%s\n", message);
        failed++;
    }
    return failed;
}

int main(int argc, char **argv) {
    return run_all(order_programs, order_program_count, argc, argv) +
           run_all(order_fault_programs, order_fault_program_count, argc, argv);
}
