/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies that need the host's help, done by the host queue: through device memory that the host
 * sees, or through a ring of pinned chunks where reading from one device overlaps with writing to
 * the other.
 */
#include <stdio.h>

#include "base/errors/planted.h"
#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "copy/staging.h"
#include "stream/host_queue.h"
#include "stream/span.h"

enum {
    MAX_FENCES = 3 * DHOWI_MAX_PENDING + DHOWI_MAX_ATTACHED + 1,
    LAG = 2 /* chunks read ahead of the one written */
};

typedef struct copy_job {
    dhowi_job job;
    dhow_stream *stream; /* the user's, retained */
    dhow_tensor *src, *dst;
    dhowi_fence fences[MAX_FENCES]; /* what must be over before */
    uint32_t fence_count;
    uint32_t needed;       /* of these: the first ones, without which there is nothing to copy */
    dhowi_origins origins; /* of src */
} copy_job;

/* One end of a move: host memory, or a device. */
typedef struct place {
    dhow_tensor *tensor;
    char *host; /* NULL: on a device */
    bool mapped;
    dhowi_staging *staging;
} place;

/* ---- ends ---- */

static dhow_status open_place(dhow_tensor *t, uint32_t access, place *p) {
    dhow_device *device = dhowi_tensor_device(t);
    *p = (place){.tensor = t};
    if (t->storage->host != NULL) {
        p->host = (char *)t->storage->host + dhowi_tensor_offset_bytes(t);
        return DHOW_OK;
    }
    DHOWI_TRY(dhowi_device_usable(device));
    p->staging = dhowi_staging_of(device);
    if (p->staging == NULL) return DHOW_OUT_OF_MEMORY;
    if ((device->desc.flags & DHOW_DEVICE_HOST_VISIBLE) == 0)
        return dhowi_staging_streams(p->staging);
    dhow_error err;
    dhowi_error_init(&err);
    void *memory = NULL;
    int32_t code = device->api->map(dhowi_device_native(device), t->storage->native,
                                    dhowi_tensor_offset_bytes(t), dhowi_tensor_bytes(t), access,
                                    &memory, &err);
    if (code != DHOW_OK) return dhowi_device_failed(device, &err, code, "mapping memory");
    p->host = memory;
    p->mapped = true;
    return DHOW_OK;
}

static dhow_status close_place(place *p) {
    if (!p->mapped) return DHOW_OK;
    dhow_device *device = dhowi_tensor_device(p->tensor);
    dhow_error err;
    dhowi_error_init(&err);
    p->mapped = false;
    int32_t code =
        device->api->unmap(dhowi_device_native(device), p->tensor->storage->native, p->host, &err);
    return code == DHOW_OK ? DHOW_OK : dhowi_device_failed(device, &err, code, "unmapping memory");
}

/* ---- single steps ---- */

/* The CPU device copies with all its threads. The stream is the engine's own: the default stream
 * may be ordered after this very copy. */
static dhow_status copy_on_host(dhow_context *context, void *to, const void *from, uint64_t bytes) {
    dhowi_staging *staging = dhowi_staging_of(context->cpu);
    if (staging == NULL) return DHOW_OUT_OF_MEMORY;
    pthread_mutex_lock(&staging->mutex);
    dhow_status status = dhowi_staging_streams(staging);
    pthread_mutex_unlock(&staging->mutex);
    if (status != DHOW_OK) return status;
    dhow_stream *stream = staging->in;
    dhow_copy_rect rect = {.extent = {bytes, 1, 1}};
    rect.src = (dhow_copy_end){
        .space = DHOW_SPACE_HOST, .handle = (uint64_t)(uintptr_t)from, .pitch = {bytes, bytes}};
    rect.dst = (dhow_copy_end){
        .space = DHOW_SPACE_HOST, .handle = (uint64_t)(uintptr_t)to, .pitch = {bytes, bytes}};
    dhow_error err;
    dhowi_error_init(&err);
    DHOWI_TRY(dhowi_stream_begin(stream, NULL, 0));
    dhowi_span_begin(stream, DHOWI_TRACE_CHUNK, "chunk", bytes, "within host memory");
    int32_t code = context->cpu->api->copy(stream->native, &rect, &err);
    (void)dhowi_stream_end(stream, NULL, 0, (dhow_status)code);
    return code == DHOW_OK ? DHOW_OK : dhowi_device_failed(context->cpu, &err, code, "copy");
}

