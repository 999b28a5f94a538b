/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs folders of the ONNX project's test data (model.onnx, test_data_set_*\/input_*.pb, output_*.pb) on a
 * device and compares: data_runner DEVICE FOLDER LIST [-v]. LIST holds the names that must pass, and
 * names that are skipped with their reason after a tab. Prints a count, and each name that broke the
 * list.
 *   data_runner DEVICE FOLDER -     prints "pass NAME" or "fail NAME <tab> reason" for every folder
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dhow/dhow.h"
#include "formats/onnx.h"

enum { MAX_TENSORS = 32, REASON = 400 };

typedef struct tensors {
    dhow_tensor *item[MAX_TENSORS];
    uint32_t count;
} tensors;

static char g_reason[REASON];

static int give_up(const char *what, const char *detail) {
    (void)snprintf(g_reason, sizeof g_reason, "%s%s%s", what, detail[0] ? ": " : "", detail);
    return 0;
}

static void release(tensors *t) {
    for (uint32_t i = 0; i < t->count; i++) dhow_tensor_release(t->item[i]);
    t->count = 0;
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

static int load_tensor(dhow_device *device, const char *path, dhow_tensor **out) {
    dhowi_arena arena = {0};
    dhowi_onnx_tensor t;
    dhow_dtype dtype;
    int64_t count;
    uint64_t tensor_bytes;
    size_t bytes;
    char *data = read_file(path, &bytes);
    dhow_status status = data != NULL ? dhowi_onnx_parse_tensor(path, data, bytes, &arena, &t)
                                      : DHOW_NOT_FOUND;
    if (status == DHOW_OK) status = dhowi_onnx_tensor_check(&t, &dtype, &count, &tensor_bytes);
    char *values = status == DHOW_OK ? malloc(tensor_bytes + 1) : NULL;
    if (values != NULL) status = dhowi_onnx_tensor_read(NULL, &t, values);
    if (values != NULL && status == DHOW_OK)
        status = dhow_tensor_from_data(device, dtype, t.rank, t.shape, values, out);
    free(values);
    free(data);
    dhowi_arena_end(&arena);
    return status == DHOW_OK ? 1 : give_up("data", dhow_last_error());
}

static int load_set(dhow_device *device, const char *folder, const char *kind, tensors *out) {
    char path[4096];
    struct stat st;
    out->count = 0;
    while (out->count < MAX_TENSORS) {
        (void)snprintf(path, sizeof path, "%s/%s_%u.pb", folder, kind, out->count);
        if (stat(path, &st) != 0) return 1;
        if (!load_tensor(device, path, &out->item[out->count])) return 0;
        out->count++;
    }
    return give_up("too many tensors", "");
}

/* ---- comparing: |got - want| <= 1e-5 + 1e-3 |want|; integers as they are ---- */

static double *values_of(dhow_device *cpu, dhow_tensor *t) {
    dhow_tensor_info info;
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

static int compare(dhow_device *cpu, dhow_tensor *got, dhow_tensor *want, uint32_t index) {
    dhow_tensor_info a, b;
    char text[160];
    if (dhow_tensor_get_info(got, &a) != DHOW_OK || dhow_tensor_get_info(want, &b) != DHOW_OK)
        return give_up("info", dhow_last_error());
    int same = a.dtype == b.dtype && a.rank == b.rank;
    for (int32_t i = 0; same && i < a.rank; i++) same = a.shape[i] == b.shape[i];
    (void)snprintf(text, sizeof text, "output %u", index);
    if (!same) return give_up(text, "another dtype or shape");
    double *p = values_of(cpu, got), *q = values_of(cpu, want);
    int fits = p != NULL && q != NULL;
    for (int64_t i = 0; fits && i < a.count; i++) {
        int equal = p[i] == q[i] || (isnan(p[i]) && isnan(q[i]));
        if (equal || fabs(p[i] - q[i]) <= 1e-5 + 1e-3 * fabs(q[i])) continue;
        (void)snprintf(text, sizeof text, "output %u, element %lld is %g, not %g", index,
                       (long long)i, p[i], q[i]);
        fits = 0;
    }
    if (!fits) (void)give_up(text, p != NULL && q != NULL ? "" : dhow_last_error());
    free(p);
    free(q);
    return fits;
}

/* ---- one folder ---- */

static int run_set(dhow_model *model, dhow_device *device, dhow_device *cpu, const char *folder) {
    tensors in = {.count = 0}, want = {.count = 0}, got = {.count = 0};
    int fits = load_set(device, folder, "input", &in) && load_set(cpu, folder, "output", &want);
    for (int again = 0; fits && again < 2; again++) { /* the second run replays the plan */
        got.count = dhow_model_output_count(model);
        memset(got.item, 0, sizeof got.item);
        if (got.count > MAX_TENSORS || got.count < want.count) fits = give_up("outputs", "");
        if (fits && dhow_model_run(model, NULL, in.item, in.count, got.item, got.count) != DHOW_OK)
            fits = give_up("run", dhow_last_error());
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
        if (names[i]->d_name[0] == '.') continue;
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
