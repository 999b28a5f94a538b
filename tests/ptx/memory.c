/* SPDX-License-Identifier: Apache-2.0
 *
 * Every access of a kernel: is it aligned, inside of something that it may touch, written before it
 * is read, and ordered by a barrier against those of other threads?
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "machine.h"

void ptx_find_fault(ptx_machine *m, const ptx_warp *w, unsigned lane, const ptx_instruction *i,
                    ptx_fault fault, uint64_t address, const char *format, ...) {
    ptx_report *report = m->report;
    const unsigned thread = w->first + lane;
    for (size_t k = 0; k < report->count; k++) {
        if (report->findings[k].fault != fault || report->findings[k].line != i->line) continue;
        report->findings[k].count++;
        return;
    }
    if (report->count == PTX_MAX_FINDINGS) return;
    ptx_finding *f = &report->findings[report->count++];
    *f = (ptx_finding){fault, i->line, m->block, thread, address, 1, ""};
    const int used =
        snprintf(f->text, sizeof f->text, "%s: line %d, %s, block %u, thread %u: ", m->kernel->name,
                 i->line, i->text, m->block, thread);
    va_list list;
    va_start(list, format);
    if (used > 0 && (size_t)used < sizeof f->text)
        (void)vsnprintf(f->text + used, sizeof f->text - (size_t)used, format, list);
    va_end(list);
}

/* ---- global ---- */

static bool holds(uint64_t base, size_t size, uint64_t address, size_t bytes) {
    return address >= base && address - base <= size && bytes <= size - (address - base);
}

/* The allocation that begins last before an address: the one that was meant. */
static const ptx_allocation *nearest(ptx_machine *m, uint64_t address) {
    const ptx_launch *launch = m->launch;
    const ptx_allocation *best = m->latest;
    if (best != NULL && holds((uint64_t)(uintptr_t)best->base, best->bytes, address, 1))
        return best;
    best = NULL;
    for (size_t k = 0; k < launch->allocation_count; k++) {
        const ptx_allocation *a = &launch->allocations[k];
        if ((uint64_t)(uintptr_t)a->base > address) continue;
        if (best == NULL || (uintptr_t)a->base > (uintptr_t)best->base) best = a;
    }
    m->latest = best;
    return best;
}

static void touch(ptx_machine *m, const ptx_allocation *a, uint64_t offset, size_t bytes,
                  bool write) {
    unsigned char *sectors = m->touched[2 * (a - m->launch->allocations) + write];
    for (uint64_t s = offset / PTX_SECTOR; s <= (offset + bytes - 1) / PTX_SECTOR; s++) {
        m->report->moved[write] += sectors[s] == 0 ? PTX_SECTOR : 0;
        sectors[s] = 1;
    }
}

static void *global(ptx_machine *m, const ptx_warp *w, unsigned lane, const ptx_instruction *i,
                    uint64_t address, size_t bytes, bool write) {
    const ptx_variables *globals = &m->kernel->module->globals;
    for (size_t k = 0; k < globals->count && !write; k++)
        if (holds(globals->at[k].offset, globals->at[k].bytes, address, bytes))
            return (void *)(uintptr_t)address;
    const ptx_allocation *a = nearest(m, address);
    const uint64_t base = a != NULL ? (uint64_t)(uintptr_t)a->base : 0;
    if (a == NULL || !holds(base, a->bytes, address, bytes)) {
        ptx_find_fault(m, w, lane, i, PTX_OUT_OF_BOUNDS, address,
                       "%zu bytes at 0x%" PRIx64 " are out of bounds: byte %" PRIu64
                       " of %s, which has %zu",
                       bytes, address, address - base, a != NULL ? a->name : "no memory",
                       a != NULL ? a->bytes : 0);
        return NULL;
    }
    if (write && a->read_only) {
        ptx_find_fault(m, w, lane, i, PTX_READ_ONLY, address,
                       "writes byte %" PRIu64 " of %s, an input", address - base, a->name);
        return NULL;
    }
    if (m->touched != NULL) touch(m, a, address - base, bytes, write);
    return (unsigned char *)(a->host != NULL ? a->host : a->base) + (address - base);
}

/* ---- shared ---- */

/* The variable that an address lies in, NULL between them. */
static const ptx_variable *area_of(ptx_machine *m, uint64_t address) {
    const ptx_variables *list = &m->kernel->variables;
    const ptx_variable *v = m->area;
    if (v != NULL && holds(v->offset, v->bytes, address, 1)) return v;
    for (size_t k = 0; k < list->count; k++) {
        v = &list->at[k];
        if (v->space != PTX_SHARED || !holds(v->offset, v->bytes, address, 1)) continue;
        m->area = v;
        return v;
    }
    return NULL;
}

static const char *shared_name(ptx_machine *m, uint64_t address, uint64_t *offset) {
    const ptx_variable *v = area_of(m, address);
    *offset = v != NULL ? address - v->offset : address;
    return v != NULL ? v->name : "shared memory";
}

