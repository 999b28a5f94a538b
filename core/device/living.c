/* SPDX-License-Identifier: Apache-2.0
 *
 * DHOW_VALIDATE: what lives when a program gives up its context.
 */
#include "base/objects/call_sites.h"
#include "base/text/text.h"
#include "device/context.h"

enum { MAX_LISTED = 16 }; /* of a kind */

typedef struct living {
    dhowi_handle_kind kind;
    uint32_t count, listed;
    const void *objects[MAX_LISTED];
} living;

/* Streams of dhow's own have no place. */
static bool is_users(dhowi_handle_kind kind, const void *object) {
    char place[2 * DHOWI_CALL_SITE_BYTES];
    return kind != DHOWI_STREAM || dhowi_call_site_text(object, place, sizeof place)[0] != '\0';
}

static void count_object(void *user, const void *object) {
    living *l = user;
    l->count += is_users(l->kind, object);
}

static void list_object(void *user, const void *object) {
    living *l = user;
    if (is_users(l->kind, object) && l->listed < MAX_LISTED) l->objects[l->listed++] = object;
}

/* The objects may be gone by now: only their addresses are used. */
static void report_objects(const dhow_context *context, const living *l) {
    char place[2 * DHOWI_CALL_SITE_BYTES];
    for (uint32_t i = 0; i < l->listed; i++) {
        dhowi_log_line(&context->log, DHOW_LOG_WARN, "  %s %s lives%s",
                       l->kind == DHOWI_EVENT ? "an" : "a", dhowi_handle_kind_name(l->kind),
                       dhowi_call_site_text(l->objects[i], place, sizeof place));
    }
    if (l->count > l->listed)
        dhowi_log_line(&context->log, DHOW_LOG_WARN, "  and %u more of kind %s",
                       l->count - l->listed, dhowi_handle_kind_name(l->kind));
}

/* DHOW_VALIDATE: a program that gives up its context while it holds objects has most likely
 * forgotten them. */
void dhowi_report_living(const dhow_context *context) {
    char message[512];
    dhowi_text text = DHOWI_TEXT(message);
    living l = {0};
    for (l.kind = DHOWI_STREAM; l.kind < DHOWI_HANDLE_KINDS; l.kind++) {
        if (l.kind == DHOWI_STORAGE || l.kind == DHOWI_KERNEL) continue; /* dhow makes them, too */
        l.count = 0;
        dhowi_handle_each(l.kind, count_object, &l);
        if (l.count > 0)
            dhowi_text_add(&text, "%s%u of kind %s", text.length > 0 ? ", " : "", l.count,
                           dhowi_handle_kind_name(l.kind));
    }
    if (text.length == 0) return;
    dhowi_log_line(&context->log, DHOW_LOG_WARN,
                   "a context was released while these objects of the process live: %s", message);
    for (l.kind = DHOWI_STREAM; l.kind < DHOWI_HANDLE_KINDS; l.kind++) {
        if (l.kind == DHOWI_STORAGE || l.kind == DHOWI_KERNEL) continue;
        l.count = l.listed = 0;
        dhowi_handle_each(l.kind, count_object, &l);
        dhowi_handle_each(l.kind, list_object, &l);
        report_objects(context, &l); /* a log function may make objects, so not from inside */
    }
}
