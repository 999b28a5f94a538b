/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame of the benchmarks: `PROGRAM [--json FILE] [--device SPEC] [--small] [GROUP...]` runs
 * the groups that the program has, prints a table, writes it as JSON.
 */
#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

enum { ROUNDS = 15 };

struct bench {
    dhow_context *context;
    dhow_device *device;
    int small;
    json_t *rows;
    char columns[160]; /* peers in the latest header */
};

dhow_device *bench_main_device(const bench *b) { return b->device; }
dhow_context *bench_context(const bench *b) { return b->context; }
int bench_is_small(const bench *b) { return b->small; }

void bench_ok(dhow_status status, const char *what) {
    if (status == DHOW_OK) return;
    (void)fprintf(stderr, "dhow-bench: %s: %s: %s\n", what, dhow_status_name(status),
                  dhow_last_error());
    exit(1);
}

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double time_once(int repeat, bench_fn fn, void *data) {
    double start = now();
    for (int i = 0; i < repeat; i++) fn(data);
    return (now() - start) / repeat;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *times) {
    qsort(times, ROUNDS, sizeof *times, ascending);
    return times[ROUNDS / 2];
}

double bench_seconds(int repeat, bench_fn fn, void *data) {
    double times[ROUNDS];
    fn(data);
    for (int i = 0; i < ROUNDS; i++) times[i] = time_once(repeat, fn, data);
    return median(times);
}

static void print_time(double seconds) {
    if (seconds < 1e-6) {
        printf("%9.1f ns", seconds * 1e9);
    } else if (seconds < 1e-3) {
        printf("%9.2f us", seconds * 1e6);
    } else {
        printf("%9.3f ms", seconds * 1e3);
    }
}

void bench_report(bench *b, const char *name, const char *against, double bar, double m, double p) {
    double ratio = p / m;
    printf("%-44s ", name);
    print_time(m);
    printf("  ");
    print_time(p);
    printf("  %6.2f ", ratio);
    if (bar > 0) {
        printf("%6.2f %s", bar, ratio >= bar ? "ok  " : "MISS");
    } else {
        printf("%11s", "");
    }
    printf("  %s\n", against);
    (void)fflush(stdout);
    (void)json_array_append_new(
        b->rows, json_pack("{s:s, s:s, s:f, s:f, s:f, s:f}", "name", name, "against", against,
                           "dhow_seconds", m, "peer_seconds", p, "ratio", ratio, "bar", bar));
}

/* ---- several peers ---- */

/* Of a column: what times need, or the name. */
static int width_of(const bench_peer *peer) {
    const int length = (int)strlen(peer->name);
    return length > 12 ? length : 12;
}

static void print_columns(bench *b, const bench_peer *peers, int count) {
    char columns[sizeof b->columns] = "";
    for (int i = 0; i < count; i++) {
        const size_t length = strlen(columns);
        (void)snprintf(columns + length, sizeof columns - length, "  %12s", peers[i].name);
    }
    if (strcmp(columns, b->columns) == 0) return;
    memcpy(b->columns, columns, sizeof columns);
    printf("\n%-44s %12s%s  %6s %6s\n", "what", "dhow", columns, "ratio", "bar");
}

static void print_peers(const char *name, double bar, double ours, const bench_peer *peers,
                        int count, const bench_peer *fastest) {
    printf("%-44s ", name);
    print_time(ours);
    for (int i = 0; i < count; i++) {
        printf("  %*s", width_of(&peers[i]) - 12, "");
        if (peers[i].left_out == NULL)
            print_time(peers[i].seconds);
        else
            printf("%12s", "-");
    }
    if (fastest != NULL) {
        const double ratio = fastest->seconds / ours;
        printf("  %6.2f ", ratio);
        if (bar > 0) printf("%6.2f %s", bar, ratio >= bar ? "ok  " : "MISS");
        printf("  %s", fastest->name);
    }
    printf("\n");
    for (int i = 0; i < count; i++) {
        if (peers[i].left_out != NULL)
            printf("%-44s %s %s\n", "", peers[i].name, peers[i].left_out);
    }
    (void)fflush(stdout);
}

static json_t *json_of(const bench_peer *peer) {
    json_t *row = json_pack("{s:s, s:s}", "name", peer->name, "version", peer->version);
    if (peer->left_out != NULL)
        (void)json_object_set_new(row, "left_out", json_string(peer->left_out));
    else
        (void)json_object_set_new(row, "seconds", json_real(peer->seconds));
    return row;
}

