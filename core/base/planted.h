/* SPDX-License-Identifier: Apache-2.0
 *
 * Mistakes made on purpose, by which tests show that they would find them: only files compiled for
 * such a test with DHOWI_PLANTS have them, and the test says which one is in force.
 */
#ifndef DHOWI_BASE_PLANTED_H_
#define DHOWI_BASE_PLANTED_H_

#include <stdbool.h>

#ifdef DHOWI_PLANTS
bool dhowi_planted(const char *mistake);
#else
#define dhowi_planted(mistake) false
#endif

#endif /* DHOWI_BASE_PLANTED_H_ */
