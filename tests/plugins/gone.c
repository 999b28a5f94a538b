/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that one bad plugin is linked to and that nobody finds at run time.
 */
#include "dhow/plugin.h"

int32_t dhow_test_gone(const dhow_host *host, dhow_probe *out, dhow_error *err);
int32_t dhow_test_gone(const dhow_host *host, dhow_probe *out, dhow_error *err) {
    (void)host, (void)out, (void)err;
    return DHOW_OK;
}
