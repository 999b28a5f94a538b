/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the copy engine: copies within a device (local.c), direct copies between a device
 * and host memory and between peers (direct.c, peer.c), and what the host queue does for all others
 * (staged.c). copy.c chooses.
 */
#ifndef DHOWI_COPY_ENGINE_H_
#define DHOWI_COPY_ENGINE_H_

#include "copy/layout.h"
#include "dhow/copy.h"
#include "kernel/kernel.h"
#include "stream/submit.h"

enum {
    DHOWI_CHUNK_BYTES = 4 << 20, /* of the staging ring */
    DHOWI_CHUNK_COUNT = 4,
    DHOWI_SMALL_BYTES = 64 << 10, /* pageable memory up to here goes straight to the driver */
    DHOWI_MIN_ROW_BYTES = 256     /* boxes with shorter rows are packed by a kernel instead */
};

/* Copies between two views on one device, any strides, no overlap. `ordered` false leaves out the
 * waits. */
dhow_status dhowi_copy_local(dhow_stream *stream, dhow_tensor *src, dhow_tensor *dst, bool ordered);

/* Fills one end of a rect for a tensor: a device end, or host memory where the device is a host. */
void dhowi_copy_end_of(const dhow_tensor *t, const dhow_device *executor, dhow_copy_end *end);
static inline bool dhowi_pinned_for(const dhowi_storage *host, const dhow_device *device) {
    return host->pinned_by != NULL && host->pinned_by->plugin == device->plugin;
}
/* Whether a device copies to and from this host memory by itself, when the copy runs. */
static inline bool dhowi_can_dma(const dhow_device *device, const dhowi_storage *host) {
    return (device->desc.flags & DHOW_DEVICE_PAGEABLE_ASYNC) != 0 || dhowi_pinned_for(host, device);
}

/* What is pending on both ends of a copy besides the work of `self`. */
enum { DHOWI_COPY_PENDING = 2 * DHOWI_MAX_PENDING };
uint32_t dhowi_copy_pending(const dhowi_use uses[2], const dhowi_timeline *self,
                            dhowi_timepoint pending[DHOWI_COPY_PENDING]);
/* Adds the work of others than `own`, or of all, that the values of a storage come from, what is
 * pending with it; fails where it is known to have failed. */
dhow_status dhowi_copy_add_values(dhowi_origins *origins, dhowi_storage *storage,
                                  const dhow_device *own);
/* Hands in a copy that waits for nobody; who comes later waits for it and for what it skipped. */
dhow_status dhowi_copy_submit_unordered(dhow_stream *stream, const dhowi_work *work,
                                        const dhowi_use uses[2]);
/* Submits work that copies from the storage of one use to that of the other. */
static inline dhow_status dhowi_copy_submit_work(dhow_stream *stream, const dhowi_work *work,
                                                 const dhowi_use uses[2], bool ordered) {
    /* A sink and a graph know the order by themselves. */
    if (dhowi_thread_sink != NULL || stream->recording != NULL) ordered = true;
    return ordered ? dhowi_submit(stream, work, uses, 2)
                   : dhowi_copy_submit_unordered(stream, work, uses);
}
/* Submits a rect to a stream. */
dhow_status dhowi_copy_submit(dhow_stream *stream, const dhow_copy_rect *rect,
                              const dhowi_use uses[2], bool ordered);

/* Whether the driver copies straight between two devices, found out once with real bytes. */
bool dhowi_peer_works(dhow_device *dst, dhow_device *src);
dhow_status dhowi_copy_peer(dhow_stream *stream, dhow_tensor *src, dhow_tensor *dst, bool ordered);

/* Hands a copy between contiguous tensors of two devices to the host queue. `stream` is the user's,
 * or NULL. */
dhow_status dhowi_copy_queue(dhow_stream *stream, dhow_tensor *src, dhow_tensor *dst, bool ordered);

/* Fills a tensor with one element's bits. */
dhow_status dhowi_fill_bits(dhow_stream *stream, dhow_tensor *t, uint64_t bits);

#endif /* DHOWI_COPY_ENGINE_H_ */
