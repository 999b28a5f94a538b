/* SPDX-License-Identifier: Apache-2.0
 *
 * The plugin ABI, version 1. A backend plugin is a shared library `libdhow_<backend>.so` that
 * exports exactly one symbol:
 *
 *     const dhow_plugin dhow_plugin_v1 = { DHOW_PLUGIN_HEADER, .name = "mine", .version = "1.0",
 * .probe = ..., ... };
 *
 * It is data, so that no plugin code runs before the host has checked magic, sizes and required
 * slots. The major version is in the symbol's name, the minor in the data. docs/write-a-backend.md
 * walks through a whole plugin, plugins/sim.
 *
 * Rules for every struct here: fields are only appended, never moved, retyped or removed; integers
 * have fixed widths; no tail padding. Structs that begin with struct_size carry the size their
 * writer was compiled with; the reader uses the smaller of both and takes missing fields as zero.
 *
 * Rules for every slot:
 *  - It returns a dhow_status number. On failure it fills `err` (never NULL) and leaves its outputs
 * zero.
 *  - It never aborts, exits or lets an exception escape, and it keeps no pointer it was given,
 * except where said.
 *  - Strings it hands out live as long as the object they came from.
 *  - Sizes, offsets and pitches are bytes.
 *  - Arguments were checked by the host: handles are live and belong together, ranges lie inside
 * allocations.
 *
 * Threads: probe, open, close, device_open and device_close are called by one thread at a time.
 * Slots that take a stream, except stream_sync and stream_query, are called by one thread at a time
 * per stream, but for devices with DHOW_DEVICE_HOST_INLINE, whose work is done when the call
 * returns. All others may be called by any thread at any time.
 */
#ifndef DHOW_PLUGIN_H_
#define DHOW_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

#include "dhow/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DHOW_PLUGIN_MAGIC UINT32_C(0x574f4844) /* "DHOW" */
#define DHOW_PLUGIN_MINOR 0
#define DHOW_PLUGIN_SYMBOL "dhow_plugin_v1"

/* What went wrong, in memory of the caller. */
typedef struct dhow_error {
    uint32_t struct_size;
    int32_t code;        /* a dhow_status */
    int64_t native_code; /* the vendor's number, 0 if there is none */
    char message[496]; /* what failed, on which object, why, and what to try; the host terminates it
                        */
} dhow_error;

/* Services of the host, valid from probe() to the end of the process. Any thread. */
typedef struct dhow_host {
    uint32_t struct_size;
    uint16_t minor;
    uint16_t reserved0;
    void *user;
    void (*log)(void *user, int32_t level, const char *message);
    void *(*alloc)(void *user, uint64_t bytes, uint64_t align); /* NULL when memory is short */
    void (*free)(void *user, void *memory);                     /* of alloc and cache_load */
    const char *(*env)(void *user, const char *name); /* NULL when unset or in a setuid program */
    /* The disk cache: blobs by key, checked against damage. NOT_FOUND is no failure worth a
     * message. */
    int32_t (*cache_load)(void *user, const char *key, void **out_blob, uint64_t *out_bytes);
    int32_t (*cache_store)(void *user, const char *key, const void *blob, uint64_t bytes);
    uint32_t cpu_threads; /* threads that computing on the CPU may use, at least 1 */
    uint32_t reserved1;
    /* Bytes of host memory that this process may use, by the machine and its control groups; 0
     * where unknown. Missing in hosts whose struct_size ends before it. */
    void (*memory)(void *user, uint64_t *out_free, uint64_t *out_total);
} dhow_host;

/* The answer of probe(). */
typedef struct dhow_probe {
    uint32_t struct_size;
    int32_t state;    /* DHOW_PLUGIN_READY ... DHOW_PLUGIN_INIT_FAILED */
    char reason[256]; /* one line: what is missing or wrong; empty when READY */
    char hint[256];   /* one line: what a person can do about it */
} dhow_probe;

/* An optional library or feature of a backend, for `devinfo`. */
typedef struct dhow_component {
    uint32_t struct_size;
    int32_t present;  /* 1: will be used; 0: missing, and detail says why */
    char name[32];    /* "oneDNN" */
    char purpose[96]; /* "matmul and convolution" */
    char detail[256]; /* version and file, or the reason and what to install */
} dhow_component;

enum { /* dhow_device_desc.flags */
       /* Handles are host pointers and every slot that takes a stream has finished its work when it
          returns; several threads may be in such slots with one stream. */
       DHOW_DEVICE_HOST_INLINE = 1u << 0,
       /* map() gives the host a view of device memory without copying it. */
       DHOW_DEVICE_HOST_VISIBLE = 1u << 1,
       /* copy() takes host memory that is not pinned, at full speed and without blocking, and reads
          it when the copy runs. */
       DHOW_DEVICE_PAGEABLE_ASYNC = 1u << 2,
       /* dhow's kernels for f16 and bf16 compute products with the device's tensor cores:
          attention of up to 128 features is one of them, not the library's products and a softmax.
        */
       DHOW_DEVICE_TENSOR_CORES = 1u << 3,
       /* dhow's kernels are known to run: "auto" takes the device without building one first. */
       DHOW_DEVICE_RUNS_KERNELS = 1u << 4
};

