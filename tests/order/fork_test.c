/* SPDX-License-Identifier: Apache-2.0
 *
 * fork() after devices were opened: the child gets FORKED from all of them and may make a context
 * of its own; the parent goes on.
 */
#include <criterion/criterion.h>
#include <dhow/dhow.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 1 << 20 };

typedef struct objects {
    dhow_context *context;
    dhow_device *device;
    dhow_stream *stream;
    dhow_event *event;
    dhow_tensor *x, *y;
    dhow_kernel *kernel;
    dhow_tensor *rows;
    dhow_dataset *dataset;
    dhow_loader *loader; /* with workers */
    dhow_model *model;
    dhow_parallel *parallel;
    dhow_sink *sink;
} objects;

#define OK(call) cr_assert_eq((call), DHOW_OK, "%s: %s", #call, dhow_last_error())

static void open_all(const char *name, objects *o) {
    OK(dhow_context_create(NULL, &o->context));
    OK(dhow_device_get(o->context, name, &o->device));
    OK(dhow_stream_create(o->device, &o->stream));
    OK(dhow_event_create(o->device, 0, &o->event));
    OK(dhow_tensor_full(o->device, DHOW_F32, DHOW_SHAPE(COUNT), 2, &o->x));
    OK(dhow_tensor_full(o->device, DHOW_F32, DHOW_SHAPE(COUNT), 3, &o->y));
    OK(dhow_kernel_get(o->device, "relu_f32", &o->kernel));
    OK(dhow_add(o->stream, o->x, o->y, o->y));
    dhow_device *cpu;
    dhow_batch batch = DHOW_INIT(dhow_batch);
    dhow_model_value x;
    OK(dhow_device_get(o->context, "cpu", &cpu));
    OK(dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(100, 2), 1, &o->rows));
    OK(dhow_dataset_from_tensors(&o->rows, 1, &o->dataset));
    const dhow_loader_options options =
        DHOW_INIT(dhow_loader_options, .batch_size = 3, .workers = 2, .device = o->device);
    OK(dhow_loader_create(o->dataset, &options, &o->loader));
    OK(dhow_loader_next(o->loader, &batch));
    OK(dhow_model_create(o->context, &o->model));
    OK(dhow_model_input(o->model, "x", DHOW_F32, DHOW_SHAPE(-1, 2), &x));
    OK(dhow_model_add(o->model, x, x, &x));
    OK(dhow_model_output(o->model, "y", x));
    OK(dhow_model_to(o->model, o->device));
    OK(dhow_parallel_create(o->model, &o->device, 1, NULL, &o->parallel));
    OK(dhow_sink_to_tensors(o->context, &o->sink));
}

static int g_wrong;

static void forked(const char *call, dhow_status status) {
    if (status == DHOW_FORKED && strstr(dhow_last_error(), "fork") != NULL) return;
    (void)fprintf(stderr, "%s: %s: %s\n", call, dhow_status_name(status), dhow_last_error());
    g_wrong++;
}
#define FORKED(call) forked(#call, (call))

