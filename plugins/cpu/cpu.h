/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the CPU plugin share. A stream has finished its work whenever a call returns,
 * so streams and events hold next to nothing, and the device is the pool of threads that its work
 * is spread over.
 */
#ifndef DHOW_PLUGINS_CPU_CPU_H_
#define DHOW_PLUGINS_CPU_CPU_H_

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "dhow/plugin.h"
#include "kernels/cpu_table.h"

typedef enum cpu_when { CPU_NEVER, CPU_WHERE_IT_PAYS, CPU_ALWAYS } cpu_when;

typedef struct cpu_backend {
    const dhow_host *host;
    int isa; /* CPU_ISA_*, the best that there is and DHOW_CPU_ISA allows */
    /* DHOW_CPU_WINOGRAD, _DOTS, _TILES, _ACTIVATIONS, _ONE_ROW, _PANELS, _BYTES, _AFFINITY: 0, 1,
     * or "always", for tests */
    cpu_when winograd, dots, tiles, activations, one_row, panels, bytes, apart;
} cpu_backend;

typedef struct cpu_kernel_object cpu_kernel_object;
typedef struct onednn_form onednn_form;

/* idle.c. What all cores of the system have idled since it started. */
typedef struct cpu_idle {
    int cores; /* 0: not known, or some are not the calling thread's to use */
    int64_t time;
} cpu_idle;
cpu_idle cpu_idle_now(void);
typedef struct cpu_look {
    int64_t worked, time, used; /* nanoseconds in regions, of the clock, and of all cores together
                                   that this process had */
    cpu_idle idle;
} cpu_look;

/* The threads that parallel regions are spread over. */
typedef struct cpu_team {
    pthread_mutex_t region; /* one parallel region at a time; guards what has no _Atomic, and
                               changes of level */
    int threads;
    int apart;              /* workers keep off the caller's core */
    atomic_int level;       /* regions get threads >> level of them */
    _Atomic int64_t worked; /* nanoseconds in regions since the level changed */
    _Atomic int64_t ended;  /* when the last region did, by the clock */
    int64_t pause;          /* of work, from a late region to the next try with more threads */
    int64_t saved;          /* nanoseconds, by the regions of late against half as many threads */
    cpu_idle (*idle_now)(void);
    cpu_look look;   /* the last one at this level; its time is 0 before there is one */
    int64_t between; /* of work, from one look at idle cores to the next */
    int on_trial;    /* more threads are in use because cores idled, and have saved little yet */
} cpu_team;

typedef struct cpu_device {
    cpu_backend *backend;
    cpu_team team;
    int isa;                     /* CPU_ISA_* */
    int reads_rows_ahead;
    uint64_t memory_bytes;       /* that there can be at most, 0 when unknown */
    pthread_mutex_t lock;        /* guards builtins and forms */
    cpu_kernel_object *builtins; /* made on first lookup, freed with the device */
    onednn_form *forms;          /* of packed weights */
} cpu_device;

typedef struct cpu_stream {
    cpu_device *device;
} cpu_stream;

