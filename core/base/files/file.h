/* SPDX-License-Identifier: Apache-2.0
 *
 * Files: read exactly, written through a temporary one beside them and rename(), so that they
 * appear whole or not at all. IO_ERROR names the file and the system's reason.
 */
#ifndef DHOWI_BASE_FILE_H_
#define DHOWI_BASE_FILE_H_

#include <stddef.h>
#include <stdint.h>

#include "base/errors/error.h"

/* ---- reading ---- */

/* Opens a regular file for reading and tells its size: NOT_FOUND, IO_ERROR. */
dhow_status dhowi_file_open(const char *path, int *out_fd, uint64_t *out_bytes);
/* Reads exactly `bytes` at `offset`: IO_ERROR, CORRUPT when the file ends before. */
dhow_status dhowi_file_read(int fd, const char *path, uint64_t offset, void *data, size_t bytes);

/* ---- writing ---- */

/* A file that is being written; all zero: none. */
typedef struct dhowi_file_writer {
    char *path;      /* what it will be called */
    char *temporary; /* what it is called until then */
    int fd;
} dhowi_file_writer;

/* The new file takes the place of what a link points to, and the access rights of an old one. */
dhow_status dhowi_file_begin(const char *path, dhowi_file_writer *out);
dhow_status dhowi_file_append(dhowi_file_writer *writer, const void *data, size_t bytes);
/* Writes over bytes that are already there. */
dhow_status dhowi_file_rewrite(dhowi_file_writer *writer, uint64_t offset, const void *data,
                               size_t bytes);
/* Takes back what was appended after the first `bytes`. */
dhow_status dhowi_file_cut(dhowi_file_writer *writer, uint64_t bytes);
/* Brings the file to the disk and gives it its name. The writer is over, whatever the result. */
dhow_status dhowi_file_commit(dhowi_file_writer *writer);
/* Closes it and leaves it to the process that began it: for a forked child. */
void dhowi_file_abandon(dhowi_file_writer *writer);
/* Leaves no file. Does nothing for a writer that is over. */
void dhowi_file_drop(dhowi_file_writer *writer);

typedef struct dhowi_file_part {
    const void *data;
    size_t bytes;
} dhowi_file_part;
/* A whole file of parts, in order. */
dhow_status dhowi_file_write(const char *path, const dhowi_file_part *parts, size_t count);

#endif /* DHOWI_BASE_FILE_H_ */
