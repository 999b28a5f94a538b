/* SPDX-License-Identifier: Apache-2.0
 *
 * Where predictions go: tensors, .npy files, or the caller's function.
 */
#include "data/sink.h"

#include <inttypes.h>
#include <string.h>

#include "base/files/file.h"
#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "formats/files.h"

/* ---- all sinks ---- */

static dhow_status new_sink(const char *function, dhow_context *context, size_t state_bytes,
                            dhow_sink **out) {
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, function, "context"));
    void *state = dhowi_alloc(state_bytes);
    dhow_sink *sink = state != NULL ? dhowi_handle_new(DHOWI_SINK, sizeof *sink) : NULL;
    if (sink == NULL) {
        dhowi_free(state);
        return dhowi_fail_memory(function);
    }
    dhowi_handle_retain(&context->handle);
    sink->context = context;
    sink->state = state;
    *out = sink;
    return DHOW_OK;
}

void dhow_sink_release(dhow_sink *sink) {
    DHOWI_KEEP_ERROR;
    if (!dhowi_handle_is(sink, DHOWI_SINK) || !dhowi_handle_drop(&sink->handle)) return;
    dhow_context *context = sink->context;
    sink->end(sink->state);
    dhowi_free(sink->state);
    dhowi_handle_free(DHOWI_SINK, sink);
    dhowi_context_drop(context);
}

dhow_status dhowi_sink_begin(dhow_sink *sink, const char *function) {
    DHOWI_TRY(dhowi_handle_check(sink, DHOWI_SINK, function, "sink"));
    DHOWI_TRY(dhowi_device_usable(sink->context->cpu)); /* not in a forked child */
    return dhowi_single_begin(&sink->single, function, "sink");
}

void dhowi_sink_end(dhow_sink *sink) { dhowi_single_end(&sink->single); }

dhow_status dhow_sink_finish(dhow_sink *sink) {
    DHOWI_TRY(dhowi_sink_begin(sink, "dhow_sink_finish"));
    dhow_status status = sink->finish != NULL ? sink->finish(sink->state) : DHOW_OK;
    dhowi_sink_end(sink);
    return status;
}

dhow_status dhowi_sink_take(dhow_sink *sink, const dhow_batch *results) {
    DHOWI_TRY(dhowi_device_usable(sink->context->cpu));
    return sink->take(sink->state, results);
}

static const void *rows_of(const dhow_tensor *t) {
    return (const char *)t->storage->host + dhowi_tensor_offset_bytes(t);
}

/* Rows follow rows: everything but the first extent stays the same. */
static dhow_status check_rows(uint32_t output, const dhow_tensor *t, dhow_dtype dtype, int32_t rank,
                              const int64_t *shape) {
    if (t->rank > 0 && t->rank == rank && t->dtype == dtype &&
        memcmp(t->shape + 1, shape + 1, (size_t)(rank - 1) * sizeof shape[0]) == 0)
        return DHOW_OK;
    char text[192];
    (void)dhowi_tensor_text(t, text, sizeof text);
    if (t->rank == 0) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "sink: output %u is %s; rows of batches cannot be made of single values",
                          output, text);
    }
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "sink: output %u is %s, which does not fit the rows of the first batch",
                      output, text);
}

static dhow_status check_outputs(uint32_t count, uint32_t wanted, const char *what) {
    if (count == wanted) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT, "sink: %u outputs, but %u %s", count, wanted, what);
}

/* ---- tensors ---- */

typedef struct tensor_rows {
    dhow_sink *sink;
    uint32_t count;
    dhow_tensor *rooms[DHOW_MAX_COLUMNS]; /* more rows than there are yet */
    int64_t rows[DHOW_MAX_COLUMNS];
} tensor_rows;

/* Room for `wanted` rows like those of t. */
static dhow_status make_room(tensor_rows *all, uint32_t i, const dhow_tensor *t, int64_t wanted) {
    dhow_tensor *old = all->rooms[i], *room;
    int64_t shape[DHOW_MAX_RANK];
    if (old != NULL && old->shape[0] >= wanted) return DHOW_OK;
    memcpy(shape, t->shape, sizeof shape);
    shape[0] = old != NULL ? DHOWI_MAX(wanted, old->shape[0] * 2) : wanted;
    DHOWI_TRY(dhow_tensor_create(all->sink->context->cpu, t->dtype, t->rank, shape, &room));
    if (old != NULL)
        memcpy(room->storage->host, old->storage->host,
               (size_t)all->rows[i] * (size_t)(dhowi_tensor_bytes(t) / (uint64_t)t->shape[0]));
    dhow_tensor_release(old);
    all->rooms[i] = room;
    return DHOW_OK;
}

