/* SPDX-License-Identifier: Apache-2.0
 *
 * Variables of the environment that look like dhow's and are not: a misspelt one would do nothing,
 * in silence.
 */
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/memory/size.h"
#include "base/text/near.h"
#include "device/device.h"

/* Those that dhow reads; then what begins those of its own backends, which need not be here, and of
 * its tests and scripts. */
static const char *const k_known[] = {"DHOW_BACKENDS",    "DHOW_CACHE_DIR",   "DHOW_COLLECTIVES",
                                      "DHOW_DEVICE",      "DHOW_ISOLATE",     "DHOW_LOG",
                                      "DHOW_NUM_THREADS", "DHOW_PLUGIN_PATH", "DHOW_SPLITS",
                                      "DHOW_TRACE",       "DHOW_VALIDATE"};
static const char *const k_others[] = {"CPU",    "CUDA", "OPENCL", "SIM",   "TEST",
                                       "MODELS", "GPU",  "ORDER",  "BENCH", "FUZZ"};

/* "DHOW_MINE" and "DHOW_MINE_SPEED" are the backend's, "DHOW_MINER" is not. */
static bool begins(const char *name, const char *word) {
    const size_t length = strlen(word);
    name += strlen("DHOW_");
    return strncasecmp(name, word, length) == 0 && (name[length] == '_' || name[length] == '\0');
}

static bool is_known(const dhowi_registry *registry, const char *name) {
    for (size_t i = 0; i < DHOWI_COUNT(k_known); i++)
        if (strcmp(name, k_known[i]) == 0) return true;
    for (size_t i = 0; i < DHOWI_COUNT(k_others); i++)
        if (begins(name, k_others[i])) return true;
    for (uint32_t i = 0; i < registry->count; i++)
        if (begins(name, registry->plugins[i].backend)) return true;
    return false;
}

static void warn(const dhowi_log *log, const char *name) {
    dhowi_near near = {.wanted = name};
    for (size_t i = 0; i < DHOWI_COUNT(k_known); i++) dhowi_near_try(&near, k_known[i]);
    dhowi_log_line(log, DHOW_LOG_WARN, "%s is no variable of dhow's, and nobody reads it%s%s%s",
                   name, near.found != NULL ? "; is " : "", near.found != NULL ? near.found : "",
                   near.found != NULL ? " meant?" : "");
}

void dhowi_warn_of_variables(const dhowi_registry *registry, const dhowi_log *log) {
    static atomic_bool warned;
    if (getauxval(AT_SECURE) != 0 || environ == NULL || atomic_exchange(&warned, true)) return;
    for (char **variable = environ; *variable != NULL; variable++) {
        char name[80];
        const char *equals = strchr(*variable, '=');
        const size_t length = equals != NULL ? (size_t)(equals - *variable) : 0;
        if (strncmp(*variable, "DHOW_", 5) != 0 || length == 0 || length >= sizeof name) continue;
        memcpy(name, *variable, length);
        name[length] = '\0';
        if (!is_known(registry, name)) warn(log, name);
    }
}
