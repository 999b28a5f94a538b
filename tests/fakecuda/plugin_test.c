/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA plugin through its slots, on the fake runtime: what it says of each state of driver and
 * devices, that it leaves the process' own use of CUDA alone, and its extensions.
 */
#include "dhow/plugin.h"

#include <criterion/criterion.h>
#include <cuda.h>
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake.h"
#include "fakecuda.h"
#include "tests/plugin_host.h"

/* ---- a device with a stream ---- */

static const dhow_plugin *cuda;
static void *backend, *device[2], *stream;
static dhow_error err = {.struct_size = sizeof(dhow_error)};

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, err.message)
#define FAILS(status, call) cr_assert_eq((call), (status), "%s: %s", #call, err.message)
#define SAYS(text) \
    cr_assert_not_null(strstr(err.message, (text)), "'%s' does not say '%s'", err.message, (text))

static void load(const char *settings, const char *faults) {
    char why[256] = "";
    cr_assert(fakecuda_reset(settings, faults, why, sizeof why), "%s", why);
    void *library = dlopen(FAKECUDA_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(library, "%s", dlerror());
    cuda = dlsym(library, DHOW_PLUGIN_SYMBOL);
    cr_assert_not_null(cuda);
}

static void begin(const char *settings, const char *faults) {
    uint32_t count = 0;
    load(settings, faults);
    OK(cuda->open(&plugin_host, &backend, &err));
    OK(cuda->device_count(backend, &count, &err));
    for (uint32_t i = 0; i < 2 && i < count; i++)
        OK(cuda->device_open(backend, i, &device[i], &err));
    OK(cuda->stream_create(device[0], 0, &stream, &err));
}

static void end(void) {
    (void)cuda->stream_sync(stream, &err);
    cuda->stream_destroy(stream);
    for (int i = 0; i < 2; i++) {
        if (device[i] != NULL) cuda->device_close(device[i]);
    }
    cuda->close(backend);
    cr_assert_eq(fakecuda_live_objects(NULL), 0);
    cr_assert_eq(fakecuda_complaints(), 0, "%s", fakecuda_first_complaint());
    cr_assert_eq(fakecuda_call_count("cudaSetDevice"), 0);
    cr_assert_eq(fakecuda_call_count("cudaDeviceReset"), 0);
}

static uint64_t to_device(const void *data, uint64_t bytes) {
    uint64_t handle = 0;
    dhow_copy_rect rect = {.extent = {bytes, 1, 1}};
    OK(cuda->mem_alloc(device[0], bytes, &handle, &err));
    if (data == NULL) return handle;
    rect.src.space = DHOW_SPACE_HOST;
    rect.src.handle = (uint64_t)(uintptr_t)data;
    rect.dst.handle = handle;
    OK(cuda->copy(stream, &rect, &err));
    return handle;
}

static void from_device(uint64_t handle, void *data, uint64_t bytes) {
    dhow_copy_rect rect = {.extent = {bytes, 1, 1}};
    rect.src.handle = handle;
    rect.dst.space = DHOW_SPACE_HOST;
    rect.dst.handle = (uint64_t)(uintptr_t)data;
    OK(cuda->copy(stream, &rect, &err));
    OK(cuda->stream_sync(stream, &err));
}

static int32_t build(uint32_t format, const char *text, const char *options, char *log,
                     void **out) {
    dhow_module_desc desc = {.struct_size = sizeof desc};
    desc.format = format;
    desc.name = "own.cu";
    desc.text = text;
    desc.text_bytes = strlen(text);
    desc.options = options;
    desc.index_bits = 64;
    desc.log = log;
    desc.log_bytes = 4096;
    return cuda->module_build(device[0], &desc, out, &err);
}

static const char k_ptx[] =
    ".version 8.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry scale(.param .u64 a)\n{\n ret;\n}\n";

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
    OK(build(DHOW_MODULE_PTX, k_ptx, "", NULL, &module));
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

static void launch_relu(uint64_t memory, int64_t n) {
    void *kernel = NULL;
    OK(cuda->builtin_kernel(device[0], "relu_f32", 32, &kernel, &err));
    const dhow_geometry geometry = {.work = (uint64_t)n};
    const dhow_arg args[] = {{DHOW_ARG_BUFFER, DHOW_ACCESS_READ, {.buffer = {memory, 0}}},
                             {DHOW_ARG_BUFFER, DHOW_ACCESS_WRITE, {.buffer = {memory, 0}}},
                             {DHOW_ARG_VALUE, 8, {.value = (uint64_t)n}}};
    OK(cuda->launch(stream, kernel, &geometry, args, 3, &err));
}

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

/* ---- kernels ---- */

static const char k_native[] =
    "extern \"C\" __global__ void scale(float *x, const float *y, float factor, int n)\n"
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = factor * y[i]; }\n"
    "__global__ void hidden(float *x) { x[0] = 1; }\n";

