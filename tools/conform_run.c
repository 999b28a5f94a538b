/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs groups of cases in processes of their own. A case that ends its process is told as such,
 * and the rest of its group goes on in a new one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform.h"
#include "conform_child.h"
#include "slots.h"

typedef struct batch {
    conform_options *o;
    const conform_group *group; /* NULL: the plugin is only loaded */
    int32_t device;
    uint32_t first; /* of the group's cases */
} batch;

static const char *state_name(dhow_plugin_state state) {
    static const char *const names[] = {
#define NAME(name, number, meaning) [number] = #name,
        DHOW_PLUGIN_STATE_MAP(NAME)
#undef NAME
    };
    return state < sizeof names / sizeof names[0] ? names[state] : "?";
}

/* ---- in the child: the library with the plugin and the CPU's ---- */

static bool make_context(const conform_options *o, dhow_context **out) {
    char backends[48];
    const bool is_cpu = strcmp(o->backend, "cpu") == 0;
    (void)snprintf(backends, sizeof backends, is_cpu ? "cpu" : "cpu,%s", o->backend);
    (void)unsetenv("DHOW_PLUGIN_PATH"); /* no other plugin takes part */
    (void)unsetenv("DHOW_DEVICE");
    const dhow_context_options options =
        DHOW_INIT(dhow_context_options, .plugin_path = o->folder, .backends = backends);
    return dhow_context_create(&options, out) == DHOW_OK;
}

static bool find_record(const conform_options *o, dhow_context *context, dhow_plugin_record *out) {
    for (uint32_t i = 0; i < dhow_plugin_count(context); i++) {
        if (dhow_plugin_at(context, i, out) == DHOW_OK && strcmp(out->path, o->path) == 0)
            return true;
    }
    return false;
}

static void load_only(const batch *b, int fd) {
    dhow_context *context;
    dhow_plugin_record r = DHOW_INIT(dhow_plugin_record);
    char text[1200];
    if (!make_context(b->o, &context)) {
        conform_child_send(fd, MESSAGE_REFUSED, 0, 0, dhow_last_error());
        return;
    }
    if (!find_record(b->o, context, &r)) {
        conform_child_send(fd, MESSAGE_REFUSED, 0, 0, "the loader did not find the file");
    } else if (r.state != DHOW_PLUGIN_READY) {
        (void)snprintf(text, sizeof text, "%s: %s%s%s", state_name(r.state), r.reason,
                       r.hint[0] != '\0' ? "; hint: " : "", r.hint);
        conform_child_send(fd, MESSAGE_REFUSED, 0, 0, text);
    } else {
        (void)snprintf(text, sizeof text, "READY: backend %s, version %s, %u device%s", r.backend,
                       r.version, r.device_count, r.device_count == 1 ? "" : "s");
        conform_child_send(fd, MESSAGE_READY, (int32_t)r.device_count, 0, text);
    }
    dhow_context_release(context);
}

/* ---- in the child: the cases of a group ---- */

static void run_cases(const batch *b, conform_env *env, int fd) {
    for (uint32_t i = b->first; i < *b->group->count; i++) {
        const conform_case *c = &b->group->cases[i];
        if (!conform_is_wanted(b->o, b->group, c->name)) continue;
        conform_child_send(fd, MESSAGE_START, (int32_t)i, 0, "");
        const conform_result result = conform_run(env, c);
        conform_child_send(fd, MESSAGE_DONE, (int32_t)i, (int32_t)result, env->message);
    }
}

static void run_in_context(const batch *b, conform_env *env, int fd) {
    char name[64];
    if (!make_context(b->o, &env->context)) {
        conform_child_send(fd, MESSAGE_REFUSED, 0, 0, dhow_last_error());
        return;
    }
    (void)snprintf(name, sizeof name, "%s:%d", b->o->backend, b->device);
    if (dhow_device_get(env->context, name, &env->device) != DHOW_OK)
        conform_child_send(fd, MESSAGE_REFUSED, 0, 0, dhow_last_error());
    else
        run_cases(b, env, fd);
    dhow_context_release(env->context);
}

static void set_fault(const char *assignment) {
    char name[128];
    const char *equals = strchr(assignment, '=');
    (void)snprintf(name, sizeof name, "%.*s", (int)(equals - assignment), assignment);
    (void)setenv(name, equals + 1, 1);
}

static void run_on_slots(const batch *b, conform_env *env, int fd) {
    static conform_slots s;
    s.path = b->o->path;
    s.index = b->device >= 0 ? (uint32_t)b->device : 0;
    env->slots = &s;
    if (b->group->kind == CONFORM_FAULT) set_fault(b->o->async_fault);
    if (b->group->kind == CONFORM_FILE) {
        run_cases(b, env, fd);
    } else if (!conform_slots_load(env, &s) || !conform_slots_open(env, &s)) {
        conform_child_send(fd, MESSAGE_REFUSED, 0, 0, env->message);
    } else {
        run_cases(b, env, fd);
        conform_slots_close(&s);
    }
}

static void child_body(void *data, int fd) {
    const batch *b = data;
    const char *folder = getenv("TMPDIR");
    conform_env env = {.folder = folder != NULL && folder[0] == '/' ? folder : "/tmp"};
    if (b->group == NULL)
        load_only(b, fd);
    else if (b->group->kind == CONFORM_API || b->group->kind == CONFORM_HUGE)
        run_in_context(b, &env, fd);
    else
        run_on_slots(b, &env, fd);
    conform_child_send(fd, MESSAGE_END, 0, 0, "");
}

/* ---- in the parent ---- */

