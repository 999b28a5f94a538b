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
#include "parallel/comm.h"
#include "stream/stream.h"
#include "tensor/tensor.h"
#include "train/train.h"

enum { FAILED, COUNT, STEPS, SQUARES, ROWS }; /* numbers of a backward; the last of each process */
enum { MOST_PROCESSES = 1 << 20 };
static const int64_t k_bucket_bytes = INT64_C(25) << 20; /* as DistributedDataParallel's */

dhow_status dhowi_group_take(const dhow_process_group *given, const char *function,
                             dhow_process_group *out) {
    dhow_process_group own;
    DHOWI_TRY(DHOWI_STRUCT_IN(dhow_process_group, given, &own, function, "process_group"));
    if (own.all_reduce == NULL)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: process_group has no all_reduce", function);
    if (own.size > MOST_PROCESSES)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: process_group: %u processes; 1 to %d are allowed", function,
                          own.size, MOST_PROCESSES);
    if (own.rank >= own.size)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: process_group: rank %u of %u processes",
                          function, own.rank, own.size);
    *out = own;
    return DHOW_OK;
}

dhow_status dhowi_group_add_up(const dhow_process_group *g, dhow_dtype dtype, void *data,
                               int64_t count) {
    dhowi_error_clear();
    dhow_status status = g->all_reduce(g->user, dtype, data, count);
    if (status == DHOW_OK) return DHOW_OK;
    if (dhow_last_error()[0] != '\0')
        return dhowi_fail_prefix(status, "process %u of %u", g->rank, g->size);
    return dhowi_fail(status,
                      "process %u of %u: the group's all_reduce failed with %s and gave no reason, "
                      "as dhow_set_error() would",
                      g->rank, g->size, dhow_status_name(status));
}

/* What this process met comes first. */
static dhow_status say(const dhow_process_group *g, const dhowi_saved_error *own, double failed) {
    if (own->status != DHOW_OK) return dhowi_error_raise(own);
    if (failed == 0) return DHOW_OK;
    return dhowi_fail(DHOW_UNAVAILABLE,
                      "process %u of %u: %g of the others failed, and tell why there; parameters "
                      "are those before",
                      g->rank, g->size, failed);
}

void dhowi_group_note(dhowi_saved_error *own, dhow_status status) {
    if (status != DHOW_OK && own->status == DHOW_OK) dhowi_error_save(own, status);
}

dhow_status dhowi_group_place(const dhow_trainer *t, dhow_status own, double count, int64_t rows,
                              dhowi_place *out) {
    const dhow_process_group *g = &t->group;
    const double step = (double)(t->steps & 0xffff), size = g->size;
    dhowi_saved_error error = {.status = DHOW_OK};
    double *numbers = t->numbers;
    dhowi_group_note(&error, own);
    memset(numbers, 0, ((size_t)g->size + ROWS) * sizeof *numbers);
    numbers[FAILED] = own != DHOW_OK;
    numbers[COUNT] = own == DHOW_OK ? count : 0;
    numbers[STEPS] = step;
    numbers[SQUARES] = step * step;
    numbers[ROWS + g->rank] = own == DHOW_OK ? (double)rows : 0;
    DHOWI_TRY(dhowi_group_add_up(g, DHOW_F64, numbers, (int64_t)g->size + ROWS));
    *out = (dhowi_place){.count = numbers[COUNT]};
    for (uint32_t i = 0; i < g->size; i++) {
        out->rows += (int64_t)numbers[ROWS + i];
        if (i < g->rank) out->first += (int64_t)numbers[ROWS + i];
    }
    DHOWI_TRY(say(g, &error, numbers[FAILED]));
    if (numbers[STEPS] * numbers[STEPS] == numbers[SQUARES] * size) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "process %u of %u has made %llu steps, others another number; let all "
                      "load the same checkpoint",
                      g->rank, g->size, (unsigned long long)t->steps);
}

dhow_status dhowi_group_agree(const dhow_process_group *g, const dhowi_saved_error *own,
                              double *loss, bool *again) {
    const bool failed = own->status != DHOW_OK;
    double numbers[] = {failed, failed ? 0 : *loss, again != NULL && *again};
    DHOWI_TRY(dhowi_group_add_up(g, DHOW_F64, numbers, 3));
    *loss = numbers[1];
    if (again != NULL) *again = numbers[2] > 0;
    return say(g, own, numbers[0]);
}

