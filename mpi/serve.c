/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks other than 0: they compute what they are sent.
 */
#include <stdio.h>

#include "engine.h"

static dhow_status compute(dhow_mpi *m, const message *asked, wire_transfer *t) {
    dhow_tensor *inputs[DHOW_MAX_COLUMNS] = {NULL}, *outputs[DHOW_MAX_COLUMNS] = {NULL};
    message answer = {.magic = MESSAGE_MAGIC, .kind = MESSAGE_RUN};
    void *data[DHOW_MAX_COLUMNS];
    dhow_status status = DHOW_OK;
    for (uint32_t i = 0; i < asked->tensor_count && status == DHOW_OK; i++) {
        status = mpi_make(m, &asked->tensors[i], &inputs[i], &data[i]);
        if (status == DHOW_OK)
            status = wire_receive(t, WIRE_TAG_DATA, data[i], (size_t)asked->tensors[i].bytes);
    }
    if (status == DHOW_OK) status = wire_wait(t);
    if (status == DHOW_TIMED_OUT) {
        mpi_release_all(inputs);
        return status;
    }
    if (status == DHOW_OK)
        status =
            dhow_parallel_run(m->parallel, inputs, asked->tensor_count, outputs, m->output_count);
    answer.tensor_count = status == DHOW_OK ? m->output_count : 0;
    for (uint32_t i = 0; i < answer.tensor_count && status == DHOW_OK; i++)
        status = mpi_describe(outputs[i], &answer.tensors[i], &data[i]);
    answer.status = (int32_t)status;
    if (status != DHOW_OK) {
        answer.tensor_count = 0;
        (void)snprintf(answer.text, sizeof answer.text, "%s", dhow_last_error());
    }
    status = wire_send(t, WIRE_TAG_HEADER, &answer, sizeof answer);
    for (uint32_t i = 0; i < answer.tensor_count && status == DHOW_OK; i++)
        status = wire_send(t, WIRE_TAG_DATA, data[i], (size_t)answer.tensors[i].bytes);
    if (status == DHOW_OK) status = wire_wait(t);
    mpi_release_all(inputs);
    mpi_release_all(outputs);
    return status;
}

dhow_status dhow_mpi_serve(dhow_mpi *m) {
    static const char function[] = "dhow_mpi_serve";
    TRY(mpi_check(m, function));
    if (m->wire.rank == 0)
        return dhow_set_error(DHOW_INVALID_ARGUMENT, "%s: rank 0 runs, others serve", function);
    for (;;) {
        message asked;
        wire_transfer t = {.wire = &m->wire, .peer = 0};
        dhow_status status = wire_receive(&t, WIRE_TAG_HEADER, &asked, sizeof asked);
        if (status == DHOW_OK) status = wire_wait(&t);
        bool ends = status == DHOW_OK && asked.magic == MESSAGE_MAGIC && asked.kind == MESSAGE_END;
        if (status == DHOW_OK && !ends) status = mpi_check_message(&asked, MESSAGE_RUN, 0);
        if (status == DHOW_OK && !ends) status = compute(m, &asked, &t);
        wire_end(&t);
        if (ends || status != DHOW_OK) return status;
    }
}
