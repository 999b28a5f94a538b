/* SPDX-License-Identifier: Apache-2.0
 *
 * See shares.h.
 */
#include "parallel/shares.h"

#include "base/memory/size.h"

static const double k_worth_changing = 1.05; /* the gain, as a ratio of times */

static double sum_of(const dhowi_shares *s, const double *values) {
    double sum = 0;
    for (uint32_t i = 0; i < s->count; i++) sum += s->live[i] ? values[i] : 0;
    return sum;
}

/* Rows that are due to a member, in fractions; when all live shares are 0, they count alike. */
static double due(const dhowi_shares *s, uint32_t i, double all, int64_t rows) {
    if (all > 0) return (double)rows * s->share[i] / all;
    uint32_t live = 0;
    for (uint32_t k = 0; k < s->count; k++) live += s->live[k];
    return (double)rows / live;
}

/* The rows that rounding down left over go to those who are furthest below what is due. */
void dhowi_shares_split(const dhowi_shares *s, int64_t rows, int64_t out[DHOWI_MAX_MEMBERS]) {
    double all = sum_of(s, s->share);
    int64_t left = rows;
    for (uint32_t i = 0; i < s->count; i++) {
        out[i] = s->live[i] ? (int64_t)due(s, i, all, rows) : 0;
        left -= out[i];
    }
    while (left > 0) {
        uint32_t most = 0;
        double behind = -1;
        for (uint32_t i = 0; i < s->count; i++) {
            double lack = due(s, i, all, rows) - (double)out[i];
            if (s->live[i] && lack > behind) {
                behind = lack;
                most = i;
            }
        }
        out[most]++;
        left--;
    }
}

/* What disturbs a run makes it longer: that moves nothing unless it stays. */
static double best_of(const double *recent, uint32_t count) {
    double best = 0;
    for (uint32_t i = 0; i < DHOWI_MIN(count, DHOWI_RECENT_RATES); i++)
        best = DHOWI_MAX(best, recent[i]);
    return best;
}

/* The first run with a number of rows makes plans, and counts only until there is another. */
void dhowi_shares_note(dhowi_shares *s, uint32_t i, int64_t rows, double seconds) {
    const bool first = rows != s->last_rows[i];
    s->last_rows[i] = rows;
    if (rows == 0 || seconds <= 0) return;
    const double rate = (double)rows / seconds;
    if (first && s->rate[i] == 0) {
        s->rate[i] = rate;
        s->first[i] = true;
    } else if (!first) {
        s->first[i] = false;
        s->recent[i][s->measured[i]++ % DHOWI_RECENT_RATES] = rate;
        s->rate[i] = best_of(s->recent[i], s->measured[i]);
    }
}

void dhowi_shares_adapt(dhowi_shares *s) {
    double slowest = 0, shares = sum_of(s, s->share), rates = sum_of(s, s->rate);
    for (uint32_t i = 0; i < s->count; i++) {
        if (!s->live[i]) continue;
        if (s->rate[i] == 0 || s->first[i]) return;
        slowest = DHOWI_MAX(slowest, s->share[i] / shares / s->rate[i]);
    }
    if (slowest * rates < k_worth_changing) return;
    for (uint32_t i = 0; i < s->count; i++) s->share[i] = s->live[i] ? s->rate[i] / rates : 0;
}
