/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors of an ONNX file: their types, their sizes, and their elements, which are raw bytes, typed
 * fields or bytes of another file.
 */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file.h"
#include "base/memory/size.h"
#include "base/text/text.h"
#include "formats/onnx_wire.h"
#include "tensor/tensor.h"

/* ONNX's numbers; `field` is that of the typed data and `width` its bytes, 0 for varints. Elements
 * of `bits` lie in bytes, the first one lowest; dhow holds each in a byte of its own. */
static const struct {
    const char *name;
    dhow_dtype dtype;
    uint32_t field, width, bits;
} k_types[] = {{"undefined", 0, 0, 0, 0},
               {"float", DHOW_F32, 4, 4, 0},
               {"uint8", DHOW_U8, 5, 0, 0},
               {"int8", DHOW_I8, 5, 0, 0},
               {"uint16", DHOW_U16, 5, 0, 0},
               {"int16", DHOW_I16, 5, 0, 0},
               {"int32", DHOW_I32, 5, 0, 0},
               {"int64", DHOW_I64, 7, 0, 0},
               {"string", 0, 0, 0, 0},
               {"bool", DHOW_BOOL, 5, 0, 0},
               {"float16", DHOW_F16, 5, 0, 0},
               {"double", DHOW_F64, 10, 8, 0},
               {"uint32", DHOW_U32, 11, 0, 0},
               {"uint64", DHOW_U64, 11, 0, 0},
               {"complex64", 0, 0, 0, 0},
               {"complex128", 0, 0, 0, 0},
               {"bfloat16", DHOW_BF16, 5, 0, 0},
               {"float8e4m3fn", DHOW_U8, 5, 0, 8},
               {"float8e4m3fnuz", DHOW_U8, 5, 0, 8},
               {"float8e5m2", DHOW_U8, 5, 0, 8},
               {"float8e5m2fnuz", DHOW_U8, 5, 0, 8},
               {"uint4", DHOW_U8, 5, 0, 4},
               {"int4", DHOW_I8, 5, 0, 4},
               {"float4e2m1", DHOW_U8, 5, 0, 4},
               {"float8e8m0", DHOW_U8, 5, 0, 8},
               {"uint2", DHOW_U8, 5, 0, 2},
               {"int2", DHOW_I8, 5, 0, 2},
               {"float6e2m3", 0, 0, 0, 0},
               {"float6e3m2", 0, 0, 0, 0}};

dhow_dtype dhowi_onnx_held(int32_t type) {
    return type > 0 && (size_t)type < DHOWI_COUNT(k_types) ? k_types[type].dtype : 0;
}

int32_t dhowi_onnx_encoding(int32_t type) {
    return dhowi_onnx_held(type) != 0 && k_types[type].bits != 0 ? type : 0;
}

dhow_dtype dhowi_onnx_dtype(int32_t type) {
    return dhowi_onnx_encoding(type) == 0 ? dhowi_onnx_held(type) : 0;
}

const char *dhowi_onnx_type_name(int32_t type) {
    return type >= 0 && (size_t)type < DHOWI_COUNT(k_types) ? k_types[type].name : "unknown";
}