/* Between host memory and a device place, on that device's own copy stream. */
static dhow_status copy_on_device(place *p, bool to_device, uint64_t at, void *host, bool pinned,
                                  uint64_t bytes) {
    dhow_device *device = p->staging->device;
    dhow_stream *stream = to_device ? p->staging->in : p->staging->out;
    dhow_copy_end device_end = {.space = DHOW_SPACE_DEVICE,
                                .handle = p->tensor->storage->native,
                                .offset = dhowi_tensor_offset_bytes(p->tensor) + at,
                                .pitch = {bytes, bytes}};
    dhow_copy_end host_end = {.space = DHOW_SPACE_HOST,
                              .pinned = pinned,
                              .handle = (uint64_t)(uintptr_t)host,
                              .pitch = {bytes, bytes}};
    dhow_copy_rect rect = {.extent = {bytes, 1, 1},
                           .src = to_device ? host_end : device_end,
                           .dst = to_device ? device_end : host_end};
    dhow_error err;
    dhowi_error_init(&err);
    DHOWI_TRY(dhowi_stream_begin(stream, NULL, 0));
    dhowi_span_begin(stream, DHOWI_TRACE_CHUNK, "chunk", bytes,
                     to_device ? "host to device" : "device to host");
    int32_t code = device->api->copy(stream->native, &rect, &err);
    (void)dhowi_stream_end(stream, NULL, 0, (dhow_status)code);
    return code == DHOW_OK ? DHOW_OK : dhowi_device_failed(device, &err, code, "staged copy");
}

static dhow_status record(place *p, bool in, uint32_t slot) {
    dhow_device *device = p->staging->device;
    dhow_stream *stream = in ? p->staging->in : p->staging->out;
    dhow_error err;
    dhowi_error_init(&err);
    DHOWI_TRY(dhowi_stream_begin(stream, NULL, 0));
    int32_t code = device->api->event_record(
        in ? p->staging->in_events[slot] : p->staging->out_events[slot], stream->native, &err);
    (void)dhowi_stream_end(stream, NULL, 0, (dhow_status)code);
    return code == DHOW_OK ? DHOW_OK
                           : dhowi_device_failed(device, &err, code, "recording an event");
}

static dhow_status await_slot(place *p, bool in, uint32_t slot) {
    dhow_device *device = p->staging->device;
    dhow_error err;
    dhowi_error_init(&err);
    int32_t code = device->api->event_sync(
        in ? p->staging->in_events[slot] : p->staging->out_events[slot], &err);
    return code == DHOW_OK ? DHOW_OK : dhowi_device_failed(device, &err, code, "staged copy");
}

/* ---- the ring ---- */

typedef struct ring {
    place *src, *dst;
    dhowi_staging *staging;      /* whose chunks are used */
    bool src_pinned, dst_pinned; /* whether the chunks are pinned for either end */
    uint64_t bytes, chunk_bytes, chunk_count;
} ring;

static uint64_t chunk_length(const ring *r, uint64_t i) {
    return DHOWI_MIN(r->chunk_bytes, r->bytes - i * r->chunk_bytes);
}

