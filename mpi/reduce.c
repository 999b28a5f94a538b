/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over the ranks, for trainers. Of few numbers all send what they have to rank 0, which adds
 * it up in the order of ranks and sends the sums back, the same bits to everyone. Rank 0 hears each
 * rank's pulse, so it notices one that died. Many numbers go round a ring (ring.c): all tell rank 0
 * of it before, who finds ranks that have others, and afterwards how it went. A rank that has
 * failed tells all, whatever sum they are in: rank 0 can lose a rank when others have their sums.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/objects/struct_size.h"
#include "engine.h"

/* A rank's numbers on their way to rank 0. */
typedef struct arrival {
    reduce_header header;
    wire_transfer transfer;
    bool has_header, done;
} arrival;

/* That follow a header. */
static size_t payload_of(const reduce_header *h) {
    return h->ring != 0 ? 0 : mpi_bytes_of(h->dtype, h->count);
}

/* ---- rank 0 ---- */

static dhow_status check_header(const dhow_mpi *m, const reduce_header *got, int rank,
                                const reduce_header *own) {
    if (got->magic != MESSAGE_MAGIC)
        return dhow_set_error(DHOW_INCOMPATIBLE,
                              "rank %d (%s): an unexpected message; do all ranks run the same "
                              "program and version of dhow?",
                              rank, m->wire.hosts[rank]);
    if (got->status != DHOW_OK)
        return dhow_set_error((dhow_status)got->status, "%.*s", (int)sizeof got->text - 1,
                              got->text);
    if (got->count == own->count && got->dtype == own->dtype) {
        if (got->ring == own->ring) return DHOW_OK;
        return dhow_set_error(DHOW_INVALID_ARGUMENT,
                              "rank %d (%s) and rank %d have different ring_bytes; they need the "
                              "same options of dhow_mpi_create()",
                              rank, m->wire.hosts[rank], m->wire.rank);
    }
    return dhow_set_error(DHOW_INVALID_ARGUMENT,
                          "rank %d (%s) adds up %" PRId64 " numbers and rank %d %" PRId64
                          ", or others; all ranks need the same model, options and steps",
                          rank, m->wire.hosts[rank], got->count, m->wire.rank, own->count);
}

static dhow_status advance(dhow_mpi *m, int rank, const reduce_header *own, void *room,
                           arrival *a) {
    dhow_status status = wire_poll(&a->transfer);
    if (status != DHOW_OK) return status;
    if (a->has_header) {
        a->done = true;
        return DHOW_OK;
    }
    a->has_header = true;
    TRY(check_header(m, &a->header, rank, own));
    if (payload_of(own) > 0) TRY(wire_receive(&a->transfer, WIRE_TAG_DATA, room, payload_of(own)));
    return DHOW_NOT_READY;
}

static dhow_status gather(dhow_mpi *m, const reduce_header *own, arrival *arrivals) {
    const size_t bytes = payload_of(own);
    uint32_t polls = 0;
    for (int rank = 1; rank < m->wire.size; rank++) {
        arrival *a = &arrivals[rank];
        a->transfer = (wire_transfer){.wire = &m->wire, .peer = rank, .heed = WIRE_HEED_GIVEN_UP};
        TRY(wire_receive(&a->transfer, WIRE_TAG_HEADER, &a->header, sizeof a->header));
    }
    for (bool waiting = true; waiting; wire_pause(&polls)) {
        waiting = false;
        for (int rank = 1; rank < m->wire.size; rank++) {
            if (arrivals[rank].done) continue;
            const dhow_status status =
                advance(m, rank, own, m->room + bytes * (size_t)(rank - 1), &arrivals[rank]);
            if (status != DHOW_OK && status != DHOW_NOT_READY) return status;
            waiting = waiting || status == DHOW_NOT_READY;
        }
    }
    return DHOW_OK;
}

/* To all that are there; data follow a header that says OK. */
static dhow_status answer(dhow_mpi *m, const reduce_header *header, const void *data,
                          arrival *arrivals) {
    dhow_status first = DHOW_OK;
    for (int rank = 1; rank < m->wire.size; rank++) {
        wire_transfer *t = &arrivals[rank].transfer;
        wire_end(t);
        *t = (wire_transfer){.wire = &m->wire, .peer = rank};
        if (wire_is_lost(&m->wire, rank)) continue;
        dhow_status status = wire_send(t, WIRE_TAG_HEADER, header, sizeof *header);
        if (status == DHOW_OK && header->status == DHOW_OK && payload_of(header) > 0)
            status = wire_send(t, WIRE_TAG_DATA, data, payload_of(header));
        if (status != DHOW_OK && first == DHOW_OK) first = status;
    }
    for (int rank = 1; rank < m->wire.size; rank++) {
        if (wire_is_lost(&m->wire, rank)) continue;
        const dhow_status status = wire_wait(&arrivals[rank].transfer);
        if (status != DHOW_OK && first == DHOW_OK) first = status;
    }
    return first;
}

