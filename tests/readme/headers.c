/* SPDX-License-Identifier: Apache-2.0
 *
 * The examples in the comments of the public headers, as headers.sh cuts them out, each in a
 * function with what it takes as given. Calls that fail end the test, as in docs/from-pytorch.md.
 */
#define SNIPPET_DOCUMENT "tests/readme/headers.c"
#include "prologue.h"
#include "wrap.h"

static dhow_tensor *rows_of(const char *path, int64_t columns) {
    dhow_tensor *t;
    dhow_tensor_full(cpu, DHOW_F32, DHOW_SHAPE(100, columns), 0.5, &t);
    if (path != NULL) dhow_npy_save(t, path);
    return t;
}

static void example_model(void) {
    dhow_model *m;
    dhow_model_value x, h, y;
    dhow_tensor *input = rows_of(NULL, 64), *output;
    dhow_model *trained;
    dhow_model_create(context, &trained);
    dhow_model_input(trained, "x", DHOW_F32, DHOW_SHAPE(-1, 64), &x);
    dhow_model_linear(trained, "fc1", x, 64, 32, 1, &h);
    dhow_model_linear(trained, "fc2", h, 32, 10, 1, &y);
    dhow_model_save_state(trained, "weights.safetensors");
    dhow_model_release(trained);
#include "model.inc"
    if (dhow_tensor_extent(output, 1) != 10) exit(1);
    dhow_tensor_release(input);
    dhow_tensor_release(output);
    model = m;
}

static void example_data(void) {
    dhow_tensor_release(rows_of("x.npy", 64));
    dhow_tensor_release(rows_of("y.npy", 1));
#include "data.inc"
    dhow_loader_release(loader);
    dhow_dataset_release(rows);
}

static void example_dataset(void) {
    dhow_tensor *x = rows_of(NULL, 64), *labels = rows_of(NULL, 1);
#include "dataset.inc"
    if (dhow_dataset_sample_count(parts[1]) != 10) exit(1);
    for (int i = 0; i < 2; i++) dhow_dataset_release(parts[i]);
    dhow_dataset_release(rows);
    dhow_tensor_release(x);
    dhow_tensor_release(labels);
}

static void example_parallel(void) {
    dhow_device *gpu = device;
    dhow_tensor *x = rows_of(NULL, 64), *y;
#include "parallel.inc"
    if (dhow_tensor_extent(y, 0) != 100) exit(1);
    dhow_parallel_release(p);
    dhow_tensor_release(x);
    dhow_tensor_release(y);
}

static void example_train(void) {
    dhow_model *model;
    dhow_loader *loader;
    dhow_dataset *rows;
    dhow_batch batch = DHOW_INIT(dhow_batch);
    dhow_model_value h;
    dhow_status status;
    int64_t classes[100] = {0};
    dhow_tensor *x = rows_of(NULL, 64), *labels, *columns[2];
    dhow_tensor_from_data(device, DHOW_I64, DHOW_SHAPE(100), classes, &labels);
    columns[0] = x;
    columns[1] = labels;
    dhow_dataset_from_tensors(columns, 2, &rows);
    dhow_loader_create(rows, &DHOW_INIT(dhow_loader_options, .batch_size = 30), &loader);
    dhow_model_create(dhow_device_context(device), &model);
    dhow_model_input(model, "x", DHOW_F32, DHOW_SHAPE(-1, 64), &h);
    dhow_model_linear(model, "fc", h, 64, 3, 1, &h);
    dhow_model_output(model, "scores", h);
#include "train.inc"
    if (status != DHOW_OK || loss > 1.1) exit(1);
    dhow_trainer_release(t);
    dhow_model_release(model);
    dhow_loader_release(loader);
    dhow_dataset_release(rows);
    dhow_tensor_release(x);
    dhow_tensor_release(labels);
}

static void example_kernel(void) {
    const int64_t n = 100;
    dhow_tensor *x = rows_of(NULL, 1), *y = rows_of(NULL, 1);
    dhow_module *module;
    dhow_kernel *axpy;
    float values[100];
#include "kernel.inc"
    dhow_tensor_read(y, values, sizeof values);
    if (values[0] != 1.5f || values[99] != 1.5f) exit(1);
    dhow_kernel_release(axpy);
    dhow_module_release(module);
    dhow_tensor_release(x);
    dhow_tensor_release(y);
}

/* Compiled alone: it is of a model that takes texts. */
static void example_datum(dhow_model *model) {
    dhow_datum *in, *out;
    const char *text;
#include "datum.inc"
    (void)text;
}

int main(int argc, char **argv) {
    (void)argv;
    snippet_begin();
    example_model();
    example_dataset();
    example_data();
    example_parallel();
    example_train();
    example_kernel();
    if (argc > 1) example_datum(model);
    return 0;
}
