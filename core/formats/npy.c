/* SPDX-License-Identifier: Apache-2.0
 *
 * The .npy format, NEP 1 and its versions 2.0 and 3.0.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file.h"
#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "base/text/text.h"
#include "formats/files.h"

static const unsigned char k_magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* ---- parsing the header's Python dictionary ---- */

typedef struct cursor {
    const char *path, *at, *end;
} cursor;

static dhow_status corrupt(const cursor *c, const char *what) {
    return dhowi_fail(DHOW_CORRUPT, "%s: .npy header: %s", c->path, what);
}

static void skip_space(cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t')) c->at++;
}
static bool take(cursor *c, char wanted) {
    skip_space(c);
    if (c->at >= c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

/* A quoted text without escapes. */
static bool take_text(cursor *c, const char **out, size_t *out_length) {
    skip_space(c);
    if (c->at >= c->end || (*c->at != '\'' && *c->at != '"')) return false;
    char quote = *c->at++;
    const char *start = c->at;
    while (c->at < c->end && *c->at != quote && *c->at != '\\') c->at++;
    if (c->at >= c->end || *c->at != quote) return false;
    *out = start;
    *out_length = (size_t)(c->at++ - start);
    return true;
}

static bool take_word(cursor *c, const char *word) {
    skip_space(c);
    size_t n = strlen(word);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0) return false;
    c->at += n;
    return true;
}

static dhow_status take_shape(cursor *c, dhowi_npy *npy) {
    if (!take(c, '(')) return corrupt(c, "shape is no tuple");
    npy->rank = 0;
    while (!take(c, ')')) {
        const char *start;
        skip_space(c);
        start = c->at;
        while (c->at < c->end && *c->at >= '0' && *c->at <= '9') c->at++;
        if (npy->rank == DHOW_MAX_RANK) {
            return dhowi_fail(DHOW_UNSUPPORTED, "%s: more than %d dimensions", c->path,
                              DHOW_MAX_RANK);
        }
        if (!dhowi_parse_i64(start, (size_t)(c->at - start), 0, INT64_MAX,
                             &npy->shape[npy->rank])) {
            return corrupt(c, "an extent of the shape is no number");
        }
        npy->rank++;
        if (c->at < c->end && *c->at == 'L') c->at++; /* Python 2 */
        if (!take(c, ',')) {
            if (!take(c, ')')) return corrupt(c, "shape does not end");
            break;
        }
    }
    return DHOW_OK;
}

static dhow_status set_dtype(const cursor *c, const char *text, size_t length, dhowi_npy *npy) {
    static const struct {
        char code[3];
        dhow_dtype dtype;
    } types[] = {{"f4", DHOW_F32}, {"f8", DHOW_F64}, {"f2", DHOW_F16}, {"i1", DHOW_I8},
                 {"u1", DHOW_U8},  {"i2", DHOW_I16}, {"u2", DHOW_U16}, {"i4", DHOW_I32},
                 {"u4", DHOW_U32}, {"i8", DHOW_I64}, {"u8", DHOW_U64}, {"b1", DHOW_BOOL}};
    bool ordered =
        length == 3 && (text[0] == '<' || text[0] == '>' || text[0] == '|' || text[0] == '=');
    for (size_t i = 0; ordered && i < DHOWI_COUNT(types); i++) {
        if (memcmp(text + 1, types[i].code, 2) == 0) {
            npy->dtype = types[i].dtype;
            npy->big_endian = text[0] == '>';
            return DHOW_OK;
        }
    }
    return dhowi_fail(DHOW_UNSUPPORTED, "%s: unsupported element type '%.*s'", c->path,
                      (int)DHOWI_MIN(length, 24), text);
}

static dhow_status parse_dictionary(cursor *c, dhowi_npy *npy) {
    enum { DESCR = 1, ORDER = 2, SHAPE = 4 };
    unsigned seen = 0;
    if (!take(c, '{')) return corrupt(c, "no dictionary");
    while (!take(c, '}')) {
        const char *key, *text;
        size_t length, text_length;
        if (!take_text(c, &key, &length) || !take(c, ':')) return corrupt(c, "a key is missing");
        unsigned field = 0;
        if (length == 5 && memcmp(key, "descr", 5) == 0) {
            field = DESCR;
            if (take(c, '[')) {
                return dhowi_fail(DHOW_UNSUPPORTED, "%s: structured element types are not read",
                                  c->path);
            }
            if (!take_text(c, &text, &text_length)) return corrupt(c, "descr is no text");
            DHOWI_TRY(set_dtype(c, text, text_length, npy));
        } else if (length == 13 && memcmp(key, "fortran_order", 13) == 0) {
            field = ORDER;
            npy->fortran_order = take_word(c, "True");
            if (!npy->fortran_order && !take_word(c, "False"))
                return corrupt(c, "fortran_order is no bool");
        } else if (length == 5 && memcmp(key, "shape", 5) == 0) {
            field = SHAPE;
            DHOWI_TRY(take_shape(c, npy));
        }
        if (field == 0 || (seen & field) != 0) return corrupt(c, "a key is unknown or there twice");
        seen |= field;
        if (!take(c, ',')) {
            if (!take(c, '}')) return corrupt(c, "the dictionary does not end");
            break;
        }
    }
    skip_space(c);
    if (c->at != c->end) return corrupt(c, "something follows the dictionary");
    return seen == (DESCR | ORDER | SHAPE) ? DHOW_OK
                                           : corrupt(c, "descr, fortran_order or shape is missing");
}

dhow_status dhowi_npy_parse(const char *path, const void *data, size_t bytes, uint64_t file_bytes,
                            dhowi_npy *out) {
    const unsigned char *p = data;
    memset(out, 0, sizeof *out);
    if (bytes < 10 || memcmp(p, k_magic, sizeof k_magic) != 0) {
        return dhowi_fail(DHOW_CORRUPT, "%s: not an .npy file", path);
    }
    if (p[6] < 1 || p[6] > 3)
        return dhowi_fail(DHOW_UNSUPPORTED, "%s: .npy version %u; 1 to 3 are read", path, p[6]);
    size_t prefix = p[6] == 1 ? 10 : 12;
    if (bytes < prefix) return dhowi_fail(DHOW_CORRUPT, "%s: ends inside its header", path);
    uint64_t length = p[8] | (uint64_t)p[9] << 8;
    if (p[6] > 1) length |= (uint64_t)p[10] << 16 | (uint64_t)p[11] << 24;
    if (length > DHOWI_NPY_MAX_HEADER_BYTES) {
        return dhowi_fail(DHOW_CORRUPT, "%s: a header of %" PRIu64 " bytes; at most %d are read",
                          path, length, DHOWI_NPY_MAX_HEADER_BYTES);
    }
    if (length > bytes - prefix)
        return dhowi_fail(DHOW_CORRUPT, "%s: ends inside its header", path);
    const char *text = (const char *)p + prefix;
    cursor c = {.path = path, .at = text, .end = text + length};
    DHOWI_TRY(parse_dictionary(&c, out));
    int64_t count;
    dhow_status status =
        dhowi_shape_check(path, out->dtype, out->rank, out->shape, &count, &out->data_bytes);
    if (status != DHOW_OK) return dhowi_fail_prefix(DHOW_CORRUPT, ".npy header");
    out->data_offset = prefix + length;
    if (out->data_bytes > file_bytes || file_bytes - out->data_bytes < out->data_offset) {
        return dhowi_fail(DHOW_CORRUPT,
                          "%s: %" PRIu64 " bytes of data are announced, the file has %" PRIu64,
                          path, out->data_bytes,
                          file_bytes > out->data_offset ? file_bytes - out->data_offset : 0);
    }
    return DHOW_OK;
}

/* ---- loading ---- */

static void swap_bytes(unsigned char *data, uint64_t bytes, uint32_t element) {
    for (uint64_t i = 0; i + element <= bytes; i += element) {
        for (uint32_t k = 0; k < element / 2; k++) {
            unsigned char byte = data[i + k];
            data[i + k] = data[i + element - 1 - k];
            data[i + element - 1 - k] = byte;
        }
    }
}

/* A file in Fortran order is its transpose in C order. */
static dhow_status undo_fortran(dhow_tensor *stored, dhow_tensor **out) {
    int32_t order[DHOW_MAX_RANK];
    dhow_tensor *view;
    for (int32_t i = 0; i < stored->rank; i++) order[i] = stored->rank - 1 - i;
    DHOWI_TRY(dhow_tensor_permute(stored, order, &view));
    dhow_status status = dhow_tensor_contiguous(NULL, view, out);
    dhow_tensor_release(view);
    return status;
}

static dhow_status read_data(int fd, const char *path, const dhowi_npy *npy, dhow_context *context,
                             dhow_tensor **out) {
    int64_t shape[DHOW_MAX_RANK];
    void *data;
    for (int32_t i = 0; i < npy->rank; i++) {
        shape[i] = npy->shape[npy->fortran_order ? npy->rank - 1 - i : i];
    }
    dhow_tensor *t, *turned;
    DHOWI_TRY(dhowi_tensor_new(context->cpu, npy->dtype, npy->rank, shape, &t));
    dhow_status status = dhow_tensor_host_ptr(t, &data);
    if (status == DHOW_OK)
        status = dhowi_file_read(fd, path, npy->data_offset, data, (size_t)npy->data_bytes);
    if (status == DHOW_OK && npy->big_endian)
        swap_bytes(data, npy->data_bytes, dhow_dtype_bytes(npy->dtype));
    if (status == DHOW_OK && npy->fortran_order && npy->rank > 1) {
        status = undo_fortran(t, &turned);
        if (status == DHOW_OK) {
            dhow_tensor_release(t);
            t = turned;
        }
    }
    if (status == DHOW_OK) {
        *out = t;
    } else {
        dhow_tensor_release(t);
    }
    return status;
}

dhow_status dhowi_npy_read_header(int fd, const char *path, uint64_t file_bytes, dhowi_npy *out) {
    size_t bytes =
        (size_t)DHOWI_MIN(file_bytes, DHOWI_NPY_PREFIX_BYTES + DHOWI_NPY_MAX_HEADER_BYTES);
    void *head = dhowi_alloc(bytes);
    if (head == NULL) return dhowi_fail_memory(path);
    dhow_status status = dhowi_file_read(fd, path, 0, head, bytes);
    if (status == DHOW_OK) status = dhowi_npy_parse(path, head, bytes, file_bytes, out);
    dhowi_free(head);
    return status;
}

static dhow_status load(int fd, const char *path, uint64_t file_bytes, dhow_context *context,
                        dhow_tensor **out) {
    dhowi_npy npy;
    DHOWI_TRY(dhowi_npy_read_header(fd, path, file_bytes, &npy));
    return read_data(fd, path, &npy, context, out);
}

dhow_status dhow_npy_load(dhow_device *device, const char *path, dhow_tensor **out) {
    static const char function[] = "dhow_npy_load";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_device_check(device, function));
    if (path == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: path is NULL", function);
    int fd;
    uint64_t bytes;
    dhow_tensor *host = NULL;
    DHOWI_TRY(dhowi_file_open(path, &fd, &bytes));
    dhow_status status = load(fd, path, bytes, device->context, &host);
    (void)close(fd);
    if (status == DHOW_OK) status = dhow_tensor_to(host, device, out);
    dhow_tensor_release(host);
    return status;
}

/* ---- saving ---- */

static const char *npy_code(dhow_dtype dtype) {
    switch (dtype) {
        case DHOW_F32:
        case DHOW_BF16:
            return "<f4";
        case DHOW_F64:
            return "<f8";
        case DHOW_F16:
            return "<f2";
        case DHOW_I8:
            return "|i1";
        case DHOW_U8:
            return "|u1";
        case DHOW_I16:
            return "<i2";
        case DHOW_U16:
            return "<u2";
        case DHOW_I32:
            return "<i4";
        case DHOW_U32:
            return "<u4";
        case DHOW_I64:
            return "<i8";
        case DHOW_U64:
            return "<u8";
        case DHOW_BOOL:
            return "|b1";
    }
    return "?";
}

void dhowi_npy_widen_bf16(const uint16_t *from, uint32_t *to, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] = (uint32_t)from[i] << 16;
}

