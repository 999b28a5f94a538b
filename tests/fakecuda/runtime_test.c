/* SPDX-License-Identifier: Apache-2.0
 *
 * The fake CUDA runtime itself: that it punishes what it should, and lets right programs pass.
 */
#include <criterion/criterion.h>
#include <cuda.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "dhow/plugin.h"
#include "fake.h"

#define OK(call) cr_assert_eq((int)(call), 0, "%s: %d", #call, (int)cudaGetLastError())
#define GIVES(code, call)                                                               \
    do {                                                                                \
        const int got_ = (int)(call);                                                   \
        cr_assert_eq(got_, (int)(code), "%s: %d, wanted %d", #call, got_, (int)(code)); \
    } while (0)

static CUcontext context[2];
static cudaStream_t stream;

static void reset(const char *settings, const char *faults) {
    char why[256] = "";
    cr_assert(fakecuda_reset(settings, faults, why, sizeof why), "%s", why);
}

/* A device's context current, and a stream on it. */
static void begin(const char *settings, const char *faults) {
    reset(settings, faults);
    for (int i = 0; i < 2; i++) {
        if (i < fakecuda_device_count()) OK(cuDevicePrimaryCtxRetain(&context[i], i));
    }
    OK(cuCtxPushCurrent(context[0]));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
}

static void end(void) {
    OK(cudaStreamDestroy(stream));
    OK(cuCtxPopCurrent(NULL));
    for (int i = 0; i < 2 && i < fakecuda_device_count(); i++) OK(cuDevicePrimaryCtxRelease(i));
    fakecuda_objects left;
    cr_assert_eq(fakecuda_live_objects(&left), 0,
                 "blocks %u host %u streams %u events %u graphs %u", left.device_blocks,
                 left.host_blocks, left.streams, left.events, left.graphs);
    cr_assert_eq(fakecuda_complaints(), 0, "%s", fakecuda_first_complaint());
}

static float *device_floats(size_t count) {
    void *memory = NULL;
    OK(cudaMalloc(&memory, count * sizeof(float)));
    return memory;
}

/* ---- kernels ---- */

static const fake_fatbin fatbin = FAKE_FATBIN_INIT;

static cudaKernel_t builtin(cudaLibrary_t *library, const char *name) {
    cudaKernel_t kernel = NULL;
    OK(cudaLibraryLoadData(library, &fatbin, NULL, NULL, 0, NULL, NULL, 0));
    OK(cudaLibraryGetKernel(&kernel, *library, name));
    return kernel;
}

static cudaError_t launch_relu(cudaKernel_t kernel, const float *x, float *y, int64_t n) {
    void *args[] = {&x, &y, &n};
    cudaLaunchConfig_t config = {.stream = stream};
    config.gridDim = (dim3){4, 1, 1};
    config.blockDim = (dim3){256, 1, 1};
    return cudaLaunchKernelExC(&config, (const void *)kernel, args);
}

Test(runtime, each_state_of_the_driver_answers_as_the_real_runtime) {
    static const struct {
        const char *settings;
        int code, version;
    } states[] = {{"driver=0", 35, 0},       {"driver=12040", 35, 12040}, {"stub=1", 34, 13000},
                  {"devices=0", 100, 13000}, {"hidden=1", 100, 13000},    {"init=46", 46, 13000},
                  {"init=802", 802, 13000},  {"driver=13010", 0, 13010}};
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        int count = -7, version = -7;
        void *memory = NULL;
        reset(states[i].settings, NULL);
        GIVES(states[i].code, cudaGetDeviceCount(&count));
        cr_assert_eq(count, states[i].code != 0 ? -7 : 2);
        OK(cudaDriverGetVersion(&version));
        if (states[i].code != 0) GIVES(states[i].code, cudaMalloc(&memory, 4));
        if (states[i].version != 13000 || CUDART_VERSION == 13000)
            cr_assert_eq(version, states[i].version);
    }
}

