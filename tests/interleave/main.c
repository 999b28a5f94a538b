/* SPDX-License-Identifier: Apache-2.0
 *
 * interleave [MISTAKE]: explores all scenarios. With a mistake that core has under its name, in
 * this build alone, some scenario must fail.
 */
#include <stdio.h>
#include <string.h>

#include "base/errors/planted.h"
#include "scenarios.h"

static const char *g_planted = "";

bool dhowi_planted(const char *mistake) { return strcmp(mistake, g_planted) == 0; }

int main(int argc, char **argv) {
    const scenario *const groups[] = {interleave_hazards, interleave_events, interleave_limits,
                                      interleave_lanes};
    long schedules = 0;
    int failed = 0, count = 0;
    if (argc > 1) g_planted = argv[1];
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        for (const scenario *s = groups[g]; s->name != NULL; s++, count++) {
            interleave_result r;
            interleave_explore(s, &r);
            schedules += r.schedules;
            if (argc == 1) printf("%9ld schedules: %s\n", r.schedules, s->name);
            if (!r.failed) continue;
            failed++;
            printf("FAILS after %ld schedules: %s: %s\n", r.schedules, s->name, r.story);
            if (argc > 1) return 0; /* found */
        }
    }
    printf("interleave: %d scenarios, %ld schedules, %d failed%s%s\n", count, schedules, failed,
           argc > 1 ? " with the mistake " : "", g_planted);
    return argc > 1 || failed > 0;
}
