/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs folders of the ONNX project's test data (model.onnx, test_data_set_*\/input_*.pb,
 * output_*.pb) on a device and compares: data_runner DEVICE FOLDER LIST [-v]. LIST holds the names
 * that must pass, and names that are skipped with their reason after a tab. Prints a count, and
 * each name that broke the list. data_runner DEVICE FOLDER -     prints "pass NAME" or "fail NAME
 * <tab> reason" for every folder
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dhow/dhow.h"
#include "formats/onnx_wire.h"

enum { MAX_TENSORS = 32, REASON = 400 };

typedef struct test_data {
    dhow_datum *item[MAX_TENSORS];
    uint32_t count;
} test_data;

static char g_reason[REASON];

static int give_up(const char *what, const char *detail) {
    (void)snprintf(g_reason, sizeof g_reason, "%s%s%s", what, detail[0] ? ": " : "", detail);
    return 0;
}

static void release(test_data *d) {
    for (uint32_t i = 0; i < d->count; i++) dhow_datum_release(d->item[i]);
    d->count = 0;
}

/* ---- tensors in files ---- */

static char *read_file(const char *path, size_t *bytes) {
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (f == NULL) return NULL;
    char *data = fstat(fileno(f), &st) == 0 ? malloc((size_t)st.st_size + 1) : NULL;
    *bytes = data != NULL ? fread(data, 1, (size_t)st.st_size, f) : 0;
    (void)fclose(f);
    return data;
}

static int numbers_of(dhow_device *device, const dhowi_onnx_tensor *t, dhow_datum **out) {
    dhow_dtype dtype;
    int64_t count;
    uint64_t bytes;
    dhow_tensor *tensor = NULL;
    dhow_status status = dhowi_onnx_tensor_check(t, &dtype, &count, &bytes);
    char *values = status == DHOW_OK ? malloc(bytes + 1) : NULL;
    if (values != NULL) status = dhowi_onnx_tensor_read(NULL, t, NULL, values);
    if (values != NULL && status == DHOW_OK)
        status = dhow_tensor_from_data(device, dtype, t->rank, t->shape, values, &tensor);
    if (status == DHOW_OK) status = dhow_datum_of_tensor(tensor, out);
    dhow_tensor_release(tensor);
    free(values);
    return status == DHOW_OK ? 1 : give_up("data", dhow_last_error());
}

static dhowi_wire wire_of(dhowi_slice bytes) {
    return (dhowi_wire){bytes.data, bytes.data + bytes.length, bytes.data, "data", DHOW_OK};
}

static int texts_of(const dhowi_onnx_tensor *t, dhow_datum **out) {
    int64_t count = 1;
    for (int32_t i = 0; i < t->rank; i++) count *= t->shape[i];
    dhowi_slice *parts = calloc((size_t)count + 1, sizeof *parts);
    char **texts = calloc((size_t)count + 1, sizeof *texts);
    dhow_status status = DHOW_OUT_OF_MEMORY;
    if (parts != NULL && texts != NULL) status = dhowi_onnx_tensor_texts(t, count, parts);
    for (int64_t i = 0; status == DHOW_OK && i < count; i++)
        texts[i] = strndup(parts[i].length > 0 ? parts[i].data : "", parts[i].length);
    if (status == DHOW_OK)
        status = dhow_datum_of_texts(t->rank, t->shape, (const char *const *)texts, out);
    for (int64_t i = 0; texts != NULL && i < count; i++) free(texts[i]);
    free(texts);
    free(parts);
    return status == DHOW_OK ? 1 : give_up("texts", dhow_last_error());
}

static int tensor_of(dhow_device *device, dhowi_slice bytes, dhow_datum **out) {
    dhowi_arena arena = {0};
    dhowi_onnx_tensor t;
    int fits = dhowi_onnx_parse_tensor("data", bytes.data, bytes.length, &arena, &t) == DHOW_OK ||
               give_up("data", dhow_last_error());
    if (fits) fits = t.type == DHOWI_ONNX_STRING ? texts_of(&t, out) : numbers_of(device, &t, out);
    dhowi_arena_end(&arena);
    return fits;
}

