/* SPDX-License-Identifier: Apache-2.0
 *
 * The peers on CUDA: the runtime and cuBLASLt called as a careful program calls them.
 */
#ifndef DHOW_BENCH_RAW_CUDA_H_
#define DHOW_BENCH_RAW_CUDA_H_

#include <stddef.h>

/* Ends the program with CUDA's message. */
void raw_cuda_check(int code, const char *what);
#define RAW_CUDA(call) raw_cuda_check((int)(call), #call)

typedef struct raw_cuda {
    void *device[3], *pinned[2]; /* buffers */
    size_t bytes;
    void *stream[2];
} raw_cuda;

/* Buffers of `bytes` each: three on the device, two pinned. */
void raw_cuda_open(size_t bytes, int device_buffers, int pinned_buffers, raw_cuda *out);
void raw_cuda_close(raw_cuda *raw);
void raw_cuda_upload(raw_cuda *raw);
void raw_cuda_download(raw_cuda *raw);
void raw_cuda_both(raw_cuda *raw);
/* Copies the first part of a buffer to another on the device. */
void raw_cuda_copy(raw_cuda *raw, size_t bytes);

/* A launch with three pointers and a number, as often as said, then one wait. The kernel is PTX. */
typedef struct raw_launch {
    void *library, *kernel, *stream;
    void *buffers[3];
} raw_launch;
void raw_launch_open(const char *ptx, const char *name, size_t bytes, raw_launch *out);
void raw_launch_run(raw_launch *raw, int count);
void raw_launch_close(raw_launch *raw);

/* c = a b, square and row-major, by cublasLtMatmul with its first heuristic. */
typedef enum raw_type { RAW_F32, RAW_TF32, RAW_BF16 } raw_type;
typedef struct raw_matmul raw_matmul;
raw_matmul *raw_matmul_open(raw_type type, long long n); /* NULL without cuBLASLt */
void raw_matmul_run(raw_matmul *raw);
void raw_matmul_close(raw_matmul *raw);

#endif /* DHOW_BENCH_RAW_CUDA_H_ */
