/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the fake CUDA runtime share. Devices, streams and memory are the simulated
 * machine's (tests/simdev); contexts, handles, errors, recording and faults are here. One lock
 * guards all of it; it is hidden from ThreadSanitizer, as the machine's is.
 */
#ifndef TESTS_FAKECUDA_FAKE_H_
#define TESTS_FAKECUDA_FAKE_H_

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdatomic.h>

#include "fakecuda.h"
#include "kernels/cpu_table.h"
#include "simdev.h"
#include "sync.h"

enum {
    FAKE_MAX_FAULTS = 32,
    FAKE_CURRENT = -1,   /* the device of the current context; device 0's where none is */
    FAKE_NOWHERE = -2,   /* calls that need no context */
    FAKE_ALWAYS = -3,    /* nor a driver */
    FAKE_STATUS = 10000, /* status of work in the machine: this plus CUDA's code */
    FAKE_MAX_PARAMS = 64,
    FAKE_PARAM_BYTES = 4096
};

typedef struct fake_fault {
    char function[48];
    int device; /* -1: all */
    int code;
    uint64_t nth, seen;
    bool onwards, async;
} fake_fault;

typedef struct fake_settings {
    simdev_config machine;
    int driver, runtime, cc, sms, ecc, peer, init, code, slow_ms, clock_s;
    bool strict, stub, hidden, legacy, waits, quiesce, eager, mig, nolt, noheuristic, nocudnn,
        nofused, nonvrtc, nonvml, nonccl, oldnccl, log, idle, ptx, costs, wide, plain_copies;
} fake_settings;

typedef struct CUctx_st {
    int device, retained;
} fake_context;

typedef struct fake_object { /* in front of each counted object */
    struct fake_object *next;
    fakecuda_kind kind;
} fake_object;

typedef struct fake_state {
    pthread_mutex_t lock;
    pthread_mutex_t driver; /* see fake_drain() */
    bool ready;
    pid_t process;       /* that began; CUDA does not survive a fork */
    uint64_t generation; /* counts resets; threads' contexts of earlier ones are void */
    fake_settings settings;
    FILE *log; /* NULL: where the settings say */
    fake_fault faults[FAKE_MAX_FAULTS];
    uint32_t fault_count;
    atomic_uint struck, complaints;
    char first_complaint[256];
    simdev_machine *machine;
    simdev_device *devices[SIMDEV_MAX_DEVICES];
    atomic_int sticky[SIMDEV_MAX_DEVICES];           /* CUDA's code; 0: none */
    atomic_bool sticky_reported[SIMDEV_MAX_DEVICES]; /* by a function of the runtime */
    fake_context contexts[SIMDEV_MAX_DEVICES];
    struct CUstream_st *defaults[SIMDEV_MAX_DEVICES]; /* the legacy and per-thread stream */
    bool peers[SIMDEV_MAX_DEVICES][SIMDEV_MAX_DEVICES];
    fake_object *objects[1024]; /* by address */
    uint32_t counts[FAKECUDA_KINDS], device_blocks, host_blocks, registrations;
    uint32_t contexts_made, timed_records;
    struct fake_capture *captures;
} fake_state;

extern fake_state fake;

void fake_lock(void);
void fake_unlock(void);
void *fake_new(size_t bytes); /* zeroed */
void fake_delete(void *memory);

/* ---- settings.c ---- */

bool fake_settings_parse(fake_settings *out, const char *text, char *why, size_t why_bytes);
bool fake_faults_parse(fake_fault *out, uint32_t *out_count, const char *text, char *why,
                       size_t why_bytes);

/* ---- call.c ---- */

typedef struct fake_call {
    const char *name;
    int device;     /* whose errors count; FAKE_NOWHERE */
    int async_code; /* strikes when the call has ended */
    bool runtime;   /* the runtime remembers the error */
} fake_call;

/* Reads the environment with the first call. */
void fakecuda_start(void);
void fake_counts_clear(void);

