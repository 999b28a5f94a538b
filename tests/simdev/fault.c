/* SPDX-License-Identifier: Apache-2.0
 *
 * The fault script: which call fails, how, and whether its device survives.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static const struct {
    const char *name;
    int32_t status;
} statuses[] = {
#define SIMDEV_STATUS_(name, number, meaning) {#name, number},
    DHOW_STATUS_MAP(SIMDEV_STATUS_)
#undef SIMDEV_STATUS_
};

static int32_t status_of(const char *text, size_t length) {
    for (size_t i = 1; i < sizeof statuses / sizeof statuses[0]; i++) {
        if (strlen(statuses[i].name) == length && memcmp(statuses[i].name, text, length) == 0)
            return statuses[i].status;
    }
    return DHOW_OK;
}

/* A decimal number from `*p` on, which moves past it; 0 when there is none. */
static uint64_t take_number(const char **p) {
    char *end = NULL;
    if (**p < '0' || **p > '9') return 0;
    uint64_t value = strtoull(*p, &end, 10);
    *p = end;
    return value;
}

/* Calls that hand work to a stream: only they can fail later. */
static bool makes_work(const char *point) {
    return strcmp(point, "copy") == 0 || strcmp(point, "fill") == 0 ||
           strcmp(point, "peer_copy") == 0 || strcmp(point, "launch") == 0 ||
           strncmp(point, "kernel:", 7) == 0;
}

static bool parse_fault(simdev_fault *fault, const char *text, size_t length) {
    const char *end = text + length, *p = text + strcspn(text, "#@;");
    size_t name_length = (size_t)(p - text);
    memset(fault, 0, sizeof *fault);
    fault->device = -1;
    if (name_length == 0 || name_length >= sizeof fault->point) return false;
    memcpy(fault->point, text, name_length);
    if (*p == '#') {
        p++;
        if (*p < '0' || *p > '9') return false;
        uint64_t device = take_number(&p);
        if (device >= SIMDEV_MAX_DEVICES) return false;
        fault->device = (int32_t)device;
    }
    if (*p++ != '@') return false;
    fault->nth = take_number(&p);
    if (fault->nth == 0) return false;
    if (*p == '+') {
        fault->onwards = true;
        p++;
    }
    if (*p++ != '=') return false;
    if (end - p > 6 && memcmp(p, "async:", 6) == 0) {
        fault->async = true;
        p += 6;
    }
    if (end > p && end[-1] == '!') {
        fault->loses = true;
        end--;
    }
    fault->status = end > p ? status_of(p, (size_t)(end - p)) : DHOW_OK;
    return fault->status != DHOW_OK && (!fault->async || makes_work(fault->point));
}

int32_t simdev_config_parse_faults(simdev_config *config, const char *script, dhow_error *err) {
    for (const char *p = script; p != NULL && *p != '\0';) {
        size_t length = strcspn(p, ";");
        if (config->fault_count == SIMDEV_MAX_FAULTS)
            return simdev_fail(err, DHOW_OUT_OF_RANGE, "a fault script has %d lines at most",
                               SIMDEV_MAX_FAULTS);
        if (!parse_fault(&config->faults[config->fault_count], p, length)) {
            return simdev_fail(err, DHOW_INVALID_ARGUMENT,
                               "'%.*s' is no fault: SLOT[#DEVICE]@N[+]=[async:]STATUS[!], with a "
                               "slot like mem_alloc "
                               "or kernel:relu_f32, N from 1, a status like OUT_OF_MEMORY, and "
                               "async: only for copy, "
                               "fill, peer_copy, launch and kernels",
                               length > 80 ? 80 : (int)length, p);
        }
        config->fault_count++;
        p += length;
        if (*p == ';') p++;
    }
    return DHOW_OK;
}

const simdev_fault *simdev_fault_hit(simdev_config *config, const char *point, int32_t device) {
    const simdev_fault *hit = NULL;
    for (uint32_t i = 0; i < config->fault_count; i++) {
        simdev_fault *fault = &config->faults[i];
        if (strcmp(fault->point, point) != 0 || (fault->device >= 0 && fault->device != device))
            continue;
        fault->seen++;
        if (hit == NULL &&
            (fault->seen == fault->nth || (fault->onwards && fault->seen > fault->nth)))
            hit = fault;
    }
    return hit;
}