bool dhowi_slice_equal(dhowi_slice a, dhowi_slice b) {
    return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

#define NAMED(slice) \
    (int)DHOWI_MIN((slice).length, (size_t)64), (slice).data != NULL ? (slice).data : ""

/* Words are elements, or bytes that hold several small ones. */
static int64_t word_count(int32_t type, int64_t count) {
    const uint32_t bits = k_types[type].bits;
    return bits == 0 ? count : dhowi_ceil_div(count, 8 / bits);
}
static uint64_t stored_bytes(int32_t type, int64_t count) {
    return (uint64_t)word_count(type, count) * dhow_dtype_bytes(k_types[type].dtype);
}

/* In place, where the words are at the front. */
static void unpack(int32_t type, int64_t count, uint8_t *to) {
    const uint32_t bits = k_types[type].bits;
    if (bits == 0 || bits == 8) return;
    const uint32_t per_word = 8 / bits,
                   sign = k_types[type].dtype == DHOW_I8 ? 1u << (bits - 1) : 0;
    for (int64_t i = count - 1; i >= 0; i--) {
        const uint32_t value = (uint32_t)to[i / per_word] >> (bits * (uint32_t)(i % per_word));
        to[i] = (uint8_t)(((value & ((1u << bits) - 1)) ^ sign) - sign);
    }
}

dhow_status dhowi_onnx_tensor_check(const dhowi_onnx_tensor *t, dhow_dtype *out_dtype,
                                    int64_t *out_count, uint64_t *out_bytes) {
    *out_dtype = dhowi_onnx_held(t->type);
    if (*out_dtype == 0) {
        return dhowi_fail(DHOW_UNSUPPORTED, "tensor '%.*s' has elements of the unsupported type %s",
                          NAMED(t->name), dhowi_onnx_type_name(t->type));
    }
    if (t->rank > DHOW_MAX_RANK) {
        return dhowi_fail(DHOW_UNSUPPORTED, "tensor '%.*s' has %d dimensions, dhow takes %d",
                          NAMED(t->name), t->rank, DHOW_MAX_RANK);
    }
    dhow_status status =
        dhowi_shape_check("shape", *out_dtype, t->rank, t->shape, out_count, out_bytes);
    if (status != DHOW_OK) return dhowi_fail_prefix(DHOW_CORRUPT, "tensor '%.*s'", NAMED(t->name));
    /* No tensor is larger than its data: what is not raw takes at least a byte of the message. */
    uint64_t there = t->raw.data != NULL ? t->raw.length : t->message.length;
    uint64_t least = t->raw.data != NULL ? stored_bytes(t->type, *out_count)
                                         : (uint64_t)word_count(t->type, *out_count);
    if (t->external || least <= there) return DHOW_OK;
    return dhowi_fail(DHOW_CORRUPT,
                      "tensor '%.*s' needs %" PRIu64 " bytes by its shape, the file has %" PRIu64,
                      NAMED(t->name), least, there);
}

static dhowi_wire wire_of(const dhowi_onnx_tensor *t) {
    const dhowi_slice m = t->message;
    return (dhowi_wire){m.data, m.data + m.length, m.data, "tensor", DHOW_OK};
}

/* ---- texts ---- */

dhow_status dhowi_onnx_tensor_texts(const dhowi_onnx_tensor *t, int64_t count, dhowi_slice *out) {
    enum { STRING_DATA = 6 };
    dhowi_wire wire = wire_of(t);
    dhowi_field field;
    int64_t found = 0;
    while (dhowi_wire_next(&wire, &field)) {
        if (field.number != STRING_DATA) continue;
        if (found < count) out[found] = field.bytes;
        found++;
    }
    if (wire.status != DHOW_OK) return wire.status;
    if (found == count) return DHOW_OK;
    return dhowi_fail(DHOW_CORRUPT, "tensor '%.*s' has %" PRId64 " texts, its shape wants %" PRId64,
                      NAMED(t->name), found, count);
}

/* ---- typed data ---- */

static void store_int(dhow_dtype dtype, void *to, int64_t index, uint64_t value) {
    uint32_t bytes = dhow_dtype_bytes(dtype);
    if (dtype == DHOW_BOOL) value = value != 0;
    memcpy((char *)to + (uint64_t)index * bytes, &value, bytes); /* little endian */
}

static dhow_status read_typed(const dhowi_onnx_tensor *t, dhow_dtype dtype, int64_t count,
                              void *to) {
    uint32_t number = k_types[t->type].field, width = k_types[t->type].width;
    dhowi_wire wire = wire_of(t);
    dhowi_field field;
    int64_t n = 0;
    while (dhowi_wire_next(&wire, &field)) {
        if (field.number != number) continue;
        if (width > 0) {
            int64_t part = (int64_t)(field.bytes.length / width);
            if (field.type == DHOWI_WIRE_VARINT || part > count - n)
                return dhowi_fail(DHOW_CORRUPT,
                                  "tensor '%.*s' has other elements than its type and shape, "
                                  "%" PRId64 " of %s, say",
                                  NAMED(t->name), count, k_types[t->type].name);
            memcpy((char *)to + n * width, field.bytes.data, (size_t)part * width);
            n += part;
        } else if (field.type == DHOWI_WIRE_VARINT) {
            if (n < count) store_int(dtype, to, n, field.value);
            n++;
        } else {
            dhowi_wire packed = dhowi_wire_inside(&wire, field.bytes);
            uint64_t value;
            while (packed.at < packed.end && dhowi_wire_varint(&packed, &value)) {
                if (n < count) store_int(dtype, to, n, value);
                n++;
            }
            if (packed.status != DHOW_OK) return packed.status;
        }
    }
    if (n == count) return DHOW_OK;
    return dhowi_fail(DHOW_CORRUPT,
                      "tensor '%.*s' has %" PRId64 " elements, its shape needs %" PRId64,
                      NAMED(t->name), n, count);
}

/* Of a file whose weights were read before, perhaps, and packed. */
static dhow_status check_unwritten(const dhowi_onnx_tensor *t, int fd, const int64_t since[2]) {
    int64_t written[2];
    dhowi_onnx_written(fd, written);
    if (written[0] == since[0] && written[1] == since[1]) return DHOW_OK;
    return dhowi_fail(DHOW_CORRUPT,
                      "tensor '%.*s': the file was written to while it was in use; load the model "
                      "again",
                      NAMED(t->name));
}

/* ---- external data ---- */

/* Opens the file, and looks at its size. */
static dhow_status open_external(const dhowi_onnx_file *file, const dhowi_onnx_tensor *t,
                                 uint64_t bytes, int *fd) {
    uint64_t file_bytes;
    *fd = -1;
    if (file == NULL || file->folder == NULL) {
        return dhowi_fail(DHOW_UNSUPPORTED,
                          "tensor '%.*s' lies in another file; load the model from its file, not "
                          "from memory",
                          NAMED(t->name));
    }
    dhow_status status = dhowi_onnx_open_external(file->folder, t->location, fd, &file_bytes);
    uint64_t length = t->length != 0 ? t->length : bytes;
    if (status == DHOW_OK &&
        (length != bytes || t->offset > file_bytes || length > file_bytes - t->offset)) {
        (void)close(*fd);
        status = dhowi_fail(DHOW_CORRUPT,
                            "%" PRIu64 " bytes at %" PRIu64 " are asked for, %" PRIu64
                            " needed, the file has %" PRIu64,
                            length, t->offset, bytes, file_bytes);
    }
    if (status == DHOW_OK) return DHOW_OK;
    return dhowi_fail_prefix(status, "tensor '%.*s', external data '%.*s'", NAMED(t->name),
                             NAMED(t->location));
}

static dhow_status read_external(const dhowi_onnx_file *file, const dhowi_onnx_tensor *t,
                                 const int64_t since[2], uint64_t bytes, void *to) {
    int fd;
    char where[96];
    (void)dhowi_copy_text(where, sizeof where, "external data");
    DHOWI_TRY(open_external(file, t, bytes, &fd));
    dhow_status status = dhowi_file_read(fd, where, t->offset, to, bytes);
    if (status == DHOW_OK && since != NULL) status = check_unwritten(t, fd, since);
    (void)close(fd);
    if (status == DHOW_OK) return DHOW_OK;
    return dhowi_fail_prefix(status, "tensor '%.*s', external data '%.*s'", NAMED(t->name),
                             NAMED(t->location));
}

/* ---- raw data ---- */

/* The parser's slice of a weight that was left in the file tells where it lies. */
static dhow_status read_raw(const dhowi_onnx_file *file, const dhowi_onnx_tensor *t, void *to) {
    if (file == NULL || file->fd < 0 || t->raw.length < DHOWI_ONNX_LEFT_BYTES) {
        memcpy(to, t->raw.data, t->raw.length);
        return DHOW_OK;
    }
    dhow_status status = dhowi_file_read(file->fd, file->name, (uint64_t)(t->raw.data - file->data),
                                         to, t->raw.length);
    if (status == DHOW_OK) return check_unwritten(t, file->fd, file->written);
    if (status != DHOW_CORRUPT) return status;
    return dhowi_fail(DHOW_CORRUPT,
                      "tensor '%.*s': the file was cut short while it was in use; load the model "
                      "again from a whole one",
                      NAMED(t->name));
}

dhow_status dhowi_onnx_tensor_find(const dhowi_onnx_file *file, const dhowi_onnx_tensor *t,
                                   int64_t written[2]) {
    dhow_dtype dtype;
    int64_t count;
    uint64_t bytes;
    int fd;
    DHOWI_TRY(dhowi_onnx_tensor_check(t, &dtype, &count, &bytes));
    if (!t->external || bytes == 0) return DHOW_OK;
    DHOWI_TRY(open_external(file, t, stored_bytes(t->type, count), &fd));
    dhowi_onnx_written(fd, written);
    (void)close(fd);
    return DHOW_OK;
}

/* The elements as the file has them. */
static dhow_status read_words(const dhowi_onnx_file *file, const dhowi_onnx_tensor *t,
                              const int64_t since[2], dhow_dtype dtype, int64_t count, void *to) {
    const uint64_t bytes = stored_bytes(t->type, count);
    if (t->external) return read_external(file, t, since, bytes, to);
    if (t->raw.data == NULL) return read_typed(t, dtype, word_count(t->type, count), to);
    if (t->raw.length != bytes) {
        return dhowi_fail(DHOW_CORRUPT,
                          "tensor '%.*s' needs %" PRIu64 " bytes by its shape, the file has %zu",
                          NAMED(t->name), bytes, t->raw.length);
    }
    return read_raw(file, t, to);
}

dhow_status dhowi_onnx_tensor_read(const dhowi_onnx_file *file, const dhowi_onnx_tensor *t,
                                   const int64_t since[2], void *to) {
    dhow_dtype dtype;
    int64_t count;
    uint64_t bytes;
    DHOWI_TRY(dhowi_onnx_tensor_check(t, &dtype, &count, &bytes));
    if (bytes == 0) return DHOW_OK;
    DHOWI_TRY(read_words(file, t, since, dtype, count, to));
    unpack(t->type, count, to);
    if (dtype == DHOW_BOOL) {
        for (int64_t i = 0; i < count; i++) ((uint8_t *)to)[i] = ((uint8_t *)to)[i] != 0;
    }
    return DHOW_OK;
}