enum { /* dhow_device_desc.priority of a device that states none */
       DHOW_PRIORITY_ACCELERATOR = 100,
       DHOW_PRIORITY_CPU = 200,
       DHOW_PRIORITY_GPU = 300
};

/* One device, as `devinfo` shows it. No device context is needed to fill it. */
typedef struct dhow_device_desc {
    uint32_t struct_size;
    uint32_t kind; /* a dhow_device_kind */
    uint32_t flags;
    uint32_t compute_units; /* cores, multiprocessors */
    uint32_t offset_align;  /* offsets that all kernels accept are multiples of it: a power of two,
                               at most 4096 */
    uint32_t index_bits;    /* widest kernel index: 32 | 64 as flags, 96 when both are offered */
    uint64_t memory_bytes;  /* total */
    uint64_t free_bytes;    /* 0 when unknown without opening the device */
    uint64_t dtypes;        /* DHOW_DTYPE_BIT of each type its kernels compute */
    char name[128];
    char driver[128]; /* driver and runtime, with versions */
    char uuid[48];    /* 32 hex digits, or empty */
    char pci[16];     /* 0000:65:00.0, or empty */
    /* How much a program that names no device wants this one: "auto" takes the highest. 0 stands
     * for the default of its kind, DHOW_PRIORITY_*. Simulated devices are never taken. Missing in
     * hosts whose struct_size ends before it. */
    uint32_t priority;
    /* DLPack's device types of its memory and of host memory that it pinned (a DLDeviceType; the
     * device_id is the device's index in its backend). 0: DLPack has none, and pinned memory is
     * host memory like any other. */
    uint16_t dlpack_type;
    uint16_t dlpack_host_type;
} dhow_device_desc;

enum { DHOW_SPACE_DEVICE = 0, DHOW_SPACE_HOST = 1 };

/* One end of a copy. Host ends: handle is the address. */
typedef struct dhow_copy_end {
    uint32_t space;
    uint32_t pinned; /* host ends: memory came from host_alloc or host_register of this backend */
    uint64_t handle;
    uint64_t offset;
    uint64_t pitch[2]; /* bytes from row to row and from plane to plane */
} dhow_copy_end;

/* A box of bytes; extents of 1 for the dimensions not used. The ends never overlap. */
typedef struct dhow_copy_rect {
    uint64_t extent[3]; /* bytes in a row, rows in a plane, planes */
    dhow_copy_end src, dst;
} dhow_copy_rect;

enum { DHOW_ARG_BUFFER = 1, DHOW_ARG_VALUE = 2, DHOW_ARG_DIMS = 3 };
enum { DHOW_ACCESS_READ = 1, DHOW_ACCESS_WRITE = 2 };

/* A kernel argument, in the order of the kernel's signature. */
typedef struct dhow_arg {
    uint32_t kind;
    uint32_t bytes; /* VALUE: 4 or 8; BUFFER: its DHOW_ACCESS bits */
    union {
        struct {
            uint64_t handle, offset; /* that of an empty tensor may be the end of the memory */
        } buffer;
        uint64_t value; /* VALUE: the bytes, lowest address first */
        const dhow_dims *dims;
    } u;
} dhow_arg;

/* How much work a launch has. Portable kernels give the same result for every geometry, so the
 * plugin picks one. */
typedef struct dhow_geometry {
    uint64_t work;         /* portable kernels: elements handled in all, at least 1 */
    uint32_t grid[3];      /* native kernels: groups */
    uint32_t block[3];     /* native kernels: items of a group */
    uint32_t shared_bytes; /* native kernels: dynamic shared memory */
    uint32_t native;       /* 1: grid, block and shared_bytes count, work does not. For native
                            * kernels alone: a portable one refuses it, UNSUPPORTED or
                            * INVALID_ARGUMENT. */
} dhow_geometry;

/* How a kernel uses a parameter. Buffers of IN and OUT overlap no other, ALIAS and ALIAS_OUT may be
 * exactly the same one. */
enum {
    DHOW_PARAM_IN = 1,
    DHOW_PARAM_OUT = 2,
    DHOW_PARAM_INOUT = 3,
    DHOW_PARAM_ALIAS = 4,
    DHOW_PARAM_ALIAS_OUT = 5,
    DHOW_PARAM_VALUE = 6
};
enum { DHOW_PARAM_DIMS = 64 }; /* the type of a value that is a dhow_dims */

typedef struct dhow_kernel_param {
    uint32_t kind;
    int32_t type; /* dhow_dtype: of a buffer's elements, or of the value; or DHOW_PARAM_DIMS */
    const char *name;
} dhow_kernel_param;

