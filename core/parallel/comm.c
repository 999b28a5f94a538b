/* SPDX-License-Identifier: Apache-2.0
 *
 * See comm.h.
 */
#include "parallel/comm.h"

#include <string.h>
#include <time.h>

#include "base/memory/alloc.h"
#include "base/threads/clock.h"
#include "parallel/shares.h"
#include "stream/span.h"

enum { POLLS_AT_ONCE = 64 };
static const char k_what[] = "sums between devices";

struct dhowi_comm {
    const dhow_coll *coll;
    uint32_t count; /* of this process */
    bool joins;     /* ranks of other processes */
    bool given_up;
    dhow_device *devices[DHOWI_MAX_MEMBERS];
    void *native[DHOWI_MAX_MEMBERS];
    dhow_stream *streams[DHOWI_MAX_MEMBERS];
};

/* ---- making and ending ---- */

static dhow_status check_devices(dhow_device *const *devices, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < i; k++)
            if (devices[k] == devices[i])
                return dhowi_fail(DHOW_UNSUPPORTED, "%s is named twice", devices[i]->name);
        if (devices[i]->plugin != devices[0]->plugin)
            return dhowi_fail(DHOW_UNSUPPORTED, "%s and %s are of different backends",
                              devices[0]->name, devices[i]->name);
        DHOWI_TRY(dhowi_device_open(devices[i]));
    }
    return DHOW_OK;
}

static dhow_status find_table(dhow_device *device, const dhow_coll **out) {
    const dhow_coll *coll = device->api->get_extension(dhowi_device_native(device), "dhow.coll/1");
    *out = coll;
    if (coll != NULL && coll->struct_size >= sizeof *coll) return DHOW_OK;
    return dhowi_fail(DHOW_UNSUPPORTED, "%s: its backend has no operations of several devices",
                      device->name);
}

static dhow_status make(dhowi_comm *c) {
    void *natives[DHOWI_MAX_MEMBERS];
    dhow_error err;
    dhowi_error_init(&err);
    for (uint32_t i = 0; i < c->count; i++) {
        natives[i] = dhowi_device_native(c->devices[i]);
        DHOWI_TRY(dhow_stream_create(c->devices[i], &c->streams[i]));
    }
    const int32_t code = c->coll->create_all(natives, c->count, c->native, &err);
    if (code == DHOW_OK) return DHOW_OK;
    memset(c->native, 0, sizeof c->native);
    return dhowi_device_failed(c->devices[0], &err, code, k_what);
}

dhow_status dhowi_comm_create(dhow_device *const *devices, uint32_t count, dhowi_comm **out) {
    const dhow_coll *coll;
    *out = NULL;
    DHOWI_TRY(check_devices(devices, count));
    DHOWI_TRY(find_table(devices[0], &coll));
    dhowi_comm *c = dhowi_alloc(sizeof *c);
    if (c == NULL) return dhowi_fail_memory(k_what);
    *c = (dhowi_comm){.coll = coll, .count = count};
    memcpy(c->devices, devices, count * sizeof(dhow_device *));
    const dhow_status status = make(c);
    if (status == DHOW_OK)
        *out = c;
    else
        dhowi_comm_end(c);
    return status;
}

dhow_status dhowi_comm_find(dhow_device *device, dhow_coll_id *id) {
    const dhow_coll *coll;
    dhow_error err;
    DHOWI_TRY(dhowi_device_open(device));
    DHOWI_TRY(find_table(device, &coll));
    if (id == NULL) return DHOW_OK;
    dhowi_error_init(&err);
    const int32_t code = coll->unique_id(dhowi_device_native(device), id, &err);
    return code == DHOW_OK ? DHOW_OK : dhowi_device_failed(device, &err, code, k_what);
}

