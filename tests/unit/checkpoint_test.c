/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of a training: what goes on from one has the same bits, what does not fit is named,
 * and whoever saves may be killed at any moment. On the device that DHOW_DEVICE names.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dhow/dhow.h"
#include "dhow/model_steps.h"

#define OK(expression) cr_assert_eq((expression), DHOW_OK, "%s: %s", #expression, dhow_last_error())
#define SHAPE(...) \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]) { __VA_ARGS__ }

static dhow_context *g_context;
static dhow_device *g_device;
static char g_folder[64], g_path[128];

static void make_folder(void) {
    (void)snprintf(g_folder, sizeof g_folder, "/tmp/dhow-checkpoint-XXXXXX");
    cr_assert_not_null(mkdtemp(g_folder));
    (void)snprintf(g_path, sizeof g_path, "%s/training.safetensors", g_folder);
}
static void remove_folder(void) {
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", g_folder);
    cr_assert_eq(system(command), 0);
}
static void set_up(void) {
    const char *device = getenv("DHOW_DEVICE");
    const int sim = device != NULL && strcmp(device, "sim") == 0;
    (void)setenv("DHOW_PLUGIN_PATH", sim ? DHOW_TEST_SIM_DIR : DHOW_TEST_PLUGIN_DIR, 0);
    make_folder();
    OK(dhow_context_create(NULL, &g_context));
    OK(dhow_device_get(g_context, device, &g_device));
}
static void tear_down(void) {
    dhow_context_release(g_context);
    remove_folder();
}
TestSuite(checkpoint, .init = set_up, .fini = tear_down, .timeout = 300);

/* ---- going on ---- */

enum { IN = 6, HIDDEN = 16, OUT = 4, ROWS = 8, STEPS = 10 };

static dhow_model *network(int64_t hidden) {
    dhow_model *m;
    dhow_model_value x, y;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, SHAPE(-1, IN), &x));
    OK(dhow_model_linear(m, "first", x, IN, hidden, 1, &y));
    OK(dhow_model_gelu(m, y, &y));
    OK(dhow_model_dropout(m, y, 0.25, &y));
    OK(dhow_model_linear(m, "second", y, hidden, OUT, 1, &y));
    OK(dhow_model_output(m, "y", y));
    OK(dhow_model_init_parameters(m, 3));
    OK(dhow_model_to(m, g_device));
    return m;
}

static dhow_trainer *trainer_of(dhow_model *m, dhow_optimizer optimizer, uint64_t seed) {
    dhow_trainer *t;
    OK(dhow_trainer_create(
        m,
        &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .optimizer = optimizer,
                   .seed = seed, .dampening = 0.1, .momentum = 0.9, .weight_decay = 0.02),
        &t));
    return t;
}

static dhow_tensor *columns(int64_t width, int seed) {
    float data[ROWS * IN];
    dhow_tensor *t;
    for (int i = 0; i < ROWS * width; i++)
        data[i] = (float)((unsigned)(i + seed * 31) * 2654435761u >> 8 & 1023) / 512 - 1;
    OK(dhow_tensor_from_data(g_device, DHOW_F32, SHAPE(ROWS, width), data, &t));
    return t;
}

static void train(dhow_trainer *t, int first, int count) {
    for (int i = first; i < first + count; i++) {
        dhow_tensor *x = columns(IN, 2 * i), *target = columns(OUT, 2 * i + 1);
        OK(dhow_trainer_step(t, &DHOW_INIT(dhow_batch, .tensor_count = 2, .tensors = {x, target}),
                             NULL));
        dhow_tensor_release(x), dhow_tensor_release(target);
    }
}

static size_t bits_of(dhow_trainer *t, float *out) {
    size_t count = 0;
    for (uint32_t i = 0; i < dhow_trainer_parameter_count(t); i++) {
        dhow_tensor *w;
        OK(dhow_trainer_parameter_at(t, i, NULL, &w, NULL));
        const size_t elements = (size_t)dhow_tensor_count(w);
        OK(dhow_tensor_read(w, out + count, elements * sizeof *out));
        count += elements;
        dhow_tensor_release(w);
    }
    return count;
}

