/* SPDX-License-Identifier: Apache-2.0
 *
 * What a trainer tells of its steps: rows of CSV and JSON lines beside the numbers that the program
 * sees itself, the curve, and files that cannot be written.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "device_fixture.h"
#include "dhow/dhow.h"

#define FAILS(status, call) \
    cr_assert_eq((call), (status), "%s: %s, not %s", #call, dhow_last_error(), #status)
#define SAYS(wanted) \
    cr_assert_not_null(strstr(dhow_last_error(), (wanted)), "'%s'", dhow_last_error())

enum { STEPS = 7, BATCH = 4 };

static char g_folder[] = "/tmp/dhow-train-log-XXXXXX";
static dhow_model *g_model;
static dhow_trainer *g_trainer;
static dhow_tensor *g_x, *g_target;

static void begin(void) {
    dhow_model_value x, y;
    open_device();
    cr_assert(mkdtemp(g_folder) != NULL);
    OK(dhow_model_create(g_context, &g_model));
    OK(dhow_model_input(g_model, "x", DHOW_F32, 2, (const int64_t[]){-1, 3}, &x));
    OK(dhow_model_linear(g_model, "w", x, 3, 2, 1, &y));
    OK(dhow_model_output(g_model, "y", y));
    OK(dhow_model_init_parameters(g_model, 1));
    OK(dhow_model_to(g_model, g_device));
    OK(dhow_trainer_create(
        g_model, &DHOW_INIT(dhow_trainer_options, .loss = DHOW_LOSS_MSE, .learning_rate = 0.1),
        &g_trainer));
    OK(dhow_tensor_normal(g_device, DHOW_F32, 2, (const int64_t[]){BATCH, 3}, 0, 1, 2, &g_x));
    OK(dhow_tensor_normal(g_device, DHOW_F32, 2, (const int64_t[]){BATCH, 2}, 0, 1, 3, &g_target));
}

static void end(void) {
    char command[96];
    dhow_tensor_release(g_x);
    dhow_tensor_release(g_target);
    dhow_trainer_release(g_trainer);
    dhow_model_release(g_model);
    close_device();
    snprintf(command, sizeof command, "rm -rf %s", g_folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(train_log, .init = begin, .fini = end, .timeout = 60);

static const char *in_folder(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", g_folder, name);
    return path;
}

static double step(void) {
    double loss;
    dhow_batch batch = DHOW_INIT(dhow_batch, .tensor_count = 2, .epoch = 5, .sample_count = BATCH);
    batch.tensors[0] = g_x;
    batch.tensors[1] = g_target;
    OK(dhow_trainer_step(g_trainer, &batch, &loss));
    return loss;
}

/* The root of the squares of all gradients, as they are now. */
static double norm_of_gradients(void) {
    double sum = 0;
    for (uint32_t i = 0; i < dhow_trainer_parameter_count(g_trainer); i++) {
        float values[16];
        dhow_tensor *gradient;
        OK(dhow_trainer_parameter_at(g_trainer, i, NULL, NULL, &gradient));
        const int64_t count = dhow_tensor_count(gradient);
        OK(dhow_tensor_read(gradient, values, (uint64_t)count * 4));
        for (int64_t k = 0; k < count; k++) sum += (double)values[k] * values[k];
        dhow_tensor_release(gradient);
    }
    return sqrt(sum);
}

static void read_file(const char *name, char *text, size_t capacity) {
    FILE *file = fopen(in_folder(name), "r");
    cr_assert(file != NULL);
    text[fread(text, 1, capacity - 1, file)] = '\0';
    fclose(file);
}

Test(train_log, rows_of_csv_hold_what_the_program_sees) {
    static char text[8192];
    double loss[STEPS], norm[STEPS];
    OK(dhow_trainer_set_log(g_trainer,
                            &DHOW_INIT(dhow_trainer_log, .path = in_folder("a.csv"),
                                       .progress = DHOW_PROGRESS_NEVER, .gradient_norm = 1)));
    for (int i = 0; i < STEPS; i++) {
        loss[i] = step();
        norm[i] = norm_of_gradients();
    }
    read_file("a.csv", text, sizeof text); /* before the log ends */
    OK(dhow_trainer_set_log(g_trainer, NULL));
    (void)step();
    const char *line = strchr(text, '\n') + 1;
    for (int i = 0; i < STEPS; i++, line = strchr(line, '\n') + 1) {
        long long number, epoch, samples, memory;
        double seconds, pace, told, rate, gradients;
        cr_assert_eq(sscanf(line, "%lld,%lld,%lld,%lf,%lf,%lf,%lf,%lf,%lld", &number, &epoch,
                            &samples, &seconds, &pace, &told, &rate, &gradients, &memory),
                     9, "%s", line);
        cr_assert(number == i + 1 && epoch == 5 && samples == BATCH * (i + 1), "%s", line);
        cr_assert(fabs(told - loss[i]) <= 1e-6 * loss[i] && fabs(rate - 0.1) < 1e-12, "%s", line);
        cr_assert(fabs(gradients - norm[i]) <= 1e-5 * norm[i], "%s: %g", line, norm[i]);
        cr_assert(seconds >= 0 && pace > 0 && memory > 0, "%s", line);
    }
    cr_assert_eq(*line, '\0', "more rows than steps: %s", line);
}