/* SequenceProto: tensors are field 3. */
static int sequence_of(dhow_device *device, dhowi_slice bytes, dhow_datum **out) {
    test_data parts = {.count = 0};
    dhowi_wire wire = wire_of(bytes);
    dhowi_field field;
    int fits = 1;
    while (fits && dhowi_wire_next(&wire, &field) && parts.count < MAX_TENSORS) {
        if (field.number != 3 || field.type != DHOWI_WIRE_BYTES) continue;
        fits = tensor_of(device, field.bytes, &parts.item[parts.count]);
        parts.count += (uint32_t)fits;
    }
    if (fits && dhow_datum_of_sequence(parts.item, parts.count, out) != DHOW_OK)
        fits = give_up("sequence", dhow_last_error());
    release(&parts);
    return fits;
}

/* OptionalProto: a tensor is field 3, a sequence field 5, without either there is nothing. */
static int optional_of(dhow_device *device, dhowi_slice bytes, dhow_datum **out) {
    dhowi_wire wire = wire_of(bytes);
    dhowi_field field;
    while (dhowi_wire_next(&wire, &field)) {
        if (field.number == 3 && field.type == DHOWI_WIRE_BYTES)
            return tensor_of(device, field.bytes, out);
        if (field.number == 5) return sequence_of(device, field.bytes, out);
    }
    return dhow_datum_of_nothing(out) == DHOW_OK || give_up("optional", dhow_last_error());
}

static int load_datum(dhow_device *device, const dhow_model_value_info *info, const char *path,
                      dhow_datum **out) {
    size_t bytes;
    char *content = read_file(path, &bytes);
    if (content == NULL) return give_up("data", "a file cannot be read");
    dhowi_slice all = {content, bytes};
    int fits = info->optional                      ? optional_of(device, all, out)
               : info->kind == DHOW_DATUM_SEQUENCE ? sequence_of(device, all, out)
                                                   : tensor_of(device, all, out);
    free(content);
    return fits;
}

typedef dhow_status describe(const dhow_model *model, uint32_t index, dhow_model_value_info *out);

static int load_set(dhow_device *device, const dhow_model *model, describe *of, const char *folder,
                    const char *kind, test_data *out) {
    char path[4096];
    struct stat st;
    out->count = 0;
    while (out->count < MAX_TENSORS) {
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        (void)snprintf(path, sizeof path, "%s/%s_%u.pb", folder, kind, out->count);
        if (stat(path, &st) != 0) return 1;
        if (of(model, out->count, &info) != DHOW_OK) return give_up(kind, dhow_last_error());
        if (!load_datum(device, &info, path, &out->item[out->count])) return 0;
        out->count++;
    }
    return give_up("too many tensors", "");
}

/* ---- comparing: |got - want| <= 1e-5 + 1e-3 |want|, or two units in the last place of 16 bits;
 * integers as they are ---- */

static double *values_of(dhow_device *cpu, dhow_tensor *t) {
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    dhow_tensor *host = NULL, *wide = NULL;
    double *values = NULL;
    void *data;
    if (dhow_tensor_get_info(t, &info) == DHOW_OK && dhow_tensor_to(t, cpu, &host) == DHOW_OK &&
        dhow_tensor_create(cpu, DHOW_F64, info.rank, info.shape, &wide) == DHOW_OK &&
        dhow_cast(NULL, host, wide) == DHOW_OK && dhow_tensor_host_ptr(wide, &data) == DHOW_OK) {
        values = malloc(((size_t)info.count + 1) * sizeof *values);
        if (values != NULL) memcpy(values, data, (size_t)info.count * sizeof *values);
    }
    dhow_tensor_release(host);
    dhow_tensor_release(wide);
    return values;
}

