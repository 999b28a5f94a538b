/* SPDX-License-Identifier: Apache-2.0
 *
 * What this machine is: instruction set, cores that may be used, model name, memory, cache.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "cpu.h"

int cpu_best_isa(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd")) {
        return CPU_ISA_V4;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2")) {
        return CPU_ISA_V3;
    }
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt") ? CPU_ISA_V2 : -1;
#else
    return CPU_ISA_V2; /* the only entry: the compiler's default */
#endif
}

const char *cpu_isa_name(int isa) {
#if defined(__x86_64__)
    static const char *const names[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
    return names[isa];
#else
    (void)isa;
    return "baseline";
#endif
}

/* The CPU bandwidth limit of the control group (version 2), rounded up; 0 when there is none. */
static int cgroup_cores(void) {
    long long quota = 0, period = 0;
    int found = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (!file) return 0;
    found = fscanf(file, "%lld %lld", &quota, &period);
    fclose(file);
    if (found != 2 || quota <= 0 || period <= 0) return 0;
    return (int)((quota + period - 1) / period);
}

int cpu_usable_cores(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                            : (int)sysconf(_SC_NPROCESSORS_ONLN);
    const int limit = cgroup_cores();
    if (limit > 0 && limit < cores) cores = limit;
    return cores > 0 ? cores : 1;
}

void cpu_model_name(char *out, size_t bytes) {
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    (void)snprintf(out, bytes, "%s", "CPU");
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !value) continue;
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = '\0';
        (void)snprintf(out, bytes, "%s", value);
        break;
    }
    fclose(file);
}

void cpu_memory_info(uint64_t *out_free, uint64_t *out_total) {
    struct sysinfo info;
    *out_free = *out_total = 0;
    if (sysinfo(&info) == 0) {
        *out_total = (uint64_t)info.totalram * info.mem_unit;
        *out_free = ((uint64_t)info.freeram + info.bufferram) * info.mem_unit;
    }
    /* MemAvailable counts the page cache that would be given back, which sysinfo does not. */
    FILE *file = fopen("/proc/meminfo", "re");
    if (!file) return;
    char line[128];
    unsigned long long kib;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) {
            *out_free = (uint64_t)kib * 1024;
            break;
        }
    }
    fclose(file);
}