static dhow_status fill_chunk(ring *r, uint64_t i) {
    uint32_t slot = (uint32_t)(i % DHOWI_CHUNK_COUNT);
    char *chunk = r->staging->chunks[slot];
    uint64_t at = i * r->chunk_bytes, bytes = chunk_length(r, i);
    if (i >= DHOWI_CHUNK_COUNT && r->dst->host == NULL) DHOWI_TRY(await_slot(r->dst, true, slot));
    if (r->src->host != NULL) {
        return copy_on_host(r->staging->device->context, chunk, r->src->host + at, bytes);
    }
    DHOWI_TRY(copy_on_device(r->src, false, at, chunk, r->src_pinned, bytes));
    return record(r->src, false, slot);
}

static dhow_status empty_chunk(ring *r, uint64_t i) {
    uint32_t slot = (uint32_t)(i % DHOWI_CHUNK_COUNT);
    char *chunk = r->staging->chunks[slot];
    uint64_t at = i * r->chunk_bytes, bytes = chunk_length(r, i);
    if (r->src->host == NULL) DHOWI_TRY(await_slot(r->src, false, slot));
    if (r->dst->host != NULL) {
        return copy_on_host(r->staging->device->context, r->dst->host + at, chunk, bytes);
    }
    DHOWI_TRY(copy_on_device(r->dst, true, at, chunk, r->dst_pinned, bytes));
    return record(r->dst, true, slot);
}

static dhow_status sync_place(place *p, bool in) {
    if (p->host != NULL) return DHOW_OK;
    return dhow_stream_sync(in ? p->staging->in : p->staging->out);
}

static dhow_status through_ring(place *src, place *dst, uint64_t bytes) {
    ring r = {.src = src, .dst = dst, .bytes = bytes};
    r.staging = src->host == NULL ? src->staging : dst->staging;
    DHOWI_TRY(dhowi_staging_ring(r.staging));
    if (!r.staging->pinned && src->host == NULL &&
        dst->host == NULL) { /* perhaps the other device pins */
        r.staging = dst->staging;
        DHOWI_TRY(dhowi_staging_ring(r.staging));
    }
    r.src_pinned = src->host == NULL && r.staging->pinned &&
                   src->staging->device->plugin == r.staging->device->plugin;
    r.dst_pinned = dst->host == NULL && r.staging->pinned &&
                   dst->staging->device->plugin == r.staging->device->plugin;
    r.chunk_bytes = DHOWI_CHUNK_BYTES;
    r.chunk_count = (bytes + r.chunk_bytes - 1) / r.chunk_bytes;
    dhow_status status = DHOW_OK;
    for (uint64_t i = 0; i < r.chunk_count + LAG && status == DHOW_OK; i++) {
        if (i < r.chunk_count) status = fill_chunk(&r, i);
        if (status == DHOW_OK && i >= LAG) status = empty_chunk(&r, i - LAG);
    }
    dhowi_saved_error first;
    if (status != DHOW_OK) dhowi_error_save(&first, status);
    /* Also after a failure: the chunks must be idle before they are used again. */
    dhow_status read = sync_place(src, false), written = sync_place(dst, true);
    if (status != DHOW_OK) return dhowi_error_raise(&first);
    return read != DHOW_OK ? read : written;
}

/* ---- a whole move ---- */

static dhow_status direct(place *device, bool to_device, const place *host, uint64_t bytes) {
    bool pinned = dhowi_pinned_for(host->tensor->storage, device->staging->device);
    DHOWI_TRY(copy_on_device(device, to_device, 0, host->host, pinned, bytes));
    return sync_place(device, to_device);
}

static bool can_dma(const place *device, const place *host) {
    return dhowi_can_dma(device->staging->device, host->tensor->storage);
}

static dhow_status between(place *src, place *dst, uint64_t bytes) {
    if (src->host != NULL && dst->host != NULL)
        return copy_on_host(dhowi_tensor_device(src->tensor)->context, dst->host, src->host, bytes);
    if (src->host != NULL && can_dma(dst, src)) return direct(dst, true, src, bytes);
    if (dst->host != NULL && can_dma(src, dst)) return direct(src, false, dst, bytes);
    return through_ring(src, dst, bytes);
}

