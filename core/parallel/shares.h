/* SPDX-License-Identifier: Apache-2.0
 *
 * How a batch is divided among devices: by shares that follow the measured speed. They change only
 * when that gains something, since each new number of rows means a new plan of the model.
 */
#ifndef DHOWI_PARALLEL_SHARES_H_
#define DHOWI_PARALLEL_SHARES_H_

#include <stdbool.h>
#include <stdint.h>

enum { DHOWI_MAX_MEMBERS = 64, DHOWI_RECENT_RATES = 4 };

typedef struct dhowi_shares {
    uint32_t count;
    bool live[DHOWI_MAX_MEMBERS]; /* takes part */
    double share[DHOWI_MAX_MEMBERS];
    double rate[DHOWI_MAX_MEMBERS]; /* rows per second, 0: not measured */
    double recent[DHOWI_MAX_MEMBERS]
                 [DHOWI_RECENT_RATES]; /* the last ones, of which it is the best */
    uint32_t measured[DHOWI_MAX_MEMBERS];
    bool first[DHOWI_MAX_MEMBERS];        /* the rate is of a first run, which also made plans */
    int64_t last_rows[DHOWI_MAX_MEMBERS]; /* of the latest run */
} dhowi_shares;

/* Rows of each live member, `rows` in all. */
void dhowi_shares_split(const dhowi_shares *shares, int64_t rows, int64_t out[DHOWI_MAX_MEMBERS]);
/* A member has done rows. */
void dhowi_shares_note(dhowi_shares *shares, uint32_t member, int64_t rows, double seconds);
/* Follows the rates, once all live members are measured. */
void dhowi_shares_adapt(dhowi_shares *shares);

#endif /* DHOWI_PARALLEL_SHARES_H_ */
