/* SPDX-License-Identifier: Apache-2.0
 *
 * See slots.h: the host, opening and taking down.
 */
#include "slots.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the host's services ---- */

static void host_log(void *user, int32_t level, const char *message) {
    (void)user;
    if (level <= DHOW_LOG_WARN)
        (void)fprintf(stderr, "dhow-conform: the plugin says: %s\n", message);
}
static void *host_alloc(void *user, uint64_t bytes, uint64_t align) {
    void *memory = NULL;
    if (posix_memalign(&memory, align < 16 ? 16 : (size_t)align, bytes > 0 ? (size_t)bytes : 1) !=
        0)
        return NULL;
    (void)atomic_fetch_add(&((slot_host *)user)->blocks, 1);
    return memory;
}
static void host_free(void *user, void *memory) {
    if (memory != NULL) (void)atomic_fetch_sub(&((slot_host *)user)->blocks, 1);
    free(memory);
}
static const char *host_env(void *user, const char *name) {
    (void)user;
    return secure_getenv(name);
}
/* Nothing is cached: the plugin compiles, as on a new machine. */
static int32_t host_cache_load(void *user, const char *key, void **out_blob, uint64_t *out_bytes) {
    (void)user, (void)key;
    *out_blob = NULL;
    *out_bytes = 0;
    return DHOW_NOT_FOUND;
}
static int32_t host_cache_store(void *user, const char *key, const void *blob, uint64_t bytes) {
    (void)user, (void)key, (void)blob, (void)bytes;
    return DHOW_OK;
}

/* ---- errors ---- */

const char *slot_status(int32_t code) {
    static const char *const names[] = {
#define NAME(name, number, meaning) [number] = #name,
        DHOW_STATUS_MAP(NAME)
#undef NAME
    };
    return code >= 0 && (size_t)code < sizeof names / sizeof names[0]
               ? names[code]
               : "a status that does not exist";
}

dhow_error *slot_err(conform_slots *s) {
    memset(&s->err, 0, sizeof s->err);
    memset(s->err.message, '?', sizeof s->err.message);
    s->err.message[0] = '\0';
    s->err.struct_size = (uint32_t)sizeof s->err;
    return &s->err;
}

conform_result slot_refusal(conform_env *env, const char *call, int32_t code) {
    const dhow_error *err = &env->slots->err;
    CHECK(err->code == code, "%s returns %s and says %s in err->code", call, slot_status(code),
          slot_status(err->code));
    CHECK(err->message[0] != '\0', "%s: %s without a message", call, slot_status(code));
    CHECK(memchr(err->message, '\0', sizeof err->message) != NULL, "%s: the message has no end",
          call);
    return CONFORM_PASS;
}

conform_result slot_failed(conform_env *env, const char *file, int line, const char *call,
                           int32_t code, const dhow_error *err) {
    return conform_fail(env, file, line, "%s: %s: %.480s", call, slot_status(code), err->message);
}

/* ---- the process ---- */

slot_process slot_process_before;