static dhow_status reserve_rows(tensor_rows *all, uint32_t i, const dhow_tensor *t,
                                int64_t batch_samples) {
    const dhow_tensor *room = all->rooms[i];
    if (room == NULL) {
        DHOWI_TRY(check_rows(i, t, t->dtype, t->rank, t->shape));
        int64_t rows = t->shape[0];
        if (rows == 0) return DHOW_OK;
        if (rows == batch_samples) rows = DHOWI_MAX(rows, all->sink->expected_samples);
        DHOWI_TRY(make_room(all, i, t, rows));
        room = all->rooms[i];
    }
    DHOWI_TRY(check_rows(i, t, room->dtype, room->rank, room->shape));
    return make_room(all, i, t, all->rows[i] + t->shape[0]);
}

static void add_rows(tensor_rows *all, uint32_t i, const dhow_tensor *t) {
    if (t->shape[0] == 0) return;
    uint64_t bytes = dhowi_tensor_bytes(t);
    char *to = all->rooms[i]->storage->host;
    memcpy(to + (uint64_t)all->rows[i] * (bytes / (uint64_t)t->shape[0]), rows_of(t),
           (size_t)bytes);
    all->rows[i] += t->shape[0];
}

/* A batch comes whole or not at all: it may come again. */
static dhow_status take_tensors(void *state, const dhow_batch *results) {
    tensor_rows *all = state;
    if (all->count == 0) all->count = results->tensor_count;
    DHOWI_TRY(check_outputs(results->tensor_count, all->count, "came before"));
    for (uint32_t i = 0; i < all->count; i++)
        DHOWI_TRY(reserve_rows(all, i, results->tensors[i], results->sample_count));
    for (uint32_t i = 0; i < all->count; i++) add_rows(all, i, results->tensors[i]);
    return DHOW_OK;
}

static void end_tensors(void *state) {
    tensor_rows *all = state;
    for (uint32_t i = 0; i < all->count; i++) dhow_tensor_release(all->rooms[i]);
}

dhow_status dhow_sink_to_tensors(dhow_context *context, dhow_sink **out) {
    DHOWI_TRY(new_sink("dhow_sink_to_tensors", context, sizeof(tensor_rows), out));
    ((tensor_rows *)(*out)->state)->sink = *out;
    (*out)->take = take_tensors;
    (*out)->end = end_tensors;
    return DHOW_OK;
}

dhow_status dhow_sink_tensor(dhow_sink *sink, uint32_t output, dhow_tensor **out) {
    static const char function[] = "dhow_sink_tensor";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_handle_check(sink, DHOWI_SINK, function, "sink"));
    if (sink->take != take_tensors) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: the sink was not made by dhow_sink_to_tensors()", function);
    }
    const tensor_rows *all = sink->state;
    if (all->count == 0) return dhowi_fail(DHOW_NOT_READY, "%s: no results have come", function);
    if (output >= all->count) {
        return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: output %u; there are %u", function, output,
                          all->count);
    }
    if (all->rooms[output] == NULL)
        return dhowi_fail(DHOW_NOT_READY, "%s: no rows of output %u have come", function, output);
    return dhow_tensor_slice(all->rooms[output], 0, 0, all->rows[output], 1, out);
}

/* ---- .npy files ---- */

enum { HEADER_BYTES = 320 }; /* the number of rows is known at the end */

typedef struct file_rows {
    const dhow_sink *sink;
    uint32_t count;
    char *paths[DHOW_MAX_COLUMNS];
    dhowi_file_writer files[DHOW_MAX_COLUMNS];
    dhow_dtype dtypes[DHOW_MAX_COLUMNS];
    int32_t ranks[DHOW_MAX_COLUMNS];
    int64_t shapes[DHOW_MAX_COLUMNS][DHOW_MAX_RANK]; /* [0]: rows so far */
    uint64_t bytes[DHOW_MAX_COLUMNS];                /* with them; 0: the file is not begun */
    bool torn;                                       /* part of a batch is there and stays */
    bool finished;
    dhow_status outcome; /* of finishing */
} file_rows;

