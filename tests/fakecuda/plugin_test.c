/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA plugin through its slots, on the fake runtime: what it says of each state of driver and
 * devices, that it leaves the process' own use of CUDA alone, and its recordings.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugin_fixture.h"

/* ---- states ---- */

typedef struct state_row {
    const char *settings;
    dhow_plugin_state state;
    const char *reason;
    const char *hint; /* a part of it */
} state_row;

static void check_state(const state_row *row) {
    dhow_probe answer = {.struct_size = sizeof answer};
    load(row->settings, NULL);
    OK(cuda->probe(&plugin_host, &answer, &err));
    cr_assert_eq(answer.state, (int32_t)row->state, "%s: state %d", row->settings, answer.state);
    cr_assert_eq(strncmp(answer.reason, row->reason, strlen(row->reason)), 0, "%s: '%s'",
                 row->settings, answer.reason);
    cr_assert_not_null(strstr(answer.hint, row->hint), "%s: '%s'", row->settings, answer.hint);
    cr_assert_eq(fakecuda_contexts_made(), 0, "a probe makes no context");
}

Test(cuda_probe, each_state_has_its_reason_and_remedy) {
    static const state_row rows[] = {
        {"devices=2", DHOW_PLUGIN_READY, "", ""},
        {"driver=0", DHOW_PLUGIN_NO_DRIVER, "no NVIDIA driver: libcuda.so.1", "NVIDIA driver"},
        {"driver=12040", DHOW_PLUGIN_DRIVER_TOO_OLD,
         "the driver supports CUDA 12.4, this plugin was built with CUDA 13.", "R580"},
        {"stub=1", DHOW_PLUGIN_NO_DRIVER, "libcuda.so.1 is the toolkit's stub, not a driver",
         "LD_LIBRARY_PATH"},
        {"devices=0", DHOW_PLUGIN_NO_DEVICE, "the NVIDIA driver shows no GPU", "nvidia-smi"},
        {"init=46", DHOW_PLUGIN_INIT_FAILED, "every GPU is busy or set to exclusive use",
         "nvidia-smi"},
        {"init=3", DHOW_PLUGIN_INIT_FAILED,
         "CUDA does not start: cudaErrorInitializationError (3), as in a container", "parent"},
        {"init=800", DHOW_PLUGIN_NO_PERMISSION, "the NVIDIA driver refuses this user",
         "/dev/nvidia"},
        {"init=802", DHOW_PLUGIN_INIT_FAILED,
         "the GPUs are not ready: cudaErrorSystemNotReady (802)", "nvidia-fabricmanager"},
        {"init=803", DHOW_PLUGIN_INIT_FAILED,
         "driver library and kernel module are of different versions (803)", "reboot"},
        {"init=999", DHOW_PLUGIN_INIT_FAILED,
         "cudaGetDeviceCount: cudaErrorUnknown (999), unknown error", "dmesg"}};
    (void)unsetenv("CUDA_VISIBLE_DEVICES");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) check_state(&rows[i]);
}

Test(cuda_probe, a_variable_that_hides_all_devices_is_named) {
    const state_row row = {"hidden=1", DHOW_PLUGIN_NO_DEVICE,
                           "CUDA_VISIBLE_DEVICES is '7' and hides every GPU", "unset"};
    (void)setenv("CUDA_VISIBLE_DEVICES", "7", 1);
    check_state(&row);
}

Test(cuda_plugin, a_driver_without_a_function_is_too_old_to_open_a_device) {
    void *opened = NULL;
    load(NULL, "cuGetProcAddress_v2@1=500;cuGetProcAddress_v2@2=999");
    OK(cuda->open(&plugin_host, &backend, &err));
    FAILS(DHOW_UNAVAILABLE, cuda->device_open(backend, 0, &opened, &err));
    cr_assert_null(opened);
    SAYS("the driver has no cuDeviceGet; update it to R525 or later");
    /* Whatever it was, an update was recommended. */
    FAILS(DHOW_INTERNAL, cuda->device_open(backend, 0, &opened, &err));
    cr_assert_null(opened);
    SAYS("cudaErrorUnknown (999)");
    OK(cuda->device_open(backend, 0, &opened, &err)); /* it is asked again */
    cuda->device_close(opened);
    cuda->close(backend);
}

