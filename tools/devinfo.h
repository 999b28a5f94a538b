/* SPDX-License-Identifier: Apache-2.0
 *
 * devinfo's parts.
 */
#ifndef DHOW_TOOLS_DEVINFO_H_
#define DHOW_TOOLS_DEVINFO_H_

#include <jansson.h>

#include "dhow/dhow.h"

/* Allocates, copies, launches and verifies on every device; prints a line each and returns the
 * number of failures. */
int devinfo_check(dhow_context *context);

/* Measures copies between all devices and the host, and prints them or, with out_json, makes a list
 * of them. Returns the number of failures. */
int devinfo_links(dhow_context *context, json_t **out_json);

#endif /* DHOW_TOOLS_DEVINFO_H_ */
