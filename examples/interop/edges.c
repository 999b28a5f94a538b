/* SPDX-License-Identifier: Apache-2.0
 *
 * See edges.h.
 */
#include "edges.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *device_named(int argc, char **argv, const char *usual) {
    if (argc == 1) return usual;
    if (argc == 3 && strcmp(argv[1], "--device") == 0) return argv[2];
    (void)fprintf(stderr, "usage: %s [--device %s]\n", argv[0], usual);
    return NULL;
}

int give_up(const char *what) {
    (void)fprintf(stderr, "interop: %s: %s\n", what, dhow_last_error());
    return 0;
}

static int set_kernel(dhow_device *device, dhow_model *model) {
    static const float laplace[9] = {-1, -1, -1, -1, 8, -1, -1, -1, -1};
    dhow_tensor *weight = NULL;
    int good = dhow_tensor_from_data(device, DHOW_F32, DHOW_SHAPE(1, 1, 3, 3), laplace, &weight) ==
                   DHOW_OK &&
               dhow_model_set_parameter(model, "edges.weight", weight) == DHOW_OK;
    dhow_tensor_release(weight);
    return good;
}

/* y[1, 1, HEIGHT, WIDTH] = relu(conv2d(x)), with a kernel that answers where x changes. */
static int make_edges(dhow_device *device, dhow_model **out) {
    const dhow_window window = DHOW_INIT(dhow_window, .kernel = {3, 3}, .stride = {1, 1},
                                         .pad = {1, 1, 1, 1}, .dilation = {1, 1}, .groups = 1);
    dhow_model_value v;
    int good =
        dhow_model_create(dhow_device_context(device), out) == DHOW_OK &&
        dhow_model_input(*out, "x", DHOW_F32, DHOW_SHAPE(1, 1, HEIGHT, WIDTH), &v) == DHOW_OK &&
        dhow_model_conv2d(*out, "edges", v, 1, 1, &window, 0, &v) == DHOW_OK &&
        dhow_model_relu(*out, v, &v) == DHOW_OK && dhow_model_output(*out, "y", v) == DHOW_OK &&
        set_kernel(device, *out) && dhow_model_to(*out, device) == DHOW_OK;
    return good || give_up("the model");
}

static int show_picture(dhow_device *device, uint64_t native, dhow_tensor **out) {
    return dhow_tensor_wrap_device(device, DHOW_F32, DHOW_SHAPE(1, 1, HEIGHT, WIDTH), NULL, native,
                                   0, PICTURE_BYTES, NULL, NULL, out) == DHOW_OK ||
           give_up("wrapping the program's memory");
}

int wrap_program(dhow_device *device, uint64_t stream, uint64_t picture, uint64_t edges,
                 wrapped *out) {
    *out = (wrapped){0};
    return (dhow_stream_wrap(device, stream, &out->stream) == DHOW_OK ||
            give_up("wrapping the program's stream")) &&
           make_edges(device, &out->model) && show_picture(device, picture, &out->picture) &&
           show_picture(device, edges, &out->edges);
}

int find_edges(wrapped *w) {
    return dhow_model_run_into(w->model, w->stream, &w->picture, 1, &w->edges, 1) == DHOW_OK ||
           give_up("the model's run");
}

void unwrap_program(wrapped *w) {
    dhow_tensor_release(w->picture);
    dhow_tensor_release(w->edges);
    dhow_model_release(w->model);
    dhow_stream_release(w->stream);
}

static int compare(const float *got, const float *wanted) {
    int count = 0;
    float worst = 0;
    for (int i = 0; i < PIXELS; i++) {
        if (!(fabsf(got[i] - wanted[i]) <= worst)) worst = fabsf(got[i] - wanted[i]);
        count += wanted[i] > 0.5f;
    }
    printf("interop: %d of %d pixels are edges, at most %g from the CPU's result\n", count, PIXELS,
           (double)worst);
    return count > 0 && worst < 1e-4f;
}

int check_edges(dhow_context *context, const float *picture, const float *edges) {
    dhow_device *cpu;
    dhow_model *model = NULL;
    dhow_tensor *x = NULL, *y = NULL;
    float *wanted = malloc(PICTURE_BYTES);
    int good = wanted != NULL && dhow_device_get(context, "cpu", &cpu) == DHOW_OK &&
               make_edges(cpu, &model) &&
               dhow_tensor_from_data(cpu, DHOW_F32, DHOW_SHAPE(1, 1, HEIGHT, WIDTH), picture, &x) ==
                   DHOW_OK &&
               dhow_model_run(model, NULL, &x, 1, &y, 1) == DHOW_OK &&
               dhow_tensor_read(y, wanted, PICTURE_BYTES) == DHOW_OK;
    if (!good) good = give_up("the CPU's result");
    if (good) good = compare(edges, wanted);
    dhow_tensor_release(x);
    dhow_tensor_release(y);
    dhow_model_release(model);
    free(wanted);
    return good;
}