Test(runtime, a_wrong_setting_or_fault_is_named) {
    char why[256];
    cr_assert_not(fakecuda_reset("colour=3", NULL, why, sizeof why));
    cr_assert_not_null(strstr(why, "colour=3"));
    cr_assert_not(fakecuda_reset("devices=99", NULL, why, sizeof why));
    cr_assert_not(fakecuda_reset(NULL, "cudaMalloc@0=2", why, sizeof why));
    cr_assert_not(fakecuda_reset(NULL, "cudaMalloc=2", why, sizeof why));
    cr_assert_not_null(strstr(why, "cudaMalloc=2"));
}

Test(runtime, the_names_of_functions_are_sorted) {
    for (size_t i = 1; fakecuda_function(i) != NULL; i++)
        cr_assert_lt(strcmp(fakecuda_function(i - 1), fakecuda_function(i)), 0, "%s",
                     fakecuda_function(i));
}

Test(runtime, describing_devices_makes_no_context) {
    struct cudaDeviceProp properties;
    int value, can;
    char pci[16];
    reset("devices=2,cc=86,peer=0", NULL);
    OK(cudaGetDeviceProperties(&properties, 1));
    cr_assert_eq(properties.major * 10 + properties.minor, 86);
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
    OK(cudaDeviceGetPCIBusId(pci, sizeof pci, 0));
    cr_assert_str_eq(pci, "0000:1A:00.0");
    OK(cudaDeviceCanAccessPeer(&can, 0, 1));
    cr_assert_eq(can, 0);
    GIVES(cudaErrorInvalidDevice, cudaGetDeviceProperties(&properties, 2));
    cr_assert_eq(fakecuda_contexts_made(), 0);
}

Test(runtime, a_call_without_a_context_brings_that_of_device_0_to_life) {
    void *memory = NULL;
    int active = -1;
    unsigned flags;
    reset("devices=2", NULL);
    OK(cudaMalloc(&memory, 64));
    cr_assert_eq(fakecuda_contexts_made(), 1);
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    cr_assert_eq(active, 1);
    OK(cudaFree(memory));
}

Test(runtime, each_thread_has_its_stack_of_contexts) {
    CUcontext now = NULL;
    CUdevice device = -1;
    begin("devices=2", NULL);
    OK(cuCtxPushCurrent(context[1]));
    OK(cuCtxGetDevice(&device));
    cr_assert_eq(device, 1);
    OK(cuCtxPopCurrent(&now));
    cr_assert_eq(now, context[1]);
    OK(cuCtxGetCurrent(&now));
    cr_assert_eq(now, context[0]);
    end();
    GIVES(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxPushCurrent(context[0]));
}

Test(runtime, the_host_cannot_touch_device_memory, .signal = SIGSEGV) {
    begin(NULL, NULL);
    *(volatile float *)device_floats(4) = 1;
}

Test(runtime, memory_ends_and_comes_back) {
    void *first = NULL, *second = NULL;
    size_t left, total;
    begin("memory=1M", NULL);
    OK(cudaMalloc(&first, 700000));
    GIVES(cudaErrorMemoryAllocation, cudaMalloc(&second, 700000));
    GIVES(cudaErrorMemoryAllocation, cudaGetLastError());
    OK(cudaGetLastError());
    OK(cudaMemGetInfo(&left, &total));
    cr_assert_eq(total, 1 << 20);
    OK(cudaFree(first));
    OK(cudaMalloc(&second, 700000));
    GIVES(cudaErrorInvalidValue, cudaFree((char *)second + 256));
    cr_assert_eq(fakecuda_complaints(), 1);
    OK(cudaFree(second));
}

