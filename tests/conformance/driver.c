/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the conformance table under Criterion: one test per file of cases, for that a process and
 * its drivers start once; inside, every case on every device. DHOW_DEVICE chooses: "opencl" all
 * devices of a backend, "sim:1" one.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"

typedef struct tally {
    uint32_t passed, unsupported, failed;
} tally;

static bool is_wanted(const char *list, const char *name) {
    if (list == NULL || strcmp(list, "auto") == 0) return true;
    for (const char *word = list;; word++) {
        size_t length = strcspn(word, ",");
        bool same = strncmp(word, name, length) == 0;
        if (length > 0 && same && (name[length] == '\0' || name[length] == ':')) return true;
        word += length;
        if (*word == '\0') return false;
    }
}

static void run_on(conform_env *env, const conform_group *group, tally *t) {
    const char *name = dhow_device_name(env->device);
    for (uint32_t i = 0; i < *group->count; i++) {
        const conform_case *c = &group->cases[i];
        switch (conform_run(env, c)) {
            case CONFORM_PASS:
                t->passed++;
                break;
            case CONFORM_UNSUPPORTED:
                t->unsupported++;
                printf("%s: %s: unsupported: %s\n", name, c->name, env->message);
                break;
            case CONFORM_FAIL:
                t->failed++;
                cr_expect_fail("%s: %s: %s", name, c->name, env->message);
                break;
        }
    }
}

static void run_group(const char *wanted) {
    const char *list = getenv("DHOW_DEVICE"), *folder = getenv("TMPDIR");
    conform_env env = {.folder = folder != NULL ? folder : "/tmp"};
    uint32_t devices = 0;
    cr_assert_eq(dhow_context_create(NULL, &env.context), DHOW_OK, "%s", dhow_last_error());
    for (uint32_t d = 0; d < dhow_device_count(env.context); d++) {
        cr_assert_eq(dhow_device_at(env.context, d, &env.device), DHOW_OK);
        if (!is_wanted(list, dhow_device_name(env.device))) continue;
        tally t = {0, 0, 0};
        for (uint32_t g = 0; g < conform_group_count; g++) {
            if (strcmp(conform_groups[g].name, wanted) == 0) run_on(&env, &conform_groups[g], &t);
        }
        devices++;
        printf("%s: %s: %u passed, %u unsupported, %u failed\n", dhow_device_name(env.device),
               wanted, t.passed, t.unsupported, t.failed);
    }
    dhow_context_release(env.context);
    if (devices == 0) cr_skip_test("no device of '%s' is here", list);
}

Test(conformance, memory) { run_group("memory"); }
Test(conformance, copy) { run_group("copy"); }
Test(conformance, stream) { run_group("stream"); }
Test(conformance, graph) { run_group("graph"); }
Test(conformance, kernel) { run_group("kernel"); }
Test(conformance, ops) { run_group("ops"); }
Test(conformance, functions) { run_group("functions"); }
Test(conformance, error) { run_group("error"); }
