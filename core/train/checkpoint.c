/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints: a safetensors file with the parameters under their own names, the optimiser's state
 * under PyTorch's words for it before them, and everything else as texts in __metadata__.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/alloc.h"
#include "base/text/text.h"
#include "data/loader.h"
#include "dhow/copy.h"
#include "formats/files.h"
#include "train/train.h"

static const char k_save[] = "dhow_trainer_save", k_load[] = "dhow_trainer_load";

/* ---- tensors ---- */

typedef struct listing {
    uint32_t count;
    char **names;
    dhow_tensor **tensors; /* views of the trainer's */
    dhow_tensor **loaded;  /* what a file has for them, on the host; NULL before */
} listing;

static void end_listing(listing *l) {
    for (uint32_t i = 0; i < l->count; i++) {
        dhowi_free(l->names[i]);
        dhow_tensor_release(l->tensors[i]);
        dhow_tensor_release(l->loaded[i]);
    }
    dhowi_free(l->names);
    dhowi_free(l->tensors);
    dhowi_free(l->loaded);
}

/* `kind`: a word for the optimiser's array; "" for the model's own. */
static dhow_status list_part(const dhow_trainer *t, const char *function, const char *kind,
                             int32_t value, int64_t first, dhow_tensor *whole, listing *l) {
    const char *own = t->model->values[value].name;
    const size_t room = strlen(own) + 48;
    char *name = dhowi_alloc(room);
    const uint32_t at = l->count++;
    l->names[at] = name;
    if (name == NULL) return dhowi_fail_memory(function);
    (void)snprintf(name, room, "%s%s%s%s", kind[0] != 0 ? "optimizer." : "", kind,
                   kind[0] != 0 ? "." : "", own);
    return dhowi_flat_part(t, value, first, whole, &l->tensors[at]);
}

static dhow_status list_array(const dhow_trainer *t, const char *function, const char *kind,
                              dhow_tensor *whole, listing *l) {
    for (uint32_t i = 0; i < t->trained_count; i++)
        DHOWI_TRY(list_part(t, function, kind, t->trained[i].value, t->trained[i].first, whole, l));
    return DHOW_OK;
}

static dhow_status list_all(const dhow_trainer *t, const char *function, listing *l) {
    const uint32_t states = dhowi_optimizer_states(&t->options);
    const size_t count = (size_t)t->trained_count * (1 + states) + t->statistic_count;
    l->names = dhowi_alloc_array(count, sizeof *l->names);
    l->tensors = dhowi_alloc_array(count, sizeof(dhow_tensor *));
    l->loaded = dhowi_alloc_array(count, sizeof(dhow_tensor *));
    if (l->names == NULL || l->tensors == NULL || l->loaded == NULL)
        return dhowi_fail_memory(function);
    DHOWI_TRY(list_array(t, function, "", t->parameters, l));
    for (uint32_t i = 0; i < t->statistic_count; i++) {
        const dhowi_statistic *s = &t->statistics[i];
        DHOWI_TRY(list_part(t, function, "", s->value, s->first, t->running, l));
    }
    for (uint32_t i = 0; i < states; i++)
        DHOWI_TRY(
            list_array(t, function, dhowi_optimizer_state_name(&t->options, i), t->state[i], l));
    return DHOW_OK;
}

/* ---- numbers ---- */

enum { VERSION, OPTIMIZER, STEPS, BACKWARDS, SEED, RATE, NOTES };
enum { PLACES = 7 }; /* of a loader; the first two are where it stands */
enum { SCALES = 2 }; /* of scaled losses */
enum {
    ALL_NOTES = NOTES + 1 + DHOWI_SCHEDULE_FIELDS + PLACES + SCALES
}; /* a schedule's kind, too */
static const char *const k_notes[NOTES] = {
    [VERSION] = "dhow.trainer", [OPTIMIZER] = "optimizer", [STEPS] = "steps",
    [BACKWARDS] = "backwards",  [SEED] = "seed",           [RATE] = "learning_rate_bits"};
static const struct {
    const char *name;
    size_t offset; /* of an int64_t */
} k_places[PLACES] = {{"loader.epoch", offsetof(dhowi_loader_place, epoch)},
                      {"loader.batch", offsetof(dhowi_loader_place, batch)},
                      {"loader.seed", offsetof(dhowi_loader_place, seed)},
                      {"loader.order", offsetof(dhowi_loader_place, order)},
                      {"loader.drop_last", offsetof(dhowi_loader_place, drop_last)},
                      {"loader.batch_size", offsetof(dhowi_loader_place, batch_size)},
                      {"loader.samples", offsetof(dhowi_loader_place, samples)}};
