/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that are written whole or not at all, also where the power fails: the calls are counted by
 * functions of the system's names in the place of its own.
 */
#include "base/files/file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char g_order[16]; /* f: a file was synced, d: a folder, r: renamed */
static int g_reason;     /* fsync() of a file fails with it */

static void note(char what) { g_order[strlen(g_order)] = what; }

int fsync(int fd) {
    struct stat info;
    cr_assert_eq(fstat(fd, &info), 0);
    note(S_ISDIR(info.st_mode) ? 'd' : 'f');
    if (!S_ISREG(info.st_mode) || g_reason == 0) return 0;
    errno = g_reason;
    return -1;
}

int rename(const char *from, const char *to) {
    note('r');
    return link(from, to) == 0 ? unlink(from) : -1;
}

Test(file, bytes_reach_the_disk_before_the_name_and_the_name_after) {
    char folder[] = "/tmp/dhow-file-XXXXXX", path[64];
    cr_assert_not_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/x", folder);
    const dhowi_file_part part = {"text", 4};
    cr_assert_eq(dhowi_file_write(path, &part, 1), DHOW_OK, "%s", dhow_last_error());
    cr_assert_str_eq(g_order, "frd");
    cr_assert_eq(unlink(path), 0);
    memset(g_order, 0, sizeof g_order);
    g_reason = EIO;
    cr_assert_eq(dhowi_file_write(path, &part, 1), DHOW_IO_ERROR);
    cr_assert_str_eq(g_order, "f", "no name without the bytes");
    cr_assert_eq(rmdir(folder), 0, "nothing is left");
}
