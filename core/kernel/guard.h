/* SPDX-License-Identifier: Apache-2.0
 *
 * Guards of the checking mode: a program's kernel gets a copy of each tensor that it may write,
 * with a pattern before and behind it, so that a write outside of the tensor is told and does no
 * harm. Where there is no memory for a copy, the bytes behind the tensor hold the pattern.
 */
#ifndef DHOWI_KERNEL_GUARD_H_
#define DHOWI_KERNEL_GUARD_H_

#include "tensor/tensor.h"

/* A storage that the kernel may write, and its copy: NULL where the storage itself is used. */
typedef struct dhowi_guard {
    dhowi_storage *storage, *copy;
    uint32_t argument; /* the first that writes it */
} dhowi_guard;

/* The arguments of a launch; tensors[i] is NULL for one that is no tensor. */
typedef struct dhowi_guarded {
    dhow_stream *stream;
    const char *kernel;
    dhow_tensor *const *tensors;
    const dhow_arg *given;
    uint32_t count;
    dhow_arg args[DHOW_MAX_KERNEL_ARGS]; /* what the kernel gets instead */
    dhowi_guard guards[DHOW_MAX_KERNEL_ARGS];
    uint32_t guard_count;
} dhowi_guarded;

/* Before the launch: fills in what comes after `count`. */
dhow_status dhowi_guards_set(dhowi_guarded *g);
/* After it, also where it failed: waits, looks, and brings the results home. */
dhow_status dhowi_guards_check(dhowi_guarded *g, dhow_status launched);

#endif /* DHOWI_KERNEL_GUARD_H_ */