bool fake_is_sticky(int code);
/* Makes a device fail from now on. */
void fake_stick(int device, int code);
/* The beginning and the end of each call. */
cudaError_t fake_begin(fake_call *call, const char *name, int device);
cudaError_t fake_end(fake_call *call, cudaError_t code);
/* For driver functions. */
static inline CUresult fake_driver_end(fake_call *call, cudaError_t code) {
    call->runtime = false;
    return (CUresult)fake_end(call, code);
}
/* What the machine answered, as CUDA's code. */
cudaError_t fake_code(int device, int32_t status);
/* The same for a call that has waited for work: what that came to is news too. */
cudaError_t fake_done(int device, int32_t status);
/* The code that the script has for a run of this kernel, or 0. */
int fake_kernel_fault(const char *kernel, int device);

/* ---- context.c ---- */

/* The device of the thread's context, -1 without one. */
int fake_current(void);
/* The same, bringing device 0's context to life where there is none, as the runtime does. */
int fake_current_or_first(void);

/* ---- stream.c ---- */

struct fake_capture;

typedef struct CUstream_st {
    int device;
    simdev_stream *native;
    struct fake_capture *capture; /* guarded by the lock */
} fake_stream;

/* NULL where the handle is none of ours: 400. Complains about the streams that the plugin must not
 * use. */
fake_stream *fake_stream_of(cudaStream_t stream);
bool fake_stream_is_capturing(const fake_stream *stream);
/* Ends what a handle stands for; the object itself is the caller's to delete. */
void fake_stream_end(fake_stream *stream);
/* Ends the default streams of all devices. */
void fake_stream_end_defaults(void);

typedef struct CUevent_st {
    int device;
    bool timed, captured, early;
    simdev_event *native;
} fake_event;

/* ---- kernel.c ---- */

typedef struct fake_kernel {
    struct fake_kernel *next;
    struct CUlib_st *library;
    char name[96];
    const k_info *info;           /* NULL: a native kernel, which nobody runs */
    simdev_kernel *native;        /* made for it, of modules */
    const struct ptx_kernel *ptx; /* what runs instead; NULL: `info` */
    uint32_t param_count;
    uint16_t param_bytes[FAKE_MAX_PARAMS], param_offset[FAKE_MAX_PARAMS];
    struct CUfunc_st *functions[SIMDEV_MAX_DEVICES];
} fake_kernel;

typedef struct CUfunc_st {
    fake_kernel *kernel;
    int device;
    int max_shared; /* that may be asked for */
    simdev_kernel *native;
} fake_function;

/* Of a block of this compute capability, in bytes. */
int fake_shared_limit(void);
/* Functions are made when first asked for. */
cudaError_t fake_function_of(fake_kernel *kernel, int device, fake_function **out);
void fake_kernels_delete(fake_kernel *kernels);
/* Lays parameters out as the ABI does, from their sizes. */
void fake_kernel_layout(fake_kernel *kernel);

/* ---- library.c, image.c ---- */

typedef struct CUlib_st {
    enum { FAKE_BUILTIN, FAKE_MODULE, FAKE_NATIVE } kind;
    bool wide;              /* FAKE_BUILTIN: kernels of 64-bit indices */
    void *handle;           /* dlopen's, of FAKE_MODULE */
    int fd;                 /* what it was opened from, or -1 */
    struct ptx_module *ptx; /* with ptx=1: what nvcc made of the kernels */
    fake_kernel *kernels;
    cudaError_t failure; /* what loading its code came to, told when somebody needs it */
    char *log;           /* the caller's, for the driver's compiler; NULL: none */
    size_t log_bytes;
} fake_library;

/* What the fake compiler makes: this, and behind it a shared object (module) or lines of "name
 * bytes,bytes,..." (not). */
typedef struct fake_cubin {
    unsigned char magic[4]; /* "\177ELF" */
    char mark[12];          /* "fakecubin" */
    uint32_t arch, module;
    uint64_t bytes, ptx_bytes; /* behind the header; with ptx=1, behind that the kernels' PTX */
} fake_cubin;
#define FAKE_CUBIN_MARK "fakecubin"