enum { STANDS = 2, SAMPLES = PLACES - 1 };
static const char k_version[] = "1", k_schedule[] = "schedule";
static const char k_scale[] = "loss_scale_bits", k_scale_steps[] = "loss_scale_steps";

static int64_t bits_of(double number) {
    int64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static void set_note(dhowi_safetensors_note *note, const char *name, int64_t number) {
    note->name = name;
    (void)snprintf(note->value, sizeof note->value, "%" PRId64, number);
}

static uint32_t describe_schedule(const dhow_schedule *s, dhowi_safetensors_note *notes) {
    set_note(&notes[0], k_schedule, s->kind);
    for (int i = 0; i < DHOWI_SCHEDULE_FIELDS; i++) {
        int64_t number;
        const char *name = dhowi_schedule_field(s, i, &number);
        set_note(&notes[1 + i], name, number);
    }
    return 1 + DHOWI_SCHEDULE_FIELDS;
}

static int64_t *place_field(dhowi_loader_place *p, int i) {
    return (int64_t *)(void *)((char *)p + k_places[i].offset);
}

static uint32_t describe_loader(const dhow_loader *l, dhowi_safetensors_note *notes) {
    dhowi_loader_place own = dhowi_loader_place_of(l);
    for (int i = 0; i < PLACES; i++) set_note(&notes[i], k_places[i].name, *place_field(&own, i));
    return PLACES;
}

/* Returns how many. */
static uint32_t describe(const dhow_trainer *t, dhowi_safetensors_note *notes) {
    const int64_t numbers[NOTES] = {[STEPS] = (int64_t)t->steps,
                                    [BACKWARDS] = (int64_t)t->backwards,
                                    [SEED] = (int64_t)t->options.seed,
                                    [RATE] = bits_of(t->options.learning_rate)};
    for (int i = 0; i < NOTES; i++) set_note(&notes[i], k_notes[i], numbers[i]);
    (void)dhowi_copy_text(notes[VERSION].value, sizeof notes->value, k_version);
    (void)dhowi_copy_text(notes[OPTIMIZER].value, sizeof notes->value,
                          dhowi_optimizer_name(&t->options));
    uint32_t count = NOTES;
    if (t->has_schedule) count += describe_schedule(&t->schedule, &notes[count]);
    if (t->loader != NULL) count += describe_loader(t->loader, &notes[count]);
    if (t->finite == NULL) return count;
    set_note(&notes[count++], k_scale, bits_of(t->options.loss_scale));
    set_note(&notes[count++], k_scale_steps, t->scale_steps);
    return count;
}

static dhow_status read_number(const char *path, const char *name, const char *text, int64_t least,
                               int64_t *out) {
    if (text != NULL && dhowi_parse_i64(text, strlen(text), least, INT64_MAX, out)) return DHOW_OK;
    return dhowi_fail(DHOW_CORRUPT, "%s: %s: '%s' in __metadata__ is no number", k_load, path,
                      name);
}

/* A file without one leaves what is there. */
static dhow_status read_schedule(const dhow_safetensors *file, const char *path, bool *has,
                                 dhow_schedule *out) {
    dhow_schedule raw = DHOW_INIT(dhow_schedule);
    const char *text = dhowi_safetensors_note_of(file, k_schedule);
    int64_t number;
    if (text == NULL) return DHOW_OK;
    DHOWI_TRY(read_number(path, k_schedule, text, 0, &number));
    raw.kind = (dhow_schedule_kind)(number <= INT8_MAX ? number : INT8_MAX);
    for (int i = 0; i < DHOWI_SCHEDULE_FIELDS; i++) {
        const char *name = dhowi_schedule_field(&raw, i, &number);
        DHOWI_TRY(
            read_number(path, name, dhowi_safetensors_note_of(file, name), INT64_MIN, &number));
        dhowi_schedule_set_field(&raw, i, number);
    }
    *has = true;
    if (dhowi_schedule_take(&raw, k_load, out) == DHOW_OK) return DHOW_OK;
    return dhowi_fail_prefix(DHOW_CORRUPT, "%s", path);
}

/* Batches are the same ones only if the loader is. Parts of processes may differ in a sample, and
 * so in a batch. */
static dhow_status check_place(const dhow_trainer *t, const char *path, dhowi_loader_place *got) {
    dhowi_loader_place own = dhowi_loader_place_of(t->loader);
    const int64_t batches = dhow_loader_batch_count(t->loader);
    for (int i = STANDS; i < PLACES; i++) {
        const int64_t has = *place_field(got, i), wants = *place_field(&own, i);
        if (has == wants || (i == SAMPLES && t->group.size > 1)) continue;
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: %s: %s is %" PRId64 ", the loader has %" PRId64
                          "; create it as the one that was saved, or load without "
                          "dhow_trainer_set_loader()",
                          k_load, path, k_places[i].name, has, wants);
    }
    if (t->group.size > 1 && got->batch > batches) got->batch = batches;
    if (got->batch <= batches && got->epoch < INT64_MAX) return DHOW_OK;
    return dhowi_fail(DHOW_CORRUPT,
                      "%s: %s: batch %" PRId64 " of epoch %" PRId64 ", the loader has %" PRId64
                      " an epoch",
                      k_load, path, got->batch, got->epoch, batches);
}

