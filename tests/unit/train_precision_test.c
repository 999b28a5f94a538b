/* SPDX-License-Identifier: Apache-2.0
 *
 * Training in 16-bit floats: derivatives beside those of f32, and the scale of losses that keeps
 * small ones. On the device that DHOW_DEVICE names.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device_fixture.h"
#include "dhow/dhow.h"
#include "dhow/model_steps.h"

#define SHAPE(...) \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (int64_t[]) { __VA_ARGS__ }

TestSuite(train_precision, .init = open_device, .fini = close_device, .timeout = 300);

enum { ROWS = 8, CLASSES = 10, MOST = 20000 };

static const dhow_precision k_halves[] = {DHOW_PRECISION_BF16, DHOW_PRECISION_F16};
static const char *name_of(dhow_precision p) {
    return p == DHOW_PRECISION_BF16 ? "bf16" : p == DHOW_PRECISION_F16 ? "f16" : "f32";
}

/* ---- networks ---- */

static dhow_model_value input_of(dhow_model *m, int32_t rank, const int64_t *shape) {
    dhow_model_value x;
    OK(dhow_model_input(m, "x", DHOW_F32, rank, shape, &x));
    return x;
}

/* Convolutions, a norm with the batch's statistics, pools. */
static dhow_model_value images(dhow_model *m) {
    const dhow_window same = DHOW_INIT(dhow_window, .kernel = {3, 3}, .pad = {1, 1, 1, 1});
    const dhow_window apart = DHOW_INIT(dhow_window, .kernel = {3, 3}, .pad = {1, 1, 1, 1},
                                        .stride = {2, 2}, .groups = 2);
    const dhow_window pool = DHOW_INIT(dhow_window, .kernel = {2, 2}, .stride = {2, 2});
    dhow_model_value y = input_of(m, SHAPE(-1, 3, 12, 12));
    OK(dhow_model_conv2d(m, "conv1", y, 3, 8, &same, 0, &y));
    OK(dhow_model_batchnorm(m, "norm", y, 8, 1e-5f, &y));
    OK(dhow_model_relu(m, y, &y));
    OK(dhow_model_maxpool2d(m, y, &pool, &y));
    OK(dhow_model_conv2d(m, "conv2", y, 8, 16, &apart, 0, &y));
    OK(dhow_model_silu(m, y, &y));
    OK(dhow_model_flatten(m, y, 1, &y));
    OK(dhow_model_linear(m, "classes", y, 144, CLASSES, 1, &y));
    return y;
}

/* An encoder layer, whose residual is read twice. */
static dhow_model_value sequences(dhow_model *m) {
    dhow_model_value x = input_of(m, SHAPE(-1, 6, 16)), y;
    OK(dhow_model_multihead_attention(m, "attention", x, x, x, -1, 16, 4, 1, &y));
    OK(dhow_model_add(m, x, y, &x));
    OK(dhow_model_layernorm(m, "norm", x, 16, 1e-5f, &x));
    OK(dhow_model_linear(m, "wide", x, 16, 48, 1, &y));
    OK(dhow_model_gelu(m, y, &y));
    OK(dhow_model_dropout(m, y, 0.1, &y));
    OK(dhow_model_linear(m, "narrow", y, 48, 16, 1, &y));
    OK(dhow_model_add(m, x, y, &x));
    OK(dhow_model_reduce(m, DHOW_REDUCE_MEAN, x, (int32_t[]){1}, 1, 0, &x));
    OK(dhow_model_linear(m, "classes", x, 16, CLASSES, 1, &x));
    return x;
}