Test(train_log, json_lines_are_continued_and_thinned) {
    static char text[8192];
    const dhow_trainer_log log = DHOW_INIT(dhow_trainer_log, .path = in_folder("a.jsonl"),
                                           .every = 3, .progress = DHOW_PROGRESS_NEVER);
    for (int round = 0; round < 2; round++) {
        OK(dhow_trainer_set_log(g_trainer, &log));
        for (int i = 0; i < STEPS; i++) (void)step();
    }
    OK(dhow_trainer_set_log(g_trainer, NULL));
    read_file("a.jsonl", text, sizeof text);
    int rows = 0;
    static const int steps[] = {3, 6, 10, 13};
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1, rows++) {
        char first[64];
        snprintf(first, sizeof first, "{\"step\": %d, \"epoch\": 5, \"samples\": %d, ", steps[rows],
                 BATCH * (rows % 2 == 0 ? 3 : 6));
        cr_assert(strncmp(line, first, strlen(first)) == 0, "%s", line);
        cr_assert(strstr(line, "\"gradient_norm\": null") != NULL, "%s", line);
    }
    cr_assert_eq(rows, 4);
}

Test(train_log, accumulated_gradients_are_one_row) {
    static char text[1024];
    double loss;
    OK(dhow_trainer_set_log(g_trainer, &DHOW_INIT(dhow_trainer_log, .path = in_folder("a.csv"),
                                                  .progress = DHOW_PROGRESS_NEVER)));
    for (int i = 0; i < 3; i++)
        OK(dhow_trainer_backward(g_trainer, NULL, &g_x, 1, g_target, &loss));
    OK(dhow_trainer_update(g_trainer, NULL));
    read_file("a.csv", text, sizeof text);
    const char *row = strchr(text, '\n') + 1;
    cr_assert(strncmp(row, "1,,12,", 6) == 0 && strchr(row, '\n')[1] == '\0', "%s", row);
}

Test(train_log, the_curve_is_a_picture_of_few_points) {
    static char text[65536];
    OK(dhow_trainer_set_log(g_trainer,
                            &DHOW_INIT(dhow_trainer_log, .progress = DHOW_PROGRESS_NEVER)));
    FAILS(DHOW_INVALID_ARGUMENT, dhow_trainer_save_curve(g_trainer, in_folder("a.svg")));
    for (int i = 0; i < 2500; i++) (void)step();
    OK(dhow_trainer_save_curve(g_trainer, in_folder("a.svg")));
    read_file("a.svg", text, sizeof text);
    cr_assert(strncmp(text, "<svg ", 5) == 0 && strstr(text, "</svg>") != NULL &&
              strstr(text, "nan") == NULL);
    int points = 0;
    for (const char *at = strstr(text, "points=\""); *at != '>'; at++) points += *at == ',';
    cr_assert(points > 500 && points <= 1024, "%d points", points);
}

Test(train_log, what_is_no_log_is_refused_and_the_one_before_stays) {
    char text[1024];
    FILE *file = fopen(in_folder("other.csv"), "w");
    fputs("a,b,c\n1,2,3\n", file);
    fclose(file);
    OK(dhow_trainer_set_log(g_trainer, &DHOW_INIT(dhow_trainer_log, .path = in_folder("a.csv"),
                                                  .progress = DHOW_PROGRESS_NEVER)));
    FAILS(DHOW_CORRUPT,
          dhow_trainer_set_log(g_trainer,
                               &DHOW_INIT(dhow_trainer_log, .path = in_folder("other.csv"))));
    SAYS("choose another file");
    FAILS(
        DHOW_INVALID_ARGUMENT,
        dhow_trainer_set_log(g_trainer, &DHOW_INIT(dhow_trainer_log, .path = in_folder("a.txt"))));
    SAYS(".jsonl");
    FAILS(DHOW_NOT_FOUND,
          dhow_trainer_set_log(g_trainer, &DHOW_INIT(dhow_trainer_log, .path = "/nowhere/a.csv")));
    FAILS(DHOW_INVALID_ARGUMENT,
          dhow_trainer_set_log(g_trainer,
                               &DHOW_INIT(dhow_trainer_log, .progress = (dhow_progress)9)));
    (void)step();
    read_file("a.csv", text, sizeof text);
    cr_assert(strstr(text, "\n1,5,4,") != NULL, "%s", text);
}

/* A full disk, here a limit of the process. */
Test(train_log, lost_rows_are_told_when_the_log_ends) {
    const struct rlimit limit = {200, RLIM_INFINITY};
    signal(SIGXFSZ, SIG_IGN);
    (void)step(); /* has kernels compiled, for which PoCL writes files */
    OK(dhow_trainer_set_log(g_trainer, &DHOW_INIT(dhow_trainer_log, .path = in_folder("a.csv"),
                                                  .progress = DHOW_PROGRESS_NEVER)));
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int i = 0; i < 20; i++) (void)step();
    FAILS(DHOW_IO_ERROR, dhow_trainer_set_log(g_trainer, NULL));
    SAYS("rows are missing");
    OK(dhow_trainer_set_log(g_trainer, NULL));
    (void)step();
}