Test(cuda_plugin, cuda_c_is_compiled_and_its_launches_are_checked) {
    char log[4096] = "";
    void *module = NULL, *kernel = NULL;
    begin(NULL, NULL);
    OK(build(DHOW_MODULE_CUDA_C, k_native, "", log, &module));
    OK(cuda->module_kernel(module, "scale", &kernel, &err));
    FAILS(DHOW_NOT_FOUND, cuda->module_kernel(module, "hidden", &kernel, &err));
    SAYS("extern \"C\"");
    OK(cuda->module_kernel(module, "scale", &kernel, &err));
    uint64_t memory = to_device(NULL, 64);
    const dhow_geometry geometry = {.native = 1, .grid = {1, 1, 1}, .block = {32, 1, 1}};
    dhow_arg args[4] = {{DHOW_ARG_BUFFER, 3, {.buffer = {memory, 0}}},
                        {DHOW_ARG_BUFFER, 3, {.buffer = {memory, 0}}},
                        {DHOW_ARG_VALUE, 4, {.value = 0}},
                        {DHOW_ARG_VALUE, 4, {.value = 4}}};
    FAILS(DHOW_UNSUPPORTED, cuda->launch(stream, kernel, &geometry, args, 4, &err));
    SAYS("cudaErrorNotSupported"); /* the fake runs portable kernels only */
    FAILS(DHOW_INVALID_ARGUMENT, cuda->launch(stream, kernel, &geometry, args, 3, &err));
    SAYS("takes 4 arguments, given 3");
    args[2].bytes = 8;
    FAILS(DHOW_INVALID_ARGUMENT, cuda->launch(stream, kernel, &geometry, args, 4, &err));
    SAYS("argument 3 takes 4 bytes, given 8");
    cuda->mem_free(device[0], memory);
    cuda->module_free(module);
    end();
}

Test(cuda_plugin, a_compile_error_comes_with_the_compilers_words) {
    char log[4096] = "";
    void *module = NULL;
    begin(NULL, NULL);
    FAILS(DHOW_COMPILE_ERROR,
          build(DHOW_MODULE_CUDA_C, "extern \"C\" __global__ void k(float *x) { x[0] = wrong; }\n",
                "", log, &module));
    cr_assert_null(module);
    SAYS("wrong");
    cr_assert_not_null(strstr(log, "wrong"), "%s", log);
    FAILS(DHOW_INVALID_ARGUMENT, build(DHOW_MODULE_CUDA_C, k_native, "--colour=red", log, &module));
    SAYS("--colour=red");
    end();
}