static int compare_tensors(dhow_device *cpu, dhow_tensor *got, dhow_tensor *want, uint32_t index) {
    dhow_tensor_info a = DHOW_INIT(dhow_tensor_info), b = DHOW_INIT(dhow_tensor_info);
    char text[160];
    if (dhow_tensor_get_info(got, &a) != DHOW_OK || dhow_tensor_get_info(want, &b) != DHOW_OK)
        return give_up("info", dhow_last_error());
    int same = a.dtype == b.dtype && a.rank == b.rank;
    for (int32_t i = 0; same && i < a.rank; i++) same = a.shape[i] == b.shape[i];
    (void)snprintf(text, sizeof text, "output %u", index);
    if (!same) return give_up(text, "another dtype or shape");
    double *p = values_of(cpu, got), *q = values_of(cpu, want);
    const double share = a.dtype == DHOW_BF16 ? 1.0 / 64 : a.dtype == DHOW_F16 ? 1.0 / 512 : 1e-3;
    int fits = p != NULL && q != NULL;
    for (int64_t i = 0; fits && i < a.count; i++) {
        int equal = p[i] == q[i] || (isnan(p[i]) && isnan(q[i]));
        if (equal || fabs(p[i] - q[i]) <= 1e-5 + share * fabs(q[i])) continue;
        (void)snprintf(text, sizeof text, "output %u, element %lld is %g, not %g", index,
                       (long long)i, p[i], q[i]);
        fits = 0;
    }
    if (!fits) (void)give_up(text, p != NULL && q != NULL ? "" : dhow_last_error());
    free(p);
    free(q);
    return fits;
}

static int compare(dhow_device *cpu, const dhow_datum *got, const dhow_datum *want,
                   uint32_t index) {
    dhow_datum_info a = DHOW_INIT(dhow_datum_info), b = DHOW_INIT(dhow_datum_info);
    dhow_tensor *p, *q;
    const char *s, *t;
    char text[160];
    (void)snprintf(text, sizeof text, "output %u", index);
    if (dhow_datum_get_info(got, &a) != DHOW_OK || dhow_datum_get_info(want, &b) != DHOW_OK)
        return give_up(text, dhow_last_error());
    if (a.kind != b.kind || a.count != b.count || a.rank != b.rank ||
        memcmp(a.shape, b.shape, sizeof a.shape) != 0)
        return give_up(text, "another kind, count or shape");
    if (dhow_datum_tensor(got, &p) == DHOW_OK && dhow_datum_tensor(want, &q) == DHOW_OK)
        return compare_tensors(cpu, p, q, index);
    for (int64_t i = 0; i < a.count && a.kind == DHOW_DATUM_TEXTS; i++) {
        if (dhow_datum_text(got, i, &s) != DHOW_OK || dhow_datum_text(want, i, &t) != DHOW_OK ||
            strcmp(s, t) != 0)
            return give_up(text, "another text");
    }
    for (uint32_t i = 0; i < a.count && a.kind == DHOW_DATUM_SEQUENCE; i++) {
        dhow_datum *x, *y;
        if (dhow_datum_item(got, i, &x) != DHOW_OK || dhow_datum_item(want, i, &y) != DHOW_OK ||
            !compare(cpu, x, y, index))
            return 0;
    }
    return 1;
}

/* ---- one folder ---- */

/* Models of tensors alone run as such. */
static int run_once(dhow_model *model, const test_data *in, test_data *got) {
    dhow_tensor *from[MAX_TENSORS] = {NULL}, *to[MAX_TENSORS] = {NULL};
    int plain = 1;
    dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
    for (uint32_t i = 0; i < in->count; i++)
        plain = plain && dhow_datum_tensor(in->item[i], &from[i]) == DHOW_OK;
    for (uint32_t i = 0; i < got->count; i++)
        plain = plain && dhow_model_output_at(model, i, &info) == DHOW_OK &&
                info.kind == DHOW_DATUM_TENSOR && !info.optional;
    if (!plain)
        return dhow_model_run_data(model, NULL, in->item, in->count, got->item, got->count) ==
               DHOW_OK;
    int fits = dhow_model_run(model, NULL, from, in->count, to, got->count) == DHOW_OK;
    for (uint32_t i = 0; i < got->count; i++) {
        if (fits) fits = dhow_datum_of_tensor(to[i], &got->item[i]) == DHOW_OK;
        dhow_tensor_release(to[i]);
    }
    return fits;
}