Test(cuda_plugin, a_description_survives_whatever_the_driver_refuses) {
    static const char *const functions[] = {"cudaDeviceGetPCIBusId",
                                            "cudaDriverGetVersion",
                                            "cudaGetDeviceProperties",
                                            "cudaRuntimeGetVersion",
                                            "cudaDeviceGetAttribute",
                                            "cudaDeviceCanAccessPeer",
                                            "nvmlInit_v2",
                                            "nvmlDeviceGetHandleByPciBusId_v2",
                                            "nvmlDeviceGetMemoryInfo"};
    static const int codes[] = {1, 2, 100, 700, 999};
    for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++) {
        for (size_t c = 0; c < sizeof codes / sizeof codes[0]; c++) {
            dhow_device_desc desc = {.struct_size = sizeof desc};
            char faults[96];
            (void)snprintf(faults, sizeof faults, "%s@1+=%d", functions[f], codes[c]);
            load("devices=2", faults);
            OK(cuda->open(&plugin_host, &backend, &err));
            const int32_t status = cuda->device_describe(backend, 1, &desc, &err);
            const bool needed = strcmp(functions[f], "cudaGetDeviceProperties") == 0;
            cr_assert_eq(status != DHOW_OK, needed, "%s: %d: %s", faults, status, err.message);
            if (!needed) cr_assert_str_eq(desc.name, "Fake GPU 1", "%s", faults);
            cr_assert(fakecuda_call_count(functions[f]) > 0, "%s is not called", functions[f]);
            cuda->close(backend);
        }
    }
}

Test(cuda_plugin, devices_are_described_without_a_context) {
    dhow_device_desc desc = {.struct_size = sizeof desc};
    load("devices=2,memory=64M,cc=86,ecc=0,peer=0", NULL);
    OK(cuda->open(&plugin_host, &backend, &err));
    OK(cuda->device_describe(backend, 1, &desc, &err));
    cr_assert_str_eq(desc.name, "Fake GPU 1");
    cr_assert_str_eq(desc.driver, "CUDA 13.0, runtime 13.0, compute 8.6, no ECC, 3 copy engines");
    cr_assert_str_eq(desc.pci, "0000:1b:00.0");
    cr_assert_str_eq(desc.uuid, "02fa4ec0da0040018002030405060708");
    cr_assert_eq(desc.memory_bytes, 64 << 20);
    cr_assert_eq(desc.free_bytes, 64 << 20, "NVML knows");
    cuda->close(backend);
    cr_assert_eq(fakecuda_contexts_made(), 0);
    load("devices=2,nonvml=1", NULL);
    OK(cuda->open(&plugin_host, &backend, &err));
    memset(&desc, 0, sizeof desc);
    OK(cuda->device_describe(backend, 0, &desc, &err));
    cr_assert_eq(desc.free_bytes, 0, "unknown");
    cuda->close(backend);
}

Test(cuda_plugin, streams_wait_for_the_host_only_where_that_is_asked_for) {
    void *event = NULL;
    begin(NULL, NULL);
    FAILS(DHOW_UNSUPPORTED, cuda->event_create(device[0], DHOW_EVENT_HOST, &event, &err));
    end();
    (void)setenv("DHOW_CUDA_HOST_WAITS", "on", 1);
    begin(NULL, NULL);
    OK(cuda->event_create(device[0], DHOW_EVENT_HOST, &event, &err));
    cuda->event_destroy(event);
    end();
    (void)setenv("DHOW_CUDA_HOST_WAITS", "maybe", 1);
    load(NULL, NULL);
    FAILS(DHOW_INVALID_ARGUMENT, cuda->open(&plugin_host, &backend, &err));
    SAYS("DHOW_CUDA_HOST_WAITS is 'maybe'; it may be on or off");
}