/* As most kernels begin. No folder was named to NVRTC, and it knows none. */
Test(cuda_plugin, cuda_c_includes_the_headers_of_the_toolkit) {
    static const char text[] =
        "#include <cuda_fp16.h>\n"
        "extern \"C\" __global__ void halve(__half *x, int n) { if (n > 0) x[0].bits = 0; }\n";
    char root[] = "/tmp/dhow-toolkit-XXXXXX", command[256], log[4096] = "";
    void *module = NULL, *kernel = NULL;
    cr_assert_not_null(mkdtemp(root));
    (void)snprintf(command, sizeof command,
                   "mkdir %s/include && echo 'struct __half { unsigned short bits; };' > "
                   "%s/include/cuda_fp16.h",
                   root, root);
    cr_assert_eq(system(command), 0);
    (void)setenv("CUDA_HOME", root, 1);
    begin(NULL, NULL);
    OK(build(DHOW_MODULE_CUDA_C, text, "", log, &module));
    OK(cuda->module_kernel(module, "halve", &kernel, &err));
    cuda->module_free(module);
    FAILS(DHOW_COMPILE_ERROR,
          build(DHOW_MODULE_CUDA_C, "#include <nowhere.h>\n", "", log, &module));
    SAYS("nowhere.h");
    end();
    (void)snprintf(command, sizeof command, "rm -r %s", root);
    cr_assert_eq(system(command), 0);
}

