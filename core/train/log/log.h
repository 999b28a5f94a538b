/* SPDX-License-Identifier: Apache-2.0
 *
 * What is told of a training while it runs: rows of a file, a line on a terminal, a curve. Knows no
 * trainer: it is given rows.
 */
#ifndef DHOWI_TRAIN_LOG_H_
#define DHOWI_TRAIN_LOG_H_

#include <stdbool.h>

#include "base/errors/error.h"
#include "base/errors/log.h"
#include "dhow/train.h"

typedef struct dhowi_training_row {
    uint64_t step;   /* from 1 on */
    int64_t epoch;   /* negative: not known */
    int64_t samples; /* of the steps since the row before */
    double loss, learning_rate;
    double gradient_norm; /* NaN: not asked for */
    uint64_t memory_bytes;
} dhowi_training_row;

/* Means of losses over equally many steps, which become more as the training goes on. */
enum { DHOWI_CURVE_POINTS = 1024 };
typedef struct dhowi_curve {
    uint64_t rows_a_point;                                     /* 0: before the first */
    uint64_t rows;                                             /* of the last point */
    uint32_t count;                                            /* of points */
    double step[DHOWI_CURVE_POINTS], loss[DHOWI_CURVE_POINTS]; /* means */
} dhowi_curve;

typedef struct dhowi_training_log dhowi_training_log;

/* INVALID_ARGUMENT, NOT_FOUND, IO_ERROR, CORRUPT: the file holds something else. */
dhow_status dhowi_training_log_open(const dhow_trainer_log *options, const char *function,
                                    dhowi_log *messages, dhowi_training_log **out);
/* Whether the step that has just been made has a row, and whether that has a gradient norm. */
bool dhowi_training_log_wants(dhowi_training_log *log, int64_t samples, bool *norm);
/* A file that cannot be written is warned of once, and told when the log is closed. */
void dhowi_training_log_row(dhowi_training_log *log, const dhowi_training_row *row);
const dhowi_curve *dhowi_training_log_curve(const dhowi_training_log *log);
/* IO_ERROR: rows were lost. NULL is allowed. */
dhow_status dhowi_training_log_close(dhowi_training_log *log);

/* curve.c: NaN and infinite losses are left out. */
void dhowi_curve_add(dhowi_curve *curve, double step, double loss);
dhow_status dhowi_curve_save(const dhowi_curve *curve, const char *path);

#endif /* DHOWI_TRAIN_LOG_H_ */