/* NVML knows the whole GPU by its place: more was free than there is. */
Test(cuda_plugin, free_memory_of_a_part_of_a_gpu_is_unknown) {
    dhow_device_desc desc = {.struct_size = sizeof desc};
    load("devices=1,memory=64M,mig=1", NULL);
    OK(cuda->open(&plugin_host, &backend, &err));
    OK(cuda->device_describe(backend, 0, &desc, &err));
    cr_assert_eq(desc.memory_bytes, 64 << 20);
    cr_assert_eq(desc.free_bytes, 0);
    cuda->close(backend);
}

/* Files that are mapped to be read, as those of weights are. */
Test(cuda_plugin, memory_that_is_only_read_is_pinned) {
    float back[2] = {0};
    begin(NULL, NULL);
    float *file = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(file, MAP_FAILED);
    file[1] = 5;
    cr_assert_eq(mprotect(file, 4096, PROT_READ), 0);
    OK(cuda->host_register(device[0], file, 4096, &err));
    const uint64_t memory = to_device(file, sizeof back);
    from_device(memory, back, sizeof back);
    cr_assert_eq(back[1], 5);
    OK(cuda->host_unregister(device[0], file, &err));
    cuda->mem_free(device[0], memory);
    cr_assert_eq(munmap(file, 4096), 0);
    end();
}

/* The number of rows in a plane was a division by zero. */
Test(cuda_plugin, a_copy_of_nothing_does_nothing) {
    begin(NULL, NULL);
    const uint64_t memory = to_device(NULL, 64);
    const dhow_copy_rect rect = {
        .extent = {0, 1, 2}, .src = {.handle = memory}, .dst = {.handle = memory}};
    OK(cuda->copy(stream, &rect, &err));
    cuda->mem_free(device[0], memory);
    end();
}

/* ---- living with others ---- */

static void driver_function(const char *name, unsigned version, void *slot) {
    cr_assert_eq(cudaGetDriverEntryPointByVersion(name, slot, version, 0, NULL), cudaSuccess);
}

Test(cuda_plugin, the_context_of_the_caller_is_current_again_after_each_slot) {
    CUresult (*get)(CUcontext *) = NULL, (*push)(CUcontext) = NULL,
                              (*retain)(CUcontext *, CUdevice);
    CUresult (*release)(CUdevice), (*pop)(CUcontext *);
    CUcontext own = NULL, now = NULL;
    begin("devices=2", NULL);
    driver_function("cuCtxGetCurrent", 4000, &get);
    driver_function("cuCtxPushCurrent", 4000, &push);
    driver_function("cuCtxPopCurrent", 4000, &pop);
    driver_function("cuDevicePrimaryCtxRetain", 7000, &retain);
    driver_function("cuDevicePrimaryCtxRelease", 11000, &release);
    cr_assert_eq(get(&now), CUDA_SUCCESS);
    cr_assert_null(now, "nothing stays current");
    cr_assert_eq(retain(&own, 1), CUDA_SUCCESS);
    cr_assert_eq(push(own), CUDA_SUCCESS);
    float value = 3, back = 0;
    uint64_t memory = to_device(&value, sizeof value);
    from_device(memory, &back, sizeof back);
    void *event;
    OK(cuda->event_create(device[0], DHOW_EVENT_TIMING, &event, &err));
    OK(cuda->event_record(event, stream, &err));
    OK(cuda->event_sync(event, &err));
    cuda->event_destroy(event);
    cuda->mem_free(device[0], memory);
    cr_assert_eq(back, 3);
    cr_assert_eq(get(&now), CUDA_SUCCESS);
    cr_assert_eq(now, own);
    cr_assert_eq(pop(&now), CUDA_SUCCESS);
    cr_assert_eq(release(1), CUDA_SUCCESS);
    cr_assert_eq(fakecuda_contexts_made(), 2);
    end();
}