void slot_process_look(slot_process *p) {
    memset(p, 0, sizeof *p);
    if (getcwd(p->folder, sizeof p->folder) == NULL) p->folder[0] = '\0';
    p->mask = umask(0);
    (void)umask(p->mask);
    for (int i = 1; i < SLOT_SIGNALS; i++) {
        struct sigaction action;
        if (sigaction(i, NULL, &action) == 0) p->handlers[i] = action.sa_handler;
    }
    siginfo_t info;
    memset(&info, 0, sizeof info);
    p->child = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* ---- opening ---- */

static slot_host *new_host(void) {
    static slot_host *all; /* keeps them reachable */
    slot_host *made = calloc(1, sizeof *made);
    if (made == NULL) abort();
    const char *threads = secure_getenv("DHOW_NUM_THREADS");
    const long count = threads != NULL ? strtol(threads, NULL, 10) : 0;
    made->host = (dhow_host){.struct_size = (uint32_t)sizeof made->host,
                             .minor = DHOW_PLUGIN_MINOR,
                             .user = made,
                             .log = host_log,
                             .alloc = host_alloc,
                             .free = host_free,
                             .env = host_env,
                             .cache_load = host_cache_load,
                             .cache_store = host_cache_store,
                             .cpu_threads = count > 0 && count < 1024 ? (uint32_t)count : 2};
    made->next = all;
    all = made;
    return made;
}

bool conform_slots_load(conform_env *env, conform_slots *s) {
    if (slot_process_before.folder[0] == '\0') slot_process_look(&slot_process_before);
    void *library = dlopen(s->path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        (void)conform_fail(env, __FILE__, __LINE__, "%s", dlerror());
        return false;
    }
    s->table = dlsym(library, DHOW_PLUGIN_SYMBOL);
    if (s->table == NULL) {
        (void)conform_fail(env, __FILE__, __LINE__, "it exports no %s", DHOW_PLUGIN_SYMBOL);
        return false;
    }
    const size_t bytes =
        s->table->struct_size < sizeof s->api ? s->table->struct_size : sizeof s->api;
    memset(&s->api, 0, sizeof s->api);
    memcpy(&s->api, s->table, bytes);
    s->given = new_host();
    return true;
}

static bool open_all(conform_slots *s, const char **step, int32_t *code) {
    dhow_probe answer = {.struct_size = (uint32_t)sizeof answer};
    *step = "probe";
    if ((*code = s->api.probe(&s->given->host, &answer, slot_err(s))) != DHOW_OK) return false;
    *step = "open";
    if ((*code = s->api.open(&s->given->host, &s->backend, slot_err(s))) != DHOW_OK) return false;
    *step = "device_describe";
    memset(&s->desc, 0, sizeof s->desc);
    s->desc.struct_size = (uint32_t)sizeof s->desc;
    *code = s->api.device_describe(s->backend, s->index, &s->desc, slot_err(s));
    if (*code != DHOW_OK) return false;
    *step = "device_open";
    *code = s->api.device_open(s->backend, s->index, &s->device, slot_err(s));
    return *code == DHOW_OK;
}

bool conform_slots_open(conform_env *env, conform_slots *s) {
    const char *step;
    int32_t code;
    if (open_all(s, &step, &code)) return true;
    (void)conform_fail(env, __FILE__, __LINE__, "%s: %s: %.480s", step, slot_status(code),
                       s->err.message);
    conform_slots_close(s);
    return false;
}

void conform_slots_close(conform_slots *s) {
    if (s->device != NULL) s->api.device_close(s->device);
    s->device = NULL;
    if (s->backend != NULL) s->api.close(s->backend);
    s->backend = NULL;
}

static void take_down(conform_slots *s, const slot_owned *o) {
    switch (o->kind) {
        case SLOT_STREAM:
            s->api.stream_destroy(o->object);
            break;
        case SLOT_EVENT:
        case SLOT_GATE:
            s->api.event_destroy(o->object);
            break;
        case SLOT_MEMORY:
            s->api.mem_free(s->device, o->handle);
            break;
        case SLOT_PINNED:
            s->api.host_free(s->device, o->object);
            break;
        case SLOT_MODULE:
            s->api.module_free(o->object);
            break;
    }
}

void conform_slots_release(conform_slots *s) {
    for (uint32_t i = 0; i < s->owned_count; i++) { /* gates come first, or syncs would hang */
        if (s->owned[i].kind == SLOT_GATE)
            (void)s->api.event_signal(s->owned[i].object, slot_err(s));
    }
    for (uint32_t i = 0; i < s->owned_count; i++) {
        if (s->owned[i].kind == SLOT_STREAM)
            (void)s->api.stream_sync(s->owned[i].object, slot_err(s));
    }
    while (s->owned_count > 0) take_down(s, &s->owned[--s->owned_count]);
}