static void child_uses_parents_objects(const objects *o) {
    float *memory = malloc(COUNT * sizeof *memory);
    dhow_tensor *t;
    dhow_stream *s;
    dhow_event *e;
    dhow_module *m;
    void *host;
    uint64_t handle, offset;
    dhow_batch batch = DHOW_INIT(dhow_batch);
    dhow_tensor *outputs[1] = {NULL};
    FORKED(dhow_loader_next(o->loader, &batch));
    FORKED(dhow_loader_restart(o->loader, 0, 0));
    FORKED(dhow_predict(o->model, o->loader, o->sink));
    FORKED(dhow_parallel_run(o->parallel, &o->rows, 1, outputs, 1));
    FORKED(dhow_parallel_predict(o->parallel, o->loader, o->sink));
    FORKED(dhow_tensor_pin(o->rows, o->device));
    FORKED(dhow_device_open(o->device));
    FORKED(dhow_device_sync(o->device));
    FORKED(dhow_stream_create(o->device, &s));
    FORKED(dhow_stream_sync(o->stream));
    FORKED(dhow_stream_query(o->stream));
    FORKED(dhow_stream_wait(o->stream, o->event));
    FORKED(dhow_event_create(o->device, 0, &e));
    FORKED(dhow_event_record(o->event, o->stream));
    FORKED(dhow_event_sync(o->event));
    FORKED(dhow_event_query(o->event));
    FORKED(dhow_tensor_create(o->device, DHOW_F32, DHOW_SHAPE(4), &t));
    FORKED(dhow_tensor_full(o->device, DHOW_F32, DHOW_SHAPE(4), 1, &t));
    FORKED(dhow_tensor_create_pinned(o->device, DHOW_F32, DHOW_SHAPE(4), &t));
    FORKED(dhow_tensor_read(o->x, memory, COUNT * sizeof *memory));
    FORKED(dhow_tensor_write(o->x, memory, COUNT * sizeof *memory));
    FORKED(dhow_tensor_native(o->x, &handle, &offset));
    FORKED(dhow_copy(o->x, o->y));
    FORKED(dhow_fill(NULL, o->x, 1));
    FORKED(dhow_add(NULL, o->x, o->y, o->y));
    FORKED(dhow_add(o->stream, o->x, o->y, o->y));
    FORKED(dhow_launch(o->stream, o->kernel, COUNT, o->x, o->y, COUNT));
    FORKED(dhow_memory_trim(o->device));
    FORKED(dhow_module_build(
        o->device,
        &DHOW_INIT(dhow_module_source, .text = "KERNEL(f, (OUT(f32,y), VAL(i64,n)))\n{}\n"), &m));
    dhow_status status = dhow_tensor_host_ptr(o->x, &host);
    if (strncmp(dhow_device_name(o->device), "cpu", 3) == 0) forked("dhow_tensor_host_ptr", status);
    free(memory);
}

static void release_all(const objects *o) {
    dhow_sink_release(o->sink);
    dhow_parallel_release(o->parallel);
    dhow_model_release(o->model);
    dhow_loader_release(o->loader);
    dhow_dataset_release(o->dataset);
    dhow_tensor_release(o->rows);
    dhow_kernel_release(o->kernel);
    dhow_tensor_release(o->x);
    dhow_tensor_release(o->y);
    dhow_event_release(o->event);
    dhow_stream_release(o->stream);
    dhow_context_release(o->context);
}

static bool computes(dhow_device *device) {
    dhow_tensor *t = NULL;
    float *memory = malloc(COUNT * sizeof *memory);
    dhow_status status = dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(COUNT), 4, &t);
    if (status == DHOW_OK) status = dhow_add(NULL, t, t, t);
    if (status == DHOW_OK) status = dhow_exp(NULL, t, t);
    if (status == DHOW_OK) status = dhow_log(NULL, t, t);
    if (status == DHOW_OK) status = dhow_tensor_read(t, memory, COUNT * sizeof *memory);
    bool right = status == DHOW_OK && memory[0] > 7.99f && memory[COUNT - 1] < 8.01f;
    if (!right) (void)fprintf(stderr, "%s: %s\n", dhow_device_name(device), dhow_last_error());
    free(memory);
    dhow_tensor_release(t);
    return right;
}

static void child_makes_its_own_context(const char *name) {
    dhow_context *context;
    dhow_device *device;
    dhow_status status = dhow_context_create(NULL, &context);
    if (status == DHOW_OK) status = dhow_device_get(context, name, &device);
    if (status != DHOW_OK) {
        (void)fprintf(stderr, "in the child: %s\n", dhow_last_error());
        g_wrong++;
        return;
    }
    if (!computes(device)) g_wrong++;
    dhow_context_release(context);
}