/* Fills err and returns the status; printf-like. */
int32_t cpu_fail(dhow_error *err, dhow_status status, int64_t native, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* cpuid.c */
#if defined(__x86_64__)
typedef struct cpu_features { /* words of CPUID and XGETBV */
    uint32_t basic, seven, extended, saved;
} cpu_features;
cpu_features cpu_features_here(void);
int cpu_isa_of(const cpu_features *features);
#endif
int cpu_best_isa(void); /* -1 where there is none */
/* Whether the processor sees by itself that rows of a matrix are read beside each other. */
int cpu_reads_rows_ahead(void);
const char *cpu_isa_name(int isa);
void cpu_model_name(char *out, size_t bytes);

/* team.c. A region of one thread holds nothing, so any number of callers may be in one. */
typedef struct cpu_region {
    int threads;
    int level;
    int starts; /* threads or a primitive run in it for the first time: its time tells nothing */
    int64_t start;
} cpu_region;
/* What regions that do the same took at best, in nanoseconds; 0 for none. */
enum { CPU_LEVELS = 13 };
typedef struct cpu_times {
    double products; /* multiplications, from which the first time is guessed */
    int64_t divided[CPU_LEVELS];
    _Atomic int64_t alone;
} cpu_times;
void cpu_team_init(cpu_team *team, int threads);
void cpu_team_destroy(cpu_team *team);
cpu_region cpu_region_begin(cpu_team *team);
/* Whether the threads of the last region still wait for the next one, which they do for some
 * milliseconds before they sleep: waking them takes as long as copying 1 MB. */
int cpu_team_is_awake(const cpu_team *team);
/* So long all threads of the region took to come. For regions whose own time tells nothing. */
void cpu_region_called(cpu_team *team, int64_t took);
/* `expected` is the time in nanoseconds that the region would take if each thread had its core. */
void cpu_region_end(cpu_team *team, const cpu_region *region, int64_t expected);
/* The same for work that is done again and again. */
void cpu_region_end_timed(cpu_team *team, const cpu_region *region, cpu_times *times);
int64_t cpu_now(void);
/* apart.c. Before a region of so many threads: those besides the caller leave its core. */
void cpu_keep_apart(int threads);

/* memory.c */
int32_t cpu_mem_alloc(void *device, uint64_t bytes, uint64_t *out_handle, dhow_error *err);
void cpu_mem_free(void *device, uint64_t handle);
int32_t cpu_host_alloc(void *device, uint64_t bytes, void **out_memory, dhow_error *err);
void cpu_host_free(void *device, void *memory);
int32_t cpu_host_register(void *device, void *memory, uint64_t bytes, dhow_error *err);
int32_t cpu_host_unregister(void *device, void *memory, dhow_error *err);
int32_t cpu_map(void *device, uint64_t handle, uint64_t offset, uint64_t bytes, uint32_t access,
                void **out_memory, dhow_error *err);
int32_t cpu_unmap(void *device, uint64_t handle, void *memory, dhow_error *err);
void cpu_memory_info(const dhow_host *host, uint64_t *out_free, uint64_t *out_total);
int32_t cpu_mem_info(void *device, uint64_t *out_free, uint64_t *out_total, dhow_error *err);

/* stream.c */
int32_t cpu_stream_create(void *device, uint32_t flags, void **out_stream, dhow_error *err);
void cpu_stream_destroy(void *stream);
int32_t cpu_stream_sync(void *stream, dhow_error *err);
int32_t cpu_stream_query(void *stream, dhow_error *err);
int32_t cpu_stream_wait(void *stream, void *event, dhow_error *err);
int32_t cpu_event_create(void *device, uint32_t flags, void **out_event, dhow_error *err);
void cpu_event_destroy(void *event);
int32_t cpu_event_record(void *event, void *stream, dhow_error *err);
int32_t cpu_event_sync(void *event, dhow_error *err);
int32_t cpu_event_query(void *event, dhow_error *err);
int32_t cpu_event_signal(void *event, dhow_error *err);
int32_t cpu_event_elapsed(void *start, void *end, int64_t *out_nanoseconds, dhow_error *err);

/* copy.c. cpu_stream_bytes writes past the cache; the caller fences with cpu_stream_fence. */
int32_t cpu_copy(void *stream, const dhow_copy_rect *rect, dhow_error *err);
int32_t cpu_fill(void *stream, uint64_t handle, uint64_t offset, uint64_t bytes, uint64_t pattern,
                 uint32_t pattern_bytes, dhow_error *err);
int32_t cpu_peer_copy(void *stream, void *src_device, uint64_t src_handle, uint64_t src_offset,
                      uint64_t dst_handle, uint64_t dst_offset, uint64_t bytes, dhow_error *err);
int32_t cpu_can_copy(void *dst_device, void *src_device, dhow_error *err);
void cpu_stream_bytes(void *to, const void *from, size_t bytes);
void cpu_stream_fence(void);

/* kernels.c. A k_info becomes a kernel object; a built-in one with its unit's name, which tells how
 * it may be cut. */
struct cpu_kernel_object {
    const k_info *info;
    cpu_kernel_object *next;
    uint8_t unit; /* CPU_UNIT_* */
    uint8_t arg_count;
    uint8_t outputs; /* index of the output argument of units that are cut */
    uint8_t element_bytes[DHOW_MAX_KERNEL_ARGS]; /* of buffers; 0 for values */
};
enum { CPU_UNIT_OTHER, CPU_UNIT_FLAT, CPU_UNIT_ROWS, CPU_UNIT_MATMUL, CPU_UNIT_CONV };
int32_t cpu_kernel_init(cpu_kernel_object *kernel, const k_info *info, const char *unit,
                        dhow_error *err);
int32_t cpu_builtin_kernel(void *device, const char *name, uint32_t index_bits, void **out_kernel,
                           dhow_error *err);
void cpu_builtins_free(cpu_device *device);
int32_t cpu_launch(void *stream, void *kernel, const dhow_geometry *geometry, const dhow_arg *args,
                   uint32_t arg_count, dhow_error *err);

/* module.c */
int32_t cpu_module_build(void *device, const dhow_module_desc *desc, void **out_module,
                         dhow_error *err);
void cpu_module_free(void *module);
int32_t cpu_module_kernel(void *module, const char *name, void **out_kernel, dhow_error *err);

/* onednn_name.c: the files that may be the library, in the order to try them; 0 past the last.
 * `soname` is that of the library found at build time, or NULL. */
int onednn_name(int index, const char *soname, int major, char *out, size_t bytes);

/* onednn.c, or onednn_none.c where no headers were found */
int32_t cpu_onednn_component(dhow_component *out);
void cpu_onednn_limit(int isa); /* before it is opened, for the whole process */
void onednn_forms_release(cpu_device *device);
const dhow_blas *cpu_blas(void);
const dhow_conv *cpu_conv(void);

#endif
