/* SPDX-License-Identifier: Apache-2.0
 *
 * A context with one CPU device, a folder for files, and words for the tests of file formats.
 */
#ifndef TESTS_UNIT_FILES_FIXTURE_H_
#define TESTS_UNIT_FILES_FIXTURE_H_

#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dhow/dhow.h"

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())
#define SAYS(wanted)                                                                  \
    cr_assert_not_null(strstr(dhow_last_error(), (wanted)), "'%s' does not say '%s'", \
                       dhow_last_error(), (wanted))

static dhow_context *g_context;
static dhow_device *g_cpu;
static char g_folder[64], g_path[128];

static inline void set_up(void) {
    static const dhow_context_options options = {
        .struct_size = sizeof(dhow_context_options), .backends = "cpu", .cache_dir = "off"};
    (void)snprintf(g_folder, sizeof g_folder, "/tmp/dhow-files-XXXXXX");
    cr_assert_not_null(mkdtemp(g_folder));
    (void)snprintf(g_path, sizeof g_path, "%s/file", g_folder);
    OK(dhow_context_create(&options, &g_context));
    OK(dhow_device_get(g_context, "cpu", &g_cpu));
}

static inline void tear_down(void) {
    char command[256];
    dhow_context_release(g_context);
    (void)snprintf(command, sizeof command, "chmod -R u+rwx '%s' && rm -rf '%s'", g_folder,
                   g_folder);
    cr_assert_eq(system(command), 0);
}

static inline void write_bytes(const void *data, size_t bytes) {
    FILE *f = fopen(g_path, "wb");
    cr_assert_not_null(f);
    cr_assert_eq(fwrite(data, 1, bytes, f), bytes);
    cr_assert_eq(fclose(f), 0);
}

static inline size_t read_bytes(void *data, size_t capacity) {
    FILE *f = fopen(g_path, "rb");
    cr_assert_not_null(f);
    size_t bytes = fread(data, 1, capacity, f);
    (void)fclose(f);
    return bytes;
}

/* How many files the folder has. */
static inline int files_there(void) {
    int count = 0;
    DIR *folder = opendir(g_folder);
    cr_assert_not_null(folder);
    for (struct dirent *e; (e = readdir(folder)) != NULL;) count += e->d_name[0] != '.';
    (void)closedir(folder);
    return count;
}

/* A tensor whose bytes count up, bool as 0 and 1; of any shape. */
static inline dhow_tensor *counting_tensor(dhow_dtype dtype, int32_t rank, const int64_t *shape) {
    dhow_tensor *tensor;
    unsigned char *data;
    OK(dhow_tensor_create(g_cpu, dtype, rank, shape, &tensor));
    OK(dhow_tensor_host_ptr(tensor, (void **)&data));
    size_t bytes = (size_t)dhow_tensor_count(tensor) * dhow_dtype_bytes(dtype);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(dtype == DHOW_BOOL ? i % 2 : i * 7 + 1);
    return tensor;
}

static inline void expect_same(dhow_tensor *a, dhow_tensor *b) {
    dhow_tensor_info x = DHOW_INIT(dhow_tensor_info), y = DHOW_INIT(dhow_tensor_info);
    static unsigned char p[1 << 16], q[1 << 16];
    OK(dhow_tensor_get_info(a, &x));
    OK(dhow_tensor_get_info(b, &y));
    cr_assert_eq(x.dtype, y.dtype, "%s became %s", dhow_dtype_name(x.dtype),
                 dhow_dtype_name(y.dtype));
    cr_assert_eq(x.rank, y.rank);
    for (int32_t i = 0; i < x.rank; i++) cr_assert_eq(x.shape[i], y.shape[i]);
    cr_assert_leq(x.bytes, sizeof p);
    OK(dhow_tensor_read(a, p, x.bytes));
    OK(dhow_tensor_read(b, q, y.bytes));
    cr_assert_arr_eq(p, q, x.bytes);
}

/* Writing to places that refuse, with `save` writing some kilobytes to the path: IO_ERROR, and
 * nothing but what was there is left. */
static inline void expect_orderly_refusals(dhow_status (*save)(const char *path)) {
    char path[256];
    (void)snprintf(path, sizeof path, "%s/no/such/folder", g_folder);
    cr_assert_eq(save(path), DHOW_IO_ERROR);
    SAYS("no/such/folder: cannot write: No such file or directory");
    (void)snprintf(path, sizeof path, "%s/folder", g_folder);
    cr_assert_eq(mkdir(path, 0700), 0);
    cr_assert_eq(save(path), DHOW_IO_ERROR);
    SAYS("/folder: cannot write: ");
    cr_assert_eq(files_there(), 1, "something is left beside the folder");

    /* A full disk: the old file stays. */
    struct rlimit room = {1000, RLIM_INFINITY};
    (void)signal(SIGXFSZ, SIG_IGN);
    write_bytes("old", 3);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &room), 0);
    dhow_status status = save(g_path);
    room.rlim_cur = RLIM_INFINITY;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &room), 0);
    cr_assert_eq(status, DHOW_IO_ERROR);
    SAYS("/file: cannot write: File too large");
    char old[8];
    cr_assert_eq(read_bytes(old, sizeof old), 3);
    cr_assert_eq(files_there(), 2, "a part of the file is left");

    if (geteuid() == 0) { /* root writes everywhere */
        cr_assert_eq(chown(g_folder, 65534, 65534), 0);
        cr_assert_eq(seteuid(65534), 0);
    }
    cr_assert_eq(chmod(g_folder, 0500), 0);
    status = save(g_path);
    cr_assert_eq(chmod(g_folder, 0700), 0);
    if (getuid() == 0) cr_assert_eq(seteuid(0), 0);
    cr_assert_eq(status, DHOW_IO_ERROR);
    SAYS("cannot write: Permission denied");
    char long_path[5000];
    memset(long_path, 'x', sizeof long_path);
    long_path[0] = '/';
    long_path[sizeof long_path - 1] = '\0';
    cr_assert_eq(save(long_path), DHOW_INVALID_ARGUMENT);
    SAYS("too long");
    cr_assert_eq(save(NULL), DHOW_INVALID_ARGUMENT);
}

#endif /* TESTS_UNIT_FILES_FIXTURE_H_ */
