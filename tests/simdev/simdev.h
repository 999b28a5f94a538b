/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulated machine with accelerators, shaped like the API of a vendor. It is made to punish what
 * real hardware lets pass by luck:
 *  - Device memory is an address range that nobody may touch: a host that dereferences a handle
 * dies at once. New and freed memory is full of 0xCD and 0xDD.
 *  - Streams are threads that run their work late, after adjustable delays. Pinned host memory is
 * read when a copy runs, not when it is submitted.
 *  - Handles that are freed or too short are found when the work runs, and reported as that work's
 * failure.
 *  - Any call can be made to fail by a script, at once or later, and take its device with it.
 *  - Under ThreadSanitizer its own locks order nothing; only streams, events and waits do.
 *
 * Functions return a dhow_status and fill `err` on failure. Kernels are those of the CPU table
 * (kernels/cpu_table.h). Threads: any thread at any time, except that one thread at a time submits
 * to a stream and that create, open, close and destroy are the caller's to order.
 */
#ifndef SIMDEV_H_
#define SIMDEV_H_

#include <stdbool.h>
#include <stdint.h>

#include "dhow/plugin.h"

enum {
    SIMDEV_MAX_DEVICES = 16,
    SIMDEV_MAX_FAULTS = 32,
    SIMDEV_NATIVE_ERROR = 9000 /* err->native_code is this plus the status */
};

/* What a copy does with host memory that is not pinned. */
typedef enum simdev_pageable {
    SIMDEV_PAGEABLE_SNAPSHOT, /* sources are read before the call returns; targets make the call
                                 wait for the copy */
    SIMDEV_PAGEABLE_BLOCK,    /* every such call waits for the copy */
    SIMDEV_PAGEABLE_LATE      /* as pinned memory */
} simdev_pageable;

/* One line of the fault script. */
typedef struct simdev_fault {
    char point[64]; /* "mem_alloc", "kernel:relu_f32" */
    int32_t device; /* -1: all devices, counted together */
    int32_t status; /* a dhow_status */
    uint64_t nth;   /* the call it hits, from 1 */
    uint64_t seen;  /* calls so far */
    bool onwards;   /* all later calls too */
    bool async;     /* the call succeeds, its work fails */
    bool loses;     /* the device is lost with it */
} simdev_fault;

/* Start from simdev_config_init(). */
typedef struct simdev_config {
    uint32_t device_count;
    uint32_t offset_align; /* what kernels other than elementwise and layout ones demand of buffer
                              offsets */
    uint64_t memory_bytes; /* per device */
    uint64_t delay_us;     /* before each copy, fill and kernel */
    uint64_t jitter_us;    /* added to it, from 0 up to this */
    uint64_t launch_us;    /* time that each kernel takes at least */
    uint64_t work_rate;    /* work items of kernels per second; 0: unlimited */
    uint32_t speeds[SIMDEV_MAX_DEVICES]; /* of each device, factors of work_rate; 0 stands for 1 */
    uint64_t bandwidth; /* bytes per second in each direction between a device and the host; 0:
                           unlimited */
    uint64_t seed;      /* of the jitter */
    uint64_t pci_bus;   /* of the first device; the next ones follow. 0: none */
    simdev_pageable pageable;
    char without[32]; /* kernels whose names begin so are missing; empty: none */
    uint32_t images;  /* DHOW_LAYOUT_* that convolutions like; NCHW: there are none */
    bool peer;        /* devices copy from each other */
    bool host_events; /* streams can wait for the host */
    uint32_t fault_count;
    simdev_fault faults[SIMDEV_MAX_FAULTS];
    /* NULL, or told of each piece of work that failed, under the machine's lock; true loses the
     * device, as vendors do whose errors stick. */
    bool (*failed)(void *user, uint32_t device, int32_t status, const char *message);
    /* Memory for the simulation's own objects, and where it complains about misuse that no call can
     * report. */
    void *user;
    void *(*alloc)(void *user, uint64_t bytes, uint64_t align);
    void (*free)(void *user, void *memory);
    void (*complain)(void *user, const char *message);
} simdev_config;

