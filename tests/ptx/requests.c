/* SPDX-License-Identifier: Apache-2.0
 *
 * What the lanes of a warp ask of memory together, counted as a GPU serves it: sectors of 32 bytes
 * of global memory, and passes over the 32 banks of shared memory. Threads run one after the other
 * here; the nth time that each lane comes to an instruction between two barriers is one request.
 */
#include <stdlib.h>
#include <string.h>

#include "machine.h"

enum { BANKS = 32, BANK_BYTES = 4, MOST_WORDS = PTX_WARP * 4 };

struct ptx_request {
    unsigned lanes;
    uint64_t address[PTX_WARP];
    size_t bytes; /* of a lane */
};

struct ptx_requests {
    ptx_request *at;
    size_t count, capacity;
};

bool ptx_requests_begin(ptx_machine *m) {
    const size_t places = 2 * m->kernel->code_count;
    m->requests = calloc(places + 1, sizeof *m->requests);
    m->seen = calloc(PTX_WARP * places + 1, sizeof *m->seen);
    return m->requests != NULL && m->seen != NULL;
}

void ptx_requests_end(ptx_machine *m) {
    for (size_t k = 0; m->requests != NULL && k < 2 * m->kernel->code_count; k++)
        free(m->requests[k].at);
    free(m->requests);
    free(m->seen);
}

void ptx_request_note(ptx_machine *m, const ptx_thread *t, const ptx_instruction *i,
                      ptx_space space, uint64_t address, size_t bytes) {
    const bool inside = i >= m->kernel->code && i < m->kernel->code + m->kernel->code_count;
    if (m->requests == NULL || m->kernel != m->entry || !inside) return;
    if (i->code.op == PTX_LDMATRIX || (i->code.op == PTX_CP && i->code.async != PTX_COPY)) return;
    const size_t place = 2 * (size_t)(i - m->kernel->code) + (space == PTX_SHARED);
    const unsigned lane = t->index % PTX_WARP;
    ptx_requests *list = &m->requests[place];
    const unsigned nth = m->seen[lane * 2 * m->kernel->code_count + place]++;
    while (nth >= list->count) {
        if (list->count == list->capacity) {
            const size_t more = 2 * list->capacity + 16;
            ptx_request *moved = realloc(list->at, more * sizeof *moved);
            if (moved == NULL) return;
            list->at = moved;
            list->capacity = more;
        }
        list->at[list->count++] = (ptx_request){.bytes = bytes};
    }
    list->at[nth].lanes |= 1u << lane;
    list->at[nth].address[lane] = address;
}

/* Adds a number to a set. */
static void put(uint64_t *set, unsigned *count, uint64_t value) {
    unsigned k = 0;
    while (k < *count && set[k] != value) k++;
    if (k == *count) set[(*count)++] = value;
}

static unsigned sectors_of(const ptx_request *r) {
    uint64_t sectors[2 * PTX_WARP];
    unsigned count = 0;
    for (unsigned lane = 0; lane < PTX_WARP; lane++) {
        if ((r->lanes >> lane & 1) == 0) continue;
        put(sectors, &count, r->address[lane] / PTX_SECTOR);
        put(sectors, &count, (r->address[lane] + r->bytes - 1) / PTX_SECTOR);
    }
    return count;
}

/* Of lanes that are served together: the most words that one bank has to give. */
static unsigned passes_of(const ptx_request *r, unsigned first, unsigned lanes) {
    uint64_t words[BANKS][MOST_WORDS];
    unsigned count[BANKS] = {0}, most = 0;
    for (unsigned lane = first; lane < first + lanes; lane++) {
        if ((r->lanes >> lane & 1) == 0) continue;
        const uint64_t from = r->address[lane] / BANK_BYTES,
                       to = (r->address[lane] + r->bytes - 1) / BANK_BYTES;
        for (uint64_t word = from; word <= to; word++)
            put(words[word % BANKS], &count[word % BANKS], word);
    }
    for (unsigned bank = 0; bank < BANKS; bank++) most = count[bank] > most ? count[bank] : most;
    return most;
}

static void serve(ptx_report *report, const ptx_request *r, bool shared) {
    if (!shared) {
        report->requests++;
        report->sectors += sectors_of(r);
        return;
    }
    /* Lanes of 8 and 16 bytes are served by halves and quarters of a warp. */
    const unsigned parts = r->bytes > 4 ? (unsigned)r->bytes / 4 : 1, lanes = PTX_WARP / parts;
    for (unsigned part = 0; part < parts; part++) {
        const unsigned passes = passes_of(r, part * lanes, lanes);
        report->shared_requests += passes > 0;
        report->shared_passes += passes;
    }
}

void ptx_requests_serve(ptx_machine *m) {
    const size_t places = 2 * m->kernel->code_count;
    if (m->requests == NULL) return;
    for (size_t place = 0; place < places; place++) {
        ptx_requests *list = &m->requests[place];
        for (size_t k = 0; k < list->count; k++) serve(m->report, &list->at[k], place % 2 == 1);
        list->count = 0;
    }
    memset(m->seen, 0, PTX_WARP * places * sizeof *m->seen);
}