size_t dhowi_npy_header(dhow_dtype dtype, int32_t rank, const int64_t *shape, size_t at_least,
                        char out[DHOWI_NPY_WRITTEN_BYTES]) {
    enum { PREFIX = 10, ALIGN = 64 };
    dhowi_text text = {out + PREFIX, DHOWI_NPY_WRITTEN_BYTES - PREFIX, 0};
    dhowi_text_add(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (", npy_code(dtype));
    for (int32_t i = 0; i < rank; i++) {
        dhowi_text_add(&text, "%" PRId64 "%s", shape[i],
                       i + 1 < rank ? ", "
                       : rank == 1  ? ","
                                    : "");
    }
    dhowi_text_add(&text, "), }");
    while ((PREFIX + text.length + 1) % ALIGN != 0 || PREFIX + text.length + 1 < at_least)
        dhowi_text_add(&text, " ");
    dhowi_text_add(&text, "\n");
    memset(out, 0, PREFIX);
    memcpy(out, k_magic, sizeof k_magic);
    out[6] = 1;
    out[8] = (char)(text.length & 255);
    out[9] = (char)(text.length >> 8);
    return PREFIX + text.length;
}

static dhow_status save(const char *path, const dhow_tensor *t, const void *data, uint64_t bytes) {
    char header[DHOWI_NPY_WRITTEN_BYTES];
    const dhowi_file_part parts[] = {
        {header, dhowi_npy_header(t->dtype, t->rank, t->shape, 0, header)}, {data, (size_t)bytes}};
    return dhowi_file_write(path, parts, 2);
}

dhow_status dhow_npy_save(dhow_tensor *tensor, const char *path) {
    static const char function[] = "dhow_npy_save";
    DHOWI_TRY(dhowi_tensor_check_read(tensor, function, "tensor"));
    if (path == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: path is NULL", function);
    bool widened = tensor->dtype == DHOW_BF16;
    uint64_t bytes = dhowi_tensor_bytes(tensor);
    void *data = dhowi_alloc((size_t)bytes), *wide = NULL;
    if (data == NULL) return dhowi_fail_memory(function);
    dhow_status status = dhow_tensor_read(tensor, data, bytes);
    if (status == DHOW_OK && widened) {
        wide = dhowi_alloc_array((size_t)tensor->count, sizeof(uint32_t));
        if (wide == NULL) status = dhowi_fail_memory(function);
        if (status == DHOW_OK) dhowi_npy_widen_bf16(data, wide, tensor->count);
    }
    if (status == DHOW_OK)
        status = save(path, tensor, widened ? wide : data, widened ? bytes * 2 : bytes);
    dhowi_free(data);
    dhowi_free(wide);
    return status;
}