/* Several hundred megabytes of a GPU that nobody asked for. */
Test(cuda_plugin, the_second_gpu_alone_leaves_the_first_without_a_context) {
    void *opened = NULL, *kernel = NULL, *module = NULL;
    load("devices=2,eager=1", NULL);
    OK(cuda->open(&plugin_host, &backend, &err));
    OK(cuda->device_open(backend, 1, &opened, &err));
    OK(cuda->builtin_kernel(opened, "relu_f32", 32, &kernel, &err));
    cuda->device_close(opened);
    OK(cuda->device_open(backend, 1, &opened, &err)); /* once more, with the images gone */
    OK(cuda->builtin_kernel(opened, "relu_f32", 32, &kernel, &err));
    device[0] = opened;
    OK(build(DHOW_MODULE_PTX, SCALE_PTX, "", NULL, &module));
    cuda->module_free(module);
    cuda->device_close(opened);
    cuda->close(backend);
    cr_assert_eq(fakecuda_contexts_made(), 2);
    cr_assert_eq(fakecuda_live_objects(NULL), 0);
}

/* As after cudaDeviceReset() of somebody: calls went to whatever context was current, or brought
 * that of the first GPU to life. */
Test(cuda_plugin, a_context_that_is_gone_is_a_lost_device) {
    CUresult (*retain)(CUcontext *, CUdevice) = NULL, (*release)(CUdevice) = NULL;
    CUcontext context = NULL;
    void *other = NULL, *event = NULL;
    uint64_t memory = 0;
    float value = 0;
    begin("devices=2", NULL);
    driver_function("cuDevicePrimaryCtxRetain", 7000, &retain);
    driver_function("cuDevicePrimaryCtxRelease", 11000, &release);
    OK(cuda->stream_create(device[1], 0, &other, &err));
    OK(cuda->event_create(device[1], 0, &event, &err));
    OK(cuda->event_record(event, other, &err));
    OK(cuda->mem_alloc(device[1], 64, &memory, &err));
    cr_assert_eq(release(1), CUDA_SUCCESS);
    const uint64_t frees = fakecuda_call_count("cudaFree");
    const dhow_copy_rect rect = {
        .extent = {4, 1, 1},
        .src = {.space = DHOW_SPACE_HOST, .handle = (uint64_t)(uintptr_t)&value},
        .dst = {.handle = memory}};
    FAILS(DHOW_DEVICE_LOST, cuda->stream_sync(other, &err));
    SAYS("cudaErrorContextIsDestroyed (709)");
    FAILS(DHOW_DEVICE_LOST, cuda->event_query(event, &err));
    FAILS(DHOW_DEVICE_LOST, cuda->stream_wait(other, event, &err));
    FAILS(DHOW_DEVICE_LOST, cuda->copy(other, &rect, &err));
    FAILS(DHOW_DEVICE_LOST, cuda->fill(other, memory, 0, 4, 0, 4, &err));
    FAILS(DHOW_DEVICE_LOST, cuda->mem_alloc(device[1], 64, &memory, &err));
    cuda->mem_free(device[1], memory);
    cr_assert_eq(fakecuda_call_count("cudaFree"), frees);
    cr_assert_eq(retain(&context, 1), CUDA_SUCCESS);
    cuda->mem_free(device[1], rect.dst.handle);
    cuda->event_destroy(event);
    cuda->stream_destroy(other);
    end();
}

Test(cuda_plugin, a_driver_that_does_not_start_is_no_fork) {
    load("init=3", NULL);
    FAILS(DHOW_UNAVAILABLE, cuda->open(&plugin_host, &backend, &err));
    SAYS("cudaErrorInitializationError (3)");
    SAYS("container");
    begin(NULL, NULL);
    const pid_t child = fork();
    if (child == 0) {
        const int32_t status = cuda->stream_sync(stream, &err);
        _exit(status == DHOW_FORKED && strstr(err.message, "before fork()") != NULL ? 7 : 8);
    }
    int how = 0;
    cr_assert_eq(waitpid(child, &how, 0), child);
    cr_assert(WIFEXITED(how) && WEXITSTATUS(how) == 7, "%d", WEXITSTATUS(how));
    end();
}