/* What plays the part of a fat binary of built-in kernels. */
typedef struct fake_fatbin {
    uint32_t magic; /* 0xBA55ED50 */
    uint16_t version, header_bytes;
    uint64_t body_bytes;
    char mark[16];    /* "fakecuda" */
    bool wide;        /* kernels of 64-bit indices */
    const char *text; /* "unary.f32.32": where their PTX is; NULL: there is none */
} fake_fatbin;
#define FAKE_FATBIN_MAGIC 0xBA55ED50u
#define FAKE_FATBIN_MARK "fakecuda"
#define FAKE_FATBIN_INIT \
    { FAKE_FATBIN_MAGIC, 1, 16, 16, FAKE_FATBIN_MARK, false, NULL }

/* Loads the code at last: libraries are loaded lazily. */
cudaError_t fake_library_need(fake_library *library);
void fake_library_end(fake_library *library);
/* Adds the kernels of lines, PTX or a real cubin to a library. */
cudaError_t fake_read_lines(fake_library *library, const char *lines, size_t bytes);
cudaError_t fake_read_ptx(fake_library *library, const char *text);
cudaError_t fake_read_elf(fake_library *library, const unsigned char *image);
fake_kernel *fake_kernel_add(fake_library *library, const char *name, size_t name_bytes);

/* ---- ptx.c: kernels as nvcc makes them ---- */

/* Reads the PTX of a fat binary, and that of a program. */
cudaError_t fake_ptx_read(fake_library *library, const char *text);
cudaError_t fake_ptx_parse(fake_library *library, const char *text);
/* Finds the kernel's in its library. False: it has none, or one of other parameters. */
bool fake_ptx_find(fake_kernel *kernel);

/* ---- work.c: what streams are given ---- */

typedef struct fake_command {
    struct fake_command *next;
    enum {
        FAKE_COPY,
        FAKE_PEER_COPY,
        FAKE_LAUNCH,
        FAKE_WORK,
        FAKE_WAIT_VALUE,
        FAKE_HOST,
        FAKE_RECORD,
        FAKE_WAIT
    } kind;
    dhow_copy_rect rect;
    int src_device;
    fake_function *function;
    unsigned blocks; /* of the launch */
    fake_event *event;
    union {
        unsigned char params[FAKE_PARAM_BYTES];
        struct {
            void (*run)(void *data, unsigned char *const *memory);
            unsigned char data[FAKECUDA_MAX_DATA];
            size_t data_bytes;
            fakecuda_range ranges[FAKECUDA_MAX_RANGES];
            uint32_t range_count;
        } work;
        struct {
            const uint32_t *word;
            uint32_t value;
            unsigned flags;
        } wait;
        struct {
            cudaHostFn_t run;
            void *data;
        } host;
    } u;
} fake_command;

/* For calls that wait for a device and do not say so: what releases, pins or unpins memory, and
 * what loads code. With quiesce=1 the driver is locked meanwhile, and nobody can hand in work. */
void fake_drain(simdev_device *device);
/* Records the command or hands it to the machine. */
cudaError_t fake_submit(fake_stream *stream, const fake_command *command);
/* Hands it to the machine. */
cudaError_t fake_perform(fake_stream *stream, const fake_command *command);
/* Work that fails with a code when its turn comes. */
cudaError_t fake_perform_failure(fake_stream *stream, int code);

/* Hands a launch of a kernel's PTX to the machine. */
cudaError_t fake_ptx_perform(fake_stream *stream, const fake_command *command);
/* The device's block that an argument points into; an empty tensor may begin where its memory ends.
 * `start` is 0 for NULL. False: there is no such block. */
bool fake_find_block(uint64_t address, simdev_place *out);

/* ---- log.c ---- */

void fake_log_command(const fake_command *command);

/* ---- graph.c ---- */

/* Adds to the stream's recording. `out_recorded` false: the stream is not recording. */
cudaError_t fake_record(fake_stream *stream, const fake_command *command, bool *out_recorded);
/* A call that no recording allows: fails it, and the recordings it disturbs. */
cudaError_t fake_forbidden(void);
/* The same for a call on this stream. */
cudaError_t fake_forbidden_on(fake_stream *stream);
void fake_capture_drop(fake_stream *stream);
void fake_graph_end(void *graph);

#endif /* TESTS_FAKECUDA_FAKE_H_ */
