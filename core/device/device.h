/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts and devices inside core. Later layers (memory, streams, kernels, copies) hang their own
 * data onto a device or context as attachments, which are ended in reverse order when the context
 * ends.
 */
#ifndef DHOWI_DEVICE_DEVICE_H_
#define DHOWI_DEVICE_DEVICE_H_

#include <pthread.h>

#include "base/objects/handle.h"
#include "base/trace/trace.h"
#include "device/timeline.h"
#include "dhow/device.h"
#include "plugin/registry.h"

/* In the order in which they may depend on each other. */
typedef enum dhowi_attachment_id {
    DHOWI_ATTACH_TIMERS,
    DHOWI_ATTACH_MEMORY,
    DHOWI_ATTACH_HEADER,
    DHOWI_ATTACH_KERNELS, /* streams that still run end before their kernels do */
    DHOWI_ATTACH_VENDOR,
    DHOWI_ATTACH_STREAMS,
    DHOWI_ATTACH_STAGING,
    DHOWI_ATTACHMENTS
} dhowi_attachment_id;

typedef struct dhowi_attachment {
    _Atomic(void *) data;
    void (*end)(void *owner, void *data);
} dhowi_attachment;

struct dhow_device {
    dhowi_handle handle;
    dhow_context *context;
    const dhow_plugin *api;
    dhowi_plugin *plugin;
    uint32_t index; /* within its backend */
    uint32_t place; /* in the order of being found: the CPU is 0 */
    uint32_t fork_generation;
    char name[32];
    dhow_device_desc desc;
    const struct dhow_device
        *same_as;              /* earlier in the list: the same hardware by another backend */
    pthread_mutex_t mutex;     /* opening, attachments, loss */
    _Atomic(void *) native;    /* the plugin's device once it is open */
    _Atomic int32_t precision; /* of f32 products: DHOW_BF16, or 0 for DHOW_F32 */
    atomic_bool computes;      /* a kernel of dhow's was found for it, see dhowi_device_ask_by() */
    atomic_bool passed;        /* or none was found, and the log has a line */
    atomic_bool lost;
    dhowi_saved_error loss; /* the first failure, fixed once `lost` is set */
    dhowi_attachment attachments[DHOWI_ATTACHMENTS];
};

/* A timeline of work that no stream does, and whoever does it. It lies in the context, whose memory
 * stays readable, because timepoints may outlive the work's owner. */
enum { DHOWI_BACKGROUND_TIMELINES = 8 };
typedef struct dhowi_background {
    dhowi_timeline timeline;
    void *owner;
} dhowi_background;
#define DHOWI_TICKET_SHIFT 59 /* two bits above are those of storages */

/* A timepoint of background work as one word: its timeline's index and its number there. */
static inline uint64_t dhowi_ticket(uint32_t timeline, uint64_t number) {
    return (uint64_t)timeline << DHOWI_TICKET_SHIFT | number;
}

struct dhow_context {
    dhowi_handle handle;
    dhowi_log log;
    dhowi_disk_cache cache;
    dhowi_registry registry;
    _Atomic(const dhow_device *) last_choice; /* last device choice written to the log */
    char *device_choice;   /* preference list of the options or the environment, may be NULL */
    dhow_device **devices; /* cpu:0 alone until dhowi_context_complete() */
    uint32_t device_count;
    dhow_device *cpu;
    pthread_mutex_t discovery; /* completing; recursive, for a log function may look at devices */
    atomic_bool complete;
    bool completing;
    bool validate;
    bool collectives;             /* backends may sum between their devices themselves */
    bool splits;                  /* long rows of few results are cut, DHOWI_OPTIMISE_SPLITS */
    atomic_bool tracing;          /* records are made */
    _Atomic(dhowi_trace *) trace; /* NULL: none was ever started */
    char *trace_path;             /* of DHOW_TRACE, else NULL */
    dhow_context *next_traced;    /* of those with a path, see trace.c */
    /* Reads the device times of ended work; NULL: none are measured. `patience_ms` is how long it
     * waits for the rest, at most; negative: until it has ended. */
    _Atomic(void (*)(dhow_context *context, int64_t patience_ms)) finish_spans;
    _Atomic uint32_t users; /* references that programs hold; `handle` counts dhow's own as well */
    pthread_mutex_t mutex;  /* attachments */
    dhowi_attachment background_work;
    void (*drain)(void *background_work); /* blocks until what it has now has ended */
    dhowi_attachment steps;               /* models of eager calls */
    void (*forget_steps)(
        void *steps); /* with the program's last reference: they hold the context */
    dhowi_background background[DHOWI_BACKGROUND_TIMELINES];
};

