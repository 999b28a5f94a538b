/* SPDX-License-Identifier: Apache-2.0
 *
 * One model on all ranks: rank 0 sends its parameters, the others check that theirs are the same
 * ones.
 */
#include <stdio.h>
#include <string.h>

#include "engine.h"

static dhow_status send_parameter(dhow_mpi *m, dhow_model *model, uint32_t index, int peer) {
    dhow_model_parameter_info p = DHOW_INIT(dhow_model_parameter_info);
    dhow_tensor *host = NULL, *dense = NULL;
    message text = {.magic = MESSAGE_MAGIC, .kind = MESSAGE_PARAMETER, .tensor_count = 1};
    wire_transfer t = {.wire = &m->wire, .peer = peer};
    void *data = NULL;
    TRY(dhow_model_parameter_at(model, index, &p));
    (void)snprintf(text.text, sizeof text.text, "%s", p.name);
    dhow_status status = dhow_tensor_to(p.tensor, m->cpu, &host);
    if (status == DHOW_OK) status = dhow_tensor_contiguous(NULL, host, &dense);
    if (status == DHOW_OK) status = mpi_describe(dense, &text.tensors[0], &data);
    if (status == DHOW_OK) status = wire_send(&t, WIRE_TAG_HEADER, &text, sizeof text);
    if (status == DHOW_OK)
        status = wire_send(&t, WIRE_TAG_DATA, data, (size_t)text.tensors[0].bytes);
    if (status == DHOW_OK) status = wire_wait(&t);
    wire_end(&t);
    dhow_tensor_release(dense);
    dhow_tensor_release(host);
    return status;
}

/* Whether the parameter is the one that this rank's model has in its place. */
static dhow_status check_parameter(const dhow_mpi *m, const dhow_model *model, uint32_t index,
                                   const message *got) {
    dhow_model_value_info own = DHOW_INIT(dhow_model_value_info);
    TRY(dhow_model_parameter_describe(model, index, &own));
    const message_tensor *t = &got->tensors[0];
    if (strncmp(own.name, got->text, sizeof got->text - 1) == 0 && (int32_t)own.dtype == t->dtype &&
        own.rank == t->rank &&
        memcmp(own.shape, t->shape, (size_t)own.rank * sizeof own.shape[0]) == 0)
        return DHOW_OK;
    return dhow_set_error(
        DHOW_INVALID_ARGUMENT,
        "dhow_mpi_create: rank 0 sends parameter '%s', rank %d has '%s' there, or "
        "with another shape or dtype; all ranks need the same model",
        got->text, m->wire.rank, own.name);
}

static dhow_status receive_one(dhow_mpi *m, dhow_model *model, uint32_t index) {
    message got;
    wire_transfer t = {.wire = &m->wire, .peer = 0};
    dhow_tensor *value = NULL;
    void *data;
    dhow_status status = wire_receive(&t, WIRE_TAG_HEADER, &got, sizeof got);
    if (status == DHOW_OK) status = wire_wait(&t);
    if (status == DHOW_OK) status = mpi_check_message(&got, MESSAGE_PARAMETER, 0);
    dhow_status fits = status == DHOW_OK ? check_parameter(m, model, index, &got) : DHOW_OK;
    char why[512];
    (void)snprintf(why, sizeof why, "%s", dhow_last_error());
    if (status == DHOW_OK) status = mpi_make(m, &got.tensors[0], &value, &data);
    if (status == DHOW_OK)
        status = wire_receive(&t, WIRE_TAG_DATA, data, (size_t)got.tensors[0].bytes);
    if (status == DHOW_OK) status = wire_wait(&t);
    if (status == DHOW_OK && fits == DHOW_OK)
        status = dhow_model_set_parameter(model, got.text, value);
    wire_end(&t);
    dhow_tensor_release(value);
    return status == DHOW_OK && fits != DHOW_OK ? dhow_set_error(fits, "%s", why) : status;
}

dhow_status mpi_agree(dhow_mpi *m, dhow_status own) {
    message text = {.magic = MESSAGE_MAGIC, .kind = MESSAGE_PARAMETER, .status = (int32_t)own};
    if (own != DHOW_OK) {
        (void)snprintf(text.text, sizeof text.text, "rank %d (%s): %s", m->wire.rank,
                       m->wire.hosts[m->wire.rank], dhow_last_error());
    }
    message worst = text;
    for (int round = 0; round < 2; round++) { /* to rank 0, and back */
        for (int peer = 0; peer < m->wire.size; peer++) {
            bool sends = (m->wire.rank == 0) == (round == 1);
            if (peer == m->wire.rank || (m->wire.rank != 0 && peer != 0)) continue;
            message got = {0};
            wire_transfer t = {.wire = &m->wire, .peer = peer};
            dhow_status status = sends ? wire_send(&t, WIRE_TAG_HEADER, &worst, sizeof worst)
                                       : wire_receive(&t, WIRE_TAG_HEADER, &got, sizeof got);
            if (status == DHOW_OK) status = wire_wait(&t);
            wire_end(&t);
            if (status == DHOW_OK && !sends)
                status = mpi_check_message(&got, MESSAGE_PARAMETER, peer);
            if (status != DHOW_OK && worst.status == DHOW_OK) {
                worst.status = (int32_t)status;
                (void)snprintf(worst.text, sizeof worst.text, "%s", dhow_last_error());
            }
            if (status == DHOW_OK && !sends && got.status != DHOW_OK && worst.status == DHOW_OK)
                worst = got;
        }
    }
    if (worst.status == DHOW_OK) return DHOW_OK;
    return dhow_set_error((dhow_status)worst.status, "%s", worst.text);
}

dhow_status mpi_share_parameters(dhow_mpi *m, dhow_model *model) {
    uint32_t count = dhow_model_parameter_count(model), expected = count;
    dhow_status status = DHOW_OK;
    if (m->wire.size == 1) return DHOW_OK;
    for (int peer = 1; m->wire.rank == 0 && peer < m->wire.size; peer++) {
        wire_transfer t = {.wire = &m->wire, .peer = peer};
        dhow_status one = wire_send(&t, WIRE_TAG_HEADER, &count, sizeof count);
        if (one == DHOW_OK) one = wire_wait(&t);
        wire_end(&t);
        for (uint32_t i = 0; i < count && one == DHOW_OK; i++)
            one = send_parameter(m, model, i, peer);
        if (status == DHOW_OK) status = one;
    }
    if (m->wire.rank != 0) {
        wire_transfer t = {.wire = &m->wire, .peer = 0};
        status = wire_receive(&t, WIRE_TAG_HEADER, &expected, sizeof expected);
        if (status == DHOW_OK) status = wire_wait(&t);
        wire_end(&t);
        for (uint32_t i = 0; status != DHOW_TIMED_OUT && i < expected; i++) {
            dhow_status one = receive_one(m, model, i);
            if (status == DHOW_OK) status = one;
        }
        if (status == DHOW_OK && expected != count) {
            status = dhow_set_error(DHOW_INVALID_ARGUMENT,
                                    "dhow_mpi_create: rank 0's model has %u parameters, rank %d's "
                                    "has %u; all ranks need the same model",
                                    expected, m->wire.rank, count);
        }
    }
    return mpi_agree(m, status);
}