Test(runtime, pinned_sources_are_read_late_and_pageable_ones_at_once) {
    float pageable = 1, back[2] = {0, 0}, *pinned = NULL, *memory;
    begin("delay_us=20000", NULL);
    OK(cudaHostAlloc((void **)&pinned, sizeof *pinned, cudaHostAllocPortable));
    memory = device_floats(2);
    *pinned = 1;
    OK(cudaMemcpyAsync(memory, pinned, sizeof(float), cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(memory + 1, &pageable, sizeof(float), cudaMemcpyHostToDevice, stream));
    *pinned = pageable = 2;
    OK(cudaMemcpyAsync(back, memory, sizeof back, cudaMemcpyDeviceToHost, stream));
    cr_assert_eq(back[0], 2, "a pinned source is read when the copy runs");
    cr_assert_eq(back[1], 1, "a pageable source is read at the call; its target is there after it");
    OK(cudaFree(memory));
    OK(cudaFreeHost(pinned));
    end();
}

Test(runtime, copies_have_two_and_three_dimensions) {
    unsigned char host[60], back[60] = {0};
    void *memory = NULL;
    begin(NULL, NULL);
    for (int i = 0; i < 60; i++) host[i] = (unsigned char)i;
    OK(cudaMalloc(&memory, 24));
    /* 2 planes of 3 rows of 4 bytes out of 2 planes of 5 rows of 6 */
    struct cudaMemcpy3DParms box = {.kind = cudaMemcpyHostToDevice,
                                    .extent = {4, 3, 2},
                                    .srcPos = {1, 1, 0},
                                    .srcPtr = {host, 6, 6, 5},
                                    .dstPtr = {memory, 4, 4, 3}};
    OK(cudaMemcpy3DAsync(&box, stream));
    OK(cudaMemcpy2DAsync(back, 10, memory, 4, 4, 6, cudaMemcpyDeviceToHost, stream));
    for (int plane = 0; plane < 2; plane++) {
        for (int row = 0; row < 3; row++)
            cr_assert_eq(memcmp(back + 10 * (3 * plane + row), host + 30 * plane + 6 * row + 7, 4),
                         0);
    }
    GIVES(cudaErrorInvalidPitchValue,
          cudaMemcpy2DAsync(back, 3, memory, 4, 4, 6, cudaMemcpyDeviceToHost, stream));
    GIVES(cudaErrorInvalidValue, cudaMemcpyAsync(memory, host, 25, cudaMemcpyHostToDevice, stream));
    GIVES(cudaErrorInvalidValue, cudaMemcpyAsync(memory, host, 4, cudaMemcpyDeviceToHost, stream));
    OK(cudaFree(memory));
    end();
}

Test(runtime, fills_have_words_of_one_two_and_four_bytes) {
    uint32_t back[4];
    begin(NULL, NULL);
    float *memory = device_floats(4);
    const CUdeviceptr address = (CUdeviceptr)(uintptr_t)memory;
    OK(cudaMemsetAsync(memory, 0x11, 16, stream));
    OK(cuMemsetD16Async(address, 0x2222, 2, stream));
    OK(cuMemsetD2D32Async(address + 8, 8, 0x33333333, 1, 1, stream));
    OK(cudaMemcpyAsync(back, memory, sizeof back, cudaMemcpyDeviceToHost, stream));
    cr_assert_eq(back[0], 0x22222222);
    cr_assert_eq(back[1], 0x11111111);
    cr_assert_eq(back[2], 0x33333333);
    GIVES(cudaErrorInvalidValue, cuMemsetD32Async(address + 2, 0, 1, stream));
    OK(cudaFree(memory));
    end();
}

Test(runtime, kernels_compute_and_their_arguments_are_read_at_the_launch) {
    float values[4] = {-1, 2, -3, 4};
    cudaLibrary_t library;
    begin("delay_us=2000", NULL);
    float *memory = device_floats(4);
    cudaKernel_t kernel = builtin(&library, "relu_f32");
    OK(cudaMemcpyAsync(memory, values, sizeof values, cudaMemcpyHostToDevice, stream));
    int64_t n = 4;
    const float *x = memory;
    float *y = memory;
    void *args[] = {&x, &y, &n};
    CUfunction function;
    size_t offset, bytes;
    OK(cuKernelGetFunction(&function, (CUkernel)kernel));
    OK(cuFuncGetParamInfo(function, 2, &offset, &bytes));
    cr_assert(offset == 16 && bytes == 8);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(function, 3, &offset, &bytes));
    OK(cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, stream, args, NULL));
    n = -1;
    x = y = NULL;
    OK(cudaMemcpyAsync(values, memory, sizeof values, cudaMemcpyDeviceToHost, stream));
    cr_assert(values[0] == 0 && values[1] == 2 && values[2] == 0 && values[3] == 4);
    cudaKernel_t missing;
    GIVES(cudaErrorSymbolNotFound, cudaLibraryGetKernel(&missing, library, "no_such_kernel"));
    OK(cudaLibraryUnload(library));
    OK(cudaFree(memory));
    end();
}

