/* SPDX-License-Identifier: Apache-2.0
 *
 * graphs COUNT [FIRST SEED] [--nodes N] [--half bf16|f16] [--device SPEC]... [--save FOLDER]
 * [--print]
 *
 * Runs COUNT random models in all ways on the CPU and the devices named. A model that goes wrong is
 * made small and printed. Exit status 1 when one did.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

typedef struct request {
    uint64_t count, seed;
    int nodes;
    dhow_dtype half; /* models of f32 that compute in it */
    const char *folder;
    bool print, refusals;
} request;

static bool open_devices(machine *on, const char *const *specs, int count) {
    if (dhow_context_create(NULL, &on->context) != DHOW_OK ||
        dhow_device_get(on->context, "cpu", &on->cpu) != DHOW_OK)
        return false;
    for (int i = 0; i < count; i++)
        if (dhow_device_get(on->context, specs[i], &on->devices[on->device_count++]) != DHOW_OK)
            return false;
    return true;
}

static void save_numbers(FILE *f, const char *what, int number, int32_t rank, const int64_t *shape,
                         const double *data, double tolerance) {
    int64_t count = 1;
    (void)fprintf(f, "%s %d %.9g %d", what, number, tolerance, rank);
    for (int32_t i = 0; i < rank; i++) {
        (void)fprintf(f, " %" PRId64, shape[i]);
        count *= shape[i];
    }
    for (int64_t i = 0; i < count; i++) (void)fprintf(f, " %.17g", data[i]);
    (void)fprintf(f, "\n");
}

/* SEED.onnx, and SEED.txt with inputs and what dhow makes of them, for second_opinion.py. */
static void save(const request *r, const machine *on, const model *m) {
    char path[4096];
    outcome o;
    double tolerance[MAX_OUTPUTS];
    bytes file = model_write(m, m->dtype, false);
    if (!run_with_tolerance(m, on, &o, tolerance)) {
        bytes_free(&file);
        outcome_free(&o);
        return;
    }
    (void)snprintf(path, sizeof path, "%s/%" PRIu64 ".onnx", r->folder, m->seed);
    FILE *f = fopen(path, "wb");
    if (f != NULL) {
        (void)fwrite(file.data, 1, file.length, f);
        (void)fclose(f);
    }
    (void)snprintf(path, sizeof path, "%s/%" PRIu64 ".txt", r->folder, m->seed);
    f = fopen(path, "w");
    for (int i = 0; i < m->value_count && f != NULL; i++) {
        const value *v = &m->values[i];
        if (v->data != NULL && v->kind == VALUE_INPUT)
            save_numbers(f, "in", i, v->rank, v->shape, v->data, 0);
    }
    for (int i = 0; i < o.count && f != NULL; i++)
        save_numbers(f, "out", m->graphs[0].outputs[i], o.info[i].rank, o.info[i].shape, o.data[i],
                     tolerance[i]);
    if (f != NULL) (void)fclose(f);
    bytes_free(&file);
    outcome_free(&o);
}

static bool run_seed(const request *r, machine *on, uint64_t seed) {
    char story[STORY] = "";
    model *m = model_generate(seed, r->nodes, r->half);
    if (r->print) model_print(m, stdout);
    if (r->folder != NULL) save(r, on, m);
    const verdict v = run_all_ways(m, on, story);
    if (v == VERDICT_REFUSED) {
        on->refused++;
        if (r->refusals) printf("seed %" PRIu64 " is refused: %s\n", seed, story);
    }
    if (v == VERDICT_WRONG) {
        printf("WRONG: seed %" PRIu64 ": %s\nmade small:\n", seed, story);
        m = model_minimise(m, on, story);
        model_print(m, stdout);
        printf("  %s\n\n", story);
        print_blame(m, on);
        (void)fflush(stdout);
    }
    model_free(m);
    return v != VERDICT_WRONG;
}

int main(int argc, char **argv) {
    request r = {.seed = 1, .nodes = 12};
    const char *specs[MAX_DEVICES];
    machine on = {.context = NULL};
    int devices = 0, numbers = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--nodes") == 0 && i + 1 < argc) {
            r.nodes = atoi(argv[++i]);
        } else if (strcmp(argv[i], "--half") == 0 && i + 1 < argc) {
            r.half = strcmp(argv[++i], "f16") == 0 ? DHOW_F16 : DHOW_BF16;
        } else if (strcmp(argv[i], "--device") == 0 && i + 1 < argc && devices < MAX_DEVICES) {
            specs[devices++] = argv[++i];
        } else if (strcmp(argv[i], "--save") == 0 && i + 1 < argc) {
            r.folder = argv[++i];
        } else if (strcmp(argv[i], "--print") == 0) {
            r.print = true;
        } else if (strcmp(argv[i], "--shaken") == 0) {
            on.shaken = true;
        } else if (strcmp(argv[i], "--refusals") == 0) {
            r.refusals = true;
        } else if (numbers++ == 0) {
            r.count = strtoull(argv[i], NULL, 10);
        } else {
            r.seed = strtoull(argv[i], NULL, 10);
        }
    }
    if (r.count == 0) {
        fprintf(stderr,
                "usage: graphs COUNT [FIRST SEED] [--nodes N] [--half bf16|f16] [--device SPEC]... "
                "[--save "
                "FOLDER] [--shaken] [--print] [--refusals]\n");
        return 2;
    }
    if (!open_devices(&on, specs, devices)) {
        fprintf(stderr, "%s\n", dhow_last_error());
        return 1;
    }
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < r.count; i++) wrong += !run_seed(&r, &on, r.seed + i);
    printf("%" PRIu64 " models, %" PRIu64 " refused by all ways, %" PRIu64 " wrong\n", r.count,
           on.refused, wrong);
    dhow_context_release(on.context);
    if (r.half != 0) printf("%" PRIu64 " far from f32\n", on.far);
    if (on.far > r.count / 10) { /* not those few alone whose sums cancel */
        fprintf(stderr, "graphs: too many are far from f32\n");
        return 1;
    }
    if (on.refused > r.count / 10) { /* a refusal compares nothing */
        fprintf(stderr, "graphs: too many are refused: --refusals says why\n");
        return 1;
    }
    return wrong != 0;
}
