/* SPDX-License-Identifier: Apache-2.0
 *
 * random_gradients FIRST COUNT [DEVICE [bf16|f16]]: derivatives of random graphs in f64 against
 * central differences, or in 16-bit floats against f32. A difference is believed where two widths
 * agree, and both sides of the point do: no corner.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen.h"
#include "halves.h"

typedef struct totals {
    uint64_t graphs, refused, compared, unclear, wrong;
} totals;

typedef struct trial {
    graph *g;
    dhow_trainer *trainer;
    dhow_tensor *inputs[2];
} trial;

static dhow_tensor *random_tensor(graph *g, dhow_device *device, int32_t rank, const int64_t *shape,
                                  uint64_t count) {
    double *data = malloc((count + 1) * sizeof *data);
    dhow_tensor *t;
    if (data == NULL) abort();
    for (uint64_t i = 0; i < count; i++) data[i] = random_number(g);
    OK(dhow_tensor_from_data(device, DHOW_F64, rank, shape, data, &t));
    free(data);
    return t;
}

static dhow_tensor *random_for(graph *g, dhow_device *device, const dhow_model_value_info *info) {
    uint64_t count = 1;
    for (int32_t i = 0; i < info->rank; i++) count *= (uint64_t)info->shape[i];
    return random_tensor(g, device, info->rank, info->shape, count);
}

static void draw_parameters(graph *g, dhow_device *cpu) {
    for (uint32_t i = 0; i < dhow_model_parameter_count(g->model); i++) {
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        OK(dhow_model_parameter_describe(g->model, i, &info));
        dhow_tensor *t = random_for(g, cpu, &info);
        OK(dhow_model_set_parameter(g->model, info.name, t));
        dhow_tensor_release(t);
    }
}

static double loss_of(const trial *t) {
    const graph *g = t->g;
    double loss;
    OK(dhow_trainer_zero_gradients(t->trainer));
    OK(dhow_trainer_backward(t->trainer, NULL, t->inputs, 2, NULL, &loss));
    return loss;
}

/* The slope at element i, and whether it is one. */
static int slope_of(const trial *t, dhow_tensor *w, double *values, uint64_t bytes, int64_t i,
                    double *slope) {
    static const double widths[] = {2e-5, 1e-5};
    const graph *g = t->g;
    const double kept = values[i], middle = loss_of(t);
    double central[2], bend = 0, scale = fabs(middle);
    for (int k = 0; k < 2; k++) {
        double sides[2];
        for (int side = 0; side < 2; side++) {
            values[i] = kept + (side == 0 ? -widths[k] : widths[k]);
            OK(dhow_tensor_write(w, values, bytes));
            sides[side] = loss_of(t);
        }
        central[k] = (sides[1] - sides[0]) / (2 * widths[k]);
        bend = fmax(bend, fabs(sides[1] + sides[0] - 2 * middle) / widths[k]);
        scale = fmax(scale, fabs(sides[0]));
    }
    values[i] = kept;
    OK(dhow_tensor_write(w, values, bytes));
    *slope = central[1];
    const double noise = 1e3 * DBL_EPSILON * scale / widths[1];
    return isfinite(central[0]) && isfinite(central[1]) && noise < 1e-4 &&
           fabs(central[0] - central[1]) <= 1e-6 * fmax(1, fabs(*slope)) + noise &&
           bend <= 1e-3 * fmax(1, fabs(*slope));
}

static void check_parameter(const trial *t, uint32_t index, totals *sum) {
    graph *g = t->g;
    double slope;
    dhow_tensor *w, *d;
    const char *name;
    dhow_tensor_info info = DHOW_INIT(dhow_tensor_info);
    const double loss = loss_of(t);
    OK(dhow_trainer_parameter_at(t->trainer, index, &name, &w, &d));
    OK(dhow_tensor_get_info(w, &info));
    const uint64_t bytes = (uint64_t)info.count * sizeof(double);
    double *values = malloc(2 * bytes), *gradients = values + info.count;
    if (values == NULL) abort();
    OK(dhow_tensor_read(w, values, bytes));
    OK(dhow_tensor_read(d, gradients, bytes));
    for (int64_t i = (int64_t)random_below(g, 3); i < info.count; i += 1 + info.count / 3) {
        if (!slope_of(t, w, values, bytes, i, &slope)) {
            sum->unclear++;
            continue;
        }
        sum->compared++;
        if (fabs(slope - gradients[i]) <= 1e-5 * fmax(1, fabs(slope)) + 1e-9 * fabs(loss)) continue;
        sum->wrong++;
        printf("%s[%lld]: derivative %.12g, central difference %.12g\n%s", name, (long long)i,
               gradients[i], slope, g->text);
    }
    free(values);
    dhow_tensor_release(w);
    dhow_tensor_release(d);
}