Test(runtime, launches_have_limits) {
    cudaLibrary_t library;
    begin(NULL, NULL);
    cudaKernel_t kernel = builtin(&library, "relu_f32");
    void *none[] = {NULL, NULL, NULL};
    cudaLaunchConfig_t config = {.stream = stream};
    config.gridDim = (dim3){0, 1, 1};
    config.blockDim = (dim3){256, 1, 1};
    GIVES(cudaErrorInvalidConfiguration, cudaLaunchKernelExC(&config, (const void *)kernel, none));
    config.gridDim = (dim3){1, 65536, 1};
    GIVES(cudaErrorInvalidConfiguration, cudaLaunchKernelExC(&config, (const void *)kernel, none));
    config.gridDim = (dim3){1, 1, 1};
    config.blockDim = (dim3){1025, 1, 1};
    GIVES(cudaErrorInvalidConfiguration, cudaLaunchKernelExC(&config, (const void *)kernel, none));
    config.blockDim = (dim3){512, 1, 1};
    GIVES(cudaErrorLaunchOutOfResources, cudaLaunchKernelExC(&config, (const void *)kernel, none));
    config.blockDim = (dim3){256, 1, 1};
    config.dynamicSmemBytes = 49 * 1024;
    GIVES(cudaErrorInvalidConfiguration, cudaLaunchKernelExC(&config, (const void *)kernel, none));
    OK(cudaLibraryUnload(library));
    end();
}

/* ---- faults of work ---- */

Test(runtime, memory_of_another_device_is_an_illegal_address_and_sticks) {
    cudaLibrary_t library;
    cudaStream_t other;
    begin("devices=2", NULL);
    cudaKernel_t kernel = builtin(&library, "relu_f32");
    OK(cuCtxPushCurrent(context[1]));
    float *foreign = device_floats(4);
    OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    OK(cuCtxPopCurrent(NULL));
    OK(launch_relu(kernel, foreign, foreign, 4));
    GIVES(cudaErrorIllegalAddress, cudaStreamSynchronize(stream));
    GIVES(cudaErrorIllegalAddress, launch_relu(kernel, foreign, foreign, 4));
    GIVES(cudaErrorIllegalAddress, cudaGetLastError());
    GIVES(cudaErrorIllegalAddress, cudaGetLastError());
    OK(cuCtxPushCurrent(context[1]));
    OK(cudaMemsetAsync(foreign, 0, 16, other));
    OK(cudaStreamSynchronize(other));
    OK(cudaFree(foreign));
    OK(cudaStreamDestroy(other));
}

Test(runtime, memory_that_is_freed_too_early_is_found_when_the_work_runs) {
    cudaLibrary_t library;
    begin(NULL, NULL);
    cudaKernel_t kernel = builtin(&library, "relu_f32");
    float *memory = device_floats(4);
    OK(cudaFree(memory));
    OK(launch_relu(kernel, memory, memory, 4));
    GIVES(cudaErrorIllegalAddress, cudaStreamSynchronize(stream));
}

Test(runtime, a_pointer_that_is_not_aligned_sticks_too) {
    cudaLibrary_t library;
    begin(NULL, NULL);
    cudaKernel_t kernel = builtin(&library, "relu_f32");
    char *memory = (char *)device_floats(4);
    OK(launch_relu(kernel, (float *)(void *)(memory + 2), (float *)(void *)(memory + 2), 2));
    GIVES(cudaErrorMisalignedAddress, cudaStreamSynchronize(stream));
}