Test(cuda_plugin, ptx_is_loaded_and_damaged_ptx_is_refused) {
    static const char ptx[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        ".visible .entry scale(.param .u64 a, .param .f32 b)\n{\n ret;\n}\n";
    char log[4096] = "";
    void *module = NULL, *kernel = NULL;
    begin(NULL, NULL);
    OK(build(DHOW_MODULE_PTX, ptx, "", log, &module));
    OK(cuda->module_kernel(module, "scale", &kernel, &err));
    cuda->module_free(module);
    FAILS(DHOW_COMPILE_ERROR,
          build(DHOW_MODULE_PTX, ".version 8.0\n.target sm_80\n{", "", log, &module));
    SAYS("cudaErrorInvalidPtx (218)");
    FAILS(DHOW_UNSUPPORTED,
          build(DHOW_MODULE_PTX, ".version 99.0\n.target sm_80\n", "", log, &module));
    SAYS("update the driver");
    end();
}

/* The driver compiles PTX when code is first needed, and had the caller's log until then. */
Test(cuda_plugin, damaged_ptx_is_refused_when_the_module_is_built) {
    char *log = malloc(4096);
    void *module = NULL;
    begin(NULL, NULL);
    cr_assert_not_null(log);
    log[0] = '\0';
    FAILS(DHOW_COMPILE_ERROR,
          build(DHOW_MODULE_PTX, ".version 8.0\n.target sm_80\n}", "", log, &module));
    cr_assert_null(module);
    cr_assert_not_null(strstr(log, "ptxas fatal"), "%s", log);
    free(log);
    FAILS(DHOW_UNSUPPORTED,
          build(DHOW_MODULE_PTX, ".version 8.0\n.target sm_120\n", "", NULL, &module));
    SAYS("cudaErrorNoKernelImageForDevice (209)");
    end();
}

static void *load_ptx_kernel(void **out_module) {
    void *kernel = NULL;
    OK(build(DHOW_MODULE_PTX, k_ptx, "", NULL, out_module));
    OK(cuda->module_kernel(*out_module, "scale", &kernel, &err));
    return kernel;
}

static int32_t launch_scale(void *kernel, uint32_t grid_y, uint32_t shared_bytes) {
    const dhow_geometry geometry = {
        .native = 1, .grid = {1, grid_y, 1}, .block = {32, 1, 1}, .shared_bytes = shared_bytes};
    const dhow_arg arg = {DHOW_ARG_BUFFER, 3, {.buffer = {0, 0}}};
    return cuda->launch(stream, kernel, &geometry, &arg, 1, &err);
}

/* It was asked for by each launch, as much as that needed: a launch of another thread could take it
 * away in between. */
Test(cuda_plugin, shared_memory_is_allowed_once_for_a_kernel) {
    static const struct {
        const char *settings;
        uint32_t most;
    } rows[] = {{"devices=1,cc=75", 64 << 10},
                {"devices=1,cc=80", 163 << 10},
                {"devices=1,cc=89", 99 << 10},
                {"devices=1,cc=90", 227 << 10}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *module = NULL;
        device[1] = NULL;
        begin(rows[i].settings, NULL);
        void *kernel = load_ptx_kernel(&module);
        const uint64_t before = fakecuda_call_count("cuFuncSetAttribute");
        cr_assert_eq(before, 1);
        FAILS(DHOW_UNSUPPORTED, launch_scale(kernel, 1, rows[i].most));
        SAYS("cudaErrorNotSupported"); /* the fake runs portable kernels only */
        FAILS(DHOW_UNSUPPORTED, launch_scale(kernel, 1, 50 << 10));
        cr_assert_eq(fakecuda_call_count("cuFuncSetAttribute"), before);
        FAILS(DHOW_INVALID_ARGUMENT, launch_scale(kernel, 1, rows[i].most + 1));
        SAYS("bytes of shared memory; cuda:0 has");
        FAILS(DHOW_INVALID_ARGUMENT, launch_scale(kernel, 65536, 0));
        SAYS("a grid of 1 x 65536 x 1 groups");
        cuda->module_free(module);
        end();
    }
}

/* A form compiled with the program for this index width takes the place of the text; one that the
 * driver refuses does not. */
Test(cuda_plugin, a_fat_binary_that_came_with_the_text_is_used) {
    static const fake_fatbin right = FAKE_FATBIN_INIT;
    fake_fatbin foreign = FAKE_FATBIN_INIT;
    static const dhow_kernel_param params[] = {{DHOW_PARAM_ALIAS, DHOW_F32, "x"},
                                               {DHOW_PARAM_ALIAS_OUT, DHOW_F32, "y"},
                                               {DHOW_PARAM_VALUE, DHOW_I64, "n"}};
    static const dhow_kernel_decl decl = {
        "relu_f32", "(ALIAS(f32,x), ALIAS_OUT(f32,y), VAL(i64,n))", params, 3, 0};
    char log[4096] = "";
    void *module = NULL;
    foreign.mark[0] = 'x';
    begin(NULL, NULL);
    dhow_module_image images[] = {{DHOW_IMAGE_CPU, 64, &right, sizeof right},
                                  {DHOW_IMAGE_CUDA, 32, &foreign, sizeof foreign},
                                  {DHOW_IMAGE_CUDA, 64, &right, sizeof right}};
    dhow_module_desc desc = {.struct_size = sizeof desc,
                             .format = DHOW_MODULE_PORTABLE,
                             .name = "own.k",
                             .text = "this is no text",
                             .text_bytes = 15,
                             .options = "",
                             .kernels = &decl,
                             .kernel_count = 1,
                             .index_bits = 64,
                             .log = log,
                             .log_bytes = sizeof log,
                             .images = images,
                             .image_count = 3};
    OK(cuda->module_build(device[0], &desc, &module, &err));
    cuda->module_free(module);
    images[2].data = &foreign; /* no code for this GPU: the text counts, and is wrong */
    FAILS(DHOW_COMPILE_ERROR, cuda->module_build(device[0], &desc, &module, &err));
    cr_assert_null(module);
    images[2] = (dhow_module_image){DHOW_IMAGE_CUDA, 64, &right, 12}; /* cut short */
    FAILS(DHOW_COMPILE_ERROR, cuda->module_build(device[0], &desc, &module, &err));
    desc.struct_size = offsetof(dhow_module_desc, images); /* a host of before */
    FAILS(DHOW_COMPILE_ERROR, cuda->module_build(device[0], &desc, &module, &err));
    end();
}

/* UNSUPPORTED, COMPILE_ERROR or UNAVAILABLE, where the text could have been compiled. */
Test(cuda_plugin, built_in_kernels_without_code_for_the_gpu_are_left_to_nvrtc) {
    static const int refusals[] = {200, 209, 221, 222, 223};
    void *kernel = NULL;
    begin("devices=1,cc=86,code=80", NULL);
    OK(cuda->builtin_kernel(device[0], "relu_f32", 32, &kernel, &err));
    end();
    device[0] = NULL;
    begin("devices=1,cc=87,code=80", NULL); /* Jetson Orin */
    FAILS(DHOW_NOT_FOUND, cuda->builtin_kernel(device[0], "relu_f32", 32, &kernel, &err));
    cr_assert_null(kernel);
    SAYS("cudaErrorNoKernelImageForDevice (209)");
    end();
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        char faults[96];
        (void)snprintf(faults, sizeof faults, "cuKernelGetFunction@1=%d;cudaLibraryLoadData@2=%d",
                       refusals[i], refusals[i]);
        device[0] = NULL;
        begin("devices=1", faults);
        FAILS(DHOW_NOT_FOUND, cuda->builtin_kernel(device[0], "relu_f32", 32, &kernel, &err));
        FAILS(DHOW_NOT_FOUND, cuda->builtin_kernel(device[0], "relu_f32", 64, &kernel, &err));
        OK(cuda->builtin_kernel(device[0], "relu_f32", 32, &kernel, &err));
        end();
    }
}

