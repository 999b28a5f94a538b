/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that train together: what each tells the others in a backward. One that fails takes
 * part until all know of it, so that none waits for it.
 */
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "base/objects/struct_size.h"
#include "dhow/copy.h"
#include "dhow/create.h"
#include "stream/stream.h"
#include "tensor/tensor.h"
#include "train/train.h"

static const int64_t k_bucket_bytes = INT64_C(25) << 20; /* as DistributedDataParallel's */

dhow_status dhowi_group_take(const dhow_process_group *given, const char *function,
                             dhow_process_group *out) {
    dhow_process_group own;
    DHOWI_TRY(DHOWI_STRUCT_IN(dhow_process_group, given, &own, function, "process_group"));
    if (own.all_reduce == NULL)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: process_group has no all_reduce", function);
    if (own.rank >= own.size)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: process_group: rank %u of %u processes",
                          function, own.rank, own.size);
    *out = own;
    return DHOW_OK;
}

static dhow_status add_up(const dhow_process_group *g, dhow_dtype dtype, void *data,
                          int64_t count) {
    dhowi_error_clear();
    dhow_status status = g->all_reduce(g->user, dtype, data, count);
    if (status == DHOW_OK) return DHOW_OK;
    return dhowi_fail_prefix(status, "process %u of %u", g->rank, g->size);
}

/* What this process met comes first. */
static dhow_status say(const dhow_process_group *g, dhow_status own, const dhowi_saved_error *error,
                       double failed) {
    if (own != DHOW_OK) return dhowi_error_raise(error);
    if (failed == 0) return DHOW_OK;
    return dhowi_fail(DHOW_UNAVAILABLE,
                      "process %u of %u: %g of the others failed, and tell why there; parameters "
                      "are those before",
                      g->rank, g->size, failed);
}

dhow_status dhowi_group_place(const dhow_process_group *g, dhow_status own, uint64_t steps,
                              double count, int64_t rows, dhowi_place *out) {
    enum { FAILED, COUNT, STEPS, SQUARES, ROWS };
    const double step = (double)(steps & 0xffff), size = g->size;
    dhowi_saved_error error;
    if (own != DHOW_OK) dhowi_error_save(&error, own);
    double *numbers = dhowi_alloc_array((size_t)g->size + ROWS, sizeof *numbers);
    if (numbers == NULL) return dhowi_fail_memory("process_group");
    memset(numbers, 0, ((size_t)g->size + ROWS) * sizeof *numbers);
    numbers[FAILED] = own != DHOW_OK;
    numbers[COUNT] = own == DHOW_OK ? count : 0;
    numbers[STEPS] = step;
    numbers[SQUARES] = step * step;
    numbers[ROWS + g->rank] = own == DHOW_OK ? (double)rows : 0;
    dhow_status status = add_up(g, DHOW_F64, numbers, (int64_t)g->size + ROWS);
    *out = (dhowi_place){.count = numbers[COUNT]};
    for (uint32_t i = 0; i < g->size; i++) {
        out->rows += (int64_t)numbers[ROWS + i];
        if (i < g->rank) out->first += (int64_t)numbers[ROWS + i];
    }
    if (status == DHOW_OK) status = say(g, own, &error, numbers[FAILED]);
    if (status == DHOW_OK && numbers[STEPS] * numbers[STEPS] != numbers[SQUARES] * size)
        status = dhowi_fail(DHOW_INVALID_ARGUMENT,
                            "process %u of %u has made %llu steps, others another number; let all "
                            "load the same checkpoint",
                            g->rank, g->size, (unsigned long long)steps);
    dhowi_free(numbers);
    return status;
}

dhow_status dhowi_group_agree(const dhow_process_group *g, dhow_status own, double *loss) {
    double numbers[2] = {own != DHOW_OK, own == DHOW_OK ? *loss : 0};
    dhowi_saved_error error;
    if (own != DHOW_OK) dhowi_error_save(&error, own);
    DHOWI_TRY(add_up(g, DHOW_F64, numbers, 2));
    *loss = numbers[1];
    return say(g, own, &error, numbers[0]);
}

/* ---- arrays ---- */

static dhow_status part_of(dhow_tensor *array, int64_t bucket, int64_t i, dhow_tensor **out) {
    return dhow_tensor_narrow(array, 0, i * bucket, DHOWI_MIN(bucket, array->count - i * bucket),
                              out);
}

static dhow_status copy_part(dhow_stream *stream, dhow_tensor *array, int64_t bucket, int64_t i,
                             dhow_tensor *host, bool back) {
    dhow_tensor *part;
    DHOWI_TRY(part_of(array, bucket, i, &part));
    dhow_status status =
        back ? dhow_copy_async(stream, host, part, 0) : dhow_copy_async(stream, part, host, 0);
    dhow_tensor_release(part);
    return status;
}

/* Buckets leave the device one after the other: each is added up while later ones travel. */
static dhow_status through_host(const dhow_process_group *g, dhow_stream *stream,
                                dhow_tensor *array, int64_t bucket, dhow_tensor **host,
                                int64_t count) {
    void *data;
    for (int64_t i = 0; i < count; i++) {
        const int64_t elements = DHOWI_MIN(bucket, array->count - i * bucket);
        DHOWI_TRY(dhow_tensor_create(array->storage->device->context->cpu, array->dtype, 1,
                                     &elements, &host[i]));
        DHOWI_TRY(copy_part(stream, array, bucket, i, host[i], false));
    }
    for (int64_t i = 0; i < count; i++) {
        DHOWI_TRY(dhow_tensor_host_ptr(host[i], &data));
        DHOWI_TRY(add_up(g, array->dtype, data, host[i]->count));
        DHOWI_TRY(copy_part(stream, array, bucket, i, host[i], true));
    }
    return DHOW_OK;
}

static dhow_status in_place(const dhow_process_group *g, dhow_tensor *array, int64_t bucket) {
    void *data;
    DHOWI_TRY(dhow_tensor_host_ptr(array, &data));
    for (int64_t at = 0; at < array->count; at += bucket)
        DHOWI_TRY(add_up(g, array->dtype,
                         (char *)data + (uint64_t)at * dhow_dtype_bytes(array->dtype),
                         DHOWI_MIN(bucket, array->count - at)));
    return DHOW_OK;
}

dhow_status dhowi_group_sum(const dhow_process_group *g, dhow_stream *stream, dhow_tensor *array) {
    const int64_t bucket = k_bucket_bytes / (int64_t)dhow_dtype_bytes(array->dtype),
                  count = dhowi_ceil_div(array->count, bucket);
    if (g->size == 1 || array->count == 0) return DHOW_OK;
    if (array->storage->host != NULL) return in_place(g, array, bucket);
    dhow_tensor **host = dhowi_alloc_array((size_t)count, sizeof(dhow_tensor *));
    if (host == NULL) return dhowi_fail_memory("process_group");
    memset(host, 0, (size_t)count * sizeof(dhow_tensor *));
    dhow_status status = through_host(g, stream, array, bucket, host, count);
    for (int64_t i = 0; i < count; i++) dhow_tensor_release(host[i]);
    dhowi_free(host);
    return status;
}

dhow_status dhowi_group_take_first(const dhow_process_group *g, dhow_stream *stream,
                                   dhow_tensor *array) {
    if (array == NULL || array->count == 0) return DHOW_OK;
    if (g->rank != 0) DHOWI_TRY(dhow_fill(stream, array, 0));
    return dhowi_group_sum(g, stream, array);
}
