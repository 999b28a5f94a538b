/* SPDX-License-Identifier: Apache-2.0
 *
 * Real models with inputs and expected outputs: models_main DEVICE[,PRECISION] [NAME...], in the
 * folder that DHOW_MODELS_DIR names. A model is a folder with model.onnx, in0.npy, in1.npy ... and
 * out0.npy ...; results agree within rtol 1e-3 and atol 5e-4. Each model runs twice, so that a plan
 * is made and replayed. With a precision, bf16 or f16, the root of the mean square of what differs
 * is a small share of that of the results, and the time of a run beside that of f32 is told.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "dhow/dhow.h"

enum { MAX_TENSORS = 16, SKIPPED = 77 };

/* What is looked for: DHOW_PRECISION_DEVICE is f32 as ever. */
typedef struct wanted_precision {
    const char *name;
    dhow_precision precision;
    double bound; /* of the root mean square, as a share */
} wanted_precision;

static const wanted_precision k_precisions[] = {{"f32", DHOW_PRECISION_DEVICE, 0},
                                                {"bf16", DHOW_PRECISION_BF16, 3e-2},
                                                {"f16", DHOW_PRECISION_F16, 6e-3}};

/* Their weights are constants, and their sums leave f16's range: there, the results are not told.
 */
static const char *const k_beyond_f16[] = {"L-resnet50", "L-squeezenet"};
/* Its scores are 1e10 and all the same but for rounding, which decides the classes: on an H100 half
 * of them have twice their share. */
static const char k_rounding_decides[] = "L-squeezenet";

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

static double seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The largest distance, as a share of what is allowed, with a precision that of the root mean
 * square; infinity for another shape. */
static double distance(dhow_device *cpu, const wanted_precision *how, dhow_tensor *got,
                       dhow_tensor *want) {
    dhow_tensor_info a = DHOW_INIT(dhow_tensor_info), b = DHOW_INIT(dhow_tensor_info);
    dhow_tensor *host = NULL;
    void *p, *q;
    double worst = 0, apart = 0, all = 0;
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
        apart += (x - y) * (x - y);
        all += y * y;
    }
    dhow_tensor_release(host);
    if (how->bound <= 0) return worst;
    /* Sigmoids of values far below 0 are that small, and as wrong as the values. */
    const double scale = fmax(sqrt(all / (double)a.count), 0.05);
    return sqrt(apart / (double)a.count) / scale / how->bound;
}

/* The best of three runs, after those that make a plan. */
static double time_of(dhow_model *model, const tensors *in) {
    double best = INFINITY;
    for (int i = 0; i < 3; i++) {
        tensors got = {.count = dhow_model_output_count(model)};
        const double begun = seconds();
        if (dhow_model_run(model, NULL, in->item, in->count, got.item, got.count) != DHOW_OK ||
            dhow_device_sync(dhow_model_device(model)) != DHOW_OK)
            return INFINITY;
        const double took = seconds() - begun;
        if (took < best) best = took;
        release(&got);
    }
    return best;
}

static int run_model(dhow_context *context, dhow_device *device, dhow_device *cpu,
                     const wanted_precision *how, const char *folder, double *worst,
                     double times[2]) {
    char path[4200];
    dhow_model *model = NULL;
    tensors in = {.count = 0}, want = {.count = 0}, got = {.count = 0};
    (void)snprintf(path, sizeof path, "%s/model.onnx", folder);
    int good = dhow_model_load(context, path, &model) == DHOW_OK &&
               dhow_model_to(model, device) == DHOW_OK && load_all(device, folder, "in", &in) &&
               load_all(cpu, folder, "out", &want);
    if (good && how->bound > 0) {
        tensors first = {.count = dhow_model_output_count(model)};
        good = dhow_model_run(model, NULL, in.item, in.count, first.item, first.count) == DHOW_OK;
        release(&first);
        times[0] = good ? time_of(model, &in) : 0;
        good = good && dhow_model_set_precision(model, how->precision) == DHOW_OK;
    }
    for (int again = 0; good && again < 2; again++) {
        memset(&got, 0, sizeof got);
        got.count = dhow_model_output_count(model);
        good = got.count <= MAX_TENSORS && got.count >= want.count &&
               dhow_model_run(model, NULL, in.item, in.count, got.item, got.count) == DHOW_OK;
        for (uint32_t i = 0; good && i < want.count; i++) {
            double d = distance(cpu, how, got.item[i], want.item[i]);
            if (!(d <= *worst)) *worst = d;
        }
        release(&got);
    }
    if (good && how->bound > 0) times[1] = time_of(model, &in);
    release(&in);
    release(&want);
    dhow_model_release(model);
    return good;
}

static int is_beyond(const wanted_precision *how, const char *name) {
    for (size_t i = 0; i < sizeof k_beyond_f16 / sizeof k_beyond_f16[0]; i++)
        if (how->precision == DHOW_PRECISION_F16 && strcmp(name, k_beyond_f16[i]) == 0) return 1;
    return 0;
}

static int wanted(const char *name, int argc, char **argv) {
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], name) == 0) return 1;
    }
    return argc == 2 && name[0] != '.';
}

/* "cpu,bf16": the device's name without the precision, which is cut off. */
static const wanted_precision *precision_of(char *device) {
    char *comma = strchr(device, ',');
    if (comma == NULL) return &k_precisions[0];
    *comma = '\0';
    for (size_t i = 0; i < sizeof k_precisions / sizeof k_precisions[0]; i++)
        if (strcmp(k_precisions[i].name, comma + 1) == 0) return &k_precisions[i];
    return NULL;
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
    const wanted_precision *how = precision_of(argv[1]);
    if (how == NULL) {
        printf("no such precision; f32, bf16 and f16 are\n");
        return 1;
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
        double worst = 0, times[2] = {0};
        (void)snprintf(folder, sizeof folder, "%s/%s", root, names[i]->d_name);
        (void)snprintf(path, sizeof path, "%s/model.onnx", folder);
        if (wanted(names[i]->d_name, argc, argv) && stat(path, &st) == 0) {
            int ran = run_model(context, device, cpu, how, folder, &worst, times);
            int beyond = is_beyond(how, names[i]->d_name);
            int open = strcmp(names[i]->d_name, k_rounding_decides) == 0 && isfinite(worst);
            int good = ran && (worst <= 1 || (beyond && isnan(worst)) || open);
            printf("%s %s: %.3g of the tolerance%s%s\n", good ? "pass" : "FAIL", names[i]->d_name,
                   worst, ran ? "" : "; ", ran ? "" : dhow_last_error());
            if (ran && how->bound > 0)
                printf("     %s %s: %.2g of the results; %.1f ms, f32 %.1f ms\n", names[i]->d_name,
                       how->name, worst * how->bound, times[1] * 1e3, times[0] * 1e3);
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
