/* SPDX-License-Identifier: Apache-2.0
 *
 * The safetensors format: eight bytes of header length, a JSON header, data.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file.h"
#include "base/memory/alloc.h"
#include "base/memory/size.h"
#include "base/objects/struct_size.h"
#include "base/text/text.h"
#include "formats/files.h"

struct dhow_safetensors {
    dhowi_handle handle;
    dhow_context *context;
    char *path;
    int fd;
    uint64_t data_offset;
    dhowi_safetensors_item *items;
    uint32_t count;
    json_t *notes; /* __metadata__; NULL: the file has none */
};

static const struct {
    const char *name;
    dhow_dtype dtype;
} k_types[] = {{"F32", DHOW_F32},  {"F64", DHOW_F64}, {"F16", DHOW_F16}, {"BF16", DHOW_BF16},
               {"I8", DHOW_I8},    {"U8", DHOW_U8},   {"I16", DHOW_I16}, {"U16", DHOW_U16},
               {"I32", DHOW_I32},  {"U32", DHOW_U32}, {"I64", DHOW_I64}, {"U64", DHOW_U64},
               {"BOOL", DHOW_BOOL}};

static const char k_notes[] = "__metadata__";

/* ---- the header ---- */

static dhow_status parse_dtype(const char *path, const char *name, const json_t *json,
                               dhow_dtype *out) {
    const char *text = json_string_value(json);
    for (size_t i = 0; text != NULL && i < DHOWI_COUNT(k_types); i++) {
        if (strcmp(text, k_types[i].name) == 0) {
            *out = k_types[i].dtype;
            return DHOW_OK;
        }
    }
    if (text == NULL)
        return dhowi_fail(DHOW_CORRUPT, "%s: tensor '%.64s' has no dtype", path, name);
    return dhowi_fail(DHOW_UNSUPPORTED, "%s: tensor '%.64s' has the unsupported dtype %.24s", path,
                      name, text);
}

static dhow_status parse_shape(const char *path, const json_t *json, dhowi_safetensors_item *item) {
    if (!json_is_array(json) || json_array_size(json) > DHOW_MAX_RANK) {
        return dhowi_fail(json_is_array(json) ? DHOW_UNSUPPORTED : DHOW_CORRUPT,
                          "%s: the shape of tensor '%.64s' is no list of at most %d extents", path,
                          item->name, DHOW_MAX_RANK);
    }
    item->rank = (int32_t)json_array_size(json);
    for (int32_t i = 0; i < item->rank; i++) {
        const json_t *extent = json_array_get(json, (size_t)i);
        if (!json_is_integer(extent) || json_integer_value(extent) < 0) {
            return dhowi_fail(DHOW_CORRUPT,
                              "%s: extent %d of tensor '%.64s' is no number from 0 on", path, i,
                              item->name);
        }
        item->shape[i] = json_integer_value(extent);
    }
    return DHOW_OK;
}

static dhow_status parse_item(const char *path, const char *name, const json_t *json,
                              uint64_t data_bytes, dhowi_safetensors_item *item) {
    const json_t *offsets = json_object_get(json, "data_offsets");
    int64_t count;
    uint64_t bytes;
    item->name = dhowi_strdup(name);
    if (item->name == NULL) return dhowi_fail_memory(path);
    if (json_object_size(json) != 3) {
        return dhowi_fail(DHOW_CORRUPT,
                          "%s: tensor '%.64s' has not exactly dtype, shape and data_offsets", path,
                          name);
    }
    DHOWI_TRY(parse_dtype(path, name, json_object_get(json, "dtype"), &item->dtype));
    DHOWI_TRY(parse_shape(path, json_object_get(json, "shape"), item));
    if (dhowi_shape_check(name, item->dtype, item->rank, item->shape, &count, &bytes) != DHOW_OK) {
        return dhowi_fail_prefix(DHOW_CORRUPT, "%s", path);
    }
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin)) {
        return dhowi_fail(DHOW_CORRUPT,
                          "%s: data_offsets of tensor '%.64s' are no two ascending numbers", path,
                          name);
    }
    item->begin = (uint64_t)json_integer_value(begin);
    item->end = (uint64_t)json_integer_value(end);
    if (item->end > data_bytes || item->end - item->begin != bytes) {
        return dhowi_fail(DHOW_CORRUPT,
                          "%s: tensor '%.64s' lies at bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64
                          ", its shape needs %" PRIu64,
                          path, name, item->begin, item->end, data_bytes, bytes);
    }
    return DHOW_OK;
}

