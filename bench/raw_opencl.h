/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenCL API used directly, as a peer.
 */
#ifndef DHOW_BENCH_RAW_OPENCL_H_
#define DHOW_BENCH_RAW_OPENCL_H_

#include <stdbool.h>
#include <stddef.h>

typedef struct raw_buffer {
    void *context, *queue, *memory, *device, *program, *kernel;
} raw_buffer;

/* The index-th device of all platforms with a buffer of `bytes`; false when there is none. */
bool raw_opencl_open(int index, size_t bytes, raw_buffer *out);
/* Another buffer of the same context and queue. */
void raw_opencl_share(const raw_buffer *first, size_t bytes, raw_buffer *out);
void raw_opencl_close(raw_buffer *raw);
void raw_opencl_write(raw_buffer *raw, const void *data, size_t bytes);
void raw_opencl_read(raw_buffer *raw, void *data, size_t bytes);
/* `count` copies of `bytes`, each one awaited or all at the end. */
void raw_opencl_writes(raw_buffer *raw, const void *data, size_t bytes, int count, bool each);
void raw_opencl_reads(raw_buffer *raw, void *data, size_t bytes, int count, bool each);
/* Builds y = a x + z and launches it on three buffers `count` times, arguments set each time, then
 * waits. */
void raw_opencl_build(raw_buffer *raw);
void raw_opencl_launch(raw_buffer *raw, void *const buffers[3], int count);
/* c = a b through CLBlast for square matrices of n rows; false when CLBlast is missing. */
bool raw_clblast(raw_buffer *a, raw_buffer *b, raw_buffer *c, size_t n);

#endif /* DHOW_BENCH_RAW_OPENCL_H_ */