/* ---- dhow.blas/1 ---- */

enum { M = 5, N = 7, K = 6 };

static void check_product(uint32_t flags, uint32_t activation, int64_t batch) {
    const dhow_blas *blas = cuda->get_extension(device[0], "dhow.blas/1");
    dhow_blas_desc desc = {.struct_size = sizeof desc, .flags = flags, .activation = activation};
    float a[2 * M * K], b[2 * K * N], bias[N], c[2 * M * N];
    const bool ta = (flags & DHOW_BLAS_TRANSPOSE_A) != 0, tb = (flags & DHOW_BLAS_TRANSPOSE_B) != 0;
    for (int i = 0; i < 2 * M * K; i++) a[i] = (float)(i % 7 - 3);
    for (int i = 0; i < 2 * K * N; i++) b[i] = (float)(i % 5 - 2) / 4;
    for (int i = 0; i < N; i++) bias[i] = (float)(i - 3);
    for (int i = 0; i < 2 * M * N; i++) c[i] = (float)i;
    desc.dtype_a = desc.dtype_b = desc.dtype_c = desc.compute = DHOW_F32;
    desc.m = M;
    desc.n = N;
    desc.k = K;
    desc.batch = batch;
    desc.lda = ta ? M : K;
    desc.ldb = tb ? K : N;
    desc.ldc = N;
    desc.stride_a = M * K;
    desc.stride_b = K * N;
    desc.stride_c = M * N;
    desc.alpha = 2;
    desc.beta = 0.5f;
    void *plan = NULL;
    uint64_t workspace_bytes = 0, packed_bytes = 0;
    OK(blas->plan(device[0], &desc, &plan, &workspace_bytes, &packed_bytes, &err));
    const dhow_buffer none = {0, 0};
    dhow_buffer da = {to_device(a, sizeof a), 0}, db = {to_device(b, sizeof b), 0},
                dc = {to_device(c, sizeof c), 0}, dbias = {to_device(bias, sizeof bias), 0},
                workspace = {workspace_bytes != 0 ? to_device(NULL, workspace_bytes) : 0, 0};
    OK(blas->run(plan, stream, da, db, dc, (flags & DHOW_EPILOGUE_BIAS) != 0 ? dbias : none, none,
                 workspace, &err));
    float got[2 * M * N];
    from_device(dc.handle, got, sizeof got);
    for (int64_t e = 0; e < batch; e++) {
        for (int i = 0; i < M; i++) {
            for (int j = 0; j < N; j++) {
                double sum = 0;
                for (int l = 0; l < K; l++)
                    sum += (double)a[e * M * K + (ta ? l * M + i : i * K + l)] *
                           (double)b[e * K * N + (tb ? j * K + l : l * N + j)];
                double want = 2 * sum + 0.5 * (double)c[e * M * N + i * N + j];
                if ((flags & DHOW_EPILOGUE_BIAS) != 0) want += (double)bias[j];
                if (activation == DHOW_ACTIVATION_GELU_TANH)
                    want = want / 2 *
                           (1 + tanh(0.7978845608 * (want + 0.044715 * want * want * want)));
                const double diff = fabs(want - (double)got[e * M * N + i * N + j]);
                cr_assert_lt(diff, 1e-4, "flags %u activation %u: [%d][%d] is off by %g", flags,
                             activation, i, j, diff);
            }
        }
    }
    blas->destroy(plan);
    const uint64_t handles[] = {da.handle, db.handle, dc.handle, dbias.handle, workspace.handle};
    for (size_t i = 0; i < 5; i++) {
        if (handles[i] != 0) cuda->mem_free(device[0], handles[i]);
    }
}

