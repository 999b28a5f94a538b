/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams are in-order queues of one device; events are points in them. Neither is needed for right
 * results: tensors know their pending writers and readers, and waits are inserted where streams
 * meet. They are needed to make work overlap, and to measure it. Wherever a stream is asked for,
 * NULL means the default stream of the device concerned.
 */
#ifndef DHOW_STREAM_H_
#define DHOW_STREAM_H_

#include "dhow/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dhow_stream dhow_stream;
typedef struct dhow_event dhow_event;

/**
 * Creates a stream.
 *
 * @param device  that runs its work
 * @param out     receives the stream; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY, DEVICE_LOST, or what the driver says
 *
 * Ownership: *out is owned, release with dhow_stream_release(). Threads: any. Blocks: while the
 * device opens.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_stream_create(dhow_device *device, dhow_stream **out);

/**
 * Makes a stream of a queue that the program made with the vendor's API: work of dhow goes into it
 * behind what the program has handed in, and the program's own work behind dhow's. Storages know
 * work of dhow in it as in every stream; of the program's own work in it they learn by
 * dhow_tensor_native_done().
 *
 * @param device  that the queue is of
 * @param native  a cudaStream_t, of the device's primary context, or a cl_command_queue, in order
 * and of the context that dhow_stream_native() shows; as a number: (uint64_t)(uintptr_t)queue
 * @param out     receives the stream; NULL on errors
 * @return INVALID_ARGUMENT (not a queue of this device; 0 where that is none), UNSUPPORTED (the
 * plugin has no dhow.native/1; a queue that is out of order; cudaStreamPerThread, which is another
 * stream in each thread), OUT_OF_MEMORY, DEVICE_LOST, or what the driver says
 *
 * Ownership: *out is owned, release with dhow_stream_release(); the queue is borrowed until then.
 * Threads: any; one thread at a time may hand work to the queue, dhow's or its own. Blocks: while
 * the device opens.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_stream_wrap(dhow_device *device, uint64_t native,
                                                     dhow_stream **out);

/**
 * The vendor's handle of a stream, for work of the program's own in it: a cudaStream_t or a
 * cl_command_queue. What OpenCL needs besides, its context, clGetCommandQueueInfo() tells.
 *
 * @param stream      not NULL
 * @param out_native  receives the handle, as a number; 0 on errors
 * @return INVALID_ARGUMENT, UNSUPPORTED (the plugin has no dhow.native/1), DEVICE_LOST
 *
 * Ownership: the handle is borrowed until the stream ends. Threads: any; one thread at a time may
 * hand work to the queue, dhow's or its own. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_stream_native(dhow_stream *stream, uint64_t *out_native);

/**
 * Makes later work of `stream` start only after an event of the vendor's API.
 *
 * @param stream        not NULL, and not recording a graph
 * @param native_event  a cudaEvent_t that was recorded, or a cl_event of the stream's context whose
 * queue was flushed; it may be released when this returns
 * @return INVALID_ARGUMENT, UNSUPPORTED (the plugin has no dhow.native/1; while the stream records
 * a graph), DEVICE_LOST, or what the driver says
 *
 * Ownership: the event is borrowed during the call. Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_stream_wait_native(dhow_stream *stream,
                                                            uint64_t native_event);

/**
 * Drops a reference; the last one waits for the stream's work, of a wrapped queue also for the
 * program's own.
 *
 * @param stream  NULL is allowed
 *
 * Threads: any. Blocks: on the last reference.
 */
DHOW_API void dhow_stream_release(dhow_stream *stream);

/**
 * The stream that NULL stands for on this device.
 *
 * @param device  whose operations it runs where no stream is named
 * @param out     receives the stream; NULL on errors
 * @return INVALID_ARGUMENT (no live device), OUT_OF_MEMORY, DEVICE_LOST, or why the device does not
 * open
 *
 * Ownership: borrowed until the context ends. Threads: any. Blocks: while the device opens.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_stream_default(dhow_device *device, dhow_stream **out);

/**
 * The device of a stream.
 *
 * @param stream  NULL or what is no stream gives NULL
 *
 * Ownership: borrowed. Threads: any. Blocks: no.
 */