/* A kernel a module is expected to hold. */
typedef struct dhow_kernel_decl {
    const char *name;
    const char *signature; /* for messages: "(IN(f32,x), OUT(f32,y), VAL(i64,n))"; "" where a native
                              module says none, then there are no params either */
    const dhow_kernel_param *params; /* what the signature says */
    uint32_t param_count, reserved;  /* reserved: 0 */
} dhow_kernel_decl;

/* dhow_module_desc.flags. BUILTIN: a text of dhow's own, of many kernels, whose launches in a model
 * are given parts of its arena. A plugin that compiles forms of a kernel for whole allocations and
 * for parts begins with the one for parts; for a program's text with the other, as it likes. */
enum { DHOW_MODULE_BUILTIN = 1 };

/* What module_build compiles or loads. */
typedef struct dhow_module_desc {
    uint32_t struct_size;
    uint32_t format;
    const char *name;    /* for messages: a file name, or "elementwise.k:f16" */
    const void *text;    /* source text or binary image */
    uint64_t text_bytes; /* without a terminating zero */
    const char *header;  /* PORTABLE: the text of kernel/k.h, to be put in front */
    const char *options; /* "-DT=f16 -DK_IDX64", never NULL */
    const dhow_kernel_decl *kernels;
    uint32_t kernel_count;
    uint32_t index_bits; /* PORTABLE: 32 or 64 */
    char *log;           /* the compiler's messages go here, terminated; may be NULL */
    uint64_t log_bytes;
    const dhow_module_image *images; /* PORTABLE: ready-made forms, any number of them */
    uint64_t image_count;
    uint32_t flags; /* DHOW_MODULE_... */
    uint32_t reserved;
} dhow_module_desc;

enum { DHOW_STREAM_COPIES_ONLY = 1u << 0 };                      /* stream_create */
enum { DHOW_EVENT_TIMING = 1u << 0, DHOW_EVENT_HOST = 1u << 1 }; /* event_create */

