/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow-conform: whether a plugin keeps to the plugin ABI, case by case.
 */
#include "conform.h"

#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char k_usage[] =
    "usage: dhow-conform [OPTION...] PLUGIN.so [CASE...]\n"
    "\n"
    "Runs the conformance table on a plugin, each group of cases in a process of its own. CASE is "
    "a\n"
    "name, a group, the first word of names, or a pattern such as 'copy/*'; with '!' in front it "
    "is\n"
    "left out.\n"
    "\n"
    "  --device N     the device of the plugin, or 'all'; the default is 0\n"
    "  --expect FILE  cases that are known to fail, one name and '# why' a line; one that passes\n"
    "                 fails the run\n"
    "  --json         one JSON text instead of lines\n"
    "  --list         print the cases and run none\n"
    "  --large        also the cases that take more than 8 GiB of the device's memory\n"
    "  --timeout S    seconds that one case may take; the default is 60\n"
    "  --async-fault VARIABLE=VALUE\n"
    "                 environment under which the plugin's first copy fails after it was "
    "submitted,\n"
    "                 for the case fault/async\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0 all passed, are unsupported or fail as expected; 1 not so; 2 wrong usage.\n";

static bool matches(const char *p, const conform_group *group, const char *name) {
    const size_t length = strlen(p);
    if (strcmp(p, name) == 0 || strcmp(p, group->name) == 0) return true;
    if (strncmp(p, name, length) == 0 && name[length] == '/') return true;
    return strpbrk(p, "*?[") != NULL && fnmatch(p, name, 0) == 0;
}

bool conform_is_wanted(const conform_options *o, const conform_group *group, const char *name) {
    bool named = false, any = false;
    for (int i = 0; i < o->pattern_count; i++) {
        const char *p = o->patterns[i];
        if (p[0] == '!' && matches(p + 1, group, name)) return false;
        if (p[0] == '!') continue;
        any = true;
        named = named || matches(p, group, name);
    }
    return named || !any;
}

/* ---- --list ---- */

static int list_cases(const conform_options *o) {
    uint32_t count = 0;
    for (uint32_t g = 0; g < conform_group_count; g++) {
        for (uint32_t i = 0; i < *conform_groups[g].count; i++) {
            const conform_case *c = &conform_groups[g].cases[i];
            if (!conform_is_wanted(o, &conform_groups[g], c->name)) continue;
            printf("%-28s %-10s %s\n", c->name, conform_groups[g].name, c->tags);
            count++;
        }
    }
    return count > 0 ? 0 : 2;
}

/* ---- the command line ---- */

static bool patterns_match(const conform_options *o) {
    for (int k = 0; k < o->pattern_count; k++) {
        const char *p = o->patterns[k] + (o->patterns[k][0] == '!');
        bool found = strcmp(p, "load") == 0;
        for (uint32_t g = 0; g < conform_group_count; g++) {
            for (uint32_t i = 0; i < *conform_groups[g].count; i++) {
                const char *name = conform_groups[g].cases[i].name;
                found = found || matches(p, &conform_groups[g], name);
            }
        }
        if (found) continue;
        (void)fprintf(stderr, "dhow-conform: no case is called '%s'; --list prints them all\n", p);
        return false;
    }
    return true;
}

/* Folder, file and backend of libdhow_<backend>.so. */
static bool take_plugin(conform_options *o, const char *given) {
    char copy[PATH_MAX];
    const size_t length = strlen(given);
    if (length >= sizeof copy) {
        (void)fprintf(stderr, "dhow-conform: the plugin's path is too long\n");
        return false;
    }
    memcpy(copy, given, length + 1);
    char *slash = strrchr(copy, '/'), *file = slash != NULL ? slash + 1 : copy;
    const size_t file_length = strlen(file), extra = strlen("libdhow_.so");
    if (slash != NULL) *slash = '\0';
    const char *folder = slash == NULL ? "." : copy[0] != '\0' ? copy : "/";
    if (realpath(folder, o->folder) == NULL) {
        (void)fprintf(stderr, "dhow-conform: %s: %s\n", folder, strerror(errno));
        return false;
    }
    if (file_length <= extra || file_length - extra >= sizeof o->backend ||
        strncmp(file, "libdhow_", 8) != 0 || strcmp(file + file_length - 3, ".so") != 0) {
        (void)fprintf(stderr,
                      "dhow-conform: '%s' is not called libdhow_<backend>.so, the only name under "
                      "which a plugin is found\n",
                      file);
        return false;
    }
    memcpy(o->backend, file + strlen("libdhow_"), file_length - extra);
    const int n = snprintf(o->path, sizeof o->path, "%s/%s", o->folder, file);
    if (n < 0 || (size_t)n >= sizeof o->path || access(o->path, F_OK) != 0) {
        (void)fprintf(stderr, "dhow-conform: %s: there is no such file\n", given);
        return false;
    }
    return true;
}

