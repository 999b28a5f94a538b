/* SPDX-License-Identifier: Apache-2.0
 *
 * See folders.h.
 */
#include "folders.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int folders_in(const char *parent, char *names[FOLDERS_MOST]) {
    DIR *d = opendir(parent);
    const struct dirent *entry;
    int count = 0;
    while (d != NULL && count < FOLDERS_MOST && (entry = readdir(d)) != NULL) {
        if (entry->d_name[0] != '.') names[count++] = strdup(entry->d_name);
    }
    if (d != NULL) (void)closedir(d);
    qsort(names, (size_t)count, sizeof *names, by_name);
    return count;
}

int folders_join(char *path, size_t capacity, const char *parent, const char *name) {
    char file[600];
    struct stat about;
    (void)snprintf(path, capacity, "%.400s/%.100s", parent, name);
    (void)snprintf(file, sizeof file, "%.520s/model.onnx", path);
    return stat(file, &about) == 0;
}