/* What other threads did to a byte since the last barrier, with no order to this access. */
static void check_race(ptx_machine *m, const ptx_warp *w, unsigned lane, const ptx_instruction *i,
                       const ptx_shadow *s, uint64_t address, bool write) {
    const unsigned me = w->first + lane + 1;
    const bool in_turn = i->code.op == PTX_ATOM && s->atomic;
    const bool after_write = s->writer != 0 && (s->writer != me || s->several) && !in_turn;
    const unsigned reader = s->reader != me ? s->reader : s->other_reader;
    uint64_t offset = 0;
    if (!after_write && !(write && reader != 0)) return;
    const char *name = shared_name(m, address, &offset);
    if (after_write)
        ptx_find_fault(m, w, lane, i, PTX_RACE, address,
                       "race: %s byte %" PRIu64
                       " of %s, which thread %u wrote in line %d, no barrier between",
                       write ? "writes" : "reads", offset, name, s->writer - 1, s->write_line);
    else
        ptx_find_fault(m, w, lane, i, PTX_RACE, address,
                       "race: writes byte %" PRIu64
                       " of %s, which thread %u read in line %d, no barrier between",
                       offset, name, reader - 1, s->read_line);
}

static void note_access(ptx_machine *m, const ptx_warp *w, unsigned lane, const ptx_instruction *i,
                        uint64_t address, bool write) {
    ptx_shadow *s = &m->shadow[address];
    const unsigned me = w->first + lane + 1;
    const bool atom = i->code.op == PTX_ATOM; /* reads and writes */
    uint64_t offset = 0;
    if (s->epoch != m->epoch) *s = (ptx_shadow){.epoch = m->epoch, .block = s->block};
    check_race(m, w, lane, i, s, address, write);
    if ((atom || !write) && s->block != m->block + 1) {
        const char *name = shared_name(m, address, &offset);
        ptx_find_fault(m, w, lane, i, PTX_UNINITIALISED, address,
                       "reads byte %" PRIu64 " of %s, which this block never wrote", offset, name);
    }
    if (atom) {
        s->atomic = s->writer == 0 || s->atomic;
        s->several = s->several || (s->writer != 0 && s->writer != me);
    } else if (write) {
        s->atomic = false;
    }
    if (write) {
        s->writer = (unsigned short)me;
        s->write_line = i->line;
        s->block = m->block + 1;
        return;
    }
    if (s->reader == 0) s->read_line = i->line;
    if (s->reader == 0 || s->reader == me)
        s->reader = (unsigned short)me;
    else
        s->other_reader = (unsigned short)me;
}

static void *shared(ptx_machine *m, const ptx_warp *w, unsigned lane, const ptx_instruction *i,
                    uint64_t address, size_t bytes, bool write) {
    const bool inside = holds(0, m->kernel->shared_bytes, address, bytes);
    if (!inside || area_of(m, address) != area_of(m, address + bytes - 1)) {
        ptx_find_fault(m, w, lane, i, PTX_OUT_OF_BOUNDS, address,
                       "%zu bytes at 0x%" PRIx64
                       " are out of bounds of shared memory, which has %zu",
                       bytes, address, m->kernel->shared_bytes);
        return NULL;
    }
    for (size_t k = 0; k < bytes; k++) note_access(m, w, lane, i, address + k, write);
    return m->shared + address;
}

/* ---- all ---- */

static void *within(ptx_machine *m, const ptx_warp *w, unsigned lane, const ptx_instruction *i,
                    uint64_t address, size_t bytes, unsigned char *base, size_t size,
                    const char *what) {
    if (holds(0, size, address, bytes)) return base + address;
    ptx_find_fault(m, w, lane, i, PTX_OUT_OF_BOUNDS, address,
                   "%zu bytes at 0x%" PRIx64 " are out of bounds of %s, which have %zu", bytes,
                   address, what, size);
    return NULL;
}

void *ptx_access(ptx_machine *m, const ptx_warp *w, unsigned lane, const ptx_instruction *i,
                 ptx_space space, uint64_t address, size_t bytes, bool write) {
    if ((address & (bytes - 1)) != 0) { /* powers of two */
        ptx_find_fault(m, w, lane, i, PTX_MISALIGNED, address,
                       "%zu bytes at 0x%" PRIx64 " are misaligned", bytes, address);
        return NULL;
    }
    switch (space) {
        case PTX_SHARED:
            return shared(m, w, lane, i, address, bytes, write);
        case PTX_LOCAL:
            return within(m, w, lane, i, address, bytes, w->local + lane * m->kernel->local_bytes,
                          m->kernel->local_bytes, "the bytes of local memory");
        case PTX_PARAM:
            return within(m, w, lane, i, address, bytes, m->params, m->kernel->param_bytes,
                          "the bytes of the parameters");
        default:
            m->report->accesses[write]++;
            m->report->bytes[write] += bytes;
            return global(m, w, lane, i, address, bytes, write);
    }
}