static dhow_status move(const copy_job *c) {
    place src, dst;
    DHOWI_TRY(open_place(c->src, DHOW_ACCESS_READ, &src));
    dhow_status status = open_place(c->dst, DHOW_ACCESS_WRITE, &dst);
    if (status == DHOW_OK) {
        status = between(&src, &dst, dhowi_tensor_bytes(c->src));
        dhow_status closed = close_place(&dst);
        if (status == DHOW_OK) status = closed;
    }
    dhow_status closed = close_place(&src);
    return status != DHOW_OK ? status : closed;
}

/* The staging of a tensor's device; NULL for host memory, which needs none. */
static dhow_status staging_of(const dhow_tensor *t, dhowi_staging **out) {
    *out = t->storage->host == NULL ? dhowi_staging_of(dhowi_tensor_device(t)) : NULL;
    return t->storage->host != NULL || *out != NULL ? DHOW_OK : DHOW_OUT_OF_MEMORY;
}

/* One copy at a time has a device's ring, streams and maps. */
static dhow_status run_move(copy_job *c) {
    dhowi_staging *ends[2];
    for (uint32_t i = 0; i < c->fence_count; i++) {
        dhow_status status = dhowi_fence_wait(&c->fences[i]);
        if (i < c->needed) DHOWI_TRY(status);
    }
    DHOWI_TRY(dhowi_origins_check(&c->origins, true));
    DHOWI_TRY(staging_of(c->src, &ends[0]));
    DHOWI_TRY(staging_of(c->dst, &ends[1]));
    if (ends[0] == ends[1]) ends[1] = NULL;
    if (ends[0] != NULL && ends[1] != NULL && ends[0]->device->place > ends[1]->device->place) {
        dhowi_staging *later = ends[0];
        ends[0] = ends[1];
        ends[1] = later;
    }
    for (int i = 0; i < 2; i++)
        if (ends[i] != NULL) pthread_mutex_lock(&ends[i]->mutex);
    dhow_status status = move(c);
    for (int i = 0; i < 2; i++)
        if (ends[i] != NULL) pthread_mutex_unlock(&ends[i]->mutex);
    return status;
}

/* The whole copy, on the lane's thread, with its wait for what comes before. */
static void end_span(const copy_job *c, int64_t begin) {
    char name[96];
    if (begin == 0) return;
    (void)snprintf(name, sizeof name, "%s to %s", dhowi_tensor_device(c->src)->name,
                   dhowi_tensor_device(c->dst)->name);
    dhowi_host_span_end(c->stream->device->context, begin, DHOWI_TRACE_COPY, name,
                        dhowi_tensor_bytes(c->src), "by the host queue");
}

static dhow_status run_job(dhowi_job *job) {
    copy_job *c = (copy_job *)job;
    int64_t begin = dhowi_host_span_begin(c->stream->device->context);
    dhow_status status = run_move(c);
    end_span(c, begin);
    dhowi_saved_error failure;
    if (status != DHOW_OK) {
        dhowi_error_save(&failure, status);
        dhowi_stream_fail(c->stream, &failure);
        uint64_t ticket = job->ticket; /* unless dst was given to somebody else since */
        (void)atomic_compare_exchange_strong(&c->dst->storage->staged_write, &ticket,
                                             ticket | DHOWI_COPY_FAILED);
    }
    return status == DHOW_OK ? DHOW_OK : dhowi_error_raise(&failure);
}

static void end_fences(dhowi_fence *fences, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) dhowi_fence_end(&fences[i]);
}

static void end_job(dhowi_job *job) {
    copy_job *c = (copy_job *)job;
    end_fences(c->fences, c->fence_count);
    dhow_tensor_release(c->src);
    dhow_tensor_release(c->dst);
    dhow_stream_release(c->stream);
    dhowi_free(c);
}