Test(checkpoint, a_training_that_goes_on_has_the_same_bits) {
    static float whole[512], resumed[512];
    for (int kind = DHOW_OPTIMIZER_SGD; kind <= DHOW_OPTIMIZER_LION; kind++) {
        const dhow_optimizer optimizer = (dhow_optimizer)kind;
        dhow_model *m = network(HIDDEN);
        dhow_trainer *t = trainer_of(m, optimizer, 77);
        OK(dhow_trainer_set_learning_rate(t, 0.0123));
        train(t, 0, STEPS);
        OK(dhow_trainer_save(t, g_path));
        train(t, STEPS, STEPS);
        const size_t count = bits_of(t, whole);
        dhow_trainer_release(t);
        dhow_model_release(m);
        m = network(HIDDEN);
        t = trainer_of(m, optimizer, 5); /* the file says the seed and the rate */
        train(t, 50, 3);
        OK(dhow_trainer_load(t, g_path));
        train(t, STEPS, STEPS);
        cr_assert_eq(bits_of(t, resumed), count);
        cr_assert_arr_eq(resumed, whole, count * sizeof *whole, "optimizer %d", kind);
        dhow_trainer_release(t);
        dhow_model_release(m);
    }
}

/* Other programs read the weights under their own names. */
Test(checkpoint, a_model_reads_the_parameters_of_one) {
    dhow_model *m = network(HIDDEN);
    dhow_trainer *t = trainer_of(m, DHOW_OPTIMIZER_ADAM, 0);
    float trained[512], read[512];
    train(t, 0, 2);
    OK(dhow_trainer_save(t, g_path));
    const size_t count = bits_of(t, trained);
    dhow_trainer_release(t);
    OK(dhow_model_load_state_with(m, g_path, DHOW_STATE_PARTIAL, NULL, NULL));
    t = trainer_of(m, DHOW_OPTIMIZER_SGD, 0);
    cr_assert_eq(bits_of(t, read), count);
    cr_assert_arr_eq(trained, read, count * sizeof *read);
    dhow_trainer_release(t);
    dhow_model_release(m);
}

/* ---- what does not fit ---- */

static void refused(dhow_trainer *t, dhow_status wanted, const char *part) {
    float before[2048], after[2048];
    const size_t count = bits_of(t, before);
    cr_expect_eq(dhow_trainer_load(t, g_path), wanted, "%s", dhow_last_error());
    cr_expect_not_null(strstr(dhow_last_error(), part), "'%s' is not in '%s'", part,
                       dhow_last_error());
    (void)bits_of(t, after);
    cr_expect_arr_eq(after, before, count * sizeof *after, "it was changed");
}

Test(checkpoint, what_does_not_fit_is_named_and_changes_nothing) {
    dhow_model *m = network(HIDDEN), *wide = network(2 * HIDDEN);
    dhow_trainer *t = trainer_of(m, DHOW_OPTIMIZER_ADAM, 0),
                 *other = trainer_of(m, DHOW_OPTIMIZER_ADAMW, 0),
                 *wider = trainer_of(wide, DHOW_OPTIMIZER_ADAM, 0), *part;
    OK(dhow_trainer_create(m,
                           &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE,
                                      .optimizer = DHOW_OPTIMIZER_ADAM, .trainable = "second*"),
                           &part));
    refused(t, DHOW_NOT_FOUND, g_path);
    train(t, 0, 1);
    OK(dhow_trainer_save(t, g_path));
    refused(other, DHOW_INVALID_ARGUMENT, "the optimizer adam, the trainer has adamw");
    refused(wider, DHOW_INVALID_ARGUMENT, "f32[16, 6], the trainer has f32[32, 6]");
    refused(part, DHOW_INVALID_ARGUMENT, "'first.weight', which the trainer does not train");
    OK(dhow_trainer_save(part, g_path));
    refused(t, DHOW_NOT_FOUND, "'first.weight'");
    OK(dhow_model_save_state(m, g_path));
    refused(t, DHOW_INVALID_ARGUMENT, "no checkpoint of a trainer");
    cr_expect_eq(dhow_trainer_save(t, NULL), DHOW_INVALID_ARGUMENT);
    cr_expect_eq(dhow_trainer_load(t, NULL), DHOW_INVALID_ARGUMENT);
    cr_expect_eq(dhow_trainer_save(t, "/nowhere/training"), DHOW_IO_ERROR);
    dhow_trainer_release(t), dhow_trainer_release(other);
    dhow_trainer_release(wider), dhow_trainer_release(part);
    dhow_model_release(m), dhow_model_release(wide);
}

