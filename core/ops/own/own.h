/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations that are launches of one own kernel: their attributes are already what it wants.
 */
#ifndef DHOWI_OPS_OWN_H_
#define DHOWI_OPS_OWN_H_

#include "base/memory/size.h"
#include "ops/run/rows.h"

/* A launch of inputs, then outputs, then values. */
typedef struct dhowi_own_launch {
    dhow_arg args[DHOW_MAX_KERNEL_ARGS];
    dhowi_use uses[8];
    uint32_t arg_count, use_count;
    int64_t span;
} dhowi_own_launch;

void dhowi_add_tensor(dhowi_own_launch *l, dhow_tensor *t, uint32_t access);
void dhowi_add_values(dhowi_own_launch *l, uint32_t count, const int64_t *values);
#define DHOWI_ADD_VALUES(l, ...)                                                        \
    dhowi_add_values(l, (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
                     (const int64_t[]){__VA_ARGS__})
/* `work`: see dhowi_launch(). The second one's kernel is the operation's, of its input's dtype. */
dhow_status dhowi_run_launch(const dhowi_call *call, const dhowi_own_launch *l, dhow_kernel *kernel,
                             int64_t work);
dhow_status dhowi_run_own(const dhowi_call *call, const dhowi_own_launch *l, int64_t work);
/* Adds the last argument of kernels along rows, the lanes of a row that fits, or 0. */
dhow_status dhowi_run_rows(const dhowi_call *call, dhowi_own_launch *l, int64_t rows, int64_t cols);
/* elements x each */
int64_t dhowi_work_of(int64_t elements, int64_t each);
/* Elements are moved by their width, whatever they mean. */
dhow_status dhowi_width_kernel(const dhowi_call *call, const char *base, dhow_kernel **out);

#endif /* DHOWI_OPS_OWN_H_ */