/* One weight in two products, parts of a value, and a batched product of two of them. */
static dhow_model_value shared(dhow_model *m) {
    dhow_model_value x = input_of(m, SHAPE(-1, 4, 12)), w, part[2], y;
    OK(dhow_model_parameter(m, "w", DHOW_F32, SHAPE(12, 12), &w));
    OK(dhow_model_matmul(m, x, w, &y));
    OK(dhow_model_tanh(m, y, &y));
    OK(dhow_model_matmul(m, y, w, &y));
    for (int i = 0; i < 2; i++) OK(dhow_model_narrow(m, y, 2, 6 * i, 6, &part[i]));
    OK(dhow_model_permute(m, part[1], (int32_t[]){0, 2, 1}, 3, &part[1]));
    OK(dhow_model_matmul(m, part[0], part[1], &y));
    OK(dhow_model_flatten(m, y, 1, &y));
    OK(dhow_model_linear(m, "classes", y, 16, CLASSES, 1, &y));
    return y;
}

static const struct {
    const char *name;
    dhow_model_value (*build)(dhow_model *m);
    double most; /* what gradients in bf16 may differ by: images have corners, relu and the pool */
    int64_t row; /* elements of a sample */
    int32_t rank;
    int64_t shape[4];
} k_networks[] = {{"images", images, 0.2, 432, 4, {ROWS, 3, 12, 12}},
                  {"sequences", sequences, 0.05, 96, 3, {ROWS, 6, 16}},
                  {"shared", shared, 0.05, 48, 3, {ROWS, 4, 12}}};
enum { NETWORKS = sizeof k_networks / sizeof *k_networks };

static float number(int64_t i) {
    return (float)((uint64_t)(i + 7) * UINT64_C(2654435761) >> 9 & 1023) / 512 - 1;
}

typedef struct trial {
    dhow_model *model;
    dhow_trainer *trainer;
    dhow_tensor *x, *target;
} trial;

static trial begin(int which, dhow_precision precision, dhow_trainer_options options) {
    float data[ROWS * 432];
    int64_t classes[ROWS];
    trial t;
    OK(dhow_model_create(g_context, &t.model));
    OK(dhow_model_output(t.model, "y", k_networks[which].build(t.model)));
    OK(dhow_model_init_parameters(t.model, 5));
    OK(dhow_model_to(t.model, g_device));
    OK(dhow_model_set_precision(t.model, precision));
    options.loss = DHOW_LOSS_CROSS_ENTROPY;
    OK(dhow_trainer_create(t.model, &options, &t.trainer));
    for (int64_t i = 0; i < ROWS * k_networks[which].row; i++) data[i] = number(i);
    for (int i = 0; i < ROWS; i++) classes[i] = i % CLASSES;
    OK(dhow_tensor_from_data(g_device, DHOW_F32, k_networks[which].rank, k_networks[which].shape,
                             data, &t.x));
    OK(dhow_tensor_from_data(g_device, DHOW_I64, SHAPE(ROWS), classes, &t.target));
    return t;
}

static void end(trial *t) {
    dhow_tensor_release(t->x);
    dhow_tensor_release(t->target);
    dhow_trainer_release(t->trainer);
    dhow_model_release(t->model);
}

static double backward(const trial *t) {
    double loss;
    OK(dhow_trainer_zero_gradients(t->trainer));
    OK(dhow_trainer_backward(t->trainer, NULL, (dhow_tensor *[]){t->x}, 1, t->target, &loss));
    return loss;
}

static dhow_status step(const trial *t, double *loss) {
    return dhow_trainer_step(
        t->trainer, &DHOW_INIT(dhow_batch, .tensor_count = 2, .tensors = {t->x, t->target}), loss);
}

/* Of parameter i, its values or its gradient. */
static int64_t numbers(const trial *t, uint32_t i, bool gradient, const char **name, float *out) {
    dhow_tensor *w, *g;
    OK(dhow_trainer_parameter_at(t->trainer, i, name, &w, &g));
    const int64_t count = dhow_tensor_count(w);
    cr_assert_leq(count, MOST);
    OK(dhow_tensor_read(gradient ? g : w, out, (uint64_t)count * sizeof *out));
    dhow_tensor_release(w);
    dhow_tensor_release(g);
    return count;
}

