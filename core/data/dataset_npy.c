/* SPDX-License-Identifier: Apache-2.0
 *
 * Datasets over .npy files: mapped, so that the system reads what is asked for and drops what is
 * not used any more.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/file.h"
#include "base/memory/alloc.h"
#include "data/dataset.h"
#include "formats/files.h"

typedef struct mapped_file {
    void *memory; /* NULL: not mapped, the file has no data */
    size_t bytes;
    int fd; /* of what is mapped */
    char *path;
    dhowi_rows rows;
} mapped_file;

typedef struct mapped_columns {
    uint32_t count;
    dhow_dataset_column columns[DHOW_MAX_COLUMNS];
    mapped_file files[DHOW_MAX_COLUMNS];
} mapped_columns;

/* Reading past the end of a file that became shorter would kill the process. */
static dhow_status check_length(const mapped_file *file) {
    struct stat now;
    if (file->memory == NULL) return DHOW_OK;
    if (fstat(file->fd, &now) == 0 && (uint64_t)now.st_size >= file->bytes) return DHOW_OK;
    return dhowi_fail(DHOW_CORRUPT, "%s has become shorter since it was opened", file->path);
}

static dhow_status read_files(void *user, const int64_t *indices, int64_t count,
                              void *const *columns) {
    const mapped_columns *all = user;
    for (uint32_t c = 0; c < all->count; c++) {
        DHOWI_TRY(check_length(&all->files[c]));
        dhowi_rows_gather(&all->files[c].rows, indices, count, columns[c]);
    }
    return DHOW_OK;
}

static void release_files(void *user) {
    mapped_columns *all = user;
    for (uint32_t c = 0; c < all->count; c++) {
        mapped_file *file = &all->files[c];
        if (file->memory != NULL) {
            (void)munmap(file->memory, file->bytes);
            (void)close(file->fd);
        }
        dhowi_free(file->path);
    }
    dhowi_free(all);
}

/* Keeps the descriptor if it maps. */
static dhow_status map_rows(int fd, const char *path, const dhowi_npy *npy, mapped_file *file) {
    file->rows.row_bytes = npy->shape[0] > 0 ? npy->data_bytes / (uint64_t)npy->shape[0] : 0;
    if (npy->data_bytes == 0) return DHOW_OK;
    file->bytes = (size_t)(npy->data_offset + npy->data_bytes);
    void *memory = mmap(NULL, file->bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        return dhowi_fail_native(DHOW_IO_ERROR, errno, "%s: cannot map it: %s", path,
                                 strerror(errno));
    }
    file->memory = memory;
    file->fd = fd;
    file->rows.data = (const char *)memory + npy->data_offset;
    return DHOW_OK;
}

static dhow_status check_rows(const char *path, const dhowi_npy *npy, uint32_t c,
                              dhow_dataset_source *source) {
    if (npy->rank == 0) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: a single value; the first dimension must be the samples", path);
    }
    if (npy->big_endian || (npy->fortran_order && npy->rank > 1)) {
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "%s: %s order cannot be read in place; save it again with "
                          "numpy.ascontiguousarray() in native byte order",
                          path, npy->big_endian ? "foreign byte" : "Fortran");
    }
    if (c == 0) source->sample_count = npy->shape[0];
    if (npy->shape[0] != source->sample_count) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: %" PRId64 " samples, but the first file has %" PRId64, path,
                          npy->shape[0], source->sample_count);
    }
    return DHOW_OK;
}

static dhow_status open_column(const char *path, uint32_t c, dhow_dataset_source *source,
                               mapped_columns *all) {
    int fd;
    uint64_t bytes;
    dhowi_npy npy;
    if (path == NULL)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_dataset_open_npy: path %u is NULL", c);
    DHOWI_TRY(dhowi_file_open(path, &fd, &bytes));
    dhow_status status = dhowi_npy_read_header(fd, path, bytes, &npy);
    if (status == DHOW_OK) status = check_rows(path, &npy, c, source);
    mapped_file *file = &all->files[c];
    file->path = status == DHOW_OK ? dhowi_strdup(path) : NULL;
    if (status == DHOW_OK && file->path == NULL) status = dhowi_fail_memory(path);
    if (status == DHOW_OK) status = map_rows(fd, path, &npy, file);
    if (file->memory == NULL) (void)close(fd);
    all->count = c + 1;
    if (status != DHOW_OK) return status;
    all->columns[c] = dhowi_column_of_rows(npy.dtype, npy.rank, npy.shape);
    return DHOW_OK;
}

dhow_status dhow_dataset_open_npy(dhow_context *context, const char *const *paths, uint32_t count,
                                  dhow_dataset **out) {
    static const char function[] = "dhow_dataset_open_npy";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, function, "context"));
    if (paths == NULL || count == 0 || count > DHOW_MAX_COLUMNS) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %u files; 1 to %d are allowed", function,
                          paths == NULL ? 0 : count, DHOW_MAX_COLUMNS);
    }
    mapped_columns *all = dhowi_alloc(sizeof *all);
    if (all == NULL) return dhowi_fail_memory(function);
    dhow_dataset_source source =
        DHOW_INIT(dhow_dataset_source, .column_count = count, .columns = all->columns,
                  .read = read_files, .release = release_files, .user = all);
    dhow_status status = DHOW_OK;
    for (uint32_t c = 0; c < count && status == DHOW_OK; c++)
        status = open_column(paths[c], c, &source, all);
    if (status == DHOW_OK) status = dhow_dataset_create(context, &source, out);
    if (status != DHOW_OK) release_files(all);
    return status;
}
