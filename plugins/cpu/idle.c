/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the cores of the system have had nothing to do: the first line of /proc/stat, in
 * hundredths of a second. (The count of running threads in /proc/loadavg is of no use for this: it
 * holds threads that just went to sleep.)
 */
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "cpu.h"

static int64_t idle_time(void) {
    long long idle = 0, waiting = 0;
    FILE *file = fopen("/proc/stat", "re");
    if (!file) return -1;
    const int found = fscanf(file, "cpu %*s %*s %*s %lld %lld", &idle, &waiting);
    (void)fclose(file);
    return found == 2 ? (idle + waiting) * (1000000000 / sysconf(_SC_CLK_TCK)) : -1;
}

cpu_idle cpu_idle_now(void) {
    cpu_set_t own;
    const int cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (sched_getaffinity(0, sizeof own, &own) != 0 || CPU_COUNT(&own) != cores)
        return (cpu_idle){0};
    const int64_t time = idle_time();
    return (cpu_idle){time >= 0 ? cores : 0, time};
}
