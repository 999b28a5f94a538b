/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks at a shared library before the dynamic loader does: a truncated one would kill the process
 * inside dlopen().
 */
#ifndef DHOWI_PLUGIN_ELF_CHECK_H_
#define DHOWI_PLUGIN_ELF_CHECK_H_

#include <stddef.h>

#include "dhow/types.h"

/* DHOW_PLUGIN_READY when the file is a shared library for this machine and as long as its headers
 * say; otherwise NOT_ELF, WRONG_ARCH, TRUNCATED or NO_PERMISSION with a reason of one line. */
dhow_plugin_state dhowi_elf_check(const char *path, char *reason, size_t capacity);

#endif /* DHOWI_PLUGIN_ELF_CHECK_H_ */