DHOW_API dhow_device *dhow_stream_device(const dhow_stream *stream);

/**
 * Waits until all work submitted so far is done and reports its first failure.
 *
 * @param stream  not NULL, and not recording a graph
 * @return INVALID_ARGUMENT, DEVICE_LOST, FORKED, or what failed
 *
 * Threads: any. Blocks: yes.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_stream_sync(dhow_stream *stream);

/**
 * Whether all work submitted so far is done. Of a wrapped OpenCL queue, work of the program's own
 * counts that was handed in before the first of the calls that answer NOT_READY in a row.
 *
 * @param stream  not NULL
 * @return OK, NOT_READY, or as dhow_stream_sync()
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_stream_query(dhow_stream *stream);

/**
 * Makes later work of `stream` start only after `event`.
 *
 * @param stream  of any device; NULL: the default stream of the event's device
 * @param event   of any device; one that was never recorded counts as reached
 * @return INVALID_ARGUMENT, or what the driver says
 *
 * Threads: any. Blocks: on an event of another backend when the stream's device has no
 * host-signalled events.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_stream_wait(dhow_stream *stream, dhow_event *event);

/**
 * Creates an event.
 *
 * @param device  on whose streams it is recorded
 * @param timing  1: dhow_event_elapsed_ms() will be asked
 * @param out     receives the event; NULL on errors
 * @return INVALID_ARGUMENT, OUT_OF_MEMORY, UNSUPPORTED (no timing on this device)
 *
 * Ownership: *out is owned, release with dhow_event_release(). Threads: any. Blocks: while the
 * device opens.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_event_create(dhow_device *device, int32_t timing,
                                                      dhow_event **out);

/**
 * Drops a reference.
 *
 * @param event  NULL is allowed
 *
 * Threads: any. Blocks: no.
 */
DHOW_API void dhow_event_release(dhow_event *event);

/**
 * Marks the present end of a stream.
 *
 * @param event   recorded before or not: a later record moves it
 * @param stream  of the event's device, or NULL for its default stream
 * @return INVALID_ARGUMENT, or what the driver says
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_event_record(dhow_event *event, dhow_stream *stream);

/**
 * Waits until the event is reached.
 *
 * @param event  one that was never recorded counts as reached
 * @return INVALID_ARGUMENT, DEVICE_LOST, FORKED, or what failed
 *
 * Threads: any. Blocks: yes.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_event_sync(dhow_event *event);

/**
 * Whether the event is reached.
 *
 * @param event  one that was never recorded counts as reached
 * @return OK, NOT_READY, or as dhow_event_sync()
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_event_query(dhow_event *event);

/**
 * The vendor's handle of an event's latest record, for queues of the program's own to wait for: a
 * cudaEvent_t or a cl_event.
 *
 * @param event       that was recorded, else INVALID_ARGUMENT
 * @param out_native  receives the handle, as a number; 0 on errors
 * @return INVALID_ARGUMENT, UNSUPPORTED (the plugin has no dhow.native/1), DEVICE_LOST
 *
 * Ownership: the handle is borrowed until the event is recorded again or released. Threads: any.
 * Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_event_native(dhow_event *event, uint64_t *out_native);

/**
 * Milliseconds of device time between two events.
 *
 * @param start, end  reached, of one device, both created with timing
 * @param out_ms      receives the milliseconds; 0 on errors
 * @return INVALID_ARGUMENT, NOT_READY, UNSUPPORTED
 *
 * Threads: any. Blocks: no.
 */
DHOW_API DHOW_NODISCARD dhow_status dhow_event_elapsed_ms(dhow_event *start, dhow_event *end,
                                                          double *out_ms);

#ifdef __cplusplus
}
#endif

#endif /* DHOW_STREAM_H_ */