/* Headers of strangers: numbers that are none. */
Test(checkpoint, damaged_numbers_are_refused) {
    static const struct {
        const char *from, *to;
    } cases[] = {{"\"steps\":\"1\"", "\"steps\":\"x\""},
                 {"\"backwards\":\"1\"", "\"backwards\":\"-\""},
                 {"\"learning_rate_bits\":\"4", "\"learning_rate_bits\":\"9"},
                 {"\"seed\":\"", "\"sEEd\":\""}};
    static char bytes[1 << 16];
    dhow_model *m = network(HIDDEN);
    dhow_trainer *t = trainer_of(m, DHOW_OPTIMIZER_ADAM, 0);
    train(t, 0, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OK(dhow_trainer_save(t, g_path));
        FILE *f = fopen(g_path, "r+b");
        cr_assert_not_null(f);
        const size_t count = fread(bytes, 1, sizeof bytes - 1, f);
        bytes[count] = '\0';
        char *at = strstr(bytes + 8, cases[i].from);
        cr_assert_not_null(at, "%s", cases[i].from);
        memcpy(at, cases[i].to, strlen(cases[i].to));
        rewind(f);
        cr_assert_eq(fwrite(bytes, 1, count, f), count);
        cr_assert_eq(fclose(f), 0);
        refused(t, DHOW_CORRUPT, g_path);
    }
    dhow_trainer_release(t);
    dhow_model_release(m);
}

/* ---- with a loader ---- */

enum { SAMPLES = 23, BATCH = 4, BATCHES = 6, SEED = 11 }; /* the last batch has 3 samples */

static dhow_dataset *samples_of(int64_t count) {
    float x[SAMPLES * IN], target[SAMPLES * OUT];
    dhow_dataset *data;
    dhow_tensor *columns[2];
    dhow_device *cpu;
    for (int i = 0; i < SAMPLES * IN; i++) x[i] = (float)((unsigned)i * 2654435761u >> 9 & 255);
    for (int i = 0; i < SAMPLES * IN; i++) x[i] = x[i] / 128 - 1;
    for (int i = 0; i < SAMPLES * OUT; i++) target[i] = (float)(i % 7) / 7;
    if (dhow_device_get(g_context, "cpu", &cpu) != DHOW_OK ||
        dhow_tensor_from_data(cpu, DHOW_F32, SHAPE(count, IN), x, &columns[0]) != DHOW_OK ||
        dhow_tensor_from_data(cpu, DHOW_F32, SHAPE(count, OUT), target, &columns[1]) != DHOW_OK ||
        dhow_dataset_from_tensors(columns, 2, &data) != DHOW_OK)
        return NULL;
    dhow_tensor_release(columns[0]), dhow_tensor_release(columns[1]);
    return data;
}

static dhow_loader *loader_of(const dhow_loader_options *options) {
    dhow_loader *l;
    dhow_dataset *data = samples_of(SAMPLES);
    cr_assert_not_null(data, "%s", dhow_last_error());
    OK(dhow_loader_create(data, options, &l));
    dhow_dataset_release(data);
    return l;
}

/* `count` batches; the ends of epochs, which come as batches of no samples, are passed over before
 * the next one, not behind the last. */
static dhow_status take_batches(dhow_trainer *t, dhow_loader *l, int count) {
    dhow_batch batch = DHOW_INIT(dhow_batch);
    dhow_status status = DHOW_OK;
    for (int i = 0; i < count && status == DHOW_OK; i++) {
        do status = dhow_loader_next(l, &batch);
        while (status == DHOW_OK && batch.sample_count == 0);
        if (status == DHOW_OK) status = dhow_trainer_step(t, &batch, NULL);
    }
    return status;
}

