/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the CUDA plugin looks for NVIDIA's libraries and headers: in a tree of empty files.
 */
#include "search.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/plugin_host.h"

static char g_root[] = "/tmp/dhow-search-XXXXXX";

static void make(const char *path) {
    char command[PATH_MAX + 64];
    (void)snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s/%s')\" && : > '%s/%s'",
                   g_root, path, g_root, path);
    cr_assert_eq(system(command), 0);
}

static void begin(void) {
    static const char *const variables[] = {"DHOW_CUDA_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH",
                                            "CONDA_PREFIX", "VIRTUAL_ENV"};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        (void)unsetenv(variables[i]);
    cr_assert_not_null(mkdtemp(g_root));
}

static void end(void) {
    char command[PATH_MAX];
    (void)snprintf(command, sizeof command, "rm -r '%s'", g_root);
    cr_assert_eq(system(command), 0);
}

static void point(const char *variable, const char *folder) {
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", g_root, folder);
    (void)setenv(variable, path, 1);
}

/* The place in the order of the folder that has this end, -1 where it is not tried. */
static int place_of(const char *beside, const char *folder) {
    static dhowi_cuda_folders folders;
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", g_root, folder);
    dhowi_cuda_library_folders(&plugin_host, beside, &folders);
    for (int i = 0; i < folders.count; i++) {
        if (strcmp(folders.path[i], path) == 0) return i;
    }
    return -1;
}

Test(search, libraries_of_pip_conda_and_toolkits_are_found_in_this_order, .init = begin,
     .fini = end) {
    char beside[PATH_MAX];
    make("venv/lib/python3.11/site-packages/nvidia/cublas/lib/libcublasLt.so.12");
    make("venv/lib/python3.11/site-packages/nvidia/cu13/lib/libcublasLt.so.13");
    make("venv/lib/python3.11/site-packages/nvidia/cudnn/lib/libcudnn.so.9");
    make("own/lib/python3.12/site-packages/nvidia/cublas/lib/libcublasLt.so.12");
    make("venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2");
    make("venv/lib/python3.11/site-packages/nvidia/cufft/lib/libcufft.so.12");
    make("conda/lib/libcublasLt.so.12");
    (void)snprintf(beside, sizeof beside,
                   "%s/own/lib/python3.12/site-packages/dhow/lib/libdhow_cuda.so", g_root);
    cr_assert_eq(place_of(beside, "named/"), -1);
    point("DHOW_CUDA_LIBRARY_PATH", "named");
    point("CUDA_HOME", "home");
    point("CUDA_PATH", "path");
    point("VIRTUAL_ENV", "venv");
    point("CONDA_PREFIX", "conda");
    static const char *const order[] = {
        "named/",
        "home/lib64/",
        "path/lib64/",
        "own/lib/python3.12/site-packages/nvidia/cublas/lib/",
        "venv/lib/python3.11/site-packages/nvidia/cublas/lib/",
        "conda/lib/",
    };
    int last = -1;
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        const int place = place_of(beside, order[i]);
        cr_assert_gt(place, last, "%s", order[i]);
        last = place;
    }
    cr_assert_geq(place_of(beside, "venv/lib/python3.11/site-packages/nvidia/cu13/lib/"), 0);
    cr_assert_geq(place_of(beside, "venv/lib/python3.11/site-packages/nvidia/cudnn/lib/"), 0);
    cr_assert_eq(place_of(NULL, order[3]), -1);
    cr_assert_geq(place_of(beside, "venv/lib/python3.11/site-packages/nvidia/nccl/lib/"), 0);
    cr_assert_eq(place_of(beside, "venv/lib/python3.11/site-packages/nvidia/cufft/lib/"), -1);
}

Test(search, names_that_are_not_absolute_or_too_long_are_left_out, .init = begin, .fini = end) {
    static dhowi_cuda_folders plain, odd;
    char name[DHOWI_CUDA_PATH_BYTES + 8];
    memset(name, 'x', sizeof name);
    name[0] = '/';
    name[sizeof name - 1] = '\0';
    dhowi_cuda_library_folders(&plugin_host, NULL, &plain);
    (void)setenv("CUDA_HOME", "relative", 1);
    (void)setenv("CUDA_PATH", name, 1);
    (void)setenv("VIRTUAL_ENV", name, 1);
    dhowi_cuda_library_folders(&plugin_host, NULL, &odd);
    cr_assert_eq(odd.count, plain.count);
}

/* Of libraries in folders that a file of /etc/ld.so.conf.d names, "not found" was said. */
Test(search, what_the_loader_finds_by_its_cache_is_found, .init = begin, .fini = end) {
    static const char cache[] =
        "glibc-ld.so.cache1.1\0\0\0libnvidia-ml.so.1\0/usr/lib/wsl/lib/libnvidia-ml.so.1\0"
        "libcublas.so.12\0/opt/x/libcublas.so.12\0/opt/x/libcublas.so.12.9\0";
    char file[PATH_MAX], found[PATH_MAX];
    (void)snprintf(file, sizeof file, "%s/cache", g_root);
    FILE *out = fopen(file, "wb");
    cr_assert_not_null(out);
    cr_assert_eq(fwrite(cache, sizeof cache, 1, out), 1);
    cr_assert_eq(fclose(out), 0);
    cr_assert(dhowi_cuda_in_loader_cache(file, "libnvidia-ml.so.1", found, sizeof found));
    cr_assert_str_eq(found, "/usr/lib/wsl/lib/libnvidia-ml.so.1");
    cr_assert(dhowi_cuda_in_loader_cache(file, "libcublas.so.12", found, sizeof found));
    cr_assert_str_eq(found, "/opt/x/libcublas.so.12");
    cr_assert_not(dhowi_cuda_in_loader_cache(file, "libcublas.so.13", found, sizeof found));
    cr_assert_not(dhowi_cuda_in_loader_cache("/nowhere", "libc.so.6", found, sizeof found));
}

static void expect_headers(const char *nvrtc, const char *folder) {
    char file[PATH_MAX], found[PATH_MAX], real[PATH_MAX], wanted[PATH_MAX];
    (void)snprintf(file, sizeof file, "%s/%s", g_root, nvrtc);
    (void)snprintf(wanted, sizeof wanted, "%s/%s", g_root, folder);
    cr_assert(dhowi_cuda_header_folder(&plugin_host, file, found, sizeof found));
    cr_assert_not_null(realpath(found, real));
    cr_assert_str_eq(real, wanted);
}

Test(search, headers_are_those_of_nvrtc_itself_or_of_a_toolkit, .init = begin, .fini = end) {
    make("wheels/cuda_nvrtc/lib/libnvrtc.so.12");
    make("wheels/cuda_runtime/include/cuda_fp16.h");
    make("wheels/cu13/lib/libnvrtc.so.13");
    make("wheels/cu13/include/cuda_fp16.h");
    make("home/include/cuda_fp16.h");
    make("lone/libnvrtc.so.13");
    point("CUDA_HOME", "home");
    expect_headers("wheels/cuda_nvrtc/lib/libnvrtc.so.12", "wheels/cuda_runtime/include");
    expect_headers("wheels/cu13/lib/libnvrtc.so.13", "wheels/cu13/include");
    expect_headers("lone/libnvrtc.so.13", "home/include");
}
