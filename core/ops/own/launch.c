/* SPDX-License-Identifier: Apache-2.0
 *
 * See own.h.
 */
#include <stdio.h>

#include "ops/own/own.h"

void dhowi_add_tensor(dhowi_own_launch *l, dhow_tensor *t, uint32_t access) {
    l->args[l->arg_count++] = dhowi_arg_buffer(t, access);
    l->uses[l->use_count++] = dhowi_use_of(t, access);
    l->span = DHOWI_MAX(l->span, dhowi_span_of(t));
}

void dhowi_add_values(dhowi_own_launch *l, uint32_t count, const int64_t *values) {
    for (uint32_t i = 0; i < count; i++) l->args[l->arg_count++] = dhowi_arg_i64(values[i]);
}

dhow_status dhowi_run_launch(const dhowi_call *call, const dhowi_own_launch *l, dhow_kernel *kernel,
                             int64_t work) {
    return dhowi_launch(call->stream, kernel, work, l->span, l->args, l->arg_count, l->uses,
                        l->use_count);
}

dhow_status dhowi_run_own(const dhowi_call *call, const dhowi_own_launch *l, int64_t work) {
    dhow_kernel *kernel;
    DHOWI_TRY(dhowi_op_kernel(call->op, call->in[0]->dtype, call->stream->device, &kernel));
    return dhowi_run_launch(call, l, kernel, work);
}

int64_t dhowi_work_of(int64_t elements, int64_t each) {
    int64_t work;
    return dhowi_mul_i64(elements, each, &work) ? work : INT64_MAX;
}

dhow_status dhowi_width_kernel(const dhowi_call *call, const char *base, dhow_kernel **out) {
    char name[48];
    (void)snprintf(name, sizeof name, "%s_u%u", base, dhowi_tensor_element_bytes(call->out) * 8);
    return dhowi_builtin_kernel_named(call->stream->device, name, out);
}