/* A driver's threads are missing in the child: it is told at once, and what to do instead. */
static void child_is_refused_a_context_on(const char *name) {
    dhow_context *context;
    dhow_device *device = NULL;
    if (dhow_context_create(NULL, &context) != DHOW_OK) {
        g_wrong++;
        return;
    }
    dhow_status status = dhow_device_get(context, name, &device);
    if (status != DHOW_NOT_FOUND || strstr(dhow_last_error(), "call exec after fork()") == NULL) {
        (void)fprintf(stderr, "in the child: %s: %s: %s\n", name, dhow_status_name(status),
                      dhow_last_error());
        g_wrong++;
    }
    if (dhow_device_get(context, "cpu", &device) != DHOW_OK || !computes(device)) g_wrong++;
    dhow_context_release(context);
}

static void fork_on(const char *name, bool own_context) {
    objects o;
    open_all(name, &o);
    cr_assert(computes(o.device));
    pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0) {
        (void)alarm(30); /* a child that hangs dies */
        child_uses_parents_objects(&o);
        if (own_context) {
            child_makes_its_own_context(name);
        } else {
            child_is_refused_a_context_on(name);
        }
        release_all(&o);
        _exit(g_wrong > 100 ? 100 : g_wrong);
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status), "the child of %s died of signal %d", name, WTERMSIG(status));
    cr_assert_eq(WEXITSTATUS(status), 0, "%s: %d calls went wrong in the child", name,
                 WEXITSTATUS(status));
    cr_assert(computes(o.device));
    OK(dhow_stream_sync(o.stream));
    release_all(&o);
}

/* Locks that another thread holds just then are free in the child. */
static atomic_bool g_stop;
static void *make_objects(void *device) {
    while (!atomic_load(&g_stop)) {
        dhow_tensor *t;
        if (dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(4), &t) == DHOW_OK)
            dhow_tensor_release(t);
    }
    return NULL;
}

Test(fork, a_child_of_a_busy_program_makes_objects_of_its_own, .timeout = 120) {
    enum { FORKS = 300 };
    dhow_context *context;
    dhow_device *device;
    pthread_t thread;
    (void)setenv("DHOW_VALIDATE", "1", 1);
    (void)setenv("DHOW_BACKENDS", "cpu", 1);
    OK(dhow_context_create(NULL, &context));
    OK(dhow_device_get(context, "cpu", &device));
    cr_assert_eq(pthread_create(&thread, NULL, make_objects, device), 0);
    for (int i = 0; i < FORKS; i++) {
        int status;
        pid_t pid = fork();
        cr_assert(pid >= 0);
        if (pid == 0) {
            dhow_context *own;
            (void)alarm(10);
            _exit(dhow_context_create(NULL, &own) != DHOW_OK);
        }
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "fork %d: signal %d", i,
                  WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
    atomic_store(&g_stop, true);
    (void)pthread_join(thread, NULL);
    dhow_context_release(context);
}

Test(fork, child_of_a_cpu_user_is_told) { fork_on("cpu", true); }
Test(fork, child_of_a_simulated_devices_user_is_told) { fork_on("sim:1", true); }
Test(fork, child_of_an_opencl_user_is_told) {
    dhow_context *context;
    dhow_device *device;
    OK(dhow_context_create(NULL, &context));
    dhow_status status = dhow_device_get(context, "opencl", &device);
    dhow_context_release(context);
    if (status != DHOW_OK) cr_skip_test("%s", dhow_last_error());
    fork_on("opencl", false); /* runtimes of OpenCL do not survive a fork */
}
Test(fork, child_of_a_cuda_user_is_told) {
    dhow_context *context;
    dhow_device *device;
    OK(dhow_context_create(NULL, &context));
    dhow_status status = dhow_device_get(context, "cuda", &device);
    dhow_context_release(context);
    const bool expected = getenv("DHOW_TEST_CUDA") != NULL;
    if (status != DHOW_OK && !expected) cr_skip_test("%s", dhow_last_error());
    fork_on("cuda", false); /* CUDA does not survive a fork */
}
