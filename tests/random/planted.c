/* SPDX-License-Identifier: Apache-2.0
 *
 * The mistake that PLANTED names is made in core: the random programs must then go wrong.
 */
#include "base/errors/planted.h"

#include <stdlib.h>
#include <string.h>

static const char *g_planted;

__attribute__((constructor)) static void choose(void) { g_planted = getenv("PLANTED"); }

bool dhowi_planted(const char *mistake) {
    return g_planted != NULL && strcmp(mistake, g_planted) == 0;
}
