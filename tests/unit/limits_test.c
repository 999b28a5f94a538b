/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that runs out and caches that cannot be used: the message names the holders, the
 * computation goes on without a cache, and one warning says so.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "loader_fixture.h"
#include "powers.h"

/* ---- memory ---- */

static dhow_context *open_sim(dhow_device **out) {
    dhow_context *context = open_beside(DHOW_TEST_BAD_DIR "/good", NULL);
    OK(dhow_device_get(context, "sim", out));
    return context;
}

Test(memory, accounting_follows_tensors) {
    dhow_device *device;
    dhow_context *context = open_sim(&device);
    dhow_memory_stats s = DHOW_INIT(dhow_memory_stats);
    dhow_tensor *a, *b;
    OK(dhow_memory_get_stats(device, &s));
    cr_assert(s.live == 0 && s.reserved == 0 && s.cached == 0 && s.limit == 0);
    OK(dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(1000), &a));
    OK(dhow_tensor_create(device, DHOW_U8, DHOW_SHAPE(100), &b));
    OK(dhow_memory_get_stats(device, &s));
    cr_assert_eq(s.live, 4100);
    cr_assert_eq(s.live_peak, 4100);
    cr_assert(s.reserved >= 4100 && s.reserved_peak == s.reserved && s.cached == 0);
    cr_assert(s.allocations == 2 && s.driver_calls == 2);
    uint64_t reserved = s.reserved;
    dhow_tensor_release(a);
    OK(dhow_memory_get_stats(device, &s));
    cr_assert(s.live == 100 && s.live_peak == 4100 && s.reserved == reserved && s.cached >= 4000);
    OK(dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(1000), &a));
    OK(dhow_memory_get_stats(device, &s));
    cr_assert(s.allocations == 3 && s.driver_calls == 2 && s.cached == 0);
    dhow_tensor_release(a);
    OK(dhow_memory_reset_peaks(device));
    OK(dhow_memory_trim(device));
    OK(dhow_memory_get_stats(device, &s));
    cr_assert(s.live == 100 && s.live_peak == 100 && s.cached == 0 && s.reserved < 1000);
    dhow_tensor_release(b);
    dhow_context_release(context);
}

Test(memory, a_limit_holds_and_cached_blocks_make_room) {
    dhow_device *device;
    dhow_context *context = open_sim(&device);
    dhow_tensor *a, *b;
    OK(dhow_memory_set_limit(device, 1 << 20));
    OK(dhow_tensor_create(device, DHOW_U8, DHOW_SHAPE(700000), &a));
    cr_assert_eq(dhow_tensor_create(device, DHOW_U8, DHOW_SHAPE(500000), &b), DHOW_OUT_OF_MEMORY);
    cr_assert_null(b);
    SAYS(dhow_last_error(), "sim:0: out of memory: asked 488.3 KiB");
    SAYS(dhow_last_error(), "dhow_memory_set_limit() allows this device 1.0 MiB");
    dhow_tensor_release(a);
    OK(dhow_tensor_create(device, DHOW_U8, DHOW_SHAPE(500000), &b));
    OK(dhow_memory_set_limit(device, 0));
    OK(dhow_tensor_create(device, DHOW_U8, DHOW_SHAPE(700000), &a));
    dhow_tensor_release(a);
    dhow_tensor_release(b);
    dhow_context_release(context);
}

