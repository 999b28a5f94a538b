/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets made of others. Each is a source whose read() calls the read of what it is made of with
 * other indices, or changes what that has read.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/memory/array.h"
#include "base/memory/size.h"
#include "base/memory/splitmix64.h"
#include "base/objects/struct_size.h"
#include "base/text/text.h"
#include "data/dataset.h"
#include "data/order.h"

static dhow_status check_indices(const char *function, const dhow_dataset *dataset,
                                 const int64_t *indices, int64_t count) {
    if (count < 0 || (indices == NULL && count > 0))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %" PRId64 " indices%s", function, count,
                          indices == NULL ? " at NULL" : "");
    for (int64_t i = 0; i < count; i++) {
        if (indices[i] >= 0 && indices[i] < dataset->source.sample_count) continue;
        return dhowi_fail(DHOW_OUT_OF_RANGE,
                          "%s: indices[%" PRId64 "] is %" PRId64 ", the dataset has %" PRId64
                          " samples",
                          function, i, indices[i], dataset->source.sample_count);
    }
    return DHOW_OK;
}

dhow_status dhow_dataset_read(dhow_dataset *dataset, const int64_t *indices, int64_t count,
                              dhow_tensor **columns) {
    static const char function[] = "dhow_dataset_read";
    DHOWI_TRY(dhowi_dataset_check(dataset, function));
    if (columns == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: columns is NULL", function);
    const uint32_t column_count = dataset->source.column_count;
    memset(columns, 0, column_count * sizeof columns[0]);
    DHOWI_TRY(check_indices(function, dataset, indices, count));
    void *data[DHOW_MAX_COLUMNS];
    dhow_status status = DHOW_OK;
    for (uint32_t c = 0; c < column_count && status == DHOW_OK; c++) {
        const dhow_dataset_column *column = &dataset->columns[c];
        int64_t shape[DHOW_MAX_RANK] = {count};
        memcpy(shape + 1, column->shape, (size_t)column->rank * sizeof shape[0]);
        status = dhow_tensor_create(dataset->context->cpu, column->dtype, column->rank + 1, shape,
                                    &columns[c]);
        if (status == DHOW_OK) status = dhow_tensor_host_ptr(columns[c], &data[c]);
    }
    if (status == DHOW_OK && count > 0) status = dhowi_dataset_read(dataset, indices, count, data);
    for (uint32_t c = 0; c < column_count && status != DHOW_OK; c++) {
        dhow_tensor_release(columns[c]);
        columns[c] = NULL;
    }
    return status;
}

/* ---- some of the samples ---- */

typedef struct selection {
    dhow_dataset *from;
    int64_t *indices; /* NULL: what an order has from `first` on */
    dhowi_order order;
    int64_t first;
} selection;

static dhow_status read_selection(void *user, const int64_t *indices, int64_t count,
                                  void *const *columns) {
    const selection *s = user;
    int64_t *there = dhowi_alloc_array((size_t)count, sizeof *there);
    if (there == NULL) return dhowi_fail_memory("indices");
    for (int64_t i = 0; i < count; i++)
        there[i] = s->indices != NULL
                       ? s->indices[indices[i]]
                       : (int64_t)dhowi_order_at(&s->order, (uint64_t)(s->first + indices[i]));
    dhow_status status = dhowi_dataset_read(s->from, there, count, columns);
    dhowi_free(there);
    return status;
}

static void release_selection(void *user) {
    selection *s = user;
    dhow_dataset_release(s->from);
    dhowi_free(s->indices);
    dhowi_free(s);
}

/* Takes `given` and retains what it selects from. */
static dhow_status select_samples(const char *function, const selection *given, int64_t count,
                                  dhow_dataset **out) {
    selection *s = dhowi_alloc(sizeof *s);
    if (s == NULL) {
        dhowi_free(given->indices);
        return dhowi_fail_memory(function);
    }
    *s = *given;
    dhowi_handle_retain(&s->from->handle);
    const dhow_dataset_source source =
        DHOW_INIT(dhow_dataset_source, .sample_count = count,
                  .column_count = s->from->source.column_count, .columns = s->from->columns,
                  .read = read_selection, .release = release_selection, .user = s);
    dhow_status status = dhow_dataset_create(s->from->context, &source, out);
    if (status != DHOW_OK) release_selection(s);
    return status;
}

dhow_status dhow_dataset_subset(dhow_dataset *dataset, const int64_t *indices, int64_t count,
                                dhow_dataset **out) {
    static const char function[] = "dhow_dataset_subset";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_dataset_check(dataset, function));
    DHOWI_TRY(check_indices(function, dataset, indices, count));
    selection s = {.from = dataset};
    s.indices = dhowi_alloc_array((size_t)count + 1, sizeof *s.indices);
    if (s.indices == NULL) return dhowi_fail_memory(function);
    if (count > 0) memcpy(s.indices, indices, (size_t)count * sizeof *indices);
    return select_samples(function, &s, count, out);
}

