/* SPDX-License-Identifier: Apache-2.0
 *
 * Training on a text: pieces from anywhere in it, of which each byte is to tell the next.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "generate.h"

enum { BATCH = 12, REPORT = 50 };
static const double k_rate = 3e-3;

/* ---- the text ---- */

typedef struct text {
    unsigned char *bytes;
    int64_t count, context;
} text;

static dhow_status text_read(const char *path, int64_t context, text *out) {
    FILE *file = fopen(path, "rb");
    dhow_status status = DHOW_OK;
    *out = (text){.context = context};
    if (file == NULL)
        return dhow_set_error(DHOW_NOT_FOUND, "the text %s: %s", path, strerror(errno));
    for (int64_t room = 1 << 16; status == DHOW_OK && feof(file) == 0; room *= 2) {
        unsigned char *grown = realloc(out->bytes, (size_t)room);
        if (grown == NULL) {
            status = dhow_set_error(DHOW_OUT_OF_MEMORY, "the text %s: no memory", path);
            break;
        }
        out->bytes = grown;
        out->count += (int64_t)fread(grown + out->count, 1, (size_t)(room - out->count), file);
        if (ferror(file) != 0)
            status = dhow_set_error(DHOW_IO_ERROR, "the text %s: %s", path, strerror(errno));
    }
    (void)fclose(file);
    if (status != DHOW_OK || out->count > context) return status;
    return dhow_set_error(DHOW_INVALID_ARGUMENT,
                          "the text %s has %lld bytes, too few for pieces of %lld and what follows "
                          "them; give a longer one, or a smaller --context",
                          path, (long long)out->count, (long long)context);
}

/* Piece i begins with byte i; its target is the same a byte later. */
static dhow_status text_pieces(void *user, const int64_t *indices, int64_t count,
                               void *const *columns) {
    const text *t = user;
    int64_t *tokens = columns[0], *next = columns[1];
    for (int64_t i = 0; i < count; i++) {
        const unsigned char *piece = t->bytes + indices[i];
        for (int64_t k = 0; k < t->context; k++) {
            *tokens++ = piece[k];
            *next++ = piece[k + 1];
        }
    }
    return DHOW_OK;
}

static dhow_status open_loader(dhow_context *context, dhow_device *device, text *t, uint64_t seed,
                               dhow_loader **out) {
    const dhow_dataset_column column =
        DHOW_INIT(dhow_dataset_column, .dtype = DHOW_I64, .rank = 1, .shape = {t->context});
    const dhow_dataset_column columns[] = {column, column};
    dhow_dataset *pieces;
    dhow_status status = dhow_dataset_create(
        context,
        &DHOW_INIT(dhow_dataset_source, .sample_count = t->count - t->context, .column_count = 2,
                   .columns = columns, .read = text_pieces, .user = t),
        &pieces);
    if (status != DHOW_OK) return status;
    status = dhow_loader_create(pieces,
                                &DHOW_INIT(dhow_loader_options, .batch_size = BATCH, .shuffle = 1,
                                           .seed = seed, .device = device),
                                out);
    dhow_dataset_release(pieces);
    return status;
}

/* ---- training ---- */

static dhow_status next_batch(dhow_loader *loader, dhow_batch *batch) {
    dhow_status status = dhow_loader_next(loader, batch);
    if (status == DHOW_OK && batch->sample_count == 0) status = dhow_loader_next(loader, batch);
    return status;
}

static dhow_status make_steps(dhow_trainer *trainer, dhow_loader *loader, int steps) {
    dhow_batch batch = DHOW_INIT(dhow_batch);
    const double start = generate_seconds();
    double loss, sum = 0;
    int count = 0;
    dhow_status status;
    for (int i = 1; i <= steps; i++) {
        TRY(next_batch(loader, &batch));
        TRY(dhow_trainer_step(trainer, &batch, &loss));
        sum += loss;
        count++;
        if (i > 1 && i % REPORT != 0 && i != steps) continue;
        printf("  step %4d  loss %.3f  %.1f s\n", i, sum / count, generate_seconds() - start);
        (void)fflush(stdout);
        sum = count = 0;
    }
    status = DHOW_OK;
cleanup:
    return status;
}