/* ---- derivatives ---- */

static void compare(const trial *a, const trial *b, const char *what, double most) {
    static float x[MOST], y[MOST];
    double other = 0;
    const char *name;
    for (uint32_t i = 0; i < dhow_trainer_parameter_count(a->trainer); i++) {
        const int64_t count = numbers(a, i, true, &name, x);
        double size = 0, difference = 0;
        (void)numbers(b, i, true, &name, y);
        for (int64_t k = 0; k < count; k++) {
            size += (double)x[k] * (double)x[k];
            difference += ((double)x[k] - (double)y[k]) * ((double)x[k] - (double)y[k]);
        }
        other += difference;
        cr_expect(sqrt(difference) <= most * sqrt(size) + 1e-7,
                  "%s: gradients of %s differ by %.3g of their norm %.3g", what, name,
                  sqrt(difference / size), sqrt(size));
    }
    cr_expect_gt(other, 0, "%s: the same bits as f32", what); /* it was not asked for */
}

Test(train_precision, derivatives_are_those_of_f32_within_the_rounding_of_16_bits) {
    for (int which = 0; which < NETWORKS; which++)
        for (int k = 0; k < 2; k++) {
            char what[64];
            trial wide = begin(which, DHOW_PRECISION_F32, DHOW_INIT(dhow_trainer_options)),
                  half = begin(which, k_halves[k], DHOW_INIT(dhow_trainer_options));
            (void)snprintf(what, sizeof what, "%s in %s", k_networks[which].name,
                           name_of(k_halves[k]));
            const double a = backward(&wide), b = backward(&half);
            cr_expect(fabs(a - b) <= (k == 0 ? 2e-2 : 3e-3) * a, "%s: losses %g and %g", what, a,
                      b);
            compare(&wide, &half, what, k_networks[which].most / (k == 0 ? 1 : 8));
            end(&wide);
            end(&half);
        }
}

/* Twenty steps of AdamW: each loss is near f32's. */
Test(train_precision, losses_follow_those_of_f32) {
    const dhow_trainer_options options =
        DHOW_INIT(dhow_trainer_options, .optimizer = DHOW_OPTIMIZER_ADAMW, .learning_rate = 2e-3);
    for (int which = 0; which < NETWORKS; which++)
        for (int k = 0; k < 2; k++) {
            trial wide = begin(which, DHOW_PRECISION_F32, options),
                  half = begin(which, k_halves[k], options);
            double first = 0, a = 0, b = 0;
            for (int i = 0; i < 20; i++) {
                OK(step(&wide, &a));
                OK(step(&half, &b));
                if (i == 0) first = a;
                cr_expect(fabs(a - b) <= (k == 0 ? 3e-2 : 5e-3) * first,
                          "%s in %s, step %d: %g, %g", k_networks[which].name, name_of(k_halves[k]),
                          i, a, b);
            }
            cr_expect_lt(b, 0.995 * first, "%s learns nothing: %g to %g", k_networks[which].name,
                         first, b);
            end(&wide);
            end(&half);
        }
}

/* ---- the scale of losses ---- */

/* y = w x with a loss of 2^-20 and less: no f16 without a scale. */
static trial tiny(dhow_precision precision, double scale) {
    static const float one[] = {1, 1, 1, 1};
    trial t = {0};
    dhow_model_value x, y, w;
    OK(dhow_model_create(g_context, &t.model));
    OK(dhow_model_input(t.model, "x", DHOW_F32, SHAPE(2, 2), &x));
    OK(dhow_model_parameter(t.model, "w", DHOW_F32, SHAPE(2, 2), &w));
    OK(dhow_model_matmul(t.model, x, w, &y));
    OK(dhow_model_reduce(t.model, DHOW_REDUCE_SUM, y, NULL, 0, 0, &y));
    OK(dhow_model_mul_scalar(t.model, y, dhow_scalar_f64(0x1p-26), &y));
    OK(dhow_model_output(t.model, "loss", y));
    OK(dhow_model_init_parameters(t.model, 1));
    OK(dhow_model_to(t.model, g_device));
    OK(dhow_model_set_precision(t.model, precision));
    OK(dhow_trainer_create(
        t.model, &DHOW_INIT(dhow_trainer_options, .loss_scale = scale, .learning_rate = 1e5),
        &t.trainer));
    OK(dhow_tensor_from_data(g_device, DHOW_F32, SHAPE(2, 2), one, &t.x));
    return t;
}