/* ---- the samples of a batch that devices or processes share ---- */

/* The first extent of inputs and target. */
static dhow_status count_rows(const dhow_trainer *t, dhow_tensor *const *inputs,
                              dhow_tensor *target, int64_t *rows) {
    char text[160];
    *rows = t->group.size > 1 && t->input_count > 0 && inputs[0] == NULL ? 0 : -1;
    if (*rows == 0) return DHOW_OK;
    for (uint32_t i = 0; i <= t->input_count; i++) {
        const dhow_tensor *x = i < t->input_count ? inputs[i] : target;
        if (i == t->input_count && !t->has_target) break;
        DHOWI_TRY(dhowi_tensor_check(x, "batch", i < t->input_count ? "input" : "target"));
        if (x->rank > 0 && (*rows < 0 || x->shape[0] == *rows)) {
            *rows = x->shape[0];
            continue;
        }
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s %u is %s; samples are the first dimension, of the same extent in "
                          "all inputs and the target",
                          i < t->input_count ? "input" : "target", i < t->input_count ? i : 0,
                          dhowi_tensor_text(x, text, sizeof text));
    }
    if (*rows > 0 || t->group.size > 1) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "the batch has no samples");
}

dhow_status dhowi_find_place(const dhow_trainer *t, dhow_status own, dhow_tensor *const *inputs,
                             dhow_tensor *target, int64_t *rows, dhowi_place *out) {
    double count = 0;
    if (own == DHOW_OK) own = count_rows(t, inputs, target, rows);
    if (own == DHOW_OK) own = dhowi_loss_count(t, target, *rows, &count);
    *out = (dhowi_place){.count = count, .rows = *rows};
    if (t->group.size == 0) return own;
    DHOWI_TRY(dhowi_group_place(t, own, count, *rows, out));
    if (out->rows > 0) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "no process has samples");
}

/* ---- arrays ---- */

static int64_t bucket_of(dhow_dtype dtype) {
    return k_bucket_bytes / (int64_t)dhow_dtype_bytes(dtype);
}

dhow_status dhowi_group_make(dhow_trainer *t) {
    const int64_t most = DHOWI_MAX(t->count, t->statistic_elements), bucket = bucket_of(t->dtype);
    const int64_t count = dhowi_ceil_div(most, bucket);
    if (t->group.size == 0) return DHOW_OK;
    t->numbers = dhowi_alloc_array((size_t)t->group.size + ROWS, sizeof *t->numbers);
    if (t->numbers == NULL) return dhowi_fail_memory("process_group");
    if (t->group.size == 1 || t->parameters->storage->host != NULL) return DHOW_OK;
    t->buckets = dhowi_alloc_array((size_t)count + 1, sizeof(dhow_tensor *));
    if (t->buckets == NULL) return dhowi_fail_memory("process_group");
    for (; t->bucket_count < count; t->bucket_count++) {
        const int64_t elements = DHOWI_MIN(bucket, most - t->bucket_count * bucket);
        DHOWI_TRY(dhow_tensor_create(t->model->context->cpu, t->dtype, 1, &elements,
                                     &t->buckets[t->bucket_count]));
    }
    return DHOW_OK;
}

void dhowi_group_end(dhow_trainer *t) {
    dhowi_comm_end(t->comm);
    for (int64_t i = 0; i < t->bucket_count; i++) dhow_tensor_release(t->buckets[i]);
    dhowi_free(t->buckets);
    dhowi_free(t->numbers);
}

/* Bucket i of an array, to the host or back. */
static dhow_status copy_part(dhow_stream *stream, dhow_tensor *array, int64_t i, dhow_tensor *host,
                             bool back) {
    const int64_t bucket = bucket_of(array->dtype),
                  elements = DHOWI_MIN(bucket, array->count - i * bucket);
    dhow_tensor *part, *there = NULL;
    DHOWI_TRY(dhow_tensor_narrow(array, 0, i * bucket, elements, &part));
    dhow_status status = dhow_tensor_narrow(host, 0, 0, elements, &there);
    if (status == DHOW_OK)
        status = back ? dhow_copy_async(stream, there, part, 0)
                      : dhow_copy_async(stream, part, there, 0);
    dhow_tensor_release(there);
    dhow_tensor_release(part);
    return status;
}

