/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FAKECUDA_LAUNCH_LOG_H_
#define TESTS_FAKECUDA_LAUNCH_LOG_H_

#include <stdio.h>

#include "launch_models.h"

/* What a device is given for one run, by fakecuda_log_to(). A model of another type than its own is
 * to compute in f16. */
dhow_status launch_log(const launch_model *of, dhow_dtype dtype, int64_t batch, FILE *log);

#endif /* TESTS_FAKECUDA_LAUNCH_LOG_H_ */
