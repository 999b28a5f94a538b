/* SPDX-License-Identifier: Apache-2.0
 *
 * Real models with inputs and expected outputs: models_main DEVICE [NAME...], in the folder that
 * DHOW_MODELS_DIR names. A model is a folder with model.onnx, in0.npy, in1.npy ... and out0.npy ...; results
 * agree within rtol 1e-3 and atol 5e-4. Each model runs twice, so that a plan is made and replayed.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dhow/dhow.h"

enum { MAX_TENSORS = 16, SKIPPED = 77 };

typedef struct tensors {
    dhow_tensor *item[MAX_TENSORS];
    uint32_t count;
} tensors;

static void release(tensors *t) {
    for (uint32_t i = 0; i < t->count; i++) dhow_tensor_release(t->item[i]);
    t->count = 0;
}

static int load_all(dhow_device *device, const char *folder, const char *kind, tensors *out) {
    char path[4200];
    struct stat st;
    for (out->count = 0; out->count < MAX_TENSORS; out->count++) {
        (void)snprintf(path, sizeof path, "%s/%s%u.npy", folder, kind, out->count);
        if (stat(path, &st) != 0) return out->count > 0;
        if (dhow_npy_load(device, path, &out->item[out->count]) != DHOW_OK) return 0;
    }
    return 1;
}

/* The largest distance, as a share of what is allowed; infinity for another shape. */
static double distance(dhow_device *cpu, dhow_tensor *got, dhow_tensor *want) {
    dhow_tensor_info a = DHOW_INIT(dhow_tensor_info), b = DHOW_INIT(dhow_tensor_info);
    dhow_tensor *host = NULL;
    void *p, *q;
    double worst = 0;
    if (dhow_tensor_get_info(got, &a) != DHOW_OK || dhow_tensor_get_info(want, &b) != DHOW_OK ||
        a.dtype != DHOW_F32 || b.dtype != DHOW_F32 || a.rank != b.rank ||
        memcmp(a.shape, b.shape, (size_t)a.rank * sizeof a.shape[0]) != 0)
        return INFINITY;
    if (dhow_tensor_to(got, cpu, &host) != DHOW_OK || dhow_tensor_host_ptr(host, &p) != DHOW_OK ||
        dhow_tensor_host_ptr(want, &q) != DHOW_OK)
        return INFINITY;
    for (int64_t i = 0; i < a.count; i++) {
        double x = (double)((const float *)p)[i], y = (double)((const float *)q)[i];
        double share = x == y ? 0 : fabs(x - y) / (5e-4 + 1e-3 * fabs(y));
        if (!(share <= worst)) worst = share;
    }
    dhow_tensor_release(host);
    return worst;
}

static int run_model(dhow_context *context, dhow_device *device, dhow_device *cpu,
                     const char *folder, double *worst) {
    char path[4200];
    dhow_model *model = NULL;
    tensors in = {.count = 0}, want = {.count = 0}, got = {.count = 0};
    (void)snprintf(path, sizeof path, "%s/model.onnx", folder);
    int good = dhow_model_load(context, path, &model) == DHOW_OK &&
               dhow_model_to(model, device) == DHOW_OK && load_all(device, folder, "in", &in) &&
               load_all(cpu, folder, "out", &want);
    for (int again = 0; good && again < 2; again++) {
        memset(&got, 0, sizeof got);
        got.count = dhow_model_output_count(model);
        good = got.count <= MAX_TENSORS && got.count >= want.count &&
               dhow_model_run(model, NULL, in.item, in.count, got.item, got.count) == DHOW_OK;
        for (uint32_t i = 0; good && i < want.count; i++) {
            double d = distance(cpu, got.item[i], want.item[i]);
            if (!(d <= *worst)) *worst = d;
        }
        release(&got);
    }
    release(&in);
    release(&want);
    dhow_model_release(model);
    return good;
}

static int wanted(const char *name, int argc, char **argv) {
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], name) == 0) return 1;
    }
    return argc == 2 && name[0] != '.';
}

int main(int argc, char **argv) {
    const char *root = getenv("DHOW_MODELS_DIR");
    dhow_context *context;
    dhow_device *device, *cpu;
    struct dirent **names;
    int count = root != NULL ? scandir(root, &names, NULL, alphasort) : -1;
    if (argc < 2 || count < 0) {
        printf("no models: DHOW_MODELS_DIR names a folder of them\n");
        return SKIPPED;
    }
    if (dhow_context_create(NULL, &context) != DHOW_OK ||
        dhow_device_get(context, argv[1], &device) != DHOW_OK ||
        dhow_device_get(context, "cpu", &cpu) != DHOW_OK) {
        printf("%s\n", dhow_last_error());
        return 1;
    }
    int failed = 0, passed = 0;
    for (int i = 0; i < count; i++) {
        char folder[4096], path[4200];
        struct stat st;
        double worst = 0;
        (void)snprintf(folder, sizeof folder, "%s/%s", root, names[i]->d_name);
        (void)snprintf(path, sizeof path, "%s/model.onnx", folder);
        if (wanted(names[i]->d_name, argc, argv) && stat(path, &st) == 0) {
            int ran = run_model(context, device, cpu, folder, &worst);
            int good = ran && worst <= 1;
            printf("%s %s: %.3g of the tolerance%s%s\n", good ? "pass" : "FAIL", names[i]->d_name,
                   worst, ran ? "" : "; ", ran ? "" : dhow_last_error());
            failed += !good;
            passed += good;
        }
        free(names[i]);
    }
    free(names);
    printf("%d models agree, %d do not\n", passed, failed);
    dhow_context_release(context);
    return failed != 0 || passed == 0;
}
