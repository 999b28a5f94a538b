/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the CUDA plugin share. Handles of device memory are device addresses. Every
 * call that needs the device's context stands between enter and leave, which make the primary
 * context current and put back what was current before: the process may use CUDA for itself, and
 * cudaSetDevice() would make contexts nobody asked for. Nothing here resets a device.
 */
#ifndef DHOW_CUDA_CUDA_PLUGIN_H_
#define DHOW_CUDA_CUDA_PLUGIN_H_

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "dhow/plugin.h"
#include "driver.h"

enum {
    DHOWI_CUDA_GROUP = 256,       /* items of a group of portable kernels: K_WG */
    DHOWI_CUDA_OFFSET_ALIGN = 16, /* the widest access of kernels and of cuBLAS */
    DHOWI_CUDA_SUSPECTS = 4       /* launches a stream remembers */
};

/* ---- error.c -------------------------------------------------------------------------------- */

void *dhowi_cuda_new(const dhow_host *host, size_t bytes); /* zeroed; NULL when memory is short */
void dhowi_cuda_delete(const dhow_host *host, void *memory);

typedef struct dhowi_cuda_device dhowi_cuda_device;
typedef struct dhowi_cuda_stream dhowi_cuda_stream;

/* CUDA works in this process; it will not in a child of it. */
void dhowi_cuda_started(void);
/* Errors after which the context, and so the process' use of the device, is over. */
bool dhowi_cuda_is_sticky(cudaError_t code);
/* Fills err from a code of the runtime or the driver (their numbers agree) and clears the runtime's
 * own memory of it. */