/* The count that -1 stands for; INVALID_ARGUMENT where the parts are not the whole. */
static dhow_status rest_of(const char *function, int64_t samples, const int64_t *counts,
                           uint32_t part_count, int64_t *out_rest) {
    int64_t left = samples;
    uint32_t open = 0;
    for (uint32_t i = 0; i < part_count; i++) {
        open += counts[i] == -1;
        if (counts[i] < -1 || counts[i] > left || open > 1)
            return dhowi_fail(DHOW_INVALID_ARGUMENT,
                              "%s: counts[%u] is %" PRId64 " where %" PRId64 " of %" PRId64
                              " samples are left%s",
                              function, i, counts[i], left, samples,
                              open > 1 ? "; one part alone can be -1, the rest" : "");
        left -= DHOWI_MAX(counts[i], (int64_t)0);
    }
    *out_rest = left;
    if (open == 1 || left == 0) return DHOW_OK;
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: the parts hold %" PRId64 " of %" PRId64
                      " samples; give one the count -1, the rest",
                      function, samples - left, samples);
}

dhow_status dhow_dataset_split(dhow_dataset *dataset, const int64_t *counts, uint32_t part_count,
                               int32_t shuffle, uint64_t seed, dhow_dataset **out) {
    static const char function[] = "dhow_dataset_split";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    memset(out, 0, part_count * sizeof out[0]);
    if (counts == NULL || part_count == 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s", function,
                          part_count == 0 ? "no parts" : "counts is NULL");
    DHOWI_TRY(dhowi_dataset_check(dataset, function));
    const int64_t samples = dataset->source.sample_count;
    int64_t rest = 0;
    DHOWI_TRY(rest_of(function, samples, counts, part_count, &rest));
    selection s = {.from = dataset,
                   .order = dhowi_order_make((uint64_t)samples, shuffle != 0, seed, 0)};
    dhow_status status = DHOW_OK;
    for (uint32_t i = 0; i < part_count && status == DHOW_OK; i++) {
        const int64_t count = counts[i] == -1 ? rest : counts[i];
        status = select_samples(function, &s, count, &out[i]);
        s.first += count;
    }
    for (uint32_t i = 0; i < part_count && status != DHOW_OK; i++) {
        dhow_dataset_release(out[i]);
        out[i] = NULL;
    }
    return status;
}

/* ---- several in a row ---- */

typedef struct row_of_parts {
    uint32_t count;
    int64_t *ends; /* of each part, in samples of the whole */
    dhow_dataset **parts;
} row_of_parts;

static uint32_t part_of(const row_of_parts *all, int64_t index) {
    uint64_t part;
    DHOWI_FIRST_ABOVE(part, all->ends, all->count, index);
    return (uint32_t)part;
}