Test(cuda_plugin, products_by_cublaslt_transpose_add_and_activate) {
    begin(NULL, NULL);
    for (uint32_t flags = 0; flags < 4; flags++) {
        for (int64_t batch = 1; batch <= 2; batch++) {
            check_product(flags, DHOW_ACTIVATION_NONE, batch);
            check_product(flags | DHOW_EPILOGUE_BIAS, DHOW_ACTIVATION_NONE, batch);
            check_product(flags | DHOW_EPILOGUE_BIAS, DHOW_ACTIVATION_GELU_TANH, batch);
        }
    }
    cr_assert_gt(fakecuda_call_count("cublasLtMatmul"), 20);
    cr_assert_eq(fakecuda_call_count("cublasGemmStridedBatchedEx"), 0);
    end();
}

Test(cuda_plugin, products_without_an_algorithm_go_to_cublas) {
    begin("noheuristic=1", NULL);
    for (uint32_t flags = 0; flags < 4; flags++) check_product(flags, DHOW_ACTIVATION_NONE, 2);
    cr_assert_eq(fakecuda_call_count("cublasGemmStridedBatchedEx"), 4);
    end();
}

/* A product of two numbers. */
typedef struct tiny_product {
    void *plan;
    dhow_buffer memory, workspace;
} tiny_product;

static tiny_product plan_tiny_product(void) {
    const dhow_blas *blas = cuda->get_extension(device[0], "dhow.blas/1");
    dhow_blas_desc desc = {.struct_size = sizeof desc, .m = 1, .n = 1, .k = 1, .batch = 1};
    const float value = 1;
    uint64_t bytes = 0, packed_bytes = 0;
    tiny_product p = {NULL, {0, 0}, {0, 0}};
    desc.dtype_a = desc.dtype_b = desc.dtype_c = desc.compute = DHOW_F32;
    desc.lda = desc.ldb = desc.ldc = 1;
    desc.alpha = 1;
    OK(blas->plan(device[0], &desc, &p.plan, &bytes, &packed_bytes, &err));
    p.memory.handle = to_device(&value, sizeof value);
    p.workspace.handle = bytes != 0 ? to_device(NULL, bytes) : 0;
    OK(cuda->stream_sync(stream, &err));
    return p;
}

static int32_t run_tiny_product(const tiny_product *p) {
    const dhow_blas *blas = cuda->get_extension(device[0], "dhow.blas/1");
    const dhow_buffer none = {0, 0};
    return blas->run(p->plan, stream, p->memory, p->memory, p->memory, none, none, p->workspace,
                     &err);
}

