/* SPDX-License-Identifier: Apache-2.0
 *
 * See raw_opencl.h. Linked to the OpenCL loader, as any program would be; CLBlast by dlopen.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include "raw_opencl.h"

#include <CL/cl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void check(cl_int code, const char *what) {
    if (code == CL_SUCCESS) return;
    (void)fprintf(stderr, "dhow-bench: raw OpenCL: %s: %d\n", what, code);
    exit(1);
}

static cl_device_id find_device(int index) {
    cl_platform_id platforms[8];
    cl_uint platform_count = 0;
    if (clGetPlatformIDs(8, platforms, &platform_count) != CL_SUCCESS) return NULL;
    for (cl_uint p = 0; p < platform_count; p++) {
        cl_device_id devices[16];
        cl_uint count = 0;
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 16, devices, &count) != CL_SUCCESS)
            continue;
        if ((cl_uint)index < count) return devices[index];
        index -= (int)count;
    }
    return NULL;
}

bool raw_opencl_open(int index, size_t bytes, raw_buffer *out) {
    cl_int code;
    cl_device_id device = find_device(index);
    *out = (raw_buffer){0};
    if (device == NULL) return false;
    out->device = device;
    out->context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    check(code, "clCreateContext");
    out->queue = clCreateCommandQueue(out->context, device, 0, &code);
    check(code, "clCreateCommandQueue");
    out->memory = clCreateBuffer(out->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    check(code, "clCreateBuffer");
    const float zero = 0;
    check(clEnqueueFillBuffer(out->queue, out->memory, &zero, sizeof zero, 0, bytes, 0, NULL, NULL),
          "fill");
    check(clFinish(out->queue), "clFinish");
    return true;
}

void raw_opencl_share(const raw_buffer *first, size_t bytes, raw_buffer *out) {
    cl_int code;
    const float zero = 0;
    *out = (raw_buffer){.context = first->context, .queue = first->queue, .device = first->device};
    check(clRetainContext(out->context), "clRetainContext");
    check(clRetainCommandQueue(out->queue), "clRetainCommandQueue");
    out->memory = clCreateBuffer(out->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    check(code, "clCreateBuffer");
    check(clEnqueueFillBuffer(out->queue, out->memory, &zero, sizeof zero, 0, bytes, 0, NULL, NULL),
          "fill");
}

void raw_opencl_close(raw_buffer *raw) {
    if (raw->kernel != NULL) clReleaseKernel(raw->kernel);
    if (raw->program != NULL) clReleaseProgram(raw->program);
    if (raw->memory != NULL) clReleaseMemObject(raw->memory);
    if (raw->queue != NULL) clReleaseCommandQueue(raw->queue);
    if (raw->context != NULL) clReleaseContext(raw->context);
    *raw = (raw_buffer){0};
}

void raw_opencl_write(raw_buffer *raw, const void *data, size_t bytes) {
    check(clEnqueueWriteBuffer(raw->queue, raw->memory, CL_TRUE, 0, bytes, data, 0, NULL, NULL),
          "write");
}

void raw_opencl_read(raw_buffer *raw, void *data, size_t bytes) {
    check(clEnqueueReadBuffer(raw->queue, raw->memory, CL_TRUE, 0, bytes, data, 0, NULL, NULL),
          "read");
}

void raw_opencl_writes(raw_buffer *raw, const void *data, size_t bytes, int count, bool each) {
    for (int i = 0; i < count; i++)
        check(clEnqueueWriteBuffer(raw->queue, raw->memory, each, 0, bytes, data, 0, NULL, NULL),
              "clEnqueueWriteBuffer");
    check(clFinish(raw->queue), "clFinish");
}

void raw_opencl_reads(raw_buffer *raw, void *data, size_t bytes, int count, bool each) {
    for (int i = 0; i < count; i++)
        check(clEnqueueReadBuffer(raw->queue, raw->memory, each, 0, bytes, data, 0, NULL, NULL),
              "clEnqueueReadBuffer");
    check(clFinish(raw->queue), "clFinish");
}

void raw_opencl_build(raw_buffer *raw) {
    static const char *text =
        "__kernel void axpy(__global const float *x, __global const float *z, __global float *y, "
        "float a)"
        "{ for (int i = 0; i < 16; i++) y[i] = a * x[i] + z[i]; }";
    cl_int code;
    raw->program = clCreateProgramWithSource(raw->context, 1, &text, NULL, &code);
    check(code, "clCreateProgramWithSource");
    check(clBuildProgram(raw->program, 0, NULL, "", NULL, NULL), "clBuildProgram");
    raw->kernel = clCreateKernel(raw->program, "axpy", &code);
    check(code, "clCreateKernel");
}

void raw_opencl_launch(raw_buffer *raw, void *const buffers[3], int count) {
    const size_t one = 1;
    const float a = 2;
    for (int i = 0; i < count; i++) {
        for (cl_uint k = 0; k < 3; k++)
            check(clSetKernelArg(raw->kernel, k, sizeof(cl_mem), &buffers[k]), "argument");
        check(clSetKernelArg(raw->kernel, 3, sizeof a, &a), "argument");
        check(clEnqueueNDRangeKernel(raw->queue, raw->kernel, 1, NULL, &one, &one, 0, NULL, NULL),
              "launch");
    }
    check(clFinish(raw->queue), "clFinish");
}

typedef int (*sgemm_fn)(int layout, int ta, int tb, size_t m, size_t n, size_t k, float alpha,
                        cl_mem a, size_t ao, size_t lda, cl_mem b, size_t bo, size_t ldb,
                        float beta, cl_mem c, size_t co, size_t ldc, cl_command_queue *queue,
                        cl_event *event);

bool raw_clblast(raw_buffer *a, raw_buffer *b, raw_buffer *c, size_t n) {
    static sgemm_fn sgemm;
    enum { ROW_MAJOR = 101, NO = 111 };
    if (sgemm == NULL) {
        void *library = dlopen("libclblast.so.1", RTLD_NOW);
        if (library != NULL) *(void **)&sgemm = dlsym(library, "CLBlastSgemm");
    }
    if (sgemm == NULL) return false;
    cl_command_queue queue = a->queue;
    check(sgemm(ROW_MAJOR, NO, NO, n, n, n, 1, a->memory, 0, n, b->memory, 0, n, 0, c->memory, 0, n,
                &queue, NULL),
          "CLBlastSgemm");
    check(clFinish(queue), "clFinish");
    return true;
}