/* Samples of one part that follow one another in the batch are read together. */
static dhow_status read_parts(void *user, const int64_t *indices, int64_t count,
                              void *const *columns) {
    const row_of_parts *all = user;
    dhow_status status = DHOW_OK;
    int64_t *there = dhowi_alloc_array((size_t)count, sizeof *there);
    if (there == NULL) return dhowi_fail_memory("indices");
    for (int64_t i = 0, run; i < count && status == DHOW_OK; i += run) {
        const uint32_t p = part_of(all, indices[i]);
        const int64_t begin = p > 0 ? all->ends[p - 1] : 0;
        dhow_dataset *part = all->parts[p];
        void *to[DHOW_MAX_COLUMNS];
        for (run = 0; i + run < count && part_of(all, indices[i + run]) == p; run++)
            there[run] = indices[i + run] - begin;
        for (uint32_t c = 0; c < part->source.column_count; c++)
            to[c] = (char *)columns[c] + (uint64_t)i * part->sample_bytes[c];
        status = dhowi_dataset_read(part, there, run, to);
    }
    dhowi_free(there);
    return status;
}

static void release_parts(void *user) {
    row_of_parts *all = user;
    for (uint32_t i = 0; i < all->count; i++) dhow_dataset_release(all->parts[i]);
    dhowi_free(all->ends);
    dhowi_free(all->parts);
    dhowi_free(all);
}

static dhow_status check_part(const char *function, const dhow_dataset *first,
                              const dhow_dataset *part, uint32_t i) {
    DHOWI_TRY(dhowi_dataset_check(part, function));
    if (part->context != first->context)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: part %u belongs to another context", function,
                          i);
    if (part->source.column_count != first->source.column_count)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: part %u has %u columns, part 0 has %u",
                          function, i, part->source.column_count, first->source.column_count);
    for (uint32_t c = 0; c < part->source.column_count; c++) {
        const dhow_dataset_column *a = &first->columns[c], *b = &part->columns[c];
        char of_a[96], of_b[96];
        if (a->dtype == b->dtype && dhowi_shape_equal(a->rank, a->shape, b->rank, b->shape))
            continue;
        return dhowi_fail(
            DHOW_INVALID_ARGUMENT, "%s: column %u of part %u is %s%s, of part 0 %s%s", function, c,
            i, dhow_dtype_name(b->dtype), dhowi_shape_text(b->rank, b->shape, of_b, sizeof of_b),
            dhow_dtype_name(a->dtype), dhowi_shape_text(a->rank, a->shape, of_a, sizeof of_a));
    }
    return DHOW_OK;
}

static dhow_status take_parts(const char *function, dhow_dataset *const *parts, uint32_t count,
                              row_of_parts *all) {
    int64_t samples = 0;
    all->ends = dhowi_alloc_array(count, sizeof all->ends[0]);
    all->parts = dhowi_alloc_array(count, sizeof(dhow_dataset *));
    if (all->ends == NULL || all->parts == NULL) return dhowi_fail_memory(function);
    for (uint32_t i = 0; i < count; i++) {
        const int64_t own = parts[i]->source.sample_count;
        if (own > INT64_MAX - samples)
            return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: too many samples", function);
        all->ends[i] = samples += own;
        dhowi_handle_retain(&parts[i]->handle);
        all->parts[all->count++] = parts[i];
    }
    return DHOW_OK;
}

