/* SPDX-License-Identifier: Apache-2.0
 *
 * devinfo's two parts.
 */
#ifndef DHOW_TOOLS_DEVINFO_H_
#define DHOW_TOOLS_DEVINFO_H_

#include "dhow/dhow.h"

/* Allocates, copies, launches and verifies on every device; prints a line each and returns the
 * number of failures. */
int devinfo_check(dhow_context *context);

#endif /* DHOW_TOOLS_DEVINFO_H_ */