double bench_report_peers(bench *b, const char *name, double bar, double ours,
                          const bench_peer *peers, int count) {
    const bench_peer *fastest = NULL;
    json_t *row = json_pack("{s:s, s:f}", "name", name, "dhow_seconds", ours), *all = json_array();
    for (int i = 0; i < count; i++) {
        (void)json_array_append_new(all, json_of(&peers[i]));
        if (peers[i].left_out == NULL && (fastest == NULL || peers[i].seconds < fastest->seconds))
            fastest = &peers[i];
    }
    print_columns(b, peers, count);
    print_peers(name, bar, ours, peers, count, fastest);
    if (fastest != NULL)
        (void)json_object_update_new(
            row, json_pack("{s:s, s:f, s:f, s:f}", "against", fastest->name, "peer_seconds",
                           fastest->seconds, "ratio", fastest->seconds / ours, "bar", bar));
    (void)json_object_set_new(row, "peers", all);
    (void)json_array_append_new(b->rows, row);
    return fastest != NULL ? fastest->seconds / ours : 0;
}

/* ---- pairs ---- */

void bench_rest(void) {
    const struct timespec pause = {.tv_nsec = 50000000};
    (void)nanosleep(&pause, NULL);
}

void bench_compare(bench *b, const char *name, const char *against, double bar, int repeat,
                   bench_fn ours, bench_fn theirs, void *data) {
    double mine[ROUNDS], peer[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        if (!b->small) bench_rest();
        ours(data);
        mine[i] = time_once(repeat, ours, data);
        if (!b->small) bench_rest();
        theirs(data);
        peer[i] = time_once(repeat, theirs, data);
    }
    bench_report(b, name, against, bar, median(mine), median(peer));
}

/* What disturbs one of a pair disturbs the other. */
void bench_compare_pairs(bench *b, const char *name, const char *against, double bar, int repeat,
                         bench_fn ours, bench_fn theirs, void *data) {
    enum { PAIRS = 101 };
    const int pairs = b->small ? 1 : PAIRS;
    double mine[PAIRS], ratio[PAIRS];
    ours(data);
    theirs(data);
    for (int i = 0; i < pairs; i++) {
        if (i % 2 == 0) mine[i] = time_once(repeat, ours, data);
        double peer = time_once(repeat, theirs, data);
        if (i % 2 != 0) mine[i] = time_once(repeat, ours, data);
        ratio[i] = peer / mine[i];
    }
    qsort(mine, (size_t)pairs, sizeof *mine, ascending);
    qsort(ratio, (size_t)pairs, sizeof *ratio, ascending);
    bench_report(b, name, against, bar, mine[pairs / 2], mine[pairs / 2] * ratio[pairs / 2]);
}

/* The peer's median time, measured by a child process. */
static double time_apart(int repeat, bench_fn fn, void *data) {
    int ends[2];
    double seconds = 0;
    if (pipe(ends) != 0) exit(1);
    pid_t child = fork();
    if (child == 0) {
        seconds = bench_seconds(repeat, fn, data);
        _exit(write(ends[1], &seconds, sizeof seconds) != sizeof seconds);
    }
    (void)close(ends[1]);
    if (child < 0 || read(ends[0], &seconds, sizeof seconds) != sizeof seconds) exit(1);
    (void)close(ends[0]);
    (void)waitpid(child, NULL, 0);
    return seconds;
}

void bench_compare_apart(bench *b, const char *name, const char *against, double bar, int repeat,
                         bench_fn ours, bench_fn theirs, void *data) {
    double mine[ROUNDS], peer[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        mine[i] = bench_seconds(repeat, ours, data);
        bench_rest();
        if (i % 5 == 0) peer[i / 5] = time_apart(repeat, theirs, data);
    }
    qsort(peer, 3, sizeof *peer, ascending);
    bench_report(b, name, against, bar, median(mine), peer[1]);
}

