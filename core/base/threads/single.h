/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects that one thread uses at a time: two that meet in one are told so, before either sees
 * what the other has half done.
 */
#ifndef DHOWI_BASE_SINGLE_H_
#define DHOWI_BASE_SINGLE_H_

#include <stdatomic.h>

#include "base/errors/error.h"

typedef struct dhowi_single {
    atomic_bool used;
} dhowi_single;

/* INVALID_ARGUMENT while another call is in the object; otherwise dhowi_single_end() must follow.
 */
static inline dhow_status dhowi_single_begin(dhowi_single *single, const char *function,
                                             const char *name) {
    if (!atomic_exchange_explicit(&single->used, true, memory_order_acquire)) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: the %s is in use by another call; it serves one thread at a time",
                      function, name);
}

static inline void dhowi_single_end(dhowi_single *single) {
    atomic_store_explicit(&single->used, false, memory_order_release);
}

#endif /* DHOWI_BASE_SINGLE_H_ */