int32_t dhowi_cuda_fail(dhow_error *err, cudaError_t code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for calls on a stream: a fault of earlier work names the launches it may come from. */
int32_t dhowi_cuda_fail_on(dhowi_cuda_stream *stream, dhow_error *err, cudaError_t code,
                           const char *what);
/* For errors that are not CUDA's. */
int32_t dhowi_cuda_refuse(dhow_error *err, dhow_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- library.c ------------------------------------------------------------------------------ */

/* NVIDIA's libraries that are opened on first use and stay open. */
typedef enum dhowi_cuda_library_id {
    DHOWI_CUDA_CUBLASLT,
    DHOWI_CUDA_CUBLAS,
    DHOWI_CUDA_NVRTC,
    DHOWI_CUDA_NVML,
    DHOWI_CUDA_CUDNN,
    DHOWI_CUDA_NCCL,
    DHOWI_CUDA_LIBRARIES
} dhowi_cuda_library_id;

/* Opens a library once and fills `functions` with the symbols of the NULL-terminated list, in its
 * order. False: *why says what was tried and what is missing; it is asked again next time. Any
 * thread. */
bool dhowi_cuda_library_open(const dhow_host *host, dhowi_cuda_library_id id,
                             const char *const *symbols, void **functions, char *why,
                             size_t why_bytes);
/* The library of this first function does not start with this driver: the next call of open() goes
 * on with what lies in other places, and after the last begins anew. */
void dhowi_cuda_library_reject(dhowi_cuda_library_id id, const void *function);
/* The file of a library that was opened, "" where it is not known. */
void dhowi_cuda_library_file(dhowi_cuda_library_id id, char *out, size_t bytes);
/* Whether and where the library lies, without opening it: some take half a second. */
bool dhowi_cuda_library_locate(const dhow_host *host, dhowi_cuda_library_id id, char *where,
                               size_t where_bytes);

/* ---- probe.c -------------------------------------------------------------------------------- */

int32_t dhowi_cuda_probe(const dhow_host *host, dhow_probe *out, dhow_error *err);

/* ---- device.c ------------------------------------------------------------------------------- */

struct dhowi_cuda_images;

typedef enum dhowi_cuda_conv_choice { /* DHOW_CUDA_CONV */
                                      DHOWI_CUDA_CONV_OFF = 0,
                                      DHOWI_CUDA_CONV_AUTO = 1 << 0,
                                      DHOWI_CUDA_CONV_CUDNN = 1 << 1,
                                      DHOWI_CUDA_CONV_CUBLAS = 1 << 2
} dhowi_cuda_conv_choice;

typedef struct dhowi_cuda_backend {
    const dhow_host *host;
    uint32_t device_count;
    bool host_waits;                  /* asked for, see plugin.c */
    dhowi_cuda_conv_choice conv;      /* who may compute convolutions */
    struct dhowi_cuda_images *images; /* of built-in kernels, see module.c; with the next */
    uint32_t open_devices;
} dhowi_cuda_backend;

struct dhowi_cuda_event;
struct dhowi_cuda_kernel;
struct dhowi_cuda_blas_handles;
struct dhowi_cuda_cudnn;

struct dhowi_cuda_device {
    const dhow_host *host;
    dhowi_cuda_backend *backend;
    int ordinal;
    CUdevice id;
    CUcontext context;
    uint32_t arch; /* compute capability: 90 for 9.0 */
    uint32_t compute_units;
    uint32_t shared_bytes; /* of a group, with opt-in */
    uint32_t group_items;  /* of a group, at most */
    bool host_waits;       /* streams can wait for a word in host memory */
    char name[16];         /* "cuda:0" */
    atomic_uint
        told_of_blas; /* that there is no cuBLASLt, or that it fails: a bit for each status */
    atomic_bool told_of_text; /* that built-in kernels are compiled at run time, see module.c */

    pthread_mutex_t blas_lock; /* blas while it is made, which takes half a second */
    struct dhowi_cuda_blas_handles *blas;
    pthread_mutex_t cudnn_lock; /* the next while it is made, which takes as long */
    struct dhowi_cuda_cudnn *cudnn;
    bool no_cudnn; /* it was looked for in vain */

    pthread_mutex_t lock; /* all below; held briefly, never during calls of CUDA */
    struct dhowi_cuda_event *spare_events;
    struct dhowi_cuda_kernel *builtin_kernels;
    struct dhowi_cuda_flag *flags, *spare_flags;
    struct dhowi_cuda_name *names;
    pthread_cond_t signalled;
};

int32_t dhowi_cuda_device_count(void *backend, uint32_t *out_count, dhow_error *err);
int32_t dhowi_cuda_device_describe(void *backend, uint32_t index, dhow_device_desc *out,
                                   dhow_error *err);
int32_t dhowi_cuda_device_open(void *backend, uint32_t index, void **out_device, dhow_error *err);
void dhowi_cuda_device_close(void *device);

/* Makes the device's context current; *out_entered when leave() must put the former one back.
 * Nothing may be called after a failure: it would work on another device. */
static inline cudaError_t dhowi_cuda_require(const dhowi_cuda_device *device, bool *out_entered) {
    CUcontext current = NULL;
    *out_entered = false;
    if (dhowi_cu.CtxGetCurrent(&current) == CUDA_SUCCESS && current == device->context)
        return cudaSuccess;
    const CUresult code = dhowi_cu.CtxPushCurrent(device->context);
    *out_entered = code == CUDA_SUCCESS;
    return (cudaError_t)code;
}

/* The same for calls that end things: false where the context is gone, and they with it. */
static inline bool dhowi_cuda_enter(const dhowi_cuda_device *device, bool *out_entered) {
    const cudaError_t code = dhowi_cuda_require(device, out_entered);
    return code != cudaErrorDeviceUninitialized && code != cudaErrorContextIsDestroyed;
}

static inline void dhowi_cuda_leave(bool entered) {
    CUcontext popped;
    if (entered) (void)dhowi_cu.CtxPopCurrent(&popped);
}

/* While the program itself records a graph, CUDA by default forbids every thread to allocate, free
 * or ask for events, and such a call spoils the recording. Calls of the plugin touch no stream that
 * it records, and say so between relax and unrelax. */
static inline enum cudaStreamCaptureMode dhowi_cuda_relax(void) {
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    if (cudaThreadExchangeStreamCaptureMode(&mode) != cudaSuccess) (void)cudaGetLastError();
    return mode;
}

static inline void dhowi_cuda_unrelax(enum cudaStreamCaptureMode before) {
    if (before == cudaStreamCaptureModeRelaxed) return;
    if (cudaThreadExchangeStreamCaptureMode(&before) != cudaSuccess) (void)cudaGetLastError();
}

/* A copy of a kernel's name that lives as long as the device; "?" when memory is short. */
typedef struct dhowi_cuda_name {
    struct dhowi_cuda_name *next;
    char text[];
} dhowi_cuda_name;
const char *dhowi_cuda_keep_name(dhowi_cuda_device *device, const char *name);

/* ---- nvml.c --------------------------------------------------------------------------------- */

/* What NVML knows of a device without a context on it. `pci` is "0000:65:00.0". False where NVML is
 * missing or does not answer. */
bool dhowi_cuda_nvml_memory(const dhow_host *host, const char *pci, uint64_t *out_free,
                            uint64_t *out_total);

/* ---- memory.c ------------------------------------------------------------------------------- */

int32_t dhowi_cuda_mem_alloc(void *device, uint64_t bytes, uint64_t *out_handle, dhow_error *err);
void dhowi_cuda_mem_free(void *device, uint64_t handle);
int32_t dhowi_cuda_mem_info(void *device, uint64_t *out_free, uint64_t *out_total, dhow_error *err);
int32_t dhowi_cuda_host_alloc(void *device, uint64_t bytes, void **out_memory, dhow_error *err);
void dhowi_cuda_host_free(void *device, void *memory);
int32_t dhowi_cuda_host_register(void *device, void *memory, uint64_t bytes, dhow_error *err);
int32_t dhowi_cuda_host_unregister(void *device, void *memory, dhow_error *err);

/* ---- stream.c ------------------------------------------------------------------------------- */

struct dhowi_cuda_stream {
    dhowi_cuda_device *device;
    cudaStream_t native;
    bool wrapped;          /* the program's, see native.c */
    cudaStream_t recorder; /* takes the submissions of a recording, see graph.c; NULL before one */
    atomic_uintptr_t recording; /* the thread that records, see dhowi_cuda_thread(); 0: none */
    /* Names of the last launches; written by the submitting thread, read by whoever meets a fault.
     */
    _Atomic(const char *) suspects[DHOWI_CUDA_SUSPECTS];
    atomic_uint launches;
};

/* A number that no other thread has. */
uintptr_t dhowi_cuda_thread(void);
/* The stream that work goes to: the recorder while a graph is recorded. */
static inline cudaStream_t dhowi_cuda_target(const dhowi_cuda_stream *stream) {
    return atomic_load_explicit(&stream->recording, memory_order_acquire) != 0 ? stream->recorder
                                                                               : stream->native;
}

/* What became of the stream of a call of cuBLAS or cuDNN that failed: they have runtimes of their
 * own inside, so ours has not heard of what they met. */
cudaError_t dhowi_cuda_stream_fault(cudaStream_t stream);
int32_t dhowi_cuda_stream_create(void *device, uint32_t flags, void **out_stream, dhow_error *err);
void dhowi_cuda_stream_destroy(void *stream);
int32_t dhowi_cuda_stream_sync(void *stream, dhow_error *err);
int32_t dhowi_cuda_stream_query(void *stream, dhow_error *err);

/* ---- event.c -------------------------------------------------------------------------------- */

int32_t dhowi_cuda_event_create(void *device, uint32_t flags, void **out_event, dhow_error *err);
void dhowi_cuda_event_destroy(void *event);
int32_t dhowi_cuda_event_record(void *event, void *stream, dhow_error *err);
int32_t dhowi_cuda_stream_wait(void *stream, void *event, dhow_error *err);
int32_t dhowi_cuda_event_sync(void *event, dhow_error *err);
int32_t dhowi_cuda_event_query(void *event, dhow_error *err);
int32_t dhowi_cuda_event_signal(void *event, dhow_error *err);
int32_t dhowi_cuda_event_elapsed(void *start, void *end, int64_t *out_nanoseconds, dhow_error *err);
int32_t dhowi_cuda_event_native(void *event, uint64_t *out_native, dhow_error *err);
/* When the device closes; `alive`: its context is there. */
void dhowi_cuda_events_end(dhowi_cuda_device *device, bool alive);

/* ---- native.c ------------------------------------------------------------------------------- */

extern const dhow_native dhowi_cuda_native;

/* ---- copy.c, peer.c ------------------------------------------------------------------------- */

int32_t dhowi_cuda_copy(void *stream, const dhow_copy_rect *rect, dhow_error *err);
int32_t dhowi_cuda_fill(void *stream, uint64_t handle, uint64_t offset, uint64_t bytes,
                        uint64_t pattern, uint32_t pattern_bytes, dhow_error *err);
int32_t dhowi_cuda_can_copy(void *dst_device, void *src_device, dhow_error *err);
int32_t dhowi_cuda_peer_copy(void *stream, void *src_device, uint64_t src_handle,
                             uint64_t src_offset, uint64_t dst_handle, uint64_t dst_offset,
                             uint64_t bytes, dhow_error *err);

/* ---- module.c, launch.c --------------------------------------------------------------------- */

typedef struct dhowi_cuda_kernel {
    struct dhowi_cuda_kernel *next;
    dhowi_cuda_device *device;
    const char *name; /* kept by the device */
    CUfunction function;
    uint32_t index_bits;   /* of built-in kernels */
    bool portable;         /* block and grid are the plugin's choice */
    uint32_t max_groups;   /* of portable kernels: as many as run at once */
    uint32_t shared_bytes; /* that a launch may ask for */
    int32_t param_count;   /* of the binary, -1 when the driver does not say */
    uint16_t param_bytes[DHOW_MAX_KERNEL_ARGS];
} dhowi_cuda_kernel;

int32_t dhowi_cuda_module_build(void *device, const dhow_module_desc *desc, void **out_module,
                                dhow_error *err);
void dhowi_cuda_module_free(void *module);
int32_t dhowi_cuda_module_kernel(void *module, const char *name, void **out_kernel,
                                 dhow_error *err);
int32_t dhowi_cuda_builtin_kernel(void *device, const char *name, uint32_t index_bits,
                                  void **out_kernel, dhow_error *err);
/* When the device opens and closes; `alive`: its context is current. */
void dhowi_cuda_builtins_begin(dhowi_cuda_device *device);
void dhowi_cuda_builtins_end(dhowi_cuda_device *device, bool alive);

/* Fills a new kernel from a loaded library. */
int32_t dhowi_cuda_kernel_init(dhowi_cuda_device *device, cudaLibrary_t library, const char *name,
                               bool portable, dhowi_cuda_kernel *out, dhow_error *err);
/* INVALID_ARGUMENT where the binary's arguments are not those of the signature. */
int32_t dhowi_cuda_kernel_check(const dhowi_cuda_kernel *kernel, const dhow_kernel_decl *decl,
                                dhow_error *err);
int32_t dhowi_cuda_launch(void *stream, void *kernel, const dhow_geometry *geometry,
                          const dhow_arg *args, uint32_t arg_count, dhow_error *err);

/* ---- nvrtc.c -------------------------------------------------------------------------------- */

/* Compiles portable text or CUDA C for the device, or takes the result from the cache. *out_image
 * is the caller's to delete. */
int32_t dhowi_cuda_compile(dhowi_cuda_device *device, const dhow_module_desc *desc,
                           void **out_image, uint64_t *out_bytes, dhow_error *err);

/* ---- blas.c, graph.c ------------------------------------------------------------------------ */

extern const dhow_blas dhowi_cuda_blas;
extern const dhow_capture dhowi_cuda_capture;
void dhowi_cuda_blas_end(dhowi_cuda_device *device, bool alive);

/* ---- conv.c, cudnn.c ------------------------------------------------------------------------ */

extern const dhow_conv dhowi_cuda_conv_table;
int32_t dhowi_cuda_conv_read_choice(const dhow_host *host, dhowi_cuda_conv_choice *out,
                                    dhow_error *err);
void dhowi_cuda_cudnn_end(dhowi_cuda_device *device, bool alive);

/* ---- nccl.c --------------------------------------------------------------------------------- */

extern const dhow_coll dhowi_cuda_coll;

#endif /* DHOW_CUDA_CUDA_PLUGIN_H_ */