typedef struct dhow_plugin {
    uint32_t magic;
    uint32_t struct_size;
    uint16_t minor;
    uint8_t pointer_bytes;
    uint8_t little_endian;
    uint32_t sanitizers; /* DHOW_PLUGIN_SANITIZERS as the plugin was compiled */
    const char *name;    /* the backend: [a-z][a-z0-9]{0,14} */
    const char *version;

    /* ---- required slots: NULL is ABI_MISMATCH
     * ---------------------------------------------------------------- */

    /* Says whether the backend can work here. Cheap: opens vendor libraries by their full sonames,
     * makes no device context. A missing driver is a state, not a failure; a status other than OK
     * means INIT_FAILED with err's text. */
    int32_t (*probe)(const dhow_host *host, dhow_probe *out, dhow_error *err);
    /* Starts the backend; `host` stays valid. Called after a READY probe, possibly of another
     * process. */
    int32_t (*open)(const dhow_host *host, void **out_backend, dhow_error *err);
    void (*close)(void *backend);

    int32_t (*device_count)(void *backend, uint32_t *out_count, dhow_error *err);
    int32_t (*device_describe)(void *backend, uint32_t index, dhow_device_desc *out,
                               dhow_error *err);
    int32_t (*device_open)(void *backend, uint32_t index, void **out_device, dhow_error *err);
    void (*device_close)(void *device); /* all its objects are gone and its work has ended */

    /* Raw device memory; caching is the host's. Contents are undefined. OUT_OF_MEMORY when there is
     * none. Freed memory is idle: the host has waited for all work that uses it. */
    int32_t (*mem_alloc)(void *device, uint64_t bytes, uint64_t *out_handle, dhow_error *err);
    void (*mem_free)(void *device, uint64_t handle);

    /* In-order queues. */
    int32_t (*stream_create)(void *device, uint32_t flags, void **out_stream, dhow_error *err);
    void (*stream_destroy)(void *stream); /* after a stream_sync */
    int32_t (*stream_sync)(
        void *stream,
        dhow_error *err); /* returns the first failure of its work since the last sync */
    int32_t (*stream_query)(void *stream, dhow_error *err); /* OK when idle, NOT_READY when not */
    int32_t (*stream_wait)(void *stream, void *event,
                           dhow_error *err); /* an event of the same backend */

    /* Points in a stream. An event never recorded counts as reached. A wait stands for the record
     * that was the latest when the wait was submitted, and outlives the event. */
    int32_t (*event_create)(void *device, uint32_t flags, void **out_event, dhow_error *err);
    void (*event_destroy)(void *event);
    int32_t (*event_record)(void *event, void *stream, dhow_error *err);
    int32_t (*event_sync)(void *event, dhow_error *err);
    int32_t (*event_query)(void *event, dhow_error *err); /* OK or NOT_READY */

    /* Copies within the device or between it and the host. Host memory stays valid until the copy
     * has run. Memory that is not pinned may make the call block, and a source in it may be read
     * during the call, whatever the stream waits for: without DHOW_DEVICE_PAGEABLE_ASYNC such a
     * source is there when it is handed in. All other sources are read when the copy runs. An
     * extent of 0 copies nothing. */
    int32_t (*copy)(void *stream, const dhow_copy_rect *rect, dhow_error *err);
    /* Repeats the first pattern_bytes (1, 2, 4 or 8) of `pattern` over bytes of memory, and writes
     * no byte more. `offset` and `bytes` are multiples of pattern_bytes. */
    int32_t (*fill)(void *stream, uint64_t handle, uint64_t offset, uint64_t bytes,
                    uint64_t pattern, uint32_t pattern_bytes, dhow_error *err);

    /* Compiles or loads a module; UNSUPPORTED for formats it does not know, COMPILE_ERROR with
     * desc->log filled. */
    int32_t (*module_build)(void *device, const dhow_module_desc *desc, void **out_module,
                            dhow_error *err);
    void (*module_free)(void *module);
    int32_t (*module_kernel)(void *module, const char *name, void **out_kernel,
                             dhow_error *err); /* dies with it */
    int32_t (*launch)(void *stream, void *kernel, const dhow_geometry *geometry,
                      const dhow_arg *args, uint32_t arg_count, dhow_error *err);

    /* ---- optional slots: NULL becomes a stub that answers UNSUPPORTED
     * ---------------------------------------- */

    /* A kernel the plugin brings along ready-made, for 32- or 64-bit indices; NOT_FOUND makes the
     * host call module_build with the kernel's text. Lives until device_close. */
    int32_t (*builtin_kernel)(void *device, const char *name, uint32_t index_bits,
                              void **out_kernel, dhow_error *err);

    /* Pinned host memory, at a multiple of 64: the device copies it without the processor's help.
     */
    int32_t (*host_alloc)(void *device, uint64_t bytes, void **out_memory, dhow_error *err);
    void (*host_free)(void *device, void *memory);
    int32_t (*host_register)(void *device, void *memory, uint64_t bytes, dhow_error *err);
    int32_t (*host_unregister)(void *device, void *memory, dhow_error *err);

    /* A host view of device memory, for devices with HOST_VISIBLE. Waits for nothing: the host has.
     */
    int32_t (*map)(void *device, uint64_t handle, uint64_t offset, uint64_t bytes, uint32_t access,
                   void **out_memory, dhow_error *err);
    int32_t (*unmap)(void *device, uint64_t handle, void *memory, dhow_error *err);

    /* Copies between two devices of this backend, on a stream of the destination's device. */
    int32_t (*can_copy)(void *dst_device, void *src_device,
                        dhow_error *err); /* OK or UNSUPPORTED with the reason */
    int32_t (*peer_copy)(void *stream, void *src_device, uint64_t src_handle, uint64_t src_offset,
                         uint64_t dst_handle, uint64_t dst_offset, uint64_t bytes, dhow_error *err);

    /* Completes an event made with DHOW_EVENT_HOST: streams that wait for it go on. */
    int32_t (*event_signal)(void *event, dhow_error *err);
    /* Nanoseconds between two reached events made with DHOW_EVENT_TIMING. */
    int32_t (*event_elapsed)(void *start, void *end, int64_t *out_nanoseconds, dhow_error *err);

    int32_t (*mem_info)(void *device, uint64_t *out_free, uint64_t *out_total, dhow_error *err);

    /* Optional libraries: the index-th one, OUT_OF_RANGE after the last. `backend` may be NULL
     * before open. */
    int32_t (*component)(void *backend, uint32_t index, dhow_component *out, dhow_error *err);

    /* A table of further functions, by name and major version ("dhow.blas/1"); NULL when there is
     * none. */
    const void *(*get_extension)(void *device, const char *id);
} dhow_plugin;

/* ---- extensions
 * ----------------------------------------------------------------------------------------------------
 */

/* Names of tables: "dhow.blas/1", "dhow.conv/1", "dhow.graph/1", "dhow.native/1", "dhow.coll/1". */

typedef struct dhow_buffer {
    uint64_t handle, offset;
} dhow_buffer;

enum { /* activation of blas and conv, with activation_alpha and activation_beta */
       DHOW_ACTIVATION_NONE = 0,
       DHOW_ACTIVATION_RELU = 1,
       DHOW_ACTIVATION_GELU = 2,      /* x/2 (1 + erf(x/sqrt 2)) */
       DHOW_ACTIVATION_GELU_TANH = 3, /* its tanh approximation */
       DHOW_ACTIVATION_SIGMOID = 4,
       DHOW_ACTIVATION_TANH = 5,
       DHOW_ACTIVATION_SILU = 6, /* x sigmoid(x); the host's own kernels know those up to here */
       DHOW_ACTIVATION_HARD_SWISH = 7, /* x max(0, min(1, x/6 + 1/2)) */
       DHOW_ACTIVATION_MISH = 8,       /* x tanh(log(1 + e^x)) */
       DHOW_ACTIVATION_LEAKY_RELU = 9, /* alpha x below 0 */
       DHOW_ACTIVATION_CLIP = 10       /* x held between alpha and beta */
};

