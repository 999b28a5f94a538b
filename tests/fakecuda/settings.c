/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads settings and fault scripts; fakecuda.h describes them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static bool parse_int(const char *text, size_t length, int limit, int *out) {
    char digits[12], *end = NULL;
    if (length == 0 || length >= sizeof digits || text[0] < '0' || text[0] > '9') return false;
    memcpy(digits, text, length);
    digits[length] = '\0';
    const long value = strtol(digits, &end, 10);
    if (*end != '\0' || value > limit) return false;
    *out = (int)value;
    return true;
}

/* 1: set; 0: wrong value; -1: another's setting. */
static int set(fake_settings *to, const char *key, size_t key_length, const char *value,
               size_t length) {
    const struct {
        const char *name;
        int *target, limit;
    } numbers[] = {{"driver", &to->driver, 99999},
                   {"runtime", &to->runtime, 99999},
                   {"cc", &to->cc, 999},
                   {"sms", &to->sms, 1024},
                   {"ecc", &to->ecc, 1},
                   {"peer", &to->peer, 2},
                   {"init", &to->init, 9999},
                   {"code", &to->code, 999},
                   {"slow_ms", &to->slow_ms, 9999},
                   {"clock_s", &to->clock_s, 99999}};
    const struct {
        const char *name;
        bool *target;
    } switches[] = {{"strict", &to->strict},
                    {"stub", &to->stub},
                    {"hidden", &to->hidden},
                    {"legacy", &to->legacy},
                    {"waits", &to->waits},
                    {"quiesce", &to->quiesce},
                    {"eager", &to->eager},
                    {"mig", &to->mig},
                    {"nolt", &to->nolt},
                    {"nonvrtc", &to->nonvrtc},
                    {"noheuristic", &to->noheuristic},
                    {"nocudnn", &to->nocudnn},
                    {"nofused", &to->nofused},
                    {"nonvml", &to->nonvml},
                    {"nonccl", &to->nonccl},
                    {"oldnccl", &to->oldnccl},
                    {"log", &to->log},
                    {"idle", &to->idle},
                    {"ptx", &to->ptx},
                    {"costs", &to->costs},
                    {"plain_copies", &to->plain_copies},
                    {"wide", &to->wide}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strlen(numbers[i].name) == key_length && memcmp(numbers[i].name, key, key_length) == 0)
            return parse_int(value, length, numbers[i].limit, numbers[i].target);
    }
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++) {
        int number = 0;
        if (strlen(switches[i].name) != key_length ||
            memcmp(switches[i].name, key, key_length) != 0)
            continue;
        if (!parse_int(value, length, 1, &number)) return 0;
        *switches[i].target = number == 1;
        return 1;
    }
    return -1;
}

static bool set_word(fake_settings *to, const char *word, size_t length, char *why, size_t bytes) {
    char copy[128];
    const char *equals = memchr(word, '=', length);
    int done = 0;
    if (equals != NULL)
        done = set(to, word, (size_t)(equals - word), equals + 1,
                   length - (size_t)(equals + 1 - word));
    if (done == 1) return true;
    dhow_error err = {.struct_size = sizeof err};
    if (done == -1 && length < sizeof copy) {
        memcpy(copy, word, length);
        copy[length] = '\0';
        if (simdev_config_parse(&to->machine, copy, &err) == DHOW_OK) return true;
    }
    (void)snprintf(why, bytes, "'%.*s' is no setting of the fake CUDA runtime", (int)length, word);
    return false;
}

bool fake_settings_parse(fake_settings *out, const char *text, char *why, size_t why_bytes) {
    memset(out, 0, sizeof *out);
    simdev_config_init(&out->machine);
    out->driver = out->runtime = CUDART_VERSION;
    out->cc = 90;
    out->sms = 4;
    out->ecc = 1;
    out->peer = 1;
    out->waits = true;
    for (const char *p = text; p != NULL && *p != '\0';) {
        const size_t length = strcspn(p, ",");
        if (!set_word(out, p, length, why, why_bytes)) return false;
        p += length;
        if (*p == ',') p++;
    }
    return true;
}

static bool parse_fault(fake_fault *fault, const char *text, size_t length) {
    const char *p = text + strcspn(text, "#@;"), *end = text + length;
    const size_t name_length = (size_t)(p - text);
    char *stop = NULL;
    memset(fault, 0, sizeof *fault);
    fault->device = -1;
    if (name_length == 0 || name_length >= sizeof fault->function) return false;
    memcpy(fault->function, text, name_length);
    if (*p == '#') {
        fault->device = (int)strtol(p + 1, &stop, 10);
        if (stop == p + 1) return false;
        p = stop;
    }
    if (*p++ != '@') return false;
    fault->nth = strtoull(p, &stop, 10);
    if (stop == p || fault->nth == 0) return false;
    p = stop;
    if (*p == '+') {
        fault->onwards = true;
        p++;
    }
    if (*p++ != '=') return false;
    if (end - p > 6 && memcmp(p, "async:", 6) == 0) {
        fault->async = true;
        p += 6;
    }
    return parse_int(p, (size_t)(end - p), 9999, &fault->code) && fault->code != 0;
}

bool fake_faults_parse(fake_fault *out, uint32_t *out_count, const char *text, char *why,
                       size_t why_bytes) {
    *out_count = 0;
    for (const char *p = text; p != NULL && *p != '\0';) {
        p += strspn(p, "; ");
        const size_t length = strcspn(p, ";");
        if (length == 0) break;
        if (*out_count == FAKE_MAX_FAULTS || !parse_fault(&out[*out_count], p, length)) {
            (void)snprintf(why, why_bytes,
                           "'%.*s' is no line of a fault script: FUNCTION[#DEVICE]@N[+]=CODE, or "
                           "there are more than %d",
                           (int)length, p, FAKE_MAX_FAULTS);
            return false;
        }
        (*out_count)++;
        p += length;
    }
    return true;
}
