/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with OpenCL of its own draws a picture on its own queue; a model of dhow finds the
 * edges in it, on the same queue and in the same memory; a kernel of the program's turns them dark.
 * Nothing is copied to the host, and nobody waits, before the result is read.
 *
 *     interop_opencl [--device opencl:0]
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>

#include "edges.h"

static const char k_text[] =
    "__kernel void rings(__global float *picture, int width) {\n"
    "  int x = get_global_id(0), y = get_global_id(1);\n"
    "  float dx = x - 100.0f, dy = y - 90.0f;\n"
    "  picture[y * width + x] = ((int)(sqrt(dx * dx + dy * dy) / 12.0f) & 1) ? 1.0f : 0.0f;\n"
    "}\n"
    "__kernel void darken(__global const float *edges, __global float *out, int width) {\n"
    "  int i = get_global_id(1) * width + get_global_id(0);\n"
    "  out[i] = -edges[i];\n"
    "}\n";

typedef struct program {
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel rings, darken;
    cl_mem picture, edges, dark;
    cl_int code; /* the first failure */
} program;

static void note(program *p, cl_int code) {
    if (p->code == CL_SUCCESS) p->code = code;
}

/* OpenCL's objects belong to a context; the program makes its own in dhow's. */
static int find_context(dhow_device *device, program *p, cl_device_id *out_id) {
    dhow_stream *stream;
    uint64_t native;
    if (dhow_stream_default(device, &stream) != DHOW_OK ||
        dhow_stream_native(stream, &native) != DHOW_OK)
        return give_up("dhow's queue");
    cl_command_queue queue = (cl_command_queue)(uintptr_t)native;
    note(p, clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof p->context, &p->context, NULL));
    note(p, clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof *out_id, out_id, NULL));
    return p->code == CL_SUCCESS;
}

static void make_program(program *p, cl_device_id id) {
    const char *text = k_text;
    cl_int codes[7] = {0};
    p->queue = clCreateCommandQueue(p->context, id, 0, &codes[0]);
    p->program = clCreateProgramWithSource(p->context, 1, &text, NULL, &codes[1]);
    note(p, codes[1]);
    note(p, clBuildProgram(p->program, 1, &id, "", NULL, NULL));
    p->rings = clCreateKernel(p->program, "rings", &codes[2]);
    p->darken = clCreateKernel(p->program, "darken", &codes[3]);
    p->picture = clCreateBuffer(p->context, CL_MEM_READ_WRITE, PICTURE_BYTES, NULL, &codes[4]);
    p->edges = clCreateBuffer(p->context, CL_MEM_READ_WRITE, PICTURE_BYTES, NULL, &codes[5]);
    p->dark = clCreateBuffer(p->context, CL_MEM_READ_WRITE, PICTURE_BYTES, NULL, &codes[6]);
    for (int i = 0; i < 7; i++) note(p, codes[i]);
}

static void end_program(program *p) {
    if (p->picture != NULL) clReleaseMemObject(p->picture);
    if (p->edges != NULL) clReleaseMemObject(p->edges);
    if (p->dark != NULL) clReleaseMemObject(p->dark);
    if (p->rings != NULL) clReleaseKernel(p->rings);
    if (p->darken != NULL) clReleaseKernel(p->darken);
    if (p->program != NULL) clReleaseProgram(p->program);
    if (p->queue != NULL) clReleaseCommandQueue(p->queue);
}

static const size_t k_items[2] = {WIDTH, HEIGHT};
static const cl_int k_width = WIDTH;

static void draw(program *p) {
    note(p, clSetKernelArg(p->rings, 0, sizeof p->picture, &p->picture));
    note(p, clSetKernelArg(p->rings, 1, sizeof k_width, &k_width));
    note(p, clEnqueueNDRangeKernel(p->queue, p->rings, 2, NULL, k_items, NULL, 0, NULL, NULL));
}

static void darken(program *p) {
    note(p, clSetKernelArg(p->darken, 0, sizeof p->edges, &p->edges));
    note(p, clSetKernelArg(p->darken, 1, sizeof p->dark, &p->dark));
    note(p, clSetKernelArg(p->darken, 2, sizeof k_width, &k_width));
    note(p, clEnqueueNDRangeKernel(p->queue, p->darken, 2, NULL, k_items, NULL, 0, NULL, NULL));
}

/* dhow's work goes into the program's queue, between the program's own. */
static int work(dhow_device *device, program *p) {
    wrapped w;
    int good = wrap_program(device, (uint64_t)(uintptr_t)p->queue, (uint64_t)(uintptr_t)p->picture,
                            (uint64_t)(uintptr_t)p->edges, &w);
    if (good) {
        draw(p);
        good = find_edges(&w);
        darken(p);
    }
    unwrap_program(&w);
    return good && p->code == CL_SUCCESS;
}

static int read_and_check(dhow_context *context, program *p) {
    float *picture = malloc(PICTURE_BYTES), *edges = malloc(PICTURE_BYTES);
    int good = picture != NULL && edges != NULL;
    if (good) {
        note(p, clEnqueueReadBuffer(p->queue, p->picture, CL_TRUE, 0, PICTURE_BYTES, picture, 0,
                                    NULL, NULL));
        note(p, clEnqueueReadBuffer(p->queue, p->dark, CL_TRUE, 0, PICTURE_BYTES, edges, 0, NULL,
                                    NULL));
        for (int i = 0; i < PIXELS; i++) edges[i] = -edges[i];
        good = p->code == CL_SUCCESS && check_edges(context, picture, edges);
    }
    free(picture);
    free(edges);
    return good;
}

int main(int argc, char **argv) {
    const char *spec = device_named(argc, argv, "opencl:0");
    if (spec == NULL) return 2;
    dhow_context *context = NULL;
    dhow_device *device;
    cl_device_id id = NULL;
    program p = {0};
    int good = (dhow_context_create(NULL, &context) == DHOW_OK &&
                dhow_device_get(context, spec, &device) == DHOW_OK) ||
               give_up("the device");
    if (good) good = find_context(device, &p, &id);
    if (good) make_program(&p, id);
    good = good && p.code == CL_SUCCESS && work(device, &p) && read_and_check(context, &p);
    if (p.code != CL_SUCCESS) (void)fprintf(stderr, "interop: OpenCL's error %d\n", (int)p.code);
    end_program(&p);
    dhow_context_release(context);
    return good ? 0 : 1;
}
