/* SPDX-License-Identifier: Apache-2.0
 *
 * The C blocks of documents, as documents.sh cuts them out, each in a function with what it takes
 * as given. Calls that fail end the test, as in docs/from-pytorch.md.
 */
#define SNIPPET_DOCUMENT "tests/readme/documents.c"
#include "dhow/dlpack.h"
#include "prologue.h"
#include "wrap.h"

static void fail(const char *what) {
    (void)fprintf(stderr, "%s\n", what);
    exit(1);
}

static dhow_tensor *full(int64_t rows, int64_t columns, double value) {
    dhow_tensor *t;
    dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(rows, columns), value, &t);
    return t;
}

static float first_of(dhow_tensor *t) {
    double value;
    dhow_tensor *flat, *one;
    dhow_tensor_flatten(t, 0, -1, &flat);
    dhow_tensor_narrow(flat, 0, 0, 1, &one);
    dhow_tensor_item(one, &value);
    dhow_tensor_release(one);
    dhow_tensor_release(flat);
    return (float)value;
}

static void readme_kernel(void) {
    const int64_t n = 100;
    dhow_tensor *x = full(1, n, 1), *y = full(1, n, 3);
    dhow_module *module;
    dhow_kernel *axpy;
#include "readme_2.inc"
    if (first_of(y) != 5) fail("README.md: axpy computes something else");
    dhow_kernel_release(axpy);
    dhow_module_release(module);
    dhow_tensor_release(x);
    dhow_tensor_release(y);
}

static void models_file(void) {
    dhow_model *model;
    dhow_tensor *input, *output;
    dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(2, 3, 4), 7, &input);
#include "models_1.inc"
    if (first_of(output) != -7) fail("docs/models.md: model.onnx computes something else");
    dhow_tensor_release(input);
    dhow_tensor_release(output);
    dhow_model_release(model);
}

static void models_builder(void) {
    dhow_model *trained;
    dhow_model_value x, y;
    dhow_model_create(context, &trained);
    dhow_model_input(trained, "x", DHOW_F32, DHOW_SHAPE(-1, 784), &x);
    dhow_model_linear(trained, "0", x, 784, 256, 1, &y);
    dhow_model_linear(trained, "2", y, 256, 10, 1, &y);
    dhow_model_save_state(trained, "weights.safetensors");
    dhow_model_release(trained);
#include "models_2.inc"
    dhow_model_release(model);
}

static void models_caches(void) {
    const int64_t heads = 2, room = 4, e = 3, own[] = {1, heads, 1, e};
    dhow_model *m;
    dhow_model_value keys, values, q, k, start, length, y;
    dhow_model_create(context, &m);
    dhow_model_input(m, "q", DHOW_F32, 4, own, &q);
    dhow_model_input(m, "k", DHOW_F32, 4, own, &k);
    dhow_model_input(m, "values", DHOW_F32, DHOW_SHAPE(1, heads, room, e), &values);
    dhow_model_input(m, "start", DHOW_I64, DHOW_SHAPE(1), &start);
    dhow_model_input(m, "length", DHOW_I64, DHOW_SHAPE(1), &length);
#include "models_3.inc"
    dhow_model_value_info out = DHOW_INIT(dhow_model_value_info);
    dhow_model_output(m, "y", y);
    if (dhow_model_output_at(m, 1, &out) != DHOW_OK || out.rank != 4 || out.shape[3] != e)
        fail("docs/models.md: attention to a cache is something else");
    dhow_model_release(m);
}

static void models_texts(void) {
    dhow_model *model;
    dhow_datum *in, *out;
    const char *text;
    dhow_model_load(context, "text.onnx", &model);
#include "models_4.inc"
    dhow_datum_text(out, 1, &text);
    if (strcmp(text, "tuesday") != 0) fail("docs/models.md: the texts are others");
    dhow_datum_release(in);
    dhow_datum_release(out);
    dhow_model_release(model);
}

static float g_seen;
static void consume(const void *data) { g_seen = *(const float *)data; }

static void interop_dlpack(void) {
    DLManagedTensorVersioned *theirs;
    dhow_tensor *mine = full(2, 3, 4), *tensor = full(2, 3, 5);
    dhow_tensor *const exported = tensor;
    dhow_tensor_to_dlpack(mine, NULL, &theirs);
#include "interop_1.inc"
    if (g_seen != 5 || first_of(tensor) != 4) fail("docs/interop.md: the tensors are others");
    dhow_tensor_release(exported);
    dhow_tensor_release(tensor);
    dhow_tensor_release(mine);
}

static int g_given_back;
static void give_back(void *user) { *(int *)user = 1; }

static void interop_wrap(void) {
    const uint64_t bytes = sizeof(float) * 480 * 640 * 4;
    float *const buffer = calloc(1, bytes);
    void *const user = &g_given_back;
    dhow_tensor *tensor;
    if (buffer == NULL) fail("no memory");
#include "interop_2.inc"
    dhow_tensor_release(tensor);
    if (!g_given_back) fail("docs/interop.md: the memory is not given back");
    free(buffer);
}

static void kernel_dialect(void) {
    static const char text[] =
#include "k_1.inc"
        ;
    const int64_t rows = 3, n = 1000;
    dhow_module *module;
    dhow_kernel *scale, *sums;
    dhow_tensor *x = full(rows, n, 0.5), *y = full(rows, n, 0), *z = full(1, rows, 0);
    dhow_module_build(device, &DHOW_INIT(dhow_module_source, .text = text), &module);
    dhow_module_kernel(module, "scale_f32", &scale);
    dhow_module_kernel(module, "sum_rows_f32", &sums);
    dhow_launch(NULL, scale, rows * n, x, y, rows * n, 4.0f);
    dhow_launch(NULL, sums, rows * n, y, z, rows, n);
    if (first_of(z) != 2000) fail("dhow/kernel/k.h: the kernels compute something else");
    dhow_kernel_release(scale);
    dhow_kernel_release(sums);
    dhow_module_release(module);
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    dhow_tensor_release(z);
}

/* The calls in cells of tables, with the types that they mean; compiled alone. */
static void cells_of_tensors(void) {
    static dhow_tensor *t, *x, *y, *w, *b, *i, *q, *k, *v, *src, *mean, *var, *values, *indices;
    static dhow_tensor *parts[4];
    static dhow_device *devices[2];
    static dhow_stream *stream;
    static dhow_dataset *dataset;
    static dhow_loader *loader;
    static dhow_trainer *trainer;
    static dhow_parallel *parallel;
    static dhow_batch batch;
    static const char *path;
    static int32_t dim, dims[2];
    static int64_t sizes[2], size[2], pads[2];
    static uint32_t count;
    static uint64_t seed;
    static double value, loss;
#include "cells_2.inc"
}

static void cells_of_models(void) {
    static dhow_model *m;
    static dhow_model_value x, y;
    static dhow_conv_options options;
#include "cells_1.inc"
}

int main(int argc, char **argv) {
    (void)argv;
    snippet_begin();
    readme_kernel();
    models_file();
    models_builder();
    models_caches();
    models_texts();
    interop_dlpack();
    interop_wrap();
    kernel_dialect();
    if (argc > 1) {
        cells_of_tensors();
        cells_of_models();
    }
    puts("all blocks of the documents run");
    return 0;
}