static dhow_status append_bf16(dhowi_file_writer *file, const dhow_tensor *t) {
    uint32_t *wide = dhowi_alloc_array((size_t)t->count, sizeof *wide);
    if (wide == NULL) return dhowi_fail_memory(file->path);
    dhowi_npy_widen_bf16(rows_of(t), wide, t->count);
    dhow_status status = dhowi_file_append(file, wide, (size_t)t->count * sizeof *wide);
    dhowi_free(wide);
    return status;
}

static dhow_status begin_file(file_rows *all, uint32_t i, const dhow_tensor *t) {
    char header[DHOWI_NPY_WRITTEN_BYTES];
    all->dtypes[i] = t->dtype;
    all->ranks[i] = t->rank;
    memcpy(all->shapes[i], t->shape, sizeof all->shapes[i]);
    all->shapes[i][0] = 0;
    DHOWI_TRY(dhowi_file_begin(all->paths[i], &all->files[i]));
    size_t bytes = dhowi_npy_header(t->dtype, t->rank, t->shape, HEADER_BYTES, header);
    return dhowi_file_append(&all->files[i], header, bytes);
}

static dhow_status append_rows(file_rows *all, uint32_t i, const dhow_tensor *t) {
    dhowi_file_writer *file = &all->files[i];
    if (file->path == NULL) DHOWI_TRY(begin_file(all, i, t));
    if (t->dtype == DHOW_BF16) return append_bf16(file, t);
    return dhowi_file_append(file, rows_of(t), (size_t)dhowi_tensor_bytes(t));
}

/* Takes back what was written of a batch. */
static void cut_back(file_rows *all) {
    for (uint32_t i = 0; i < all->count; i++) {
        if (all->files[i].path == NULL) continue;
        if (all->bytes[i] == 0) {
            dhowi_file_drop(&all->files[i]);
        } else if (dhowi_file_cut(&all->files[i], all->bytes[i]) != DHOW_OK) {
            all->torn = true;
        }
    }
}

static dhow_status check_files(const file_rows *all, const dhow_batch *results) {
    if (all->finished)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "sink: it is finished; make another one");
    if (all->torn)
        return dhowi_fail(DHOW_IO_ERROR, "sink: %s is damaged by a failed write", all->paths[0]);
    DHOWI_TRY(check_outputs(results->tensor_count, all->count, "files"));
    for (uint32_t i = 0; i < all->count; i++) {
        const dhow_tensor *t = results->tensors[i];
        if (all->bytes[i] == 0) {
            DHOWI_TRY(check_rows(i, t, t->dtype, t->rank, t->shape));
        } else {
            DHOWI_TRY(check_rows(i, t, all->dtypes[i], all->ranks[i], all->shapes[i]));
        }
    }
    return DHOW_OK;
}

/* A batch goes to all files or to none: it may come again when there is room on the disk. */
static dhow_status take_files(void *state, const dhow_batch *results) {
    file_rows *all = state;
    DHOWI_TRY(check_files(all, results));
    dhow_status status = DHOW_OK;
    for (uint32_t i = 0; i < all->count && status == DHOW_OK; i++)
        status = append_rows(all, i, results->tensors[i]);
    if (status != DHOW_OK) {
        dhowi_saved_error first;
        dhowi_error_save(&first, status);
        cut_back(all);
        return dhowi_error_raise(&first);
    }
    for (uint32_t i = 0; i < all->count; i++) {
        const dhow_tensor *t = results->tensors[i];
        const uint64_t widened = t->dtype == DHOW_BF16 ? 2 : 1;
        all->bytes[i] += widened * dhowi_tensor_bytes(t) + (all->bytes[i] == 0 ? HEADER_BYTES : 0);
        all->shapes[i][0] += t->shape[0];
    }
    return DHOW_OK;
}

