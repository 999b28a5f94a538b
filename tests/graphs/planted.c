/* SPDX-License-Identifier: Apache-2.0
 *
 * planted MOST [K/N | NAME...]: with each mistake that can be planted (DHOWI_GUARD in core), the
 * K-th of each N of them or those named, random models must go wrong, or crash, within MOST of
 * them. Exit status 1 when one is not found. The file that DHOW_PLANTED_FOUND names, lines as this
 * program prints them, says with which model to begin.
 */
#include "base/errors/planted.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"

static const char *const k_plants[] = {
#define PLANT(name) #name,
#include "plants.inc"
#undef PLANT
};
static const char *g_planted = "";
bool dhowi_planted(const char *mistake) { return strcmp(mistake, g_planted) == 0; }

enum { PLANTS = sizeof k_plants / sizeof k_plants[0] };

/* Which layouts oneDNN likes depends on the processor, so what most processors have comes first; a
 * simulated device likes what it is told. */
static const struct setting {
    const char *name, *isa, *device, *sim;
} k_settings[] = {{"cpu, AVX2", "x86-64-v3", NULL, ""},
                  {"sim, NHWC", "x86-64-v3", "sim", "images=nhwc"},
                  {"sim, blocks of 8", "x86-64-v3", "sim", "images=blocks8"},
                  {"cpu, AVX-512", "x86-64-v4", NULL, ""},
                  {"cpu, SSE4.2", "x86-64-v2", NULL, ""}};

/* Models are tried in one setting and then in the next, this many in each at a time. */
enum { TURN = 2500 };

/* The models of a turn until one goes wrong, written to `count` as they are run. */
static int hunt(const char *plant, const struct setting *setting, uint64_t from, uint64_t end,
                int count) {
    (void)setenv("DHOW_CPU_ISA", setting->isa, 1);
    (void)setenv("DHOW_SIM", setting->sim, 1);
    machine on = {.context = NULL};
    char story[STORY];
    if (dhow_context_create(NULL, &on.context) != DHOW_OK ||
        dhow_device_get(on.context, "cpu", &on.cpu) != DHOW_OK ||
        (setting->device != NULL &&
         dhow_device_get(on.context, setting->device, &on.devices[on.device_count++]) != DHOW_OK)) {
        fprintf(stderr, "planted: %s\n", dhow_last_error());
        return 2;
    }
    for (uint64_t i = from; i < end; i++) {
        (void)!pwrite(count, &i, sizeof i, 0);
        g_planted = "";
        model *m = model_generate(i + 1, 12, 0);
        g_planted = plant;
        const verdict v = run_all_ways(m, &on, story);
        model_free(m);
        if (v == VERDICT_WRONG) return 1;
    }
    return 0;
}

/* The same in a process of its own, which may crash; the number of the last model goes to `at`. */
static bool goes_wrong(const char *plant, const struct setting *setting, uint64_t from,
                       uint64_t end, uint64_t *at, int *status) {
    char path[] = "/tmp/dhow-planted-XXXXXX";
    const int count = mkstemp(path);
    if (count < 0) return false;
    (void)unlink(path);
    (void)fflush(stdout);
    const pid_t child = fork();
    if (child == 0) _exit(hunt(plant, setting, from, end, count));
    if (child < 0 || waitpid(child, status, 0) != child) return false;
    (void)!pread(count, at, sizeof *at, 0);
    (void)close(count);
    if (WIFEXITED(*status) && WEXITSTATUS(*status) == 2) exit(2); /* which it has explained */
    return WIFSIGNALED(*status) || (WIFEXITED(*status) && WEXITSTATUS(*status) == 1);
}

static bool is_found(const char *plant, const struct setting *setting, uint64_t from,
                     uint64_t end) {
    uint64_t at = 0, again;
    int status = 0, ignored;
    const bool found = goes_wrong(plant, setting, from, end, &at, &status);
    if (found && goes_wrong("", setting, at, at + 1, &again, &ignored)) {
        fprintf(stderr, "planted: model %" PRIu64 " goes wrong without a mistake (%s)\n", at + 1,
                setting->name);
        exit(2);
    }
    if (found)
        printf("%-28s model %" PRIu64 "%s (%s)\n", plant, at + 1,
               WIFSIGNALED(status) ? ", a crash" : "", setting->name);
    return found;
}

/* The model that found a mistake before; 0 where none is known. */
static uint64_t model_before(const char *plant, const struct setting **setting) {
    char line[256], name[64], where[64];
    uint64_t number, before = 0;
    const char *path = getenv("DHOW_PLANTED_FOUND");
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    while (file != NULL && before == 0 && fgets(line, sizeof line, file) != NULL) {
        const char *open = strchr(line, '(');
        if (open == NULL || sscanf(line, "%63s model %" SCNu64, name, &number) != 2 ||
            sscanf(open, "(%63[^)])", where) != 1 || strcmp(name, plant) != 0)
            continue;
        for (size_t k = 0; k < sizeof k_settings / sizeof k_settings[0]; k++) {
            if (strcmp(k_settings[k].name, where) != 0) continue;
            *setting = &k_settings[k];
            before = number;
        }
    }
    if (file != NULL) (void)fclose(file);
    return before;
}

static bool is_wanted(int plant, int argc, char **argv) {
    int part, parts;
    if (argc < 3) return true;
    if (sscanf(argv[2], "%d/%d", &part, &parts) == 2 && parts > 0) return plant % parts == part - 1;
    for (int k = 2; k < argc; k++)
        if (strcmp(argv[k], k_plants[plant]) == 0) return true;
    return false;
}

int main(int argc, char **argv) {
    const uint64_t most = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    int missed = 0, all = 0;
    if (most == 0) {
        fprintf(stderr, "usage: planted MOST [K/N | NAME...]\n");
        return 2;
    }
    for (int i = 0; i < PLANTS; i++) {
        if (!is_wanted(i, argc, argv)) continue;
        all++;
        const struct setting *setting = NULL;
        const uint64_t before = model_before(k_plants[i], &setting);
        bool found = before > 0 && is_found(k_plants[i], setting, before - 1, before);
        for (uint64_t from = 0; from < most && !found; from += TURN) {
            const uint64_t end = from + TURN < most ? from + TURN : most;
            for (size_t k = 0; k < sizeof k_settings / sizeof k_settings[0] && !found; k++)
                found = is_found(k_plants[i], &k_settings[k], from, end);
        }
        if (!found) printf("%s: not found in %" PRIu64 " models\n", k_plants[i], most);
        missed += !found;
    }
    printf("%d of %d planted mistakes found\n", all - missed, all);
    return missed != 0;
}
