/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicts handwritten digits on every device found, or on the one that --device names, and
 * compares the devices.
 */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "network.h"

enum { CLASSES = DIGITS_CLASSES, SIDE = DIGITS_SIDE, ROUNDS = 20, MAX_DEVICES = 32, SHOWN = 6 };

#define TRY(expression)                      \
    do {                                     \
        status = (expression);               \
        if (status != DHOW_OK) goto cleanup; \
    } while (0)

typedef struct dataset {
    dhow_tensor *images, *labels; /* on the CPU: u8[n, 1, 8, 8], i64[n] */
    float *torch_logits;          /* [n][10] */
    int64_t count;
} dataset;

typedef struct result {
    float *logits; /* [n][10] */
    double milliseconds;
} result;

static double now_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- the network ---- */

static dhow_status build(dhow_context *context, const char *weights, dhow_model **out) {
    dhow_status status = digits_network(context, out);
    if (status != DHOW_OK) return status;
    status = dhow_model_load_state(*out, weights);
    if (status == DHOW_OK) return DHOW_OK;
    dhow_model_release(*out);
    *out = NULL;
    return status;
}

/* ---- one device ---- */

/* Grey values 0 to 16 become 0 to 1 on the device. */
static dhow_status prepare(dhow_device *device, const dataset *data, dhow_tensor **out) {
    dhow_tensor *grey = NULL, *x = NULL, *scale = NULL;
    dhow_status status;
    TRY(dhow_tensor_to(data->images, device, &grey));
    TRY(dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(data->count, 1, SIDE, SIDE), &x));
    TRY(dhow_tensor_full(device, DHOW_F32, DHOW_SHAPE(1), 16, &scale));
    TRY(dhow_cast(NULL, grey, x));
    TRY(dhow_div(NULL, x, scale, x));
cleanup:
    dhow_tensor_release(grey);
    dhow_tensor_release(scale);
    if (status != DHOW_OK) dhow_tensor_release(x);
    *out = status == DHOW_OK ? x : NULL;
    return status;
}

/* The median time of a whole batch, input and output staying on the device. */
static dhow_status measure(dhow_model *model, dhow_device *device, dhow_tensor *x, dhow_tensor *y,
                           double *out_ms) {
    double times[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        double start = now_ms();
        dhow_status status = dhow_model_run_into(model, NULL, &x, 1, &y, 1);
        if (status == DHOW_OK) status = dhow_device_sync(device);
        if (status != DHOW_OK) return status;
        times[i] = now_ms() - start;
        for (int k = i; k > 0 && times[k] < times[k - 1]; k--) {
            double t = times[k];
            times[k] = times[k - 1];
            times[k - 1] = t;
        }
    }
    *out_ms = times[ROUNDS / 2];
    return DHOW_OK;
}

static dhow_status predict(dhow_context *context, dhow_device *device, const char *weights,
                           const dataset *data, result *out) {
    dhow_model *model = NULL;
    dhow_tensor *x = NULL, *logits = NULL;
    dhow_status status;
    TRY(build(context, weights, &model));
    TRY(dhow_model_to(model, device));
    TRY(prepare(device, data, &x));
    TRY(dhow_model_run(model, NULL, &x, 1, &logits, 1));
    TRY(dhow_tensor_read(logits, out->logits, (uint64_t)data->count * CLASSES * sizeof(float)));
    TRY(measure(model, device, x, logits, &out->milliseconds));
cleanup:
    dhow_tensor_release(x);
    dhow_tensor_release(logits);
    dhow_model_release(model);
    return status;
}

/* ---- looking at results ---- */

static int best_class(const float *logits) {
    int best = 0;
    for (int k = 1; k < CLASSES; k++) best = logits[k] > logits[best] ? k : best;
    return best;
}

static double accuracy(const result *r, const int64_t *labels, int64_t count) {
    int64_t right = 0;
    for (int64_t i = 0; i < count; i++) right += best_class(r->logits + i * CLASSES) == labels[i];
    return (double)right / (double)count;
}

static double largest_difference(const float *a, const float *b, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count * CLASSES; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= largest)) largest = d; /* a NaN must show */
    }
    return largest;
}

static void draw(const uint8_t *images, const int64_t *labels, const result *r) {
    static const char *const shades[] = {" ", "░", "▒", "▓", "█"};
    printf("\n");
    for (int row = 0; row < SIDE; row++) {
        for (int i = 0; i < SHOWN; i++) {
            printf("  ");
            for (int col = 0; col < SIDE; col++) {
                const char *shade = shades[images[(i * SIDE + row) * SIDE + col] / 4];
                printf("%s%s", shade, shade);
            }
        }
        printf("\n");
    }
    for (int i = 0; i < SHOWN; i++) {
        int said = best_class(r->logits + (int64_t)i * CLASSES);
        printf("  read as %d, is %-4d", said, (int)labels[i]);
    }
    printf("\n");
}

/* ---- the program ---- */

