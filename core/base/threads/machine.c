/* SPDX-License-Identifier: Apache-2.0
 *
 * See machine.h. A limit of control groups holds for all groups below, so each from the process's
 * own up to the root is asked. In a container the path in /proc/self/cgroup may be the host's and
 * not be there; then the root, which is the container's own group, is what counts.
 */
#include "base/threads/machine.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/memory/size.h"
#include "base/text/text.h"

/* ---- files ---- */

/* The whole of a small file; false where there is none. */
static bool read_text(const char *folder, const char *name, char *text, size_t capacity) {
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof path) return false;
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    text[fread(text, 1, capacity - 1, file)] = '\0';
    fclose(file);
    return true;
}

/* The number after `key` at the start of a line, or at the start of the text where key is "". */
static bool find_number(const char *text, const char *key, uint64_t *out) {
    const size_t length = strlen(key);
    for (const char *line = text; line != NULL && *line != '\0';) {
        char *end = NULL;
        if (strncmp(line, key, length) == 0) {
            *out = strtoull(line + length, &end, 10);
            if (end != line + length) return true;
        }
        line = strchr(line, '\n');
        if (line != NULL) line++;
    }
    return false;
}

static bool read_number(const char *folder, const char *name, const char *key, uint64_t *out) {
    char text[8192];
    return read_text(folder, name, text, sizeof text) && find_number(text, key, out);
}

/* ---- control groups ---- */

typedef void (*visit_fn)(const char *folder, void *data);

/* Visits base/path and each folder above it up to base. */
static void visit_upwards(const char *base, const char *path, size_t length, visit_fn visit,
                          void *data) {
    char folder[PATH_MAX];
    for (;;) {
        const int written = snprintf(folder, sizeof folder, "%s%.*s", base, (int)length, path);
        if (written > 0 && (size_t)written < sizeof folder) visit(folder, data);
        if (length == 0) return;
        do {
            length--;
        } while (length > 0 && path[length] != '/');
    }
}

/* Whether the comma-separated list holds the word. */
static bool holds(const char *list, size_t length, const char *word) {
    const size_t bytes = strlen(word);
    for (const char *end = list + length; list < end;) {
        const size_t part = strcspn(list, ",:");
        if (part == bytes && memcmp(list, word, bytes) == 0) return true;
        list += part + 1;
    }
    return false;
}

/* Visits all groups of a controller that the process is in. Their lines in /proc/self/cgroup are
 * "0::/path" in version 2 and "number:controllers:/path" in version 1. */
static void visit_groups(const char *root, const char *controller, visit_fn visit, void *data) {
    char folder[PATH_MAX], text[8192];
    (void)snprintf(folder, sizeof folder, "%s/proc/self", root);
    if (!read_text(folder, "cgroup", text, sizeof text))
        (void)snprintf(text, sizeof text, "0::/\n1:%s:/\n", controller);
    for (char *line = text, *rest = NULL; (line = strtok_r(line, "\n", &rest)); line = NULL) {
        const char *list = strchr(line, ':');
        const char *path = list != NULL ? strchr(list + 1, ':') : NULL;
        if (path == NULL) continue;
        const size_t listed = (size_t)(path - list) - 1;
        if (listed == 0) {
            (void)snprintf(folder, sizeof folder, "%s/sys/fs/cgroup", root);
        } else if (holds(list + 1, listed, controller)) {
            (void)snprintf(folder, sizeof folder, "%s/sys/fs/cgroup/%s", root, controller);
        } else {
            continue;
        }
        const char *group = path + 1;
        size_t length = strlen(group);
        while (length > 0 && group[length - 1] == '/') length--;
        visit_upwards(folder, group, length, visit, data);
    }
}

/* ---- cores ---- */

static void limit_cores(const char *folder, void *data) {
    uint32_t *cores = data;
    uint64_t quota = 0, period = 0;
    char text[64];
    if (read_text(folder, "cpu.max", text, sizeof text)) { /* "200000 100000" or "max 100000" */
        const char *blank = strchr(text, ' ');
        if (blank == NULL || !find_number(text, "", &quota) || !find_number(blank + 1, "", &period))
            return;
    } else if (!read_text(folder, "cpu.cfs_quota_us", text, sizeof text) || text[0] == '-' ||
               !find_number(text, "", &quota) ||
               !read_number(folder, "cpu.cfs_period_us", "", &period)) {
        return; /* -1 is no limit */
    }
    if (quota == 0 || period == 0) return;
    const uint64_t limit = (quota - 1) / period + 1;
    if (limit < *cores) *cores = (uint32_t)limit;
}

uint32_t dhowi_machine_cores(const char *root) {
    cpu_set_t set;
    CPU_ZERO(&set);
    long found = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                             : sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t cores = found > 0 ? (uint32_t)found : 1;
    visit_groups(root, "cpu", limit_cores, &cores);
    return cores;
}

/* ---- memory ---- */

typedef struct memory {
    uint64_t free, total;
} memory;

static void limit_memory(const char *folder, void *data) {
    memory *m = data;
    uint64_t limit = 0, used = 0, given_back = 0;
    if (read_number(folder, "memory.max", "", &limit)) {
        (void)read_number(folder, "memory.current", "", &used);
        (void)read_number(folder, "memory.stat", "inactive_file ", &given_back);
    } else if (read_number(folder, "memory.limit_in_bytes", "", &limit)) {
        (void)read_number(folder, "memory.usage_in_bytes", "", &used);
        (void)read_number(folder, "memory.stat", "total_inactive_file ", &given_back);
    } else {
        return; /* "max" is no number */
    }
    if (m->total != 0 && limit >= m->total) return;
    used -= DHOWI_MIN(used, given_back);
    m->total = limit;
    m->free = DHOWI_MIN(m->free, limit - DHOWI_MIN(limit, used));
}

void dhowi_machine_memory(const char *root, uint64_t *out_free, uint64_t *out_total) {
    char folder[PATH_MAX];
    struct sysinfo info;
    memory m = {0, 0};
    (void)snprintf(folder, sizeof folder, "%s/proc", root);
    if (read_number(folder, "meminfo", "MemTotal:", &m.total) &&
        read_number(folder, "meminfo", "MemAvailable:", &m.free)) {
        m.total *= 1024;
        m.free *= 1024;
    } else if (sysinfo(&info) == 0) {
        m.total = (uint64_t)info.totalram * info.mem_unit;
        m.free = ((uint64_t)info.freeram + info.bufferram) * info.mem_unit;
    }
    visit_groups(root, "memory", limit_memory, &m);
    *out_free = m.free;
    *out_total = m.total;
}
