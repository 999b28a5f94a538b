/* SPDX-License-Identifier: Apache-2.0
 *
 * fork(): a child has only the thread that called it. The process's own locks are free in the
 * child, whoever held them in the parent; objects belong to the process that made them.
 */
#ifndef DHOWI_BASE_FORK_H_
#define DHOWI_BASE_FORK_H_

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/errors/error.h"

/* Locks of the process, in the order in which one may be taken while another is held. */
typedef enum dhowi_fork_lock {
    DHOWI_FORK_PLUGINS,
    DHOWI_FORK_TRACES,
    DHOWI_FORK_PINS,
    DHOWI_FORK_PACKED_FORMS,
    DHOWI_FORK_TIMELINES,
    DHOWI_FORK_HANDLES, /* one of each kind */
    DHOWI_FORK_PLACES = DHOWI_FORK_HANDLES + 32,
    DHOWI_FORK_LOCKS
} dhowi_fork_lock;

/* To be called before the lock is first used, by a constructor. */
void dhowi_fork_guard(dhowi_fork_lock which, pthread_mutex_t *mutex, bool recursive);
void dhowi_mutex_init_recursive(pthread_mutex_t *mutex);

/* Called with each context that is made. */
dhow_status dhowi_fork_watch(void);
/* The child sees another generation than its parent's objects have. */
uint32_t dhowi_fork_generation(void);

#endif /* DHOWI_BASE_FORK_H_ */