static dhow_status join(dhowi_comm *c, const dhow_coll_id *id, uint32_t rank, uint32_t size,
                        uint32_t timeout_ms) {
    dhow_error err;
    dhowi_error_init(&err);
    DHOWI_TRY(dhow_stream_create(c->devices[0], &c->streams[0]));
    const int32_t code = c->coll->create_rank(dhowi_device_native(c->devices[0]), id, rank, size,
                                              timeout_ms, &c->native[0], &err);
    if (code == DHOW_OK) return DHOW_OK;
    c->native[0] = NULL;
    return dhowi_device_failed(c->devices[0], &err, code, k_what);
}

dhow_status dhowi_comm_join(dhow_device *device, const dhow_coll_id *id, uint32_t rank,
                            uint32_t size, uint32_t timeout_ms, dhowi_comm **out) {
    const dhow_coll *coll;
    *out = NULL;
    DHOWI_TRY(find_table(device, &coll));
    dhowi_comm *c = dhowi_alloc(sizeof *c);
    if (c == NULL) return dhowi_fail_memory(k_what);
    *c = (dhowi_comm){.coll = coll, .count = 1, .joins = true, .devices = {device}};
    const dhow_status status = join(c, id, rank, size, timeout_ms);
    if (status == DHOW_OK)
        *out = c;
    else
        dhowi_comm_end(c);
    return status;
}

bool dhowi_comm_is_usable(const dhowi_comm *c) { return !c->given_up; }

/* Other processes end theirs when they like, so they are not waited for. */
void dhowi_comm_end(dhowi_comm *c) {
    if (c == NULL) return;
    if (c->joins && c->native[0] != NULL) dhowi_comm_give_up(c);
    for (uint32_t i = 0; i < c->count; i++)
        if (c->native[i] != NULL) c->coll->destroy(c->native[i]);
    for (uint32_t i = 0; i < c->count; i++) dhow_stream_release(c->streams[i]);
    dhowi_free(c);
}

dhow_stream *dhowi_comm_stream(const dhowi_comm *c, uint32_t rank) { return c->streams[rank]; }

/* ---- running ---- */

static const char *name_of(uint32_t op) {
    static const char *const names[] = {
        [DHOW_COLL_ALL_REDUCE] = "all-reduce",         [DHOW_COLL_REDUCE] = "reduce",
        [DHOW_COLL_BROADCAST] = "broadcast",           [DHOW_COLL_ALL_GATHER] = "all-gather",
        [DHOW_COLL_REDUCE_SCATTER] = "reduce-scatter",
    };
    return names[op];
}

static uint32_t uses_of(const dhowi_comm_part *part, bool ordered, dhowi_use uses[2]) {
    const bool alike = part->out != NULL && part->in->storage == part->out->storage;
    uint32_t count = 0;
    if (!ordered) return 0;
    if (!alike) uses[count++] = (dhowi_use){part->in->storage, DHOW_ACCESS_READ};
    if (part->out != NULL)
        uses[count++] =
            (dhowi_use){part->out->storage, DHOW_ACCESS_WRITE | (alike ? DHOW_ACCESS_READ : 0u)};
    return count;
}

static dhow_buffer buffer_of(const dhow_tensor *t) {
    return t == NULL ? (dhow_buffer){0, 0}
                     : (dhow_buffer){t->storage->native, dhowi_tensor_offset_bytes(t)};
}

/* All streams are held while the group is handed in: its work reaches them at the end only, so
 * nobody may record an event between. */
static dhow_status begin_all(const dhowi_comm *c, const dhowi_comm_part *parts, bool ordered,
                             uint32_t *begun) {
    dhowi_use uses[2];
    for (*begun = 0; *begun < c->count; ++*begun) {
        const uint32_t count = uses_of(&parts[*begun], ordered, uses);
        DHOWI_TRY(dhowi_stream_begin(c->streams[*begun], uses, count));
    }
    return DHOW_OK;
}

