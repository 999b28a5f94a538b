/* SPDX-License-Identifier: Apache-2.0
 *
 * "dhow.native/1": buffers, queues and events of the program's own, and dhow's in its hands. Native
 * handles are OpenCL's objects. They mean something in their cl_context only, so the program makes
 * them in the device's: clGetCommandQueueInfo() of a stream's queue tells it.
 */
#include "opencl.h"

#define IN_WHICH_CONTEXT \
    "make it in dhow's, which clGetCommandQueueInfo(CL_QUEUE_CONTEXT) of dhow_stream_native() tells"

/* ---- memory --------------------------------------------------------------------------------- */

static cl_int look_at_buffer(cl_mem mem, cl_mem_object_type *type, size_t *bytes,
                             cl_context *context) {
    cl_int code = dhowi_cl.GetMemObjectInfo(mem, CL_MEM_TYPE, sizeof *type, type, NULL);
    if (code == CL_SUCCESS)
        code = dhowi_cl.GetMemObjectInfo(mem, CL_MEM_SIZE, sizeof *bytes, bytes, NULL);
    if (code == CL_SUCCESS)
        code = dhowi_cl.GetMemObjectInfo(mem, CL_MEM_CONTEXT, sizeof *context, context, NULL);
    return code;
}

static int32_t mem_wrap(void *device_pointer, uint64_t native, uint64_t bytes, uint64_t *out_handle,
                        uint64_t *out_offset, dhow_error *err) {
    dhowi_cl_device *device = device_pointer;
    cl_mem mem = (cl_mem)(uintptr_t)native;
    cl_mem_object_type type = 0;
    size_t room = 0;
    cl_context context = NULL;
    *out_handle = *out_offset = 0;
    cl_int code = look_at_buffer(mem, &type, &room, &context);
    if (code != CL_SUCCESS)
        return dhowi_cl_fail(err, code, "%s: %#llx is no cl_mem", device->name,
                             (unsigned long long)native);
    if (type != CL_MEM_OBJECT_BUFFER)
        return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT, "%s: the cl_mem is an image, no buffer",
                               device->name);
    if (context != device->context)
        return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT,
                               "%s: the buffer belongs to another cl_context; " IN_WHICH_CONTEXT,
                               device->name);
    if (bytes > room)
        return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT,
                               "%s: the buffer has %zu bytes, %llu are wanted", device->name, room,
                               (unsigned long long)bytes);
    dhowi_cl_buffer *buffer = dhowi_cl_buffer_new(device, bytes);
    if (buffer == NULL)
        return dhowi_cl_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
    dhowi_cl.RetainMemObject(mem);
    buffer->mem = mem;
    *out_handle = (uint64_t)(uintptr_t)buffer;
    return DHOW_OK;
}

static int32_t mem_native(void *device, uint64_t handle, uint64_t *out_native, dhow_error *err) {
    (void)device;
    (void)err;
    *out_native = (uint64_t)(uintptr_t)dhowi_cl_buffer_of(handle)->mem;
    return DHOW_OK;
}

/* ---- streams -------------------------------------------------------------------------------- */

static cl_int look_at_queue(cl_command_queue queue, cl_context *context, cl_device_id *id,
                            cl_command_queue_properties *properties) {
    cl_int code =
        dhowi_cl.GetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof *context, context, NULL);
    if (code == CL_SUCCESS)
        code = dhowi_cl.GetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof *id, id, NULL);
    if (code == CL_SUCCESS)
        code = dhowi_cl.GetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof *properties,
                                            properties, NULL);
    return code;
}

static int32_t stream_wrap(void *device_pointer, uint64_t native, uint32_t flags, void **out_stream,
                           dhow_error *err) {
    dhowi_cl_device *device = device_pointer;
    cl_command_queue queue = (cl_command_queue)(uintptr_t)native;
    cl_context context = NULL;
    cl_device_id id = NULL;
    cl_command_queue_properties properties = 0;
    (void)flags;
    *out_stream = NULL;
    cl_int code = look_at_queue(queue, &context, &id, &properties);
    if (code != CL_SUCCESS)
        return dhowi_cl_fail(err, code, "%s: %#llx is no cl_command_queue", device->name,
                             (unsigned long long)native);
    if (context != device->context || id != device->id)
        return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT,
                               "%s: the queue belongs to another %s; " IN_WHICH_CONTEXT,
                               device->name, id != device->id ? "device" : "cl_context");
    if ((properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0)
        return dhowi_cl_refuse(err, DHOW_UNSUPPORTED,
                               "%s: the queue works out of order, streams are in order; make one "
                               "without CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE",
                               device->name);
    dhowi_cl_stream *stream = dhowi_cl_new(device->host, sizeof *stream);
    if (stream == NULL)
        return dhowi_cl_refuse(err, DHOW_OUT_OF_MEMORY, "%s: no host memory", device->name);
    dhowi_cl.RetainCommandQueue(queue);
    stream->device = device;
    stream->queue = queue;
    stream->wrapped = true;
    atomic_store(&stream->shown, true);
    stream->timed = (properties & CL_QUEUE_PROFILING_ENABLE) != 0;
    pthread_mutex_init(&stream->lock, NULL);
    *out_stream = stream;
    return DHOW_OK;
}

static int32_t stream_native(void *stream_pointer, uint64_t *out_native, dhow_error *err) {
    dhowi_cl_stream *stream = stream_pointer;
    (void)err;
    pthread_mutex_lock(&stream->lock);
    atomic_store(&stream->shown, true);
    *out_native = (uint64_t)(uintptr_t)stream->queue;
    pthread_mutex_unlock(&stream->lock);
    return DHOW_OK;
}

static int32_t stream_wait_native(void *stream_pointer, uint64_t native_event, dhow_error *err) {
    dhowi_cl_stream *stream = stream_pointer;
    const dhowi_cl_device *device = stream->device;
    cl_event event = (cl_event)(uintptr_t)native_event;
    cl_context context = NULL;
    cl_int code =
        dhowi_cl.GetEventInfo(event, CL_EVENT_CONTEXT, sizeof context, &context, NULL);
    if (code != CL_SUCCESS)
        return dhowi_cl_fail(err, code, "%s: %#llx is no cl_event", device->name,
                             (unsigned long long)native_event);
    if (context != device->context)
        return dhowi_cl_refuse(err, DHOW_INVALID_ARGUMENT,
                               "%s: the event belongs to another cl_context; " IN_WHICH_CONTEXT,
                               device->name);
    return dhowi_cl_stream_wait_event(stream, event, err);
}

const dhow_native dhowi_cl_native = {.struct_size = sizeof dhowi_cl_native,
                                     .mem_wrap = mem_wrap,
                                     .mem_unwrap = dhowi_cl_mem_free,
                                     .mem_native = mem_native,
                                     .stream_wrap = stream_wrap,
                                     .stream_native = stream_native,
                                     .stream_wait_native = stream_wait_native,
                                     .event_native = dhowi_cl_event_native};
