/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing on: each byte is drawn from what the network says of those before it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generate.h"

enum { MAX_CACHES = 2 * GENERATE_MAX_LAYERS };

/* ---- drawing a byte ---- */

/* Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014. */
static double uniform(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static int draw(const float *logits, double temperature, uint64_t *state) {
    int best = 0;
    double sum = 0;
    for (int i = 1; i < GENERATE_BYTES; i++) best = logits[i] > logits[best] ? i : best;
    if (temperature == 0) return best;
    for (int i = 0; i < GENERATE_BYTES; i++)
        sum += exp((double)(logits[i] - logits[best]) / temperature);
    double left = uniform(state) * sum;
    for (int i = 0; i < GENERATE_BYTES; i++) {
        left -= exp((double)(logits[i] - logits[best]) / temperature);
        if (left < 0) return i;
    }
    return best;
}

/* ---- the network and what it reads ---- */

typedef struct writer {
    dhow_model *model;
    dhow_device *device;
    uint32_t cache_count;
    dhow_tensor **caches; /* keys and values of each layer */
    dhow_tensor *token, *place, *start, *length, *logits;
    int64_t context, count, seen; /* bytes that there is room for, in `read`, and in the caches */
    int64_t *read;
} writer;

static void writer_end(writer *w) {
    dhow_tensor *const all[] = {w->token, w->place, w->start, w->length, w->logits};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) dhow_tensor_release(all[i]);
    for (uint32_t i = 0; w->caches != NULL && i < w->cache_count; i++)
        dhow_tensor_release(w->caches[i]);
    dhow_model_release(w->model);
    free(w->caches);
    free(w->read);
}

/* Weights of the same names and shapes. */
static dhow_status take_weights(dhow_model *model, const dhow_model *from) {
    dhow_model_parameter_info p = DHOW_INIT(dhow_model_parameter_info);
    dhow_status status;
    for (uint32_t i = 0; i < dhow_model_parameter_count(from); i++) {
        TRY(dhow_model_parameter_at(from, i, &p));
        TRY(dhow_model_set_parameter(model, p.name, p.tensor));
    }
    status = DHOW_OK;
cleanup:
    return status;
}

static dhow_status writer_begin(writer *w, dhow_context *context, dhow_device *device,
                                const generate_settings *s, const dhow_model *trained) {
    generate_size size = s->size;
    dhow_status status;
    if (trained == NULL) TRY(generate_size_of(context, s->weights, &size));
    TRY(generate_network_to_run(context, &size, &w->model));
    TRY(trained != NULL ? take_weights(w->model, trained)
                        : dhow_model_load_state(w->model, s->weights));
    TRY(dhow_model_to(w->model, device));
    w->device = device;
    w->context = size.context;
    w->cache_count = 2 * (uint32_t)size.layers;
    w->caches = calloc(w->cache_count, sizeof(dhow_tensor *));
    w->read = calloc((size_t)size.context, sizeof *w->read);
    if (w->read == NULL || w->caches == NULL) TRY(dhow_set_error(DHOW_OUT_OF_MEMORY, "no memory"));
    for (uint32_t i = 0; i < w->cache_count; i++)
        TRY(dhow_tensor_zeros(device, DHOW_F32,
                              DHOW_SHAPE(1, size.width / GENERATE_HEAD_FEATURES, size.context,
                                         GENERATE_HEAD_FEATURES),
                              &w->caches[i]));
    TRY(dhow_tensor_create(device, DHOW_I64, DHOW_SHAPE(1, 1), &w->token));
    TRY(dhow_tensor_create(device, DHOW_I64, DHOW_SHAPE(1, 1), &w->place));
    TRY(dhow_tensor_create(device, DHOW_I64, DHOW_SHAPE(1), &w->start));
    TRY(dhow_tensor_create(device, DHOW_I64, DHOW_SHAPE(1), &w->length));
    TRY(dhow_tensor_create(device, DHOW_F32, DHOW_SHAPE(1, GENERATE_BYTES), &w->logits));
cleanup:
    return status;
}

/* One more byte. Where there is no room, the network reads the latter half of the text anew. */
static void writer_read(writer *w, unsigned char byte) {
    if (w->count == w->context) {
        const int64_t kept = w->context / 2;
        memmove(w->read, w->read + w->count - kept, (size_t)kept * sizeof *w->read);
        w->count = kept;
        w->seen = 0;
    }
    w->read[w->count++] = byte;
}

