/* SPDX-License-Identifier: Apache-2.0
 *
 * The selection grammar: a comma-separated preference list of `backend[:index]` and `auto`. It
 * falls back only as far as the list says.
 */
#include <string.h>

#include "base/memory/size.h"
#include "base/text/text.h"
#include "device/device.h"

static const char k_grammar[] =
    "write backend[:index] in lower case as in \"cuda:1\", a list as in \"cuda,opencl,cpu\", or "
    "\"auto\"";

static dhow_device *find_device(dhow_context *context, const char *backend, size_t length,
                                int64_t index) {
    for (uint32_t i = 0; i < context->device_count; i++) {
        dhow_device *d = context->devices[i];
        if (d->index == (uint64_t)index && strlen(d->api->name) == length &&
            memcmp(d->api->name, backend, length) == 0) {
            return d;
        }
    }
    return NULL;
}

static void list_devices(const dhow_context *context, dhowi_text *text) {
    for (uint32_t i = 0; i < context->device_count; i++) {
        dhowi_text_add(text, "%s%s", i > 0 ? ", " : "", context->devices[i]->name);
    }
}

/* Says why a word selects nothing; false for a backend that no plugin has, perhaps misspelt. */
static bool explain(const dhow_context *context, const char *word, size_t length,
                    const char *backend, size_t backend_length, dhowi_text *text) {
    const dhowi_plugin *p = dhowi_registry_find(&context->registry, backend, backend_length);
    dhowi_text_add(text, "%s%.*s: ", text->length > 0 ? "; " : "", (int)length, word);
    if (p == NULL) {
        dhowi_text_add(text, "unknown backend, no plugin libdhow_%.*s.so was found",
                       (int)backend_length, backend);
    } else if (p->state == DHOW_PLUGIN_READY) {
        dhowi_text_add(text, "the backend has %u device%s", p->device_count,
                       p->device_count == 1 ? "" : "s");
    } else {
#define NAME(name, number, meaning) #name,
        static const char *const names[] = {DHOW_PLUGIN_STATE_MAP(NAME)};
#undef NAME
        dhowi_text_add(text, "%s: %s%s%s", names[p->state], p->reason,
                       p->hint[0] != '\0' ? "; " : "", p->hint);
    }
    return p != NULL;
}

static dhow_status (*g_ask)(dhow_device *device);

void dhowi_device_ask_by(dhow_status (*ask)(dhow_device *device)) { g_ask = ask; }

/* The plugin's record tells it too, for devinfo. */
static void pass_over(dhow_device *d, const char *why) {
    if (atomic_exchange(&d->passed, true)) return;
    dhowi_plugin_set_state(d->plugin, d->plugin->state,
                           "give the plugin kernels or a compiler for dhow's texts (module_build)",
                           "auto passes over %s: %s", d->name, why);
    dhowi_log_line(&d->context->log, DHOW_LOG_WARN, "%s", d->plugin->reason);
}

/* A device that does not say so may have no kernels, and would fail with the program's first
 * operation. */
static bool can_compute(dhow_device *d) {
    if ((d->desc.flags & DHOW_DEVICE_RUNS_KERNELS) != 0 || atomic_load(&d->computes)) return true;
    if (atomic_load(&d->passed)) return false;
    DHOWI_KEEP_ERROR;
    if (g_ask(d) == DHOW_OK) {
        atomic_store(&d->computes, true);
        return true;
    }
    pass_over(d, dhow_last_error());
    return false;
}

/* The first that is no simulation, see priority() in list.c, and can run a kernel. */
static dhow_device *select_auto(dhow_context *context) {
    for (uint32_t i = 0; i < context->registry.count; i++) {
        const dhowi_plugin *p = &context->registry.plugins[i];
        if (p->state != DHOW_PLUGIN_READY && p->state != DHOW_PLUGIN_NO_DRIVER &&
            p->state != DHOW_PLUGIN_NO_DEVICE && p->state != DHOW_PLUGIN_DISABLED &&
            p->state != DHOW_PLUGIN_DUPLICATE) {
            dhowi_log_line(&context->log, DHOW_LOG_WARN, "auto passes over %s: %s", p->path,
                           p->reason);
        }
    }
    for (uint32_t i = 0; i < context->device_count; i++) { /* whatever their place in the list */
        const dhow_device *d = context->devices[i];
        if (d->desc.kind != DHOW_DEVICE_SIMULATED && d->desc.dtypes == 0)
            dhowi_log_line(&context->log, DHOW_LOG_WARN,
                           "auto passes over %s, which computes nothing: %s", d->name,
                           d->desc.name);
    }
    for (uint32_t i = 0; i < context->device_count; i++) {
        dhow_device *d = context->devices[i];
        if (d->desc.kind != DHOW_DEVICE_SIMULATED && d->desc.dtypes != 0 && can_compute(d))
            return d;
    }
    return NULL;
}

