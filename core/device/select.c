/* SPDX-License-Identifier: Apache-2.0
 *
 * The selection grammar: a comma-separated preference list of `backend[:index]` and `auto`. It
 * falls back only as far as the list says.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "device/device.h"

static const char k_grammar[] =
    "write backend[:index] as in \"cuda:1\", a list as in \"cuda,opencl,cpu\", or \"auto\"";

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

/* Says why a word selects nothing. */
static void explain(const dhow_context *context, const char *word, size_t length,
                    const char *backend, size_t backend_length, dhowi_text *text) {
    const dhowi_plugin *p = dhowi_registry_find(&context->registry, backend, backend_length);
    dhowi_text_add(text, "%s%.*s: ", text->length > 0 ? "; " : "", (int)length, word);
    if (p == NULL) {
        dhowi_text_add(text, "no plugin libdhow_%.*s.so was found", (int)backend_length, backend);
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
}

/* Cuda, then OpenCL GPUs, the CPU, other devices that are no simulation. */
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
    for (uint32_t i = 0; i < context->device_count; i++) {
        if (context->devices[i]->desc.kind != DHOW_DEVICE_SIMULATED) return context->devices[i];
    }
    return NULL;
}

dhow_status dhowi_device_select(dhow_context *context, const char *spec, dhow_device **out) {
    if (spec == NULL) spec = context->device_choice;
    if (spec == NULL) spec = "auto";
    char why[640], devices[256];
    dhowi_text text = DHOWI_TEXT(why);
    why[0] = devices[0] = '\0';
    dhow_device *chosen = NULL;
    for (const char *word = spec;;) {
        size_t length = strcspn(word, ",");
        const char *colon = memchr(word, ':', length);
        size_t backend_length = colon != NULL ? (size_t)(colon - word) : length;
        int64_t index = 0;
        int shown = (int)(length < 64 ? length : 64);
        if (!dhowi_is_backend_name(word, backend_length)) {
            return dhowi_fail(DHOW_INVALID_ARGUMENT, "device '%.*s' does not parse; %s", shown,
                              word, k_grammar);
        }
        if (colon != NULL &&
            !dhowi_parse_i64(colon + 1, length - backend_length - 1, 0, 9999, &index)) {
            return dhowi_fail(
                DHOW_INVALID_ARGUMENT, "device '%.*s': '%.*s' is no device index; %s", shown, word,
                (int)(shown - (int)backend_length - 1 > 0 ? shown - (int)backend_length - 1 : 0),
                colon + 1, k_grammar);
        }
        if (chosen == NULL) { /* later words are still parsed */
            bool is_auto = length == 4 && memcmp(word, "auto", 4) == 0;
            chosen =
                is_auto ? select_auto(context) : find_device(context, word, backend_length, index);
            if (chosen == NULL && !is_auto) {
                explain(context, word, length, word, backend_length, &text);
            }
        }
        if (word[length] == '\0') break;
        word += length + 1;
    }
    if (chosen == NULL) {
        dhowi_text list = DHOWI_TEXT(devices);
        list_devices(context, &list);
        return dhowi_fail(DHOW_NOT_FOUND, "no device for '%.64s': %s; devices here: %s", spec, why,
                          devices);
    }
    *out = chosen;
    return DHOW_OK;
}
