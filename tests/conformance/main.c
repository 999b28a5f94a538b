/* SPDX-License-Identifier: Apache-2.0
 *
 * The conformance table without a test framework, in one process: for compute-sanitizer and other
 * tools that watch a process.
 *
 *     conformance_main DEVICE [PREFIX...]    the cases whose names begin with a prefix, else all
 */
#include <stdio.h>
#include <string.h>

#include "conformance.h"

static bool is_wanted(const char *name, int count, char **prefixes) {
    for (int i = 0; i < count; i++) {
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
    }
    return count == 0;
}

int main(int argc, char **argv) {
    conform_env env = {.folder = "/tmp"};
    uint32_t passed = 0, unsupported = 0, failed = 0;
    if (argc < 2) {
        (void)fprintf(stderr, "usage: conformance_main DEVICE [PREFIX...]\n");
        return 2;
    }
    if (dhow_context_create(NULL, &env.context) != DHOW_OK ||
        dhow_device_get(env.context, argv[1], &env.device) != DHOW_OK) {
        (void)fprintf(stderr, "conformance_main: %s\n", dhow_last_error());
        return 2;
    }
    for (uint32_t g = 0; g < conform_group_count; g++) {
        if (conform_groups[g].kind != CONFORM_API) continue; /* dhow-conform's */
        for (uint32_t i = 0; i < *conform_groups[g].count; i++) {
            const conform_case *c = &conform_groups[g].cases[i];
            if (!is_wanted(c->name, argc - 2, argv + 2)) continue;
            const conform_result result = conform_run(&env, c);
            passed += result == CONFORM_PASS;
            unsupported += result == CONFORM_UNSUPPORTED;
            failed += result == CONFORM_FAIL;
            if (result != CONFORM_PASS)
                printf("%s: %s: %s\n", c->name, result == CONFORM_FAIL ? "FAILED" : "unsupported",
                       env.message);
        }
    }
    dhow_context_release(env.context);
    printf("%s: %u passed, %u unsupported, %u failed\n", argv[1], passed, unsupported, failed);
    return failed > 0 || passed == 0;
}
