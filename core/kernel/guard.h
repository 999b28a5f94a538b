/* SPDX-License-Identifier: Apache-2.0
 *
 * Guards of the checking mode: the bytes behind each tensor that a program's kernel may write hold
 * a pattern while it runs, so that a write past the end is told and does no harm.
 */
#ifndef DHOWI_KERNEL_GUARD_H_
#define DHOWI_KERNEL_GUARD_H_

#include "tensor/tensor.h"

/* The arguments of a launch; tensors[i] is NULL for one that is no tensor. */
typedef struct dhowi_guarded {
    dhow_stream *stream;
    const char *kernel;
    dhow_tensor *const *tensors;
    const dhow_arg *args;
    uint32_t count;
} dhowi_guarded;

/* Before and after the launch; the second waits for it. */
dhow_status dhowi_guards_set(const dhowi_guarded *g);
dhow_status dhowi_guards_check(const dhowi_guarded *g);

#endif /* DHOWI_KERNEL_GUARD_H_ */
