/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenVINO as one of the processes that dhow-bench compares, through its C interface:
 *
 *     dhow-bench-openvino LIBRARY FOLDER THREADS   serves FOLDER/model.onnx with in0.npy ...
 *
 * LIBRARY is libopenvino_c.so of PyPI's package. It computes in f32, for latency, and is told the
 * shapes of the inputs before it compiles, which makes the fastest program.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve.h"

enum { MOST = 32, TYPE_F32 = 4 };

typedef struct shape {
    int64_t rank, *dims;
} shape;

typedef struct extent {
    int64_t least, most;
} extent;

typedef struct partial_shape {
    extent rank, *dims;
} partial_shape;

typedef struct version {
    const char *number, *description;
} version;

/* X(name, arguments); all return a status, 0 for success */
#define FUNCTIONS(X)                                                                            \
    X(get_openvino_version, (version * out))                                                    \
    X(core_create, (void **out))                                                                \
    X(core_read_model, (const void *core, const char *path, const char *weights, void **out))   \
    X(core_compile_model,                                                                       \
      (const void *core, const void *model, const char *device, size_t texts, void **out, ...)) \
    X(shape_to_partial_shape, (shape from, partial_shape * out))                                \
    X(model_reshape_by_port_indexes,                                                            \
      (const void *model, const size_t *inputs, const partial_shape *shapes, size_t count))     \
    X(compiled_model_inputs_size, (const void *model, size_t *out))                             \
    X(compiled_model_outputs_size, (const void *model, size_t *out))                            \
    X(compiled_model_input_by_index, (const void *model, size_t i, void **out))                 \
    X(compiled_model_create_infer_request, (const void *model, void **out))                     \
    X(port_get_element_type, (const void *port, unsigned *out))                                 \
    X(tensor_create_from_host_ptr, (unsigned type, shape of, void *data, void **out))           \
    X(tensor_get_element_type, (const void *tensor, unsigned *out))                             \
    X(tensor_get_byte_size, (const void *tensor, size_t *out))                                  \
    X(tensor_data, (const void *tensor, void **out))                                            \
    X(tensor_free, (void *tensor))                                                              \
    X(infer_request_set_input_tensor_by_index, (void *request, size_t i, const void *tensor))   \
    X(infer_request_get_output_tensor_by_index, (const void *request, size_t i, void **out))    \
    X(infer_request_infer, (void *request))

#define MEMBER(name, arguments) int(*name) arguments;
static struct {
    FUNCTIONS(MEMBER)
    const char *(*message)(void);
} api;

static void check(int status, const char *what) {
    if (status != 0) serve_fail(what, api.message());
}
#define OK(call) check(api.call, #call)

static void take(void *library, const char *name, void *function, size_t bytes) {
    void *symbol = dlsym(library, name);
    if (symbol == NULL) serve_fail("OpenVINO's library has no function", name);
    memcpy(function, &symbol, bytes);
}

static void open_library(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) serve_fail(path, dlerror());
    take(library, "ov_get_last_err_msg", &api.message, sizeof api.message);
#define TAKE(name, arguments) take(library, "ov_" #name, &api.name, sizeof api.name);
    FUNCTIONS(TAKE)
}

typedef struct request {
    void *request;
    size_t output_count;
} request;

static void run(void *data) {
    const request *r = data;
    OK(infer_request_infer(r->request));
}

static const void *output(void *data, uint32_t i, size_t *bytes) {
    const request *r = data;
    void *tensor, *values;
    unsigned type;
    if (i >= r->output_count) return NULL;
    OK(infer_request_get_output_tensor_by_index(r->request, i, &tensor));
    OK(tensor_get_element_type(tensor, &type));
    OK(tensor_get_byte_size(tensor, bytes));
    OK(tensor_data(tensor, &values));
    if (type != TYPE_F32) *bytes = 0;
    (void)api.tensor_free(tensor); /* the request holds the memory */
    return values;
}

static size_t read_inputs(const char *folder, serve_input *inputs) {
    size_t count = 0;
    while (count < MOST && serve_read(folder, (uint32_t)count, &inputs[count])) count++;
    return count;
}

/* Models that cannot take their inputs' shapes keep open ones. */
static void set_shapes(const void *model, serve_input *inputs, size_t count) {
    partial_shape shapes[MOST];
    size_t places[MOST];
    size_t known = 0;
    for (size_t i = 0; i < count; i++) {
        if (inputs[i].rank == 0) continue; /* a number has no extents to be told */
        places[known] = i;
        OK(shape_to_partial_shape((shape){inputs[i].rank, inputs[i].shape}, &shapes[known++]));
    }
    if (api.model_reshape_by_port_indexes(model, places, shapes, known) != 0)
        (void)fprintf(stderr, "bench: OpenVINO keeps open shapes: %s\n", api.message());
}

static void give_inputs(const void *model, request *r, serve_input *inputs, size_t count) {
    for (size_t i = 0; i < count; i++) {
        void *port, *tensor;
        unsigned type;
        OK(compiled_model_input_by_index(model, i, &port));
        OK(port_get_element_type(port, &type));
        OK(tensor_create_from_host_ptr(type, (shape){inputs[i].rank, inputs[i].shape},
                                       inputs[i].data, &tensor));
        OK(infer_request_set_input_tensor_by_index(r->request, i, tensor));
    }
}

static void open_model(const char *folder, const char *threads, request *r) {
    serve_input inputs[MOST];
    void *core, *model, *compiled;
    char path[512];
    size_t wanted, count = read_inputs(folder, inputs);
    serve_path(folder, path, sizeof path);
    OK(core_create(&core));
    OK(core_read_model(core, path, NULL, &model));
    set_shapes(model, inputs, count);
    OK(core_compile_model(core, model, "CPU", 6, &compiled, "PERFORMANCE_HINT", "LATENCY",
                          "INFERENCE_PRECISION_HINT", "f32", "INFERENCE_NUM_THREADS", threads));
    OK(compiled_model_inputs_size(compiled, &wanted));
    if (wanted != count) serve_fail(path, "OpenVINO finds another number of inputs");
    OK(compiled_model_outputs_size(compiled, &r->output_count));
    OK(compiled_model_create_infer_request(compiled, &r->request));
    give_inputs(compiled, r, inputs, count);
}

int main(int argc, char **argv) {
    request r = {0};
    version about;
    if (argc != 4) serve_fail(argv[0], "LIBRARY FOLDER THREADS");
    open_library(argv[1]);
    OK(get_openvino_version(&about));
    open_model(argv[2], argv[3], &r);
    run(&r);
    const serve_work work = {run, output, &r, about.number};
    return serve(&work);
}
