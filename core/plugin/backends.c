/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter of DHOW_BACKENDS: "cuda,cpu" keeps those, "-opencl" drops one. The CPU always stays.
 */
#include <string.h>

#include "base/memory/size.h"
#include "base/text/text.h"
#include "plugin/registry.h"

/* Takes the next word of a comma-separated list; false at the end. */
static bool next_word(const char **list, const char **word, size_t *length) {
    if (*list == NULL || **list == '\0') return false;
    const char *end = strchrnul(*list, ',');
    *word = *list;
    *length = (size_t)(end - *list);
    *list = *end == ',' ? end + 1 : end;
    return true;
}

bool dhowi_backends_keep(const char *filter, const char *backend) {
    if (filter == NULL || strcmp(backend, "cpu") == 0) return true;
    bool any_kept = false, keep = false, drop = false;
    const char *word;
    size_t length, name_length = strlen(backend);
    while (next_word(&filter, &word, &length)) {
        bool minus = length > 0 && word[0] == '-';
        bool same = minus ? length - 1 == name_length && memcmp(word + 1, backend, name_length) == 0
                          : length == name_length && memcmp(word, backend, name_length) == 0;
        any_kept |= !minus;
        keep |= !minus && same;
        drop |= minus && same;
    }
    return !drop && (keep || !any_kept);
}

static void list_backends(const dhowi_registry *registry, dhowi_text *text) {
    for (uint32_t i = 0; i < registry->count; i++) {
        if (registry->plugins[i].state == DHOW_PLUGIN_DUPLICATE) continue;
        dhowi_text_add(text, "%s%s", text->length > 0 ? ", " : "", registry->plugins[i].backend);
    }
    if (text->length == 0) dhowi_text_add(text, "none");
}

dhow_status dhowi_backends_check(const char *filter, const dhowi_registry *registry) {
    const char *word;
    size_t length;
    while (next_word(&filter, &word, &length)) {
        const char *name = length > 0 && word[0] == '-' ? word + 1 : word;
        size_t name_length = length - (size_t)(name - word);
        int shown = (int)DHOWI_MIN(length, 64), name_shown = (int)DHOWI_MIN(name_length, 64);
        if (!dhowi_is_backend_name(name, name_length)) {
            return dhowi_fail(
                DHOW_INVALID_ARGUMENT,
                "DHOW_BACKENDS: '%.*s' is no backend name; write \"cuda,cpu\" to keep some or "
                "\"-opencl\" to drop one",
                shown, word);
        }
        if (name_length == 3 && memcmp(name, "cpu", 3) == 0) {
            if (name == word) continue;
            return dhowi_fail(
                DHOW_INVALID_ARGUMENT,
                "DHOW_BACKENDS: '-cpu' is not possible, host memory belongs to the cpu backend");
        }
        if (dhowi_registry_find(registry, name, name_length) == NULL) {
            char names[256];
            dhowi_text text = DHOWI_TEXT(names);
            list_backends(registry, &text);
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "DHOW_BACKENDS: no plugin for '%.*s' was found; plugins found: %s",
                              name_shown, name, names);
        }
    }
    return DHOW_OK;
}

const dhowi_plugin *dhowi_registry_find(const dhowi_registry *registry, const char *backend,
                                        size_t length) {
    const dhowi_plugin *found = NULL;
    for (uint32_t i = 0; i < registry->count; i++) {
        const dhowi_plugin *p = &registry->plugins[i];
        if (strlen(p->backend) != length || memcmp(p->backend, backend, length) != 0) continue;
        if (dhowi_plugin_serves(p)) return p;
        if (found == NULL) found = p;
    }
    return found;
}