Test(memory, an_exhausted_device_names_its_largest_holders) {
    setenv("DHOW_SIM", "memory=4M", 1);
    dhow_device *device;
    dhow_context *context = open_sim(&device);
    dhow_tensor *weights, *small, *unnamed, *other, *none = (void *)&none;
    OK(dhow_tensor_create(device, DHOW_U8, DHOW_SHAPE(2 << 20), &weights));
    OK(dhow_tensor_set_label(weights, "encoder.weights"));
    OK(dhow_tensor_create(device, DHOW_U8, DHOW_SHAPE(1 << 19), &unnamed));
    OK(dhow_tensor_create(device, DHOW_U8, DHOW_SHAPE(1 << 17), &other));
    OK(dhow_tensor_create(device, DHOW_U8, DHOW_SHAPE(1 << 18), &small));
    OK(dhow_tensor_set_label(small, "a label of more than thirty-one bytes"));
    cr_assert_eq(dhow_tensor_create(device, DHOW_U8, DHOW_SHAPE(3 << 20), &none),
                 DHOW_OUT_OF_MEMORY);
    cr_assert_null(none);
    SAYS(dhow_last_error(),
         "sim:0: out of memory: asked 3.0 MiB, free 1.1 MiB of 4.0 MiB, "
         "live tensors hold 2.9 MiB; largest holders: 'encoder.weights' 2.0 MiB, "
         "tensors without a label 640.0 KiB in 2, 'a label of more than thirty-one' 256.0 KiB");
    SAYS(dhow_last_error(), "; release some of them, or take smaller batches or another device");
    /* What is there goes on working. */
    OK(dhow_fill(NULL, weights, 1));
    dhow_tensor_release(unnamed);
    dhow_tensor_release(other);
    dhow_tensor_release(small);
    dhow_tensor_release(weights);
    OK(dhow_tensor_create(device, DHOW_U8, DHOW_SHAPE(3 << 20),
                          &none)); /* cached blocks give way */
    dhow_tensor_release(none);
    computes(context, "sim");
    dhow_context_release(context);
}

/* ---- the kernel cache ---- */

static char g_folder[64];
static log_text g_log;

static void make_folder(void) {
    (void)snprintf(g_folder, sizeof g_folder, "/tmp/dhow-cache-XXXXXX");
    cr_assert_not_null(mkdtemp(g_folder));
}

static void remove_folder(void) {
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", g_folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(cache, .init = make_folder, .fini = remove_folder, .timeout = 60);

/* The table makes the compiled library larger than all files that making it takes. */
static const char k_text[] =
    "static const f32 table[60000] = {1};\n"
    "KERNEL(thrice, (IN(f32,x), OUT(f32,y), VAL(i64,n)))\n"
    "{ GRID_FOR(i, n) y[i] = 3 * x[i] + table[59999 - i]; }";

/* Builds a kernel of one's own and runs it; the plugin compiles it or takes it from the cache. */
static void build_and_run(const char *cache) {
    const dhow_context_options options =
        DHOW_INIT(dhow_context_options, .backends = "cpu", .cache_dir = cache, .log = keep_log,
                  .log_user = &g_log);
    const dhow_module_source source =
        DHOW_INIT(dhow_module_source, .name = "thrice.k", .text = k_text);
    dhow_context *context;
    dhow_device *device;
    dhow_module *module;
    dhow_kernel *kernel;
    dhow_tensor *x, *y;
    float result[5];
    memset(&g_log, 0, sizeof g_log);
    OK(dhow_context_create(&options, &context));
    OK(dhow_device_get(context, "cpu", &device));
    OK(dhow_module_build(device, &source, &module));
    OK(dhow_module_kernel(module, "thrice", &kernel));
    OK(dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(5), 2, &x));
    OK(dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(5), &y));
    OK(dhow_launch(NULL, kernel, 5, x, y, 5));
    OK(dhow_tensor_read(y, result, sizeof result));
    for (int i = 0; i < 5; i++) cr_assert_eq(result[i], 6.0f);
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    dhow_kernel_release(kernel);
    dhow_module_release(module);
    dhow_context_release(context);
}

static void expect_one_warning(const char *text) {
    cr_assert_eq(g_log.warnings, 1, "%s", g_log.text);
    SAYS(g_log.text, "kernel cache: ");
    SAYS(g_log.text, text);
    SAYS(g_log.text, "set DHOW_CACHE_DIR to another folder, or to 'off'");
}

