/* SPDX-License-Identifier: Apache-2.0
 *
 * Brings an ONNX file into memory, all but its large weights: those are skipped here and read from
 * the file by tensor_read(). The bytes keep their distances, so that a slice of a weight that was
 * left out still tells where in the file it lies; its pages take no memory and cannot be touched.
 * Files are not mapped: one that is cut short meanwhile would end the program with SIGBUS.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/files/file.h"
#include "base/memory/size.h"
#include "formats/onnx_wire.h"

enum { CHUNK_BYTES = 1 << 16, HEAD_BYTES = 20, MAX_LEVELS = 128 };

typedef enum message { OPAQUE, MODEL, GRAPH, NODE, ATTRIBUTE, TENSOR, WEIGHT } message;

/* The way from a file to its weights: which field of which message is a message of interest. */
static const struct {
    message outer;
    uint32_t field;
    message inner;
} k_way[] = {{MODEL, 7, GRAPH},    {GRAPH, 1, NODE},       {GRAPH, 5, TENSOR},
             {NODE, 5, ATTRIBUTE}, {ATTRIBUTE, 5, TENSOR}, {ATTRIBUTE, 6, GRAPH},
             {TENSOR, 9, WEIGHT}};

typedef struct loader {
    const char *path;
    int fd;
    char *data;     /* the whole file's addresses */
    uint64_t bytes; /* of the file */
    uint64_t done;  /* what lies before is read, or skipped */
    dhow_status status;
} loader;

/* Makes pages writable and fills them: the pieces overlap by a page where a weight was skipped. */
static dhow_status read_chunk(loader *l, uint64_t bytes) {
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t begin = l->done / page * page;
    if (mprotect(l->data + begin, (size_t)(l->done - begin + bytes), PROT_READ | PROT_WRITE) != 0)
        return dhowi_fail_native(DHOW_OUT_OF_MEMORY, errno, "%s: no memory to read it: %s", l->path,
                                 strerror(errno));
    DHOWI_TRY(dhowi_file_read(l->fd, l->path, l->done, l->data + l->done, (size_t)bytes));
    l->done += bytes;
    return DHOW_OK;
}

/* Reads what lies before `end`. */
static bool read_until(loader *l, uint64_t end) {
    end = DHOWI_MIN(end, l->bytes);
    while (l->status == DHOW_OK && l->done < end)
        l->status = read_chunk(l, DHOWI_MIN(l->bytes - l->done, (uint64_t)CHUNK_BYTES));
    return l->status == DHOW_OK;
}

static message inner_message(message outer, uint32_t field) {
    for (size_t i = 0; i < DHOWI_COUNT(k_way); i++) {
        if (k_way[i].outer == outer && k_way[i].field == field) return k_way[i].inner;
    }
    return OPAQUE;
}

static bool take_varint(const loader *l, uint64_t *at, uint64_t end, uint64_t *out) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && *at < end; shift += 7) {
        uint8_t byte = (uint8_t)l->data[(*at)++];
        value |= (uint64_t)(byte & 0x7fu) << shift;
        *out = value;
        if ((byte & 0x80u) == 0) return true;
    }
    return false;
}

/* Walks a message. False after a failure, and where the bytes are no message: what follows is then
 * read whole, and the parser says what is wrong with it. */
static bool walk(loader *l, message kind, uint64_t at, uint64_t end, int level) {
    while (at < end) {
        uint64_t key, length;
        if (!read_until(l, at + HEAD_BYTES) || !take_varint(l, &at, end, &key)) return false;
        uint32_t type = (uint32_t)(key & 7);
        if (type == DHOWI_WIRE_VARINT) {
            if (!take_varint(l, &at, end, &length)) return false;
            continue;
        }
        if (type == DHOWI_WIRE_BYTES) {
            if (!take_varint(l, &at, end, &length)) return false;
        } else if (type == DHOWI_WIRE_64 || type == DHOWI_WIRE_32) {
            length = type == DHOWI_WIRE_64 ? 8 : 4;
        } else {
            return false;
        }
        if (length > end - at) return false;
        message inner = type == DHOWI_WIRE_BYTES && key >> 3 <= UINT32_MAX
                            ? inner_message(kind, (uint32_t)(key >> 3))
                            : OPAQUE;
        if (inner == WEIGHT && length >= DHOWI_ONNX_LEFT_BYTES)
            l->done = DHOWI_MAX(l->done, at + length);
        else if (inner != OPAQUE && inner != WEIGHT &&
                 (level == MAX_LEVELS || !walk(l, inner, at, at + length, level + 1)))
            return false;
        at += length;
        if (!read_until(l, at)) return false;
    }
    return true;
}

dhow_status dhowi_onnx_load(int fd, const char *path, uint64_t bytes, void **out) {
    *out = NULL;
    void *data = mmap(NULL, (size_t)bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return dhowi_fail_native(DHOW_OUT_OF_MEMORY, errno, "%s: no addresses for it: %s", path,
                                 strerror(errno));
    loader l = {path, fd, data, bytes, 0, DHOW_OK};
    (void)walk(&l, MODEL, 0, bytes, 0);
    if (read_until(&l, bytes)) {
        *out = data;
        return DHOW_OK;
    }
    (void)munmap(data, (size_t)bytes);
    return l.status;
}
