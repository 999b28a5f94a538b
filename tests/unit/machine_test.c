/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process may use of its machine, read from made-up /proc and /sys folders. A container with
 * a quota of 2 on 64 cores was given 64 threads, and one with a limit of memory was told of the
 * machine's.
 */
#include "base/threads/machine.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

/* Writes root/path and makes its folders. */
static void put(const char *path, const char *text) {
    char full[512];
    (void)snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = strchr(full + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    cr_assert_not_null(file, "%s", full);
    cr_assert(fputs(text, file) >= 0);
    (void)fclose(file);
}

static void begin(void) {
    (void)snprintf(root, sizeof root, "/tmp/dhow-machine-XXXXXX");
    cr_assert_not_null(mkdtemp(root));
    put("proc/meminfo", "MemTotal: 8388608 kB\nMemFree: 100 kB\nMemAvailable: 4194304 kB\n");
}

static void end(void) {
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", root);
    cr_assert_eq(system(command), 0);
}

TestSuite(machine, .init = begin, .fini = end);

static unsigned by_affinity(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
    return (unsigned)CPU_COUNT(&set);
}

Test(machine, cores_without_a_quota_are_those_of_the_affinity_mask) {
    put("proc/self/cgroup", "0::/user.slice\n");
    put("sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
    cr_assert_eq(dhowi_machine_cores(root), by_affinity());
    cr_assert_eq(dhowi_machine_cores("/nonexistent"), by_affinity());
}

Test(machine, affinity_to_one_core_gives_one) {
    cpu_set_t set, one;
    CPU_ZERO(&set);
    CPU_ZERO(&one);
    cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &set)) CPU_SET(i, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    cr_assert_eq(dhowi_machine_cores(root), 1);
}

Test(machine, a_quota_of_version_2_limits_the_cores) {
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/b/cpu.max", "90000 100000\n");
    cr_assert_eq(dhowi_machine_cores(root), 1);
}

Test(machine, a_quota_of_a_group_above_counts) {
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    put("sys/fs/cgroup/a/cpu.max", "50000 100000\n");
    cr_assert_eq(dhowi_machine_cores(root), 1);
}

Test(machine, in_a_container_the_root_is_the_own_group) {
    put("proc/self/cgroup", "0::/docker/0123456789abcdef\n");
    put("sys/fs/cgroup/cpu.max", "100000 100000\n");
    cr_assert_eq(dhowi_machine_cores(root), 1);
}

Test(machine, a_quota_of_version_1_limits_the_cores) {
    put("proc/self/cgroup", "7:memory:/x\n4:cpu,cpuacct:/x\n1:name=systemd:/y\n");
    put("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "100000\n");
    put("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
    cr_assert_eq(dhowi_machine_cores(root), 1);
    put("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
    cr_assert_eq(dhowi_machine_cores(root), by_affinity());
}

static void check_memory(unsigned long long expected_free, unsigned long long expected_total) {
    uint64_t available = 0, total = 0;
    dhowi_machine_memory(root, &available, &total);
    cr_assert_eq(available, expected_free << 20, "%llu", (unsigned long long)available);
    cr_assert_eq(total, expected_total << 20, "%llu", (unsigned long long)total);
}

Test(machine, memory_without_a_limit_is_the_machines) {
    put("proc/self/cgroup", "0::/\n");
    put("sys/fs/cgroup/memory.max", "max\n");
    check_memory(4096, 8192);
}

Test(machine, a_limit_of_version_2_bounds_the_memory_and_page_cache_counts_as_free) {
    put("proc/self/cgroup", "0::/a\n");
    put("sys/fs/cgroup/a/memory.max", "1073741824\n");
    put("sys/fs/cgroup/a/memory.current", "536870912\n");
    put("sys/fs/cgroup/a/memory.stat", "anon 4096\ninactive_file 268435456\nactive_file 1\n");
    check_memory(768, 1024);
}

Test(machine, a_limit_of_version_1_bounds_the_memory) {
    put("proc/self/cgroup", "7:memory:/x\n");
    put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1073741824\n");
    put("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "2147483648\n");
    check_memory(0, 1024);
    put("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n");
    check_memory(4096, 8192);
}
