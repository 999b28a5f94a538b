/* SPDX-License-Identifier: Apache-2.0
 *
 * calls SEED CALLS [THREADS [--trace]]: random calls of every public function, with arguments
 * that fit and arguments that do not. None may crash, hang or leave its caller without a message;
 * sanitizers see what else they do. --trace prints each call before it is made, and what it was
 * refused with.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dhow/dlpack.h"
#include "draw.h"

enum { LONGEST_S = 60 };

/* of functions that return something else */
#define NO_STATUS ((dhow_status)-1000)

static int g_trace;

static void begin_call(const char *name) {
    if (g_trace) fprintf(stderr, "%s(%s)\n", name, draw_told());
}

/* ---- callbacks ---- */

static void released(void *user) { (void)user; }

static dhow_status take_rows(void *user, const dhow_batch *results) {
    (void)user;
    return results->tensor_count > 0 ? DHOW_OK : DHOW_CANCELLED;
}

static dhow_status read_rows(void *user, const int64_t *indices, int64_t count,
                             void *const *columns) {
    (void)user, (void)indices, (void)columns;
    return count > 3 ? dhow_set_error(DHOW_IO_ERROR, "rows of a test") : DHOW_OK;
}

static dhow_status map_rows(void *user, const dhow_sample *sample, const void *const *in,
                            void *const *out) {
    (void)user, (void)in, (void)out;
    return sample->index == 3 ? dhow_set_error(DHOW_IO_ERROR, "a row of a test") : DHOW_OK;
}

static dhow_status reduce_nothing(void *user, dhow_dtype dtype, void *data, int64_t count) {
    (void)user, (void)dtype, (void)data, (void)count;
    return DHOW_OK;
}

static dhow_status graph_work(void *user, dhow_stream *stream) {
    (void)user, (void)stream;
    return DHOW_OK;
}

static void told(void *user, dhow_state_difference difference, const char *name,
                 const char *detail) {
    (void)user, (void)difference;
    touch(name), touch(detail);
}

static void write_text(void *user, const char *text, uint64_t bytes) {
    (void)user;
    if (bytes > 0 && text == NULL) abort();
}

/* ---- calls by hand: k_calls names them ---- */

/* What a second context makes is not kept: devices are borrowed from it. */
static dhow_status create_context(const dhow_context_options *options) {
    dhow_context *context = NULL;
    begin_call("dhow_context_create");
    const dhow_status s = dhow_context_create(options, absent() ? NULL : &context);
    if (s == DHOW_OK) dhow_context_release(context);
    return s;
}

static dhow_status call_dhow_context_create(void);

static dhow_status call_dhow_context_retain(void) {
    dhow_context *context = draw_handle(CONTEXT);
    begin_call("dhow_context_retain");
    const dhow_status s = dhow_context_retain(context);
    if (s == DHOW_OK) dhow_context_release(context);
    return s;
}

static dhow_status call_dhow_context_release(void) {
    begin_call("dhow_context_release");
    dhow_context_release(NULL);
    return NO_STATUS;
}

static dhow_status call_dhow_tensor_retain(void) {
    draw_sharing(1);
    dhow_tensor *tensor = draw_handle(TENSOR);
    begin_call("dhow_tensor_retain");
    const dhow_status s = dhow_tensor_retain(tensor);
    if (s == DHOW_OK) keep(TENSOR, tensor);
    return s;
}

static dhow_status call_dhow_model_run_named(void);

static dhow_status call_dhow_loader_next(void) {
    dhow_loader *loader = draw_handle(LOADER);
    dhow_batch *batch = draw_record(sizeof(dhow_batch));
    begin_call("dhow_loader_next");
    const dhow_status s = dhow_loader_next(loader, batch);
    for (uint32_t i = 0; s == DHOW_OK && i < batch->tensor_count; i++)
        if (given() && dhow_tensor_retain(batch->tensors[i]) == DHOW_OK)
            keep(TENSOR, batch->tensors[i]);
    return s;
}

