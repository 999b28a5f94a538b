/* SPDX-License-Identifier: Apache-2.0
 *
 * See near.h. Levenshtein's distance, where two letters that changed places count once.
 */
#include "base/text/near.h"

#include <string.h>

#include "base/memory/size.h"

enum { LONGEST = 64 };

static size_t distance(const char *a, const char *b, size_t n, size_t m) {
    size_t rows[3][LONGEST + 1];
    for (size_t k = 0; k <= m; k++) rows[0][k] = k;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t k = 1; k <= m; k++) {
            now[k] = last[k - 1] + (a[i - 1] != b[k - 1]);
            now[k] = DHOWI_MIN(now[k], DHOWI_MIN(last[k], now[k - 1]) + 1);
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                now[k] = DHOWI_MIN(now[k], before[k - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

void dhowi_near_try(dhowi_near *near, const char *candidate) {
    const size_t n = strlen(near->wanted), m = strlen(candidate);
    if (n == 0 || n > LONGEST || m > LONGEST) return;
    const size_t d = distance(near->wanted, candidate, n, m);
    if (d > DHOWI_MAX(n / 4, (size_t)1) || (near->found != NULL && d >= near->distance)) return;
    near->found = candidate;
    near->distance = d;
}