static int by_place(const void *a, const void *b) {
    const dhowi_safetensors_item *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Data without gaps and overlaps: nothing can hide in the file, and no byte is claimed twice. */
static dhow_status check_places(const char *path, const dhowi_safetensors_item *items,
                                uint32_t count, uint64_t data_bytes) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].begin != at) {
            return dhowi_fail(DHOW_CORRUPT,
                              "%s: tensor '%.64s' begins at byte %" PRIu64
                              ", the one before ends at %" PRIu64,
                              path, items[i].name, items[i].begin, at);
        }
        at = items[i].end;
    }
    if (at == data_bytes) return DHOW_OK;
    return dhowi_fail(DHOW_CORRUPT, "%s: the tensors end at byte %" PRIu64 ", the file at %" PRIu64,
                      path, at, data_bytes);
}

static dhow_status parse_items(const char *path, json_t *root, uint64_t data_bytes,
                               dhowi_safetensors_item *items, uint32_t *count) {
    const char *name;
    json_t *value;
    json_object_foreach(root, name, value) {
        if (strcmp(name, k_notes) == 0) {
            if (!json_is_object(value))
                return dhowi_fail(DHOW_CORRUPT, "%s: __metadata__ is no object", path);
            continue;
        }
        if (!json_is_object(value))
            return dhowi_fail(DHOW_CORRUPT, "%s: tensor '%.64s' is no object", path, name);
        (*count)++;
        DHOWI_TRY(parse_item(path, name, value, data_bytes, &items[*count - 1]));
    }
    qsort(items, *count, sizeof *items, by_place);
    return check_places(path, items, *count, data_bytes);
}

void dhowi_safetensors_free(dhowi_safetensors_item *items, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) dhowi_free(items[i].name);
    dhowi_free(items);
}

/* `notes` is set to a reference of __metadata__, where the header has it. */
static dhow_status parse(const char *path, const char *header, size_t bytes, uint64_t data_bytes,
                         dhowi_safetensors_item **out, uint32_t *out_count, json_t **notes) {
    json_error_t error;
    *out = NULL;
    *out_count = 0;
    if (bytes == 0 || header[0] != '{')
        return dhowi_fail(DHOW_CORRUPT, "%s: the header does not begin with '{'", path);
    json_t *root = json_loadb(header, bytes, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL && json_error_code(&error) == json_error_out_of_memory)
        return dhowi_fail_memory(path);
    if (!json_is_object(root)) {
        json_decref(root);
        return dhowi_fail(DHOW_CORRUPT, "%s: the header is no JSON object: %s at byte %d", path,
                          error.text, error.position);
    }
    uint32_t count = 0;
    dhowi_safetensors_item *items = dhowi_alloc_array(json_object_size(root), sizeof *items);
    dhow_status status = items == NULL ? dhowi_fail_memory(path)
                                       : parse_items(path, root, data_bytes, items, &count);
    if (status == DHOW_OK) {
        *out = items;
        *out_count = count;
        *notes = json_incref(json_object_get(root, k_notes));
    } else {
        dhowi_safetensors_free(items, count);
    }
    json_decref(root);
    return status;
}