/* A kernel that writes nothing, whatever its numbers are. */
static dhow_value *draw_arguments(void) {
    if (absent()) return NULL;
    dhow_value *values = scratch(16 * sizeof *values);
    dhow_dims *dims = scratch(sizeof *dims);
    for (int i = 0; i < 16; i++) {
        values[i].kind = draw_below(4) == 0 ? (dhow_value_kind)draw_enumerator()
                         : i == 2           ? DHOW_VALUE_I64
                                            : DHOW_VALUE_TENSOR;
        if (values[i].kind == DHOW_VALUE_TENSOR || values[i].kind == DHOW_VALUE_CONST_TENSOR)
            values[i].u.tensor = draw_handle(TENSOR);
        else if (values[i].kind == DHOW_VALUE_DIMS)
            values[i].u.dims = absent() ? NULL : dims;
        else
            values[i].u.i = draw_i64("number");
    }
    return values;
}

static dhow_status call_dhow_launch_values(void) {
    draw_sharing(1);
    dhow_stream *stream = draw_handle(STREAM);
    dhow_kernel *kernel = draw_handle(KERNEL);
    const int64_t work = draw_i64("work");
    const uint32_t count = draw_u32("count");
    const dhow_value *values = draw_arguments();
    begin_call("dhow_launch_values");
    return dhow_launch_values(stream, kernel, work, count, values);
}

static dhow_status call_dhow_launch_grid_values(void) {
    draw_sharing(1);
    dhow_stream *stream = draw_handle(STREAM);
    dhow_kernel *kernel = draw_handle(KERNEL);
    uint32_t grid[3], block[3];
    for (int i = 0; i < 3; i++)
        grid[i] = (uint32_t)draw_below(5), block[i] = (uint32_t)draw_below(5);
    const uint32_t shared = draw_u32("shared");
    const uint32_t count = draw_u32("count");
    const dhow_value *values = draw_arguments();
    begin_call("dhow_launch_grid_values");
    return dhow_launch_grid_values(stream, kernel, absent() ? NULL : grid, absent() ? NULL : block,
                                   shared, count, values);
}

static dhow_status call_dhow_tensor_to_dlpack(void) {
    draw_sharing(1);
    dhow_tensor *tensor = draw_handle(TENSOR);
    DLManagedTensorVersioned *managed = NULL;
    begin_call("dhow_tensor_to_dlpack");
    const dhow_status s = dhow_tensor_to_dlpack(tensor, NULL, absent() ? NULL : &managed);
    if (s == DHOW_OK) managed->deleter(managed);
    return s;
}

static dhow_status call_dhow_tensor_to_dlpack_unversioned(void) {
    draw_sharing(1);
    dhow_tensor *tensor = draw_handle(TENSOR);
    DLManagedTensor *managed = NULL;
    begin_call("dhow_tensor_to_dlpack_unversioned");
    const dhow_status s =
        dhow_tensor_to_dlpack_unversioned(tensor, NULL, absent() ? NULL : &managed);
    if (s == DHOW_OK) managed->deleter(managed);
    return s;
}

static dhow_status call_dhow_model_load_memory(void);
static dhow_status call_dhow_trainer_step(void);

#include "calls.inc"

static dhow_status call_dhow_context_create(void) {
    return create_context(draw_dhow_context_options());
}

static dhow_status call_dhow_model_run_named(void) {
    draw_sharing(1);
    dhow_model *model = draw_handle(MODEL);
    dhow_stream *stream = draw_handle(STREAM);
    const dhow_named_tensor *inputs = draw_dhow_named_tensor();
    const uint32_t input_count = draw_u32("input_count");
    dhow_named_tensor *results = draw_record(sizeof *results);
    for (int i = 0; results != NULL && i < 16; i++) {
        results[i].struct_size = results[0].struct_size;
        results[i].name = draw_text("name");
    }
    const uint32_t output_count = draw_u32("output_count");
    begin_call("dhow_model_run_named");
    const dhow_status s =
        dhow_model_run_named(model, stream, inputs, input_count, results, output_count);
    for (uint32_t i = 0; s == DHOW_OK && i < output_count; i++) keep(TENSOR, results[i].tensor);
    return s;
}