/* The only entry of the folder, or "" . */
static int entries(char *path, size_t capacity) {
    int count = 0;
    DIR *folder = opendir(g_folder);
    cr_assert_not_null(folder);
    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        (void)snprintf(path, capacity, "%s/%s", g_folder, e->d_name);
        count++;
    }
    (void)closedir(folder);
    return count;
}

Test(cache, a_folder_that_is_missing_is_made) {
    char path[128], entry[512];
    (void)snprintf(path, sizeof path, "%s/made/by/dhow", g_folder);
    build_and_run(path);
    cr_assert_eq(g_log.warnings, 0, "%s", g_log.text);
    struct stat info;
    cr_assert_eq(stat(path, &info), 0);
    cr_assert_eq(info.st_mode & 0777, 0700);
    cr_assert_eq(entries(entry, sizeof entry), 1); /* "made" */
}

/* Each process compiled its kernels, and nothing said why. */
Test(cache, a_process_without_a_home_is_told_once) {
    for (int i = 0; i < 2; i++) {
        unsetenv("DHOW_CACHE_DIR");
        unsetenv("XDG_CACHE_HOME");
        unsetenv("HOME");
        build_and_run(i == 0 ? NULL : "off");
        cr_assert_eq(g_log.warnings, i == 0 ? 1 : 0, "%s", g_log.text);
        if (i == 0) SAYS(g_log.text, "kernel cache: there is no HOME");
    }
}

Test(cache, an_entry_is_used_again) {
    char entry[512];
    struct stat before, after;
    build_and_run(g_folder);
    cr_assert_eq(entries(entry, sizeof entry), 1);
    cr_assert_eq(stat(entry, &before), 0);
    build_and_run(g_folder);
    cr_assert_eq(g_log.warnings, 0, "%s", g_log.text);
    cr_assert_eq(stat(entry, &after), 0);
    cr_assert_eq(before.st_ino, after.st_ino);
}

Test(cache, a_file_in_the_folder_s_place_is_a_warning) {
    char path[128];
    (void)snprintf(path, sizeof path, "%s/file", g_folder);
    FILE *f = fopen(path, "w");
    cr_assert_not_null(f);
    (void)fclose(f);
    build_and_run(path);
    expect_one_warning("cannot be made");
}

Test(cache, a_folder_below_a_file_is_a_warning) {
    build_and_run("/dev/null/cache");
    expect_one_warning("cannot be made");
}

Test(cache, a_folder_that_others_write_to_is_a_warning) {
    cr_assert_eq(chmod(g_folder, 0777), 0);
    build_and_run(g_folder);
    expect_one_warning("others may write to it");
}

Test(cache, a_folder_of_somebody_else_is_a_warning) {
    if (geteuid() != 0) cr_skip_test("needs root to give a folder away");
    cr_assert_eq(chown(g_folder, 12345, 12345), 0);
    build_and_run(g_folder);
    expect_one_warning("others may write to it");
}

Test(cache, a_read_only_folder_is_a_warning) {
    powers_drop(); /* root writes everywhere */
    cr_assert_eq(chmod(g_folder, 0500), 0);
    build_and_run(g_folder);
    powers_take_back();
    expect_one_warning("cannot write: Permission denied");
}

/* A limit on the size of files stands for the full disk: the library that the compiler writes fits,
 * the entry, which has a header in front, does not. */
Test(cache, a_full_disk_is_a_warning_and_leaves_no_part) {
    char entry[512];
    struct stat info;
    struct rlimit room = {0, RLIM_INFINITY};
    (void)signal(SIGXFSZ, SIG_IGN);
    build_and_run(g_folder);
    cr_assert_eq(entries(entry, sizeof entry), 1);
    cr_assert_eq(stat(entry, &info), 0);
    cr_assert_eq(unlink(entry), 0);
    room.rlim_cur = (rlim_t)info.st_size - 1;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &room), 0);
    build_and_run(g_folder);
    room.rlim_cur = RLIM_INFINITY;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &room), 0);
    expect_one_warning("cannot write: File too large");
    cr_assert_eq(entries(entry, sizeof entry), 0, "%s is left", entry);
}

