/* SPDX-License-Identifier: Apache-2.0
 *
 * random_programs [FIRST_SEED] [COUNT] [OPERATIONS]: runs random programs on all devices that are
 * there. Prints a minimal program for the first seed that fails.
 */
#include <stdlib.h>
#include <string.h>

#include "program.h"

static bool open_machine(machine *m) {
    dhow_device *cpu, *device;
    if (dhow_context_create(NULL, &m->context) != DHOW_OK ||
        dhow_device_get(m->context, "cpu", &cpu) != DHOW_OK)
        return false;
    m->devices[m->device_count++] = cpu;
    for (uint32_t i = 0; i < dhow_device_count(m->context) && m->device_count < MAX_DEVICES; i++) {
        if (dhow_device_at(m->context, i, &device) != DHOW_OK) return false;
        if (device != cpu) m->devices[m->device_count++] = device;
    }
    for (int d = 0; d < m->device_count; d++) {
        for (int s = 1; s < STREAMS; s++)
            if (dhow_stream_create(m->devices[d], &m->streams[d][s]) != DHOW_OK) return false;
    }
    return true;
}

static void close_machine(machine *m) {
    for (int d = 0; d < m->device_count; d++)
        for (int s = 1; s < STREAMS; s++) dhow_stream_release(m->streams[d][s]);
    dhow_context_release(m->context);
}

static int report(program *p, const machine *m, const char *story) {
    (void)fprintf(stderr, "seed %llu fails: %s\n", (unsigned long long)p->seed, story);
    program_minimise(p, m);
    (void)fprintf(stderr, "the shortest program found that fails, devices being");
    for (int d = 0; d < m->device_count; d++)
        (void)fprintf(stderr, " %d: %s", d, dhow_device_name(m->devices[d]));
    (void)fprintf(stderr, "\n");
    program_print(p, stderr);
    return 1;
}

int main(int argc, char **argv) {
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int count = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 1000;
    int length = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 60;
    static machine m;
    static program p;
    char story[512];
    if (!open_machine(&m)) {
        (void)fprintf(stderr, "random_programs: %s\n", dhow_last_error());
        return 1;
    }
    long operations = 0;
    for (int i = 0; i < count; i++) {
        program_generate(&p, first + (uint64_t)i, length, m.device_count);
        operations += p.count;
        if (!program_run(&p, &m, story, sizeof story)) return report(&p, &m, story);
    }
    printf("random_programs: %d programs with %ld operations on %d devices are right\n", count,
           operations, m.device_count);
    close_machine(&m);
    return 0;
}