/* Half of the batches are what the networks below learn from. */
static dhow_status call_dhow_trainer_step(void) {
    dhow_trainer *trainer = draw_handle(TRAINER);
    dhow_batch made = DHOW_INIT(dhow_batch, .tensor_count = 2, .sample_count = 2);
    const dhow_batch *batch = given() ? &made : draw_dhow_batch();
    double loss;
    made.tensors[0] = draw_handle(TENSOR);
    made.tensors[1] = draw_handle(TENSOR);
    begin_call("dhow_trainer_step");
    return dhow_trainer_step(trainer, batch, absent() ? NULL : &loss);
}

/* Files that a model is loaded from where they lie. */
static unsigned char g_file[3][1 << 15];
static size_t g_file_bytes[3];

static dhow_status call_dhow_model_load_memory(void) {
    dhow_context *context = draw_handle(CONTEXT);
    const int which = (int)draw_below(3);
    const size_t bytes = given() ? g_file_bytes[which] : draw_below(g_file_bytes[which] + 1);
    void **out = new_outputs();
    begin_call("dhow_model_load_memory");
    const dhow_status s =
        dhow_model_load_memory(context, absent() ? NULL : g_file[which], bytes, (dhow_model **)out);
    check_outputs(MODEL, out, s, 1);
    return s;
}

/* ---- what every run begins with ---- */

static void need(dhow_status s, const char *what) {
    if (s == DHOW_OK) return;
    fprintf(stderr, "calls: %s: %s\n", what, dhow_last_error());
    exit(2);
}

static void copy_file(const char *folder, const char *corpus, int index) {
    static const char *const names[3] = {"clip", "if", "layer_normalization_default_axis"};
    char path[512];
    snprintf(path, sizeof path, "%s/%s", corpus, names[index]);
    FILE *file = fopen(path, "rb");
    if (file != NULL) {
        g_file_bytes[index] = fread(g_file[index], 1, sizeof g_file[index], file);
        fclose(file);
    }
    snprintf(path, sizeof path, "%s/%c.onnx", folder, 'a' + index);
    file = fopen(path, "wb");
    if (file == NULL || g_file_bytes[index] == 0) {
        fprintf(stderr, "calls: %s/%s cannot be read, or %s written\n", corpus, names[index], path);
        exit(2);
    }
    fwrite(g_file[index], 1, g_file_bytes[index], file);
    fclose(file);
}

static dhow_status build_network(dhow_model *model, dhow_device *device) {
    dhow_model_value x, y;
    dhow_status s = dhow_model_input(model, "x", DHOW_F32, 2, (const int64_t[]){-1, 4}, &x);
    if (s == DHOW_OK) s = dhow_model_linear(model, "w", x, 4, 3, 1, &y);
    if (s == DHOW_OK) s = dhow_model_relu(model, y, &y);
    if (s == DHOW_OK) s = dhow_model_output(model, "y", y);
    if (s == DHOW_OK) s = dhow_model_init_parameters(model, 1);
    return s == DHOW_OK ? dhow_model_to(model, device) : s;
}

/* linear(4, 3), a relu and its trainer, where the memory that calls have left is enough for them */
static void keep_network(dhow_device *device) {
    const dhow_trainer_options options =
        DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .learning_rate = 0.1);
    dhow_model *model;
    dhow_trainer *trainer;
    if (dhow_model_create(dhow_device_context(device), &model) != DHOW_OK) return;
    if (build_network(model, device) != DHOW_OK) {
        dhow_model_release(model);
        return;
    }
    keep(MODEL, model);
    if (dhow_trainer_create(model, &options, &trainer) == DHOW_OK) keep(TRAINER, trainer);
}

static void start(const char *folder) {
    dhow_context *context;
    need(dhow_context_create(NULL, &context), "a context");
    keep(CONTEXT, context);
    for (uint32_t i = 0; i < dhow_device_count(context); i++) {
        dhow_device *device;
        need(dhow_device_at(context, i, &device), "a device");
        need(dhow_memory_set_limit(device, (uint64_t)1 << 26), "a limit");
        keep(DEVICE, device);
        keep_network(device);
    }
    for (int i = 0; i < 600; i++) draw_next(), need(restock(), "a tensor");
    for (int i = 0; i < 3; i++) copy_file(folder, DHOW_TEST_CORPUS, i);
    share_all();
}