Test(checkpoint, a_loader_goes_on_with_the_batches_that_would_have_come) {
    static float whole[512], resumed[512];
    /* In the middle of an epoch, at its end before and after that is told, before the first. */
    static const int stops[] = {9, BATCHES, BATCHES, 2 * BATCHES, 0};
    for (int i = 0; i < 5; i++) {
        const dhow_loader_options options =
            DHOW_INIT(dhow_loader_options, .batch_size = BATCH, .shuffle = 1, .seed = SEED,
                      .device = g_device, .workers = i % 2 == 0 ? 2 : 0);
        dhow_model *m = network(HIDDEN);
        dhow_trainer *t = trainer_of(m, DHOW_OPTIMIZER_ADAMW, 77);
        dhow_loader *l = loader_of(&options);
        dhow_batch end = DHOW_INIT(dhow_batch);
        OK(dhow_trainer_set_loader(t, l));
        OK(take_batches(t, l, stops[i]));
        if (i == 2) OK(dhow_loader_next(l, &end));
        OK(dhow_trainer_save(t, g_path));
        OK(take_batches(t, l, 20));
        const size_t count = bits_of(t, whole);
        dhow_loader_release(l);
        dhow_trainer_release(t);
        t = trainer_of(m, DHOW_OPTIMIZER_ADAMW, 0);
        l = loader_of(&options);
        OK(dhow_trainer_set_loader(t, l));
        OK(take_batches(t, l, 4));
        OK(dhow_trainer_load(t, g_path));
        OK(take_batches(t, l, 20));
        cr_assert_eq(bits_of(t, resumed), count);
        cr_assert_arr_eq(resumed, whole, count * sizeof *whole, "stop %d", i);
        OK(dhow_trainer_set_loader(t, NULL)); /* the trainer held it */
        dhow_loader_release(l);
        dhow_trainer_release(t);
        dhow_model_release(m);
    }
}

Test(checkpoint, a_loader_that_gives_other_batches_is_refused) {
    static const double weights[SAMPLES] = {1, 1};
    const dhow_loader_options own = DHOW_INIT(dhow_loader_options, .batch_size = BATCH,
                                              .shuffle = 1, .seed = SEED, .device = g_device);
    dhow_loader_options others[] = {own, own, own, own, own};
    static const char *const says[] = {
        "loader.seed is 11, the loader has 12", "loader.order is 1, the loader has 0",
        "loader.batch_size is 4, the loader has 5", "loader.drop_last is 0, the loader has 1",
        "loader.order is 1, the loader has 2"};
    others[0].seed = 12, others[1].shuffle = 0, others[2].batch_size = 5, others[3].drop_last = 1;
    others[4].shuffle = 0, others[4].weights = weights;
    dhow_model *m = network(HIDDEN);
    dhow_trainer *t = trainer_of(m, DHOW_OPTIMIZER_ADAM, 0);
    dhow_loader *l = loader_of(&own);
    OK(dhow_trainer_save(t, g_path));
    OK(dhow_trainer_set_loader(t, l));
    refused(t, DHOW_NOT_FOUND, "does not say where a loader stood");
    OK(take_batches(t, l, 3));
    OK(dhow_trainer_save(t, g_path));
    for (int i = 0; i < 5; i++) {
        dhow_loader *other = loader_of(&others[i]);
        OK(dhow_trainer_set_loader(t, other));
        refused(t, DHOW_INVALID_ARGUMENT, says[i]);
        dhow_loader_release(other);
    }
    dhow_dataset *fewer = samples_of(SAMPLES - 1);
    dhow_loader *short_one;
    OK(dhow_loader_create(fewer, &own, &short_one));
    OK(dhow_trainer_set_loader(t, short_one));
    refused(t, DHOW_INVALID_ARGUMENT, "loader.samples is 23, the loader has 22");
    OK(dhow_trainer_set_loader(t, NULL));
    OK(dhow_trainer_load(t, g_path)); /* what nobody asks for is passed over */
    dhow_loader_release(short_one), dhow_loader_release(l);
    dhow_dataset_release(fewer);
    dhow_trainer_release(t);
    dhow_model_release(m);
}

/* ---- killed while it saves ---- */

enum { KILLS = 200, WEIGHTS = 3000 };

/* A step takes 1/2 off every weight. In a child: no checks of Criterion. */
static dhow_trainer *counting_trainer(dhow_tensor **x) {
    dhow_model *m;
    dhow_trainer *t;
    dhow_model_value in, w, y;
    const int64_t shape[] = {WEIGHTS};
    if (dhow_context_create(NULL, &g_context) != DHOW_OK ||
        dhow_device_get(g_context, "cpu", &g_device) != DHOW_OK ||
        dhow_model_create(g_context, &m) != DHOW_OK ||
        dhow_model_input(m, "x", DHOW_F64, 1, shape, &in) != DHOW_OK ||
        dhow_model_parameter(m, "w", DHOW_F64, 1, shape, &w) != DHOW_OK ||
        dhow_model_mul(m, in, w, &y) != DHOW_OK ||
        dhow_model_reduce(m, DHOW_REDUCE_SUM, y, NULL, 0, 0, &y) != DHOW_OK ||
        dhow_model_output(m, "y", y) != DHOW_OK ||
        dhow_tensor_zeros(g_device, DHOW_F64, 1, shape, x) != DHOW_OK ||
        dhow_model_set_parameter(m, "w", *x) != DHOW_OK ||
        dhow_tensor_full(g_device, DHOW_F64, 1, shape, 1, x) != DHOW_OK ||
        dhow_model_to(m, g_device) != DHOW_OK ||
        dhow_trainer_create(m, &DHOW_INIT(dhow_trainer_options, .learning_rate = 0.5), &t) !=
            DHOW_OK)
        _exit(2);
    return t;
}