void bench_figure(bench *b, const char *name, const char *unit, double figure, double bar) {
    if (bar > 0)
        printf("%-44s %9.1f %-3s %9s  %6s  %6.0f %s  at most\n", name, figure, unit, "", "", bar,
               figure <= bar ? "ok  " : "MISS");
    else
        printf("%-44s %9.1f %s\n", name, figure, unit);
    (void)fflush(stdout);
    (void)json_array_append_new(b->rows, json_pack("{s:s, s:s, s:f, s:f}", "name", name, "unit",
                                                   unit, "figure", figure, "at_most", bar));
}

void bench_ratio(bench *b, const char *name, const char *against, double bar, double ratio) {
    printf("%-44s %12s  %12s  %6.2f ", name, "", "", ratio);
    if (bar > 0)
        printf("%6.2f %s", bar, ratio >= bar ? "ok  " : "MISS");
    else
        printf("%11s", "");
    printf("  %s\n", against);
    (void)fflush(stdout);
    (void)json_array_append_new(b->rows, json_pack("{s:s, s:s, s:f, s:f}", "name", name, "against",
                                                   against, "ratio", ratio, "bar", bar));
}

dhow_tensor *bench_tensor(dhow_device *device, int32_t rank, const int64_t *shape) {
    int64_t count = 1;
    for (int32_t i = 0; i < rank; i++) count *= shape[i];
    float *data = malloc((size_t)count * sizeof *data);
    dhow_tensor *t;
    if (data == NULL) exit(1);
    for (int64_t i = 0; i < count; i++) data[i] = (float)((i * 2654435761u) >> 8 & 1023) / 512 - 1;
    BENCH_OK(dhow_tensor_from_data(device, DHOW_F32, rank, shape, data, &t));
    free(data);
    return t;
}

dhow_device *bench_device(bench *b, const char *spec) {
    dhow_device *device;
    return dhow_device_get(b->context, spec, &device) == DHOW_OK ? device : NULL;
}

static int wanted(const char *name, int argc, char **argv) {
    for (int i = optind; i < argc; i++) {
        if (strcmp(argv[i], name) == 0) return 1;
    }
    return optind == argc;
}

static int is_group(const char *name) {
    for (size_t i = 0; i < bench_group_count; i++) {
        if (strcmp(bench_groups[i].name, name) == 0) return 1;
    }
    return 0;
}

static void usage(FILE *to, const char *program) {
    (void)fprintf(to,
                  "usage: %s [--json FILE] [--device SPEC] [--small] [GROUP...]\ngroups:", program);
    for (size_t i = 0; i < bench_group_count; i++) (void)fprintf(to, " %s", bench_groups[i].name);
    (void)fputs("\n", to);
}

int main(int argc, char **argv) {
    static const struct option names[] = {{"json", required_argument, NULL, 'j'},
                                          {"device", required_argument, NULL, 'd'},
                                          {"small", no_argument, NULL, 's'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    const char *json = NULL, *spec = bench_default_device;
    int c, failed = 0;
    bench b = {.rows = json_array()};
    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (c == 'j') json = optarg;
        if (c == 'd') spec = optarg;
        if (c == 's') b.small = 1;
        if (c == 'h' || c == '?') {
            usage(c == 'h' ? stdout : stderr, argv[0]);
            return c == 'h' ? 0 : 2;
        }
    }
    for (int i = optind; i < argc; i++) {
        if (!is_group(argv[i])) {
            (void)fprintf(stderr, "%s: there is no group '%s'\n", argv[0], argv[i]);
            usage(stderr, argv[0]);
            return 2;
        }
    }
    dhow_device_info info = DHOW_INIT(dhow_device_info);
    BENCH_OK(dhow_context_create(NULL, &b.context));
    BENCH_OK(dhow_device_get(b.context, spec, &b.device));
    BENCH_OK(dhow_device_get_info(b.device, &info));
    printf("%s, %s\n\n%-44s %12s  %12s  %6s %6s\n", info.description, info.driver, "what", "dhow",
           "peer", "ratio", "bar");
    for (size_t i = 0; i < bench_group_count; i++) {
        if (wanted(bench_groups[i].name, argc, argv)) bench_groups[i].run(&b);
    }
    if (json != NULL) {
        json_t *root = json_pack("{s:s, s:s, s:s, s:O}", "dhow", dhow_version(), "machine",
                                 info.description, "driver", info.driver, "results", b.rows);
        failed = json_dump_file(root, json, JSON_INDENT(1)) != 0;
        json_decref(root);
    }
    json_decref(b.rows);
    dhow_context_release(b.context);
    return failed;
}