static dhow_status finish_files(void *state) {
    file_rows *all = state;
    dhow_status status = DHOW_OK;
    char header[DHOWI_NPY_WRITTEN_BYTES];
    if (all->finished && all->outcome != DHOW_OK)
        return dhowi_fail(all->outcome, "dhow_sink_finish: it has failed before");
    if (all->finished) return DHOW_OK;
    if (all->torn)
        return dhowi_fail(DHOW_IO_ERROR, "sink: %s is damaged by a failed write", all->paths[0]);
    for (uint32_t i = 0; i < all->count && status == DHOW_OK; i++) {
        if (all->files[i].path == NULL)
            return dhowi_fail(DHOW_NOT_READY, "%s: no results have come", all->paths[i]);
        size_t bytes =
            dhowi_npy_header(all->dtypes[i], all->ranks[i], all->shapes[i], HEADER_BYTES, header);
        status = dhowi_file_rewrite(&all->files[i], 0, header, bytes);
    }
    if (status != DHOW_OK) return status;
    all->finished = true;
    for (uint32_t i = 0; i < all->count && status == DHOW_OK; i++)
        status = dhowi_file_commit(&all->files[i]);
    return all->outcome = status;
}

static void end_files(void *state) {
    file_rows *all = state;
    const bool forked = all->sink->context->cpu->fork_generation != dhowi_fork_generation();
    for (uint32_t i = 0; i < all->count; i++) {
        if (forked) dhowi_file_abandon(&all->files[i]); /* the parent still writes it */
        dhowi_file_drop(&all->files[i]);
        dhowi_free(all->paths[i]);
    }
}

/* Told now, not when the first batch has been computed. */
static dhow_status check_place(const char *path) {
    dhowi_file_writer writer;
    DHOWI_TRY(dhowi_file_begin(path, &writer));
    dhowi_file_drop(&writer);
    return DHOW_OK;
}

dhow_status dhow_sink_to_npy(dhow_context *context, const char *const *paths, uint32_t count,
                             dhow_sink **out) {
    static const char function[] = "dhow_sink_to_npy";
    DHOWI_TRY(new_sink(function, context, sizeof(file_rows), out));
    file_rows *all = (*out)->state;
    all->sink = *out;
    (*out)->take = take_files;
    (*out)->finish = finish_files;
    (*out)->end = end_files;
    dhow_status status = DHOW_OK;
    if (paths == NULL || count == 0 || count > DHOW_MAX_COLUMNS) {
        status = dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %u files; 1 to %d are allowed", function,
                            paths == NULL ? 0 : count, DHOW_MAX_COLUMNS);
    }
    for (; status == DHOW_OK && all->count < count; all->count++) {
        if (paths[all->count] == NULL) {
            status = dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: path %u is NULL", function, all->count);
            break;
        }
        for (uint32_t k = 0; k < all->count && status == DHOW_OK; k++) {
            if (strcmp(all->paths[k], paths[all->count]) == 0)
                status = dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: paths %u and %u are both %s",
                                    function, k, all->count, all->paths[k]);
        }
        if (status != DHOW_OK) break;
        all->paths[all->count] = dhowi_strdup(paths[all->count]);
        status = all->paths[all->count] == NULL ? dhowi_fail_memory(function)
                                                : check_place(paths[all->count]);
    }
    if (status == DHOW_OK) return DHOW_OK;
    dhow_sink_release(*out);
    *out = NULL;
    return status;
}

/* ---- the caller's function ---- */

typedef struct function_call {
    dhow_status (*take)(void *user, const dhow_batch *results);
    void *user;
} function_call;

static dhow_status take_by_function(void *state, const dhow_batch *results) {
    const function_call *call = state;
    dhowi_error_clear();
    return dhowi_answer_of("the sink's function", call->take(call->user, results));
}

static void end_function(void *state) { (void)state; }

dhow_status dhow_sink_to_function(dhow_context *context,
                                  dhow_status (*take)(void *user, const dhow_batch *results),
                                  void *user, dhow_sink **out) {
    static const char function[] = "dhow_sink_to_function";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    if (take == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: take is NULL", function);
    DHOWI_TRY(new_sink(function, context, sizeof(function_call), out));
    *(function_call *)(*out)->state = (function_call){take, user};
    (*out)->take = take_by_function;
    (*out)->end = end_function;
    return DHOW_OK;
}