static dhow_status train_on(dhow_context *context, dhow_device *device, text *t,
                            const generate_settings *s, dhow_model *model) {
    const uint64_t steps = (uint64_t)s->steps;
    dhow_trainer *trainer = NULL;
    dhow_loader *loader = NULL;
    dhow_status status;
    TRY(open_loader(context, device, t, s->seed, &loader));
    TRY(dhow_trainer_create(
        model,
        &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_CROSS_ENTROPY,
                   .optimizer = DHOW_OPTIMIZER_ADAMW, .learning_rate = k_rate, .clip_norm = 1),
        &trainer));
    TRY(dhow_trainer_set_schedule(
        trainer, &DHOW_INIT(dhow_schedule, .kind = DHOW_SCHEDULE_COSINE, .warmup_steps = steps / 10,
                            .start_factor = 0.01, .total_steps = steps - steps / 10)));
    TRY(make_steps(trainer, loader, s->steps));
    TRY(dhow_trainer_update_model(trainer));
cleanup:
    dhow_trainer_release(trainer);
    dhow_loader_release(loader);
    return status;
}

/* Bytes begin with small numbers, places with waves of many lengths (Vaswani et al., 2017):
 * attention finds neighbours early. */
static dhow_status begin_embeddings(dhow_context *context, const generate_size *size,
                                    dhow_model *model) {
    const double small = 0.1;
    dhow_model_parameter_info token = DHOW_INIT(dhow_model_parameter_info);
    dhow_tensor *places = NULL;
    dhow_device *cpu;
    void *data;
    dhow_status status;
    TRY(dhow_device_get(context, "cpu", &cpu));
    TRY(dhow_tensor_create(cpu, DHOW_F32, DHOW_SHAPE(size->context, size->width), &places));
    TRY(dhow_tensor_host_ptr(places, &data));
    for (int64_t i = 0; i < size->context * size->width; i++) {
        const int64_t place = i / size->width, k = i % size->width;
        const double turn = (double)place * pow(1e4, -(double)(k / 2 * 2) / (double)size->width);
        ((float *)data)[i] = (float)(small * (k % 2 == 0 ? sin(turn) : cos(turn)));
    }
    TRY(dhow_model_set_parameter(model, "position.weight", places));
    TRY(dhow_model_parameter_at(model, 0, &token));
    TRY(dhow_mul_scalar(NULL, token.tensor, dhow_scalar_f64(small), token.tensor));
cleanup:
    dhow_tensor_release(places);
    return status;
}

/* Before it has trained for minutes. */
static dhow_status check_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    char folder[4096];
    (void)snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - path) + 1 : 1,
                   slash != NULL ? path : ".");
    if (access(folder, W_OK) == 0) return DHOW_OK;
    return dhow_set_error(DHOW_IO_ERROR, "%s: cannot write there: %s", path, strerror(errno));
}

dhow_status generate_train(dhow_context *context, dhow_device *device, const generate_settings *s,
                           dhow_model **out) {
    text t = {.count = 0};
    dhow_model *model = NULL;
    dhow_status status;
    *out = NULL;
    if (s->output != NULL) TRY(check_folder(s->output));
    TRY(text_read(s->text, s->size.context, &t));
    TRY(generate_network_to_train(context, &s->size, &model));
    TRY(dhow_model_init_parameters(model, s->seed));
    TRY(begin_embeddings(context, &s->size, model));
    TRY(dhow_model_to(model, device));
    printf("Training on %s, %lld bytes\n", s->text, (long long)t.count);
    TRY(train_on(context, device, &t, s, model));
    if (s->output != NULL) TRY(dhow_model_save_state(model, s->output));
    *out = model;
    model = NULL;
cleanup:
    dhow_model_release(model);
    free(t.bytes);
    return status;
}