static void save_for_ever(int ready) {
    dhow_tensor *x;
    dhow_trainer *t = counting_trainer(&x);
    for (;;) {
        if (dhow_trainer_step(t, &DHOW_INIT(dhow_batch, .tensor_count = 1, .tensors = {x}), NULL) !=
                DHOW_OK ||
            dhow_trainer_save(t, g_path) != DHOW_OK || write(ready, "", 1) != 1)
            _exit(3);
    }
}

static void load_once(void) {
    double weights[WEIGHTS];
    dhow_tensor *x, *w;
    dhow_trainer *t = counting_trainer(&x);
    if (dhow_trainer_load(t, g_path) != DHOW_OK ||
        dhow_trainer_parameter_at(t, 0, NULL, &w, NULL) != DHOW_OK ||
        dhow_tensor_read(w, weights, sizeof weights) != DHOW_OK)
        _exit(4);
    for (int i = 0; i < WEIGHTS; i++)
        if (weights[i] != weights[0] || weights[i] > -0.5) _exit(5);
    _exit(0);
}

/* The children make contexts of their own; here there are no threads to fork. */
Test(checkpoint_killed, a_file_is_there_whole_whenever_a_process_ends, .fini = remove_folder,
     .timeout = 300) {
    const char *device = getenv("DHOW_DEVICE");
    if (device == NULL || strcmp(device, "cpu") != 0) cr_skip_test("files are the CPU's");
    make_folder();
    (void)setenv("DHOW_PLUGIN_PATH", DHOW_TEST_PLUGIN_DIR, 0);
    for (int i = 0; i < KILLS; i++) {
        int ready[2], status;
        char byte;
        cr_assert_eq(pipe(ready), 0);
        const pid_t writer = fork();
        if (writer == 0) save_for_ever(ready[1]);
        (void)close(ready[1]);
        cr_assert_eq(read(ready[0], &byte, 1), 1);
        (void)usleep((useconds_t)(i * 67 % KILLS * 20)); /* up to 4 ms: some saves */
        cr_assert_eq(kill(writer, SIGKILL), 0);
        cr_assert_eq(waitpid(writer, &status, 0), writer);
        cr_assert(WIFSIGNALED(status), "the writer ended by itself: %d", status);
        (void)close(ready[0]);
        const pid_t reader = fork();
        if (reader == 0) load_once();
        cr_assert_eq(waitpid(reader, &status, 0), reader);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "kill %d: %d", i, status);
    }
}

/* ---- killed while it trains with a loader ---- */

enum { TRAINED = 60, ENDS = 60 }; /* steps of ten epochs; how often it is killed */

typedef struct training {
    dhow_model *model;
    dhow_trainer *trainer;
    dhow_loader *loader;
} training;

/* In a child: no checks of Criterion. */
static training begin_training(void) {
    training r = {0};
    dhow_model_value x;
    dhow_dataset *data;
    const dhow_loader_options options = DHOW_INIT(dhow_loader_options, .batch_size = BATCH,
                                                  .shuffle = 1, .seed = SEED, .workers = 1);
    if (dhow_context_create(NULL, &g_context) != DHOW_OK ||
        dhow_device_get(g_context, "cpu", &g_device) != DHOW_OK ||
        dhow_model_create(g_context, &r.model) != DHOW_OK ||
        dhow_model_input(r.model, "x", DHOW_F32, SHAPE(-1, IN), &x) != DHOW_OK ||
        dhow_model_linear(r.model, "first", x, IN, HIDDEN, 1, &x) != DHOW_OK ||
        dhow_model_gelu(r.model, x, &x) != DHOW_OK ||
        dhow_model_dropout(r.model, x, 0.25, &x) != DHOW_OK ||
        dhow_model_linear(r.model, "second", x, HIDDEN, OUT, 1, &x) != DHOW_OK ||
        dhow_model_output(r.model, "y", x) != DHOW_OK ||
        dhow_model_init_parameters(r.model, 3) != DHOW_OK ||
        dhow_model_to(r.model, g_device) != DHOW_OK ||
        dhow_trainer_create(r.model,
                            &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE,
                                       .optimizer = DHOW_OPTIMIZER_ADAMW, .seed = 5),
                            &r.trainer) != DHOW_OK ||
        (data = samples_of(SAMPLES)) == NULL ||
        dhow_loader_create(data, &options, &r.loader) != DHOW_OK ||
        dhow_trainer_set_loader(r.trainer, r.loader) != DHOW_OK)
        _exit(2);
    return r;
}