enum {                                  /* dhow_blas_desc.flags, dhow_conv_desc.flags */
       DHOW_BLAS_TRANSPOSE_A = 1u << 0, /* a is stored [k][m] */
       DHOW_BLAS_TRANSPOSE_B = 1u << 1, /* b is stored [n][k] */
       DHOW_BLAS_CONSTANT_B = 1u << 2, /* b never changes and may be packed; for conv: the weight */
       DHOW_EPILOGUE_BIAS =
           1u << 3, /* bias[n] is added to each row; for conv: bias[out_channels] */
       DHOW_EPILOGUE_RESIDUAL = 1u
                                << 4,  /* residual, laid out as c, is added before the activation */
       DHOW_CONV_TRANSPOSED = 1u << 5, /* of conv, from minor 1 on: see depth */
       DHOW_CONV_WEIGHT_GRADIENT = 1u << 6, /* of conv, from minor 2 on: see dhow_conv_desc */
       DHOW_CONV_EXACT_SUMS = 1u << 7, /* of conv: x and weight are integers and their sums stay
                                          below 2^24, so that only transforms and roundings between
                                          lose anything: UNSUPPORTED where there might be some */
       DHOW_CONV_ZERO_GIVEN = 1u << 8  /* of conv, from minor 6 on: see dst_dtype */
};

/* c = activation(alpha op(a) op(b) + beta c + bias + residual), row-major, per batch entry. Tables
 * of minor 1 are also asked for a of u8 or i8, b of i8 and c of i32, `compute` being i32 and with
 * nothing behind the product: sums are exact modulo 2^32. */
typedef struct dhow_blas_desc {
    uint32_t struct_size;
    uint32_t flags;
    int32_t dtype_a, dtype_b, dtype_c;
    int32_t compute; /* F32; BF16 or F16 allow that precision inside; TF32 is BF16 with F32 operands
                        on CUDA */
    uint32_t activation;
    uint32_t reserved;
    int64_t m, n, k, batch;
    int64_t lda, ldb, ldc;                /* elements from row to row, as stored */
    int64_t stride_a, stride_b, stride_c; /* elements from batch entry to entry; 0 shares one */
    float alpha, beta;
    float activation_alpha, activation_beta;
} dhow_blas_desc;

/* "dhow.blas/1". Plans may be used by several threads at once. */
typedef struct dhow_blas {
    uint32_t struct_size;
    uint32_t minor;
    /* UNSUPPORTED, as for an activation that the table does not know, makes the host use its
     * portable kernel from now on, UNAVAILABLE this time.
     * packed_bytes is 0 when packing does not pay. */
    int32_t (*plan)(void *device, const dhow_blas_desc *desc, void **out_plan,
                    uint64_t *out_workspace_bytes, uint64_t *out_packed_bytes, dhow_error *err);
    int32_t (*pack)(void *plan, void *stream, dhow_buffer b, dhow_buffer packed, dhow_error *err);
    /* `b` is the packed one when packed_bytes is not 0. Buffers not asked for by desc are zero. */
    int32_t (*run)(void *plan, void *stream, dhow_buffer a, dhow_buffer b, dhow_buffer c,
                   dhow_buffer bias, dhow_buffer residual, dhow_buffer workspace, dhow_error *err);
    void (*destroy)(void *plan);
    /* From minor 2 on, may be NULL: plans of a device whose b have the same n, k, rows, entries and
     * dtype pack it alike where their numbers are the same and not 0, so that one packed form
     * serves them all. */
    uint64_t (*packed_form)(void *plan);
} dhow_blas;

enum { /* layouts of an image tensor; larger numbers are a backend's own, made by its plans */
       DHOW_LAYOUT_NCHW = 0,
       DHOW_LAYOUT_NHWC = 1,
       /* Asks the plan to choose. One that is asked for results of any layout, of planes, says NCHW
        * only where it is as fast as in the layout that it likes best, with x turned into that. */
       DHOW_LAYOUT_ANY = 2,
       /* [n][c/b][h][w][b]: channels in blocks of b, of which the last is padded with zeros */
       DHOW_LAYOUT_BLOCKS_4 = 4,
       DHOW_LAYOUT_BLOCKS_8 = 8,
       DHOW_LAYOUT_BLOCKS_16 = 16,
       DHOW_LAYOUT_PRIVATE = 256
};

enum {                          /* dhow_conv_tail.kind: DHOW_ACTIVATION_... or one of these */
       DHOW_TAIL_LINEAR = 32,   /* alpha v + beta */
       DHOW_TAIL_ROUND = 33,    /* the nearest integer, the even one of two */
       DHOW_TAIL_RESIDUAL = 34, /* v + residual, once at most */
       DHOW_TAIL_MULTIPLY = 35, /* v bias[row][k] */
       DHOW_TAIL_ADD = 36,      /* v + bias[row][k] */
       DHOW_CONV_TAIL = 10      /* so many operations */
};