/* ---- the run ---- */

enum { FUNCTIONS = sizeof k_calls / sizeof k_calls[0], MOST_THREADS = 16 };

typedef struct caller {
    pthread_t thread;
    uint64_t seed, calls;
    const char *folder, *name; /* of the call */
    const char *told;          /* what it was given */
    uint64_t right[FUNCTIONS];
    _Atomic uint64_t made;
} caller;

static caller g_callers[MOST_THREADS];

static int says_twice(const char *message, const char *name) {
    const size_t length = strlen(name);
    return strncmp(message, name, length) == 0 && strncmp(message + length, ": ", 2) == 0 &&
           strncmp(message + length + 2, name, length) == 0;
}

/* Errors have a message that says once where, and none is a mistake of dhow itself. */
static void check(const caller *c, dhow_status s) {
    if (s == NO_STATUS || s == DHOW_OK || s == DHOW_NOT_READY) return;
    if (g_trace) fprintf(stderr, "    %s\n", dhow_last_error());
    if (dhow_last_error()[0] != '\0' && s != DHOW_INTERNAL &&
        !says_twice(dhow_last_error(), c->name))
        return;
    fprintf(stderr, "calls: %s(%s) is %s: '%s'\n", c->name, c->told, dhow_status_name(s),
            dhow_last_error());
    abort();
}

static void *call_on(void *at) {
    caller *c = at;
    draw_begin(c->seed, c->folder);
    for (uint64_t i = 0; i < c->calls; i++) {
        const uint64_t which = draw_below(FUNCTIONS);
        draw_next();
        draw_sharing(0);
        if (i % 4 == 0) (void)restock(); /* some are frozen and exported by now */
        if (i % 64 == 0) keep_network(draw_device());
        c->name = k_calls[which].name;
        c->told = draw_told();
        const dhow_status s = k_calls[which].call();
        check(c, s);
        c->right[which] += s == DHOW_OK || s == NO_STATUS;
        atomic_fetch_add(&c->made, 1);
    }
    release_all();
    return NULL;
}

/* Waits for a thread, as long as it comes on. */
static void await(caller *c) {
    uint64_t made = UINT64_MAX;
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += LONGEST_S;
        if (pthread_timedjoin_np(c->thread, NULL, &until) == 0) return;
        if (atomic_load(&c->made) == made) {
            fprintf(stderr, "calls: %s(%s) does not come back\n", c->name, c->told);
            abort();
        }
        made = atomic_load(&c->made);
    }
}

static void tell(int threads, uint64_t calls) {
    int reached = 0;
    for (int i = 0; i < FUNCTIONS; i++) {
        uint64_t right = 0;
        for (int j = 0; j < threads; j++) right += g_callers[j].right[i];
        reached += right > 0;
        if (right == 0 && g_trace) printf("never right: %s\n", k_calls[i].name);
    }
    printf("%d threads of %" PRIu64 " calls of %d functions, %d of them right at least once\n",
           threads, calls, FUNCTIONS, reached);
}

int main(int argc, char **argv) {
    char folder[] = "/tmp/dhow-calls-XXXXXX", command[64];
    const int threads = argc > 3 ? atoi(argv[3]) : 1;
    if (argc < 3 || threads < 1 || threads > MOST_THREADS || mkdtemp(folder) == NULL) {
        fprintf(stderr, "usage: %s SEED CALLS [THREADS [--trace]]\n", argv[0]);
        return 2;
    }
    const uint64_t seed = strtoull(argv[1], NULL, 10), calls = strtoull(argv[2], NULL, 10);
    g_trace = argc > 4 && strcmp(argv[4], "--trace") == 0;
    draw_begin(seed, folder);
    start(folder);
    for (int i = 0; i < threads; i++) {
        caller *c = &g_callers[i];
        c->seed = seed * MOST_THREADS + (uint64_t)i;
        c->calls = calls;
        c->folder = folder;
        if (pthread_create(&c->thread, NULL, call_on, c) != 0) return 2;
    }
    for (int i = 0; i < threads; i++) await(&g_callers[i]);
    release_shared();
    tell(threads, calls);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0;
}