dhow_status dhow_dataset_concat(dhow_dataset *const *parts, uint32_t count, dhow_dataset **out) {
    static const char function[] = "dhow_dataset_concat";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    if (parts == NULL || count == 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: no datasets", function);
    DHOWI_TRY(dhowi_dataset_check(parts[0], function));
    for (uint32_t i = 1; i < count; i++) DHOWI_TRY(check_part(function, parts[0], parts[i], i));
    row_of_parts *all = dhowi_alloc(sizeof *all);
    if (all == NULL) return dhowi_fail_memory(function);
    dhow_status status = take_parts(function, parts, count, all);
    if (status == DHOW_OK) {
        const dhow_dataset_source source =
            DHOW_INIT(dhow_dataset_source, .sample_count = all->ends[count - 1],
                      .column_count = parts[0]->source.column_count, .columns = parts[0]->columns,
                      .read = read_parts, .release = release_parts, .user = all);
        status = dhow_dataset_create(parts[0]->context, &source, out);
    }
    if (status != DHOW_OK) release_parts(all);
    return status;
}

/* ---- samples that are changed as they are read ---- */

typedef struct mapped {
    dhow_dataset *from;
    dhow_dataset_mapping mapping;
    uint64_t sample_bytes[DHOW_MAX_COLUMNS]; /* of the result */
    uint32_t column_count;
} mapped;

static dhow_status map_samples(const mapped *m, const int64_t *indices, int64_t count,
                               char *const *in, void *const *out) {
    const dhowi_sampling *sampling = dhowi_sampling_now();
    const uint64_t epoch_seed =
        dhowi_splitmix64(sampling->seed + (uint64_t)sampling->epoch * DHOWI_SPLITMIX64_STEP);
    for (int64_t i = 0; i < count; i++) {
        const void *from[DHOW_MAX_COLUMNS];
        void *to[DHOW_MAX_COLUMNS];
        const dhow_sample sample = {
            .struct_size = sizeof sample,
            .worker = sampling->worker,
            .index = indices[i],
            .epoch = sampling->epoch,
            .seed = dhowi_splitmix64(epoch_seed + (uint64_t)indices[i] * DHOWI_SPLITMIX64_STEP)};
        for (uint32_t c = 0; c < m->from->source.column_count; c++)
            from[c] = in[c] + (uint64_t)i * m->from->sample_bytes[c];
        for (uint32_t c = 0; c < m->column_count; c++)
            to[c] = (char *)out[c] + (uint64_t)i * m->sample_bytes[c];
        dhow_status status = m->mapping.map(m->mapping.user, &sample, from, to);
        if (status != DHOW_OK) {
            char who[64];
            (void)snprintf(who, sizeof who, "the dataset's map of sample %" PRId64, indices[i]);
            return dhowi_answer_of(who, status);
        }
    }
    return DHOW_OK;
}

static dhow_status read_mapped(void *user, const int64_t *indices, int64_t count,
                               void *const *columns) {
    const mapped *m = user;
    char *in[DHOW_MAX_COLUMNS] = {NULL};
    void *to[DHOW_MAX_COLUMNS];
    dhow_status status = DHOW_OK;
    for (uint32_t c = 0; c < m->from->source.column_count && status == DHOW_OK; c++) {
        in[c] = dhowi_alloc_array((size_t)count, m->from->sample_bytes[c] + 1);
        to[c] = in[c];
        if (in[c] == NULL) status = dhowi_fail_memory("samples to be mapped");
    }
    if (status == DHOW_OK) status = dhowi_dataset_read(m->from, indices, count, to);
    if (status == DHOW_OK) status = map_samples(m, indices, count, in, columns);
    for (int c = 0; c < DHOW_MAX_COLUMNS; c++) dhowi_free(in[c]);
    return status;
}

static void release_mapped(void *user) {
    mapped *m = user;
    dhow_dataset_release(m->from);
    if (m->mapping.release != NULL) m->mapping.release(m->mapping.user);
    dhowi_free(m);
}

dhow_status dhow_dataset_map(dhow_dataset *dataset, const dhow_dataset_mapping *given,
                             dhow_dataset **out) {
    static const char function[] = "dhow_dataset_map";
    dhow_dataset_mapping own;
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_dataset_check(dataset, function));
    DHOWI_TRY(DHOWI_STRUCT_IN(dhow_dataset_mapping, given, &own, function, "mapping"));
    if (own.map == NULL || (own.column_count > 0 && own.columns == NULL))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: mapping->map or its columns are NULL",
                          function);
    mapped *m = dhowi_alloc(sizeof *m);
    if (m == NULL) return dhowi_fail_memory(function);
    *m = (mapped){.from = dataset, .mapping = own};
    const bool same = own.column_count == 0;
    const dhow_dataset_source source =
        DHOW_INIT(dhow_dataset_source, .sample_count = dataset->source.sample_count,
                  .column_count = same ? dataset->source.column_count : own.column_count,
                  .columns = same ? dataset->columns : own.columns, .read = read_mapped,
                  .release = release_mapped, .user = m);
    dhow_status status = dhow_dataset_create(dataset->context, &source, out);
    if (status != DHOW_OK) {
        dhowi_free(m);
        return status;
    }
    dhowi_handle_retain(&dataset->handle);
    m->column_count = source.column_count;
    memcpy(m->sample_bytes, (*out)->sample_bytes, sizeof m->sample_bytes);
    return DHOW_OK;
}