struct k_info; /* kernels/cpu_table.h */
typedef struct simdev_machine simdev_machine;
typedef struct simdev_device simdev_device;
typedef struct simdev_stream simdev_stream;
typedef struct simdev_event simdev_event;
typedef struct simdev_kernel simdev_kernel;

/* ---- settings: config.c, fault.c ---- */

/* Two devices of 256 MiB that are as fast as they can be. alloc, free and complain are the caller's
 * to set. */
void simdev_config_init(simdev_config *config);
/* "devices=2,memory=64M,delay_us=200"; NULL and "" change nothing. INVALID_ARGUMENT names the bad
 * word. */
int32_t simdev_config_parse(simdev_config *config, const char *settings, dhow_error *err);
/* Adds the lines of a script: `[kernel:]NAME[#DEVICE]@N[+]=[async:]STATUS[!]`, separated by
 * semicolons. */
int32_t simdev_config_parse_faults(simdev_config *config, const char *script, dhow_error *err);

/* ---- machine and devices: machine.c ---- */

/* The configuration is copied. */
int32_t simdev_machine_create(const simdev_config *config, simdev_machine **out, dhow_error *err);
/* After all devices are closed. */
void simdev_machine_destroy(simdev_machine *machine);
uint32_t simdev_machine_device_count(const simdev_machine *machine);
const simdev_config *simdev_machine_config(const simdev_machine *machine);

/* A fault point that belongs to no device, such as "device_describe". */
int32_t simdev_machine_enter(simdev_machine *machine, const char *point, dhow_error *err);

/* A device that was lost stays lost, also for a later open on the same machine. */
int32_t simdev_device_open(simdev_machine *machine, uint32_t index, simdev_device **out,
                           dhow_error *err);
/* Complains about objects left behind, ends their threads and releases them. */
void simdev_device_close(simdev_device *device);
/* Fails all work and all calls of the device from now on. */
void simdev_device_lose(simdev_device *device, const char *reason);

uint32_t simdev_device_index(const simdev_device *device);
/* The layout that its convolutions like, DHOW_LAYOUT_*. */
uint32_t simdev_device_images(const simdev_device *device);

/* ---- memory: memory.c ---- */

/* Handles are addresses, and addresses inside of an allocation work too. */
int32_t simdev_mem_alloc(simdev_device *device, uint64_t bytes, uint64_t *out_handle,
                         dhow_error *err);
void simdev_mem_free(simdev_device *device, uint64_t handle);
int32_t simdev_mem_info(simdev_device *device, uint64_t *out_free, uint64_t *out_total,
                        dhow_error *err);

/* Pinned memory serves all devices of the machine. */
int32_t simdev_host_alloc(simdev_device *device, uint64_t bytes, void **out_memory,
                          dhow_error *err);
void simdev_host_free(simdev_device *device, void *memory);
int32_t simdev_host_register(simdev_device *device, void *memory, uint64_t bytes, dhow_error *err);
int32_t simdev_host_unregister(simdev_device *device, void *memory, dhow_error *err);
/* The same on a lost device too. */
int32_t simdev_host_unregister_always(simdev_device *device, void *memory, dhow_error *err);
/* What an address belongs to. */
typedef struct simdev_place {
    bool pinned;           /* host memory; else a device's */
    bool registered;       /* pinned in place */
    simdev_device *device; /* that made it */
    uint64_t start, bytes;
} simdev_place;
/* False where the address is in no live allocation or registration. */
bool simdev_find(simdev_machine *machine, uint64_t address, simdev_place *out);
/* Whether the whole range is pinned. */
bool simdev_host_is_pinned(simdev_device *device, const void *memory, uint64_t bytes);

/* ---- streams: stream.c ---- */

/* `flags` are those of the plugin ABI, here and for events. The thread starts with the first work.
 */
int32_t simdev_stream_create(simdev_device *device, uint32_t flags, simdev_stream **out,
                             dhow_error *err);