Test(runtime, scripted_faults_strike_once_or_from_then_on) {
    void *memory = NULL;
    begin(NULL, "cudaMalloc@2=2; cudaMemGetInfo@2+=999");
    size_t a, b;
    OK(cudaMalloc(&memory, 8));
    OK(cudaFree(memory));
    GIVES(2, cudaMalloc(&memory, 8));
    OK(cudaMalloc(&memory, 8));
    OK(cudaFree(memory));
    OK(cudaMemGetInfo(&a, &b));
    GIVES(999, cudaMemGetInfo(&a, &b));
    GIVES(999, cudaMemGetInfo(&a, &b));
    cr_assert_eq(fakecuda_faults_struck(), 3);
    cr_assert_eq(fakecuda_call_count("cudaMalloc"), 3);
    end();
}

Test(runtime, a_fault_of_a_kernel_comes_out_later) {
    cudaLibrary_t library;
    begin(NULL, "kernel:relu_f32@2=719");
    cudaKernel_t kernel = builtin(&library, "relu_f32");
    float *memory = device_floats(4);
    OK(cudaMemsetAsync(memory, 0, 16, stream));
    OK(launch_relu(kernel, memory, memory, 4));
    OK(cudaStreamSynchronize(stream));
    OK(launch_relu(kernel, memory, memory, 4));
    GIVES(719, cudaStreamSynchronize(stream));
    GIVES(719, cudaFree(memory));
    cr_assert_eq(fakecuda_live_objects(NULL), 4, "the block counts as given back");
}

Test(runtime, a_call_can_succeed_and_take_the_device_with_it) {
    begin("devices=2", "cudaMemsetAsync@1=async:700");
    float *memory = device_floats(4);
    OK(cudaMemsetAsync(memory, 0, 16, stream));
    GIVES(700, cudaStreamQuery(stream));
}

/* ---- streams and events ---- */

Test(runtime, an_event_belongs_to_its_device) {
    cudaEvent_t event;
    begin("devices=2", NULL);
    OK(cuCtxPushCurrent(context[1]));
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    OK(cuCtxPopCurrent(NULL));
    GIVES(cudaErrorInvalidResourceHandle, cudaEventRecord(event, stream));
    OK(cudaStreamWaitEvent(stream, event, 0));
    OK(cudaEventDestroy(event));
    GIVES(cudaErrorInvalidResourceHandle, cudaEventDestroy(event));
    end();
}

Test(runtime, events_order_streams_and_measure_time) {
    cudaEvent_t start, stop;
    cudaStream_t second;
    float milliseconds = 0, value = 1, back = 0;
    begin("delay_us=5000", NULL);
    float *memory = device_floats(1);
    OK(cudaStreamCreateWithPriority(&second, cudaStreamNonBlocking, -1));
    OK(cudaEventCreateWithFlags(&start, 0));
    OK(cudaEventCreateWithFlags(&stop, 0));
    OK(cudaEventRecord(start, stream));
    OK(cudaMemcpyAsync(memory, &value, sizeof value, cudaMemcpyHostToDevice, stream));
    OK(cudaEventRecord(stop, stream));
    GIVES(cudaErrorNotReady, cudaEventQuery(stop));
    GIVES(cudaErrorNotReady, cudaStreamQuery(stream));
    OK(cudaStreamWaitEvent(second, stop, 0));
    OK(cudaMemcpyAsync(&back, memory, sizeof back, cudaMemcpyDeviceToHost, second));
    cr_assert_eq(back, 1);
    OK(cudaEventElapsedTime(&milliseconds, start, stop));
    cr_assert_geq(milliseconds, 4);
    OK(cudaEventDestroy(start));
    OK(cudaEventDestroy(stop));
    OK(cudaStreamDestroy(second));
    OK(cudaFree(memory));
    end();
}