static bool start(batch *b, conform_child *child) {
    if (conform_child_start(child, child_body, b) == 0) return true;
    (void)fprintf(stderr, "dhow-conform: no new process: %s\n", strerror(errno));
    return false;
}

/* Reads on to the end of the process; what went wrong on the way out, or NULL. */
static const char *wait_for_end(const batch *b, conform_child *child) {
    conform_message m;
    const int got = conform_child_read(child, b->o->timeout_s, &m);
    return got == 0 && child->clean ? NULL : child->end;
}

uint32_t conform_run_load(conform_options *o) {
    batch b = {.o = o};
    conform_child child;
    conform_message m = {0};
    uint32_t devices = 0;
    int got = 0;
    char text[1500] = "";
    if (!start(&b, &child)) return 0;
    while ((got = conform_child_read(&child, o->timeout_s, &m)) == 1 && m.what != MESSAGE_END) {
        (void)snprintf(text, sizeof text, "%s", m.text);
        devices = m.what == MESSAGE_READY ? (uint32_t)m.value : 0;
    }
    const char *wrong = got == 1 ? wait_for_end(&b, &child) : child.end;
    if (wrong != NULL) {
        devices = 0;
        (void)snprintf(text, sizeof text, "the plugin was loaded, and %s", wrong);
    }
    conform_report(o, NULL, "load", devices > 0 ? CONFORM_PASS : CONFORM_FAIL, text);
    return devices;
}

/* The rest of a group that cannot be run. */
static void fail_rest(const batch *b, const char *device, const char *why) {
    for (uint32_t i = b->first; i < *b->group->count; i++) {
        const char *name = b->group->cases[i].name;
        if (conform_is_wanted(b->o, b->group, name))
            conform_report(b->o, device, name, CONFORM_FAIL, why);
    }
}

static bool more_wanted(const batch *b) {
    for (uint32_t i = b->first; i < *b->group->count; i++) {
        if (conform_is_wanted(b->o, b->group, b->group->cases[i].name)) return true;
    }
    return false;
}

/* The process ended between two cases: before the first, or after the last. */
static void report_end(const batch *b, const char *device, const char *how) {
    char name[64], text[200];
    const char *what = b->group->kind == CONFORM_API    ? "context"
                       : b->group->kind == CONFORM_FILE ? "process"
                                                        : "device";
    if (more_wanted(b)) {
        (void)snprintf(text, sizeof text, "%s while the %s was opened", how, what);
        fail_rest(b, device, text);
        return;
    }
    (void)snprintf(name, sizeof name, "%s/close", b->group->name);
    (void)snprintf(text, sizeof text, "%s while the %s was closed", how, what);
    conform_report(b->o, device, name, CONFORM_FAIL, text);
}

/* Takes messages until the end of the process or of the cases; the case that was running then, or
 * -1. */
static int64_t follow(batch *b, const char *device, conform_child *child, bool *ended) {
    const int timeout_s = b->group->kind == CONFORM_HUGE ? 10 * b->o->timeout_s : b->o->timeout_s;
    conform_message m = {0};
    int64_t running = -1;
    int got;
    while ((got = conform_child_read(child, timeout_s, &m)) == 1 && m.what != MESSAGE_END) {
        if (m.what == MESSAGE_START) running = m.value;
        if (m.what == MESSAGE_REFUSED) {
            fail_rest(b, device, m.text);
            b->first = *b->group->count;
        }
        if (m.what != MESSAGE_DONE) continue;
        conform_report(b->o, device, b->group->cases[m.value].name, (conform_result)m.result,
                       m.text);
        b->first = (uint32_t)m.value + 1;
        running = -1;
    }
    *ended = got == 1;
    return running;
}

/* One process of the group; where the next one begins. */
static uint32_t run_some(batch *b, const char *device) {
    conform_child child;
    bool ended;
    const uint32_t count = *b->group->count;
    if (!start(b, &child)) {
        fail_rest(b, device, "no new process");
        return count;
    }
    const int64_t running = follow(b, device, &child, &ended);
    if (running >= 0) {
        conform_report(b->o, device, b->group->cases[running].name, CONFORM_FAIL, child.end);
        return (uint32_t)running + 1;
    }
    const char *wrong = ended ? wait_for_end(b, &child) : child.end;
    if (wrong != NULL) report_end(b, device, wrong);
    return count;
}

static void leave_out(const batch *b, const char *device, const char *why) {
    for (uint32_t i = 0; i < *b->group->count; i++) {
        const char *name = b->group->cases[i].name;
        if (conform_is_wanted(b->o, b->group, name))
            conform_report(b->o, device, name, CONFORM_UNSUPPORTED, why);
    }
}

void conform_run_device(conform_options *o, int32_t index) {
    char device[64];
    (void)snprintf(device, sizeof device, "%s:%d", o->backend, index);
    if (index >= 0) conform_report_device(o, device);
    for (uint32_t g = 0; g < conform_group_count; g++) {
        batch b = {.o = o, .group = &conform_groups[g], .device = index};
        if ((b.group->kind == CONFORM_FILE) != (index < 0)) continue;
        const char *shown = index >= 0 ? device : NULL;
        if (b.group->kind == CONFORM_HUGE && !o->huge) {
            leave_out(&b, shown, "it takes more than 8 GiB of memory; --large runs it");
        } else if (b.group->kind == CONFORM_FAULT && o->async_fault == NULL) {
            leave_out(&b, shown, "no --async-fault is given");
        } else {
            while (more_wanted(&b)) b.first = run_some(&b, shown);
        }
    }
}