static dhow_status add_fence(copy_job *c, dhowi_timepoint point) {
    if (dhowi_timepoint_done(point)) return DHOW_OK;
    return dhowi_fence_init(&c->fences[c->fence_count++], point);
}

/* The job that is about to be pushed waits for them, and so does what comes after it. */
static void note_awaited(dhowi_timeline *lane, const dhowi_fence *fences, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) dhowi_timeline_awaited(lane, fences[i].point);
}

static dhow_status add_pending(copy_job *c, const dhow_tensor *t, uint32_t access,
                               const dhowi_timeline *self) {
    dhowi_timepoint pending[DHOWI_MAX_PENDING];
    dhowi_hazard *hazard = &t->storage->hazard;
    uint32_t n = dhowi_hazard_pending(hazard, access, self, pending);
    for (uint32_t i = 0; i < n; i++) {
        dhow_status status = add_fence(c, pending[i]);
        if (status != DHOW_OK &&
            (status != DHOW_DEVICE_LOST || dhowi_hazard_needs(hazard, access, self, pending[i])))
            return status;
    }
    return DHOW_OK;
}

/* What wrote other elements of dst before: whoever reads dst inherits its failure by this copy.
 * Other lanes and streams are waited for; the last copy of this one, in which those before it are
 * inherited, has run by then. */
static dhow_status add_writers_beside(copy_job *c, const dhowi_timeline *lane) {
    dhowi_storage *s = c->dst->storage;
    DHOWI_TRY(dhowi_storage_readable(s, false));
    const uint64_t word = atomic_load(&s->staged_write);
    if (word != 0)
        DHOWI_TRY(dhowi_origins_add(&c->origins, dhowi_ticket_mark(s->device->context, word)));
    return add_pending(c, c->dst, DHOW_ACCESS_READ, lane);
}

/* Pending writers of src must succeed. Pending users of dst must only finish, except writers
 * beside. Copies in the same lane run in order and need no fence. */
static dhow_status add_fences(copy_job *c, const dhowi_timeline *lane, bool ordered) {
    dhowi_timepoint attached[DHOWI_MAX_ATTACHED];
    uint32_t n = dhowi_stream_attached(c->stream, attached);
    for (uint32_t i = 0; i < n; i++) {
        if (attached[i].timeline != lane) DHOWI_TRY(add_fence(c, attached[i]));
    }
    DHOWI_TRY(add_fence(c, dhowi_stream_tail(c->stream)));
    c->needed = c->fence_count;
    if (!ordered) return DHOW_OK;
    if (!dhowi_planted("a staged copy takes what is there"))
        DHOWI_TRY(add_pending(c, c->src, DHOW_ACCESS_READ, NULL));
    DHOWI_TRY(dhowi_storage_readable(c->src->storage, false));
    c->origins = dhowi_storage_origins(c->src->storage);
    if (!dhowi_tensor_covers(c->dst)) DHOWI_TRY(add_writers_beside(c, lane));
    c->needed = c->fence_count;
    if (dhowi_planted("a staged copy writes at once")) return DHOW_OK;
    return add_pending(c, c->dst, DHOW_ACCESS_WRITE, lane);
}

/* ---- copies that wait for nobody ---- */

typedef struct join_job {
    dhowi_job job;
    dhowi_fence fences[DHOWI_COPY_PENDING];
    uint32_t fence_count;
} join_job;

static dhow_status run_join(dhowi_job *job) {
    join_job *j = (join_job *)job;
    for (uint32_t i = 0; i < j->fence_count; i++) (void)dhowi_fence_wait(&j->fences[i]);
    return DHOW_OK;
}

static void end_join(dhowi_job *job) {
    join_job *j = (join_job *)job;
    end_fences(j->fences, j->fence_count);
    dhowi_free(j);
}

/* An unordered copy is registered with the work that it skipped: the lane waits for that work after
 * the copy, so that later users, who wait for the lane, wait for both. */