/* An operation on each element v of a result. */
typedef struct dhow_conv_tail {
    uint32_t kind, row;
    float alpha, beta;
} dhow_conv_tail;

/* 2-D convolution (cross-correlation) of x[n][c][h][w] with weight[k][c/groups][kh][kw]. Tables of
 * minor 1 are also asked, in plain layouts, for 3-D convolution of x[n][c][depth][h][w], and for
 * the transpose of either: weight[c][k/groups][...], y has the extents `out`, and stride, dilation
 * and padding are those of the convolution from y to x. Tables of minor 2 are also asked, in plain
 * layouts and without an epilogue, for the derivative of a convolution by its weight: `weight` is
 * then dy[n][k][...], what its result has as derivative, and y is dw[k][c/groups][...]. Tables of
 * minor 3 are also asked, without DHOW_CONV_ flags, for a convolution of an activation of x:
 * src_activation is RELU or CLIP, with bounds that the dtype holds. Padding stays 0. Tables of
 * minor 4 are also asked for sums of integers, see dst_dtype; those of minor 6 with zero points
 * that only the device knows, too. */
typedef struct dhow_conv_desc {
    uint32_t struct_size;
    uint32_t flags;
    int32_t dtype, weight_dtype;
    int32_t compute;
    uint32_t activation;
    uint32_t src_layout, dst_layout;
    int64_t n, c, h, w;
    int64_t k, kh, kw, groups;
    int64_t stride[2], dilation[2];
    int64_t pad[4];                                    /* top, left, bottom, right */
    int64_t depth, kd, stride_d, dilation_d, pad_d[2]; /* 0: there is no third dimension */
    int64_t out[3]; /* of a transposed convolution: depth, height, width of y; else 0 */
    float activation_alpha, activation_beta;
    uint32_t src_activation, reserved; /* of x, from minor 3 on; reserved: 0 */
    float src_activation_alpha, src_activation_beta;
    /* From minor 4 on, 0 but for sums of integers, which are two-dimensional and have a constant
     * weight: x is U8 or I8, weight I8, from minor 8 on also I16 of numbers from -255 to 255,
     * compute I32. Elements of x stand for x - src_zero, and what pads them for 0. To I32 y is the
     * sums, exact below 2^24, those of I16 in all 32 bits; there, with DHOW_CONV_ZERO_GIVEN, the
     * buffer `bias` is the zero point, i32[1], and src_zero 0. From minor 7 on the others may have
     * that flag too, with the zero point as `residual`, and none added. To F32, U8 or I8, with
     * DHOW_EPILOGUE_BIAS, it is (sum + bias[0][k]) bias[1][k] in f32, as the operations of `tail`
     * change it, `bias` being f32[2 or more][k]; of bytes they are rounded to the nearest, ties to
     * even, and saturated. The residual is of residual_dtype: F32, U8 or I8. */
    int32_t dst_dtype, residual_dtype, src_zero;
    uint32_t tail_count;
    dhow_conv_tail tail[DHOW_CONV_TAIL];
} dhow_conv_desc;

/* What a plan settled on. */
typedef struct dhow_conv_plan_info {
    uint32_t struct_size;
    uint32_t src_layout, dst_layout;
    uint32_t reserved;
    uint64_t workspace_bytes, packed_bytes, src_bytes, dst_bytes;
} dhow_conv_plan_info;

/* "dhow.conv/1". */
typedef struct dhow_conv {
    uint32_t struct_size;
    uint32_t minor;
    int32_t (*plan)(void *device, const dhow_conv_desc *desc, void **out_plan,
                    dhow_conv_plan_info *out_info, dhow_error *err);
    int32_t (*pack)(void *plan, void *stream, dhow_buffer weight, dhow_buffer packed,
                    dhow_error *err);
    int32_t (*run)(void *plan, void *stream, dhow_buffer x, dhow_buffer weight, dhow_buffer y,
                   dhow_buffer bias, dhow_buffer residual, dhow_buffer workspace, dhow_error *err);
    void (*destroy)(void *plan);
    /* Changes the layout of an image tensor of shape[4] (n, c, h, w). */
    int32_t (*reorder)(void *device, void *stream, int32_t dtype, const int64_t *shape,
                       uint32_t src_layout, dhow_buffer src, uint32_t dst_layout, dhow_buffer dst,
                       dhow_error *err);
    /* From minor 5 on, may be NULL: plans of a device whose weights have the same extents, groups
     * and dtype pack them alike where their numbers are the same and not 0. */
    uint64_t (*packed_form)(void *plan);
} dhow_conv;

