/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of contexts share; everybody else includes device.h.
 */
#ifndef DHOWI_DEVICE_CONTEXT_H_
#define DHOWI_DEVICE_CONTEXT_H_

#include "device/device.h"

/* Settings of the options, else of the environment: INVALID_ARGUMENT names the variable. */
dhow_status dhowi_read_log_level(dhowi_log *log);
dhow_status dhowi_read_threads(int32_t option, const dhowi_log *log, uint32_t *out);
dhow_status dhowi_read_isolate(int32_t option, bool *out);
dhow_status dhowi_read_validate(bool *out);
dhow_status dhowi_read_collectives(bool *out);
dhow_status dhowi_read_splits(bool *out);

/* Adds the devices of plugins that serve and are not listed yet; all of them, or none. */
dhow_status dhowi_context_list(dhow_context *context);
/* A program that gives up its context while it holds objects has most likely forgotten them. */
void dhowi_report_living(const dhow_context *context);

#endif /* DHOWI_DEVICE_CONTEXT_H_ */
