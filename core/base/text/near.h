/* SPDX-License-Identifier: Apache-2.0
 *
 * The name that somebody meant who wrote another one.
 */
#ifndef DHOWI_BASE_NEAR_H_
#define DHOWI_BASE_NEAR_H_

#include <stddef.h>

/* Begins with the wanted name alone; after all candidates `found` is the nearest, or NULL when none
 * is near. */
typedef struct dhowi_near {
    const char *wanted, *found;
    size_t distance;
} dhowi_near;

void dhowi_near_try(dhowi_near *near, const char *candidate);

#endif /* DHOWI_BASE_NEAR_H_ */
