/* SPDX-License-Identifier: Apache-2.0
 *
 * The trace of a context: the functions of dhow/trace.h, and the file of DHOW_TRACE, which is
 * written when the context ends, when the program releases it though it has forgotten some objects,
 * and when the process exits without either.
 */
#ifndef DHOWI_DEVICE_TRACE_H_
#define DHOWI_DEVICE_TRACE_H_

#include "device/device.h"

/* Starts a trace if DHOW_TRACE names a file, which must be one that can be written. */
dhow_status dhowi_trace_init(dhow_context *context);
/* The program has given up the context, but not all that belongs to it: writes the file now, and
 * once more should the context ever end. */
void dhowi_trace_at_release(dhow_context *context);
/* Writes that file, when all devices are done, and ends the trace. */
void dhowi_trace_fini(dhow_context *context);
/* A driver was started: at the exit of the process the file is written before the driver ends. */
void dhowi_trace_driver_started(const dhow_context *context);

#endif /* DHOWI_DEVICE_TRACE_H_ */