/* One word of a preference list. */
typedef struct word {
    const char *text;
    size_t length, backend_length;
    int64_t index;
    bool is_auto;
} word;

/* Reads the word at *list and moves *list to the next one, or to NULL after the last. */
static dhow_status read_word(const char **list, word *out) {
    const char *text = *list;
    size_t length = strcspn(text, ",");
    const char *colon = memchr(text, ':', length);
    size_t backend_length = colon != NULL ? (size_t)(colon - text) : length;
    int shown = (int)DHOWI_MIN(length, 64);
    *out = (word){.text = text, .length = length, .backend_length = backend_length};
    if (!dhowi_is_backend_name(text, backend_length)) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "device '%.*s' does not parse; %s", shown, text,
                          k_grammar);
    }
    if (colon != NULL) {
        size_t digits = length - backend_length - 1;
        if (!dhowi_parse_i64(colon + 1, digits, 0, 9999, &out->index)) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "device '%.*s': '%.*s' is no device index; %s",
                              shown, text, (int)DHOWI_MIN(digits, 48), colon + 1, k_grammar);
        }
    }
    out->is_auto = length == 4 && memcmp(text, "auto", 4) == 0;
    *list = text[length] == ',' ? text + length + 1 : NULL;
    return DHOW_OK;
}

dhow_status dhowi_device_check_spec(const char *spec) {
    word w;
    while (spec != NULL) DHOWI_TRY(read_word(&spec, &w));
    return DHOW_OK;
}

/* Where there was a choice the log says what was taken, once, and why nothing before it was. */
static void log_choice(dhow_context *context, dhow_log_level level, const char *spec,
                       const dhow_device *chosen, const char *why) {
    bool choice = strchr(spec, ',') != NULL || strcmp(spec, "auto") == 0;
    if (!choice || atomic_exchange(&context->last_choice, chosen) == chosen) return;
    dhowi_log_line(&context->log, level, "'%.64s' is %s, %s%s%s", spec, chosen->name,
                   chosen->desc.name, why[0] != '\0' ? "; " : "", why);
}

dhow_status dhowi_device_select(dhow_context *context, const char *spec, dhow_device **out) {
    /* Where a word nobody passed here comes from. */
    const char *origin = spec == NULL && context->device_choice != NULL
                             ? ", which DHOW_DEVICE or the context's options ask for"
                             : "";
    if (spec == NULL) spec = context->device_choice;
    if (spec == NULL) spec = "auto";
    DHOWI_TRY(dhowi_device_check_spec(spec)); /* all of it, also what comes after the choice */
    char why[640], devices[256];
    dhowi_text text = DHOWI_TEXT(why), list = DHOWI_TEXT(devices);
    why[0] = devices[0] = '\0';
    dhow_log_level level = DHOW_LOG_INFO;
    for (const char *rest = spec; rest != NULL;) {
        word w;
        DHOWI_TRY(read_word(&rest, &w));
        bool is_cpu = w.backend_length == 3 && memcmp(w.text, "cpu", 3) == 0 && w.index == 0;
        if (!is_cpu) DHOWI_TRY(dhowi_context_complete(context));
        /* Another thread may be making the list longer: only who has waited for it may look. */
        dhow_device *chosen = is_cpu      ? context->cpu
                              : w.is_auto ? select_auto(context)
                                          : find_device(context, w.text, w.backend_length, w.index);
        if (chosen != NULL) {
            log_choice(context, level, spec, chosen, why);
            *out = chosen;
            return DHOW_OK;
        }
        if (!w.is_auto && !explain(context, w.text, w.length, w.text, w.backend_length, &text))
            level = DHOW_LOG_WARN;
    }
    if (context->cpu->fork_generation != dhowi_fork_generation())
        return dhowi_device_usable(context->cpu); /* a child does not start what was not started */
    list_devices(context, &list);
    return dhowi_fail(DHOW_NOT_FOUND, "no device for '%.64s'%s: %s; devices here: %s", spec, origin,
                      why, devices);
}

dhow_status dhow_device_get(dhow_context *context, const char *spec, dhow_device **out) {
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_device_get: out is NULL");
    *out = NULL;
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, "dhow_device_get", "context"));
    return dhowi_device_select(context, spec, out);
}