static void delete_tiny_product(const tiny_product *p) {
    const dhow_blas *blas = cuda->get_extension(device[0], "dhow.blas/1");
    blas->destroy(p->plan);
    cuda->mem_free(device[0], p->memory.handle);
    if (p->workspace.handle != 0) cuda->mem_free(device[0], p->workspace.handle);
}

/* cuBLASLt has a runtime of its own inside, so the last error of the plugin's was none: INTERNAL.
 */
Test(cuda_plugin, a_fault_that_a_product_meets_first_is_a_lost_device) {
    begin(NULL, "kernel:relu_f32@1=719");
    const tiny_product product = plan_tiny_product();
    launch_relu(product.memory.handle, 1);
    while (fakecuda_device_error(0) == 0) (void)usleep(100);
    FAILS(DHOW_DEVICE_LOST, run_tiny_product(&product));
    SAYS("cudaErrorLaunchFailure (719)");
    SAYS("relu_f32");
    cr_assert_eq(err.native_code, 719);
    delete_tiny_product(&product);
    end();
}

Test(cuda_plugin, a_product_that_cublas_refuses_is_no_fault_of_the_device) {
    begin(NULL, "cublasLtMatmul@1=13");
    const tiny_product product = plan_tiny_product();
    launch_relu(product.memory.handle, 1); /* may still run */
    FAILS(DHOW_INTERNAL, run_tiny_product(&product));
    SAYS("CUBLAS_STATUS_EXECUTION_FAILED (13)");
    OK(run_tiny_product(&product));
    delete_tiny_product(&product);
    end();
}

/* The later one was taken, whatever the driver, and when it did not start no other was tried. */
Test(cuda_plugin, a_cublaslt_of_the_drivers_version_is_found_beside_a_later_one) {
    begin("driver=12080,runtime=12080", NULL);
    const tiny_product product = plan_tiny_product();
    OK(run_tiny_product(&product));
    cr_assert_eq(fakecuda_call_count("cublasLtCreate"), 1, "the driver's own comes first");
    delete_tiny_product(&product);
    end();
}

Test(cuda_plugin, a_cublaslt_that_does_not_start_gives_way_to_the_next) {
    begin(NULL, "cublasLtCreate@1=1");
    const tiny_product product = plan_tiny_product();
    OK(run_tiny_product(&product));
    cr_assert_geq(fakecuda_call_count("cublasLtCreate"), 2);
    delete_tiny_product(&product);
    end();
}

static void *plan_slowly(void *done) {
    const dhow_blas *blas = cuda->get_extension(device[0], "dhow.blas/1");
    dhow_blas_desc desc = {.struct_size = sizeof desc, .m = 1, .n = 1, .k = 1, .batch = 1};
    dhow_error mine = {.struct_size = sizeof mine};
    uint64_t bytes, packed;
    void *plan = NULL;
    desc.dtype_a = desc.dtype_b = desc.dtype_c = desc.compute = DHOW_F32;
    desc.lda = desc.ldb = desc.ldc = 1;
    if (blas->plan(device[0], &desc, &plan, &bytes, &packed, &mine) == DHOW_OK) blas->destroy(plan);
    atomic_store((atomic_bool *)done, true);
    return NULL;
}

/* cuBLASLt takes half a second to start, and held the lock that every event wants. */
Test(cuda_plugin, other_threads_go_on_while_cublaslt_starts) {
    pthread_t thread;
    atomic_bool done = false;
    void *event = NULL;
    begin("slow_ms=500", NULL);
    cr_assert_eq(pthread_create(&thread, NULL, plan_slowly, &done), 0);
    while (fakecuda_call_count("cublasLtCreate") == 0) (void)usleep(1000);
    OK(cuda->event_create(device[0], 0, &event, &err));
    OK(cuda->event_record(event, stream, &err));
    cuda->event_destroy(event);
    cr_assert_not(atomic_load(&done), "the event waited for cuBLASLt");
    cr_assert_eq(pthread_join(thread, NULL), 0);
    end();
}