static size_t read_bits(const training *r, float *out) {
    size_t count = 0;
    for (uint32_t i = 0; i < dhow_trainer_parameter_count(r->trainer); i++) {
        dhow_tensor *w;
        if (dhow_trainer_parameter_at(r->trainer, i, NULL, &w, NULL) != DHOW_OK) _exit(6);
        const size_t elements = (size_t)dhow_tensor_count(w);
        if (dhow_tensor_read(w, out + count, elements * sizeof *out) != DHOW_OK) _exit(6);
        count += elements;
        dhow_tensor_release(w);
    }
    return count;
}

/* Saves after each step; the bits of the end go to the pipe. */
static void train_and_save(int ready, bool reports) {
    float bits[512];
    training r = begin_training();
    for (int step = 0; step < TRAINED; step++)
        if (take_batches(r.trainer, r.loader, 1) != DHOW_OK ||
            (!reports && dhow_trainer_save(r.trainer, g_path) != DHOW_OK) ||
            (!reports && step == 0 && write(ready, "", 1) != 1))
            _exit(3);
    const size_t bytes = read_bits(&r, bits) * sizeof *bits;
    if (reports) _exit(write(ready, bits, bytes) == (ssize_t)bytes ? 0 : 4);
    for (;;) (void)pause();
}

/* The steps that are missing, counted by what the loader has left of its ten epochs. */
static void go_on(const float *wanted, size_t wanted_bytes) {
    float bits[512];
    training r = begin_training();
    if (dhow_trainer_load(r.trainer, g_path) != DHOW_OK) _exit(7);
    dhow_batch batch = DHOW_INIT(dhow_batch);
    while (dhow_loader_next(r.loader, &batch) == DHOW_OK && batch.epoch * BATCHES < TRAINED)
        if (batch.sample_count > 0 && dhow_trainer_step(r.trainer, &batch, NULL) != DHOW_OK)
            _exit(8);
    const size_t bytes = read_bits(&r, bits) * sizeof *bits;
    _exit(bytes == wanted_bytes && memcmp(bits, wanted, bytes) == 0 ? 0 : 9);
}

Test(checkpoint_killed, a_training_goes_on_bit_for_bit_wherever_it_was_killed,
     .fini = remove_folder, .timeout = 300) {
    const char *device = getenv("DHOW_DEVICE");
    float wanted[512];
    int ready[2], status;
    if (device == NULL || strcmp(device, "cpu") != 0) cr_skip_test("files are the CPU's");
    make_folder();
    (void)setenv("DHOW_PLUGIN_PATH", DHOW_TEST_PLUGIN_DIR, 0);
    cr_assert_eq(pipe(ready), 0);
    const pid_t whole = fork();
    if (whole == 0) train_and_save(ready[1], true);
    cr_assert_eq(waitpid(whole, &status, 0), whole);
    cr_assert_eq(status, 0);
    const ssize_t bytes = read(ready[0], wanted, sizeof wanted);
    cr_assert_gt(bytes, 0);
    (void)close(ready[0]), (void)close(ready[1]);
    for (int i = 0; i < ENDS; i++) {
        char byte;
        cr_assert_eq(pipe(ready), 0);
        const pid_t writer = fork();
        if (writer == 0) train_and_save(ready[1], false);
        (void)close(ready[1]);
        cr_assert_eq(read(ready[0], &byte, 1), 1);
        (void)usleep((useconds_t)(i * 37 % ENDS * 500)); /* up to 30 ms */
        cr_assert_eq(kill(writer, SIGKILL), 0);
        cr_assert_eq(waitpid(writer, &status, 0), writer);
        cr_assert(WIFSIGNALED(status), "the writer ended by itself: %d", status);
        (void)close(ready[0]);
        const pid_t reader = fork();
        if (reader == 0) go_on(wanted, (size_t)bytes);
        cr_assert_eq(waitpid(reader, &status, 0), reader);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "kill %d: %d", i, status);
    }
}
