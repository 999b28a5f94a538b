/* SPDX-License-Identifier: Apache-2.0
 *
 * What oneDNN's library may be called. Its authors count majors, libdnnl.so.3; Debian 13 counts
 * minors too, libdnnl.so.3.6, and a program may run on another release than it was built on.
 */
#include <stdio.h>

#include "cpu.h"

enum { MINORS = 24 };

int onednn_name(int index, const char *soname, int major, char *out, size_t bytes) {
    if (index == 0) {
        if (soname) {
            (void)snprintf(out, bytes, "%s", soname);
        } else {
            (void)snprintf(out, bytes, "libdnnl.so.%d", major);
        }
    } else if (index == 1) {
        (void)snprintf(out, bytes, "libdnnl.so.%d", major);
    } else if (index < 2 + MINORS) {
        (void)snprintf(out, bytes, "libdnnl.so.%d.%d", major, MINORS + 1 - index);
    }
    return index < 2 + MINORS;
}