/* ---- failures ---- */

Test(cuda_plugin, a_fault_of_a_kernel_names_the_launches_it_may_come_from) {
    float values[8] = {1};
    begin("devices=2", "kernel:relu_f32@1=719");
    uint64_t memory = to_device(values, sizeof values);
    launch_relu(memory, 8);
    FAILS(DHOW_DEVICE_LOST, cuda->stream_sync(stream, &err));
    SAYS("cuda:0");
    SAYS("cudaErrorLaunchFailure (719)");
    SAYS("relu_f32");
    cr_assert_eq(err.native_code, 719);
    uint64_t other = 0;
    FAILS(DHOW_DEVICE_LOST, cuda->mem_alloc(device[0], 64, &other, &err));
    cr_assert_eq(other, 0);
    OK(cuda->mem_alloc(device[1], 64, &other, &err));
    cuda->mem_free(device[1], other);
    cuda->mem_free(device[0], memory);
    end();
}

Test(cuda_plugin, short_memory_is_out_of_memory_with_the_code) {
    uint64_t memory = 1;
    begin("memory=1M", NULL);
    FAILS(DHOW_OUT_OF_MEMORY, cuda->mem_alloc(device[0], 2 << 20, &memory, &err));
    cr_assert_eq(memory, 0);
    SAYS("cudaErrorMemoryAllocation (2)");
    SAYS("2097152");
    end();
}

/* ---- dhow.graph/1 ---- */

/* PyTorch records in this mode: each of these calls was refused with 900, and spoilt its graph. */
Test(cuda_plugin, a_recording_of_the_program_is_left_alone) {
    float values[2] = {-1, 2}, pinned[2];
    void *event = NULL, *memory = NULL;
    uint64_t handle = 0;
    cudaStream_t own;
    cudaGraph_t graph = NULL;
    CUresult (*retain)(CUcontext *, CUdevice) = NULL, (*release)(CUdevice) = NULL;
    CUresult (*push)(CUcontext) = NULL, (*pop)(CUcontext *) = NULL;
    CUcontext context = NULL;
    begin(NULL, NULL);
    driver_function("cuDevicePrimaryCtxRetain", 7000, &retain);
    driver_function("cuDevicePrimaryCtxRelease", 11000, &release);
    driver_function("cuCtxPushCurrent", 4000, &push);
    driver_function("cuCtxPopCurrent", 4000, &pop);
    cr_assert_eq(retain(&context, 0), CUDA_SUCCESS);
    cr_assert_eq(push(context), CUDA_SUCCESS);
    uint64_t before = to_device(values, sizeof values);
    OK(cuda->event_create(device[0], 0, &event, &err));
    OK(cuda->event_record(event, stream, &err));
    cr_assert_eq(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking), cudaSuccess);
    cr_assert_eq(cudaStreamBeginCapture(own, cudaStreamCaptureModeGlobal), cudaSuccess);
    OK(cuda->mem_alloc(device[0], 64, &handle, &err));
    OK(cuda->host_alloc(device[0], 64, &memory, &err));
    OK(cuda->host_register(device[0], pinned, sizeof pinned, &err));
    OK(cuda->host_unregister(device[0], pinned, &err));
    OK(cuda->event_sync(event, &err));
    OK(cuda->event_query(event, &err));
    OK(cuda->stream_sync(stream, &err));
    OK(cuda->stream_query(stream, &err));
    cuda->host_free(device[0], memory);
    cuda->mem_free(device[0], handle);
    cuda->mem_free(device[0], before);
    cr_assert_eq(cudaStreamEndCapture(own, &graph), cudaSuccess, "the program's graph is spoilt");
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
    cr_assert_eq(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
    cr_assert_eq(mode, cudaStreamCaptureModeGlobal, "the thread's mode is put back");
    cr_assert_eq(cudaGraphDestroy(graph), cudaSuccess);
    cr_assert_eq(cudaStreamDestroy(own), cudaSuccess);
    cr_assert_eq(pop(&context), CUDA_SUCCESS);
    cr_assert_eq(release(0), CUDA_SUCCESS);
    cuda->event_destroy(event);
    end();
}

