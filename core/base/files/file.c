/* SPDX-License-Identifier: Apache-2.0
 *
 * See file.h.
 */
#include "base/files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory/alloc.h"

/* ---- reading ---- */

dhow_status dhowi_file_open(const char *path, int *out_fd, uint64_t *out_bytes) {
    *out_fd = -1;
    *out_bytes = 0;
    /* Not blocking: a FIFO must not hang us. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return dhowi_fail(errno == ENOENT ? DHOW_NOT_FOUND : DHOW_IO_ERROR, "%s: cannot open: %s",
                          path, strerror(errno));
    }
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        (void)close(fd);
        return dhowi_fail(DHOW_IO_ERROR, "%s: not a regular file", path);
    }
    *out_fd = fd;
    *out_bytes = (uint64_t)info.st_size;
    return DHOW_OK;
}

dhow_status dhowi_file_read(int fd, const char *path, uint64_t offset, void *data, size_t bytes) {
    char *to = data;
    while (bytes > 0) {
        ssize_t n = pread(fd, to, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return dhowi_fail(DHOW_IO_ERROR, "%s: cannot read: %s", path, strerror(errno));
        if (n == 0) {
            return dhowi_fail(DHOW_CORRUPT, "%s: ends at byte %" PRIu64 ", %zu bytes early", path,
                              offset, bytes);
        }
        to += n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return DHOW_OK;
}

/* ---- writing ---- */

static dhow_status cannot_write(const char *path, int reason) {
    return dhowi_fail_native(DHOW_IO_ERROR, reason, "%s: cannot write: %s", path, strerror(reason));
}

/* Both names, in memory of the writer. */
static dhow_status set_names(const char *path, dhowi_file_writer *w) {
    static atomic_uint serial;
    char temporary[PATH_MAX + 64];
    int n = snprintf(temporary, sizeof temporary, "%s.%ld.%u.tmp", path, (long)getpid(),
                     atomic_fetch_add(&serial, 1));
    if (n < 0 || (size_t)n >= sizeof temporary)
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%.200s...: the path is too long", path);
    w->path = dhowi_strdup(path);
    w->temporary = dhowi_strdup(temporary);
    return w->path != NULL && w->temporary != NULL ? DHOW_OK : dhowi_fail_memory(path);
}

static void forget(dhowi_file_writer *w) {
    dhowi_free(w->path);
    dhowi_free(w->temporary);
    *w = (dhowi_file_writer){0};
}

dhow_status dhowi_file_begin(const char *path, dhowi_file_writer *out) {
    char target[PATH_MAX];
    struct stat old;
    *out = (dhowi_file_writer){0};
    if (lstat(path, &old) == 0 && S_ISLNK(old.st_mode)) {
        if (realpath(path, target) == NULL) {
            return dhowi_fail(DHOW_IO_ERROR, "%s: cannot write through the link: %s", path,
                              strerror(errno));
        }
        path = target;
    }
    bool replaces = stat(path, &old) == 0;
    if (replaces && !S_ISREG(old.st_mode)) /* rename() would put a file in a device's place */
        return dhowi_fail(DHOW_IO_ERROR, "%s: cannot write: not a regular file", path);
    mode_t mode = replaces ? old.st_mode & 0777 : 0666; /* what was private stays private */
    dhow_status status = set_names(path, out);
    if (status == DHOW_OK) {
        out->fd = open(out->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (out->fd >= 0) return DHOW_OK;
        status = cannot_write(path, errno);
    }
    forget(out);
    return status;
}

dhow_status dhowi_file_append(dhowi_file_writer *w, const void *data, size_t bytes) {
    const char *from = data;
    while (bytes > 0) {
        ssize_t n = write(w->fd, from, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return cannot_write(w->path, errno);
        from += n;
        bytes -= (size_t)n;
    }
    return DHOW_OK;
}

dhow_status dhowi_file_rewrite(dhowi_file_writer *w, uint64_t offset, const void *data,
                               size_t bytes) {
    const char *from = data;
    while (bytes > 0) {
        ssize_t n = pwrite(w->fd, from, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return cannot_write(w->path, errno);
        from += n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return DHOW_OK;
}

dhow_status dhowi_file_cut(dhowi_file_writer *w, uint64_t bytes) {
    if (ftruncate(w->fd, (off_t)bytes) == 0 && lseek(w->fd, (off_t)bytes, SEEK_SET) >= 0)
        return DHOW_OK;
    return cannot_write(w->path, errno);
}

/* Some file systems sync no folders and say EINVAL: there is nothing more to be done then. */
static bool sync_folder_of(const char *path) {
    char folder[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    if (slash != NULL) {
        const size_t length = slash == path ? 1 : (size_t)(slash - path);
        if (length >= sizeof folder) return true;
        memcpy(folder, path, length);
        folder[length] = '\0';
    }
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return true; /* it may be written to but not read */
    bool good = fsync(fd) == 0 || errno == EINVAL;
    const int reason = errno;
    (void)close(fd);
    errno = reason;
    return good;
}

/* The bytes reach the disk before the name does, so that a power cut leaves the old file or the
 * whole new one. */
dhow_status dhowi_file_commit(dhowi_file_writer *w) {
    dhow_status status = DHOW_OK;
    if (fsync(w->fd) != 0 && errno != EINVAL) status = cannot_write(w->path, errno);
    if (close(w->fd) != 0 && status == DHOW_OK) status = cannot_write(w->path, errno);
    if (status == DHOW_OK && rename(w->temporary, w->path) != 0)
        status = cannot_write(w->path, errno);
    if (status != DHOW_OK) {
        (void)unlink(w->temporary);
    } else if (!sync_folder_of(w->path)) {
        status = cannot_write(w->path, errno);
    }
    forget(w);
    return status;
}

void dhowi_file_abandon(dhowi_file_writer *w) {
    if (w->path == NULL) return;
    (void)close(w->fd);
    forget(w);
}

void dhowi_file_drop(dhowi_file_writer *w) {
    if (w->path == NULL) return;
    (void)close(w->fd);
    (void)unlink(w->temporary);
    forget(w);
}

dhow_status dhowi_file_write(const char *path, const dhowi_file_part *parts, size_t count) {
    dhowi_file_writer writer;
    DHOWI_TRY(dhowi_file_begin(path, &writer));
    dhow_status status = DHOW_OK;
    for (size_t i = 0; i < count && status == DHOW_OK; i++)
        status = dhowi_file_append(&writer, parts[i].data, parts[i].bytes);
    if (status == DHOW_OK) return dhowi_file_commit(&writer);
    dhowi_file_drop(&writer);
    return status;
}