static dhow_status hand_in(const dhowi_comm *c, const dhow_coll_call *calls, uint64_t bytes,
                           uint32_t *failed) {
    const dhow_coll_call *list[DHOWI_MAX_MEMBERS];
    dhow_error err;
    dhowi_error_init(&err);
    for (uint32_t i = 0; i < c->count; i++) {
        list[i] = &calls[i];
        dhowi_span_begin(c->streams[i], DHOWI_TRACE_COPY, name_of(calls[i].op), bytes,
                         "by the backend");
    }
    const int32_t code = c->coll->run(list, c->count, failed, &err);
    if (code == DHOW_OK) return DHOW_OK;
    if (*failed >= c->count) *failed = 0;
    return dhowi_device_failed(c->devices[*failed], &err, code, name_of(calls[0].op));
}

dhow_status dhowi_comm_run(dhowi_comm *c, uint32_t op, uint32_t root, const dhowi_comm_part *parts,
                           int64_t count, bool ordered, uint32_t *failed) {
    dhow_coll_call calls[DHOWI_MAX_MEMBERS];
    const dhow_dtype dtype = parts[0].in->dtype;
    uint32_t begun;
    for (uint32_t i = 0; i < c->count; i++)
        calls[i] = (dhow_coll_call){.struct_size = sizeof calls[i],
                                    .op = op,
                                    .dtype = (int32_t)dtype,
                                    .root = root,
                                    .count = (uint64_t)count,
                                    .comm = c->native[i],
                                    .stream = c->streams[i]->native,
                                    .in = buffer_of(parts[i].in),
                                    .out = buffer_of(parts[i].out)};
    dhow_status status = begin_all(c, parts, ordered, &begun);
    *failed = begun;
    if (status == DHOW_OK)
        status = hand_in(c, calls, (uint64_t)count * dhow_dtype_bytes(dtype), failed);
    for (uint32_t i = 0; i < begun; i++) {
        dhowi_use uses[2];
        (void)dhowi_stream_end(c->streams[i], uses, uses_of(&parts[i], ordered, uses), status);
    }
    return status;
}

/* ---- waiting ---- */

/* NOT_READY while a rank works. A device that is lost is named before those that wait for it. */
static dhow_status look(const dhowi_comm *c, uint32_t *at) {
    dhow_status all = DHOW_OK;
    dhow_error err;
    for (uint32_t i = 0; i < c->count; i++) {
        const dhow_status status = dhow_stream_query(c->streams[i]);
        *at = i;
        if (status == DHOW_NOT_READY)
            all = status;
        else if (status != DHOW_OK)
            return status;
    }
    for (uint32_t i = 0; i < c->count; i++) {
        dhowi_error_init(&err);
        const int32_t code = c->coll->query(c->native[i], &err);
        *at = i;
        if (code != DHOW_OK) return dhowi_device_failed(c->devices[i], &err, code, k_what);
    }
    return all;
}

void dhowi_comm_give_up(dhowi_comm *c) {
    for (uint32_t i = 0; i < c->count && !c->given_up; i++) c->coll->abort(c->native[i]);
    c->given_up = true;
    for (uint32_t i = 0; i < c->count; i++)
        if (dhow_stream_sync(c->streams[i]) != DHOW_OK) dhowi_error_clear();
}

dhow_status dhowi_comm_wait(dhowi_comm *c, double seconds, uint32_t *failed) {
    const struct timespec pause = {0, 20000};
    dhowi_saved_error error;
    dhow_status status;
    const double begin = dhowi_seconds();
    for (uint32_t polls = 0; (status = look(c, failed)) == DHOW_NOT_READY; polls++) {
        if (polls >= POLLS_AT_ONCE) (void)nanosleep(&pause, NULL);
        if (seconds == 0 || dhowi_seconds() - begin < seconds) continue;
        status = dhowi_fail(DHOW_TIMED_OUT, "%s: %s: another rank has not come for %.0f s",
                            c->devices[0]->name, k_what, seconds);
        break;
    }
    if (status == DHOW_OK) return DHOW_OK;
    dhowi_error_save(&error, status);
    dhowi_comm_give_up(c);
    return dhowi_error_raise(&error);
}
