/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin driven by its slots alone, with nothing of the library between: what goes wrong here is
 * the plugin's. Objects made through these helpers are taken down after the case.
 */
#ifndef TESTS_CONFORMANCE_SLOTS_H_
#define TESTS_CONFORMANCE_SLOTS_H_

#include <stdatomic.h>
#include <sys/types.h>

#include "dhow/plugin.h"
#include "support.h"

typedef struct slot_owned {
    enum { SLOT_STREAM, SLOT_EVENT, SLOT_GATE, SLOT_MEMORY, SLOT_PINNED, SLOT_MODULE } kind;
    void *object;
    uint64_t handle;
} slot_owned;

/* What the plugin is given; valid to the end of the process. */
typedef struct slot_host {
    dhow_host host;
    atomic_long blocks; /* of host.alloc, not freed so far */
    struct slot_host *next;
} slot_host;

/* A plugin, and its backend with one device. */
typedef struct conform_slots {
    const char *path;
    const dhow_plugin *table; /* as the plugin has it */
    dhow_plugin api;          /* as much of it as both sides know; optional slots may be NULL */
    slot_host *given;
    void *backend, *device;
    uint32_t index;
    dhow_device_desc desc;
    dhow_error err;
    slot_owned owned[256];
    uint32_t owned_count;
} conform_slots;

enum { SLOT_SIGNALS = 32 };

/* What a plugin shares with the program that loads it. */
typedef struct slot_process {
    char folder[512];
    mode_t mask;
    void (*handlers[SLOT_SIGNALS])(int);
    bool child; /* one that has ended is not waited for, or one runs */
} slot_process;
extern slot_process slot_process_before; /* the plugin was loaded */
void slot_process_look(slot_process *p);

/* Loads the file and copies its table; false with env->message. */
bool conform_slots_load(conform_env *env, conform_slots *s);
/* Opens the backend and the device s->index. */
bool conform_slots_open(conform_env *env, conform_slots *s);
/* Takes everything down. */
void conform_slots_close(conform_slots *s);
/* Takes down what a case left: waits for its streams first. */
void conform_slots_release(conform_slots *s);

/* An error struct to pass: no message, and behind it no zeros that would end one. */
dhow_error *slot_err(conform_slots *s);
/* What a refusal left in it: the status that was returned, and a message with an end. */
conform_result slot_refusal(conform_env *env, const char *call, int32_t code);
conform_result slot_failed(conform_env *env, const char *file, int line, const char *call,
                           int32_t code, const dhow_error *err);

/* SLOT(api.copy(stream, &rect, ERR)): the call, checked. */
#define ERR slot_err(env->slots)
#define API (&env->slots->api)
#define DEVICE (env->slots->device)
#define SLOT(call)                                                                       \
    do {                                                                                 \
        int32_t code_ = (call);                                                          \
        if (code_ != DHOW_OK)                                                            \
            return slot_failed(env, __FILE__, __LINE__, #call, code_, &env->slots->err); \
    } while (0)
/* The call answers with this status. */
#define SLOT_IS(expected, call, ...)                                                          \
    do {                                                                                      \
        int32_t code_ = (call);                                                               \
        if (code_ != (expected)) {                                                            \
            char why_[400];                                                                   \
            (void)snprintf(why_, sizeof why_, __VA_ARGS__);                                   \
            FAIL("%s: %s instead of %s: %s", why_, slot_status(code_), slot_status(expected), \
                 #call);                                                                      \
        }                                                                                     \
    } while (0)
#define NEEDS_SLOT(slot) \
    if (API->slot == NULL) return conform_unsupported(env, "the plugin has no " #slot)

const char *slot_status(int32_t code);

/* ---- objects that end with the case ---- */

conform_result slot_stream(conform_env *env, void **out);
conform_result slot_event(conform_env *env, uint32_t flags, void **out);
conform_result slot_memory(conform_env *env, uint64_t bytes, uint64_t *out);
/* Pinned memory, or plain memory where the plugin has none; *pinned says which. */
conform_result slot_pinned(conform_env *env, uint64_t bytes, void **out, uint32_t *pinned);
void slot_own_module(conform_env *env, void *module);
/* Forgets one that the case has taken down itself. */
void slot_disown(conform_env *env, const void *object, uint64_t handle);

/* A point that holds streams back until it is opened, for tests of what has not happened yet.
 * CONFORM_UNSUPPORTED where the device cannot wait for the host. */
conform_result slot_gate(conform_env *env, void **out);
conform_result slot_gate_open(conform_env *env, void *gate);

/* ---- work ---- */

conform_result slot_sync(conform_env *env, void *stream);
/* Both wait. */
conform_result slot_write(conform_env *env, void *stream, uint64_t handle, uint64_t offset,
                          const void *data, uint64_t bytes);
conform_result slot_read(conform_env *env, void *stream, uint64_t handle, uint64_t offset,
                         void *data, uint64_t bytes);
dhow_copy_end slot_device_end(uint64_t handle, uint64_t offset, uint64_t row, uint64_t plane);
dhow_copy_end slot_host_end(const void *memory, uint32_t pinned, uint64_t row, uint64_t plane);
dhow_copy_rect slot_flat(dhow_copy_end from, dhow_copy_end to, uint64_t bytes);
/* The first byte that differs, in words. */
conform_result slot_same_bytes(conform_env *env, const void *got, const void *want, uint64_t bytes,
                               const char *what);
/* A built-in kernel, ready-made or compiled; CONFORM_UNSUPPORTED where there is neither. */
conform_result slot_kernel(conform_env *env, const char *name, void **out);
/* The module of a built-in kernel's text; CONFORM_UNSUPPORTED where nothing is compiled. */
conform_result slot_module(conform_env *env, const char *name, void **out);
dhow_arg slot_buffer(uint64_t handle, uint64_t offset, uint32_t access);
dhow_arg slot_i64(int64_t value);
dhow_arg slot_i32(int32_t value);

#endif /* TESTS_CONFORMANCE_SLOTS_H_ */
