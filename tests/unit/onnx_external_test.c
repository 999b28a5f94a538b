/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the external data of a model may lie.
 */
#include "files_fixture.h"
#include "formats/onnx.h"

TestSuite(onnx_external, .init = set_up, .fini = tear_down, .timeout = 60);

static dhow_status open_external(const char *location) {
    int fd;
    uint64_t size;
    dhowi_slice slice = {location, strlen(location)};
    dhow_status status = dhowi_onnx_open_external(g_folder, slice, &fd, &size);
    if (status == DHOW_OK) {
        cr_assert_eq(size, 4);
        (void)close(fd);
    }
    return status;
}

static void make_file(const char *name) {
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", g_folder, name);
    FILE *f = fopen(path, "w");
    cr_assert_not_null(f);
    (void)fputs("data", f);
    (void)fclose(f);
}

Test(onnx_external, external_data_lies_beneath_the_model_s_folder) {
    char path[256], other[256];
    make_file("w.bin");
    (void)snprintf(path, sizeof path, "%s/sub", g_folder);
    cr_assert_eq(mkdir(path, 0700), 0);
    make_file("sub/w.bin");
    cr_assert_eq(open_external("w.bin"), DHOW_OK, "%s", dhow_last_error());
    cr_assert_eq(open_external("sub/w.bin"), DHOW_OK, "%s", dhow_last_error());
    cr_assert_eq(open_external("none.bin"), DHOW_NOT_FOUND);
    static const char *const outside[] = {"../etc/passwd", "/etc/passwd", "sub/../../etc/passwd",
                                          "", "sub"};
    for (int i = 0; i < 5; i++)
        cr_assert_neq(open_external(outside[i]), DHOW_OK, "'%s' opens", outside[i]);
    (void)snprintf(path, sizeof path, "%s/link", g_folder);
    cr_assert_eq(symlink("w.bin", path), 0);
    cr_assert_neq(open_external("link"), DHOW_OK, "a link opens");
    (void)snprintf(path, sizeof path, "%s/folder", g_folder);
    cr_assert_eq(symlink("sub", path), 0);
    cr_assert_neq(open_external("folder/w.bin"), DHOW_OK, "a linked folder opens");
    (void)snprintf(path, sizeof path, "%s/w.bin", g_folder);
    (void)snprintf(other, sizeof other, "%s/hard", g_folder);
    cr_assert_eq(link(path, other), 0);
    cr_assert_neq(open_external("hard"), DHOW_OK, "a hard link opens");
    cr_assert_not_null(strstr(dhow_last_error(), "hard links"));
    (void)snprintf(path, sizeof path, "%s/pipe", g_folder);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_assert_neq(open_external("pipe"), DHOW_OK, "a pipe opens");
}