static dhow_status read_place(const dhow_trainer *t, const dhow_safetensors *file, const char *path,
                              dhowi_loader_place *out) {
    if (t->loader == NULL) return DHOW_OK;
    if (dhowi_safetensors_note_of(file, k_places[0].name) == NULL)
        return dhowi_fail(DHOW_NOT_FOUND,
                          "%s: %s does not say where a loader stood, as it was saved without "
                          "dhow_trainer_set_loader(); load it without as well",
                          k_load, path);
    for (int i = 0; i < PLACES; i++) {
        const char *name = k_places[i].name;
        const int64_t least = strcmp(name, "loader.seed") == 0 ? INT64_MIN : 0;
        DHOWI_TRY(read_number(path, name, dhowi_safetensors_note_of(file, name), least,
                              place_field(out, i)));
    }
    return check_place(t, path, out);
}

static dhow_status read_notes(const dhow_trainer *t, const dhow_safetensors *file, const char *path,
                              int64_t *numbers) {
    const char *own = dhowi_optimizer_name(&t->options), *text[NOTES];
    for (int i = 0; i < NOTES; i++) text[i] = dhowi_safetensors_note_of(file, k_notes[i]);
    if (text[VERSION] == NULL)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: %s is no checkpoint of a trainer; dhow_model_load_state() reads "
                          "parameters alone",
                          k_load, path);
    if (strcmp(text[VERSION], k_version) != 0)
        return dhowi_fail(DHOW_UNSUPPORTED, "%s: %s has version %.16s of checkpoints, not %s",
                          k_load, path, text[VERSION], k_version);
    if (text[OPTIMIZER] == NULL || strcmp(text[OPTIMIZER], own) != 0)
        return dhowi_fail(DHOW_INVALID_ARGUMENT,
                          "%s: %s was saved with the optimizer %.16s, the trainer has %s", k_load,
                          path, text[OPTIMIZER] != NULL ? text[OPTIMIZER] : "of no name", own);
    for (int i = STEPS; i < NOTES; i++)
        DHOWI_TRY(read_number(path, k_notes[i], text[i], i == SEED ? INT64_MIN : 0, &numbers[i]));
    return DHOW_OK;
}

static dhow_status rate_of(int64_t bits, const char *path, double *out) {
    memcpy(out, &bits, sizeof *out);
    if (isfinite(*out) && *out >= 0) return DHOW_OK;
    return dhowi_fail(DHOW_CORRUPT, "%s: %s: the learning rate is %g", k_load, path, *out);
}

/* A file without one, of a trainer that had none, leaves what is there. */
static dhow_status read_scale(const dhow_trainer *t, const dhow_safetensors *file, const char *path,
                              double *scale, int64_t *steps) {
    const char *text = dhowi_safetensors_note_of(file, k_scale);
    int64_t bits;
    *scale = t->options.loss_scale;
    *steps = t->scale_steps;
    if (t->finite == NULL || text == NULL) return DHOW_OK;
    DHOWI_TRY(read_number(path, k_scale, text, 0, &bits));
    DHOWI_TRY(
        read_number(path, k_scale_steps, dhowi_safetensors_note_of(file, k_scale_steps), 0, steps));
    memcpy(scale, &bits, sizeof *scale);
    if (dhowi_scale_fits(t->dtype, *scale) && *steps <= UINT32_MAX) return DHOW_OK;
    return dhowi_fail(DHOW_CORRUPT, "%s: %s: the scale of losses is %g, for %" PRId64 " steps",
                      k_load, path, *scale, *steps);
}

/* ---- saving ---- */

static dhow_status save(const dhow_trainer *t, const char *path) {
    dhowi_safetensors_note notes[ALL_NOTES];
    listing l = {0};
    dhow_status status = list_all(t, k_save, &l);
    const uint32_t note_count = describe(t, notes);
    if (status == DHOW_OK)
        status = dhowi_safetensors_write(path, l.count, (const char *const *)l.names, l.tensors,
                                         notes, note_count);
    end_listing(&l);
    return status != DHOW_OK ? dhowi_fail_prefix(status, "%s", k_save) : DHOW_OK;
}

