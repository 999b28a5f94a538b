/* SPDX-License-Identifier: Apache-2.0
 *
 * Mistakes made on purpose, by which tests show that they would find them: only files compiled for
 * such a test with DHOWI_PLANTS have them, and the test says which one is in force.
 */
#ifndef DHOWI_BASE_PLANTED_H_
#define DHOWI_BASE_PLANTED_H_

#include <stdbool.h>

#ifdef DHOWI_PLANTS
bool dhowi_planted(const char *mistake); /* of the test */
#else
#define dhowi_planted(mistake) false
#endif

/* A condition without which an optimisation is wrong. Planted, it always holds. */
#define DHOWI_GUARD(mistake, ...) ((__VA_ARGS__) || dhowi_planted(#mistake))

#endif /* DHOWI_BASE_PLANTED_H_ */
