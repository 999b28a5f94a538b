/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the simulated machine share. One lock guards all state of a machine; work
 * itself runs outside of it. Objects of queued work are released by callers' threads, never by the
 * streams' threads: a lock inside of the caller's allocator would otherwise order what the program
 * forgot to order.
 */
#ifndef SIMDEV_INTERNAL_H_
#define SIMDEV_INTERNAL_H_

#include <stdatomic.h>
#include <stddef.h>

#include "kernels/cpu_table.h"
#include "simdev.h"
#include "sync.h"

enum { SIMDEV_MAX_DIMS = 3 }; /* dims arguments of one kernel */

/* A failure that waits to be reported; status 0 is none. */
typedef struct simdev_failure {
    int32_t status;
    char message[220];
} simdev_failure;

typedef enum simdev_block_kind {
    SIMDEV_BLOCK_DEVICE,
    SIMDEV_BLOCK_PINNED,
    SIMDEV_BLOCK_REGISTERED
} simdev_block_kind;

/* Memory that handles or pinned addresses refer to. Freed blocks are remembered for a while, with
 * their address range reserved, so that late use of them is told from use of another block. */
typedef struct simdev_block {
    simdev_block_kind kind;
    bool freed;
    uint32_t uses;         /* work running on it right now */
    uint64_t freed_at;     /* order of frees */
    simdev_device *device; /* that made it; pinned memory serves all */
    uint64_t start, bytes; /* as the host knows it */
    unsigned char *memory; /* where the streams' threads find it */
    uint64_t tail;         /* bytes behind it that nobody may change */
    void *mapping;
    uint64_t mapping_bytes;
    unsigned char *pages; /* the accessible part of the mapping */
    uint64_t pages_bytes;
} simdev_block;

struct simdev_machine {
    simdev_config config;
    pthread_mutex_t lock;
    pthread_cond_t progress; /* work has ended, a point is reached, a device is lost */
    simdev_block **blocks;   /* by address */
    size_t block_count, block_capacity;
    uint64_t frees, freed_count;
    uint64_t stream_number;
    simdev_failure lost[SIMDEV_MAX_DEVICES];
};

enum { SIMDEV_TO_DEVICE, SIMDEV_FROM_DEVICE, SIMDEV_FROM_PEER, SIMDEV_LINKS };

struct simdev_device {
    simdev_machine *machine;
    uint32_t index;
    uint64_t used_bytes;
    int64_t link_free_at[SIMDEV_LINKS]; /* nanoseconds */
    simdev_stream *streams;
    simdev_kernel *kernels;
    uint32_t event_count;
};

/* One record of an event, or the signal of a host event. */
typedef struct simdev_point {
    atomic_uint refs;
    bool reached;
    int64_t nanoseconds;
    simdev_failure failure; /* of the work before it */
} simdev_point;

struct simdev_event {
    simdev_device *device;
    uint32_t flags;
    simdev_point *latest; /* NULL: never recorded */
};

struct simdev_kernel {
    simdev_kernel *next;
    const k_info *info;
    bool any_offset; /* elementwise and layout kernels */
    bool strided;    /* takes dims */
    uint8_t arg_count;
    uint8_t kind[DHOW_MAX_KERNEL_ARGS];   /* DHOW_ARG_* */
    uint8_t access[DHOW_MAX_KERNEL_ARGS]; /* of buffers */
    uint8_t bytes[DHOW_MAX_KERNEL_ARGS];  /* of a value or an element */
};

typedef enum simdev_op_kind {
    SIMDEV_COPY,
    SIMDEV_FILL,
    SIMDEV_KERNEL,
    SIMDEV_CALL,
    SIMDEV_RECORD,
    SIMDEV_WAIT
} simdev_op_kind;

typedef struct simdev_op {
    struct simdev_op *next;
    simdev_op_kind kind;
    int64_t arrived;      /* when it was submitted */
    simdev_failure fault; /* scripted: takes the place of the work */
    bool fault_loses;
    void *staging;       /* COPY: the snapshot of its source; CALL: its data */
    simdev_point *point; /* RECORD, WAIT */
    union {
        struct {
            dhow_copy_rect rect;
            simdev_device *src_device;
            bool src_pinned, dst_pinned;
        } copy;
        struct {
            dhow_buffer to;
            uint64_t bytes, pattern;
            uint32_t pattern_bytes;
        } fill;
        struct {
            const simdev_kernel *kernel;
            uint64_t work;
            dhow_arg args[DHOW_MAX_KERNEL_ARGS];
            dhow_dims dims[SIMDEV_MAX_DIMS];
        } launch;
        simdev_job job; /* its data is in `staging` */
    } u;
} simdev_op;