dhow_status dhow_trainer_save(dhow_trainer *t, const char *path) {
    DHOWI_TRY(dhowi_trainer_enter(t, k_save));
    dhow_status status = path != NULL
                             ? save(t, path)
                             : dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: path is NULL", k_save);
    dhowi_single_end(&t->single);
    return status;
}

/* ---- loading ---- */

static dhow_status check_entry(const dhow_trainer *t, const char *path, const listing *l,
                               const dhow_safetensors_entry *entry) {
    char has[96], wants[96];
    for (uint32_t i = 0; i < l->count; i++) {
        const dhow_tensor *own = l->tensors[i];
        if (strcmp(entry->name, l->names[i]) != 0) continue;
        if (entry->dtype == t->dtype &&
            dhowi_shape_equal(entry->rank, entry->shape, own->rank, own->shape))
            return DHOW_OK;
        return dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: %s: '%.64s' is %s%s, the trainer has %s%s",
                          k_load, path, entry->name, dhow_dtype_name(entry->dtype),
                          dhowi_shape_text(entry->rank, entry->shape, has, sizeof has),
                          dhow_dtype_name(t->dtype),
                          dhowi_shape_text(own->rank, own->shape, wants, sizeof wants));
    }
    return dhowi_fail(DHOW_INVALID_ARGUMENT,
                      "%s: %s has '%.64s', which the trainer does not train; create it with the "
                      "model and the `trainable` that were saved",
                      k_load, path, entry->name);
}

/* Everything fits, and all of it is read, before anything changes. */
static dhow_status read_all(dhow_trainer *t, dhow_safetensors *file, const char *path, listing *l) {
    dhow_safetensors_entry entry = DHOW_INIT(dhow_safetensors_entry);
    DHOWI_TRY(list_all(t, k_load, l));
    for (uint32_t i = 0; i < dhow_safetensors_count(file); i++) {
        DHOWI_TRY(dhow_safetensors_at(file, i, &entry));
        DHOWI_TRY(check_entry(t, path, l, &entry));
    }
    for (uint32_t i = 0; i < l->count; i++)
        DHOWI_TRY(dhow_safetensors_load(file, l->names[i], t->model->context->cpu, &l->loaded[i]));
    return DHOW_OK;
}

static dhow_status load(dhow_trainer *t, dhow_safetensors *file, const char *path, listing *l) {
    int64_t numbers[NOTES], scale_steps;
    double rate, scale;
    dhowi_loader_place place = {0};
    dhow_schedule schedule = t->schedule;
    bool has_schedule = t->has_schedule;
    DHOWI_TRY(read_notes(t, file, path, numbers));
    DHOWI_TRY(read_schedule(file, path, &has_schedule, &schedule));
    DHOWI_TRY(rate_of(numbers[RATE], path, &rate));
    DHOWI_TRY(read_scale(t, file, path, &scale, &scale_steps));
    DHOWI_TRY(read_place(t, file, path, &place));
    DHOWI_TRY(read_all(t, file, path, l));
    if (t->loader != NULL) {
        dhow_status status = dhow_loader_restart(t->loader, place.epoch, place.batch);
        if (status != DHOW_OK) return dhowi_fail_prefix(status, "%s", k_load);
    }
    for (uint32_t i = 0; i < l->count; i++)
        if (l->loaded[i]->count > 0) DHOWI_TRY(dhow_copy(l->loaded[i], l->tensors[i]));
    t->steps = (uint64_t)numbers[STEPS];
    t->backwards = (uint64_t)numbers[BACKWARDS];
    t->options.seed = (uint64_t)numbers[SEED];
    t->options.learning_rate = rate;
    t->options.loss_scale = scale;
    t->scale_steps = (uint32_t)scale_steps;
    t->schedule = schedule;
    t->has_schedule = has_schedule;
    t->has_gradients = false;
    return DHOW_OK;
}

static dhow_status open_and_load(dhow_trainer *t, const char *path) {
    listing l = {0};
    dhow_safetensors *file;
    DHOWI_TRY(dhow_safetensors_open(t->model->context, path, &file));
    dhow_status status = load(t, file, path, &l);
    end_listing(&l);
    dhow_safetensors_close(file);
    return status;
}

dhow_status dhow_trainer_load(dhow_trainer *t, const char *path) {
    DHOWI_TRY(dhowi_trainer_enter(t, k_load));
    dhow_status status = path != NULL
                             ? open_and_load(t, path)
                             : dhowi_fail(DHOW_INVALID_ARGUMENT, "%s: path is NULL", k_load);
    dhowi_single_end(&t->single);
    return status;
}