Test(runtime, a_stream_waits_for_a_word_of_the_host) {
    _Atomic uint32_t *word = NULL;
    uint32_t pageable = 0;
    begin(NULL, NULL);
    OK(cudaHostAlloc((void **)&word, 64, cudaHostAllocMapped));
    atomic_store(word, 0);
    OK(cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)word, 3, CU_STREAM_WAIT_VALUE_GEQ));
    atomic_store(word, 2);
    nanosleep(&(struct timespec){0, 5000000}, NULL);
    GIVES(cudaErrorNotReady, cudaStreamQuery(stream));
    atomic_store(word, 4);
    OK(cudaStreamSynchronize(stream));
    /* A stream with a wait that nobody satisfies can be destroyed. */
    OK(cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)word, 9, CU_STREAM_WAIT_VALUE_EQ));
    OK(cudaStreamDestroy(stream));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaFreeHost((void *)word));
    cr_assert_eq(fakecuda_complaints(), 0, "%s", fakecuda_first_complaint());
    GIVES(CUDA_ERROR_INVALID_VALUE,
          cuStreamWaitValue32(stream, (CUdeviceptr)(uintptr_t)&pageable, 1, 0));
    cr_assert_eq(fakecuda_complaints(), 1);
}

Test(runtime, what_belongs_to_others_in_the_process_is_complained_about) {
    begin(NULL, NULL);
    GIVES(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(NULL));
    GIVES(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(cudaStreamPerThread));
    OK(cudaDeviceReset());
    cr_assert_eq(fakecuda_complaints(), 3);
}

Test(runtime, peers_copy_once_they_may_and_a_broken_link_shows) {
    for (int peer = 0; peer < 3; peer++) {
        float value = 1, back = 0;
        begin(peer == 0 ? "peer=0" : peer == 1 ? "peer=1" : "peer=2", NULL);
        float *from = device_floats(1);
        OK(cudaMemcpyAsync(from, &value, sizeof value, cudaMemcpyHostToDevice, stream));
        OK(cudaStreamSynchronize(stream));
        cudaStream_t other;
        OK(cuCtxPushCurrent(context[1]));
        OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
        GIVES(peer == 0 ? cudaErrorPeerAccessUnsupported : cudaSuccess,
              cudaDeviceEnablePeerAccess(0, 0));
        if (peer != 0) GIVES(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(0, 0));
        float *to = device_floats(1);
        OK(cudaMemcpyPeerAsync(to, 1, from, 0, sizeof(float), other));
        OK(cudaMemcpyAsync(&back, to, sizeof back, cudaMemcpyDeviceToHost, other));
        cr_assert_eq(back == 1, peer != 2);
        OK(cudaFree(to));
        OK(cudaStreamDestroy(other));
        OK(cuCtxPopCurrent(NULL));
        OK(cudaFree(from));
        end();
    }
}

/* ---- recording ---- */

Test(runtime, a_recording_is_replayed_as_often_as_asked) {
    cudaLibrary_t library;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    float value = -1, back = 0;
    begin(NULL, NULL);
    cudaKernel_t kernel = builtin(&library, "relu_f32");
    float *memory = device_floats(2);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(launch_relu(kernel, memory, memory + 1, 1));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    for (int i = 0; i < 3; i++) {
        value = (float)(i - 1);
        OK(cudaMemcpyAsync(memory, &value, sizeof value, cudaMemcpyHostToDevice, stream));
        OK(cudaGraphLaunch(exec, stream));
        OK(cudaMemcpyAsync(&back, memory + 1, sizeof back, cudaMemcpyDeviceToHost, stream));
        cr_assert_eq(back, value > 0 ? value : 0);
    }
    OK(cudaGraphExecDestroy(exec));
    OK(cudaLibraryUnload(library));
    OK(cudaFree(memory));
    end();
}