static int warnings;
static char warning[700];
static void count_warnings(void *user, int32_t level, const char *message) {
    (void)user;
    if (level > DHOW_LOG_WARN) return;
    warnings++;
    (void)snprintf(warning, sizeof warning, "%s", message);
}

/* It was a line for debugging alone, and products took many times as long. */
Test(cuda_plugin, a_missing_cublaslt_is_warned_of_once_with_a_remedy) {
    dhow_host host = plugin_host;
    void *own = NULL, *opened = NULL, *plan = NULL;
    uint64_t bytes, packed;
    dhow_blas_desc desc = {.struct_size = sizeof desc, .m = 1, .n = 1, .k = 1, .batch = 1};
    desc.dtype_a = desc.dtype_b = desc.dtype_c = desc.compute = DHOW_F32;
    desc.lda = desc.ldb = desc.ldc = 1;
    host.log = count_warnings;
    load("nolt=1", NULL);
    OK(cuda->open(&host, &own, &err));
    OK(cuda->device_open(own, 0, &opened, &err));
    const dhow_blas *blas = cuda->get_extension(opened, "dhow.blas/1");
    for (int i = 0; i < 3; i++)
        FAILS(DHOW_UNSUPPORTED, blas->plan(opened, &desc, &plan, &bytes, &packed, &err));
    cr_assert_eq(warnings, 1);
    cr_assert_not_null(strstr(warning, "cuda:0: cuBLASLt does not start"), "%s", warning);
    cr_assert_not_null(strstr(warning, "install cuBLAS"), "%s", warning);
    cr_assert_not_null(strstr(warning, "DHOW_CUDA_LIBRARY_PATH"), "%s", warning);
    cr_assert_not_null(strstr(warning, "portable kernels"), "%s", warning);
    cuda->device_close(opened);
    cuda->close(own);
}

static int32_t plan_on(void *opened) {
    const dhow_blas *blas = cuda->get_extension(opened, "dhow.blas/1");
    dhow_blas_desc desc = {.struct_size = sizeof desc, .m = 1, .n = 1, .k = 1, .batch = 1};
    uint64_t bytes, packed;
    void *plan = NULL;
    desc.dtype_a = desc.dtype_b = desc.dtype_c = desc.compute = DHOW_F32;
    desc.lda = desc.ldb = desc.ldc = 1;
    const int32_t status = blas->plan(opened, &desc, &plan, &bytes, &packed, &err);
    if (status == DHOW_OK) blas->destroy(plan);
    return status;
}

/* Memory that is short and faults of cuBLASLt are no answer for the shape, and each is told once.
 */
Test(cuda_plugin, a_product_that_cublaslt_cannot_plan_now_is_no_product_that_it_never_plans) {
    dhow_host host = plugin_host;
    void *own = NULL, *opened = NULL;
    host.log = count_warnings;
    load(NULL,
         "cublasLtMatmulAlgoGetHeuristic@1=3;cublasLtMatmulAlgoGetHeuristic@2=3;"
         "cublasLtMatmulAlgoGetHeuristic@3=14");
    OK(cuda->open(&host, &own, &err));
    OK(cuda->device_open(own, 0, &opened, &err));
    FAILS(DHOW_UNAVAILABLE, plan_on(opened));
    SAYS("CUBLAS_STATUS_ALLOC_FAILED");
    FAILS(DHOW_UNAVAILABLE, plan_on(opened));
    cr_assert_eq(warnings, 1);
    FAILS(DHOW_UNAVAILABLE, plan_on(opened));
    cr_assert_eq(warnings, 2);
    cr_assert_not_null(strstr(warning, "cuda:0: cuBLASLt fails"), "%s", warning);
    cr_assert_not_null(strstr(warning, "CUBLAS_STATUS_INTERNAL_ERROR"), "%s", warning);
    OK(plan_on(opened));
    cuda->device_close(opened);
    cuda->close(own);
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
