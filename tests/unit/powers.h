/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests of what a process may not read or write, run by root: the thread gives up the powers that
 * pass over access rights. It stays root, for a checkout below a folder of mode 700, as /root is,
 * is out of reach for any other user.
 */
#ifndef TESTS_UNIT_POWERS_H_
#define TESTS_UNIT_POWERS_H_

#include <criterion/criterion.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline void powers_set(int over_access_rights) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    const unsigned powers = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;
    cr_assert_eq(syscall(SYS_capget, &header, data), 0);
    data[0].effective &= ~powers;
    if (over_access_rights) data[0].effective |= powers & data[0].permitted;
    cr_assert_eq(syscall(SYS_capset, &header, data), 0);
}

/* Nor does a program that root starts get them anew. */
static inline void powers_drop(void) {
    if (geteuid() == 0) cr_assert_eq(prctl(PR_SET_SECUREBITS, SECBIT_NOROOT, 0, 0, 0), 0);
    powers_set(0);
}
static inline void powers_take_back(void) { powers_set(1); }

#endif
