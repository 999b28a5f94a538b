/* SPDX-License-Identifier: Apache-2.0
 *
 * What the fake CUDA runtime offers to tests beside NVIDIA's functions, and to the fake libraries
 * next to it. Settings and faults come from FAKECUDA and FAKECUDA_FAULTS, read with the first call,
 * or from fakecuda_reset().
 *
 * FAKECUDA is a list of NAME=VALUE, separated by commas: those of the simulated machine (devices,
 * memory, delay_us, jitter_us, launch_us, bandwidth, seed) and
 *   driver=13000   version of the driver; 0: there is none; older than the runtime: too old
 *   runtime=13000  version of the runtime
 *   stub=1         the toolkit's stub stands for the driver (34)
 *   hidden=1       devices are there and hidden: as devices=0 (100)
 *   init=CODE      every call answers this code: 46 busy, 802, 803, 3 ...
 *   cc=90 sms=4 ecc=1   of each device
 *   peer=0|1|2     2 promises access and delivers other bytes
 *   code=80        the compute capability that built-in kernels have code for, and no PTX; 0: all
 *   waits=0        streams cannot wait for a word in host memory
 *   quiesce=1      what frees, pins or unpins memory or loads code locks the driver meanwhile and
 *                  waits for the device
 *   eager=1        functions that need no context make that of device 0 where none is current
 *   mig=1          the devices are parts of GPUs, of whose whole memory NVML tells
 *   clock_s=N      how long before the others the first two timed events were recorded
 *   slow_ms=N      how long starting a library and pinning memory take
 *   nolt=1 nocudnn=1 nonvrtc=1 nonvml=1 nonccl=1   the library does not start
 *   oldnccl=1      NCCL is one of 2.7
 *   strict=1       a complaint aborts, as do objects that are left when the process ends
 *   legacy=1       the legacy and the per-thread stream may be used; they are one, and order
 *                  nothing else: a program's default stream
 *   noheuristic=1  cuBLASLt has no algorithm for anything
 *   nofused=1      cuDNN does nothing else in the same call as a convolution
 *   log=1          writes what streams are given to stderr, a line each: kernels, calls of
 *                  libraries with what they compute, copies, waits
 *   ptx=1          kernels run as the PTX that nvcc makes of them, every access watched: misuse
 *                  that a GPU would tell is the error that it tells, other misuse a complaint
 *   wide=1         with ptx=1 kernels of 64-bit indices run for those of 32 bits
 *   plain_copies=1 with ptx=1 kernels that copy between layouts (copy_dims_*) run as without it: they
 *                  are most of what tests of other kernels launch
 *   idle=1         kernels and libraries compute nothing, so that large models can be looked at;
 *                  with ptx=1 kernels do
 *   costs=1        with ptx=1 the log has a line for what each command has cost, when it has run:
 *                  "cost NAME TYPE BYTES FLOP INSTRUCTIONS", of the memory that it touches and the
 *                  machine's instructions that kernels execute
 *
 * FAKECUDA_PTX, set to anything, is ptx=1 for fakecuda_reset() too.
 *
 * FAKECUDA_FAULTS is a list of NAME[#DEVICE]@N[+]=[async:]CODE, separated by semicolons: the N-th
 * call of the function (with + all later ones too) answers CUDA's CODE. `kernel:NAME` fails the
 * N-th run of a kernel, kernel:* of any; that and `async:` come out at a later call. Codes that
 * stick to a context on real devices stick.
 */
#ifndef TESTS_FAKECUDA_FAKECUDA_H_
#define TESTS_FAKECUDA_FAKECUDA_H_

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Begins anew with other settings (NULL: none), releasing whatever is left. Nobody may be in a call
 * or keep an object. False for a word that is no setting, which *why names then. */
bool fakecuda_reset(const char *settings, const char *faults, char *why, size_t why_bytes);

typedef struct fakecuda_objects {
    uint32_t device_blocks, host_blocks, registrations, streams, events, graphs, graph_execs,
        libraries, contexts, blas_handles, lt_objects, cudnn_objects, nccl_comms, programs;
} fakecuda_objects;
/* What was made and not given back; a release counts whatever it answered. `out` may be NULL.
 * Returns the sum. */
uint32_t fakecuda_live_objects(fakecuda_objects *out);

/* Calls of a function since the last reset; 0 for names that are none. */
uint64_t fakecuda_call_count(const char *function);
/* Names of all functions that can be made to fail, sorted; NULL behind the last. */
const char *fakecuda_function(size_t index);
/* Misuse that real hardware lets pass, since the last reset: how often, and the first one. */
uint32_t fakecuda_complaints(void);
const char *fakecuda_first_complaint(void);
/* How often a primary context came to life since the last reset. */
uint32_t fakecuda_contexts_made(void);
/* The error that sticks to a device, or 0. */
int fakecuda_device_error(int device);
/* Faults that struck since the last reset. */
uint32_t fakecuda_faults_struck(void);

/* Writes what streams are given there, whatever FAKECUDA says; NULL: as FAKECUDA says. */
void fakecuda_log_to(FILE *out);

/* ---- for the fake libraries ---- */

typedef enum fakecuda_kind {
    FAKECUDA_FREE,
    FAKECUDA_STREAM,
    FAKECUDA_EVENT,
    FAKECUDA_GRAPH,
    FAKECUDA_GRAPH_EXEC,
    FAKECUDA_LIBRARY,
    FAKECUDA_KERNEL,
    FAKECUDA_FUNCTION,
    FAKECUDA_BLAS,
    FAKECUDA_LT,
    FAKECUDA_CUDNN,
    FAKECUDA_NCCL,
    FAKECUDA_PROGRAM,
    FAKECUDA_KINDS
} fakecuda_kind;

/* The driver's cuGetProcAddress_v2. */
CUresult fakecuda_look_up(const char *symbol, void **function, int version,
                          CUdriverProcAddressQueryResult *result);

/* Zeroed objects that are counted. NULL when memory is short. */
void *fakecuda_object_new(fakecuda_kind kind, size_t bytes);
void fakecuda_object_delete(void *object);
bool fakecuda_object_is(const void *object, fakecuda_kind kind);

/* Counts a call of another library; the scripted code, or 0. */
int fakecuda_library_call(const char *function);
bool fakecuda_setting(const char *name); /* "nolt" */
int fakecuda_current_device(void);       /* -1: no context is current */
bool fakecuda_memory_info(int device, uint64_t *out_free, uint64_t *out_total);
int fakecuda_stream_device(cudaStream_t stream); /* -1: it is no stream */
int fakecuda_device_count(void);
int fakecuda_driver(void); /* 13000 */
void fakecuda_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line of the log, for what fakecuda_work() queues. */
void fakecuda_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

typedef struct fakecuda_range {
    const void *address; /* NULL: not given */
    uint64_t bytes;
    bool writes;
} fakecuda_range;
enum { FAKECUDA_MAX_RANGES = 8, FAKECUDA_MAX_DATA = 512 };
/* What a call of a library costs besides what `ranges` say, of which the last is its workspace. */
void fakecuda_cost(const char *name, const char *type, const fakecuda_range *ranges, uint32_t count,
                   double flop);
/* Queues work: `run` gets a copy of data and where the ranges lie for the host. Recorded where the
 * stream is capturing. */
cudaError_t fakecuda_work(cudaStream_t stream,
                          void (*run)(void *data, unsigned char *const *memory), const void *data,
                          size_t data_bytes, const fakecuda_range *ranges, uint32_t range_count);

#endif /* TESTS_FAKECUDA_FAKECUDA_H_ */