/* The bytes of a tensor of the host: once they are there, unless this process has failed. */
static char *bytes_of(dhow_tensor *t, dhowi_saved_error *own) {
    void *data;
    if (own->status == DHOW_OK) dhowi_group_note(own, dhow_tensor_host_ptr(t, &data));
    return (char *)t->storage->host + dhowi_tensor_offset_bytes(t);
}

/* Buckets leave the device one after the other: each is added up while later ones travel. */
static dhow_status through_host(const dhow_trainer *t, dhow_stream *stream, dhow_tensor *array,
                                dhowi_saved_error *own) {
    const int64_t bucket = bucket_of(array->dtype), count = dhowi_ceil_div(array->count, bucket);
    for (int64_t i = 0; i < count && own->status == DHOW_OK; i++)
        dhowi_group_note(own, copy_part(stream, array, i, t->buckets[i], false));
    for (int64_t i = 0; i < count; i++) {
        char *data = bytes_of(t->buckets[i], own);
        DHOWI_TRY(dhowi_group_add_up(&t->group, array->dtype, data,
                                     DHOWI_MIN(bucket, array->count - i * bucket)));
        if (own->status == DHOW_OK)
            dhowi_group_note(own, copy_part(stream, array, i, t->buckets[i], true));
    }
    return DHOW_OK;
}

static dhow_status in_place(const dhow_process_group *g, dhow_tensor *array,
                            dhowi_saved_error *own) {
    const int64_t bucket = bucket_of(array->dtype);
    char *data = bytes_of(array, own);
    for (int64_t at = 0; at < array->count; at += bucket)
        DHOWI_TRY(dhowi_group_add_up(g, array->dtype,
                                     data + (uint64_t)at * dhow_dtype_bytes(array->dtype),
                                     DHOWI_MIN(bucket, array->count - at)));
    return DHOW_OK;
}

/* ---- by the devices themselves ---- */

enum { ABLE, ID, ID_END = ID + DHOW_COLL_ID_BYTES, JOIN_MS = 30000 };

static void tell_of_host(const dhow_trainer *t, dhow_log_level level, bool own) {
    dhowi_log_line(&t->model->context->log, level,
                   "process %u of %u: gradients go by way of the host: %s", t->group.rank,
                   t->group.size, own ? dhow_last_error() : "a device of another process cannot");
    dhowi_error_clear();
}

/* All do the same, whatever becomes of it in each. */
static dhow_status join_all(dhow_trainer *t, const dhow_coll_id *id) {
    const dhow_process_group *g = &t->group;
    dhowi_saved_error own = {.status = DHOW_OK};
    dhowi_group_note(&own,
                     dhowi_comm_join(t->graph->device, id, g->rank, g->size, JOIN_MS, &t->comm));
    double joined = own.status == DHOW_OK;
    DHOWI_TRY(dhowi_group_add_up(g, DHOW_F64, &joined, 1));
    if (joined == (double)g->size) return DHOW_OK;
    if (own.status != DHOW_OK) (void)dhowi_error_raise(&own);
    tell_of_host(t, DHOW_LOG_WARN, own.status != DHOW_OK);
    dhowi_comm_end(t->comm);
    t->comm = NULL;
    return DHOW_OK;
}

