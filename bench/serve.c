/* SPDX-License-Identifier: Apache-2.0
 *
 * See serve.h.
 */
#include "serve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void serve_fail(const char *what, const char *why) {
    (void)fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

void serve_path(const char *folder, char *path, size_t capacity) {
    (void)snprintf(path, capacity, "%s/model.onnx", folder);
}

/* ---- inputs ---- */

static void parse_shape(const char *text, serve_input *out) {
    char *end;
    out->rank = 0;
    for (const char *p = text; *p != ')' && out->rank < 8; p = end) {
        const long long extent = strtoll(p, &end, 10);
        if (end == p) break;
        out->shape[out->rank++] = extent;
        end += strspn(end, ", ");
    }
}

static size_t size_of(const serve_input *in) {
    size_t bytes = (size_t)(in->dtype[1] - '0');
    for (int32_t i = 0; i < in->rank; i++) bytes *= (size_t)in->shape[i];
    return bytes;
}

int serve_read_array(const char *path, serve_input *out) {
    char header[1024];
    unsigned char start[10];
    FILE *f = fopen(path, "rb");
    if (f == NULL) return 0;
    memset(out, 0, sizeof *out);
    size_t length = fread(start, 1, 10, f) == 10 ? (size_t)(start[8] | start[9] << 8) : 0;
    if (length == 0 || length >= sizeof header || fread(header, 1, length, f) != length)
        serve_fail(path, "no .npy file of version 1");
    header[length] = '\0';
    const char *descr = strstr(header, "'descr': '"), *shape = strstr(header, "'shape': (");
    if (descr == NULL || shape == NULL) serve_fail(path, "its header says nothing");
    memcpy(out->dtype, descr + 11, 2);
    parse_shape(shape + 10, out);
    out->bytes = size_of(out);
    out->data = malloc(out->bytes + 1);
    if (out->data == NULL || fread(out->data, 1, out->bytes, f) != out->bytes)
        serve_fail(path, "it is shorter than its header says");
    (void)fclose(f);
    return 1;
}

int serve_is_one_memory(const char *input, const char *output) {
    static const char past[] = "past", present[] = "present";
    return strncmp(input, past, sizeof past - 1) == 0 &&
           strncmp(output, present, sizeof present - 1) == 0 &&
           strcmp(input + sizeof past - 1, output + sizeof present - 1) == 0;
}

int serve_read(const char *folder, uint32_t i, serve_input *out) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/in%u.npy", folder, i);
    return serve_read_array(path, out);
}

/* ---- answering ---- */

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The first run wakes threads and fills caches. */
static void run(const serve_work *work, size_t count) {
    double *times = malloc((count + 1) * sizeof *times);
    if (times == NULL || count == 0) serve_fail("run", strerror(ENOMEM));
    work->run(work->data);
    for (size_t i = 0; i < count; i++) {
        double start = now();
        work->run(work->data);
        times[i] = now() - start;
    }
    qsort(times, count, sizeof *times, ascending);
    printf("%.9e %.9e\n", times[0], times[count / 2]);
    (void)fflush(stdout);
    free(times);
}

static void save(const serve_work *work, const char *path) {
    FILE *f = fopen(path, "wb");
    size_t bytes;
    const void *data;
    if (f == NULL) serve_fail(path, strerror(errno));
    work->run(work->data);
    for (uint32_t i = 0; (data = work->output(work->data, i, &bytes)) != NULL; i++) {
        if (fwrite(data, 1, bytes, f) != bytes) serve_fail(path, strerror(errno));
    }
    if (fclose(f) != 0) serve_fail(path, strerror(errno));
    printf("saved\n");
    (void)fflush(stdout);
}

int serve(const serve_work *work) {
    char line[600];
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "run ", 4) == 0) {
            run(work, (size_t)strtoul(line + 4, NULL, 10));
        } else if (strncmp(line, "save ", 5) == 0) {
            save(work, line + 5);
        } else if (strcmp(line, "version") == 0) {
            printf("%s\n", work->version);
            (void)fflush(stdout);
        } else {
            serve_fail("unknown command", line);
        }
    }
    return 0;
}
