/* SPDX-License-Identifier: Apache-2.0
 *
 * Trains the digit classifier of this folder: batches from a loader, cross entropy, AdamW, one
 * cycle of the learning rate; then reads the images that training did not see.
 *
 *     digits-train [--device SPEC]... [--epochs N] [--seed N] [--output weights.safetensors]
 *                  [--precision f32|bf16|f16] [--log rows.csv|rows.jsonl] [--curve losses.svg]
 *
 * Several devices share each batch.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "network.h"

enum { BATCH = 64, MOST_DEVICES = 8 };
static const double k_peak = 6e-3;

#define TRY(expression)                      \
    do {                                     \
        status = (expression);               \
        if (status != DHOW_OK) goto cleanup; \
    } while (0)

typedef struct settings {
    const char *devices[MOST_DEVICES], *output, *log, *curve;
    uint32_t device_count;
    int epochs;
    uint64_t seed;
    dhow_precision precision;
} settings;

/* ---- data ---- */

/* Grey values 0 to 16 become 0 to 1; the class stays. */
static dhow_status scale(void *user, const dhow_sample *sample, const void *const *in,
                         void *const *out) {
    (void)user, (void)sample;
    for (int i = 0; i < DIGITS_SIDE * DIGITS_SIDE; i++)
        ((float *)out[0])[i] = (float)((const unsigned char *)in[0])[i] / 16;
    *(int64_t *)out[1] = *(const int64_t *)in[1];
    return DHOW_OK;
}

static dhow_status open_data(dhow_context *context, const char *images, const char *labels,
                             dhow_dataset **out) {
    const char *const paths[] = {images, labels};
    const dhow_dataset_column columns[] = {
        DHOW_INIT(dhow_dataset_column, .dtype = DHOW_F32, .rank = 3,
                  .shape = {1, DIGITS_SIDE, DIGITS_SIDE}),
        DHOW_INIT(dhow_dataset_column, .dtype = DHOW_I64)};
    dhow_dataset *files;
    dhow_status status = dhow_dataset_open_npy(context, paths, 2, &files);
    if (status != DHOW_OK) return status;
    status = dhow_dataset_map(
        files,
        &DHOW_INIT(dhow_dataset_mapping, .column_count = 2, .columns = columns, .map = scale), out);
    dhow_dataset_release(files);
    return status;
}

/* ---- training ---- */

/* One cycle: up for 3 of 10 steps, then down to nearly nothing (Smith and Topin, 2018). */
static double rate_at(double progress) {
    const double up = 0.3;
    const double part = progress < up ? 1 - progress / up : (progress - up) / (1 - up);
    const double low = progress < up ? k_peak / 25 : k_peak / 1e4;
    return low + (k_peak - low) * (1 + cos(acos(-1) * part)) / 2;
}

static dhow_status train_epoch(dhow_trainer *trainer, dhow_loader *loader, int epoch, int epochs,
                               int64_t batches) {
    dhow_batch batch = DHOW_INIT(dhow_batch);
    double loss, sum = 0;
    int64_t count = 0;
    dhow_status status;
    while ((status = dhow_loader_next(loader, &batch)) == DHOW_OK && batch.sample_count > 0) {
        const double progress = (double)(epoch * batches + count++) / (double)(epochs * batches);
        TRY(dhow_trainer_set_learning_rate(trainer, rate_at(progress)));
        TRY(dhow_trainer_step(trainer, &batch, &loss));
        sum += loss;
    }
    /* A terminal has the trainer's line. */
    if (status == DHOW_OK && (epoch % 10 == 9 || epoch == 0) && !isatty(STDERR_FILENO))
        printf("  epoch %3d  loss %.4f\n", epoch + 1, sum / (double)count);
cleanup:
    return status;
}

/* Batches that devices share come from the CPU. */
static dhow_status train(dhow_model *model, dhow_dataset *data, dhow_device *const *devices,
                         const settings *s) {
    const int64_t batches = (dhow_dataset_sample_count(data) + BATCH - 1) / BATCH;
    dhow_trainer *trainer = NULL;
    dhow_loader *loader = NULL;
    dhow_status status;
    TRY(dhow_loader_create(
        data,
        &DHOW_INIT(dhow_loader_options, .batch_size = BATCH, .shuffle = 1, .seed = s->seed,
                   .device = s->device_count == 1 ? devices[0] : NULL),
        &loader));
    TRY(dhow_trainer_create(model,
                            &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY,
                                       .optimizer = DHOW_OPTIMIZER_ADAMW, .devices = devices,
                                       .device_count = s->device_count),
                            &trainer));
    TRY(dhow_trainer_set_log(trainer, &DHOW_INIT(dhow_trainer_log, .path = s->log,
                                                 .total_steps = (uint64_t)(batches * s->epochs),
                                                 .gradient_norm = s->log != NULL)));
    for (int epoch = 0; epoch < s->epochs; epoch++)
        TRY(train_epoch(trainer, loader, epoch, s->epochs, batches));
    if (s->curve != NULL) TRY(dhow_trainer_save_curve(trainer, s->curve));
    TRY(dhow_trainer_set_log(trainer, NULL));
    TRY(dhow_trainer_update_model(trainer));
cleanup:
    dhow_loader_release(loader);
    dhow_trainer_release(trainer);
    return status;
}

/* ---- what it has learnt ---- */