static dhow_status writer_run(writer *w, dhow_tensor *tokens, dhow_tensor *places) {
    dhow_tensor *in[4 + MAX_CACHES] = {tokens, places, w->start, w->length}, *out[MAX_CACHES + 1];
    for (uint32_t i = 0; i < w->cache_count; i++) in[4 + i] = out[i] = w->caches[i];
    out[w->cache_count] = w->logits;
    return dhow_model_run_into(w->model, NULL, in, 4 + w->cache_count, out, w->cache_count + 1);
}

/* Reads what is new: the prompt at once, then byte after byte with the same tensors. */
static dhow_status writer_next(writer *w, float *logits) {
    const int64_t fresh = w->count - w->seen;
    const uint64_t bytes = (uint64_t)fresh * sizeof *w->read;
    dhow_tensor *tokens = w->token, *places = w->place;
    int64_t *numbers = calloc((size_t)fresh, sizeof *numbers);
    dhow_status status;
    if (numbers == NULL) return dhow_set_error(DHOW_OUT_OF_MEMORY, "no memory");
    for (int64_t i = 0; i < fresh; i++) numbers[i] = w->seen + i;
    if (fresh > 1) {
        tokens = places = NULL;
        TRY(dhow_tensor_create(w->device, DHOW_I64, DHOW_SHAPE(1, fresh), &tokens));
        TRY(dhow_tensor_create(w->device, DHOW_I64, DHOW_SHAPE(1, fresh), &places));
    }
    TRY(dhow_tensor_write(tokens, w->read + w->seen, bytes));
    TRY(dhow_tensor_write(places, numbers, bytes));
    TRY(dhow_tensor_write(w->start, &w->seen, sizeof w->seen));
    TRY(dhow_tensor_write(w->length, &w->count, sizeof w->count));
    TRY(writer_run(w, tokens, places));
    TRY(dhow_tensor_read(w->logits, logits, GENERATE_BYTES * sizeof *logits));
    w->seen = w->count;
cleanup:
    if (fresh > 1) {
        dhow_tensor_release(tokens);
        dhow_tensor_release(places);
    }
    free(numbers);
    return status;
}

/* ---- writing ---- */

/* To stderr: the text alone is the output. */
static dhow_status print_costs(const writer *w, dhow_device *device, int64_t tokens, double first,
                               double all) {
    dhow_model_summary summary = DHOW_INIT(dhow_model_summary);
    dhow_memory_stats memory = DHOW_INIT(dhow_memory_stats);
    dhow_status status;
    TRY(dhow_model_get_summary(w->model, &summary));
    TRY(dhow_memory_get_stats(device, &memory));
    (void)putchar('\n');
    fprintf(stderr, "%s: prompt %.1f ms", dhow_device_name(device), 1e3 * first);
    if (tokens > 1)
        fprintf(stderr, ", then %.0f tokens per second", (double)(tokens - 1) / (all - first));
    fprintf(stderr,
            "; %u plans; weights %.2f MiB, between the layers %.2f MiB, at most %.2f MiB "
            "together\n",
            summary.plan_count, (double)summary.parameter_bytes / 0x1p20,
            (double)summary.arena_bytes / 0x1p20, (double)memory.live_peak / 0x1p20);
cleanup:
    return status;
}

static dhow_status write_on(writer *w, dhow_device *device, const generate_settings *s) {
    float logits[GENERATE_BYTES];
    uint64_t state = s->seed;
    double start = generate_seconds(), first = 0;
    dhow_status status;
    printf("%s", s->prompt);
    for (const char *p = s->prompt; *p != '\0'; p++) writer_read(w, (unsigned char)*p);
    for (int64_t i = 0; i < s->tokens; i++) {
        TRY(writer_next(w, logits));
        const int byte = draw(logits, s->temperature, &state);
        writer_read(w, (unsigned char)byte);
        (void)putchar(byte);
        (void)fflush(stdout);
        if (i == 0) first = generate_seconds() - start;
    }
    TRY(print_costs(w, device, s->tokens, first, generate_seconds() - start));
cleanup:
    return status;
}

dhow_status generate_write(dhow_context *context, dhow_device *device, const generate_settings *s,
                           const dhow_model *trained) {
    writer w = {.model = NULL};
    dhow_status status;
    TRY(writer_begin(&w, context, device, s, trained));
    TRY(write_on(&w, device, s));
cleanup:
    writer_end(&w);
    return status;
}
