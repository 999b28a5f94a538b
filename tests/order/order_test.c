/* SPDX-License-Identifier: Apache-2.0
 *
 * The programs of order.h under Criterion.
 */
#include "order.h"

#include <criterion/criterion.h>

static void run_all(const order_program *programs, uint32_t count) {
    char message[2000];
    for (uint32_t i = 0; i < count; i++) {
        cr_expect(order_run(&programs[i], 3, message, sizeof message), "%s", message);
    }
}

Test(order, programs_without_waits_give_right_results, .timeout = 200) {
    run_all(order_programs, order_program_count);
}
Test(order, failures_are_told_to_whom_they_belong, .timeout = 100) {
    run_all(order_fault_programs, order_fault_program_count);
}
