/* SPDX-License-Identifier: Apache-2.0
 *
 * File formats inside core: the parsers alone, for files in memory. Fuzz targets call them.
 */
#ifndef DHOWI_FORMATS_FILES_H_
#define DHOWI_FORMATS_FILES_H_

#include "dhow/files.h"
#include "tensor/tensor.h"

typedef struct dhowi_npy {
    dhow_dtype dtype;
    bool big_endian, fortran_order;
    int32_t rank;
    int64_t shape[DHOW_MAX_RANK];
    uint64_t data_offset, data_bytes;
} dhowi_npy;

enum { DHOWI_NPY_PREFIX_BYTES = 12, DHOWI_NPY_MAX_HEADER_BYTES = 1 << 16 };

/* Reads an .npy header from the first `bytes` of a file of file_bytes; `path` is for messages. */
dhow_status dhowi_npy_parse(const char *path, const void *data, size_t bytes, uint64_t file_bytes,
                            dhowi_npy *out);

/* The same from a file that is open. */
dhow_status dhowi_npy_read_header(int fd, const char *path, uint64_t file_bytes, dhowi_npy *out);

/* Writes the header of a file that will hold such an array, at least `at_least` bytes long, so that
 * one of another shape can take its place later; returns its length. bf16, which NumPy has not, is
 * written as f32. */
enum { DHOWI_NPY_WRITTEN_BYTES = 384 };
size_t dhowi_npy_header(dhow_dtype dtype, int32_t rank, const int64_t *shape, size_t at_least,
                        char out[DHOWI_NPY_WRITTEN_BYTES]);
void dhowi_npy_widen_bf16(const uint16_t *from, uint32_t *to, int64_t count);

typedef struct dhowi_safetensors_item {
    char *name;
    dhow_dtype dtype;
    int32_t rank;
    int64_t shape[DHOW_MAX_RANK];
    uint64_t begin, end; /* bytes after the header */
} dhowi_safetensors_item;

enum { DHOWI_SAFETENSORS_MAX_HEADER_BYTES = 100000000 };

/* Reads a safetensors header text; the file has data_bytes after it. Items are in the order of
 * their data and freed with dhowi_safetensors_free(). */
dhow_status dhowi_safetensors_parse(const char *path, const char *header, size_t bytes,
                                    uint64_t data_bytes, dhowi_safetensors_item **out,
                                    uint32_t *out_count);
void dhowi_safetensors_free(dhowi_safetensors_item *items, uint32_t count);

/* A pair of texts in a file's __metadata__. */
typedef struct dhowi_safetensors_note {
    const char *name;
    char value[32];
} dhowi_safetensors_note;

/* The text that a file has under this name; NULL where it has none. It lives as long as `file`. */
const char *dhowi_safetensors_note_of(const dhow_safetensors *file, const char *name);
/* dhow_safetensors_save() with notes. */
dhow_status dhowi_safetensors_write(const char *path, uint32_t count, const char *const *names,
                                    dhow_tensor *const *tensors,
                                    const dhowi_safetensors_note *notes, uint32_t note_count);

#endif /* DHOWI_FORMATS_FILES_H_ */
