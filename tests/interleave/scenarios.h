/* SPDX-License-Identifier: Apache-2.0
 *
 * What is explored, each over real code of core.
 */
#ifndef TESTS_INTERLEAVE_SCENARIOS_H_
#define TESTS_INTERLEAVE_SCENARIOS_H_

#include "interleave.h"

extern const scenario interleave_hazards[], interleave_events[], interleave_limits[],
    interleave_lanes[]; /* each ends with a name of NULL */

#endif /* TESTS_INTERLEAVE_SCENARIOS_H_ */