static dhow_status join_others(dhowi_host_lane *lane, const dhowi_use uses[2],
                               dhowi_timepoint *point) {
    dhowi_timepoint pending[DHOWI_COPY_PENDING];
    uint32_t n = dhowi_copy_pending(uses, lane->timeline, pending);
    if (n == 0) return DHOW_OK;
    join_job *j = dhowi_alloc(sizeof *j);
    if (j == NULL) return dhowi_fail_memory("copy");
    j->job.run = run_join;
    j->job.end = end_join;
    dhow_status status = DHOW_OK;
    for (uint32_t i = 0; i < n && status == DHOW_OK; i++) {
        status = dhowi_fence_init(&j->fences[j->fence_count], pending[i]);
        j->fence_count += status == DHOW_OK;
    }
    if (status != DHOW_OK) {
        end_join(&j->job);
        return status;
    }
    note_awaited(lane->timeline, j->fences, j->fence_count);
    *point = dhowi_host_lane_push(lane, &j->job, NULL);
    return DHOW_OK;
}

/* ---- handing in ---- */

static dhow_status hand_in(dhowi_host_lane *lane, copy_job *c, bool ordered) {
    dhow_stream *stream = c->stream;
    const dhowi_use uses[2] = {{c->src->storage, DHOW_ACCESS_READ},
                               {c->dst->storage, DHOW_ACCESS_WRITE}};
    const bool covers = dhowi_tensor_covers(c->dst);
    dhowi_origins values = {.count = 0}; /* of an ordered copy: the job asks before it runs */
    dhow_status status = ordered ? DHOW_OK : dhowi_copy_add_values(&values, c->src->storage, NULL);
    if (status == DHOW_OK) status = add_fences(c, lane->timeline, ordered);
    if (status != DHOW_OK) {
        end_fences(c->fences, c->fence_count);
        dhowi_free(c);
        return status;
    }
    dhowi_handle_retain(&stream->handle);
    dhowi_handle_retain(&c->src->handle);
    dhowi_handle_retain(&c->dst->handle);
    /* The job may end, and with it the tensors, before the timepoints are set. */
    for (int i = 0; i < 2; i++) dhowi_storage_retain(uses[i].storage);
    note_awaited(lane->timeline, c->fences, c->fence_count);
    dhowi_timepoint point = dhowi_host_lane_push(lane, &c->job, &uses[1].storage->staged_write);
    dhowi_stream_attach(stream, point);
    if (!ordered) status = join_others(lane, uses, &point);
    if (status != DHOW_OK) /* then nothing is left to be joined */
        for (int i = 0; i < 2; i++)
            (void)dhowi_hazard_wait(&uses[i].storage->hazard, uses[i].access);
    if (covers || values.count > 0) dhowi_storage_set_origins(uses[1].storage, &values);
    for (int i = 0; i < 2; i++) {
        if (!dhowi_planted("a staged copy is not noted"))
            dhowi_hazard_note(&uses[i].storage->hazard, uses[i].access, point.timeline,
                              point.number);
        dhowi_storage_release(uses[i].storage);
    }
    return status;
}

dhow_status dhowi_copy_queue(dhow_stream *stream, dhow_tensor *src, dhow_tensor *dst,
                             bool ordered) {
    DHOWI_TRY(dhowi_stream_refuse_recording(stream, "a copy between devices"));
    dhowi_host_lane *lane = dhowi_host_lane_of(stream);
    if (lane == NULL) return DHOW_OUT_OF_MEMORY;
    copy_job *c = dhowi_alloc(sizeof *c);
    if (c == NULL) return dhowi_fail_memory("copy");
    c->job.run = run_job;
    c->job.end = end_job;
    c->stream = stream;
    c->src = src;
    c->dst = dst;
    dhowi_host_lane_lock(lane);
    dhow_status status = hand_in(lane, c, ordered);
    dhowi_host_lane_unlock(lane);
    return status;
}