Test(train_precision, small_derivatives_want_a_scale) {
    const struct {
        dhow_precision precision;
        double scale, is;
        bool kept;
    } k[] = {{DHOW_PRECISION_F16, 0x1p-1, 0x1p-1, false},
             {DHOW_PRECISION_F16, 0, 65536, true},
             {DHOW_PRECISION_BF16, 0, 1, true},
             {DHOW_PRECISION_F32, 1024, 1024, true},
             {DHOW_PRECISION_DEVICE, 0, 1, true}};
    for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
        trial t = tiny(k[i].precision, k[i].scale);
        float g[4];
        cr_expect_eq(dhow_trainer_loss_scale(t.trainer), k[i].is);
        (void)backward(&t);
        (void)numbers(&t, 0, true, NULL, g);
        for (int e = 0; e < 4; e++)
            cr_expect_eq(g[e], k[i].kept ? 0x1p-25f : 0.0f, "%zu: %g", i, (double)g[e]);
        end(&t);
    }
    cr_expect_eq(dhow_trainer_loss_scale(NULL), 0);
}

static bool same_parameters(const trial *t, float *before) {
    static float now[MOST];
    int64_t at = 0;
    bool same = true;
    for (uint32_t i = 0; i < dhow_trainer_parameter_count(t->trainer); i++) {
        const int64_t count = numbers(t, i, false, NULL, now);
        same = same && memcmp(now, before + at, (size_t)count * sizeof *now) == 0;
        memcpy(before + at, now, (size_t)count * sizeof *now);
        at += count;
    }
    return same;
}

/* The running statistics of the batch norm are the model's when it is told of them. */
static void read_statistics(const trial *t, float out[16]) {
    int found = 0;
    OK(dhow_trainer_update_model(t->trainer));
    for (uint32_t i = 0; i < dhow_model_parameter_count(t->model); i++) {
        dhow_model_parameter_info info = DHOW_INIT(dhow_model_parameter_info);
        OK(dhow_model_parameter_at(t->model, i, &info));
        if (strstr(info.name, "running_") == NULL) continue;
        OK(dhow_tensor_read(info.tensor, out + 8 * found++, 8 * sizeof *out));
    }
    cr_assert_eq(found, 2);
}

Test(train_precision, a_step_that_overflows_is_left_out) {
    static float kept[MOST];
    float before[16], after[16];
    trial t = begin(0, DHOW_PRECISION_F16,
                    DHOW_INIT(dhow_trainer_options, .loss_scale = 0x1p40, .loss_scale_interval = 3,
                              .optimizer = DHOW_OPTIMIZER_ADAM));
    (void)same_parameters(&t, kept);
    read_statistics(&t, before);
    double scale = 0x1p40, loss;
    int left_out = 0;
    while (scale > 0x1p10) {
        OK(step(&t, &loss));
        cr_assert(isfinite(loss));
        const bool same = same_parameters(&t, kept);
        if (!same) break;
        scale /= 2;
        left_out++;
        cr_assert_eq(dhow_trainer_loss_scale(t.trainer), scale);
        read_statistics(&t, after);
        cr_assert_arr_eq(after, before, sizeof before);
    }
    cr_expect_gt(left_out, 10);
    cr_expect_eq(dhow_trainer_loss_scale(t.trainer), scale);
    read_statistics(&t, after);
    cr_expect_neq(memcmp(after, before, sizeof before), 0);
    for (int i = 1; i < 3; i++) { /* two more, and it doubles */
        cr_expect_eq(dhow_trainer_loss_scale(t.trainer), scale);
        OK(step(&t, NULL));
        cr_expect_not(same_parameters(&t, kept));
    }
    cr_expect_eq(dhow_trainer_loss_scale(t.trainer), 2 * scale);
    end(&t);
}

