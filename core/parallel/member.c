/* SPDX-License-Identifier: Apache-2.0
 *
 * A member's part of a run, on its thread: its rows of the inputs, its model, its rows of the
 * outputs.
 */
#include <inttypes.h>
#include <string.h>

#include "base/threads/clock.h"
#include "dhow/copy.h"
#include "parallel/parallel.h"
#include "tensor/tensor.h"

void dhowi_drop_tensors(dhow_tensor **tensors, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) dhow_tensor_release(tensors[i]);
}

static dhow_status bring_inputs(const dhowi_member *m, dhow_tensor **there) {
    const dhow_parallel *p = m->owner;
    for (uint32_t i = 0; i < p->input_count; i++) {
        dhow_tensor *part;
        DHOWI_TRY(dhow_tensor_slice(p->job.inputs[i], 0, m->begin, m->begin + m->rows, 1, &part));
        dhow_status status = dhow_tensor_to_async(NULL, part, m->device, &there[i]);
        dhow_tensor_release(part);
        DHOWI_TRY(status);
    }
    return DHOW_OK;
}

/* The whole output, made by the first member that knows its shape. */
static dhow_status whole_output(dhow_parallel *p, uint32_t i, const dhow_tensor *part,
                                int64_t part_rows, dhow_tensor **out) {
    int64_t shape[DHOW_MAX_RANK];
    dhow_status status = DHOW_OK;
    char text[192];
    if (part->rank == 0 || part->shape[0] != part_rows) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "output %u is %s for %" PRId64
                          " rows; only outputs with a row for each row of the inputs can be "
                          "gathered",
                          i, dhowi_tensor_text(part, text, sizeof text), part_rows);
    }
    memcpy(shape, part->shape, sizeof shape);
    shape[0] = p->job.rows;
    pthread_mutex_lock(&p->team.mutex);
    if (p->job.outputs[i] == NULL) {
        status =
            dhow_tensor_create(p->context->cpu, part->dtype, part->rank, shape, &p->job.outputs[i]);
    }
    *out = p->job.outputs[i];
    pthread_mutex_unlock(&p->team.mutex);
    return status;
}

/* Members write different rows of one storage, so their copies need not wait for each other; each
 * follows its own computation, whose stream it is on. */
static dhow_status gather(const dhowi_member *m, dhow_tensor *const *results) {
    dhow_parallel *p = m->owner;
    for (uint32_t i = 0; i < p->output_count; i++) {
        dhow_tensor *whole = NULL, *rows;
        DHOWI_TRY(whole_output(p, i, results[i], m->rows, &whole));
        DHOWI_TRY(dhow_tensor_slice(whole, 0, m->begin, m->begin + m->rows, 1, &rows));
        dhow_status status = dhow_copy_async(NULL, results[i], rows, DHOW_COPY_UNORDERED);
        dhow_tensor_release(rows);
        DHOWI_TRY(status);
    }
    return DHOW_OK;
}

static dhow_status compute(const dhowi_member *m) {
    const dhow_parallel *p = m->owner;
    dhow_tensor *there[DHOW_MAX_COLUMNS] = {NULL}, *results[DHOW_MAX_COLUMNS] = {NULL};
    dhow_stream *stream = NULL;
    dhow_status status = dhow_stream_default(m->device, &stream);
    if (status == DHOW_OK) status = bring_inputs(m, there);
    if (status == DHOW_OK) {
        status = dhow_model_run(m->model, NULL, there, p->input_count, results, p->output_count);
    }
    if (status == DHOW_OK) status = gather(m, results);
    if (status == DHOW_OK) status = dhow_stream_sync(stream);
    dhowi_drop_tensors(there, p->input_count);
    dhowi_drop_tensors(results, p->output_count);
    return status;
}

void dhowi_member_work(void *parallel, uint32_t index) {
    dhowi_member *m = &((dhow_parallel *)parallel)->members[index];
    if (m->rows == 0) return;
    const double start = dhowi_seconds();
    m->status = compute(m);
    m->seconds = dhowi_seconds() - start;
    if (m->status == DHOW_OK) return;
    m->status =
        dhowi_fail_prefix(m->status, "dhow_parallel_run: rows %" PRId64 " to %" PRId64 " on %s",
                          m->begin, m->begin + m->rows - 1, m->device->name);
    dhowi_error_save(&m->error, m->status);
}