dhow_status dhowi_safetensors_parse(const char *path, const char *header, size_t bytes,
                                    uint64_t data_bytes, dhowi_safetensors_item **out,
                                    uint32_t *out_count) {
    json_t *notes = NULL;
    dhow_status status = parse(path, header, bytes, data_bytes, out, out_count, &notes);
    json_decref(notes);
    return status;
}

/* ---- files ---- */

static dhow_status read_header(dhow_safetensors *f, uint64_t file_bytes) {
    unsigned char prefix[8];
    uint64_t bytes = 0;
    if (file_bytes < sizeof prefix)
        return dhowi_fail(DHOW_CORRUPT, "%s: too short for a safetensors file", f->path);
    DHOWI_TRY(dhowi_file_read(f->fd, f->path, 0, prefix, sizeof prefix));
    if (memcmp(prefix, "\x93NUMPY", 6) == 0) {
        return dhowi_fail(DHOW_CORRUPT,
                          "%s: an .npy file, no safetensors file; dhow_npy_load() reads it",
                          f->path);
    }
    for (int i = 7; i >= 0; i--) bytes = bytes << 8 | prefix[i];
    if (bytes > DHOWI_SAFETENSORS_MAX_HEADER_BYTES || bytes > file_bytes - sizeof prefix) {
        return dhowi_fail(DHOW_CORRUPT, "%s: a header of %" PRIu64 " bytes in a file of %" PRIu64,
                          f->path, bytes, file_bytes);
    }
    char *header = dhowi_alloc((size_t)bytes + 1);
    if (header == NULL) return dhowi_fail_memory(f->path);
    dhow_status status = dhowi_file_read(f->fd, f->path, sizeof prefix, header, (size_t)bytes);
    f->data_offset = sizeof prefix + bytes;
    if (status == DHOW_OK) {
        status = parse(f->path, header, (size_t)bytes, file_bytes - f->data_offset, &f->items,
                       &f->count, &f->notes);
    }
    dhowi_free(header);
    return status;
}

static void end_file(dhow_safetensors *f) {
    dhow_context *context = f->context;
    if (f->fd >= 0) (void)close(f->fd);
    dhowi_safetensors_free(f->items, f->count);
    json_decref(f->notes);
    dhowi_free(f->path);
    dhowi_handle_free(DHOWI_SAFETENSORS, f);
    dhowi_context_drop(context);
}

dhow_status dhow_safetensors_open(dhow_context *context, const char *path, dhow_safetensors **out) {
    static const char function[] = "dhow_safetensors_open";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_handle_check(context, DHOWI_CONTEXT, function, "context"));
    if (path == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: path is NULL", function);
    dhow_safetensors *f = dhowi_handle_new(DHOWI_SAFETENSORS, sizeof *f);
    if (f == NULL) return dhowi_fail_memory(function);
    f->fd = -1;
    f->context = context;
    dhowi_handle_retain(&context->handle);
    f->path = dhowi_strdup(path);
    uint64_t bytes = 0;
    dhow_status status =
        f->path == NULL ? dhowi_fail_memory(function) : dhowi_file_open(path, &f->fd, &bytes);
    if (status == DHOW_OK) status = read_header(f, bytes);
    if (status != DHOW_OK) {
        end_file(f);
        return status;
    }
    *out = f;
    return DHOW_OK;
}

void dhow_safetensors_close(dhow_safetensors *file) {
    DHOWI_KEEP_ERROR;
    if (dhowi_handle_is(file, DHOWI_SAFETENSORS)) end_file(file);
}

uint32_t dhow_safetensors_count(const dhow_safetensors *file) {
    return dhowi_handle_is(file, DHOWI_SAFETENSORS) ? file->count : 0;
}

