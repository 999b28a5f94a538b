/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the simulated backend share. This plugin is the one to copy: each file is one
 * group of slots, and every slot does what a slot has to do and nothing else - call the vendor,
 * here simdev.h, and translate. Objects that the host holds are structs of ours that point to the
 * vendor's, so that each knows its device.
 *
 * docs/write-a-backend.md walks through the files in the order of this header.
 */
#ifndef DHOW_PLUGINS_SIM_SIM_H_
#define DHOW_PLUGINS_SIM_SIM_H_

#include <stdatomic.h>
#include <stdint.h>

#include "dhow/plugin.h"
#include "simdev.h"

/* ---- plugin.c: the backend ---- */

typedef struct sim_backend {
    const dhow_host *host; /* valid to the end of the process */
    simdev_machine *machine;
} sim_backend;

/* Fills err and returns the status; printf-like. For failures of our own finding. */
int32_t sim_fail(dhow_error *err, int32_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Zeroed memory of the host's allocator, NULL when short; and its release, which takes NULL. */
void *sim_new(const dhow_host *host, uint64_t bytes);
void sim_delete(const dhow_host *host, void *memory);

/* ---- device.c ---- */

typedef struct sim_device {
    const dhow_host *host;
    simdev_machine *machine;
    simdev_device *native;
} sim_device;

int32_t sim_device_count(void *backend, uint32_t *out_count, dhow_error *err);
int32_t sim_device_describe(void *backend, uint32_t index, dhow_device_desc *out, dhow_error *err);
int32_t sim_device_open(void *backend, uint32_t index, void **out_device, dhow_error *err);
void sim_device_close(void *device);

/* ---- memory.c ---- */

int32_t sim_mem_alloc(void *device, uint64_t bytes, uint64_t *out_handle, dhow_error *err);
void sim_mem_free(void *device, uint64_t handle);
int32_t sim_mem_info(void *device, uint64_t *out_free, uint64_t *out_total, dhow_error *err);
int32_t sim_host_alloc(void *device, uint64_t bytes, void **out_memory, dhow_error *err);
void sim_host_free(void *device, void *memory);
int32_t sim_host_register(void *device, void *memory, uint64_t bytes, dhow_error *err);
int32_t sim_host_unregister(void *device, void *memory, dhow_error *err);

/* What a job does to memory; nothing where there is no buffer. */
simdev_range sim_range(dhow_buffer buffer, uint64_t bytes, uint32_t access);

/* ---- stream.c ---- */

typedef struct sim_stream {
    sim_device *device;
    simdev_stream *native;
    int wrapped; /* 1: the program's, see native.c */
} sim_stream;

int32_t sim_stream_create(void *device, uint32_t flags, void **out_stream, dhow_error *err);
void sim_stream_destroy(void *stream);
int32_t sim_stream_sync(void *stream, dhow_error *err);
int32_t sim_stream_query(void *stream, dhow_error *err);
int32_t sim_stream_wait(void *stream, void *event, dhow_error *err);

/* ---- event.c ---- */

typedef struct sim_event {
    sim_device *device;
    simdev_event *native;
    atomic_int recorded;
} sim_event;

int32_t sim_event_create(void *device, uint32_t flags, void **out_event, dhow_error *err);
void sim_event_destroy(void *event);
int32_t sim_event_record(void *event, void *stream, dhow_error *err);
int32_t sim_event_sync(void *event, dhow_error *err);
int32_t sim_event_query(void *event, dhow_error *err);
int32_t sim_event_signal(void *event, dhow_error *err);
int32_t sim_event_elapsed(void *start, void *end, int64_t *out_nanoseconds, dhow_error *err);

/* ---- copy.c ---- */

int32_t sim_copy(void *stream, const dhow_copy_rect *rect, dhow_error *err);
int32_t sim_fill(void *stream, uint64_t handle, uint64_t offset, uint64_t bytes, uint64_t pattern,
                 uint32_t pattern_bytes, dhow_error *err);
int32_t sim_can_copy(void *dst_device, void *src_device, dhow_error *err);
int32_t sim_peer_copy(void *stream, void *src_device, uint64_t src_handle, uint64_t src_offset,
                      uint64_t dst_handle, uint64_t dst_offset, uint64_t bytes, dhow_error *err);

/* ---- kernel.c ---- */

int32_t sim_module_build(void *device, const dhow_module_desc *desc, void **out_module,
                         dhow_error *err);
void sim_module_free(void *module);
int32_t sim_module_kernel(void *module, const char *name, void **out_kernel, dhow_error *err);
int32_t sim_launch(void *stream, void *kernel, const dhow_geometry *geometry, const dhow_arg *args,
                   uint32_t arg_count, dhow_error *err);
int32_t sim_builtin_kernel(void *device, const char *name, uint32_t index_bits, void **out_kernel,
                           dhow_error *err);

/* ---- native.c ---- */

extern const dhow_native sim_native;

/* ---- activation.c ---- */

/* DHOW_ACTIVATION_... of x; others leave it as it is. */
double sim_activate(uint32_t activation, float alpha, float beta, double x);

/* ---- conv.c ---- */

/* An image tensor in memory. */
typedef struct sim_image {
    uint32_t layout;
    int64_t n, c, h, w;
} sim_image;

typedef struct sim_conv_plan {
    const dhow_host *host;
    dhow_conv_desc desc;
    sim_image x, y;
} sim_conv_plan;

/* The memory of a convolution. */
enum {
    SIM_CONV_X,
    SIM_CONV_WEIGHT,
    SIM_CONV_Y,
    SIM_CONV_BIAS,
    SIM_CONV_RESIDUAL,
    SIM_CONV_OPERANDS
};

const void *sim_get_extension(void *device, const char *id);

/* ---- bytes.c ---- */

extern const dhow_blas sim_blas;
int sim_takes_bytes(const dhow_conv_desc *d);
int32_t sim_convolve_bytes(simdev_stream *stream, void *plan, unsigned char *const *memory);
uint64_t sim_byte_rows(const dhow_conv_desc *d);

#endif /* DHOW_PLUGINS_SIM_SIM_H_ */
