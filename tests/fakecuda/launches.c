/* SPDX-License-Identifier: Apache-2.0
 *
 * launches FOLDER [--write]: what the stream of a GPU is given for one run of six models: kernels,
 * calls of libraries with all they do in one, copies, waits. Compared with FOLDER/<model>.txt, line
 * by line: a fusion that is lost, or a copy that is new, fails. With --write the lists are made
 * anew. Nothing is computed; sizes are those of real models. Where a model is of f16, one of f32
 * that computes in f16 gives the same list but for a cast of each input, first, and of each output,
 * last.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dhow/dhow.h"
#include "fakecuda.h"
#include "launch_log.h"

/* ---- comparing ---- */

/* Line by line; the first difference is told. */
static int compare(const char *path, FILE *is) {
    char want[256], line[256];
    FILE *golden = fopen(path, "r");
    if (golden == NULL) {
        fprintf(stderr, "launches: %s: %s\n", path, strerror(errno));
        return 1;
    }
    for (int at = 1;; at++) {
        const char *w = fgets(want, sizeof want, golden), *l = fgets(line, sizeof line, is);
        if (w == NULL && l == NULL) break;
        if (w != NULL && l != NULL && strcmp(w, l) == 0) continue;
        fprintf(stderr, "launches: %s:%d\n  was: %s  is:  %s", path, at, w != NULL ? w : "(end)\n",
                l != NULL ? l : "(end)\n");
        (void)fclose(golden);
        return 1;
    }
    (void)fclose(golden);
    return 0;
}

/* The casts at the border are taken out of a list and counted; *casts is -1 for one elsewhere. */
static FILE *without_casts(FILE *log, int *casts) {
    char line[256];
    int outputs = 0;
    FILE *rest = tmpfile();
    *casts = 0;
    while (rest != NULL && fgets(line, sizeof line, log) != NULL) {
        const int in = strcmp(line, "kernel cast_f32_f16\n") == 0;
        const int out = strcmp(line, "kernel cast_f16_f32\n") == 0;
        if (!in && !out) (void)fputs(line, rest);
        outputs += out;
        *casts = *casts < 0 || (!out && outputs > 0) ? -1 : *casts + in + out;
    }
    if (rest != NULL) rewind(rest);
    return rest;
}

/* A model of f32 that computes in f16, with one input and one output. */
static int compare_half(const char *path, const launch_model *of) {
    FILE *log = tmpfile(), *rest = NULL;
    int casts = 0, failed = 1;
    if (log == NULL) return 1;
    const dhow_status status = launch_log(of, DHOW_F32, of->batch, log);
    rewind(log);
    if (status != DHOW_OK) {
        fprintf(stderr, "launches: %s of f32 in f16: %s\n", path, dhow_last_error());
    } else if ((rest = without_casts(log, &casts)) != NULL) {
        failed = compare(path, rest);
        (void)fclose(rest);
    }
    if (failed == 0 && casts != 2) {
        fprintf(stderr,
                "launches: %s of f32 in f16: %d casts where one of the input and one of the "
                "output are expected\n",
                path, casts);
        failed = 1;
    }
    (void)fclose(log);
    return failed;
}

int main(int argc, char **argv) {
    int failed = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: launches FOLDER [--write]\n");
        return 2;
    }
    const int writes = argc > 2 && strcmp(argv[2], "--write") == 0;
    for (size_t i = 0; i < LAUNCH_MODELS; i++) {
        const launch_model *of = &launch_models[i];
        if (!of->listed) continue;
        char path[512];
        (void)snprintf(path, sizeof path, "%s/%s.txt", argv[1], of->name);
        FILE *log = writes ? fopen(path, "w") : tmpfile();
        if (log == NULL) {
            fprintf(stderr, "launches: %s: %s\n", path, strerror(errno));
            return 1;
        }
        if (launch_log(of, of->dtype, of->batch, log) != DHOW_OK) {
            fprintf(stderr, "launches: %s: %s\n", of->name, dhow_last_error());
            failed++;
        } else if (!writes) {
            rewind(log);
            failed += compare(path, log);
            if (of->half) failed += compare_half(path, of);
        }
        (void)fclose(log);
    }
    if (failed == 0 && !writes) printf("launches: 6 models as listed, 3 from f32 as well\n");
    return failed != 0;
}