typedef struct lines {
    int count, level;
    char last[256];
} lines;

static void count_line(void *user, dhow_log_level level, const char *message) {
    lines *l = user;
    if (strstr(message, "is left out: its gradients") == NULL) return;
    l->count++;
    l->level = (int)level;
    (void)snprintf(l->last, sizeof l->last, "%s", message);
}

/* A context of its own, whose lines are looked at. */
static void open_with_lines(lines *l) {
    const char *device = getenv("DHOW_DEVICE");
    close_device();
    (void)setenv("DHOW_LOG", "info", 1);
    OK(dhow_context_create(&DHOW_INIT(dhow_context_options, .log = count_line, .log_user = l),
                           &g_context));
    OK(dhow_device_get(g_context, device, &g_device));
}

/* Its row had the number of the step before. */
Test(train_precision, a_step_that_is_left_out_has_a_line_and_no_row) {
    char path[] = "/tmp/dhow-precision-XXXXXX.csv", text[1024], begins[64];
    lines l = {0};
    open_with_lines(&l);
    const int file = mkstemps(path, 4);
    cr_assert_geq(file, 0);
    trial t = begin(0, DHOW_PRECISION_F16, DHOW_INIT(dhow_trainer_options, .loss_scale = 0x1p40));
    OK(dhow_trainer_set_log(
        t.trainer, &DHOW_INIT(dhow_trainer_log, .path = path, .progress = DHOW_PROGRESS_NEVER)));
    double scale;
    int left_out = -1;
    do {
        scale = dhow_trainer_loss_scale(t.trainer);
        OK(step(&t, NULL));
        left_out++;
    } while (dhow_trainer_loss_scale(t.trainer) < scale);
    OK(step(&t, NULL));
    cr_assert_gt(left_out, 10);
    cr_expect_eq(l.count, left_out);
    cr_expect_eq(l.level, DHOW_LOG_INFO);
    (void)snprintf(text, sizeof text,
                   "step 1 is left out: its gradients are not finite; loss_scale is %g now", scale);
    cr_expect_str_eq(l.last, text);
    const ssize_t length = read(file, text, sizeof text - 1);
    cr_assert_gt(length, 0);
    text[length] = '\0';
    const char *row = strchr(text, '\n') + 1;
    for (int i = 1; i <= 2; i++, row = strchr(row, '\n') + 1) {
        (void)snprintf(begins, sizeof begins, "%d,,%d,", i, ROWS * (left_out + i));
        cr_assert_eq(strncmp(row, begins, strlen(begins)), 0, "%s: %s", begins, row);
    }
    cr_expect_eq(*row, '\0', "more rows than steps: %s", row);
    (void)close(file);
    (void)unlink(path);
    end(&t);
}

static bool follow(const trial *t, float before[16]) {
    float after[16];
    double loss;
    OK(dhow_trainer_backward(t->trainer, NULL, (dhow_tensor *[]){t->x}, 1, t->target, &loss));
    cr_assert(isfinite(loss));
    read_statistics(t, after);
    const bool changed = memcmp(after, before, sizeof after) != 0;
    memcpy(before, after, sizeof after);
    return changed;
}