/* The first process's id reaches the others as numbers. */
dhow_status dhowi_group_connect(dhow_trainer *t) {
    const dhow_process_group *g = &t->group;
    double numbers[ID_END] = {0};
    dhow_coll_id id = {{0}};
    if (g->size < 2) return DHOW_OK;
    dhow_status able = DHOW_UNSUPPORTED;
    if (t->parameters->storage->host == NULL && t->model->context->collectives)
        able = dhowi_comm_find(t->graph->device, g->rank == 0 ? &id : NULL);
    else
        (void)dhowi_fail(able, "%s", "its device is the CPU, or DHOW_COLLECTIVES is off");
    dhowi_saved_error own = {.status = DHOW_OK};
    dhowi_group_note(&own, able);
    numbers[ABLE] = able == DHOW_OK;
    for (int i = 0; i < DHOW_COLL_ID_BYTES; i++) numbers[ID + i] = id.bytes[i];
    DHOWI_TRY(dhowi_group_add_up(g, DHOW_F64, numbers, ID_END));
    for (int i = 0; i < DHOW_COLL_ID_BYTES; i++) id.bytes[i] = (uint8_t)numbers[ID + i];
    if (numbers[ABLE] == (double)g->size) return join_all(t, &id);
    if (own.status != DHOW_OK) (void)dhowi_error_raise(&own);
    tell_of_host(t, DHOW_LOG_INFO, own.status != DHOW_OK);
    return DHOW_OK;
}

/* Whether all processes' sums may begin early, and the first one's size of buckets, for all. A
 * double is exact up to 2^53. */
dhow_status dhowi_group_agree_early(const dhow_trainer *t, bool able, uint64_t *bucket_bytes,
                                    bool *out) {
    const dhow_process_group *g = &t->group;
    const uint64_t bytes = DHOWI_MIN(*bucket_bytes, UINT64_C(1) << 53);
    double numbers[] = {able && g->any_thread != 0, g->rank == 0 ? (double)bytes : 0};
    DHOWI_TRY(dhowi_group_add_up(g, DHOW_F64, numbers, 2));
    *out = numbers[0] == (double)g->size;
    *bucket_bytes = (uint64_t)numbers[1];
    return DHOW_OK;
}

static dhow_status sum_on_devices(const dhow_trainer *t, dhow_tensor *array) {
    const dhowi_comm_part part = {array, array};
    uint32_t rank;
    DHOWI_TRY(dhowi_comm_run(t->comm, DHOW_COLL_ALL_REDUCE, 0, &part, array->count, true, &rank));
    return dhowi_comm_wait(t->comm, dhowi_comm_patience(dhowi_tensor_bytes(array)), &rank);
}

/* All have come before the devices begin, for those would wait for a process that has died. Where
 * one cannot go on this way, none does, from the next sum on. */
static dhow_status by_devices(const dhow_trainer *t, dhow_tensor *array, dhowi_saved_error *own,
                              bool *done) {
    const bool usable = dhowi_comm_is_usable(t->comm);
    double numbers[] = {own->status != DHOW_OK, usable};
    DHOWI_TRY(dhowi_group_add_up(&t->group, DHOW_F64, numbers, 2));
    *done = numbers[1] == (double)t->group.size;
    if (!*done && usable) {
        dhowi_comm_give_up(t->comm);
        tell_of_host(t, DHOW_LOG_WARN, false);
    }
    if (!*done || numbers[0] > 0) return DHOW_OK; /* all hear of a failure when they agree */
    const dhow_status status = sum_on_devices(t, array);
    if (status == DHOW_OK) return DHOW_OK;
    dhowi_group_note(own, status);
    tell_of_host(t, DHOW_LOG_WARN, true);
    dhowi_comm_give_up(t->comm);
    return DHOW_OK;
}

dhow_status dhowi_group_sum(const dhow_trainer *t, dhow_stream *stream, dhow_tensor *array,
                            dhowi_saved_error *own) {
    bool done = false;
    if (t->group.size == 1 || array->count == 0) return DHOW_OK;
    if (t->comm != NULL) DHOWI_TRY(by_devices(t, array, own, &done));
    if (done) return DHOW_OK;
    return array->storage->host != NULL ? in_place(&t->group, array, own)
                                        : through_host(t, stream, array, own);
}

dhow_status dhowi_group_take_first(const dhow_trainer *t, dhow_stream *stream, dhow_tensor *array,
                                   dhowi_saved_error *own) {
    if (array == NULL || array->count == 0) return DHOW_OK;
    if (t->group.rank != 0 && own->status == DHOW_OK)
        dhowi_group_note(own, dhow_fill(stream, array, 0));
    return dhowi_group_sum(t, stream, array, own);
}