struct simdev_stream {
    simdev_device *device;
    simdev_stream *next;
    uint32_t flags;
    bool started, quit;
    pthread_t thread;
    pthread_cond_t arrival;
    simdev_op *head, *tail; /* the head is the one that runs */
    simdev_op *finished;
    uint64_t submitted, completed, drain; /* what simdev_device_drain waits for */
    uint64_t random;
    int64_t free_at; /* when the work before was over, or should have been: timers are late */
    simdev_failure failure; /* the first since the last sync */
};

/* ---- machine.c ---- */

/* Zeroed memory; NULL when there is none. */
void *simdev_new(const simdev_machine *machine, size_t bytes);
void simdev_delete(const simdev_machine *machine, void *memory);
int32_t simdev_fail(dhow_error *err, int32_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int32_t simdev_report(dhow_error *err, const simdev_failure *failure);
void simdev_set_failure(simdev_failure *failure, int32_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void simdev_complain(const simdev_machine *machine, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The beginning of every call: fails on a lost device and where the script says so. `out_async`,
 * NULL where the call makes no work, gets the fault of the work. */
int32_t simdev_enter(simdev_device *device, const char *point, simdev_op *out_async,
                     dhow_error *err);
/* The lock is held by the caller, for this and the next. */
void simdev_lose_locked(simdev_device *device, const simdev_failure *why);
static inline simdev_failure *simdev_lost(simdev_device *device) {
    return &device->machine->lost[device->index];
}

/* ---- fault.c ---- */

/* The line of the script that hits this call, or NULL. Counts the call. The lock is held. */
const simdev_fault *simdev_fault_hit(simdev_config *config, const char *point, int32_t device);

/* ---- memory.c; the lock is held ---- */

/* Finds memory for work: `device` NULL asks for pinned memory. False with the reason in *why. */
bool simdev_use_begin(simdev_machine *machine, const simdev_device *device, uint64_t handle,
                      uint64_t offset, uint64_t bytes, simdev_block **out_block,
                      unsigned char **out_memory, simdev_failure *why);
/* Finds out what the work did to it: freed meanwhile, written past its end. */
void simdev_use_end(simdev_machine *machine, simdev_block *block, simdev_failure *why);
/* Complains about and frees the device's blocks. */
void simdev_blocks_drop(simdev_machine *machine, const simdev_device *device);

/* ---- stream.c ---- */

simdev_op *simdev_op_new(simdev_stream *stream, simdev_op_kind kind, dhow_error *err);
void simdev_op_delete(const simdev_machine *machine, simdev_op *op);
/* Takes the operation over, also on failure. `wait` returns after it has run. */
int32_t simdev_submit(simdev_stream *stream, simdev_op *op, bool wait, dhow_error *err);

/* ---- event.c ---- */

void simdev_point_release(const simdev_machine *machine, simdev_point *point);
/* The lock is held. `when`: nanoseconds. */
void simdev_point_reach(simdev_machine *machine, simdev_point *point, int64_t when,
                        const simdev_failure *failure);

/* ---- work.c ---- */

int64_t simdev_now(void);
/* When an operation begins on a device whose work follows at once, however late the stream's
 * thread wakes up in between. */
int64_t simdev_begin_of(const simdev_stream *stream, const simdev_op *op);
/* Bytes from the first to the last of a box; false when they overflow. */
bool simdev_span(const uint64_t *extent, const uint64_t *pitch, uint64_t *out_bytes);
/* Runs a copy, fill or kernel, delays included, without the lock. */
void simdev_run(simdev_stream *stream, simdev_op *op, simdev_failure *why);
void simdev_copy_box(unsigned char *to, const uint64_t *to_pitch, const unsigned char *from,
                     const uint64_t *from_pitch, const uint64_t *extent);

#endif /* SIMDEV_INTERNAL_H_ */