/* A loss that depends on no parameter is refused, as it should be; nothing else is. */
static int begin(trial *t, dhow_device *device) {
    graph *g = t->g;
    const char *some = random_below(g, 4) == 0 ? "p*" : NULL;
    OK(dhow_model_to(g->model, device));
    dhow_status status =
        dhow_trainer_create(g->model,
                            &DHOW_INIT(dhow_trainer_options, .trainable = some,
                                       .checkpoint_segments = (uint32_t)(g->seed / 3 % 8)),
                            &t->trainer);
    if (status == DHOW_INVALID_ARGUMENT) return 0;
    OK(status);
    for (uint32_t i = 0; i < 2; i++) {
        dhow_model_value_info info = DHOW_INIT(dhow_model_value_info);
        OK(dhow_model_input_at(g->model, i, &info));
        t->inputs[i] = random_for(g, device, &info);
    }
    return 1;
}

static void run(dhow_context *context, dhow_device *cpu, dhow_device *device, uint64_t seed,
                totals *sum) {
    graph g;
    trial t = {.g = &g};
    const uint64_t wrong = sum->wrong;
    generate(&g, context, DHOW_F64, seed);
    draw_parameters(&g, cpu);
    sum->graphs++;
    if (begin(&t, device)) {
        for (uint32_t i = 0; i < dhow_trainer_parameter_count(t.trainer); i++)
            check_parameter(&t, i, sum);
    } else {
        sum->refused++;
    }
    if (sum->wrong > wrong) printf("seed %llu\n\n", (unsigned long long)seed);
    dhow_trainer_release(t.trainer);
    dhow_tensor_release(t.inputs[0]);
    dhow_tensor_release(t.inputs[1]);
    dhow_model_release(g.model);
}

/* Most have something in 16 bits, and most are told apart. */
static int run_halves(dhow_context *context, dhow_device *device, dhow_precision precision,
                      uint64_t first, uint64_t count) {
    halves sum = {0};
    for (uint64_t i = 0; i < count; i++)
        compare_halves(context, device, precision, first + i, &sum);
    printf(
        "%llu graphs, %llu without a parameter in the loss; %llu gradients compared, %llu of them "
        "the same bits, %llu unclear, %llu wrong\n",
        (unsigned long long)sum.graphs, (unsigned long long)sum.refused,
        (unsigned long long)sum.compared, (unsigned long long)sum.same,
        (unsigned long long)sum.unclear, (unsigned long long)sum.wrong);
    return sum.wrong > 0 || sum.unclear > sum.compared;
}

int main(int argc, char **argv) {
    dhow_context *context;
    dhow_device *cpu, *device;
    totals sum = {0};
    if (argc < 3) {
        fprintf(stderr, "usage: random_gradients FIRST COUNT [DEVICE [bf16|f16]]\n");
        return 2;
    }
    const uint64_t first = strtoull(argv[1], NULL, 10), count = strtoull(argv[2], NULL, 10);
    if (dhow_context_create(NULL, &context) != DHOW_OK ||
        dhow_device_get(context, "cpu", &cpu) != DHOW_OK ||
        dhow_device_get(context, argc > 3 ? argv[3] : "cpu", &device) != DHOW_OK) {
        fprintf(stderr, "%s\n", dhow_last_error());
        return 1;
    }
    if (argc > 4) {
        const dhow_precision precision =
            strcmp(argv[4], "f16") == 0 ? DHOW_PRECISION_F16 : DHOW_PRECISION_BF16;
        const int failed = run_halves(context, device, precision, first, count);
        dhow_context_release(context);
        return failed;
    }
    for (uint64_t i = 0; i < count; i++) run(context, cpu, device, first + i, &sum);
    printf(
        "%llu graphs, %llu without a parameter in the loss; %llu derivatives compared, %llu "
        "unclear, %llu wrong\n",
        (unsigned long long)sum.graphs, (unsigned long long)sum.refused,
        (unsigned long long)sum.compared, (unsigned long long)sum.unclear,
        (unsigned long long)sum.wrong);
    dhow_context_release(context);
    /* Most are told apart, or nothing was tested. */
    return sum.wrong > 0 || sum.refused * 3 > sum.graphs || sum.unclear * 5 > sum.compared;
}