static int run_set(dhow_model *model, dhow_device *device, dhow_device *cpu, const char *folder) {
    test_data in = {.count = 0}, want = {.count = 0}, got = {.count = 0};
    int fits = load_set(device, model, dhow_model_input_at, folder, "input", &in) &&
               load_set(cpu, model, dhow_model_output_at, folder, "output", &want);
    for (int again = 0; fits && again < 2; again++) { /* the second run replays the plan */
        got.count = dhow_model_output_count(model);
        memset(got.item, 0, sizeof got.item);
        if (got.count > MAX_TENSORS || got.count < want.count) fits = give_up("outputs", "");
        if (fits && !run_once(model, &in, &got)) fits = give_up("run", dhow_last_error());
        for (uint32_t i = 0; fits && i < want.count; i++)
            fits = compare(cpu, got.item[i], want.item[i], i);
        release(&got);
    }
    release(&in);
    release(&want);
    return fits;
}

static int run_folder(dhow_context *context, dhow_device *device, const char *folder) {
    char path[4096];
    dhow_model *model = NULL;
    dhow_device *cpu;
    struct stat st;
    int fits = 1;
    (void)snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (dhow_device_get(context, "cpu", &cpu) != DHOW_OK ||
        dhow_model_load(context, path, &model) != DHOW_OK ||
        dhow_model_to(model, device) != DHOW_OK)
        fits = give_up("load", dhow_last_error());
    for (int set = 0; fits; set++) {
        (void)snprintf(path, sizeof path, "%s/test_data_set_%d", folder, set);
        if (stat(path, &st) != 0) {
            if (set == 0) fits = give_up("no data", "");
            break;
        }
        fits = run_set(model, device, cpu, path);
    }
    dhow_model_release(model);
    return fits;
}

/* ---- lists ---- */

static int report_all(dhow_context *context, dhow_device *device, const char *folder) {
    struct dirent **names;
    int count = scandir(folder, &names, NULL, alphasort), passed = 0;
    for (int i = 0; i < count; i++) {
        char path[4096];
        if (names[i]->d_name[0] == '.') {
            free(names[i]);
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (run_folder(context, device, path)) {
            printf("pass %s\n", names[i]->d_name);
            passed++;
        } else {
            printf("fail %s\t%s\n", names[i]->d_name, g_reason);
        }
        free(names[i]);
    }
    if (count >= 0) free(names);
    fprintf(stderr, "%d pass\n", passed);
    return 0;
}

static int check_list(dhow_context *context, dhow_device *device, const char *folder,
                      const char *list) {
    char line[1024], path[4096];
    int passed = 0, failed = 0, skipped = 0;
    FILE *f = fopen(list, "r");
    if (f == NULL) {
        fprintf(stderr, "cannot open %s\n", list);
        return 1;
    }
    while (fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *reason = strchr(line, '\t');
        if (line[0] == '#' || line[0] == '\0') continue;
        if (reason != NULL) {
            *reason++ = '\0';
            printf("skipped %s: %s\n", line, reason);
            skipped++;
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%s", folder, line);
        if (run_folder(context, device, path)) {
            passed++;
        } else {
            printf("FAILED %s: %s\n", line, g_reason);
            failed++;
        }
    }
    (void)fclose(f);
    printf("%s: %d pass, %d skipped, %d failed\n", folder, passed, skipped, failed);
    return failed != 0 || passed == 0;
}

int main(int argc, char **argv) {
    dhow_context *context;
    dhow_device *device;
    struct stat st;
    if (argc != 4) {
        fprintf(stderr, "usage: data_runner DEVICE FOLDER LIST\n");
        return 2;
    }
    if (stat(argv[2], &st) != 0) {
        printf("%s is not here: scripts/setup --test installs libonnx-testdata\n", argv[2]);
        return 77; /* skipped */
    }
    if (dhow_context_create(NULL, &context) != DHOW_OK ||
        dhow_device_get(context, argv[1], &device) != DHOW_OK) {
        fprintf(stderr, "%s\n", dhow_last_error());
        return 1;
    }
    int result = strcmp(argv[3], "-") == 0 ? report_all(context, device, argv[2])
                                           : check_list(context, device, argv[2], argv[3]);
    dhow_context_release(context);
    return result;
}