/* A header of a rank that has failed is told to all. */
static dhow_status reduce_all(dhow_mpi *m, reduce_header *header, void *data) {
    const size_t bytes = payload_of(header), others = (size_t)m->wire.size - 1;
    arrival *arrivals = calloc((size_t)m->wire.size, sizeof *arrivals);
    if (arrivals == NULL)
        return dhow_set_error(DHOW_OUT_OF_MEMORY, "rank 0: host memory is exhausted");
    dhow_status status = mpi_make_room(m, bytes * others), sent;
    reduce_header wanted = *header;
    wanted.status = DHOW_OK;
    if (status == DHOW_OK) status = gather(m, &wanted, arrivals);
    if (header->status != DHOW_OK)
        status = dhow_set_error((dhow_status)header->status, "%s", header->text);
    for (size_t i = 0; i < others && status == DHOW_OK && bytes > 0; i++)
        mpi_add((dhow_dtype)header->dtype, data, m->room + bytes * i, header->count);
    header->status = (int32_t)status;
    if (status != DHOW_OK)
        (void)snprintf(header->text, sizeof header->text, "%s", dhow_last_error());
    sent = answer(m, header, data, arrivals);
    for (int rank = 1; rank < m->wire.size; rank++) wire_end(&arrivals[rank].transfer);
    free(arrivals);
    return status != DHOW_OK ? dhow_set_error(status, "%s", header->text) : sent;
}

/* ---- other ranks ---- */

static dhow_status reduce_own(dhow_mpi *m, const reduce_header *header, void *data,
                              wire_transfer *sent, wire_transfer *received) {
    const size_t bytes = payload_of(header);
    reduce_header got = {0}, wanted = *header;
    wanted.status = DHOW_OK;
    TRY(wire_send(sent, WIRE_TAG_HEADER, header, sizeof *header));
    if (bytes > 0) TRY(wire_send(sent, WIRE_TAG_DATA, data, bytes));
    TRY(wire_receive(received, WIRE_TAG_HEADER, &got, sizeof got));
    TRY(wire_wait(received));
    TRY(check_header(m, &got, 0, &wanted));
    TRY(wire_wait(sent)); /* the sums take its place */
    if (bytes > 0) TRY(wire_receive(received, WIRE_TAG_DATA, data, bytes));
    return wire_wait(received);
}

static dhow_status reduce_with_root(dhow_mpi *m, const reduce_header *header, void *data) {
    wire_transfer sent = {.wire = &m->wire, .peer = 0, .heed = WIRE_HEED_GIVEN_UP}, received = sent;
    const dhow_status status = reduce_own(m, header, data, &sent, &received);
    wire_end(&sent);
    wire_end(&received);
    return status;
}

static dhow_status by_root(dhow_mpi *m, reduce_header *header, void *data) {
    return m->wire.rank == 0 ? reduce_all(m, header, data) : reduce_with_root(m, header, data);
}

/* ---- round the ring ---- */

static dhow_status by_ring(dhow_mpi *m, reduce_header *header, void *data) {
    TRY(by_root(m, header, NULL));
    const dhow_status status = mpi_ring(m, header, data);
    header->status = (int32_t)status;
    if (status != DHOW_OK)
        (void)snprintf(header->text, sizeof header->text, "%s", dhow_last_error());
    return by_root(m, header, NULL);
}

/* ---- a process group ---- */

/* After a failure the ranks are no longer in step: it is said again, and others hear of it in their
 * next sum where they have the sums of this one. */
static dhow_status all_reduce(void *user, dhow_dtype dtype, void *data, int64_t count) {
    dhow_mpi *m = user;
    reduce_header header = {.magic = MESSAGE_MAGIC, .dtype = (int32_t)dtype, .count = count};
    if (m->wire.size == 1) return DHOW_OK;
    if (m->broken != DHOW_OK) return dhow_set_error(m->broken, "%s", m->broken_text);
    header.ring = mpi_bytes_of(header.dtype, count) >= m->ring_bytes;
    m->broken = header.ring != 0 ? by_ring(m, &header, data) : by_root(m, &header, data);
    if (m->broken != DHOW_OK) {
        (void)snprintf(m->broken_text, sizeof m->broken_text, "%s", dhow_last_error());
        wire_notify(&m->wire, m->broken, true);
    }
    return m->broken;
}

dhow_status dhow_mpi_process_group(dhow_mpi *m, dhow_process_group *given) {
    static const char function[] = "dhow_mpi_process_group";
    dhow_process_group own, *out = &own;
    TRY(DHOWI_STRUCT_OUT(dhow_process_group, given, out, function));
    TRY(mpi_check(m, function));
    m->trains = true;
    out->rank = (uint32_t)m->wire.rank;
    out->size = (uint32_t)m->wire.size;
    out->all_reduce = all_reduce;
    out->user = m;
    out->any_thread = 1; /* the wire has a lock */
    DHOWI_STRUCT_GIVE(given, out);
    return DHOW_OK;
}