/* dhow_trainer_step() left them as they were, the backward alone did not. */
Test(train_precision, statistics_follow_a_backward_whose_gradients_are_finite) {
    static float kept[MOST];
    float statistics[16];
    trial t = begin(0, DHOW_PRECISION_F16, DHOW_INIT(dhow_trainer_options, .loss_scale = 0x1p40));
    (void)same_parameters(&t, kept);
    read_statistics(&t, statistics);
    cr_assert_not(follow(&t, statistics));
    int updates = 0;
    do {
        OK(dhow_trainer_update(t.trainer, NULL));
        cr_expect_eq(dhow_trainer_loss_scale(t.trainer), ldexp(1, 39 - updates));
    } while (++updates < 30 && !follow(&t, statistics));
    cr_assert(updates > 10 && updates < 30, "%d", updates);
    OK(dhow_trainer_update(t.trainer, NULL)); /* gradients of the first backward are still there */
    cr_expect(same_parameters(&t, kept));
    OK(dhow_trainer_zero_gradients(t.trainer));
    cr_expect(follow(&t, statistics));
    OK(dhow_trainer_update(t.trainer, NULL));
    cr_expect_not(same_parameters(&t, kept));
    end(&t);
}

Test(train_precision, values_that_no_scale_helps_are_told) {
    trial t = begin(0, DHOW_PRECISION_F16, DHOW_INIT(dhow_trainer_options));
    static const float large[8 * 27] = {[0] = 3e38f};
    dhow_tensor *w;
    dhow_status status = DHOW_OK;
    int steps = 0;
    OK(dhow_trainer_parameter_at(t.trainer, 0, NULL, &w, NULL));
    OK(dhow_tensor_write(w, large, sizeof large));
    while (status == DHOW_OK && steps++ < 100) status = step(&t, NULL);
    cr_expect_eq(status, DHOW_INVALID_ARGUMENT);
    cr_expect_eq(steps, 33); /* from 2^16 to 2^-16 */
    cr_expect_not_null(strstr(dhow_last_error(), "dhow_trainer_step: "), "%s", dhow_last_error());
    cr_expect_not_null(strstr(dhow_last_error(), "DHOW_PRECISION_BF16"), "%s", dhow_last_error());
    dhow_tensor_release(w);
    end(&t);
}

Test(train_precision, a_checkpoint_keeps_the_scale) {
    char path[] = "/tmp/dhow-precision-XXXXXX";
    static float kept[MOST];
    const int file = mkstemp(path);
    cr_assert_geq(file, 0);
    (void)close(file);
    const dhow_trainer_options large =
        DHOW_INIT(dhow_trainer_options, .loss_scale = 0x1p60, .loss_scale_interval = 7);
    trial t = begin(1, DHOW_PRECISION_F16, large), other = begin(1, DHOW_PRECISION_F16, large),
          plain = begin(1, DHOW_PRECISION_F32, DHOW_INIT(dhow_trainer_options));
    double scale = 0;
    for (int i = 0; i < 64 && (i < 4 || scale == dhow_trainer_loss_scale(t.trainer) * 2); i++) {
        scale = dhow_trainer_loss_scale(t.trainer);
        OK(step(&t, NULL));
    }
    OK(step(&t, NULL)); /* 2 of 7 */
    OK(dhow_trainer_save(t.trainer, path));
    OK(dhow_trainer_load(other.trainer, path));
    OK(dhow_trainer_load(plain.trainer, path));
    cr_expect_eq(dhow_trainer_loss_scale(plain.trainer), 1);
    for (int i = 0; i < 8; i++) {
        cr_expect_eq(dhow_trainer_loss_scale(other.trainer), dhow_trainer_loss_scale(t.trainer));
        OK(step(&t, NULL));
        OK(step(&other, NULL));
        (void)same_parameters(&t, kept);
        cr_expect(same_parameters(&other, kept), "step %d", i);
    }
    OK(dhow_trainer_save(plain.trainer, path)); /* of no scale: it stays */
    OK(dhow_trainer_load(other.trainer, path));
    cr_expect_eq(dhow_trainer_loss_scale(other.trainer), dhow_trainer_loss_scale(t.trainer));
    (void)unlink(path);
    end(&t);
    end(&other);
    end(&plain);
}