static bool whole_number(const char *text, long low, long high, int *out) {
    char *end;
    errno = 0;
    const long value = strtol(text, &end, 10);
    *out = (int)value;
    return errno == 0 && *text != '\0' && *end == '\0' && value >= low && value <= high;
}

typedef struct command {
    const char *expect, *device;
    bool list;
} command;

static int parse(int argc, char **argv, conform_options *o, command *c) {
    static const struct option names[] = {{"device", required_argument, NULL, 'd'},
                                          {"expect", required_argument, NULL, 'e'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"list", no_argument, NULL, 'l'},
                                          {"large", no_argument, NULL, 'g'},
                                          {"timeout", required_argument, NULL, 't'},
                                          {"async-fault", required_argument, NULL, 'f'},
                                          {"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, 'v'},
                                          {NULL, 0, NULL, 0}};
    int ch;
    while ((ch = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (ch) {
            case 'd':
                c->device = optarg;
                break;
            case 'e':
                c->expect = optarg;
                break;
            case 'j':
                o->json = true;
                break;
            case 'l':
                c->list = true;
                break;
            case 'g':
                o->huge = true;
                break;
            case 't':
                if (whole_number(optarg, 1, 86400, &o->timeout_s)) break;
                (void)fprintf(stderr, "dhow-conform: --timeout: '%s' is no number of seconds\n",
                              optarg);
                return 2;
            case 'f':
                o->async_fault = optarg;
                if (strchr(optarg, '=') != NULL && optarg[0] != '=') break;
                (void)fprintf(stderr, "dhow-conform: --async-fault: '%s' is no VARIABLE=VALUE\n",
                              optarg);
                return 2;
            case 'h':
                (void)fputs(k_usage, stdout);
                return 0;
            case 'v':
                printf("dhow-conform %s\n", dhow_version());
                return 0;
            default:
                (void)fputs(k_usage, stderr);
                return 2;
        }
    }
    return -1;
}

static int run(conform_options *o, const command *c) {
    const bool all = c->device != NULL && strcmp(c->device, "all") == 0;
    int device = 0;
    if (c->device != NULL && !all && !whole_number(c->device, 0, 1023, &device)) {
        (void)fprintf(stderr, "dhow-conform: --device: '%s' is neither a number nor 'all'\n",
                      c->device);
        return 2;
    }
    conform_run_device(o, -1);
    const uint32_t count = conform_run_load(o);
    if (count > 0 && !all && (uint32_t)device >= count) {
        (void)fprintf(stderr, "dhow-conform: %s has %u device%s, --device %d is none of them\n",
                      o->backend, count, count == 1 ? "" : "s", device);
        return 2;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (all || i == (uint32_t)device) conform_run_device(o, (int32_t)i);
    }
    return conform_report_end(o);
}

int main(int argc, char **argv) {
    conform_options o = {.timeout_s = 60};
    command c = {0};
    int done = parse(argc, argv, &o, &c);
    if (done >= 0) return done;
    if (optind >= argc && !c.list) {
        (void)fprintf(stderr, "dhow-conform: which plugin?\n%s", k_usage);
        return 2;
    }
    const int first = optind < argc ? optind + 1 : argc;
    o.patterns = argv + first;
    o.pattern_count = argc - first;
    if (!patterns_match(&o)) return 2;
    if (c.list) return list_cases(&o);
    if (!take_plugin(&o, argv[optind])) return 2;
    if (c.expect != NULL && !conform_expect_read(&o, c.expect)) return 2;
    int status = run(&o, &c);
    free(o.expected);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        (void)fprintf(stderr, "dhow-conform: the output could not be written\n");
        return 1;
    }
    return status;
}