dhow_status dhow_safetensors_at(const dhow_safetensors *file, uint32_t index,
                                dhow_safetensors_entry *given) {
    dhow_safetensors_entry own, *out = &own;
    static const char function[] = "dhow_safetensors_at";
    DHOWI_TRY(DHOWI_STRUCT_OUT(dhow_safetensors_entry, given, &own, function));
    DHOWI_TRY(dhowi_handle_check(file, DHOWI_SAFETENSORS, function, "file"));
    if (index >= file->count) {
        return dhowi_fail(DHOW_OUT_OF_RANGE, "%s: index %u, the file has %u tensors", function,
                          index, file->count);
    }
    const dhowi_safetensors_item *item = &file->items[index];
    out->name = item->name;
    out->dtype = item->dtype;
    out->rank = item->rank;
    out->bytes = item->end - item->begin;
    memcpy(out->shape, item->shape, sizeof out->shape);
    DHOWI_STRUCT_GIVE(given, out);
    return DHOW_OK;
}

const char *dhowi_safetensors_note_of(const dhow_safetensors *f, const char *name) {
    return json_string_value(json_object_get(f->notes, name));
}

static dhow_status fail_not_found(const dhow_safetensors *f, const char *name) {
    char names[400];
    dhowi_text text = DHOWI_TEXT(names);
    names[0] = '\0';
    for (uint32_t i = 0; i < f->count && i < 12; i++) {
        dhowi_text_add(&text, "%s%s", i > 0 ? ", " : "", f->items[i].name);
    }
    return dhowi_fail(DHOW_NOT_FOUND, "%s: no tensor '%.64s'; it has %u: %s%s", f->path, name,
                      f->count, names, f->count > 12 ? ", ..." : "");
}

dhow_status dhow_safetensors_load(const dhow_safetensors *file, const char *name,
                                  dhow_device *device, dhow_tensor **out) {
    static const char function[] = "dhow_safetensors_load";
    if (out == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: out is NULL", function);
    *out = NULL;
    DHOWI_TRY(dhowi_handle_check(file, DHOWI_SAFETENSORS, function, "file"));
    DHOWI_TRY(dhowi_device_check(device, function));
    if (name == NULL) return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: name is NULL", function);
    const dhowi_safetensors_item *item = file->items;
    while (item < file->items + file->count && strcmp(item->name, name) != 0) item++;
    if (item == file->items + file->count) return fail_not_found(file, name);
    dhow_tensor *host;
    void *data;
    DHOWI_TRY(dhowi_tensor_new(file->context->cpu, item->dtype, item->rank, item->shape, &host));
    dhow_status status = dhow_tensor_host_ptr(host, &data);
    if (status == DHOW_OK) {
        status = dhowi_file_read(file->fd, file->path, file->data_offset + item->begin, data,
                                 (size_t)(item->end - item->begin));
    }
    if (status == DHOW_OK) status = dhow_tensor_set_label(host, name);
    if (status == DHOW_OK) status = dhow_tensor_to(host, device, out);
    dhow_tensor_release(host);
    return status;
}

/* ---- saving ---- */

static const char *type_name(dhow_dtype dtype) {
    for (size_t i = 0; i < DHOWI_COUNT(k_types); i++) {
        if (k_types[i].dtype == dtype) return k_types[i].name;
    }
    return "?";
}

/* NULL when memory is exhausted. */
static json_t *describe(const dhow_tensor *t, uint64_t begin) {
    json_t *shape = json_array();
    for (int32_t i = 0; i < t->rank; i++) {
        if (json_array_append_new(shape, json_integer(t->shape[i])) != 0) {
            json_decref(shape);
            return NULL;
        }
    }
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", type_name(t->dtype), "shape", shape,
                     "data_offsets", (json_int_t)begin,
                     (json_int_t)(begin + dhowi_tensor_bytes(t)));
}

static bool add_notes(json_t *root, const dhowi_safetensors_note *notes, uint32_t count) {
    json_t *all = json_object();
    for (uint32_t i = 0; i < count; i++) {
        if (json_object_set_new(all, notes[i].name, json_string(notes[i].value)) != 0) {
            json_decref(all);
            return false;
        }
    }
    return json_object_set_new(root, k_notes, all) == 0;
}