/* Work that has not begun is dropped; the events recorded in it count as reached. */
void simdev_stream_destroy(simdev_stream *stream);
int32_t simdev_stream_sync(simdev_stream *stream, dhow_error *err);
int32_t simdev_stream_query(simdev_stream *stream, dhow_error *err);
/* Waits for all that the device's streams were given so far; orders nothing for ThreadSanitizer. */
void simdev_device_drain(simdev_device *device);
int32_t simdev_stream_wait(simdev_stream *stream, simdev_event *event, dhow_error *err);

/* ---- events: event.c ---- */

int32_t simdev_event_create(simdev_device *device, uint32_t flags, simdev_event **out,
                            dhow_error *err);
/* Signals a host event that nobody has signalled. */
void simdev_event_destroy(simdev_event *event);
int32_t simdev_event_record(simdev_event *event, simdev_stream *stream, dhow_error *err);
/* Both return the first failure of the work before the record. */
int32_t simdev_event_sync(simdev_event *event, dhow_error *err);
int32_t simdev_event_query(simdev_event *event, dhow_error *err);
int32_t simdev_event_signal(simdev_event *event, dhow_error *err);
int32_t simdev_event_elapsed(simdev_event *start, simdev_event *end, int64_t *out_nanoseconds,
                             dhow_error *err);

/* ---- work: submit.c ---- */

int32_t simdev_copy(simdev_stream *stream, const dhow_copy_rect *rect, dhow_error *err);
int32_t simdev_fill(simdev_stream *stream, uint64_t handle, uint64_t offset, uint64_t bytes,
                    uint64_t pattern, uint32_t pattern_bytes, dhow_error *err);
int32_t simdev_can_copy(simdev_device *dst, simdev_device *src, dhow_error *err);
int32_t simdev_peer_copy(simdev_stream *stream, simdev_device *src, dhow_buffer from,
                         dhow_buffer to, uint64_t bytes, dhow_error *err);

enum { SIMDEV_MAX_RANGES = 16 };

/* Memory that a call works on: `handle` 0 is none, and `memory` NULL then. */
typedef struct simdev_range {
    uint64_t handle, bytes;
    uint32_t access; /* DHOW_ACCESS_* */
} simdev_range;

/* Work of the caller's own making. `run` gets its data and where the ranges lie; what it returns is
 * the status of the work. */
typedef struct simdev_job {
    int32_t (*run)(simdev_stream *stream, void *data, unsigned char *const *memory);
    const void *data; /* copied */
    uint64_t data_bytes;
    uint32_t range_count;
    simdev_range ranges[SIMDEV_MAX_RANGES];
} simdev_job;

int32_t simdev_call(simdev_stream *stream, const simdev_job *job, dhow_error *err);
/* Whether a job that waits should give up: its stream is destroyed or its device is lost. */
bool simdev_stream_is_stopping(simdev_stream *stream);
/* What a thread did before it wrote `word` comes before what the job does now. */
void simdev_word_seen(const void *word);

/* ---- kernels: kernel.c ---- */

/* NOT_FOUND for names that the CPU table does not have. Lives as long as the device. */
int32_t simdev_kernel_find(simdev_device *device, const char *name, simdev_kernel **out,
                           dhow_error *err);
/* A kernel that is not in the table; the caller keeps `info` and frees the kernel. */
int32_t simdev_kernel_make(simdev_machine *machine, const struct k_info *info, simdev_kernel **out,
                           dhow_error *err);
void simdev_kernel_free(simdev_machine *machine, simdev_kernel *kernel);
/* Kind and size of an argument; false behind the last. */
bool simdev_kernel_arg(const simdev_kernel *kernel, uint32_t index, uint32_t *out_kind,
                       uint32_t *out_bytes);
/* What it does with a buffer: DHOW_ACCESS_*. */
uint32_t simdev_kernel_access(const simdev_kernel *kernel, uint32_t index);
/* Arguments, dims included, are copied. */
int32_t simdev_launch(simdev_stream *stream, simdev_kernel *kernel, uint64_t work,
                      const dhow_arg *args, uint32_t arg_count, dhow_error *err);

#endif /* SIMDEV_H_ */