/* A number of f64 that is none of f32. */
Test(train_precision, a_checkpoint_whose_scale_is_out_of_range_is_refused) {
    char path[] = "/tmp/dhow-precision-XXXXXX", text[64];
    static char bytes[1 << 20];
    const double scales[] = {0x1p60, 0x1p128};
    int64_t bits[2];
    memcpy(bits, scales, sizeof bits);
    const int file = mkstemp(path);
    cr_assert_geq(file, 0);
    (void)close(file);
    trial t = begin(1, DHOW_PRECISION_F16, DHOW_INIT(dhow_trainer_options, .loss_scale = 0x1p60));
    OK(dhow_trainer_save(t.trainer, path));
    FILE *f = fopen(path, "r+b");
    cr_assert_not_null(f);
    const size_t size = fread(bytes, 1, sizeof bytes, f);
    (void)snprintf(text, sizeof text, "%lld", (long long)bits[0]);
    char *at = memmem(bytes, size, text, strlen(text));
    cr_assert_not_null(at);
    (void)snprintf(text, sizeof text, "%lld", (long long)bits[1]);
    memcpy(at, text, strlen(text));
    rewind(f);
    cr_assert_eq(fwrite(bytes, 1, size, f), size);
    cr_assert_eq(fclose(f), 0);
    cr_expect_eq(dhow_trainer_load(t.trainer, path), DHOW_CORRUPT);
    cr_expect_not_null(strstr(dhow_last_error(), "scale"), "%s", dhow_last_error());
    cr_expect_eq(dhow_trainer_loss_scale(t.trainer), 0x1p60);
    (void)unlink(path);
    end(&t);
}

Test(train_precision, options_that_make_no_sense_are_refused) {
    static const double bad[] = {-1, INFINITY, NAN, 1e300, 0x1p128, 1e-60};
    trial t = begin(2, DHOW_PRECISION_BF16, DHOW_INIT(dhow_trainer_options));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        dhow_trainer *made;
        cr_expect_eq(dhow_trainer_create(
                         t.model, &DHOW_INIT(dhow_trainer_options, .loss_scale = bad[i]), &made),
                     DHOW_INVALID_ARGUMENT);
        cr_expect_not_null(strstr(dhow_last_error(), "loss_scale"), "%s", dhow_last_error());
    }
    end(&t);
}

/* 257 is no bf16: the difference was taken of what it rounds to. */
Test(train_precision, losses_are_computed_in_f32) {
    static const float one = 1, y = 256, target = 257;
    dhow_model *m;
    dhow_trainer *t;
    dhow_model_value x, v;
    dhow_tensor *in, *to, *w;
    double loss;
    OK(dhow_model_create(g_context, &m));
    OK(dhow_model_input(m, "x", DHOW_F32, SHAPE(1, 1), &x));
    OK(dhow_model_linear(m, "w", x, 1, 1, 0, &v));
    OK(dhow_model_output(m, "y", v));
    OK(dhow_tensor_from_data(g_device, DHOW_F32, SHAPE(1, 1), &y, &w));
    OK(dhow_model_set_parameter(m, "w.weight", w));
    OK(dhow_model_to(m, g_device));
    OK(dhow_model_set_precision(m, DHOW_PRECISION_BF16));
    OK(dhow_trainer_create(m, &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE), &t));
    OK(dhow_tensor_from_data(g_device, DHOW_F32, SHAPE(1, 1), &one, &in));
    OK(dhow_tensor_from_data(g_device, DHOW_F32, SHAPE(1, 1), &target, &to));
    OK(dhow_trainer_backward(t, NULL, &in, 1, to, &loss));
    cr_expect_eq(loss, 1, "%g", loss);
    dhow_tensor_release(in), dhow_tensor_release(to), dhow_tensor_release(w);
    dhow_trainer_release(t);
    dhow_model_release(m);
}