static dhow_status build_header(uint32_t count, const char *const *names,
                                dhow_tensor *const *tensors, const dhowi_safetensors_note *notes,
                                uint32_t note_count, char **out) {
    static const char function[] = "dhow_safetensors_save";
    json_t *root = json_object();
    uint64_t at = 0;
    dhow_status status = root == NULL || (note_count > 0 && !add_notes(root, notes, note_count))
                             ? dhowi_fail_memory(function)
                             : DHOW_OK;
    for (uint32_t i = 0; i < count && status == DHOW_OK; i++) {
        status = names[i] == NULL
                     ? dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: name %u is NULL", function, i)
                     : dhowi_tensor_check_read(tensors[i], function, names[i]);
        if (status != DHOW_OK) break;
        if (strcmp(names[i], k_notes) == 0 || json_object_get(root, names[i]) != NULL) {
            status =
                dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the name '%.64s' is there twice or reserved",
                           function, names[i]);
        } else if (!dhowi_is_utf8(names[i])) {
            status = dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: the name '%.64s' is no UTF-8", function,
                                names[i]);
        } else if (json_object_set_new(root, names[i], describe(tensors[i], at)) != 0) {
            status = dhowi_fail_memory(function);
        }
        at += dhowi_tensor_bytes(tensors[i]);
    }
    char *text = status == DHOW_OK ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (status == DHOW_OK && text == NULL) status = dhowi_fail_memory(function);
    *out = text;
    return status;
}

/* Length, header and blanks up to a multiple of 8, on which the data begin. */
static dhow_status write_header(dhowi_file_writer *writer, const char *header) {
    static const char blanks[] = "        ";
    const size_t length = strlen(header), padding = (8 - length % 8) % 8;
    unsigned char prefix[8];
    for (int i = 0; i < 8; i++)
        prefix[i] = (unsigned char)((uint64_t)(length + padding) >> (8 * i));
    DHOWI_TRY(dhowi_file_append(writer, prefix, sizeof prefix));
    DHOWI_TRY(dhowi_file_append(writer, header, length));
    return dhowi_file_append(writer, blanks, padding);
}

static dhow_status write_tensor(dhowi_file_writer *writer, dhow_tensor *tensor) {
    const uint64_t bytes = dhowi_tensor_bytes(tensor);
    if (bytes == 0) return DHOW_OK;
    void *data = dhowi_alloc((size_t)bytes);
    if (data == NULL) return dhowi_fail_memory("dhow_safetensors_save");
    dhow_status status = dhow_tensor_read(tensor, data, bytes);
    if (status == DHOW_OK) status = dhowi_file_append(writer, data, (size_t)bytes);
    dhowi_free(data);
    return status;
}

dhow_status dhowi_safetensors_write(const char *path, uint32_t count, const char *const *names,
                                    dhow_tensor *const *tensors,
                                    const dhowi_safetensors_note *notes, uint32_t note_count) {
    char *header;
    dhowi_file_writer writer = {0};
    DHOWI_TRY(build_header(count, names, tensors, notes, note_count, &header));
    dhow_status status = dhowi_file_begin(path, &writer);
    if (status == DHOW_OK) status = write_header(&writer, header);
    for (uint32_t i = 0; i < count && status == DHOW_OK; i++)
        status = write_tensor(&writer, tensors[i]);
    if (status == DHOW_OK) {
        status = dhowi_file_commit(&writer);
    } else {
        dhowi_file_drop(&writer);
    }
    (free)(header); /* jansson's own memory */
    return status;
}

dhow_status dhow_safetensors_save(const char *path, uint32_t count, const char *const *names,
                                  dhow_tensor *const *tensors) {
    if (path == NULL || (count > 0 && (names == NULL || tensors == NULL))) {
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "dhow_safetensors_save: an argument is NULL");
    }
    return dhowi_safetensors_write(path, count, names, tensors, NULL, 0);
}
