/* SPDX-License-Identifier: Apache-2.0
 *
 * See dhow/mpi.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/objects/struct_size.h"
#include "engine.h"

dhow_status mpi_check(const dhow_mpi *m, const char *function) {
    if (m != NULL && m->magic == HANDLE_MAGIC) return DHOW_OK;
    return dhow_set_error(DHOW_INVALID_ARGUMENT, "%s: mpi is %s", function,
                          m == NULL ? "NULL" : "no live handle");
}

/* ---- making ---- */

enum {
    DHOWI_STRUCT_LEAST(dhow_mpi_options, timeout_s) DHOWI_STRUCT_LEAST(dhow_mpi_member, reason)
};

enum { RING_BYTES = 256 << 10 };

static dhow_status start(dhow_mpi *m, dhow_model *model, const dhow_mpi_options *o) {
    dhow_context *context = dhow_device_context(dhow_model_device(model));
    dhow_device *chosen = NULL;
    dhow_device *const *devices = o->devices;
    uint32_t count = o->device_count;
    const dhow_parallel_options options =
        DHOW_INIT(dhow_parallel_options, .skip_failed_devices = o->skip_failed_devices);
    TRY(dhow_device_get(context, "cpu", &m->cpu));
    TRY(mpi_share_parameters(m, model));
    dhow_status status = DHOW_OK;
    if (devices == NULL) {
        status = dhow_device_get(context, NULL, &chosen);
        devices = &chosen;
        count = 1;
    }
    if (status == DHOW_OK)
        status = dhow_parallel_create(model, devices, count, &options, &m->parallel);
    return m->wire.size == 1 ? status : mpi_agree(m, status);
}

static double timeout_of(const dhow_mpi_options *o) { return o->timeout_s > 0 ? o->timeout_s : 4; }

static bool is_timeout(const dhow_mpi_options *o) {
    return o->timeout_s >= 0 && timeout_of(o) >= 1 && timeout_of(o) <= 3600;
}

/* What this rank was given. A mistake of one is told to all, who would wait for it otherwise. */
static dhow_status check_own(dhow_mpi *m, const dhow_model *model, const dhow_mpi_options *o) {
    static const char function[] = "dhow_mpi_create";
    if (dhow_model_device(model) == NULL)
        return dhow_set_error(DHOW_INVALID_ARGUMENT, "%s: model is no live model", function);
    if (!is_timeout(o)) {
        return dhow_set_error(DHOW_INVALID_ARGUMENT,
                              "%s: timeout_s is %g; 1 to 3600 is allowed, or 0 for 4", function,
                              o->timeout_s);
    }
    if (m->wire.size > DHOWI_MAX_MEMBERS)
        return dhow_set_error(DHOW_INVALID_ARGUMENT, "%s: %d ranks; at most %d", function,
                              m->wire.size, DHOWI_MAX_MEMBERS);
    m->members = calloc((size_t)m->wire.size, sizeof *m->members);
    if (m->members != NULL) return DHOW_OK;
    return dhow_set_error(DHOW_OUT_OF_MEMORY, "%s: host memory is exhausted", function);
}

dhow_status dhow_mpi_create(MPI_Comm comm, dhow_model *model, const dhow_mpi_options *options,
                            dhow_mpi **out) {
    dhow_mpi_options own, *o = &own;
    if (out == NULL) return dhow_set_error(DHOW_INVALID_ARGUMENT, "dhow_mpi_create: out is NULL");
    *out = NULL;
    TRY(DHOWI_STRUCT_IN(dhow_mpi_options, options, o, "dhow_mpi_create", "options"));
    dhow_mpi *m = calloc(1, sizeof *m);
    if (m == NULL)
        return dhow_set_error(DHOW_OUT_OF_MEMORY, "dhow_mpi_create: host memory is exhausted");
    m->magic = HANDLE_MAGIC;
    m->wire.comm = MPI_COMM_NULL;
    m->skip_failed_devices = o->skip_failed_devices != 0;
    m->ring_bytes = o->ring_bytes > 0 ? o->ring_bytes : RING_BYTES;
    m->input_count = dhow_model_input_count(model);
    m->output_count = dhow_model_output_count(model);
    dhow_status status = wire_open(comm, is_timeout(o) ? timeout_of(o) : 4, &m->wire);
    if (status != DHOW_OK) {
        free(m);
        return status;
    }
    status = check_own(m, model, o);
    if (m->wire.size > 1) status = mpi_agree(m, status);
    if (status == DHOW_OK) status = start(m, model, o);
    m->shares.count = (uint32_t)m->wire.size;
    for (uint32_t i = 0; status == DHOW_OK && i < m->shares.count; i++) {
        m->shares.live[i] = true;
        m->shares.share[i] = 1.0 / m->wire.size;
    }
    if (status == DHOW_OK) {
        *out = m;
        return DHOW_OK;
    }
    char why[1024];
    (void)snprintf(why, sizeof why, "%s", dhow_last_error());
    m->shares.count = 0; /* nobody serves yet */
    dhow_mpi_release(m);
    return dhow_set_error(status, "%s", why);
}

void dhow_mpi_release(dhow_mpi *m) {
    if (m == NULL || m->magic != HANDLE_MAGIC) return;
    const message end = {.magic = MESSAGE_MAGIC, .kind = MESSAGE_END};
    for (int peer = 1; m->wire.rank == 0 && !m->trains && peer < (int)m->shares.count; peer++) {
        wire_transfer t = {.wire = &m->wire, .peer = peer};
        if (wire_is_lost(&m->wire, peer)) continue;
        if (wire_send(&t, WIRE_TAG_HEADER, &end, sizeof end) != DHOW_TIMED_OUT) (void)wire_wait(&t);
        wire_end(&t);
    }
    m->magic = 0;
    dhow_parallel_release(m->parallel);
    m->wire.broken = m->broken == DHOW_TIMED_OUT;
    wire_close(&m->wire);
    free(m->members);
    free(m->room);
    free(m);
}

/* ---- looking ---- */

uint32_t dhow_mpi_member_count(const dhow_mpi *m) {
    return m != NULL && m->magic == HANDLE_MAGIC ? (uint32_t)m->wire.size : 0;
}

dhow_status dhow_mpi_member_at(const dhow_mpi *m, uint32_t rank, dhow_mpi_member *given) {
    static const char function[] = "dhow_mpi_member_at";
    dhow_mpi_member own, *out = &own;
    TRY(DHOWI_STRUCT_OUT(dhow_mpi_member, given, out, function));
    TRY(mpi_check(m, function));
    if (rank >= (uint32_t)m->wire.size)
        return dhow_set_error(DHOW_OUT_OF_RANGE, "%s: rank %u, there are %d", function, rank,
                              m->wire.size);
    const member *p = &m->members[rank];
    out->rank = (int32_t)rank;
    (void)snprintf(out->host, sizeof out->host, "%s", m->wire.hosts[rank]);
    out->share = m->shares.live[rank] ? m->shares.share[rank] : 0;
    out->rows_per_second = m->shares.rate[rank];
    out->status = p->gone;
    (void)snprintf(out->reason, sizeof out->reason, "%.191s", p->reason);
    DHOWI_STRUCT_GIVE(given, out);
    return DHOW_OK;
}
