/* SPDX-License-Identifier: Apache-2.0
 *
 * dhow as one of the processes that dhow-bench compares, see serve.h:
 *
 *     dhow-bench-serve FOLDER DEVICE PRECISION   serves FOLDER/model.onnx with in0.npy ...
 *     dhow-bench-serve FOLDER                    loads, runs once on the CPU, ends
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "dhow/dhow.h"
#include "serve.h"

enum { MOST = 32 };

typedef struct model {
    dhow_device *device;
    dhow_model *model;
    dhow_tensor *inputs[MOST], *outputs[MOST];
    uint32_t input_count, output_count;
    void *host[MOST];
} model;

static void ok(dhow_status status, const char *what) {
    if (status != DHOW_OK) serve_fail(what, dhow_last_error());
}
#define OK(call) ok((call), #call)

static dhow_dtype dtype_of(const char *text) {
    static const struct {
        const char *text;
        dhow_dtype dtype;
    } names[] = {{"f4", DHOW_F32}, {"f8", DHOW_F64}, {"i4", DHOW_I32},  {"i8", DHOW_I64},
                 {"u1", DHOW_U8},  {"i1", DHOW_I8},  {"b1", DHOW_BOOL}, {"f2", DHOW_F16}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i].text, text) == 0) return names[i].dtype;
    }
    serve_fail("input of type", text);
}

static void run(void *data) {
    model *m = data;
    OK(dhow_model_run_into(m->model, NULL, m->inputs, m->input_count, m->outputs, m->output_count));
    OK(dhow_device_sync(m->device));
}

static const void *output(void *data, uint32_t i, size_t *bytes) {
    model *m = data;
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    if (i >= m->output_count) return NULL;
    OK(dhow_tensor_get_info(m->outputs[i], &info));
    *bytes = 4;
    for (int32_t k = 0; k < info.rank; k++) *bytes *= (size_t)info.shape[k];
    if (info.dtype != DHOW_F32) *bytes = 0;
    free(m->host[i]);
    m->host[i] = malloc(*bytes + 1);
    if (m->host[i] == NULL) serve_fail("output", "out of memory");
    if (*bytes > 0) OK(dhow_tensor_read(m->outputs[i], m->host[i], *bytes));
    return m->host[i];
}

/* Caches are given once, as what is read and what is written. */
static void share_caches(model *m) {
    dhow_model_value_info in = DHOW_INIT(dhow_model_value_info),
                          out = DHOW_INIT(dhow_model_value_info);
    for (uint32_t i = 0; i < m->output_count; i++) {
        OK(dhow_model_output_at(m->model, i, &out));
        for (uint32_t k = 0; k < m->input_count; k++) {
            OK(dhow_model_input_at(m->model, k, &in));
            if (!serve_is_one_memory(in.name, out.name)) continue;
            dhow_tensor_release(m->outputs[i]);
            m->outputs[i] = m->inputs[k];
        }
    }
}

/* As subnormals.py asks for: the caller's thread takes numbers below the least normal one for 0. */
static void flush_if_asked(void) {
#if defined(__x86_64__)
    enum { FLUSH_RESULTS = 0x8000, FLUSH_OPERANDS = 0x40 };
    if (getenv("DHOW_BENCH_FLUSH") != NULL)
        _mm_setcsr(_mm_getcsr() | FLUSH_RESULTS | FLUSH_OPERANDS);
#endif
}

int main(int argc, char **argv) {
    dhow_context *context;
    model m = {0};
    char path[512];
    serve_input in;
    if (argc != 2 && argc != 4) serve_fail(argv[0], "FOLDER [DEVICE PRECISION]");
    flush_if_asked();
    /* Like the peer's package, a process that only wants the processor looks for nothing else. */
    const dhow_context_options cpu_alone = DHOW_INIT(dhow_context_options, .backends = "cpu");
    OK(dhow_context_create(argc == 2 ? &cpu_alone : NULL, &context));
    OK(dhow_device_get(context, argc > 2 ? argv[2] : "cpu", &m.device));
    if (argc > 3 && strcmp(argv[3], "bf16") == 0)
        OK(dhow_device_set_precision(m.device, DHOW_PRECISION_REDUCED));
    serve_path(argv[1], path, sizeof path);
    OK(dhow_model_load(context, path, &m.model));
    OK(dhow_model_to(m.model, m.device));
    while (m.input_count < MOST && serve_read(argv[1], m.input_count, &in)) {
        OK(dhow_tensor_from_data(m.device, dtype_of(in.dtype), in.rank, in.shape, in.data,
                                 &m.inputs[m.input_count++]));
        free(in.data);
    }
    m.output_count = dhow_model_output_count(m.model);
    if (m.output_count > MOST) serve_fail(path, "it has too many outputs");
    OK(dhow_model_run(m.model, NULL, m.inputs, m.input_count, m.outputs, m.output_count));
    OK(dhow_device_sync(m.device));
    share_caches(&m);
    if (argc == 2) return 0;
    const serve_work work = {run, output, &m, dhow_version()};
    return serve(&work);
}
