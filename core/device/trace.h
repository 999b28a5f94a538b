/* SPDX-License-Identifier: Apache-2.0
 *
 * A context's trace: DHOW_TRACE, and the file at its end.
 */
#ifndef DHOWI_DEVICE_TRACE_H_
#define DHOWI_DEVICE_TRACE_H_

#include "device/device.h"

/* Starts a trace if DHOW_TRACE names a file, which must be one that can be written. */
dhow_status dhowi_trace_init(dhow_context *context);
/* Writes that file, when all devices are done, and ends the trace. */
void dhowi_trace_fini(dhow_context *context);
/* Names of all devices, in their order, for dhowi_trace_write(). */
dhow_status dhowi_trace_save(dhow_context *context, const char *path);

#endif /* DHOWI_DEVICE_TRACE_H_ */
