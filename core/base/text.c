/* SPDX-License-Identifier: Apache-2.0
 *
 * See text.h.
 */
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void dhowi_text_add(dhowi_text *text, const char *format, ...) {
    if (text->length + 1 >= text->capacity) return;
    va_list args;
    va_start(args, format);
    size_t room = text->capacity - text->length;
    int n = vsnprintf(text->data + text->length, room, format, args);
    va_end(args);
    if (n > 0) text->length += (size_t)n < room ? (size_t)n : room - 1;
}

bool dhowi_copy_text(char *to, size_t capacity, const char *from) {
    size_t length = strnlen(from, capacity);
    bool fits = length < capacity;
    if (!fits) length = capacity - 1;
    memcpy(to, from, length);
    to[length] = '\0';
    return fits;
}

bool dhowi_parse_i64(const char *text, size_t length, int64_t low, int64_t high, int64_t *out) {
    bool negative = length > 0 && text[0] == '-';
    size_t i = negative ? 1 : 0;
    if (i == length) return false;
    int64_t value = 0;
    for (; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        if (__builtin_mul_overflow(value, 10, &value)) return false;
        if (__builtin_add_overflow(value, text[i] - '0', &value)) return false;
    }
    if (negative) value = -value;
    if (value < low || value > high) return false;
    *out = value;
    return true;
}

bool dhowi_parse_switch(const char *text, bool *out) {
    if (strcmp(text, "1") == 0 || strcmp(text, "on") == 0) {
        *out = true;
    } else if (strcmp(text, "0") == 0 || strcmp(text, "off") == 0) {
        *out = false;
    } else {
        return false;
    }
    return true;
}

bool dhowi_is_backend_name(const char *text, size_t length) {
    if (length == 0 || length > 15 || text[0] < 'a' || text[0] > 'z') return false;
    for (size_t i = 1; i < length; i++) {
        bool letter = text[i] >= 'a' && text[i] <= 'z', digit = text[i] >= '0' && text[i] <= '9';
        if (!letter && !digit) return false;
    }
    return true;
}

bool dhowi_is_utf8(const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0';) {
        int more = *p < 0x80 ? 0 : *p >= 0xf0 ? 3 : *p >= 0xe0 ? 2 : 1;
        if (*p >= 0x80 && (*p < 0xc2 || *p > 0xf4)) return false;
        uint32_t code = more == 0 ? *p : *p & (0x3fu >> more);
        for (int i = 1; i <= more; i++) {
            if ((p[i] & 0xc0) != 0x80) return false; /* also at the end of the text */
            code = code << 6 | (p[i] & 0x3fu);
        }
        if (more == 2 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) return false;
        if (more == 3 && (code < 0x10000 || code > 0x10ffff)) return false;
        p += more + 1;
    }
    return true;
}

const char *dhowi_env(const char *name) {
    const char *value = secure_getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

const char *dhowi_shape_text(int32_t rank, const int64_t *shape, char *buffer, size_t capacity) {
    dhowi_text text = {buffer, capacity, 0};
    dhowi_text_add(&text, "[");
    for (int32_t i = 0; i < rank; i++) {
        dhowi_text_add(&text, "%s%" PRId64, i > 0 ? ", " : "", shape[i]);
    }
    dhowi_text_add(&text, "]");
    return buffer;
}

const char *dhowi_bytes_text(uint64_t bytes, char *buffer, size_t capacity) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(buffer, capacity, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return buffer;
}

static bool write_all(int fd, const char *data, size_t bytes) {
    while (bytes > 0) {
        ssize_t n = write(fd, data, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        data += n;
        bytes -= (size_t)n;
    }
    return true;
}

dhow_status dhowi_file_write(const char *path, const dhowi_file_part *parts, size_t count) {
    static atomic_uint serial;
    char temporary[PATH_MAX + 64], target[PATH_MAX];
    struct stat old;
    /* The new file takes the place of what a link points to, not of the link. */
    if (lstat(path, &old) == 0 && S_ISLNK(old.st_mode)) {
        if (realpath(path, target) == NULL)
            return dhowi_fail(DHOW_IO_ERROR, "%s: cannot write through the link: %s", path,
                              strerror(errno));
        path = target;
    }
    int n = snprintf(temporary, sizeof temporary, "%s.%ld.%u.tmp", path, (long)getpid(),
                     atomic_fetch_add(&serial, 1));
    if (n < 0 || (size_t)n >= sizeof temporary) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%.200s...: the path is too long", path);
    }
    bool replaces = stat(path, &old) == 0;
    if (replaces && !S_ISREG(old.st_mode)) { /* rename() would put a file in a device's place */
        return dhowi_fail(DHOW_IO_ERROR, "%s: cannot write: not a regular file", path);
    }
    mode_t mode = replaces ? old.st_mode & 0777 : 0666; /* what was private stays private */
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0) return dhowi_fail(DHOW_IO_ERROR, "%s: cannot write: %s", path, strerror(errno));
    bool ok = true;
    for (size_t i = 0; i < count && ok; i++) ok = write_all(fd, parts[i].data, parts[i].bytes);
    int reason = errno;
    if (close(fd) != 0 && ok) {
        ok = false;
        reason = errno;
    }
    if (ok && rename(temporary, path) != 0) {
        ok = false;
        reason = errno;
    }
    if (ok) return DHOW_OK;
    (void)unlink(temporary);
    return dhowi_fail(DHOW_IO_ERROR, "%s: cannot write: %s", path, strerror(reason));
}

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

uint64_t dhowi_hash(uint64_t seed, const void *data, size_t bytes) {
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++) seed = (seed ^ byte[i]) * UINT64_C(1099511628211);
    return seed;
}
