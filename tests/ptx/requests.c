/* SPDX-License-Identifier: Apache-2.0
 *
 * What the lanes of a warp ask of memory together, counted as a GPU serves it: sectors of 32 bytes
 * of global memory, and passes over the 32 banks of shared memory.
 */
#include "machine.h"

enum { BANKS = 32, BANK_BYTES = 4, MOST_WORDS = PTX_WARP * 4 };

/* Adds a number to a set. */
static void put(uint64_t *set, unsigned *count, uint64_t value) {
    unsigned k = 0;
    while (k < *count && set[k] != value) k++;
    if (k == *count) set[(*count)++] = value;
}

static unsigned sectors_of(unsigned lanes, const uint64_t *address, size_t bytes) {
    uint64_t sectors[2 * PTX_WARP];
    unsigned count = 0;
    while (lanes != 0) {
        const unsigned lane = ptx_next_lane(&lanes);
        put(sectors, &count, address[lane] / PTX_SECTOR);
        put(sectors, &count, (address[lane] + bytes - 1) / PTX_SECTOR);
    }
    return count;
}

/* Of lanes that are served together: the most words that one bank has to give. */
static unsigned passes_of(unsigned lanes, const uint64_t *address, size_t bytes) {
    uint64_t words[BANKS][MOST_WORDS];
    unsigned count[BANKS] = {0}, most = 0;
    while (lanes != 0) {
        const unsigned lane = ptx_next_lane(&lanes);
        const uint64_t from = address[lane] / BANK_BYTES,
                       to = (address[lane] + bytes - 1) / BANK_BYTES;
        for (uint64_t word = from; word <= to; word++)
            put(words[word % BANKS], &count[word % BANKS], word);
    }
    for (unsigned bank = 0; bank < BANKS; bank++) most = count[bank] > most ? count[bank] : most;
    return most;
}

void ptx_count_request(ptx_machine *m, ptx_space space, unsigned lanes, const uint64_t *address,
                       size_t bytes) {
    ptx_report *report = m->report;
    if (m->touched == NULL || m->kernel != m->entry || lanes == 0) return;
    if (space == PTX_GLOBAL) {
        report->requests++;
        report->sectors += sectors_of(lanes, address, bytes);
    }
    /* Lanes of 8 and 16 bytes are served by halves and quarters of a warp. */
    const unsigned parts = bytes > 4 ? (unsigned)bytes / 4 : 1, each = PTX_WARP / parts;
    for (unsigned part = 0; space == PTX_SHARED && part < parts; part++) {
        const unsigned some = (unsigned)((1ull << each) - 1) << part * each;
        const unsigned passes = passes_of(lanes & some, address, bytes);
        report->shared_requests += passes > 0;
        report->shared_passes += passes;
    }
}