Test(runtime, what_a_recording_forbids_spoils_it) {
    cudaGraph_t graph = NULL;
    void *memory = NULL;
    enum cudaStreamCaptureStatus status;
    begin(NULL, NULL);
    float *floats = device_floats(1);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    GIVES(cudaErrorStreamCaptureUnsupported, cudaMalloc(&memory, 8));
    OK(cudaStreamIsCapturing(stream, &status));
    cr_assert_eq(status, cudaStreamCaptureStatusInvalidated);
    GIVES(cudaErrorStreamCaptureInvalidated, cudaMemsetAsync(floats, 0, 4, stream));
    GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
    cr_assert_null(graph);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    OK(cudaMalloc(&memory, 8));
    GIVES(cudaErrorStreamCaptureUnsupported, cudaStreamSynchronize(stream));
    GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
    GIVES(cudaErrorIllegalState, cudaStreamEndCapture(stream, &graph));
    cudaEvent_t event;
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    OK(cudaEventRecord(event, stream));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    GIVES(cudaErrorStreamCaptureIsolation, cudaStreamWaitEvent(stream, event, 0));
    GIVES(cudaErrorStreamCaptureInvalidated, cudaStreamEndCapture(stream, &graph));
    OK(cudaEventDestroy(event));
    OK(cudaFree(memory));
    OK(cudaFree(floats));
    end();
}

/* ---- images ---- */

static const char ptx[] =
    "//\n.version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry scale(\n .param .u64 scale_0,\n .param .f32 scale_1,\n"
    " .param .align 8 .b8 scale_2[288]\n)\n{\n ret;\n}\n";

Test(runtime, ptx_is_read_and_not_run) {
    cudaLibrary_t library;
    cudaKernel_t kernel;
    CUmodule module;
    size_t offset, bytes;
    unsigned count;
    begin(NULL, NULL);
    OK(cudaLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cudaLibraryGetKernelCount(&count, library));
    cr_assert_eq(count, 1);
    OK(cudaLibraryGetKernel(&kernel, library, "scale"));
    OK(cuKernelGetParamInfo((CUkernel)kernel, 2, &offset, &bytes));
    cr_assert(offset == 16 && bytes == 288);
    GIVES(CUDA_ERROR_INVALID_VALUE, cuKernelGetParamInfo((CUkernel)kernel, 3, &offset, &bytes));
    cudaLaunchConfig_t config = {.stream = stream};
    config.gridDim = config.blockDim = (dim3){1, 1, 1};
    GIVES(cudaErrorNotSupported, cudaLaunchKernelExC(&config, (const void *)kernel, NULL));
    OK(cudaLibraryUnload(library));
    static const struct {
        const char *from, *to;
        int code;
    } changes[] = {{".version 8.0", ".version 9.9", cudaErrorUnsupportedPtxVersion},
                   {".target sm_80", ".target sm_99", cudaErrorNoKernelImageForDevice},
                   {" ret;\n}", " ret;\n ", cudaErrorInvalidPtx},
                   {".target", ".tarjet", cudaErrorInvalidPtx}};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        char text[sizeof ptx];
        memcpy(text, ptx, sizeof ptx);
        memcpy(strstr(text, changes[i].from), changes[i].to, strlen(changes[i].to));
        OK(cudaLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
        GIVES(changes[i].code, cuLibraryGetModule(&module, (CUlibrary)library));
        OK(cudaLibraryUnload(library));
    }
    GIVES(cudaErrorInvalidKernelImage,
          cudaLibraryLoadData(&library, "nonsense", NULL, NULL, 0, NULL, NULL, 0));
    end();
}

Test(runtime, entry_points_are_handed_out_by_name_and_version) {
    void *function = NULL;
    enum cudaDriverEntryPointQueryResult result;
    reset("waits=0", NULL);
    OK(cudaGetDriverEntryPointByVersion("cuLaunchKernel", &function, 4000, 0, &result));
    cr_assert(function != NULL && result == cudaDriverEntryPointSuccess);
    OK(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &function, 4000, 0, &result));
    cr_assert(function == NULL && result == cudaDriverEntryPointSymbolNotFound);
    OK(cudaGetDriverEntryPointByVersion("cuFuncGetParamInfo", &function, 12000, 0, &result));
    cr_assert(function == NULL && result == cudaDriverEntryPointVersionNotSufficent);
    OK(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &function, 13000, 0, &result));
    cr_assert_null(function);
}
