/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the OpenCL plugin share: its objects and the slots each file provides. One
 * context per device, one in-order queue per stream, and beside them one small queue per device for
 * work that belongs to no stream (maps).
 */
#ifndef DHOW_OPENCL_OPENCL_H_
#define DHOW_OPENCL_OPENCL_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "dhow/plugin.h"
#include "symbols.h"

/* ---- error.c -------------------------------------------------------------------------------- */

/* "CL_OUT_OF_RESOURCES", or "an unknown OpenCL error". */
const char *dhowi_cl_error_name(cl_int code);

/* Fills err with the message, " : CL_NAME (-5)" behind it, and returns the status that fits the
 * OpenCL code. */
int32_t dhowi_cl_fail(dhow_error *err, cl_int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for failures the runtime reports after the call that caused them: whatever is not a lack
 * of memory means that the device has stopped working in this process. */
int32_t dhowi_cl_fail_late(dhow_error *err, cl_int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A failure of our own finding, without an OpenCL code. */
int32_t dhowi_cl_refuse(dhow_error *err, dhow_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Zeroed memory of the host's allocator, NULL when short; and its release, which takes NULL. */
void *dhowi_cl_new(const dhow_host *host, size_t bytes);
void dhowi_cl_delete(const dhow_host *host, void *memory);

/* ---- device.c ------------------------------------------------------------------------------- */

typedef enum dhowi_cl_blas_mode {
    DHOWI_CL_BLAS_AUTO, /* GPUs only */
    DHOWI_CL_BLAS_ON,
    DHOWI_CL_BLAS_OFF
} dhowi_cl_blas_mode;

/* A device as the runtime lists it. */
typedef struct dhowi_cl_listed {
    cl_platform_id platform;
    cl_device_id id;
    cl_device_type type;
} dhowi_cl_listed;

typedef struct dhowi_cl_backend {
    const dhow_host *host;
    dhowi_cl_listed *devices; /* GPUs, accelerators, CPUs; in the runtime's order within each */
    uint32_t device_count;
    dhowi_cl_blas_mode blas_mode;
    bool joins_values; /* dhow's kernels on processors take all values as one argument */
} dhowi_cl_backend;

/* Memory mapped for good, that is pinned host memory. */
typedef struct dhowi_cl_pinned {
    struct dhowi_cl_pinned *next;
    void *memory;
    cl_mem mem;
} dhowi_cl_pinned;

typedef struct dhowi_cl_device {
    const dhow_host *host;
    dhowi_cl_backend *backend;
    cl_device_id id;
    cl_context context;
    cl_command_queue own_queue; /* maps and pinned memory; never waits for a stream */
    bool is_cpu;                /* kernels are built in the loop form */
    bool is_gpu;
    bool host_visible;
    bool has_user_events; /* commands may wait for the host */
    bool has_fp64;
    bool has_fp16;
    uint32_t compute_units;
    uint32_t group_items; /* K_WG of portable kernels in GPU form */
    uint64_t sub_buffer_align;
    uint64_t max_alloc_bytes;
    uint64_t total_bytes;
    char name[128];
    char driver[128];
    pthread_mutex_t pinned_lock;
    dhowi_cl_pinned *pinned;
    bool blas_tried[3]; /* CLBlast's products of f32, f64 and f16, and what the first answered */
    int blas_codes[3];
} dhowi_cl_device;

/* Lists the usable devices of all platforms into *out (NULL when there are none). `why` gets the
 * reason when the count is 0. Returns an OpenCL code. */
cl_int dhowi_cl_list_devices(const dhow_host *host, dhowi_cl_listed **out, uint32_t *out_count,
                             uint32_t *out_platforms, char *why, size_t why_bytes);

int32_t dhowi_cl_device_count(void *backend, uint32_t *out_count, dhow_error *err);
int32_t dhowi_cl_device_describe(void *backend, uint32_t index, dhow_device_desc *out,
                                 dhow_error *err);
int32_t dhowi_cl_device_open(void *backend, uint32_t index, void **out_device, dhow_error *err);
void dhowi_cl_device_close(void *device);
bool dhowi_cl_is_pocl(const dhowi_cl_device *device);

/* ---- memory.c ------------------------------------------------------------------------------- */

/* What a memory handle points to. */
typedef struct dhowi_cl_buffer {
    cl_mem mem;
    uint64_t bytes;
    uint64_t id;  /* never given twice in a process, unlike the address of a cl_mem */
    void *memory; /* our own host memory behind mem, on huge pages; NULL where the runtime allocates
                   */
} dhowi_cl_buffer;

static inline dhowi_cl_buffer *dhowi_cl_buffer_of(uint64_t handle) {
    return (dhowi_cl_buffer *)(uintptr_t)handle;
}

/* A buffer without its mem; NULL when memory is short. */
dhowi_cl_buffer *dhowi_cl_buffer_new(const dhowi_cl_device *device, uint64_t bytes);
int32_t dhowi_cl_mem_alloc(void *device, uint64_t bytes, uint64_t *out_handle, dhow_error *err);
void dhowi_cl_mem_free(void *device, uint64_t handle);
int32_t dhowi_cl_host_alloc(void *device, uint64_t bytes, void **out_memory, dhow_error *err);
void dhowi_cl_host_free(void *device, void *memory);
int32_t dhowi_cl_map(void *device, uint64_t handle, uint64_t offset, uint64_t bytes,
                     uint32_t access, void **out_memory, dhow_error *err);
int32_t dhowi_cl_unmap(void *device, uint64_t handle, void *memory, dhow_error *err);
int32_t dhowi_cl_mem_info(void *device, uint64_t *out_free, uint64_t *out_total, dhow_error *err);

/* ---- stream.c ------------------------------------------------------------------------------- */

/* One thread at a time submits; any thread may sync and query meanwhile. */
typedef struct dhowi_cl_stream {
    dhowi_cl_device *device;
    cl_command_queue queue;         /* changed under the lock, by the submitting thread */
    bool timed;                     /* the queue takes times */
    bool wrapped;                   /* the program's queue, see native.c */
    atomic_bool shown;              /* the program has it, so it must not change */
    uint32_t unflushed;             /* of the submitting thread */
    atomic_uint_fast64_t submitted; /* commands so far */
    atomic_int failed;              /* first failure of a flush, reported by the next sync */
    pthread_mutex_t lock;           /* all below */
    cl_event marker; /* what stream_query watches, behind the first marker_at commands */
    uint64_t marker_at;
    uint64_t reached; /* commands known to have ended */
} dhowi_cl_stream;

/* Counts a command just enqueued, and hands the queue to the device every now and then. */
void dhowi_cl_stream_submitted(dhowi_cl_stream *stream);
/* Hands over what was counted. */
void dhowi_cl_stream_flush(dhowi_cl_stream *stream);
/* Holds back later commands until an event of the device's context is reached. */
int32_t dhowi_cl_stream_wait_event(dhowi_cl_stream *stream, cl_event event, dhow_error *err);
/* Lets the stream's later commands be timed. */
int32_t dhowi_cl_stream_start_timing(dhowi_cl_stream *stream, dhow_error *err);

int32_t dhowi_cl_stream_create(void *device, uint32_t flags, void **out_stream, dhow_error *err);
void dhowi_cl_stream_destroy(void *stream);
int32_t dhowi_cl_stream_sync(void *stream, dhow_error *err);
int32_t dhowi_cl_stream_query(void *stream, dhow_error *err);

/* ---- event.c -------------------------------------------------------------------------------- */

/* OK when reached, NOT_READY when not, else what the event's commands failed with. */
int32_t dhowi_cl_event_status(cl_event event, dhow_error *err);

int32_t dhowi_cl_stream_wait(void *stream, void *event, dhow_error *err);
int32_t dhowi_cl_event_create(void *device, uint32_t flags, void **out_event, dhow_error *err);
void dhowi_cl_event_destroy(void *event);
int32_t dhowi_cl_event_record(void *event, void *stream, dhow_error *err);
int32_t dhowi_cl_event_sync(void *event, dhow_error *err);
int32_t dhowi_cl_event_query(void *event, dhow_error *err);
int32_t dhowi_cl_event_signal(void *event, dhow_error *err);
int32_t dhowi_cl_event_elapsed(void *start, void *end, int64_t *out_nanoseconds, dhow_error *err);

int32_t dhowi_cl_event_native(void *event, uint64_t *out_native, dhow_error *err);

/* ---- native.c ------------------------------------------------------------------------------- */

extern const dhow_native dhowi_cl_native;

/* ---- copy.c --------------------------------------------------------------------------------- */

int32_t dhowi_cl_copy(void *stream, const dhow_copy_rect *rect, dhow_error *err);
int32_t dhowi_cl_fill(void *stream, uint64_t handle, uint64_t offset, uint64_t bytes,
                      uint64_t pattern, uint32_t pattern_bytes, dhow_error *err);

/* ---- module.c, launch.c --------------------------------------------------------------------- */

struct dhowi_cl_module;

/* What an argument was at the kernel's last launch. Setting an argument costs as much as half a
 * launch, and most keep their value from launch to launch. */
typedef struct dhowi_cl_slot {
    uint64_t buffer_id; /* 0: not known */
    uint64_t bits;      /* the value */
    uint32_t bytes;     /* size of the value in bits, 0: not known */
    dhow_dims *dims;    /* made with the first dims argument */
} dhowi_cl_slot;

/* Portable kernels are compiled in two forms, see source.h; native ones have the first alone. On
 * processors, where adding an offset costs nothing, but compiling and each argument do, those of
 * dhow have the third alone. */
enum { DHOWI_CL_PLAIN = 0, DHOWI_CL_OFFSETS = 1, DHOWI_CL_JOINED = 2, DHOWI_CL_FORMS = 3 };

typedef struct dhowi_cl_form {
    cl_kernel kernel;     /* NULL until it is needed */
    uint32_t native_args; /* arguments the compiled kernel takes */
    size_t group_items;   /* fixed by the compiled kernel; 0 when it leaves that open */
    dhowi_cl_slot slots[DHOW_MAX_KERNEL_ARGS];
    bool offsets_known;
    cl_ulong offsets[DHOW_MAX_KERNEL_ARGS]; /* OFFSETS: of the buffers, as the last argument */
    unsigned char *values; /* JOINED: the last argument, and room to make the next one */
    size_t values_bytes;
    bool values_known;
} dhowi_cl_form;

typedef struct dhowi_cl_kernel {
    struct dhowi_cl_kernel *next;
    struct dhowi_cl_module *module;
    dhowi_cl_device *device;
    char *name;
    pthread_mutex_t lock; /* from the first clSetKernelArg to the enqueue: OpenCL kernels hold one
                             set of arguments */
    bool portable;
    dhowi_cl_form forms[DHOWI_CL_FORMS];
} dhowi_cl_kernel;

int32_t dhowi_cl_module_build(void *device, const dhow_module_desc *desc, void **out_module,
                              dhow_error *err);
void dhowi_cl_module_free(void *module);
int32_t dhowi_cl_module_kernel(void *module, const char *name, void **out_kernel, dhow_error *err);

/* The program that has a kernel in a form, compiled on first use; the caller releases it. Of dhow's
 * own units it has that kernel alone, but on PoCL. */
int32_t dhowi_cl_module_program(struct dhowi_cl_module *module, const char *kernel, int form,
                                cl_program *out, dhow_error *err);

/* Whether a launch of groups of `from` items failed for want of resources, and the module's
 * programs are now to be compiled for smaller ones. */
bool dhowi_cl_module_halve(struct dhowi_cl_module *module, size_t from, cl_int why);

/* The last argument of the JOINED form: offsets and values, as the struct of its text has them. Set
 * only where it is not what it was. Under the kernel's lock. */
cl_int dhowi_cl_set_values(const dhow_host *host, dhowi_cl_form *form, cl_uint at,
                           const dhow_arg *args, uint32_t count);

/* Makes a kernel of a module, and releases it (NULL is allowed). */
int32_t dhowi_cl_kernel_create(dhowi_cl_device *device, struct dhowi_cl_module *module,
                               const char *name, bool portable, dhowi_cl_kernel **out_kernel,
                               dhow_error *err);
void dhowi_cl_kernel_destroy(dhowi_cl_kernel *kernel);
int32_t dhowi_cl_launch(void *stream, void *kernel, const dhow_geometry *geometry,
                        const dhow_arg *args, uint32_t arg_count, dhow_error *err);

/* ---- blas.c --------------------------------------------------------------------------------- */

extern const dhow_blas dhowi_cl_blas;
/* Says whether CLBlast is there and where, or why not. */
bool dhowi_cl_blas_present(char *detail, size_t detail_bytes);

#endif /* DHOW_OPENCL_OPENCL_H_ */