/* "dhow.graph/1": what a stream is given between begin() and end() is recorded instead of run, and
 * replayed as one piece. Recorded are launches, copies within the device, fills and runs of other
 * extensions; they keep the memory and kernels they were given, which the host keeps alive. A call
 * that cannot be recorded fails, and end() then says why. One thread per stream, as for all slots
 * that take one. */
typedef struct dhow_capture {
    uint32_t struct_size;
    uint32_t minor;
    int32_t (*begin)(void *stream, dhow_error *err);
    /* Also after a failure: the stream runs its work again. NULL for out_graph throws the recording
     * away. */
    int32_t (*end)(void *stream, void **out_graph, dhow_error *err);
    int32_t (*launch)(void *graph, void *stream, dhow_error *err);
    void (*destroy)(void *graph); /* its launches have ended */
} dhow_capture;

enum {                                   /* flags of dhow_native.stream_wrap */
       DHOW_STREAM_THIS_THREAD = 1u << 1 /* only the calling thread will use it, and not for long */
};

/* "dhow.native/1": the vendor's own objects - memory, queues and events that a program made without
 * dhow, and those of dhow that a program hands to the vendor's API. A native handle is what that
 * API takes, as a number: a device address and a cudaStream_t for CUDA, a cl_mem and a
 * cl_command_queue for OpenCL. */
typedef struct dhow_native {
    uint32_t struct_size;
    uint32_t minor;
    /* Makes a handle, as mem_alloc gives it, of the first `bytes` bytes of the program's memory,
     * which lies *out_offset bytes behind the handle. The memory stays the program's and outlives
     * mem_unwrap. INVALID_ARGUMENT when it is not memory of this device or too short. */
    int32_t (*mem_wrap)(void *device, uint64_t native, uint64_t bytes, uint64_t *out_handle,
                        uint64_t *out_offset, dhow_error *err);
    void (*mem_unwrap)(void *device, uint64_t handle);
    /* The native handle of memory of mem_alloc or mem_wrap: its own handle may be a struct of the
     * plugin. */
    int32_t (*mem_native)(void *device, uint64_t handle, uint64_t *out_native, dhow_error *err);
    /* Makes a stream, as stream_create gives it, of the program's queue; stream_destroy lets go of
     * it and leaves the queue to the program. INVALID_ARGUMENT when it is not a queue of this
     * device, UNSUPPORTED when it cannot be a stream. */
    int32_t (*stream_wrap)(void *device, uint64_t native, uint32_t flags, void **out_stream,
                           dhow_error *err);
    int32_t (*stream_native)(void *stream, uint64_t *out_native, dhow_error *err);
    /* Holds back the stream's later work until the program's event is reached. */
    int32_t (*stream_wait_native)(void *stream, uint64_t native_event, dhow_error *err);
    /* The native handle of the latest record, borrowed until the next one or event_destroy.
     * INVALID_ARGUMENT when the event was never recorded. */
    int32_t (*event_native)(void *event, uint64_t *out_native, dhow_error *err);
} dhow_native;

/* "dhow.coll/1": operations that several devices do together, each with memory of its own. A
 * communicator is one rank's end: ranks 0 to size - 1 have a device each, of this process or of
 * several. All ranks ask for the same operations in the same order; a rank's work begins when its
 * stream comes to it, and waits there for the others'. */
enum { DHOW_COLL_ID_BYTES = 128 };

/* What ranks of several processes find each other by: bytes that any channel may carry. */
typedef struct dhow_coll_id {
    uint8_t bytes[DHOW_COLL_ID_BYTES];
} dhow_coll_id;

enum {                           /* dhow_coll_call.op; `count` elements, sums are of all ranks */
       DHOW_COLL_ALL_REDUCE = 1, /* out[count] of each rank is the sum of all in[count] */
       DHOW_COLL_REDUCE = 2,     /* the same for the root's out; others' is not looked at */
       DHOW_COLL_BROADCAST = 3,  /* out[count] of each rank is the root's in[count] */
       DHOW_COLL_ALL_GATHER = 4, /* out[size][count] of each rank is all in[count] */
       DHOW_COLL_REDUCE_SCATTER =
           5 /* out[count] of rank r is the sum of all in[size][count] at r */
};

/* What one rank of this process does. `in` and `out` are the same place, or do not overlap; of
 * ALL_GATHER `in` may be the rank's part of `out`, of REDUCE_SCATTER the reverse. */
typedef struct dhow_coll_call {
    uint32_t struct_size;
    uint32_t op;
    int32_t dtype; /* sums: f32, f64, f16, bf16, i32, i64 */
    uint32_t root; /* of REDUCE and BROADCAST */
    uint64_t count;
    void *comm;
    void *stream; /* of the communicator's device */
    dhow_buffer in, out;
} dhow_coll_call;

/* Slots that take a communicator are called by one thread at a time for each, but for query and
 * abort, which may come while another thread is in run. */