static dhow_status load(dhow_context *context, const char *folder, dataset *data) {
    char path[4096];
    dhow_device *cpu;
    dhow_tensor *torch_logits = NULL;
    dhow_status status;
    TRY(dhow_device_get(context, "cpu", &cpu));
    (void)snprintf(path, sizeof path, "%s/images.npy", folder);
    TRY(dhow_npy_load(cpu, path, &data->images));
    (void)snprintf(path, sizeof path, "%s/labels.npy", folder);
    TRY(dhow_npy_load(cpu, path, &data->labels));
    (void)snprintf(path, sizeof path, "%s/logits.npy", folder);
    TRY(dhow_npy_load(cpu, path, &torch_logits));
    data->count = dhow_tensor_extent(data->images, 0);
    data->torch_logits = calloc((size_t)data->count * CLASSES, sizeof(float));
    if (data->torch_logits == NULL) {
        status = DHOW_OUT_OF_MEMORY;
    } else {
        status = dhow_tensor_read(torch_logits, data->torch_logits,
                                  (uint64_t)data->count * CLASSES * sizeof(float));
    }
cleanup:
    dhow_tensor_release(torch_logits);
    return status;
}

static int fail(const char *what) {
    (void)fprintf(stderr, "digits: %s: %s\n", what, dhow_last_error());
    return 1;
}

static int run(dhow_context *context, const char *folder, dhow_device *const *devices,
               uint32_t count) {
    dataset data = {0};
    result results[MAX_DEVICES] = {{0}};
    char weights[4096];
    void *images, *labels;
    int failures = 0;
    if (load(context, folder, &data) != DHOW_OK ||
        dhow_tensor_host_ptr(data.images, &images) != DHOW_OK ||
        dhow_tensor_host_ptr(data.labels, &labels) != DHOW_OK) {
        failures = fail("loading the images");
        goto cleanup;
    }
    (void)snprintf(weights, sizeof weights, "%s/digits.safetensors", folder);
    printf("%lld images that training did not see\n\n", (long long)data.count);
    printf("  %-10s %9s %22s %22s %15s\n", "device", "accuracy", "difference to first",
           "difference to PyTorch", "time per batch");
    const float *first = NULL;
    for (uint32_t i = 0; i < count; i++) {
        result *r = &results[i];
        r->logits = calloc((size_t)data.count * CLASSES, sizeof(float));
        if (r->logits == NULL || predict(context, devices[i], weights, &data, r) != DHOW_OK) {
            failures += fail(dhow_device_name(devices[i]));
            continue;
        }
        if (first == NULL) first = r->logits;
        double to_torch = largest_difference(r->logits, data.torch_logits, data.count);
        printf("  %-10s %8.2f%% %22.2e %22.2e %12.3f ms\n", dhow_device_name(devices[i]),
               100 * accuracy(r, labels, data.count),
               largest_difference(r->logits, first, data.count), to_torch, r->milliseconds);
        if (!(to_torch <= 1e-3)) failures++;
    }
    if (first != NULL) {
        for (uint32_t i = 0; i < count; i++) {
            if (results[i].logits == first) draw(images, labels, &results[i]);
        }
    }
cleanup:
    for (uint32_t i = 0; i < MAX_DEVICES; i++) free(results[i].logits);
    free(data.torch_logits);
    dhow_tensor_release(data.images);
    dhow_tensor_release(data.labels);
    return failures;
}

/* The CPU comes first: the others are compared with it. */
static uint32_t choose_devices(dhow_context *context, dhow_device **devices) {
    uint32_t count = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < dhow_device_count(context) && count < MAX_DEVICES; i++) {
            dhow_device_info info = DHOW_INIT(dhow_device_info);
            dhow_device *device;
            if (dhow_device_at(context, i, &device) != DHOW_OK ||
                dhow_device_get_info(device, &info) != DHOW_OK)
                continue;
            if ((strcmp(info.backend, "cpu") == 0) == (pass == 0)) devices[count++] = device;
        }
    }
    return count;
}

int main(int argc, char **argv) {
    static const struct option names[] = {{"device", required_argument, NULL, 'd'},
                                          {"data", required_argument, NULL, 'f'},
                                          {NULL, 0, NULL, 0}};
    const char *spec = NULL, *folder = DIGITS_FOLDER;
    int c;
    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (c == 'd') spec = optarg;
        if (c == 'f') folder = optarg;
        if (c == '?') break;
    }
    if (c == '?' || optind < argc) {
        (void)fprintf(stderr, "usage: digits [--device SPEC] [--data FOLDER]\n");
        return 2;
    }
    dhow_context *context;
    dhow_device *devices[MAX_DEVICES];
    uint32_t count = 1;
    if (dhow_context_create(NULL, &context) != DHOW_OK) return fail("starting");
    int failures;
    if (spec != NULL && dhow_device_get(context, spec, &devices[0]) != DHOW_OK) {
        failures = fail("--device");
    } else {
        if (spec == NULL) count = choose_devices(context, devices);
        failures = run(context, folder, devices, count);
    }
    dhow_context_release(context);
    return failures > 0;
}
