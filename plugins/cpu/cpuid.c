/* SPDX-License-Identifier: Apache-2.0
 *
 * What this processor is: its instruction set and name.
 */
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <stdio.h>
#include <string.h>

#include "cpu.h"

#if defined(__x86_64__)
/* What compilers may use at each level of the x86-64 psABI, by the words of CPUID. Virtual machines
 * mask single bits. */
static const cpu_features levels[] = {
    [CPU_ISA_V2] = {.basic = bit_SSE3 | bit_SSSE3 | bit_CMPXCHG16B | bit_SSE4_1 | bit_SSE4_2 |
                             bit_POPCNT,
                    .extended = bit_LAHF_LM},
    [CPU_ISA_V3] = {.basic = bit_FMA | bit_MOVBE | bit_OSXSAVE | bit_AVX | bit_F16C,
                    .seven = bit_BMI | bit_AVX2 | bit_BMI2,
                    .extended = bit_LZCNT,
                    .saved = 0x6}, /* registers of AVX */
    [CPU_ISA_V4] = {
        .seven = bit_AVX512F | bit_AVX512DQ | bit_AVX512CD | bit_AVX512BW | bit_AVX512VL,
        .saved = 0xe6}}; /* and of AVX-512 */

static int has_all(const cpu_features *have, const cpu_features *want) {
    return (want->basic & ~have->basic) == 0 && (want->seven & ~have->seven) == 0 &&
           (want->extended & ~have->extended) == 0 && (want->saved & ~have->saved) == 0;
}

int cpu_isa_of(const cpu_features *features) {
    int best = -1;
    while (best < CPU_ISA_V4 && has_all(features, &levels[best + 1])) best++;
    return best;
}

cpu_features cpu_features_here(void) {
    cpu_features found = {0, 0, 0, 0};
    uint32_t a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d)) found.basic = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) found.seven = b;
    if (__get_cpuid(0x80000001, &a, &b, &c, &d)) found.extended = c;
    /* The system has to save the wide registers. */
    if (found.basic & bit_OSXSAVE) {
        __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
        found.saved = a;
    }
    return found;
}

int cpu_best_isa(void) {
    const cpu_features here = cpu_features_here();
    return cpu_isa_of(&here);
}

/* Zen 5: eight rows beside each other come at 68 GB/s, but at 50 where they are asked for. Zen 4
 * was slower by as much than libraries that do not ask. */
int cpu_reads_rows_ahead(void) {
    enum { ZEN_4 = 0x19 }; /* and Zen 3, of which that was not seen */
    uint32_t a = 0, b, c, d;
    if (!__builtin_cpu_is("amd") || cpu_best_isa() < CPU_ISA_V4 || !__get_cpuid(1, &a, &b, &c, &d))
        return 0;
    return (a >> 8 & 0xf) + (a >> 20 & 0xff) >= ZEN_4; /* family */
}
#else
int cpu_best_isa(void) { return CPU_ISA_V2; } /* the only entry: the compiler's default */
int cpu_reads_rows_ahead(void) { return 0; }
#endif

const char *cpu_isa_name(int isa) {
#if defined(__x86_64__)
    static const char *const names[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
    return names[isa];
#else
    (void)isa;
    return "baseline";
#endif
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