/* Finds the devices of all other backends, once: drivers that nobody asks for are not started.
 * Whoever looks at devices besides the CPU, or at what became of plugins, calls it before. */
dhow_status dhowi_context_complete(dhow_context *context);

/* 0 only in the copy of core by which the benchmarks tell what the hooks cost that are not used. */
#ifndef DHOWI_TRACE_HOOKS
#define DHOWI_TRACE_HOOKS 1
#endif

static inline bool dhowi_tracing(const dhow_context *context) {
    return DHOWI_TRACE_HOOKS &&
           __builtin_expect(atomic_load_explicit(&context->tracing, memory_order_relaxed), 0);
}

static inline dhowi_timepoint dhowi_ticket_mark(dhow_context *context, uint64_t ticket) {
    const uint64_t number = ticket & ((UINT64_C(1) << DHOWI_TICKET_SHIFT) - 1);
    const uint64_t index = ticket >> DHOWI_TICKET_SHIFT & (DHOWI_BACKGROUND_TIMELINES - 1);
    return (dhowi_timepoint){&context->background[index].timeline, number};
}

/* Drops a reference that an object of ours held. */
void dhowi_context_drop(dhow_context *context);

/* ---- failures ---- */

/* Makes a plugin's failure this thread's error: "<device>: <what>: <the plugin's message>".
 * DEVICE_LOST sticks. */
dhow_status dhowi_device_failed(dhow_device *device, dhow_error *err, int32_t code,
                                const char *what);
/* OK, FORKED or DEVICE_LOST (with the first failure's message). */
dhow_status dhowi_device_usable(dhow_device *device);

/* ---- opening ---- */

/* Opens on first use; then cheap. */
dhow_status dhowi_device_open(dhow_device *device);
static inline void *dhowi_device_native(dhow_device *device) {
    return atomic_load_explicit(&device->native, memory_order_acquire);
}

/* The type that products and convolutions of a dtype compute in. */
static inline dhow_dtype dhowi_device_compute(const dhow_device *device, dhow_dtype dtype) {
    if (dtype == DHOW_F64) return DHOW_F64;
    const int32_t set = atomic_load_explicit(&device->precision, memory_order_relaxed);
    return dtype == DHOW_F32 && set != 0 ? (dhow_dtype)set : DHOW_F32;
}

/* ---- attachments ---- */

/* The attachment, made by `make` on first use. NULL with an error when that fails. */
void *dhowi_device_attach(dhow_device *device, dhowi_attachment_id id,
                          void *(*make)(dhow_device *device),
                          void (*end)(void *device, void *data));
static inline void *dhowi_device_attached(dhow_device *device, dhowi_attachment_id id) {
    return atomic_load_explicit(&device->attachments[id].data, memory_order_acquire);
}
/* The same for what does background work for a context. */
void *dhowi_context_attach_work(dhow_context *context, void *(*make)(dhow_context *context),
                                void (*end)(void *context, void *data), void (*drain)(void *data));
/* The same for the models of eager calls. */
void *dhowi_context_attach_steps(dhow_context *context, void *(*make)(dhow_context *context),
                                 void (*end)(void *context, void *data),
                                 void (*forget)(void *data));
/* Releases them; later calls make new ones. */
void dhowi_context_forget_steps(dhow_context *context);

/* Warns, once in a process, of variables DHOW_* in the environment that nobody reads. */
void dhowi_warn_of_variables(const dhowi_registry *registry, const dhowi_log *log);

/* ---- selection ---- */

dhow_status dhowi_device_select(dhow_context *context, const char *spec, dhow_device **out);
/* Sets what tells whether a device can run any kernel of dhow's: OK, or why not. "auto" asks it of
 * devices of foreign backends. */
void dhowi_device_ask_by(dhow_status (*ask)(dhow_device *device));
/* INVALID_ARGUMENT when a word of the list does not parse. */
dhow_status dhowi_device_check_spec(const char *spec);

static inline bool dhowi_device_is_host(const dhow_device *device) {
    return (device->desc.flags & DHOW_DEVICE_HOST_INLINE) != 0;
}
/* Whether a driver runs it, that is neither the host itself nor pretended. */
static inline bool dhowi_device_has_driver(const dhow_device *device) {
    return !dhowi_device_is_host(device) && device->desc.kind != DHOW_DEVICE_SIMULATED;
}
static inline dhow_status dhowi_device_check(const dhow_device *device, const char *function) {
    return dhowi_handle_check(device, DHOWI_DEVICE, function, "device");
}

#endif /* DHOWI_DEVICE_DEVICE_H_ */
