/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of many numbers: each rank sends to the next one only, so that none carries the arrays of
 * all. The array has as many pieces as there are ranks. First each piece goes round once and is
 * added up on its way, then once more, whole (Patarasuk and Yuan, 2009). A rank that fails tells
 * all others, so that nobody waits for a piece that does not come.
 */
#include "engine.h"

typedef struct ring {
    dhow_mpi *m;
    const reduce_header *header;
    unsigned char *data;
    int next, previous;
} ring;

static int64_t first_of(const ring *r, int piece) {
    return r->header->count * piece / r->m->wire.size;
}

static int64_t count_of(const ring *r, int piece) {
    return first_of(r, piece + 1) - first_of(r, piece);
}

static unsigned char *at(const ring *r, int piece) {
    return r->data + mpi_bytes_of(r->header->dtype, first_of(r, piece));
}

/* Sends one piece while another arrives. */
static dhow_status pass(const ring *r, int sent, int received, void *to, wire_transfer *out,
                        wire_transfer *in) {
    const int32_t dtype = r->header->dtype;
    TRY(wire_receive(in, WIRE_TAG_DATA, to, mpi_bytes_of(dtype, count_of(r, received))));
    TRY(wire_send(out, WIRE_TAG_DATA, at(r, sent), mpi_bytes_of(dtype, count_of(r, sent))));
    TRY(wire_wait(in));
    return wire_wait(out);
}

static dhow_status step(const ring *r, int number) {
    const int size = r->m->wire.size, rank = r->m->wire.rank;
    const bool adds = number < size - 1;
    /* Pieces go from each rank to the next: what arrives now is sent in the next step. */
    const int sent = (rank - number + 2 * size) % size, received = (sent - 1 + size) % size;
    wire_transfer out = {.wire = &r->m->wire, .peer = r->next, .heed = WIRE_HEED_ALL},
                  in = {.wire = &r->m->wire, .peer = r->previous, .heed = WIRE_HEED_ALL};
    const dhow_status status =
        pass(r, sent, received, adds ? r->m->room : at(r, received), &out, &in);
    wire_end(&out);
    wire_end(&in);
    if (status == DHOW_OK && adds)
        mpi_add((dhow_dtype)r->header->dtype, at(r, received), r->m->room, count_of(r, received));
    return status;
}

dhow_status mpi_ring(dhow_mpi *m, const reduce_header *header, void *data) {
    const int size = m->wire.size;
    const ring r = {m, header, data, (m->wire.rank + 1) % size, (m->wire.rank + size - 1) % size};
    dhow_status status = mpi_make_room(m, mpi_bytes_of(header->dtype, header->count / size + 1));
    for (int i = 0; i < 2 * (size - 1) && status == DHOW_OK; i++) status = step(&r, i);
    if (status != DHOW_OK) wire_notify(&m->wire, status, false);
    return status;
}