static dhow_status count_right(dhow_model *model, const dhow_batch *batch, int64_t *right) {
    dhow_tensor *logits = NULL, *host = NULL, *labels = NULL;
    void *scores, *classes;
    dhow_device *cpu;
    dhow_status status;
    TRY(dhow_device_get(dhow_device_context(dhow_model_device(model)), "cpu", &cpu));
    TRY(dhow_model_run(model, NULL, (dhow_tensor *const *)batch->tensors, 1, &logits, 1));
    TRY(dhow_tensor_to(logits, cpu, &host));
    TRY(dhow_tensor_to(batch->tensors[1], cpu, &labels));
    TRY(dhow_tensor_host_ptr(host, &scores));
    TRY(dhow_tensor_host_ptr(labels, &classes));
    for (int64_t i = 0; i < batch->sample_count; i++) {
        const float *row = (const float *)scores + i * DIGITS_CLASSES;
        int best = 0;
        for (int k = 1; k < DIGITS_CLASSES; k++) best = row[k] > row[best] ? k : best;
        *right += best == ((const int64_t *)classes)[i];
    }
cleanup:
    dhow_tensor_release(logits);
    dhow_tensor_release(host);
    dhow_tensor_release(labels);
    return status;
}

static dhow_status test(dhow_model *model, dhow_dataset *data, dhow_device *device) {
    dhow_loader *loader = NULL;
    dhow_batch batch = DHOW_INIT(dhow_batch);
    int64_t right = 0;
    dhow_status status;
    TRY(dhow_loader_create(
        data, &DHOW_INIT(dhow_loader_options, .batch_size = BATCH, .device = device), &loader));
    while ((status = dhow_loader_next(loader, &batch)) == DHOW_OK && batch.sample_count > 0)
        TRY(count_right(model, &batch, &right));
    if (status == DHOW_OK)
        printf("  %lld of %lld images that it has not seen are read right (%.2f %%)\n",
               (long long)right, (long long)dhow_dataset_sample_count(data),
               100 * (double)right / (double)dhow_dataset_sample_count(data));
cleanup:
    dhow_loader_release(loader);
    return status;
}

/* ---- the program ---- */

static double seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static dhow_status run(const settings *s) {
    dhow_context *context = NULL;
    dhow_device *devices[MOST_DEVICES];
    dhow_model *model = NULL;
    dhow_dataset *train_data = NULL, *test_data = NULL;
    dhow_device_info info = DHOW_INIT(dhow_device_info);
    const double start = seconds();
    dhow_status status;
    TRY(dhow_context_create(NULL, &context));
    for (uint32_t i = 0; i < s->device_count; i++) {
        TRY(dhow_device_get(context, s->devices[i], &devices[i]));
        TRY(dhow_device_get_info(devices[i], &info));
        printf("%s %s\n", i == 0 ? "Training on" : "and on", info.name);
    }
    TRY(open_data(context, DIGITS_FOLDER "/train_images.npy", DIGITS_FOLDER "/train_labels.npy",
                  &train_data));
    TRY(open_data(context, DIGITS_FOLDER "/images.npy", DIGITS_FOLDER "/labels.npy", &test_data));
    TRY(digits_network(context, &model));
    TRY(dhow_model_init_parameters(model, s->seed));
    TRY(dhow_model_to(model, devices[0]));
    TRY(dhow_model_set_precision(model, s->precision));
    TRY(train(model, train_data, devices, s));
    TRY(test(model, test_data, devices[0]));
    if (s->output != NULL) TRY(dhow_model_save_state(model, s->output));
    printf("  %.1f s\n", seconds() - start);
cleanup:
    dhow_dataset_release(train_data);
    dhow_dataset_release(test_data);
    dhow_model_release(model);
    dhow_context_release(context);
    return status;
}

static int complain(void) {
    fprintf(stderr,
            "usage: digits-train [--device SPEC]... [--epochs 1..1000] [--seed N] "
            "[--output FILE.safetensors]\n"
            "                    [--precision f32|bf16|f16] [--log ROWS.csv|ROWS.jsonl] [--curve "
            "LOSSES.svg]\n");
    return 2;
}

static bool parse_number(const char *text, unsigned long long most, unsigned long long *out) {
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && *out <= most;
}

static bool parse_precision(const char *text, dhow_precision *out) {
    static const struct {
        const char *word;
        dhow_precision precision;
    } words[] = {
        {"f32", DHOW_PRECISION_F32}, {"bf16", DHOW_PRECISION_BF16}, {"f16", DHOW_PRECISION_F16}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i].word) != 0) continue;
        *out = words[i].precision;
        return true;
    }
    return false;
}

int main(int argc, char **argv) {
    static const struct option options[] = {
        {"device", required_argument, NULL, 'd'},    {"epochs", required_argument, NULL, 'e'},
        {"seed", required_argument, NULL, 's'},      {"output", required_argument, NULL, 'o'},
        {"precision", required_argument, NULL, 'p'}, {"log", required_argument, NULL, 'l'},
        {"curve", required_argument, NULL, 'c'},     {NULL, 0, NULL, 0}};
    settings s = {.precision = DHOW_PRECISION_DEVICE};
    unsigned long long epochs = 40, seed = 1;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'd' && s.device_count == MOST_DEVICES) return complain();
        if (c == 'd') s.devices[s.device_count++] = optarg;
        if (c == 'o') s.output = optarg;
        if (c == 'l') s.log = optarg;
        if (c == 'c') s.curve = optarg;
        if (c == '?' || (c == 'e' && (!parse_number(optarg, 1000, &epochs) || epochs == 0)) ||
            (c == 's' && !parse_number(optarg, UINT64_MAX, &seed)) ||
            (c == 'p' && !parse_precision(optarg, &s.precision)))
            return complain();
    }
    if (optind < argc) return complain();
    if (s.device_count == 0) s.device_count = 1; /* NULL: the one that dhow picks */
    s.epochs = (int)epochs;
    s.seed = seed;
    if (run(&s) == DHOW_OK) return 0;
    fprintf(stderr, "digits-train: %s\n", dhow_last_error());
    return 1;
}
