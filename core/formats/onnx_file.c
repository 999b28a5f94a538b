/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX files on disk: held open, so that weights are read when they are wanted; external data only
 * from beneath the model's folder.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files/file.h"
#include "base/memory/alloc.h"
#include "formats/onnx.h"

static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = dhowi_strdup(slash == NULL ? "." : slash == path ? "/" : path);
    if (folder != NULL && slash != NULL && slash != path) folder[slash - path] = '\0';
    return folder;
}

void dhowi_onnx_written(int fd, int64_t out[2]) {
    struct stat st = {0};
    if (fstat(fd, &st) != 0) memset(&st, 0, sizeof st);
    out[0] = (int64_t)st.st_mtim.tv_sec;
    out[1] = (int64_t)st.st_mtim.tv_nsec;
}

dhow_status dhowi_onnx_open(const char *path, dhowi_onnx_file **out) {
    int fd;
    uint64_t bytes;
    *out = NULL;
    DHOWI_TRY(dhowi_file_open(path, &fd, &bytes));
    if (bytes == 0 || bytes > SIZE_MAX / 2) {
        (void)close(fd);
        return dhowi_fail(DHOW_CORRUPT, "%s is no ONNX model: it is %s", path,
                          bytes == 0 ? "empty" : "too large");
    }
    void *data = NULL;
    dhow_status status = dhowi_onnx_load(fd, path, bytes, &data);
    if (status == DHOW_OK) status = dhowi_onnx_parse(path, data, (size_t)bytes, out);
    if (status != DHOW_OK) {
        if (data != NULL) (void)munmap(data, (size_t)bytes);
        (void)close(fd);
        return status;
    }
    (*out)->fd = fd;
    dhowi_onnx_written(fd, (*out)->written);
    (*out)->folder = folder_of(path);
    if ((*out)->folder != NULL) return DHOW_OK;
    dhowi_onnx_close(*out);
    *out = NULL;
    return dhowi_fail_memory(path);
}

/* ---- external data ---- */

/* Kernels before 5.6: each part of the path by itself, never through a link. */
static int open_by_parts(int folder, const char *location) {
    int at = dup(folder);
    const char *part = location;
    while (at >= 0) {
        const char *slash = strchr(part, '/');
        char name[256];
        size_t length = slash != NULL ? (size_t)(slash - part) : strlen(part);
        int next = -1;
        if (length == 0 || length >= sizeof name || (length == 2 && memcmp(part, "..", 2) == 0)) {
            errno = EXDEV;
        } else {
            memcpy(name, part, length);
            name[length] = '\0';
            next = openat(
                at, name,
                O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (slash != NULL ? O_DIRECTORY : 0));
        }
        int why = errno;
        (void)close(at);
        errno = why;
        at = next;
        if (slash == NULL || at < 0) return at;
        part = slash + 1;
    }
    return at;
}

static int open_beneath(int folder, const char *location) {
    const struct open_how how = {
        .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, folder, location, &how, sizeof how);
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return (int)fd;
    return open_by_parts(folder, location); /* an old kernel, or a filter that does not know it */
}

static dhow_status check_external(int fd, uint64_t *out_bytes) {
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "it is no regular file");
    if (st.st_nlink != 1) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "it has %lu names (hard links); it could be any file, so it is refused",
                          (unsigned long)st.st_nlink);
    }
    *out_bytes = (uint64_t)st.st_size;
    return DHOW_OK;
}

dhow_status dhowi_onnx_open_external(const char *folder, dhowi_slice location, int *out_fd,
                                     uint64_t *out_bytes) {
    char path[4096];
    *out_fd = -1;
    if (location.length == 0 || location.length >= sizeof path ||
        memchr(location.data, '\0', location.length) != NULL || location.data[0] == '/') {
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "its location is no path beneath the model's folder");
    }
    memcpy(path, location.data, location.length);
    path[location.length] = '\0';
    int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at < 0) return dhowi_fail_native(DHOW_IO_ERROR, errno, "%s: %s", folder, strerror(errno));
    int fd = open_beneath(at, path);
    int why = errno;
    (void)close(at);
    if (fd < 0) {
        bool outside = why == EXDEV || why == ELOOP;
        return dhowi_fail_native(
            why == ENOENT ? DHOW_NOT_FOUND
            : outside     ? DHOW_INVALID_ARGUMENT
                          : DHOW_IO_ERROR,
            why, "%s",
            outside ? "it leaves the model's folder or goes through a link" : strerror(why));
    }
    dhow_status status = check_external(fd, out_bytes);
    if (status != DHOW_OK) {
        (void)close(fd);
        return status;
    }
    *out_fd = fd;
    return DHOW_OK;
}
