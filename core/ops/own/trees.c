/* SPDX-License-Identifier: Apache-2.0
 *
 * Forests of decision trees.
 */
#include "ops/own/own.h"

/* Inputs are x, nodes, thresholds, leaves, and weights where leaves have one for each target.
 * attrs->split: n trees, the result's `taps` parts, rows and `count` targets; flags: how weights
 * are joined and what nodes ask, as kernels/trees.k has it. */
dhow_status dhowi_run_trees(const dhowi_call *call) {
    enum { STEPS_OF_A_TREE = 32 };
    const dhowi_axis_split *r = &call->attrs->split;
    const int64_t *x = call->in[0]->shape;
    dhowi_own_launch l = {0};
    for (int i = 0; i < 5; i++)
        dhowi_add_tensor(&l, call->in[i] != NULL ? call->in[i] : call->in[2], DHOW_ACCESS_READ);
    dhowi_add_tensor(&l, call->out, DHOW_ACCESS_WRITE);
    DHOWI_ADD_VALUES(&l, x[0], x[1], r->n, r->count, r->taps);
    l.args[l.arg_count++] = dhowi_arg_i32(call->in[4] != NULL);
    l.args[l.arg_count++] = dhowi_arg_i32(r->flag[0]);
    l.args[l.arg_count++] = dhowi_arg_i32(r->flag[1]);
    return dhowi_run_own(call, &l, dhowi_work_of(x[0] * r->n, STEPS_OF_A_TREE));
}