static void *wait_and_ask(void *statuses) {
    dhow_error mine = {.struct_size = sizeof mine};
    ((int32_t *)statuses)[0] = cuda->stream_query(stream, &mine);
    ((int32_t *)statuses)[1] = cuda->stream_sync(stream, &mine);
    return NULL;
}

/* Both were refused with 900, and the recording was spoilt: the fourth run of a model while another
 * thread read from the same stream. */
Test(cuda_plugin, other_threads_wait_for_a_stream_that_records) {
    const float values[2] = {-1, 2};
    float back[2];
    void *graph = NULL;
    pthread_t other;
    int32_t statuses[2] = {-1, -1};
    begin("delay_us=2000", NULL);
    const dhow_capture *capture = cuda->get_extension(device[0], "dhow.graph/1");
    uint64_t memory = to_device(values, sizeof values);
    launch_relu(memory, 0); /* the kernel is loaded; work of before may still run */
    OK(capture->begin(stream, &err));
    cr_assert_eq(pthread_create(&other, NULL, wait_and_ask, statuses), 0);
    cr_assert_eq(pthread_join(other, NULL), 0);
    launch_relu(memory, 2);
    OK(capture->end(stream, &graph, &err));
    cr_assert(statuses[0] == DHOW_OK || statuses[0] == DHOW_NOT_READY, "%d", statuses[0]);
    cr_assert_eq(statuses[1], DHOW_OK);
    from_device(memory, back, sizeof back);
    cr_assert_eq(back[0], -1, "nothing ran");
    OK(capture->launch(graph, stream, &err));
    from_device(memory, back, sizeof back);
    cr_assert(back[0] == 0 && back[1] == 2);
    capture->destroy(graph);
    FAILS(DHOW_INVALID_ARGUMENT, capture->end(stream, NULL, &err));
    cuda->mem_free(device[0], memory);
    end();
}

Test(cuda_plugin, a_recording_is_replayed_and_one_that_cannot_be_made_says_why) {
    const float values[4] = {-1, 2, -3, 4};
    float back[4];
    void *graph = NULL;
    begin("devices=2", NULL);
    const dhow_capture *capture = cuda->get_extension(device[0], "dhow.graph/1");
    uint64_t memory = to_device(values, sizeof values);
    OK(cuda->stream_sync(stream, &err));
    launch_relu(memory, 0); /* the kernel is loaded */
    OK(capture->begin(stream, &err));
    launch_relu(memory, 4);
    OK(cuda->fill(stream, memory, 4, 4, 0x40e00000, 4, &err));
    OK(capture->end(stream, &graph, &err));
    from_device(memory, back, sizeof back);
    cr_assert_eq(back[0], -1, "nothing ran");
    OK(capture->launch(graph, stream, &err));
    from_device(memory, back, sizeof back);
    cr_assert(back[0] == 0 && back[1] == 7 && back[2] == 0 && back[3] == 4);
    capture->destroy(graph);
    OK(capture->begin(stream, &err));
    FAILS(DHOW_UNSUPPORTED, cuda->stream_sync(stream, &err));
    SAYS("cudaErrorStreamCaptureUnsupported (900)");
    FAILS(DHOW_UNSUPPORTED, capture->end(stream, &graph, &err));
    cr_assert_null(graph);
    launch_relu(memory, 4);
    OK(cuda->stream_sync(stream, &err));
    cuda->mem_free(device[0], memory);
    end();
}
