/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose values a storage is computed from.
 *
 * Hazards order work, and a wait is over when what it waits for has ended, however it went. A
 * device that is lost lets go of who waits for it: what another device then computes is computed
 * from bytes that were never made, and its driver finds nothing wrong. So a storage remembers the
 * work of other devices and of the host queue that its values came from, directly or by way of
 * other storages, until that work is known to have succeeded; and whoever reads it asks.
 */
#ifndef DHOWI_MEMORY_ORIGINS_H_
#define DHOWI_MEMORY_ORIGINS_H_

#include "device/timeline.h"

enum { DHOWI_MAX_ORIGINS = 4 };

/* At most one timepoint of a timeline. */
typedef struct dhowi_origins {
    uint32_t count;
    dhowi_timepoint points[DHOWI_MAX_ORIGINS];
} dhowi_origins;

struct dhowi_storage;

/* Adds a timepoint, or those of a storage that is read. Where there is no room for one more, the
 * work is waited for, and its failure returned. */
dhow_status dhowi_origins_add(dhowi_origins *origins, dhowi_timepoint point);
dhow_status dhowi_origins_add_storage(dhowi_origins *origins, struct dhowi_storage *storage);

dhowi_origins dhowi_storage_origins(struct dhowi_storage *storage);
/* Of all that is written from now on. */
void dhowi_storage_set_origins(struct dhowi_storage *storage, const dhowi_origins *origins);

/* The failure of work that the values came from, as far as it is known; what is known to have
 * succeeded is taken out. With `ended`, what came after all that work has ended. */
dhow_status dhowi_origins_check(dhowi_origins *origins, bool ended);
dhow_status dhowi_storage_check_origins(struct dhowi_storage *storage, bool ended);

#endif /* DHOWI_MEMORY_ORIGINS_H_ */