typedef struct dhow_coll {
    uint32_t struct_size;
    uint32_t minor;
    /* Ranks 0 to count - 1 on these devices of one backend, which differ: all or none. UNSUPPORTED
     * says what is missing, a library for example, and what to do about it. */
    int32_t (*create_all)(void *const *devices, uint32_t count, void **out_comms, dhow_error *err);
    /* An id for create_rank, made by one rank and carried to the others by the host. */
    int32_t (*unique_id)(void *device, dhow_coll_id *out, dhow_error *err);
    /* Blocks until all ranks have come, TIMED_OUT when they have not within `timeout_ms`, which
     * holds for each wait of later calls, too. */
    int32_t (*create_rank)(void *device, const dhow_coll_id *id, uint32_t rank, uint32_t size,
                           uint32_t timeout_ms, void **out_comm, dhow_error *err);
    /* Submits one call for each of several communicators, or several for one, as one group: none of
     * them waits for a later one to be submitted. After a failure, *out_at being the call that it
     * is of, the communicators are of no use; abort ends what part of the group was submitted. */
    int32_t (*run)(const dhow_coll_call *const *calls, uint32_t count, uint32_t *out_at,
                   dhow_error *err);
    /* A failure of submitted work, a lost rank for example, or OK; does not wait. */
    int32_t (*query)(void *comm, dhow_error *err);
    /* Lets submitted work end, whatever other ranks do, with nothing to be relied on in `out`. Only
     * query, which fails then, and destroy follow. */
    void (*abort)(void *comm);
    void (*destroy)(void *comm); /* its work has ended */
} dhow_coll;

/* ---- for the plugin's own definition
 * ------------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__)
#define DHOW_PLUGIN_ASAN_ 1u
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DHOW_PLUGIN_ASAN_ 1u
#endif
#endif
#ifndef DHOW_PLUGIN_ASAN_
#define DHOW_PLUGIN_ASAN_ 0u
#endif
#if defined(__SANITIZE_THREAD__)
#define DHOW_PLUGIN_TSAN_ 2u
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define DHOW_PLUGIN_TSAN_ 2u
#endif
#endif
#ifndef DHOW_PLUGIN_TSAN_
#define DHOW_PLUGIN_TSAN_ 0u
#endif
#define DHOW_PLUGIN_SANITIZERS (DHOW_PLUGIN_ASAN_ | DHOW_PLUGIN_TSAN_)

#ifdef __cplusplus
#define DHOW_PLUGIN_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define DHOW_PLUGIN_EXPORT __attribute__((visibility("default")))
#endif

/* The first fields of every plugin. */
#define DHOW_PLUGIN_HEADER                                                    \
    .magic = DHOW_PLUGIN_MAGIC, .struct_size = (uint32_t)sizeof(dhow_plugin), \
    .minor = DHOW_PLUGIN_MINOR, .pointer_bytes = (uint8_t)sizeof(void *),     \
    .little_endian = (uint8_t)(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__),    \
    .sanitizers = DHOW_PLUGIN_SANITIZERS

/* The smallest dhow_plugin of major version 1: everything up to the last required slot. */
#define DHOW_PLUGIN_MIN_SIZE offsetof(dhow_plugin, builtin_kernel)

/* The layout is frozen; tests/abi holds the whole of it. */
#if UINTPTR_MAX == UINT64_MAX && !defined(__cplusplus)
_Static_assert(sizeof(dhow_error) == 512, "ABI");
_Static_assert(sizeof(dhow_host) == 80, "ABI");
_Static_assert(sizeof(dhow_probe) == 520, "ABI");
_Static_assert(sizeof(dhow_component) == 392, "ABI");
_Static_assert(sizeof(dhow_device_desc) == 376, "ABI");
_Static_assert(sizeof(dhow_copy_end) == 40, "ABI");
_Static_assert(sizeof(dhow_copy_rect) == 104, "ABI");
_Static_assert(sizeof(dhow_dims) == 288, "ABI");
_Static_assert(sizeof(dhow_arg) == 24, "ABI");
_Static_assert(sizeof(dhow_geometry) == 40, "ABI");
_Static_assert(sizeof(dhow_module_desc) == 104, "ABI");
_Static_assert(sizeof(dhow_module_image) == 24, "ABI");
_Static_assert(sizeof(dhow_ready_kernel) == 32, "ABI");
_Static_assert(offsetof(dhow_plugin, name) == 16, "ABI");
_Static_assert(offsetof(dhow_plugin, probe) == 32, "ABI");
_Static_assert(offsetof(dhow_plugin, builtin_kernel) == 232, "ABI");
_Static_assert(sizeof(dhow_plugin) == 344, "ABI");
_Static_assert(sizeof(dhow_blas_desc) == 128, "ABI");
_Static_assert(sizeof(dhow_conv_desc) == 432, "ABI");
_Static_assert(sizeof(dhow_coll_call) == 72, "ABI");
_Static_assert(sizeof(dhow_coll) == 64, "ABI");
#endif

#ifdef __cplusplus
}
#endif

#endif /* DHOW_PLUGIN_H_ */
