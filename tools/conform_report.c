/* SPDX-License-Identifier: Apache-2.0
 *
 * What dhow-conform prints.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "conform.h"

static uint32_t counts[4];
static json_t *cases;

static const char *outcome_name(conform_outcome outcome) {
    static const char *const names[] = {"pass", "FAIL", "unsupported", "expected failure"};
    return names[outcome];
}

/* One line of text: reasons hold what plugins say. */
static void make_plain(char *text) {
    json_t *whole = json_string(text); /* NULL when it is no UTF-8 */
    for (char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 127) *c = ' ';
        if (whole == NULL && (unsigned char)*c > 127) *c = '?';
    }
    json_decref(whole);
}

static void print(const conform_options *o, const char *device, const char *name,
                  conform_outcome outcome, const char *given) {
    char reason[2000];
    counts[outcome]++;
    (void)snprintf(reason, sizeof reason, "%s", given);
    make_plain(reason);
    if (!o->json) {
        printf("%-16s  %-*s%s%s\n", outcome_name(outcome), reason[0] != '\0' ? 24 : 0, name,
               reason[0] != '\0' ? "  " : "", reason);
        (void)fflush(stdout);
        return;
    }
    if (cases == NULL) cases = json_array();
    const char *word = outcome == OUTCOME_FAIL ? "fail" : outcome_name(outcome);
    (void)json_array_append_new(cases, json_pack("{s:s, s:s?, s:s, s:s}", "name", name, "device",
                                                 device, "result", word, "reason", reason));
}

void conform_report(conform_options *o, const char *device, const char *name, conform_result result,
                    const char *reason) {
    char text[1800];
    conform_expected *e = conform_expect_find(o, name);
    if (e == NULL || result == CONFORM_UNSUPPORTED) {
        print(o, device, name,
              result == CONFORM_PASS   ? OUTCOME_PASS
              : result == CONFORM_FAIL ? OUTCOME_FAIL
                                       : OUTCOME_UNSUPPORTED,
              reason);
        return;
    }
    if (result == CONFORM_FAIL) {
        (void)snprintf(text, sizeof text, "%s (%s)", e->comment, reason);
        print(o, device, name, OUTCOME_EXPECTED, text);
        return;
    }
    print(o, device, name, OUTCOME_FAIL,
          "it passes, and is listed as failing; remove it from the --expect file");
}

void conform_report_device(const conform_options *o, const char *device) {
    if (o->json) return;
    printf("\n%s\n", device);
    (void)fflush(stdout);
}

int conform_report_end(const conform_options *o) {
    const bool failed = counts[OUTCOME_FAIL] > 0;
    if (!o->json) {
        printf("\n%s: %u passed, %u failed, %u unsupported, %u expected failure%s\n", o->path,
               counts[OUTCOME_PASS], counts[OUTCOME_FAIL], counts[OUTCOME_UNSUPPORTED],
               counts[OUTCOME_EXPECTED], counts[OUTCOME_EXPECTED] == 1 ? "" : "s");
        return failed ? 1 : 0;
    }
    json_t *root =
        json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:o}", "version", dhow_version(), "plugin",
                  o->path, "backend", o->backend, "passed", (int)counts[OUTCOME_PASS], "failed",
                  (int)counts[OUTCOME_FAIL], "unsupported", (int)counts[OUTCOME_UNSUPPORTED],
                  "expected_failures", (int)counts[OUTCOME_EXPECTED], "cases",
                  cases != NULL ? cases : json_array());
    const bool printed = root != NULL && json_dumpf(root, stdout, JSON_INDENT(2)) == 0;
    printf("\n");
    json_decref(root);
    if (!printed) (void)fprintf(stderr, "dhow-conform: the JSON text could not be made\n");
    return failed || !printed ? 1 : 0;
}
