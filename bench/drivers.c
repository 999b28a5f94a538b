/* SPDX-License-Identifier: Apache-2.0
 *
 * Models on the OpenCL drivers for processors, against dhow's own kernels: the CPU plugin without
 * oneDNN. Besides the driver that OpenCL's loader finds, PoCL as a rule, Intel's is measured where
 * BENCH_INTEL_OPENCL names a folder with its .icd file, as scripts/bench makes one.
 *
 *     BENCH_NETWORKS, DHOW_MODELS_DIR     as models.c has them
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "folders.h"
#include "peers.h"

void bench_drivers(bench *b);

enum { DRIVERS = 2 };

typedef struct driver {
    const char *name;
    char vendors[600]; /* a variable for the process; empty where the loader finds the driver */
} driver;

/* ---- the CPU plugin without oneDNN ---- */

/* What the plugin calls oneDNN's library: libdnnl.so.3 or, on some releases, libdnnl.so.3.6. */
enum { ONEDNN_MAJORS = 2, ONEDNN_MINORS = 24, ONEDNN_NAMES = ONEDNN_MAJORS * (1 + ONEDNN_MINORS) };

static void onednn_path(const char *folder, int i, char *path, size_t bytes) {
    const int major = 2 + i % ONEDNN_MAJORS, minor = i / ONEDNN_MAJORS;
    if (minor == 0)
        (void)snprintf(path, bytes, "%s/libdnnl.so.%d", folder, major);
    else
        (void)snprintf(path, bytes, "%s/libdnnl.so.%d.%d", folder, major, minor - 1);
}

/* Unreadable libraries of oneDNN's names come first. */
static int hide_onednn(char *folder) {
    char path[600];
    if (mkdtemp(folder) == NULL) return 0;
    for (int i = 0; i < ONEDNN_NAMES; i++) {
        onednn_path(folder, i, path, sizeof path);
        FILE *f = fopen(path, "w");
        if (f != NULL) (void)fclose(f);
    }
    return 1;
}

static void show_onednn(const char *folder) {
    char path[600];
    for (int i = 0; i < ONEDNN_NAMES; i++) {
        onednn_path(folder, i, path, sizeof path);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

/* ---- rows ---- */

/* A model on each driver; its ratio, 0 where there is none. */
static double compare(bench *b, const driver *d, const char *folder, const char *name, double bar,
                      double tolerance, const char *no_onednn) {
    char what[120];
    (void)snprintf(what, sizeof what, "%.60s, opencl (%.30s)", name, d->name);
    process ours = {.name = "dhow",
                    .args = {BENCH_SERVE, folder, "opencl:0", "f32"},
                    .env = {"DHOW_NUM_THREADS=2", d->vendors[0] != '\0' ? d->vendors : NULL}};
    process own = {.name = "the CPU plugin without oneDNN",
                   .args = {BENCH_SERVE, folder, "cpu", "f32"},
                   .env = {"DHOW_NUM_THREADS=2", no_onednn}};
    return bench_compare_peers(b, what, bar, tolerance, &ours, &own, 1);
}

static void bench_networks(bench *b, const driver *d, const char *parent, const char *no_onednn) {
    static const char *const names[] = {"mlp-1", "mlp-32", "mlp-1024", "encoder-1", "encoder-8"};
    char folder[512];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (folders_join(folder, sizeof folder, parent, names[i]))
            (void)compare(b, d, folder, names[i], 0.5, 1e-4, no_onednn);
}

static void bench_folder(bench *b, const driver *d, const char *parent, const char *no_onednn) {
    char *names[FOLDERS_MOST], folder[512], what[120];
    const int count = folders_in(parent, names);
    double sum = 0, lowest = INFINITY;
    int measured = 0;
    for (int i = 0; i < count; i++) {
        const double ratio = folders_join(folder, sizeof folder, parent, names[i])
                                 ? compare(b, d, folder, names[i], 0.6, 1e-2, no_onednn)
                                 : 0;
        free(names[i]);
        if (ratio <= 0) continue;
        sum += log(ratio);
        lowest = fmin(lowest, ratio);
        measured++;
    }
    if (measured == 0) return;
    (void)snprintf(what, sizeof what, "geometric mean of %d models, opencl (%.30s)", measured,
                   d->name);
    bench_ratio(b, what, "the CPU plugin without oneDNN", 0.9, exp(sum / measured));
    (void)snprintf(what, sizeof what, "lowest of %d models, opencl (%.30s)", measured, d->name);
    bench_ratio(b, what, "the CPU plugin without oneDNN", 0.6, lowest);
}

/* "PoCL", or what else the driver of the loader's first device calls itself. */
static int name_driver(bench *b, char *name, size_t capacity) {
    dhow_device *device = bench_device(b, "opencl:0");
    dhow_device_info info = DHOW_INIT(dhow_device_info);
    if (device == NULL) return 0;
    BENCH_OK(dhow_device_get_info(device, &info));
    const int pocl = strstr(info.driver, "Portable Computing Language") != NULL;
    (void)snprintf(name, capacity, "%.*s", (int)strcspn(info.driver, ","),
                   pocl ? "PoCL" : info.driver);
    return 1;
}

void bench_drivers(bench *b) {
    const char *networks = getenv("BENCH_NETWORKS"), *models = getenv("DHOW_MODELS_DIR");
    const char *intel = getenv("BENCH_INTEL_OPENCL");
    char folder[] = "/tmp/dhow-bench-XXXXXX", no_onednn[600], name[64];
    driver drivers[DRIVERS] = {{.name = name}, {.name = "Intel"}};
    int count = 0;
    if (networks == NULL && models == NULL)
        printf(
            "drivers: BENCH_NETWORKS and DHOW_MODELS_DIR are not set; scripts/bench sets them\n");
    if (name_driver(b, name, sizeof name)) count = 1;
    if (count == 1 && intel != NULL) {
        (void)snprintf(drivers[1].vendors, sizeof drivers[1].vendors, "OCL_ICD_VENDORS=%.500s/",
                       intel);
        count = 2;
    }
    if (count == 0 || !hide_onednn(folder)) return;
    (void)snprintf(no_onednn, sizeof no_onednn, "LD_LIBRARY_PATH=%s", folder);
    for (int i = 0; i < count; i++) {
        if (networks != NULL) bench_networks(b, &drivers[i], networks, no_onednn);
        if (models != NULL) bench_folder(b, &drivers[i], models, no_onednn);
    }
    show_onednn(folder);
}
