/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules, as the trainer keeps them.
 */
#ifndef DHOWI_TRAIN_SCHEDULE_H_
#define DHOWI_TRAIN_SCHEDULE_H_

#include "base/errors/error.h"
#include "dhow/train.h"

enum { DHOWI_SCHEDULE_FIELDS = 9 }; /* besides the kind */

/* Checks what a program gave, NULL for all zeros, and fills in defaults. */
dhow_status dhowi_schedule_take(const dhow_schedule *given, const char *function,
                                dhow_schedule *own);
/* Of a schedule that was taken. */
double dhowi_schedule_rate(const dhow_schedule *s, double rate, uint64_t step);
/* Names and numbers of a file. */
const char *dhowi_schedule_field(const dhow_schedule *s, int i, int64_t *number);
void dhowi_schedule_set_field(dhow_schedule *s, int i, int64_t number);

#endif /* DHOWI_TRAIN_SCHEDULE_H_ */
