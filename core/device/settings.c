/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings of a context that the environment has a say in.
 */
#include <string.h>
#include <sys/auxv.h>

#include "base/text/text.h"
#include "base/threads/machine.h"
#include "device/context.h"

dhow_status dhowi_read_log_level(dhowi_log *log) {
    const char *text = dhowi_env("DHOW_LOG");
    log->level = DHOW_LOG_WARN;
    if (text != NULL && !dhowi_parse_log_level(text, &log->level)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "DHOW_LOG: '%.64s' is none of error, warn, info, debug", text);
    }
    return DHOW_OK;
}

dhow_status dhowi_read_threads(int32_t option, const dhowi_log *log, uint32_t *out) {
    enum { MAX_THREADS = 4096 };
    int64_t threads = option;
    const char *text = dhowi_env("DHOW_NUM_THREADS");
    if (option < 0 || option > MAX_THREADS) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "num_threads is %d; 0 to %d is allowed", option,
                          MAX_THREADS);
    }
    if (option == 0 && text != NULL &&
        !dhowi_parse_i64(text, strlen(text), 1, MAX_THREADS, &threads)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "DHOW_NUM_THREADS: '%.64s' is no number from 1 to %d", text, MAX_THREADS);
    }
    *out = threads > 0 ? (uint32_t)threads : dhowi_machine_cores("");
    if (dhowi_fork_generation() > 0 && *out > 1) {
        /* GNU's OpenMP waits for its threads, which stayed in the parent. */
        dhowi_log_line(log, DHOW_LOG_INFO, "the CPU computes with one thread in a forked child");
        *out = 1;
    }
    return DHOW_OK;
}

dhow_status dhowi_read_isolate(int32_t option, bool *out) {
    const char *text = dhowi_env("DHOW_ISOLATE");
    *out = false;
    if (text != NULL && !dhowi_parse_switch(text, out)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "DHOW_ISOLATE: '%.64s' is none of 0, 1, on, off",
                          text);
    }
    *out = *out || option != 0;
    return DHOW_OK;
}

dhow_status dhowi_read_validate(bool *out) {
    const char *text = dhowi_env("DHOW_VALIDATE");
    *out = false;
    if (text != NULL && !dhowi_parse_switch(text, out)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "DHOW_VALIDATE: '%.64s' is none of 0, 1, on, off",
                          text);
    }
    return DHOW_OK;
}

static dhow_status read_switch(const char *name, bool *out) {
    const char *text = dhowi_env(name);
    *out = true;
    if (text != NULL && !dhowi_parse_switch(text, out)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: '%.64s' is none of 0, 1, on, off", name,
                          text);
    }
    return DHOW_OK;
}

dhow_status dhowi_read_collectives(bool *out) { return read_switch("DHOW_COLLECTIVES", out); }

dhow_status dhowi_read_splits(bool *out) { return read_switch("DHOW_SPLITS", out); }