/* A file of the folder, `mib` long (it takes no room) and last used `days` ago. */
static void make_file(const char *name, int mib, int days) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", g_folder, name);
    FILE *f = fopen(path, "w");
    cr_assert_not_null(f);
    (void)fclose(f);
    cr_assert_eq(truncate(path, (off_t)mib << 20), 0);
    const time_t then = time(NULL) - (time_t)days * 24 * 60 * 60;
    const struct timespec times[2] = {{then, 0}, {then, 0}};
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool is_there(const char *name) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", g_folder, name);
    return access(path, F_OK) == 0;
}

Test(cache, the_entries_that_were_not_used_for_longest_make_room) {
    static const char newest[] = "00000000000000000000000000000001",
                      oldest[] = "00000000000000000000000000000002",
                      middle[] = "00000000000000000000000000000003",
                      foreign[] = "0000000000000000000000000000000 of mine";
    make_file(newest, 400, 1);
    make_file(oldest, 400, 3);
    make_file(middle, 400, 2);
    make_file(foreign, 2000, 100);
    build_and_run(g_folder);
    cr_assert_eq(g_log.warnings, 0, "%s", g_log.text);
    cr_expect_not(is_there(oldest));
    cr_expect(is_there(middle));
    cr_expect(is_there(newest));
    cr_expect(is_there(foreign), "a file that is no entry is removed");
    char entry[512];
    cr_expect_eq(entries(entry, sizeof entry), 4, "the new entry is not there");
}

Test(cache, what_killed_writers_left_is_removed) {
    static const char stale[] = "00000000000000000000000000000001.4711.0.tmp",
                      fresh[] = "00000000000000000000000000000002.4711.1.tmp",
                      foreign[] = "notes.tmp";
    make_file(stale, 1, 2);
    make_file(fresh, 1, 0);
    make_file(foreign, 1, 2);
    build_and_run(g_folder);
    cr_expect_not(is_there(stale));
    cr_expect(is_there(fresh), "a writer may be at it");
    cr_expect(is_there(foreign));
}

Test(cache, an_entry_that_is_used_counts_as_new) {
    char entry[512];
    struct stat info;
    build_and_run(g_folder);
    cr_assert_eq(entries(entry, sizeof entry), 1);
    const struct timespec then[2] = {{time(NULL) - 100000, 0}, {time(NULL) - 100000, 0}};
    cr_assert_eq(utimensat(AT_FDCWD, entry, then, 0), 0);
    build_and_run(g_folder);
    cr_assert_eq(stat(entry, &info), 0);
    cr_assert_gt(info.st_mtim.tv_sec, time(NULL) - 1000);
}

Test(cache, a_damaged_entry_is_built_anew) {
    char entry[512];
    struct stat info;
    build_and_run(g_folder);
    cr_assert_eq(entries(entry, sizeof entry), 1);
    cr_assert_eq(stat(entry, &info), 0);
    const off_t places[] = {0, 9, 17, 25, 40, info.st_size / 2, info.st_size - 1};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        FILE *f = fopen(entry, "r+b");
        cr_assert_not_null(f);
        cr_assert_eq(fseek(f, places[i], SEEK_SET), 0);
        int byte = fgetc(f);
        cr_assert_eq(fseek(f, places[i], SEEK_SET), 0);
        (void)fputc(byte ^ 0x55, f);
        (void)fclose(f);
        build_and_run(g_folder);
        cr_assert_eq(g_log.warnings, 0, "%s", g_log.text);
        cr_assert_eq(entries(entry, sizeof entry), 1);
    }
    for (off_t bytes = 0; bytes < 64; bytes += 21) {
        cr_assert_eq(truncate(entry, bytes), 0);
        build_and_run(g_folder);
        cr_assert_eq(g_log.warnings, 0, "%s", g_log.text);
    }
}
